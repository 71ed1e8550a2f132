"""Launch files of `accelerate launch`, and their `deepspeed_config` block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dsconfig.core.diagnostic import Fix, RenameKey, SetValue
from dsconfig.core.did_you_mean import WordIndex, best_match, index_words
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.wording import describe_value, join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.job.consumers.accelerate_launch_file import (
    BLOCK,
    BLOCK_KEYS,
    DISTRIBUTED_TYPES,
    LAUNCHERS,
    LINK,
    NOT_BESIDE_LINK,
    PRECISIONS,
    deepspeed_block,
    root_keys_of_version,
    version_adding_key,
    version_removing_key,
    words_available_in_version,
    zero_stage_of_block,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._job_programs import consumer_has_change

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# The `deepspeed_config` block.

ENVIRONMENT = "accelerate utils/launch.py:prepare_deepspeed_cmd_env"
PLUGIN = "accelerate utils/dataclasses.py:DeepSpeedPlugin"


def accelerate_block(ctx: Context) -> JsonObject:
    """Return the `deepspeed_config` block; empty if the launch file does not launch DeepSpeed."""
    return deepspeed_block(ctx.data) if ctx.data.get("distributed_type") == "DEEPSPEED" else {}


def accelerate_block_path(key: str) -> KeyPath:
    """Return the path of a key in the `deepspeed_config` block."""
    return (BLOCK, key)


# `distributed_type`.

_LAUNCH = "accelerate commands/launch.py:_validate_launch_command"


@rule("DSC823", effect="ignored", source=_LAUNCH, reads="launch file")
def deepspeed_not_launched(ctx: Context) -> Iterator[Finding]:
    """The launch file has a `deepspeed_config` block, but does not launch DeepSpeed.

    Accelerate ignores the block unless `distributed_type` is `DEEPSPEED`, and runs plain data-parallel training
    (`--use_deepspeed` on the command line overrides this). Without the key Accelerate rejects the file.

    Bad:

        {"distributed_type": "MULTI_GPU", "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    """
    key = "distributed_type"
    value = ctx.data.get(key)
    if value == "DEEPSPEED":
        return
    fix = Fix('set it to `"DEEPSPEED"`', (SetValue((key,), "DEEPSPEED"),))
    if key not in ctx.data:
        message = f"`{key}` is missing, and Accelerate rejects a launch file without it"
        yield ctx.at(
            (key,), message, help=f'write `{key}: "DEEPSPEED"`', effect="rejected", fix=fix, part="key"
        )
    elif value in DISTRIBUTED_TYPES:
        yield ctx.at(
            (key,),
            f"`{key}` is {quote_value(value)}, so Accelerate ignores `{BLOCK}`",
            help=f'set `{key}` to `"DEEPSPEED"`, or remove `{BLOCK}`',
            related=[(f"`{BLOCK}` is set here", (BLOCK,))],
            fix=fix,
        )
    else:
        yield ctx.at(
            (key,),
            f"`{key}` is {quote_value(value)}, but Accelerate does not know this value",
            help='set it to `"DEEPSPEED"`',
            effect="rejected",
            fix=fix,
        )


# Conflicts with `deepspeed_config_file`, and host filters.


@rule("DSC822", effect="rejected", source=f"{PLUGIN}._deepspeed_config_checks", reads="launch file")
def setting_beside_config_file(ctx: Context) -> Iterator[Finding]:
    """Accelerate's launch file names a DeepSpeed config, and also contains settings that belong in it.

    If `deepspeed_config_file` is set, Accelerate rejects every setting that belongs in that file: stage, accumulation,
    clipping, offload, saving, and `mixed_precision` at the top level. Its error says that these variables "will be
    ignored".

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
    settings = accelerate_block(ctx)
    if str(settings.get(LINK) or "none") == "none" or not consumer_has_change(ctx, "beside_file"):
        return
    paths: list[KeyPath] = [accelerate_block_path(key) for key in settings if key in NOT_BESIDE_LINK]
    if ctx.data.get("mixed_precision") is not None:
        paths.append(("mixed_precision",))
    for path in paths:
        is_top_level = len(path) == 1
        yield ctx.at(
            path,
            f"`{path[-1]}` is set together with `{LINK}`, which Accelerate rejects"
            + (" unless you also pass `--mixed_precision`" if is_top_level else ""),
            help=f"remove it, and set it in {quote_value(settings[LINK])}",
            part="key",
            related=[("the config file is set here", accelerate_block_path(LINK))],
            fix=remove_key(path),
        )


@rule("DSC827", effect="ignored", source=ENVIRONMENT, reads="launch file")
def inclusion_beside_exclusion(ctx: Context) -> Iterator[Finding]:
    """The launch file sets both host filters, so the inclusion filter has no effect.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_inclusion_filter": "worker-0", "deepspeed_exclusion_filter": "worker-1"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_exclusion_filter": "worker-1"}}
    """
    settings = accelerate_block(ctx)
    keys = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
    if all(settings.get(key) is not None for key in keys):
        yield ctx.at(
            accelerate_block_path(keys[0]),
            f"`{keys[0]}` has no effect together with `{keys[1]}`",
            help="keep one of them",
            part="key",
            related=[("the other filter is set here", accelerate_block_path(keys[1]))],
        )


# Keys that Accelerate does not know.

_CONFIG = "accelerate commands/config/config_args.py:BaseConfig.from_yaml_file"


@rule("DSC820", effect="rejected", source=_CONFIG, reads="launch file")
def unknown_launch_key(ctx: Context) -> Iterator[Finding]:
    """The launch file has a key that is unknown to Accelerate.

    `accelerate launch` rejects unknown keys at the top level of the file. It silently ignores unknown keys in
    the `deepspeed_config` block. The block is not a DeepSpeed config, and accepts only two of DeepSpeed's keys;
    the others belong in a JSON file that `deepspeed_config_file` names.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offlaod_param_device": "cpu"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "cpu"}}
    """
    top_level_keys, block_keys = (
        root_keys_of_version(ctx.version),
        words_available_in_version(BLOCK_KEYS, ctx.version),
    )
    for key in ctx.data:
        if key not in top_level_keys:
            yield ctx.at(
                (key,),
                f"`{key}` is not a key of Accelerate's launch file{_format_version(ctx, key)}: `accelerate launch` "
                "rejects the file",
                help=_suggest_replacement(key, top_level_keys),
                part="key",
            )
    for key, value in deepspeed_block(ctx.data).items():
        # Accelerate also reads the options of its command line from the block.
        if key in block_keys or key in top_level_keys or key in _OPTIONS:
            continue
        suggestion = _closest_key(key, value, block_keys)
        yield ctx.at(
            accelerate_block_path(key),
            f"`{key}` is not a key of Accelerate's `{BLOCK}`{_format_version(ctx, key)}: Accelerate ignores it",
            help=f"did you mean `{suggestion}`?"
            if suggestion
            else f"remove it, or use Accelerate {version_adding_key(key)} or later"
            if version_adding_key(key)
            else "move it to a DeepSpeed config in JSON, and keep only "
            f"`{LINK}`, the path to that config, in `{BLOCK}`",
            effect="ignored",
            part="key",
            fix=Fix(f"rename to `{suggestion}`", (RenameKey(accelerate_block_path(key), suggestion),))
            if suggestion and suggestion not in deepspeed_block(ctx.data)
            else None,
        )


_OPTIONS = frozenset(
    {"use_deepspeed", "multi_gpu", "cpu", "num_cpu_threads_per_process", "max_restarts", "env"}
)


def _format_version(ctx: Context, key: str) -> str:
    """Return a phrase with Accelerate's version if other versions have the key, else an empty string."""
    return (
        f" in {ctx.version}" if ctx.version and (version_adding_key(key) or version_removing_key(key)) else ""
    )


def _suggest_replacement(key: str, known_keys: frozenset[str]) -> str:
    """Suggest what to do about an unknown top-level key of the launch file."""
    if key in BLOCK_KEYS:
        return f"remove it, or move it into `{BLOCK}`"
    if since := version_adding_key(key):
        return f"remove it, or use Accelerate {since} or later"
    if until := version_removing_key(key):
        return f"remove it: Accelerate {until} removed it"
    suggestion = _closest_key(key, None, known_keys)
    return f"did you mean `{suggestion}`?" if suggestion else "remove it"


def _closest_key(key: str, value: Json, known_keys: frozenset[str]) -> str | None:
    """Return the known key for which `key` is most likely a typo, or None.

    No key of the block accepts an object or a list.
    """
    return None if isinstance(value, dict | list) else best_match(str(key), _launch_file_lexicon(known_keys))


@cache
def _launch_file_lexicon(words: frozenset[str]) -> WordIndex:
    return index_words(sorted(words))


# Values that Accelerate cannot parse, or changes.


@rule("DSC824", effect="rejected", source=ENVIRONMENT, reads="launch file")
def unknown_mixed_precision(ctx: Context) -> Iterator[Finding]:
    """`mixed_precision` in the launch file is not a value that Accelerate accepts.

    YAML parses an unquoted `no` as false, and `accelerate launch` then raises an AttributeError. Quote it:
    `"no"`.

    Bad:

        {"distributed_type": "DEEPSPEED", "mixed_precision": false, "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "no", "deepspeed_config": {"zero_stage": 2}}

    Fixed:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "no", "deepspeed_config": {"zero_stage": 2}}
    """
    key = "mixed_precision"
    value = ctx.data.get(key)
    precisions = [name for name in PRECISIONS if name in words_available_in_version(PRECISIONS, ctx.version)]
    is_known = value is None or (isinstance(value, str) and value.lower() in precisions)
    if value is False and consumer_has_change(ctx, "bare_no") and not consumer_has_change(ctx, "quoted_no"):
        return
    if is_known or ctx.data.get("distributed_type") != "DEEPSPEED":
        return
    if value is False:
        yield ctx.at(
            (key,),
            f"`{key}` is `false`, which is how YAML parses an unquoted `no`, and `accelerate launch` raises",
            help='write `"no"`, in quotes',
            fix=Fix('replace with `"no"`', (SetValue((key,), "no"),), safe=True),
        )
    else:
        yield ctx.at(
            (key,),
            f"`{key}` is {quote_value(value)}, but Accelerate does not know this value",
            help=f"use {join_alternatives(precisions)}",
        )


@rule("DSC825", effect="altered", source=f"{PLUGIN}.__post_init__", reads="launch file")
def zero3_init_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`zero3_init_flag` is enabled in a launch file with a stage other than 3.

    Accelerate logs a warning and disables the flag. The default of `zero_stage` is 2.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": true}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": false}}

    Fixed:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, "zero3_init_flag": false}}
    """
    key = "zero3_init_flag"
    settings = accelerate_block(ctx)
    if settings.get(key) is not True or LINK in settings or not _is_integer(settings.get("zero_stage", 2)):
        return
    if zero_stage_of_block(settings) != 3:
        yield ctx.at(
            accelerate_block_path(key),
            f"`{key}` is `true`, but the stage is {zero_stage_of_block(settings)}: Accelerate turns it off",
            help="set it to `false`, or set `zero_stage` to 3",
            related=[("the stage is set here", accelerate_block_path("zero_stage"))]
            if "zero_stage" in settings
            else [],
            fix=Fix("set it to `false`", (SetValue(accelerate_block_path(key), False),), safe=True),
        )


@rule("DSC826", effect="rejected", source=f"{PLUGIN}.__post_init__", reads="launch file")
def unreadable_launch_value(ctx: Context) -> Iterator[Finding]:
    """Accelerate cannot parse a value of the launch file's `deepspeed_config` block.

    Accelerate converts each value to text and parses it again: the stage as an integer, clipping as a number. If
    `gradient_accumulation_steps` does not consist of digits, it stays a string, and computing the batch size fails.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2.0}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    """
    content = ctx.data.get(BLOCK)
    if content is not None and not isinstance(content, dict):
        message = f"`{BLOCK}` is {describe_value(content)} but Accelerate expects an object"
        yield ctx.at(
            (BLOCK,),
            message,
            help=f"set it to an object, such as `{{zero_stage: 2}}`; to use a config file, set `{BLOCK}.{LINK}`",
        )
        return
    for key, is_valid, description in _PARSED_KEYS:
        value = accelerate_block(ctx).get(key)
        if key == "deepspeed_multinode_launcher" and ctx.data.get("num_machines", 1) == 1:
            continue  # Accelerate ignores it on a single machine
        expected = description
        if key == "deepspeed_multinode_launcher":
            launchers = [
                each for each in LAUNCHERS if each in words_available_in_version(LAUNCHERS, ctx.version)
            ]
            invalid, expected = value not in launchers, join_alternatives(launchers)
        elif value == "auto" and key in _AUTO and not consumer_has_change(ctx, _AUTO[key]):
            invalid, expected = True, description.removesuffix(_OR_AUTO)
        else:
            invalid = not is_valid(value)
        if value is not None and invalid:
            yield ctx.at(
                accelerate_block_path(key),
                f"`{key}` is {quote_value(value)}, but Accelerate expects {expected}",
                help=f"set it to {expected}",
            )


@rule("DSC828", effect="altered", source=ENVIRONMENT, reads="launch file")
def launched_model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """`zero3_save_16bit_model` is not enabled in a launch file with stage 3.

    Each rank holds a partition of every weight, and nothing gathers them when the model is saved. At the end of
    training, the Trainer saves no weights, and Accelerate's `get_state_dict` and `save_model` raise.

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
    settings = accelerate_block(ctx)
    if (
        not settings
        or LINK in settings
        or not _is_integer(settings.get("zero_stage", 2))
        or zero_stage_of_block(settings) != 3
    ):
        return
    if str(settings.get(key)).lower() != "true":
        state = (
            f"is {quote_value(settings[key])}"
            if key in settings
            else "is missing, and its default is `false`"
        )
        yield ctx.at(
            accelerate_block_path(key),
            f"`{key}` {state}: the Trainer saves no model weights, and Accelerate's `get_state_dict` and"
            " `save_model` raise",
            help=f"set `{key}` to `true`, or consolidate the weights with `zero_to_fp32.py` after training",
            related=[("the stage is set here", accelerate_block_path("zero_stage"))],
            fix=Fix("gather the weights on save", (SetValue(accelerate_block_path(key), True),)),
        )


def _is_integer(value: Json) -> bool:
    try:
        int(str(value))
    except ValueError:
        return False
    return True


def _is_digits(value: Json) -> bool:
    return str(value).isdigit() or value == "auto"


def _is_number(value: Json) -> bool:
    try:
        return value == "auto" or float(str(value)) >= float("-inf")
    except ValueError:
        return False


def _is_launcher(value: Json) -> bool:
    return value in LAUNCHERS


_OR_AUTO = ', or `"auto"`'
_AUTO = {"gradient_accumulation_steps": "accumulation", "gradient_clipping": "clipping"}
"""Name of the change in `consumers.consumer_versions` from which each key accepts "auto"."""
_PARSED_KEYS = (
    ("zero_stage", _is_integer, "an integer"),
    ("gradient_accumulation_steps", _is_digits, 'an integer, or `"auto"`'),
    ("gradient_clipping", _is_number, 'a number, or `"auto"`'),
    ("deepspeed_multinode_launcher", _is_launcher, join_alternatives(LAUNCHERS)),
)


# NVMe paths.


@rule("DSC821", effect="ignored", source=ENVIRONMENT, reads="launch file")
def lost_nvme_path(ctx: Context) -> Iterator[Finding]:
    """Accelerate never passes the NVMe path of its launch file to DeepSpeed.

    The launcher passes the offload devices to the processes that it starts, but not the two paths. With the device
    `nvme`, the resulting path is `"none"`: a folder of that name in the working directory.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "nvme", "offload_param_nvme_path": "/local_nvme"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds_config.json"}}
    """
    settings = accelerate_block(ctx)
    if LINK in settings:
        return
    for name in ("offload_optimizer", "offload_param"):
        path = settings.get(f"{name}_nvme_path")
        offloads = str(settings.get(f"{name}_device")).lower() == "nvme"
        if offloads:
            yield ctx.at(
                accelerate_block_path(f"{name}_device"),
                f'`{name}_device` is `"nvme"`, but `accelerate launch` does not pass the path on: '
                'DeepSpeed writes to `"none"`, a folder in the working directory',
                help=f"write a DeepSpeed config in JSON, with `nvme_path`, and set `{LINK}` to its path",
                effect="altered",
            )
        if path is not None and path != "none":
            yield ctx.at(
                accelerate_block_path(f"{name}_nvme_path"),
                f"`{name}_nvme_path` has no effect: `accelerate launch` does not pass it on",
                help=f"write `nvme_path` into a DeepSpeed config in JSON, and set `{LINK}` to its path",
                part="key",
            )
