"""The file that `accelerate launch` reads, and its block `deepspeed_config`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.consumers.launch_file import (
    BLOCK,
    BLOCK_KEYS,
    KINDS,
    LAUNCHERS,
    LINK,
    NOT_BESIDE_LINK,
    PRECISIONS,
    ROOT_KEYS,
    block,
    stage,
)
from dsconfig.diagnostic import Fix, Path, Remove, Rename, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.words import kind, one_of, quoted

_CONFIG = "accelerate commands/config/config_args.py:BaseConfig.from_yaml_file"
_LAUNCH = "accelerate commands/launch.py:_validate_launch_command"
_ENVIRONMENT = "accelerate utils/launch.py:prepare_deepspeed_cmd_env"
_PLUGIN = "accelerate utils/dataclasses.py:DeepSpeedPlugin"


def _launched(ctx: Context) -> dict[str, Any]:
    """The block, empty where DeepSpeed is not what is launched."""
    return block(ctx.data) if ctx.data.get("distributed_type") == "DEEPSPEED" else {}


def _in_block(key: str) -> Path:
    return (BLOCK, key)


@rule("DSC820", effect="rejected", source=_CONFIG, of_launch=True)
def unknown_launch_key(ctx: Context) -> Iterator[Finding]:
    """Accelerate does not know a key of its launch file.

    At the top of the file `accelerate launch` refuses what it does not know. In the block `deepspeed_config`
    it drops it silently: the block is no DeepSpeed config, and takes none of DeepSpeed's keys but two. Those
    belong into a JSON file that `deepspeed_config_file` names.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offlaod_param_device": "cpu"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "cpu"}}
    """
    for key in ctx.data:
        if key not in ROOT_KEYS:
            inside = f", or move it into `{BLOCK}`" if key in BLOCK_KEYS else ""
            yield ctx.at(
                (key,),
                f"`{key}` is no key of Accelerate's launch file: `accelerate launch` refuses the file",
                help=f"remove it{inside}" if inside else _meant(key, ROOT_KEYS) or "remove it",
                part="key",
            )
    for key in block(ctx.data):
        # Whatever else the command line of `accelerate launch` knows is taken from the block too.
        if key in BLOCK_KEYS or key in ROOT_KEYS or key in _OPTIONS:
            continue
        near = _nearest(key, BLOCK_KEYS)
        yield ctx.at(
            _in_block(key),
            f"`{key}` is no key of Accelerate's `{BLOCK}`: it is dropped silently",
            help=_meant(key, BLOCK_KEYS)
            or f"write it into a DeepSpeed config in JSON, and name that by `{LINK}`, alone in the block",
            effect="ignored",
            part="key",
            fix=Fix(f"rename to `{near}`", (Rename(_in_block(key), near),))
            if near and near not in block(ctx.data)
            else None,
        )


_OPTIONS = frozenset(
    {"use_deepspeed", "multi_gpu", "cpu", "num_cpu_threads_per_process", "max_restarts", "env"}
)


def _nearest(word: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(str(word), sorted(known), 1, 0.8)), None)


def _meant(word: str, known: frozenset[str]) -> str | None:
    near = _nearest(word, known)
    return f"did you mean `{near}`?" if near else None


@rule("DSC821", effect="ignored", source=_ENVIRONMENT, of_launch=True)
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
    written = _launched(ctx)
    if LINK in written:
        return
    for name in ("offload_optimizer", "offload_param"):
        path = written.get(f"{name}_nvme_path")
        offloads = str(written.get(f"{name}_device")).lower() == "nvme"
        if offloads:
            yield ctx.at(
                _in_block(f"{name}_device"),
                f'`{name}_device` is `"nvme"`, but `accelerate launch` hands no path on: it becomes '
                '`"none"`, a folder in the working directory',
                help=f"write a DeepSpeed config in JSON, with `nvme_path`, and name it by `{LINK}`",
                effect="altered",
            )
        if path is not None and path != "none":
            yield ctx.at(
                _in_block(f"{name}_nvme_path"),
                f"`{name}_nvme_path` has no effect: `accelerate launch` does not hand it on",
                help=f"write `nvme_path` into a DeepSpeed config in JSON, and name it by `{LINK}`",
                part="key",
            )


@rule("DSC822", effect="rejected", source=f"{_PLUGIN}._deepspeed_config_checks", of_launch=True)
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
    written = _launched(ctx)
    if str(written.get(LINK) or "none") == "none":
        return
    paths: list[Path] = [_in_block(key) for key in written if key in NOT_BESIDE_LINK]
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
            related=[("the config is named here", _in_block(LINK))],
            fix=Fix(f"remove `{path[-1]}`", (Remove(path),)),
        )


@rule("DSC823", effect="ignored", source=_LAUNCH, of_launch=True)
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
    elif value in KINDS:
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


@rule("DSC824", effect="rejected", source=_ENVIRONMENT, of_launch=True)
def unknown_mixed_precision(ctx: Context) -> Iterator[Finding]:
    """`mixed_precision` of the launch file is none that Accelerate knows.

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
    known = value is None or (isinstance(value, str) and value.lower() in PRECISIONS)
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
            help=f"use {one_of(PRECISIONS)}",
        )


@rule("DSC825", effect="altered", source=f"{_PLUGIN}.__post_init__", of_launch=True)
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
    written = _launched(ctx)
    if written.get(key) is not True or LINK in written or not _whole(written.get("zero_stage", 2)):
        return
    if stage(written) != 3:
        yield ctx.at(
            _in_block(key),
            f"`{key}` is `true`, but the stage is {stage(written)}: Accelerate turns it off",
            help="set it to `false`; only stage 3 has it",
            related=[("the stage is set here", _in_block("zero_stage"))] if "zero_stage" in written else [],
            fix=Fix("set it to `false`", (Set(_in_block(key), False),), safe=True),
        )


def _whole(value: Any) -> bool:
    try:
        int(str(value))
    except ValueError:
        return False
    return True


@rule("DSC826", effect="rejected", source=f"{_PLUGIN}.__post_init__", of_launch=True)
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
        message = f"`{BLOCK}` is {kind(found)}, {quoted(found)}, where Accelerate expects an object"
        yield ctx.at((BLOCK,), message, help=f"write a block; it names a file by `{LINK}`")
        return
    for key, reads, wanted in _READINGS:
        value = _launched(ctx).get(key)
        if key == "deepspeed_multinode_launcher" and ctx.data.get("num_machines", 1) == 1:
            continue  # not looked at on one machine
        if value is not None and not reads(value):
            yield ctx.at(
                _in_block(key),
                f"`{key}` is {quoted(value)}, which Accelerate does not read as {wanted}",
                help=f"give {wanted}",
            )


def _digits(value: Any) -> bool:
    return str(value).isdigit() or value == "auto"


def _number(value: Any) -> bool:
    try:
        return value == "auto" or float(str(value)) >= float("-inf")
    except ValueError:
        return False


def _launcher(value: Any) -> bool:
    return value in LAUNCHERS


_READINGS = (
    ("zero_stage", _whole, "an integer"),
    ("gradient_accumulation_steps", _digits, 'an integer, or `"auto"`'),
    ("gradient_clipping", _number, 'a number, or `"auto"`'),
    ("deepspeed_multinode_launcher", _launcher, one_of(LAUNCHERS)),
)


@rule("DSC827", effect="ignored", source=_ENVIRONMENT, of_launch=True)
def inclusion_beside_exclusion(ctx: Context) -> Iterator[Finding]:
    """The launch file's block has both filters of hosts, and the inclusion filter loses.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_inclusion_filter": "worker-0", "deepspeed_exclusion_filter": "worker-1"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_exclusion_filter": "worker-1"}}
    """
    written = _launched(ctx)
    keys = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
    if all(written.get(key) is not None for key in keys):
        yield ctx.at(
            _in_block(keys[0]),
            f"`{keys[0]}` has no effect beside `{keys[1]}`",
            help="keep one of them",
            part="key",
            related=[("the other stands here", _in_block(keys[1]))],
        )
