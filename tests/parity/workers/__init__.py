"""Programs that run beside DeepSpeed in an interpreter of its own, and import nothing of ours."""
