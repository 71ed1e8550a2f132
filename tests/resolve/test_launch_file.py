"""Launch files of Accelerate, resolved and shown: the config that they name, or their block as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import ResolveError, resolve
from dsconfig.cli import main
from dsconfig.resolve.effective_values import effective_values_of

NAMES = """\
distributed_type: DEEPSPEED
num_processes: 4
deepspeed_config:
  deepspeed_config_file: z3.json
"""
HOLDS = """\
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 2
deepspeed_config:
  zero_stage: 3
  gradient_accumulation_steps: 4
  offload_optimizer_device: cpu
"""
ARGS = {"per_device_train_batch_size": 3}


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WORLD_SIZE", "DSCONFIG_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "z3.json").write_text('{"train_batch_size": 8, "zero_optimization": {\n"stage": 3}}')
    path = tmp_path / "launch.yaml"
    path.write_text(NAMES)
    return path


def test_the_named_config_is_resolved(launch: Path) -> None:
    run = resolve(str(launch), target="0.19.8")
    assert (run.triplet, run.consumer, run.world_size) == ((8, 2, 1), "accelerate", 4)
    assert run.config["zero_optimization"] == {"stage": 3}
    told = [message.text for message in run.messages]
    assert f"{launch} names z3.json, which accelerate loads" in told
    assert "world size 4 is the launch file's `num_processes`" in told
    assert (
        resolve(str(launch), world_size=8, target="0.19.8", consumer="transformers").consumer
        == "transformers"
    )


def test_the_named_config_is_shown(launch: Path) -> None:
    shown = effective_values_of(str(launch), target="0.19.8")
    values = {value.key: (value.value, value.note) for value in shown.values}
    assert values["zero_optimization.stage"] == (3, "line 2")
    assert values["train_micro_batch_size_per_gpu"] == (2, "derived for 4 ranks")


def test_the_block_is_resolved_as_the_config_that_it_makes(launch: Path) -> None:
    launch.write_text(HOLDS)
    with pytest.raises(ResolveError, match="from training arguments, which are not given"):
        resolve(str(launch), target="0.19.8")
    run = resolve(str(launch), target="0.19.8", training_args=ARGS)
    assert (run.triplet, run.consumer) == ((24, 3, 4), "accelerate")
    assert run.config["bf16"] == {"enabled": True}
    assert run.config["zero_optimization"]["offload_optimizer"] == {"device": "cpu"}


def test_the_block_is_shown_at_its_own_lines(launch: Path) -> None:
    launch.write_text(HOLDS)
    shown = effective_values_of(str(launch), target="0.19.8", training_args=ARGS)
    notes = {value.key: value.note for value in shown.values}
    assert notes["zero_optimization.stage"] == "line 5"
    assert notes["zero_optimization.offload_optimizer.device"] == "line 7"
    assert notes["bf16.enabled"] == "line 2"
    assert notes["train_micro_batch_size_per_gpu"].startswith("filled by accelerate")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NAMES.replace("z3", "z4"), "z4.json, which .*launch.yaml names, was not found from here"),
        (HOLDS.replace("zero_stage: 3", "zero_stage: 7"), "launch.yaml:5: DSC"),
        (HOLDS.replace("DEEPSPEED", "MULTI_GPU"), "so Accelerate ignores `deepspeed_config`"),
        (
            NAMES + "  zero_stage: 3\n",
            "is set together with `deepspeed_config_file`, which Accelerate rejects",
        ),
    ],
)
def test_a_launch_file_that_check_refuses(launch: Path, text: str, said: str) -> None:
    launch.write_text(text)
    with pytest.raises(ResolveError, match=said):
        resolve(str(launch), world_size=2, target="0.19.8", training_args=ARGS)


def test_values_set_first_do_not_excuse_the_launch_file(launch: Path) -> None:
    changes = {"zero_optimization.stage": 2}
    assert resolve(str(launch), target="0.19.8", set=changes).config["zero_optimization"] == {"stage": 2}
    launch.write_text(NAMES + "  zero_stage: 3\n")
    with pytest.raises(ResolveError, match="which Accelerate rejects"):
        resolve(str(launch), target="0.19.8", set=changes)


def test_a_named_config_that_is_refused(launch: Path) -> None:
    Path("z3.json").write_text('{"train_batch_size": 8,\n"zero_optimization": {"stge": 3}}')
    with pytest.raises(ResolveError, match=r"^z3.json:2: DSC102 `stge` is not"):
        resolve(str(launch), target="0.19.8")


def test_on_the_command_line(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resolve", "launch.yaml", "--target", "0.19.8"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["train_micro_batch_size_per_gpu"] == 2
    assert "launch.yaml names z3.json" in err
    assert main(["resolve", "launch.yaml", "--target", "0.19.8", "--world-size", "8"]) == 0
    assert "× 8 ranks" in capsys.readouterr().err
    assert main(["show", "launch.yaml", "--target", "0.19.8"]) == 0
    assert "zero_optimization.stage" in capsys.readouterr().out
