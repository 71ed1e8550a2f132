"""The type of the optimizer: is there one, and does the release know it?"""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Rename, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import TypeInfo, type_named
from dsconfig.releases import name
from dsconfig.rules._precision import model_format
from dsconfig.rules._types import known_names, known_type, offloaded, optimizer, written_type, zero_stage
from dsconfig.rules._zero import stage_words
from dsconfig.words import one_of, quoted

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_TYPE = "optimizer.type"
_CLASSES = {
    "FusedAdam": "Adam",
    "DeepSpeedCPUAdam": "Adam",
    "CPUAdam": "Adam",
    "FusedAdamW": "AdamW",
    "adamw_torch": "AdamW",
    "adamw_hf": "AdamW",
    "DeepSpeedCPUAdagrad": "Adagrad",
    "FusedLamb": "Lamb",
    "FusedLion": "Lion",
    "DeepSpeedCPULion": "Lion",
}
"""Names of classes, and of other programs, and the type that stands for them."""
_MEANT = {word.lower(): kind for word, kind in _CLASSES.items()}


@rule("DSC504", effect="crashes", source=f"{_ENGINE}._is_supported_optimizer")
def unknown_optimizer(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` names no optimizer that the release can build.

    DeepSpeed's own types are known in any case of letters; every other name has to be a class of
    `torch.optim`, letter by letter: `SGD`, not `sgd`. Names of DeepSpeed's classes, such as `FusedAdam`, are
    none, and the 1-bit optimizers are gone since 0.19.7. The engine stops as it starts, or, where the name is
    something else in `torch.optim` (`Optimizer`, `lr_scheduler`), as it calls that.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "sgd", "params": {"lr": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    """
    word = written_type(ctx, "optimizer")
    if word is None or word in torch_classes.OPTIMIZERS or known_type(ctx, "Optimizer", word):
        return
    kind = type_named("Optimizer", word)
    meant = _meant(word, ctx)
    yield ctx.at(
        _TYPE,
        f"`type` is {quoted(word)}: {_reason(ctx, kind, word)}",
        help=(f"write {quoted(meant)}; " if meant else "")
        + f"DeepSpeed knows {one_of((f'`{known}`' for known in known_names(ctx, 'Optimizer')), 'and')} in any"
        " case of letters, and the classes of `torch.optim` as they are spelt",
        fix=Fix(
            f"write {quoted(meant)}", (Set(("optimizer", "type"), meant),), safe=meant.lower() == word.lower()
        )
        if meant
        else None,
    )


def _reason(ctx: Context, kind: TypeInfo | None, word: str) -> str:
    if word == "auto":
        return "nobody fills it, and the engine takes the text for a name"
    if kind is None:
        return f"DeepSpeed {ctx.release_name} knows no such optimizer, nor is it a class of `torch.optim`"
    if ctx.release > kind.last:
        return f"DeepSpeed has it up to {name(kind.last)}, and {ctx.release_name} does not"
    return f"DeepSpeed has it from {name(kind.first)} on, and {ctx.release_name} does not"


def _meant(word: str, ctx: Context) -> str | None:
    """The type that a name stands for which is none itself."""
    folded = {known.lower(): known for known in torch_classes.OPTIMIZERS}
    meant = folded.get(word.lower()) or _MEANT.get(word.lower())
    if meant is None and word.lower() in ("onebitadam", "zerooneadam"):
        meant = "Adam"
    if meant is None and word.lower() == "onebitlamb":
        meant = "Lamb"
    if meant is None:
        meant = _near(word, ctx, folded)
    return meant


def _near(word: str, ctx: Context, folded: dict[str, str]) -> str | None:
    from difflib import get_close_matches

    known = {known.lower(): known for known in known_names(ctx, "Optimizer")} | folded
    near = get_close_matches(word.lower(), known, 1, 0.8)
    return known[near[0]] if near else None


@rule("DSC505", effect="ignored", source="runtime/config.py:get_optimizer_name")
def optimizer_without_type(ctx: Context) -> Iterator[Finding]:
    """The optimizer section has no `type`, and so no effect at all.

    No optimizer is built, whatever `params` say. Unless the script hands one to `deepspeed.initialize`, ZeRO
    stops for want of an optimizer, and without ZeRO nothing can be trained.

    Bad:

        {"train_batch_size": 8, "optimizer": {"name": "AdamW", "params": {"lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    section = ctx.data.get("optimizer")
    if not isinstance(section, dict) or not section or section.get("type") is not None:
        return
    other = next(
        (key for key in ("name", "optimizer", "optimizer_type", "Type") if _is_type(section.get(key))), None
    )
    fix = None
    if other and "type" not in section:
        fix = Fix(f"rename `{other}` to `type`", (Rename(("optimizer", other), "type"),))
    yield ctx.at(
        _TYPE if "type" in section else "optimizer",
        "the section has no effect: "
        + ("`type` is `null`" if "type" in section else "it has no `type`")
        + ", so DeepSpeed builds no optimizer",
        help=f"rename `{other}` to `type`" if fix else 'add `"type": "AdamW"`, or remove the section',
        part="value" if "type" in section else "key",
        fix=fix,
    )


def _is_type(word: object) -> bool:
    if not isinstance(word, str):
        return False
    return type_named("Optimizer", word) is not None or word in torch_classes.OPTIMIZERS


@rule("DSC506", effect="altered", source=f"{_ENGINE}._configure_basic_optimizer")
def optimizer_params_null(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is null, which leaves everything, the learning rate too, to the class.

    Before 0.5.1 the engine looks for keys in it, and stops, also where `params` is absent.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": null}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    section = ctx.data.get("optimizer")
    if (
        not isinstance(section, dict)
        or section.get("params") is not None
        or written_type(ctx, "optimizer") is None
    ):
        return
    crashes = ctx.before("0.5.1")
    if not crashes and "params" not in section:
        return
    chosen = optimizer(ctx)
    default = chosen.params["lr"].default if chosen and "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        ("`params` is `null`" if "params" in section else "`params` is absent")
        + (
            ", and DeepSpeed looks for keys in it"
            if crashes
            else ": the optimizer's own defaults apply"
            + (f", a learning rate of {default:g} among them" if default is not None else "")
        ),
        help="write an object with the learning rate at least",
        effect="crashes" if crashes else "altered",
        fix=Fix("write `{}`", (Set(("optimizer", "params"), {}),), safe=True),
    )


@rule(
    "DSC507",
    effect="altered",
    since="0.5.5",
    until="0.9.1",
    source=f"{_ENGINE}._configure_basic_optimizer",
)
def adagrad_that_is_adam(ctx: Context) -> Iterator[Finding]:
    """Type `Adagrad` without offloading builds Adam.

    Until 0.9.1 the name chose DeepSpeed's Adagrad for the CPU under offload, and FusedAdam everywhere else.

    Bad, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}}}

    Good, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    word = written_type(ctx, "optimizer")
    if word is not None and word.lower() == "adagrad" and not offloaded(ctx):
        yield ctx.at(
            _TYPE,
            f"`type` is {quoted(word)}, but DeepSpeed {ctx.release_name} builds FusedAdam for it unless the"
            " optimizer is offloaded",
            help="upgrade DeepSpeed to 0.9.2 or later, or hand `torch.optim.Adagrad` to"
            " `deepspeed.initialize`",
        )


@rule("DSC508", effect="ignored", source=f"{_ENGINE}._configure_fp16_optimizer")
def legacy_fusion_unread(ctx: Context) -> Iterator[Finding]:
    """`legacy_fusion` is on where nothing reads it.

    Only the wrapper that trains in 16 bits without ZeRO does, and only around FusedAdam: type `Adam` or
    `AdamW`, neither offloaded nor with `torch_adam`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    if not ctx.has("optimizer.legacy_fusion") or not ctx.on("optimizer.legacy_fusion"):
        return
    why = _not_fused(ctx)
    if why:
        yield ctx.at(
            "optimizer.legacy_fusion",
            f"`legacy_fusion` has no effect: it is for FusedAdam in 16 bits without ZeRO, and {why}",
            help="remove it",
            part="key",
            fix=Fix("remove `legacy_fusion`", (Remove(("optimizer", "legacy_fusion")),), safe=True),
        )


def _not_fused(ctx: Context) -> str | None:
    if zero_stage(ctx) > 0:
        return stage_words(ctx)
    if model_format(ctx) == "fp32":
        return "the model trains in fp32"
    chosen = optimizer(ctx)
    if chosen is not None and chosen.built != "FusedAdam":
        return f"the optimizer is {chosen.built}"
    return None
