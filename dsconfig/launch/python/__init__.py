"""Analyze Python sources without importing or running them: find config dicts, and follow how values flow."""
