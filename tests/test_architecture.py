"""Imports point one way, heavy packages stay where they are needed, no file or function grows too large."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {"dsconfig.model", "dsconfig.model._table", "dsconfig.model.config"}

MAY_IMPORT: dict[str, set[str]] = {
    "dsconfig.document": set(),
    "dsconfig.dialect": set(),
    "dsconfig.diagnostic": set(),
    "dsconfig.releases": set(),
    "dsconfig.words": set(),
    "dsconfig.model": {"dsconfig.releases", "dsconfig.words"},
    "dsconfig.render": {"dsconfig.diagnostic"},
    "elastic": set(),
}
"""What these parts may import of ours beside themselves; the others only must not go round in circles."""

HEAVY: dict[str, set[str]] = {
    "pydantic": {"dsconfig.model"},
    "pydantic_core": {"dsconfig.model", "dsconfig.dialect"},
    "yaml": {"dsconfig.document", "dsconfig.jobs"},
    "rich": {"dsconfig.cli"},
    "packaging": {"dsconfig.releases", "elastic"},
    "numpy": {"elastic"},
    "torch": {"elastic"},
    "deepspeed": set(),
    "hjson": set(),
    "jsonschema": set(),
}
"""Packages that cost time to import, or that only tests may need, and the parts that may import them."""

TORCH = ("elastic.agent", "elastic.launch")

LARGEST_FILE, LARGEST_FUNCTION = 400, 60
MEDIAN_FILE, MEDIAN_FUNCTION, TENTH_FUNCTION = 120, 10, 30

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of both packages, parsed."""
    found = {}
    for package in ("dsconfig", "elastic"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(file.read_text("utf-8"), str(file))
    return found


def part(module: str) -> str:
    """The part of the house that a module belongs to: a package or module of `dsconfig`, or `elastic`."""
    first, *rest = module.split(".")
    return first if first == "elastic" or not rest else f"{first}.{rest[0]}"


def imports(module: str) -> Iterator[str]:
    """The modules that a module imports, anywhere in it; what only type checkers see is left out."""
    yield from _imports(modules()[module], module)


def _imports(node: ast.AST, module: str) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for statement in node.orelse:
            yield from _imports(statement, module)
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
            yield from _imports(child, module)


def ours(module: str) -> set[str]:
    return {name for name in imports(module) if name.split(".")[0] in ("dsconfig", "elastic")}


def test_the_walk_sees_imports() -> None:
    assert len(modules()) > 100
    assert "dsconfig.model.describe" in ours("dsconfig.cli.explain"), "inside a function"
    assert "dsconfig.document" not in ours("dsconfig.render.json")


@pytest.mark.parametrize("own", MAY_IMPORT)
def test_a_part_imports_only_what_it_may(own: str) -> None:
    members = [module for module in modules() if part(module) == own]
    assert members
    wrong = [
        f"{module} imports {name}"
        for module in members
        for name in sorted(ours(module))
        if part(name) not in {own, "dsconfig._version", "dsconfig.json_types"} | MAY_IMPORT[own]
    ]
    assert wrong == []


def test_parts_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for module in modules():
        if module not in ("dsconfig", "dsconfig.__main__"):
            graph.setdefault(part(module), set()).update(map(part, ours(module)))
    for own, others in graph.items():
        others.discard(own)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_rules_see_the_config_through_their_context() -> None:
    for module in modules():
        if part(module) == "dsconfig.rules" and not module.rpartition(".")[2].startswith("_"):
            models = {name for name in ours(module) if part(name) == "dsconfig.model"}
            light = {"dsconfig.model.keyinfo", "dsconfig.model.torch_classes"}
            assert models <= light, f"{module} needs the model of pydantic"
            documents = {name for name in ours(module) if part(name) == "dsconfig.document"}
            at_home = module.startswith("dsconfig.rules.document.")
            assert at_home or not documents, f"{module} reads the document"


@pytest.mark.parametrize("package", HEAVY)
def test_a_heavy_package_is_imported_only_where_it_is_needed(package: str) -> None:
    users = {module for module in modules() for name in imports(module) if name.split(".")[0] == package}
    assert {part(module) for module in users} <= HEAVY[package]
    if package == "torch":
        assert {module for module in users if not module.startswith(TORCH)} == set()


@pytest.mark.parametrize("module", ["dsconfig.model", "dsconfig.model.keyinfo", "dsconfig.model._table"])
def test_the_key_table_needs_no_pydantic(module: str) -> None:
    assert not {name for name in imports(module) if name.startswith("pydantic")}


@pytest.mark.parametrize("package", ["dsconfig", "elastic"])
def test_importing_a_package_loads_nothing_else(package: str) -> None:
    code = f"import sys; before = set(sys.modules); import {package}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "json", "dataclasses", "inspect"}
    assert {name for name in loaded if name.startswith("dsconfig.")} <= {"dsconfig._version"}


def lines(module: str) -> int:
    tree = modules()[module]
    return max((node.end_lineno or 0 for node in tree.body), default=0)


def functions(module: str) -> Iterator[tuple[int, str]]:
    """Every function of a module with its lines, the docstring left out."""
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _code(node), f"{module}.{node.name}"


def _code(function: Function) -> int:
    whole = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    first = function.body[0]
    return whole - ((first.end_lineno or 0) - first.lineno + 1)


WRITTEN = sorted(modules().keys() - GENERATED)


def test_no_file_is_too_large() -> None:
    assert {module: lines(module) for module in WRITTEN if lines(module) > LARGEST_FILE} == {}
    assert statistics.median(map(lines, WRITTEN)) <= MEDIAN_FILE


def test_no_function_is_too_large() -> None:
    sizes = sorted(size for module in WRITTEN for size in functions(module))
    assert [(name, size) for size, name in sizes if size > LARGEST_FUNCTION] == []
    assert sizes[len(sizes) // 2][0] <= MEDIAN_FUNCTION
    assert sizes[len(sizes) * 9 // 10][0] <= TENTH_FUNCTION


def test_every_module_says_what_it_is_for() -> None:
    silent = [module for module in WRITTEN if not ast.get_docstring(modules()[module])]
    assert silent == []
