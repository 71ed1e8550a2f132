"""The clusters of the process tests, and the count of the scenarios that ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.cluster import POWERS, Cluster

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    made: list[Cluster] = []

    def make(block: Mapping[str, Any] = POWERS, **environment: str) -> Cluster:
        made.append(Cluster(tmp_path, block, **environment))
        return made[-1]

    yield make
    for one in made:
        one.close()
