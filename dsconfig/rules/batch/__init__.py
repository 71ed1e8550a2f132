"""Batch sizes: the three keys, and the ranks that they are shared out to."""
