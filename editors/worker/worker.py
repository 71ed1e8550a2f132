"""Commands of dsconfig and the language server, on files in the worker's memory.

Messages are JSON-RPC, as text. In addition to the Language Server Protocol, `dsconfig/run` runs the command line:
`{"arguments": ["check", "-"], "stdin": "…", "folder": "/project"}`
gives `{"code": 1, "stdout": "…", "stderr": "…"}`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.lsp.language_server import LanguageServer, error_response, response_to_request
from dsconfig.lsp.protocol import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUN = "dsconfig/run"
_TYPICAL = """{
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": { "stage": 3, "cpu_offload": true, "reduce_bucket_sise": 5e8 },
  "fp16": { "enabled": true }
}
"""
_service = LanguageServer()


def answer(message: str) -> str:
    """Response to a request."""
    data = json.loads(message)
    method, params = data["method"], data.get("params")
    if method != _RUN:
        return json.dumps(response_to_request(_service, data["id"], method, params))
    try:
        return json.dumps({"jsonrpc": "2.0", "id": data["id"], "result": run(**params)})
    except Exception as error:
        return json.dumps(error_response(data["id"], INTERNAL, f"{type(error).__name__}: {error}"))


def take(message: str) -> None:
    """Handle a notification."""
    data = json.loads(message)
    _service.handle_notification(data["method"], data.get("params"))


def pending() -> str | None:
    """Next message of the server, once nothing else is to be done; None if there is none."""
    message = next(_service.pending_messages(), None)
    return None if message is None else json.dumps(message)


def warm() -> None:
    """Use the features that a page uses first, so that their modules are imported."""
    service, document = LanguageServer(), {"uri": "file:///warm/ds_config.json"}
    item = document | {"languageId": "deepspeed-json", "version": 1, "text": _TYPICAL}
    position = {"line": 1, "character": 3}
    range_ = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    service.handle_request("initialize", {"capabilities": {"textDocument": {"diagnostic": {}}}})
    service.handle_notification("textDocument/didOpen", {"textDocument": item})
    service.handle_request("textDocument/diagnostic", {"textDocument": document})
    context = {"diagnostics": [], "only": ["quickfix"]}
    service.handle_request(
        "textDocument/codeAction", {"textDocument": document, "range": range_, "context": context}
    )
    for feature in ("hover", "completion"):
        service.handle_request(f"textDocument/{feature}", {"textDocument": document, "position": position})
    list(service.pending_messages())
    service.handle_request("shutdown", None)
    for command in (
        ["show"],
        ["resolve", "--world-size", "8"],
        ["memory", "--model", "gpt2", "--world-size", "8"],
    ):
        run([*command, "-"], _TYPICAL)
    gc.collect()


def run(arguments: Sequence[str], stdin: str = "", folder: str = "/") -> dict[str, object]:
    """Run the command line in this process and directory; return its exit code and output."""
    from dsconfig.cli import main

    streams_before = sys.stdin, sys.stdout, sys.stderr
    streams = [
        io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogatepass", newline="")
        for data in (stdin.encode("utf-8", "surrogatepass"), b"", b"")
    ]
    sys.stdin, sys.stdout, sys.stderr = streams
    os.chdir(folder)
    try:
        code = main(list(arguments))
    except SystemExit as exit_:
        code = exit_.code
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams_before
    output = [_output(stream) for stream in streams[1:]]
    return {"code": code, "stdout": output[0], "stderr": output[1]}


def _output(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
