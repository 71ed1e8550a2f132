"""Values that a key rejects or converts: JSON types, bounds, enums, quoted numbers, unresolved "auto"."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import EffectName, Fix, Remove, Set
from dsconfig.core.json_types import Json, KeyPath, Spec
from dsconfig.core.wording import described, expected, kind, one_of, quoted
from dsconfig.evaluation.coercion import Why
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.key_walk import Coercion, KnownKey, Refusal
from dsconfig.evaluation.rule import rule
from dsconfig.model.key import HALF, SCRIPT
from dsconfig.model.keyinfo import along, child_section
from dsconfig.rules._effective_values import model_format
from dsconfig.rules._suggest_section import named

# What the walk refused, and what becomes of it.

if TYPE_CHECKING:
    pass


def refusals(ctx: Context, *why: Why) -> Iterator[Refusal]:
    """The refused values with one of these reasons; those of sections are left to `section-not-an-object`.

    There are as many as are listed of each effect.
    """
    many: dict[tuple[str, EffectName], int] = {}
    for found in ctx.walk.refused:
        if found.verdict.why not in why or is_section(found):
            continue
        if found.value == "auto" and found.section.dialect == "hand":  # `unresolved-auto` reports that
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


# Sections that may stay closed: a wrong value in there stops nothing for sure.
#
# The general rules of types say `crashes` only of a value that the engine certainly meets. Where a switch
# is off, or where only a certain kind of model or a call in the script opens the section, what is written
# has no effect until then; the rules of the domain know the rest.


def dormant(ctx: Context, path: KeyPath) -> bool:
    """Whether it is not certain that an engine looks at the path."""
    opener = next((info.opened_by for info in along(path[:2]) if info.opened_by), None)
    if opener is None or len(path) < 2 or path[-1] == "enabled":
        return False
    try:
        return not _opens(ctx, opener)
    except SkipRule:
        return True


def _opens(ctx: Context, opener: str) -> bool:
    if opener == HALF:
        return model_format(ctx) != "fp32"
    return opener != SCRIPT and ctx.on(opener)


# Values of another JSON type than the key takes: numbers, fractions, null, sections.

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC110", effect="rejected", source=_STRICT, general=True)
def wrong_type(ctx: Context) -> Iterator[Finding]:
    """A value is of another JSON type than the key takes.

    Sections that DeepSpeed declares with pydantic refuse such a value as soon as the file is loaded. Sections
    that it reads by hand take it unseen, and the code that needs a number or a list fails later, often after
    the model has been loaded on every GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": [3]}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 3}}
    """
    for found in refusals(ctx, "type"):
        verdict = found.verdict
        yield ctx.at(
            found.place,
            f"{named(found.place)} is {kind(verdict.value)}, {quoted(verdict.value)}, where DeepSpeed "
            f"expects {expected(verdict.expected)}{unchecked(ctx, found)}",
            help=f"give {expected(verdict.expected)}",
            effect=effect_of(ctx, found),
        )


@rule("DSC114", effect="rejected", source=_STRICT, general=True)
def fractional_integer(ctx: Context) -> Iterator[Finding]:
    """A number with a fraction stands where an integer belongs.

    Often the result of a formula such as 0.9 × hidden size², as older Transformers documentation proposed for
    `stage3_prefetch_bucket_size`. From 0.15.0 on DeepSpeed refuses it; before, it cut the fraction off.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494.4}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494}}
    """
    for found in refusals(ctx, "fraction"):
        verdict = found.verdict
        whole = int(verdict.value) or 1  # below 1, 0 would often be refused as well
        yield ctx.at(
            found.place,
            f"{named(found.place)} is {quoted(verdict.value)}, but must be {expected(verdict.expected)}",
            help=f"round it, for example to {quoted(whole)}",
            effect="altered" if found.section.dialect == "hand" else "rejected",
            fix=Fix(f"cut the fraction off: {quoted(whole)}", (Set(found.place, whole),)),
        )


@rule("DSC116", effect="rejected", source=_STRICT, general=True)
def null_value(ctx: Context) -> Iterator[Finding]:
    """A key is null where DeepSpeed needs a value.

    Leaving the key out gives its default; null does not.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_scatter": null}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {}}
    """
    for found in refusals(ctx, "null"):
        verdict = found.verdict
        default = found.key.default
        yield ctx.at(
            found.place,
            f"{named(found.place)} is `null` where DeepSpeed expects {expected(verdict.expected)}"
            f"{unchecked(ctx, found)}",
            help=f"give {expected(verdict.expected)}"
            if found.key.info.required
            else "remove the key" + (f": the default is {quoted(default)}" if default is not None else ""),
            effect=effect_of(ctx, found),
            fix=Fix("remove the key", (Remove(found.path),), safe=stops(ctx, found))
            if not verdict.at and not found.key.info.required
            else None,
        )


@rule("DSC118", effect="rejected", source=_STRICT)
def section_not_an_object(ctx: Context) -> Iterator[Finding]:
    """A section is not an object.

    A section that is `null`, `false` or `"auto"` is not "off": DeepSpeed opens it all the same and fails.
    Leave the section out to switch it off. The few sections that take `null` are not reported.

    Bad:

        {"train_batch_size": 8, "fp16": false}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}}
    """
    for found in ctx.walk.refused:
        if is_section(found):
            # Transformers and Accelerate refuse a config without it.
            needed = found.path == ("zero_optimization",) and ctx.plugged
            off = found.value in (None, False) and not needed
            yield ctx.at(
                found.path,
                f"{named(found.path)} is {described(found.value)} where DeepSpeed expects an object",
                help="remove the section to leave it at its defaults"
                if off
                else 'write `{"stage": 0}`'
                if needed
                else "write an object with its keys",
                fix=Fix("remove the section", (Remove(found.path),), safe=True) if off else None,
            )


# Values out of bounds, and words that the key does not know.


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


# Values that DeepSpeed turns into others, and quoted ones that it does not read.


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


# "auto" that nobody fills.


@rule(
    "DSC117", effect="altered", source="runtime/config_utils.py:DeepSpeedConfigModel.__init__", general=True
)
def unresolved_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and nobody fills it.

    "auto" is Transformers' and Accelerate's: they put a number there before DeepSpeed sees the config.
    DeepSpeed itself drops the key in its strict sections, so that the default applies (stage "auto" is stage
    0, fp16 "auto" is off), and takes the text as it is everywhere else.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": "auto"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    for entry in ctx.walk.autos:
        unfilled = f'{named(entry.path)} is `"auto"`, which nobody fills here'
        if entry.section.drops_auto:
            default = f", {quoted(entry.key.default)}" if entry.key.default is not None else ""
            yield ctx.at(
                entry.path,
                f"{unfilled}: DeepSpeed drops the key and uses its default{default}",
                help=_auto_help(entry),
            )
        elif entry.key.type != ("bool",):
            yield ctx.at(
                entry.path,
                f"{unfilled}: DeepSpeed takes the text as it is where it needs {expected(entry.key.type)}",
                help=_auto_help(entry),
                effect=effect_of(ctx, entry),
            )


def _auto_help(entry: KnownKey) -> str:
    fillers = entry.key.info.fills
    if fillers:
        return (
            f"give a value, or check with `--consumer {fillers[0]}` if {' or '.join(fillers)} reads the file"
        )
    taken = "" if entry.key.type == ("never",) else f"give {expected(entry.key.type)}, or "
    return f"{taken}remove the key"
