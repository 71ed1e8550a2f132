"""Key table of the config as `check` reads it: keys by section, path and release; no pydantic."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import starmap
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, KeyPath, NamedTuple, Spec
from dsconfig.core.releases import NEVER, NUMBERS, PYDANTIC_2, Interval
from dsconfig.model._generated import MISWRITTEN, SECTIONS, TYPES, VARIANTS

# What is known of each key, as `check` reads it: frozen and light.
#
# The table behind it (`_table`) is generated from the model; nothing here imports pydantic.

ROOT = "Config"


class KeyInfo(NamedTuple):
    """One key of one section class."""

    name: str
    section: str
    type: Spec
    default: Json
    required: bool
    spans: tuple[Interval, ...]
    """The releases that look at the key; it may have gone and come back."""
    was: tuple[tuple[int, Spec], ...]
    defaults: tuple[tuple[int, Json], ...]
    aliases: tuple[tuple[str, Interval], ...]
    takes: tuple[tuple[frozenset[str], Interval], ...]
    refused_from: int
    deprecated: int
    replaced_by: str | None
    rewrite: tuple[str, Json] | None
    """`rename`, `negate` or `switch`, with what a switch that is on stands for."""
    advice: str | None
    hidden_by: str | None
    opened_by: str | None
    fills: tuple[str, ...]
    unit: str | None
    known: tuple[str, ...]
    flags: frozenset[str]
    """Which of the booleans of `dsconfig.model.key.Key` are set, by name."""
    only: tuple[tuple[tuple[str, ...], int], ...]
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None

    def read_in(self, release: int) -> bool:
        """Whether the release looks at the key."""
        for first, last in self.spans:  # noqa: SIM110  a generator would cost a call for each span
            if first <= release <= last:
                return True
        return False

    def type_in(self, release: int) -> Spec:
        """The type that the release takes."""
        for last, earlier in self.was:
            if release <= last:
                return earlier
        return self.type

    def default_in(self, release: int) -> Json:
        """What the release uses when the key is absent."""
        for last, earlier in self.defaults:
            if release <= last:
                return earlier
        return self.default

    def takes_in(self, release: int) -> frozenset[str]:
        """Shapes other than an object that the release takes where this section belongs."""
        for shapes, releases in self.takes:
            if release in releases:
                return shapes
        return _NONE

    def taken_by(self, build: str, release: int) -> bool:
        """Whether the class of that kind takes this param of an optimizer."""
        return all(build in builds or release > last for builds, last in self.only)


_NONE: frozenset[str] = frozenset()


class TypeInfo(NamedTuple):
    """A type of optimizer or scheduler that DeepSpeed itself knows, in these releases."""

    name: str
    params: str | None
    """The section class of its params; None: they are a foreign class's arguments."""
    releases: Interval
    gpu: str
    cpu: str
    """Names of the classes behind it, without offload and with."""


@cache
def types_of(section: str) -> dict[str, TypeInfo]:
    """The types that the section's `type` may name, by the word they are compared with; empty for others."""
    return {
        word: TypeInfo(name, params, Interval(first, last), *classes)
        for word, (name, params, first, last, *classes) in TYPES.get(section, {}).items()
    }


def type_named(section: str, word: object) -> TypeInfo | None:
    """The type of that name in any release; those of optimizers are compared in lower case."""
    if not isinstance(word, str):
        return None
    return types_of(section).get(word.lower() if section == "Optimizer" else word)


@cache
def section_keys(name: str) -> dict[str, KeyInfo]:
    """Every key of the section class over all releases, by name."""
    keys = {}
    for key, (type_, default, spans, extra) in SECTIONS[name][1].items():  # no call per key: there are 900
        get = extra.get
        keys[key] = KeyInfo(
            name=key,
            section=name,
            type=type_,
            default=default,
            required=get("required", False),
            spans=tuple(starmap(Interval, spans)),
            was=get("was", ()),
            defaults=get("defaults", ()),
            aliases=tuple([(alias, Interval(*span)) for alias, *span in get("aliases")])
            if "aliases" in extra
            else (),
            takes=tuple([(frozenset(of), Interval(*span)) for of, *span in get("takes")])
            if "takes" in extra
            else (),
            refused_from=get("refused_from", NEVER),
            deprecated=get("deprecated", NEVER),
            replaced_by=get("replaced_by"),
            rewrite=get("rewrite"),
            advice=get("advice"),
            hidden_by=get("hidden_by"),
            opened_by=get("opened_by"),
            fills=get("fills", ()),
            unit=get("unit"),
            known=get("known", ()),
            flags=frozenset(get("flags", ())),
            only=get("only", ()),
            wrong_type=get("wrong_type"),
        )
    return keys


@cache
def all_keys() -> frozenset[str]:
    """The keys of every section class over all releases, and their aliases."""
    infos = [info for section in SECTIONS for info in section_keys(section).values()]
    return frozenset(word for info in infos for word in (info.name, *(alias for alias, _ in info.aliases)))


def keys_of(section: type) -> dict[str, KeyInfo]:
    """Every key of a section class, or of the one that it is derived from; empty for any other class."""
    return next((section_keys(cls.__name__) for cls in section.__mro__ if cls.__name__ in SECTIONS), {})


@cache
def secrets() -> frozenset[str]:
    """Names of keys whose value is never shown."""
    return frozenset(
        name for section in SECTIONS for name, info in section_keys(section).items() if "secret" in info.flags
    )


def is_secret(word: str, within: str = "") -> bool:
    """Whether a key, or one that a text of JSON names, holds what nobody else may see."""
    return word in secrets() or re.search(_SECRET, word + within, re.IGNORECASE) is not None


_SECRET = "key|token|secret|passw|credential"


@cache
def child_section(spec: Spec) -> str | None:
    """The section class that a type names directly (`X` or `X | None`), if any."""
    if spec[0] == "section":
        return str(spec[1])
    if spec[0] == "union":
        return next((str(arm[1]) for arm in spec[1:] if arm[0] == "section"), None)
    return None


# The sections as one release sees them.
#
# A view also says for which releases in a row it holds, so that a range of releases costs one evaluation
# for each class of releases that behave alike.

Dialect: TypeAlias = Literal["hand", "pydantic1", "pydantic2"]

_TAKES_NOTHING: frozenset[str] = frozenset()


class KeyView(NamedTuple):
    """A key as one release sees it."""

    info: KeyInfo
    type: Spec
    default: Json
    takes: frozenset[str]


class SectionView(NamedTuple):
    """A section as the `releases` see it, all of them alike; `keys` holds aliases too."""

    name: str
    releases: Interval
    dialect: Dialect
    unknown: Literal["ignored", "kept", "rejected"]
    drops_auto: bool
    keys: dict[str, KeyView]


def view(name: str, release: int) -> SectionView:
    """The section class as the release (a number, see `dsconfig.core.releases`) sees it."""
    borders = SECTIONS[name][2]
    index = bisect_right(borders, release)
    return _view(name, Interval(borders[index - 1], borders[index] - 1 if index < len(borders) else NEVER))


@cache
def _view(name: str, releases: Interval) -> SectionView:
    low = releases.first
    by, drops_auto = "hand", False
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    for since, until, *reading in SECTIONS[name][0]:
        if since <= low <= until:
            by, unknown, drops_auto = reading
    dialect: Dialect = "hand" if by == "hand" else "pydantic2" if low >= PYDANTIC_2 else "pydantic1"
    keys: dict[str, KeyView] = {}
    for info in section_keys(name).values():
        for first, last in info.spans:  # `info.read_in(low)` without a call for each key
            if first <= low <= last:
                break
        else:
            continue
        seen = KeyView(
            info,
            info.type_in(low) if info.was else info.type,
            info.default_in(low) if info.defaults else info.default,
            info.takes_in(low) if info.takes else _TAKES_NOTHING,
        )
        keys[info.name] = seen
        for alias, (first, last) in info.aliases:
            if first <= low <= last:
                keys[alias] = seen
    return SectionView(name, releases, dialect, unknown, drops_auto, keys)


def may_read(path: KeyPath, release: int) -> bool:
    """Whether the release reads what stands at a path, or leaves it to code that may."""
    seen = view(ROOT, release)
    for part in path:
        entry = seen.keys.get(str(part))
        if entry is None:
            return seen.unknown == "kept"
        inner = child_section(entry.type)
        if inner is None:
            return True
        seen = view(inner, release)
    return True


@cache
def find(path: str, release: int) -> tuple[KeyView | None, Interval]:
    """The key at a dotted path as the release sees it, and the releases that see the way to it alike.

    None in place of the key: the release does not read it.
    """
    *sections, last = path.split(".")
    seen = view(ROOT, release)
    alike = seen.releases
    for part in sections:
        entry = seen.keys.get(part)
        inner = child_section(entry.type) if entry else None
        if inner is None:
            return None, alike
        seen = view(inner, release)
        alike = alike.meet(seen.releases)
    return seen.keys.get(last), alike


# The keys by their paths: all of them, those on the way to one, and those that a wrong path means.


def along(path: KeyPath) -> Iterator[KeyInfo]:
    """The keys along a path, as far as the model knows them."""
    section: str | None = ROOT
    for word in path:
        info = section_keys(section).get(str(word)) if section else None
        if info is None:
            return
        yield info
        section = child_section(info.type)


@cache
def _miswritten() -> dict[tuple[str, str], tuple[str, KeyPath]]:
    """By section class, of which a config may name one twice, and word: section and path of what is meant."""
    found: dict[tuple[str, str], tuple[str, KeyPath]] = {}
    for path, meant in MISWRITTEN.items():
        above, _, word = path.rpartition(".")
        place = tuple(meant.split(".")) if meant else ()
        found[_section_at(above), word] = _section_at(meant.rpartition(".")[0]), place
    return found


@cache
def _section_at(path: str) -> str:
    last = ROOT
    for info in along(tuple(path.split("."))) if path else ():
        last = child_section(info.type) or last
    return last


def meant_in(section: str, word: str) -> tuple[str, KeyPath] | None:
    """Section and path of the key that is meant by a word which no release ever read in the section.

    The path is empty where no key is meant. None: nothing is known of the word.
    """
    return _miswritten().get((section, word))


def keys(release: str | None = None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    """Every key with its path, parents first; `*` stands for a free-form name or a list element.

    With a release: only what that release reads. A path occurs once for every section class that has it: the
    params of all optimizers share their paths.
    """
    yield from _walk(ROOT, (), NUMBERS[release] if release else None)


def _walk(name: str, path: tuple[str, ...], release: int | None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    for info in section_keys(name).values():
        if release is not None and not info.read_in(release):
            continue
        here = (*path, info.name)
        yield here, info
        spec = info.type if release is None else info.type_in(release)
        for inner, more in _inner(spec):
            for one in (inner, *VARIANTS.get(inner, ())):
                yield from _walk(one, (*here, *more), release)


def _inner(spec: Spec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Section classes inside a type, each with the `*` steps that lead to it."""
    if spec[0] == "section":
        yield spec[1], ()
    elif spec[0] in ("list", "map"):
        for name, more in _inner(spec[1]):
            yield name, ("*", *more)
    elif spec[0] == "union":
        for arm in spec[1:]:
            yield from _inner(arm)


# Which ZeRO stages read a key of `zero_optimization`.
#
# Source: deepspeed runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer, which hands each optimizer
# its own keys.

_PARTITIONED = (3,)
_GRADIENTS = (1, 2)
ZERO_STAGES: dict[str, tuple[int, ...]] = {
    "sub_group_size": _PARTITIONED,
    "stage3_prefetch_bucket_size": _PARTITIONED,
    "stage3_param_persistence_threshold": _PARTITIONED,
    "stage3_model_persistence_threshold": _PARTITIONED,
    "stage3_max_live_parameters": _PARTITIONED,
    "stage3_max_reuse_distance": _PARTITIONED,
    "stage3_gather_16bit_weights_on_model_save": _PARTITIONED,
    "stage3_gather_fp16_weights_on_model_save": _PARTITIONED,
    "stage3_module_granularity_threshold": _PARTITIONED,
    "stage3_use_all_reduce_for_fetch_params": _PARTITIONED,
    "stage3_allgather_sequential": _PARTITIONED,
    "zero_hpz_partition_size": _PARTITIONED,
    "zero_quantized_weights": _PARTITIONED,
    "zero_quantized_nontrainable_weights": _PARTITIONED,
    "zero_quantized_gradients": _PARTITIONED,
    "memory_efficient_linear": _PARTITIONED,
    "leaf_module": _PARTITIONED,
    "override_module_apply": _PARTITIONED,
    "enable_sanity_checks": _PARTITIONED,
    "log_trace_cache_warnings": _PARTITIONED,
    "save_muon_momentum_buffer_in_memory": _PARTITIONED,
    "round_robin_gradients": _GRADIENTS,
    "allgather_bucket_size": _GRADIENTS,
    "use_multi_rank_bucket_allreduce": _GRADIENTS,
    "ignore_unused_parameters": _GRADIENTS,
    "parameter_alignment": _GRADIENTS,
    "reduce_bucket_size": (1, 2, 3),
    "reduce_scatter": (1, 2, 3),
    "contiguous_gradients": (1, 2, 3),
    "overlap_comm": (1, 2, 3),
    "load_from_fp32_weights": (1, 2, 3),
}
"""The stages that look at a key; keys with a rule of their own are not here."""
