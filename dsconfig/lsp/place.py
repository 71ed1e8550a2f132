"""Which part of an open text is the config, and the release in whose eyes its keys are told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.releases import NUMBERS

if TYPE_CHECKING:
    from dsconfig.json_types import Json, KeyPath
    from dsconfig.lsp.judged import Judged
    from dsconfig.releases import Target


class Scope(NamedTuple):
    """The circumstances in which keys of a text are told of."""

    base: KeyPath
    """Where in the text the config stands."""
    release: int
    release_name: str
    consumer: str

    def inside(self, path: KeyPath) -> KeyPath | None:
        """The path within the config; None where it is not in it."""
        return path[len(self.base) :] if path[: len(self.base)] == self.base else None


def scope(judged: Judged) -> Scope:
    """The circumstances of a text that was judged; of a range of releases, those of the newest."""
    return Scope(judged.report.base, *_newest(judged.report.target), judged.report.consumer)


def _newest(target: Target) -> tuple[int, str]:
    return NUMBERS[target.releases[-1]], target.releases[-1]


def config_in(data: Json, base: KeyPath) -> Json:
    """The config in what a text says."""
    for part in base:
        data = data.get(part) if isinstance(data, dict) else None
    return data
