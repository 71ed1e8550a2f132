"""Checks of programs that reject a config, and arguments that they derive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, resolve
from dsconfig.launch import framework_checks
from dsconfig.launch.launch_file_formats import FORMATS
from dsconfig.launch.training_arguments import derive_arguments
from tests.launches import AUTO, JOBS, launch

Z3: dict[str, Any] = {**AUTO, "zero_optimization": {"stage": 3}}
SEVERAL = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "NPROC_PER_NODE": 2}
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("LLaMA-Factory", {"pure_bf16": True}, Z3, "pure_bf16"),
    ("LLaMA-Factory", {"use_galore": True}, AUTO, "use_galore"),
    ("LLaMA-Factory", {"quantization_bit": 8}, Z3, "quantization_bit"),
    ("LLaMA-Factory", {"quantization_bit": 4, "quantization_method": "hqq"}, Z3, "quantization_method"),
    ("LLaMA-Factory", {"use_badam": True}, AUTO, "use_badam"),
    ("LLaMA-Factory", {"use_badam": True, "badam_mode": "ratio"}, Z3, "badam_mode"),
    ("LLaMA-Factory", {"bf16": True, "fp16": True}, AUTO, "bf16"),
    ("Axolotl", {"optimizer": "muon"}, AUTO, "optimizer"),
    ("Axolotl", {"optimizer": "flash_adamw"}, AUTO, "optimizer"),
    ("Axolotl", {"batch_size": 8, "gradient_accumulation_steps": 2}, AUTO, "batch_size"),
    ("Axolotl", {"batch_size": 8, "micro_batch_size": None}, AUTO, "batch_size"),
    ("Axolotl", {"tensor_parallel_size": 2}, {"train_batch_size": "auto"}, "tensor_parallel_size"),
    ("Axolotl", {"tensor_parallel_size": 2, "deepspeed": AUTO}, {}, "tensor_parallel_size"),
    ("Axolotl", {"deepcompile": True, "deepspeed": AUTO}, {}, "deepcompile"),
    ("ms-swift", {"fsdp": "fsdp2"}, AUTO, "fsdp"),
    ("ms-swift", {"zero_hpz_partition_size": 8}, {"train_batch_size": 8}, "zero_hpz_partition_size"),
    ("ms-swift", {"ENV": SEVERAL}, AUTO, "ENV.NPROC_PER_NODE"),
    ("ms-swift", {"torch_dtype": "bfloat16", "fp16": True}, AUTO, "fp16"),
    ("LLaMA-Factory", {"learning_rate": "1e"}, AUTO, "learning_rate"),
    ("Axolotl", {"micro_batch_size": 0}, AUTO, "micro_batch_size"),
    ("Determined", {}, {"remark": 1}, "hyperparameters.deepspeed_config"),
    ("Transformers", {"auto_find_batch_size": True}, Z3, "auto_find_batch_size"),
    ("Transformers", {"save_only_model": True, "load_best_model_at_end": True}, AUTO, "save_only_model"),
]
TAKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("LLaMA-Factory", {"pure_bf16": True}, AUTO),
    ("LLaMA-Factory", {"use_galore": False, "fsdp": ""}, AUTO),
    ("LLaMA-Factory", {"use_badam": True}, Z3),
    ("LLaMA-Factory", {"quantization_bit": 4}, Z3),
    ("LLaMA-Factory", {"quantization_bit": 8}, AUTO),
    ("Axolotl", {"optimizer": "adamw_torch"}, AUTO),
    ("Axolotl", {"batch_size": 8, "fsdp": "${FSDP}"}, AUTO),
    ("LLaMA-Factory", {"learning_rate": "${lr}", "warmup_steps": 0.1, "max_steps": -1}, AUTO),
    ("LLaMA-Factory", {"learning_rate": "1e-4", "weight_decay": "0"}, AUTO),
    ("Axolotl", {"bf16": True, "fp16": True}, AUTO),
    ("Axolotl", {"tensor_parallel_size": 1}, AUTO),
    ("Axolotl", {"tensor_parallel_size": 2}, {"zero_optimization": {}}),
    ("ms-swift", {"ENV": {**SEVERAL, "NPROC_PER_NODE": 4}}, AUTO),
    ("ms-swift", {"ENV": {**SEVERAL, "SWIFT_SINGLE_DEVICE_MODE": 1}}, AUTO),
    ("Transformers", {"save_only_model": True}, AUTO),
]


def rejected_keys(project: Path, name: str, more: dict[str, Any], config: dict[str, Any]) -> list[str]:
    text = json.dumps(config).replace('"remark": 1', "// a remark\n")
    (project / "ds" / "z.json").write_text(text, "utf-8")
    return [
        diagnostic.dotted
        for diagnostic in check(launch(project, {**JOBS[name], **more}))
        if diagnostic.code == "DSC810"
    ]


@pytest.mark.parametrize(("name", "more", "config", "key"), REFUSED)
def test_check_fails_at_its_key(
    project: Path, name: str, more: dict[str, Any], config: dict[str, Any], key: str
) -> None:
    assert rejected_keys(project, name, more, config) == [key]


@pytest.mark.parametrize(("name", "more", "config"), TAKEN)
def test_check_passes(project: Path, name: str, more: dict[str, Any], config: dict[str, Any]) -> None:
    assert rejected_keys(project, name, more, config) == []


def test_diagnostic_of_a_script_has_the_line_of_its_command(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps(AUTO), "utf-8")
    command = "swift sft --model m --deepspeed ds/z.json \\\n  --fsdp fsdp2\n"
    (project / "run.sh").write_text(f"export NPROC_PER_NODE=2\n{command}", "utf-8")
    report = check("run.sh")
    (diagnostic,) = report
    assert (diagnostic.code, diagnostic.location and diagnostic.location.line) == ("DSC810", 2)
    assert [child.name for child in report.children] == ["ds/z.json"]


def test_megatron_rejects_a_config_that_is_not_strict_json(project: Path) -> None:
    (project / "ds" / "z.json").write_text('{"train_batch_size": 8} // of two nodes\n', "utf-8")
    (project / "run.sh").write_text("deepspeed pretrain_gpt.py --deepspeed_config ds/z.json\n", "utf-8")
    assert [diagnostic.code for diagnostic in check("run.sh")] == ["DSC810"]
    (project / "run.sh").write_text("deepspeed train.py --deepspeed_config ds/z.json\n", "utf-8")
    assert check("run.sh").ok


def test_every_check_cites_its_source() -> None:
    programs = {each.name for each in FORMATS}
    rows = [row for rows in framework_checks.PROGRAM_CHECKS.values() for row in rows]
    assert framework_checks.PROGRAM_CHECKS.keys() <= programs
    assert all(".py:" in row.source for row in (*rows, *framework_checks.TRAINER_CHECKS))


PRECISIONS = [
    ("ms-swift", {"torch_dtype": "float16"}, {"bf16": False, "fp16": True}),
    ("ms-swift", {"torch_dtype": "bfloat16", "fp16": False}, {"bf16": True, "fp16": False}),
    ("ms-swift", {}, {}),
    ("Axolotl", {"bf16": "auto"}, {"bf16": None, "fp16": None}),
    ("Axolotl", {"bf16": None}, {"bf16": False, "fp16": False}),
    ("Axolotl", {"bf16": "auto", "fp16": True}, {"bf16": False, "fp16": True}),
    ("Axolotl", {"bf16": True, "fp16": True}, {"bf16": True, "fp16": False}),
    ("TRL", {}, {"bf16": True}),
    ("TRL", {"fp16": True}, {"bf16": False, "fp16": True}),
]


@pytest.mark.parametrize(("name", "data", "precision"), PRECISIONS)
def test_derived_precision(name: str, data: dict[str, Any], precision: dict[str, Any]) -> None:
    arguments = {key: data[key] for key in ("bf16", "fp16") if key in data}
    derive_arguments(name, arguments, data)
    assert {key: value for key, value in arguments.items() if key in ("bf16", "fp16")} == precision


def test_unknown_precision_is_filled_but_never_contradicts(project: Path) -> None:
    job = {**JOBS["Axolotl"], "gradient_accumulation_steps": 2, "learning_rate": 1e-4, "bf16": "auto"}
    (project / "ds" / "z.json").write_text(json.dumps(AUTO), "utf-8")
    assert resolve(launch(project, job), world_size=4).config["bf16"] == {"enabled": True}
    fp16 = {**AUTO, "fp16": {"enabled": True}}
    (project / "ds" / "z.json").write_text(json.dumps(fp16), "utf-8")
    assert check(launch(project, job)).ok, "a GPU without bf16 trains with it"


def test_axolotl_keeps_values_of_the_config(project: Path) -> None:
    job = {**JOBS["Axolotl"], "bf16": True, "tensor_parallel_size": 4, "deepcompile": True, "batch_size": 8}
    expected = {"tensor_parallel": {"autotp_size": 2}, "compile": {"deepcompile": False}}
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, **expected}), "utf-8")
    run = resolve(launch(project, job), world_size=8)
    assert (run.config["tensor_parallel"], run.config["compile"]) == tuple(expected.values())
    assert run.config["zero_optimization"]["gather_16bit_weights_on_model_save"] is True
    assert run.gradient_accumulation_steps == 1, "its default, whatever `batch_size` says"


@pytest.mark.parametrize(
    ("program", "rate", "expected"),
    [
        ("parser.parse_yaml_file('train.yaml')", "1e-4", ["write 1.0e-4"]),
        ("parser.parse_yaml_file('train.yaml')", "1.0e-4", []),
        ("parser.parse_yaml_file('train.yaml')", "0.0001", []),
        ("TrlParser(args).parse_args_and_config()", "1e-4", []),
        ("parser.parse_args_into_dataclasses()", "1e-4", []),
    ],
)
def test_a_number_that_yaml_reads_as_text(
    empty_repository: Path, program: str, rate: str, expected: list[str]
) -> None:
    (empty_repository / "ds.json").write_text(
        '{"train_batch_size": "auto", "zero_optimization": {"stage": 2}}'
    )
    (empty_repository / "train.yaml").write_text(
        f"output_dir: o\nper_device_train_batch_size: 1\nlearning_rate: {rate}\ndeepspeed: ds.json\n"
    )
    (empty_repository / "train.py").write_text(
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        f"parser = HfArgumentParser(TrainingArguments)\nargs = {program}\nTrainer(args=args)\n"
    )
    report = check("train.yaml", target="0.19.8")
    assert [each.help for each in report if each.code == "DSC810"] == expected


GRPO = """
from trl import GRPOConfig, GRPOTrainer, TrlParser
(args,) = TrlParser((GRPOConfig,)).parse_args_and_config()
GRPOTrainer('m', args=args).train()
"""


@pytest.mark.parametrize(
    ("ranks", "flags", "requirement", "factors"),
    [
        (7, "", "", "7 x 1 x 4 = 28"),
        (7, "", "trl==0.15.2", "7 x 1 = 7"),
        (7, "", "trl==0.14.0", ""),
        (4, "", "trl==0.15.2", "4 x 1 = 4"),
        (4, "", "", ""),
        (7, "--num_generations 7", "", ""),
        (4, "--num_generations 6", "", "4 x 1 x 4 = 16"),
        (4, "--steps_per_generation 1", "", "4 x 1 x 1 = 4"),
        (7, "--generation_batch_size 56", "", ""),
    ],
)
def test_generations_that_do_not_divide_the_batch(
    empty_repository: Path, ranks: int, flags: str, requirement: str, factors: str
) -> None:
    (empty_repository / "requirements.txt").write_text(f"{requirement}\n")
    (empty_repository / "grpo.py").write_text(GRPO)
    (empty_repository / "ds.json").write_text(json.dumps(AUTO))
    (empty_repository / "recipe.yaml").write_text(
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: true\n"
    )
    (empty_repository / "run.sh").write_text(
        f"torchrun --nproc_per_node {ranks} grpo.py --config recipe.yaml --deepspeed ds.json {flags}\n"
    )
    messages = [each.message for each in check("run.sh", target="0.19.8") if each.code == "DSC810"]
    assert len(messages) == bool(factors)
    assert all(f"does not divide the batch of {factors} samples" in each for each in messages)
