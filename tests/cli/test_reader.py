"""Who reads a file: found out from it, and said; what settings and the file itself have to say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, fix
from dsconfig.job.detect_consumer import consumer_suggested_by_content

from .conftest import Runs

AUTO = {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
PARAMS = {"lr": "auto", "weight_decay": "auto"}


def optimizer(**params: Any) -> dict[str, Any]:
    return {"optimizer": {"type": "AdamW", "params": {**PARAMS, **params}}}


READERS = [
    ({}, "deepspeed", True),
    ([], "deepspeed", True),
    ({"train_batch_size": 8, "optimizer": {"params": "auto"}}, "deepspeed", True),
    ({"train_batch_size": 8, "zero_optimization": {"prefetch_bucket_size": "auto"}}, "deepspeed", True),
    ({"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": "auto"}}, "deepspeed", True),
    (AUTO, "transformers", True),
    ({**AUTO, **optimizer(betas="auto")}, "transformers", False),
    ({**AUTO, **optimizer(eps="auto"), "gradient_accumulation_steps": 1}, "transformers", False),
    ({**AUTO, **optimizer(betas=[0.9, 0.95])}, "transformers", True),
    ({**AUTO, **optimizer()}, "accelerate", True),
    ({**AUTO, "gradient_accumulation_steps": 4}, "accelerate", True),
    ({"zero_optimization": {"stage3_gather_16bit_weights_on_model_save": "auto"}}, "accelerate", True),
]


@pytest.mark.parametrize(("data", "name", "likely"), READERS)
def test_what_the_content_says(data: Any, name: str, likely: bool) -> None:
    consumer = consumer_suggested_by_content(data)
    assert (consumer.name, consumer.likely) == (name, likely)
    report = check(json.dumps(data))
    assert (report.reader, report.consumer) == (consumer, name)


def test_it_is_said_before_what_depends_on_it(here: Path, run: Runs) -> None:
    (here / "ds_config.json").write_text(json.dumps({**AUTO, "no_such_key_here": 1}))
    out = run("check", "ds_config.json").out
    assert out.startswith(
        'ds_config.json: probably read by transformers: 1 value is "auto"\n\nwarning[DSC101]'
    )
    (run_,) = json.loads(run("check", "--output-format", "sarif").out)["runs"]
    (reader,) = run_["properties"]["readers"]
    assert (reader["path"], reader["name"]) == ("ds_config.json", "transformers")


def test_the_file_speaks_before_settings_and_the_command_line_before_both(here: Path, run: Runs) -> None:
    block = {"consumer": "accelerate", "target": "0.16.9", "world-size": 4}
    (here / "a.json").write_text(json.dumps({"$dsconfig": block, **AUTO}))
    (here / "dsconfig.toml").write_text('consumer = "lightning"\ntarget = "0.14.5"\nworld-size = 2\n')
    report = check(str(here / "a.json"))
    assert (report.consumer, report.target.text, report.world_size) == ("accelerate", "0.16.9", 4)
    assert run("check", "a.json").out == (
        'Checked 1 file (read by accelerate: set in its own `"$dsconfig"`) against DeepSpeed 0.16.9 '
        '("$dsconfig"): no problems found.\n'
    )
    out = run("check", "a.json", "--consumer", "transformers", "--target", "0.17.0").out
    assert "read by transformers: --consumer) against DeepSpeed 0.17.0 (--target)" in out
    (here / "a.json").write_text(json.dumps(AUTO))
    out = run("check", "a.json").out
    assert "read by lightning: dsconfig.toml: consumer) against DeepSpeed 0.14.5 (dsconfig.toml)" in out


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"consumer": "me"}, "expected one of deepspeed, "),
        ({"target": "9.x"}, "unknown DeepSpeed release `9.x`"),
        ({"target": 1}, "expected a release or a range"),
        ({"world-size": 0}, "expected a whole number above 0"),
        ({"world-size": True}, "expected a whole number above 0"),
    ],
)
def test_a_word_that_is_not_understood_is_told_and_changes_nothing(
    block: dict[str, Any], message: str
) -> None:
    report = check(json.dumps({"$dsconfig": block, **AUTO}))
    (diagnostic,) = report
    assert diagnostic.code == "DSC008"
    assert message in diagnostic.message
    assert (report.consumer, report.world_size) == ("transformers", None)


def test_a_fix_does_not_change_who_reads_the_file() -> None:
    text = '{"train_batch_size": "auto", "zero_optimization": {"stage": "2"}, "typo_zzz": 1}'
    assert '"auto"' in fix(text, unsafe=True).text


OVERRIDES = """
target = "0.19.8"
fail-on = "never"
[[overrides]]
files = ["old/*"]
target = "0.16.9"
consumer = "accelerate"
[[overrides]]
files = ["old/strict*"]
fail-on = "warning"
ignore = ["DSC112"]
"""


def test_overrides_are_for_their_files(here: Path, run: Runs) -> None:
    (here / "dsconfig.toml").write_text(OVERRIDES)
    (here / "old").mkdir()
    for name in ("a.json", "old/a.json", "old/strict.json"):
        (here / name).write_text(json.dumps({**AUTO, "no_such_key_here": 1}))
    files = json.loads(run("check", "a.json", "old/a.json", "--output-format", "json").out)["files"]
    assert [(file["target"], file["reader"]["name"]) for file in files] == [
        ("0.19.8", "transformers"),
        ("0.16.9", "accelerate"),
    ]
    assert run("check", "a.json", "old/a.json").code == 0
    assert run("check", "a.json", "old/strict.json").code == 1
    assert run("check", "old/strict.json", "--ignore", "DSC101").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overrides = 1", "overrides: expected a list of tables, got 1"),
        ('[[overrides]]\ntarget = "0.16.9"', "overrides[0]: `files` is missing"),
        ('[[overrides]]\nfiles = "a"', 'overrides[0].files: expected a list of patterns, got "a"'),
        (
            "[[overrides]]\nfiles = []\n[[overrides]]\nfiles = []\nzzz = 1",
            "overrides[1].zzz: unknown setting",
        ),
        ("[[overrides]]\nfiles = []\noverrides = []", "overrides[0].overrides: unknown setting"),
    ],
)
def test_mistakes_in_overrides(here: Path, run: Runs, text: str, message: str) -> None:
    (here / "dsconfig.toml").write_text(text)
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert message in err


def test_the_nearest_settings_count(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("", 'target = "0.19.8"'), ("a", 'target = "0.16.9"'), ("a/b", "")):
        (here / folder).mkdir(exist_ok=True)
        if text:
            (here / folder / "dsconfig.toml").write_text(text)
        (here / folder / "ds_config.json").write_text(json.dumps(AUTO))
    document = json.loads(run("check", "--output-format", "json").out)
    targets = {file["path"]: file["target"] for file in document["files"]}
    assert targets == {
        "ds_config.json": "0.19.8",
        "a/ds_config.json": "0.16.9",
        "a/b/ds_config.json": "0.16.9",
    }
    monkeypatch.chdir(here / "a" / "b")
    assert "0.19.8" in run("check", "../../ds_config.json").out
    (here / "a" / "dsconfig.toml").write_text("zzz = 1")
    monkeypatch.chdir(here)
    code, _, err = run("check")
    assert code == 2
    assert "a/dsconfig.toml: zzz: unknown setting" in err
