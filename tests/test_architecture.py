"""The house: which room imports which, where heavy packages are imported, and how large things may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter

import pytest

from dsconfig.cli import VERBS, module_of
from dsconfig.cli.elastic import VERBS as ELASTIC_VERBS
from tests.source import (
    ROOT,
    arrows,
    code,
    floors,
    imports,
    modules,
    ours,
    repeats,
    room,
    room_of_elastic,
)

GENERATED = {
    *(
        "dsconfig.model",
        "dsconfig.model._prose",
        "dsconfig.model._table",
        "dsconfig.model.config",
        "dsconfig.model.dicts",
    ),
    "dsconfig.rules._index",
}
"""Written by `make generate`: nobody reads them from end to end, so nothing below measures them."""

HOUSE: Mapping[str, str] = {
    # What everything may know: it knows nothing itself.
    "json_types": "",
    "_version": "",
    "releases": "json_types",
    "words": "",
    "diagnostic": "json_types",
    # Output knows a report's diagnostics and nothing of how they came about.
    "render": "_version diagnostic",
    # Arithmetic of elastic batches, importable alone: it never imports dsconfig.
    "elastic": "",
    "batch": "elastic json_types",
    # A config's text becomes a tree that knows its places.
    "document": "",
    # What DeepSpeed has keys for, how a release reads a value, and who hands it the file.
    "model": "diagnostic json_types releases words",
    "dialect": "",
    "consumers": "batch document json_types releases words",
    "settings": "consumers document words",
    # What training holds in memory, simulated: arithmetic of shapes and set-ups, which knows no config.
    "sizing": "",
    # What one rule sees of one release; then the rules themselves; then all releases at once.
    "evaluation": "consumers diagnostic dialect document json_types model releases",
    "rules": "batch consumers diagnostic dialect document elastic evaluation json_types model releases"
    " sizing words",
    "checking": "consumers diagnostic document evaluation json_types releases render rules settings words",
    # What is done with a verdict.
    "fixing": "checking diagnostic dialect document evaluation model releases words",
    "resolving": "batch checking consumers diagnostic document elastic evaluation model releases sizing",
    "building": "checking document evaluation fixing model releases resolving",
    # What is written without one: configs to start from, schemas for editors, hand-offs to elastic.
    "schema": "consumers document evaluation model releases rules settings words",
    "presets": "building schema",
    "jobs": "document elastic",
    # What users see.
    "lsp": "_version batch checking consumers diagnostic document evaluation fixing model releases render"
    " resolving rules schema settings words",
    "cli": "_version checking consumers diagnostic document elastic fixing jobs lsp model releases"
    " render resolving rules schema settings sizing words",
    # The package itself loads nothing before it is asked for.
    "dsconfig": "_version",
    "__main__": "cli",
}
"""Every room and all that it imports, in the order in which a config passes: a room imports only rooms above.

So a reader who goes from the top down meets nothing unknown, a change is felt only further down, and what
stands at the top can be used alone: `document` is a reader, `elastic` a library, of any other program.
"""

ELASTIC: Mapping[str, str] = {
    "errors": "",
    "json_types": "",
    "constants": "",
    "divisors": "",
    "atomic_write": "",
    "printable": "",
    # DeepSpeed's own solver, as its releases had it; then plans upon it.
    "deepspeed": "constants divisors errors json_types",
    "planning": "constants deepspeed divisors errors json_types",
    # What a training process asks of its agent; then the agent, which alone needs torch.
    "worker": "atomic_write errors json_types",
    "agent": "atomic_write errors json_types planning printable worker",
    "launch": "agent",
    "elastic": "",
}
"""The same within `elastic`."""

ROOMS, FLOORS, ARROWS = 27, 10, 120
"""At most: rooms, the longest way from the ground to the roof, and imports between two rooms."""

HEAVY: dict[str, set[str]] = {
    "pydantic": {"model"},
    "pydantic_core": {"model"},
    "yaml": {"document", "jobs"},
    "packaging": {"releases", "elastic"},
    "numpy": {"elastic"},
    "torch": {"elastic"},
    "pygls": {"lsp"},
    "cattrs": {"lsp"},
    "deepspeed": set(),
    "hjson": set(),
    "jsonschema": set(),
}
"""Packages that cost time to import, or that only tests may need, and the rooms that may import them."""

TORCH = ("elastic.agent", "elastic.launch")
LIGHT = {f"dsconfig.model.{name}" for name in ("keyinfo", "openers", "paths", "torch_classes", "views")}
"""What a rule may know of the model: the generated table of its keys, which needs no pydantic."""

LARGEST_FILE = 600
"""Lines. Functions are judged by their complexity, which ruff measures (`max-complexity`)."""
REPEATED = 6
"""So many lines of code in a row stand in one place only."""
ANY = 40
"""Lines that say `Any`. A config's own data is `Json`, which is not counted."""


def test_the_walk_sees_imports() -> None:
    assert len(modules()) > 100
    assert "dsconfig.model.key_page" in ours("dsconfig.cli.explain"), "inside a function"
    assert "dsconfig.document" not in ours("dsconfig.render.json")


IN_HOUSE = arrows(modules(), room)
IN_ELASTIC = arrows((module for module in modules() if room(module) == "elastic"), room_of_elastic)


@pytest.mark.parametrize("name", sorted(IN_HOUSE | HOUSE))
def test_a_room_imports_what_its_row_says(name: str) -> None:
    assert " ".join(sorted(IN_HOUSE[name])) == HOUSE[name]


@pytest.mark.parametrize("name", sorted(IN_ELASTIC | ELASTIC))
def test_a_room_of_elastic_imports_what_its_row_says(name: str) -> None:
    assert " ".join(sorted(IN_ELASTIC[name])) == ELASTIC[name]


@pytest.mark.parametrize("table", [HOUSE, ELASTIC], ids=["dsconfig", "elastic"])
def test_a_room_imports_only_rooms_above_it(table: Mapping[str, str]) -> None:
    above: set[str] = set()
    for name, others in table.items():
        assert set(others.split()) <= above, name
        above.add(name)


def test_the_house_has_few_rooms_floors_and_arrows() -> None:
    assert len(IN_HOUSE) <= ROOMS
    assert floors(IN_HOUSE) <= FLOORS
    assert sum(map(len, IN_HOUSE.values())) <= ARROWS


@pytest.mark.parametrize("annotations", [False, True], ids=["at run time", "for type checkers too"])
def test_no_two_modules_import_each_other_in_a_circle(annotations: bool) -> None:
    graph = {module: ours(module, annotations=annotations) for module in modules()}
    if annotations:
        del graph["dsconfig"], graph["elastic"]  # both list what they load when it is asked for
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_verb_of_the_command_imports_another() -> None:
    verbs = set(map(module_of, VERBS))
    verbs |= {f"dsconfig.cli.elastic.{name}" for name in ELASTIC_VERBS}
    assert verbs <= set(modules())
    assert {verb: sorted(others) for verb in verbs if (others := ours(verb) & verbs - {verb})} == {}


def test_rules_see_the_config_through_their_context() -> None:
    for module in modules():
        if room(module) == "rules":
            seen = {name for name in ours(module) if room(name) == "model"}
            assert seen <= LIGHT, f"{module} needs the model of pydantic"
            read = {name for name in ours(module) if room(name) == "document"}
            assert not read or module.startswith("dsconfig.rules.document."), f"{module} reads the document"


@pytest.mark.parametrize("package", HEAVY)
def test_a_heavy_package_is_imported_only_where_it_is_needed(package: str) -> None:
    users = {
        module for module in modules() if package in {name.partition(".")[0] for name in imports(module)}
    }
    assert {room(module) for module in users} <= HEAVY[package]
    if package == "torch":
        assert {module for module in users if not module.startswith(TORCH)} == set()


@pytest.mark.parametrize("module", ["dsconfig.model", "dsconfig.model._table", *sorted(LIGHT)])
def test_the_key_table_needs_no_pydantic(module: str) -> None:
    assert not {name for name in imports(module) if name.startswith("pydantic")}


@pytest.mark.parametrize("package", ["dsconfig", "elastic"])
def test_importing_a_package_loads_nothing_else(package: str) -> None:
    program = f"import sys; before = set(sys.modules); import {package}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "json", "dataclasses", "inspect"}
    assert {name for name in loaded if name.startswith("dsconfig.")} <= {"dsconfig.core.version"}


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
