"""Configs embedded in launch files: locations of diagnostics, fixes and ignores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check, fix, resolve
from dsconfig.check.build_job import job_of_document
from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.cli import main
from dsconfig.document import read_text

BODY = """\
train_micro_batch_size_per_gpu: 2   # of one GPU
"prescale_gradients" :  0
zero_optimization: {stage: 2, overlap_com: true} # a typo
"""
HOSTS = {
    "Axolotl": ("base_model: m # größer\nmicro_batch_size: 2\ndeepspeed:", "sequence_len: 9"),
    "ArcticTraining": ("type: sft\nmodel: {name_or_path: m}\ndeepspeed:", "epochs: 1"),
    "Composer": ("max_duration: 1ep\ndeepspeed_config:", "seed: 1"),
    "Determined": ("entrypoint: x\nsearcher: {}\nhyperparameters:\n  deepspeed_config:", "name: d"),
    "Determined, constant": (
        "entrypoint: x\nsearcher: {}\nhyperparameters:\n  deepspeed_config:\n    type: const\n    val:",
        "name: d",
    ),
    "Lightning": (
        "trainer:\n  strategy:\n    class_path: a.DeepSpeedStrategy\n    init_args:\n      config:",
        "seed_everything: 1",
    ),
    "ms-swift": (
        "model: m\ndataset: d\nper_device_train_batch_size: 2\ntuner_type: lora\ndeepspeed:",
        "output_dir: o",
    ),
    "Transformers": ("output_dir: o\nper_device_train_batch_size: 2\ndeepspeed:", "seed: 1"),
}
FIXED = BODY.replace(":  0", ":  false").replace("overlap_com", "overlap_comm")


def host(name: str, body: str, newline: str = "\n") -> str:
    """Launch file that embeds this text as its config, with its indentation."""
    head, tail = HOSTS[name]
    last = head.rpartition("\n")[2]
    indent = " " * (len(last) - len(last.lstrip()) + 3)
    inner = "".join(f"{indent}{line}\n" for line in body.splitlines())
    return f"# a job\n{head}\n{inner}{tail}\n".replace("\n", newline)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", HOSTS)
def test_locations_and_fixes(tmp_path: Path, name: str, newline: str) -> None:
    path, text = tmp_path / "train.yaml", host(name, BODY, newline)
    path.write_bytes(text.encode())
    report = check(str(path))
    assert not report.children
    at = {
        diagnostic.code: text[diagnostic.location.start : diagnostic.location.end]
        for diagnostic in report
        if diagnostic.location
    }
    assert at["DSC102"] == "overlap_com"
    assert at["DSC113"] == "0"
    (typo,) = (diagnostic for diagnostic in report if diagnostic.code == "DSC102")
    assert typo.location is not None
    lines = text[: typo.location.start].split(newline)
    assert (typo.location.line, typo.location.column) == (len(lines), len(lines[-1]) + 1)
    assert typo.path[-2:] == ("zero_optimization", "overlap_com")
    assert main(["fix", str(path)]) == 0
    assert path.read_bytes().decode() == host(name, FIXED, newline)


def test_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "args.json"
    text = (
        '{\n  "output_dir": "ö", "deepspeed": {\n    "zero_optimization": {"stage": "2"},\n    %s\n  }\n}\n'
    )
    batch = '"train_micro_batch_size_per_gpu": "auto"'
    path.write_text(text % batch)
    assert main(["check", "--output-format", "json", str(path)]) == 1
    (file,) = json.loads(capsys.readouterr().out)["files"]
    (diagnostic,) = file["diagnostics"]
    assert (diagnostic["code"], diagnostic["line"], diagnostic["column"]) == ("DSC113", 3, 36)
    assert diagnostic["path"] == ["deepspeed", "zero_optimization", "stage"]
    assert diagnostic["fix"]["operations"] == [{"operation": "set", "path": diagnostic["path"], "value": 2}]
    assert main(["check", "--fix", str(path)]) == 0
    assert path.read_text() == (text % batch).replace('"2"', "2")


@pytest.mark.parametrize(
    ("comment", "kept", "silent"),
    [
        ("# dsconfig: ignore[DSC102]", {"DSC113"}, {"DSC102"}),
        ("# dsconfig: ignore-file[DSC1]", set(), {"DSC102", "DSC113"}),
        ("# dsconfig: ignore[DSC401]", {"DSC008", "DSC102", "DSC113"}, set()),
    ],
)
def test_ignore_comments(comment: str, kept: set[str], silent: set[str]) -> None:
    text = host("Lightning", BODY.replace("# a typo", comment))
    report = check_text(text)
    assert {diagnostic.code for diagnostic in report} == kept
    assert {diagnostic.code for diagnostic in report.suppressed} == silent


def test_the_block_counts_from_the_config() -> None:
    block = '"$dsconfig": {ignore: {zero_optimization: [DSC102], prescale_gradients: [DSC113]}}\n'
    report = check_text(host("Composer", block + BODY))
    assert not report.diagnostics
    assert {diagnostic.code for diagnostic in report.suppressed} == {"DSC102", "DSC113"}


def test_dsconfig_block_of_an_embedded_config() -> None:
    block = '"$dsconfig": {consumer: accelerate, target: "0.16.9", world-size: 6}\n'
    report = check_text(host("Axolotl", block + BODY))
    assert (report.consumer, report.target.text, report.world_size) == ("accelerate", "0.16.9", 6)


def check_text(text: str) -> Report:
    document = read_text(text, "train.yaml", "yaml")
    job = job_of_document(document)
    target, size, reader = job.releases, job.ranks, job.reader
    return check_document(document, target, world_size=size, consumer=reader)


def test_location_of_text_in_a_string() -> None:
    config = '{"train_batch_size": 8,\n  "zero_optimization": {"stage": 9}}'
    block, line = f"|\n  {config}".replace("\n  ", "\n      "), config.replace("\n", "")
    for quoted in (block, f"'{line}'", json.dumps(config)):
        report = check_text(f"output_dir: o\ndeepspeed: {quoted}\nseed: 1\n")
        (diagnostic,) = (each for each in report if each.code == "DSC112")
        assert diagnostic.location is not None
        assert diagnostic.fix is None
        assert report.document is not None
        highlighted = report.document.text[diagnostic.location.start : diagnostic.location.end]
        assert highlighted == ("9" if quoted[0] != '"' else quoted)


def test_aliased_blocks_are_not_edited() -> None:
    base = "base: &ds\n  train_batch_size: 8\n  prescale_gradients: 0\n"
    text = f"{base}max_duration: 1ep\ndeepspeed_config: *ds\n"
    (diagnostic,) = check_text(text)
    assert diagnostic.code == "DSC113"
    assert diagnostic.location is not None
    assert diagnostic.location.line == 3
    assert fix(text, format="yaml").text == text


def test_arguments_of_the_job(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    body = 'train_micro_batch_size_per_gpu: "auto"\nzero_optimization: {stage: 1}\n'
    body += "gradient_accumulation_steps: 3\n"
    path.write_text(host("Axolotl", body) + "gradient_accumulation_steps: 4\n")
    (diagnostic,) = check(str(path))
    assert diagnostic.code == "DSC809"
    assert main(["fix", "--unsafe-fixes", str(path)]) == 0
    assert resolve(str(path), world_size=2, target="0.19.8").triplet == (16, 2, 4)


@pytest.mark.parametrize("verb", ["check", "fix", "show", "resolve", "migrate", "compat"])
def test_every_command(tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(host("Composer", FIXED))
    more = {"migrate": ["--from", "0.16.9"], "resolve": ["--world-size", "4"]}.get(verb, [])
    assert main([verb, str(path), *more]) == (verb == "migrate")
    out = "".join(capsys.readouterr())
    assert "internal" not in out
    if verb == "migrate":
        assert "Composer reads the config that is embedded here" in out
        assert "max_duration: 1ep" in out
