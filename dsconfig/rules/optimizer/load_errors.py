"""The optimizer section: what DeepSpeed does by hand with its type and params while it loads a config."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import described
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal

_NORM = "optimizer.params.max_grad_norm"


@rule("DSC501", effect="rejected", source="runtime/config.py:DeepSpeedConfig._initialize_params")
def optimizer_type_not_a_name(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` is not a string.

    DeepSpeed compares the name in lower case as soon as it loads the config, which only a string allows.
    Null, or no `type` at all, is taken, and leaves the whole section without effect.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": ["AdamW"]}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    name = ctx.value("optimizer.type")
    if name is not None and not isinstance(name, str):
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {described(name)} where DeepSpeed expects the name of an optimizer",
            help='give a name such as `"AdamW"`',
        )


def _params(ctx: Context) -> Json:
    """The params that DeepSpeed looks at: it does so only where the optimizer has a type.

    Raises:
        SkipRule: there are none, or the section is refused.
    """
    params = ctx.written("optimizer.params")
    if params is MISSING or ctx.value("optimizer.type") is None:
        raise SkipRule
    return params


@rule("DSC502", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def optimizer_params_not_an_object(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is not an object.

    DeepSpeed looks for `max_grad_norm` in it when it loads the config. Null is taken, and means the defaults
    of the optimizer's class; so is anything at all while the section has no `type`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": 0.001}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    params = _params(ctx)
    if params is not None and not isinstance(params, dict):
        yield ctx.at(
            "optimizer.params",
            f"`optimizer.params` is {described(params)} where DeepSpeed expects an object",
            help="write an object with the arguments of the optimizer",
        )


@rule("DSC503", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def max_grad_norm_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`max_grad_norm` stands among the optimizer's params, and is not a number.

    DeepSpeed asks whether it is greater than 0 when it loads the config, to warn that the optimizer will not
    clip with it. Clipping is set by `gradient_clipping`, at the top level.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"max_grad_norm": "auto"}}}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    params = _params(ctx)
    if not isinstance(params, dict) or "max_grad_norm" not in params:
        return
    norm = params["max_grad_norm"]
    if not isinstance(norm, int | float):
        yield ctx.at(
            _NORM,
            f"`max_grad_norm` is {described(norm)} and DeepSpeed compares it with 0",
            help="remove it; to clip gradients, set `gradient_clipping` at the top level",
            fix=removal(("optimizer", "params", "max_grad_norm")),
        )
