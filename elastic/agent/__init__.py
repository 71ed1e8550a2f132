"""The elastic agent: torch's, with a rendezvous of our own that knows the plan.

    admission ─► state ─► moves ─► board ─► pulse, desk ─► handler ─► elastic.launch

`state` is one JSON document in the job's store and `moves` are pure functions on it; `board` writes it by
compare-and-set; `pulse` keeps this node alive in it, watches others and renews the workers' lease; `desk`
answers this node's workers.  Only `handler`, `store` and `elastic.launch` import torch.
"""
