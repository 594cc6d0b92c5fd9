"""Shape `skyrl` (Python 3.12): our columns -> GeneratorOutput -> validate_generator_output -> the real RayPPOTrainer's
conversion and step-wise advantages -> HFModelWrapper -> PolicyLossRegistry "regular" (PPO). SkyRL's own
merge_stepwise_output, given one record a call, must build our rows. Then our Tinker datums through SkyRL's JAX engine."""
import json
import os
import sys
import types
from importlib.metadata import version
from types import SimpleNamespace

os.environ.update(JAX_PLATFORMS="cpu", SKYRL_DISABLE_TELEMETRY="1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))
import common as C
import torch
import transformers.modeling_utils  # noqa: F401  before the stub: transformers looks for flash-attn
import transformers.models.llama.modeling_llama  # noqa: F401

# flash-attn has no CPU wheel; SkyRL imports two functions of it that are unused without packing.
for name in ("flash_attn", "flash_attn.bert_padding"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["flash_attn.bert_padding"].pad_input = sys.modules["flash_attn.bert_padding"].unpad_input = None
from loguru import logger
from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry
from skyrl.backends.skyrl_train.workers.model_wrapper import HFModelWrapper
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.generators.base import TrajectoryID
from skyrl.train.generators.utils import merge_stepwise_output
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils.trainer_utils import validate_generator_output

logger.remove()
torch.set_num_threads(1)
check = C.Check("skyrl", version("skyrl"))
COLUMNS = ("prompt_token_ids", "response_ids", "rewards", "loss_masks", "stop_reasons", "rollout_logprobs", "is_last_step")
ABSENT = ("rollout_metrics", "trajectory_generation_times", "trajectory_time_splits", "rollout_expert_indices",
          "rollout_sample_support", "env_metrics", "pixel_values", "image_grid_thw")


def generator_output(records):
    """The whole loader: our columns are its lists."""
    ids = [TrajectoryID(r["trajectory_ids"]["instance_id"], r["trajectory_ids"]["repetition_id"]) for r in records]
    return {**{k: [r[k] for r in records] for k in COLUMNS}, "trajectory_ids": ids, **dict.fromkeys(ABSENT)}


config = SkyRLTrainConfig()
config.generator.step_wise_trajectories, config.generator.n_samples_per_prompt = True, 2
config.trainer.train_batch_size = config.trainer.policy_mini_batch_size = 1
config.trainer.critic.model.path = None
algorithm = config.trainer.algorithm
algorithm.grpo_norm_by_std, algorithm.use_kl_loss = False, False
trainer = object.__new__(RayPPOTrainer)
trainer.cfg, trainer.tokenizer, trainer.all_metrics = config, C.tokenizer(), {}
trainer.dispatch = SimpleNamespace(get_lcm_dp_size=lambda: 1)


def loss(wrapper, records, advantage="ours"):
    output = generator_output(records)
    validate_generator_output(1, output, step_wise=True)
    output, uids = trainer.postprocess_generator_output(output, [r["trajectory_ids"]["instance_id"] for r in records])
    d = trainer.convert_to_training_input(output, uids)
    d["values"] = None
    if advantage == "skyrl":
        d = trainer.compute_advantages_and_returns(d)
    else:
        d["advantages"] = torch.tensor([r["advantage"] for r in records])[:, None] * d["response_mask"]
    n = int(d["loss_mask"].sum())
    algorithm.loss_reduction, algorithm.max_seq_len, algorithm.policy_loss_type = "token_mean", 8, "regular"
    d = trainer._normalize_advantages(d, [(0, len(records))], [(0, len(records))])
    lp = wrapper(d["sequences"], d.metadata["response_length"], attention_mask=d["attention_mask"])
    value, _ = PolicyLossRegistry.get("regular")(lp, d["rollout_logprobs"], d["advantages"], config=algorithm,
                                                 loss_mask=d["loss_mask"], rollout_logprobs=d["rollout_logprobs"])
    return value, n


model = C.build_model(attn="sdpa")
wrapper = HFModelWrapper(model, bf16=False)
for kind in ("near", "flat"):
    rows = C.known_rows(kind)
    for label, k in (("r0", 4), ("both", 5)):
        want, n = C.reference(model, rows[:k], clip=0.2)
        grad_want, want = C.gradient(model, want / n), float(want.detach()) / n
        for name, count in ((kind, k), (f"{kind}-calls", 7 if k == 4 else 8)):
            got, m = loss(wrapper, C.exported(name, "skyrl")[:count])
            check.claim(f"{name} {label}: {m} trained tokens", m == n)
            check.close(f"{name} {label}", float(got.detach()), want, C.gradient(model, got), grad_want)
want, n = C.reference(model, C.known_rows(), clip=0.2)
want = float(want.detach()) / n
got, _ = loss(wrapper, C.exported("near", "skyrl"), advantage="skyrl")
check.close("advantages by SkyRL's step-wise GRPO", float(got.detach()), want)
for bug in C.BUGS:
    check.bug(bug, lambda: (lambda l, m: (float(l.detach()), m))(*loss(wrapper, C.exported(bug, "skyrl"))), want, n)

merged, ours = merge_stepwise_output(generator_output(C.exported("near-calls", "skyrl"))), generator_output(C.exported("near", "skyrl"))
same = [k for k in COLUMNS if k != "stop_reasons" and merged[k] != ours[k]]
check.claim(f"merge_stepwise_output of 8 call records builds our 5 rows {same}", not same)


def arrays(record):
    out = generator_output([record])
    zeros = [0] * len(out["prompt_token_ids"][0])
    return (out["prompt_token_ids"][0] + out["response_ids"][0], zeros + out["loss_masks"][0], zeros + out["rollout_logprobs"][0])


count = C.compare_golden("skyrl", arrays)

# ---- the Tinker API that SkyRL serves
from skyrl.backends.jax import JaxBackend, JaxBackendConfig
from skyrl.tinker import api
from skyrl.tinker import types as tinker_types
from skyrl.tinker.engine import prepare_model_pass_batch

backend = JaxBackend(C.save_model(), JaxBackendConfig(max_lora_adapters=2, max_lora_rank=4, loss_chunk_size=0))
backend.create_model("m", tinker_types.LoraConfig(rank=4, alpha=4.0, seed=0))
datums = json.loads(json.dumps(C.exported("near", "tinker")))
given = api.ForwardBackwardInput(data=datums, loss_fn="importance_sampling")
typed = tinker_types.ForwardBackwardInput(data=[x.to_types() for x in given.data], loss_fn="importance_sampling",
                                          loss_fn_config=given.loss_fn_config)
answer = backend.forward_backward(prepare_model_pass_batch({"r": ("m", typed)}))["r"]
total = sum(sum(o["elementwise_loss"]["data"]) for o in answer.loss_fn_outputs)
reference = float(C.reference(model, C.known_rows())[0].detach())
check.claim(f"our Tinker datums in SkyRL's JAX engine: {total:+.6f}, by hand {reference:+.6f}", abs(total - reference) < 1e-3 * abs(reference))
check.done(loss_token_mean_both=want, trained_tokens=n, golden_records=count, jax_engine_sum=total)
