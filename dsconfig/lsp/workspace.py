"""What an editor has open, and what was found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.check.check_file import judge
from dsconfig.launch import repository
from dsconfig.lsp.detect_new_config import is_empty
from dsconfig.lsp.document_filter import is_ours
from dsconfig.lsp.editor_settings import Configuration
from dsconfig.lsp.open_documents import OpenText, forget, keep, opened
from dsconfig.lsp.snapshot import Judged
from dsconfig.lsp.uris import real, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsconfig.check.report import Report
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.positions import Encoding


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
        repository.release()

    def reload(self) -> None:
        """Files were changed that may be settings, launch files, or configs that are named."""
        repository.hold()
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
            self._judged[uri] = Judged(text, judge(text.document, options))
        return self._judged[uri]

    def text_of(self, path: str) -> OpenText | None:
        """The open text of the file at a path."""
        return next((text for text in self.texts.values() if real(text.name) == real(path)), None)

    def show(self, title: str, text: str, language: str) -> None:
        """Have the editor show a text: as a document where it can, else as a message."""
        if not self.client.get("window", {}).get("showDocument", {}).get("support"):
            self.say(f"{title}\n\n{text}", INFO)
            return
        from dsconfig.lsp.temporary_documents import scratch

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
    return report.is_held or bool(report.children) or report.foreign is not None


def _named(children: Iterable[Report]) -> set[str]:
    """The real paths of the files that a launch file names, and that those name."""
    return {path for each in children for path in (real(each.name), *_named(each.children))}
