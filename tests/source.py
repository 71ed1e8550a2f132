"""The source of both packages, as the architecture test reads it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parents[1]
PACKAGES = ("dsconfig", "elastic")

Line: TypeAlias = "tuple[int, str]"
"""The number of a line in its file, and its code."""

COMMENT = re.compile(r"(^|  )#.*")
SPEAKS = re.compile(r"\w")


class Module(NamedTuple):
    """A file of the source: its text and its syntax tree."""

    text: str
    tree: ast.Module


@cache
def modules() -> Mapping[str, Module]:
    """Every module of both packages, by its dotted name."""
    found = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            text = file.read_text("utf-8")
            found[name] = Module(text, ast.parse(text, str(file)))
    return found


def unit(module: str) -> str:
    """The package or root module that a module stands in: an entry of `ls dsconfig`, or `elastic` as a whole."""
    first, *rest = module.split(".")
    return first if first == "elastic" or not rest else rest[0]


def unit_of_elastic(module: str) -> str:
    """The package or module within `elastic`: an entry of `ls elastic`."""
    return module.split(".")[:2][-1]


@cache
def imports(module: str, *, annotations: bool = False) -> frozenset[str]:
    """What a module imports, anywhere in it; `annotations` adds what only type checkers import."""
    return frozenset(_imports(modules()[module].tree, module, annotations))


def _imports(node: ast.AST, module: str, annotations: bool) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not annotations:
        for statement in node.orelse:
            yield from _imports(statement, module, annotations)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module}: relative import"
        source = node.module or ""
        yield from (
            f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules() else source
            for alias in node.names
        )
    else:
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, module, annotations)


def ours(module: str, *, annotations: bool = False) -> frozenset[str]:
    """The modules of the two packages that a module imports."""
    return imports(module, annotations=annotations) & modules().keys()


def edges(members: Iterable[str], place: Callable[[str], str]) -> dict[str, set[str]]:
    """Which package imports which, for type checkers too; `place` says in which package a module stands."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in members:
        # The two packages list for type checkers what they load when it is asked for.
        found[place(module)] |= {place(other) for other in ours(module, annotations="." in module)}
    return {name: others - {name} for name, others in found.items()}


def levels(graph: Mapping[str, set[str]]) -> int:
    """The longest chain of imports, counted in packages."""
    height: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        height[name] = 1 + max((height[other] for other in graph.get(name, ())), default=0)
    return max(height.values())


def code(module: str) -> list[Line]:
    """The lines of a module that say something: no imports, docstrings, comments or lone punctuation."""
    text, tree = modules()[module]
    silent, signatures = set(_silent(tree)), set(_signatures(tree))
    lines = (
        (number, f"{module}:{number}" if number in signatures else COMMENT.sub("", line).strip())
        for number, line in enumerate(text.splitlines(), 1)
    )
    return [(number, line) for number, line in lines if number not in silent and SPEAKS.search(line)]


def _signatures(tree: ast.Module) -> Iterator[int]:
    """The lines of parameters, each of which counts as a line of its own: public functions take the same options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from range(node.lineno, node.body[0].lineno)


def _silent(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and (
            isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node)
        ):
            yield from range(node.lineno, (node.end_lineno or 0) + 1)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def repeats(files: Mapping[str, list[Line]], length: int) -> list[str]:
    """Places, as `name:line = name:line`, at which the same `length` lines of code begin, or more."""
    starts: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in files.items():
        for start in range(len(lines) - length + 1):
            starts[tuple(text for _, text in lines[start : start + length])].append((name, start))
    same = {tuple(places) for places in starts.values() if len(places) > 1}
    first = [places for places in same if tuple((name, start - 1) for name, start in places) not in same]
    return sorted(" = ".join(f"{name}:{files[name][start][0]}" for name, start in places) for places in first)
