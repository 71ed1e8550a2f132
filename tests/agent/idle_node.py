"""A node that takes its rank in a group and starts no workers: `idle_node.py HOST:PORT CONFIG`."""

from __future__ import annotations

import sys
import tempfile
import time

import elastic
from dsconfig.cli.handoff.elastic_job import read_config
from elastic.agent.job_settings import ElasticJob, LocalNode, RendezvousSettings
from elastic.agent.node import Node
from elastic.agent.open_store import connect_store
from elastic.agent.store_endpoint import parse_endpoint

endpoint, path = parse_endpoint(sys.argv[1]), sys.argv[2]
config, settings = read_config(path), RendezvousSettings(last_call_timeout=60)
job = ElasticJob(config, elastic.plan(config), 1, 4, 1)
local = LocalNode(job, settings, "default", "127.0.0.1", tempfile.mkdtemp(prefix="dsconfig-idle-"))
node = Node.open(local, connect_store(endpoint, settings), lambda: connect_store(endpoint, settings))
print("joining", flush=True)
assignment, _ = node.join()
print(f"joined {assignment.nodes}", flush=True)
time.sleep(600)
