"""Elastic batch sizes: the section by itself, and the world sizes at which it works."""
