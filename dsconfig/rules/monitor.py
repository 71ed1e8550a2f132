"""Experiment monitors."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding


@rule("DSC924", effect="wasteful", since="0.14.3", source="monitor/comet.py:EventsLogScheduler.needs_logging")
def comet_interval_below_one(ctx: Context) -> Iterator[Finding]:
    """`comet.samples_log_interval` is 0 or negative, so every event is sent.

    Bad:

        {"train_batch_size": 8, "comet": {"enabled": true, "samples_log_interval": 0}}

    Good:

        {"train_batch_size": 8, "comet": {"enabled": true, "samples_log_interval": 100}}
    """
    path = "comet.samples_log_interval"
    if not isinstance(ctx.data.get("comet"), dict) or not ctx.is_on("comet.enabled"):
        return
    interval = ctx.value(path)
    if isinstance(interval, int) and interval <= 0:
        yield ctx.at(
            path,
            f"`samples_log_interval` is {quote_value(interval)}, so every event is sent to Comet",
            help=f"set it to the number of samples between two events; the default is {quote_value(ctx.default(path))}",
        )
