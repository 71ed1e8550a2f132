"""Which settings count for a file: the nearest, or the only ones."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dsconfig.check.discover import excluded
from dsconfig.check.requested_options import Asked
from dsconfig.job.settings_file import Settings, SettingsFileError, find


class Nearest:
    """The settings of a run, each file of them read once."""

    def __init__(self, asked: Asked, only: Settings | None = None) -> None:
        self._found: dict[str, Settings] = {}
        self._told: set[str] = set()
        self._asked, self._only = asked, only
        self.here = self.below(os.getcwd())

    @property
    def paths(self) -> set[str]:
        """The settings files that were read."""
        return {found.path for found in (*self._found.values(), self.here) if found.path}

    def below(self, folder: str) -> Settings:
        """The settings for a folder; what cannot be understood ends the run."""
        if self._only is not None:
            return self._only
        if folder not in self._found:
            try:
                self._found[folder] = find(folder)
            except SettingsFileError as error:
                self._asked.refuse(str(error))
            for line in self._found[folder].passed_over:
                if line not in self._told:
                    self._told.add(line)
                    self._asked.note(line)
        return self._found[folder]

    def of(self, name: str) -> tuple[Settings, list[Settings]]:
        """The settings for a file, and the overrides among them that name it."""
        found = self.here if name.startswith("<") else self.below(os.path.dirname(os.path.abspath(name)))
        settings = found if found.path else self.here
        return settings, [each for each in settings.overrides if excluded(name, settings.root, each.files)]

    def said_of(self, name: str) -> Settings:
        """What the settings say of one file."""
        return merged(*self.of(name))


def merged(settings: Settings, overrides: Sequence[Settings]) -> Settings:
    """The settings with what overrides say instead, and what they exclude and ignore besides."""
    said = settings
    for each in overrides:
        changed = {key: value for key, value in each._asdict().items() if value not in (None, ())}
        for key in ("exclude", "extend_exclude", "per_file_ignores"):
            changed[key] = (*getattr(said, key), *getattr(each, key))
        said = said._replace(**changed)
    return said
