"""Realistic configs that a release takes, and for each section one in which its keys are really read."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from tests.parity.environment import order
from tests.parity.generators import keyspace
from tests.parity.generators.keyspace import Step

Config: TypeAlias = dict[str, Any]
NO_ZERO_WITHOUT_FP16 = (0, 4)
"""Up to 0.3.16 ZeRO asks for fp16 or amp (`runtime/config.py`, `_do_error_check`)."""
AUTO_IS_DROPPED = (0, 17, 1)
"""Since then fp16 and bf16 are pydantic sections, which drop "auto"; before, it counted as true."""
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def batch(rng: Random, world_size: int) -> Config:
    """Batch keys that agree at this world size, in one of the ways in which people give them."""
    micro, steps = rng.choice((1, 2, 3, 4, 8, 16)), rng.choice((1, 1, 2, 4, 5))
    total = micro * steps * world_size
    whole = dict(zip(BATCH_KEYS, (total, micro, steps), strict=True))
    given = rng.choice(((0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (0, 1, 2)))
    return {name: whole[name] for index, name in enumerate(BATCH_KEYS) if index in given}


def precision(rng: Random, release: str) -> Config:
    """One of the precisions, with the keys that go with it."""
    fp16 = {
        "enabled": True,
        "loss_scale": rng.choice((0, 0, 128, 65536.0)),
        "initial_scale_power": rng.choice((12, 16, 32)),
        "loss_scale_window": rng.choice((100, 500, 1000)),
        "hysteresis": rng.choice((1, 2)),
        "min_loss_scale": 1,
    }
    some = {name: fp16[name] for name in fp16 if name == "enabled" or rng.random() < 0.6}
    if order(release) < NO_ZERO_WITHOUT_FP16:
        return {"fp16": some}
    choices: list[Config] = [
        {},
        {"fp16": some},
        {"fp16": {"enabled": False}, "bf16": {"enabled": True}},
        {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": rng.choice(("fp32", "bf16"))}},
        {"torch_autocast": {"enabled": True, "dtype": rng.choice(("bfloat16", "float16"))}},
    ]
    if order(release) >= AUTO_IS_DROPPED:
        choices.append({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}})
    return rng.choice(choices)


def offload(rng: Random) -> Config:
    """Where optimizer and parameters go."""
    device = rng.choice(("cpu", "cpu", "none", "nvme"))
    block: Config = {"device": device, "pin_memory": rng.random() < 0.5}
    if device == "nvme":
        block |= {"nvme_path": "/local_nvme", "buffer_count": rng.choice((4, 5))}
    return block


def zero(rng: Random) -> Config:
    """ZeRO at some stage, with tuning keys of that stage."""
    stage = rng.choice((0, 1, 2, 2, 3, 3))
    keys: Config = {
        "contiguous_gradients": True,
        "overlap_comm": rng.random() < 0.5,
        "reduce_scatter": True,
        "reduce_bucket_size": rng.choice((200_000_000, 500_000_000, 5e8, 1e7)),
        "allgather_partitions": True,
        "allgather_bucket_size": rng.choice((200_000_000, 5e8, 2e8)),
        "round_robin_gradients": True,
        "elastic_checkpoint": False,
    }
    if stage == 3:
        keys |= {
            "stage3_prefetch_bucket_size": rng.choice((50_000_000, 5e7)),
            "stage3_param_persistence_threshold": rng.choice((10_000, 1e6)),
            "stage3_max_live_parameters": rng.choice((1_000_000_000, 1e9)),
            "stage3_max_reuse_distance": 1_000_000_000,
            "stage3_gather_16bit_weights_on_model_save": True,
            "sub_group_size": rng.choice((1_000_000_000, 1e9)),
            "offload_param": offload(rng),
        }
    if stage > 0:
        keys["offload_optimizer"] = offload(rng)
    chosen = {name: value for name, value in keys.items() if rng.random() < 0.5}
    return {"stage": stage} | chosen if rng.random() < 0.95 else chosen


OPTIMIZERS: tuple[Config, ...] = (
    {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}},
    {"type": "Adam", "params": {"lr": 0.001, "torch_adam": True, "adam_w_mode": True}},
    {"type": "Lamb", "params": {"lr": 0.002, "max_coeff": 10.0, "min_coeff": 0.01}},
    {"type": "OneBitAdam", "params": {"lr": 2e-4, "freeze_step": 400}},
    {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
    {"type": "Muon", "params": {"lr": 0.02}},
    {"type": "Lion"},
)
SCHEDULERS: tuple[Config, ...] = (
    {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 500}},
    {"type": "WarmupDecayLR", "params": {"total_num_steps": 10_000, "warmup_num_steps": 1000}},
    {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3}},
    {"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 200}},
)
EXTRAS: tuple[Config, ...] = (
    {"gradient_clipping": 1.0},
    {"steps_per_print": 100},
    {"wall_clock_breakdown": False, "dump_state": False},
    {"prescale_gradients": True, "gradient_predivide_factor": 8.0},
    {"communication_data_type": "fp16"},
    {"zero_allow_untested_optimizer": True},
    {"zero_force_ds_cpu_optimizer": False},
    {"tensorboard": {"enabled": True, "output_path": "logs/", "job_name": "run"}},
    {"wandb": {"enabled": False, "project": "parity", "group": "a", "team": "b"}},
    {"csv_monitor": {"enabled": True, "output_path": "logs", "job_name": "run"}},
    {
        "flops_profiler": {
            "enabled": True,
            "profile_step": 5,
            "module_depth": -1,
            "top_modules": 1,
            "detailed": True,
        }
    },
    {"comms_logger": {"enabled": True, "verbose": False, "prof_all": False, "prof_ops": ["all_reduce"]}},
    {"activation_checkpointing": {"partition_activations": True, "number_checkpoints": 4, "profile": False}},
    {"aio": {"block_size": 1048576, "queue_depth": 8, "single_submit": False, "overlap_events": True}},
    {
        "checkpoint": {
            "tag_validation": "Ignore",
            "load_universal": False,
            "parallel_write": {"pipeline_stage": False},
        }
    },
    {"pipeline": {"stages": "auto", "partition": "best"}},
    {"hybrid_engine": {"enabled": False, "max_out_tokens": 512}},
    {"compile": {"deepcompile": False}},
    {"timers": {"throughput": {"enabled": True, "synchronized": False}}},
    {"tensor_parallel": {"autotp_size": 1}},
    {"sequence_parallel_size": 1},
    {"vocabulary_size": 50304},
    {"autotuning": {"enabled": False, "metric": "throughput", "fast": False}},
    {"train_steps": 1000, "my_own_key": {"a": [1]}},
    {"dataloader_drop_last": True},
    {"seq_parallel_communication_data_type": "fp32"},
)


def rich(rng: Random, release: str, world_size: int) -> Config:
    """A config such as people write, of what the release reads."""
    config: Config = batch(rng, world_size)
    config |= precision(rng, release)
    if rng.random() < 0.8:
        config["zero_optimization"] = zero(rng)
    if rng.random() < 0.7:
        config["optimizer"] = copied(rng.choice(OPTIMIZERS))
    if rng.random() < 0.5:
        config["scheduler"] = copied(rng.choice(SCHEDULERS))
    for extra in rng.sample(EXTRAS, rng.choice((0, 1, 2, 3, 6))):
        config |= copied(extra)
    return keyspace.prune(config, release)


def small(rng: Random, release: str, world_size: int) -> Config:
    """The batch keys and hardly more."""
    config = batch(rng, world_size)
    if order(release) < NO_ZERO_WITHOUT_FP16:
        config["fp16"] = {"enabled": True}
    if rng.random() < 0.3:
        config["zero_optimization"] = {"stage": rng.choice((0, 1, 2, 3))}
    return config


def copied(value: Any) -> Any:
    """A copy of the value that shares no container with it."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


GROUP: Config = {"group_one": {"params": {"dense_ratio": 0.5}, "modules": ["attention.self"]}}
GROUPS: Config = {"start_bits": 8, "target_bits": 4, "quantization_period": 50}
SCHEDULE: Config = {"total_curriculum_step": 15_000, "difficulty_step": 8}
CURRICULUM: Config = {"min_difficulty": 8, "max_difficulty": 1024, "schedule_type": "fixed_linear"}
HOSTS: dict[tuple[str, ...], Config] = {
    ("elasticity",): {
        "elasticity": {
            "enabled": True,
            "max_train_batch_size": 2000,
            "micro_batch_sizes": [2, 4, 6],
            "min_gpus": 1,
            "max_gpus": 10_000,
            "min_time": 20,
            "version": 0.1,
        }
    },
    ("fp16",): {"fp16": {"enabled": True}},
    ("bf16",): {"bf16": {"enabled": True}},
    ("amp",): {"amp": {"enabled": True, "opt_level": "O1"}},
    ("optimizer", "params"): {"optimizer": {"type": "Adam", "params": {"lr": 1e-3}}},
    ("scheduler", "params"): {"scheduler": {"type": "WarmupLR", "params": {}}},
    ("compression_training", "weight_quantization"): {
        "compression_training": {
            "weight_quantization": {
                "shared_parameters": {"enabled": True, "schedule_offset": 0, "quantize_groups": 1},
                "different_groups": {"group_one": {"params": GROUPS, "modules": ["attention.self"]}},
            }
        }
    },
    ("compression_training", "activation_quantization"): {
        "compression_training": {
            "activation_quantization": {
                "shared_parameters": {"enabled": True, "schedule_offset": 50},
                "different_groups": {"group_one": {"params": {"bits": 8}, "modules": ["attention.self"]}},
            }
        }
    },
    **{
        ("compression_training", name): {
            "compression_training": {
                name: {
                    "shared_parameters": {
                        "enabled": True,
                        "schedule_offset": 100,
                        "method": "topk",
                        "num_heads": 12,
                    },
                    "different_groups": GROUP,
                }
            }
        }
        for name in ("sparse_pruning", "row_pruning", "head_pruning", "channel_pruning")
    },
    ("compression_training", "layer_reduction"): {
        "compression_training": {"layer_reduction": {"enabled": True, "keep_number_layer": 5}}
    },
    ("curriculum_learning",): {
        "curriculum_learning": CURRICULUM
        | {"enabled": True, "curriculum_type": "seqlen", "schedule_config": SCHEDULE}
    },
    ("data_efficiency", "data_sampling"): {
        "data_efficiency": {
            "enabled": True,
            "seed": 1234,
            "data_sampling": {
                "enabled": True,
                "curriculum_learning": {
                    "enabled": True,
                    "curriculum_metrics": {"group_one": CURRICULUM | {"schedule_config": SCHEDULE}},
                },
                "dynamic_batching": {"enabled": True, "max_tokens": 4096},
            },
        }
    },
    ("data_efficiency", "data_routing"): {
        "data_efficiency": {
            "enabled": True,
            "data_routing": {
                "enabled": True,
                "random_ltd": {"enabled": True, "total_layer_num": 24, "random_ltd_layer_num": 22},
            },
        }
    },
    ("eigenvalue",): {"eigenvalue": {"enabled": True, "layer_name": "bert.encoder.layer", "layer_num": 12}},
    ("quantize_training",): {"quantize_training": {"enabled": True}},
    ("progressive_layer_drop",): {"progressive_layer_drop": {"enabled": True, "theta": 0.5, "gamma": 0.001}},
    ("nebula",): {"nebula": {"enabled": True, "persistent_storage_path": "/checkpoints"}},
    ("checkpoint", "writer"): {"checkpoint": {"writer": {"type": "FAST", "data_parallel": "REPLICA"}}},
    ("autotuning",): {"autotuning": {"enabled": True, "results_dir": "results", "exps_dir": "exps"}},
    ("flops_profiler",): {"flops_profiler": {"enabled": True}},
    ("expert_parallel",): {"expert_parallel": {"enabled": True, "autoep_size": 1}},
    ("zero_optimization", "offload_optimizer"): {
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}
    },
    ("zero_optimization", "offload_param"): {
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}
    },
    ("zero_optimization",): {"zero_optimization": {"stage": 2}},
}
"""For a section: what makes DeepSpeed read the keys in it."""
SPARSE_MODES = ("dense", "fixed", "variable", "bigbird", "bslongformer")


def host(rng: Random, release: str, world_size: int, path: tuple[Step, ...]) -> Config:
    """A small config in which the key at `path` is looked at."""
    config = small(rng, release, world_size)
    for depth in range(len(path), 0, -1):
        found = HOSTS.get(tuple(map(str, path[:depth])))
        if found is not None and rng.random() < 0.85:
            config |= copied(found)
            break
    if path[0] == "sparse_attention":
        config["sparse_attention"] = {"mode": rng.choice(SPARSE_MODES)}
    if "elasticity" in config and rng.random() < 0.9:
        config = {name: value for name, value in config.items() if name not in BATCH_KEYS}
    return config
