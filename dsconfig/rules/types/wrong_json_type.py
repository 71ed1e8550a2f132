"""Values of another JSON type than the key takes: numbers, fractions, null, sections."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.wording import described, expected, kind, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.types._refused_values import effect_of, is_section, refusals, stops, unchecked

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
def misshapen_section(ctx: Context) -> Iterator[Finding]:
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
