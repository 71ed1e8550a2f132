"""Params that the scheduler's class does not take, and those that it misses."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.releases import name
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import section_keys, types_of
from dsconfig.rules._built_class import Chosen, params, required, scheduler
from dsconfig.rules._fixes import loss
from dsconfig.rules._move_fix import renamed

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_PARAMS = ("scheduler", "params")


@rule("DSC556", effect="crashes", source=_BUILD)
def unknown_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A key of `scheduler.params` is not an argument of the scheduler.

    DeepSpeed hands all of `params` over as keyword arguments, so that one unknown name ends in a TypeError as
    the engine starts. `total_num_steps` belongs to `WarmupDecayLR` and `WarmupCosineLR`, not to `WarmupLR`;
    `WarmupCosineLR` works in shares of the optimizer's learning rate and has no `warmup_max_lr`.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    written = params(ctx, "scheduler")
    chosen = scheduler(ctx) if written else None
    if chosen is None or written.keys() <= chosen.accepts:
        return
    for word in written:
        if word not in chosen.accepts:
            yield _unknown(ctx, chosen, word)


def _unknown(ctx: Context, chosen: Chosen, word: str) -> Finding:
    from dsconfig.rules._did_you_mean import alike, nearest_of

    others = _takers(ctx, word)
    near = None if others else nearest_of(word, chosen.accepts - params(ctx, "scheduler").keys())
    path = (*_PARAMS, word)
    known = one_of((f"`{key}`" for key in sorted(chosen.accepts)), "and")
    value = params(ctx, "scheduler")[word]
    fix = renamed(ctx, path, near, value, safe=alike(word, near)) if near else loss(path, value)
    return ctx.at(
        path,
        f"`{word}` is not an argument of {chosen.built}{_why(ctx, chosen, word)}",
        help=f"did you mean `{near}`?"
        if near
        else f"remove it, or set `scheduler.type` to {one_of(others)}, which takes it"
        if others
        else f"remove it; taken are {known}",
        part="key",
        fix=fix,
    ).meaning((*_PARAMS, near or word))


def _why(ctx: Context, chosen: Chosen, word: str) -> str:
    info = section_keys(chosen.kind.params).get(word) if chosen.kind and chosen.kind.params else None
    return f" before {name(info.spans[0][0])}" if info is not None and not info.read_in(ctx.release) else ""


def _takers(ctx: Context, word: str) -> list[str]:
    """The types that take a param which this one does not, and with it all that is written."""
    written = params(ctx, "scheduler").keys()
    found = []
    for kind in types_of("Scheduler").values():
        known = section_keys(kind.params) if kind.params and kind.releases.first <= ctx.release else {}
        taken = {name for name, key in known.items() if key.read_in(ctx.release)}
        if word in taken and {name for name in taken if known[name].required} <= written <= taken:
            found.append(f"`{kind.name}`")
    return found


@rule("DSC557", effect="crashes", source=_BUILD)
def missing_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A param that the scheduler cannot do without is absent.

    What a program of the repository puts into the config before `deepspeed.initialize` is not missed.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100,
        "total_num_steps": 1000}}}
    """
    if "scheduler" not in ctx.data or not isinstance(ctx.written("scheduler.params"), dict):
        return
    chosen = scheduler(ctx)
    missing = [key for key in required(chosen) if key not in params(ctx, "scheduler")] if chosen else []
    if missing:
        missing = [key for key in missing if ctx.overwrite(f"scheduler.params.{key}") is None]
    if chosen and missing:
        yield ctx.at(
            "scheduler.params",
            f"{one_of((f'`{key}`' for key in missing), 'and')} {'is' if len(missing) == 1 else 'are'} absent,"
            f" and {chosen.built} needs {'it' if len(missing) == 1 else 'them'}",
            help=f"add {one_of((f'`{key}`' for key in missing), 'and')}",
            part="key",
        ).lacking((*_PARAMS, missing[0]) if len(missing) == 1 else _PARAMS)
