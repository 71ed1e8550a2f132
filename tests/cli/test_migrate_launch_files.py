"""`dsconfig migrate` of a launch file: the config that its job reads, where it stands."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig.cli import main

OLD = {
    "train_micro_batch_size_per_gpu": 2,
    "fp16": {"enabled": True, "lozz": 1},
    "zero_optimization": {"stage": 1},
}
NEW = {**OLD, "fp16": {"enabled": True}}
TEXT = json.dumps(OLD, indent=2)
LAUNCH = """\
base_model: m   # the model
datasets: [{{path: x, type: alpaca}}]
micro_batch_size: 2
deepspeed:{config}
learning_rate: 1.0e-5   # the end
"""
BLOCK = """
  # ours
  train_micro_batch_size_per_gpu: 2

  fp16:
    enabled: true
    lozz: 1   # gone
  zero_optimization: {stage: 1}
"""
JOB = """\
#!/bin/bash
set -e
{before}deepspeed train.py --deepspeed --deepspeed_config {config}
echo 'done'
"""


def of_yaml(text: str) -> Any:
    config = yaml.safe_load(text)["deepspeed"]
    return config if isinstance(config, dict) else json.loads(config)


def heredoc(text: str) -> Any:
    return json.loads(text.partition("EOF\n")[2].partition("EOF\n")[0])


def quoted(text: str) -> Any:
    return json.loads(text.partition("--deepspeed_config '")[2].partition("'")[0])


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.split("\n"))


FORMS = {
    "block": ("a.yaml", LAUNCH.format(config=BLOCK), of_yaml),
    "flow": ("a.yaml", LAUNCH.format(config=f" {json.dumps(OLD)}"), of_yaml),
    "flow over lines": ("a.yaml", LAUNCH.format(config=" " + TEXT.replace("\n", "\n  ")), of_yaml),
    "block of text": ("a.yaml", LAUNCH.format(config=f" |\n{indented(TEXT)}"), of_yaml),
    "single quotes": ("a.yaml", LAUNCH.format(config=f" '{json.dumps(OLD)}'"), of_yaml),
    "double quotes": ("a.yaml", LAUNCH.format(config=f" {json.dumps(json.dumps(OLD))}"), of_yaml),
    "in JSON": ("a.json", json.dumps({"output_dir": "o", "deepspeed": OLD, "bf16": True}, indent=4), of_yaml),
    "here-document": (
        "run.sh",
        JOB.format(before=f"cat > ds.json <<EOF\n{TEXT}\nEOF\n", config="ds.json"),
        heredoc,
    ),
    "argument": ("run.sh", JOB.format(before="", config=f"'{json.dumps(OLD)}'"), quoted),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("form", FORMS)
def test_what_stands_in_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    newline: str,
) -> None:
    name, text, read = FORMS[form]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(text.replace("\n", newline).encode())
    main(["migrate", name, "--from", "0.9.5", "--to", "0.19.8", "--write"])
    result, after = capsys.readouterr().out, path.read_bytes().decode()
    assert "not migrated" not in result, result
    assert read(after.replace("\r\n", "\n")) == NEW
    before = text.replace("\n", newline)
    gone = [line for line in before.split(newline) if "lozz" in line]
    assert len(gone) == 1
    line = before.split(newline).index(gone[0]) + 1
    assert f"line {line}, `fp16.lozz`" in result
    kept = [each for each in before.split(newline) if "lozz" not in each]
    assert [each for each in kept if each.strip(" ,") not in after] == []
    assert after.count("\r\n") == (after.count("\n") if newline == "\r\n" else 0)
    main(["migrate", name, "--from", "0.9.5", "--to", "0.19.8", "--write"])
    assert path.read_bytes().decode() == after
    assert ": no changes" in capsys.readouterr().out


def test_base64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    encoded = urlsafe_b64encode(json.dumps(OLD).encode()).decode()
    launch = {"output_dir": "o", "deepspeed": encoded, "bf16": False}
    (tmp_path / "a.json").write_text(json.dumps(launch))
    main(["migrate", "a.json", "--from", "0.9.5", "--to", "0.19.8", "--write"])
    config = json.loads((tmp_path / "a.json").read_text())
    assert config == {**launch, "deepspeed": urlsafe_b64encode(json.dumps(NEW).encode()).decode()}


@pytest.mark.parametrize("out", ["--write", "-o", "--diff", ""])
def test_the_file_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(TEXT)
    (tmp_path / "run.sh").write_text("deepspeed train.py --deepspeed --deepspeed_config ds.json\n")
    main(
        [
            "migrate",
            "run.sh",
            "--from",
            "0.9.5",
            "--to",
            "0.19.8",
            *([out] if out else []),
            *["o.json"] * (out == "-o"),
        ]
    )
    output_file = {"--write": "ds.json", "-o": "o.json"}.get(out)
    result = capsys.readouterr()
    assert "deepspeed train.py" in (tmp_path / "run.sh").read_text()
    if output_file:
        assert json.loads((tmp_path / output_file).read_text()) == NEW
    if out != "--write":
        assert (tmp_path / "ds.json").read_text() == TEXT
    if not out:
        assert json.loads(result.out) == NEW


@pytest.mark.parametrize(
    "text",
    [
        LAUNCH.format(config=" *other\n") + "other: &other {train_batch_size: 8}\n",
        "old: &old {fp16: {lozz: 1}}\n" + LAUNCH.format(config="\n  <<: *old\n  train_batch_size: 8\n"),
        "old: &old 2\n" + LAUNCH.format(config=" {train_batch_size: *old}"),
        LAUNCH.format(config=" {train_batch_size: 2, fp16: &half {enabled: true, lozz: 1}}")
        + "again: *half\n",
    ],
)
def test_what_others_share_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(text)
    main(["migrate", "a.yaml", "--from", "0.9.5", "--to", "0.19.8", "--write"])
    assert (tmp_path / "a.yaml").read_text() == text


def test_a_file_outside_of_the_repository_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ds.json").write_text(TEXT)
    (tmp_path / "in" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in")
    (tmp_path / "in" / "run.sh").write_text("deepspeed t.py --deepspeed --deepspeed_config ../ds.json\n")
    assert main(["migrate", "run.sh", "--from", "0.9.5", "--to", "0.19.8", "--write"]) == 1
    assert "outside of this repository" in capsys.readouterr().out
    assert (tmp_path / "ds.json").read_text() == TEXT


def test_several_configs_are_named_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(TEXT)
        lines += f"deepspeed train.py --deepspeed --deepspeed_config {name}\n"
    (tmp_path / "run.sh").write_text(lines)
    assert main(["migrate", "run.sh", "--from", "0.9.5", "--to", "0.19.8", "--write"]) == 2
    assert "select one with --job" in capsys.readouterr().err
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text() == TEXT
