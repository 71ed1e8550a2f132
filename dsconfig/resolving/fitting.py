"""The smallest changes with which a config fits a GPU, the cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.launch_file import is_launch_file
from dsconfig.resolving.asked import MICRO, Options, ask
from dsconfig.resolving.errors import ResolveError
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.json_types import Json, JsonObject
    from dsconfig.sizing.estimate import Estimate

BATCH, STEPS = "train_batch_size", "gradient_accumulation_steps"
ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE = 50_000_000, 100_000_000
MOST_RANKS = 4096


@dataclass(frozen=True, slots=True)
class Change:
    """One change: values of the config, or something in the script."""

    told: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False

    def to_dict(self, bound: int) -> JsonObject:
        """As JSON has it, with what is held at most after it."""
        return {
            "told": self.told,
            "set": dict(self.values),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "bound": bound,
        }


@dataclass(frozen=True, slots=True)
class Fit:
    """The changes that were found, with what is held after each; none where nothing had to change.

    `ranks`: where no changes are enough, so many ranks would be; None where not even those.
    """

    fits: bool
    changes: tuple[tuple[Change, int], ...] = ()
    ranks: int | None = None

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        changes: list[Json] = [change.to_dict(bound) for change, bound in self.changes]
        return {"fits": self.fits, "changes": changes, "world_size": self.ranks}


Compute = Callable[[Sequence[Change], int], "Estimate"]
"""An estimate after these changes, on so many ranks."""


def fitted(document: Document, options: Options, room: int) -> Fit:
    """The smallest changes with which a rank holds no more than `room` bytes."""
    written = dict(options.set or {})
    first = ask(document, options)

    def compute(changes: Sequence[Change], ranks: int) -> Estimate:
        values = {key: value for change in changes for key, value in change.values.items()}
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:  # it grows with them
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.accumulation,
                **values,
            }
            values = {**triplet, BATCH: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * ranks}
        return ask(document, _changed(options, changes, {**written, **values}, ranks)).answer()

    changes = list(ladder(first.values.values, first.work.checkpointing, first.setup.zero_init))
    return fit(compute, first.answer(), changes, room)


def _changed(options: Options, changes: Sequence[Change], values: Mapping[str, Json], ranks: int) -> Options:
    checks = any(change.checkpointing for change in changes) or options.checkpointing
    shards = any(change.zero_init for change in changes) or options.zero_init
    micro = None if MICRO in values else options.micro_batch
    return options._replace(
        set=values, checkpointing=checks, zero_init=shards, world_size=ranks, micro_batch=micro
    )


def written(document: Document, found: Fit) -> str:
    """The text of the config with the changes.

    Raises:
        ValueError: there is no place for them, as in a launch file.
    """
    from dsconfig.checking.patches import edited
    from dsconfig.consumers.launchers.follow import job_of
    from dsconfig.diagnostic import Set
    from dsconfig.document.edit import EditError

    if job_of(document) is not None or is_launch_file(document.value()):
        raise ValueError(f"{document.name} is a launch file: -o writes the config that is given itself")
    values = {key: value for change, _ in found.changes for key, value in change.values.items()}
    try:
        operations = [Set(tuple(key.split(".")), value) for key, value in values.items()]
        return edited(document, operations).text if operations else document.text
    except EditError as error:
        raise ValueError(f"{document.name} cannot be changed: {error}") from None


def ladder(values: Mapping[str, Json], checkpointing: bool, in_shards: bool) -> Iterator[Change]:
    """Changes in the order of what they cost in speed; `values`: what counts today."""

    def count(key: str) -> int:
        value = values.get(key)
        return int(value) if isinstance(value, (int, float)) else 0

    stage = count(f"{ZERO}stage")
    shards = Change("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if stage == 3 and not in_shards:
        yield shards
    if count(f"{ZERO}reduce_bucket_size") > SMALL_BUCKET and stage:
        yield _set({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    live = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
    if stage == 3 and any(count(key) > FEW_LIVE for key in live):
        yield _set(dict.fromkeys(live, FEW_LIVE))
    micro, steps = count(MICRO), max(1, count(STEPS))
    while micro > 1 and micro % 2 == 0:
        micro, steps = micro // 2, steps * 2
        yield _set({MICRO: micro, STEPS: steps})
    if not checkpointing:
        yield Change("checkpoint activations in the script", {}, checkpointing=True)
    for higher in range(stage + 1, 4):
        yield _set({f"{ZERO}stage": higher})
        if higher == 3 and not in_shards:
            yield shards
    for section in ("offload_optimizer", "offload_param"):
        if values.get(f"{ZERO}{section}.device") in (None, "none"):
            yield _set({f"{ZERO}{section}": {"device": "cpu"}})


def _set(values: Mapping[str, Json]) -> Change:
    import json

    return Change(
        " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items()), values
    )


def fit(compute: Compute, first: Estimate, changes: Sequence[Change], room: int) -> Fit:
    """The changes of the ladder up to the first that fits, without those that it fits without."""

    def bound(chosen: Sequence[Change], ranks: int = first.world_size) -> int | None:
        try:
            found = compute(chosen, ranks)
        except (ResolveError, NotModelledError):
            return None
        return found.rank.most_bound

    if first.rank.most_bound <= room:
        return Fit(fits=True)
    chosen: list[Change] = []
    for change in changes:
        needed = bound([*chosen, change])
        if needed is None:
            continue
        chosen.append(change)
        if needed <= room:
            for other in reversed(chosen[:-1]):
                fewer = [kept for kept in chosen if kept is not other]
                needed = bound(fewer)
                if needed is not None and needed <= room:
                    chosen = fewer
            return Fit(True, tuple(_after(bound, chosen)))
    ranks = first.world_size * 2
    while ranks <= MOST_RANKS:
        needed = bound(chosen, ranks)
        if needed is not None and needed <= room:
            return Fit(False, tuple(_after(bound, chosen)), ranks)
        ranks *= 2
    return Fit(False, tuple(_after(bound, chosen)))


def _after(
    bound: Callable[[Sequence[Change]], int | None], chosen: list[Change]
) -> Iterator[tuple[Change, int]]:
    """What is held after each change."""
    for number, change in enumerate(chosen):
        yield change, bound(chosen[: number + 1]) or 0
