"""What the code of a program says about its memory: the model, adapters, checkpointing and kernels."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import dsconfig
from dsconfig.document import read_file
from dsconfig.launch.find_jobs import job_of_launch_file
from dsconfig.launch.memory_arguments_in_code import MemoryArgumentsInCode, memory_arguments_in_code

CONFIG = """{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 2}
}
"""
TRAINER = """
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

NAME = "Qwen/Qwen2.5-7B"
args = TrainingArguments("out", deepspeed="ds.json", gradient_checkpointing=True, optim="adamw_torch", bf16=True)
tokenizer = AutoTokenizer.from_pretrained("another/tokenizer")
model = AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="flash_attention_2")
Trainer(model=model, args=args).train()
"""
QLORA = """
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

def main():
    quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", quantization_config=quantization)
    lora = LoraConfig(r=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.05)
    args = SFTConfig("out", deepspeed="ds.json", max_length=4096, packing=True)
    SFTTrainer(model=model, args=args, peft_config=lora).train()

main()
"""
PARSER = """
from dataclasses import dataclass, field
import transformers
from peft import LoraConfig, get_peft_model

@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="facebook/opt-1.3b")
    use_lora: bool = True
    lora_r: int = 64

@dataclass
class TrainingArguments(transformers.TrainingArguments):
    model_max_length: int = field(default=512)

parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
model_args, training_args = parser.parse_args_into_dataclasses()
model = transformers.AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
if model_args.use_lora:
    model = get_peft_model(model, LoraConfig(r=model_args.lora_r, target_modules=["q_proj", "v_proj"]))
transformers.Trainer(model=model, args=training_args).train()
"""
ARGPARSE = """
import argparse
import deepspeed
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="gpt2-xl")
parser.add_argument("--lora", action="store_true")
parser.add_argument("--checkpoint", action="store_true")
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model)
if args.checkpoint:
    model.gradient_checkpointing_enable()
if args.lora:
    model = get_peft_model(model, LoraConfig())
deepspeed.initialize(model=model, config="ds.json")
"""
ADAPTERS = {"use_peft": True, "lora_target_modules": ["q_proj", "v_proj"]}


def read_program(program: str, command: str = "deepspeed --num_gpus 4 train.py") -> MemoryArgumentsInCode:
    Path("ds.json").write_text(CONFIG)
    Path("train.py").write_text(dedent(program))
    Path("run.sh").write_text(f"{command}\n")
    job = job_of_launch_file(read_file("run.sh"))
    assert job is not None
    return memory_arguments_in_code(job)


@pytest.mark.parametrize(
    ("program", "flags", "settings"),
    [
        (
            TRAINER,
            "",
            {
                "gradient_checkpointing": True,
                "optim": "adamw_torch",
                "model_name_or_path": "Qwen/Qwen2.5-7B",
                "attn_implementation": "flash_attention_2",
            },
        ),
        (
            QLORA,
            "",
            {
                **ADAPTERS,
                "model_name_or_path": "Qwen/Qwen2.5-7B",
                "load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
                "lora_r": 16,
                "lora_dropout": 0.05,
                "max_length": 4096,
                "packing": True,
            },
        ),
        (
            PARSER,
            "--deepspeed ds.json",
            {
                **ADAPTERS,
                "use_lora": True,
                "lora_r": 64,
                "model_max_length": 512,
                "model_name_or_path": "facebook/opt-1.3b",
            },
        ),
        (
            PARSER,
            "--deepspeed ds.json --use_lora False --model_name_or_path gpt2",
            {"use_lora": "False", "lora_r": 64, "model_max_length": 512, "model_name_or_path": "gpt2"},
        ),
        (ARGPARSE, "", {"model_name_or_path": "gpt2-xl"}),
        (
            ARGPARSE,
            "--lora --checkpoint --model gpt2",
            {
                "model": "gpt2",
                "lora": True,
                "checkpoint": True,
                "model_name_or_path": "gpt2",
                "gradient_checkpointing": True,
                "use_peft": True,
                "lora_r": 8,
            },
        ),
    ],
)
def test_constants_flags_and_defaults_are_read(
    empty_repository: Path, program: str, flags: str, settings: dict[str, Any]
) -> None:
    code = read_program(program, f"deepspeed --num_gpus 4 train.py {flags}")
    passed = job_of_launch_file(read_file("run.sh"))
    assert passed is not None
    assert passed.arguments is not None
    others = {"num_gpus", "deepspeed", "ENV", "SCRIPT"}
    assert {
        name: value for name, value in code.add_to(passed.arguments).items() if name not in others
    } == settings
    assert code.unknown == {}


@pytest.mark.parametrize(
    ("program", "unknown"),
    [
        (
            ARGPARSE,
            {
                "model_name_or_path": "train.py:11",
                "gradient_checkpointing": "train.py:13",
                "use_peft": "train.py:15",
            },
        ),
        (PARSER, {"model_name_or_path": "train.py:17", "use_peft": "train.py:19"}),
    ],
)
def test_flags_that_the_command_may_pass_stay_unknown(
    empty_repository: Path, program: str, unknown: dict[str, str]
) -> None:
    code = read_program(program.lstrip("\n"), 'deepspeed --num_gpus 4 train.py --deepspeed ds.json "$@"')
    assert code.unknown == unknown
    assert code.defaults == {}


@pytest.mark.parametrize(
    ("added", "name"),
    [
        ("model = AutoModelForCausalLM.from_pretrained(choose())", "model_name_or_path"),
        ("model = PeftModel.from_pretrained(model, 'adapters')", "use_peft"),
        ("model = get_peft_model(model, PrefixTuningConfig(num_virtual_tokens=8))", "use_peft"),
        (
            "for _ in range(2):\n    if choose():\n        model.gradient_checkpointing_enable()",
            "gradient_checkpointing",
        ),
    ],
)
def test_contradictions_and_conditions_make_a_setting_unknown(
    empty_repository: Path, added: str, name: str
) -> None:
    code = read_program(TRAINER.replace("gradient_checkpointing=True, ", "") + added)
    assert name in code.unknown
    assert name not in code.overrides


def test_a_model_that_is_not_trained_does_not_count(empty_repository: Path) -> None:
    code = read_program(
        f'{TRAINER}reward = AutoModelForSequenceClassification.from_pretrained("other/model")'
    )
    assert code.overrides["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert code.loaded_at == "train.py:7"


def test_kernels_of_unsloth_are_not_estimated(empty_repository: Path) -> None:
    loaded = "model, tokenizer = FastLanguageModel.from_pretrained(model_name=NAME, load_in_4bit=True)"
    added = "model = FastLanguageModel.get_peft_model(model, r=32, target_modules=['q_proj'])"
    code = read_program(TRAINER.replace("model = AutoModelForCausalLM", f"{loaded}\n{added}\nother = Auto"))
    assert code.overrides["use_unsloth"] is True
    assert code.overrides["lora_r"] == 32
    assert "use_unsloth" in str(dsconfig.memory("run.sh").to_dict())


def test_memory_is_that_of_the_job(empty_repository: Path) -> None:
    read_program(TRAINER)
    estimate = dsconfig.memory("run.sh")
    assert round(estimate.parameters / 1e9, 1) == 7.6
    assert "activations are checkpointed per layer" in estimate.assumptions
    assert "settings that are not given come from run.sh and train.py" in estimate.assumptions
    Path("whole.py").write_text(TRAINER.replace("gradient_checkpointing=True, ", ""))
    Path("whole.sh").write_text("deepspeed --num_gpus 4 whole.py\n")
    whole = dsconfig.memory("whole.sh")
    assert whole.rank.highest_peak > estimate.rank.highest_peak


@pytest.mark.parametrize(
    ("version", "checkpoints", "length"),
    [("0.14.0", False, 2048), ("0.16.1", False, 1024), ("0.22.2", True, 1024), ("1.16.0", True, 1024)],
)
def test_defaults_of_trl_apply(empty_repository: Path, version: str, checkpoints: bool, length: int) -> None:
    Path("requirements.txt").write_text(f"trl=={version}\n")
    read_program(QLORA.replace("max_length=4096, ", ""))
    assumptions = " ".join(dsconfig.memory("run.sh").assumptions)
    assert ("activations are checkpointed per layer" in assumptions) is checkpoints
    assert f"× {length} tokens" in assumptions


def test_the_program_that_loads_the_model_is_named(empty_repository: Path) -> None:
    read_program(TRAINER)
    Path("run.sh").unlink()
    Path("evaluate.py").write_text('ARGUMENTS = TrainingArguments("out", deepspeed="ds.json")\n')
    model = dsconfig.check("ds.json").reader.facts.model
    assert str(model) == "Qwen/Qwen2.5-7B, which train.py:7 loads"
