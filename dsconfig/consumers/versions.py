"""Versions of Transformers and Accelerate that fill or refuse otherwise, and how a version is written.

`transformers==4.45` names the Trainer of that version, and `transformers` the newest one known.
"""

from __future__ import annotations

import re

from dsconfig.consumers import CONSUMERS, HUGGING_FACE
from dsconfig.json_types import NamedTuple


class Change(NamedTuple):
    """What a consumer does from a version on; before, it did not."""

    word: str
    """The name by which the code that depends on it asks."""
    consumer: str
    since: str
    what: str
    source: str


_TRAINER = "transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig"
_PREPARE = "accelerate accelerator.py:Accelerator._prepare_deepspeed"
CHANGES = (
    Change(
        "node_local",
        "transformers",
        "4.27",
        "writes `checkpoint.use_node_local_storage` for `save_on_each_node`",
        f"{_TRAINER}.trainer_config_process",
    ),
    Change(
        "plugin",
        "transformers",
        "4.30",
        "goes through Accelerate's plugin: `zero_optimization` is required, and what is left as auto refused",
        "transformers training_args.py:TrainingArguments.__post_init__",
    ),
    Change(
        "whole_bucket",
        "transformers",
        "4.45",
        "makes the prefetch bucket a whole number",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    Change(
        "text_config",
        "transformers",
        "4.46",
        "looks for the hidden size in `text_config` too",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    Change(
        "no_amp",
        "transformers",
        "5.0",
        "leaves `amp.enabled` and `amp.opt_level` as they are",
        f"{_TRAINER}.trainer_config_process",
    ),
    Change(
        "warm_up",
        "transformers",
        "5.18",
        "warms up for a step at least, as DeepSpeed 0.19.6 demands",
        f"{_TRAINER}.trainer_config_finalize",
    ),
    Change(
        "nvme_path",
        "accelerate",
        "0.20",
        "fills the paths of drives",
        "accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__",
    ),
    Change("whole_bucket", "accelerate", "0.31", "makes the prefetch bucket a whole number", _PREPARE),
    Change("warm_up", "accelerate", "1.15", "warms up for a step at least", _PREPARE),
)
"""Oldest first for each of the two."""

_SPEC = r"(\w+)==\d{1,6}(?:\.[0-9a-z]{1,20}){0,6}"


def parted(spec: str) -> tuple[str, str | None]:
    """The consumer of a text such as `transformers==4.45`, and its version; None: the newest."""
    name, equals, version = spec.partition("==")
    return name, version if equals else None


def is_known(spec: object) -> bool:
    """Whether a text names a consumer, perhaps of a version."""
    if not isinstance(spec, str):
        return False
    found = re.fullmatch(_SPEC, spec)
    return spec in CONSUMERS or (found is not None and found[1] in HUGGING_FACE)


VERSIONED = r"^(transformers|accelerate)==[0-9]+([.][0-9a-z]+)*$"
"""A consumer with a version, as a pattern of a schema."""
EXPECTED = f"one of {', '.join(CONSUMERS)}, or a version such as transformers==4.45"
"""What stands for a reader, in words."""


def number(version: str) -> tuple[int, ...]:
    """A version to compare: three numbers."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return (*parts, 0, 0)[:3]


def does(word: str, consumer: str, version: str | None) -> bool:
    """Whether a version does what a change brought; what no change speaks of every version does."""
    if version is None:
        return True
    return all(
        number(version) >= number(each.since)
        for each in CHANGES
        if each.word == word and each.consumer == consumer
    )


def is_newest(consumer: str, version: str) -> bool:
    """Whether a version does all that the newest known one does."""
    return all(number(version) >= number(each.since) for each in CHANGES if each.consumer == consumer)
