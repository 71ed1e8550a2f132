"""The examples of settings that hold a DeepSpeed config run, and say what is wrong in our words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "command_lines"
GIVEN = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
WRONG = 'must be one of `0`, `1`, `2`, `3` or `"auto"`, not `7`'


def run(name: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDER / name, *arguments],
        cwd=folder,  # Hydra leaves its records there
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> tuple[str, object]:
    assert done.returncode == 0, done.stderr
    epochs, _, config = done.stdout.strip().partition(" ")
    return epochs, json.loads(config)


def test_pydantic_settings(tmp_path: Path) -> None:
    name = "with_pydantic_settings.py"
    done = run(name, tmp_path, TRAIN_EPOCHS="3", TRAIN_DEEPSPEED=json.dumps(GIVEN))
    assert said(done) == ("3", GIVEN)
    wrong = run(name, tmp_path, TRAIN_DEEPSPEED='{"zero_optimization": {"stage": 7}}')
    assert "deepspeed.zero_optimization.stage\n" in wrong.stderr
    assert WRONG.removeprefix("`stage` ") in wrong.stderr


def test_hydra_zen(tmp_path: Path) -> None:
    name = "with_hydra_zen.py"
    overrides = ("epochs=3", "deepspeed.zero_optimization.stage=2", "+deepspeed.gradient_clipping=0.5")
    assert said(run(name, tmp_path, *overrides)) == ("3", {**GIVEN, "gradient_clipping": 0.5})
    assert WRONG in run(name, tmp_path, "deepspeed.zero_optimization.stage=7").stderr


@pytest.mark.parametrize(("name", "mark"), [("with_jsonargparse.py", "="), ("with_tyro.py", " ")])
def test_keys_are_set_over_the_config(name: str, mark: str, tmp_path: Path) -> None:
    changes = ("zero_optimization.stage=3", "optimizer.type=AdamW", "optimizer.params.betas=[0.9,0.95]")
    words = " ".join(changes).replace("=", mark).split()
    found = said(run(name, tmp_path, "--deepspeed", json.dumps(GIVEN), "--set", *words))
    optimizer = {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}
    assert found == ("1", {**GIVEN, "zero_optimization": {"stage": 3}, "optimizer": optimizer})
    wrong = run(name, tmp_path, "--set", *f"zero_optimization.stage{mark}7".split())
    assert wrong.returncode in (1, 2)
    assert WRONG.removeprefix("`stage` ") in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("name", ["with_jsonargparse.py", "with_tyro.py"])
def test_one_option_holds_the_config(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(GIVEN))
    for source in (json.dumps(GIVEN), str(file)):
        assert said(run(name, tmp_path, "--epochs", "3", "--deepspeed", source)) == ("3", GIVEN)
    wrong = run(name, tmp_path, "--deepspeed", '{"train_batch_size": 8, "fp16": {"enabel": true}}')
    assert wrong.returncode == 2
    assert "DSC102" in wrong.stderr + wrong.stdout
