"""Elastic agent: torch's agent with a rendezvous that follows the plan.

    job_settings, job_state ─► node_view ─► job_state_transitions ─► join_requests ─► state_store
        ─► heartbeat, worker_server ─► node ─► rendezvous

`job_state` defines the state, one JSON document in the job's store, and `node_view` what one node needs of it;
`job_state_transitions` has pure functions on the state, `join_requests` those that a node asks others to apply, and
`state_store` writes the state by compare-and-set. `heartbeat` keeps this node in the job, watches other nodes and
renews the workers' lease. `worker_server` answers this node's workers. Only `rendezvous`, `open_store` and
`elastic.launch` import torch.
"""
