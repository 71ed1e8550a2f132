"""What Transformers and Accelerate make of a config before DeepSpeed sees it, in the order of their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dsconfig.consumers.autofill import accelerate, trainer
from dsconfig.consumers.autofill.filling import Filling, autos
from dsconfig.consumers.autofill.log import Message
from dsconfig.consumers.consumer import Consumer
from dsconfig.consumers.training_args import Arguments
from dsconfig.core.batch_triplet import MICRO
from dsconfig.core.json_types import Json, JsonObject, NamedTuple


class Assumed(NamedTuple):
    """Training arguments that are not known: those without a default, and what some are on most machines."""

    unknown: frozenset[str] = frozenset()
    likely: Mapping[str, Json] = MappingProxyType({})


class MissingArgumentsError(ValueError):
    """A value is to be filled from training arguments, and there are none."""

    def __init__(self, missing: Sequence[str], reason: str, *hints: str) -> None:
        super().__init__(reason)
        self.missing, self.reason, self.hints = tuple(missing), reason, hints


_KNOWN = Assumed()


def fill(
    config: JsonObject,
    consumer: Consumer,
    ranks: int | None,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
    *,
    sp: int = 1,
    assumed: Assumed = _KNOWN,
) -> Filling:
    """Fill a config in place, as the consumer would on `ranks` processes; None: their number is not known.

    Raises:
        MissingArgumentsError: the batch is to be filled from training arguments, which are not given.
        ValueError: a training argument is of the wrong kind.
    """
    args = Arguments(training_args or {}, consumer.defaults, assumed.unknown)
    likely = _likely(config, assumed)
    filling = Filling(config, consumer, args, training_args is not None, model_config, likely)
    if not consumer.fills:
        return filling
    _require_arguments(filling, assumed)
    if consumer.name == "transformers":
        if filling.given:
            trainer.fill_from_arguments(filling, ranks)
        if consumer.does("plugin"):
            accelerate.make_plugin(filling, trainer.precision(filling), sure=not likely)
        trainer.fill_from_model(filling)
    else:
        accelerate.make_plugin(filling, args.text("mixed_precision"))
    if consumer.does("plugin"):
        accelerate.prepare(filling, ranks, sp)
    filling.messages += [_left(key, consumer) for key in autos(config)]
    return filling


def _likely(config: JsonObject, assumed: Assumed) -> Mapping[str, Json]:
    """What unknown arguments may be taken for, where the config does not say that they are something else."""
    likely = {name: value for name, value in assumed.likely.items() if name in assumed.unknown}
    for name, value in likely.items():
        block = config.get(name)
        if isinstance(block, dict) and block.get("enabled") in (True, False) and block["enabled"] != value:
            return {}
    return likely


def _require_arguments(filling: Filling, assumed: Assumed) -> None:
    """Stop where a value is to be filled, and neither training arguments nor a default say with what."""
    consumer = filling.consumer
    if consumer.name == "accelerate":
        filling.given = True  # every argument but the batch size has a default
        name = "per_device_train_batch_size"
        known = filling.args.number(name) is not None or name in assumed.unknown
        missing = [] if known or filling.config.get(MICRO) != "auto" else [MICRO]
    else:
        asked = {entry.key for entry in consumer.fills if entry.stage == "arguments"}
        missing = [] if filling.given else [key for key in autos(filling.config) if key in asked]
    if missing:
        raise MissingArgumentsError(
            missing,
            f"{consumer.name} fills `{'`, `'.join(missing)}` from training arguments, which are not given",
            f"`{missing[0]}` comes from {consumer.origin(missing[0])}",
            "give them as `training_args`",
        )


def _left(key: str, consumer: Consumer) -> Message:
    """What becomes of an "auto" that is left when all steps are done."""
    origin = consumer.origin(key)
    if origin is None and not consumer.does("plugin"):
        return Message("unfilled", f"`{key}` stays `auto`, which {consumer.name} does not fill", key)
    if origin is None:
        text = f"`{key}` is `auto`, which {consumer.name} does not fill: it stops in `prepare`"
        return Message("refused", text, key)
    what = "a model config" if "hidden size" in origin else "the training arguments"
    return Message("unfilled", f"`{key}` stays `auto`: {origin} is not known from {what}", key)
