"""What has an engine look at a value or into a section, beside the switches of the config."""

from __future__ import annotations

SCRIPT = "script"
"""A call in the script, a kind of model, a tool: nothing that a config shows."""
HALF = "half precision"
"""A model that is cast to half precision."""
