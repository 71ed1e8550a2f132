"""Facts about a run beside its config: consumer, training arguments, model, hosts and settings."""
