"""Keys that a release removed, renamed, requires or ignores, and defaults that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix, Set, dotted
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, Spec
from dsconfig.core.releases import NEVER, NUMBERS, name
from dsconfig.core.wording import expected, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.key_walk import KnownKey
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import ROOT, KeyInfo, KeyView, SectionView, child_section, section_keys
from dsconfig.rules._effective_values import ZERO, bf16_optimizer, stage
from dsconfig.rules._fixes import loss, removal
from dsconfig.rules._suggest_section import named
from dsconfig.rules.keys.unknown import (
    Future,
    Removed,
    Unknown,
    instead,
    is_off,
    is_path,
    lives,
    successor,
    unknowns,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# Keys that the target release no longer knows, does not know yet, or is about to lose.

_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule("DSC104", effect="ignored", source="runtime/config.py:_reject_removed_config_keys")
def removed_key(ctx: Context) -> Iterator[Finding]:
    """The target release no longer knows a key that earlier releases read.

    Sections removed in 0.19.7 and 0.19.8 (`amp`, `elasticity`, `sparse_attention`, …) are refused by name,
    whatever they hold, even when they are disabled or null. Elsewhere a removed key is refused by strict
    sections and dropped silently by the others.

    Bad:

        {"train_batch_size": 8, "amp": {"enabled": false}}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for found, (info,) in unknowns(ctx, Removed):
        last = max(last for _, last in info.spans if last < ctx.release)
        off = is_off(found.entry.value)
        yield ctx.at(
            found.path,
            f"{named(found.path)} was removed from DeepSpeed after {name(last)}: {found.fate}",
            help="remove it, even though it is switched off"
            if found.refused and off
            else instead(ctx, info, found.entry),
            effect=found.effect,
            part="key",
            fix=successor(ctx, found.entry, safe=found.refused) or _dropped(ctx, found, info),
        )


def _dropped(ctx: Context, found: Unknown, info: KeyInfo) -> Fix | None:
    """Taking a removed key out; not where another key says today what it says."""
    if is_off(found.entry.value):
        return removal(found.path, safe=True)
    if info.name == "elasticity":  # `migrate` hands it over, with its batch
        return None
    if info.replaced_by and is_path(info.replaced_by) and lives(ctx, info.replaced_by):
        return None
    return loss(found.path, found.entry.value)


@rule("DSC105", effect="ignored", source=_ROOT)
def future_key(ctx: Context) -> Iterator[Finding]:
    """The target release does not know a key that later releases read.

    Bad, release 0.16.9:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}

    Good, release 0.17.2:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}
    """
    for found, (info,) in unknowns(ctx, Future):
        first = min(first for first, _ in info.spans if first > ctx.release)
        yield ctx.at(
            found.path,
            f"{named(found.path)} is known from DeepSpeed {name(first)} on, not in {ctx.release_name}: "
            f"{found.fate}",
            help=f"upgrade DeepSpeed to {name(first)} or later, or remove the key",
            effect=found.effect,
            part="key",
            fix=loss(found.path, found.entry.value),
        )


@rule("DSC106", effect="deprecated")
def deprecated_key(ctx: Context) -> Iterator[Finding]:
    """A key still works, but has a successor or is on its way out.

    Bad:

        {"train_batch_size": 8, "bfloat16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "bf16": {"enabled": true}}
    """
    for entry in ctx.walk.deprecated:
        info = entry.key.info
        if _within_another(ctx, entry.path):
            continue
        yield ctx.at(
            entry.path,
            f"{named(entry.path)} is deprecated since DeepSpeed {name(info.deprecated)}",
            help=instead(ctx, info, entry),
            part="key",
            fix=successor(ctx, entry, safe=_means_its_successor(ctx, entry)),
        )


def _means_its_successor(ctx: Context, entry: KnownKey) -> bool:
    """Whether the key does today what its successor will do."""
    if entry.path == ("bfloat16",) and ctx.uses_plugin:
        return (
            False  # Accelerate writes a `bf16` of its own beside it (`DeepSpeedPlugin.set_mixed_precision`)
        )
    # Before 0.7.0 sections are read by hand, and not every old name as its successor.
    return entry.section.name == "Config" or ctx.since("0.7.0")


def _within_another(ctx: Context, path: KeyPath) -> bool:
    """Whether a section around the key is deprecated itself, or not looked at."""
    around = (entry.path for entry in (*ctx.walk.deprecated, *ctx.walk.unused))
    return any(path[: len(outer)] == outer and path != outer for outer in around)


# Keys that are written under both of their names.

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC108", effect="rejected", source=_STRICT)
def key_under_two_names(ctx: Context) -> Iterator[Finding]:
    """One key is written twice, under both of its names.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1,
        "prefetch_bucket_size": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1}}
    """
    for entry in ctx.walk.duplicate_aliases:
        yield ctx.at(
            entry.path,
            f"{named(entry.path)} is another name of `{entry.key.info.name}`, and both are written",
            help=f"keep `{entry.key.info.name}` alone",
            part="key",
            fix=removal(entry.path, safe=_said_twice(ctx, entry)),
        )


def _said_twice(ctx: Context, entry: KnownKey) -> bool:
    """Whether the key's other name holds the same value."""
    other = ctx.document.node((*entry.path[:-1], entry.key.info.name))
    return other is not None and type(other.value) is type(entry.value) and other.value == entry.value


# Keys that DeepSpeed takes and never looks at.


@rule("DSC109", effect="ignored")
def key_without_effect(ctx: Context) -> Iterator[Finding]:
    """A key is taken, and then nothing in DeepSpeed ever looks at it.

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
            f"{named(entry.path)} has no effect: DeepSpeed takes it and never looks at it",
            help=instead(ctx, info, entry),
            part="key",
        )


# Old sections that lack what DeepSpeed looks up in them; all are gone by 0.19.8.


@rule(
    "DSC930",
    effect="rejected",
    until="0.19.7",
    source="compression/config.py:get_weight_quantization_different_groups and the like, "
    "runtime/config.py:get_pld_params, get_quantize_training, "
    "runtime/data_pipeline/config.py:get_curriculum_params_legacy",
)
def required_key_left_out(ctx: Context) -> Iterator[Finding]:
    """A section lacks a key that DeepSpeed looks up whenever the section is there.

    Leaving the whole section out is fine; an incomplete one ends in a KeyError or an assertion, also where it
    is switched off. A compression technique needs `different_groups`, each of its groups `params`, and these
    the bits or the ratio of the technique. `progressive_layer_drop` and `curriculum_learning` need `enabled`,
    and `quantize_training` needs `quantize_bits` with `target_bits`, and in its schedule a `quantize_period`.

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
    for word, value in ctx.data.items():
        key = root.keys.get(word)
        if key is not None and "complete" in key.info.flags:
            for found in _incomplete(ctx, key, value, (word,)):
                yield _left_out(ctx, found)


class _Incomplete(NamedTuple):
    """An object that lacks required keys."""

    path: KeyPath
    data: JsonObject
    missing: list[KeyView]
    removable: bool
    """Whether leaving the object out repairs the file; not where it is required itself."""


def _left_out(ctx: Context, found: _Incomplete) -> Finding:
    word = found.path[-1]
    names = one_of([f"`{key.info.name}`" for key in found.missing], "and")
    added = one_of([f"`{key.info.name}` ({_expected(ctx, key)})" for key in found.missing], "and")
    where = f"`{word}` of `{found.path[-2]}`" if word == "params" else named(found.path)
    groups = _empty_groups(found)
    left_out = ctx.at(
        found.path,
        f"{where} has no {names}, which DeepSpeed looks up whenever `{word}` is there",
        help=f"add {added}" + (f", or remove `{word}`" if found.removable else ""),
        part="key",
        fix=Fix("add `different_groups`: `{}`", (groups,), safe=True) if groups else None,
    )
    return left_out.about_missing((*found.path, found.missing[0].info.name))


def _expected(ctx: Context, key: KeyView) -> str:
    """What the key takes; of a section, what must stand in it at once."""
    inner = child_section(key.type)
    needed = ctx.walk.view(inner).keys.values() if inner is not None else ()
    names = [f"`{each.info.name}`" for each in needed if each.info.required]
    return f"{expected(key.type)} with {one_of(names, 'and')}" if names else expected(key.type)


def _empty_groups(found: _Incomplete) -> Set | None:
    """What completes a technique that is switched off."""
    shared = found.data.get("shared_parameters", {})
    if (
        found.missing[0].info.name != "different_groups"
        or not isinstance(shared, dict)
        or shared.get("enabled")
    ):
        return None
    return Set((*found.path, "different_groups"), {})


def _incomplete(
    ctx: Context, key: KeyView, value: Json, path: KeyPath, spec: Spec | None = None
) -> Iterator[_Incomplete]:
    """Every object in here that lacks required keys; what is not an object is a finding of its own."""
    spec = spec or key.type
    inner = child_section(spec)
    if not isinstance(value, dict):
        return
    if inner is None:
        for word, member in value.items() if spec[0] == "map" else ():
            yield from _incomplete(ctx, key, member, (*path, word), spec[1])
        return
    seen = ctx.walk.view(inner)
    missing = [entry for entry in seen.keys.values() if entry.info.required and entry.info.name not in value]
    if missing:
        yield _Incomplete(path, value, missing, not key.info.required or spec is not key.type)
    for word, member in value.items():
        if word in seen.keys:
            yield from _incomplete(ctx, seen.keys[word], member, (*path, word))


# Defaults that changed between two releases of the range that is checked.


class _Change(NamedTuple):
    """A key with more than one default in a range: the first one, and each later one with its release."""

    info: KeyInfo
    first: Json
    later: tuple[tuple[int, Json], ...]


@cache
def _changes(section: str, first: int, last: int) -> tuple[_Change, ...]:
    """The keys of the section that the whole range reads, and whose default changes within it."""
    found = []
    for info in section_keys(section).values() if first < last else ():
        if (
            info.deprecated < NEVER
            or info.flags & _SILENT
            or not any(a <= first <= last <= b for a, b in info.spans)
        ):
            continue
        borders = [_next(until) for until, _ in info.defaults if first <= until < last]
        later = tuple((border, info.default_in(border)) for border in borders)
        if later:
            found.append(_Change(info, info.default_in(first), later))
    return tuple(found)


_SILENT = frozenset({"unread", "internal", "not_json"})


def _next(number: int) -> int:
    """The release after the one with this number."""
    return next((later for later in NUMBERS.values() if later > number), NEVER)


_MATTERS: dict[KeyPath, Callable[[Context], bool]] = {
    ("bf16", "immediate_grad_update"): bf16_optimizer,
    (ZERO, "offload_param", "pin_memory"): lambda ctx: stage(ctx) == 3,
}
"""Keys that only something besides their section looks at."""


@rule("DSC142", effect="wasteful", source="runtime/constants.py, runtime/zero/config.py and the like")
def default_changed_in_range(ctx: Context) -> Iterator[Finding]:
    """The target is a range of releases, and a key that is left out has two defaults in it.

    The same file trains differently on both sides: `gradient_clipping` is 0 before 0.19.3 and 1.0 from it on.
    Written out, the value stays. Nothing written is changed, and each release does what it documents, so this
    is not a warning: what is lost is that runs on both sides compare. Only sections that are written and
    switched on are looked at.

    Bad, release >=0.19.2:

        {"train_batch_size": 8}

    Good, release >=0.19.2:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    first, last = ctx.target
    if first == last:
        return
    for path, data, seen in _opened(ctx, (), ctx.data, ctx.walk.view(ROOT)):
        for change in _changes(seen.name, first, last):
            word = (*path, change.info.name)
            if change.info.name in data or ctx.before(name(change.later[0][0])):
                continue
            if word not in _MATTERS or _MATTERS[word](ctx):
                yield _said(ctx, word, change)


def _opened(
    ctx: Context, path: KeyPath, data: JsonObject, seen: SectionView
) -> Iterator[tuple[KeyPath, JsonObject, SectionView]]:
    """The sections that are written, do something, and are not aliases, each with its data."""
    yield path, data, seen
    for word, value in data.items():
        key = seen.keys.get(word)
        inner = child_section(key.type) if key is not None and key.info.name == word else None
        if inner is not None and isinstance(value, dict) and _works(ctx, (*path, word), value, inner):
            yield from _opened(ctx, (*path, word), value, ctx.walk.view(inner))


def _works(ctx: Context, path: KeyPath, data: JsonObject, section: str) -> bool:
    """Whether the section is switched on: by `enabled`, by a stage above 0, by a device."""
    if path == (ZERO,):
        return stage(ctx) > 0
    if "enabled" in ctx.walk.view(section).keys:
        return data.get("enabled") not in (None, False, 0, "auto")  # with "auto" nobody knows yet
    return bool(data.get("device", "cpu") != "none")


def _said(ctx: Context, path: KeyPath, change: _Change) -> Finding:
    word = path[-1]
    before, after = quoted(change.first), quoted(change.later[-1][1])
    later = ", ".join(f"{quoted(value)} from {name(border)} on" for border, value in change.later)
    return ctx.at(
        path,
        f"`{dotted(path)}` is left out, and its default is {before}, but {later}",
        help=f"set `{word}`: {before} for what it was, {after} for what it is now",
        part="key",
        fix=Fix(f"add `{word}`: {after}", (Set(path, change.later[-1][1]),)),
    )
