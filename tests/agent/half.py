"""A node that takes its place in a group and starts no workers: `half.py HOST:PORT CONFIG`."""

from __future__ import annotations

import sys
import tempfile
import time

import elastic
from dsconfig.jobs.torchrun import read_config
from elastic.agent.admission import Job
from elastic.agent.node import Node
from elastic.agent.settings import Settings
from elastic.agent.store import connect_store, parse_endpoint

endpoint, path = parse_endpoint(sys.argv[1]), sys.argv[2]
config, settings = read_config(path), Settings(last_call_timeout=60)
job = Job(config, elastic.plan(config), 1, 4, 1)
node = Node(job, settings, "default", "127.0.0.1", tempfile.mkdtemp(prefix="dsconfig-half-"))
node.open(connect_store(*endpoint, settings), lambda: connect_store(*endpoint, settings))
print("joining", flush=True)
place, _ = node.join()
print(f"joined {place.nodes}", flush=True)
time.sleep(600)
