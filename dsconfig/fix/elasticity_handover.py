"""An `elasticity` block on its way to a release that refuses it: taken out, with its batch in its place.

The block is never thrown away: the caller writes the config that still has it to another file, or keeps it
for `dsconfig elastic`, which takes the block out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.core.diagnostic import Remove, Set
from dsconfig.core.releases import NUMBERS
from dsconfig.document.edit import edited
from dsconfig.fix.migration_types import Choice, Decision
from dsconfig.model.keyinfo import ROOT, section_keys

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Operation
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document

KEY = "elasticity"
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
Solve: TypeAlias = Callable[["JsonObject"], Mapping[str, int]]
"""The batch keys that a release derives from a config with a block; raises ValueError for lack of one."""


class Handover(NamedTuple):
    """A block that the later release refuses, and what it leads to; an empty `batch` is not known."""

    block: JsonObject
    on: bool
    batch: Mapping[str, int]

    def carried_out(self, document: Document, batch: Mapping[str, int] | None = None) -> Document:
        """The document without the block, and with its batch.

        Raises:
            EditError: the text gives no place for it.
        """
        values = self.batch if batch is None else batch
        operations: list[Operation] = [Set((key,), value) for key, value in values.items()]
        return edited(document, (*operations, Remove((KEY,))))

    def looked_past(self, document: Document) -> Document:
        """The document without the block, for a release to judge the rest of it."""
        data = document.value()
        bare = self.on and isinstance(data, dict) and not any(key in data for key in BATCH_KEYS)
        return self.carried_out(document, {BATCH_KEYS[1]: 1} if bare and not self.batch else None)


def handover(data: JsonObject, origin: str, to: str, solve: Solve | None) -> Handover | None:
    """How the config's block is handed over; None where there is none, or it says nothing, or may stay.

    Raises:
        ValueError: the block has no batch, as `solve` says.
    """
    block: Json = data.get(KEY)
    info = section_keys(ROOT)[KEY]
    if NUMBERS[to] < info.refused_from or not isinstance(block, dict) or not block.keys() - {"enabled"}:
        return None
    on = bool(block.get("enabled")) and info.read_in(NUMBERS[origin])
    return Handover(block, on, solve(data) if on and solve is not None else {})


def about_block(handed: Handover | None, origin: str, to: str, *, keep: bool) -> Iterator[Decision]:
    """What is to decide about a block, and the batch that came from it."""
    if handed is None or not handed.on:
        return
    if keep:
        run = Choice(
            "start it with `dsconfig elastic run`", "which takes the block out and writes the batch in"
        )
        why = f"stays, though {to} itself refuses a config that has it"
        yield Decision("batch", (KEY,), None, why, (run,))
        return
    why = f"is handed over, since {to} refuses it: the job is no longer elastic"
    stay = Choice("start the handed-over config with `dsconfig elastic run`", "the job stays elastic")
    fixed = [f"`{key}` {value}" for key, value in handed.batch.items()]
    if fixed:
        means = f"{', '.join(fixed)}, as {origin} has it on these ranks"
        yield Decision("batch", (KEY,), None, why, (Choice("train with the batch as written", means), stay))
        return
    give = Choice("give --world-size N", f"the batch that {origin} takes on N ranks is written in")
    leave = Choice(
        "leave the batch keys as they are", f"{origin} passed over them, and they count from now on"
    )
    yield Decision("batch", (KEY,), None, why, (give, stay, leave))
