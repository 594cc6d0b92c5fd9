"""gguf2hf.py GGUF FOLDER: turns a GGUF into a Hugging Face folder that vLLM and transformers load.

For the llama architecture with a GPT-2 byte-level BPE and the "smollm" pre-tokenizer, which is SmolLM2; nothing else
was tried. Weights come out dequantised as float32: the logits equal transformers' own GGUF loader exactly. That loader
is no alternative: what it loads, transformers refuses to save. Needs gguf, numpy and safetensors; 10 s for 135M.
"""

import json
import os
import sys

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
# gguf's TokenType.CONTROL and USER_DEFINED: the tokens that the BPE never splits.
SPECIAL_TYPES = (3, 4)


class Gguf:
    def __init__(self, path):
        self.reader = GGUFReader(path)

    def __getitem__(self, key):
        return self.reader.fields[key].contents()

    def tensors(self):
        for tensor in self.reader.tensors:
            shape = [int(size) for size in reversed(tensor.shape)]
            weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            yield tensor.name, np.ascontiguousarray(weights).reshape(shape)


def unpermute(weights, heads):
    """Undoes the permutation of convert_hf_to_gguf's LlamaModel.permute."""
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, half, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def hf_tensors(source):
    heads = {"attn_q": source["llama.attention.head_count"], "attn_k": source["llama.attention.head_count_kv"]}
    tensors = {}
    for name, weights in source.tensors():
        if name in OUTER_NAMES:
            tensors[OUTER_NAMES[name]] = weights
            continue
        _, layer, part, _ = name.split(".")
        if part in heads:
            weights = np.ascontiguousarray(unpermute(weights, heads[part]))
        tensors[f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"] = weights
    return tensors


def hf_config(source, special_ids, tied):
    width, heads = source["llama.embedding_length"], source["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": source["llama.feed_forward_length"],
        "num_hidden_layers": source["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": source["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "max_position_embeddings": source["llama.context_length"],
        # The GGUF has it as a float32, which is 9.99999974e-06.
        "rms_norm_eps": 1e-5,
        "rope_theta": source["llama.rope.freq_base"],
        "rope_scaling": None,
        "vocab_size": len(source["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "mlp_bias": False,
        **special_ids,
        "initializer_range": 0.041666666666666664,
        "use_cache": True,
    }


def hf_tokenizer(source):
    tokens = source["tokenizer.ggml.tokens"]
    added = [
        {
            "id": token_id,
            "content": tokens[token_id],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token_id, token_type in enumerate(source["tokenizer.ggml.token_type"])
        if token_type in SPECIAL_TYPES
    ]
    # Stock SmolLM2 has Digits(individual_digits) here. This is the same in the Rust tokenizer, but npm's
    # @huggingface/tokenizers takes Digits for ASCII only and then differs from the engine.
    single_digits = {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [single_digits, byte_level]},
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": source["tokenizer.ggml.merges"],
        },
    }


def hf_tokenizer_config(source):
    tokens = source["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": source["llama.context_length"],
        "bos_token": tokens[source["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[source["tokenizer.ggml.eos_token_id"]],
        "unk_token": tokens[source["tokenizer.ggml.unknown_token_id"]],
        "pad_token": tokens[source["tokenizer.ggml.padding_token_id"]],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": source["tokenizer.chat_template"],
    }


def main():
    source, folder = Gguf(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)

    tensors = hf_tensors(source)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})

    special_ids = {
        "bos_token_id": source["tokenizer.ggml.bos_token_id"],
        "eos_token_id": source["tokenizer.ggml.eos_token_id"],
        "pad_token_id": source["tokenizer.ggml.padding_token_id"],
    }
    documents = {
        "config.json": hf_config(source, special_ids, tied="lm_head.weight" not in tensors),
        "generation_config.json": special_ids,
        "tokenizer.json": hf_tokenizer(source),
        "tokenizer_config.json": hf_tokenizer_config(source),
    }
    for name, document in documents.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1)
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(source["tokenizer.chat_template"])
    print(f"gguf2hf: {len(tensors)} tensors into {folder}")


if __name__ == "__main__":
    main()
