"""Gradient clipping."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Operation, Remove, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._numbers import is_number

_STEP = "runtime/engine.py:DeepSpeedEngine._take_model_step"
_CLIPPING = "gradient_clipping"
_NORM = "optimizer.params.max_grad_norm"


@rule("DSC981", effect="ignored", source=_STEP)
def negative_gradient_clipping(ctx: Context) -> Iterator[Finding]:
    """`gradient_clipping` is negative, which clips nothing.

    The engine clips where the value is greater than 0.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": -1}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 0}
    """
    value = ctx.written(_CLIPPING)
    if isinstance(value, int | float) and value < 0:
        yield ctx.at(
            _CLIPPING,
            f"`{_CLIPPING}` is {quoted(value)}, and only a norm above 0 is clipped to: nothing is clipped",
            help="write 0 to clip nothing, or a number greater than 0, the norm to clip to",
            fix=Fix("write 0", (Set((_CLIPPING,), 0),)),
        )


@rule(
    "DSC982",
    effect="crashes",
    since="0.3.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer",
)
def max_grad_norm_beside_optimizer(ctx: Context) -> Iterator[Finding]:
    """`max_grad_norm` stands in `optimizer.params`.

    The engine refuses it beside every type of optimizer, whatever its value, and says "is not supported as an
    optimizer parameter"; clipping is `gradient_clipping`, at the top level.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "max_grad_norm": 1.0}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "gradient_clipping": 1.0}
    """
    if not isinstance(ctx.written("optimizer.params"), dict) or not ctx.has(_NORM):
        return
    norm = ctx.written(_NORM)
    if not isinstance(norm, int | float):  # the config is refused for it: DSC503
        return
    taken = ctx.has(_CLIPPING)
    usable = is_number(norm) and norm >= 0
    operations: tuple[Operation, ...] = (Remove(ctx.place(_NORM)),)
    if not taken and usable:
        operations = (*operations, Set((_CLIPPING,), norm))
    yield ctx.at(
        _NORM,
        f"`max_grad_norm` is not a parameter of an optimizer: the engine refuses it, {quoted(norm)} or "
        "anything else",
        help=f"remove it: `{_CLIPPING}` is set already"
        if taken
        else f"move it to `{_CLIPPING}`, at the top level",
        part="key",
        related=[(f"`{_CLIPPING}` is set here", _CLIPPING)] if taken else [],
        fix=Fix(
            "remove it" if taken else f"move it to `{_CLIPPING}`",
            operations,
            safe=ctx.written(_CLIPPING) == norm if taken else usable,
        )
        if taken or usable
        else None,
    )
