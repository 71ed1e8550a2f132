"""The real language services, in one node process that answers line by line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsconfig.schema import schema_files
from tests.source import ROOT

HERE = Path(__file__).parent
NODE = shutil.which("node")
INSTALL = "npm ci --prefix tests/editors"


class Services:
    """Asks the services; `schema` is the name of a kept file, or a path."""

    def __init__(self) -> None:
        assert NODE is not None
        self._process = subprocess.Popen(
            [NODE, str(HERE / "services.js")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, ask: str, schema: str, **job: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        path = schema if schema.startswith("/") else str(schema_files.schema_folder() / schema)
        self._process.stdin.write(json.dumps({"ask": ask, "schema": path, **job}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "node ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["found"]

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(10)


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    if NODE is None:
        pytest.skip("node is missing: the editors' language services run on it")
    if not (HERE / "node_modules").is_dir():
        pytest.skip(f"the language services are not installed: run `{INSTALL}`")
    started = Services()
    yield started
    started.close()


@pytest.fixture(scope="session")
def built() -> None:
    """The worker, in `editors/dist`."""
    editors = ROOT / "editors"
    if NODE is None:
        pytest.skip("node is missing: the worker is built and run by it")
    if not (editors / "node_modules").is_dir():
        pytest.skip("what builds the worker is not installed: run `npm ci --ignore-scripts --prefix editors`")
    subprocess.run([NODE, editors / "worker" / "build.mjs", sys.executable], check=True)
