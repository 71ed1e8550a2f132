"""The closing line: what was checked, against what, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import SEVERITIES
from dsconfig.render.terminal import printable, wrapped

if TYPE_CHECKING:
    from dsconfig.render import Reader, Target
    from dsconfig.render.terminal import Style

ORIGINS = {
    "argument": "--target",
    "environment": "DSCONFIG_TARGET",
    "file": 'its "$dsconfig"',
    "installed": "installed",
    "latest": "latest known",
}


def summary(
    counts: Mapping[str, int],
    targets: Mapping[str, int],
    readers: Sequence[tuple[Reader, int]],
    style: Style,
) -> str:
    """One line, for example `Checked 3 files against DeepSpeed 0.19.8 (latest known): 2 errors, 1 warning.`.

    `counts` are by severity, and `suppressed`. `targets` are releases in words (see `against`), the files of
    each counted, and `readers` who reads them.
    """
    files = sum(targets.values())
    if not files:
        return ""
    parts = [style.paint(count(counts.get(s, 0), s), s) for s in SEVERITIES if counts.get(s)]
    parts = parts or [style.paint("nothing found", "good")]
    if counts.get("suppressed"):
        parts.append(f"{counts['suppressed']} suppressed")
    first, *others = targets
    checked = f"Checked {count(files, 'file')}{_read_by(readers)} against DeepSpeed {first}"
    checked += "".join(f", {targets[other]} against {other}" for other in others)
    return wrapped(f"{checked}: {', '.join(parts)}.", style, 2) + "\n"


def _read_by(readers: Sequence[tuple[Reader, int]]) -> str:
    """Who reads the files; nothing is said of DeepSpeed itself where it reads all of them."""
    names = Counter[str]()
    for found, number in readers:
        names[found.name] += number
    if set(names) <= {"deepspeed"} and all(found.origin in ("argument", "default") for found, _ in readers):
        return ""
    if len(readers) == 1:
        return f", {printable(str(readers[0][0]))},"
    each = [f"{number} by {name}" for name, number in names.most_common()]
    return f", read {', '.join(each)},"


def note(text: str, style: Style) -> str:
    """A line that is not a finding."""
    return wrapped(f"{style.paint('note', 'bold')}: {printable(text)}", style, 6) + "\n"


_MOST_SIZES = 3
"""Files whose world sizes are named, unless all are asked for."""


def working_sizes(sizes: Mapping[str, str], *, every: bool) -> list[str]:
    """The world sizes at which batches work, by file, in one line for the whole run."""
    if len(sizes) < 2:
        return [f"{name} works at these world sizes: {said}" for name, said in sizes.items()]
    shown = list(sizes.items())[: None if every else _MOST_SIZES]
    each = "; ".join(f"{name} at {said}" for name, said in shown)
    more = f"; -v names the other {len(sizes) - len(shown)}" if len(shown) < len(sizes) else ""
    return [f"{len(sizes)} files work at some world sizes only: {each}{more}"]


def against(target: Target, source: str | None) -> str:
    """The releases checked and where the choice comes from."""
    origin = ORIGINS.get(target.origin) or printable(target.source or source or "settings")
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
