"""How many nodes one store carries: `python -m tests.agent.scale [--nodes 64]`.

The nodes are threads of this process, each with connections of its own to a real store: Python's lock makes
them slower than nodes on hosts of their own are.  Prints how long a group takes to form, and to form again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import elastic
from elastic.agent.admission import Job
from elastic.agent.node import Node
from elastic.agent.settings import Settings
from elastic.agent.store import connect_store
from tests.agent.cluster import Cluster

SETTINGS = Settings(keep_alive_interval=5, last_call_timeout=10)


def job_of(nodes: int) -> Job:
    block: dict[str, Any] = {"enabled": True, "max_train_batch_size": 100 * nodes, "micro_batch_sizes": [1]}
    config = {"elasticity": {**block, "max_gpus": 2 * nodes, "version": 0.1}}
    return Job(config, elastic.plan(config), 1, nodes, 1)


def open_node(job: Job, folder: Path, port: int) -> Node:
    folder.mkdir()
    node = Node(job, SETTINGS, "scale", "127.0.0.1", str(folder))
    node.open(connect_store("127.0.0.1", port, SETTINGS), lambda: connect_store("127.0.0.1", port, SETTINGS))
    return node


def join_again(node: Node) -> int:
    while not node.waiting():
        time.sleep(0.1)
    return node.join()[0].nodes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=64)
    count = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(count) as pool:
        cluster = Cluster(Path(folder))
        cluster.start_store()
        try:
            job = job_of(count)
            nodes = [open_node(job, Path(folder) / str(number), cluster.port) for number in range(count)]
            began = time.monotonic()
            sizes = Counter(place.nodes for place, _ in pool.map(Node.join, nodes))
            print(f"{count} nodes: groups of {dict(sizes)} in {time.monotonic() - began:.1f} s", flush=True)
            began = time.monotonic()
            nodes[0].leave()
            sizes = Counter(pool.map(join_again, nodes[1:]))
            print(f"one leaves: groups of {dict(sizes)} in {time.monotonic() - began:.1f} s", flush=True)
            list(pool.map(Node.leave, nodes))
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
