"""The worker's side of the elastic agent: session, lease and checkpoints; does not require torch.

`python -m elastic.worker SCRIPT` runs a training script as a worker.
"""
