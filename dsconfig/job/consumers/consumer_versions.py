"""Versions in which Transformers or Accelerate changed how configs are filled or rejected, and consumer specs.

The spec `transformers==4.45` means the Trainer of that version, `transformers` the newest known one.
"""

from __future__ import annotations

import re

from dsconfig.core.json_types import NamedTuple
from dsconfig.job.consumers import CONSUMERS, HUGGING_FACE


class BehaviorChange(NamedTuple):
    """A change in a consumer's behavior, and the version that introduced it."""

    word: str
    """Name by which code asks for the change; see `version_includes_change`."""
    consumer: str
    since: str
    what: str
    source: str


_TRAINER = "transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig"
_ACCELERATOR = "transformers trainer.py:Trainer.create_accelerator_and_postprocess"
_PREPARE = "accelerate accelerator.py:Accelerator._prepare_deepspeed"
_PLUGIN = "accelerate utils/dataclasses.py:DeepSpeedPlugin"
_TEXT = "accelerate utils/deepspeed.py:HfDeepSpeedConfig.__init__"
_YAML = "accelerate commands/config/config_args.py:BaseConfig.from_yaml_file"
_LAUNCH = "accelerate commands/launch.py:_validate_launch_command"
CHANGES = (
    BehaviorChange(
        "base64", "transformers", "4.22", "takes a config as base64", "the same class of Accelerate"
    ),
    BehaviorChange(
        "hidden_sizes",
        "transformers",
        "4.27",
        "takes the largest of `hidden_sizes`",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    BehaviorChange(
        "node_local",
        "transformers",
        "4.27",
        "writes `checkpoint.use_node_local_storage` for `save_on_each_node`",
        f"{_TRAINER}.trainer_config_process",
    ),
    BehaviorChange(
        "plugin",
        "transformers",
        "4.30",
        "goes through Accelerate's plugin: requires `zero_optimization` and rejects a remaining `auto`",
        "transformers training_args.py:TrainingArguments.__post_init__",
    ),
    BehaviorChange(
        "own_schedule",
        "transformers",
        "4.33.3",
        "builds the scheduler if the config has only an optimizer; from 4.30 on it rejected that",
        "transformers integrations/deepspeed.py:deepspeed_optim_sched",
    ),
    BehaviorChange(
        "find_batch",
        "transformers",
        "4.37",
        "compares no batch where `auto_find_batch_size` looks for one",
        f"{_TRAINER}.trainer_config_process",
    ),
    BehaviorChange(
        "find_batch_stops", "transformers", "4.38", "rejects `auto_find_batch_size`", _ACCELERATOR
    ),
    BehaviorChange(
        "save_whole",
        "transformers",
        "4.38",
        "rejects `save_only_model` together with `load_best_model_at_end`",
        _ACCELERATOR,
    ),
    BehaviorChange(
        "json_text",
        "transformers",
        "4.40",
        "takes a config as JSON text",
        "transformers training_args.py:TrainingArguments._VALID_DICT_FIELDS",
    ),
    BehaviorChange("find_batch_below_3", "transformers", "4.45", "rejects it with ZeRO-3 only", _ACCELERATOR),
    BehaviorChange(
        "whole_bucket",
        "transformers",
        "4.45",
        "makes the prefetch bucket a whole number",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    BehaviorChange(
        "text_config",
        "transformers",
        "4.46",
        "looks for the hidden size in `text_config` too",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    BehaviorChange(
        "no_sync",
        "transformers",
        "4.47.1",
        "accumulates gradients without `no_sync`, which DeepSpeed 0.16.0 rejects from stage 2 on",
        "transformers trainer.py:Trainer._inner_training_loop",
    ),
    BehaviorChange(
        "no_amp",
        "transformers",
        "5.0",
        "leaves `amp.enabled` and `amp.opt_level` as they are",
        f"{_TRAINER}.trainer_config_process",
    ),
    BehaviorChange(
        "warm_up_share",
        "transformers",
        "5.0",
        "takes a share of all steps as `warmup_steps`",
        "transformers training_args.py:TrainingArguments.get_warmup_steps",
    ),
    BehaviorChange(
        "warm_up",
        "transformers",
        "5.18",
        "warms up for a step at least, as DeepSpeed 0.19.6 demands",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    BehaviorChange(
        "beside_file",
        "accelerate",
        "0.16",
        "rejects settings together with `deepspeed_config_file`",
        f"{_PLUGIN}._deepspeed_config_checks",
    ),
    BehaviorChange("base64", "accelerate", "0.16", "takes a config as base64", _TEXT),
    BehaviorChange(
        "own_offload",
        "accelerate",
        "0.18",
        "looks at the offload of an optimizer that the script brings",
        _PREPARE,
    ),
    BehaviorChange(
        "bare_no", "accelerate", "0.19", "takes a bare `no` of `mixed_precision` for the word", _YAML
    ),
    BehaviorChange(
        "nvme_path", "accelerate", "0.20", "fills the paths of drives", f"{_PLUGIN}.__post_init__"
    ),
    BehaviorChange(
        "accumulation", "accelerate", "0.23", "keeps the accumulation steps of the config", _PREPARE
    ),
    BehaviorChange(
        "own_micro", "accelerate", "0.26", "calculates with the micro batch of the config", _PREPARE
    ),
    BehaviorChange(
        "clipping",
        "accelerate",
        "0.30",
        'clips at 1.0 where a launch file leaves it open; before, the config had no "auto"',
        f"{_PLUGIN}.__post_init__",
    ),
    BehaviorChange(
        "whole_bucket", "accelerate", "0.31", "makes the prefetch bucket a whole number", _PREPARE
    ),
    BehaviorChange("quoted_no", "accelerate", "0.34", "fails on a bare `no` again", _YAML),
    BehaviorChange("fp8", "accelerate", "0.34", "takes fp8 for bf16", f"{_PLUGIN}.set_mixed_precision"),
    BehaviorChange("no_micro", "accelerate", "1.0", "takes a config without a micro batch", _PREPARE),
    BehaviorChange("json_text", "accelerate", "1.4", "takes a config as JSON text", _TEXT),
    BehaviorChange(
        "flags_first", "accelerate", "1.5", "lets a flag override the block of a launch file", _LAUNCH
    ),
    BehaviorChange("tensor_parallel", "accelerate", "1.6", "opens `tensor_parallel`", _PREPARE),
    BehaviorChange(
        "no_sync",
        "accelerate",
        "1.9",
        "keeps `no_sync` from ZeRO stages 2 and 3",
        "accelerate accelerator.py:Accelerator.no_sync",
    ),
    BehaviorChange(
        "sequence_parallel", "accelerate", "1.12", "divides the batch by sequence ranks", _PREPARE
    ),
    BehaviorChange("warm_up", "accelerate", "1.15", "warms up for a step at least", _PREPARE),
)
"""Changes of each consumer, oldest first."""

_LEAST_DEEPSPEED = (
    ("4.6", "0.3.16"), ("4.7", "0.4.0"), ("4.9", "0.4.3"), ("4.10", "0.5.1"), ("4.11", "0.5.3"), ("4.13", "0.5.7"),
    ("4.17", "0.5.9"), ("4.18", "0.6.0"), ("4.19", "0.6.4"), ("4.20", "0.6.5"), ("4.28", "0.8.3"), ("4.31", "0.9.3"),
)  # fmt: skip
"""Versions of Transformers, oldest first, and the oldest DeepSpeed with which the Trainer starts.

Source: transformers dependency_versions_table.py, checked by integrations/deepspeed.py:HfDeepSpeedConfig.__init__.
"""
_LEAST_ACCELERATE = (
    ("4.30", "0.20.2"), ("4.31", "0.20.3"), ("4.38", "0.21.0"), ("4.45", "0.26.0"), ("5.0", "1.1.0"),
)  # fmt: skip
"""Versions of Transformers, oldest first, and an Accelerate below which the Trainer does not start with DeepSpeed."""


def minimum_deepspeed_release(consumer: str, version: str | None) -> str | None:
    """Return the oldest DeepSpeed release that a consumer version supports, or None if it states no minimum."""
    return _minimum_version(_LEAST_DEEPSPEED, version) if consumer == "transformers" else None


def minimum_accelerate_version(version: str | None) -> str | None:
    """Return the oldest Accelerate with which the Trainer in a version of Transformers starts DeepSpeed, or None."""
    return _minimum_version(_LEAST_ACCELERATE, version)


def _minimum_version(limits: tuple[tuple[str, str], ...], version: str | None) -> str | None:
    """Return the limit of the last row whose version is not newer than `version`; None is the newest version."""
    reached = [
        limit for since, limit in limits if version is None or version_tuple(version) >= version_tuple(since)
    ]
    return reached[-1] if reached else None


NEWEST_READ = {"transformers": "5.24.0", "accelerate": "1.15.0"}
"""Newest version of each consumer whose code was compared with the table, see `tests/parity/programs.json`."""


_LAST_OF_SERIES = {"transformers": ((4, 57),), "accelerate": ((0, 34),)}
"""Last minor version of each major version of a consumer that has a successor. Source: PyPI."""


def unknown_version_note(consumer: str, version: str | None) -> str | None:
    """Return a note if a version is newer than the newest known one or was never released, else None."""
    newest = NEWEST_READ.get(consumer)
    if version is None or newest is None:
        return None
    release = version_tuple(version)[:2]
    if release > version_tuple(newest)[:2]:
        known = f"the newest version that dsconfig knows; it is checked as {newest}"
        return f"{consumer} {version} is newer than {newest}, {known}"
    for major, last in _LAST_OF_SERIES[consumer]:
        if release[0] == major and release[1] > last:
            return (
                f"{consumer} {version} was never released: the last {major}.x is {major}.{last};"
                f" it is checked as {major}.{last}"
            )
    return None


_SPEC = r"(\w+)==\d{1,6}(?:\.[0-9a-z]{1,20}){0,6}"


def split_consumer_spec(spec: str) -> tuple[str, str | None]:
    """Split a spec such as `transformers==4.45` into name and version; None is the newest version."""
    name, equals, version = spec.partition("==")
    return name, version if equals else None


def is_consumer_spec(spec: object) -> bool:
    """Return whether `spec` names a consumer, optionally with a version."""
    if not isinstance(spec, str):
        return False
    match = re.fullmatch(_SPEC, spec)
    return spec in CONSUMERS or (match is not None and match[1] in HUGGING_FACE)


VERSION_PATTERN = r"^(transformers|accelerate)==[0-9]+([.][0-9a-z]+)*$"
"""Regular expression in JSON Schema for a consumer with a version."""
EXPECTED_CONSUMER = f"one of {', '.join(CONSUMERS)}, or a version such as transformers==4.45"
"""Description of the valid consumers, for messages."""


def version_tuple(version: str) -> tuple[int, ...]:
    """Return a version as three numbers, for comparison."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return (*parts, 0, 0)[:3]


def version_includes_change(word: str, consumer: str, version: str | None) -> bool:
    """Return whether a consumer version includes a change; changes that it does not list count as included."""
    if version is None:
        return True
    return all(
        version_tuple(version) >= version_tuple(each.since)
        for each in CHANGES
        if each.word == word and each.consumer == consumer
    )


def includes_all_changes(consumer: str, version: str) -> bool:
    """Return whether a consumer version includes all known changes."""
    return all(
        version_tuple(version) >= version_tuple(each.since) for each in CHANGES if each.consumer == consumer
    )
