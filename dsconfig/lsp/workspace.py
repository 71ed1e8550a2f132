"""What an editor has open, and what was found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.checking.check import check_document
from dsconfig.checking.circumstances import circumstances
from dsconfig.lsp.judged import Judged
from dsconfig.lsp.texts import OpenText, forget, keep, opened

if TYPE_CHECKING:
    from dsconfig.json_types import JsonObject
    from dsconfig.lsp.positions import Encoding


class Workspace:
    """The open texts, by their URIs; each version of one is judged at most once."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self.client: JsonObject = {}
        """The capabilities of the editor."""
        self.options: JsonObject = {}
        """What the editor says at the start, beside the protocol."""
        self.texts: dict[str, OpenText] = {}
        self.stale: dict[str, None] = {}
        """URIs of texts of which the editor does not know yet what was found."""
        self._judged: dict[str, Judged] = {}

    def open(self, item: JsonObject) -> None:
        """A text is open from now on."""
        self._put(opened(item, self.encoding))

    def change(self, uri: str, version: int | None, changes: list[JsonObject]) -> None:
        """A text was changed; one that is not open is nobody's business."""
        if (text := self.texts.get(uri)) is not None:
            self._put(text.changed(version, changes))

    def _put(self, text: OpenText) -> None:
        self.texts[text.uri] = text
        keep(text)
        self._forget(text.uri)

    def close(self, uri: str) -> None:
        """A text is not open any more."""
        forget(uri)
        self.texts.pop(uri, None)
        self._judged.pop(uri, None)
        self.stale.pop(uri, None)

    def _forget(self, uri: str) -> None:
        self._judged.pop(uri, None)
        self.stale[uri] = None

    def judged(self, uri: str) -> Judged | None:
        """What is found in an open text as it is now; None where it is not open."""
        text = self.texts.get(uri)
        if text is None:
            return None
        if uri not in self._judged:
            under = circumstances(text.document)
            report = check_document(
                text.document, under.target, world_size=under.world_size, consumer=under.reader
            )
            self._judged[uri] = Judged(text, report)
        return self._judged[uri]
