"""What is known about a run beside its config: who reads it, with which arguments, model and settings."""
