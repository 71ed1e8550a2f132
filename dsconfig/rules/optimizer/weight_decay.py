"""Adam and AdamW: which kind of weight decay, and whose default."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import ADAM, decoupled, known_type, params, written_type
from dsconfig.rules._fixes import removal
from dsconfig.rules.optimizer._own_type import own_type

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_TYPE = "optimizer.type"
_NOTABLE = 1e-5
"""A smaller weight decay (DeepSpeed's own examples have 3e-7) does next to nothing in either form."""


@rule("DSC520", effect="altered", since="0.3.11", source=_BUILD)
def adam_that_is_adamw(ctx: Context) -> Iterator[Finding]:
    """Type `Adam` with weight decay is AdamW, unless `adam_w_mode` is false.

    The decay is taken from the weights themselves, not added to the gradient as Adam's is, which is another
    algorithm as soon as `weight_decay` is more than next to nothing. The fix changes the name alone.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1,
        "adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "weight_decay": 0.1}}}
    """
    written = params(ctx, "optimizer")
    decay = written.get("weight_decay")
    if not isinstance(decay, int | float) or decay < _NOTABLE or "adam_w_mode" in written:
        return
    if own_type(ctx) != "Adam":
        return
    yield ctx.at(
        _TYPE,
        f"`optimizer.type` is {quoted(ctx.written(_TYPE))}, and DeepSpeed runs AdamW: it takes the"
        f" weight decay of {quoted(decay)} from the weights, not through the gradient",
        help='write `"AdamW"`, or add `"adam_w_mode": false` for the weight decay of Adam',
        related=[("the weight decay is set here", "optimizer.params.weight_decay")],
        fix=Fix('write `"AdamW"`', (Set(("optimizer", "type"), "AdamW"),), safe=True),
    )


@rule("DSC521", effect="ignored", since="0.3.11", source=_BUILD)
def adam_w_mode_of_adamw(ctx: Context) -> Iterator[Finding]:
    """`adam_w_mode` is false beside type `AdamW`, which has no other mode.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    written = params(ctx, "optimizer")
    if "adam_w_mode" in written and not written["adam_w_mode"] and own_type(ctx) == "AdamW":
        yield ctx.at(
            "optimizer.params.adam_w_mode",
            f"`adam_w_mode` is {quoted(written['adam_w_mode'])} without effect: type `AdamW` decides",
            help='remove it, or write `"type": "Adam"`',
            fix=removal(("optimizer", "params", "adam_w_mode"), safe=True),
        )


@rule("DSC522", effect="wasteful", since="0.3.11", source="torch.optim:AdamW")
def weight_decay_of_torch(ctx: Context) -> Iterator[Finding]:
    """`torch_adam` brings a weight decay of 0.01 that nobody wrote.

    DeepSpeed's own Adam has no weight decay unless it is written, `torch.optim.AdamW` has 0.01. It is what
    runs with `torch_adam`, also behind type `Adam` unless `adam_w_mode` is false.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}
    """
    written = params(ctx, "optimizer")
    if not written.get("torch_adam") or "weight_decay" in written or own_type(ctx) not in ADAM:
        return
    kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
    if kind is not None and decoupled(ctx, kind):
        yield ctx.at(
            "optimizer.params.torch_adam",
            "`weight_decay` is not written: with `torch_adam` it is 0.01, `torch.optim.AdamW`'s default,"
            " instead of 0",
            help='add `"weight_decay": 0.01`, or the weight decay that you mean',
            fix=Fix(
                "write the 0.01 that applies",
                (Set(("optimizer", "params", "weight_decay"), 0.01),),
            ),
        )
