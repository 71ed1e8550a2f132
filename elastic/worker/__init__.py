"""Worker side of the elastic agent: session, lease and checkpoints; does not need torch.

`python -m elastic.worker SCRIPT` runs a training script as a worker.
"""
