"""Workspace: open documents, the settings of each, and a snapshot of its diagnostics."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, NoReturn

from dsconfig.check.check import check_with_options, recheck
from dsconfig.check.effective_settings import Options, Overrides, SettingsFinder, working_directory_options
from dsconfig.consumers.consumer_versions import is_consumer_spec
from dsconfig.fix.verify import verify_fixes
from dsconfig.job.settings_file import Settings
from dsconfig.launch import repository
from dsconfig.lsp.document_filter import is_empty, is_ours
from dsconfig.lsp.open_documents import OpenText, forget, keep, opened
from dsconfig.lsp.protocol import real, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.lsp.protocol import Encoding
    from dsconfig.resolve.replaced_values import Value


# What an editor has open, and what was found in it.

ERROR, WARNING, INFO = 1, 2, 3
"""Kinds of messages."""


class Workspace:
    """The open texts, by their URIs; each version of one is judged at most once."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self.client: JsonObject = {}
        """The capabilities of the editor."""
        self.options: JsonObject = {}
        """What the editor says at the start, beside the protocol."""
        self.configuration = Configuration({})
        self.texts: dict[str, OpenText] = {}
        self.stale: dict[str, None] = {}
        """URIs of texts of which the editor does not know yet what was found."""
        self.outbox: list[JsonObject] = []
        """What the editor is to be told, or asked, beside answers and findings."""
        self.closed: list[str] = []
        """URIs of texts that were closed, of which nothing is to be shown any more."""
        self.unasked = False
        """Whether something was found anew in a text that did not change."""
        self._judged: dict[str, Judged] = {}
        self._asked = 0
        self._ours: set[str] = set()
        """Texts that were configs once: one that is being rewritten still is."""

    def open(self, item: JsonObject) -> None:
        """A text is open from now on."""
        self._put(opened(item, self.encoding))

    def change(self, uri: str, version: int | None, changes: list[JsonObject]) -> None:
        """A text was changed; one that is not open is nobody's business."""
        if (text := self.texts.get(uri)) is not None:
            self._put(text.changed(version, changes))

    def close(self, uri: str) -> None:
        """A text is not open any more: what is on disk counts for those that it has to do with."""
        if (text := self.texts.get(uri)) is None:
            return
        self._touch(text)
        forget(uri)
        self._ours.discard(uri)
        del self.texts[uri]
        self._judged.pop(uri, None)
        self.stale.pop(uri, None)
        self.closed.append(uri)

    def clear(self) -> None:
        """The editor goes: nothing is open, and what is on disk counts."""
        for uri in list(self.texts):
            self.close(uri)
        self.closed.clear()
        repository.stop_watching()

    def reload(self) -> None:
        """Files were changed that may be settings, launch files, or configs that are named."""
        repository.invalidate()
        self.configuration.reload()
        self._judged.clear()
        self.stale.update(dict.fromkeys(self.texts))
        self.unasked = True

    def configure(self, own: JsonObject) -> None:
        """The editor's own settings are these from now on."""
        self.configuration = Configuration(own)
        self.reload()

    def judged(self, uri: str) -> Judged | None:
        """What is found in an open text as it is now; None where it is not open, or none of our business."""
        text = self.texts.get(uri)
        return self._judge(text) if text is not None and self._is_ours(text) else None

    def begun(self, uri: str) -> Judged | None:
        """The same, and of a text, too, that has hardly begun: what may be typed into it is known already."""
        text = self.texts.get(uri)
        return self._judge(text) if text is not None and (self._is_ours(text) or is_empty(text)) else None

    def _judge(self, text: OpenText) -> Judged | None:
        uri = text.uri
        if uri not in self._judged:
            options = self.configuration.of(text.name)
            if options.excludes(text.name):
                return None
            self._judged[uri] = Judged(text, check_with_options(text.document, options))
        return self._judged[uri]

    def text_of(self, path: str) -> OpenText | None:
        """The open text of the file at a path."""
        return next((text for text in self.texts.values() if real(text.name) == real(path)), None)

    def show(self, title: str, text: str, language: str) -> None:
        """Have the editor show a text: as a document where it can, else as a message."""
        if not self.client.get("window", {}).get("showDocument", {}).get("support"):
            self.say(f"{title}\n\n{text}", INFO)
            return

        uri = uri_of(scratch(title, text, language))
        self.ask("window/showDocument", {"uri": uri, "takeFocus": True})

    def say(self, text: str, kind: int) -> None:
        """Show a message in the editor, without links: VS Code makes one of `[text](command:...)`."""
        params = {"type": kind, "message": text.replace("](", "] (")}
        self.outbox.append({"jsonrpc": "2.0", "method": "window/showMessage", "params": params})

    def ask(self, method: str, params: JsonObject) -> None:
        """Ask the editor for something; what it answers is not waited for."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": f"dsconfig-{self._asked}", "method": method, "params": params}
        self.outbox.append(message)

    def _put(self, text: OpenText) -> None:
        self.texts[text.uri] = text
        keep(text)
        self._touch(text)

    def _touch(self, text: OpenText) -> None:
        """Forget what was found in a text, and in those that it has to do with."""
        before = self._judged.pop(text.uri, None)
        self.stale.pop(text.uri, None)
        self.stale[text.uri] = None
        leads = before is None or _leads(before.report)
        for uri, other in list(self._judged.items()):
            if leads or real(text.name) in _named(other.report.children):
                del self._judged[uri]
                self.stale[uri] = None
                self.unasked = True

    def _is_ours(self, text: OpenText) -> bool:
        if text.uri not in self._ours and is_ours(text):
            self._ours.add(text.uri)
        return text.uri in self._ours


def _leads(report: Report) -> bool:
    """Whether a text is a launch file: what others name it, or are named by it, may depend on it."""
    return report.is_embedded or bool(report.children) or report.why_not_config is not None


def _named(children: Iterable[Report]) -> set[str]:
    """The real paths of the files that a launch file names, and that those name."""
    return {path for each in children for path in (real(each.name), *_named(each.children))}


# What was found in one version of a text, and where that is for an editor.

_USUAL = 8


class Judged:
    """A text, and the report of it. Its fixes are tried when they are asked for: that is what costs."""

    def __init__(self, text: OpenText, report: Report) -> None:
        self.text, self.report = text, report
        self.values: Mapping[str, Value] | None = None
        """The effective values, once they were asked for."""
        self._proven: dict[int, Diagnostic] = {}

    @property
    def world_size(self) -> int | None:
        """That of the job; None where it is not known."""
        return self.report.world_size or self.report.reader.processes

    @property
    def likely_world_size(self) -> int:
        """The same; else one at which the batch works, of a host's eight GPUs if that can be."""
        sizes = self.report.sizes
        if self.world_size is not None:
            return self.world_size
        if not sizes or _USUAL in sizes:
            return _USUAL
        return max((size for size in sizes if size <= _USUAL), default=sizes[0])

    @cached_property
    def model(self) -> str | None:
        """The model of the job, by its path or name, if somebody names it: memory is told of no other."""
        known = self.report.reader.facts.model
        if known is not None and isinstance(known.named, str):
            return None if known.is_outside else known.named
        from dsconfig.resolve.launch_overrides import launch_settings

        try:
            return launch_settings(self.text.document, self.report.reader).model
        except (OSError, ValueError):
            return None

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Where each finding stands, in code points."""
        return [
            (0, min(1, len(self.text.text))) if found.location is None else found.location[:2]
            for found in self.report
        ]

    def between(self, start: int, end: int) -> list[int]:
        """The numbers of the findings that touch a stretch of the text."""
        return [number for number, at in enumerate(self.places) if at[0] <= end and start <= at[1]]

    def proven(self, numbers: Sequence[int]) -> list[Diagnostic]:
        """These findings, with the fixes that were tried and do no harm."""
        left = [number for number in numbers if number not in self._proven]
        if left:
            wanted = [self.report[number] for number in left]
            shown = verify_fixes(self.report, partial(recheck, self.report), wanted)
            self._proven.update(zip(left, shown, strict=True))
        return [self._proven[number] for number in numbers]


# What is in force for the files of an editor: its own settings, then those of each file's folder.


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
                self._options = working_directory_options(self._asked, SettingsFinder(self._asked))
            return self._options.of(name)
        except InvalidSettingsError as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                self.problems.append(str(error))
            asked = Overrides(_refuse, _pass_over)
            return working_directory_options(asked, SettingsFinder(asked, Settings()))

    def _model(self, named: Json) -> str | None:
        """The model, where it can be read; what else the settings say counts in any case."""
        if not isinstance(named, str) or not named:
            return None
        from dsconfig.check.build_job import require_model

        try:
            require_model(named)
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


def _asked(own: JsonObject) -> Overrides:
    """What the editor's own settings ask for; what is not understood counts as not said."""
    target, size, consumer = own.get("target"), own.get("worldSize"), own.get("consumer")
    return Overrides(
        _refuse,
        _pass_over,
        target=target if isinstance(target, str) and target else None,
        world_size=size if type(size) is int and size > 0 else None,
        consumer=consumer if is_consumer_spec(consumer) else None,
        select=_names(own.get("select")) or None,
        ignore=_names(own.get("ignore")),
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


# Texts that an editor is to show, as files of the system's folder for what is temporary.

_ENDS = {"jsonc": ".jsonc", "json": ".json", "yaml": ".yaml"}


def scratch(title: str, text: str, language: str) -> str:
    """Write a text; returns its path. A later text of the same title takes its place."""
    name = re.sub(r"[^\w.-]+", "-", title).strip("-") + _ENDS.get(language, ".txt")
    path = os.path.join(_folder(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="dsconfig-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
