"""Values that a key rejects or converts: types, bounds, enums, quoted numbers, unresolved "auto"."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName, Fix, RemoveKey, SetValue
from dsconfig.core.json_types import Json, KeyPath, Spec
from dsconfig.core.wording import describe_type, describe_value, join_alternatives, json_kind, quote_value
from dsconfig.evaluation.coercion import Why
from dsconfig.evaluation.key_walk import CoercionEvent, KnownKey, RejectionEvent
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.model.key import HALF, SCRIPT
from dsconfig.model.key_table import child_section, keys_along_path, keys_of_section_class
from dsconfig.rules._effective_values import training_dtype
from dsconfig.rules._job_programs import consumer_label
from dsconfig.rules._suggest_section import format_key

# Rejected values, and their effect.


def rejections_for_reasons(ctx: Context, *reasons: Why) -> Iterator[RejectionEvent]:
    """Yield the values rejected for one of `reasons`, except sections.

    At most `ctx.max_findings` values are yielded per dialect and effect.
    """
    counts: dict[tuple[str, EffectName], int] = {}
    for rejection in ctx.walk.rejected:
        if rejection.verdict.why not in reasons or expects_section(rejection):
            continue
        if rejection.value == "auto" and rejection.section.dialect == "hand":  # reported by `unresolved-auto`
            continue
        group = rejection.section.dialect, effect_of_unexpected_value(ctx, rejection)
        counts[group] = counts.get(group, 0) + 1
        if counts[group] <= ctx.max_findings:
            yield rejection
        else:
            ctx.is_truncated = True


def expects_section(rejection: RejectionEvent) -> bool:
    """Return whether the key of the rejected value expects a section."""
    return child_section(rejection.key.type) is not None


def effect_of_unexpected_value(ctx: Context, entry: KnownKey | RejectionEvent) -> EffectName:
    """Return the effect of a value that the code which reads the key does not expect."""
    if entry.section.dialect != "hand":
        return "rejected"
    return entry.key.info.wrong_type or ("ignored" if may_never_be_read(ctx, entry.path) else "crashes")


def prevents_run(ctx: Context, rejection: RejectionEvent) -> bool:
    """Return whether a rejected value makes every run fail."""
    return effect_of_unexpected_value(ctx, rejection) in ("rejected", "crashes")


def note_on_unchecked_value(ctx: Context, rejection: RejectionEvent) -> str:
    """Return the end of a message about a value that is not checked when the config is loaded."""
    if effect_of_unexpected_value(ctx, rejection) == "rejected":
        return ""
    return "; the value is not checked when the config is loaded"


# Sections that the engine may never open, so that a wrong value in them does not certainly fail.
#
# The general type rules report `crashes` only for values that the engine certainly reads. If a switch is off,
# or if only some models or a call in the script open the section, the values have no effect until then. More
# specific rules cover such sections.


def may_never_be_read(ctx: Context, path: KeyPath) -> bool:
    """Return whether the engine may never read a key."""
    opener = next((info.opened_by for info in keys_along_path(path[:2]) if info.opened_by), None)
    if opener is None or len(path) < 2 or path[-1] == "enabled":
        return False
    try:
        return not _may_open_section(ctx, opener)
    except SkipRule:
        return True


def _may_open_section(ctx: Context, opener: str) -> bool:
    if opener == HALF:
        return training_dtype(ctx) != "fp32"
    return opener != SCRIPT and ctx.is_on(opener)


# Values of another JSON type than the key accepts.

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC110", effect="rejected", source=_STRICT, general=True, reads="keys")
def wrong_type(ctx: Context) -> Iterator[Finding]:
    """A value has another JSON type than the key accepts.

    Sections that DeepSpeed declares with pydantic reject such a value as soon as the file is loaded. Sections
    that DeepSpeed reads without validation accept it, and the code that needs a number or a list fails later,
    often after the model has been loaded on every GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": [3]}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 3}}
    """
    for rejection in rejections_for_reasons(ctx, "type"):
        verdict = rejection.verdict
        yield ctx.at(
            rejection.rejected_path,
            f"{format_key(rejection.rejected_path)} is {json_kind(verdict.value)}, "
            f"{quote_value(verdict.value)}, where DeepSpeed "
            f"expects {describe_type(verdict.expected)}{note_on_unchecked_value(ctx, rejection)}",
            help=f"use {describe_type(verdict.expected)}",
            effect=effect_of_unexpected_value(ctx, rejection),
        )


@rule("DSC114", effect="rejected", source=_STRICT, general=True, reads="keys")
def fractional_integer(ctx: Context) -> Iterator[Finding]:
    """A number has a fraction where DeepSpeed expects an integer.

    This is often the result of a formula such as 0.9 × hidden size², which older Transformers documentation
    suggested for `stage3_prefetch_bucket_size`. Since 0.15.0, DeepSpeed rejects it. Earlier releases
    truncated it.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494.4}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494}}
    """
    for rejection in rejections_for_reasons(ctx, "fraction"):
        verdict = rejection.verdict
        whole = int(verdict.value) or 1  # for values below 1: many keys reject 0 as well
        yield ctx.at(
            rejection.rejected_path,
            f"{format_key(rejection.rejected_path)} is {quote_value(verdict.value)}, "
            f"but must be {describe_type(verdict.expected)}",
            help=f"round it, for example to {quote_value(whole)}",
            effect="altered" if rejection.section.dialect == "hand" else "rejected",
            fix=Fix(f"truncate to {quote_value(whole)}", (SetValue(rejection.rejected_path, whole),)),
        )


@rule("DSC116", effect="rejected", source=_STRICT, general=True, reads="keys")
def null_value(ctx: Context) -> Iterator[Finding]:
    """A key is null where DeepSpeed requires a value.

    Remove the key to use its default. Null does not select the default.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_scatter": null}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {}}
    """
    for rejection in rejections_for_reasons(ctx, "null"):
        verdict = rejection.verdict
        default = rejection.key.default
        yield ctx.at(
            rejection.rejected_path,
            f"{format_key(rejection.rejected_path)} is `null`, but DeepSpeed expects {describe_type(verdict.expected)}"
            f"{note_on_unchecked_value(ctx, rejection)}",
            help=f"use {describe_type(verdict.expected)}"
            if rejection.key.info.required
            else "remove the key"
            + (f": the default is {quote_value(default)}" if default is not None else ""),
            effect=effect_of_unexpected_value(ctx, rejection),
            fix=Fix("remove the key", (RemoveKey(rejection.path),), safe=prevents_run(ctx, rejection))
            if not verdict.at and not rejection.key.info.required
            else None,
        )


@rule("DSC118", effect="rejected", source=_STRICT, reads="keys")
def section_not_an_object(ctx: Context) -> Iterator[Finding]:
    """A section is not an object.

    A section that is `null`, `false` or `"auto"` is not disabled: DeepSpeed still opens it and raises. To
    disable a section, remove it. The few sections that accept `null` are not reported.

    Bad:

        {"train_batch_size": 8, "fp16": false}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}}
    """
    for rejection in ctx.walk.rejected:
        if expects_section(rejection):
            # Transformers and Accelerate reject a config without `zero_optimization`.
            is_required = rejection.path == ("zero_optimization",) and ctx.uses_plugin
            is_removable = rejection.value in (None, False) and not is_required
            yield ctx.at(
                rejection.path,
                f"{format_key(rejection.path)} is {describe_value(rejection.value)} but DeepSpeed expects an object",
                help="remove the section to use its defaults"
                if is_removable
                else 'set it to an object, such as `{"stage": 0}`'
                if is_required
                else f"set it to an object{_example_object(rejection)}",
                fix=Fix("remove the section", (RemoveKey(rejection.path),), safe=True)
                if is_removable
                else None,
            )


_EXAMPLES = {"enabled": "true", "device": '"cpu"', "stage": "0"}
"""Keys that many sections have, each with a value for an example."""


def _example_object(rejection: RejectionEvent) -> str:
    """Return an example of a section's object with its most important key, or else name its first keys."""
    child = child_section(rejection.key.type)
    keys = keys_of_section_class(child) if child else {}
    name = next((name for name in _EXAMPLES if name in keys), None)
    if name is not None:
        return f', such as `{{"{name}": {_EXAMPLES[name]}}}`'
    first_keys = [
        f"`{key}`" for key, info in keys.items() if info.is_read_in(rejection.section.releases.first)
    ][:3]
    return f" with keys such as {join_alternatives(first_keys, 'and')}" if first_keys else ""


# Values out of range, and strings that the key does not accept.


@rule("DSC111", effect="rejected", source=_STRICT, general=True, reads="keys")
def out_of_bounds(ctx: Context) -> Iterator[Finding]:
    """A number is smaller or larger than the key allows.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": -1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_max_live_parameters": 1000000000}}
    """
    for rejection in rejections_for_reasons(ctx, "bound"):
        verdict = rejection.verdict
        if rejection.path == ("gradient_clipping",):  # reported by `negative-gradient-clipping`
            continue
        yield ctx.at(
            rejection.rejected_path,
            f"{format_key(rejection.rejected_path)} is {quote_value(verdict.value)}, "
            f"but must be {describe_type(verdict.expected)}"
            f"{note_on_unchecked_value(ctx, rejection)}",
            help=f"use {describe_type(verdict.expected)}",
            effect=effect_of_unexpected_value(ctx, rejection),
        )


@rule("DSC112", effect="rejected", source=_STRICT, general=True, reads="keys")
def unknown_value(ctx: Context) -> Iterator[Finding]:
    """A value is not one of the values that the key accepts.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    for rejection in rejections_for_reasons(ctx, "member"):
        verdict = rejection.verdict
        members = verdict.expected[1:]
        if "fold_case" in rejection.key.info.flags and str(verdict.value).lower() in _fold_case(members):
            continue
        intended = _matching_member(verdict.value, members)
        yield ctx.at(
            rejection.rejected_path,
            f"{format_key(rejection.rejected_path)} is {quote_value(verdict.value)}, but DeepSpeed accepts only "
            f"{join_alternatives(_shorten_members(members), 'and')}{note_on_unchecked_value(ctx, rejection)}",
            help=f"use {quote_value(intended)}"
            if intended is not None
            else f"use {join_alternatives(_shorten_members(members)[:_MAX_LISTED])}",
            effect=effect_of_unexpected_value(ctx, rejection),
            fix=_replace_rejected_value(ctx, rejection, intended) if intended is not None else None,
        )


_MAX_LISTED = 8
"""Maximum number of enum members that the help lists."""


def _shorten_members(members: tuple[Json, ...]) -> tuple[Json, ...]:
    """Return only the plain names in a long list of enum members: `bf16`, but not `torch.bfloat16`."""
    plain = tuple(member for member in members if "." not in str(member))
    return plain if len(members) > _MAX_LISTED and plain else members


def _fold_case(members: tuple[Json, ...]) -> set[str]:
    return {str(member).lower() for member in members}


def _matching_member(value: Json, members: tuple[Json, ...]) -> Json:
    """Return the member that equals a value except for case, surrounding spaces or number type."""
    text = str(value).strip().lower()
    return next((member for member in members if str(member).lower() == text), None)


def _replace_rejected_value(ctx: Context, rejection: RejectionEvent, value: Json) -> Fix:
    operations = (SetValue(rejection.rejected_path, value),)
    return Fix(f"replace with {quote_value(value)}", operations, safe=prevents_run(ctx, rejection))


# Values that DeepSpeed converts, and quoted values that it does not.


@rule("DSC113", effect="altered", source=_STRICT, general=True, reads="keys")
def coerced_value(ctx: Context) -> Iterator[Finding]:
    """DeepSpeed accepts a value but uses a different one.

    Strict sections convert `"3"` to 3 and `"on"` to true, and old releases truncate 1.5 to 1. In sections that
    DeepSpeed reads without validation, nothing is converted. The string `"false"` is not empty, so it is treated as
    true.

    Bad:

        {"train_batch_size": 8, "prescale_gradients": "false"}

    Good:

        {"train_batch_size": 8, "prescale_gradients": false}
    """
    for coercion in ctx.walk.coerced:
        if coercion.changes_value:
            yield _report_coerced_value(ctx, coercion, coercion.verdict.value)


def _report_coerced_value(ctx: Context, coercion: CoercionEvent, effective: Json) -> Finding:
    is_unvalidated = coercion.section.dialect == "hand"
    intended = _intended_boolean(coercion.value)
    is_inverted = is_unvalidated and intended is not None and intended != effective
    value = intended if is_inverted else effective
    return ctx.at(
        coercion.path,
        f"{format_key(coercion.path)} is {json_kind(coercion.value)}, {quote_value(coercion.value)}, and is treated as"
        f" {quote_value(effective)}" + (": DeepSpeed only tests whether it is empty" if is_inverted else ""),
        help=f"use {quote_value(value)}",
        fix=Fix(
            f"replace with {quote_value(value)}",
            (SetValue(coercion.path, value),),
            safe=not is_inverted and not _is_lossy_conversion(coercion.value, effective),
        ),
    )


def _intended_boolean(value: Json) -> bool | None:
    """Return the boolean that a string spells, or None."""
    if not isinstance(value, str):
        return None
    return _BOOLEANS.get(value.strip(" \t,").lower())  # Hjson includes a trailing comma in an unquoted string


_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _is_lossy_conversion(value: Json, effective: Json) -> bool:
    """Return whether a conversion discards part of the value."""
    if isinstance(value, list | dict):
        return True
    return isinstance(value, float) and isinstance(effective, int) and value != effective


@rule("DSC115", effect="rejected", source=_STRICT, general=True, reads="keys")
def text_for_value(ctx: Context) -> Iterator[Finding]:
    """A number or boolean is a string that DeepSpeed does not convert.

    The usual case is `"5e8"`: YAML 1.1 reads 5e8 as a string, because it has no decimal point and no sign, and
    DeepSpeed does not convert strings with exponents. Keys that DeepSpeed reads without validation accept no number in
    quotes.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": "5e8"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 500000000}}
    """
    for rejection in rejections_for_reasons(ctx, "text"):
        verdict = rejection.verdict
        intended = _intended_value(verdict.expected, verdict.value)
        path = rejection.rejected_path
        yield ctx.at(
            path,
            f"{format_key(path)} is the string {quote_value(verdict.value)}, which DeepSpeed does not convert to "
            f"{describe_type(verdict.expected)}{note_on_unchecked_value(ctx, rejection)}",
            help=f"use {quote_value(intended)}{_advice_on_quotes(ctx, path)}{_advice_on_commas(verdict.value)}"
            if intended is not None
            else _start_of_advice(verdict.value) + describe_type(verdict.expected),
            effect=effect_of_unexpected_value(ctx, rejection),
            fix=Fix(
                f"replace with {quote_value(intended)}",
                (SetValue(path, intended),),
                safe=prevents_run(ctx, rejection),
            )
            if intended is not None
            else None,
        )


def _start_of_advice(text: str) -> str:
    is_none = text.strip(" \t,").lower() in ("none", "null")
    return "remove the key to have no value, or use " if is_none else "use "


def _advice_on_quotes(ctx: Context, path: KeyPath) -> str:
    """Return advice to remove the quotes, or for an unquoted YAML string, on how to spell the number."""
    document = ctx.document
    quote = "" if document.is_data else document.text[document.span(path).start :][:1]
    if document.format == "yaml" and quote not in ("'", '"'):
        return ": YAML 1.1 reads an exponent as a number only with a dot before it and a sign after it"
    return ", without quotes"


def _advice_on_commas(text: str) -> str:
    return " or a trailing comma" if text.rstrip().endswith(",") else ""


def _intended_value(spec: Spec, text: str) -> Json:
    """Return the number or boolean that a string spells, or None."""
    if spec[0] == "bool":
        return _intended_boolean(text)
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if spec[0] == "float":
        return int(text) if text.strip().lstrip("+-").isdecimal() else number
    return int(number) if number.is_integer() and abs(number) < 2**53 else None


# Unresolved "auto".


@rule(
    "DSC117",
    effect="altered",
    source="runtime/config_utils.py:DeepSpeedConfigModel.__init__",
    general=True,
    reads="keys",
)
def unresolved_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and the consumer does not resolve it.

    Transformers and Accelerate replace "auto" with a value before DeepSpeed reads the config. DeepSpeed itself does
    not: its strict sections ignore the key, so the default applies (stage 0, fp16 off), and all other sections use the
    string "auto" itself.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": "auto"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    loader, subject = (
        ("plain DeepSpeed", "it") if ctx.consumer == "deepspeed" else (consumer_label(ctx), "DeepSpeed")
    )
    for entry in ctx.walk.unresolved_autos:
        unresolved = f'{format_key(entry.path)} is `"auto"`, but {loader} does not resolve it'
        if entry.section.drops_auto:
            default = f", {quote_value(entry.key.default)}" if entry.key.default is not None else ""
            yield ctx.at(
                entry.path,
                f"{unresolved}: {subject} ignores the key and uses its default{default}",
                help=_help_for_auto(entry),
            )
        elif entry.key.type != ("bool",):
            yield ctx.at(
                entry.path,
                f"{unresolved}; {subject} expects {describe_type(entry.key.type)}",
                help=_help_for_auto(entry),
                effect=effect_of_unexpected_value(ctx, entry),
            )


def _help_for_auto(entry: KnownKey) -> str:
    consumers = entry.key.info.fills
    if consumers:
        loader = " or ".join(map(str.capitalize, consumers))
        return (
            f"replace it with a value, or check with `--consumer {consumers[0]}` if {loader} loads the file"
        )
    value = "" if entry.key.type == ("never",) else f"use {describe_type(entry.key.type)}, or "
    return f"{value}remove the key"
