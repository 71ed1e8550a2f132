"""Facts about a machine and its environment, and what of a config they do not allow; read only."""
