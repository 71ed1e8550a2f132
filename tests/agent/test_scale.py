"""Large jobs in simulated time: groups form, and all calls to the store together stay below n log n."""

from __future__ import annotations

from math import log2

import pytest

from tests.agent.scale import simulated


@pytest.mark.parametrize("nodes", [8, 64])
def test_a_group_forms_and_forms_again(nodes: int) -> None:
    with simulated(nodes) as simulation:
        first, second = simulation.form(), simulation.form(lost=3)
    assert (first.nodes, first.rounds, second.nodes, second.rounds) == (nodes, 1, nodes - 3, 1)
    assert first.calls["change"] < 3 * nodes * log2(nodes)
    assert second.calls["change"] < 2 * nodes * log2(nodes)
    assert first.calls["read"] < 6 * nodes * log2(nodes)
