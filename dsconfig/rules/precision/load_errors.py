"""What the sections of number formats refuse as soon as the config is loaded."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import format_of, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import stage, stage_set_here

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"
_ACCUMULATION = "data_types.grad_accum_dtype"


@rule("DSC309", effect="rejected", until="0.19.7", source="runtime/config.py:get_amp_params")
def amp_without_enabled(ctx: Context) -> Iterator[Finding]:
    """The section `amp` does not say `enabled`.

    DeepSpeed takes that key out of the section before it hands the rest to Apex, and fails where there is
    none.

    Bad:

        {"train_batch_size": 8, "amp": {"opt_level": "O1"}}

    Good:

        {"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}}
    """
    if isinstance(ctx.written("amp"), dict) and not ctx.has("amp.enabled"):
        yield ctx.at(
            "amp",
            "`amp` has no `enabled`, which DeepSpeed demands here",
            help='add `"enabled": true` or `false`, or remove the section',
            part="key",
        )


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
    related = stage_set_here(ctx) if stage(ctx) > 0 else format_place(ctx)
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
        fix=removal(("amp",)),
    )
