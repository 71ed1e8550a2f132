"""One consumer: which keys it fills, when, and from what."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from dsconfig.consumers.consumer_versions import does
from dsconfig.core.json_types import Json, NamedTuple

Stage: TypeAlias = Literal["arguments", "plugin", "model", "prepare"]
"""When a key is filled: as the training arguments are made, as the plugin is, once the model is loaded, or
in `Accelerator.prepare`.
"""


class Fill(NamedTuple):
    """What one "auto" becomes. Where `must_match`, a written value that differs from it is an error."""

    key: str
    origin: str
    stage: Stage
    must_match: bool = False
    change: str = ""
    """The change (see `versions`) that brought it; of one that begins with `!`, which ended it."""


class Consumer(NamedTuple):
    """One consumer. `defaults` stand for training arguments that are not given."""

    name: str
    own_keys: tuple[str, ...] = ()
    """Keys at the top level that the consumer reads or writes, and DeepSpeed does not."""
    fills: tuple[Fill, ...] = ()
    defaults: Mapping[str, Json] = MappingProxyType({})
    version: str | None = None
    """None: the newest known."""
    former: tuple[Fill, ...] = ()
    """What earlier versions filled."""

    @property
    def arguments(self) -> frozenset[str]:
        """The names of the training arguments that it fills from."""
        return frozenset({"per_device_train_batch_size", *self.defaults})

    def does(self, word: str) -> bool:
        """Whether this version does what a change of `versions` brought."""
        return does(word, self.name, self.version)

    def of(self, version: str | None) -> Consumer:
        """The consumer as an earlier version is."""
        if version is None:
            return self
        found = self._replace(version=version)
        fills = (each for each in self.fills if not each.change or found.does(each.change))
        former = (each for each in self.former if not found.does(each.change.removeprefix("!")))
        return found._replace(fills=(*fills, *former))

    def origin(self, key: str) -> str | None:
        """From what the consumer fills the key; None where it does not."""
        return next((fill.origin for fill in self.fills if fill.key == key), None)
