"""Resolve a config for a run: its batch, effective values and memory."""
