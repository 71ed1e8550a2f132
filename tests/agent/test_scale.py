"""Large jobs in simulated time: groups form, with calls to the store and bytes read below n log n."""

from __future__ import annotations

from math import log2

import pytest

from elastic.agent.node_view import CROWD, NODES_PER_PAGE
from elastic.agent.state_store import SMALL
from tests.agent.scale import simulated


@pytest.mark.parametrize("nodes", [8, 64, 256])
def test_a_group_forms_and_forms_again(nodes: int) -> None:
    with simulated(nodes) as simulation:
        first, second, calm = simulation.form(), simulation.form(lost=3), simulation.rest(4)
    assert (first.nodes, first.rounds, second.nodes, second.rounds) == (nodes, 1, nodes - 3, 1)
    polls_often = nodes <= SMALL
    for formed, most in ((first, 20 if polls_often else 10), (second, 40 if polls_often else 22)):
        calls = sum(formed.calls[kind] for kind in ("read", "page", "change", "poll", "write"))
        assert calls < most * nodes * log2(nodes)
        assert formed.calls["bytes"] < (5_000 if nodes >= CROWD else 15_000) * nodes * log2(nodes)
    assert first.seconds < 3, "whatever their number"
    assert second.seconds < 9
    assert calm.calls["bytes"] < 3_000 * nodes * 4, "and so much is read a second"


def test_the_bytes_that_a_large_group_reads_grow_with_n_log_n(monkeypatch: pytest.MonkeyPatch) -> None:
    """In jobs of an eighth of the size, with pages and readers to match: 16 to 128 nodes stand for 128 to 1,024."""
    monkeypatch.setattr("elastic.agent.node_view.CROWD", CROWD // 8)
    monkeypatch.setattr("elastic.agent.node_view.NODES_PER_PAGE", NODES_PER_PAGE // 4)
    monkeypatch.setattr("elastic.agent.heartbeat._READERS", 2)
    rates: dict[int, list[float]] = {}
    for nodes in (16, 128):
        with simulated(nodes) as simulation:
            groups = simulation.form(), simulation.form(lost=1)
        rates[nodes] = [group.calls["bytes"] / (nodes * log2(nodes)) for group in groups]
    for few, many in zip(rates[16], rates[128], strict=True):
        assert many < min(few, 2_000), "10,000 and more, if each node reads the whole state"
