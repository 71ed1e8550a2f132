"""The config's keys by section, path and release.

The table itself is generated from the model. Nothing here imports pydantic, so that a check starts quickly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import starmap

from dsconfig.core.json_types import Json, KeyPath, NamedTuple, Spec
from dsconfig.core.releases import NEVER, NUMBERS, PYDANTIC_2, ReleaseInterval
from dsconfig.model._generated import MISWRITTEN, SECTIONS, TYPES, VARIANTS

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any, Literal, TypeAlias

ROOT = "Config"
INFERENCE_ROOT = "InferenceConfig"


def root_section(consumer: str) -> str:
    """Return the section class at the root of a config that the consumer loads."""
    return INFERENCE_ROOT if consumer == "inference" else ROOT


def _inference_section(name: str) -> tuple[Any, ...]:
    """Return the table of a section that only inference configs have, loaded when it is first needed."""
    from dsconfig.model._generated.inference import SECTIONS as INFERENCE_SECTIONS

    return INFERENCE_SECTIONS[name]


class KeyInfo(NamedTuple):
    """A key of a section class."""

    name: str
    section: str
    type: Spec
    default: Json
    required: bool
    spans: tuple[ReleaseInterval, ...]
    """The releases that read the key; a key may have been removed and added again."""
    was: tuple[tuple[int, Spec], ...]
    defaults: tuple[tuple[int, Json], ...]
    aliases: tuple[tuple[str, ReleaseInterval], ...]
    takes: tuple[tuple[frozenset[str], ReleaseInterval], ...]
    refused_from: int
    deprecated: int
    replaced_by: str | None
    rewrite: tuple[str, Json] | None
    """How to rewrite the key: `rename`, `negate`, `move` or `switch`, and for a switch the value that replaces true."""
    advice: str | None
    hidden_by: str | None
    opened_by: str | None
    fills: tuple[str, ...]
    unit: str | None
    known: tuple[str, ...]
    flags: frozenset[str]
    """Names of the booleans of `dsconfig.model.key.Key` that are true."""
    only: tuple[tuple[tuple[str, ...], int], ...]
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None

    def is_read_in(self, release: int) -> bool:
        """Return whether the release reads the key."""
        for first, last in self.spans:  # noqa: SIM110  a generator would cost a call per span
            if first <= release <= last:
                return True
        return False

    def type_in(self, release: int) -> Spec:
        """Return the type that a release accepts for the key."""
        for last, earlier in self.was:
            if release <= last:
                return earlier
        return self.type

    def default_in(self, release: int) -> Json:
        """Return the value that a release uses if the key is absent."""
        for last, earlier in self.defaults:
            if release <= last:
                return earlier
        return self.default

    def non_object_values_in(self, release: int) -> frozenset[str]:
        """Return the non-object values that a release accepts for this section."""
        for shapes, releases in self.takes:
            if release in releases:
                return shapes
        return _NONE

    def is_accepted_by_class(self, build: str, release: int) -> bool:
        """Return whether an optimizer class accepts this param in a release."""
        return all(build in builds or release > last for builds, last in self.only)


_NONE: frozenset[str] = frozenset()


class TypeInfo(NamedTuple):
    """An optimizer or scheduler type of DeepSpeed, and the releases that have it."""

    name: str
    params: str | None
    """The section class of the type's params; None if they are the arguments of a class outside DeepSpeed."""
    releases: ReleaseInterval
    gpu: str
    cpu: str
    """Names of the classes that DeepSpeed builds without and with offload."""


@cache
def types_of_section(section: str) -> dict[str, TypeInfo]:
    """Return the types that the key `type` of a section may name, by the name that DeepSpeed compares."""
    return {
        word: TypeInfo(name, params, ReleaseInterval(first, last), *classes)
        for word, (name, params, first, last, *classes) in TYPES.get(section, {}).items()
    }


def find_type(section: str, word: object) -> TypeInfo | None:
    """Return the type with this name in any release; as in DeepSpeed, case is ignored for optimizers."""
    if not isinstance(word, str):
        return None
    return types_of_section(section).get(word.lower() if section == "Optimizer" else word)


@cache
def keys_of_section_class(name: str) -> dict[str, KeyInfo]:
    """Return the keys of a section class in all releases, by name."""
    keys = {}
    # Inlined, because a call for each of the 900 keys would be slow.
    section = SECTIONS.get(name) or _inference_section(name)
    for key, (type_, default, spans, extra) in section[1].items():
        get = extra.get
        keys[key] = KeyInfo(
            name=key,
            section=name,
            type=type_,
            default=default,
            required=get("required", False),
            spans=tuple(starmap(ReleaseInterval, spans)),
            was=get("was", ()),
            defaults=get("defaults", ()),
            aliases=tuple([(alias, ReleaseInterval(*span)) for alias, *span in get("aliases")])
            if "aliases" in extra
            else (),
            takes=tuple([(frozenset(of), ReleaseInterval(*span)) for of, *span in get("takes")])
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
    """Return the names and aliases of all keys in all sections and releases."""
    infos = [info for section in SECTIONS for info in keys_of_section_class(section).values()]
    return frozenset(word for info in infos for word in (info.name, *(alias for alias, _ in info.aliases)))


def keys_of_section_or_base(section: type) -> dict[str, KeyInfo]:
    """Return the keys of a section class, or of its base class in the table; empty if neither is in it."""
    return next(
        (keys_of_section_class(cls.__name__) for cls in section.__mro__ if cls.__name__ in SECTIONS), {}
    )


@cache
def secret_key_names() -> frozenset[str]:
    """Return the names of keys whose values are never shown."""
    return frozenset(
        name
        for section in SECTIONS
        for name, info in keys_of_section_class(section).items()
        if "secret" in info.flags
    )


def may_be_secret(word: str, text: str = "") -> bool:
    """Return whether a key's value, given as JSON in `text`, may contain a secret."""
    return word in secret_key_names() or re.search(_SECRET, word + text, re.IGNORECASE) is not None


_SECRET = "key|token|secret|passw|credential"


@cache
def child_section(spec: Spec) -> str | None:
    """Return the section class in a type `X` or `X | None`, or None for any other type."""
    if spec[0] == "section":
        return str(spec[1])
    if spec[0] == "union":
        return next((str(arm[1]) for arm in spec[1:] if arm[0] == "section"), None)
    return None


# Views of sections as one release reads them.
#
# A view names the consecutive releases for which it holds, so that checking a range of releases costs one
# evaluation per view instead of one per release.

Dialect: TypeAlias = "Literal['hand', 'pydantic1', 'pydantic2']"

_TAKES_NOTHING: frozenset[str] = frozenset()


class KeyView(NamedTuple):
    """A key as read by one release."""

    info: KeyInfo
    type: Spec
    default: Json
    takes: frozenset[str]


class SectionView(NamedTuple):
    """A section as read by all of `releases`; `keys` includes aliases."""

    name: str
    releases: ReleaseInterval
    dialect: Dialect
    unknown: Literal["ignored", "kept", "rejected"]
    drops_auto: bool
    keys: dict[str, KeyView]


@cache
def section_view_of_release(name: str, release: int) -> SectionView:
    """Return a section class as one release, given by its number, reads it (see `dsconfig.core.releases`)."""
    borders = (SECTIONS.get(name) or _inference_section(name))[2]
    index = bisect_right(borders, release)
    return _section_view(
        name, ReleaseInterval(borders[index - 1], borders[index] - 1 if index < len(borders) else NEVER)
    )


@cache
def _section_view(name: str, releases: ReleaseInterval) -> SectionView:
    low = releases.first
    by, drops_auto = "hand", False
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    for since, until, *reading in (SECTIONS.get(name) or _inference_section(name))[0]:
        if since <= low <= until:
            by, unknown, drops_auto = reading
    dialect: Dialect = "hand" if by == "hand" else "pydantic2" if low >= PYDANTIC_2 else "pydantic1"
    keys: dict[str, KeyView] = {}
    for info in keys_of_section_class(name).values():
        for first, last in info.spans:  # inlines `info.is_read_in(low)`: a call per key would be slow
            if first <= low <= last:
                break
        else:
            continue
        view_of_key = KeyView(
            info,
            info.type_in(low) if info.was else info.type,
            info.default_in(low) if info.defaults else info.default,
            info.non_object_values_in(low) if info.takes else _TAKES_NOTHING,
        )
        keys[info.name] = view_of_key
        for alias, (first, last) in info.aliases:
            if first <= low <= last:
                keys[alias] = view_of_key
    return SectionView(name, releases, dialect, unknown, drops_auto, keys)


def may_release_read_path(path: KeyPath, release: int) -> bool:
    """Return whether a release, or code to which DeepSpeed passes the section, may read the path."""
    section = section_view_of_release(ROOT, release)
    for part in path:
        key = section.keys.get(str(part))
        if key is None:
            return section.unknown == "kept"
        inner = child_section(key.type)
        if inner is None:
            return True
        section = section_view_of_release(inner, release)
    return True


@cache
def find_key(path: str, release: int, root: str = ROOT) -> tuple[KeyView | None, ReleaseInterval]:
    """Return the key at a dotted path in a release, and the releases that read the path in the same way.

    The key is None if the release does not read it.
    """
    *sections, last = path.split(".")
    section = section_view_of_release(root, release)
    releases = section.releases
    for part in sections:
        key = section.keys.get(part)
        inner = child_section(key.type) if key else None
        if inner is None:
            return None, releases
        section = section_view_of_release(inner, release)
        releases = releases.intersect(section.releases)
    return section.keys.get(last), releases


# Keys by path: all keys, the keys along one path, and the right path for a wrong one.


def keys_along_path(path: KeyPath) -> Iterator[KeyInfo]:
    """Yield the keys along a path, up to the first one that the model does not have."""
    section: str | None = ROOT
    for word in path:
        info = keys_of_section_class(section).get(str(word)) if section else None
        if info is None:
            return
        yield info
        section = child_section(info.type)


@cache
def _intended_keys_by_wrong_name() -> dict[tuple[str, str], tuple[str, KeyPath]]:
    """Map each documented wrong name in a section to the section and path of the intended key."""
    right_keys: dict[tuple[str, str], tuple[str, KeyPath]] = {}
    for path, right_path in MISWRITTEN.items():
        parent, _, word = path.rpartition(".")
        steps = tuple(right_path.split(".")) if right_path else ()
        right_keys[_section_at_path(parent), word] = _section_at_path(right_path.rpartition(".")[0]), steps
    return right_keys


@cache
def _section_at_path(path: str) -> str:
    section = ROOT
    for info in keys_along_path(tuple(path.split("."))) if path else ():
        section = child_section(info.type) or section
    return section


def intended_key(section: str, word: str) -> tuple[str, KeyPath] | None:
    """Return the section and path of the key meant by a name that no release has ever read.

    The path is empty if no key has that function. Return None if the model does not list the name.
    """
    return _intended_keys_by_wrong_name().get((section, word))


def iter_keys(release: str | None = None, root: str = ROOT) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    """Yield every key with its path, parents first; `*` stands for a free-form name or a list element.

    Given a release, yield only the keys that it reads. A path occurs once per section class that has it: the params of
    all optimizers share their paths.
    """
    yield from _walk_section_keys(root, (), NUMBERS[release] if release else None)


def _walk_section_keys(
    name: str, path: tuple[str, ...], release: int | None
) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    for info in keys_of_section_class(name).values():
        if release is not None and not info.is_read_in(release):
            continue
        key_path = (*path, info.name)
        yield key_path, info
        spec = info.type if release is None else info.type_in(release)
        for inner, steps in _section_classes_in_type(spec):
            for cls in (inner, *VARIANTS.get(inner, ())):
                yield from _walk_section_keys(cls, (*key_path, *steps), release)


def _section_classes_in_type(spec: Spec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the section classes in a type, with the `*` steps that lead to them."""
    if spec[0] == "section":
        yield spec[1], ()
    elif spec[0] in ("list", "map"):
        for name, steps in _section_classes_in_type(spec[1]):
            yield name, ("*", *steps)
    elif spec[0] == "union":
        for arm in spec[1:]:
            yield from _section_classes_in_type(arm)


# Which ZeRO stages read a key of `zero_optimization`.
#
# Source: deepspeed runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer, which passes only some keys to
# each optimizer.

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
"""ZeRO stages that read each key; keys with a separate rule are not listed."""
