"""Keys that a release has removed, renamed, required or ignored, and defaults that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from dsconfig.core.diagnostic import Fix, SetValue, dotted_path
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, Spec
from dsconfig.core.releases import NEVER, NUMBERS, release_name
from dsconfig.core.wording import describe_type, join_alternatives, quote_value
from dsconfig.evaluation.key_walk import KnownKey
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.model.key_table import ROOT, KeyInfo, KeyView, SectionView, child_section, keys_of_section_class
from dsconfig.rules._effective_values import ZERO, effective_stage, uses_bf16_optimizer
from dsconfig.rules._fixes import remove_key, remove_key_showing_value
from dsconfig.rules._suggest_section import format_key
from dsconfig.rules.unknown_keys import (
    KeyOfEarlierReleases,
    KeyOfLaterReleases,
    UnknownKeyWithCause,
    is_key_of_release,
    is_path,
    replace_with_new_name,
    replacement_advice,
    switches_section_off,
    unknown_keys_by_cause,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# Removed, future and deprecated keys.

_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule("DSC104", effect="ignored", source="runtime/config.py:_reject_removed_config_keys", reads="keys")
def removed_key(ctx: Context) -> Iterator[Finding]:
    """The target release removed a key that earlier releases read.

    DeepSpeed rejects the sections that 0.19.7 and 0.19.8 removed (`amp`, `elasticity`, `sparse_attention`, …)
    by name, whatever their content, even if they are disabled or null. For other removed keys, strict sections
    reject the config, and the others silently ignore the key.

    Bad:

        {"train_batch_size": 8, "amp": {"enabled": false}}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for key, (info,) in unknown_keys_by_cause(ctx, KeyOfEarlierReleases):
        last = max(last for _, last in info.spans if last < ctx.release)
        off = switches_section_off(key.entry.value)
        yield ctx.at(
            key.path,
            f"{format_key(key.path)} was removed from DeepSpeed after {release_name(last)}: {key.fate}",
            help="remove it, even though it is disabled"
            if key.is_rejected and off
            else replacement_advice(ctx, info, key.entry),
            effect=key.effect,
            part="key",
            fix=replace_with_new_name(ctx, key.entry, safe=key.is_rejected)
            or _remove_unless_replaced(ctx, key, info),
        )


def _remove_unless_replaced(ctx: Context, key: UnknownKeyWithCause, info: KeyInfo) -> Fix | None:
    """Return a fix that removes a key, or None if it has a replacement."""
    if switches_section_off(key.entry.value):
        return remove_key(key.path, safe=True)
    if info.name == "elasticity":  # `dsconfig migrate` converts the section and its batch sizes
        return None
    if info.replaced_by and is_path(info.replaced_by) and is_key_of_release(ctx, info.replaced_by):
        return None
    return remove_key_showing_value(key.path, key.entry.value)


@rule("DSC105", effect="ignored", source=_ROOT, reads="keys")
def future_key(ctx: Context) -> Iterator[Finding]:
    """The target release does not know a key that a later release added.

    Bad, release 0.16.9:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}

    Good, release 0.17.2:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}
    """
    for key, (info,) in unknown_keys_by_cause(ctx, KeyOfLaterReleases):
        first = min(first for first, _ in info.spans if first > ctx.release)
        yield ctx.at(
            key.path,
            f"{format_key(key.path)} requires DeepSpeed {release_name(first)} or later: "
            f"{key.fate.replace('DeepSpeed', f'DeepSpeed {ctx.release_name}', 1)}",
            help=f"upgrade DeepSpeed to {release_name(first)} or later, or remove it",
            effect=key.effect,
            part="key",
            fix=remove_key_showing_value(key.path, key.entry.value),
        )


@rule("DSC106", effect="deprecated", reads="keys")
def deprecated_key(ctx: Context) -> Iterator[Finding]:
    """A key still works, but is deprecated.

    Bad:

        {"train_batch_size": 8, "bfloat16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "bf16": {"enabled": true}}
    """
    for entry in ctx.walk.deprecated:
        info = entry.key.info
        if _is_inside_reported_section(ctx, entry.path):
            continue
        yield ctx.at(
            entry.path,
            f"{format_key(entry.path)} has been deprecated since DeepSpeed {release_name(info.deprecated)}",
            help=replacement_advice(ctx, info, entry),
            part="key",
            fix=replace_with_new_name(ctx, entry, safe=_is_equivalent(ctx, entry)),
        )


def _is_equivalent(ctx: Context, entry: KnownKey) -> bool:
    """Return whether a key has the same effect as its replacement."""
    if entry.path == ("bfloat16",) and ctx.uses_plugin:
        # Accelerate adds its own `bf16` (`DeepSpeedPlugin.set_mixed_precision`).
        return False
    # Before 0.7.0 DeepSpeed parsed sections by hand, and some old names differ from their replacement.
    return entry.section.name == "Config" or ctx.since("0.7.0")


def _is_inside_reported_section(ctx: Context, path: KeyPath) -> bool:
    """Return whether a section around the key is itself deprecated or never read."""
    reported = (entry.path for entry in (*ctx.walk.deprecated, *ctx.walk.unused))
    return any(path[: len(outer)] == outer and path != outer for outer in reported)


# Keys under two names.

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC108", effect="rejected", source=_STRICT, reads="keys")
def key_under_two_names(ctx: Context) -> Iterator[Finding]:
    """A key is set twice, under both of its names.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1,
        "prefetch_bucket_size": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1}}
    """
    for entry in ctx.walk.duplicate_aliases:
        yield ctx.at(
            entry.path,
            f"{format_key(entry.path)} is an alias for `{entry.key.info.name}`, and both are set",
            help=f"remove {format_key(entry.path)}",
            part="key",
            fix=remove_key(entry.path, safe=_is_same_value(ctx, entry)),
        )


def _is_same_value(ctx: Context, entry: KnownKey) -> bool:
    """Return whether the two names of a key have the same value in the config."""
    other = ctx.document.node((*entry.path[:-1], entry.key.info.name))
    return other is not None and type(other.value) is type(entry.value) and other.value == entry.value


# Keys that DeepSpeed never reads.


@rule("DSC109", effect="ignored", reads="keys")
def key_without_effect(ctx: Context) -> Iterator[Finding]:
    """DeepSpeed accepts a key but never reads it.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "cpu_offload_use_pin_memory": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for entry in ctx.walk.unused:
        info = entry.key.info
        yield ctx.at(
            entry.path,
            f"{format_key(entry.path)} has no effect: DeepSpeed accepts it but never reads it",
            help=replacement_advice(ctx, info, entry),
            part="key",
        )


# Missing keys of old sections, all of which are removed by 0.19.8.


@rule(
    "DSC930",
    effect="rejected",
    until="0.19.7",
    source="compression/config.py:get_weight_quantization_different_groups, "
    "runtime/config.py:get_pld_params, get_quantize_training, "
    "runtime/data_pipeline/config.py:get_curriculum_params_legacy",
)
def required_key_left_out(ctx: Context) -> Iterator[Finding]:
    """A section lacks a key that DeepSpeed requires in it.

    The whole section is optional, but an incomplete one raises a KeyError or an assertion, even if it is off. A
    compression technique requires `different_groups`, each group requires `params`, and the params require the bits or
    the ratio. `progressive_layer_drop` and `curriculum_learning` require `enabled`. `quantize_training` requires
    `quantize_bits` with `target_bits`, and a `quantize_period` in its schedule.

    Bad, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}}}}

    Good, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}, "different_groups": {}}}}

    Fixed, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}, "different_groups": {}}}}

    Bad, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {"enabled": true, "quantize_bits": {"start_bits": 16}}}

    Good, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {"enabled": true, "quantize_bits": {"target_bits": 8}}}

    Bad:

        {"train_batch_size": 8, "progressive_layer_drop": {"theta": 0.5}}

    Good:

        {"train_batch_size": 8, "progressive_layer_drop": {"enabled": true, "theta": 0.5}}
    """
    root = ctx.walk.view(ROOT)
    for section, value in ctx.data.items():
        key = root.keys.get(section)
        if key is not None and "complete" in key.info.flags:
            for incomplete in _incomplete_objects(ctx, key, value, (section,)):
                yield _report_missing_keys(ctx, incomplete)


class _IncompleteObject(NamedTuple):
    """An object that lacks some of its required keys."""

    path: KeyPath
    data: JsonObject
    missing: list[KeyView]
    removable: bool
    """Whether removing the object repairs the config, because the object itself is not required."""


def _report_missing_keys(ctx: Context, incomplete: _IncompleteObject) -> Finding:
    path, missing = incomplete.path, incomplete.missing
    section = path[-1]
    names = join_alternatives(f"`{key.info.name}`" for key in missing)
    added = join_alternatives(
        [f"`{key.info.name}` ({_describe_expected_type(ctx, key)})" for key in missing], "and"
    )
    subject = f"`{section}` of `{path[-2]}`" if section == "params" else format_key(path)
    groups = _add_empty_groups(incomplete)
    finding = ctx.at(
        path,
        f"{subject} has no {names}, which DeepSpeed requires",
        help=f"add {added}" + (f", or remove `{section}`" if incomplete.removable else ""),
        part="key",
        fix=Fix("add `different_groups`: `{}`", (groups,), safe=True) if groups else None,
    )
    return finding.about_missing((*path, missing[0].info.name))


def _describe_expected_type(ctx: Context, key: KeyView) -> str:
    """Describe a key's expected type, and the required keys of a section."""
    inner = child_section(key.type)
    inner_keys = ctx.walk.view(inner).keys.values() if inner is not None else ()
    names = [f"`{each.info.name}`" for each in inner_keys if each.info.required]
    return (
        f"{describe_type(key.type)} with {join_alternatives(names, 'and')}"
        if names
        else describe_type(key.type)
    )


def _add_empty_groups(incomplete: _IncompleteObject) -> SetValue | None:
    """Return an edit that completes a disabled compression technique, or None for other objects."""
    shared = incomplete.data.get("shared_parameters", {})
    is_on = not isinstance(shared, dict) or shared.get("enabled")
    if incomplete.missing[0].info.name != "different_groups" or is_on:
        return None
    return SetValue((*incomplete.path, "different_groups"), {})


def _incomplete_objects(
    ctx: Context, key: KeyView, value: Json, path: KeyPath, spec: Spec | None = None
) -> Iterator[_IncompleteObject]:
    """Yield every nested object that lacks a required key, skipping values of a wrong type."""
    spec = spec or key.type
    inner = child_section(spec)
    if not isinstance(value, dict):
        return
    if inner is None:
        for child, member in value.items() if spec[0] == "map" else ():
            yield from _incomplete_objects(ctx, key, member, (*path, child), spec[1])
        return
    section = ctx.walk.view(inner)
    missing = [
        entry for entry in section.keys.values() if entry.info.required and entry.info.name not in value
    ]
    if missing:
        yield _IncompleteObject(path, value, missing, not key.info.required or spec is not key.type)
    for child, member in value.items():
        if child in section.keys:
            yield from _incomplete_objects(ctx, section.keys[child], member, (*path, child))


# Defaults that changed within the target range.


class _ChangedDefault(NamedTuple):
    """A key whose default changes within a range of releases, with each default."""

    info: KeyInfo
    first: Json
    later: tuple[tuple[int, Json], ...]


@cache
def _changed_defaults(section: str, first: int, last: int) -> tuple[_ChangedDefault, ...]:
    """Return the keys that all releases of a range read, but whose default is not the same in all of them."""
    changes = []
    for info in keys_of_section_class(section).values() if first < last else ():
        if (
            info.deprecated < NEVER
            or info.flags & _NOT_USER_KEYS
            or not any(a <= first <= last <= b for a, b in info.spans)
        ):
            continue
        releases = [_next_release(until) for until, _ in info.defaults if first <= until < last]
        later = tuple((release, info.default_in(release)) for release in releases)
        if later:
            changes.append(_ChangedDefault(info, info.default_in(first), later))
    return tuple(changes)


_NOT_USER_KEYS = frozenset({"unread", "internal", "not_json"})


def _next_release(number: int) -> int:
    """Return the number of the release after `number`."""
    return next((later for later in NUMBERS.values() if later > number), NEVER)


_USED_IF: dict[KeyPath, Callable[[Context], bool]] = {
    ("bf16", "immediate_grad_update"): uses_bf16_optimizer,
    (ZERO, "offload_param", "pin_memory"): lambda ctx: effective_stage(ctx) == 3,
}
"""Conditions under which DeepSpeed reads a key, besides its section being on."""


@rule("DSC142", effect="wasteful", source="runtime/constants.py, runtime/zero/config.py and the like")
def default_changed_in_range(ctx: Context) -> Iterator[Finding]:
    """The default of an absent key changes within the target range.

    The same config trains differently before and after the change: `gradient_clipping` is 0 before 0.19.3 and 1.0 from
    it on. Set the key to keep one value. Each release does what it documents, so this is not a warning, but runs before
    and after the change are not comparable. Only sections that the config contains and enables are checked.

    Bad, release >=0.19.2:

        {"train_batch_size": 8}

    Good, release >=0.19.2:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    first, last = ctx.target
    if first == last:
        return
    for path, data, section in _active_sections(ctx, (), ctx.data, ctx.walk.view(ROOT)):
        for change in _changed_defaults(section.name, first, last):
            key_path = (*path, change.info.name)
            if change.info.name in data or ctx.before(release_name(change.later[0][0])):
                continue
            if key_path not in _USED_IF or _USED_IF[key_path](ctx):
                yield _report_changed_default(ctx, key_path, change)


def _active_sections(
    ctx: Context, path: KeyPath, data: JsonObject, section: SectionView
) -> Iterator[tuple[KeyPath, JsonObject, SectionView]]:
    """Yield the config's enabled sections under canonical names, with their data."""
    yield path, data, section
    for child, value in data.items():
        key = section.keys.get(child)
        inner = child_section(key.type) if key is not None and key.info.name == child else None
        if (
            inner is not None
            and isinstance(value, dict)
            and _is_section_active(ctx, (*path, child), value, inner)
        ):
            yield from _active_sections(ctx, (*path, child), value, ctx.walk.view(inner))


def _is_section_active(ctx: Context, path: KeyPath, data: JsonObject, section: str) -> bool:
    """Return whether a section is enabled, judging by `enabled`, the ZeRO stage or the offload device."""
    if path == (ZERO,):
        return effective_stage(ctx) > 0
    if "enabled" in ctx.walk.view(section).keys:
        return data.get("enabled") not in (None, False, 0, "auto")  # "auto" is not resolved yet
    return bool(data.get("device", "cpu") != "none")


def _report_changed_default(ctx: Context, path: KeyPath, change: _ChangedDefault) -> Finding:
    key = path[-1]
    before, after = quote_value(change.first), quote_value(change.later[-1][1])
    later = ", ".join(
        f"{quote_value(value)} from {release_name(release)} on" for release, value in change.later
    )
    return ctx.at(
        path,
        f"`{dotted_path(path)}` is not set, and its default changes within the target releases: {before}, then {later}",
        help=f"set `{key}` to {after}"
        if before == after
        else f"set `{key}` to {before} for the old default, or to {after} for the new one",
        part="key",
        fix=Fix(f"add `{key}`: {after}", (SetValue(path, change.later[-1][1]),)),
    )
