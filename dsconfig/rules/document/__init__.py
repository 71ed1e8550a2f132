"""The text itself: whether it can be read, and what stands in it instead of a config."""
