"""`compat`: releases that accept a config, the first diagnostics of the others, and a table of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.check.build_job import MappingSource, ModelSource, asked, build_job, known_of
from dsconfig.check.check import check
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import LATEST, RELEASES, Target, resolve
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Reader
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import locate, why_no_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.render.terminal import Style


# `compat`: which releases take a config, and what the others say first against it.

Word: TypeAlias = Literal["taken", "crashes", "refused"]
EVERY = Target(RELEASES, f">={RELEASES[0]},<={LATEST}", "argument")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring releases, oldest first, that do the same with the config, and the first reason."""

    releases: tuple[str, ...]
    word: Word
    reason: Diagnostic | None = None


def compat(
    source: ConfigSource | Document,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | Reader | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
) -> tuple[Stretch, ...]:
    """What each release does with a config, equal neighbours folded.

    Args:
        source: a path, text, bytes, a dict or a `Config`, or a document that was read; see `check`.
        target: these releases only, such as `>=0.14`; None: all.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer is started with; see `check`.
        model: the model that it trains; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        OSError: the path cannot be read, or leads to no config, which the text says.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer or the world size is impossible.
    """
    document = source if isinstance(source, Document) else read(source)
    if why := why_no_config(document):
        raise FileNotFoundError(why)
    target = resolve(target, "argument") if isinstance(target, str) else target or EVERY
    located = locate(document)
    said = asked(target, world_size, consumer, known_of(model), training_args, launch)
    report = check(located, build_job(located, said))
    errors = sorted(
        (
            found
            for each in (report, *report.children)
            for found in each.diagnostics
            if found.severity == "error"
        ),
        key=lambda found: found.effect is not Effect.REJECTED,  # what is refused never comes to crash
    )
    stretches: list[Stretch] = []
    for release in target.releases:
        reason = next((found for found in errors if release in found.releases), None)
        if stretches and stretches[-1].reason is reason:
            before = stretches.pop()
            stretches.append(Stretch((*before.releases, release), before.word, reason))
        else:
            stretches.append(Stretch((release,), _word(reason), reason))
    return tuple(stretches)


def _word(reason: Diagnostic | None) -> Word:
    if reason is None:
        return "taken"
    return "refused" if reason.effect is Effect.REJECTED else "crashes"


# What each release does with a config, for people: a line for each stretch of releases.

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
