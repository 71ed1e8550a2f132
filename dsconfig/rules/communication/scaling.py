"""`prescale_gradients` and `gradient_predivide_factor`: where they cannot be, where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import compact, quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer
from dsconfig.rules._fixes import removal
from dsconfig.rules._no_effect import without_effect
from dsconfig.rules._stage import ZERO, stage, stage_set_here

_BUCKET = "runtime/engine.py:DeepSpeedEngine.allreduce_bucket"
_PRESCALE = "prescale_gradients"
_FACTOR = "gradient_predivide_factor"
_OP = "gradient_allreduce_op"
_SCATTER = f"{ZERO}.reduce_scatter"


class _Scaling(NamedTuple):
    """How gradients are scaled around their reduction."""

    prescale: bool
    factor: float
    summed: bool
    scattered: bool
    """Reduced by an optimizer of ZeRO that hands every rank its own part."""
    level: float

    @property
    def keys(self) -> list[str]:
        """The keys that ask for something else than an average taken after the sum."""
        return [key for key, on in ((_PRESCALE, self.prescale), (_FACTOR, self.factor != 1)) if on]


def _scaling(ctx: Context) -> _Scaling:
    """What the config says about it.

    Raises:
        SkipRule: it says nothing, or something that is not a number.
    """
    if not ctx.has(_PRESCALE) and not ctx.has(_FACTOR):
        raise SkipRule
    factor, op, level = ctx.value(_FACTOR), ctx.value(_OP), stage(ctx)
    if not isinstance(factor, int | float):
        raise SkipRule
    own = level >= 1 and not bf16_optimizer(ctx)
    return _Scaling(
        prescale=ctx.on(_PRESCALE),
        factor=factor,
        summed=isinstance(op, str) and op.lower() == "sum",
        scattered=own and ctx.on(_SCATTER),
        level=level if own else 0,
    )


def _forbidden(ctx: Context, found: _Scaling) -> bool:
    """Whether the optimizer asserts that gradients are neither prescaled nor divided before."""
    if not found.scattered or (found.summed and found.level < 3):
        return False
    # The optimizer of stage 2 took stage 1 over in 0.5.9, and stopped to ask it in 0.13.0.
    return found.level >= 2 or ctx.between("0.5.9", "0.12.6")


@rule(
    "DSC983",
    effect="crashes",
    since="0.3.12",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def gradient_scaling_with_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`prescale_gradients` or `gradient_predivide_factor` meets ZeRO's reduce-scatter.

    At stages 2 and 3 `reduce_scatter`, which is on unless it is switched off, reduces and averages in one go.
    The engine says "is not yet supported with ZeRO-2 with reduce scatter enabled" (or ZeRO-3) and stops.

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0, "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0,
        "zero_optimization": {"stage": 2, "reduce_scatter": false}}
    """
    found = _scaling(ctx)
    if not _forbidden(ctx, found):
        return
    for key in found.keys:
        value = ctx.value(key)
        truth = ", a string that counts as true" if isinstance(value, str) else ""
        yield ctx.at(
            key,
            f"`{key}` is {quoted(value)}{truth}, which stage {compact(found.level)} does not support while "
            "`reduce_scatter` is on" + ("" if ctx.has(_SCATTER) else ", as it is by default"),
            help=f"remove `{key}`" + (", or set `reduce_scatter` to `false`" if not truth else ""),
            related=[*stage_set_here(ctx), *([("it is on here", _SCATTER)] if ctx.has(_SCATTER) else [])],
            fix=removal(ctx.place(key)),
        )


@rule("DSC984", effect="ignored", source=_BUCKET)
def gradient_scaling_without_effect(ctx: Context) -> Iterator[Finding]:
    """`prescale_gradients` or `gradient_predivide_factor` is not looked at.

    A reduction that sums skips both. With `prescale_gradients` all of the division comes first, so that there
    is nothing left for the factor. ZeRO stage 1 with `reduce_scatter`, the default, averages in its own way.

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_predivide_factor": 2.0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0}

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_allreduce_op": "sum"}

    Good:

        {"train_batch_size": 8, "prescale_gradients": true}
    """
    found = _scaling(ctx)
    if _forbidden(ctx, found):
        return
    if found.summed:
        idle, why, there = found.keys, 'gradients are summed (`gradient_allreduce_op` is "sum")', _OP
    elif found.scattered and (found.level > 1 or ctx.since("0.13.0")):
        idle, there = found.keys, _SCATTER
        why = f"stage {compact(found.level)} averages in its own way while `reduce_scatter` is on"
    elif found.prescale and found.factor != 1:
        idle, why, there = [_FACTOR], "`prescale_gradients` divides by the whole world size", _PRESCALE
    else:
        return
    if idle:
        related = [("this is said here", there)] if ctx.has(there) else []
        yield without_effect(ctx, idle, why, help="remove what has no effect", related=related)


@rule("DSC985", effect="crashes", source=_BUCKET)
def predivide_factor_zero(ctx: Context) -> Iterator[Finding]:
    """`gradient_predivide_factor` is 0, and gradients are divided by it.

    The first reduction ends in "division by zero". 1 leaves the division to the end.

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 1.0}
    """
    found = _scaling(ctx)
    if found.factor == 0 and not found.summed and not found.prescale and not found.scattered:
        yield ctx.at(
            _FACTOR,
            f"`{_FACTOR}` is {quoted(ctx.value(_FACTOR))}, and every gradient is divided by it"
            + (": all of them become infinite" if found.level == 3 else ""),
            help="give a positive number, or remove the key: the default is `1.0`",
            effect="altered" if found.level == 3 else "crashes",  # tensors divide by 0 without complaint
            fix=removal((_FACTOR,)),
        )
