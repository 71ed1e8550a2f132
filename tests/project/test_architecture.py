"""Which package imports which, where heavy packages are imported, and how large things may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from importlib import import_module

import pytest

from dsconfig.cli import COMMANDS, command_module
from dsconfig.cli.elastic import COMMANDS as ELASTIC_VERBS
from tests.packages import ARCHITECTURE, PACKAGES, with_table
from tests.source import (
    ROOT,
    code,
    edges,
    imports,
    levels,
    modules,
    ours,
    repeats,
    unit,
    unit_of_elastic,
)

GENERATED = {name for name in modules() if "_generated" in name.split(".")}
"""Written by `make generate`, so the limits below do not apply."""

ELASTIC: Mapping[str, str] = {
    "errors": "",
    "constants": "",
    "divisors": "",
    "json_files": "",
    # DeepSpeed's own solver, as its releases had it; then plans upon it.
    "deepspeed": "constants divisors errors json_files",
    "planning": "constants deepspeed divisors errors json_files",
    # What a training process asks of its agent; then the agent, which alone needs torch.
    "worker": "errors json_files",
    "agent": "constants errors json_files planning worker",
    "launch": "agent",
    "elastic": "",
}
"""The same within `elastic`."""

UNITS, LEVELS, EDGES = 21, 9, 95
"""At most: packages and root modules, the longest chain of imports between them, and pairs that import."""

HEAVY: dict[str, set[str]] = {
    "pydantic": {"model"},
    "pydantic_core": {"model"},
    "yaml": {"document", "cli"},
    "packaging": {"core", "elastic"},
    "numpy": {"elastic"},
    "torch": {"elastic"},
    "pygls": {"lsp"},
    "cattrs": {"lsp"},
    "deepspeed": set(),
    "hjson": set(),
    "jsonschema": set(),
}
"""Packages that cost time to import, or that only tests may need, and the packages that may import them."""

TORCH = ("elastic.agent", "elastic.launch")
LIGHT = {f"dsconfig.model.{name}" for name in ("key", "key_table", "torch_classes")}
"""What a rule may know of the model: the generated table of its keys, which needs no pydantic."""

LARGEST_FILE = 600
"""Lines. Functions are judged by their complexity, which ruff measures (`max-complexity`)."""
REPEATED = 6
"""So many lines of code in a row stand in one place only."""
ANY = 40
"""Lines that say `Any`. A config's own data is `Json`, which is not counted."""
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_the_walk_sees_imports() -> None:
    assert len(modules()) > 100
    assert "dsconfig.model.key_description" in ours("dsconfig.cli.explain"), "inside a function"
    assert "dsconfig.document" not in ours("dsconfig.render.json")


IMPORTS = edges(modules(), unit)
IN_ELASTIC = edges((module for module in modules() if unit(module) == "elastic"), unit_of_elastic)
TABLE = {name: each.imports for name, each in PACKAGES.items()}


@pytest.mark.parametrize("name", sorted(IMPORTS | TABLE))
def test_a_package_imports_what_its_row_says(name: str) -> None:
    assert " ".join(sorted(IMPORTS[name])) == TABLE[name]


def test_architecture_md_shows_the_table_of_packages() -> None:
    assert with_table() == ARCHITECTURE.read_text("utf-8"), "run `python -m tests.packages`"


@pytest.mark.parametrize("name", sorted(IN_ELASTIC | ELASTIC))
def test_a_package_of_elastic_imports_what_its_row_says(name: str) -> None:
    assert " ".join(sorted(IN_ELASTIC[name])) == ELASTIC[name]


@pytest.mark.parametrize("table", [TABLE, ELASTIC], ids=["dsconfig", "elastic"])
def test_a_package_imports_only_packages_above_it(table: Mapping[str, str]) -> None:
    above: set[str] = set()
    for name, others in table.items():
        assert set(others.split()) <= above, name
        above.add(name)


def test_there_are_few_packages_levels_and_edges() -> None:
    assert len(IMPORTS) <= UNITS
    assert levels(IMPORTS) <= LEVELS
    assert sum(map(len, IMPORTS.values())) <= EDGES


@pytest.mark.parametrize("annotations", [False, True], ids=["at run time", "for type checkers too"])
def test_no_two_modules_import_each_other_in_a_circle(annotations: bool) -> None:
    graph = {module: ours(module, annotations=annotations) for module in modules()}
    if annotations:
        del graph["dsconfig"], graph["elastic"]  # both list what they load when it is asked for
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_verb_of_the_command_imports_another() -> None:
    verbs = set(map(command_module, COMMANDS))
    verbs |= {f"dsconfig.cli.elastic.{name}" for name in ELASTIC_VERBS}
    assert verbs <= set(modules())
    assert {verb: sorted(others) for verb in verbs if (others := ours(verb) & verbs - {verb})} == {}


def test_rules_see_the_config_through_their_context() -> None:
    for module in modules():
        if unit(module) == "rules":
            seen = {name for name in ours(module) if unit(name) == "model"}
            assert seen <= LIGHT, f"{module} needs the model of pydantic"
            read = {name for name in ours(module) if unit(name) == "document"}
            assert not read or module.startswith("dsconfig.rules.document_"), f"{module} reads the document"


def test_other_packages_know_of_the_memory_model_what_its_package_exports() -> None:
    inside = {module for module in modules() if unit(module) == "memory"} - {"dsconfig.memory"}
    others = [module for module in modules() if unit(module) != "memory"]
    users = {module: ours(module, annotations=True) & inside for module in others}
    assert {module: sorted(used) for module, used in users.items() if used} == {}


def test_the_memory_package_exports_what_its_annotations_say() -> None:
    memory = import_module("dsconfig.memory")
    tree = modules()["dsconfig.memory"].tree
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    annotated = {
        (str(node.module).removeprefix("dsconfig.memory."), alias.name)
        for node in imported
        for alias in node.names
        if str(node.module).startswith("dsconfig.memory.")
    }
    assert annotated == {(module, name) for module, names in memory.EXPORTS.items() for name in names.split()}
    assert all(getattr(memory, name) for _, name in annotated)


@pytest.mark.parametrize("package", HEAVY)
def test_a_heavy_package_is_imported_only_where_it_is_needed(package: str) -> None:
    users = {
        module for module in modules() if package in {name.partition(".")[0] for name in imports(module)}
    }
    assert {unit(module) for module in users} <= HEAVY[package]
    if package == "torch":
        assert {module for module in users if not module.startswith(TORCH)} == set()


@pytest.mark.parametrize("module", ["dsconfig.model", "dsconfig.model._generated", *sorted(LIGHT)])
def test_the_key_table_needs_no_pydantic(module: str) -> None:
    assert not {name for name in imports(module) if name.startswith("pydantic")}


@pytest.mark.parametrize("package", ["dsconfig", "elastic"])
def test_importing_a_package_loads_nothing_else(package: str) -> None:
    program = f"import sys; before = set(sys.modules); import {package}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "json", "dataclasses", "inspect"}
    assert {name for name in loaded if name.startswith("dsconfig.")} <= {
        "dsconfig.core",
        "dsconfig.core.version",
    }


WRITTEN = sorted(modules().keys() - GENERATED)
LINES = {module: len(modules()[module].text.splitlines()) for module in WRITTEN}
CODE = {module: code(module) for module in WRITTEN}


def test_no_file_is_too_large() -> None:
    assert {module: lines for module, lines in LINES.items() if lines > LARGEST_FILE} == {}


def test_no_file_of_the_tests_is_too_large() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        if "node_modules" not in path.parts:
            assert len(path.read_text("utf-8").splitlines()) <= LARGEST_FILE, path


def test_no_code_is_written_twice() -> None:
    assert repeats(CODE, REPEATED) == []


def test_the_detector_sees_what_is_written_twice() -> None:
    block = [(number, f"step({number})") for number in range(8)]
    apart = [(number, f"other({number})") for number in range(5)]
    assert repeats({"a": [*apart, *block], "b": block}, REPEATED) == ["a:0 = b:0"]
    assert repeats({"a": block + block}, REPEATED) == ["a:0 = a:0"]
    assert repeats({"a": block[:5], "b": block[:5]}, REPEATED) == []


def test_any_is_rare() -> None:
    lines = [f"{module}:{number}" for module in WRITTEN for number, text in CODE[module] if says_any(text)]
    assert len(lines) <= ANY


def says_any(line: str) -> bool:
    """Whether a line of code names `Any`, be it in the text of an alias."""
    return re.search(r"\bAny\b", line) is not None


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module in WRITTEN if not ast.get_docstring(modules()[module].tree)] == []


def test_no_merge_is_left_half_done() -> None:
    marks = ["git", "grep", "-nE", r"^(<{7}|>{7}) "]
    found = subprocess.run(marks, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, ""), found.stderr


def test_entry_points_name_functions_that_are_there() -> None:
    """A renamed function would be missed only when pip's metadata is new."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    entries = [*project["scripts"].values()]
    for group in project["entry-points"].values():
        entries += group.values()
    for entry in entries:
        module, _, function = entry.partition(":")
        path = ROOT / module.replace(".", "/")
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        tree = ast.parse(source.read_text("utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, entry
