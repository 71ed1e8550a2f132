"""A `Report` prints what the terminal shows, byte for byte, and its `to_dict` is the output in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig
from tests.launches import JOBS

from .conftest import Spawns

DEMO = sorted((Path(__file__).parents[2] / "demo" / "configs").iterdir())
FINDINGS = '{"train_batch_size": 8, "prescale_gradients": 1, "zero_optimization": {"stge": 3}, "x": 1}\n'
TEXTS = {
    "clean.json": '{"train_batch_size": 8}',
    "findings.json": FINDINGS,
    "crlf.json": FINDINGS.replace(", ", ",\r\n"),
    "comments.hjson": "{\n  # why\n  train_batch_size: 8,\n  fp16: {enabled: yes}\n}\n",
    "quoted.yaml": "train_batch_size: '8'\nzero_optimization: {stage: 3, offload_param: {}}\n",
    "broken.json": '{"train_batch_size": 8,, "fp16": {\n',
    "empty.json": "",
    "list.json": "[1]",
    "foreign.json": '{"name": "a", "version": "1"}',
    "batch.json": '{"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2}',
    "silent.json": '{"train_batch_size": 8, "x": 1, "$dsconfig": {"ignore": ["DSC101"], "target": "0.14.5"}}',
    "range.json": '{"train_batch_size": 8, "elasticity": {}, "$dsconfig": {"target": ">=0.14"}}',
    "reader.json": '{"train_batch_size": "auto", "fp16": {"enabled": "auto", "loss_scale_windw": 1}}',
    "odd.json": '{"train_batch_size": 8, "\\u001b[31m": "\\u202e", "äö": "日本", "\\ud83d\\ude00": 1}',
    "secret.json": '{"train_batch_size": 8, "comet": {"api_key": "hunter2", "api_kye": "hunter3"}}',
    "many.json": json.dumps({"train_batch_size": 8, **{f"x{number}": 1 for number in range(1200)}}),
    "template.json": '{"train_batch_size": ${BATCH}, "fp16": {"enabled": true}}',
    "llama-factory.yaml": json.dumps(JOBS["LLaMA-Factory"]),
    "skypilot.yaml": json.dumps(JOBS["SkyPilot"]),
    "arctic.yaml": json.dumps(JOBS["ArcticTraining"]),
    **{file.name: file.read_text() for file in DEMO},
}


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "ds").mkdir()
    (here / "ds" / "z.json").write_text(FINDINGS)
    return here


@pytest.mark.parametrize("name", TEXTS)
def test_a_report_is_what_the_command_shows(folder: Path, spawn: Spawns, name: str) -> None:
    (folder / name).write_bytes(TEXTS[name].encode())
    report = dsconfig.check(name)
    result = spawn("check", name)
    if report.why_not_config:
        assert result == (2, "", f"dsconfig: error: {name}: {report.why_not_config}\n")
    else:
        assert f"{report}\n" == result.out
    document = json.loads(spawn("check", name, "--output-format", "json").out)
    (target,) = {file.get("target") for file in document["files"]}  # one that the config names itself counts
    assert report.to_dict() == {**document, "target": target or document["target"]}
    assert [diagnostic.to_dict() for diagnostic in report] == report.to_dict()["files"][0]["diagnostics"]  # type: ignore[index]


@pytest.mark.parametrize("options", [{"target": "0.9.5"}, {"world_size": 3}, {"consumer": "accelerate"}])
def test_so_it_is_under_other_circumstances(folder: Path, spawn: Spawns, options: dict[str, str]) -> None:
    (folder / "a.json").write_text(TEXTS["quoted.yaml"])
    report = dsconfig.check("a.json", **options)  # type: ignore[arg-type]
    argv = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert f"{report}\n" == spawn("check", "a.json", *argv).out
    assert report.to_dict() == json.loads(spawn("check", "a.json", *argv, "--output-format", "json").out)
