"""A job of `dsconfig elastic run`: its config is judged as the agent hands it over, and kept whole."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import dsconfig
from dsconfig.api import presets
from dsconfig.core.releases import LATEST, ReleaseTarget
from dsconfig.job.detect_consumer import Origin
from dsconfig.schema import json_schema

from .conftest import Runs

BLOCK = {"enabled": True, "max_train_batch_size": 64, "micro_batch_sizes": [2, 4], "version": 0.1}
CONFIG = {"elasticity": BLOCK, "zero_optimization": {"stage": 2}}
SHELL = "#!/bin/bash\ndsconfig elastic run --nnodes 1:4 \\\n  --nproc-per-node 8 conf/e.json train.py\n"
VARIABLE = 'CONF=conf/e.json\ndsconfig elastic run --rdzv-endpoint h:1 "$CONF" train.py\n'
TORCHRUN = "torchrun --rdzv-backend dsconfig --rdzv-conf nproc_per_node=8,ds_config=conf/e.json -m x t.py\n"
MANIFEST = """
kind: TrainJob
apiVersion: trainer.kubeflow.org/v1alpha1
spec:
  trainer:
    command: [dsconfig, elastic, run, --nnodes, "1:4", conf/e.json, train.py]
"""


@pytest.fixture
def job(here: Path) -> Path:
    """A repository with a config that has a block."""
    (here / "conf").mkdir()
    (here / "conf" / "e.json").write_text(json.dumps(CONFIG))
    return here


@pytest.mark.parametrize(
    ("name", "text", "origin"),
    [
        ("run.sh", SHELL, "script"),
        ("run.sh", VARIABLE, "script"),
        ("run.sh", TORCHRUN, "script"),
        ("job.yaml", MANIFEST, "launch file"),
        ("dsconfig.toml", 'consumer = "elastic"\n', "settings"),
        ("dsconfig.toml", '[[overrides]]\nfiles = ["conf/*"]\nconsumer = "elastic"\n', "settings"),
        ("conf/dsconfig.toml", 'consumer = "elastic"\n', "settings"),
    ],
)
def test_it_is_found_out(job: Path, run: Runs, name: str, text: str, origin: Origin) -> None:
    (job / name).write_text(text)
    done = run("check", "conf/e.json", "--output-format", "json")
    (file,) = json.loads(done.out)["files"]
    assert (file["reader"]["name"], file["reader"]["origin"], file["diagnostics"]) == ("elastic", origin, [])
    assert done.code == 0
    assert "read by elastic" in run("check", "--show-files").out


@pytest.mark.parametrize(("name", "text"), [("run.sh", SHELL), ("job.yaml", MANIFEST)])
def test_what_starts_it_leads_to_it(job: Path, run: Runs, name: str, text: str) -> None:
    (job / name).write_text(text)
    done = run("check", name)
    assert done.code == 0
    assert "elastic with conf/e.json" in done.out
    (job / "conf" / "e.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    assert "DSC609" in run("check", name).out


@pytest.mark.parametrize("target", ["0.19.8", "0.16.9", "0.3.16"])
def test_the_config_itself_may_say_so_and_keeps_its_block(target: str) -> None:
    text = json.dumps({"$dsconfig": {"consumer": "elastic"}, **CONFIG, "bf16": {"enabled": True}, "zzz": 1})
    report = dsconfig.check(text, target=target)
    assert (report.consumer, [diagnostic.code for diagnostic in report.rejections()]) == ("elastic", [])
    assert report.world_sizes is not None
    fixed = json.loads(dsconfig.fix(text, unsafe=True, target=target).text)
    assert fixed["elasticity"] == BLOCK


def test_migrate_leaves_the_block_where_it_is(job: Path, run: Runs) -> None:
    done = run("migrate", "conf/e.json", "--from", "0.19.7", "--to", "0.19.8", "--consumer", "elastic")
    assert done.code == 0
    assert json.loads(done.out) == CONFIG


def test_an_unsafe_fix_does_not_throw_the_block_of_another_reader_away(job: Path, run: Runs) -> None:
    run("fix", "conf/e.json", "--unsafe-fixes", "--target", "0.19.8")
    assert json.loads((job / "conf" / "e.json").read_text()) == CONFIG
    assert "--consumer elastic" in run("check", "conf/e.json", "--target", "0.19.8").out


def test_settings_speak_of_what_has_a_block(job: Path, run: Runs) -> None:
    (job / "dsconfig.toml").write_text('consumer = "elastic"\n')
    (job / "ds_config.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}')
    assert "ds_config.json: probably read by deepspeed" in run("check", "--show-files").out


def test_a_typo_in_the_block_is_seen() -> None:
    (diagnostic,) = dsconfig.check(
        {"elasticity": {**BLOCK, "min_gpu": 2}}, target="0.19.8", consumer="elastic"
    )
    assert (diagnostic.code, diagnostic.path, diagnostic.effect.value) == (
        "DSC102",
        ("elasticity", "min_gpu"),
        "ignored",
    )


def test_it_resolves_to_a_row_of_the_plan_at_every_release() -> None:
    for target in ("0.16.9", "0.19.8"):
        run = dsconfig.resolve(CONFIG, world_size=8, target=target, consumer="elastic")
        assert (run.train_batch_size, "elasticity" in run.config) == (48, False)
        with pytest.raises(dsconfig.ResolveError, match="world size 7"):
            dsconfig.resolve(CONFIG, world_size=7, target=target, consumer="elastic")
    with pytest.raises(dsconfig.ResolveError, match="no `elasticity`"):
        dsconfig.resolve({"train_batch_size": 8}, world_size=8, target=LATEST, consumer="elastic")


def test_the_preset_passes_as_it_is(here: Path, run: Runs) -> None:
    for options in (
        ["--preset", "elastic"],
        ["--consumer", "elastic"],
        ["--preset=elastic", "--target=0.16.9"],
    ):
        assert run("init", "--force", *options).code == 0
        assert run("check", "ds_config.json", *options[1:] * options[-1].startswith("--target")).code == 0
        assert run("check", "ds_config.json", "--target", "0.16.9").code == 0
    done = run("init", "--preset", "zero2", "--consumer", "elastic", "other.json")
    assert done.code == 2
    assert "preset `zero2` is for deepspeed, transformers, accelerate, lightning, not for elastic" in done.err


def test_the_schema_has_the_block_at_every_release() -> None:
    for release in ("0.19.8", "0.16.9"):
        target = ReleaseTarget((release,), release, "argument")
        schema = json_schema(target, "elastic")
        assert schema["properties"]["elasticity"]["$ref"]
        judge = jsonschema.Draft7Validator(schema)
        assert judge.is_valid(CONFIG)
        assert not judge.is_valid({"train_batch_size": 8})
        assert not judge.is_valid({**CONFIG, "train_batch_size": 8})
        assert not judge.is_valid({"elasticity": {**BLOCK, "min_gpus": "2"}})
        offered = [each["label"] for each in schema["defaultSnippets"]]
        assert offered == ["elastic"]
    assert presets.config("elastic", "0.19.8")["elasticity"]["enabled"]
