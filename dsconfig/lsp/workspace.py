"""The workspace of an editor: open documents, their settings, and snapshots of their diagnostics."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import sys
import tempfile
from difflib import SequenceMatcher
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from dsconfig.check.check import check_with_options, recheck_text
from dsconfig.check.effective_settings import (
    CommandLineOverrides,
    EffectiveOptions,
    SettingsFinder,
    working_directory_options,
)
from dsconfig.document.config_file_names import PYTHON
from dsconfig.document.text_edit import TextEdit
from dsconfig.fix.verify_fixes import verify_fixes
from dsconfig.job.consumers.consumer_versions import is_consumer_spec, unknown_version_note
from dsconfig.job.settings_file import SettingsFile
from dsconfig.launch import repository_files
from dsconfig.launch.python.config_dicts import find_python_configs
from dsconfig.lsp.open_documents import OpenDocument, open_document_from_item, remove_overlay, set_overlay
from dsconfig.lsp.protocol import canonical_path, uri_from_path
from dsconfig.lsp.relevant_documents import is_document_relevant, is_draft_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document, TreeNode
    from dsconfig.lsp.open_documents import OpenDocument
    from dsconfig.lsp.protocol import Encoding
    from dsconfig.resolve.values_replaced_by_deepspeed import EffectiveValue


# Open documents.

ERROR, WARNING, INFO = 1, 2, 3
"""Message types of the protocol."""


class Workspace:
    """The open documents of an editor by URI; each version is checked at most once."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self.client: JsonObject = {}
        """Capabilities of the editor."""
        self.options: JsonObject = {}
        """Initialization options of the editor."""
        self.configuration = WorkspaceOptions({})
        self.texts: dict[str, OpenDocument] = {}
        self.stale: dict[str, None] = {}
        """URIs of documents whose diagnostics the editor does not have yet."""
        self.outbox: list[JsonObject] = []
        """Messages and requests for the editor, other than responses and diagnostics."""
        self.closed: list[str] = []
        """URIs of closed documents whose diagnostics have to be cleared."""
        self.needs_refresh = False
        """Whether the diagnostics of a document have changed although its text has not."""
        self._snapshots: dict[str, DocumentSnapshot] = {}
        self._programs: dict[str, list[DocumentSnapshot]] = {}
        """Snapshots of the configs in Python sources."""
        self._request_count = 0
        self._relevant: set[str] = set()
        """URIs of documents that were configs once, and are treated as configs while they are edited."""
        self._unknown_versions: set[str] = set()
        """Notes on unknown versions of consumers that were shown, each once."""

    def open_document(self, item: JsonObject) -> None:
        """Add a document that the editor has opened."""
        self._store_document(open_document_from_item(item, self.encoding))

    def change_document(self, uri: str, version: int | None, changes: list[JsonObject]) -> None:
        """Apply changes to a document, ignoring unknown documents."""
        if (text := self.texts.get(uri)) is not None:
            self._store_document(text.apply_changes(version, changes))

    def close_document(self, uri: str) -> None:
        """Remove a closed document, so that the file on disk applies again."""
        if (text := self.texts.get(uri)) is None:
            return
        self._drop_snapshots(text)
        remove_overlay(uri)
        self._relevant.discard(uri)
        del self.texts[uri]
        self._snapshots.pop(uri, None)
        self.stale.pop(uri, None)
        self.closed.append(uri)

    def close_all_documents(self) -> None:
        """Close all documents."""
        for uri in list(self.texts):
            self.close_document(uri)
        self.closed.clear()
        repository_files.stop_watching_files()

    def recheck_all_documents(self) -> None:
        """Discard all results after settings, launch files or configs on disk have changed."""
        repository_files.invalidate_cache()
        self.configuration.reload_settings()
        self._snapshots.clear()
        self._programs.clear()
        self.stale.update(dict.fromkeys(self.texts))
        self.needs_refresh = True

    def apply_settings(self, settings: JsonObject) -> None:
        """Apply the editor's settings."""
        self.configuration = WorkspaceOptions(settings)
        self.recheck_all_documents()

    def snapshot(self, uri: str) -> DocumentSnapshot | None:
        """Return the snapshot of an open document, or None if it is not open or not a config."""
        text = self.texts.get(uri)
        if text is None or is_python_document(text):
            return None
        return self._check_document(text) if self._is_relevant(text) else None

    def snapshots(self, uri: str) -> list[DocumentSnapshot]:
        """Return the snapshots of all configs in an open document."""
        text = self.texts.get(uri)
        if text is not None and is_python_document(text):
            return self._program_snapshots(text)
        snapshot = self.snapshot(uri)
        return [] if snapshot is None else [snapshot]

    def snapshot_at(self, uri: str, position: JsonObject) -> DocumentSnapshot | None:
        """Return the snapshot of the config at a position."""
        snapshots = self.snapshots(uri)
        text = self.texts.get(uri)
        if text is None or not is_python_document(text):
            return snapshots[0] if snapshots else None
        offset = text.lines.offset_of(position)
        around = [each for each in snapshots if _contains_offset(each.text.document.root, offset)]
        # The innermost config: a call may contain another one.
        return min(around, key=lambda each: _root_length(each.text.document.root), default=None)

    def _program_snapshots(self, text: OpenDocument) -> list[DocumentSnapshot]:
        if text.uri not in self._programs:
            options = self.configuration.options_for_file(text.name)
            documents = (
                [] if options.is_path_excluded(text.name) else configs_in_document(text, self.texts.values())
            )
            self._programs[text.uri] = [self.program_snapshot(text, each) for each in documents]
        return self._programs[text.uri]

    def program_snapshot(self, text: OpenDocument, document: Document) -> DocumentSnapshot:
        """Return the snapshot of one config in a program."""
        report = check_with_options(document, self.configuration.options_for_file(text.name))
        self._show_unknown_versions(report)
        return DocumentSnapshot(text.as_config(document), report)

    def draft_snapshot(self, uri: str) -> DocumentSnapshot | None:
        """Return the snapshot of an open document, even if it is a new config with at most one key."""
        text = self.texts.get(uri)
        return (
            self._check_document(text)
            if text is not None and (self._is_relevant(text) or is_draft_config(text))
            else None
        )

    def _check_document(self, text: OpenDocument) -> DocumentSnapshot | None:
        uri = text.uri
        if uri not in self._snapshots:
            options = self.configuration.options_for_file(text.name)
            if options.is_path_excluded(text.name):
                return None
            report = check_with_options(text.document, options)
            self._show_unknown_versions(report)
            self._snapshots[uri] = DocumentSnapshot(text, report)
        return self._snapshots[uri]

    def _show_unknown_versions(self, report: Report) -> None:
        """Show once which version dsconfig uses instead of one that it does not know, such as `transformers==99`."""
        note = unknown_version_note(report.reader.name, report.reader.version)
        if note is not None and note not in self._unknown_versions:
            self._unknown_versions.add(note)
            self.show_message(f"dsconfig: {note}", INFO)
        for child in report.children:
            self._show_unknown_versions(child)

    def open_document_at(self, path: str) -> OpenDocument | None:
        """Return the open document for the file at a path, or None."""
        return next(
            (text for text in self.texts.values() if canonical_path(text.name) == canonical_path(path)), None
        )

    def show_text(self, title: str, text: str, language: str) -> None:
        """Show a text in the editor, as a document if supported, otherwise as a message."""
        if not self.client.get("window", {}).get("showDocument", {}).get("support"):
            self.show_message(f"{title}\n\n{text}", INFO)
            return
        uri = uri_from_path(write_scratch_file(title, text, language))
        self.send_request("window/showDocument", {"uri": uri, "takeFocus": True})

    def show_message(self, text: str, kind: int) -> None:
        """Show a message in the editor without links, because VS Code renders `[text](command:...)` as one."""
        params = {"type": kind, "message": text.replace("](", "] (")}
        self.outbox.append({"jsonrpc": "2.0", "method": "window/showMessage", "params": params})

    def send_request(self, method: str, params: JsonObject) -> None:
        """Send the editor a request whose response is ignored."""
        self._request_count += 1
        message = {
            "jsonrpc": "2.0",
            "id": f"dsconfig-{self._request_count}",
            "method": method,
            "params": params,
        }
        self.outbox.append(message)

    def _store_document(self, text: OpenDocument) -> None:
        self.texts[text.uri] = text
        set_overlay(text)
        self._drop_snapshots(text)

    def _drop_snapshots(self, text: OpenDocument) -> None:
        """Discard the snapshots of a document and of documents that depend on it."""
        # A program may change the configs of any other.
        self.stale.update(dict.fromkeys(self._programs))
        self._programs.clear()
        previous = self._snapshots.pop(text.uri, None)
        self.stale.pop(text.uri, None)
        self.stale[text.uri] = None
        may_affect_others = previous is None or _may_affect_others(previous.report)
        for uri, other in list(self._snapshots.items()):
            if may_affect_others or canonical_path(text.name) in _linked_paths(other.report.children):
                del self._snapshots[uri]
                self.stale[uri] = None
                self.needs_refresh = True

    def _is_relevant(self, text: OpenDocument) -> bool:
        if text.uri not in self._relevant and is_document_relevant(text):
            self._relevant.add(text.uri)
        return text.uri in self._relevant


def _may_affect_others(report: Report) -> bool:
    """Return whether a document is a launch file, whose jobs affect the configs that they use."""
    return report.is_embedded or bool(report.children) or report.why_not_config is not None


def _linked_paths(children: Iterable[Report]) -> set[str]:
    """Return the canonical paths of all files that a launch file names, directly or indirectly."""
    return {path for each in children for path in (canonical_path(each.name), *_linked_paths(each.children))}


# Snapshots.

_GPUS_PER_NODE = 8


class DocumentSnapshot:
    """A version of a document and its report; fixes are verified only on request, because that is slow."""

    def __init__(self, text: OpenDocument, report: Report) -> None:
        self.text, self.report = text, report
        self.values: Mapping[str, EffectiveValue] | None = None
        """Effective values, once they have been requested."""
        self._verified: dict[int, Diagnostic] = {}

    @property
    def world_size(self) -> int | None:
        """The job's world size, or None if unknown."""
        return self.report.world_size or self.report.reader.processes

    @property
    def likely_world_size(self) -> int:
        """The job's world size; if unknown, one for which the batch is valid, preferably 8."""
        sizes = self.report.sizes
        if self.world_size is not None:
            return self.world_size
        if not sizes or _GPUS_PER_NODE in sizes:
            return _GPUS_PER_NODE
        return max((size for size in sizes if size <= _GPUS_PER_NODE), default=sizes[0])

    @cached_property
    def job_model(self) -> str | None:
        """Path or name of the job's model, or None if unknown."""
        fact = self.report.reader.facts.model
        if fact is not None and isinstance(fact.named, str):
            return None if fact.is_outside else fact.named
        from dsconfig.resolve.launch_settings import launch_settings

        try:
            return launch_settings(self.text.document, self.report.reader).model
        except (OSError, ValueError):
            return None

    @cached_property
    def diagnostic_spans(self) -> list[tuple[int, int]]:
        """The start and end offset of each diagnostic, in code points."""
        return [
            (0, min(1, len(self.text.text))) if diagnostic.location is None else diagnostic.location[:2]
            for diagnostic in self.report
        ]

    def diagnostics_between(self, start: int, end: int) -> list[int]:
        """Return the indices of the diagnostics that overlap or touch a range."""
        return [
            number for number, span in enumerate(self.diagnostic_spans) if span[0] <= end and start <= span[1]
        ]

    def verified_diagnostics(self, numbers: Sequence[int]) -> list[Diagnostic]:
        """Return the diagnostics with these indices, keeping only fixes that pass verification."""
        missing = [number for number in numbers if number not in self._verified]
        if missing:
            diagnostics = [self.report[number] for number in missing]
            verified_diagnostics = verify_fixes(
                self.report, partial(recheck_text, self.report, is_located=False), diagnostics
            )
            self._verified.update(zip(missing, verified_diagnostics, strict=True))
        return [self._verified[number] for number in numbers]


# Settings of the editor, and of the directory of each file.


class InvalidSettingsError(ValueError):
    """The settings are invalid; the message is a single line."""


class WorkspaceOptions:
    """The options of each file, cached until a settings file changes."""

    def __init__(self, settings: JsonObject) -> None:
        self.problems: list[str] = []
        """Errors in settings, each reported once."""
        self._requested = _options_from_editor(settings)._replace(
            model=self._readable_model(settings.get("model"))
        )
        self._options: EffectiveOptions | None = None
        self.fix_on_save = settings.get("fixOnSave") is True
        self._reported: set[str] = set()

    def options_for_file(self, name: str) -> EffectiveOptions:
        """Return the options for a file; an invalid settings file is ignored."""
        try:
            if self._options is None:
                self._options = working_directory_options(self._requested, SettingsFinder(self._requested))
            return self._options.options_of_file(name)
        except InvalidSettingsError as error:
            if str(error) not in self._reported:
                self._reported.add(str(error))
                self.problems.append(str(error))
            defaults = CommandLineOverrides(_raise_invalid, _ignore_note)
            return working_directory_options(defaults, SettingsFinder(defaults, SettingsFile()))

    def _readable_model(self, model: Json) -> str | None:
        """Return the model from the editor's settings if it can be read, else None."""
        if not isinstance(model, str) or not model:
            return None
        from dsconfig.check.build_job import require_model

        try:
            require_model(model)
        except ValueError as error:
            if sys.platform != "emscripten":  # a browser only has the open files
                self.problems.append(f"model: {error}")
            return None
        return model

    def reload_settings(self) -> None:
        """Discard cached settings, so that the files are read again."""
        self._options = None
        self._reported.clear()


def _raise_invalid(message: str) -> NoReturn:
    raise InvalidSettingsError(message)


def _ignore_note(_: str) -> None:
    """Ignore a note, because an editor has no place to show it."""


def _options_from_editor(settings: JsonObject) -> CommandLineOverrides:
    """Return the options from the editor's settings, ignoring invalid values."""
    target, size, consumer = settings.get("target"), settings.get("worldSize"), settings.get("consumer")
    return CommandLineOverrides(
        _raise_invalid,
        _ignore_note,
        target=target if isinstance(target, str) and target else None,
        world_size=size if type(size) is int and size > 0 else None,
        consumer=consumer if is_consumer_spec(consumer) else None,
        select=_parse_rule_names(settings.get("select")) or None,
        ignore=_parse_rule_names(settings.get("ignore")),
    )


def _parse_rule_names(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


# Texts to show in an editor, as temporary files.

_ENDS = {"jsonc": ".jsonc", "json": ".json", "yaml": ".yaml"}


def write_scratch_file(title: str, text: str, language: str) -> str:
    """Write a text to a file named after a title, and return its path."""
    name = re.sub(r"[^\w.-]+", "-", title).strip("-") + _ENDS.get(language, ".txt")
    path = os.path.join(_scratch_folder(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@cache
def _scratch_folder() -> str:
    folder = tempfile.mkdtemp(prefix="dsconfig-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# Text edits in LSP format.


def to_text_edits(text: OpenDocument, edits: Iterable[tuple[int, int, str]]) -> list[JsonObject]:
    """Convert edits of an open document to LSP format."""
    return [{"range": text.lines.range_between(start, end), "newText": new} for start, end, new in edits]


def to_workspace_edit(
    workspace: Workspace, text: OpenDocument, edits: Iterable[tuple[int, int, str]]
) -> JsonObject:
    """Return a workspace edit for a document, tied to its version if the editor supports that."""
    changes = to_text_edits(text, edits)
    capability = workspace.client.get("workspace", {}).get("workspaceEdit", {})
    if capability.get("documentChanges"):
        document = {"uri": text.uri, "version": text.version}
        return {"documentChanges": [{"textDocument": document, "edits": changes}]}
    return {"changes": {text.uri: changes}}


def line_by_line_edits(old: str, new: str) -> list[TextEdit]:
    """Return the line edits between two texts, so that cursors and folds in unchanged lines are kept."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        TextEdit(starts[first], starts[last], "".join(after[start:end]))
        for tag, first, last, start, end in opcodes
        if tag != "equal"
    ]


# Configs in open Python sources and notebook cells, each of which may contain several.

_CELL_SCHEME = "vscode-notebook-cell"
"""URI scheme of the cells of an open notebook, which editors send as separate documents."""


_MENTIONS = re.compile(
    r"(?i)deepspeed|zero_optimization|train_(?:micro_)?batch|gradient_acc|\bds_?\w*(?:config|cfg)"
)
"""Words of which every Python source with a config contains one, to skip the many others that an editor opens."""


def _contains_offset(root: TreeNode | None, offset: int) -> bool:
    """Return whether an offset is in a config of a program, or at a key or value that it gets elsewhere."""
    if root is None:
        return False
    spans = (root.span, *(span for each in root.members for span in (each.key_span, each.node.span)))
    return any(start <= offset <= end for start, end in spans)


def _root_length(root: TreeNode | None) -> int:
    return 0 if root is None else root.span.end - root.span.start


def is_python_document(text: OpenDocument) -> bool:
    """Return whether a document is a Python source or a Python cell of a notebook."""
    return text.language == "python" or text.name.lower().endswith(PYTHON)


def configs_in_document(
    text: OpenDocument, texts: Iterable[OpenDocument], source: str | None = None
) -> list[Document]:
    """Return the configs in a program; for a notebook cell, the program consists of all open cells.

    `source` is a text to use instead of the one in the editor.
    """
    source = text.text if source is None else source
    if not _MENTIONS.search(source):
        return []
    notebook = _notebook_of_cell(text)
    if notebook is None:
        return [each.document for each in find_python_configs(source, text.name)]
    cells = [each for each in texts if _notebook_of_cell(each) == notebook and is_python_document(each)]
    data = [{"cell_type": "code", "source": source if each.uri == text.uri else each.text} for each in cells]
    number = next(index for index, each in enumerate(cells, 1) if each.uri == text.uri)
    configs = find_python_configs(json.dumps({"cells": data}), notebook)
    return [each.document for each in configs if each.document.cell and each.document.cell.number == number]


def _notebook_of_cell(text: OpenDocument) -> str | None:
    """Return the path to the notebook to which a cell belongs, or None for other documents."""
    parts = urlsplit(text.uri)
    return unquote(parts.path) if parts.scheme == _CELL_SCHEME else None
