"""Page with the known defects of releases, by effect."""

from __future__ import annotations

from dsconfig.rules import RULES
from dsconfig.rules._advisory_table import Advisory, advisory_documentation, code_of_advisory, load_advisories
from pages import markdown

_HEADINGS = {
    "DSC880": "Jobs that fail",
    "DSC881": "Wrong results without an error",
    "DSC882": "Memory, time and convergence",
    "DSC883": "Versions that do not work together",
}
"""Headings by the rule that reports the entries."""


def pages() -> dict[str, str]:
    """Return the page by its path."""
    description = (
        "Known defects of DeepSpeed releases and version combinations: settings, consequence, fix and source."
    )
    by_rule = {
        code: [each for each in load_advisories() if code_of_advisory(each) == code] for code in _HEADINGS
    }
    introduction = (
        f"{len(load_advisories())} combinations of versions and settings that do not work as the config says."
        " `dsconfig check`, `compat` and `migrate` report those that apply to a job: if the release and all settings"
        " are known, and if other programs are pinned to affected versions."
        " `dsconfig explain NAME` shows an entry, and `dsconfig rules --advisories` lists them."
    )
    parts = [introduction]
    for code, heading in _HEADINGS.items():
        parts += [f"## {heading}", f"Reported by [{code}](../rules/{code}.md) {RULES[code].name}."]
        rows = [(f"[{each.id}](#{each.id})", each.affected, each.summary) for each in by_rule[code]]
        parts.append(markdown.table(("advisory", "affected", "consequence"), rows))
        parts += [_entry(each) for each in by_rule[code]]
    return {"advisories/index.md": markdown.page("Known defects of releases", description, *parts)}


def _entry(advisory: Advisory) -> str:
    text = "\n".join(advisory_documentation(advisory))
    return f"### {advisory.id} {{ #{advisory.id} }}\n\n{text}"
