"""The checker in Pyodide's worker, as an editor or a page runs it: here as a thread of Node."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parity.browser import Worker, command, differing, differing_alone, worker
from tests.source import ROOT

EDITORS = ROOT / "editors"
DIST = EDITORS / "dist"
COMPRESSED = 6_500_000
"""Bytes that a page loads before it can check: Python is most of it."""
CONFIG = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"}}\n'
MISTAKE = '{\n  "train_batch_size": 8,\n  "fp16": {"enabeld": true}\n}\n'
VERBS = {
    "check": ("check", "--output-format", "sarif", "-"),
    "fix": ("fix", "-"),
    "diff": ("fix", "--diff", "--unsafe-fixes", "-"),
    "resolve": ("resolve", "--world-size", "4", "--output-format", "json", "-"),
    "show": ("show", "--output-format", "json", "-"),
    "compat": ("compat", "--output-format", "json", "-"),
    "migrate": ("migrate", "--from", "0.14.5", "--to", "0.19.8", "-"),
    "rules": ("rules", "--output-format", "json"),
    "the page of a rule": ("explain", "DSC401"),
    "a key": ("explain", "zero_optimization.offload_optimizer.device"),
    "a section": ("explain", "fp16"),
    "neither rule nor key": ("explain", "zero_optimisation.stage"),
    "a range of releases": ("check", "--target", ">=0.14,<0.19.8", "--output-format", "json", "-"),
    "what is no option": ("check", "--colour", "-"),
    "memory": ("memory", "--params", "7e9", "--world-size", "8", "--output-format", "json", "-"),
}
ODD = {
    "mistake.json": MISTAKE,
    "hjson.json": "train_batch_size: 8\nzero_optimization: {stage: 3}\n",
    "accelerate.yaml": "distributed_type: DEEPSPEED\n"
    "deepspeed_config:\n  deepspeed_config_file: mistake.json\n",
    "recipe.yaml": "model_name_or_path: a\ndeepspeed: mistake.json\nper_device_train_batch_size: auto\n",
    "dsconfig.toml": 'target = "0.16.9"\nworld-size = 4\nignore = ["DSC002"]\n',
    "train.sh": "deepspeed train.py --deepspeed_config mistake.json\n",
    "umlaut-ü.json": '{"train_batch_size": "1_000", "Größe": "\\ud83d"}',
    "broken.json": '{"train_batch_size": 8, "fp16": {"enabled": tru',
    "empty.json": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configs of all kinds, and files that say who reads them."""
    directory = tmp_path_factory.mktemp("files")
    shutil.copytree(ROOT / "demo" / "configs", directory / "demo")
    (directory / "odd").mkdir()
    for name, text in ODD.items():
        (directory / "odd" / name).write_text(text, "utf-8")
    return directory


@pytest.fixture(scope="module")
def ours(built: None, folder: Path) -> Iterator[Worker]:
    with worker(folder) as started:
        yield started


def test_findings_are_those_of_the_command(ours: Worker, folder: Path) -> None:
    assert list(differing(folder, ours)) == []


def test_findings_in_a_text_alone_are_those_of_the_command(ours: Worker, folder: Path) -> None:
    assert list(differing_alone(folder / "odd", ours)) == []


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_a_verb_says_what_the_command_says(ours: Worker, arguments: tuple[str, ...]) -> None:
    output = ours.run(*arguments, stdin=CONFIG)
    assert output == command(*arguments, stdin=CONFIG)
    assert "Traceback" not in output[2]


def test_it_is_a_language_server(ours: Worker) -> None:
    ours.ask("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
    opened = {"uri": "file:///project/ds_config.json", "languageId": "json", "version": 1, "text": MISTAKE}
    ours.tell({"jsonrpc": "2.0", "method": "initialized", "params": {}})
    ours.tell({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": opened}})
    while (message := ours.hear()).get("method") != "textDocument/publishDiagnostics":
        pass
    (diagnostic,) = (each for each in message["params"]["diagnostics"] if each["range"]["start"]["line"] == 2)
    assert "enabeld" in diagnostic["message"]
    place = {"textDocument": {"uri": opened["uri"]}, "position": {"line": 1, "character": 5}}
    assert "train_batch_size" in json.dumps(ours.ask("textDocument/hover", place))


def test_an_answer_to_what_the_server_asked_is_no_request(ours: Worker) -> None:
    ours.tell({"jsonrpc": "2.0", "id": "dsconfig-1", "result": None})
    assert ours.run("--version") == command("--version")


def test_files_that_cannot_be_do_not_end_it(ours: Worker) -> None:
    files = [
        {"path": path, "content": "{}"} for path in ("/blocked", "/blocked/ds_config.json", "/free.json")
    ]
    gone = ["/never/was.json", "/project"]
    ours.tell({"jsonrpc": "2.0", "method": "dsconfig/mirror", "params": {"write": files, "remove": gone}})
    assert "/free.json:" in ours.run("check", "--output-format", "concise", "/free.json")[1]


def test_every_module_of_the_archive_can_be_imported(built: None) -> None:
    done = subprocess.run(
        ["node", EDITORS / "worker" / "imports.mjs"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_a_page_loads_little(built: None) -> None:
    sizes = {
        name: len(gzip.compress((DIST / name).read_bytes(), 9)) for name in ("worker.js", "pyodide.asm.wasm")
    }
    sizes["python.archive"] = (DIST / "python.archive").stat().st_size
    assert sum(sizes.values()) <= COMPRESSED, sizes
