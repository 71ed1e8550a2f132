"""`overlap_comm`, and gradient accumulation that is left to the script."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, PARAM, device
from dsconfig.rules._stage import ZERO, stage, stage_set_here, stage_words

_OVERLAP = f"{ZERO}.overlap_comm"
_CHECK = "runtime/engine.py:DeepSpeedEngine._do_sanity_check"


@rule(
    "DSC440",
    effect="altered",
    since="0.7.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.overlap_comm_valid",
)
def overlap_left_to_the_stage(ctx: Context) -> Iterator[Finding]:
    """`overlap_comm` is null, and so true or false by the stage.

    Null is as good as absent: true at stage 3, false below.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": null}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}
    """
    if ctx.written(_OVERLAP) is None:
        becomes = stage(ctx) == 3
        yield ctx.at(
            _OVERLAP,
            f"`overlap_comm` is `null` and counts as {quoted(becomes)}: true at stage 3, false below",
            help=f"write {quoted(becomes)}",
            related=stage_set_here(ctx),
            fix=Fix(f"replace by {quoted(becomes)}", (Set(ctx.place(_OVERLAP), becomes),), safe=True),
        )


@rule("DSC438", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_overlap(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false, and `overlap_comm` true below stage 2.

    Also at stage 0, where nothing overlaps: "managed_gradient_accumulation=False supports ZeRO overlap_comm
    only with ZeRO stage 2". Stage 3 is let through.

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 1, "overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "managed_gradient_accumulation": false, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.overlap_comm"
    if not ctx.has("managed_gradient_accumulation") or ctx.on("managed_gradient_accumulation"):
        return
    if ctx.has(path) and ctx.on(path) and stage(ctx) < 2:
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, with which `overlap_comm` works from stage 2 on, but"
            f" {stage_words(ctx)}",
            help="remove `overlap_comm`, or use stage 2",
            related=[("accumulation is left to the script here", "managed_gradient_accumulation")],
            fix=removal(ctx.place(path)),
        )


@rule("DSC439", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_deepcompile(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false beside DeepCompile.

    DeepCompile schedules communication by the boundaries of accumulation, which the script keeps to itself
    then: "managed_gradient_accumulation=False is not supported with DeepCompile".

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}
    """
    path = "managed_gradient_accumulation"
    if ctx.has(path) and not ctx.on(path) and ctx.on("compile.deepcompile"):
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, which `compile.deepcompile` does not work with",
            help="remove it, or set `compile.deepcompile` to `false`",
            related=[("DeepCompile is switched on here", "compile.deepcompile")],
            fix=removal((path,)),
        )


@rule("DSC420", effect="crashes", since="0.19.4", until="0.19.7", source=_CHECK)
def unmanaged_accumulation_with_partner(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false beside `amp`, or in 0.19.4 beside offloading.

    The config is accepted, and the engine stops: "managed_gradient_accumulation=False is not supported with
    Apex AMP". Offloading of the optimizer or of parameters works with it from 0.19.5 on.

    Bad, release 0.19.4:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good, release 0.19.5:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    path = "managed_gradient_accumulation"
    if not ctx.has(path) or ctx.on(path):
        return
    partners = (
        [] if ctx.since("0.19.5") else [each for each in (OPTIMIZER, PARAM) if device(ctx, each) != "none"]
    )
    if isinstance(ctx.data.get("amp"), dict) and ctx.on("amp.enabled"):
        partners.append("amp.enabled")
    for partner in partners:
        name = partner.removesuffix(".enabled")
        yield ctx.at(
            path,
            f"`{path}` is `false`, which does not work with `{name}` in DeepSpeed {ctx.release_name}",
            help="remove it" if name == "amp" else "remove it, or upgrade DeepSpeed to 0.19.5 or later",
            related=[("both are asked for here", partner)],
            fix=removal((path,)),
        )
