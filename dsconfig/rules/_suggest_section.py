"""Find the section in which a misplaced key belongs, and format keys for messages."""

from __future__ import annotations

from functools import cache

from dsconfig.core.diagnostic import dotted_path
from dsconfig.core.json_types import KeyPath, NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, ReleaseInterval
from dsconfig.evaluation.rule_context import Context
from dsconfig.model.key_table import (
    ROOT,
    KeyInfo,
    child_section,
    iter_keys,
    keys_of_section_class,
    types_of_section,
)


class _KeyLocation(NamedTuple):
    """A path at which some releases read a key, with these releases."""

    path: str
    info: KeyInfo
    spans: tuple[ReleaseInterval, ...]
    """Releases that read the key and all its parents."""


@cache
def _key_locations(root: str = ROOT) -> dict[str, list[_KeyLocation]]:
    """Map the name of each key to its paths in all releases, except those in free-form objects."""
    locations: dict[str, list[_KeyLocation]] = {}

    def visit(section: str, path: tuple[str, ...], above: tuple[ReleaseInterval, ...]) -> None:
        for word, info in keys_of_section_class(section).items():
            always = above in _ALWAYS or above == info.spans
            here = info.spans if always else _common_releases(above, info.spans)
            if not here or info.flags & NOT_TO_WRITE:
                continue
            locations.setdefault(word, []).append(_KeyLocation(".".join((*path, word)), info, here))
            inner = child_section(info.type) if info.type[0] in _MAY_HOLD_SECTIONS else None
            if inner:
                visit(inner, (*path, word), here)

    visit(root, (), (EVERY_RELEASE,))
    return locations


@cache
def _keys_below_user_names() -> frozenset[str]:
    """Return the keys without a single path, because they are inside objects that users name."""
    return frozenset(path[-1] for path, _ in iter_keys() if "*" in path)


_ALWAYS = ((EVERY_RELEASE,),)
_MAY_HOLD_SECTIONS = ("section", "union")
NOT_TO_WRITE = frozenset({"unread", "internal", "not_json"})


@cache
def _common_releases(
    one: tuple[ReleaseInterval, ...], other: tuple[ReleaseInterval, ...]
) -> tuple[ReleaseInterval, ...]:
    common = []
    for first, last in one:
        for since, until in other:
            if max(first, since) <= min(last, until):
                common.append(ReleaseInterval(max(first, since), min(last, until)))
    return tuple(common)


def format_key(path: KeyPath) -> str:
    """Format a key in backticks for a message, with its path if the key alone is ambiguous.

    Return the key alone, with the index for a list element, or the whole path if several sections have a key of this
    name.
    """
    key = next(part for part in reversed(path) if isinstance(part, str))
    if len(_key_locations().get(key, ())) > 1:
        return f"`{dotted_path(path)}`"
    return f"`{key}`" if key == path[-1] else f"`{key}[{path[-1]}]`"


def paths_of(ctx: Context, word: str) -> list[str]:
    """Return the dotted paths at which the release reads a key named `word`."""
    paths = []
    for location in _key_locations(ctx.root_section).get(word, ()):
        for span in location.spans:
            ctx.equivalent = ctx.equivalent.intersect(span.releases_on_same_side(ctx.release))
        if any(ctx.release in span for span in location.spans):
            paths.append(location.path)
    return paths


def is_read_at(ctx: Context, path: KeyPath) -> bool:
    """Return whether the release reads the key at a path, for some optimizer or scheduler type."""
    if ctx.key(dotted_path(path)) is not None:
        return True
    return (
        path[1:2] == ("params",) and _param_path_beside_type(str(path[-1]), path[:1], ctx.release) is not None
    )


def only_path_of(ctx: Context, word: str, parent: KeyPath) -> str | None:
    """Return the path at which the release reads a key, if there is only one, or only one near `parent`.

    Return None if there is no such path.
    """
    param = _param_path_beside_type(word, parent, ctx.release)
    if param is not None:
        return param
    paths = paths_of(ctx, word)
    above = dotted_path(parent)
    if len(paths) > 1:
        close = [
            path
            for path in paths
            if path.startswith(f"{above}.") or above.startswith(path.rpartition(".")[0])
        ]
        paths = close if len(close) == 1 and len(word) > _SHORT else []
    if not parent and word in OF_OTHERS:
        return None
    if (
        len(paths) != 1
        or word in COMMON
        or word in _keys_below_user_names()
        or f"{above}.".startswith(f"{paths[0]}.")
    ):
        return None
    return paths[0]


_SHORT = 4
COMMON = frozenset({"enabled", "type", "params", "name", "names", "config", "version", "size", "mode"})
"""Keys that occur in too many sections to point to one."""
OF_OTHERS = frozenset(
    [
        "api_key",
        "attention",
        "backend",
        "block",
        "block_size",
        "buffer_size",
        "classes",
        "data_parallel",
        "debug",
        "dtype",
        "experiment_key",
        "experiment_name",
        "fast",
        "gamma",
        "group",
        "group_size",
        "hidden_size",
        "kwargs",
        "layer_name",
        "layer_num",
        "max_batch_size",
        "max_iter",
        "max_tokens",
        "max_value",
        "metric",
        "min_batch_size",
        "min_value",
        "model_type",
        "mp_size",
        "num_bits",
        "num_epochs",
        "num_heads",
        "num_layers",
        "num_params",
        "num_workers",
        "offload",
        "online",
        "output_file",
        "overwrite",
        "passes",
        "q_type",
        "ratio",
        "results_dir",
        "seed",
        "stability",
        "symmetric",
        "team",
        "theta",
        "tol",
        "top_k",
        "tp",
        "workspace",
        "writer",
    ]
)
"""Keys that programs also use for themselves, such as a model's `block_size` or a data loader's `num_workers`.

At the top level, such keys do not point to a section.
"""
_WITH_TYPES: dict[KeyPath, str] = {("optimizer",): "Optimizer", ("scheduler",): "Scheduler"}


def _param_path_beside_type(word: str, parent: KeyPath, release: int) -> str | None:
    """Return the path in `params` for a key that is next to the `type` of an optimizer or scheduler."""
    section = _WITH_TYPES.get(parent)
    for kind in types_of_section(section).values() if section else ():
        key = keys_of_section_class(kind.params).get(word) if kind.params else None
        if key is not None and key.is_read_in(release):
            return f"{dotted_path(parent)}.params.{word}"
    return None
