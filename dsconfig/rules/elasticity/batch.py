"""Batch keys beside elasticity."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition, Counts, Is
from dsconfig.rules.elasticity._section import block_of

_ENGINE = "runtime/config.py:DeepSpeedConfig.__init__"


@rule(
    "DSC606",
    effect="rejected",
    since="0.3.9",
    until="0.19.7",
    source=_ENGINE,
    conditions=tuple(
        Condition(
            "Config",
            (Is("elasticity.enabled", (True,)), Counts("elasticity.ignore_non_elastic_batch_info", (False,))),
            Absent(key, f"`elasticity` is enabled and works `{key}` out"),
        )
        for key in batch_triplet.KEYS
    ),
)
def batch_size_beside_elasticity(ctx: Context) -> Iterator[Finding]:
    """A batch key stands at the top level of a config whose elasticity is enabled.

    Elasticity works the three batch keys out. DeepSpeed refuses a config that gives them too, even as null,
    unless `ignore_non_elastic_batch_info` says that they may be overwritten.

    Bad, release 0.16.9:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    if block_of(ctx).get("ignore_non_elastic_batch_info", False):
        return
    given = [key for key in batch_triplet.KEYS if ctx.has(key)]
    if given:
        first, *others = given
        yield ctx.at(
            first,
            f"`{first}` is given, but `elasticity` is enabled and works the batch sizes out",
            help=f"remove {one_of((f'`{key}`' for key in given), 'and')}, or set "
            "`elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is given too", key) for key in others],
            fix=Fix("remove the batch keys", tuple(Remove((key,)) for key in given)),
        )
