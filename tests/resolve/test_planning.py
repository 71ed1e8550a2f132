"""The table of a plan, and the ways to name world sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsconfig.cli.elastic.plan import (
    parse_number_ranges,
    set_gpus_per_node,
    tabulate_plan,
    world_sizes_of_nodes,
)
from elastic.deepspeed.release_behavior import LATEST

CONFIG: dict[str, Any] = {
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 2000,
        "micro_batch_sizes": [2, 4, 6],
        "version": 0.1,
        "max_gpus": 64,
    }
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8", [8]),
        ("16,8,8", [8, 16]),
        ("2:5", [2, 3, 4, 5]),
        ("8:32:8", [8, 16, 24, 32]),
        ("1, 4:6 ,9", [1, 4, 5, 6, 9]),
        ("8:9:4", [8]),
    ],
)
def test_numbers(text: str, found: list[int]) -> None:
    assert parse_number_ranges(text) == found


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "a", "1:", ":4", "1:2:3:4", "5:2", "1:9:0", "1.5", "1:9999999"]
)
def test_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_number_ranges(text)


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_each_size_asked_for_has_a_row_or_a_reason(sizes: list[int]) -> None:
    table = tabulate_plan(CONFIG, sizes, semantics=LATEST)
    assert [line.world_size for line in table.sizes] == sizes
    for line in table.sizes:
        if line.row is None:
            assert line.reason
            assert 0 < line.idle_share < 1
            assert line.runs_at in table.plan.world_sizes
        else:
            assert (line.reason, line.runs_at, line.idle_share) == (None, None, 0.0)
            assert (
                line.row.micro_batch_size * line.row.accumulation_steps * line.world_size
                == table.plan.batch_size
            )


def test_exact_is_never_worse_on_the_sizes_asked_for() -> None:
    sizes = list(range(8, 65, 8))
    table = tabulate_plan(CONFIG, sizes, exact=True, semantics=LATEST)
    assert len(table.exactly_admitted_world_sizes) >= len(table.admitted_world_sizes)
    assert table.exact is not None
    assert table.exact.batch_size != table.plan.batch_size


def test_all_admissible_sizes_where_none_is_named() -> None:
    table = tabulate_plan(CONFIG, semantics=LATEST)
    assert table.admitted_world_sizes == table.plan.world_sizes


def test_nodes() -> None:
    config = set_gpus_per_node(CONFIG, 8)
    assert config["elasticity"]["num_gpus_per_node"] == 8
    assert "num_gpus_per_node" not in CONFIG["elasticity"]
    assert world_sizes_of_nodes(config, [1, 3]) == [8, 24]
    tabulated = tabulate_plan(config, [8, 24], semantics=LATEST)
    assert [(line.gpus, line.nodes) for line in tabulated.sizes] == [(8, 1), (24, 3)]
