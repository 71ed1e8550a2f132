"""Buckets, limits and leaf modules of ZeRO, where the model is known."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName, Fix, Set
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.launch import repository
from dsconfig.rules._effective_values import (
    STAGE,
    ZERO,
    autocasts,
    bf16_optimizer,
    format_of,
    model_format,
    sent_format,
    stage,
    stage_set_here,
)
from dsconfig.rules._model_facts import (
    BLOCKS,
    FUSED,
    Weight,
    block_of,
    elements,
    has_model,
    largest,
    largest_linear,
    model,
    names,
    transformers_version,
)
from dsconfig.rules._numbers import rounded, rounded_up

# What a known model makes of buckets and limits at the ZeRO stages.

_REDUCE = f"{ZERO}.reduce_bucket_size"
_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_MOST = 2**63


@rule(
    "DSC405",
    effect="wasteful",
    since="0.5.2",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_larger_than_model(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is larger than the model, and the bucket is allocated whole all the same.

    Gradients are gathered in a buffer of that many elements before they are reduced. It is made at its full
    size whatever the model has: at stages 1 and 2 in each backward pass, at stage 3 for the whole run.
    Reported where the model is known, and gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000},
        "$dsconfig": {"model": "gpt2"}}
    """
    if not has_model(ctx) or not ctx.has(ZERO) or stage(ctx) not in (1, 2, 3):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float) or size >= _MOST or not ctx.on(f"{ZERO}.contiguous_gradients"):
        return
    if bf16_optimizer(ctx) or size <= (count := elements(ctx)):
        return
    width = 4 if model_format(ctx) == "fp32" else 2
    more = width * (size - count) / 1e9
    held = "held for the whole run" if stage(ctx) == 3 else "held in each backward pass"
    yield ctx.at(
        _REDUCE,
        f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, and"
        f" {model(ctx).shown} has {count:,} parameters: {more:,.2f} GB of the bucket are never filled,"
        f" and {held}",
        help=f"set `{_REDUCE}` to {rounded(count)}",
        related=stage_set_here(ctx),
    )


@rule(
    "DSC406",
    effect="wasteful",
    since="0.5.9",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_without_effect(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` has no effect on this model, which stage 3 gathers whole on each GPU.

    The limit only stops fetching ahead. What will be used again within `stage3_max_reuse_distance` stays
    gathered, and from the first layer's forward pass to its backward pass are twice the parameters of the
    model: where the distance is no less, nothing is let go in between. Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 10000000,
        "stage3_max_reuse_distance": 10000000}, "$dsconfig": {"model": "gpt2"}}
    """
    if not has_model(ctx) or not ctx.has(_LIVE) or stage(ctx) != 3 or ctx.world_size == 1:
        return
    live, reuse = ctx.value(_LIVE), ctx.value(_REUSE)
    if not isinstance(live, int | float) or not isinstance(reuse, int | float):
        return
    if reuse < 2 * (count := elements(ctx)):
        return
    few = rounded(count // 10)
    yield ctx.at(
        _LIVE,
        f"`stage3_max_live_parameters` is {live:,.0f}, and all {count:,} parameters of {model(ctx).shown} are"
        f" gathered on each GPU whatever it says: `stage3_max_reuse_distance` is {reuse:,.0f}",
        help=f"set `{_REUSE}` to {few}, and `{_LIVE}` too",
        related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
    )


@rule(
    "DSC411",
    effect="crashes",
    since="0.17.2",
    until="0.18.1",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads, "
    "runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage",
)
def bucket_too_small_for_another_format(ctx: Context) -> Iterator[Finding]:
    """Gradients that are sent in another format than their own do not fit `reduce_bucket_size`.

    From 0.17.2 to 0.18.1 a parameter larger than the bucket is noted by its own format and looked for by the
    one that is sent, that of `torch_autocast` for linear layers: the first backward pass ends in "start (0) +
    length (525336576) exceeds dimension size (500000000)". With `communication_data_type` up to 0.18.0 it is
    enough that the bucket fills: "KeyError: torch.bfloat16". Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization":
        {"stage": 2, "reduce_bucket_size": 600000000}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    if not has_model(ctx) or ctx.known.adapters or stage(ctx) not in (1, 2) or bf16_optimizer(ctx):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float):
        return
    found = _under_autocast(ctx, size) if autocasts(ctx) else _as_communicated(ctx, size)
    if found is not None:
        why, help_ = found
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, and {why}",
            help=help_,
            related=stage_set_here(ctx),
        )


def _under_autocast(ctx: Context, size: float) -> tuple[str, str] | None:
    """What is wrong, and what helps, where linear layers are sent in the format that they compute in."""
    word = "torch_autocast.dtype"
    chosen = format_of(ctx.value(word)) if ctx.has(word) else "fp16"
    if chosen not in ("fp16", "bf16") or ctx.has("torch_autocast.lower_precision_safe_modules"):
        return None
    return _too_large(ctx, largest_linear(ctx), size, chosen)


def _as_communicated(ctx: Context, size: float) -> tuple[str, str] | None:
    """The same where `communication_data_type` is not the model's format."""
    sent, key = sent_format(ctx)
    if key is None or sent == model_format(ctx):
        return None
    if ctx.since("0.18.1"):
        return _too_large(ctx, largest(ctx), size, sent)
    if (count := elements(ctx)) <= size:
        return None
    why = (
        f"the {count:,} gradients of {model(ctx).shown} fill it more than once; they are sent as {sent}, and"
        " up to DeepSpeed 0.18.0 a full bucket is looked up by another format"
    )
    return why, f'set `{key}` to "{model_format(ctx)}", or upgrade DeepSpeed to 0.18.2 or later'


def _too_large(ctx: Context, most: Weight | None, size: float, sent: str) -> tuple[str, str] | None:
    if most is None or most.elements <= size or not ctx.on(f"{ZERO}.contiguous_gradients"):
        return None
    why = (
        f"`{most.name}` in {model(ctx).shown} has {most.elements:,} elements; its gradient is sent as {sent},"
        " and what is sent in another format has to fit up to DeepSpeed 0.18.1"
    )
    return why, f"set `{_REDUCE}` to {rounded_up(most.elements)}, or upgrade DeepSpeed to 0.18.2 or later"


# Experts and leaves of stage 3, where the model is known.

_LEAF = f"{ZERO}.leaf_module"
_CLASSES = f"{_LEAF}.classes"


@rule("DSC407", effect="crashes", since="0.13.2", source="utils/z3_leaf_module.py:set_z3_leaf_modules")
def experts_without_leaf(ctx: Context) -> Iterator[Finding]:
    """A model with experts trains at stage 3, and the block that holds them is no leaf.

    In Transformers 4 a rank calls only those experts that its tokens go to, so that ranks gather different
    parameters: with NCCL they wait for each other for ever, with gloo they stop with an error. As a leaf the
    block is gathered whole. From 0.18.0 on `leaf_module` names such blocks, and those of Mixtral, Qwen2-MoE
    and Qwen3-MoE are leaves by default; before, a script does it with
    `deepspeed.utils.set_z3_leaf_modules`. Reported where the model is known, and neither a script of the
    repository nor its program (LLaMA-Factory, Axolotl, ms-swift) makes leaves; as a note where nothing says
    that Transformers is older than 5.

    Bad, read by transformers==4.57:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "leaf_module": {"classes":
        ["Qwen3MoeSparseMoeBlock"]}, "stage3_gather_16bit_weights_on_model_save": true},
        "$dsconfig": {"model": "mixtral-8x7b"}}

    Good, read by transformers==4.57:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    if not has_model(ctx) or not ctx.has(ZERO) or stage(ctx) != 3 or ctx.world_size == 1:
        return
    found = model(ctx)
    block = block_of(found)
    if block is None or _is_leaf(ctx, block) or ctx.known.program in repository.PROGRAMS:
        return
    version = transformers_version(ctx)
    if (version is not None and version >= FUSED) or repository.are_set(ctx.document.name):
        return
    told = (
        f"{found.shown} has experts in `{block}`, which is no leaf: ranks that skip an expert and ranks that"
        " use it wait for each other for ever"
    )
    effect: EffectName = "crashes" if version is not None else "wasteful"
    told += "" if version is not None else " with Transformers before 5"
    if ctx.since("0.18.0"):
        wanted = [*(names(ctx, _CLASSES) if ctx.has(_CLASSES) else []), block]
        fix = Fix(f"make `{block}` a leaf", (Set(ctx.place(_CLASSES), wanted),))
        advice = f"add `{_CLASSES}` with `{block}` in it, unless the script makes it a leaf"
        yield ctx.at(_CLASSES if ctx.has(_CLASSES) else STAGE, told, help=advice, effect=effect, fix=fix)
    else:
        call = f"deepspeed.utils.set_z3_leaf_modules(model, [{block}])"
        yield ctx.at(STAGE, told, help=f"call `{call}` in the script, unless it does", effect=effect)


def _is_leaf(ctx: Context, block: str) -> bool:
    """Whether the config makes the block a leaf, or may: of a name or an unknown class nobody can tell."""
    if ctx.before("0.18.0"):
        return False
    if names(ctx, f"{_LEAF}.names") or names(ctx, f"{_LEAF}.name_suffixes"):
        return True
    others = {known for known in BLOCKS.values() if known != block}
    return any(name.rpartition(".")[2] not in others for name in names(ctx, _CLASSES))


@rule(
    "DSC408", effect="ignored", since="0.18.0", source="utils/z3_leaf_module.py:apply_zero_leaf_module_config"
)
def leaf_module_not_in_model(ctx: Context) -> Iterator[Finding]:
    """`leaf_module.classes` names blocks of other models than the one that is trained.

    DeepSpeed says that no module matched, and hooks are applied as usual. Reported where the model is known,
    and each class is the block of experts of another one.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "leaf_module": {"classes":
        ["Qwen3MoeSparseMoeBlock"]}}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    if not has_model(ctx) or not ctx.has(_CLASSES) or stage(ctx) != 3:
        return
    if names(ctx, f"{_LEAF}.names") or names(ctx, f"{_LEAF}.name_suffixes"):
        raise SkipRule
    found, written = model(ctx), names(ctx, _CLASSES)
    if not written or written == ctx.default(_CLASSES) or block_of(found) is not None:
        return
    kinds = {known: kind for kind, known in BLOCKS.items()}
    of = [kinds.get(name.rpartition(".")[2]) for name in written]
    if None not in of and not set(of) & set(found.kinds) and found.kinds:
        yield ctx.at(
            _CLASSES,
            f"`classes` names blocks of {', '.join(dict.fromkeys(map(str, of)))}, and {found.shown} is of the"
            f" type {found.kinds[0]}: no module matches",
            help="remove it",
        )
