"""Every command, function, the language server and the playground find the same job in the same repository.

The site's planners call the worker of the playground, and nothing else.
"""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import dsconfig
from dsconfig.cli import main
from dsconfig.lsp.language_server import LanguageServer
from tests.job.repositories import repositories

REPOSITORIES = dict(repositories())
WORKER = Path(__file__).parents[2] / "editors" / "worker" / "worker.py"


class Believed(NamedTuple):
    """Job as one command reports it."""

    target: str
    world_size: int | None
    consumer: str
    model: str | None


def of_report(report: dsconfig.Report) -> Believed:
    model = report.reader.facts.model
    return Believed(report.target.text, report.world_size, report.consumer, model and str(model.named))


def of_language_server(path: Path) -> Believed:
    service, uri = LanguageServer(), path.as_uri()
    service.handle_request("initialize", {"capabilities": {}, "rootUri": path.parent.as_uri()})
    service.notify("textDocument/didOpen", {"textDocument": _text_item(path)})
    believed = _of_status(service.handle_request("dsconfig/status", {"textDocument": {"uri": uri}}))
    service.notify("textDocument/didClose", {"textDocument": {"uri": uri}})  # else its text replaces the file
    return believed


def of_playground(worker: ModuleType, path: Path) -> Believed:
    """Job that the worker of the playground reports, which speaks JSON-RPC."""

    def answer(method: str, params: object) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return json.loads(worker.answer(json.dumps(message)))["result"]

    answer("initialize", {"capabilities": {}, "rootUri": path.parent.as_uri()})
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": _text_item(path)}}
    worker.take(json.dumps(opened))
    believed = _of_status(answer("dsconfig/status", {"textDocument": {"uri": path.as_uri()}}))
    worker.take(
        json.dumps({"method": "textDocument/didClose", "params": {"textDocument": {"uri": path.as_uri()}}})
    )
    command = ["check", "ds.json", "--output-format", "json"]
    result = answer("dsconfig/run", {"arguments": command, "folder": str(path.parent)})
    (file,) = json.loads(result["stdout"])["files"]
    assert (file["target"], file["reader"]["name"]) == (believed.target, believed.consumer)
    return believed


def _text_item(path: Path) -> dict[str, object]:
    return {"uri": path.as_uri(), "languageId": "json", "version": 1, "text": path.read_text()}


def _of_status(status: dict[str, Any]) -> Believed:
    return Believed(status["target"], status["worldSize"], status["reader"], status["model"])


@pytest.fixture
def worker() -> ModuleType:
    """Fixture that loads the Python part of the playground's worker."""
    spec = spec_from_file_location("playground_worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_forty() -> None:
    assert len(REPOSITORIES) >= 40


@pytest.mark.parametrize("name", REPOSITORIES)
def test_they_believe_the_same(
    name: str,
    worker: ModuleType,
    empty_repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for file, text in REPOSITORIES[name].items():
        (empty_repository / file).parent.mkdir(exist_ok=True)
        (empty_repository / file).write_text(text)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    believed = of_report(dsconfig.check("ds.json"))
    assert of_report(dsconfig.fix("ds.json").report) == believed
    report = dsconfig.check("ds.json")
    newest = report.target.releases[-1]
    assert dsconfig.show("ds.json").release == newest
    _compat_agrees(report, newest, capsys)
    _command_agrees(believed, capsys)
    _run_agrees(believed, newest, capsys)
    for job in (
        of_language_server(empty_repository / "ds.json"),
        of_playground(worker, empty_repository / "ds.json"),
    ):
        assert job._replace(model=None) == believed._replace(model=None)
        assert (job.model is None) == (believed.model is None)
        assert believed.model is None or Path(str(job.model)).name == Path(believed.model).name
    _fix_agrees(empty_repository / "ds.json", capsys)


def _compat_agrees(report: dsconfig.Report, newest: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first error of the newest release depends on consumer, arguments and world size."""
    errors = [each.code for each in report if each.severity == "error"]
    (stretch,) = (each for each in dsconfig.compat("ds.json") if newest in each.releases)
    assert (stretch.word == "ok") == (not errors)
    assert stretch.reason is None or stretch.reason.code in errors
    assert main(["compat", "ds.json", "--target", newest]) == bool(errors)
    capsys.readouterr()


def _fix_agrees(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Command and function write the same text."""
    path.write_text(path.read_text().replace("overlap_comm", "overlap_com").replace("stage", "Stage"))
    text = dsconfig.fix("ds.json", unsafe=True).text
    assert text != path.read_text()
    main(["fix", "--unsafe-fixes", "ds.json"])
    capsys.readouterr()
    assert path.read_text() == text


def _command_agrees(believed: Believed, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "ds.json", "--output-format", "json"])
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["target"], file["reader"]["name"]) == (believed.target, believed.consumer)
    main(["show", "ds.json", "--output-format", "json"])
    output = json.loads(capsys.readouterr().out)
    batch: Any = next((each["value"] for each in output["values"] if each["key"] == "train_batch_size"), None)
    assert believed.world_size is not None or not isinstance(batch, int), (
        "no batch of a number that nobody knows"
    )


def _run_agrees(believed: Believed, newest: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        run = dsconfig.resolve("ds.json")
    except dsconfig.UnknownWorldSizeError:
        assert believed.world_size is None
        assert main(["resolve", "ds.json"]) == 2
        return
    except dsconfig.ResolveError:  # its arguments are left to the run
        assert main(["resolve", "ds.json"]) == 1
        return
    assert (run.release, run.world_size, run.consumer.partition("==")[0]) == (newest, *believed[1:3])
    named = None if believed.model else "llama-2-7b"
    estimate = dsconfig.memory("ds.json", model=named)
    assert (estimate.release, estimate.world_size) == (newest, believed.world_size)
    assert estimate.parameters == dsconfig.memory("ds.json", model=believed.model or named).parameters
    capsys.readouterr()
    assert main(["memory", "ds.json", "--output-format", "json", *(["--model", named] if named else [])]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["release"], output["world_size"]) == (newest, believed.world_size)
    assert output["parameters"] == estimate.parameters
    shown = {each.key: each.value for each in dsconfig.show("ds.json").values}
    assert shown["train_batch_size"] == run.train_batch_size
    assert main(["resolve", "ds.json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["train_batch_size"] == run.train_batch_size
    assert f"DeepSpeed {newest}" in err
