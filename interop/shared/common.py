"""Shared by every trainer's check: the exports that run.sh made, a tiny deterministic Llama, and a reference loss
written by hand over rows that stand in fixtures/, not over what Coppice exported. Imports no trainer."""
import json
import os
import sys
import time
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

INTEROP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.environ["COPPICE_EXPORTS"]
VOCAB, PAD, EOS = 4096, 0, 1
STARTED = time.time()

BUGS = ["logprobs_shifted_left", "logprobs_compact", "mask_shifted_left", "mask_includes_tool", "advantage_split",
        "token_changed"]


def known_rows(kind="near"):
    """The five worked rows as fixtures/rows.jsonl has them; `flat` has -0.5 at each trained token."""
    rows = [json.loads(line) for line in open(f"{INTEROP}/fixtures/rows.jsonl")]
    if kind == "flat":
        for row in rows:
            row["logprobs"] = [-0.5 if m else 0.0 for m in row["loss_mask"]]
    return rows


def exported(name, shape):
    """Records of an export, by pyarrow."""
    import pyarrow.parquet as pq
    return pq.read_table(f"{OUT}/{name}.{shape}.parquet").to_pylist()


def golden(shape):
    """[(case, records)] of the exporter's own golden file, for the trainer's classes to load; refused cases left out."""
    cases, path = [], f"{INTEROP}/../src/export/fixtures/{shape}.golden"
    for line in open(path):
        if line.startswith("# "):
            cases.append((line[2:].strip(), []))
        else:
            cases[-1][1].append(json.loads(line))
    return [(case, records) for case, records in cases if records and "refused" not in records[0]]


def compare_golden(shape, arrays):
    """Every golden record through `arrays(record) -> (ids, mask, logprobs)`, which must go through the trainer's own
    class, against the same case of shape `rows`. Returns the number of records that are equal field by field."""
    rows, count = dict(golden("rows")), 0
    for case, records in golden(shape):
        assert len(records) == len(rows[case]), (shape, case, "a row is lost")
        for record, row in zip(records, rows[case]):
            ids, mask, logprobs = arrays(record)
            assert list(map(int, ids)) == row["token_ids"], (shape, case, "token ids")
            # Tinker has no mask: an advantage of 0 masks, so there all may be masked.
            if mask is not None:
                assert list(map(int, mask)) == row["loss_mask"], (shape, case, "mask")
            got, want = [float(x) for x in logprobs], row["logprobs"]
            assert len(got) == len(want) and all(abs(a - b) < 1e-6 for a, b in zip(got, want)), (shape, case, "logprobs")
            count += 1
    return count


def build_model(dtype="float32", attn="eager"):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(1)
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         tie_word_embeddings=False, pad_token_id=PAD, bos_token_id=None, eos_token_id=EOS,
                         attn_implementation=attn)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.ndim == 1:  # RMSNorm
                p.fill_(1.0)
                continue
            g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            scale = 0.35 if "lm_head" in name else 0.25
            p.copy_(torch.randn(p.shape, generator=g, dtype=torch.float64).to(p.dtype) * scale)
    return model.to(getattr(torch, dtype)).train()


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    vocab = {"<pad>": 0, "<eos>": 1, **{f"t{i}": i for i in range(2, VOCAB)}}
    t = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="<eos>")


def save_model():
    """A folder with config, weights and a word-level tokenizer."""
    folder = f"{OUT}/tiny-llama"
    if not os.path.exists(f"{folder}/tokenizer.json"):
        build_model().save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    return folder


def token_logps(model, ids):
    """log p(ids[t] | ids[:t]), one unpadded sequence; index 0 is NaN."""
    import torch
    logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    lp = torch.log_softmax(logits, -1)
    nan = torch.full((1,), float("nan"), dtype=torch.float64)
    return torch.cat([nan, lp[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]])


def reference(model, rows, clip=None):
    """Sum over trained tokens of -A * exp(logp - old), PPO-clipped where `clip` is given. (sum, trained tokens)"""
    import torch
    total, n = torch.zeros((), dtype=torch.float64), 0
    for r in rows:
        lp, a = token_logps(model, r["token_ids"]), r["advantage"]
        for t, m in enumerate(r["loss_mask"]):
            if m:
                ratio = torch.exp(lp[t] - r["logprobs"][t])
                loss = -ratio * a
                if clip is not None:
                    loss = torch.maximum(loss, -torch.clamp(ratio, 1 - clip, 1 + clip) * a)
                total, n = total + loss, n + 1
    return total, n


def gradient(model, loss):
    """Over all parameters as one vector, by name."""
    import torch
    model.zero_grad(set_to_none=True)
    loss.backward()
    return torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).double().flatten()
                      for _, p in sorted(model.named_parameters())])


class Check:
    """Collects a trainer's claims; `done` prints the one JSON line of figures and exits 0 only where all held."""

    def __init__(self, trainer, version):
        self.figures = {"trainer": trainer, "version": version}
        self.worst, self.worst_gradient, self.failed, self.noticed = 0.0, 0.0, [], []

    def claim(self, name, holds):
        print(("ok    " if holds else "FAILS ") + name, file=sys.stderr)
        if not holds:
            self.failed.append(name)

    def close(self, name, value, want, grad=None, grad_want=None, tolerance=1e-5):
        rel = abs(value - want) / max(abs(want), 1e-12)
        self.worst = max(self.worst, rel)
        holds = rel < tolerance
        if grad is not None:
            grel = float((grad - grad_want).norm() / grad_want.norm())
            self.worst_gradient = max(self.worst_gradient, grel)
            holds = holds and grel < 10 * tolerance
        self.claim(f"{name}: {value:+.9f}, by hand {want:+.9f}", holds)

    def bug(self, name, run, want_loss, want_tokens):
        """`run()` gives (loss, trained tokens) of a planted bug's export. A raise notices it too. A sum loss hides tool
        tokens in the mask (their stored log-prob makes the ratio tiny), so the count is compared as well."""
        try:
            loss, tokens = run()
            how = f"loss {loss:+.6f} for {want_loss:+.6f}, {tokens} trained tokens for {want_tokens}"
            noticed = abs(loss - want_loss) > 1e-4 * abs(want_loss) or tokens != want_tokens
        except Exception as error:
            how, noticed = f"raises {type(error).__name__}: {str(error)[:80]}", True
        self.claim(f"planted {name} is noticed: {how}", noticed)
        if noticed:
            self.noticed.append(name)

    def done(self, **figures):
        self.claim(f"all planted bugs were tried: {len(BUGS)}", len(self.noticed) == len(BUGS))
        print(json.dumps({**self.figures, "ok": not self.failed, "max_rel_loss": self.worst,
                          "max_rel_gradient": self.worst_gradient, "bugs_noticed": len(self.noticed), **figures,
                          "seconds": round(time.time() - STARTED, 1)}))
        sys.exit(1 if self.failed else 0)
