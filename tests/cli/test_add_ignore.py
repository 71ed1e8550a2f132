"""`--add-ignore` silences what is found today, in the file's own manner, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Spawns

TARGET = ("--target", "0.19.8")
TEXTS = {
    "a.json": '{\n  "train_batch_size": 8,\n  "no_such": 1,\n  "fp16": {"enabled": true, "nope": 2}\n}\n',
    "crlf.json": '{\r\n  "train_batch_size": 8,\r\n  "no_such": 1\r\n}\r\n',
    "listed.json": '{"$dsconfig": {"ignore": ["DSC113"]}, "prescale_gradients": 1, "no_such": 1}',
    "by_key.json": '{"$dsconfig": {"ignore": {"fp16": ["DSC1"]}}, "fp16": {"a": 1}, "no_such": 1}',
    "a.hjson": "{\n  train_batch_size: 8\n  # mine\n  no_such: a b\n  fp16: {enabled: true, nope: 2}\n}\n",
    "a.jsonc": '{\n  "train_batch_size": 8, // mine\n  "no_such": 1, // mine\n  "fp16": {"nope": 2}\n}',
    "a.yaml": "zero_optimization:\n  stage: 2\n  no_such: |  # mine\n    text\ntrain_batch_size: 8\n",
}


def values(name: str, spawn: Spawns) -> dict[str, object]:
    output = json.loads(spawn("show", name, *TARGET, "--output-format", "json").out or '{"values": []}')
    return {
        each["key"]: each["value"] for each in output["values"] if not each["key"].startswith("$dsconfig")
    }


def codes(out: str) -> set[str]:
    return {each["code"] for each in json.loads(out)["files"][0]["diagnostics"]}


@pytest.mark.parametrize(("name", "text"), TEXTS.items(), ids=TEXTS)
def test_it_is_silent_afterwards_and_means_the_same(here: Path, spawn: Spawns, name: str, text: str) -> None:
    (here / name).write_bytes(text.encode())
    before = values(name, spawn)
    result = spawn("check", name, *TARGET, "--output-format", "json").out
    added = spawn("check", "--add-ignore", name, *TARGET)
    assert (added.code, added.err) == (0, "")
    after = spawn("check", name, *TARGET, "--fail-on", "info")
    assert (after.code, "suppressed" in after.out) == (0, True)
    assert values(name, spawn) == before
    assert (b"\r\n" in (here / name).read_bytes()) == ("\r\n" in text)
    assert ("$dsconfig" in (here / name).read_text()) == name.endswith(".json")
    restored = spawn("check", name, *TARGET, "--no-ignores", "--output-format", "json").out
    codes = [
        {each["code"] for each in json.loads(out)["files"][0]["diagnostics"]} for out in (result, restored)
    ]
    assert codes[0] <= codes[1]
    again = spawn("check", "--add-ignore", name, *TARGET)
    assert again.out == "Added suppressions for 0 problems.\n"


def test_what_is_found_later_is_said(here: Path, spawn: Spawns) -> None:
    (here / "a.json").write_text(TEXTS["a.json"])
    spawn("check", "--add-ignore", "a.json", *TARGET)
    text = (here / "a.json").read_text()
    (here / "a.json").write_text(text.replace('"no_such": 1', '"no_such": 1, "another": 2'))
    assert "another" in spawn("check", "a.json", *TARGET).out


def test_what_cannot_be_written_is_told(here: Path, spawn: Spawns) -> None:
    (here / "broken.json").write_text('{"train_batch_size": 8, "fp16": {')
    (here / "latin.json").write_bytes(b'{"train_batch_size": 8, "no_such": "\xe9"}')
    for name in ("broken.json", "latin.json"):
        before = (here / name).read_bytes()
        code, _, err = spawn("check", "--add-ignore", name, *TARGET)
        assert (code, f"{name}: " in err) == (2, True)
        assert (here / name).read_bytes() == before
    assert spawn("check", "--add-ignore", "-", stdin=b"{}").code == 2
    assert spawn("check", "--add-ignore", "--fix", "a.json").code == 2
