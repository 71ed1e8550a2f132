"""Experts and leaves of stage 3, where the model is known."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName, Fix, Set
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.launch import leaf_module_callers
from dsconfig.rules._experts import BLOCKS, FUSED, block_of, names, transformers_version
from dsconfig.rules._model_facts import is_known, model
from dsconfig.rules._stage import STAGE, ZERO, stage

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
    if not is_known(ctx) or not ctx.has(ZERO) or stage(ctx) != 3 or ctx.world_size == 1:
        return
    found = model(ctx)
    block = block_of(found)
    if block is None or _is_leaf(ctx, block) or ctx.known.program in leaf_module_callers.PROGRAMS:
        return
    version = transformers_version(ctx)
    if (version is not None and version >= FUSED) or leaf_module_callers.are_set(ctx.document.name):
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
    if not is_known(ctx) or not ctx.has(_CLASSES) or stage(ctx) != 3:
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
