"""Values that DeepSpeed turns into others, and quoted ones that it does not read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json, KeyPath, Spec
from dsconfig.core.wording import expected, kind, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk_events import Coercion
from dsconfig.rules._suggest_section import named
from dsconfig.rules.types._refused_values import effect_of, refusals, stops, unchecked

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC113", effect="altered", source=_STRICT, general=True)
def coerced_value(ctx: Context) -> Iterator[Finding]:
    """A value is taken, but as another one than is written.

    Strict sections convert `"3"` to 3 and `"on"` to true; the old releases cut 1.5 down to 1. Sections read
    by hand convert nothing and test for truth, so that `"false"`, a string that is not empty, counts as true.

    Bad:

        {"train_batch_size": 8, "prescale_gradients": "false"}

    Good:

        {"train_batch_size": 8, "prescale_gradients": false}
    """
    for found in ctx.walk.coerced:
        if found.changes_value:
            yield _coerced(ctx, found, found.verdict.value)


def _coerced(ctx: Context, found: Coercion, value: Json) -> Finding:
    by_hand = found.section.dialect == "hand"
    says = _says(found.value)
    wrong = by_hand and says is not None and says != value
    return ctx.at(
        found.path,
        f"{named(found.path)} is {kind(found.value)}, {quoted(found.value)}, and counts as {quoted(value)}"
        + (": DeepSpeed only tests whether it is empty" if wrong else ""),
        help=f"write {quoted(says if wrong else value)}",
        fix=Fix(
            f"replace by {quoted(says if wrong else value)}",
            (Set(found.path, says if wrong else value),),
            safe=not wrong and not _loses(found.value, value),
        ),
    )


def _says(value: Json) -> bool | None:
    """The boolean that a string plainly means."""
    if not isinstance(value, str):
        return None
    return _SAID.get(value.strip(" \t,").lower())  # Hjson takes the comma behind a bare word for a part of it


_SAID = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _loses(written: Json, value: Json) -> bool:
    """Whether more is written than what DeepSpeed makes of it."""
    if isinstance(written, list | dict):
        return True
    return isinstance(written, float) and isinstance(value, int) and written != value


@rule("DSC115", effect="rejected", source=_STRICT, general=True)
def text_for_value(ctx: Context) -> Iterator[Finding]:
    """A number or a boolean stands in quotes, in a form that DeepSpeed does not read.

    `"5e8"` is the usual case: YAML 1.1 takes 5e8 without a dot and a sign for text, and DeepSpeed does not
    read exponents in strings. Keys that DeepSpeed reads by hand take no quoted number at all.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": "5e8"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 500000000}}
    """
    for found in refusals(ctx, "text"):
        verdict = found.verdict
        meant = _meant(verdict.expected, verdict.value)
        path = found.place
        yield ctx.at(
            path,
            f"{named(found.place)} is the string {quoted(verdict.value)}, which DeepSpeed does not read "
            f"as {expected(verdict.expected)}{unchecked(ctx, found)}",
            help=f"write {quoted(meant)}{_as(ctx, path)}{_or_comma(verdict.value)}"
            if meant is not None
            else _instead(verdict.value) + expected(verdict.expected),
            effect=effect_of(ctx, found),
            fix=Fix(f"replace by {quoted(meant)}", (Set(path, meant),), safe=stops(ctx, found))
            if meant is not None
            else None,
        )


def _instead(text: str) -> str:
    is_none = text.strip(" \t,").lower() in ("none", "null")
    return "remove the key to have no value, or give " if is_none else "give "


def _as(ctx: Context, path: KeyPath) -> str:
    """What to leave away; of a YAML text without quotes it is the form that makes it one."""
    document = ctx.document
    quote = "" if document.is_data else document.text[document.span(path).start :][:1]
    if document.format == "yaml" and quote not in ("'", '"'):
        return ": YAML 1.1 reads an exponent as a number only with a dot before it and a sign behind it"
    return ", without quotes"


def _or_comma(text: str) -> str:
    return " or a comma in them" if text.rstrip().endswith(",") else ""


def _meant(spec: Spec, text: str) -> Json:
    """The number or boolean that a string plainly means, or None."""
    if spec[0] == "bool":
        return _says(text)
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if spec[0] == "float":
        return int(text) if text.strip().lstrip("+-").isdecimal() else number
    return int(number) if number.is_integer() and abs(number) < 2**53 else None
