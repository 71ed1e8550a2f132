"""What type checkers and editors read: a stub of the classes, and a `TypedDict` beside each.

The stub says again what the classes say, with one difference: a section is built from values as people
write them, so that `zero_optimization={"stage": 3}` and `reduce_bucket_size=2e8` are right where an attribute
is a `ZeroOptimization` or an `int`. The dicts carry the types that are taken; both carry docstrings.
"""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from dsconfig.model import iter_fields, key_page
from dsconfig.model.build_section import taken
from dsconfig.model.keyinfo import section_keys
from dsconfig.model.section import Section, is_section

_WIDTH = 104
_LARGE = 100_000
"""Defaults from which on people write a number as `2e8`."""
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
"""Generated from dsconfig/model by `make generate`; do not edit.

The classes as type checkers see them, built from what `dsconfig.model.dicts` says, keyword by keyword.
"""

from typing import Any, Literal

from typing_extensions import Unpack

from dsconfig.model import dicts
{imports}

{classes}
__all__ = [
{names}
]
'''
_DICTS = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

Sections as dicts: what each class is built from, for annotations as in `zero: ZeroOptimizationDict = {{}}`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from dsconfig import model


class DType(Protocol):
    """A `torch.dtype`."""

    @property
    def is_floating_point(self) -> bool:
        """Whether it has a fraction."""

    @property
    def is_complex(self) -> bool:
        """Whether it has an imaginary part."""


OwnWordsDict = TypedDict("OwnWordsDict", {{"$schema": str, "$dsconfig": "dict[str, Any]"}}, total=False)
"""Keys of the top level that are meant for editors and for dsconfig."""

{classes}'''


def stub(config: type[Section], beside: str, names: Iterable[str]) -> str:
    """`dsconfig/model/__init__.pyi`."""
    exported = list(iter_fields.sections(config))
    classes = "\n\n".join(_class(each, exported) for each in _in_order(exported))
    listed = "\n".join(f'    "{name}",' for name in names)
    return _STUB.format(imports=beside, classes=classes, names=listed)


def dicts(config: type[Section]) -> str:
    """`dsconfig/model/dicts.py`."""
    return _DICTS.format(classes="\n\n".join(_dict(each, config) for each in iter_fields.sections(config)))


def _in_order(sections: list[type[Section]]) -> list[type[Section]]:
    """Bases before what is derived from them."""
    return sorted(sections, key=lambda each: len(_bases(each, sections)))


def _bases(section: type[Section], exported: list[type[Section]]) -> list[type[Section]]:
    return [base for base in section.__mro__[1:] if base in exported]


def _class(section: type[Section], exported: list[type[Section]]) -> str:
    base = next((each.__name__ for each in _bases(section, exported)), "Section")
    name = section.__name__
    lines = [f"class {name}({base}):", *_docstring(inspect.getdoc(section) or "")]
    lines += [f"    def __init__(self, **values: Unpack[dicts.{name}Dict]) -> None: ..."]
    for field in iter_fields.fields(section):
        lines += [f"    {field.attribute}: {_type(field.annotation)}", *_said(section, field)]
    return "\n".join(lines) + "\n"


def _dict(section: type[Section], config: type[Section]) -> str:
    base = "OwnWordsDict" if section is config else "TypedDict"
    doc = (inspect.getdoc(section) or "").split("\n")[0]
    lines = [f"\nclass {section.__name__}Dict({base}, total=False):", *_docstring(doc), ""]
    for field in iter_fields.fields(section):
        type_ = _taken(field)
        lines.append(f"    {field.name}: {f'Required[{type_}]' if field.required else type_}")
        lines += _said(section, field)
    return "\n".join(lines) + "\n"


def _said(section: type[Section], field: iter_fields.Field) -> Iterator[str]:
    """The docstring of a key: what it is, then what it takes, its default and its releases."""
    info = section_keys(section.__name__)[field.name]
    told = {**dict(key_page.facts(info)), "Takes": taken(info) + (f", in {info.unit}" if info.unit else "")}
    facts = [f"- {title}: {text}" for title, text in told.items() if text and "p to" not in title]
    spans = ", ".join(key_page.span(*span) for span in info.spans)
    prose = iter_fields.prose(section).get(field.name, "")
    return _docstring("\n".join([prose, "", *facts, f"- Releases: {spans}"]))


def _docstring(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        short = len(line) <= _WIDTH + 2
        lines += [line] if short else textwrap.wrap(line, _WIDTH, subsequent_indent="  " * (line[0] == "-"))
    raw = "r" if "\\" in text else ""
    if len(lines) == 1:
        yield f'    {raw}"""{lines[0]}"""'
        return
    yield f'    {raw}"""{lines[0]}'
    yield from (f"    {line}".rstrip() for line in lines[1:])
    yield '    """'


def _type(annotation: object) -> str:
    """The type of an attribute."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _joined(map(_type, get_args(annotation)))
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, get_args(annotation)))}]"
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(_type, get_args(annotation)))}]"
    return annotation.__name__ if is_section(annotation) else _PLAIN[annotation]


def _taken(field: iter_fields.Field) -> str:
    """The type of a value that a key is built from."""
    found = _joined(_wide(field.annotation))
    arms = found.split(" | ")
    default = field.default
    if "int" in arms and isinstance(default, int) and default >= _LARGE:
        found = _joined("float" if arm == "int" else arm for arm in arms)
    if "str" in arms and any(word in field.name for word in _PATHS):
        found += " | os.PathLike[str]"
    if "'bf16'" in found or '"bf16"' in found:
        found += " | DType"
    return found


def _wide(annotation: object) -> Iterator[str]:
    """The types that are taken where an attribute has this one."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _wide(arguments[0])
    elif origin in (Union, types.UnionType):
        for arm in arguments:
            yield from _wide(arm)
    elif origin is Literal:
        yield _type(annotation)
        if arguments != ("auto",):
            yield "Enum"
    elif origin is list:
        item = _joined(_wide(arguments[0]))
        # A string is a sequence of strings, and no list.
        yield f"list[{item}] | tuple[{item}, ...]" if "str" in item else f"Sequence[{item}]"
    elif origin is dict:
        yield f"Mapping[str, {_joined(_wide(arguments[1]))}]"
    elif is_section(annotation):
        yield f"model.{annotation.__name__}"
        for each in (annotation, *iter_fields.variants(annotation)):
            yield f"{each.__name__}Dict"
    else:
        yield _PLAIN[annotation]


def _joined(arms: Iterable[str]) -> str:
    """A union, its literals in one."""
    found = list(dict.fromkeys(arms))
    literals = [arm for arm in found if arm.startswith("Literal[")]
    if len(literals) > 1:
        whole = f"Literal[{', '.join(arm[8:-1] for arm in literals)}]"
        found = [arm for arm in found if arm not in literals[1:]]
        found[found.index(literals[0])] = whole
    if "None" in found:
        found.append(found.pop(found.index("None")))
    return " | ".join(found)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
