"""Values of the wrong type: what the release refuses, what it turns into something else, and into what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.dialect import Coerced, Refused
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk import Event
from dsconfig.rules._refusals import effect_of, is_section, name_of, refusals, stops, unchecked
from dsconfig.words import expected, kind, one_of, quoted

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
    for event, verdict in refusals(ctx, "type", "length"):
        yield ctx.at(
            (*event.path, *verdict.at),
            f"{name_of(event, verdict)} is {kind(verdict.value)}, {quoted(verdict.value)}, where DeepSpeed "
            f"expects {expected(verdict.expected)}{unchecked(ctx, event)}",
            help=f"give {expected(verdict.expected)}",
            effect=effect_of(ctx, event),
        )


@rule("DSC111", effect="rejected", source=_STRICT, general=True)
def out_of_bounds(ctx: Context) -> Iterator[Finding]:
    """A number is smaller or larger than the key allows.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": -1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": 1000000000}}
    """
    for event, verdict in refusals(ctx, "bound"):
        if event.path == ("gradient_clipping",):  # of that, `negative-gradient-clipping` speaks
            continue
        yield ctx.at(
            (*event.path, *verdict.at),
            f"{name_of(event, verdict)} is {quoted(verdict.value)}, but must be {expected(verdict.expected)}"
            f"{unchecked(ctx, event)}",
            help=f"give {expected(verdict.expected)}",
            effect=effect_of(ctx, event),
        )


@rule("DSC112", effect="rejected", source=_STRICT, general=True)
def unknown_value(ctx: Context) -> Iterator[Finding]:
    """A value is not one of those that the key knows.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    for event, verdict in refusals(ctx, "member"):
        assert event.key is not None
        members = verdict.expected[1:]
        if "fold_case" in event.key.info.flags and str(verdict.value).lower() in _folded(members):
            continue
        meant = _same_word(verdict.value, members)
        yield ctx.at(
            (*event.path, *verdict.at),
            f"{name_of(event, verdict)} is {quoted(verdict.value)}, but DeepSpeed knows only "
            f"{one_of(_short(members), 'and')}{unchecked(ctx, event)}",
            help=f"write {quoted(meant)}" if meant is not None else f"use {one_of(_short(members)[:_MANY])}",
            effect=effect_of(ctx, event),
            fix=_replace(ctx, event, verdict, meant) if meant is not None else None,
        )


_MANY = 8
"""More than this is no list that anybody reads."""


def _short(members: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of many members only the plain words: `bf16`, without `torch.bfloat16`."""
    plain = tuple(member for member in members if "." not in str(member))
    return plain if len(members) > _MANY and plain else members


def _folded(members: tuple[Any, ...]) -> set[str]:
    return {str(member).lower() for member in members}


def _same_word(value: Any, members: tuple[Any, ...]) -> Any:
    """The member that differs in case or in spaces around it alone, or is the same number in another type."""
    word = str(value).strip().lower()
    return next((member for member in members if str(member).lower() == word), None)


def _replace(ctx: Context, event: Event, verdict: Refused, value: Any) -> Fix:
    operations = (Set((*event.path, *verdict.at), value),)
    return Fix(f"replace by {quoted(value)}", operations, safe=stops(ctx, event))


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
    for event in ctx.walk.coerced:
        verdict = event.verdict
        if isinstance(verdict, Coerced) and not _equal(event.value, verdict.value):
            yield _coerced(ctx, event, verdict.value)


def _equal(written: Any, value: Any) -> bool:
    """The same number in another type (4.0 for 4) is nothing to report."""
    numbers = isinstance(written, int | float) and isinstance(value, int | float)
    return numbers and isinstance(written, bool) == isinstance(value, bool) and written == value


def _coerced(ctx: Context, event: Event, value: Any) -> Finding:
    by_hand = event.section.dialect == "hand"
    says = _says(event.value)
    wrong = by_hand and says is not None and says != value
    return ctx.at(
        event.path,
        f"{name_of(event)} is {kind(event.value)}, {quoted(event.value)}, and counts as {quoted(value)}"
        + (": DeepSpeed only tests whether it is empty" if wrong else ""),
        help=f"write {quoted(says if wrong else value)}",
        fix=Fix(
            f"replace by {quoted(says if wrong else value)}",
            (Set(event.path, says if wrong else value),),
            safe=not wrong and not _loses(event.value, value),
        ),
    )


def _says(value: Any) -> bool | None:
    """The boolean that a string plainly means."""
    if not isinstance(value, str):
        return None
    return _SAID.get(value.strip().lower())


_SAID = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _loses(written: Any, value: Any) -> bool:
    """Whether more is written than what DeepSpeed makes of it."""
    if isinstance(written, list | dict):
        return True
    return isinstance(written, float) and isinstance(value, int) and written != value


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
    for event, verdict in refusals(ctx, "fraction"):
        whole = int(verdict.value) or 1  # below 1, 0 would often be refused as well
        yield ctx.at(
            (*event.path, *verdict.at),
            f"{name_of(event, verdict)} is {quoted(verdict.value)}, but must be {expected(verdict.expected)}",
            help=f"round it, for example to {quoted(whole)}",
            effect="altered" if event.section.dialect == "hand" else "rejected",
            fix=Fix(f"cut the fraction off: {quoted(whole)}", (Set((*event.path, *verdict.at), whole),)),
        )


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
    for event, verdict in refusals(ctx, "text"):
        meant = _meant(verdict.expected, verdict.value)
        path = (*event.path, *verdict.at)
        yield ctx.at(
            path,
            f"{name_of(event, verdict)} is the string {quoted(verdict.value)}, which DeepSpeed does not read "
            f"as {expected(verdict.expected)}{unchecked(ctx, event)}",
            help=f"write {quoted(meant)}, without quotes"
            if meant is not None
            else f"give {expected(verdict.expected)}",
            effect=effect_of(ctx, event),
            fix=Fix(f"replace by {quoted(meant)}", (Set(path, meant),), safe=stops(ctx, event))
            if meant is not None
            else None,
        )


def _meant(spec: tuple[Any, ...], text: str) -> Any:
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
    for event, verdict in refusals(ctx, "null"):
        assert event.key is not None
        default = event.key.default
        yield ctx.at(
            (*event.path, *verdict.at),
            f"{name_of(event, verdict)} is `null` where DeepSpeed expects {expected(verdict.expected)}"
            f"{unchecked(ctx, event)}",
            help="remove the key" + (f": the default is {quoted(default)}" if default is not None else ""),
            effect=effect_of(ctx, event),
            fix=Fix("remove the key", (Remove(event.path),), safe=stops(ctx, event))
            if not verdict.at
            else None,
        )


@rule(
    "DSC117", effect="altered", source="runtime/config_utils.py:DeepSpeedConfigModel.__init__", general=True
)
def unfilled_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and nobody fills it.

    "auto" is Transformers' and Accelerate's: they put a number there before DeepSpeed sees the config.
    DeepSpeed itself drops the key in its strict sections, so that the default applies (stage "auto" is stage
    0, fp16 "auto" is off), and takes the text as it is everywhere else.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": "auto"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    for event in ctx.walk.autos:
        assert event.key is not None
        if event.section.drops_auto:
            yield ctx.at(
                event.path,
                f'{name_of(event)} is `"auto"`, which nobody fills here: DeepSpeed drops the key and uses '
                "its default" + (f", {quoted(event.key.default)}" if event.key.default is not None else ""),
                help=_auto_help(event),
            )
        elif event.key.type != ("bool",):
            yield ctx.at(
                event.path,
                f'{name_of(event)} is `"auto"`, which nobody fills here: DeepSpeed takes the text as it is'
                f" where it needs {expected(event.key.type)}",
                help=_auto_help(event),
                effect=effect_of(ctx, event),
            )


def _auto_help(event: Event) -> str:
    assert event.key is not None
    fillers = event.key.info.fills
    if fillers:
        return (
            f"give a value, or check with `--consumer {fillers[0]}` if {' or '.join(fillers)} reads the file"
        )
    return f"give {expected(event.key.type)}, or remove the key"


@rule("DSC118", effect="rejected", source=_STRICT)
def misshapen_section(ctx: Context) -> Iterator[Finding]:
    """A section is not an object.

    A section that is `null`, `false` or `"auto"` is not "off": DeepSpeed opens it all the same and fails.
    Leave the section out to switch it off. The few sections that take `null` are not reported.

    Bad:

        {"train_batch_size": 8, "fp16": false}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}}
    """
    for event in ctx.walk.refused:
        if is_section(event) and isinstance(event.verdict, Refused):
            off = event.value in (None, False)
            yield ctx.at(
                event.path,
                f"{name_of(event)} is {kind(event.value)}"
                + (f", {quoted(event.value)}," if event.value is not None else "")
                + " where DeepSpeed expects an object",
                help="remove the section to leave it at its defaults"
                if off
                else "write an object with its keys",
                fix=Fix("remove the section", (Remove(event.path),), safe=True) if off else None,
            )
