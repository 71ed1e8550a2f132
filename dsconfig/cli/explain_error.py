"""`dsconfig explain "<error message>"`: cause and remedies of the error in a pasted line or traceback."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.cli.markdown_to_terminal import render_markdown
from dsconfig.core.diagnostic import SITE, rule_url
from dsconfig.rules.error_messages import ErrorMessageMatch, find_error_messages

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.render.terminal_style import TerminalStyle


class ErrorExplanation(NamedTuple):
    """Known messages in a text, most likely first, with details from the text and from a config."""

    matches: Sequence[ErrorMessageMatch]
    keys: Sequence[str] = ()
    """A sentence for each key that pydantic rejects in the text."""
    config: str | None = None
    """Whether the error applies to the given config, as Markdown."""
    diagnostics: Sequence[Diagnostic] = ()
    """Diagnostics on the config from the rules of the first message."""


def explain_error(text: str, target: ReleaseTarget, report: Report | None = None) -> ErrorExplanation | None:
    """Explain the error in a pasted text; None if no message is known.

    `report`: the report on the config that the error is about.
    """
    matches = find_error_messages(text)
    if not matches:
        return None
    keys = [_explain_rejected_key(each, target) for each in _parse_pydantic_errors(text)]
    if report is None:
        return ErrorExplanation(matches, keys)
    diagnostics = [each for each in report if each.code in matches[0].entry.rules]
    return ErrorExplanation(
        matches, keys, _describe_match_in_config(matches[0], report, diagnostics), diagnostics
    )


def explanation_as_text(explanation: ErrorExplanation, style: TerminalStyle) -> str:
    """Render the explanation for a terminal."""
    first, *others = explanation.matches
    return render_markdown("\n".join(_explanation_as_markdown(first, others, explanation)), style)


def explanation_as_json(explanation: ErrorExplanation) -> str:
    """Render the explanation as JSON, for tools and the site."""
    return json.dumps(
        {
            "matches": [
                {
                    **each.entry._asdict(),
                    "score": round(each.score, 2),
                    "page": message_page_url(each.entry.id),
                }
                for each in explanation.matches
            ],
            "keys": list(explanation.keys),
            "config": explanation.config,
            "diagnostics": [{"code": d.code, "message": d.message} for d in explanation.diagnostics],
        },
        indent=2,
    )


def message_page_url(id: str) -> str:
    """Return the URL of a message's page on the site."""
    return f"{SITE}messages/{id}/"


def _explanation_as_markdown(
    first: ErrorMessageMatch, others: Sequence[ErrorMessageMatch], explanation: ErrorExplanation
) -> Iterator[str]:
    from dsconfig.rules import RULES

    entry = first.entry
    if first.score < 1:
        yield f"No known message matches the text exactly. The most similar one (score {first.score:.2f} of 1):"
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
    yield f"Page: {message_page_url(entry.id)}"
    if others:
        yield from ("", "Other messages in the text:" if first.score == 1 else "Also similar:")
        yield from (
            f"- {each.entry.text.replace('{}', '...')} ({message_page_url(each.entry.id)})" for each in others
        )


def _describe_match_in_config(
    match: ErrorMessageMatch, report: Report, diagnostics: Sequence[Diagnostic]
) -> str:
    """Describe whether the config causes the message, as far as rules can tell."""
    name, codes = report.name, ", ".join(match.entry.rules)
    if not codes:
        return f"`{name}`: dsconfig has no rule for this error, so the config alone does not show whether it applies."
    if diagnostics:
        lines = (f"- `{name}{_diagnostic_line(each)}`: {each.code} {each.message}" for each in diagnostics)
        return "\n".join(["It applies:", *lines])
    unknown = (
        "" if report.world_size else " The number of ranks is unknown: pass `--world-size N` to check more."
    )
    return f"`{name}`: no diagnostics from {codes} with DeepSpeed {report.target.text}.{unknown}"


def _diagnostic_line(diagnostic: Diagnostic) -> str:
    return f":{diagnostic.location.line}" if diagnostic.location else ""


# Pydantic's error text: "1 validation error for DeepSpeedZeroConfig", then for each field a line with its path and
# an indented line with the reason, its type and the value.

_HEAD = re.compile(r"validation errors? for (?P<model>\w+)\s*\n(?P<body>(?:.*\n?)*)")
_FIELD = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)\s*\n\s+(?P<reason>\S.*)$", re.MULTILINE)
_VALUE = re.compile(r"input_value=(?P<value>.*?), input_type=")


class PydanticFieldError(NamedTuple):
    """A config field that a pydantic model of DeepSpeed rejects."""

    path: str
    """Dotted path from the top level of the config."""
    value: Json
    is_extra: bool
    """Whether the model has no such field."""


def _parse_pydantic_errors(text: str) -> Iterator[PydanticFieldError]:
    """Yield the rejected fields in a pydantic error, if its model is a section of the config."""
    head = _HEAD.search(text)
    section = None if head is None else _section_paths_by_class().get(head["model"])
    if head is None or section is None:
        return
    for each in _FIELD.finditer(head["body"]):
        value = _VALUE.search(each["reason"])
        path = f"{section}.{each['path']}" if section else each["path"]
        is_extra = "extra" in each["reason"].lower()
        yield PydanticFieldError(path, _parse_literal(value["value"]) if value else True, is_extra)


def _parse_literal(text: str) -> Json:
    try:
        value: Json = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return True
    return value if isinstance(value, str | int | float | bool | dict | list | None) else True


@cache
def _section_paths_by_class() -> dict[str, str]:
    """Map the names of DeepSpeed's config classes to the dotted path of their section."""
    from dsconfig.model.key_description import deepspeed_source_of_key
    from dsconfig.model.key_table import iter_keys

    sections: dict[str, str] = {}
    for steps, info in iter_keys():
        owner = deepspeed_source_of_key(info).rpartition(":")[2].partition(".")[0]
        path = ".".join(steps[:-1])
        if path and owner.endswith("Config"):
            sections.setdefault(owner, path)
    return sections


_KEY_RULES = ("DSC10",)
"""Prefix of the rules about unknown keys; other rules need the value, which pydantic 1 does not print."""


def _explain_rejected_key(error: PydanticFieldError, target: ReleaseTarget) -> str:
    """Explain a rejected key by checking a minimal config that contains it."""
    from dsconfig.check.check import check_document
    from dsconfig.document import read_dict

    config: dict[str, Json] = {"train_batch_size": 1}
    parent = config
    *sections, last = error.path.split(".")
    for section in sections:
        parent = parent.setdefault(section, {})
    if sections[:1] == ["zero_optimization"]:
        config["zero_optimization"].setdefault("stage", 3)
    parent[last] = error.value
    for diagnostic in check_document(read_dict(config), target):
        is_about_key = ".".join(map(str, diagnostic.path)) == error.path
        if is_about_key and (diagnostic.code.startswith(_KEY_RULES) or not error.is_extra):
            remedy = f" ({diagnostic.help})" if diagnostic.help else ""
            return f"`{error.path}`: {diagnostic.message}{remedy}"
    text = f"`{error.path}`: DeepSpeed {target.text} accepts it, but the release that printed this message does not."
    return f"{text} {_describe_releases_of_key(error.path)}".rstrip()


def _describe_releases_of_key(path: str) -> str:
    """Return a sentence with the releases that read a key; empty for an unknown key."""
    from dsconfig.core.releases import NEVER, release_name
    from dsconfig.model.key_table import iter_keys

    for steps, info in iter_keys():
        if ".".join(steps) == path:
            spans = (
                f"{release_name(span.first) if span.first else 'the first release'} to "
                f"{'the latest' if span.last == NEVER else release_name(span.last)}"
                for span in info.spans
            )
            return f"The key exists from {', '.join(spans)}."
    return ""
