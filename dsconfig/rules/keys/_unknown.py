"""A key that the release does not read in its section, and the likeliest reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dsconfig.diagnostic import dotted
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk import Event
from dsconfig.model.keyinfo import KeyInfo, meant_by, section_keys
from dsconfig.releases import NEVER
from dsconfig.rules._similar import nearest_key
from dsconfig.rules.keys._homes import home_of

Kind = Literal["removed", "future", "dead", "misplaced", "misspelt", "unknown"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A key that the release does not read in this section, and the likeliest reason."""

    event: Event
    kind: Kind
    info: KeyInfo | None = None
    meant: str | None = None

    @property
    def word(self) -> str:
        """The key itself."""
        return str(self.event.path[-1])

    @property
    def parent(self) -> str:
        """The section that it stands in, dotted; empty at the top level."""
        return dotted(self.event.path[:-1])

    @property
    def refused(self) -> bool:
        """Whether DeepSpeed refuses the file.

        Strict sections refuse what they do not know, except for the value "auto", which they drop unseen.
        """
        if self.info is not None and self.kind == "removed" and self.info.refused_from < NEVER:
            return True
        section = self.event.section
        return section.unknown == "rejected" and not (section.drops_auto and self.event.value == "auto")

    @property
    def effect(self) -> str:
        """What becomes of the file, or else of the key."""
        return "rejected" if self.refused else "ignored"

    @property
    def where(self) -> str:
        """Where it stands, for messages."""
        return f"in `{self.parent}`" if self.parent else "at the top level"


def unknowns(ctx: Context, kind: Kind) -> Iterator[Unknown]:
    """The unknown keys of one kind."""
    for event in ctx.walk.unknown:
        found = _classify(ctx, event)
        if found is not None and found.kind == kind:
            yield found


def _classify(ctx: Context, event: Event) -> Unknown | None:
    word = str(event.path[-1])
    if ctx.consumer != "deepspeed" and len(event.path) == 1 and word in _own_keys(ctx.consumer):
        return None
    info = section_keys(event.section.name).get(word)
    if info is not None and ctx.release >= info.refused_from:
        return Unknown(event, "removed", info)
    if event.section.unknown == "kept" or _is_remark(event, word):
        return None
    if info is not None:
        gone = all(last < ctx.release for _, last in info.spans)
        return Unknown(event, "removed" if gone else "future", info)
    dead = meant_by(dotted(event.path))
    if dead is not None:
        return Unknown(event, "dead", meant=dead)
    home = home_of(word, event.path[:-1], ctx.release)
    if home is not None:
        return Unknown(event, "misplaced", meant=home)
    near = nearest_key(word, event.section)
    return Unknown(event, "misspelt", meant=near) if near else Unknown(event, "unknown")


def _own_keys(consumer: str) -> tuple[str, ...]:
    from dsconfig.consumers.by_name import BY_NAME

    return BY_NAME[consumer].own_keys


def _is_remark(event: Event, word: str) -> bool:
    """Keys that people add on purpose where DeepSpeed does not look: `$schema`, `_comment`, `//`."""
    if event.section.unknown == "rejected":
        return False
    return (
        word.startswith(("_", "//", "#"))
        or word.lower() in _REMARKS
        or (len(event.path) == 1 and word in ("$schema", "$dsconfig"))
    )


_REMARKS = frozenset({"comment", "comments", "description", "note", "notes"})


def dropped(found: Unknown) -> str:
    """What DeepSpeed does about the key, for messages."""
    section = found.event.section
    if found.refused:
        return "DeepSpeed refuses the file"
    if section.unknown == "rejected":
        return 'DeepSpeed drops it because its value is "auto"'
    return "DeepSpeed ignores it"
