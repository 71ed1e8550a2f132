"""What the Trainer of Transformers fills: from its arguments first, then from the model.

Source: transformers integrations/deepspeed.py, HfTrainerDeepSpeedConfig.
"""

from __future__ import annotations

from dsconfig.consumers.autofill.buckets import ZERO, fill_buckets
from dsconfig.consumers.autofill.filling import Filling
from dsconfig.consumers.autofill.log import Filled
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN


def fill_from_arguments(filling: Filling, ranks: int | None) -> None:
    """Source: HfTrainerDeepSpeedConfig.trainer_config_process."""
    args = filling.args
    micro, steps = args.whole("per_device_train_batch_size"), args.whole("gradient_accumulation_steps")
    rate = args.number("learning_rate")
    fp16, bf16 = args.flag("fp16", "fp16_full_eval"), args.flag("bf16", "bf16_full_eval")
    finds = bool(args.flag("auto_find_batch_size")) and filling.consumer.does("find_batch")
    for key, value in (
        (MICRO, micro),
        (STEPS, steps),
        (TRAIN, ranks * micro * steps if ranks and micro and steps else None),
        ("gradient_clipping", args.number("max_grad_norm")),
        ("optimizer.params.lr", rate),
        ("optimizer.params.betas", [args.number("adam_beta1"), args.number("adam_beta2")]),
        ("optimizer.params.eps", args.number("adam_epsilon")),
        ("optimizer.params.weight_decay", args.number("weight_decay")),
        ("scheduler.params.warmup_min_lr", 0),
        ("scheduler.params.warmup_max_lr", rate),
        ("fp16.enabled", fp16),
        ("bf16.enabled", bf16),
    ):
        filling.fill_from_table(key, value, compared=not (finds and key in (MICRO, TRAIN)))
    for name, value in filling.likely.items():
        filling.fill(f"{name}.enabled", value, f"{name}, which is likely")
    if not filling.consumer.does("no_amp"):  # `fp16_backend` is torch's own unless it is said to be apex
        filling.fill_from_table("amp.enabled", False)
        filling.fill_from_table("amp.opt_level", "O1")
    if args.flag("save_on_each_node") and filling.consumer.does("node_local"):
        filling.config.setdefault("checkpoint", {})["use_node_local_storage"] = True
        filling.filled.append(Filled("checkpoint.use_node_local_storage", True, "save_on_each_node"))


def precision(filling: Filling) -> str | None:
    """The mixed precision that the Trainer asks the plugin of Accelerate for; None where it is not known."""
    if not filling.given:
        return "no"
    fp16, bf16 = (
        filling.likely.get(name) if (flag := filling.args.flag(name)) is None else flag
        for name in ("fp16", "bf16")
    )
    if fp16 and bf16:  # of which the Trainer takes one, before there is a plugin
        return None
    return "fp16" if fp16 else "bf16" if bf16 else None if fp16 is None or bf16 is None else "no"


def fill_from_model(filling: Filling) -> None:
    """Source: HfTrainerDeepSpeedConfig.trainer_config_finalize."""
    zero = filling.config.get(ZERO)
    stage = zero.get("stage") if isinstance(zero, dict) else None
    fill_buckets(filling, all_stages=stage == 3)
    if filling.given:
        total = filling.args.steps()
        filling.fill_from_table("scheduler.params.total_num_steps", total)
        filling.fill_from_table(
            "scheduler.params.warmup_num_steps",
            filling.args.warmup(total, least=1 if filling.consumer.does("warm_up") else 0),
        )
    if "optimizer" not in filling.config:
        filling.insert("zero_allow_untested_optimizer", True, "no `optimizer` in the config")
    elif "scheduler" not in filling.config and _needs_scheduler(filling):
        filling.refuse("transformers refuses an `optimizer` without a `scheduler`", "scheduler")


def _needs_scheduler(filling: Filling) -> bool:
    return filling.consumer.does("plugin") and not filling.consumer.does("own_schedule")
