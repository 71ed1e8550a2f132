"""The optimizer and the scheduler: which params there are depends on the type."""

from __future__ import annotations

from dsconfig.model.keyinfo import types_of
from dsconfig.model.release_view import SectionView
from dsconfig.model.scheduler import SCHEDULERS
from dsconfig.schema import type_schema
from dsconfig.schema.key_descriptions import description
from dsconfig.schema.keywords import Schema, any_case, needs
from dsconfig.schema.type_schema import Refer

TYPED = ("Optimizer", "Scheduler")


def body(seen: SectionView, release: int, properties: dict[str, Schema], refer: Refer) -> Schema:
    """The keywords of the section; `properties` are its other keys."""
    is_scheduler = seen.name == "Scheduler"
    shapes: frozenset[str] = frozenset() if is_scheduler else frozenset({"null"})
    told: Schema = {"description": description("params", seen.keys["params"], None)}
    properties["params"] = told
    kinds = [
        kind for kind in types_of(seen.name).values() if kind.params is not None and release in kind.releases
    ]
    cases: list[Schema] = [{"if": {"minProperties": 1}, "then": needs("type")}]
    if is_scheduler:
        cases.append({"if": _when_type({"type": "string"}), "then": needs("params")})
    for kind in kinds:
        named = _named(seen.name, [kind.name])
        cases.append(_when(named, {**refer(str(kind.params), shapes), **told}))
        needed = _NEEDED.get(kind.name)
        if needed:
            cases.append(_when(named, needs(*needed)))
    known = _named(seen.name, [kind.name for kind in kinds])
    text = _when_type({"type": "string"})
    for case, taken in (
        ({**text, "not": _when_type(known)}, shapes),
        ({"not": text}, type_schema.ANY_SHAPE),  # without a type nobody looks at the params
    ):
        base = {**refer(f"{seen.name}Params", taken), **told}
        cases.append({"if": case, "then": {"properties": {"params": base}}})
    return {"properties": properties, "allOf": cases}


_NEEDED = {kind.name: kind.required for kind in SCHEDULERS if kind.required}


def _when_type(schema: Schema) -> Schema:
    return {"properties": {"type": schema}, "required": ["type"]}


def _when(schema: Schema, params: Schema) -> Schema:
    return {"if": _when_type(schema), "then": {"properties": {"params": params}}}


def _named(section: str, names: list[str]) -> Schema:
    """The types of these names; an optimizer's are compared in lower case."""
    if section == "Optimizer":
        return {"type": "string", "pattern": any_case(names)}
    return {"const": names[0]} if len(names) == 1 else {"enum": names}
