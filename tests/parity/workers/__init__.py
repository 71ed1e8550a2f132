"""Programs that run with DeepSpeed, in its own interpreter; they import nothing of ours."""
