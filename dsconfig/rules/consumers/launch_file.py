"""Launch file of `accelerate launch`, and its block `deepspeed_config`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.consumers.accelerate_launch_file import (
    BLOCK,
    BLOCK_KEYS,
    DISTRIBUTED_TYPES,
    LAUNCHERS,
    LINK,
    NOT_BESIDE_LINK,
    PRECISIONS,
    block,
    came,
    known_to,
    root_keys,
    stage,
    went,
)
from dsconfig.core.diagnostic import Fix, Rename, Set
from dsconfig.core.did_you_mean import Lexicon, lexicon, nearest
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.wording import described, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._consumer import has_change
from dsconfig.rules._fixes import removal

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# The block `deepspeed_config` of a launch file.

ENVIRONMENT = "accelerate utils/launch.py:prepare_deepspeed_cmd_env"
PLUGIN = "accelerate utils/dataclasses.py:DeepSpeedPlugin"


def launched(ctx: Context) -> JsonObject:
    """The block, empty where DeepSpeed is not what is launched."""
    return block(ctx.data) if ctx.data.get("distributed_type") == "DEEPSPEED" else {}


def in_block(key: str) -> KeyPath:
    """The path of a key of the block."""
    return (BLOCK, key)


# `distributed_type`: what is launched at all.

_LAUNCH = "accelerate commands/launch.py:_validate_launch_command"


@rule("DSC823", effect="ignored", source=_LAUNCH, reads="launch file")
def deepspeed_not_launched(ctx: Context) -> Iterator[Finding]:
    """The launch file has a block `deepspeed_config`, and launches something else.

    `distributed_type` decides; unless it is `DEEPSPEED`, the block is not looked at, and the run is plain
    data-parallel training (`--use_deepspeed` on the command line turns it round). Without the key Accelerate
    refuses the file.

    Bad:

        {"distributed_type": "MULTI_GPU", "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    """
    key = "distributed_type"
    value = ctx.data.get(key)
    if value == "DEEPSPEED":
        return
    fix = Fix('set it to `"DEEPSPEED"`', (Set((key,), "DEEPSPEED"),))
    if key not in ctx.data:
        message = f"`{key}` is absent, and Accelerate refuses a file without it"
        yield ctx.at(
            (key,), message, help=f'write `{key}: "DEEPSPEED"`', effect="rejected", fix=fix, part="key"
        )
    elif value in DISTRIBUTED_TYPES:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)}, so that `{BLOCK}` is not looked at",
            help='set it to `"DEEPSPEED"`, or remove the block',
            related=[("the block stands here", (BLOCK,))],
            fix=fix,
        )
    else:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)}, which Accelerate does not know",
            help='set it to `"DEEPSPEED"`',
            effect="rejected",
            fix=fix,
        )


# `deepspeed_config_file` and what stands beside it; filters of hosts.


@rule("DSC822", effect="rejected", source=f"{PLUGIN}._deepspeed_config_checks", reads="launch file")
def setting_beside_config_file(ctx: Context) -> Iterator[Finding]:
    """Accelerate's launch file names a DeepSpeed config and holds settings of its own.

    Beside `deepspeed_config_file` nothing may stand that the named file could say too: stage, accumulation,
    clipping, offload, saving, and `mixed_precision` at the top. Accelerate speaks of variables that "will be
    ignored", and raises.

    Bad:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "bf16",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}

    Good:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}

    Fixed:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}
    """
    written = launched(ctx)
    if str(written.get(LINK) or "none") == "none" or not has_change(ctx, "beside_file"):
        return
    paths: list[KeyPath] = [in_block(key) for key in written if key in NOT_BESIDE_LINK]
    if ctx.data.get("mixed_precision") is not None:
        paths.append(("mixed_precision",))
    for path in paths:
        top = len(path) == 1
        yield ctx.at(
            path,
            f"`{path[-1]}` stands beside `{LINK}`, which Accelerate refuses"
            + (", unless `--mixed_precision` is given too" if top else ""),
            help=f"remove it, and say it in {quoted(written[LINK])}",
            part="key",
            related=[("the config is named here", in_block(LINK))],
            fix=removal(path),
        )


@rule("DSC827", effect="ignored", source=ENVIRONMENT, reads="launch file")
def inclusion_beside_exclusion(ctx: Context) -> Iterator[Finding]:
    """The launch file's block has both filters of hosts, and the inclusion filter loses.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_inclusion_filter": "worker-0", "deepspeed_exclusion_filter": "worker-1"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_exclusion_filter": "worker-1"}}
    """
    written = launched(ctx)
    keys = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
    if all(written.get(key) is not None for key in keys):
        yield ctx.at(
            in_block(keys[0]),
            f"`{keys[0]}` has no effect beside `{keys[1]}`",
            help="keep one of them",
            part="key",
            related=[("the other stands here", in_block(keys[1]))],
        )


# Keys that Accelerate does not know.

_CONFIG = "accelerate commands/config/config_args.py:BaseConfig.from_yaml_file"


@rule("DSC820", effect="rejected", source=_CONFIG, reads="launch file")
def unknown_launch_key(ctx: Context) -> Iterator[Finding]:
    """Accelerate does not know a key of its launch file.

    At the top of the file `accelerate launch` refuses what it does not know. In the block `deepspeed_config`
    it drops it silently: the block is not a DeepSpeed config, and takes none of DeepSpeed's keys but two. The
    others belong in a JSON file that `deepspeed_config_file` names.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offlaod_param_device": "cpu"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "cpu"}}
    """
    known, inner = root_keys(ctx.version), known_to(BLOCK_KEYS, ctx.version)
    for key in ctx.data:
        if key not in known:
            yield ctx.at(
                (key,),
                f"`{key}` is not a key of Accelerate's launch file{_of(ctx, key)}: `accelerate launch` "
                "refuses the file",
                help=_instead_of(key, known),
                part="key",
            )
    for key, value in block(ctx.data).items():
        # Whatever else the command line of `accelerate launch` knows is taken from the block too.
        if key in inner or key in known or key in _OPTIONS:
            continue
        meant = _nearest(key, value, inner)
        yield ctx.at(
            in_block(key),
            f"`{key}` is not a key of Accelerate's `{BLOCK}`{_of(ctx, key)}: it is dropped silently",
            help=f"did you mean `{meant}`?"
            if meant
            else f"remove it, or use Accelerate {came(key)} or newer"
            if came(key)
            else f"write it into a DeepSpeed config in JSON, and name that by `{LINK}`, alone in the block",
            effect="ignored",
            part="key",
            fix=Fix(f"rename to `{meant}`", (Rename(in_block(key), meant),))
            if meant and meant not in block(ctx.data)
            else None,
        )


_OPTIONS = frozenset(
    {"use_deepspeed", "multi_gpu", "cpu", "num_cpu_threads_per_process", "max_restarts", "env"}
)


def _of(ctx: Context, key: str) -> str:
    """The version, where others know the key."""
    return f" in {ctx.version}" if ctx.version and (came(key) or went(key)) else ""


def _instead_of(key: str, known: frozenset[str]) -> str:
    """What to do about a key of the root that is not one of those known."""
    if key in BLOCK_KEYS:
        return f"remove it, or move it into `{BLOCK}`"
    if since := came(key):
        return f"remove it, or use Accelerate {since} or newer"
    if until := went(key):
        return f"remove it: Accelerate {until} gave it up"
    meant = _nearest(key, None, known)
    return f"did you mean `{meant}`?" if meant else "remove it"


def _nearest(key: str, value: Json, known: frozenset[str]) -> str | None:
    """The one key that may be meant; the block's keys hold neither objects nor lists."""
    return None if isinstance(value, dict | list) else nearest(str(key), _lexicon(known))


@cache
def _lexicon(words: frozenset[str]) -> Lexicon:
    return lexicon(sorted(words))


# Values that Accelerate cannot read, or turns into others.


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
    if value is False and has_change(ctx, "bare_no") and not has_change(ctx, "quoted_no"):
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
        elif value == "auto" and key in _AUTO and not has_change(ctx, _AUTO[key]):
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


# Offloading: paths that are never handed on.


@rule("DSC821", effect="ignored", source=ENVIRONMENT, reads="launch file")
def lost_nvme_path(ctx: Context) -> Iterator[Finding]:
    """Accelerate's block names an NVMe path, which is never handed on.

    The launcher passes the devices to the processes it starts, but not the two paths. With device `nvme` the
    config then holds the path `"none"`: a folder of that name in the working directory.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "nvme", "offload_param_nvme_path": "/local_nvme"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds_config.json"}}
    """
    written = launched(ctx)
    if LINK in written:
        return
    for name in ("offload_optimizer", "offload_param"):
        path = written.get(f"{name}_nvme_path")
        offloads = str(written.get(f"{name}_device")).lower() == "nvme"
        if offloads:
            yield ctx.at(
                in_block(f"{name}_device"),
                f'`{name}_device` is `"nvme"`, but `accelerate launch` hands no path on: it becomes '
                '`"none"`, a folder in the working directory',
                help=f"write a DeepSpeed config in JSON, with `nvme_path`, and name it by `{LINK}`",
                effect="altered",
            )
        if path is not None and path != "none":
            yield ctx.at(
                in_block(f"{name}_nvme_path"),
                f"`{name}_nvme_path` has no effect: `accelerate launch` does not hand it on",
                help=f"write `nvme_path` into a DeepSpeed config in JSON, and name it by `{LINK}`",
                part="key",
            )
