"""Shape `verl`: our record -> AgentLoopOutput -> the real AgentLoopWorker post-processing -> DataProto ->
left_right_2_no_padding -> ppo_loss, the function that verl's engines call; and verl's multi-trajectory GRPO advantage
from our keys. No Ray, no server; the model's forward is a plain one."""
import asyncio
import os
import sys
from importlib.metadata import version
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))
import common as C
import numpy as np
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput, AgentLoopWorker
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils
from verl.utils.torch_functional import logprobs_from_logits
from verl.workers.config import ActorConfig
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import left_right_2_no_padding

torch.set_num_threads(1)
check = C.Check("verl", version("verl"))


def output(record):
    """The whole loader."""
    fields = {k: record[k] for k in ("prompt_ids", "response_ids", "response_mask", "response_logprobs", "reward_score", "num_turns")}
    versions = {k: record["extra_fields"][k] for k in ("min_global_steps", "max_global_steps")}
    return AgentLoopOutput(**fields, metrics=AgentLoopMetrics(), extra_fields=versions)


worker = object.__new__(AgentLoopWorker)
worker.tokenizer, worker.processor, worker.reward_loop_worker_handles = C.tokenizer(), None, None
worker.distillation_enabled = False
worker._get_mm_processor_kwargs = lambda *a: {}
worker.rollout_config = SimpleNamespace(prompt_length=8, response_length=8)


def dataproto(records):
    outputs = [asyncio.run(worker._agent_loop_postprocess(output(r), False, raw_prompt=None)) for r in records]
    uid = np.array([r["uid"] for r in records], dtype=object)
    proto = worker._postprocess(outputs, input_non_tensor_batch={"uid": uid})
    proto.batch["token_level_rewards"] = proto.batch["rm_scores"]
    return proto


def loss(model, records, advantage="ours", mode="token-mean"):
    proto = dataproto(records)
    proto.batch["old_log_probs"] = proto.batch["rollout_log_probs"]  # verl's bypass mode
    if advantage == "verl":
        proto = compute_advantage_for_multi_trajectories(proto, [r["key"] for r in records],
                                                         core_algos.AdvantageEstimator.GRPO, norm_adv_by_std_in_grpo=False)
    else:
        proto.batch["advantages"] = torch.tensor([r["advantage"] for r in records])[:, None] * proto.batch["response_mask"]
    td, n = left_right_2_no_padding(proto.to_tensordict()), int(proto.batch["response_mask"].sum())
    logps = [logprobs_from_logits(model(input_ids=x[None]).logits[0], torch.roll(x, -1), inplace_backward=False)
             for x in td["input_ids"].unbind()]
    for k, v in (("dp_size", 1), ("batch_num_tokens", n), ("global_batch_size", len(records))):
        tensordict_utils.assign_non_tensor_data(td, k, v)
    config = ActorConfig(strategy="fsdp", rollout_n=2, ppo_micro_batch_size_per_gpu=8, loss_agg_mode=mode, use_torch_compile=False)
    nested = torch.nested.as_nested_tensor(logps, layout=torch.jagged)
    return ppo_loss(config, {"log_probs": nested}, td)[0], n, proto


model = C.build_model()
for kind in ("near", "flat"):
    rows = C.known_rows(kind)
    for label, k in (("r0", 4), ("both", 5)):
        want, n = C.reference(model, rows[:k], clip=0.2)
        grad_want, want = C.gradient(model, want / n), float(want.detach()) / n
        for name, count in ((kind, k), (f"{kind}-calls", 7 if k == 4 else 8)):
            got, m, _ = loss(model, C.exported(name, "verl")[:count])
            check.claim(f"{name} {label}: {m} trained tokens", m == n)
            check.close(f"{name} {label}", float(got.detach()), want, C.gradient(model, got), grad_want)
want, n = C.reference(model, C.known_rows(), clip=0.2)
want = float(want.detach()) / n
records = C.exported("near", "verl")
got, _, proto = loss(model, records, advantage="verl")
check.close("advantage by verl's multi-trajectory GRPO from our keys", float(got.detach()), want)
per_row = [round(float(a.sum() / k.sum()), 3) for a, k in zip(proto.batch["advantages"], proto.batch["response_mask"])]
check.claim(f"verl's advantages are ours: {per_row}", per_row == [r["advantage"] for r in records])
check.claim("weight versions arrive", proto.non_tensor_batch["max_global_steps"].tolist() == [7] * 5)
for bug in C.BUGS:
    check.bug(bug, lambda: (lambda l, m, _: (float(l.detach()), m))(*loss(model, C.exported(bug, "verl"))), want, n)


def arrays(record):
    one = output(record)
    zeros = [0] * len(one.prompt_ids)
    return one.prompt_ids + one.response_ids, zeros + one.response_mask, zeros + one.response_logprobs


count = C.compare_golden("verl", arrays)
check.done(loss_token_mean_both=want, trained_tokens=n, golden_records=count)
