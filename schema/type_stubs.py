"""Generate `classes.pyi` and `dicts.py`, the types for editors and type checkers.

The stub differs from the classes in one point: a section is built from the values that people write, so
`zero_optimization={"stage": 3}` and `reduce_bucket_size=2e8` are valid arguments where the attribute is a
`ZeroOptimization` or an `int`. The TypedDicts carry these wider types and the full description of each key. The stub
has no docstrings: editors take those of attributes from the section classes, which `classes.py` imports.
"""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from dsconfig.model import iterate_model_fields
from dsconfig.model.key_description import describe_key
from dsconfig.model.key_table import keys_of_section_class
from dsconfig.model.section import Section, is_section

_WIDTH = 106
_LARGE = 100_000
"""Defaults from which on people write a number as `2e8`, which is a float."""
_PATHS = ("path", "dir", "file")
"""Words in the names of keys that hold paths."""
_PLAIN: dict[object, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    type(None): "None",
    object: "object",
    Any: "Any",
}

_STUB = '''\
"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any, Literal

from typing_extensions import Unpack

from dsconfig.model._generated import dicts
from dsconfig.model.section import Section

{classes}'''
_DICTS = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

A TypedDict for each section, with the values from which the section can be built.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from dsconfig import model

__all__ = [
{names}
]


class DType(Protocol):
    """A `torch.dtype`."""

    @property
    def is_floating_point(self) -> bool: ...
    @property
    def is_complex(self) -> bool: ...


EditorKeysDict = TypedDict("EditorKeysDict", {{"$schema": str, "$dsconfig": "dict[str, Any]"}}, total=False)
"""Top-level keys for editors and for dsconfig."""

{classes}'''


def class_stub(*roots: type[Section]) -> str:
    """Return the source of `classes.pyi`, in which classes follow their base classes."""
    sections = list(iterate_model_fields.iter_sections(*roots))
    ordered = sorted(sections, key=lambda section: len(_public_bases(section, sections)))
    return _STUB.format(classes="\n".join(_class_source(section, sections) for section in ordered))


def typed_dicts(config: type[Section], *others: type[Section]) -> str:
    """Return the source of `dicts.py`; only the keys of `config` include those for editors and for dsconfig."""
    sections = list(iterate_model_fields.iter_sections(config, *others))
    names = " ".join(f'"{name}Dict",' for name in sorted(section.__name__ for section in sections))
    return _DICTS.format(
        names=textwrap.indent(textwrap.fill(names, _WIDTH), "    "),
        classes="\n".join(_typed_dict_source(section, config) for section in sections),
    )


def _public_bases(section: type[Section], exported: list[type[Section]]) -> list[type[Section]]:
    return [base for base in section.__mro__[1:] if base in exported]


def _class_source(section: type[Section], exported: list[type[Section]]) -> str:
    base = next((base.__name__ for base in _public_bases(section, exported)), "Section")
    name = section.__name__
    # Unlike those of attributes, the docstring of a class is not looked up in `classes.py` for a signature.
    lines = [f"class {name}({base}):", _one_line_docstring(inspect.getdoc(section) or "")]
    lines += [f"    def __init__(self, **values: Unpack[dicts.{name}Dict]) -> None: ..."]
    lines += [
        f"    {field.attribute}: {_attribute_type(field.annotation)}"
        for field in iterate_model_fields.iter_fields_of_section(section)
    ]
    return "\n".join(lines) + "\n"


def _typed_dict_source(section: type[Section], config: type[Section]) -> str:
    base = "EditorKeysDict" if section is config else "TypedDict"
    doc = (inspect.getdoc(section) or "").split("\n")[0]
    lines = [f"class {section.__name__}Dict({base}, total=False):", _one_line_docstring(doc)]
    for field in iterate_model_fields.iter_fields_of_section(section):
        type_ = _accepted_type(field)
        description = describe_key(keys_of_section_class(section.__name__)[field.name]).without_history()
        lines.append(f"    {field.name}: {f'Required[{type_}]' if field.required else type_}")
        lines.append(_one_line_docstring(description.markdown()))
    return "\n".join(lines) + "\n"


def _one_line_docstring(text: str) -> str:
    """Return a docstring on one line, with escaped line breaks that language servers render."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    if escaped.endswith('"'):
        escaped = f'{escaped[:-1]}\\"'
    return f'    """{escaped}"""'


def _attribute_type(annotation: object) -> str:
    """Return the type of an attribute as source code."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _attribute_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _union_of_arms(map(_attribute_type, get_args(annotation)))
    if origin is Literal:
        return f"Literal[{', '.join(map(_literal_type, get_args(annotation)))}]"
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(_attribute_type, get_args(annotation)))}]"
    return annotation.__name__ if is_section(annotation) else _PLAIN[annotation]


def _accepted_type(field: iterate_model_fields.ModelField) -> str:
    """Return the source code of the type of the values from which a key can be built."""
    text = _union_of_arms(_accepted_arms(field.annotation))
    arms = text.split(" | ")
    if "int" in arms and isinstance(field.default, int) and field.default >= _LARGE:
        text = _union_of_arms("float" if arm == "int" else arm for arm in arms)
    if "str" in arms and any(word in field.name for word in _PATHS):
        text += " | os.PathLike[str]"
    if '"bf16"' in text:
        text += " | DType"
    return text


def _accepted_arms(annotation: object) -> Iterator[str]:
    """Yield the types that are accepted for an attribute of this type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _accepted_arms(arguments[0])
    elif origin in (Union, types.UnionType):
        for arm in arguments:
            yield from _accepted_arms(arm)
    elif origin is Literal:
        yield _attribute_type(annotation)
        if arguments != ("auto",):
            yield "Enum"
    elif origin is list:
        item = _union_of_arms(_accepted_arms(arguments[0]))
        # A string is a `Sequence[str]`, but the key does not accept a string.
        yield f"list[{item}] | tuple[{item}, ...]" if "str" in item else f"Sequence[{item}]"
    elif origin is dict:
        yield f"Mapping[str, {_union_of_arms(_accepted_arms(arguments[1]))}]"
    elif is_section(annotation):
        yield f"model.{annotation.__name__}"
        for section in (annotation, *iterate_model_fields.iter_section_variants(annotation)):
            yield f"{section.__name__}Dict"
    else:
        yield _PLAIN[annotation]


def _union_of_arms(arms: Iterable[str]) -> str:
    """Return a union of types with one `Literal` for all literals and `None` last."""
    distinct = list(dict.fromkeys(arms))
    literals = [arm for arm in distinct if arm.startswith("Literal[")]
    if len(literals) > 1:
        merged = f"Literal[{', '.join(arm[8:-1] for arm in literals)}]"
        distinct = [arm for arm in distinct if arm not in literals[1:]]
        distinct[distinct.index(literals[0])] = merged
    if "None" in distinct:
        distinct.append(distinct.pop(distinct.index("None")))
    return " | ".join(distinct)


def _literal_type(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
