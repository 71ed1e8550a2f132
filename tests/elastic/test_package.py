from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import elastic

ROOT = Path(elastic.__file__).parent
TORCH = {"agent/rendezvous.py", "agent/round_store.py", "agent/open_store.py", "launch.py"}
HEAVY = {"numpy", "torch", "deepspeed", "dsconfig", "pydantic", "yaml", "packaging"}


def loaded_after(code: str) -> set[str]:
    """The heavy modules that a fresh interpreter holds after `code`."""
    program = f"{code}\nimport sys\nprint(*(name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return HEAVY & set(done.stdout.split())


def test_import_is_light() -> None:
    assert loaded_after("import elastic") == set()


def test_solving_and_planning_are_light() -> None:
    config = {"elasticity": {"enabled": True, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    calls = f"elastic.plan({config}); elastic.compute_elastic_config({config}, '0.19.7', 2)"
    assert loaded_after(f"import elastic; {calls}") == set()


def test_nothing_of_dsconfig_or_torch_is_imported() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 10
    for file in files:
        if str(file.relative_to(ROOT)) not in TORCH:
            text = file.read_text("utf-8")
            for other in ("dsconfig", "torch", "deepspeed"):
                assert f"\nimport {other}" not in text
                assert f"\nfrom {other}" not in text


def test_exports_resolve() -> None:
    for name in elastic.__all__:
        assert getattr(elastic, name) is not None, name
        assert name in dir(elastic)
    assert sorted(elastic.__all__) == sorted(name for names in elastic._EXPORTS.values() for name in names)
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(elastic, "no_such_name")  # noqa: B009


def test_plan_and_search_are_functions_whatever_is_imported_before() -> None:
    code = (
        "import elastic, elastic.planning.plan, elastic.planning.exact_search\n"
        "c = {'elasticity': {'enabled': True, 'max_train_batch_size': 64, 'micro_batch_sizes': [2]}}\n"
        "assert elastic.plan(c) == elastic.planning.plan.plan(c)\n"
        "assert elastic.search(c).exact.batch_size == 60\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_docstring_examples() -> None:
    result = doctest.testmod(elastic)
    assert result.attempted > 0
    assert result.failed == 0
