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
    "worker_crash",
    "worker_killed_then_agent_killed",
    "node_joins",
    "rank_0_of_three_lost",
    "standby_and_promotion",
    "standby_ends_well_with_the_job",
    "store_lost",
    "below_the_minimum",
    "configs_differ",
    "frozen_node",
    "frozen_between_check_and_commit",
    "sigterm_drains",
    "two_processes_a_node",
    "version_2_with_nodes_of_two",
    "failing_script_fails_everywhere",
    "first_node_hosts_the_store",
    "stock_torchrun",
    "the_audit_finds_a_skipped_step",
    "the_audit_finds_two_groups",
}
"""A run of the whole of `test_scenarios.py` that passes fewer of them fails."""


@pytest.fixture
def processes() -> None:
    if not os.environ.get("DSCONFIG_PROCESSES"):
        pytest.skip("starts whole jobs, minutes of them: `make agent` does, with DSCONFIG_PROCESSES=1")


@pytest.fixture
def cluster(processes: None, tmp_path: Path) -> Iterator[MakeCluster]:
    made: list[Cluster] = []

    def make(block: Mapping[str, Any] = POWERS, **environment: str) -> Cluster:
        made.append(Cluster(tmp_path, block, **environment))
        return made[-1]

    yield make
    for one in made:
        one.close()


class _Count:
    """Which scenarios passed; says so at the end, and fails a whole run that lacks one."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.chosen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "agent/test_scenarios.py" in report.nodeid and report.when == "call" and report.passed:
            self.passed.add(report.nodeid.rpartition("::test_")[2])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        chosen = session.config.option.keyword or "::" in "".join(session.config.args)
        if self.passed and not chosen and SCENARIOS - self.passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.passed:
            terminalreporter.write_line(
                f"elastic scenarios that ran ({len(self.passed)} of {len(SCENARIOS)}):"
            )
            terminalreporter.write_line(f"  {', '.join(sorted(self.passed))}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Count(), "elastic-scenarios")
