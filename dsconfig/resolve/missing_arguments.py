"""A run whose training arguments nobody gives: those that take memory are asked for, others have defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.resolve.errors import UnfilledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.resolve.run import Run

PRECISIONS = ("fp16", "bf16")


class Resolved(NamedTuple):
    """A run, and what is assumed of its batch, a line each."""

    run: Run
    assumed: tuple[str, ...] = ()


def resolved(
    resolve: Callable[[Mapping[str, Json] | None], Run], given: Mapping[str, Json] | None
) -> Resolved:
    """The run with the training arguments that are given, or with those that memory does not hang on.

    Raises:
        UnfilledError: the micro batch or the precision is not known; the text asks for these alone.
    """
    try:
        return Resolved(resolve(given))
    except UnfilledError as error:
        config = error.config
        missing = _batch(config) + _precision(error)
        if missing:
            are = "is" if len(missing) == 1 else "are"
            raise UnfilledError(
                missing,
                config,
                f"`{'` and `'.join(missing)}` {are} `auto`, and what is filled in is not known",
                *(_ASKED[key] for key in missing),
                "or give the arguments as `training_args`",
            ) from None
        args = {name: config[key] for key, name in _ARGUMENTS.items() if type(config.get(key)) is int}
        args |= {name: True for name in PRECISIONS if _enabled(config, name) is True}
        args.setdefault(_ARGUMENTS[STEPS], 1)
        default = f"`{STEPS}` is 1, as the training arguments have it by default"
        return Resolved(resolve({**args, **(given or {})}), (default,) * (config.get(STEPS) == "auto"))


_ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}
_ASKED = {
    MICRO: "give `micro_batch`",
    "fp16.enabled": 'give `set={"fp16.enabled": True}`',
    "bf16.enabled": 'give `set={"bf16.enabled": True}`',
}


def _batch(config: JsonObject) -> list[str]:
    """The micro batch, where it or a batch that is made of it is left to the arguments."""
    left = "auto" in (config.get(MICRO), config.get(TRAIN)) and type(config.get(MICRO)) is not int
    return [MICRO] * left


def _precision(error: UnfilledError) -> list[str]:
    """The key to ask for, where the config leaves its precision to the arguments."""
    if any(_enabled(error.config, name) is True for name in PRECISIONS):
        return []
    left = [f"{name}.enabled" for name in PRECISIONS if _enabled(error.config, name) == "auto"]
    return [key for key in left[-1:] if key in error.keys]


def _enabled(config: JsonObject, name: str) -> Json:
    block = config.get(name)
    return block.get("enabled") if isinstance(block, dict) else None
