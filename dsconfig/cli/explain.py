"""`dsconfig explain`: show the documentation of a rule, key or advisory, or explain an error message."""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.cli.arguments import (
    add_color_option,
    add_job_number_option,
    parse_consumer,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import read_config_document, read_stdin
from dsconfig.cli.errors import CLEAN, FAILED, fail_with_usage_error
from dsconfig.cli.markdown_to_terminal import render_markdown
from dsconfig.core.diagnostic import SITE, rule_url
from dsconfig.render.terminal_style import TerminalStyle, style_of, wrap_line
from dsconfig.rules.error_messages import ErrorMessageMatch, find_error_messages

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.rules import Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig explain` to its parser."""
    parser.set_defaults(run=run)
    what = (
        "code or name of a rule, name of an advisory, dotted path of a key, or an error message or traceback "
        "(`-`: from stdin)"
    )
    parser.add_argument("what", nargs="+", metavar="CODE|NAME|KEY|MESSAGE", help=what)
    add = parser.add_argument_group("error messages").add_argument
    add("--config", metavar="FILE", help="config of the job, to check whether the error applies to it")
    add(
        "--target",
        metavar="RELEASE",
        help="DeepSpeed release that printed the message (default: as for check)",
    )
    add_job_number_option(add)
    add("--world-size", type=parse_world_size, metavar="N", help="number of processes of the job")
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help="library that loads the config")
    add("--output-format", choices=("text", "json"), default="text", help="output format (default: text)")
    add_color_option(parser)
    set_exit_codes(
        parser, {CLEAN: "documentation shown", FAILED: "unknown rule, key or error message, or usage error"}
    )


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig explain`, and return the exit code."""
    style = style_of(sys.stdout, args.color)
    what = " ".join(args.what)
    if what == "-":
        what = read_stdin("<stdin>").text
    text = None
    if args.output_format == "text" and len(what.split()) == 1:
        text = _explain_rules(what, style) or _explain_advisory(what, style) or _explain_key(what, style)
    sys.stdout.write(text or _explain_error_message(what, args, style) or _unknown_word_message(what))
    return CLEAN


def _explain_error_message(text: str, args: argparse.Namespace, style: TerminalStyle) -> str | None:
    """Explain the error message in a text, or return None if no message in it is known."""
    from dsconfig.core.releases import UnknownReleaseError, resolve_target

    try:
        target = resolve_target(args.target)
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))
    explanation = explain_error(text, target, _check_config(args) if args.config else None)
    if explanation is None:
        return None
    return (
        explanation_as_json(explanation) + "\n"
        if args.output_format == "json"
        else explanation_as_text(explanation, style)
    )


def _check_config(args: argparse.Namespace) -> Report:
    """Check the config from which an error message resulted."""
    from dsconfig.check.build_job import build_job, job_from_arguments
    from dsconfig.check.check import check
    from dsconfig.launch.located_config import locate_config

    located = locate_config(read_config_document(args.config, args.job))
    return check(located, build_job(located, job_from_arguments(args.target, args.world_size, args.consumer)))


def _explain_rules(word: str, style: TerminalStyle) -> str | None:
    """Return the page of a rule, or one line per rule if a code prefix matches several."""
    from dsconfig.check.rule_selector import rules_matching_selector
    from dsconfig.rules import RULES

    codes = sorted(rules_matching_selector(word, {code: rule.name for code, rule in RULES.items()}))
    if len(codes) == 1:
        return _rule_page(RULES[codes[0]], style)
    lines = (f"{style.paint(c, 'bold')} {RULES[c].name}: {RULES[c].title}" for c in codes)
    return "".join(f"{wrap_line(line, style, 7)}\n" for line in lines) or None


def _rule_page(rule: Rule, style: TerminalStyle) -> str:
    facts = [f"Effect: {rule.effect.value} ({rule.effect.severity}) as a rule"]
    if rule.since or rule.until:
        facts.append(f"Releases: {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if rule.source:
        facts.append(f"Source: {rule.source}")
    from dsconfig.rules import former_names

    if former := former_names(rule.name):
        facts.append(f"Former name: {', '.join(former)}")
    facts.append(f"Page: {style.link(rule_url(rule.code), rule_url(rule.code))}")
    heading = style.paint(f"{rule.code} {rule.name}", "bold")
    return f"{heading}\n\n{render_markdown(rule.doc, style)}\n" + "".join(
        f"{wrap_line(fact, style, 2)}\n" for fact in facts
    )


def _explain_advisory(word: str, style: TerminalStyle) -> str | None:
    """Return the documentation of the advisory with this name, or None if there is none."""
    from dsconfig.rules._advisory_table import advisory_documentation, load_advisories

    for each in load_advisories():
        if each.id == word.lower():
            heading = style.paint(each.id, "bold")
            return f"{heading}\n\n{render_markdown(chr(10).join(advisory_documentation(each)), style)}"
    return None


def _explain_key(word: str, style: TerminalStyle) -> str | None:
    from dsconfig.model.key_description import key_page, section_members
    from dsconfig.model.key_table import INFERENCE_ROOT, ROOT

    text = key_page(word)
    if text is None:
        # The ZeRO section of an inference config has the keys of `zero_optimization`, which more people mean.
        matches = next(filter(None, (_paths_ending_with(word, root) for root in (ROOT, INFERENCE_ROOT))), [])
        if len(matches) > 1:
            listed = matches if len(matches) <= 8 else [*matches[:7], "..."]
            fail_with_usage_error(f"`{word}` matches several keys: {_join_words(listed)}")
        word = matches[0] if matches else word
        text = key_page(word) if matches else None
    return (
        None
        if text is None
        else render_markdown(text, style) + _list_section_keys(section_members(word), style)
    )


def _list_section_keys(keys: Mapping[str, str], style: TerminalStyle) -> str:
    """Return a line for each key of a section."""
    if not keys:
        return ""
    width = min(max(map(len, keys)), 40)
    lines = (
        wrap_line(
            f"  {style.paint(name, 'info')}{' ' * (width - len(name))}  {summary}".rstrip(), style, width + 4
        )
        for name, summary in keys.items()
    )
    return "\n".join(["", style.paint("Keys:", "bold"), *lines]) + "\n"


def _unknown_word_message(word: str) -> str:
    if len(word.split()) > 1:
        fail_with_usage_error(
            "no known error message: paste the line that names the exception, and the lines after it"
        )
    from dsconfig.check.rule_selector import rule_names_by_code
    from dsconfig.core.wording import closest_words
    from dsconfig.rules._advisory_table import load_advisories

    rules: Mapping[str, str] = rule_names_by_code()
    paths = _all_key_paths()
    by_last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    candidates = [*rules, *rules.values(), *(each.id for each in load_advisories()), *paths, *by_last]
    close = closest_words(word, candidates, 3) or _names_containing(word.lower(), candidates)
    names = list(dict.fromkeys(by_last.get(name, name) for name in close))
    hint = f": did you mean {_join_words(names)}?" if names else ""
    fail_with_usage_error(f"`{word}` is not a rule, an advisory or a key{hint}")


_MAX_SUGGESTIONS = 6
"""Maximal number of suggested names that contain a word."""


def _names_containing(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that have `word` as one of their parts, or else a part that starts with it, shortest first."""
    for pattern in (rf"(?:^|[._-]){re.escape(word)}(?:$|[._-])", rf"(?:^|[._-]){re.escape(word)}"):
        matches = [name for name in names if re.search(pattern, name.lower())]
        if matches and len(word) > 1:
            top = [name for name in matches if "." not in name] or matches
            starts = sorted(top, key=lambda name: (not name.startswith(word), len(name)))
            return starts[:_MAX_SUGGESTIONS]
    return []


def _all_key_paths() -> list[str]:
    from dsconfig.model.key_table import INFERENCE_ROOT, ROOT

    return list(dict.fromkeys([*_key_paths(ROOT), *_key_paths(INFERENCE_ROOT)]))


def _paths_ending_with(key: str, root: str) -> list[str]:
    """Return the paths of nested keys with this name, in the configs of a root section."""
    return [path for path in _key_paths(root) if path.endswith(f".{key}")]


def _key_paths(root: str) -> list[str]:
    from dsconfig.model.key_table import iter_keys

    return list(dict.fromkeys(".".join(path) for path, _ in iter_keys(root=root)))


def _join_words(words: list[str]) -> str:
    quoted = [word if word == "..." else f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


class ErrorExplanation(NamedTuple):
    """The known error messages in a text, most likely first, with details from the text and the config."""

    matches: Sequence[ErrorMessageMatch]
    keys: Sequence[str] = ()
    """A sentence for each key that pydantic rejects according to the text."""
    config: str | None = None
    """Whether the error applies to the given config, as Markdown."""
    diagnostics: Sequence[Diagnostic] = ()
    """Diagnostics on the config from the rules of the first message."""


def explain_error(text: str, target: ReleaseTarget, report: Report | None = None) -> ErrorExplanation | None:
    """Explain the error in a pasted text, or return None if no message in it is known.

    `report` is the report on the config that the error is about.
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
    """Format the explanation of an error for a terminal."""
    first, *others = explanation.matches
    return render_markdown("\n".join(_explanation_as_markdown(first, others, explanation)), style)


def explanation_as_json(explanation: ErrorExplanation) -> str:
    """Format the explanation of an error as JSON, for tools and the site."""
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
    """Describe whether the config is the cause of the message, as far as rules can tell."""
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
    """A config field that DeepSpeed's pydantic model rejects."""

    path: str
    """Dotted path from the top level of the config."""
    value: Json
    is_extra: bool
    """Whether pydantic rejects the key because the model has no such field."""


def _parse_pydantic_errors(text: str) -> Iterator[PydanticFieldError]:
    """Yield the rejected fields of a pydantic error whose model is a section of the config."""
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
    """Map the names of DeepSpeed's config classes to the dotted paths of their sections."""
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
"""Code prefix of the rules about unknown keys; other rules need the value, which pydantic 1 does not print."""


def _explain_rejected_key(error: PydanticFieldError, target: ReleaseTarget) -> str:
    """Explain why a key is rejected, by checking a minimal config with this key."""
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
    """Return a sentence about the releases that read a key, or "" for an unknown key."""
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
