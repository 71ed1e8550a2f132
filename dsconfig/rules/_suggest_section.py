"""Where a key that a section does not know was meant to stand."""

from __future__ import annotations

from functools import cache

from dsconfig.core.diagnostic import dotted
from dsconfig.core.json_types import KeyPath, NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, Interval
from dsconfig.evaluation.context import Context
from dsconfig.model.keyinfo import ROOT, KeyInfo, child_section, keys, section_keys, types_of


class _Home(NamedTuple):
    """A place at which a key of this name stands in some releases."""

    path: str
    info: KeyInfo
    spans: tuple[Interval, ...]
    """The releases that read it, and the way to it."""


@cache
def _homes() -> dict[str, list[_Home]]:
    """Every key name of any release, with its places; free-form objects are left out."""
    homes: dict[str, list[_Home]] = {}

    def visit(section: str, path: tuple[str, ...], above: tuple[Interval, ...]) -> None:
        for word, info in section_keys(section).items():
            always = above in _ALWAYS or above == info.spans
            here = info.spans if always else _common(above, info.spans)
            if not here or info.flags & NOT_TO_WRITE:
                continue
            homes.setdefault(word, []).append(_Home(".".join((*path, word)), info, here))
            inner = child_section(info.type) if info.type[0] in _MAY_HOLD_SECTIONS else None
            if inner:
                visit(inner, (*path, word), here)

    visit(ROOT, (), (EVERY_RELEASE,))
    return homes


@cache
def _below_names() -> frozenset[str]:
    """Keys of objects that people name themselves: no place among the others is theirs alone."""
    return frozenset(path[-1] for path, _ in keys() if "*" in path)


_ALWAYS = ((EVERY_RELEASE,),)
_MAY_HOLD_SECTIONS = ("section", "union")
NOT_TO_WRITE = frozenset({"unread", "internal", "not_json"})


@cache
def _common(one: tuple[Interval, ...], other: tuple[Interval, ...]) -> tuple[Interval, ...]:
    found = []
    for first, last in one:
        for since, until in other:
            if max(first, since) <= min(last, until):
                found.append(Interval(max(first, since), min(last, until)))
    return tuple(found)


def named(path: KeyPath) -> str:
    """A key in backticks as messages name it.

    By its last word, with the index where the path leads to an element, or by the whole path where keys of
    that name stand in several sections.
    """
    word = next(part for part in reversed(path) if isinstance(part, str))
    if len(_homes().get(word, ())) > 1:
        return f"`{dotted(path)}`"
    return f"`{word}`" if word == path[-1] else f"`{word}[{path[-1]}]`"


def places_of(ctx: Context, word: str) -> list[str]:
    """The dotted paths at which the release reads a key of this name."""
    found = []
    for home in _homes().get(word, ()):
        for span in home.spans:
            ctx.equivalent = ctx.equivalent.meet(span.side(ctx.release))
        if any(ctx.release in span for span in home.spans):
            found.append(home.path)
    return found


def reads(ctx: Context, path: KeyPath) -> bool:
    """Whether the release reads the key, be it as a param of some type."""
    if ctx.key(dotted(path)) is not None:
        return True
    return path[1:2] == ("params",) and _param_of_type(str(path[-1]), path[:1], ctx.release) is not None


def home_of(ctx: Context, word: str, parent: KeyPath) -> str | None:
    """The one place where the release reads a key of this name; of several, that inside or above `parent`."""
    inside = _param_of_type(word, parent, ctx.release)
    if inside is not None:
        return inside
    found = places_of(ctx, word)
    above = dotted(parent)
    if len(found) > 1:
        near = [
            path
            for path in found
            if path.startswith(f"{above}.") or above.startswith(path.rpartition(".")[0])
        ]
        found = near if len(near) == 1 and len(word) > _SHORT else []
    if not parent and word in OF_OTHERS:
        return None
    if len(found) != 1 or word in COMMON or word in _below_names() or f"{above}.".startswith(f"{found[0]}."):
        return None
    return found[0]


_SHORT = 4
COMMON = frozenset({"enabled", "type", "params", "name", "names", "config", "version", "size", "mode"})
"""Keys of so many sections that they say nothing of the one that is meant."""
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
"""Keys of sections that programs also have for things of their own (a model's `block_size`, the loader's
`num_workers`): at the top level they say nothing of the section."""
_WITH_TYPES: dict[KeyPath, str] = {("optimizer",): "Optimizer", ("scheduler",): "Scheduler"}


def _param_of_type(word: str, parent: KeyPath, release: int) -> str | None:
    """The place of a key beside `type` that belongs among the params of an optimizer or a scheduler."""
    section = _WITH_TYPES.get(parent)
    for kind in types_of(section).values() if section else ():
        key = section_keys(kind.params).get(word) if kind.params else None
        if key is not None and key.read_in(release):
            return f"{dotted(parent)}.params.{word}"
    return None
