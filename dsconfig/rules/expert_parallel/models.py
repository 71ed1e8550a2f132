"""AutoEP, where the model is known."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._experts import DENSE
from dsconfig.rules._model_facts import is_known, model
from dsconfig.rules.expert_parallel._section import EP, requires_autoep, value_of

_CHOICES = ("preset_model", "moe_layer_pattern")


@rule("DSC711", effect="ignored", since="0.19.2", source="module_inject/auto_ep.py:AutoEP.ep_parser")
def expert_parallel_without_experts(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel` is on, and the model has no experts.

    AutoEP says that it found no layers of experts, and replaces nothing; where `preset_model` or
    `moe_layer_pattern` is given, it raises. Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    if not is_known(ctx):
        return
    requires_autoep(ctx)
    found = model(ctx)
    if len(found.kinds) != 1 or found.kinds[0] not in DENSE:
        return
    chosen = next((key for key in _CHOICES if value_of(ctx, key) is not None), None)
    told = f"expert parallelism is on, and {found.shown}, of the type {found.kinds[0]}, has no experts"
    yield ctx.at(
        f"{EP}.enabled",
        told if chosen is None else f"{told}: AutoEP raises, for `{chosen}` is given",
        help=f"set `{EP}.enabled` to false",
        effect="ignored" if chosen is None else "crashes",
    )
