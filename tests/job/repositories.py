"""Forty small repositories that differ in the source of a job's facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "overlap_comm": True},
}
PLAIN = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 1},
}
TRAINER = "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 true --output_dir out"
PROGRAM = """import transformers
parser = transformers.HfArgumentParser((transformers.TrainingArguments,))
args, = parser.parse_args_into_dataclasses()
transformers.Trainer(args=args)
"""
LOOP = "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config='ds.json')\n"
COMMANDS = {
    "deepspeed": f"deepspeed --num_gpus 8 train.py --deepspeed ds.json {TRAINER}",
    "deepspeed, two nodes": f"deepspeed --num_nodes 2 --num_gpus 4 train.py --deepspeed ds.json {TRAINER}",
    "torchrun": f"torchrun --nnodes 2 --nproc_per_node 8 train.py --deepspeed ds.json {TRAINER}",
    "accelerate": f"accelerate launch --num_processes 4 train.py --deepspeed ds.json {TRAINER}",
    "variables": f"NGPU=4\ndeepspeed --num_gpus $NGPU train.py --deepspeed ds.json {TRAINER}",
    "unknown gpus": f"deepspeed --num_gpus=$(nvidia-smi -L | wc -l) train.py --deepspeed ds.json {TRAINER}",
    "slurm": f"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python train.py --deepspeed ds.json {TRAINER}",
    "model": f"deepspeed --num_gpus 8 train.py --deepspeed ds.json --model_name_or_path llama {TRAINER}",
    "llama factory": (
        f"deepspeed --num_gpus 8 src/train.py --stage sft --finetuning_type full --deepspeed ds.json {TRAINER}"
    ),
    "own loop": "deepspeed --num_gpus 8 loop.py --deepspeed_config ds.json",
}
MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4} | {
    "vocab_size": 128,
    "intermediate_size": 128,
    "architectures": ["LlamaForCausalLM"],
}
SAID: dict[str, dict[str, Any]] = {
    "nothing": {},
    "pin": {"requirements.txt": "transformers==4.45.0\ndeepspeed==0.15.4\n"},
    "lock": {"uv.lock": '[[package]]\nname = "deepspeed"\nversion = "0.16.9"\n'},
}
BLOCKS: dict[str, Mapping[str, object]] = {
    "target": {"target": "0.16.9"},
    "world size": {"world-size": 2},
    "consumer": {"consumer": "accelerate"},
    "model": {"model": "llama/config.json"},
    "all": {"target": "0.15.4", "world-size": 2, "consumer": "transformers", "model": "gpt2"},
}


def repositories() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each repository and its files, including the config `ds.json`."""
    for name, command in COMMANDS.items():
        config = PLAIN if name == "own loop" else AUTO
        for location, files in SAID.items():
            yield f"{name}, {location}", _with(config, {"run.sh": f"{command}\n", **files})
    for name, block in BLOCKS.items():
        yield f"block: {name}", _with({**AUTO, "$dsconfig": block}, {"run.sh": COMMANDS["deepspeed"] + "\n"})
    launch = {
        "distributed_type": "DEEPSPEED",
        "num_processes": 4,
        "deepspeed_config": {"deepspeed_config_file": "ds.json"},
    }
    yield "accelerate's file", _with(AUTO, {"acc.yaml": yaml.safe_dump(launch)})
    recipe = {"model_name_or_path": "llama", "stage": "sft", "deepspeed": "ds.json", "bf16": True}
    yield "recipe", _with(AUTO, {"train.yaml": yaml.safe_dump({**recipe, "per_device_train_batch_size": 1})})
    two = {"a.sh": COMMANDS["deepspeed"], "b.sh": COMMANDS["deepspeed"].replace("steps 4", "steps 8")}
    yield "two scripts", _with(AUTO, two)
    yield "nobody", _with(PLAIN, {})
    yield "nobody, auto", _with(AUTO, {})


def _with(config: Mapping[str, object], files: Mapping[str, str]) -> dict[str, str]:
    beside = {
        "train.py": PROGRAM,
        "src/train.py": PROGRAM,
        "loop.py": LOOP,
        "llama/config.json": json.dumps(MODEL),
    }
    return {"ds.json": json.dumps(config), **beside, **files}
