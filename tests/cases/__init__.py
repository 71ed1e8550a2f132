"""Corner cases of the rules, as data: `<domain>/<CODE>-<name>.json`, one file a rule.

A file holds `cases` and, where a real engine confirms the rule, `crashes` (see `tests.parity.crashes`).
A case says

* `name` and `why`: what it is about;
* `config` (checked as a dict) or `text` (checked as a file's text);
* `target`, and perhaps `world_size` and `consumer`, `model` (what its `config.json` holds, or a name),
  `host_memory` in bytes and `gpus_per_node`;
* `finds`: what the rule finds, an empty list where it must stay silent. The author writes `path` and `effect`
  of each finding; `make cases` writes `message`, `help` and `fix` (see `tests.cases.words`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from dsconfig.api.check import check
from dsconfig.check.report import Report
from dsconfig.rules import Rule

FOLDER = Path(__file__).resolve().parent
KNOWN = ("model", "host_memory", "gpus_per_node")
"""What a case may say of the run beside the config."""
Content: TypeAlias = dict[str, list[dict[str, Any]]]
"""A file: lists of entries, by kind."""


@dataclass(frozen=True, slots=True)
class Case:
    """One config, and what one rule finds in it."""

    rule: str
    """Code and name, as the file is called."""
    entry: Mapping[str, Any]

    @property
    def code(self) -> str:
        return self.rule.partition("-")[0]

    @property
    def label(self) -> str:
        return f"{self.rule}/{self.entry['name']}"

    @property
    def target(self) -> str:
        return str(self.entry["target"])

    @property
    def consumer(self) -> str:
        return str(self.entry.get("consumer", "deepspeed"))

    @property
    def finds(self) -> list[dict[str, Any]]:
        return list(self.entry["finds"])

    def check(self) -> Report:
        source = self.entry["config"] if "config" in self.entry else self.entry["text"]
        known = {name: self.entry[name] for name in KNOWN if name in self.entry}
        return check(
            source,
            target=self.target,
            world_size=self.entry.get("world_size"),
            consumer=self.consumer,
            **known,
        )


def place(rule: Rule) -> Path:
    """Where the cases of a rule belong: the folder has the name of its domain in `dsconfig.rules`."""
    domain = rule.check.__module__.split(".")[2]
    return FOLDER / domain / f"{rule.code}-{rule.name}.json"


def files(code: str = "") -> list[Path]:
    """The file of the rule with this code; without a code, those of all rules."""
    return sorted(FOLDER.glob(f"*/{code}*.json"))


def read(path: Path) -> Content:
    """The content of one file."""
    content: Content = json.loads(path.read_text("utf-8"))
    return content


def cases(code: str = "") -> Iterator[Case]:
    """The cases of the rule with this code; without a code, those of all rules."""
    for path in files(code):
        for entry in read(path)["cases"]:
            yield Case(path.stem, entry)
