"""The clusters of the process tests, and the count of the scenarios that ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.cluster import POWERS, Cluster

MakeCluster = Callable[..., Cluster]

SCENARIOS = {
    # test_scenarios.py
    "worker_crash",
    "worker_killed_then_agent_killed",
    "rank_0_of_three_lost",
    "store_lost",
    "job_goes_on_with_a_new_store",
    "below_the_minimum",
    "configs_differ",
    "frozen_node",
    "frozen_between_check_and_commit",
    "two_processes_a_node",
    "version_2_with_nodes_of_two",
    "hung_collective",
    "host_that_cannot_be_written_to",
    "failing_script_fails_everywhere",
    "member_dies_before_its_workers_start",
    "the_audit_finds_a_skipped_step",
    "the_audit_finds_two_groups",
    # test_faults.py
    "straggler",
    "every_way_in_which_a_worker_can_end",
    "full_disk",
    "clocks_that_jump",
    "damaged_commit_file",
    "damaged_commit_file_under_a_living_store",
    # test_orderly.py
    "node_joins",
    "standby_and_promotion",
    "standby_ends_well_with_the_job",
    "sigterm_drains",
    "sigterm_to_all_nodes_keeps_the_work",
    # test_ways.py
    "first_node_hosts_the_store",
    "the_store_ends_with_its_job",
    "stock_torchrun",
    "stock_torchrun_with_another_number_of_workers",
    "from_python_with_the_whole_environment",
    "slurm_script",
    # test_canaries.py
    "t1_scale_up_fails_when_rank_0_stays",
    "t2_losing_rank_0_of_three_fails",
    "t3_a_spare_node_fails_at_the_end_of_the_job",
    "t4_a_node_whose_heartbeat_lapsed_trains_on_beside_a_second_group",
    # test_etcd.py
    "etcd_leader_killed",
    "etcd_member_cut_off",
    "etcd_restarted_one_after_the_other",
    "etcd_without_a_majority",
    # test_etcd_secure.py
    "etcd_with_certificates_and_users",
    # test_example.py
    "example[2]",
    "example[3]",
}
"""Tests that `make agent` must run; `partition` also runs if this user may create a network namespace."""


@pytest.fixture
def processes() -> None:
    if not os.environ.get("DSCONFIG_PROCESSES"):
        pytest.skip("starts whole jobs, minutes of them: `make agent` does, with DSCONFIG_PROCESSES=1")


@pytest.fixture
def cluster(processes: None, tmp_path: Path) -> Iterator[MakeCluster]:
    clusters: list[Cluster] = []

    def make(block: Mapping[str, Any] = POWERS, **environment: str) -> Cluster:
        clusters.append(Cluster(tmp_path, block, **environment))
        return clusters[-1]

    yield make
    for one in clusters:
        one.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make agent` runs what `make test` leaves out, and nothing twice."""
    if _Count.whole(config):
        whole = [item for item in items if "processes" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in whole])
        items[:] = whole


class _Count:
    """Which scenarios passed; says so at the end, and fails a whole run that lacks one."""

    def __init__(self) -> None:
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::test_")[2]
        if "tests/agent/" in report.nodeid and report.when == "call" and report.passed:
            self.passed.add(name)

    @staticmethod
    def whole(config: pytest.Config) -> bool:
        """Whether this run is `make agent`'s, not a choice of tests by hand."""
        return bool(os.environ.get("DSCONFIG_PROCESSES")) and config.args == ["tests/agent"]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.whole(session.config) and not session.config.option.keyword and SCENARIOS - self.passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not os.environ.get("DSCONFIG_PROCESSES"):
            return
        ran = sorted(self.passed & (SCENARIOS | {"partition"}))
        terminalreporter.write_line(f"elastic scenarios that ran ({len(ran)}): {', '.join(ran)}")
        if self.whole(terminalreporter.config) and (missing := SCENARIOS - self.passed):
            terminalreporter.write_line(f"scenarios that did NOT run: {', '.join(sorted(missing))}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Count(), "elastic-scenarios")
