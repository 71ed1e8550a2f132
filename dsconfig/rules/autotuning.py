"""The autotuner's section."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.rules._context import Context, Finding
from dsconfig.rules._rule import rule
from dsconfig.words import quoted


@rule(
    "DSC914",
    effect="rejected",
    since="0.7.5",
    source="autotuning/config.py:DeepSpeedAutotuningConfig._initialize",
)
def empty_autotuning_directory(ctx: Context) -> Iterator[Finding]:
    """`autotuning.results_dir` or `autotuning.exps_dir` is empty.

    DeepSpeed insists on the two directories whenever it loads a config, also while autotuning is off. Null,
    false and an empty string all count as empty; a key that is left out has its default.

    Bad:

        {"train_batch_size": 8, "autotuning": {"enabled": false, "results_dir": null}}

    Good:

        {"train_batch_size": 8, "autotuning": {"enabled": false}}
    """
    for key in ("results_dir", "exps_dir"):
        value = ctx.value(f"autotuning.{key}")
        if not value:
            default = ctx.default(f"autotuning.{key}")
            yield ctx.at(
                f"autotuning.{key}",
                f"`{key}` is {quoted(value)}, and DeepSpeed insists on a directory, even with autotuning off",
                help=f"give a directory, or remove the key: the default is {quoted(default)}",
            )
