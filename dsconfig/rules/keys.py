"""Keys that the target release does not know, no longer knows, does not know yet, or knows elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dsconfig.diagnostic import Fix, Move, Path, Remove, Rename, dotted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk import Event
from dsconfig.model.keyinfo import KeyInfo, section_keys
from dsconfig.releases import NEVER, name
from dsconfig.rules import _names
from dsconfig.rules._successors import instead, is_off, successor
from dsconfig.words import one_of

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"
_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"

Kind = Literal["removed", "future", "dead", "misplaced", "misspelt", "unknown"]


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A key that the release does not read in this section, and the likeliest reason."""

    event: Event
    kind: Kind
    info: KeyInfo | None = None
    meant: str | None = None

    @property
    def word(self) -> str:
        return str(self.event.path[-1])

    @property
    def parent(self) -> str:
        return dotted(self.event.path[:-1])

    @property
    def refused(self) -> bool:
        """Strict sections refuse what they do not know, unless its value is "auto", which they drop
        unseen.
        """
        if self.info is not None and self.kind == "removed" and self.info.refused_from < NEVER:
            return True
        section = self.event.section
        return section.unknown == "rejected" and not (section.drops_auto and self.event.value == "auto")

    @property
    def effect(self) -> str:
        return "rejected" if self.refused else "ignored"

    @property
    def where(self) -> str:
        return f"in `{self.parent}`" if self.parent else "at the top level"


def _unknowns(ctx: Context, kind: Kind) -> Iterator[_Unknown]:
    for event in ctx.walk.unknown:
        found = _classify(ctx, event)
        if found is not None and found.kind == kind:
            yield found


def _classify(ctx: Context, event: Event) -> _Unknown | None:
    word = str(event.path[-1])
    if ctx.consumer != "deepspeed" and len(event.path) == 1 and word in _own_keys(ctx.consumer):
        return None
    info = section_keys(event.section.name).get(word)
    if info is not None and ctx.release >= info.refused_from:
        return _Unknown(event, "removed", info)
    if event.section.unknown == "kept" or _is_remark(event, word):
        return None
    if info is not None:
        gone = all(last < ctx.release for _, last in info.spans)
        return _Unknown(event, "removed" if gone else "future", info)
    dead = _names.dead(event.path)
    if dead is not None:
        return _Unknown(event, "dead", meant=dead)
    home = _names.home(word, event.path[:-1], ctx.release)
    if home is not None:
        return _Unknown(event, "misplaced", meant=home)
    near = _names.nearest(word, event.section)
    return _Unknown(event, "misspelt", meant=near) if near else _Unknown(event, "unknown")


def _own_keys(consumer: str) -> tuple[str, ...]:
    from dsconfig.consumers import BY_NAME

    return BY_NAME[consumer].own_keys


def _is_remark(event: Event, word: str) -> bool:
    """Keys that people add on purpose where DeepSpeed does not look: `$schema`, `_comment`, `//`."""
    if event.section.unknown == "rejected":
        return False
    return (
        word.startswith(("_", "//", "#"))
        or word.lower() in _REMARKS
        or (len(event.path) == 1 and word in ("$schema", "$dsconfig"))
    )


_REMARKS = frozenset({"comment", "comments", "description", "note", "notes"})


def _dropped(found: _Unknown) -> str:
    section = found.event.section
    if found.refused:
        return "DeepSpeed refuses the file"
    if section.unknown == "rejected":
        return 'DeepSpeed drops it because its value is "auto"'
    return "DeepSpeed ignores it"


@rule("DSC101", effect="ignored", source=_ROOT)
def unknown_key(ctx: Context) -> Iterator[Finding]:
    """No release of DeepSpeed knows this key, here or elsewhere.

    At the top level and in the sections that DeepSpeed reads by hand, an unknown key is dropped without a
    word: what it was meant to do does not happen. Strict sections (`zero_optimization`, `fp16`, …) refuse the
    whole file. Remarks are fine outside strict sections when their name begins with `_` or `//`.

    Bad:

        {"train_batch_size": 8, "cuda_visible_devices": "0,1"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for found in _unknowns(ctx, "unknown"):
        known = list(found.event.section.keys)
        yield ctx.at(
            found.event.path,
            f"`{found.word}` is no DeepSpeed key {found.where}: {_dropped(found)}",
            help=f"remove it; known here: {one_of((f'`{key}`' for key in known), 'and')}"
            if 0 < len(known) <= 8
            else "remove it",
            effect=found.effect,
            part="key",
            fix=Fix(f"remove `{found.word}`", (Remove(found.event.path),)),
        )


@rule("DSC102", effect="ignored", source=_ROOT)
def misspelt_key(ctx: Context) -> Iterator[Finding]:
    """A key is spelt almost like one that exists.

    Bad:

        {"train_batch_size": 8, "gradient_clipp1ng": 1.0}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    for found in _unknowns(ctx, "misspelt"):
        assert found.meant is not None
        taken = ctx.has(dotted((*found.event.path[:-1], found.meant)))
        yield ctx.at(
            found.event.path,
            f"`{found.word}` is no DeepSpeed key {found.where}: {_dropped(found)}",
            help=f"did you mean `{found.meant}`?"
            + (" It is set already: remove one of the two" if taken else ""),
            effect=found.effect,
            part="key",
            fix=None
            if taken
            else Fix(
                f"rename to `{found.meant}`",
                (Rename(found.event.path, found.meant),),
                safe=found.refused and _names.unmistakable(found.word, found.event.section),
            ),
        )


@rule("DSC103", effect="ignored", source=_ROOT)
def misplaced_key(ctx: Context) -> Iterator[Finding]:
    """A key stands at a level where DeepSpeed does not look for it.

    `offload_optimizer` at the top level is the classic: no offload takes place, and nothing says so.

    Bad:

        {"train_batch_size": 8, "offload_optimizer": {"device": "cpu"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for found in _unknowns(ctx, "misplaced"):
        assert found.meant is not None
        home = tuple(found.meant.split("."))
        yield ctx.at(
            found.event.path,
            f"`{found.word}` does not belong {found.where}: {_dropped(found)}",
            help=f"move it to `{found.meant}`",
            effect=found.effect,
            part="key",
            fix=None
            if ctx.has(found.meant)
            else Fix(f"move to `{found.meant}`", (Move(found.event.path, home),)),
        )


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
    for found in _unknowns(ctx, "removed"):
        assert found.info is not None
        last = max(last for _, last in found.info.spans if last < ctx.release)
        off = is_off(found.event.value)
        yield ctx.at(
            found.event.path,
            f"`{found.word}` was removed from DeepSpeed after {name(last)}: {_dropped(found)}",
            help="remove it, even though it is switched off"
            if found.refused and off
            else instead(found.info),
            effect=found.effect,
            part="key",
            fix=successor(ctx, found.event, safe=found.refused)
            or Fix(f"remove `{found.word}`", (Remove(found.event.path),), safe=off),
        )


@rule("DSC105", effect="ignored", source=_ROOT)
def future_key(ctx: Context) -> Iterator[Finding]:
    """The target release does not know a key that later releases read.

    Bad, release 0.16.9:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}

    Good, release 0.17.2:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}
    """
    for found in _unknowns(ctx, "future"):
        assert found.info is not None
        first = min(first for first, _ in found.info.spans if first > ctx.release)
        yield ctx.at(
            found.event.path,
            f"`{found.word}` is known from DeepSpeed {name(first)} on, not in {ctx.release_name}: "
            f"{_dropped(found)}",
            help=f"upgrade DeepSpeed to {name(first)} or later, or remove the key",
            effect=found.effect,
            part="key",
            fix=Fix(f"remove `{found.word}`", (Remove(found.event.path),)),
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
    for event in ctx.walk.seen:
        assert event.key is not None
        info = event.key.info
        if info.deprecated > ctx.release or "unread" in info.flags or _parent_deprecated(ctx, event.path):
            continue
        yield ctx.at(
            event.path,
            f"`{event.path[-1]}` is deprecated since DeepSpeed {name(info.deprecated)}",
            help=instead(info) if info.replaced_by else "remove it",
            part="key",
            # Before 0.7.0 the section is read by hand, and not every old name as its successor.
            fix=successor(ctx, event, safe=event.section.name == "Config" or ctx.since("0.7.0")),
        )


def _parent_deprecated(ctx: Context, path: Path) -> bool:
    return any(path[: len(event.path)] == event.path and path != event.path for event in ctx.walk.seen)


@rule("DSC107", effect="ignored", source=_ROOT)
def dead_key(ctx: Context) -> Iterator[Finding]:
    """A key was never read by any release, though documentation, tutorials or examples show it.

    Bad:

        {"train_batch_size": 8, "comms_config": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "comms_logger": {"enabled": true}}
    """
    for found in _unknowns(ctx, "dead"):
        meant = found.meant
        yield ctx.at(
            found.event.path,
            f"`{found.word}` was never a DeepSpeed key {found.where}, though examples show it: "
            f"{_dropped(found)}",
            help=f"use `{meant}`" if meant else "remove it",
            effect=found.effect,
            part="key",
            fix=Fix(f"remove `{found.word}`", (Remove(found.event.path),)) if not meant else None,
        )


@rule("DSC108", effect="rejected", source=_STRICT)
def key_under_two_names(ctx: Context) -> Iterator[Finding]:
    """One key is written twice, under both of its names.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1,
        "prefetch_bucket_size": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1}}
    """
    for event in ctx.walk.doubles:
        assert event.key is not None
        yield ctx.at(
            event.path,
            f"`{event.path[-1]}` is another name of `{event.key.info.name}`, and both are written",
            help=f"keep `{event.key.info.name}` alone",
            part="key",
            fix=Fix(f"remove `{event.path[-1]}`", (Remove(event.path),), safe=_said_twice(ctx, event)),
        )


def _said_twice(ctx: Context, event: Event) -> bool:
    """Whether the key's other name holds the same value."""
    assert event.key is not None
    other = ctx.document.node((*event.path[:-1], event.key.info.name))
    return other is not None and type(other.value) is type(event.value) and other.value == event.value


@rule("DSC109", effect="ignored")
def key_without_effect(ctx: Context) -> Iterator[Finding]:
    """A key is taken, and then nothing in DeepSpeed ever looks at it.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "cpu_offload_use_pin_memory": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for event in ctx.walk.seen:
        assert event.key is not None
        info = event.key.info
        if "unread" not in info.flags:
            continue
        yield ctx.at(
            event.path,
            f"`{event.path[-1]}` has no effect: DeepSpeed takes it and never looks at it",
            help=instead(info) if info.replaced_by else "remove it",
            part="key",
        )
