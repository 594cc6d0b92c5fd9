"""The proof: loss and gradient over the rows equal those over the calls taken one by one. The calls are read from the
trace by the few lines below, without Coppice: every accepted call once, its whole prompt as context, the rollout's
reward minus its group's mean. The rows are what Coppice exported of the same trace. Policy-gradient loss with importance
ratio, summed over trained tokens, on a tiny model: to 1e-6 in float32, 1e-12 in float64. The loss is compared in parts of
the sum of its terms' sizes, since terms of both signs cancel; the gradient in parts of its norm."""
import glob
import json
import os
import sys
import time

STARTED = time.time()
import pyarrow.parquet as pq
import tiny
import torch

OUT = os.environ["COPPICE_EXPORTS"]
torch.set_num_threads(1)
failed = []


def claim(name, holds):
    if not holds:
        failed.append(name)
        print(f"FAILS {name}", file=sys.stderr)


def float32s(values):
    """Records keep log-probs as float32, whatever digits an engine prints."""
    return torch.tensor(values, dtype=torch.float32).double().tolist()


def calls_one_by_one(trace):
    """Reference rows, one an accepted call, from the trace alone."""
    calls = {(c["rollout_id"], name): c for c in trace if c["type"] == "call" for name in (c["call_id"], c.get("response_id"))}
    outcomes = [o for o in trace if o["type"] == "outcome"]
    groups = {}
    for o in outcomes:
        groups.setdefault(o["group_id"], []).append(o["reward"])
    rows = []
    for o in outcomes:
        rewards = groups[o["group_id"]]
        advantage = o["reward"] - sum(rewards) / len(rewards)
        for name in o["accepted"]:
            c = calls[o["rollout_id"], name]
            prompt, generated = c["prompt_token_ids"], c["generated_token_ids"]
            rows.append({"token_ids": prompt + generated, "loss_mask": [0] * len(prompt) + [1] * len(generated),
                         "logprobs": [0.0] * len(prompt) + float32s(c["generated_logprobs"]), "advantage": advantage})
    return rows


def measure(model, rows):
    """(loss, size of its terms, gradient, trained tokens)"""
    loss, size, n = 0.0, 0.0, 0
    model.zero_grad(set_to_none=True)
    for row in rows:
        mask = torch.tensor(row["loss_mask"], dtype=torch.bool)
        if not mask.any():
            continue
        logps = model.logps(row["token_ids"])
        old = torch.tensor(row["logprobs"], dtype=logps.dtype)
        terms = -row["advantage"] * torch.exp(logps - old[1:])[mask[1:]]
        terms.sum().backward()
        loss, size, n = loss + float(terms.detach().double().sum()), size + float(terms.detach().double().abs().sum()), n + len(terms)
    gradient = torch.cat([p.grad.double().flatten() for p in model.parameters()])
    return loss, size, gradient, n


def differ(got, want):
    (loss_got, _, gradient_got, n_got), (loss, size, gradient, n) = got, want
    return abs(loss_got - loss) / size, float((gradient_got - gradient).norm() / gradient.norm()), n_got == n


names = sorted(os.path.basename(p)[:-len(".trace.jsonl")] for p in glob.glob(f"{OUT}/*.trace.jsonl"))
figures, totals = {}, {"rows": 0, "calls": 0, "trained_tokens": 0}
shared = rejected = 0
for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-12)):
    model, worst_loss, worst_gradient = tiny.build(getattr(torch, dtype)), 0.0, 0.0
    for name in names:
        trace = [json.loads(line) for line in open(f"{OUT}/{name}.trace.jsonl")]
        rows, calls = pq.read_table(f"{OUT}/{name}.rows.parquet").to_pylist(), calls_one_by_one(trace)
        want = measure(model, calls)
        loss, gradient, same_count = differ(measure(model, rows), want)
        worst_loss, worst_gradient = max(worst_loss, loss), max(worst_gradient, gradient)
        claim(f"{dtype} {name}: {len(rows)} rows, {len(calls)} calls: loss {loss:.1e}, gradient {gradient:.1e}, counts {same_count}",
              loss < tolerance and gradient < tolerance and same_count)
        if dtype == "float64":
            totals = {"rows": totals["rows"] + len(rows), "calls": totals["calls"] + len(calls), "trained_tokens": totals["trained_tokens"] + want[3]}
            # What the proof must notice: context generated tokens (shared or rejected calls) trained after all.
            for row in rows:
                for span in row["spans"]:
                    if span["trained"] or span["generated"] == 0:
                        continue
                    planted = [dict(r, loss_mask=list(r["loss_mask"])) for r in rows]
                    at = span["start"] + span["carried"]
                    planted[rows.index(row)]["loss_mask"][at:at + span["generated"]] = [1] * span["generated"]
                    seen = differ(measure(model, planted), want)
                    claim(f"{name}: context call {span['call_id']} trained is noticed", not seen[2] and seen[1] > tolerance)
                    inside = any(s["call_id"] == span["call_id"] and s["trained"] for r in rows if r["rollout_id"] == row["rollout_id"] for s in r["spans"])
                    shared, rejected = shared + inside, rejected + (not inside)
    figures[dtype] = {"max_rel_loss": worst_loss, "max_rel_gradient": worst_gradient}

claim(f"there were shared calls ({shared}) and rejected ancestors ({rejected})", shared > 0 and rejected > 0)
print(json.dumps({"check": "proof", "ok": not failed, "traces": len(names), **totals, **figures, "shared_context_calls": shared,
                  "rejected_context_calls": rejected, "seconds": round(time.time() - STARTED, 1)}))
sys.exit(1 if failed else 0)
