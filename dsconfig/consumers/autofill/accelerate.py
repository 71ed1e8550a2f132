"""What Accelerate fills, for scripts and for the Trainer: as the plugin is made, and in `prepare`."""

from __future__ import annotations

import math

from dsconfig.consumers.autofill.buckets import ZERO, fill_buckets
from dsconfig.consumers.autofill.filling import Filling
from dsconfig.consumers.autofill.log import Message
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN

_PRECISION = "mixed precision"
_BATCH = "micro batch × accumulation steps × data-parallel ranks"


def make_plugin(filling: Filling, precision: str | None, *, sure: bool = True) -> None:
    """Source: accelerate utils/dataclasses.py, DeepSpeedPlugin.__post_init__ and set_mixed_precision.

    `sure`: whether the precision is known, and not only likely.
    """
    args = filling.args
    if STEPS not in filling.config:
        filling.insert(STEPS, 1, "a constant")
    if ZERO not in filling.config:
        filling.refuse(f"accelerate refuses a config without `{ZERO}`: write it, if only with stage 0", ZERO)
    for entry in filling.consumer.fills:
        if entry.stage == "plugin" and entry.origin in args.defaults:
            value = args.written.get(entry.origin, args.defaults[entry.origin])
            filling.fill(entry.key, value, entry.origin)
    if precision is None:
        filling.fill("fp16.enabled", None, _PRECISION)
        filling.fill("bf16.enabled", None, _PRECISION)
    else:
        _set_precision(filling, precision, sure=sure)
    text = "accelerate sets `steps_per_print` to infinity, which JSON has no word for: it is as written here"
    filling.messages.append(Message("note", text, "steps_per_print"))


def _set_precision(filling: Filling, precision: str, *, sure: bool) -> None:
    wanted = {"fp16": precision == "fp16", "bf16": precision == "bf16"}
    wanted["bf16"] |= precision == "fp8" and filling.consumer.does("fp8")
    for name, other in (("fp16", "bf16"), ("bf16", "fp16")):
        block = filling.config.get(other)
        enabled = block.get("enabled") if isinstance(block, dict) else None
        if sure and wanted[name] and str(enabled).lower() == "true":
            text = f"mixed precision {precision} is refused, because `{other}.enabled` is true"
            filling.refuse(text, f"{other}.enabled")
    for name, on in wanted.items():
        if name not in filling.config:
            block = {"enabled": True, "auto_cast": True} if on and name == "fp16" else {"enabled": on}
            filling.insert(name, block, f"{_PRECISION} {precision}")
        filling.fill(f"{name}.enabled", on, f"{_PRECISION} {precision}")


def prepare(filling: Filling, ranks: int | None, sp: int) -> None:
    """Source: Accelerator._prepare_deepspeed, which the Trainer goes through too."""
    args = filling.args
    if MICRO not in filling.config and not filling.consumer.does("no_micro"):
        filling.refuse(f"accelerate refuses a config without `{MICRO}`", MICRO)
    if filling.given:
        filling.fill(STEPS, args.whole("gradient_accumulation_steps"), "gradient_accumulation_steps")
        micro = args.whole("per_device_train_batch_size")
        if micro is not None and filling.consumer.name == "accelerate" and args.flag("split_batches"):
            micro = None if ranks is None else micro // ranks
        filling.fill(MICRO, micro, "per_device_train_batch_size")
        if not filling.consumer.does("accumulation"):
            _overwrite_steps(filling)
    else:
        micro = None
    if micro is None or filling.consumer.does("own_micro"):
        micro = filling.config.get(MICRO)
    steps = filling.config.get(STEPS)
    if type(micro) is int and type(steps) is int and ranks is not None:
        sp = sp if filling.consumer.does("sequence_parallel") else 1
        batch = micro * steps * ranks // sp
        filling.fill(TRAIN, batch, _BATCH)
        if sp > 1 and filling.config.get(TRAIN) != batch:
            filling.insert(TRAIN, batch, _BATCH)
    elif ranks is None:
        filling.fill(TRAIN, None, _BATCH)
    fill_buckets(filling, all_stages=True)
    if filling.consumer.name == "accelerate":
        _fill_dummies(filling, ranks)
    filling.fill("gradient_clipping", args.number("gradient_clipping") or 1.0, "gradient_clipping, else 1.0")


def _overwrite_steps(filling: Filling) -> None:
    """Before 0.23 it was the Accelerator that said how many steps, whatever the config did."""
    own = filling.args.whole("gradient_accumulation_steps")
    if own is not None and filling.config.get(STEPS) != own:
        filling.insert(STEPS, own, "gradient_accumulation_steps, which comes before the config's")


def _fill_dummies(filling: Filling, ranks: int | None) -> None:
    """Fill from DummyOptim and DummyScheduler, which stand for the config's optimizer and scheduler."""
    args = filling.args
    rate = args.number("learning_rate")
    if "optimizer" in filling.config:
        filling.fill("optimizer.params.lr", rate, "learning_rate (DummyOptim)")
        decay = args.number("weight_decay")
        filling.fill("optimizer.params.weight_decay", decay, "weight_decay (DummyOptim)")
    else:
        filling.insert("zero_allow_untested_optimizer", True, "no `optimizer` in the config")
    total = args.steps()
    if total is not None and not args.flag("split_batches"):
        total = None if ranks is None else math.ceil(total / ranks)
    filling.fill("scheduler.params.warmup_min_lr", 0, "0")
    filling.fill("scheduler.params.warmup_max_lr", rate, "learning_rate (DummyOptim)")
    given = args.number("warmup_steps")
    warmup = None if given is None else max(1 if filling.consumer.does("warm_up") else 0, int(given))
    filling.fill("scheduler.params.warmup_num_steps", warmup, "warmup_steps (DummyScheduler)")
    filling.fill("scheduler.params.total_num_steps", total, "max_steps / processes (DummyScheduler)")
