"""The closing line: what was checked, against what, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.diagnostic import SEVERITIES
from dsconfig.render.text import printable

if TYPE_CHECKING:
    from dsconfig.render import Target
    from dsconfig.render.style import Style

ORIGINS = {
    "argument": "--target",
    "environment": "DSCONFIG_TARGET",
    "installed": "installed",
    "latest": "latest known",
}


def summary(
    files: int, counts: Mapping[str, int], target: Target, style: Style, source: str | None = None
) -> str:
    """One line, for example `Checked 3 files against DeepSpeed 0.19.8 (latest known): 2 errors, 1 warning.`.

    `counts` are by severity, and `suppressed`. `source` is the settings file, named where the target comes
    from it.
    """
    parts = [style.paint(count(counts.get(s, 0), s), s) for s in SEVERITIES if counts.get(s)]
    parts = parts or [style.paint("nothing found", "good")]
    if counts.get("suppressed"):
        parts.append(f"{counts['suppressed']} suppressed")
    checked = f"Checked {count(files, 'file')} against DeepSpeed {against(target, source)}"
    return f"{checked}: {', '.join(parts)}.\n"


def note(text: str, style: Style) -> str:
    """A line that is not a finding."""
    return f"{style.paint('note', 'bold')}: {printable(text)}\n"


def against(target: Target, source: str | None) -> str:
    """The releases checked and where the choice comes from."""
    origin = ORIGINS.get(target.origin) or source or "settings"
    if len(target.releases) == 1:
        return f"{target.releases[0]} ({origin})"
    oldest, newest = target.releases[0], target.releases[-1]
    return f"{oldest} to {newest} ({len(target.releases)} releases, {origin})"


def statistics(rules: Mapping[tuple[str, str], int], style: Style) -> str:
    """How often each rule spoke, the most talkative first."""
    rows = sorted(rules.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{count:6} {style.paint(code, 'bold')} {name}\n" for (code, name), count in rows)


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    if noun == "info":
        return f"{number} info"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
