"""The model that a config trains: who names it, who has the first word, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.rules import RULES

from .conftest import Runs, Spawns

SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
"""210,240 parameters."""
WIDE = {**SMALL, "vocab_size": 2000}
"""338,240 parameters."""
CONFIG = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
RECIPE = """\
model_name_or_path: {}
stage: sft
finetuning_type: {}
dataset: x
output_dir: out
deepspeed: ds/z.json
"""


@pytest.fixture(autouse=True)
def models(here: Path) -> None:
    for name, model in (("small", SMALL), ("wide", WIDE)):
        (here / "models" / name).mkdir(parents=True)
        (here / "models" / name / "config.json").write_text(json.dumps(model))
    (here / "a.json").write_text(json.dumps(CONFIG))


def launches(here: Path, *models: str, tuning: str = "full") -> None:
    """A config, and launch files that train these models with it."""
    (here / "ds").mkdir()
    auto = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}
    (here / "ds" / "z.json").write_text(json.dumps({**auto, "zero_optimization": {"stage": 2}}))
    for number, model in enumerate(models):
        (here / f"train{number}.yaml").write_text(RECIPE.format(model, tuning))


@pytest.mark.parametrize("named", ["models/small", "models/small/config.json", "./models/small/"])
def test_the_command_names_a_file_or_a_folder(spawn: Spawns, named: str) -> None:
    result = spawn("check", "a.json", "--target", "0.19.8", "--model", named, "--output-format", "concise")
    assert (
        "DSC405 bucket-larger-than-model wasteful info: `reduce_bucket_size` is 500,000,000 by default, but"
        in result.out
    )
    assert f"{named} has 210,240 parameters" in result.out
    assert result.code == 0


def test_a_name_will_do(run: Runs) -> None:
    assert "gpt2 has 124,439,808 parameters" in run("check", "a.json", "--model", "gpt2").out.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nope", "nope: not a file, not a folder with a config.json, and not a known model name"),
        ("models", "models/config.json: no such file or directory"),
        ("loop", "loop: not a file, not a folder with a config.json, and not a known model name"),
        ("list.json", "list.json: not a JSON object"),
        ("bad.json", "bad.json: not valid JSON: Expecting property name enclosed in double quotes"),
        ("bytes.json", "bytes.json: not UTF-8 text"),
        ("large.json", "large.json: longer than 4 MiB, the size limit"),
        ("deep.json", "deep.json: nested too deeply"),
        ("digits.json", "digits.json: not valid JSON: Exceeds the limit"),
    ],
)
def test_what_cannot_be_read_is_one_line(here: Path, run: Runs, named: str, why: str) -> None:
    (here / "loop").symlink_to(here / "loop")
    (here / "list.json").write_text("[]")
    (here / "bad.json").write_text("{")
    (here / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (here / "large.json").write_text(json.dumps({"x": "y" * (4 << 20)}))
    (here / "deep.json").write_text("[" * 200_000)
    (here / "digits.json").write_text('{"hidden_size": 1' + "0" * 5000 + "}")
    result = run("check", "a.json", "--model", named)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"dsconfig: error: model: {why}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("value", ["auto", None, -1, True, 10**400, 1.5, [64], {}])
@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "model_type", "text_config"])
def test_odd_sizes_say_nothing(run: Runs, here: Path, key: str, value: object) -> None:
    (here / "odd.json").write_text(json.dumps({**SMALL, key: value}))
    result = run("check", "a.json", "--model", "odd.json", "--target", "0.19.8")
    assert result.code == 0
    if key != "text_config":
        assert "note: a.json: the sizes of odd.json are unknown: " in result.out


def test_settings_name_it_from_their_own_folder(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "dsconfig.toml").write_text(
        'model = "models/small"\n[[overrides]]\nfiles = ["sub/*"]\nmodel = "models/wide"\n'
    )
    (here / "sub").mkdir()
    (here / "sub" / "b.json").write_text(json.dumps(CONFIG))
    assert "210,240" in run("check", "a.json").out
    monkeypatch.chdir(here / "sub")
    assert "338,240" in run("check", "b.json").out
    assert "trains ../models/wide, as ../dsconfig.toml says" in run("check", "b.json", "--show-files").out


def test_settings_that_lead_nowhere_are_told(here: Path, run: Runs) -> None:
    (here / "dsconfig.toml").write_text('model = "models/none"\n')
    result = run("check", "a.json")
    assert "note: a.json: the model was not checked: models/none: not a file" in result.out
    (here / "dsconfig.toml").write_text("model = 3\n")
    assert "model: expected the path to its config.json or a name, as a string" in run("check", "a.json").err
    (here / "dsconfig.toml").write_text('host-memory = "much"\n')
    assert "host-memory: expected an amount of memory such as 512GiB" in run("check", "a.json").err


def test_the_first_to_name_it_has_the_last_word(here: Path, run: Runs) -> None:
    launches(here, "models/small")
    assert "210,240" in run("check", "ds/z.json").out
    (here / "dsconfig.toml").write_text('model = "models/wide"\n')
    assert "338,240" in run("check", "ds/z.json").out
    assert "338,240" in run("check", "train0.yaml").out
    config = json.loads((here / "ds" / "z.json").read_text())
    (here / "ds" / "z.json").write_text(json.dumps({**config, "$dsconfig": {"model": "../models/small"}}))
    assert "210,240" in run("check", "ds/z.json").out
    assert "210,240" in run("check", "train0.yaml").out
    assert "124,439,808" in run("check", "ds/z.json", "--model", "gpt2").out
    assert "124,439,808" in run("check", "train0.yaml", "--model", "gpt2").out


def test_a_launch_file_names_it(here: Path, run: Runs) -> None:
    launches(here, "models/small")
    output = run("check", "--show-files", "ds/z.json").out
    assert output.strip().endswith("; trains models/small, which train0.yaml names")
    assert "210,240" in run("check", "train0.yaml").out


def test_two_launch_files_with_two_models_name_none(here: Path, run: Runs) -> None:
    launches(here, "models/small", "models/wide")
    assert "its jobs train different models, so none is used" in run("check", "--show-files", "ds/z.json").out
    assert "DSC405" not in run("check", "ds/z.json").out
    both = run("check", "train0.yaml", "train1.yaml").out
    assert "210,240" in both
    assert "338,240" in both


def test_a_model_of_the_hub_is_not_looked_for(here: Path, run: Runs) -> None:
    launches(here, "nobody/nothing-at-all")
    result = run("check", "train0.yaml")
    assert "DSC405" not in result.out
    assert "model" not in result.err


def test_a_launch_file_that_trains_adapters_exceeds_no_host(here: Path) -> None:
    launches(here, "models/small", tuning="lora")
    path = here / "ds" / "z.json"
    offload = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "zero_optimization": offload}))
    codes = {
        diagnostic.code for diagnostic in check(str(path), target="0.19.8", world_size=8, host_memory=1000)
    }
    assert "DSC409" not in codes
    (here / "train0.yaml").write_text(RECIPE.format("models/small", "full"))
    codes = {
        diagnostic.code for diagnostic in check(str(path), target="0.19.8", world_size=8, host_memory=1000)
    }
    assert "DSC409" in codes


def test_leaves_set_by_a_script_of_the_repository_count(here: Path) -> None:
    model = {"model_type": "deepseek_v3"}
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    (here / "b.json").write_text(json.dumps(config))
    (here / "requirements.txt").write_text("transformers==4.57.1\n")

    def effects() -> list[str]:
        report = check("b.json", target="0.19.8", world_size=8, model=model)
        return [each.effect.value for each in report if each.code == "DSC407"]

    assert effects() == ["crashes"]
    (here / "train.py").write_text("from deepspeed.utils import set_z3_leaf_modules\n")
    from dsconfig.launch import repository_files

    repository_files.invalidate_cache()
    assert effects() == []
    repository_files.stop_watching_files()


def test_its_block_takes_no_number(run: Runs, here: Path) -> None:
    (here / "c.json").write_text(json.dumps({**CONFIG, "$dsconfig": {"model": 3}}))
    assert (
        "invalid value of `model`: expected the path to its config.json or a name"
        in run("check", "c.json").out
    )


def test_python_takes_what_stands_in_it() -> None:
    assert [diagnostic.code for diagnostic in check(CONFIG, target="0.19.8", model=SMALL)] == ["DSC405"]
    with pytest.raises(ValueError, match="nope: not a file"):
        check(CONFIG, model="nope")
    with pytest.raises(ValueError, match="host memory 0: expected a positive integer"):
        check(CONFIG, host_memory=0)


def test_machines_get_the_findings_as_others(run: Runs) -> None:
    result = json.loads(run("check", "a.json", "--model", "gpt2", "--output-format", "json").out)
    assert [diagnostic["code"] for diagnostic in result["files"][0]["diagnostics"]] == ["DSC405"]
    sarif = json.loads(run("check", "a.json", "--model", "gpt2", "--output-format", "sarif").out)
    assert [diagnostic["ruleId"] for diagnostic in sarif["runs"][0]["results"]] == ["DSC405"]


def test_without_a_model_nothing_of_it_is_loaded(spawn: Spawns) -> None:
    result = spawn("check", "a.json", "--target", "0.19.8", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines()}
    assert "dsconfig.evaluation.rule_context" in loaded
    heavy = ("dsconfig.memory", "dsconfig.job.model_config_json", "dsconfig.rules._model_facts")
    assert [name for name in loaded if name.startswith(heavy)] == []
    asks: dict[str, set[object]] = {}
    for rule in RULES.values():
        asks.setdefault(rule.module, set()).add(rule.triggers)
    alone = {module for module, questions in asks.items() if questions == {("<facts>",)}}
    assert alone
    assert not loaded & alone
