"""What Lion asks for."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import params
from dsconfig.rules.optimizer._own_type import own_type

_TYPE = "optimizer.type"


@rule("DSC525", effect="wasteful", since="0.11.0", source="ops/lion/fused_lion.py:FusedLion.__init__")
def lion_with_betas_of_adam(ctx: Context) -> Iterator[Finding]:
    """Lion without `betas` takes those of Adam.

    DeepSpeed's default is [0.9, 0.999]; Lion's authors, and other implementations, use [0.9, 0.99].

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}
    """
    if "betas" not in (written := params(ctx, "optimizer")) and own_type(ctx) == "Lion":
        yield ctx.at(
            _TYPE,
            "`betas` is not written: DeepSpeed's Lion takes [0.9, 0.999], not the usual [0.9, 0.99]",
            help='add `"betas": [0.9, 0.99]`, or the ones that you mean',
            fix=Fix("write [0.9, 0.99]", (Set(("optimizer", "params", "betas"), [0.9, 0.99]),))
            if written
            else None,
        )
