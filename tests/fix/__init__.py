"""Fixing configs: edits, fixes, safety, files."""
