"""The elastic agent: torch's own, with a rendezvous that knows the plan.

    job, state ─► transitions ─► state_store ─► heartbeat, worker_server ─► node ─► rendezvous

`state` is one JSON document in the job's store and `transitions` are pure functions on it; `state_store`
writes it by compare-and-set; `heartbeat` keeps this node alive in it, watches others and renews the workers'
lease; `worker_server` answers this node's workers.  Only `rendezvous`, `store` and `elastic.launch` import
torch.
"""
