"""Trials that set what `memory.trial` leaves at its default, as users do."""

from __future__ import annotations

import random
from typing import Any

from tests.parity.generators.memory import DECODERS, PLAIN_ADAM

Dict = dict[str, Any]
COMMON: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("round_robin_gradients", 0.2, (True,)),
    ("reduce_scatter", 0.25, (False,)),
    ("allgather_partitions", 0.1, (False,)),
    ("allgather_bucket_size", 0.3, (1000, 100_000, 5_000_000)),
    ("reduce_bucket_size", 0.3, (2, 1000, 20_000_000, 100_000_000)),
    ("overlap_comm", 0.4, (True, False)),
    ("ignore_unused_parameters", 0.2, (False,)),
    ("elastic_checkpoint", 0.1, (True,)),
    ("use_multi_rank_bucket_allreduce", 0.15, (False,)),
)
"""Keys below `zero_optimization` for every stage: how often they are set, and to what."""
THIRD: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("sub_group_size", 0.2, (1, 1000, 200_000)),
    ("stage3_prefetch_bucket_size", 0.15, (0, 10**9)),
    ("stage3_param_persistence_threshold", 0.2, (0, 10**6, 10**9)),
    ("stage3_model_persistence_threshold", 0.2, (0, 2000, 50_000)),
    ("stage3_max_live_parameters", 0.15, (0, 1000, 10**9)),
    ("stage3_max_reuse_distance", 0.15, (0, 1000, 10**9)),
    ("memory_efficient_linear", 0.15, (False,)),
)
"""Those of stage 3."""
TOP: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("gradient_clipping", 0.3, (0.0, 0.5)),
    ("communication_data_type", 0.15, ("fp32", "bf16", "fp16")),
    ("gradient_accumulation_steps", 0.3, (1, 2, 5, 8)),
    ("train_micro_batch_size_per_gpu", 0.3, (1, 5, 8, 16)),
)
"""Those at the top."""
CHECKPOINTING: Dict = {"partition_activations": True, "cpu_checkpointing": True, "number_checkpoints": 2}
"""Read by scripts that call `deepspeed.checkpointing`, and by nothing else."""
LOSS_SCALES: tuple[Dict, ...] = ({"loss_scale": 128}, {"initial_scale_power": 4}, {"auto_cast": True})
OPTIMIZERS: tuple[tuple[str, Dict], ...] = (
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("Adagrad", {}),
    ("Adam", {"torch_adam": True}),
    ("Adam", {"torch_adam": True, "adam_w_mode": False}),
)
"""Of the config; torch's, or DeepSpeed's around torch's."""


def varied(source: random.Random, case: Dict) -> Dict:
    """A trial with some of all these."""
    config = case["config"]
    section, stage = config["zero_optimization"], config["zero_optimization"]["stage"]
    if source.random() < 0.3:
        case["world_size"] = world = source.choice((1, 2, 5, 6, 7, 12, 48, 96, 500, 512))
        case["rank"] = source.randrange(world)
        section.pop("zero_hpz_partition_size", None)
    _set(source, section, COMMON if stage else COMMON[3:5])
    _set(source, section, THIRD if stage == 3 else ())
    _set(source, config, TOP)
    if source.random() < 0.15:
        config["activation_checkpointing"] = CHECKPOINTING
    if config["gradient_accumulation_steps"] > 3:
        config["train_micro_batch_size_per_gpu"] = 1
    _precision(source, config, stage)
    _optimizer(source, case)
    _model(source, case)
    if "offload_optimizer" in section and source.random() < 0.5:
        section["offload_optimizer"] = section["offload_optimizer"] | {"pin_memory": source.random() < 0.5}
    if "offload_optimizer" in section and stage == 3 and source.random() < 0.3:
        section["offload_optimizer"] = section["offload_optimizer"] | {
            "ratio": source.choice((0.0, 0.3, 0.8))
        }
    nodes = [size for size in (2, 4, 8) if case["world_size"] % size == 0 and case["world_size"] > size]
    if stage == 3 and nodes and section.get("reduce_scatter") is not False and source.random() < 0.15:
        section["zero_quantized_gradients"], case["node"] = True, source.choice(nodes)
    half = next((kind for kind in ("bf16", "fp16") if kind in config), None)
    if half and source.random() < 0.25:
        case["model"]["dtype"] = {"bf16": "bfloat16", "fp16": "float16"}[half]
    if section.get("reduce_scatter") is False and source.random() < 0.3:  # DeepSpeed wants it off for this
        config |= source.choice(({"prescale_gradients": True}, {"gradient_predivide_factor": 2.0}))
    return case


def _set(source: random.Random, section: Dict, keys: tuple[tuple[str, float, tuple[Any, ...]], ...]) -> None:
    for key, often, values in keys:
        if source.random() < often:
            section[key] = source.choice(values)


def _precision(source: random.Random, config: Dict, stage: int) -> None:
    if "fp16" in config and source.random() < 0.6:
        config["fp16"] = config["fp16"] | source.choice(LOSS_SCALES)
    if "fp16" in config and stage and source.random() < 0.2:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if config.get("bf16") == {"enabled": True} and source.random() < 0.15:
        config["data_types"] = {"grad_accum_dtype": source.choice(("fp32", "bf16"))}


def _optimizer(source: random.Random, case: Dict) -> None:
    config = case["config"]
    if source.random() < 0.2 and "offload_optimizer" not in config["zero_optimization"]:
        case.pop("client_optimizer", None)
        name, params = source.choice(OPTIMIZERS)
        config["optimizer"] = {"type": name, "params": {"lr": PLAIN_ADAM["params"]["lr"]} | params}
        config["zero_allow_untested_optimizer"] = True


def _model(source: random.Random, case: Dict) -> None:
    """Sizes that nothing divides, biases, a model that is built in the type it is trained in."""
    spec = case["model"]
    kind = spec["kind"]
    if source.random() < 0.3 and "vocab_size" in spec:
        spec["vocab_size"] = source.choice((257, 5003, 32001))
    if source.random() < 0.3 and "intermediate_size" in spec:
        spec["intermediate_size"] = source.choice((96, 333, 1001))
    if kind in DECODERS and source.random() < 0.2:
        spec["tie_word_embeddings"] = True
    if kind in ("llama", "qwen3") and source.random() < 0.2:
        spec["attention_bias"] = True
    if kind == "llama" and source.random() < 0.2:
        spec["mlp_bias"] = True
    if kind == "vit" and source.random() < 0.3:
        spec["id2label"] = {str(number): str(number) for number in range(10)}
    if kind == "mixtral" and source.random() < 0.3:
        spec["num_local_experts"] = 8
    if kind == "mixtral" and source.random() < 0.2:
        spec["checkpointing"] = True
    if kind == "gpt2" and source.random() < 0.3:
        spec["n_inner"] = source.choice((96, 333))
    if source.random() < 0.2 and kind != "gpt2":
        case["length"] = source.choice((1, 7, 33, 200, 500))
