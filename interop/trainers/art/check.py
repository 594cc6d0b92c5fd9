"""Shape `art` (Python 3.12): our record -> TokenizedResult -> ART's packer -> art.loss.loss_fn. And our `choices` ->
Choice objects -> ART's public TrajectoryGroup -> its own tokenizer, which must build our rows again."""
import math
import os
import sys
from importlib.metadata import version

os.environ.setdefault("WANDB_MODE", "disabled")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))
import common as C
import art
import torch
from art.loss import LossInputs, loss_fn
from art.preprocessing.pack import packed_tensors_from_tokenized_results
from art.preprocessing.tokenize import TokenizedResult, tokenize_trajectory_groups
from openai.types.chat.chat_completion import Choice

torch.set_num_threads(1)
check = C.Check("art", version("openpipe-art"))
tokenizer = C.tokenizer()


def result(record, weight=None):
    """The whole loader. JSON Lines hold null where Parquet holds NaN."""
    return TokenizedResult(advantage=record["advantage"], chat="", token_ids=record["token_ids"],
                           input_pos=list(range(len(record["token_ids"]))), assistant_mask=record["assistant_mask"],
                           logprobs=[math.nan if x is None else x for x in record["logprobs"]], pixel_values=None,
                           image_grid_thw=None, trajectory=art.Trajectory(reward=record["reward"]), choice_offsets=[],
                           extra_logprobs={}, _tokenizer=tokenizer, weight=record["weight"] if weight is None else weight,
                           prompt_id=0, prompt_length=record["prompt_length"])


def pack(results):
    return packed_tensors_from_tokenized_results(results, seq_len=8, pad_token_id=C.PAD, pack_results=False, verbosity=0)


def loss(model, packed):
    logits = model(input_ids=packed["tokens"]).logits
    new = torch.log_softmax(logits[:, :-1].double(), -1).gather(2, packed["tokens"][:, 1:, None])[..., 0]
    new = torch.cat([new, torch.zeros(len(logits), 1)], 1)  # index i predicts token i + 1
    value = loss_fn(LossInputs(inputs=packed), new, None, None, {"ppo": True}, reduction="mean").policy_loss
    return value, int(packed["assistant_mask"].sum())


def by_hand(model, rows):
    """ART's normalisation: weight 1 / the rollout's trained tokens, mean 1; mean |advantage| * weight 1."""
    tokens = {}
    for r in rows:
        tokens[r["rollout_id"]] = tokens.get(r["rollout_id"], 0) + sum(r["loss_mask"])
    n = sum(tokens.values())
    mean = len(tokens) / n
    scale = sum(sum(r["loss_mask"]) * abs(r["advantage"]) / tokens[r["rollout_id"]] / mean for r in rows) / n
    scaled = [dict(r, advantage=r["advantage"] / scale / tokens[r["rollout_id"]] / mean) for r in rows]
    return C.reference(model, scaled, clip=0.2)[0] / n, n


model = C.build_model()
rows = C.known_rows()
for kind in ("near", "flat"):
    want, n = by_hand(model, C.known_rows(kind))
    grad_want = C.gradient(model, want)
    for name in (kind, f"{kind}-calls"):
        got, m = loss(model, pack([result(r) for r in C.exported(name, "art")]))
        check.claim(f"{name}: {m} trained tokens", m == n)
        check.close(name, float(got.detach()), float(want.detach()), C.gradient(model, got), grad_want)
    # Plain token mean: weight 1, and ART's rescaling of advantages taken back.
    for label, k in (("r0", 4), ("both", 5)):
        part = C.known_rows(kind)[:k]
        packed = pack([result(r, weight=1.0) for r in C.exported(kind, "art")[:k]])
        trained = sum(sum(r["loss_mask"]) for r in part)
        packed["advantages"] = packed["advantages"] * (sum(abs(r["advantage"]) * sum(r["loss_mask"]) for r in part) / trained)
        plain, m = C.reference(model, part, clip=0.2)
        got, _ = loss(model, packed)
        check.close(f"{kind} {label}, weight 1", float(got.detach()), float(plain.detach()) / m, C.gradient(model, got), C.gradient(model, plain / m))
want, n = by_hand(model, rows)
want = float(want.detach())
for bug in C.BUGS:
    check.bug(bug, lambda: (lambda l, m: (float(l.detach()), m))(*loss(model, pack([result(r) for r in C.exported(bug, "art")]))), want, n)


def choice(record, start, end):
    ids, logprobs = record["token_ids"][start:end], record["logprobs"][start:end]
    content = [dict(token=f"token_id:{i}", logprob=x, bytes=None, top_logprobs=[]) for i, x in zip(ids, logprobs)]
    return Choice.model_validate(dict(index=0, finish_reason="stop", message=dict(role="assistant", content=" ".join(f"t{i}" for i in ids)),
                                      logprobs=dict(content=content, refusal=None), prompt_token_ids=record["token_ids"][:start], token_ids=ids))


def trajectory(records):
    pairs = [({"role": "user", "content": "x"}, choice(r, c["start"], c["end"])) for r in records for c in r["choices"]]
    return art.Trajectory(messages_and_choices=[m for pair in pairs for m in pair], reward=records[0]["reward"],
                          initial_policy_version=min(r["initial_policy_version"] for r in records),
                          final_policy_version=max(r["final_policy_version"] for r in records))


records = C.exported("near", "art")
group = art.TrajectoryGroup([trajectory([r for r in records if r["rollout_id"] == name]) for name in ("r0", "r1")])
built = list(tokenize_trajectory_groups(tokenizer, [group], allow_training_without_logprobs=False, scale_rewards=False,
                                        shuffle_group_trajectories=False))
key = lambda ids, mask, lp, a: (list(ids), [int(x) for x in mask], [0.0 if math.isnan(x) else round(x, 4) for x in lp], a)
same = [key(x.token_ids, x.assistant_mask, x.logprobs, x.advantage) for x in built] == [
    key(r["token_ids"], r["loss_mask"], r["logprobs"], r["advantage"]) for r in rows]
check.claim(f"ART's tokenizer builds our {len(built)} rows of 8 choices", same)


def arrays(record):
    one = result(record)
    return one.token_ids, one.assistant_mask, [0.0 if math.isnan(x) else x for x in one.logprobs]


count = C.compare_golden("art", arrays)
check.done(loss_both=want, trained_tokens=n, golden_records=count)
