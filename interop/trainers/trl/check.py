"""Shape `trl`: our record -> RolloutSample -> the queue of an injected rollout worker -> the real
AsyncGRPOTrainer.train() on a CPU, one optimizer step. TRL packs rows into a prefix tree and computes its own PPO-clipped
token-mean loss. Two CUDA-only things are replaced: the FlashAttention kernel (by plain torch) and the look-up of the
card's name. Then the classic GRPOTrainer's _compute_loss on the same records, cut at prompt_length."""
import os
import queue
import sys
import tempfile

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))
import common as C
import numpy as np
import torch
import trl
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample
from trl.trainer.utils import pad

torch.set_num_threads(1)
check = C.Check("trl", trl.__version__)


class CpuVarlen:
    """What flash_attn_varlen_func(causal=True) computes, aligned at the bottom right."""

    @staticmethod
    def flash_attn_varlen_func(q, k, v, cu_q, cu_k, max_q, max_k, softmax_scale=None, causal=True, window_size=(-1, -1)):
        out, rep = torch.empty_like(q), q.shape[1] // k.shape[1]
        for s in range(len(cu_q) - 1):
            a, b, c, d = int(cu_q[s]), int(cu_q[s + 1]), int(cu_k[s]), int(cu_k[s + 1])
            kk, vv = k[c:d].repeat_interleave(rep, 1), v[c:d].repeat_interleave(rep, 1)
            w = torch.einsum("qhd,khd->hqk", q[a:b], kk) * softmax_scale
            qi, ki = torch.arange(b - a)[:, None] + (d - c) - (b - a), torch.arange(d - c)[None]
            out[a:b] = torch.einsum("hqk,khd->qhd", w.masked_fill(ki > qi, float("-inf")).softmax(-1), vv)
        return out


packing._flash_attn = lambda: CpuVarlen
async_grpo_trainer.get_peak_flops_per_device = lambda *a: None


def sample(record):
    """The whole loader."""
    return RolloutSample(prompt=[], completion=[], input_ids=np.asarray(record["input_ids"], np.int64),
                         completion_mask=np.asarray(record["completion_mask"], np.int64),
                         old_log_probs=np.asarray(record["old_log_probs"], np.float32), advantage=record["advantage"],
                         model_version=record["model_version"], group_id=record["group_id"], metrics=record["metrics"])


class Worker:
    def __init__(self, records):
        self.rollout_buffer, self.metrics_queue = queue.Queue(), queue.Queue()
        for record in records * 3:  # accelerate takes one micro-batch ahead
            self.rollout_buffer.put(sample(record))

    def start(self): pass
    def stop(self): pass
    def update_model_version(self, version): pass
    def check_health(self, seconds): raise RuntimeError("the queue is empty: not enough rows")


class NoSync:
    def init_weight_transfer(self): pass
    def pause(self): pass
    def send_weights(self, iterator): pass
    def resume(self): pass
    def destroy(self): pass


def train(records):
    got = {}

    class Trainer(AsyncGRPOTrainer):
        def compute_loss(self, model, inputs, **k):
            loss = super().compute_loss(model, inputs, **k)
            got["loss"], got["n"] = float(loss.detach()), int(inputs["global_n_tokens"][0])
            return loss

        def training_step(self, model, inputs, n):
            result = super().training_step(model, inputs, n)
            got["grad"] = torch.cat([p.grad.double().flatten() for _, p in sorted(model.named_parameters())])
            return result

    with tempfile.TemporaryDirectory() as folder:
        args = AsyncGRPOConfig(folder, use_cpu=True, bf16=False, dtype="float32", per_device_train_batch_size=len(records),
                               gradient_accumulation_steps=1, token_budget=0, max_steps=1, num_generations=2, report_to=[],
                               save_strategy="no", max_staleness=10**9, temperature=1.0, gradient_checkpointing=False,
                               logging_steps=1, disable_tqdm=True)
        trainer = Trainer(C.save_model(), reward_funcs=lambda **k: [0.0], args=args, processing_class=C.tokenizer(),
                          train_dataset=Dataset.from_dict({"prompt": ["x"]}), rollout_worker=Worker(records),
                          weight_transfer=NoSync())
        trainer.train()
    return got


model = C.build_model()
for kind in ("near", "flat"):
    rows = C.known_rows(kind)
    for label, k in (("r0", 4), ("both", 5)):
        want, n = C.reference(model, rows[:k], clip=0.2)
        grad_want, want = C.gradient(model, want / n), float(want.detach()) / n
        for name, count in ((kind, k), (f"{kind}-calls", 7 if k == 4 else 8)):
            got = train(C.exported(name, "trl")[:count])
            check.claim(f"async {name} {label}: {got['n']} trained tokens", got["n"] == n)
            check.close(f"async {name} {label}", got["loss"], want, got["grad"], grad_want)
rows = C.known_rows()
want, n = C.reference(model, rows, clip=0.2)
want = float(want.detach()) / n
for bug in C.BUGS:
    check.bug(bug, lambda: (lambda g: (g["loss"], g["n"]))(train(C.exported(bug, "trl"))), want, n)


def arrays(record):
    one = sample(record)
    return one.input_ids, one.completion_mask, one.old_log_probs


count = C.compare_golden("trl", arrays)


# ---- the classic trainer's loss, on its own micro-batch dictionary
def batch(records):
    cut = lambda key, dtype: [torch.tensor(r[key][r["prompt_length"]:], dtype=dtype) for r in records]
    prompts = [torch.tensor(r["input_ids"][:r["prompt_length"]]) for r in records]
    completions = cut("input_ids", torch.long)
    ones = lambda xs: [torch.ones_like(x) for x in xs]
    mask = pad(ones(completions), padding_value=0, padding_side="right")
    tool = pad(cut("completion_mask", torch.long), padding_value=1, padding_side="right")
    return dict(prompt_ids=pad(prompts, padding_value=C.PAD, padding_side="left"),
                prompt_mask=pad(ones(prompts), padding_value=0, padding_side="left"),
                completion_ids=pad(completions, padding_value=C.PAD, padding_side="right"), completion_mask=mask,
                tool_mask=tool, advantages=torch.tensor([r["advantage"] for r in records]),
                old_per_token_logps=pad(cut("old_log_probs", torch.float32), padding_value=0.0, padding_side="right"),
                num_items_in_batch=(mask * tool).sum())


args = GRPOConfig(tempfile.mkdtemp(), use_cpu=True, bf16=False, per_device_train_batch_size=5, num_generations=5,
                  max_completion_length=8, beta=0.0, scale_rewards="none", loss_type="dapo", max_steps=1, report_to=[],
                  save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, epsilon=0.2)
classic = GRPOTrainer(C.build_model(), reward_funcs=lambda completions, **k: [0.0] * len(completions), args=args,
                      processing_class=C.tokenizer(), train_dataset=Dataset.from_dict({"prompt": ["t10 t11"] * 5}))
classic.current_gradient_accumulation_steps = 1
for kind in ("near", "flat"):
    want_k, n_k = C.reference(model, C.known_rows(kind), clip=0.2)
    grad_want = C.gradient(model, want_k / n_k)
    for name in (kind, f"{kind}-calls"):
        loss = classic._compute_loss(classic.model, batch(C.exported(name, "trl")))
        check.close(f"classic {name}", float(loss.detach()), float(want_k.detach()) / n_k, C.gradient(classic.model, loss), grad_want)
check.done(loss_token_mean_both=want, trained_tokens=n, golden_records=count)
