"""Files that are no training config: each is named for what it is, is not checked, and is never edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig

from .conftest import Runs

DICT = '"train_batch_size": 8,\n    "fp16": {"enabled": True},\n    "zero_optimization": {"stage": 3},\n'
PROGRAM = f"import deepspeed\n\nds_config = {{\n    {DICT}}}\ndeepspeed.initialize(config=ds_config)\n"
CELL = {"cell_type": "markdown", "source": [PROGRAM], "metadata": {}, "outputs": []}
FILES = {
    "path.py": ('import deepspeed\n\ndeepspeed.initialize(config="ds_config.json")\n', "a Python file"),
    "empty.py": ("", "a Python file"),
    "train": (f"#!/usr/bin/env python3\n{PROGRAM}", "a Python file"),
    "pasted.json": (PROGRAM, "a Python file"),
    "train.txt": (PROGRAM, "a Python file"),
    "notebook.ipynb": (
        json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4}),
        "a Jupyter notebook",
    ),
    "pyproject.toml": (f"[tool.x]\nds_config = {{{DICT}}}\n", "a TOML file"),
    "hostfile": ("# two nodes\nworker-1 slots=4\nworker-2 slots=4\n", "a hostfile"),
    "README.md": (f"Use\n\n{{{DICT}}}\n", "a text for people"),
    "log.jsonl": ('{"zero_optimization": {}}\n{"zero_optimization": {}}\n', "a file of many JSON values"),
    "NOTES": ("zero_optimization is on\nfp16: later\n", "a text without a JSON object"),
    "job.zsh": ("deepspeed train.py\n", "a shell script whose commands name no config"),
    "eval": ("#!/bin/bash\npython eval.py\n", "a script"),
    "eval.sh": ("python eval.py\n", "a shell script whose commands name no config"),
    "config.json": ('{"model_type": "llama", "hidden_size": 64}', "the `config.json` of a model"),
    "tsconfig.json": ('{"compilerOptions": {}, "include": []}', "none of its 2 keys is DeepSpeed's"),
}
VERBS = ("check", "fix --unsafe-fixes", "resolve --world-size 8", "show", "compat", "memory --world-size 8")


@pytest.mark.parametrize("name", FILES)
def test_it_is_named_for_what_it_is_and_left_as_it_is(here: Path, run: Runs, name: str) -> None:
    text, what = FILES[name]
    (here / name).write_text(text)
    verbs = (*VERBS, "migrate --from 0.14.5 --to 0.19.8 --write", "check --fix")
    # `check` and `fix` read a hostfile as the launcher does.
    for verb in (each for each in verbs if name != "hostfile" or not each.startswith(("check", "fix"))):
        code, out, err = run(*verb.split(), name)
        assert (code, out) == (2, ""), verb
        assert err.startswith(f"dsconfig: error: {name}: not a DeepSpeed config: {what}"), verb
        assert err.count("\n") == 1
    assert (here / name).read_text() == text
    assert {each.name for each in here.iterdir()} == {name, ".git"}
    assert not dsconfig.fix(name, unsafe=True).applied
    assert dsconfig.check(name).why_not_config or name == "hostfile"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_and_a_hook_pass_over_it(here: Path, run: Runs, name: str) -> None:
    (here / name).write_text(FILES[name][0])
    (here / "a.json").write_text('{"train_micro_batch_size_per_gpu": 8}')
    for paths in (["."], ["--force-exclude", name, "a.json"]):
        code, out, err = run("check", "-q", "--output-format", "json", *paths)
        assert (code, err, [file["path"] for file in json.loads(out)["files"]]) == (0, "", ["a.json"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.cfg", '{"train_batch_size": 8}'),
        ("config.py", '{"train_batch_size": 8}'),
        ("zero3", '{"zero_optimization": {"stage": 3} "fp16": {"enabled": True}}'),
        ("zero3.json.bak", '{"train_batch_size": 8, "zero_optimization": {"stage": 3},,}'),
        ("assigned.json", f"ds_config = {{\n    {DICT}}}\n"),
        ("tp.json", '{"tensor_parallel": {"autotp_size": 2}, "dtype": "bf16", "train_batch_size": 8}'),
        ("tp2.json", '{"tensor_parallel": {"autotp_size": 2}}'),
        (
            "model.json",
            '{"model_type": "llama", "hidden_size": 8, "zero_optimization": {"stage": 2}, "fp16": {}}',
        ),
        ("kernels.json", '{"replace_with_kernel_inject": true, "fp16": {"enabled": true}}'),
    ],
)
def test_a_config_is_one_under_any_name_and_beside_any_key(
    here: Path, run: Runs, name: str, text: str
) -> None:
    (here / name).write_text(text)
    code, out, err = run("check", "--world-size", "8", name)
    assert code < 2, (out, err)
    assert "Checked 1 file" in out


def test_what_is_piped_in_is_known_by_its_text(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    for verb in ("check", "fix"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
        code, out, err = run(verb, "-")
        assert (code, out) == (2, PROGRAM if verb == "fix" else "")
        assert err.startswith("dsconfig: error: <stdin>: not a DeepSpeed config: a Python file: ")


def test_a_launch_file_that_names_a_program_has_it_left_alone(here: Path, run: Runs) -> None:
    (here / "ds_config.py").write_text(PROGRAM)
    (here / "train.sh").write_text("deepspeed train.py --deepspeed_config ds_config.py\n")
    for verb in ("check", "fix"):
        assert run(verb, "train.sh").code == 0
    assert (
        "ds_config.py is not checked: it is not a DeepSpeed config, but a Python file"
        in run("check", "train.sh").out
    )
    assert (here / "ds_config.py").read_text() == PROGRAM


def test_machine_formats_say_that_it_was_not_checked(here: Path, run: Runs) -> None:
    (here / "path.py").write_text(FILES["path.py"][0])
    sarif = json.loads(run("check", "--output-format", "sarif", "path.py").out)
    (invocation,) = sarif["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "a Python file" in json.dumps(invocation["toolExecutionNotifications"])
    (file,) = json.loads(run("check", "--output-format", "json", "path.py").out)["files"]
    assert "a Python file" in file["foreign"]
    assert 'errors="1"' in run("check", "--output-format", "junit", "path.py").out


def test_a_folder_says_what_stands_under_the_name_of_a_config(here: Path, run: Runs) -> None:
    (here / "ds_config.json").write_text(PROGRAM)
    for argv in (["check", "."], ["check", "--force-exclude", "ds_config.json"], ["fix", "."]):
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert err.startswith("dsconfig: error: ds_config.json: not a DeepSpeed config: a Python file")
    assert (here / "ds_config.json").read_text() == PROGRAM
