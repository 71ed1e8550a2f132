"""The protocol itself: positions, changes, versions, cancellation, settings, the end."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.blow_ups import NAME, patterns
from tests.lsp.client import COMMAND, PATIENCE, Editor, RefusedError, position
from tests.lsp.conftest import Editors

TYPO = '{"train_batch_size": 8, "$dsconfig": {}, "// 😀": "😀😀", "bf16": {"enabld": true}}'


@pytest.mark.parametrize(
    ("offered", "chosen", "character"),
    [(None, "utf-16", 67), (["utf-16", "utf-8"], "utf-8", 73), (["utf-32"], "utf-32", 64)],
)
def test_positions_count_in_the_units_that_were_agreed(
    editors: Editors, offered: list[str] | None, chosen: str, character: int
) -> None:
    editor = editors({"general": {"positionEncodings": offered}} if offered else {})
    assert editor.can["positionEncoding"] == chosen
    (diagnostic,) = [each for each in editor.open("ds_config.json", TYPO) if each["code"] == "DSC102"]
    assert diagnostic["range"]["start"]["character"] == character


def test_changes_are_taken_one_by_one(editor: Editor) -> None:
    text = '{"train_batch_size": 8,\r\n "// 😀": 1, "bf16": {}}'
    editor.open("ds_config_changes.json", text)

    def change(start: int, end: int, new: str) -> dict[str, object]:
        return {"range": {"start": position(text, start), "end": position(text, end)}, "text": new}

    at = text.index("}")
    editor.change(
        "ds_config_changes.json",
        change(at, at, '"enabld": 1'),
        {"text": text},
        change(at, at, '"enabld": true'),
    )
    assert [each["code"] for each in editor.found("ds_config_changes.json")] == ["DSC102"]
    beyond = {"start": {"line": 1, "character": 999}, "end": {"line": 99, "character": 0}}
    editor.change("ds_config_changes.json", {"range": beyond, "text": "\n"})
    assert [each["code"] for each in editor.found("ds_config_changes.json")] == ["DSC102"]


def test_of_many_changes_in_a_row_the_last_is_judged(editor: Editor) -> None:
    editor.open("ds_config_many.json", "{}")
    before = len(editor.aside)
    for _ in range(200):
        editor.change("ds_config_many.json", {"text": '{"train_batch_size": 8}'})
    assert editor.write("ds_config_many.json", '{"train_batch_size": 8, "bf16": {}}') == []
    uri = editor.uri("ds_config_many.json")
    messages = [each for each in editor.aside[before:] if each.get("params", {}).get("uri") == uri]
    assert len(messages) < 50


def test_a_request_that_is_cancelled_is_not_answered(editor: Editor) -> None:
    editor.open("ds_config_cancel.json", TYPO)
    params = {"textDocument": {"uri": editor.uri("ds_config_cancel.json")}}
    numbers = [editor.ask("textDocument/documentSymbol", params) for _ in range(20)]
    for number in numbers:
        editor.notify("$/cancelRequest", {"id": number})
    outcomes = [outcome(editor, number) for number in numbers]
    assert -32800 in outcomes
    assert set(outcomes) <= {-32800, True}
    editor.notify("$/cancelRequest", {"id": 99_999})
    assert editor.on("documentSymbol", "ds_config_cancel.json")


def outcome(editor: Editor, number: int) -> int | bool:
    try:
        return editor.answer(number) is not None
    except RefusedError as error:
        return error.code


def test_two_documents_at_once(editor: Editor) -> None:
    texts = {
        f"ds_config_{number}.json": f'{{"train_batch_size": 8, "bf16": {{"enabld{number}": true}}}}'
        for number in (1, 2)
    }
    for name, text in texts.items():
        editor.open(name, "{}")
        editor.change(name, {"text": text})
    for number, name in enumerate(texts, 1):
        (diagnostic,) = editor.found(name)
        assert f"`enabld{number}`" in diagnostic["message"]


def test_what_is_not_understood_ends_nothing(editor: Editor) -> None:
    with pytest.raises(RefusedError, match="not supported") as caught:
        editor.request("textDocument/nonsense", {})
    assert caught.value.code == -32601
    with pytest.raises(RefusedError):
        editor.request("textDocument/hover", {"no": "document"})
    editor.notify("textDocument/didChange", {"no": "document"})
    editor.notify("workspace/nonsense", None)
    assert editor.process.stdin is not None
    editor.process.stdin.write(b"Content-Length: 4\r\n\r\n{no}")
    editor.notify("textDocument/didClose", {"textDocument": {"uri": editor.uri("never-opened.json")}})
    assert editor.on("hover", "never-opened.json", position=position("", 0)) is None
    assert [each["code"] for each in editor.open("ds_config_alive.json", TYPO)] == ["DSC102"]


def test_an_editor_that_goes_without_a_word(editors: Editors) -> None:
    editor = editors()
    editor.notify("exit", None)
    assert editor.end() == 1


def test_settings_are_read_again_when_they_change(editors: Editors) -> None:
    editor = editors({"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}})
    editor.wait(lambda message: message.get("method") == "client/registerCapability")
    text = '{"train_batch_size": 8, "amp": {"enabled": true}}'
    assert [each["code"] for each in editor.open("ds_config.json", text)] == ["DSC104"]
    settings = editor.folder / "dsconfig.toml"
    changed = {"changes": [{"uri": editor.uri("dsconfig.toml"), "type": 2}]}
    settings.write_text('target = "0.16.9"\n')
    editor.notify("workspace/didChangeWatchedFiles", changed)
    assert editor.found("ds_config.json") == []
    settings.write_text('target = "nonsense"\n')
    editor.notify("workspace/didChangeWatchedFiles", changed)
    assert (
        "nonsense"
        in editor.wait(lambda each: each.get("method") == "window/showMessage")["params"]["message"]
    )
    assert [each["code"] for each in editor.found("ds_config.json")] == ["DSC104"]
    settings.write_text('ignore = ["DSC104"]\n')
    editor.notify("workspace/didChangeWatchedFiles", changed)
    assert editor.found("ds_config.json") == []


def test_lenses_and_hints_are_asked_for_again_when_settings_change(editors: Editors) -> None:
    capabilities = {"codeLens": {"refreshSupport": True}, "inlayHint": {"refreshSupport": True}}
    editor = editors({"workspace": capabilities})
    editor.open("ds_config.json", '{"train_batch_size": 8}')
    (editor.folder / "dsconfig.toml").write_text("world-size = 4\n")
    changed = {"changes": [{"uri": editor.uri("dsconfig.toml"), "type": 1}]}
    editor.notify("workspace/didChangeWatchedFiles", changed)
    requests = {
        editor.wait(lambda each: str(each.get("method")).endswith("/refresh"))["method"] for _ in capabilities
    }
    assert requests == {"workspace/codeLens/refresh", "workspace/inlayHint/refresh"}


def test_each_folder_has_its_own_settings(editors: Editors) -> None:
    editor = editors()
    text = '{"train_batch_size": 8, "amp": {"enabled": true}}'
    for name, release in (("old", "0.16.9"), ("new", "0.19.8")):
        folder = Path(editor.folder, name)
        (folder / ".git").mkdir(parents=True)
        (folder / "pyproject.toml").write_text(f'[tool.dsconfig]\ntarget = "{release}"\n')
    assert editor.open("old/ds_config.json", text) == []
    assert [each["code"] for each in editor.open("new/ds_config.json", text)] == ["DSC104"]


def test_the_editors_own_settings(editors: Editors) -> None:
    editor = editors(target="0.16.9")
    text = '{"train_batch_size": 8, "amp": {"enabled": true}}'
    assert editor.open("ds_config.json", text) == []
    settings = {"settings": {"dsconfig": {"target": "0.19.8"}}}
    editor.notify("workspace/didChangeConfiguration", settings)
    assert [each["code"] for each in editor.found("ds_config.json")] == ["DSC104"]


def test_a_text_that_was_never_saved(editor: Editor) -> None:
    diagnostics = editor.open("untitled:Untitled-1", TYPO)
    assert [each["code"] for each in diagnostics] == ["DSC102"]


def raw(*messages: dict[str, object], before: bytes = b"") -> tuple[int, list[dict[str, object]]]:
    """The exit code and the messages of a server that gets all this at once."""
    bodies = [json.dumps({"jsonrpc": "2.0", **each}).encode() for each in messages]
    wire = before + b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
    done = subprocess.run(
        [str(COMMAND), "lsp"], input=wire, capture_output=True, check=False, timeout=PATIENCE
    )
    assert not done.stderr
    parts = re.split(rb"Content-Length: \d+\r\n(?:Content-Type: [^\r]+\r\n)?\r\n", done.stdout)[1:]
    return done.returncode, [json.loads(part) for part in parts]


INITIALIZE = {"id": 1, "method": "initialize", "params": {"capabilities": {}}}
HOVER = {"id": 2, "method": "textDocument/hover", "params": {}}
SHUTDOWN, EXIT = {"id": 3, "method": "shutdown"}, {"method": "exit"}


def code_of(messages: list[dict[str, object]], number: int) -> object:
    (answer,) = [each for each in messages if each.get("id") == number]
    return answer["error"]["code"] if "error" in answer else None  # type: ignore[index]


def test_requests_before_initialize_are_refused() -> None:
    code, messages = raw(HOVER, SHUTDOWN, EXIT)
    assert (code, code_of(messages, 2), code_of(messages, 3)) == (1, -32002, -32002)


def test_notifications_before_initialize_are_dropped() -> None:
    document = {"uri": "file:///a/ds_config.json", "version": 1, "languageId": "json", "text": "{"}
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": document}}
    code, messages = raw(opened, INITIALIZE, {"method": "initialized", "params": {}}, SHUTDOWN, EXIT)
    assert code == 0
    assert not [each for each in messages if each.get("method") == "textDocument/publishDiagnostics"]


def test_a_second_initialize_and_requests_after_shutdown_are_invalid() -> None:
    again, late = {**INITIALIZE, "id": 4}, {**HOVER, "id": 5}
    code, messages = raw(INITIALIZE, again, SHUTDOWN, late, {**SHUTDOWN, "id": 6}, EXIT)
    assert code == 0
    assert [code_of(messages, number) for number in (1, 3, 4, 5, 6)] == [None, None, -32600, -32600, -32600]


@pytest.mark.parametrize("messages", [(EXIT,), (INITIALIZE, EXIT)])
def test_exit_without_shutdown_is_an_error(messages: tuple[dict[str, object], ...]) -> None:
    assert raw(*messages)[0] == 1


@pytest.mark.parametrize(
    "length", [b"9" * 5000, b"9" * 12, b"9999999999", b"-1", b"1e3", b"0x10", b"", b"\xb2"]
)
@pytest.mark.parametrize("body", [b"", b'{"jsonrpc": "2.0"}'])
def test_an_impossible_length_leaves_the_next_message_readable(length: bytes, body: bytes) -> None:
    before = b"Content-Length: %s\r\n\r\n%s" % (length, body)
    code, messages = raw(INITIALIZE, SHUTDOWN, EXIT, before=before)
    assert (code, code_of(messages, 1)) == (0, None)


HOSTILE = ("elastic run, list", "dotted words", "sed", "variable", "here-documents", "texts in texts")


def test_exit_ends_a_server_that_reads_hostile_scripts(editors: Editors, tmp_path: Path) -> None:
    """Python hears nothing while `re` is at work: that ends soon, or `exit` is never heard."""
    editor = editors()
    for number, name in enumerate(HOSTILE):
        (tmp_path / str(number) / ".git").mkdir(parents=True)
        for file, text in patterns()[name](30_000).items():
            (tmp_path / str(number) / file).write_text(text)
    for number in range(len(HOSTILE)):
        for file, language in ((NAME, "json"), ("run.sh", "shellscript")):
            path = tmp_path / str(number) / file
            item = {
                "uri": editor.uri(str(path)),
                "languageId": language,
                "version": 1,
                "text": path.read_text(),
            }
            editor.notify("textDocument/didOpen", {"textDocument": item})
        editor.on("documentLink", f"{number}/{NAME}")
    assert editor.quit() == 0
