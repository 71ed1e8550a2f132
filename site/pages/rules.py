"""A page per rule: docstring, checked examples, messages of DeepSpeed, and the fix as a diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby

from dsconfig.cli.markdown_to_terminal import dedent_docstring
from dsconfig.cli.output_files import unified_diff_lines
from dsconfig.fix.apply_fixes import FixResult, fix
from dsconfig.rules import RULES, Rule, former_names
from pages import deepspeed_messages, key_entries, markdown
from tests.examples import Example, examples

APART = "{ data-search-exclude }"
"""Attribute of a heading that excludes its section from the search."""
SUBJECTS = {
    "0": "The file",
    "1": "Keys and types",
    "2": "Batch",
    "3": "Precision",
    "4": "ZeRO and offload",
    "5": "Optimizer and scheduler",
    "6": "Elasticity",
    "7": "Parallelism",
    "8": 'Consumers and "auto"',
    "9": "Everything else",
}
"""Titles by the first digit of the code."""
_BLOCK = re.compile(
    r"^(?P<kind>Bad|Good|Fixed)(?P<circumstances>(?:, [^:\n]+)?):\n\n(?:(?: {4}.*)?\n)+", re.MULTILINE
)


def pages() -> dict[str, str]:
    """The index and the pages by their paths."""
    return {"rules/index.md": _index(), **{f"rules/{code}.md": _page(rule) for code, rule in RULES.items()}}


def _index() -> str:
    description = (
        "Every rule of dsconfig: meaning, example, the message of DeepSpeed, and how to fix the problem."
    )
    parts = [f"{len(RULES)} rules. `dsconfig explain CODE` shows the same pages in a terminal."]
    # `groupby` needs sorted codes; RULES is in the order of the modules.
    ordered = sorted(RULES.values(), key=lambda rule: rule.code)
    for digit, rules in groupby(ordered, lambda rule: rule.code[3]):
        rows = [(f"[{r.code}]({r.code}.md)", r.name, _effect(r), r.title) for r in rules]
        parts.append(f"## {SUBJECTS[digit]}")
        table = markdown.table(("code", "name", "effect", "problem"), rows)
        parts.append(f'<div class="rule-index" markdown>\n\n{table}\n\n</div>')
    parts.append('<script src="../assets/rules.js" defer></script>')
    return markdown.page("Rules", description, *parts, more="search:\n  boost: 0.3\n")


def _effect(rule: Rule) -> str:
    """The effect, in the color of its severity."""
    return f'<span class="effect {rule.effect.severity}">{rule.effect.value}</span>'


def _page(rule: Rule) -> str:
    title = f"{rule.code} {rule.name}"
    facts = [f"{_effect(rule)} ({rule.effect.severity})"]
    if rule.since or rule.until:
        facts.append(f"DeepSpeed {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if former := former_names(rule.name):
        facts.append(f"formerly `{'`, `'.join(former)}`")
    facts.append("[all rules](index.md)")
    return markdown.page(
        title, rule.title, " · ".join(facts), *_body(rule), *_messages(rule), *_keys_and_source(rule)
    )


def _body(rule: Rule) -> Iterator[str]:
    """The docstring, each example in it followed by the output of a check."""
    text = "\n".join(dedent_docstring(rule.doc)) + "\n"
    remaining, end = examples(rule), 0
    for match in _BLOCK.finditer(text):
        yield text[end : match.start()]
        yield from _example(next(remaining), match["circumstances"])
        end = match.end()
    yield text[end:]


def _example(example: Example, circumstances: str) -> Iterator[str]:
    language = "json" if example.text.startswith("{") else "text"
    yield f"**{example.kind}**{circumstances}:"
    yield markdown.fence(example.text, language)
    if example.kind == "Bad":
        title = f"dsconfig check --target {example.target}"
        yield markdown.fence(str(example.check()).replace("<text>", "ds_config.json"), "text", title)
        yield from _fixed(example)


def _fixed(example: Example) -> Iterator[str]:
    """The diff of `dsconfig fix`."""
    source = json.loads(example.text) if example.as_dict else f"{example.text}\n"

    def fixing(*, unsafe: bool) -> FixResult:
        target, size, consumer = example.target, example.world_size, example.consumer
        return fix(source, unsafe=unsafe, target=target, world_size=size, consumer=consumer)

    fixed = fixing(unsafe=True)
    if fixed.applied and not example.as_dict:
        safe = "" if fixing(unsafe=False).text == fixed.text else " --unsafe-fixes"
        diff = unified_diff_lines(f"{example.text}\n", str(fixed), "before", "fixed")
        yield markdown.fence("".join(diff), "diff", f"dsconfig fix{safe} --diff")


def _messages(rule: Rule) -> Iterator[str]:
    """The messages of DeepSpeed."""
    messages = deepspeed_messages.messages(rule)
    if messages:
        yield "**Message of DeepSpeed**"
        for release, text in messages:
            yield markdown.fence(text, "text", f"DeepSpeed {release}")


def _keys_and_source(rule: Rule) -> Iterator[str]:
    keys = [key_entries.link(path) for path in key_entries.keys_of_rule(rule.code)]
    if keys:
        yield f"## Keys {APART}"
        yield markdown.bullets(keys)
    yield f"## Source and suppression {APART}"
    if rule.source:
        yield f"DeepSpeed: `{rule.source}`."
    if rule.code != "DSC008":
        block = f'"$dsconfig": {{"ignore": ["{rule.code}"]}}'
        yield f"To ignore the rule: `{block}` in the config, or `--ignore {rule.code}` on the command line."
