"""What each release does with a config, for people: a line for each stretch of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.check.compat import Stretch
    from dsconfig.render.terminal import Style

_TONES = {"taken": "good", "crashes": "error", "refused": "error"}


def table(stretches: Sequence[Stretch], style: Style) -> str:
    """A line for each stretch: the releases, what they do, and why."""
    from dsconfig.render.terminal import printable, wrapped

    names = [_span(each.releases) for each in stretches]
    width = max(map(len, names))
    lines = []
    for name, each in zip(names, stretches, strict=True):
        word = style.paint(each.word.ljust(7), _TONES[each.word])
        reason = each.reason
        why = f"  {reason.code} {printable(reason.message)}" if reason else ""
        line = f"{name.ljust(width)}  {word}{why}".rstrip()
        lines.append(wrapped(line, style, width + 11) + "\n")
    return "".join(lines)


def _span(releases: tuple[str, ...]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
