"""What a worker runs: the verbs of the command and the language server, on files in the worker's own memory.

Messages are JSON-RPC, as text. Beside those of the Language Server Protocol there is one of ours,
`dsconfig/run`, which runs the command: `{"arguments": ["check", "-"], "stdin": "…", "folder": "/project"}`
gives `{"code": 1, "stdout": "…", "stderr": "…"}`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.lsp.protocol import INTERNAL
from dsconfig.lsp.service import Service, error_response, respond

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUN = "dsconfig/run"
_TYPICAL = """{
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": { "stage": 3, "cpu_offload": true, "reduce_bucket_sise": 5e8 },
  "fp16": { "enabled": true }
}
"""
_service = Service()


def answer(message: str) -> str:
    """The response to a request."""
    data = json.loads(message)
    method, params = data["method"], data.get("params")
    if method != _RUN:
        return json.dumps(respond(_service, data["id"], method, params))
    try:
        return json.dumps({"jsonrpc": "2.0", "id": data["id"], "result": run(**params)})
    except Exception as error:
        return json.dumps(error_response(data["id"], INTERNAL, f"{type(error).__name__}: {error}"))


def take(message: str) -> None:
    """Take notice of something."""
    data = json.loads(message)
    _service.handle_notification(data["method"], data.get("params"))


def pending() -> str | None:
    """The next message that nobody asked for, once nothing else is to be done; None: all is said."""
    message = next(_service.pending(), None)
    return None if message is None else json.dumps(message)


def warm() -> None:
    """Do once what a page asks for first, so that all of it has been imported."""
    service, document = Service(), {"uri": "file:///warm/ds_config.json"}
    opened = document | {"languageId": "deepspeed-json", "version": 1, "text": _TYPICAL}
    place = {"line": 1, "character": 3}
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    service.request("initialize", {"capabilities": {"textDocument": {"diagnostic": {}}}})
    service.handle_notification("textDocument/didOpen", {"textDocument": opened})
    service.request("textDocument/diagnostic", {"textDocument": document})
    context = {"diagnostics": [], "only": ["quickfix"]}
    service.request("textDocument/codeAction", {"textDocument": document, "range": span, "context": context})
    for feature in ("hover", "completion"):
        service.request(f"textDocument/{feature}", {"textDocument": document, "position": place})
    list(service.pending())
    service.request("shutdown", None)
    for verb in (
        ["show"],
        ["resolve", "--world-size", "8"],
        ["memory", "--model", "gpt2", "--world-size", "8"],
    ):
        run([*verb, "-"], _TYPICAL)
    gc.collect()


def run(arguments: Sequence[str], stdin: str = "", folder: str = "/") -> dict[str, object]:
    """Run the command in this process, in a folder; returns its exit code and what it wrote."""
    from dsconfig.cli import main

    kept = sys.stdin, sys.stdout, sys.stderr
    streams = [
        io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogatepass", newline="")
        for data in (stdin.encode("utf-8", "surrogatepass"), b"", b"")
    ]
    sys.stdin, sys.stdout, sys.stderr = streams
    os.chdir(folder)
    try:
        code = main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
    written = [_written(stream) for stream in streams[1:]]
    return {"code": code, "stdout": written[0], "stderr": written[1]}


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
