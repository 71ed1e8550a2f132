"""Precedence of sources for every field of a job, in every command and function.

Arguments come before the environment, then the config's own block, settings, the script that starts the job, the
release that the repository pins, and the installed one. Two sources have limits, on purpose:

* functions use no settings and no `DSCONFIG_TARGET`: a program passes what it wants;
* the environment's `WORLD_SIZE` counts where a run is resolved (`resolve`, `memory`), not where a file is checked:
  schedulers set it to numbers other than that of ranks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from dsconfig.cli import main
from dsconfig.core.releases import LATEST

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 1},
}
TARGETS = {
    "argument": "0.15.0",
    "environment": "0.15.1",
    "file": "0.15.2",
    "settings": "0.15.3",
    "pin": "0.15.4",
    "default": LATEST,
}
SIZES = {"argument": 2, "file": 4, "settings": 8, "script": 16, "default": None}
CONSUMERS = {
    "argument": "accelerate",
    "file": "lightning",
    "settings": "deepspeed",
    "script": "transformers",
    "default": "deepspeed",
}
MODELS = {
    "argument": "gpt2",
    "file": "gpt2-medium",
    "settings": "gpt2-large",
    "script": "gpt2-xl",
    "default": None,
}
FIELDS: dict[str, dict[str, Any]] = {
    "target": TARGETS,
    "world-size": SIZES,
    "consumer": CONSUMERS,
    "model": MODELS,
}
ORDER = ("argument", "environment", "file", "settings", "script", "pin", "default")
PARAMETERS = {"gpt2": 124.4, "gpt2-medium": 354.8, "gpt2-large": 774.0, "gpt2-xl": 1557.6}


@pytest.fixture
def repository(empty_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], list[str]]:
    """Fixture that creates a repository where a source and all weaker ones set a field; returns the options."""
    monkeypatch.delenv("DSCONFIG_TARGET", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)

    def make(field: str, strongest: str) -> list[str]:
        values = FIELDS[field]
        sources_with_value = {each for each in ORDER[ORDER.index(strongest) :] if each in values}
        config: dict[str, Any] = dict(CONFIG)
        if "file" in sources_with_value:
            config["$dsconfig"] = {field: values["file"]}
        if "settings" in sources_with_value:
            value = json.dumps(values["settings"])
            Path("dsconfig.toml").write_text(f"{field} = {value}\n")
        if "script" in sources_with_value:
            Path("run.sh").write_text(
                f"deepspeed --num_gpus {SIZES['script']} train.py --deepspeed ds.json "
                f"--model_name_or_path gpt2-xl\n"
            )
        if "pin" in sources_with_value:
            Path("requirements.txt").write_text(f"deepspeed=={TARGETS['pin']}\n")
        if "environment" in sources_with_value:
            monkeypatch.setenv("DSCONFIG_TARGET", TARGETS["environment"])
        Path("ds.json").write_text(json.dumps(config))
        return [f"--{field}", str(values["argument"])] if strongest == "argument" else []

    return make


def _json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    code = main([*argv])
    out = capsys.readouterr().out
    assert code in (0, 1), argv
    return json.loads(out)


def sources(field: str, *without: str) -> list[str]:
    """Sources of a field, except the excluded ones."""
    return [each for each in FIELDS[field] if each not in without]


@pytest.mark.parametrize("source", sources("target"))
def test_target_of_every_verb(
    repository: Callable[[str, str], list[str]], source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = repository("target", source), TARGETS[source]
    assert (
        _json(capsys, "check", "ds.json", *options, "--output-format", "json")["files"][0]["target"]
        == expected
    )
    assert main(["resolve", "ds.json", "--world-size", "2", *options]) == 0
    assert f"DeepSpeed {expected}" in capsys.readouterr().err
    assert main(["memory", "ds.json", "--world-size", "2", "--model", "gpt2", *options]) == 0
    assert f"DeepSpeed {expected}" in capsys.readouterr().out
    main(["show", "ds.json", "steps_per_print", *options])
    assert f"default of {expected}" in capsys.readouterr().out
    if source not in ("argument", "default"):
        assert main(["migrate", "ds.json", "--to", LATEST]) in (0, 1)
        assert f"from {expected} " in "".join(capsys.readouterr())


@pytest.mark.parametrize("source", sources("target", "environment", "settings"))
def test_target_of_every_function(repository: Callable[[str, str], list[str]], source: str) -> None:
    repository("target", source)
    expected = TARGETS[source]
    options: dict[str, Any] = {"target": expected} if source == "argument" else {}
    assert dsconfig.check("ds.json", **options).target.text == expected
    assert dsconfig.fix("ds.json", **options).report.target.text == expected
    assert dsconfig.resolve("ds.json", world_size=2, **options).release == expected
    assert dsconfig.show("ds.json", **options).release == expected
    assert dsconfig.memory("ds.json", world_size=2, model="gpt2", **options).release == expected
    if source not in ("argument", "default"):
        assert dsconfig.migrate("ds.json", to=LATEST).origin == expected


@pytest.mark.parametrize("source", sources("world-size"))
def test_world_size_of_every_verb(
    repository: Callable[[str, str], list[str]], source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = repository("world-size", source), SIZES[source]
    output = main(["show", "ds.json", "train_batch_size", *options, "--output-format", "json"])
    values = json.loads(capsys.readouterr().out)["values"]
    assert output == 0
    assert next((each["value"] for each in values if each["key"] == "train_batch_size"), None) == expected
    assert main(["resolve", "ds.json", *options]) == (2 if expected is None else 0)
    text = capsys.readouterr().out
    assert expected is None or json.loads(text)["train_batch_size"] == expected
    assert main(["memory", "ds.json", "--model", "gpt2", *options]) == (2 if expected is None else 0)
    assert expected is None or f", {expected} ranks" in capsys.readouterr().out


@pytest.mark.parametrize("source", sources("world-size", "settings"))
def test_world_size_of_every_function(repository: Callable[[str, str], list[str]], source: str) -> None:
    repository("world-size", source)
    expected = SIZES[source]
    if source in ("argument", "file"):
        Path("dsconfig.toml").unlink()
    options: dict[str, Any] = {"world_size": expected} if source == "argument" else {}
    assert dsconfig.check("ds.json", **options).world_size == expected
    assert dsconfig.fix("ds.json", **options).report.world_size == expected
    if expected is None:
        with pytest.raises(dsconfig.UnknownWorldSizeError):
            dsconfig.resolve("ds.json")
        return
    assert dsconfig.resolve("ds.json", **options).world_size == expected
    output = dsconfig.show("ds.json", "train_batch_size", **options)
    assert [each.value for each in output.values] == [expected]
    assert dsconfig.memory("ds.json", model="gpt2", **options).world_size == expected


def test_the_environment_of_a_run_counts_where_it_is_resolved(
    repository: Callable[[str, str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository("world-size", "file")
    monkeypatch.setenv("WORLD_SIZE", "32")
    assert dsconfig.resolve("ds.json").world_size == 32
    assert dsconfig.resolve("ds.json", world_size=2).world_size == 2
    assert dsconfig.check("ds.json").world_size == SIZES["file"]


@pytest.mark.parametrize("source", sources("consumer"))
def test_consumer_of_every_verb(
    repository: Callable[[str, str], list[str]], source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = repository("consumer", source), CONSUMERS[source]
    output = _json(capsys, "check", "ds.json", *options, "--output-format", "json")
    assert output["files"][0]["reader"]["name"] == expected
    assert main(["resolve", "ds.json", "--world-size", "2", *options]) == (
        1 if expected == "lightning" else 0
    )


@pytest.mark.parametrize("source", sources("consumer", "settings"))
def test_consumer_of_every_function(repository: Callable[[str, str], list[str]], source: str) -> None:
    repository("consumer", source)
    expected = CONSUMERS[source]
    options: dict[str, Any] = {"consumer": expected} if source == "argument" else {}
    assert dsconfig.check("ds.json", **options).consumer == expected
    assert dsconfig.fix("ds.json", **options).report.consumer == expected
    if expected != "lightning":  # which takes no config with a batch of its own
        assert dsconfig.resolve("ds.json", world_size=2, **options).consumer == expected


@pytest.mark.parametrize("source", sources("model", "default"))
def test_model_of_every_verb(
    repository: Callable[[str, str], list[str]], source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = repository("model", source), MODELS[source]
    assert main(["memory", "ds.json", "--world-size", "2", *options]) == 0
    assert f"{PARAMETERS[expected]:,.1f} million" in capsys.readouterr().out
    main(["check", "ds.json", *options])
    # Of a model that is on no disk, a script's word is taken for its memory alone.
    assert source in ("argument", "script") or f"trains {expected}" in capsys.readouterr().out


@pytest.mark.parametrize("source", sources("model", "settings", "default"))
def test_model_of_every_function(repository: Callable[[str, str], list[str]], source: str) -> None:
    repository("model", source)
    options: dict[str, Any] = {"model": MODELS[source]} if source == "argument" else {}
    estimate = dsconfig.memory("ds.json", world_size=2, **options)
    assert f"{estimate.parameters / 1e6:.1f}" == f"{PARAMETERS[MODELS[source]]:.1f}"
    model = dsconfig.check("ds.json", **options).reader.facts.model
    assert (model and model.named) == (None if source == "script" else MODELS[source])
