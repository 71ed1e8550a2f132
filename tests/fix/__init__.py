"""Mending configs: edits, fixes, safety, files."""
