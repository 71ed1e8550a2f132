"""A store in a dict, and jobs and states of a few nodes, for tests without processes."""

from __future__ import annotations

import threading
from typing import Any

import elastic
from elastic.agent import job_state_transitions
from elastic.agent.job_settings import ElasticJob
from elastic.agent.job_state import JobState
from tests.agent.cluster import POWERS


class DictStore:
    """A store in this process."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.down = False
        self._lock = threading.Lock()

    def set(self, key: str, value: str, /) -> None:
        self.data[key] = value

    def get(self, key: str, /) -> bytes:
        if self.down:
            raise RuntimeError("Broken pipe\nand a stack")
        return self.data[key].encode()

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        self.data.update(zip(keys, values, strict=True))

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        with self._lock:
            if self.data.get(key, "") == expected:
                self.data[key] = desired
            return self.data.get(key, expected).encode()

    def check(self, keys: list[str], /) -> bool:
        return all(key in self.data for key in keys)


def job_of(policy: Any = "standby", nodes: tuple[int, int] = (1, 4), processes: int = 1) -> ElasticJob:
    config = {"elasticity": {"enabled": True, **POWERS}}
    return ElasticJob(config, elastic.plan(config), *nodes, processes, policy)


def with_members(*names: str) -> JobState:
    state = JobState(1)
    for name in names:
        state = job_state_transitions.arrive_at_round(state, name, "host", 1)
    return state


def running(*names: str, size: int | None = None) -> JobState:
    state = job_state_transitions.propose_group(with_members(*names), size or len(names), 3)
    for name in state.group:
        state = job_state_transitions.confirm_rank(state, name)
    assert state.phase == "running"
    return state
