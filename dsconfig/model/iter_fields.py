"""The one walker over the model: section classes, their fields, and what is declared on them.

The checker's table, the JSON Schema and the reference pages are made from what it yields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, get_args, get_origin, get_type_hints

from pydantic_core import PydanticUndefined

from dsconfig.core.json_types import Json, Spec
from dsconfig.model import type_spec as spec
from dsconfig.model.key import Key
from dsconfig.model.section import Section, is_section


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a section class. `name` is the JSON key, `default` JSON (None for a section)."""

    owner: type[Section]
    name: str
    attribute: str
    annotation: object
    key: Key
    default: Json
    required: bool

    @property
    def spec(self) -> Spec:
        """The type that DeepSpeed accepts, as `dsconfig.model.type_spec` writes it: no "auto" for consumers."""
        whole = spec.of(self.annotation)
        return spec.without_auto(whole) if self.key.fills and not self.key.auto_is_value else whole


def fields(section: type[Section]) -> Iterator[Field]:
    """The fields of a section in the order of the source.

    Raises:
        TypeError: a field carries no `Key`.
    """
    hints = get_type_hints(section, include_extras=True)
    for attribute, info in section.model_fields.items():
        annotation = hints[attribute]
        keys = [item for item in info.metadata if isinstance(item, Key)]
        if len(keys) != 1:
            raise TypeError(f"{section.__name__}.{attribute} must carry exactly one Key")
        yield Field(
            owner=section,
            name=info.alias or attribute,
            attribute=attribute,
            annotation=_without_key(annotation),
            key=keys[0],
            default=_default(info.get_default(call_default_factory=True)),
            required=info.is_required(),
        )


def paths(root: type[Section], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Every field with its path, parents first; lists and objects with free names are not entered."""
    for field in fields(root):
        here = (*above, field.name)
        yield here, field
        for section in filter(is_section, arms(field.annotation)):
            for cls in (section, *variants(section)):
                yield from paths(cls, here)


def arms(annotation: object) -> Iterator[object]:
    """The types of a union; `Annotated` wrappers come off."""
    if get_origin(annotation) in (list, dict) or not get_args(annotation):
        yield annotation
    else:
        for inner in get_args(annotation):
            yield from arms(inner)


def sections(root: type[Section]) -> Iterator[type[Section]]:
    """`root` and every section class reachable from it, each once, depth first."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        section = waiting.pop()
        if section.__name__ in seen:
            continue
        seen.add(section.__name__)
        yield section
        inner = [cls for field in fields(section) for cls in _classes(field)]
        waiting.extend(reversed(inner))


def _classes(field: Field) -> Iterator[type[Section]]:
    """The section classes that a field's types name, earlier types included."""
    for annotation in (field.annotation, *(was.type for was in field.key.was)):
        yield from _named(annotation)


def _named(annotation: object) -> Iterator[type[Section]]:
    if is_section(annotation):
        yield annotation
        yield from variants(annotation)
    for argument in get_args(annotation):
        yield from _named(argument)


def variants(section: type[Section]) -> Iterator[type[Section]]:
    """Classes that may take the section's place: its subclasses, such as the params of one optimizer."""
    for child in section.__subclasses__():
        yield child
        yield from variants(child)


def _without_key(annotation: object) -> object:
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = get_args(annotation)
    for item in metadata:
        if not isinstance(item, Key):
            inner = Annotated[inner, item]
    return inner


def _default(value: object) -> Json:
    if value is PydanticUndefined or isinstance(value, Section):
        return None
    return value
