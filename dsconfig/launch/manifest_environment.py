"""The variables that a manifest gives to the commands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dsconfig.core.json_types import Json
from dsconfig.core.json_values import at
from dsconfig.launch.format_row import Format
from dsconfig.launch.reading_budget import Budget

_INPUT = re.compile(r"\$\{\{\s*([\w.]{1,99})\s*\}\}")


def environment(found: Format, data: Mapping[str, Json]) -> dict[str, str]:
    """The variables by name: those that the manifest writes, and those that its program sets."""
    holders = (at(data, key) for key in found.environment)
    written = (each for holder in holders if isinstance(holder, Mapping) for each in holder.items())
    given = {name: text for name, value in written if (text := _text(value)) is not None}
    for name, key in found.variables.items():
        value = next((found for each in key.split("|") if (found := at(data, each)) is not None), None)
        count = _count(value) if key.endswith("accelerators") else _replicas(value)
        if (text := _text(count)) is not None and not _is_elastic(data):
            given.setdefault(name, text)
        elif value is not None and name not in given:
            given[name] = f"${name}"  # it is set, and only the run shows to what
    if data.get("kind") == "TrainJob":  # whose runtime says how many nodes there are, if it does not
        given.setdefault("PET_NNODES", "$PET_NNODES")
    return given


def _is_elastic(data: Mapping[str, Json]) -> bool:
    """Whether the number of nodes of a PyTorchJob may change: envvar.go sets `PET_NNODES` to a range then."""
    policy = at(data, "spec.elasticPolicy")
    if not isinstance(policy, Mapping):
        return False
    return policy.get("minReplicas") != policy.get("maxReplicas") or policy.get("minReplicas") is None


def with_inputs(text: str, data: Mapping[str, Json], budget: Budget) -> str:
    """A command of Azure ML with what `${{inputs.name}}` stands for in it.

    Raises:
        SpentError: it becomes longer than the budget allows.
    """

    def value(match: re.Match[str]) -> str:
        found = at(data, match[1])
        found = found.get("path") if isinstance(found, Mapping) else found
        written = _text(found) or match[0]
        budget.spend(len(written))
        return written

    return _INPUT.sub(value, text)


def _text(value: Json) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) if isinstance(value, str) or abs(value) < _LARGEST else None


_LARGEST = 10**9


def _count(value: Json) -> Json:
    """How many devices `A100:8` or `{A100: 8}` is."""
    if isinstance(value, Mapping):
        return next(iter(value.values()), None)
    name, colon, count = value.partition(":") if isinstance(value, str) else ("", "", "")
    return count if colon else "1" if name else None


def _replicas(value: Json) -> Json:
    """A number, or the sum of the `replicas` of all kinds of a job."""
    if not isinstance(value, Mapping):
        return value
    counts = [each.get("replicas", 1) for each in value.values() if isinstance(each, Mapping)]
    known = [count for count in counts if type(count) is int]
    return sum(known) if known and len(known) == len(counts) else None
