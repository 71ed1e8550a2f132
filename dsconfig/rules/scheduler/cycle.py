"""What `OneCycle` does with the optimizer's momentum, and what it does not do."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import optimizer, params, written_type

_MOMENTUM = "runtime/lr_schedules.py:OneCycle._initialize_momentum"
_SWITCH = ("scheduler", "params", "cycle_momentum")


def _is_one_cycle(ctx: Context) -> bool:
    return written_type(ctx, "scheduler") == "OneCycle"


@rule("DSC575", effect="altered", source=_MOMENTUM)
def cycled_momentum_over_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` moves the momentum too, and writes over the optimizer's `betas`.

    Unless `cycle_momentum` is false, the first of them goes from `cycle_max_mom` to `cycle_min_mom` and back,
    and the second is 0.99, whatever was written.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001,
        "cycle_momentum": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001,
        "cycle_momentum": false}}}
    """
    written = params(ctx, "scheduler")
    betas = params(ctx, "optimizer").get("betas")
    if not isinstance(betas, list) or not _is_one_cycle(ctx) or not written.get("cycle_momentum", True):
        return
    if not _has_betas(ctx):
        return
    high, low = written.get("cycle_max_mom", 0.9), written.get("cycle_min_mom", 0.8)
    yield ctx.at(
        "optimizer.params.betas",
        f"`betas` is {quoted(betas)} and never used: `OneCycle` moves the first between {quoted(low)} and"
        f" {quoted(high)}, and sets the second to 0.99",
        help="set `scheduler.params.cycle_momentum` to `false`, or remove `betas`",
        related=[("the schedule is chosen here", "scheduler.type")],
        fix=Fix("leave the momentum alone", (Set(_SWITCH, False),)),
    )


def _has_betas(ctx: Context) -> bool:
    """Whether the optimizer that the config names has `betas` among its defaults; Muon has none itself."""
    chosen = optimizer(ctx)
    return chosen is not None and chosen.name != "Muon" and "betas" in chosen.accepts


_OF_MOMENTUM = ("cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate")


@rule("DSC576", effect="ignored", source=_MOMENTUM)
def momentum_cycle_without_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` is to move the momentum of an optimizer that has no `betas`.

    It knows no other momentum: `SGD`'s, `RMSprop`'s or Muon's stays what it is, and a warning says so.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1,
        "cycle_min_mom": 0.85}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1,
        "cycle_momentum": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1}}}
    """
    if not _is_one_cycle(ctx):
        return
    written = params(ctx, "scheduler")
    asked = [key for key in _OF_MOMENTUM if key in written]
    if not asked or not written.get("cycle_momentum", True):
        return
    chosen = optimizer(ctx)
    if chosen is None or _has_betas(ctx):
        return
    names = one_of((f"`{key}`" for key in asked), "and")
    yield ctx.at(
        f"scheduler.params.{asked[0]}",
        f"{names} {'has' if len(asked) == 1 else 'have'} no effect: {chosen.built} has no `betas`, and"
        " `OneCycle` moves no other momentum",
        help="remove " + ("it" if len(asked) == 1 else "them"),
        part="key",
        related=[("the optimizer is chosen here", "optimizer.type")],
        fix=Fix(f"remove {names}", tuple(Remove(("scheduler", "params", key)) for key in asked), safe=True),
    )


@rule("DSC577", effect="ignored", since="0.5.5", source="runtime/lr_schedules.py:OneCycle._initialize_cycle")
def decay_without_step_size(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` is to decay after the cycle, and `decay_step_size` is 0, its default.

    Then nothing decays, whatever `decay_lr_rate` and `decay_mom_rate` are.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 1000}}}
    """
    written = params(ctx, "scheduler")
    rates = [key for key in ("decay_lr_rate", "decay_mom_rate") if written.get(key)]
    if rates and _is_one_cycle(ctx) and written.get("decay_step_size", 0) == 0:
        names = one_of((f"`{key}`" for key in rates), "and")
        yield ctx.at(
            f"scheduler.params.{rates[0]}",
            f"{names} {'has' if len(rates) == 1 else 'have'} no effect: `decay_step_size` is 0"
            + ("" if "decay_step_size" in written else ", its default")
            + ", and so nothing decays",
            help="add `decay_step_size`, the steps from one decay to the next",
        )
