"""What stands under each field of the model, for what is generated; `dsconfig.model.key_prose` holds the rest."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from dsconfig.model import iter_fields
from dsconfig.model.section import Section


@cache
def prose(section: type[Section]) -> dict[str, str]:
    """The docstring under each field, by JSON key, read from the source: importing the model skips that."""
    found: dict[str, str] = {}
    for cls in reversed(section.__mro__):
        if issubclass(cls, Section) and cls is not Section:
            found.update(_docstrings(cls))
    return {
        field.name: found[field.attribute]
        for field in iter_fields.fields(section)
        if field.attribute in found
    }


def _docstrings(cls: type[Section]) -> Iterator[tuple[str, str]]:
    if not inspect.get_annotations(cls):  # `Config`, which only combines others
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
