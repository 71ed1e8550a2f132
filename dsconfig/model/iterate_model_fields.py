"""Iterate over the section classes of the model, their fields, types and docstrings.

The key table, the descriptions, the stubs and the typed API are generated from them.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dsconfig.core.json_types import Json, JsonObject, Spec
from dsconfig.model.key import Key
from dsconfig.model.section import Section, TypeCheckedByDeepSpeed, is_section


@dataclass(frozen=True, slots=True)
class ModelField:
    """A field of a section class, with its JSON name and its default as JSON (None for a section)."""

    owner: type[Section]
    name: str
    attribute: str
    annotation: object
    key: Key
    default: Json
    required: bool

    @property
    def spec(self) -> Spec:
        """Spec of the type that DeepSpeed accepts, without an "auto" that only consumers resolve."""
        whole = spec_of_annotation(self.annotation)
        return spec_without_auto(whole) if self.key.fills and not self.key.auto_is_value else whole


def iter_fields_of_section(section: type[Section]) -> Iterator[ModelField]:
    """Yield the fields of a section in source order.

    Raises:
        TypeError: a field has no `Key`.
    """
    hints = get_type_hints(section, include_extras=True)
    for attribute, info in section.model_fields.items():
        annotation = hints[attribute]
        keys = [item for item in info.metadata if isinstance(item, Key)]
        if len(keys) != 1:
            raise TypeError(f"{section.__name__}.{attribute} must carry exactly one Key")
        yield ModelField(
            owner=section,
            name=info.alias or attribute,
            attribute=attribute,
            annotation=_annotation_without_key(annotation),
            key=keys[0],
            default=_default_as_json(info.get_default(call_default_factory=True)),
            required=info.is_required(),
        )


def iter_field_paths(
    root: type[Section], parent: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ModelField]]:
    """Yield every field with its path, parents first, except fields inside lists and free-form objects."""
    for field in iter_fields_of_section(root):
        path = (*parent, field.name)
        yield path, field
        for section in filter(is_section, union_arms(field.annotation)):
            for cls in (section, *iter_section_variants(section)):
                yield from iter_field_paths(cls, path)


def union_arms(annotation: object) -> Iterator[object]:
    """Yield the members of a union, without `Annotated` wrappers."""
    if get_origin(annotation) in (list, dict) or not get_args(annotation):
        yield annotation
    else:
        for inner in get_args(annotation):
            yield from union_arms(inner)


def iter_sections(*roots: type[Section]) -> Iterator[type[Section]]:
    """Yield each root and every section class reachable from it, depth first, each once."""
    names: set[str] = set()
    stack = list(reversed(roots))
    while stack:
        section = stack.pop()
        if section.__name__ in names:
            continue
        names.add(section.__name__)
        yield section
        children = [
            cls for field in iter_fields_of_section(section) for cls in _section_classes_of_field(field)
        ]
        stack.extend(reversed(children))


def _section_classes_of_field(field: ModelField) -> Iterator[type[Section]]:
    """Yield the section classes in a field's types, including its types in earlier releases."""
    for annotation in (field.annotation, *(was.type for was in field.key.was)):
        yield from _section_classes_in_annotation(annotation)


def _section_classes_in_annotation(annotation: object) -> Iterator[type[Section]]:
    if is_section(annotation):
        yield annotation
        yield from iter_section_variants(annotation)
    for argument in get_args(annotation):
        yield from _section_classes_in_annotation(argument)


def iter_section_variants(section: type[Section]) -> Iterator[type[Section]]:
    """Yield the subclasses that may replace a section, such as the params of one optimizer."""
    for child in section.__subclasses__():
        yield child
        yield from iter_section_variants(child)


def _annotation_without_key(annotation: object) -> object:
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = get_args(annotation)
    for item in metadata:
        if not isinstance(item, Key):
            inner = Annotated[inner, item]
    return inner


def _default_as_json(value: object) -> Json:
    if value is PydanticUndefined or isinstance(value, Section):
        return None
    return value


# Specs: the types of the model as plain tuples, which the key table contains.
#
#   ("bool",) ("str",) ("null",) ("any",)
#   ("path",)                                        a string that DeepSpeed converts to a pathlib.Path
#   ("never",)                                       no JSON value
#   ("int", ge, gt, le, lt) ("float", ge, gt, le, lt)   None: no bound
#   ("enum", member, …)                              strings, integers, booleans
#   ("list", item) ("map", value) ("section", class name) ("union", arm, …)

_BOUNDS = ("ge", "gt", "le", "lt")
_PLAIN: dict[object, str] = {bool: "bool", str: "str", type(None): "null", Any: "any", object: "any"}


def spec_of_annotation(annotation: object) -> Spec:
    """Return the spec of an annotation.

    Raises:
        TypeError: the annotation is not allowed in the model.
    """
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        overrides = [item.spec for item in metadata if isinstance(item, TypeCheckedByDeepSpeed)]
        return overrides[0] if overrides else _add_bounds_to_spec(spec_of_annotation(inner), metadata)
    if annotation is int or annotation is float:
        return (annotation.__name__, None, None, None, None)
    if is_section(annotation):
        return ("section", annotation.__name__)
    if annotation in _PLAIN:
        return (_PLAIN[annotation],)
    return _spec_of_generic(annotation)


def spec_without_auto(spec: Spec) -> Spec:
    """Return a spec without the union member for "auto"."""
    if spec[0] != "union":
        return spec
    arms = [arm for arm in spec[1:] if arm != ("enum", "auto")]
    return arms[0] if len(arms) == 1 else ("union", *arms)


def _spec_of_generic(annotation: object) -> Spec:
    origin = get_origin(annotation)
    build = _GENERIC.get(origin)
    if build is None:
        raise TypeError(f"{annotation!r} is not an annotation that the model may use")
    return build(get_args(annotation))


def _spec_of_union(arms: tuple[object, ...]) -> Spec:
    flat: list[Spec] = []
    for arm in map(spec_of_annotation, arms):
        flat.extend(arm[1:] if arm[0] == "union" else [arm])
    return ("union", *flat)


_GENERIC: dict[object, Callable[[tuple[object, ...]], Spec]] = {
    Literal: lambda args: ("enum", *args),
    list: lambda args: ("list", spec_of_annotation(args[0])),
    tuple: lambda args: ("list", spec_of_annotation(args[0])),
    dict: lambda args: ("map", spec_of_annotation(args[1])),
    Union: _spec_of_union,
    types.UnionType: _spec_of_union,
}


def _add_bounds_to_spec(spec: Spec, metadata: list[object]) -> Spec:
    """Return `spec` with the bounds in `metadata`, which come from pydantic or annotated_types."""
    bounds: JsonObject = {}
    for item in metadata:
        parts = item.metadata if isinstance(item, FieldInfo) else [item]
        for part in parts:
            bounds.update({name: getattr(part, name) for name in _BOUNDS if hasattr(part, name)})
    if not bounds:
        return spec
    if spec[0] not in ("int", "float"):
        raise TypeError(f"bounds {bounds} on {spec}: constrain the numeric arm")
    return (spec[0], *(bounds.get(name) for name in _BOUNDS))


@cache
def field_docstrings(section: type[Section]) -> dict[str, str]:
    """Return the docstring of each field by JSON key, parsed from the source file."""
    by_attribute: dict[str, str] = {}
    for cls in reversed(section.__mro__):
        if issubclass(cls, Section) and cls is not Section:
            by_attribute.update(_parse_docstrings(cls))
    return {
        field.name: by_attribute[field.attribute]
        for field in iter_fields_of_section(section)
        if field.attribute in by_attribute
    }


def _parse_docstrings(cls: type[Section]) -> Iterator[tuple[str, str]]:
    if not inspect.get_annotations(cls):  # `Config`, which declares no field itself
        return
    tree = ast.parse(inspect.getsource(cls))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, " ".join(text.value.value.split())
