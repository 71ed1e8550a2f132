"""Resolution of a config for a run: batch, effective values, and memory."""
