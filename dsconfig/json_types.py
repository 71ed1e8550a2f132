"""Names for the type checker: what a config holds, how a place in it is named, and the type of a key.

Everything may import this, and it imports nothing. A config's own data is the one thing that is `Any` here.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value of a config: whatever JSON, Hjson or YAML can say. Nothing is known of it until a rule looks."""

JsonObject: TypeAlias = "dict[str, Json]"

KeyPath: TypeAlias = "tuple[str | int, ...]"
"""The way to a value: the keys of objects, the indices of lists."""

Spec: TypeAlias = "tuple[Any, ...]"
"""The type of a key, as the key table writes it: its kind, then what the kind needs, such as
`("int", 0, None, None, None)` or `("union", ("null",), ("section", "FP16"))`.
"""
