"""Puts float32 weights of a transformers model into a GGUF that the llama.cpp server loads: the way back of gguf2hf.py.

`write_float32` makes the file once, with everything but the weights as another GGUF has it; `put_weights` then writes a
state dict over its tensors in place, which costs no more than the copy. The server must be stopped before and started
after it, since it maps the file. For the llama architecture. Needs gguf and numpy.
"""

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, Keys, LlamaFileType, dequantize

from gguf2hf import LAYER_NAMES, OUTER_NAMES


def permute(weights, heads):
    """As convert_hf_to_gguf's LlamaModel.permute: the two halves of each head's rotary pairs, interleaved."""
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, 2, half, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def write_float32(source_path, path):
    """The same model with every tensor dequantised."""
    source = GGUFReader(source_path)
    writer = GGUFWriter(path, source.fields[Keys.General.ARCHITECTURE].contents())
    for name, field in source.fields.items():
        # The writer has these of itself.
        if name.startswith("GGUF.") or name in (Keys.General.ARCHITECTURE, Keys.General.FILE_TYPE):
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], element)
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in source.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, np.ascontiguousarray(weights).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hf_name(name):
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def put_weights(path, state):
    """Writes `state`, arrays by their transformers names, over the tensors of the float32 GGUF at `path`."""
    target = GGUFReader(path, "r+")
    heads = {
        "attn_q": target.fields["llama.attention.head_count"].contents(),
        "attn_k": target.fields["llama.attention.head_count_kv"].contents(),
    }
    for tensor in target.tensors:
        weights = state[hf_name(tensor.name)]
        part = tensor.name.split(".")[-2]
        if part in heads:
            weights = permute(weights, heads[part])
        if weights.shape != tensor.data.shape or weights.dtype != tensor.data.dtype:
            raise ValueError(
                f"{tensor.name}: the GGUF has {tensor.data.shape} {tensor.data.dtype}, "
                f"the state dict {weights.shape} {weights.dtype}"
            )
        tensor.data[:] = weights
