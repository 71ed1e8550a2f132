"""A check calls few functions in few files; see `tests/benchmarks/calls.py`."""

from __future__ import annotations

from tests.benchmarks.calls import counted


def test_a_clean_config_loads_only_rules_that_may_find_something() -> None:
    count = counted("clean")
    assert count.diagnostics == 0
    assert count.calls <= 3_500
    assert count.files <= 70
    assert count.frames <= 10


def test_four_diagnostics() -> None:
    count = counted("four")
    assert count.diagnostics == 4
    assert count.calls <= 10_000
    assert count.frames <= 10
