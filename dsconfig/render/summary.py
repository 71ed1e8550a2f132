"""The closing summary of a run: files, releases, and totals by severity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dsconfig.core.diagnostic import SEVERITIES
from dsconfig.render.terminal_style import escape_unprintable, wrap_line

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, DetectedConsumer
    from dsconfig.render.terminal_style import TerminalStyle

ORIGINS = {
    "argument": "--target",
    "environment": "DSCONFIG_TARGET",
    "file": '"$dsconfig"',
    "installed": "installed",
    "latest": "latest known",
}


def summary_line(
    counts: Mapping[str, int],
    targets: Mapping[str, int],
    readers: Sequence[tuple[DetectedConsumer, int]],
    style: TerminalStyle,
) -> str:
    """Return the summary line: `Checked 3 files against DeepSpeed 0.19.8 (latest known): 2 errors, 1 warning.`.

    `counts` has the number of diagnostics by severity, and of `suppressed` ones. `targets` counts the files by checked
    releases, as text, and `readers` by consumer.
    """
    files = sum(targets.values())
    if not files:
        return ""
    parts = [style.paint(count_noun(counts.get(s, 0), s), s) for s in SEVERITIES if counts.get(s)]
    parts = parts or [style.paint("no problems found", "good")]
    if counts.get("suppressed"):
        parts.append(f"{counts['suppressed']} suppressed")
    first, *others = targets
    number = f", {targets[first]}" if others else ""
    checked = (
        f"Checked {count_noun(files, 'file')}{_format_consumers(readers)}{number} against DeepSpeed {first}"
    )
    checked += "".join(f", {targets[other]} against {other}" for other in others)
    return wrap_line(f"{checked}: {', '.join(parts)}.", style, 2) + "\n"


def _format_consumers(readers: Sequence[tuple[DetectedConsumer, int]]) -> str:
    """Describe the consumers of the files; empty if DeepSpeed loads all of them by default."""
    names = Counter[str]()
    for consumer, number in readers:
        names[consumer.name] += number
    if set(names) <= {"deepspeed"} and all(
        consumer.origin in ("argument", "default") for consumer, _ in readers
    ):
        return ""
    if len(readers) == 1:
        return f" ({escape_unprintable(str(readers[0][0]))})"
    counted = [f"{name}: {number}" for name, number in names.most_common()]
    return f" ({', '.join(counted)})"


def note_line(text: str, style: TerminalStyle) -> str:
    """Format a note as a line of output."""
    return wrap_line(f"{style.paint('note', 'bold')}: {escape_unprintable(text)}", style, 6) + "\n"


_MOST_SIZES = 3
"""Number of files whose world sizes are listed without `--verbose`."""


def format_working_world_sizes(sizes: Mapping[str, str], *, every: bool) -> list[str]:
    """Return the world sizes for which the batch of each file is valid, as lines for the whole run."""
    if len(sizes) < 2:
        return [f"{name} works at these world sizes: {world_sizes}" for name, world_sizes in sizes.items()]
    shown = list(sizes.items())[: None if every else _MOST_SIZES]
    listed = "; ".join(f"{name} at {world_sizes}" for name, world_sizes in shown)
    rest = f"; -v names the other {len(sizes) - len(shown)}" if len(shown) < len(sizes) else ""
    return [f"{len(sizes)} files work at some world sizes only: {listed}{rest}"]


def format_checked_releases(target: CheckedReleases, source: str | None) -> str:
    """Describe the checked releases and how they were chosen."""
    origin = ORIGINS.get(target.origin) or escape_unprintable(target.source or source or "settings")
    if len(target.releases) == 1:
        return f"{target.releases[0]} ({origin})"
    oldest, newest = target.releases[0], target.releases[-1]
    return f"{oldest} to {newest} ({len(target.releases)} releases, {origin})"


def rule_statistics(rules: Mapping[tuple[str, str], int], style: TerminalStyle) -> str:
    """Return the number of diagnostics per rule, most frequent first."""
    rows = sorted(rules.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{count:6} {style.paint(code, 'bold')} {name}\n" for (code, name), count in rows)


LONG = 30
"""Number of diagnostics from which a report ends with an overview, because the report no longer fits on a screen."""
_MOST_RULES = 10
"""Maximal number of rules in the overview of a long report."""


def overview_of_rules(
    rules: Mapping[tuple[str, str], int],
    fixable: int,
    errors: int,
    style: TerminalStyle,
    *,
    listed: bool = False,
) -> str:
    """Return the most frequent rules and where to start, or "" for a short report.

    `fixable` is the number of diagnostics with a safe fix, and `errors` the number of errors. With `listed`, the rules
    are left out, because `statistics` lists them.
    """
    total = sum(rules.values())
    if total < LONG:
        return ""
    frequent = dict(Counter(rules).most_common(_MOST_RULES))
    others = total - sum(frequent.values())
    rest = f"{others:6} from {count_noun(len(rules) - len(frequent), 'other rule')}\n" if others else ""
    rows = "" if listed else rule_statistics(frequent, style) + rest
    return (
        rows
        + wrap_line(f"{style.paint('start here', 'bold')}: {_first_step(rules, fixable, errors)}", style, 2)
        + "\n"
    )


def _first_step(rules: Mapping[tuple[str, str], int], fixable: int, errors: int) -> str:
    """Return advice on the step that resolves most problems with the least work."""
    total = sum(rules.values())
    if fixable:
        return f"`--fix` fixes {fixable} of {total} problems, and changes nothing that works"
    if 0 < errors < total // 2:
        return f"`--min-severity error` shows only {'the error' if errors == 1 else f'the {errors} errors'}"
    (code, name), number = Counter(rules).most_common(1)[0]
    return f"`dsconfig explain {code}` says what to do about {name}, {number} of {total} problems"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    if noun == "info":
        return f"{number} info"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
