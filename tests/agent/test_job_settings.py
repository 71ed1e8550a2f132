"""Which numbers of nodes may train, what all nodes must agree on, and which settings are unsafe."""

from __future__ import annotations

from typing import Any

import pytest

import elastic
from elastic.agent.errors import RefusedError, SettingsError
from elastic.agent.job_settings import ElasticJob, RendezvousSettings, read_settings
from elastic.agent.join_requests import contract_difference
from tests.agent.fakes import job_of


@pytest.mark.parametrize(
    ("policy", "present", "size"),
    [
        ("standby", 3, 2),
        ("standby", 4, 4),
        ("standby", 9, 4),
        ("wait", 3, None),
        ("wait", 2, 2),
        ("fail", 1, 1),
    ],
)
def test_policies(policy: str, present: int, size: int | None) -> None:
    assert job_of(policy).size(present) == size


def test_policy_fail_says_why() -> None:
    with pytest.raises(RefusedError, match=r"3 nodes are not admissible: .*nearest: 2 or 4"):
        job_of("fail").size(3)


def test_below_the_minimum_nobody_trains() -> None:
    assert job_of(nodes=(2, 4)).size(1) is None


def test_a_job_that_can_never_train_is_refused() -> None:
    with pytest.raises(RefusedError, match="admits no number of nodes from 3 to 3"):
        job_of(nodes=(3, 3))
    with pytest.raises(SettingsError, match="expected one of standby, wait, fail"):
        job_of("stand-by")


def refusal(block: dict[str, Any], nodes: tuple[int, int], processes: int) -> str:
    config = {"elasticity": {"enabled": True, **block}}
    with pytest.raises(RefusedError) as caught:
        ElasticJob(config, elastic.plan(config), *nodes, processes)
    return str(caught.value)


ODD = {"max_train_batch_size": 100, "micro_batch_sizes": [7, 9], "min_gpus": 1, "max_gpus": 64}


@pytest.mark.parametrize("more", [{"version": 0.1}, {"version": 0.2, "num_gpus_per_node": 1}])
def test_a_refusal_names_whole_nodes_where_they_help(more: dict[str, Any]) -> None:
    message = refusal({**ODD, **more}, (1, 1), 8)
    assert "set `elasticity.num_gpus_per_node` to 8" in message
    assert ("`elasticity.version` to 0.2" in message) == (more["version"] == 0.1)
    config = {"elasticity": {"enabled": True, **ODD, "version": 0.2, "num_gpus_per_node": 8}}
    assert ElasticJob(config, elastic.plan(config), 1, 1, 8).admissible() == (1,)


def test_a_refusal_names_nodes_and_processes_that_work() -> None:
    message = refusal({**ODD, "version": 0.1}, (5, 5), 6)
    assert "use --nnodes 1, 2" in message
    config = {"elasticity": {"enabled": True, **ODD, "version": 0.1}}
    assert ElasticJob(config, elastic.plan(config), 1, 2, 6).admissible() == (1, 2)
    message = refusal({**ODD, "max_gpus": 7, "version": 0.1}, (1, 1), 8)
    assert "num_gpus_per_node" not in message  # no node of 8 GPUs fits into 7
    assert message.endswith("use --nproc-per-node 6")


def test_contracts_differ_in_the_same_words_everywhere() -> None:
    ours, theirs = job_of().contract(), job_of(processes=2).contract()
    text = contract_difference(theirs, ours, "a", "b")
    assert text is not None
    assert "`nproc-per-node` is 2 on a and 1 on b" in text
    assert contract_difference(ours, dict(ours), "a", "b") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_alive_max_attempt": "2"}, "use at least 3"),
        ({"keep_alive_interval": "0.1"}, "is unsafe"),
        ({"join_timeout": "1"}, "no group could form"),
        ({"join_timeout": "soon"}, "must be a number"),
        ({"keep_alive_interval": "0.1", "keep_alive_max_attempt": "99"}, "too little time to exit"),
        ({"last_call_timeout": "-1"}, "must be from 0"),
        ({"last_call_timeout": "nan"}, "must be from 0"),
        ({"read_timeout": "inf"}, "must be from 0"),
    ],
)
def test_unsafe_settings_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(options)


def test_workers_stop_before_their_node_counts_as_lost() -> None:
    settings = RendezvousSettings()
    assert settings.lease_duration + settings.keep_alive_interval == settings.heartbeat_timeout
