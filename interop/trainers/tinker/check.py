"""Shape `tinker`: our record -> tinker.Datum -> the SDK's own protobuf encoding -> back -> importance_sampling (its
documented formula) on a tiny model. The datums must also be what tinker_cookbook.rl.data_processing builds of the calls."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))
import common as C
import numpy as np
import tinker
import torch
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.types.forward_backward_input import ForwardBackwardInput
from tinker.types.forward_backward_request import ForwardBackwardRequest

check = C.Check("tinker", tinker.__version__)


def datum(record):
    """The whole loader: the record is the datum's own JSON, whose tensors the SDK takes as arrays."""
    inputs = {k: tinker.TensorData.from_numpy(np.asarray(v["data"], v["dtype"])) for k, v in record["loss_fn_inputs"].items()}
    return tinker.Datum(model_input=tinker.ModelInput.model_validate(record["model_input"]), loss_fn_inputs=inputs)


def encode(datums):
    request = ForwardBackwardRequest(ForwardBackwardInput(datums, "importance_sampling"), "m", 1)
    return forward_backward_request_to_proto(request).SerializeToString()


def decode(wire):
    """[(ids, target, old, advantages)] from the wire's bytes alone."""
    out = []
    for d in pb.ForwardBackwardRequest.FromString(wire).data:
        ids = np.concatenate([np.frombuffer(c.encoded_text.tokens, np.int32) for c in d.model_input]).astype(np.int64)
        get = lambda k, dt: np.frombuffer(d.loss_fn_inputs[k].dense, dt).copy()
        target, old, adv = get("target_tokens", np.int64), get("logprobs", np.float32), get("advantages", np.float32)
        assert len(ids) == len(target) == len(old) == len(adv)  # the SDK itself does not check
        out.append((ids, target, old, adv))
    return out


def loss(model, records):
    total, n = torch.zeros((), dtype=torch.float64), 0
    for ids, target, old, adv in decode(encode([datum(r) for r in records])):
        lp = torch.log_softmax(model(input_ids=torch.from_numpy(ids)[None]).logits[0].double(), -1)
        lp = lp.gather(1, torch.from_numpy(target)[:, None])[:, 0]
        total = total - (torch.exp(lp - torch.from_numpy(old).double()) * torch.from_numpy(adv).double()).sum()
        n += int((adv != 0).sum())
    return total, n


model = C.build_model()
for kind in ("near", "flat"):
    rows = C.known_rows(kind)
    for label, k in (("r0", 4), ("both", 5)):
        want, n = C.reference(model, rows[:k])
        grad_want = C.gradient(model, want)
        for name, count in ((kind, k), (f"{kind}-calls", 7 if k == 4 else 8)):
            got, m = loss(model, C.exported(name, "tinker")[:count])
            check.claim(f"{name} {label}: {m} trained tokens", m == n)
            check.close(f"{name} {label}", float(got.detach()), float(want.detach()), C.gradient(model, got), grad_want)
rows = C.known_rows()
want, n = C.reference(model, rows)
for bug in C.BUGS:
    check.bug(bug, lambda: (lambda l, m: (float(l.detach()), m))(*loss(model, C.exported(bug, "tinker"))), float(want.detach()), n)


def arrays(record):
    ids, target, old, _ = decode(encode([datum(record)]))[0]
    assert list(ids[1:]) == list(target[:-1])
    return [ids[0], *target], None, [0.0, *old]


count = C.compare_golden("tinker", arrays)

# The cookbook's own builder, from calls: it decides itself where a trajectory becomes several datums.
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition


def trajectory(rollout):
    out, calls = [], []
    for r in (r for r in rows if r["rollout_id"] == rollout):
        calls += [(r["token_ids"][:t], r["token_ids"][t], r["logprobs"][t], r["reward"]) for t, m in enumerate(r["loss_mask"]) if m]
    for i, (prompt, token, logprob, reward) in enumerate(calls):
        last = i == len(calls) - 1
        out.append(Transition(tinker.ModelInput.from_ints(prompt), TokensWithLogprobs([token], [logprob]),
                              reward=reward if last else 0.0, episode_done=last))
    return Trajectory(out, tinker.ModelInput.empty())


group = [TrajectoryGroup([trajectory("r0"), trajectory("r1")], [0.0, 0.0], [{}, {}])]
built, _ = assemble_training_data(group, compute_advantages(group))
key = lambda d: (d.model_input.to_ints(), {k: d.loss_fn_inputs[k].to_numpy().tolist() for k in sorted(d.loss_fn_inputs) if k != "mask"})
ours = [key(datum(r)) for r in C.exported("near", "tinker")]
check.claim("the cookbook builds the same datums of the calls", [key(d) for d in built] == ours)
check.done(loss_sum_both=float(want.detach()), trained_tokens=n, golden_records=count)
