"""Keys that the target release no longer knows, does not know yet, or is about to lose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix
from dsconfig.core.releases import name
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk_events import KnownKey
from dsconfig.model.keyinfo import KeyInfo
from dsconfig.rules._fixes import loss, removal
from dsconfig.rules._suggest_section import named
from dsconfig.rules.keys._replacements import instead, is_off, is_path, lives, successor
from dsconfig.rules.keys._unknown import Future, Removed, Unknown, unknowns

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


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
    if entry.path == ("bfloat16",) and ctx.plugged:
        return (
            False  # Accelerate writes a `bf16` of its own beside it (`DeepSpeedPlugin.set_mixed_precision`)
        )
    # Before 0.7.0 sections are read by hand, and not every old name as its successor.
    return entry.section.name == "Config" or ctx.since("0.7.0")


def _within_another(ctx: Context, path: KeyPath) -> bool:
    """Whether a section around the key is deprecated itself, or not looked at."""
    around = (entry.path for entry in (*ctx.walk.deprecated, *ctx.walk.unread))
    return any(path[: len(outer)] == outer and path != outer for outer in around)
