"""What makes an engine look at a value or into a section, besides the switches in the config."""

from __future__ import annotations

SCRIPT = "script"
"""A call in the script, a kind of model, a tool: nothing that the config shows."""
HALF = "half precision"
"""Casting the model to half precision."""
