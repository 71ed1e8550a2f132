"""Which part of an open text is the config, and the release in whose eyes its keys are told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers.accelerate_launch_file import is_launch_file
from dsconfig.core.releases import NUMBERS
from dsconfig.launch.format_table import SCRIPTS, format_of
from dsconfig.lsp.detect_new_config import begins_launch, is_empty
from dsconfig.lsp.key_lookup import key_at

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.lsp.snapshot import Judged
    from dsconfig.model.release_view import KeyView


class Scope(NamedTuple):
    """Where in a text the config stands, and the circumstances in which its keys are told of."""

    base: KeyPath
    release: int
    release_name: str
    consumer: str

    def inside(self, path: KeyPath) -> KeyPath | None:
        """The path within the config; None where it is not in it."""
        return path[len(self.base) :] if path[: len(self.base)] == self.base else None


def scope(judged: Judged) -> Scope | None:
    """The circumstances of a text that is a config or holds one; None for any other.

    Of a range of releases, those of the newest.
    """
    report, data = judged.report, judged.text.document.value()
    name = judged.text.name
    leads = name.endswith(SCRIPTS) or is_launch_file(data) or format_of(data) is not None
    leads = leads or begins_launch(name, data)
    if (report.foreign and not is_empty(judged.text)) or (leads and not report.is_held):
        return None
    newest = report.target.releases[-1]
    return Scope(report.base, NUMBERS[newest], newest, report.consumer)


def config_in(data: Json, base: KeyPath) -> Json:
    """The config in what a text says."""
    for part in base:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def key_of(judged: Judged, path: KeyPath) -> KeyView | None:
    """The key at a path of a text; None where there is none that the release knows."""
    seen = scope(judged)
    inside = None if seen is None else seen.inside(path)
    if seen is None or not inside:
        return None
    return key_at(inside, config_in(judged.text.document.value(), seen.base), seen.release)


def config_path(judged: Judged, key: str) -> KeyPath | None:
    """The path in a text of a key of its config; None where it is not written there."""
    path = (*judged.report.base, *key.split("."))
    return path if judged.text.document.located(path) else None
