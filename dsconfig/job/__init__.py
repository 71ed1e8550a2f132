"""Facts about a run apart from its config: consumer, training arguments, model, hosts and settings."""
