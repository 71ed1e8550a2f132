"""What is in force for the files of an editor: its own settings, then those of each file's folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dsconfig.check.effective_settings import Options, options
from dsconfig.check.nearest_settings import Nearest
from dsconfig.check.requested_options import Asked
from dsconfig.consumers.consumer_versions import is_known
from dsconfig.job.settings_file import Settings

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject


class InvalidSettingsError(ValueError):
    """Settings that cannot be used; the message is one line."""


class Configuration:
    """The options of every file, for as long as nobody changes a settings file."""

    def __init__(self, own: JsonObject) -> None:
        self.problems: list[str] = []
        """What is wrong with settings, each said once."""
        self._asked = _asked(own)._replace(model=self._model(own.get("model")))
        self._options: Options | None = None
        self.fix_on_save = own.get("fixOnSave") is True
        self._told: set[str] = set()

    def of(self, name: str) -> Options:
        """The options for a file; where its settings cannot be used, those without any."""
        try:
            if self._options is None:
                self._options = options(self._asked, Nearest(self._asked))
            return self._options.of(name)
        except InvalidSettingsError as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                self.problems.append(str(error))
            asked = Asked(_refuse, _pass_over)
            return options(asked, Nearest(asked, Settings()))

    def _model(self, named: Json) -> str | None:
        """The model, where it can be read; what else the settings say counts in any case."""
        if not isinstance(named, str) or not named:
            return None
        from dsconfig.check.build_job import asked_model

        try:
            asked_model(named)
        except ValueError as error:
            if sys.platform != "emscripten":  # a browser has no files but those that are open
                self.problems.append(f"model: {error}")
            return None
        return named

    def reload(self) -> None:
        """Read the settings files again when they are next asked for."""
        self._options = None
        self._told.clear()


def _refuse(message: str) -> NoReturn:
    raise InvalidSettingsError(message)


def _pass_over(_: str) -> None:
    """What is only of note has no place in an editor."""


def _asked(own: JsonObject) -> Asked:
    """What the editor's own settings ask for; what is not understood counts as not said."""
    target, size, consumer = own.get("target"), own.get("worldSize"), own.get("consumer")
    return Asked(
        _refuse,
        _pass_over,
        target=target if isinstance(target, str) and target else None,
        world_size=size if type(size) is int and size > 0 else None,
        consumer=consumer if is_known(consumer) else None,
        select=_names(own.get("select")) or None,
        ignore=_names(own.get("ignore")),
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
