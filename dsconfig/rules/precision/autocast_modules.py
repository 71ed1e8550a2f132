"""`torch_autocast.lower_precision_safe_modules`: the classes that the engine imports."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._autocast import autocasts

_INIT = "runtime/torch_autocast.py:init_autocast_params"
_MODULES = "torch_autocast.lower_precision_safe_modules"


@rule(
    "DSC310", effect="rejected", since="0.17.2", source="runtime/config.py:get_lower_precision_safe_modules"
)
def autocast_modules_not_names(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` is not a list, or holds something that is not a string.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "lower_precision_safe_modules": [1]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true,
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    path = "torch_autocast.lower_precision_safe_modules"
    modules = ctx.written(path)
    if modules is MISSING or isinstance(modules, str | dict):  # Python runs through both, string by string
        return
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        yield ctx.at(
            path,
            f"`lower_precision_safe_modules` is {quoted(modules)}, but must be a list of class names",
            help='give full names, such as `["torch.nn.Linear"]`, or remove the key',
        )


@rule("DSC350", effect="crashes", since="0.17.2", source=_INIT)
def autocast_modules_not_importable(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` names a class without its module.

    The engine imports each entry, so that it needs the full name: `torch.nn.Linear`, not `Linear`. A string
    in place of the list is taken letter by letter. The engine says "Failed to import lower precision safe
    module" and stops.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["Linear"]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    modules = ctx.value(_MODULES) if autocasts(ctx) and ctx.has(_MODULES) else None
    if isinstance(modules, str) and modules:
        yield ctx.at(
            _MODULES,
            f"`lower_precision_safe_modules` is a string, {quoted(modules)}, of which the engine imports "
            "every letter",
            help=f"write `[{quoted(modules).strip('`')}]`",
            fix=Fix("put it in a list", (Set(ctx.place(_MODULES), [modules]),), safe="." in modules),
        )
    elif isinstance(modules, list):
        bare = [(index, word) for index, word in enumerate(modules) if _bare(word)]
        for index, word in bare:
            yield ctx.at(
                (*ctx.place(_MODULES), index),
                f"{quoted(word)} names no module to import it from",
                help=f'give the full name of the class, such as "torch.nn.{word or "Linear"}"',
            )


def _bare(word: Json) -> bool:
    return isinstance(word, str) and "." not in word
