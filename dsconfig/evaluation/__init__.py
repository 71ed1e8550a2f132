"""Evaluate a config for one release: run the rules on its keys and effective values."""
