"""Simulate step by step how Transformers and Accelerate fill a config before DeepSpeed sees it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.job.consumers.consumer import ConfigConsumer
from dsconfig.job.consumers.training_args import ConsumerArguments, hidden_size

# Results of filling a config: messages, filled values, and mismatches.

MessageKind: TypeAlias = Literal[
    "environment", "overridden", "removed", "written", "unfilled", "refused", "note"
]


@dataclass(frozen=True, slots=True)
class AutofillMessage:
    """A message about how the autofill determined a value."""

    kind: MessageKind
    """`environment`: a variable was used. `overridden`, `removed`, `written`: the config differs from the
    file. `unfilled`: an "auto" remains. `refused`: the consumer will raise. `note`: anything else.
    """
    text: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class FilledValue:
    """A value with which a consumer replaces "auto", or that it adds under a new key."""

    key: str
    value: Json
    origin: str
    """Source of the value: a training argument, the model's hidden size, a constant."""


@dataclass(frozen=True, slots=True)
class ArgumentMismatch:
    """A config value that differs from the training argument to which it must be equal."""

    key: str
    written: Json
    argument: str
    value: Json

    def __str__(self) -> str:
        return f"`{self.key}` is {self.written!r}, but `{self.argument}` is {self.value!r}"


# Config that a consumer fills in place, with a record of the changes.


@dataclass(slots=True)
class AutofillState:
    """The state of filling one config."""

    config: JsonObject
    consumer: ConfigConsumer
    args: ConsumerArguments
    has_arguments: bool
    model: Mapping[str, Json] | None
    likely: Mapping[str, Json] = field(default_factory=dict)
    """Typical values of training arguments that are unknown."""
    filled: list[FilledValue] = field(default_factory=list)
    mismatches: list[ArgumentMismatch] = field(default_factory=list)
    messages: list[AutofillMessage] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """Keys that stay "auto" here because the value that the consumer fills in is unknown."""

    def fill_key(self, key: str, value: Json, origin: str, *, must_match: bool = False) -> None:
        """Replace "auto" with `value`; if they must match, report any other value that differs from it."""
        *sections, last = key.split(".")
        node: Json = self.config
        for section in sections:
            node = node.get(section) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            return
        current = node.get(last)
        if value is None:
            self.unknown |= {key} if current == "auto" else set()
        elif current == "auto" and key not in self.unknown:  # else an earlier step has replaced it already
            node[last] = value
            self.filled.append(FilledValue(key, value, origin))
        elif must_match and current is not None and current != value:
            self.mismatches.append(ArgumentMismatch(key, current, origin, value))

    def fill_from_table(self, key: str, value: Json, *, compared: bool = True) -> None:
        """Fill a key using the origin and matching requirement from the consumer's table.

        `compared`: whether to compare an existing value at all.
        """
        entry = next(entry for entry in self.consumer.fills if entry.key == key)
        self.fill_key(key, value, entry.origin, must_match=entry.must_match and compared)

    def insert_key(self, key: str, value: Json, origin: str) -> None:
        """Add a top-level key that the consumer writes."""
        self.config[key] = value
        self.filled.append(FilledValue(key, value, origin))

    def record_rejection(self, text: str, key: str) -> None:
        """Record that the consumer will raise an error, and why."""
        self.messages.append(AutofillMessage("refused", text, key))


def find_auto_keys(section: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of each "auto" in nested objects, but not in lists."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from find_auto_keys(value, f"{prefix}{key}.")
        elif value == "auto" and isinstance(value, str):
            yield f"{prefix}{key}"


# ZeRO's bucket sizes, which Transformers and Accelerate derive from the model's hidden size.

ZERO = "zero_optimization"
REDUCE, PREFETCH = f"{ZERO}.reduce_bucket_size", f"{ZERO}.stage3_prefetch_bucket_size"
PERSISTENCE = f"{ZERO}.stage3_param_persistence_threshold"


def fill_bucket_sizes(filling: AutofillState, *, all_stages: bool) -> None:
    """Fill ZeRO's bucket sizes; with `all_stages`, also those that only stage 3 uses."""
    does = filling.consumer.includes_change
    nested = filling.consumer.name == "transformers" and does("text_config")
    model = filling.model
    if model is not None and not does("hidden_sizes"):
        model = {name: value for name, value in model.items() if name != "hidden_sizes"}
    hidden = hidden_size(model, nested=nested) if model is not None else None
    filling.fill_key(REDUCE, hidden and hidden * hidden, f"hidden size {hidden}²")
    if all_stages:
        bucket = hidden and 0.9 * hidden * hidden
        rounded = bucket and int(bucket)
        filling.fill_key(
            PREFETCH, rounded if does("whole_bucket") else bucket, f"0.9 × hidden size {hidden}²"
        )
        filling.fill_key(PERSISTENCE, hidden and 10 * hidden, f"10 × hidden size {hidden}")


# Transformers Trainer: fills from its arguments first, then from the model.
#
# Source: transformers integrations/deepspeed.py, HfTrainerDeepSpeedConfig.


def fill_from_arguments(filling: AutofillState, ranks: int | None) -> None:
    """Fill values from the Trainer's arguments (HfTrainerDeepSpeedConfig.trainer_config_process)."""
    args = filling.args
    micro, steps = (
        args.positive_integer("per_device_train_batch_size"),
        args.positive_integer("gradient_accumulation_steps"),
    )
    learning_rate = args.number_argument("learning_rate")
    betas: list[Json] = [args.number_argument("adam_beta1"), args.number_argument("adam_beta2")]
    fp16, bf16 = args.is_any_true("fp16", "fp16_full_eval"), args.is_any_true("bf16", "bf16_full_eval")
    finds_batch_size = bool(args.is_any_true("auto_find_batch_size")) and filling.consumer.includes_change(
        "find_batch"
    )
    for key, value in (
        (MICRO, micro),
        (STEPS, steps),
        (TRAIN, ranks * micro * steps if ranks and micro and steps else None),
        ("gradient_clipping", args.number_argument("max_grad_norm")),
        ("optimizer.params.lr", learning_rate),
        ("optimizer.params.betas", None if None in betas else betas),
        ("optimizer.params.eps", args.number_argument("adam_epsilon")),
        ("optimizer.params.weight_decay", args.number_argument("weight_decay")),
        ("scheduler.params.warmup_min_lr", 0),
        ("scheduler.params.warmup_max_lr", learning_rate),
        ("fp16.enabled", fp16),
        ("bf16.enabled", bf16),
    ):
        filling.fill_from_table(key, value, compared=not (finds_batch_size and key in (MICRO, TRAIN)))
    for name, value in filling.likely.items():
        filling.unknown.discard(f"{name}.enabled")
        filling.fill_key(f"{name}.enabled", value, f"{name}, which is likely")
    if not filling.consumer.includes_change(
        "no_amp"
    ):  # `fp16_backend` is torch's own unless it is said to be apex
        filling.fill_from_table("amp.enabled", False)
        filling.fill_from_table("amp.opt_level", "O1")
    if args.is_any_true("save_on_each_node") and filling.consumer.includes_change("node_local"):
        filling.config.setdefault("checkpoint", {})["use_node_local_storage"] = True
        filling.filled.append(FilledValue("checkpoint.use_node_local_storage", True, "save_on_each_node"))


def trainer_mixed_precision(filling: AutofillState) -> str | None:
    """Return the mixed precision that the Trainer passes to Accelerate, or None if unknown."""
    if not filling.has_arguments:
        return "no"
    fp16, bf16 = (
        filling.likely.get(name) if (flag := filling.args.is_any_true(name)) is None else flag
        for name in ("fp16", "bf16")
    )
    if fp16 and bf16:  # of which the Trainer takes one, before there is a plugin
        return None
    return "fp16" if fp16 else "bf16" if bf16 else None if fp16 is None or bf16 is None else "no"


def fill_from_model(filling: AutofillState) -> None:
    """Fill values from the model and the step count (HfTrainerDeepSpeedConfig.trainer_config_finalize)."""
    zero = filling.config.get(ZERO)
    stage = zero.get("stage") if isinstance(zero, dict) else None
    fill_bucket_sizes(filling, all_stages=stage == 3)
    if filling.has_arguments:
        total = filling.args.training_steps()
        filling.fill_from_table("scheduler.params.total_num_steps", total)
        filling.fill_from_table(
            "scheduler.params.warmup_num_steps",
            filling.args.warmup_steps(total, least=1 if filling.consumer.includes_change("warm_up") else 0),
        )
    if "optimizer" not in filling.config:
        filling.insert_key("zero_allow_untested_optimizer", True, "no `optimizer` in the config")
    elif "scheduler" not in filling.config and _needs_scheduler(filling):
        filling.record_rejection("transformers rejects an `optimizer` without a `scheduler`", "scheduler")


def _needs_scheduler(filling: AutofillState) -> bool:
    return filling.consumer.includes_change("plugin") and not filling.consumer.includes_change("own_schedule")


# Accelerate, for its own scripts and for the Trainer: fills when the plugin is created, and in `prepare`.

_PRECISION = "mixed precision"
_BATCH = "micro batch × accumulation steps × data-parallel ranks"


def fill_from_plugin(filling: AutofillState, precision: str | None, *, sure: bool = True) -> None:
    """Fill the values that Accelerate sets when it creates the plugin.

    Source: accelerate utils/dataclasses.py, DeepSpeedPlugin.__post_init__ and set_mixed_precision.
    """
    args = filling.args
    if STEPS not in filling.config:
        filling.insert_key(STEPS, 1, "a constant")
    if ZERO not in filling.config:
        filling.record_rejection(
            f"accelerate rejects a config without `{ZERO}`: add it, even with stage 0", ZERO
        )
    for entry in filling.consumer.fills:
        if entry.stage == "plugin" and entry.origin in args.defaults:
            value = args.values.get(entry.origin, args.defaults[entry.origin])
            filling.fill_key(entry.key, value, entry.origin)
    if precision is None:
        filling.fill_key("fp16.enabled", None, _PRECISION)
        filling.fill_key("bf16.enabled", None, _PRECISION)
    else:
        _fill_precision(filling, precision, sure=sure)
    text = "accelerate sets `steps_per_print` to infinity, which JSON cannot express; the value of the file is shown"
    filling.messages.append(AutofillMessage("note", text, "steps_per_print"))


def _fill_precision(filling: AutofillState, precision: str, *, sure: bool) -> None:
    enabled_blocks = {"fp16": precision == "fp16", "bf16": precision == "bf16"}
    enabled_blocks["bf16"] |= precision == "fp8" and filling.consumer.includes_change("fp8")
    for name, other in (("fp16", "bf16"), ("bf16", "fp16")):
        block = filling.config.get(other)
        enabled = block.get("enabled") if isinstance(block, dict) else None
        if sure and enabled_blocks[name] and str(enabled).lower() == "true":
            text = f"accelerate rejects mixed precision {precision} because `{other}.enabled` is true"
            filling.record_rejection(text, f"{other}.enabled")
    for name, is_on in enabled_blocks.items():
        if name not in filling.config:
            block = {"enabled": True, "auto_cast": True} if is_on and name == "fp16" else {"enabled": is_on}
            filling.insert_key(name, block, f"{_PRECISION} {precision}")
        filling.fill_key(f"{name}.enabled", is_on, f"{_PRECISION} {precision}")


def fill_in_accelerator_prepare(filling: AutofillState, ranks: int | None, sp: int) -> None:
    """Fill the values that `Accelerator._prepare_deepspeed` sets, also for the Trainer."""
    args = filling.args
    if MICRO not in filling.config and not filling.consumer.includes_change("no_micro"):
        filling.record_rejection(f"accelerate rejects a config without `{MICRO}`", MICRO)
    if filling.has_arguments:
        filling.fill_key(
            STEPS, args.positive_integer("gradient_accumulation_steps"), "gradient_accumulation_steps"
        )
        micro = args.positive_integer("per_device_train_batch_size")
        if micro is not None and filling.consumer.name == "accelerate" and args.is_any_true("split_batches"):
            micro = None if ranks is None else micro // ranks
        filling.fill_key(MICRO, micro, "per_device_train_batch_size")
        if not filling.consumer.includes_change("accumulation"):
            _overwrite_accumulation_steps(filling)
    else:
        micro = None
    if micro is None or filling.consumer.includes_change("own_micro"):
        micro = filling.config.get(MICRO)
    steps = filling.config.get(STEPS)
    if type(micro) is int and type(steps) is int and ranks is not None:
        sp = sp if filling.consumer.includes_change("sequence_parallel") else 1
        batch = micro * steps * ranks // sp
        filling.fill_key(TRAIN, batch, _BATCH)
        if sp > 1 and filling.config.get(TRAIN) != batch:
            filling.insert_key(TRAIN, batch, _BATCH)
    elif ranks is None:
        filling.fill_key(TRAIN, None, _BATCH)
    fill_bucket_sizes(filling, all_stages=True)
    if filling.consumer.name == "accelerate":
        _fill_from_dummy_objects(filling, ranks)
    filling.fill_key(
        "gradient_clipping", args.number_argument("gradient_clipping") or 1.0, "gradient_clipping, else 1.0"
    )


def _overwrite_accumulation_steps(filling: AutofillState) -> None:
    """Overwrite the accumulation steps with those of the `Accelerator`, as Accelerate does before 0.23."""
    accelerator_steps = filling.args.positive_integer("gradient_accumulation_steps")
    if accelerator_steps is not None and filling.config.get(STEPS) != accelerator_steps:
        filling.insert_key(
            STEPS, accelerator_steps, "gradient_accumulation_steps, which comes before the config's"
        )


def _fill_from_dummy_objects(filling: AutofillState, ranks: int | None) -> None:
    """Fill values from DummyOptim and DummyScheduler, which stand for the config's optimizer and scheduler."""
    args = filling.args
    learning_rate = args.number_argument("learning_rate")
    if "optimizer" in filling.config:
        filling.fill_key("optimizer.params.lr", learning_rate, "learning_rate (DummyOptim)")
        decay = args.number_argument("weight_decay")
        filling.fill_key("optimizer.params.weight_decay", decay, "weight_decay (DummyOptim)")
    else:
        filling.insert_key("zero_allow_untested_optimizer", True, "no `optimizer` in the config")
    total = args.training_steps()
    if total is not None and not args.is_any_true("split_batches"):
        total = None if ranks is None else math.ceil(total / ranks)
    filling.fill_key("scheduler.params.warmup_min_lr", 0, "0")
    filling.fill_key("scheduler.params.warmup_max_lr", learning_rate, "learning_rate (DummyOptim)")
    warmup_steps = args.number_argument("warmup_steps")
    warmup = (
        None
        if warmup_steps is None
        else max(1 if filling.consumer.includes_change("warm_up") else 0, int(warmup_steps))
    )
    filling.fill_key("scheduler.params.warmup_num_steps", warmup, "warmup_steps (DummyScheduler)")
    filling.fill_key("scheduler.params.total_num_steps", total, "max_steps / processes (DummyScheduler)")


# Lightning, which adds the batch that its Trainer and data loader have.


def add_lightning_batch(filling: AutofillState) -> None:
    """Add the data loader's micro batch and the Trainer's accumulation steps, unless the config sets them.

    Source: lightning pytorch/strategies/deepspeed.py,
    DeepSpeedStrategy._format_batch_size_and_grad_accum_config.

    Raises:
        MissingArgumentsError: the batch depends on the data loader or the Trainer, whose values are not given.
    """
    arguments = {MICRO: "per_device_train_batch_size", STEPS: "accumulate_grad_batches"}
    values = {
        key: filling.args.positive_integer(name) if filling.has_arguments else None
        for key, name in arguments.items()
    }
    missing = [key for key in arguments if key not in filling.config and values[key] is None]
    if missing:
        sources = {
            MICRO: "the batch size of the data loader",
            STEPS: "the Trainer's `accumulate_grad_batches`",
        }
        names = " and ".join(f"`{arguments[key]}`" for key in missing)
        raise MissingArgumentsError(
            missing,
            f"lightning sets {' and '.join(f'`{key}` to {sources[key]}' for key in missing)}, "
            f"which {'is' if len(missing) == 1 else 'are'} not known",
            f"give {names} as `training_args`",
        )
    for key, value in values.items():
        if key not in filling.config:
            filling.insert_key(key, value, arguments[key])


# All steps in order.


class AssumedArguments(NamedTuple):
    """Training arguments with unknown values, and typical values for some of them."""

    unknown: frozenset[str] = frozenset()
    likely: Mapping[str, Json] = MappingProxyType({})


class MissingArgumentsError(ValueError):
    """A value can only be filled from training arguments that were not given."""

    def __init__(self, missing: Sequence[str], reason: str, *hints: str) -> None:
        super().__init__(reason)
        self.missing, self.reason, self.hints = tuple(missing), reason, hints


_NOTHING_ASSUMED = AssumedArguments()


def autofill_config(
    config: JsonObject,
    consumer: ConfigConsumer,
    ranks: int | None,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
    *,
    sp: int = 1,
    assumed: AssumedArguments = _NOTHING_ASSUMED,
) -> AutofillState:
    """Fill a config in place as the consumer would on `ranks` ranks (None if unknown).

    Raises:
        MissingArgumentsError: the batch needs training arguments, and none were given.
        ValueError: a training argument has the wrong type.
    """
    args = ConsumerArguments(training_args or {}, consumer.defaults, assumed.unknown)
    likely = _assumed_values(config, assumed)
    filling = AutofillState(config, consumer, args, training_args is not None, model_config, likely)
    if consumer.name == "lightning":
        add_lightning_batch(filling)
    if not consumer.fills:
        return filling
    _require_arguments(filling, assumed)
    if consumer.name == "transformers":
        if filling.has_arguments:
            fill_from_arguments(filling, ranks)
        if consumer.includes_change("plugin"):
            fill_from_plugin(filling, trainer_mixed_precision(filling), sure=not likely)
        fill_from_model(filling)
    else:
        fill_from_plugin(filling, args.text_argument("mixed_precision"))
    if consumer.includes_change("plugin"):
        fill_in_accelerator_prepare(filling, ranks, sp)
    filling.messages += [_message_about_remaining_auto(key, consumer) for key in find_auto_keys(config)]
    return filling


def _assumed_values(config: JsonObject, assumed: AssumedArguments) -> Mapping[str, Json]:
    """Return the values to assume for unknown arguments, except where the config contradicts them."""
    likely = {name: value for name, value in assumed.likely.items() if name in assumed.unknown}
    for name, value in likely.items():
        block = config.get(name)
        if isinstance(block, dict) and block.get("enabled") in (True, False) and block["enabled"] != value:
            return {}
    return likely


def _require_arguments(filling: AutofillState, assumed: AssumedArguments) -> None:
    """Raise an error if neither training arguments nor a default supply a required value."""
    consumer = filling.consumer
    if consumer.name == "accelerate":
        filling.has_arguments = True  # every argument but the batch size has a default
        name = "per_device_train_batch_size"
        is_known = filling.args.number_argument(name) is not None or name in assumed.unknown
        missing = [] if is_known or filling.config.get(MICRO) != "auto" else [MICRO]
    else:
        argument_keys = {entry.key for entry in consumer.fills if entry.stage == "arguments"}
        missing = (
            []
            if filling.has_arguments
            else [key for key in find_auto_keys(filling.config) if key in argument_keys]
        )
    if missing:
        raise MissingArgumentsError(
            missing,
            f"{consumer.name} fills `{'`, `'.join(missing)}` from training arguments, which are not given",
            f"`{missing[0]}` comes from {consumer.origin_of_value(missing[0])}",
            "give them as `training_args`",
        )


def _message_about_remaining_auto(key: str, consumer: ConfigConsumer) -> AutofillMessage:
    """Return the message about an "auto" that no step of the autofill replaces."""
    origin = consumer.origin_of_value(key)
    if origin is None and not consumer.includes_change("plugin"):
        return AutofillMessage("unfilled", f"`{key}` stays `auto`, which {consumer.name} does not fill", key)
    if origin is None:
        text = f"`{key}` is `auto`, which {consumer.name} does not fill: it stops in `prepare`"
        return AutofillMessage("refused", text, key)
    source = "a model config" if "hidden size" in origin else "the training arguments"
    return AutofillMessage("unfilled", f"`{key}` stays `auto`: {origin} is not known from {source}", key)
