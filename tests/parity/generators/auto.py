"""Configs full of "auto", and training arguments that fill them."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def generated(source: Random, *, trainer: bool) -> tuple[Config, Config, int]:
    """A config, training arguments (the Trainer's, or those of a loop with Accelerate) and a hidden size."""
    config = _keys(
        source,
        train_micro_batch_size_per_gpu=(4, 8),
        gradient_accumulation_steps=(1, 2),
        train_batch_size=(32, 64),
        gradient_clipping=(1.0, 0.5),
    )
    zero = _zero(source)
    if source.random() < 0.95:
        config["zero_optimization"] = zero
    for name in ("fp16", "bf16"):
        if source.random() < 0.4:
            config[name] = {"enabled": source.choice(("auto", "auto", True, False))}
    config |= _optimizer(source, trainer=trainer)
    if source.random() < 0.6 and (trainer or "optimizer" in config):
        params = _keys(source, warmup_min_lr=(0,), warmup_max_lr=(1e-4,))
        params |= _keys(source, warmup_num_steps=(100,), total_num_steps=(1000,))
        config["scheduler"] = {"type": "WarmupDecayLR", "params": params}
    return config, _arguments(source, trainer=trainer), source.choice((768, 1024))


def _keys(source: Random, share: float = 0.6, **values: tuple[Any, ...]) -> Config:
    """Some of the keys, most of them "auto"."""
    return {
        key: source.choice(("auto", "auto", *some)) for key, some in values.items() if source.random() < share
    }


def _zero(source: Random) -> Config:
    zero = _keys(source, stage=(0, 2, 3), reduce_bucket_size=(1000,), stage3_prefetch_bucket_size=(1000,))
    zero |= _keys(
        source,
        stage3_param_persistence_threshold=(10,),
        stage3_gather_16bit_weights_on_model_save=(True,),
    )
    if source.random() < 0.3:
        zero["offload_optimizer"] = _keys(source, device=("cpu", "none"), nvme_path=("/tmp",))
    return zero


def _optimizer(source: Random, *, trainer: bool) -> Config:
    if source.random() >= 0.6:
        return {}
    params = _keys(source, lr=(1e-4,), weight_decay=(0.0,))
    params |= _keys(source, 0.6 if trainer else 0.1, betas=([0.9, 0.999],), eps=(1e-8,))
    return {"optimizer": {"type": "AdamW", "params": params}}


def _arguments(source: Random, *, trainer: bool) -> Config:
    found = {"per_device_train_batch_size": source.choice((1, 4, 8)), "max_steps": source.choice((500, 1000))}
    given: Config = {
        "gradient_accumulation_steps": (1, 2, 4),
        "learning_rate": (1e-4, 5e-5),
        "weight_decay": (0.0, 0.1),
        "warmup_steps": (0, 100, 0.1) if trainer else (0, 100),
    }
    given |= (
        {"max_grad_norm": (1.0, 0.5), "adam_beta2": (0.95,), "save_on_each_node": (False, True)}
        if trainer
        else {"gradient_clipping": (0.5,), "mixed_precision": ("no", "bf16", "fp16")}
    )
    found |= {key: source.choice(some) for key, some in given.items() if source.random() < 0.6}
    if trainer and source.random() < 0.6:
        found[source.choice(("bf16", "fp16"))] = True
    return found
