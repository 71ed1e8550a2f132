"""What the walk refused, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import EffectName
from dsconfig.evaluation.coercion import Why
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk_events import KnownKey, Refusal
from dsconfig.model.keyinfo import child_section
from dsconfig.rules.types._inactive_sections import dormant

if TYPE_CHECKING:
    pass


def refusals(ctx: Context, *why: Why) -> Iterator[Refusal]:
    """The refused values with one of these reasons; those of sections are left to `misshapen-section`.

    There are as many as are listed of each effect.
    """
    many: dict[tuple[str, EffectName], int] = {}
    for found in ctx.walk.refused:
        if found.verdict.why not in why or is_section(found):
            continue
        if found.value == "auto" and found.section.dialect == "hand":  # `unfilled-auto` reports that
            continue
        kind = found.section.dialect, effect_of(ctx, found)
        many[kind] = many.get(kind, 0) + 1
        if many[kind] <= ctx.most:
            yield found
        else:
            ctx.cut = True


def is_section(found: Refusal) -> bool:
    """Whether a section belongs where the value stands."""
    return child_section(found.key.type) is not None


def effect_of(ctx: Context, found: KnownKey | Refusal) -> EffectName:
    """What becomes of a value that is not what the code behind the key expects."""
    if found.section.dialect != "hand":
        return "rejected"
    return found.key.info.wrong_type or ("ignored" if dormant(ctx, found.path) else "crashes")


def stops(ctx: Context, found: Refusal) -> bool:
    """Whether nothing can run with the value as it is written."""
    return effect_of(ctx, found) in ("rejected", "crashes")


def unchecked(ctx: Context, found: Refusal) -> str:
    """The end of a message on a value that passes when the file is loaded."""
    if effect_of(ctx, found) == "rejected":
        return ""
    return "; DeepSpeed does not check it when it loads the file"
