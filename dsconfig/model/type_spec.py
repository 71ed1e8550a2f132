"""Annotations of the model as plain tuples, the form in which the checker's table holds types.

("bool",)  ("str",)  ("path",)  ("null",)  ("any",)     "path" is a string that becomes a pathlib.Path
("never",)                                              refuses every JSON value
("int", ge, gt, le, lt)  ("float", ge, gt, le, lt)      a bound that is not set is None
("enum", member, …)                                     strings, integers, booleans
("list", item)  ("map", value)  ("section", class name)
("union", arm, …)
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dsconfig.core.json_types import JsonObject, Spec
from dsconfig.model.annotations import Checked
from dsconfig.model.section import is_section

_BOUNDS = ("ge", "gt", "le", "lt")
_PLAIN: dict[object, str] = {bool: "bool", str: "str", type(None): "null", Any: "any", object: "any"}


def of(annotation: object) -> Spec:
    """The spec of an annotation.

    Raises:
        TypeError: the annotation is outside the model's vocabulary.
    """
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        instead = [item.spec for item in metadata if isinstance(item, Checked)]
        return instead[0] if instead else _bounded(of(inner), metadata)
    if annotation is int or annotation is float:
        return (annotation.__name__, None, None, None, None)
    if is_section(annotation):
        return ("section", annotation.__name__)
    if annotation in _PLAIN:
        return (_PLAIN[annotation],)
    return _generic(annotation)


def without_auto(spec: Spec) -> Spec:
    """The spec without its arm for "auto"."""
    if spec[0] != "union":
        return spec
    arms = [arm for arm in spec[1:] if arm != ("enum", "auto")]
    return arms[0] if len(arms) == 1 else ("union", *arms)


def _generic(annotation: object) -> Spec:
    origin = get_origin(annotation)
    build = _GENERIC.get(origin)
    if build is None:
        raise TypeError(f"{annotation!r} is not in the vocabulary of the model")
    return build(get_args(annotation))


def _union(arms: tuple[object, ...]) -> Spec:
    flat: list[Spec] = []
    for arm in map(of, arms):
        flat.extend(arm[1:] if arm[0] == "union" else [arm])
    return ("union", *flat)


_GENERIC: dict[object, Callable[[tuple[object, ...]], Spec]] = {
    Literal: lambda args: ("enum", *args),
    list: lambda args: ("list", of(args[0])),
    tuple: lambda args: ("list", of(args[0])),
    dict: lambda args: ("map", of(args[1])),
    Union: _union,
    types.UnionType: _union,
}


def _bounded(spec: Spec, metadata: list[object]) -> Spec:
    """`spec` with the bounds that stand in `metadata`, as pydantic or annotated_types write them."""
    found: JsonObject = {}
    for item in metadata:
        parts = item.metadata if isinstance(item, FieldInfo) else [item]
        for part in parts:
            found.update({name: getattr(part, name) for name in _BOUNDS if hasattr(part, name)})
    if not found:
        return spec
    if spec[0] not in ("int", "float"):
        raise TypeError(f"bounds {found} on {spec}: constrain the numeric arm")
    return (spec[0], *(found.get(name) for name in _BOUNDS))
