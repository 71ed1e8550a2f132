"""Elastic agent: torch's agent with a rendezvous that follows the plan.

    job, state ─► transitions ─► state_store ─► heartbeat, worker_server ─► node ─► rendezvous

`state` is one JSON document in the job's store, `transitions` are pure functions on it, and `state_store` writes it by
compare-and-set. `heartbeat` keeps this node alive, watches other nodes and renews the workers' lease. `worker_server`
answers this node's workers. Only `rendezvous`, `store` and `elastic.launch` import torch.
"""
