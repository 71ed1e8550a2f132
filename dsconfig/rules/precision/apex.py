"""Mixed precision by NVIDIA Apex, which is gone since 0.19.8, beside DeepSpeed's own."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._precision import format_of, format_place, model_format
from dsconfig.rules._zero import said_here, stage

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"
_ACCUMULATION = "data_types.grad_accum_dtype"


@rule("DSC360", effect="crashes", since="0.3.0", until="0.19.7", source=_SANITY)
def amp_with_partner(ctx: Context) -> Iterator[Finding]:
    """`amp` is enabled together with ZeRO, `fp16` or `bf16`, or with another format for gradients.

    Apex casts the model and its optimizer itself. The engine
    says "Amp and ZeRO are not currently compatible" or "Cannot enable both amp" and stops.

    Bad, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}, "zero_optimization": {"stage": 1}}

    Good, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}}
    """
    if not isinstance(ctx.data.get("amp"), dict) or not ctx.on("amp.enabled"):
        return
    model = model_format(ctx)
    partner = "ZeRO" if stage(ctx) > 0 else f"`{model}`" if model != "fp32" else None
    related = said_here(ctx) if stage(ctx) > 0 else format_place(ctx)
    if partner is None and ctx.has(_ACCUMULATION):
        chosen = format_of(ctx.value(_ACCUMULATION))
        if chosen not in (None, "fp32") and ctx.since("0.7.6"):
            partner = f'`grad_accum_dtype` "{chosen}"'
            related = [("the format is set here", _ACCUMULATION)]
    if partner is None:
        return
    yield ctx.at(
        "amp.enabled",
        f"`amp` does not work with {partner}, and both are on",
        help="remove `amp`: `fp16` and `bf16` work with everything, and 0.19.8 knows `amp` no more",
        related=related,
        fix=Fix("remove `amp`", (Remove(("amp",)),)),
    )
