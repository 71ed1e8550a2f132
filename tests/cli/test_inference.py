"""Configs of `deepspeed.init_inference`: recognized, checked by their own keys, and refused where training is meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig

from .conftest import Runs

CONFIG = {"replace_with_kernel_inject": True, "tensor_parallel": {"tp_size": 2}, "dtype": "fp16"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("infer.json", json.dumps(CONFIG)),
        ("ds_config.json", '{"dtype": "bf16", "tensor_parallel": {"tp_size": 2}}'),
        ("infer.yaml", "tp: {tp_size: 2}\nmax_tokens: 512\n"),
        ("moe.json", '{"moe": {"ep_size": 2}, "return_tuple": false, "checkpoint": "a.json"}'),
    ],
)
def test_is_recognized_by_its_keys(here: Path, run: Runs, name: str, text: str) -> None:
    (here / name).write_text(text)
    code, out, _ = run("check", "--target", "0.19.8", name)
    assert code == 0
    assert "read by inference: its keys are those of `deepspeed.init_inference`" in out
    assert "works at these world sizes" not in out


@pytest.mark.parametrize(
    "text",
    [
        '{"tensor_parallel": {"autotp_size": 2}, "dtype": "bf16", "train_batch_size": 8}',
        '{"tensor_parallel": {"autotp_size": 2}}',
        '{"replace_with_kernel_inject": true, "fp16": {"enabled": true}, "train_batch_size": 8}',
    ],
)
def test_a_training_config_stays_one(here: Path, run: Runs, text: str) -> None:
    (here / "a.json").write_text(text)
    assert "inference:" not in run("check", "--target", "0.19.8", "a.json").out


def test_unknown_files_stay_unknown(here: Path, run: Runs) -> None:
    for text in ('{"dtype": "bf16", "hidden": 8}', '{"checkpoint": "x", "args": {}, "lr": 1}', '{"zero": 0}'):
        (here / "other.json").write_text(text)
        assert run("check", "other.json").code == 2, text
        assert run("check", "--consumer", "inference", "other.json").code < 2, text


def test_is_found_in_a_folder_by_an_unmistakable_key(here: Path, run: Runs) -> None:
    (here / "infer.json").write_text(json.dumps(CONFIG))
    (here / "other.json").write_text('{"return_tuple": true, "max_tokens": 4}')
    code, out, _ = run("check", "--output-format", "json", ".")
    assert (code, [each["path"] for each in json.loads(out)["files"]]) == (0, ["infer.json"])


def test_reads_strict_json(here: Path, run: Runs) -> None:
    (here / "infer.json").write_text('{"kernel_inject": true, "dtype": fp16}')
    code, out, _ = run("check", "--consumer", "inference", "--target", "0.19.8", "infer.json")
    assert code == 1
    assert "DSC001" in out


def test_old_names_move_to_their_section(here: Path, run: Runs) -> None:
    (here / "infer.json").write_text('{"kernel_inject": true, "mp_size": 2, "moe_type": "residual"}')
    assert run("fix", "--target", "0.19.8", "infer.json").code == 0
    assert json.loads((here / "infer.json").read_text()) == {
        "kernel_inject": True,
        "tensor_parallel": {"tp_size": 2},
        "moe": {"type": "residual"},
    }


def test_shows_the_value_of_an_old_name(here: Path, run: Runs) -> None:
    (here / "infer.json").write_text('{"kernel_inject": true, "mp_size": 4, "tp": {"tp_grain_size": 1}}')
    out = run("show", "--target", "0.19.8", "infer.json").out
    assert "tp.tp_size        4     derived from `mp_size`" in out
    assert "kernel_inject     true  line 1" in out


def test_releases_differ(here: Path, run: Runs) -> None:
    (here / "infer.json").write_text('{"kernel_inject": true, "moe": true, "dtype": "bf16"}')
    out = run("compat", "infer.json").out
    assert [line.split()[:4] for line in out.splitlines() if " to " in line] == [
        ["0.3.1", "to", "0.7.5", "rejected"],
        ["0.7.6", "to", "0.19.2", "rejected"],
        ["0.19.3", "to", "0.19.8", "ok"],
    ]


@pytest.mark.parametrize("verb", ["resolve --world-size 8", "memory --world-size 8 --params 7b"])
def test_commands_about_training_say_so(here: Path, run: Runs, verb: str) -> None:
    (here / "infer.json").write_text(json.dumps(CONFIG))
    code, out, err = run(*verb.split(), "infer.json")
    assert code
    assert "infer.json is an inference config" in out + err


def test_the_api_checks_a_dict() -> None:
    found = dsconfig.check({"dtype": "fp8", "fp16": {}}, target="0.19.8", consumer="inference")
    assert [each.code for each in found] == ["DSC112", "DSC119"]
    with pytest.raises(dsconfig.ResolveError, match="inference config"):
        dsconfig.resolve(CONFIG, world_size=2, target="0.19.8")


def test_a_launch_file_can_be_checked_for_inference(here: Path, run: Runs) -> None:
    (here / "neox.json").write_text(
        '{"num-layers": 12, "pipe-parallel-size": 1, "train_micro_batch_size_per_gpu": 4}'
    )
    code, out, err = run("check", "--consumer", "inference", "--target", "0.19.8", "neox.json")
    assert (code, "internal error" in err) == (1, False)
    assert "neox.json: GPT-NeoX, DeepSpeed inference" in out


@pytest.mark.parametrize("editor", ["vscode", "neovim", "jetbrains", "zed"])
def test_editors_get_the_schema_of_inference_configs(here: Path, run: Runs, editor: str) -> None:
    (here / "serve.json").write_text('{"dtype": "fp16", "kernel_inject": true}')
    out = run("editor", editor, "--schema", "--write").out
    settings, schema = out.splitlines()[-1].split()[-1], "deepspeed-inference.schema.json"
    text = (here / settings).read_text()
    assert schema in text
    assert "serve.json" in text
    assert "replace_with_kernel_inject" in next(here.rglob(schema)).read_text()
    (here / "serve.json").write_text('{"train_batch_size": 8, "zero_optimization": {}}')
    assert schema not in run("editor", editor, "--schema").out


def test_classes_and_typed_dicts() -> None:
    from dsconfig.types import InferenceConfig, InferenceConfigDict, InferenceTensorParallel

    config = InferenceConfig(dtype="fp16", tensor_parallel=InferenceTensorParallel(tp_size=2))
    values: InferenceConfigDict = {"dtype": "fp16", "tensor_parallel": {"tp_size": 2}}
    assert config.to_dict() == values
    assert not dsconfig.check(config.to_dict(), target="0.19.8", consumer="inference")
    with pytest.raises(dsconfig.types.BuildError, match="max_out_token"):
        InferenceConfig(max_out_token=8)  # type: ignore[call-arg]
