"""Large jobs in simulated time: groups form, with calls to the store below n log n, and bytes below n squared."""

from __future__ import annotations

from math import log2

import pytest

from elastic.agent.state_store import SMALL
from tests.agent.scale import simulated


@pytest.mark.parametrize("nodes", [8, 64, 256])
def test_a_group_forms_and_forms_again(nodes: int) -> None:
    with simulated(nodes) as simulation:
        first, second, calm = simulation.form(), simulation.form(lost=3), simulation.rest(4)
    assert (first.nodes, first.rounds, second.nodes, second.rounds) == (nodes, 1, nodes - 3, 1)
    polls_often = nodes <= SMALL
    for formed, most in ((first, 20 if polls_often else 10), (second, 40 if polls_often else 22)):
        calls = sum(formed.calls[kind] for kind in ("read", "change", "poll", "write"))
        assert calls < most * nodes * log2(nodes)
        # Each node reads the whole membership some ten times, about 35 bytes for each member.
        assert formed.calls["bytes"] < nodes * (60_000 + 400 * nodes)
    assert first.seconds < 3, "whatever their number"
    assert second.seconds < 9
    assert calm.calls["bytes"] < 8_000 * nodes * 4, "and so much is read a second"
