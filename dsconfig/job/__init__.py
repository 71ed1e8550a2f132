"""Facts about a run besides its config: consumer, training arguments, model, hosts and settings."""
