"""Every command, function and the language server find the same job in the same repository.

The playground and the site's planners call the command and the language server, and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dsconfig
from dsconfig.cli import main
from dsconfig.lsp.service import Service
from tests.job.repositories import repositories

REPOSITORIES = dict(repositories())


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
    service, uri = Service(), path.as_uri()
    service.request("initialize", {"capabilities": {}, "rootUri": path.parent.as_uri()})
    text = {"uri": uri, "languageId": "json", "version": 1, "text": path.read_text()}
    service.notify("textDocument/didOpen", {"textDocument": text})
    status = service.request("dsconfig/status", {"textDocument": {"uri": uri}})
    return Believed(status["target"], status["worldSize"], status["reader"], status["model"])


def test_there_are_forty() -> None:
    assert len(REPOSITORIES) >= 40


@pytest.mark.parametrize("name", REPOSITORIES)
def test_they_believe_the_same(
    name: str, empty_repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, text in REPOSITORIES[name].items():
        (empty_repository / file).parent.mkdir(exist_ok=True)
        (empty_repository / file).write_text(text)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    believed = of_report(dsconfig.check("ds.json"))
    assert of_report(dsconfig.fix("ds.json").report) == believed
    newest = dsconfig.check("ds.json").target.releases[-1]
    assert dsconfig.show("ds.json").release == newest
    _command_agrees(believed, capsys)
    _run_agrees(believed, newest, capsys)
    job = of_language_server(empty_repository / "ds.json")
    assert job._replace(model=None) == believed._replace(model=None)
    assert believed.model is None or Path(str(job.model)).name == Path(believed.model).name


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
    estimate = dsconfig.memory("ds.json", model=None if believed.model else "llama-2-7b")
    assert (estimate.release, estimate.world_size) == (newest, believed.world_size)
    capsys.readouterr()
    assert main(["resolve", "ds.json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["train_batch_size"] == run.train_batch_size
    assert f"DeepSpeed {newest}" in err
