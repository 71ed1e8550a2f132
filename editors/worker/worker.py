"""What a worker runs: the verbs of the command and the language server, on files in the worker's own memory.

Messages are JSON-RPC, as text. Beside those of the Language Server Protocol there is one of ours,
`dsconfig/run`, which runs the command: `{"arguments": ["check", "-"], "stdin": "…", "folder": "/work"}`
gives `{"code": 1, "stdout": "…", "stderr": "…"}`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = "dsconfig/run"
FAILED = -32603


def answer(message: str) -> str:
    """Take in a message; returns a list of those to send."""
    data = json.loads(message)
    number = {"jsonrpc": "2.0", "id": data.get("id")}
    try:
        return json.dumps([{**number, "result": run(**data["params"])}])
    except Exception as error:
        told = {"code": FAILED, "message": f"{type(error).__name__}: {error}"}
        return json.dumps([{**number, "error": told}])


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
