"""Facts about a run beside its arguments: model and hosts, and the `"$dsconfig"` block of a config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from dsconfig.consumers.consumer_versions import EXPECTED as EXPECTED_CONSUMER
from dsconfig.consumers.consumer_versions import is_known
from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.json_types import Json, NamedTuple

# The model is the path of its `config.json`, its directory, or a name on the Hugging Face Hub. Arguments of
# the command win, then the config's own block `"$dsconfig"`, then settings, then the launch file.


class Model(NamedTuple):
    """A model as named by the user or a file: a path, a name, or the content of its `config.json`."""

    named: str | Mapping[str, Json]
    why: str
    """Evidence as a clause: `which recipe.yaml names`."""
    origin: Literal["argument", "file", "settings", "launch file"]
    """Source of the name, the strongest first."""
    barred: bool = False
    """Whether its file is outside the repository of the file that names it, and is not read."""

    @property
    def is_asked(self) -> bool:
        """Whether the user named the model for dsconfig, and needs a message if it cannot be read."""
        return self.origin != "launch file"

    @property
    def shown(self) -> str:
        """The model as shown in messages."""
        return self.named if isinstance(self.named, str) else "a model"

    def __str__(self) -> str:
        """The model with its source: `models/llama/config.json, which recipe.yaml names`."""
        return f"{self.shown}, {self.why}"

    def __hash__(self) -> int:  # the content of a `config.json` is not hashable
        return hash((self.shown, self.why))


class Known(NamedTuple):
    """Facts about the run; None if unknown."""

    model: Model | None = None
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

    def over(self, weaker: Known) -> Known:
        """These facts, completed by those of a weaker source."""
        return Known(
            self.model or weaker.model,
            self.host_memory or weaker.host_memory,
            self.gpus_per_node or weaker.gpus_per_node,
            self.program or weaker.program,
            self.adapters or weaker.adapters,
            self.parallelism if self.parallelism.degrees else weaker.parallelism,
        )


NOTHING = Known()


def of_file(data: Json, name: str) -> Known:
    """Facts in the block of a config; a path is relative to the config's directory."""
    said = declared(data).model
    if said is None:
        return NOTHING
    folder = "" if name.startswith("<") else os.path.dirname(name)
    return Known(named_in(name, said, folder, 'as its own `"$dsconfig"` block says', "file"))


def named_in(launch: str, said: str, folder: str, why: str, origin: Literal["file", "settings"]) -> Model:
    """The model that a file names, by a path relative to a directory or by a name."""
    from dsconfig.job.model_files import beside, is_barred  # imported here: few files name a model

    if any(is_barred(each, launch) for each in (os.path.join(folder, said), said)):
        return Model(said, why, origin, barred=True)
    return Model(beside(said, folder), why, origin)


# The block `"$dsconfig"` of a config sets its consumer, release, world size and model.
#
# "$dsconfig": {"consumer": "transformers", "target": "0.16.9", "world-size": 8, "model":
# "llama/config.json"}

KEY = "$dsconfig"
EXPECTED: Mapping[str, str] = {
    "consumer": EXPECTED_CONSUMER,
    "target": "a release or a range of releases as a string",
    "world-size": "a whole number above 0",
    "model": "the path of its config.json or a name, as a string",
}
"""Keys of the block that describe the run, and the value that each expects."""


class Declared(NamedTuple):
    """Content of the block; None for a missing or invalid value."""

    consumer: str | None = None
    target: str | None = None
    world_size: int | None = None
    model: str | None = None


def declared(data: object) -> Declared:
    """Read the block `"$dsconfig"` of a config."""
    block = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Declared()
    return Declared(*(block.get(key) if fits(key, block.get(key)) else None for key in EXPECTED))


def has_block(data: object) -> bool:
    """Whether a config has the `elasticity` block that `dsconfig elastic run` needs."""
    return isinstance(data, Mapping) and "elasticity" in data


def fits(key: str, value: object) -> bool:
    """Whether a value is valid for a key of the block."""
    match key:
        case "consumer":
            return is_known(value)
        case "target":
            return isinstance(value, str)
        case "model":
            return isinstance(value, str) and value != ""
        case _:
            return type(value) is int and value > 0
