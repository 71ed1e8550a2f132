"""The smallest changes with which a config fits a GPU, the cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.resolving.errors import ResolveError
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.json_types import Json, JsonObject
    from dsconfig.sizing.estimate import Estimate

ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE = 50_000_000, 100_000_000
MOST_RANKS = 4096


@dataclass(frozen=True, slots=True)
class Change:
    """One change: values of the config, or checkpointing in the script."""

    told: str
    values: Mapping[str, Json]
    checkpointing: bool = False


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
        changes: list[Json] = [
            {
                "told": change.told,
                "set": dict(change.values),
                "checkpointing": change.checkpointing,
                "bound": bound,
            }
            for change, bound in self.changes
        ]
        return {"fits": self.fits, "changes": changes, "world_size": self.ranks}


Compute = Callable[[Mapping[str, "Json"], bool, int], "Estimate"]
"""An estimate with these values written first, checkpointing or not, on so many ranks."""


def ladder(values: Mapping[str, Json], checkpointing: bool) -> Iterator[Change]:
    """Changes in the order of what they cost in speed; `values`: what counts today."""

    def count(key: str) -> int:
        value = values.get(key)
        return int(value) if isinstance(value, (int, float)) else 0

    stage = count(f"{ZERO}stage")
    if count(f"{ZERO}reduce_bucket_size") > SMALL_BUCKET and stage:
        yield _set({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    live = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
    if stage == 3 and any(count(key) > FEW_LIVE for key in live):
        yield _set(dict.fromkeys(live, FEW_LIVE))
    micro, steps = count("train_micro_batch_size_per_gpu"), max(1, count("gradient_accumulation_steps"))
    while micro > 1 and micro % 2 == 0:
        micro, steps = micro // 2, steps * 2
        yield _set({"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps})
    if not checkpointing:
        yield Change("checkpoint activations in the script", {}, checkpointing=True)
    for higher in range(stage + 1, 4):
        yield _set({f"{ZERO}stage": higher})
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
        values = {key: value for change in chosen for key, value in change.values.items()}
        try:
            found = compute(values, any(change.checkpointing for change in chosen), ranks)
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
