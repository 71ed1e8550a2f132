"""Starting is cheap: `--version`, `--help` and a plain check import no heavy module."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dsconfig.cli import COMMANDS
from dsconfig.core import version
from dsconfig.rules import RULES

from .conftest import CLEAN, REFUSED, Runs, Spawns

CHECK_OPTIONS = (
    "--stdin-filename",
    "--target",
    "--world-size",
    "--consumer",
    "--select",
    "--ignore",
    "--extend-select",
    "--fail-on",
    "--exit-zero",
    "--output-format",
    "--color",
    "--statistics",
    "--quiet",
    "--show-files",
    "--show-settings",
)
HEAVY = {"pydantic", "pydantic_core", "yaml", "packaging", "numpy", "torch", "deepspeed", "hjson"}
PROGRAM = """
import sys
from dsconfig.cli import main
code = main(sys.argv[1:])
print("MODULES", *sorted(name for name in sys.modules if "." not in name))
sys.exit(code)
"""


def imported(*argv: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize(
    "argv", [["--version"], ["--help"], ["check", "--help"], ["explain", "--help"], ["explain", "DSC101"]]
)
def test_nothing_heavy_to_say_a_few_words(argv: list[str]) -> None:
    assert not imported(*argv) & HEAVY


@pytest.mark.parametrize("style", ["full", "concise", "json"])
def test_nothing_heavy_to_check_a_file(here: Path, style: str) -> None:
    (here / "clean.json").write_text(CLEAN)
    (here / "refused.json").write_text(REFUSED)
    assert not imported("check", "clean.json", "refused.json", "--output-format", style) & HEAVY


def test_a_clean_check_needs_no_introspection(here: Path) -> None:
    """A sixth of the whole time: `typing`, and `dataclasses` and `pkgutil`, whose `inspect` imports `ast`."""
    (here / "clean.json").write_text(CLEAN)
    assert not imported("check", "clean.json") & {
        "dataclasses",
        "inspect",
        "ast",
        "pkgutil",
        "fractions",
        "typing",
    }


def modules_of_dsconfig(*argv: str) -> list[str]:
    """Modules of dsconfig that a command loads."""
    program = PROGRAM.replace('if "." not in name', 'if name.startswith("dsconfig.")')
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.rpartition("MODULES")[2].split()


def test_a_check_without_a_model_loads_no_part_of_the_memory_model(here: Path) -> None:
    offload = {"device": "cpu"}
    zero = {
        "stage": 3,
        "zero_hpz_partition_size": 8,
        "zero_quantized_weights": True,
        "offload_param": offload,
    }
    (here / "zero.json").write_text(
        json.dumps({"train_batch_size": 8, "zero_optimization": {**zero, "offload_optimizer": offload}})
    )
    loaded = modules_of_dsconfig("check", "zero.json", "--world-size", "8")
    assert not [name for name in loaded if name.startswith("dsconfig.memory.")]


def test_a_clean_check_compiles_no_pattern_before_its_first_use(here: Path) -> None:
    """A pattern takes 0.1 ms to compile, and `re` keeps the compiled pattern of a text that is used again."""
    (here / "clean.json").write_text(CLEAN)
    names = modules_of_dsconfig("check", "clean.json")
    assert [name for name in names if compiles_pattern(name)] == ["dsconfig.document.document"]


def compiles_pattern(module: str) -> bool:
    """Whether importing a module compiles a pattern."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    statements = ast.parse(Path(spec.origin).read_text("utf-8")).body
    return any(
        isinstance(each, ast.Assign | ast.AnnAssign)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func) == "re.compile"
        for each in statements
    )


def test_a_check_imports_only_rules_that_may_find_something(here: Path) -> None:
    (here / "clean.json").write_text('{"train_batch_size": 8, "fp16": {"enabled": true}}')
    program = PROGRAM.replace('if "." not in name', 'if name.startswith("dsconfig.rules.")')
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "clean.json"], capture_output=True, text=True, check=True
    )
    rules = {rule.module for rule in RULES.values()}
    imported = rules & set(done.stdout.rpartition("MODULES")[2].split())
    assert {name.split(".")[2] for name in imported} == {"batch", "precision"}


def test_help_of_the_command_lists_every_verb_wherever_it_stands(run: Runs) -> None:
    assert run("--help", "check").out == run("--help").out


@pytest.mark.parametrize("argv", [["--version"], ["--help"]])
def test_help_needs_little_of_the_standard_library(argv: list[str]) -> None:
    assert not imported(*argv) & {"dataclasses", "inspect", "shutil", "json", "difflib"}


def test_version(spawn: Spawns) -> None:
    assert spawn("--version") == (0, f"dsconfig {version.__version__}\n", "")


def test_the_module_runs_like_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dsconfig", "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"dsconfig {version.__version__}\n"


def test_help_names_every_command_and_option(run: Runs) -> None:
    out = " ".join(run("--help").out.split())  # wherever a terminal's width wraps it
    for verb, summary in COMMANDS.items():
        assert f"{verb} " in out
        assert summary in out
        assert run(verb, "--help").code == 0
    out = run("check", "--help").out
    for option in CHECK_OPTIONS:
        assert option in out
