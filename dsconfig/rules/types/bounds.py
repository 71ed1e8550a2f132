"""Values out of bounds, and words that the key does not know."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import expected, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk_events import Refusal
from dsconfig.rules._suggest_section import named
from dsconfig.rules.types._refused_values import effect_of, refusals, stops, unchecked

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC111", effect="rejected", source=_STRICT, general=True)
def out_of_bounds(ctx: Context) -> Iterator[Finding]:
    """A number is smaller or larger than the key allows.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": -1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": 1000000000}}
    """
    for found in refusals(ctx, "bound"):
        verdict = found.verdict
        if found.path == ("gradient_clipping",):  # `negative-gradient-clipping` reports that
            continue
        yield ctx.at(
            found.place,
            f"{named(found.place)} is {quoted(verdict.value)}, but must be {expected(verdict.expected)}"
            f"{unchecked(ctx, found)}",
            help=f"give {expected(verdict.expected)}",
            effect=effect_of(ctx, found),
        )


@rule("DSC112", effect="rejected", source=_STRICT, general=True)
def unknown_value(ctx: Context) -> Iterator[Finding]:
    """A value is not one of those that the key knows.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    for found in refusals(ctx, "member"):
        verdict = found.verdict
        members = verdict.expected[1:]
        if "fold_case" in found.key.info.flags and str(verdict.value).lower() in _folded(members):
            continue
        meant = _same_word(verdict.value, members)
        yield ctx.at(
            found.place,
            f"{named(found.place)} is {quoted(verdict.value)}, but DeepSpeed knows only "
            f"{one_of(_short(members), 'and')}{unchecked(ctx, found)}",
            help=f"write {quoted(meant)}" if meant is not None else f"use {one_of(_short(members)[:_MANY])}",
            effect=effect_of(ctx, found),
            fix=_replace(ctx, found, meant) if meant is not None else None,
        )


_MANY = 8
"""Nobody reads a longer list."""


def _short(members: tuple[Json, ...]) -> tuple[Json, ...]:
    """Of many members only the plain words: `bf16`, without `torch.bfloat16`."""
    plain = tuple(member for member in members if "." not in str(member))
    return plain if len(members) > _MANY and plain else members


def _folded(members: tuple[Json, ...]) -> set[str]:
    return {str(member).lower() for member in members}


def _same_word(value: Json, members: tuple[Json, ...]) -> Json:
    """The member that differs in case or in spaces around it alone, or is the same number in another type."""
    word = str(value).strip().lower()
    return next((member for member in members if str(member).lower() == word), None)


def _replace(ctx: Context, found: Refusal, value: Json) -> Fix:
    operations = (Set(found.place, value),)
    return Fix(f"replace by {quoted(value)}", operations, safe=stops(ctx, found))
