"""LoRA as it is asked for: `r=16,target=q_proj,v_proj`, or the same as a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.graph import Adapter

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

ALL = ("all", "all-linear")
"""Words for every linear layer but the head."""
NAMES = {"r": "r", "rank": "r", "target": "target", "target_modules": "target", "targets": "target"}
NAMES |= {"dropout": "dropout", "lora_dropout": "dropout", "alpha": "alpha", "lora_alpha": "alpha"}
USUAL = frozenset(("q_proj", "v_proj", "c_attn", "query_key_value", "qkv_proj", "query", "value"))
"""PEFT's own targets for the families that are modelled (peft utils/constants.py)."""
LARGEST = 1 << 20
EXPECTED = "expected r=RANK, target=NAME,NAME… or all, dropout=SHARE"


def adapter_of(given: str | Mapping[str, Json]) -> Adapter:
    """The adapter.

    Raises:
        ValueError: it cannot be understood.
    """
    values = _parsed(given) if isinstance(given, str) else dict(given)
    found: dict[str, Json] = {}
    for name, value in values.items():
        if name not in NAMES:
            raise ValueError(f"lora: `{name}` is unknown; {EXPECTED}")
        found[NAMES[name]] = value
    rank, target = _number(found.get("r", 8)), found.get("target")
    if not isinstance(rank, int) or not 1 <= rank <= LARGEST:
        raise ValueError(f"lora: r is `{found.get('r')}`; expected a whole number above 0")
    share = _number(found.get("dropout", 0.0))
    if share is None or not 0 <= share < 1:
        raise ValueError(f"lora: dropout is `{found.get('dropout')}`; expected a share below 1")
    return Adapter(rank, _targets(target), float(share))


def _parsed(text: str) -> dict[str, Json]:
    """`target` takes every word without `=` that follows it."""
    found: dict[str, Json] = {}
    targets: list[Json] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = word.partition("=")
        if equals and NAMES.get(name.strip()) == "target":
            found["target"] = targets
            targets += [part for part in value.split("+") if part]
        elif equals:
            found[name.strip()] = value.strip()
        elif targets:
            targets.append(word)
        else:
            raise ValueError(f"lora: `{word}`; {EXPECTED}")
    return found


def _number(value: Json) -> int | float | None:
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() and len(value) < 20 else float(value)
        except ValueError:
            return None
    return value if type(value) in (int, float) else None


def _targets(value: Json) -> frozenset[str]:
    """Names of layers; none stand for all of them. LLaMA-Factory and Axolotl write several as one word."""
    names = [value] if isinstance(value, str) else value
    if names is None:
        return USUAL
    known = names if isinstance(names, list) else []
    words = {part.strip() for name in known if isinstance(name, str) for part in name.split(",")} - {""}
    if not words or not all(isinstance(name, str) for name in known):
        raise ValueError(f"lora: target is `{value}`; expected names of layers, or all")
    return frozenset() if words & set(ALL) else frozenset(name.rpartition(".")[2] for name in words)
