"""Facts about a run beside its arguments: model and hosts, and the "$dsconfig" block of a config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from dsconfig.consumers.consumer_versions import EXPECTED as EXPECTED_CONSUMER
from dsconfig.consumers.consumer_versions import is_known
from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.json_types import Json, NamedTuple

# What somebody knows of the run beside its config and its arguments: the model and the hosts.
#
# The model is named by the path of its `config.json`, that of its folder, or a name of the hub; whoever
# asks has the first word, then the config's own block `"$dsconfig"`, then settings, then the launch file of
# its job.


class Model(NamedTuple):
    """The model as it is named: its `config.json` itself, or a path or a name, and who says so."""

    named: str | Mapping[str, Json]
    why: str
    """A clause: `which recipe.yaml names`."""
    origin: Literal["argument", "file", "settings", "launch file"]
    """Where that is said, the strongest first."""
    barred: bool = False
    """Whether its file is outside of the repository of the file that names it, and is not read."""

    @property
    def is_asked(self) -> bool:
        """Whether somebody named it for this purpose, and is told where it cannot be read."""
        return self.origin != "launch file"

    @property
    def shown(self) -> str:
        """The model in words."""
        return self.named if isinstance(self.named, str) else "a model"

    def __str__(self) -> str:
        """`models/llama/config.json, which recipe.yaml names`."""
        return f"{self.shown}, {self.why}"

    def __hash__(self) -> int:  # a mapping has none
        return hash((self.shown, self.why))


class Known(NamedTuple):
    """What is known; None where nothing is."""

    model: Model | None = None
    host_memory: int | None = None
    """Bytes that a host has."""
    gpus_per_node: int | None = None
    """Ranks that share a host."""
    program: str | None = None
    """The program of the launch file, which may do things to the model of its own accord."""
    adapters: bool = False
    """Whether the launch file says that it trains adapters, or parts of the model, and leaves the rest."""
    parallelism: Parallelism = NONE
    """The degrees of parallelism beside data parallelism, as the launch file has them."""

    def over(self, weaker: Known) -> Known:
        """This, and what else somebody says who has less to say."""
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
    """What the config says in its block; a path counts from the folder of the config."""
    said = declared(data).model
    if said is None:
        return NOTHING
    folder = "" if name.startswith("<") else os.path.dirname(name)
    return Known(named_in(name, said, folder, 'as its own `"$dsconfig"` says', "file"))


def named_in(launch: str, said: str, folder: str, why: str, origin: Literal["file", "settings"]) -> Model:
    """The model that a file names, by a path that counts from a folder, or by a name."""
    from dsconfig.job.model_files import beside, is_barred  # few files name one

    if any(is_barred(each, launch) for each in (os.path.join(folder, said), said)):
        return Model(said, why, origin, barred=True)
    return Model(beside(said, folder), why, origin)


# What a config says of itself, in its block `"$dsconfig"`: its reader, release, world size and model.
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
"""The keys of the block that say how the config is read, and what each takes."""


class Declared(NamedTuple):
    """What the block says; None where it is silent, or not understood."""

    consumer: str | None = None
    target: str | None = None
    world_size: int | None = None
    model: str | None = None


def declared(data: object) -> Declared:
    """What a config says of itself."""
    block = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Declared()
    return Declared(*(block.get(key) if fits(key, block.get(key)) else None for key in EXPECTED))


def has_block(data: object) -> bool:
    """Whether a config says how its batch grows with its GPUs, as `dsconfig elastic run` needs."""
    return isinstance(data, Mapping) and "elasticity" in data


def fits(key: str, value: object) -> bool:
    """Whether a value is of the form that the key takes."""
    match key:
        case "consumer":
            return is_known(value)
        case "target":
            return isinstance(value, str)
        case "model":
            return isinstance(value, str) and value != ""
        case _:
            return type(value) is int and value > 0
