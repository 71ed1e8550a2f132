"""Versions of Transformers and Accelerate that fill or refuse otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, resolve
from dsconfig.cli import main
from dsconfig.consumers.by_name import BY_NAME, consumer_of
from dsconfig.consumers.filling import fill
from dsconfig.consumers.versions import CHANGES, does, is_known, number

ZERO3 = {"stage": 3, "stage3_prefetch_bucket_size": "auto"}
BATCH = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}
FILLED = {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}}


def codes(config: dict[str, Any], consumer: str, release: str = "0.16.9") -> set[str]:
    return {found.code for found in check(config, release, consumer=consumer) if found.severity == "error"}


@pytest.mark.parametrize(
    ("config", "consumer", "before", "since", "told_before", "told_since"),
    [
        (BATCH, "transformers", "4.29.2", "4.30", set(), {"DSC802"}),
        ({**BATCH, "zero_optimization": {"stage": 2, "round_robin_gradients": "auto"}}, "transformers",
         "4.29.2", "4.30", set(), {"DSC801"}),
        ({**BATCH, "zero_optimization": {"stage": 0}, "amp": {"enabled": "auto", "opt_level": "auto"}},
         "transformers", "4.57.6", "5.0", set(), {"DSC801"}),
        ({**BATCH, "zero_optimization": {
            "stage": 3, "offload_param": {"device": "nvme", "nvme_path": "auto"}}},
         "accelerate", "0.19.0", "0.20", {"DSC462", "DSC801"}, set()),
    ],
)  # fmt: skip
def test_what_is_refused(
    config: dict[str, Any],
    consumer: str,
    before: str,
    since: str,
    told_before: set[str],
    told_since: set[str],
) -> None:
    assert codes(config, f"{consumer}=={before}") == told_before
    assert codes(config, f"{consumer}=={since}") == told_since
    if consumer == "transformers":
        assert codes(config, consumer) == told_since


def filled(config: dict[str, Any], spec: str, arguments: dict[str, Any], model: dict[str, Any]) -> Any:
    made = json.loads(json.dumps(config))
    fill(made, consumer_of(spec), 2, arguments, model)
    return made


def test_what_is_filled() -> None:
    config = {**BATCH, "zero_optimization": ZERO3, "amp": {"opt_level": "auto"}}
    arguments: dict[str, Any] = {"per_device_train_batch_size": 2, "save_on_each_node": True}
    key = "stage3_prefetch_bucket_size"
    sizes = {
        spec: filled(config, spec, arguments, {"hidden_size": 64})["zero_optimization"][key]
        for spec in (
            "transformers==4.44",
            "transformers==4.45",
            "transformers",
            "accelerate==0.30.1",
            "accelerate",
        )
    }
    assert list(map(repr, sizes.values())) == ["3686.4", "3686", "3686", "3686.4", "3686"]
    nested = {"text_config": {"hidden_size": 64}}
    assert filled(config, "transformers==4.45", arguments, nested)["zero_optimization"][key] == "auto"
    assert filled(config, "transformers==4.46", arguments, nested)["zero_optimization"][key] == 3686
    assert filled(config, "transformers==4.57", arguments, {})["amp"] == {"opt_level": "O1"}
    assert filled(config, "transformers==5.0", arguments, {})["amp"] == {"opt_level": "auto"}
    assert "checkpoint" not in filled(config, "transformers==4.26", arguments, {})
    assert filled(config, "transformers==4.29", arguments, {})["checkpoint"]
    assert "gradient_accumulation_steps" not in filled(config, "transformers==4.29", arguments, {})
    assert filled(config, "transformers==4.30", arguments, {})["gradient_accumulation_steps"] == 1


@pytest.mark.parametrize(
    ("spec", "steps"),
    [("transformers==5.16", 0), ("transformers==5.18", 1), ("accelerate==1.14", 0), ("accelerate", 1)],
)
def test_a_warm_up_of_no_steps(spec: str, steps: int) -> None:
    schedule = {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}
    config = {**BATCH, "zero_optimization": {"stage": 2}, "scheduler": schedule}
    made = filled(config, spec, {"per_device_train_batch_size": 2}, {})
    assert made["scheduler"]["params"]["warmup_num_steps"] == steps


def test_resolve_takes_a_version() -> None:
    config = {**BATCH, "gradient_accumulation_steps": "auto"}
    run = resolve(config, 2, "0.16.9", "transformers==4.29.2", training_args={})
    assert (run.triplet, "zero_optimization" in run.config) == ((16, 8, 1), False)


@pytest.mark.parametrize(
    ("name", "text", "version", "source"),
    [
        ("requirements.txt", "torch>=2\ntransformers==4.44.2\n", "4.44.2", "of requirements.txt"),
        ("requirements-dev.txt", "transformers[torch] ~= 4.44.0 # x\n", "4.44.0", "of requirements-dev.txt"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["transformers==4.44.2", "x"]\n',
            "4.44.2",
            "of pyproject.toml",
        ),
        ("setup.py", 'install_requires=["transformers<=4.44.2"]', "4.44.2", "of setup.py"),
        ("environment.yml", "dependencies:\n  - transformers==4.44.2\n", "4.44.2", "of environment.yml"),
        ("requirements.txt", "transformers>=4.44\n", None, ""),
        ("requirements.txt", "# transformers==4.44.2\nsentence-transformers-x==2.0\n", None, ""),
        ("requirements.txt", "transformers==99.0\n", None, ""),
    ],
)
def test_what_the_repository_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, version: str | None, source: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ds").mkdir()
    (tmp_path / name).write_text(text)
    path = tmp_path / "ds" / "z.json"
    path.write_text(json.dumps({**BATCH, **FILLED, "zero_optimization": {"stage": 2}}))
    monkeypatch.chdir(tmp_path)
    reader = check(str(path)).reader
    assert (reader.name, reader.version) == ("transformers", version)
    assert reader.why.endswith(f", version {version} {source}") == (version is not None)
    assert check(str(path), consumer="transformers==4.29.2").reader.version == "4.29.2"


@pytest.mark.parametrize("said", ["argument", "file", "settings"])
def test_where_it_may_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    own = {"$dsconfig": {"consumer": "transformers==4.29.2"}} if said == "file" else {}
    (tmp_path / "ds_config.json").write_text(json.dumps({**own, **BATCH}))
    if said == "settings":
        (tmp_path / "dsconfig.toml").write_text('consumer = "transformers==4.29.2"\n')
    monkeypatch.chdir(tmp_path)
    options = ["--consumer", "transformers==4.29.2"] if said == "argument" else []
    assert main(["check", "ds_config.json", *options]) == 0
    assert ", version 4.29.2" in capsys.readouterr().out
    assert main(["check", "ds_config.json", "--consumer", "transformers"]) == 1


@pytest.mark.parametrize(
    "spec", ["deepspeed==0.16.9", "transformers==", "transformers==x", "transformers>=4", "x"]
)
def test_what_is_no_version(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_known(spec)
    with pytest.raises(ValueError, match=r"or a version such as transformers==4\.45"):
        check({}, consumer=spec)
    assert main(["check", "--consumer", spec]) == 2
    assert "expected one of deepspeed" in capsys.readouterr().err


def test_the_table_is_in_order_and_every_row_counts() -> None:
    for consumer in ("transformers", "accelerate"):
        rows = [each for each in CHANGES if each.consumer == consumer]
        assert rows == sorted(rows, key=lambda each: number(each.since))
        for row in rows:
            assert does(row.word, consumer, row.since)
            assert not does(row.word, consumer, "0.1")
    assert consumer_of("transformers") == BY_NAME["transformers"]
