"""`compat`: the releases that accept a config, and the first error in each release that does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
)
from dsconfig.check.check import check
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import LATEST, RELEASES, ReleaseTarget, resolve_target
from dsconfig.document import Document
from dsconfig.job.detect_consumer import ConsumerEvidence
from dsconfig.launch.config_source import ConfigSource
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import locate_config, why_host_has_no_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.render.terminal_style import TerminalStyle


Verdict: TypeAlias = Literal["ok", "crashes", "rejected"]
ALL_RELEASES = ReleaseTarget(RELEASES, f">={RELEASES[0]},<={LATEST}", "argument")


@dataclass(frozen=True, slots=True)
class CompatRange:
    """Consecutive releases that all accept or all reject a config, oldest first; `error` is the first rejection."""

    releases: tuple[str, ...]
    word: Verdict
    reason: Diagnostic | None = None


def compat(
    source: ConfigSource | Document,
    *,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | ConsumerEvidence | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
) -> tuple[CompatRange, ...]:
    """Check a config against each release; consecutive releases with the same result form one range.

    Args:
        source: a path, text, bytes, a dict, a `Config`, or a document that has been read; see `check`.
        target: the releases to check, such as `>=0.14`; None for all.
        world_size: number of ranks; see `check`.
        consumer: the library that loads the file; see `check`.
        training_args: training arguments of the consumer; see `check`.
        model: the model that the job trains; see `check`.
        launch: the launch file that starts the job; see `check`.
        job: see `resolve`.

    Raises:
        OSError: the path cannot be read, or the launch file refers to no config that exists.
        UnknownReleaseError: the target matches no release.
        ValueError: the consumer or the world size is invalid.
    """
    document = read_config_of_job(source, job)
    if problem := why_host_has_no_config(document):
        raise FileNotFoundError(problem)
    target = resolve_target(target, "argument") if isinstance(target, str) else target or ALL_RELEASES
    located = locate_config(document)
    arguments = job_from_arguments(
        target, world_size, consumer, explicit_model_and_hosts(model), training_args, launch
    )
    report = check(located, build_job(located, arguments))
    # A rejected config never gets to crash.
    errors = sorted(
        (
            diagnostic
            for each in (report, *report.children)
            for diagnostic in each.diagnostics
            if diagnostic.severity == "error"
        ),
        key=lambda diagnostic: diagnostic.effect is not Effect.REJECTED,
    )
    ranges: list[CompatRange] = []
    for release in target.releases:
        reason = next((diagnostic for diagnostic in errors if release in diagnostic.releases), None)
        if ranges and ranges[-1].reason is reason:
            previous = ranges.pop()
            ranges.append(CompatRange((*previous.releases, release), previous.word, reason))
        else:
            ranges.append(CompatRange((release,), _verdict_for_reason(reason), reason))
    return tuple(ranges)


def _verdict_for_reason(reason: Diagnostic | None) -> Verdict:
    if reason is None:
        return "ok"
    return "rejected" if reason.effect is Effect.REJECTED else "crashes"


# The table for the terminal.

_TONES = {"ok": "good", "crashes": "error", "rejected": "error"}


def compat_table(ranges: Sequence[CompatRange], style: TerminalStyle) -> str:
    """Return one line per range with the releases, the result and the reason."""
    from dsconfig.render.terminal_style import escape_unprintable, wrap_line

    names = [_format_release_range(span.releases) for span in ranges]
    width = max(map(len, names))
    lines = []
    for name, span in zip(names, ranges, strict=True):
        word = style.paint(span.word.ljust(8), _TONES[span.word])
        reason = span.reason
        reason_text = f"  {reason.code} {escape_unprintable(reason.message)}" if reason else ""
        line = f"{name.ljust(width)}  {word}{reason_text}".rstrip()
        lines.append(wrap_line(line, style, width + 12) + "\n")
    return "".join(lines)


def _format_release_range(releases: tuple[str, ...]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
