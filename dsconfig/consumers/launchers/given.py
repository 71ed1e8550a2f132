"""The training arguments that a launch file gives, by the Trainer's names and as it takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dsconfig.consumers.by_name import BY_NAME
from dsconfig.consumers.launchers.table import Format, at
from dsconfig.json_types import Json, JsonObject


def arguments(found: Format, data: Mapping[str, Json]) -> tuple[JsonObject, frozenset[str]]:
    """The arguments by the Trainer's names, and the names of those that only a run shows."""
    holder = at(data, found.within) if found.within else data
    written: JsonObject = dict(found.defaults)
    known = BY_NAME["transformers"].defaults
    for key, value in holder.items() if isinstance(holder, Mapping) else ():
        name = found.arguments.get(key, key)
        if name in known and (value is not None or found.commands):
            # What is searched for differs from run to run.
            written[name] = None if isinstance(constant(value), dict | list) else plain(constant(value))
    if found.name == "Axolotl" and "gradient_accumulation_steps" not in data:
        batch, micro = data.get("batch_size"), data.get("micro_batch_size")
        if type(batch) is int and type(micro) is int and micro > 0:
            written["gradient_accumulation_steps"] = batch // micro
    unknown = frozenset(name for name, value in written.items() if value is None)
    return {name: value for name, value in written.items() if value is not None}, unknown


def constant(value: Json) -> Json:
    """A hyperparameter of Determined that is the same in every run, as its value."""
    return value["val"] if isinstance(value, dict) and {"type", "val"} <= value.keys() else value


def plain(value: Json) -> Json:
    """The value as argparse and OmegaConf take it: `1e-5` is a number, which YAML reads as a text."""
    if not isinstance(value, str):
        return value
    try:
        number = json.loads(value)
    except ValueError:
        pass
    else:
        return number if isinstance(number, int | float) else value
    try:
        return float(value)
    except ValueError:
        return {"true": True, "false": False, "auto": True}.get(value.lower(), value)
