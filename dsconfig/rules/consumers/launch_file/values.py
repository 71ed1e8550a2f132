"""Values that Accelerate cannot read, or turns into others."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers.accelerate_launch_config import stage
from dsconfig.consumers.accelerate_launch_file import BLOCK, LAUNCHERS, LINK, PRECISIONS, known_to
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import described, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.consumers._reader import does
from dsconfig.rules.consumers.launch_file._block import ENVIRONMENT, PLUGIN, in_block, launched


@rule("DSC824", effect="rejected", source=ENVIRONMENT, reads="launch file")
def unknown_mixed_precision(ctx: Context) -> Iterator[Finding]:
    """`mixed_precision` of the launch file is not one that Accelerate knows.

    YAML reads a bare `no` as false, on which `accelerate launch` ends in an AttributeError; in quotes it is
    the word that is meant.

    Bad:

        {"distributed_type": "DEEPSPEED", "mixed_precision": false, "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "no", "deepspeed_config": {"zero_stage": 2}}

    Fixed:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "no", "deepspeed_config": {"zero_stage": 2}}
    """
    key = "mixed_precision"
    value = ctx.data.get(key)
    words = [word for word in PRECISIONS if word in known_to(PRECISIONS, ctx.version)]
    known = value is None or (isinstance(value, str) and value.lower() in words)
    if value is False and does(ctx, "bare_no") and not does(ctx, "quoted_no"):
        return
    if known or ctx.data.get("distributed_type") != "DEEPSPEED":
        return
    if value is False:
        yield ctx.at(
            (key,),
            f"`{key}` is `false`, as YAML reads a bare `no`, and `accelerate launch` fails on it",
            help='write `"no"`, in quotes',
            fix=Fix('replace by `"no"`', (Set((key,), "no"),), safe=True),
        )
    else:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)}, which Accelerate does not know",
            help=f"use {one_of(words)}",
        )


@rule("DSC825", effect="altered", source=f"{PLUGIN}.__post_init__", reads="launch file")
def zero3_init_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`zero3_init_flag` is on in a launch file whose stage is not 3.

    Accelerate warns, and turns it off. Stage 2 is what a block without `zero_stage` means.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": true}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": false}}

    Fixed:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": false}}
    """
    key = "zero3_init_flag"
    written = launched(ctx)
    if written.get(key) is not True or LINK in written or not _is_whole(written.get("zero_stage", 2)):
        return
    if stage(written) != 3:
        yield ctx.at(
            in_block(key),
            f"`{key}` is `true`, but the stage is {stage(written)}: Accelerate turns it off",
            help="set it to `false`; only stage 3 has it",
            related=[("the stage is set here", in_block("zero_stage"))] if "zero_stage" in written else [],
            fix=Fix("set it to `false`", (Set(in_block(key), False),), safe=True),
        )


@rule("DSC826", effect="rejected", source=f"{PLUGIN}.__post_init__", reads="launch file")
def unreadable_launch_value(ctx: Context) -> Iterator[Finding]:
    """A value of the launch file's block is of a form that Accelerate cannot read.

    It writes each value out as text and reads it again: the stage as an integer, clipping as a number. For
    `gradient_accumulation_steps` whatever is not digits stays text, and fails when the batch is computed.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2.0}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    """
    found = ctx.data.get(BLOCK)
    if found is not None and not isinstance(found, dict):
        message = f"`{BLOCK}` is {described(found)} where Accelerate expects an object"
        yield ctx.at((BLOCK,), message, help=f"write a block; it names a file by `{LINK}`")
        return
    for key, reads, wanted in _READINGS:
        value = launched(ctx).get(key)
        if key == "deepspeed_multinode_launcher" and ctx.data.get("num_machines", 1) == 1:
            continue  # not looked at on one machine
        told = wanted
        if key == "deepspeed_multinode_launcher":
            known = [each for each in LAUNCHERS if each in known_to(LAUNCHERS, ctx.version)]
            refused, told = value not in known, one_of(known)
        elif value == "auto" and key in _AUTO and not does(ctx, _AUTO[key]):
            refused, told = True, wanted.removesuffix(_OR_AUTO)
        else:
            refused = not reads(value)
        if value is not None and refused:
            yield ctx.at(
                in_block(key),
                f"`{key}` is {quoted(value)}, which Accelerate does not read as {told}",
                help=f"give {told}",
            )


@rule("DSC828", effect="altered", source=ENVIRONMENT, reads="launch file")
def launched_model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """`zero3_save_16bit_model` is not on in a launch file whose stage is 3.

    Each rank holds a share of every weight, and nothing gathers them when the model is saved: the Trainer
    writes none, and Accelerate's `get_state_dict` and `save_model` raise, at the end of the training.

    Bad:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3, "zero3_save_16bit_model": false}}

    Good:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3, "zero3_save_16bit_model": true}}

    Fixed:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3, "zero3_save_16bit_model": true}}
    """
    key = "zero3_save_16bit_model"
    written = launched(ctx)
    if not written or LINK in written or not _is_whole(written.get("zero_stage", 2)) or stage(written) != 3:
        return
    if str(written.get(key)).lower() != "true":
        said = f"is {quoted(written[key])}" if key in written else "is absent, and so `false`"
        yield ctx.at(
            in_block(key),
            f"`{key}` {said}: the Trainer saves no model weights, and Accelerate's `get_state_dict` and"
            " `save_model` raise",
            help=f"set `{key}` to `true`, or put the weights together with `zero_to_fp32.py` afterwards",
            related=[("the stage is set here", in_block("zero_stage"))],
            fix=Fix("gather the weights on save", (Set(in_block(key), True),)),
        )


def _is_whole(value: Json) -> bool:
    try:
        int(str(value))
    except ValueError:
        return False
    return True


def _digits(value: Json) -> bool:
    return str(value).isdigit() or value == "auto"


def _number(value: Json) -> bool:
    try:
        return value == "auto" or float(str(value)) >= float("-inf")
    except ValueError:
        return False


def _launcher(value: Json) -> bool:
    return value in LAUNCHERS


_OR_AUTO = ', or `"auto"`'
_AUTO = {"gradient_accumulation_steps": "accumulation", "gradient_clipping": "clipping"}
"""With which change "auto" came to be read."""
_READINGS = (
    ("zero_stage", _is_whole, "an integer"),
    ("gradient_accumulation_steps", _digits, 'an integer, or `"auto"`'),
    ("gradient_clipping", _number, 'a number, or `"auto"`'),
    ("deepspeed_multinode_launcher", _launcher, one_of(LAUNCHERS)),
)
