"""What is there to be asked for in a config: a rule that first asks for something else need not run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.evaluation.context import split

if TYPE_CHECKING:
    from dsconfig.evaluation.context import Context
    from dsconfig.evaluation.rule import Rule

EVENTS = ("unknown", "refused", "coerced", "autos", "doubles", "deprecated", "unread")
"""What a walk may note."""

Asked: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""All paths that some rules ask for first, by the key at the top level."""


@cache
def asked(rules: tuple[Rule, ...]) -> Asked:
    """What these rules ask for first."""
    found: dict[str, list[str]] = {}
    for path in sorted({path for rule in rules for path in rule.asks or ()}):
        found.setdefault(split(path)[0], []).append(path)
    return {top: tuple(paths) for top, paths in found.items()}


def present(context: Context, paths: Asked) -> frozenset[str]:
    """Of what is asked for, all that is written under any name, or comes of what is written.

    Besides, in angle brackets, as no key is: what the walk noted, and in what the config is not like others.
    """
    walk, data, spelled = context.walk, context.data, context.walk.spelled
    tops = {*data, *walk.values, *(str(path[0]) for path in spelled)}
    found = set()
    for path in chain.from_iterable(map(paths.__getitem__, paths.keys() & tops)):
        parts = split(path)
        for value in (data, walk.values):
            for part in parts:
                if not isinstance(value, dict) or part not in value:
                    break
                value = value[part]  # noqa: PLW2901
            else:
                found.add(path)
                break
        else:
            if spelled and context.has(path):
                found.add(path)
    found.update(f"<{event}>" for event in EVENTS if getattr(walk, event))
    found.update(f"<{word}>" for word, holds in _circumstances(context).items() if holds)
    found.add(f"<{context.consumer}>")
    return frozenset(found)


def _circumstances(context: Context) -> dict[str, bool]:
    """What may be out of the ordinary, and whether it is."""
    known = context.known
    return {
        "elastic": context.elastic,
        "file": context.from_file,
        "job": context.job is not None,
        "known": bool(known.model or known.host_memory or known.parallelism.degrees),
        "no config": not context.is_config,
        "problems": bool(context.document.problems),
        "range": context.target.first != context.target.last,
        "version": context.version is not None,
        "world size": context.world_size is not None,
        "yaml": context.document.format == "yaml",
    }
