"""What editors tell of a key: what it does, its default, its words, that it is deprecated."""

from __future__ import annotations

from functools import cache

from dsconfig.core.releases import name
from dsconfig.core.wording import quoted
from dsconfig.evaluation.docstring import docstring
from dsconfig.model import iter_fields
from dsconfig.model.config import Config
from dsconfig.model.field_docstrings import prose
from dsconfig.model.keyinfo import KeyInfo
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerType
from dsconfig.model.release_view import KeyView
from dsconfig.model.scheduler import SCHEDULERS, SchedulerType
from dsconfig.schema.extensions import Auto
from dsconfig.schema.keywords import Schema

_EXACT = 2**53
"""Editors are written in JavaScript, which rounds integers beyond this one."""


def of(word: str, key: KeyView, auto: Auto, release: int) -> Schema:
    """What stands beside the types of a key; `word` is its name or an alias."""
    info = key.info
    told = description(word, key, auto)
    found: Schema = {"description": told}
    is_offered = word == info.name and not info.flags & {"internal", "not_json"}
    marked = _marked(told, key) if is_offered else told
    if marked != told or "`" in told:
        found["markdownDescription"] = marked  # of the other one VS Code shows the backticks
    default = key.default
    if default is not None and not (isinstance(default, int) and abs(default) > _EXACT):
        found["default"] = default
    if not is_offered:
        found["doNotSuggest"] = True
    message = _deprecation(info, release)
    if message:
        found |= {"deprecated": True, "deprecationMessage": message}
    return found


def _marked(told: str, key: KeyView) -> str:
    """The same as Markdown, with the default."""
    default = key.default
    if default is None or (isinstance(default, int) and abs(default) > _EXACT):  # which is in the words
        return told
    return f"{told} Default: {quoted(default)}"


def description(word: str, key: KeyView, auto: Auto) -> str:
    """What the key does, in the words of the model."""
    info = key.info
    said = [_said(info)] if word == info.name else [f"Another name of `{info.name}`.", _said(info)]
    if info.unit:
        said.append(f"Unit: {info.unit}.")
    if isinstance(key.default, int) and abs(key.default) > _EXACT:
        said.append(f"Default: {key.default}.")
    if auto == "filled":
        said.append(f'"auto" is filled by {_fillers(info)}.')
    return " ".join(part for part in said if part)


def _said(info: KeyInfo) -> str:
    return prose(_fields()[info.section][info.name].owner).get(info.name, "")


def _deprecation(info: KeyInfo, release: int) -> str | None:
    if "unread" in info.flags:
        return "has no effect: DeepSpeed takes it and never looks at it"
    if info.deprecated > release:
        return None
    return f"deprecated since DeepSpeed {name(info.deprecated)}{instead(info)}"


def means(info: KeyInfo, auto: Auto) -> dict[object, str]:
    """What the words of the key stand for."""
    found = dict(_fields()[info.section][info.name].key.means)
    if info.name == "type":
        found |= {kind.name: of_kind(kind) for kind in OPTIMIZERS}
        found |= {kind.name: of_kind(kind) for kind in SCHEDULERS}
    return found | ({"auto": f"filled by {_fillers(info)}"} if auto == "filled" else {})


@cache
def _fields() -> dict[str, dict[str, iter_fields.Field]]:
    """Every field of the model, by section class and key."""
    return {
        section.__name__: {field.name: field for field in iter_fields.fields(section)}
        for section in iter_fields.sections(Config)
    }


def of_kind(kind: OptimizerType | SchedulerType) -> str:
    """What an optimizer or a scheduler does, in the words of the class of its params."""
    return " ".join(docstring(kind.params).split()) if kind.params else kind.notes


def _fillers(info: KeyInfo) -> str:
    return " and ".join(map(str.capitalize, info.fills))


def instead(info: KeyInfo) -> str:
    """What to use instead of the key, as the end of a message."""
    if not info.replaced_by:
        return ""
    word = info.replaced_by
    return f": use {word if ' ' in word or '(' in word else f'`{word}`'} instead"
