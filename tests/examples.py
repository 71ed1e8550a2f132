"""The examples in a rule's page: read from its docstring, run as tests, shown by `explain`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from dsconfig.api.check import check
from dsconfig.check.report import Report
from dsconfig.core.gpu_memory import parse_bytes
from dsconfig.core.releases import LATEST, RELEASES, release_number
from dsconfig.rules import Rule

_HEADING = re.compile(r"^(Bad|Good|Fixed)((?:, [^:\n]+)?):\n\n((?:    .*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a page, and the circumstances its heading names."""

    kind: str
    text: str
    target: str
    world_size: int | None
    consumer: str
    as_dict: bool
    host_memory: int | None = None

    def check(self) -> Report:
        source = json.loads(self.text) if self.as_dict else self.text
        return check(
            source,
            target=self.target,
            world_size=self.world_size,
            consumer=self.consumer,
            host_memory=self.host_memory,
        )


def examples(rule: Rule) -> Iterator[Example]:
    """The examples of a rule's page, in order.

    Raises:
        ValueError: a heading names unknown circumstances.
    """
    page = textwrap.dedent(rule.doc.replace("\n", "\n", 1)) + "\n"
    first, _, rest = rule.doc.partition("\n")
    page = first + "\n" + textwrap.dedent(rest) + "\n"
    for kind, circumstances, block in _HEADING.findall(page):
        yield _example(rule, kind, circumstances, textwrap.dedent(block).strip())


def _example(rule: Rule, kind: str, circumstances: str, text: str) -> Example:
    target, world_size, consumer, as_dict = newest(rule), None, "deepspeed", False
    host_memory = None
    for said in filter(None, (part.strip() for part in circumstances.split(","))):
        if said.startswith("release "):
            target = said.removeprefix("release ")
        elif said.startswith("world size "):
            world_size = int(said.removeprefix("world size "))
        elif said.startswith("read by "):
            consumer = said.removeprefix("read by ")
        elif said.startswith("host memory "):
            host_memory = parse_bytes(said.removeprefix("host memory "))
        elif said == "as a dict":
            as_dict = True
        else:
            raise ValueError(f"{rule.code}: {said!r} in a heading means nothing")
    return Example(kind, text, target, world_size, consumer, as_dict, host_memory)


def newest(rule: Rule) -> str:
    """The newest release at which the rule applies."""
    if rule.until is None:
        return LATEST
    return next(release for release in reversed(RELEASES) if release_number(release) <= rule.releases.last)
