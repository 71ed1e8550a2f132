"""Smaller micro batches, more steps: in the config, and in the arguments that fill it or must equal it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.launch.located_config import locate
from dsconfig.resolve.asked_config import reading
from dsconfig.resolve.memory_changes import Change, set_to

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document import Document
    from dsconfig.resolve.memory_request import Options
    from dsconfig.resolve.run import Run

ZENFLOW = "zero_optimization.zenflow"
ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}


class Filler(NamedTuple):
    """Who reads the config, and which keys of the batch it leaves to the arguments."""

    reader: str = "deepspeed"
    left: frozenset[str] = frozenset()
    also: Mapping[str, Json] = {}
    """What else to write: the batch, where that of the config does not go with the one asked about."""


def filler_of(document: Document, options: Options, run: Run) -> Filler:
    """As the config and the values to write first leave it."""
    located = locate(document)
    data = reading(located, options.job_of(located)).document.value()
    values = {**(data if isinstance(data, dict) else {}), **(options.set or {})}
    reader = parted(run.consumer)[0]
    left = frozenset(key for key in ARGUMENTS if reader in HUGGING_FACE and values.get(key) == "auto")
    batch = values.get(TRAIN)
    other = isinstance(batch, (int, float)) and batch != run.train_batch_size
    return Filler(reader, left, {TRAIN: run.train_batch_size} if other else {})


def smaller_batches(values: Mapping[str, Json], zenflow: bool, filler: Filler) -> Iterator[Change]:
    """Ever smaller micro batches, and more steps for them; `zenflow`: its intervals count steps."""
    counts = (STEPS, f"{ZENFLOW}.update_interval") if zenflow else (STEPS,)
    micro, steps = count(values, MICRO), max(1, count(values, counts[-1]))
    every = max(1, count(values, f"{ZENFLOW}.select_interval") // steps)
    by_steps = zenflow and values.get(f"{ZENFLOW}.select_strategy") == "step"
    while micro > 1:
        part = next(divisor for divisor in range(2, micro + 1) if micro % divisor == 0)
        micro, steps = micro // part, steps * part
        more = {f"{ZENFLOW}.select_interval": steps * every} if by_steps else {}
        yield _change({MICRO: micro, **dict.fromkeys(counts, steps), **more}, filler)


def count(values: Mapping[str, Json], key: str) -> int:
    """The whole number that a key has; 0 where it has none."""
    value = values.get(key)
    return int(value) if isinstance(value, (int, float)) else 0


def _change(values: Mapping[str, int], filler: Filler) -> Change:
    """The Trainer refuses what differs from its arguments; Accelerate takes what is written."""
    compared = filler.reader == "transformers"
    arguments = {
        ARGUMENTS[key]: value
        for key, value in values.items()
        if key in filler.left or (compared and key in ARGUMENTS)
    }
    whole = {**values, **filler.also}
    kept = {key: value for key, value in whole.items() if key not in filler.left}
    told = [set_to(kept).told] if kept else []
    if arguments:
        named = " and ".join(f"`{name}` to {value}" for name, value in arguments.items())
        told.append(f"set {named} in the {'training arguments' if compared else 'script'}")
    return Change(" and ".join(told), whole, arguments=arguments, left=filler.left)
