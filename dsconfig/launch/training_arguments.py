"""The training arguments that a launch file gives, by the Trainer's names and as it takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers.registry import BY_NAME
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.json_values import at
from dsconfig.job.detect_consumer import Given, Written
from dsconfig.launch.derived_arguments import derive
from dsconfig.launch.format_row import Format, Write

if TYPE_CHECKING:
    from typing import TypeGuard


def given(found: Format, data: Mapping[str, Json]) -> Given:
    """What a launch file gives to the reader of its config."""
    written = _arguments(found, data)
    likely = derive(found.name, written, data)
    unknown = frozenset(name for name, value in written.items() if value is None)
    known = {name: value for name, value in written.items() if value is not None}
    writes = tuple(each for write in found.writes if (each := _written(data, write)) is not None)
    update = found.update if _STEPS in unknown else None
    sets = _sets(found, data)
    if found.replaces and sets:
        writes += tuple(Written(key, sets.get(key)) for key in KEYS)
        sets = {}
    spelled = {name: own for own, name in found.arguments.items()}
    return Given(
        known, unknown, sets, writes, update, likely, has_flags=bool(found.commands), spelled=spelled
    )


def _sets(found: Format, data: Mapping[str, Json]) -> JsonObject:
    if found.makes != "lightning":
        config = next((at(data, key) for key in found.config if at(data, key)), None)
        alone = isinstance(config, Mapping) and (found.replaces or not any(key in config for key in KEYS))
        return {key: _whole(at(data, own), default) for key, own, default in found.sets} if alone else {}
    from dsconfig.launch.synthesized import lightning

    return lightning.additions(data)


def _whole(value: Json, default: int) -> int:
    return value if type(value) is int and value > 0 else default


_STEPS = "gradient_accumulation_steps"


def _written(data: Mapping[str, Json], write: Write) -> Written | None:
    """What is written into the config because of a key; None where that is not there, or off."""
    value = plain(data.get(write.key))
    if value is None or (write.above is not None and not (_is_number(value) and value > write.above)):
        return None
    if write.only and write.only not in (value if isinstance(value, list) else [value]):
        return None
    return Written(write.place, value if write.value is None else write.value, write.unless, write.stage)


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def _arguments(found: Format, data: Mapping[str, Json]) -> JsonObject:
    """The arguments by the Trainer's names; None where only a run shows the value."""
    holder = at(data, found.within) if found.within else data
    written: JsonObject = dict(found.defaults)
    known = BY_NAME["transformers"].defaults
    for key, value in holder.items() if isinstance(holder, Mapping) else ():
        name = found.arguments.get(key, key)
        if name in known and (value is not None or found.commands):
            # What is searched for differs from run to run.
            written[name] = None if isinstance(constant(value), dict | list) else plain(constant(value))
    return written


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
        return {"true": True, "false": False}.get(value.lower(), value)


def exponents(value: Json) -> Json:
    """A value with the numbers in it that OmegaConf reads where YAML 1.1 reads a text: `1e-5`.

    Source: omegaconf _utils.py, get_yaml_loader.
    """
    if isinstance(value, dict):
        return {key: exponents(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(exponents, value))
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


_EXPONENT = re.compile(r"[-+]?\d{1,99}[eE][-+]?\d{1,4}", re.ASCII)


def human(value: Json) -> Json:
    """A value with the numbers in it that people write as `5e8`, `500m` or `2^20`.

    Source: arctic_training config/utils.py, parse_human_val.
    """
    if isinstance(value, dict):
        return {key: human(each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    text = value.replace("_", "").lower().strip()
    if power := re.fullmatch(_POWER, text, re.ASCII):
        base, exponent = map(float, power.groups())
        return base**exponent if 0 < base < _LARGEST and exponent < _LARGEST else value
    number = re.fullmatch(_HUMAN, text, re.ASCII)
    return float(number[1]) * _UNITS[number[2] or ""] if number else value


_POWER = r"(\d{1,9}\.?\d?)\^(\d{1,3}\.?\d?)"
_HUMAN = r"(-?\d{1,99}(?:\.\d{0,99})?(?:e[+-]?\d{1,2})?)([kmbt]|[kmgt]i)?"
_LARGEST = 100.0
"""Of a power: beyond it nothing is a size of anything."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
