"""Elastic agent: torch's agent with a rendezvous that follows the plan.

    job_settings, job_state ─► job_state_transitions ─► state_store ─► heartbeat, worker_server ─► node ─► rendezvous

`job_state` defines the state, one JSON document in the job's store; `job_state_transitions` has pure functions on the
state, and `state_store` writes it by compare-and-set. `heartbeat` keeps this node in the job, watches other nodes and
renews the workers' lease. `worker_server` answers this node's workers. Only `rendezvous`, `open_store` and
`elastic.launch` import torch.
"""
