"""A page for each rule: its docstring, its examples as judged, DeepSpeed's own words, the fix as a diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby

from dsconfig.cli.markdown_to_terminal import dedented
from dsconfig.fix.fix import FixResult, fix
from dsconfig.render.diff import unified
from dsconfig.rules import RULES, Rule
from dsconfig.rules._former_names import former_names
from pages import markdown, places, said
from tests.examples import Example, examples

APART = "{ data-search-exclude }"
"""Of a heading under which the search is not to look."""
SUBJECTS = {
    "0": "The file",
    "1": "Keys and types",
    "2": "Batch",
    "3": "Precision",
    "4": "ZeRO and offload",
    "5": "Optimizer and scheduler",
    "6": "Elasticity",
    "7": "Parallelism",
    "8": 'Who reads the file, and "auto"',
    "9": "Everything else",
}
"""By the first digit of a code."""
_BLOCK = re.compile(
    r"^(?P<kind>Bad|Good|Fixed)(?P<circumstances>(?:, [^:\n]+)?):\n\n(?:(?: {4}.*)?\n)+", re.MULTILINE
)


def pages() -> dict[str, str]:
    """The index and the pages by their paths."""
    return {"rules/index.md": _index(), **{f"rules/{code}.md": _page(rule) for code, rule in RULES.items()}}


def _index() -> str:
    told = "Every finding of dsconfig: what it means, an example, DeepSpeed's own words and what to do."
    parts = [f"{len(RULES)} rules. `dsconfig explain CODE` shows the same pages on a terminal."]
    # Rules stand in the order of their modules, and `groupby` begins anew wherever the subject changes.
    ordered = sorted(RULES.values(), key=lambda rule: rule.code)
    for digit, rules in groupby(ordered, lambda rule: rule.code[3]):
        rows = [(f"[{r.code}]({r.code}.md)", r.name, r.effect.value, r.title) for r in rules]
        parts.append(f"## {SUBJECTS[digit]}")
        parts.append(markdown.table(("code", "name", "effect", "what it finds"), rows))
    return markdown.page("Rules", told, *parts, more="search:\n  boost: 0.3\n")


def _page(rule: Rule) -> str:
    title = f"{rule.code} {rule.name}"
    facts = [f"**{rule.effect.value}** ({rule.effect.severity})"]
    if rule.since or rule.until:
        facts.append(f"DeepSpeed {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if former := former_names(rule.name):
        facts.append(f"formerly `{'`, `'.join(former)}`")
    facts.append("[all rules](index.md)")
    return markdown.page(title, rule.title, " · ".join(facts), *_body(rule), *_words(rule), *_rest(rule))


def _body(rule: Rule) -> Iterator[str]:
    """The docstring, each example in it followed by what a check says of it."""
    text = "\n".join(dedented(rule.doc)) + "\n"
    ordered, end = examples(rule), 0
    for found in _BLOCK.finditer(text):
        yield text[end : found.start()]
        yield from _example(next(ordered), found["circumstances"])
        end = found.end()
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
    """What `fix` makes of it."""
    source = json.loads(example.text) if example.as_dict else f"{example.text}\n"

    def fixing(*, unsafe: bool) -> FixResult:
        target, size, consumer = example.target, example.world_size, example.consumer
        return fix(source, unsafe=unsafe, target=target, world_size=size, consumer=consumer)

    fixed = fixing(unsafe=True)
    if fixed.applied and not example.as_dict:
        safe = "" if fixing(unsafe=False).text == fixed.text else " --unsafe-fixes"
        diff = unified(f"{example.text}\n", str(fixed), "as written", "fixed")
        yield markdown.fence("".join(diff), "diff", f"dsconfig fix{safe} --diff")


def _words(rule: Rule) -> Iterator[str]:
    """What DeepSpeed prints."""
    words = said.of(rule)
    if words:
        yield "**What DeepSpeed prints**"
        for release, text in words:
            yield markdown.fence(text, "text", f"DeepSpeed {release}")


def _rest(rule: Rule) -> Iterator[str]:
    keys = [places.link(path) for path in places.of_rule(rule.code)]
    if keys:
        yield f"## Keys {APART}"
        yield markdown.bullets(keys)
    yield f"## Where it is from, and how to silence it {APART}"
    if rule.source:
        yield f"DeepSpeed: `{rule.source}`."
    if rule.code != "DSC008":
        inside = f'"$dsconfig": {{"ignore": ["{rule.code}"]}}'
        yield f"In the config, `{inside}`; on the command line, `--ignore {rule.code}`."
