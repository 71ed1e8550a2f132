"""What a row of the table of launch files says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from dsconfig.core.json_types import Json, NamedTuple

_NONE: Mapping[str, Json] = MappingProxyType({})


class Write(NamedTuple):
    """A key of the launch file because of which its program writes into the config."""

    key: str
    place: str
    """Where in the config, dotted."""
    value: Json = None
    """What is written, if not the key's own value."""
    unless: str = ""
    """What keeps the config as it is where it is there, dotted."""
    above: int | None = None
    """Only a larger number has it written; None: any value has."""
    only: str = ""
    """Only this word has it written."""
    stage: int | None = None
    """Only into a config with this ZeRO stage."""


class Format(NamedTuple):
    """One format. Signs are dotted keys; `key=a|b` has one of these values, `key~word` this word in it."""

    name: str
    reader: str
    signs: tuple[tuple[str, ...], ...]
    """A file is of the format where all keys of one of these are in it."""
    config: tuple[str, ...]
    """Where the config is: its path, a preset's name, or the config itself. The first written counts."""
    source: str
    preset: str = ""
    """The path of a preset within the installed packages, `{}` for its name."""
    arguments: Mapping[str, str] = MappingProxyType({})
    """Training arguments that have another name here: this name first, the Trainer's second."""
    defaults: Mapping[str, Json] = _NONE
    """Training arguments that are others than the Trainer's where they are not written; None: not known."""
    world: tuple[str, ...] = ()
    """Keys whose numbers multiply to the world size."""
    needs: tuple[str, ...] = ()
    """Those of these without which it is not known: others count as 1 where they are absent."""
    within: str = ""
    """The object that holds the training arguments, where it is not the root."""
    commands: tuple[str, ...] = ()
    """Where shell commands stand that name the config, for a format that does not itself."""
    environment: tuple[str, ...] = ()
    """Where it writes variables for these commands."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Variables that its program sets for them, and the keys that say to what: the first that is there."""
    writes: tuple[Write, ...] = ()
    """What is written into the config because of keys here."""
    update: int | None = None
    """The samples of an update, where the accumulation steps are made to come to them."""
    programs: tuple[str, ...] = ()
    """Words of a command that run this program, as patterns of file names."""
    scripts: tuple[str, ...] = ()
    """Names that scripts of other programs have too: its own is known by the signs among the flags."""
    sets: tuple[tuple[str, str, int], ...] = ()
    """What its program writes into a config without a batch: the key, the launch file's own, its default."""
    replaces: bool = False
    """Whether it writes that into every config, in place of the batch that stands there."""
    overwrites: str = ""
    """Where it writes what goes over the config, section by section."""
    numbers: Literal["yaml", "omegaconf", "human"] = "yaml"
    """How a config in the launch file may write numbers: OmegaConf reads `1e-5`, people `500m` and `2^20`."""
    makes: str = ""
    """What makes the config of the launch file's own keys, where no config is named: a module of `made`."""
    made_of: str = ""
    """The key that has it made."""
