"""The packages of `dsconfig`, what each holds and what it may import: `python -m tests.packages` writes CONTRIBUTING.

`tests/test_architecture.py` holds the source to this table, imports for type checkers among them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from tests.source import ROOT


class Package(NamedTuple):
    """What a package or root module holds, and which others it imports, by name."""

    holds: str
    imports: str = ""


PACKAGES: Mapping[str, Package] = {
    "core": Package(
        "diagnostics, releases, JSON types, bytes of files, wording, did-you-mean, batch and data-parallel arithmetic"
    ),
    "elastic": Package(
        "DeepSpeed's batch solver, plans upon it, the elastic agent; importable alone, it never imports `dsconfig`"
    ),
    "document": Package(
        "a config's text as a tree in which each key and value knows its place, and edits that keep the rest",
        "core",
    ),
    "model": Package(
        "the typed model: everything known of a key stands on its field; `keyinfo` reads its light, "
        "generated form",
        "core",
    ),
    "memory": Package(
        "what training holds in memory: a simulation of passes and engines, which knows no config", "core"
    ),
    "render": Package("output formats; they know a report by what they need of it", "core"),
    "consumers": Package(
        "what Transformers, Accelerate and others do to a config: fill `auto`, reject, override; the keys of "
        "Accelerate's launch file",
        "core",
    ),
    "job": Package(
        "what is known about a run: who reads the config, with which arguments, model and settings",
        "consumers core",
    ),
    "launch": Package(
        "launch files, scripts, manifests and programs: where the config stands, and what they say of the job",
        "consumers core document job model",
    ),
    "evaluation": Package(
        "what a rule sees of one release: context, walk, coercion of values; no rule is named here",
        "consumers core document job model",
    ),
    "rules": Package(
        "the checks, one function each, by domain",
        "consumers core document elastic evaluation job launch memory model",
    ),
    "schema": Package(
        "JSON Schema from the model, presets, settings of editors",
        "consumers core document evaluation job model rules",
    ),
    "check": Package(
        "discover files, check a config in its job, merge releases, apply `ignore`, report",
        "consumers core document evaluation job launch render rules",
    ),
    "fix": Package(
        "verify fixes, combine and apply them; migrate between releases",
        "check core document evaluation launch model",
    ),
    "resolve": Package(
        "the batch, effective values and config that a release runs with; memory of a config",
        "check consumers core document elastic evaluation job launch memory model render",
    ),
    "api": Package(
        "the functions that `import dsconfig` offers; `Config`, `load` and presets: configs built in Python",
        "check core document fix job launch model resolve schema",
    ),
    "cli": Package(
        "the command, one module for each verb; plan tables, manifests and torchrun's entry point for `elastic`",
        "check consumers core document elastic fix job launch model render resolve rules schema",
    ),
    "lsp": Package(
        "the language server: `service` answers in plain data, `server` is its wire",
        "check cli consumers core document fix job launch model render resolve schema",
    ),
    "types": Package("every section class, the classes of parameters and TypedDicts", "model"),
    "dsconfig": Package("the names that `import dsconfig` offers, each loaded when it is first used", "core"),
    "__main__": Package("`python -m dsconfig`", "cli"),
}
"""Each package imports only packages above it in this table."""

BEGIN, END = "<!-- packages: written by `python -m tests.packages` -->", "<!-- end of packages -->"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def table() -> str:
    """The table in Markdown."""
    rows = [
        f"| `{name}{'' if name.startswith('__') else '/'}` | {each.holds} | {each.imports.replace(' ', ', ') or '-'} |"
        for name, each in PACKAGES.items()
        if name != "dsconfig"
    ]
    return "\n".join(["| package | holds | imports |", "|---|---|---|", *rows])


def contributing() -> str:
    """CONTRIBUTING.md with the table in its place."""
    before, begin, rest = CONTRIBUTING.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{CONTRIBUTING.name} has no place for the table of packages")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    CONTRIBUTING.write_text(contributing(), "utf-8")
    sys.exit(0)
