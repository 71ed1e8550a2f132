"""What the walk refused, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.dialect import Refused
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk import Event
from dsconfig.model.keyinfo import child_section
from dsconfig.rules.types._dormant import dormant


def refusals(ctx: Context, *why: str) -> Iterator[tuple[Event, Refused]]:
    """The refused values with one of these reasons; those of sections are left to `misshapen-section`."""
    for event in ctx.walk.refused:
        verdict = event.verdict
        if not isinstance(verdict, Refused) or verdict.why not in why or is_section(event):
            continue
        if event.value != "auto" or event.section.dialect != "hand":  # `unfilled-auto` reports that
            yield event, verdict


def is_section(event: Event) -> bool:
    """Whether a section belongs where the value stands."""
    return event.key is not None and child_section(event.key.type) is not None


def name_of(event: Event, verdict: Refused | None = None) -> str:
    """The key in backticks, with the index of the element that was refused."""
    path = (*event.path, *(verdict.at if verdict else ()))
    last = [part for part in path if isinstance(part, str)][-1]
    return f"`{last}`" if last == path[-1] else f"`{last}[{path[-1]}]`"


def effect_of(ctx: Context, event: Event) -> str:
    """What becomes of a value that is not what the code behind the key expects."""
    if event.section.dialect != "hand":
        return "rejected"
    assert event.key is not None
    return event.key.info.wrong_type or ("ignored" if dormant(ctx, event.path) else "crashes")


def stops(ctx: Context, event: Event) -> bool:
    """Whether nothing can run with the value as it is written."""
    return effect_of(ctx, event) in ("rejected", "crashes")


def unchecked(ctx: Context, event: Event) -> str:
    """The end of a message on a value that passes when the file is loaded."""
    return (
        "; DeepSpeed does not check it when it loads the file" if effect_of(ctx, event) != "rejected" else ""
    )
