"""What runs in a worker of the elastic agent: its session, its lease and its checkpoints; no torch.

`python -m elastic.worker SCRIPT` runs a training script as such a worker.
"""
