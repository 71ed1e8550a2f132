"""`dsconfig explain "<error message>"`: cause and remedies of the error that a pasted line or traceback holds."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.cli.markdown_to_terminal import page
from dsconfig.core.diagnostic import SITE, rule_url
from dsconfig.rules.error_messages import Match, find

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json
    from dsconfig.core.releases import Target
    from dsconfig.render.terminal import Style


class Explanation(NamedTuple):
    """The messages that a text may hold, the likeliest first, and what the text itself and a config add to them."""

    matches: Sequence[Match]
    keys: Sequence[str] = ()
    """A sentence for each key that pydantic rejects in the text."""
    config: str | None = None
    """Whether the error applies to the config that was named, in a sentence or several lines."""
    diagnostics: Sequence[Diagnostic] = ()
    """What the rules of the first message find in that config."""


def explain_error(text: str, target: Target, report: Report | None = None) -> Explanation | None:
    """Explain the error in a pasted text; None if no message is known.

    `report` is of the config that the error is about.
    """
    matches = find(text)
    if not matches:
        return None
    keys = [_rejected(each, target) for each in _pydantic_errors(text)]
    if report is None:
        return Explanation(matches, keys)
    diagnostics = [each for each in report if each.code in matches[0].entry.rules]
    return Explanation(matches, keys, _applies(matches[0], report, diagnostics), diagnostics)


def as_text(explanation: Explanation, style: Style) -> str:
    """The explanation for a terminal."""
    first, *others = explanation.matches
    return page("\n".join(_markdown(first, others, explanation)), style)


def as_json(explanation: Explanation) -> str:
    """The explanation as JSON, for tools and the site."""
    return json.dumps(
        {
            "matches": [
                {**each.entry._asdict(), "score": round(each.score, 2), "page": address(each.entry.id)}
                for each in explanation.matches
            ],
            "keys": list(explanation.keys),
            "config": explanation.config,
            "diagnostics": [{"code": d.code, "message": d.message} for d in explanation.diagnostics],
        },
        indent=2,
    )


def address(id: str) -> str:
    """The page of a message on the site."""
    return f"{SITE}messages/{id}/"


def _markdown(first: Match, others: Sequence[Match], explanation: Explanation) -> Iterator[str]:
    from dsconfig.rules import RULES

    entry = first.entry
    if first.score < 1:
        yield f"No known message stands in the text literally. The most similar one (score {first.score:.2f} of 1):"
        yield ""
    yield f"# {entry.library}: {entry.error}"
    yield ""
    yield from ("```", entry.text.replace("{}", "..."), "```", "")
    if entry.symptom:
        yield "This message often follows from another error: look for the first one in the log."
        yield ""
    yield from ("Cause:", entry.cause, "", "Remedies:")
    yield from (f"- {each}" for each in entry.remedies)
    if explanation.keys:
        yield from ("", "Keys:", *(f"- {each}" for each in explanation.keys))
    if explanation.config:
        yield from ("", "Config:", explanation.config)
    yield ""
    if entry.rules:
        yield "Rules:"
        yield from (f"- {code} {RULES[code].name}: {rule_url(code)}" for code in entry.rules)
    if entry.versions:
        yield f"Versions: {entry.versions}"
    yield f"Source: {entry.source}"
    if entry.guide:
        yield f"Guide: {SITE}guides/{entry.guide}/"
    yield f"Page: {address(entry.id)}"
    if others:
        yield from ("", "Other messages in the text:" if first.score == 1 else "Also similar:")
        yield from (f"- {each.entry.text.replace('{}', '...')} ({address(each.entry.id)})" for each in others)


def _applies(match: Match, report: Report, diagnostics: Sequence[Diagnostic]) -> str:
    """Whether the config has what causes the message, as far as the rules can tell."""
    name, codes = report.name, ", ".join(match.entry.rules)
    if not codes:
        return f"`{name}`: no rule of dsconfig looks for this error: the config alone cannot tell whether it applies."
    if diagnostics:
        lines = (f"- `{name}{_line(each)}`: {each.code} {each.message}" for each in diagnostics)
        return "\n".join(["It applies:", *lines])
    unknown = "" if report.world_size else " The number of ranks is unknown: `--world-size N` may tell more."
    return f"`{name}`: against DeepSpeed {report.target.text} none of {codes} finds anything.{unknown}"


def _line(diagnostic: Diagnostic) -> str:
    return f":{diagnostic.location.line}" if diagnostic.location else ""


# The text of pydantic's errors: "1 validation error for DeepSpeedZeroConfig", then a line with the field's path and
# an indented one with the reason, its type and the value.

_HEAD = re.compile(r"validation errors? for (?P<model>\w+)\s*\n(?P<body>(?:.*\n?)*)")
_FIELD = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)\s*\n\s+(?P<reason>\S.*)$", re.MULTILINE)
_VALUE = re.compile(r"input_value=(?P<value>.*?), input_type=")


class PydanticError(NamedTuple):
    """A field that a model of DeepSpeed rejects, as pydantic prints it."""

    path: str
    """From the root of the config, dotted."""
    value: Json
    is_extra: bool
    """Whether the model has no such field."""


def _pydantic_errors(text: str) -> Iterator[PydanticError]:
    """Every field that pydantic rejects in a text, where the model is one of a section of the config."""
    head = _HEAD.search(text)
    section = None if head is None else _sections().get(head["model"])
    if head is None or section is None:
        return
    for each in _FIELD.finditer(head["body"]):
        value = _VALUE.search(each["reason"])
        path = f"{section}.{each['path']}" if section else each["path"]
        is_extra = "extra" in each["reason"].lower()
        yield PydanticError(path, _literal(value["value"]) if value else True, is_extra)


def _literal(text: str) -> Json:
    try:
        value: Json = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return True
    return value if isinstance(value, str | int | float | bool | dict | list | None) else True


@cache
def _sections() -> dict[str, str]:
    """The dotted path of the section that each class of DeepSpeed reads, by the name of the class."""
    from dsconfig.model.key_description import source_of
    from dsconfig.model.keyinfo import keys

    sections: dict[str, str] = {}
    for steps, info in keys():
        owner = source_of(info).rpartition(":")[2].partition(".")[0]
        path = ".".join(steps[:-1])
        if path and owner.endswith("Config"):
            sections.setdefault(owner, path)
    return sections


_KEY_RULES = ("DSC10",)
"""Rules about keys that a release does not have; others are about values, of which pydantic 1 prints none."""


def _rejected(error: PydanticError, target: Target) -> str:
    """What a check says about the key, in a config that holds little else."""
    from dsconfig.check.check import check_document
    from dsconfig.document import read_dict

    config: dict[str, Json] = {"train_batch_size": 1}
    at = config
    *sections, last = error.path.split(".")
    for section in sections:
        at = at.setdefault(section, {})
    if sections[:1] == ["zero_optimization"]:
        config["zero_optimization"].setdefault("stage", 3)
    at[last] = error.value
    for diagnostic in check_document(read_dict(config), target):
        is_about_key = ".".join(map(str, diagnostic.path)) == error.path
        if is_about_key and (diagnostic.code.startswith(_KEY_RULES) or not error.is_extra):
            remedy = f" ({diagnostic.help})" if diagnostic.help else ""
            return f"`{error.path}`: {diagnostic.message}{remedy}"
    accepts = f"`{error.path}`: DeepSpeed {target.text} accepts it; the release that printed this does not."
    return f"{accepts} {_releases(error.path)}".rstrip()


def _releases(path: str) -> str:
    """The releases that read a key, in a sentence."""
    from dsconfig.core.releases import NEVER, name
    from dsconfig.model.keyinfo import keys

    for steps, info in keys():
        if ".".join(steps) == path:
            spans = (
                f"{name(span.first) if span.first else 'the first release'} to "
                f"{'the latest' if span.last == NEVER else name(span.last)}"
                for span in info.spans
            )
            return f"The key exists from {', '.join(spans)}."
    return ""
