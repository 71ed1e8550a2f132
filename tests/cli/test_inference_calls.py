"""Calls of `init_inference` in Python programs: dicts and keyword arguments are one config of the inference engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dsconfig
from dsconfig.launch.python.config_dicts import find_python_configs
from tests.cli.conftest import Runs

HEAD = "import deepspeed\nimport torch\n"
CALL = "deepspeed.init_inference(model, "
REJECTED = [
    (CALL + "mp_size=2, tensor_parallel={'tp_size': 2})", "0.19.8", ["DSC886"]),
    (CALL + "{'dtype': 'fp16'}, dtype=torch.float32)", "0.19.8", ["DSC888"]),
    (CALL + "config={'dtype': torch.half}, dtype=torch.float16)", "0.19.8", []),
    (CALL + "{'enable_cuda_graph': True}, enable_cuda_graph=1)", "0.19.8", []),
    (CALL + "{'enable_cuda_graph': flag}, enable_cuda_graph=False)", "0.19.8", []),
    (CALL + "**{'dtype': 'fp16'}, dtype='fp16')", "0.7.4", ["DSC888"]),
    (CALL + "2)", "0.19.8", ["DSC889"]),
    (CALL + "2)", "0.7.5", []),
    (CALL + "None, 2)", "0.19.8", ["DSC889"]),
    (CALL + "{}, config={'dtype': 'fp16'})", "0.19.8", ["DSC889"]),
    (CALL + "config=DeepSpeedInferenceConfig(dtype='fp16'))", "0.19.8", ["DSC889"]),
    (CALL + "size)", "0.19.8", []),
    (CALL + "dtype=torch.bfloat16)", "0.9.2", ["DSC112"]),
    (CALL + "dtype=torch.bfloat16)", "0.9.3", []),
    (CALL + "dtype=torch.float64)", "0.9.3", []),
    (CALL + "dtype=kind, kernel_injct=True, config=config)", "0.19.8", ["DSC102"]),
    (CALL + "moe_experts=1)", "0.7.5", []),
    (CALL + "moe_experts=1)", "0.7.6", ["DSC110"]),
    (CALL + "max_tokens=8)", "0.7.4", ["DSC885"]),
    (CALL + "max_tokens=8)", "0.7.5", []),
    (CALL + "module_key='m')", "0.5.10", []),
    (CALL + "module_key='m')", "0.6.0", ["DSC885"]),
    (CALL + "config={'dtype': 'fp16'})", "0.7.5", ["DSC885"]),
    (CALL + "**{'mp_size': 2, 'dtype': torch.half})", "0.4.0", []),
    ("DeepSpeedInferenceConfig(dtype='fp8')", "0.19.8", ["DSC112"]),
    ("DeepSpeedInferenceConfig(**{'dtyp': 'fp16'})", "0.19.8", ["DSC102"]),
    ("net.init_inference(model, dtyp='fp16')", "0.19.8", []),
]


@pytest.mark.parametrize(("call", "release", "codes"), REJECTED)
def test_rejects_what_deepspeed_rejects(
    here: Path, run: Runs, call: str, release: str, codes: list[str]
) -> None:
    imported = "from deepspeed.inference.config import DeepSpeedInferenceConfig\n"
    (here / "serve.py").write_text(f"{HEAD}{imported}{call}\n")
    out = run("check", "--target", release, "--output-format", "concise", "serve.py").out
    assert set(re.findall(r"(DSC\d+) [\w-]+ rejected", out)) == set(codes)


def test_a_function_of_the_same_name_is_not_deepspeeds() -> None:
    assert find_python_configs("def init_inference(m, **k): ...\ninit_inference(m, dtype=1)\n", "") == ()
    assert find_python_configs("from vllm import init_inference\ninit_inference(m, dtype=1)\n", "") == ()
    assert (
        len(find_python_configs("from deepspeed import init_inference\ninit_inference(m, tp={})\n", "")) == 1
    )


def test_values_of_both_are_one_config() -> None:
    program = (
        HEAD + "config = {'tensor_parallel': {'tp_size': 2}}\nconfig['dtype'] = torch.half\n"
        f"{CALL}config, enable_cuda_graph=True, checkpoint=path)\n"
    )
    (config,) = find_python_configs(program, "")
    assert config.reader is not None
    assert config.reader.name == "inference"
    value = config.document.value()
    assert value["tensor_parallel"] == {"tp_size": 2}
    assert (value["dtype"], value["enable_cuda_graph"]) == ("torch.float16", True)
    assert config.unknown == {("checkpoint",)}


def test_a_dict_of_two_calls_does_not_get_the_arguments_of_one() -> None:
    program = f"{HEAD}config = {{'dtype': 'fp16'}}\n{CALL}config, mp_size=2)\n{CALL}config, tm=False)\n"
    shared, first, second = find_python_configs(program, "")
    assert {("mp_size",), ("tm",)} <= shared.unknown
    assert first.document.value() == {"mp_size": 2}
    assert second.document.value() == {"tm": False}
    assert first.unknown == second.unknown == {("*",)}


FIXED = [
    ("mp_size=2, dtype=torch.half", "dtype=torch.half, tensor_parallel={'tp_size': 2}"),
    ("{'dtype': 'fp16'}, mp_size=size", "{'dtype': 'fp16', 'tensor_parallel': {'tp_size': size}}"),
    ("kernel_injct=True", "kernel_inject=True"),
    (
        "\n    mp_size=2,\n    dtype='int8',\n",
        "\n    dtype='int8',\n    tensor_parallel={'tp_size': 2},\n",
    ),
]


@pytest.mark.parametrize(("arguments", "fixed"), FIXED)
def test_fixes_edit_the_call(tmp_path: Path, arguments: str, fixed: str) -> None:
    path = tmp_path / "serve.py"
    path.write_text(f"{HEAD}{CALL}{arguments})\n".replace(" \n", "\n"))
    text = dsconfig.fix(path, target="0.19.8", unsafe=True).text
    assert text.replace('"', "'") == f"{HEAD}{CALL}{fixed})\n".replace(" \n", "\n")


def test_comments_ignore_rules_in_the_lines_of_the_call(here: Path, run: Runs) -> None:
    call = f"{CALL}\n    mp_size=2,  # dsconfig: ignore[DSC106]\n    kernel_injct=True,\n)\n"
    (here / "serve.py").write_text(HEAD + call)
    out = run("check", "--target", "0.19.8", "--output-format", "concise", ".").out
    assert "serve.py:5:5: DSC102" in out
    assert "DSC106" not in out


def test_a_file_that_a_call_names_is_an_inference_config(here: Path, run: Runs) -> None:
    (here / "small.json").write_text('{"dtype": "fp16", "tp": {"tp_siz": 2}}')
    (here / "serve.py").write_text(f"{HEAD}{CALL}config='small.json')\n")
    result = run("check", "--target", "0.19.8", "--output-format", "concise", "serve.py")
    assert result.code == 1
    assert "small.json:1:26: DSC102" in result.out


def test_cells_of_a_notebook(here: Path, run: Runs) -> None:
    sources = [HEAD + "config = {'dtype': 'fp8'}\n", f"{CALL}config, kernel_injct=True)\n"]
    cells = [{"cell_type": "code", "metadata": {}, "source": each, "outputs": []} for each in sources]
    (here / "serve.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    out = run("check", "--target", "0.19.8", "--output-format", "concise", "serve.ipynb").out
    assert "cell 1:3:20: DSC112" in out
    assert "DSC102" in out


def test_a_file_and_calls_show_and_compare(here: Path, run: Runs) -> None:
    (here / "serve.py").write_text(f"{HEAD}{CALL}mp_size=2, max_tokens=8, dtype=torch.half)\n")
    assert "tensor_parallel.tp_size  2" in run("show", "--target", "0.19.8", "serve.py").out
    out = run("compat", "serve.py").out
    assert "0.7.5 to 0.19.8  ok" in out
    out = run("migrate", "serve.py", "--from", "0.7.5", "--to", "0.19.8", "--dry-run").out
    assert "takes effect now" not in out
