"""`amsgrad`, which no kernel of DeepSpeed has."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import Chosen, optimizer, params
from dsconfig.rules._fixes import removal

_PARAMS = "optimizer.params"


@rule("DSC514", effect="crashes", source="ops/adam/fused_adam.py:FusedAdam.__init__")
def amsgrad_of_a_kernel(ctx: Context) -> Iterator[Finding]:
    """`amsgrad` is on, and none of DeepSpeed's own optimizers can do it.

    FusedAdam, FusedLamb and, from 0.19.8 on, DeepSpeedCPUAdam refuse it as the engine starts. Before, the
    Adam for the CPU took it and did nothing with it, as that of Adagrad does to this day. PyTorch's Adam can,
    and `torch_adam` chooses it.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}
    """
    if not params(ctx, "optimizer").get("amsgrad"):
        return
    chosen = optimizer(ctx)
    if chosen is None or chosen.of_torch or "amsgrad" not in chosen.accepts or chosen.name == "Muon":
        return
    ignored = _passes_over(ctx, chosen)
    path = f"{_PARAMS}.amsgrad"
    yield ctx.at(
        path,
        f"`amsgrad` is {quoted(ctx.written(path))}, and {chosen.built} "
        + ("does nothing with it" if ignored else "refuses it"),
        help=(f"set `{_PARAMS}.torch_adam` to `true`, or " if "torch_adam" in chosen.accepts else "")
        + "remove it",
        effect="ignored" if ignored else "crashes",
        fix=_way_out(chosen, ignored),
    )


def _passes_over(ctx: Context, chosen: Chosen) -> bool:
    if chosen.built == "DeepSpeedCPUAdam":
        return ctx.before("0.19.8")
    return chosen.built == "DeepSpeedCPUAdagrad"


def _way_out(chosen: Chosen, ignored: bool) -> Fix:
    if chosen.built == "FusedAdam":
        return Fix("take PyTorch's Adam", (Set(("optimizer", "params", "torch_adam"), True),))
    return removal(("optimizer", "params", "amsgrad"), safe=ignored)
