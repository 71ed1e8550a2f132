"""Facts about a run besides its arguments: model, hosts, and a config's `"$dsconfig"` block."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.job.consumers.consumer_versions import EXPECTED_CONSUMER, is_consumer_spec

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal

# The model is the path to its `config.json`, its directory, or a name on the Hugging Face Hub. Arguments of
# the command win, then the config's own block `"$dsconfig"`, then settings, then the launch file.


class NamedModel(NamedTuple):
    """A model that the user or a file specifies by a path, by a name, or by the content of its `config.json`."""

    named: str | Mapping[str, Json]
    why: str
    """Evidence as a clause, such as `which recipe.yaml names`."""
    origin: Literal["argument", "file", "settings", "launch file"]
    """Kind of source of the name."""
    is_outside: bool = False
    """Whether the model's file is not read because it is outside the repository of the file that names the model."""

    @property
    def is_named_by_user(self) -> bool:
        """Whether the user named the model, so that failing to read it is an error."""
        return self.origin != "launch file"

    @property
    def shown(self) -> str:
        """The model as shown in messages."""
        return self.named if isinstance(self.named, str) else "a model"

    def __str__(self) -> str:
        """Describe the model and its source: `models/llama/config.json, which recipe.yaml names`."""
        return f"{self.shown}, {self.why}"

    def __hash__(self) -> int:  # the content of a `config.json` is not hashable
        return hash((self.shown, self.why))


class RunFacts(NamedTuple):
    """Facts about the run of a config; each is None if unknown."""

    model: NamedModel | None = None
    host_memory: int | None = None
    """CPU memory of a node, in bytes."""
    gpus_per_node: int | None = None
    """Ranks per node."""
    program: str | None = None
    """Program of the launch file, which may change the model in code."""
    adapters: bool = False
    """Whether the launch file trains adapters or parts of the model and freezes the rest."""
    parallelism: Parallelism = NONE
    """Degrees of parallelism other than data parallelism, from the launch file."""
    uses_trainer: bool = False
    """Whether the launched program trains with a Transformers Trainer, also behind an Accelerate launch file."""
    program_files: tuple[str, ...] = ()
    """Paths of the Python programs that pass the config to its consumer."""
    loads_whole: bool = False
    """Whether `zero3_init_flag` of Accelerate is off, so that no model is partitioned while it is loaded."""

    def complete_from(self, weaker: RunFacts) -> RunFacts:
        """Return these facts, with unknown ones taken from `weaker`."""
        return RunFacts(
            self.model or weaker.model,
            self.host_memory or weaker.host_memory,
            self.gpus_per_node or weaker.gpus_per_node,
            self.program or weaker.program,
            self.adapters or weaker.adapters,
            self.parallelism if self.parallelism.degrees else weaker.parallelism,
            self.uses_trainer or weaker.uses_trainer,
            self.program_files or weaker.program_files,
            self.loads_whole or weaker.loads_whole,
        )


NO_FACTS = RunFacts()


def facts_of_dsconfig_block(data: Json, name: str) -> RunFacts:
    """Return the facts in a `"$dsconfig"` block; its paths are relative to the config."""
    model = read_dsconfig_block(data).model
    if model is None:
        return NO_FACTS
    folder = "" if name.startswith("<") else os.path.dirname(name)
    return RunFacts(find_named_model(name, model, folder, 'as its own `"$dsconfig"` block says', "file"))


def find_named_model(
    launch: str, name: str, folder: str, why: str, origin: Literal["file", "settings"]
) -> NamedModel:
    """Return the model that a file specifies by name, or by a path relative to `folder`."""
    from dsconfig.job.model_config_json import (  # imported here: few files name a model
        is_model_outside_repository,
        resolve_model_in_folder,
    )

    if any(is_model_outside_repository(each, launch) for each in (os.path.join(folder, name), name)):
        return NamedModel(name, why, origin, is_outside=True)
    return NamedModel(resolve_model_in_folder(name, folder), why, origin)


# The block `"$dsconfig"` of a config sets its consumer, release, world size and model.
#
# "$dsconfig": {"consumer": "transformers", "target": "0.16.9", "world-size": 8, "model":
# "llama/config.json"}

DSCONFIG_KEY = "$dsconfig"
EXPECTED_VALUES: Mapping[str, str] = {
    "consumer": EXPECTED_CONSUMER,
    "target": "a release or a range of releases as a string",
    "world-size": "a whole number above 0",
    "model": "the path to its config.json or a name, as a string",
}
"""Keys of the `"$dsconfig"` block that describe the run, and the value that each expects."""


class DsconfigBlock(NamedTuple):
    """The content of a `"$dsconfig"` block; missing and invalid values are None."""

    consumer: str | None = None
    target: str | None = None
    world_size: int | None = None
    model: str | None = None


def read_dsconfig_block(data: object) -> DsconfigBlock:
    """Read the `"$dsconfig"` block of a config."""
    block = data.get(DSCONFIG_KEY) if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return DsconfigBlock()
    return DsconfigBlock(
        *(block.get(key) if is_valid_block_value(key, block.get(key)) else None for key in EXPECTED_VALUES)
    )


def has_elasticity_block(data: object) -> bool:
    """Return whether a config has the `elasticity` block that `dsconfig elastic run` needs."""
    return isinstance(data, Mapping) and "elasticity" in data


def is_valid_block_value(key: str, value: object) -> bool:
    """Return whether `value` is valid for a key of the `"$dsconfig"` block."""
    match key:
        case "consumer":
            return is_consumer_spec(value)
        case "target":
            return isinstance(value, str)
        case "model":
            return isinstance(value, str) and value != ""
        case _:
            return type(value) is int and value > 0
