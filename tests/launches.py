"""Example launch files of each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
JOBS: dict[str, dict[str, Any]] = {
    "LLaMA-Factory": {
        "model_name_or_path": "m",
        "stage": "sft",
        "finetuning_type": "lora",
        "deepspeed": "ds/z.json",
    },
    "LLaMA-Factory v1": {"model": "m", "dist_config": {"name": "deepspeed", "config_file": "ds/z.json"}},
    "Axolotl": {"base_model": "m", "datasets": [], "deepspeed": "ds/z.json", "micro_batch_size": 2},
    "TRL": {"model_name_or_path": "m", "accelerate_config": "ds/acc.yaml", "deepspeed": "ds/z.json"},
    "ms-swift": {"model": "m", "dataset": "d", "train_type": "lora", "deepspeed": "ds/z.json"},
    "Determined": {"entrypoint": "x", "searcher": {}, "hyperparameters": {"deepspeed_config": "ds/z.json"}},
    "ArcticTraining": {"type": "sft", "model": {"name_or_path": "m"}, "deepspeed": {"train_batch_size": 8}},
    "Lightning": {
        "trainer": {"strategy": {"class_path": "a.DeepSpeedStrategy", "init_args": {"config": "ds/z.json"}}}
    },
    "Ludwig": {"strategy": {"type": "accelerate", "deepspeed_config": "ds/z.json"}},
    "Composer": {"max_duration": "1ep", "deepspeed_config": {"train_batch_size": 8}},
    "SkyPilot": {
        "resources": {"accelerators": "A100:8"},
        "run": "deepspeed t.py --deepspeed_config ds/z.json",
    },
    "Docker Compose": {"services": {"train": {"command": "deepspeed t.py --deepspeed_config ds/z.json"}}},
    "GitHub Actions": {
        "name": "train",
        "jobs": {"train": {"steps": [{"run": "deepspeed t.py --deepspeed_config ds/z.json"}]}},
    },
    "GitLab CI": {
        "stages": ["train"],
        "train": {"script": ["pip install .", "deepspeed t.py --deepspeed_config ds/z.json"]},
    },
    "Azure Pipelines": {
        "jobs": [{"job": "a", "steps": [{"bash": "deepspeed t.py --deepspeed_config ds/z.json"}]}]
    },
    "CircleCI": {
        "version": 2.1,
        "jobs": {"train": {"steps": ["checkout", {"run": "deepspeed t.py --deepspeed_config ds/z.json"}]}},
    },
    "Bitbucket Pipelines": {
        "pipelines": {"default": [{"step": {"script": ["deepspeed t.py --deepspeed_config ds/z.json"]}}]}
    },
    "Buildkite": {"steps": [{"label": "train", "command": "deepspeed t.py --deepspeed_config ds/z.json"}]},
    "Travis CI": {"language": "python", "script": ["deepspeed t.py --deepspeed_config ds/z.json"]},
    "Visual Studio Code": {
        "version": "0.2.0",
        "configurations": [
            {
                "type": "debugpy",
                "request": "launch",
                "module": "deepspeed",
                "args": ["t.py", "--deepspeed_config", "ds/z.json"],
            }
        ],
    },
    "DVC": {"stages": {"train": {"cmd": "deepspeed t.py --deepspeed_config ds/z.json", "deps": ["t.py"]}}},
    "Task": {"version": "3", "tasks": {"train": {"cmds": ["deepspeed t.py --deepspeed_config ds/z.json"]}}},
    "Azure ML": {
        "command": "python t.py --deepspeed_config ds/z.json",
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
        "resources": {"instance_count": 2},
    },
    "Kubernetes": {
        "apiVersion": "v1",
        "kind": "PyTorchJob",
        "spec": {"a": [{"command": ["deepspeed", "t.py", "--deepspeed_config", "ds/z.json"]}]},
    },
    "Transformers": {"output_dir": "o", "deepspeed": "ds/z.json"},
    "GPT-NeoX": {"pipe-parallel-size": 1, "num-layers": 12, "train_micro_batch_size_per_gpu": 4},
    "Ray": {"entrypoint": "python t.py --deepspeed_config ds/z.json", "working_dir": "."},
}
COMMANDS = {
    "xtuner": ("xtuner train my_cfg.py --deepspeed ds/z.json", "ds/z.json"),
    "Megatron-DeepSpeed": (
        "deepspeed a/pretrain_gpt.py --deepspeed --deepspeed_config ds/z.json",
        "ds/z.json",
    ),
    "OpenRLHF": ("deepspeed --module openrlhf.cli.train_sft --ds.zero_stage 3", "run.sh"),
}
"""Programs recognized by their command alone: a command, and the name of its config."""


def launch(project: Path, data: dict[str, Any], **more: Any) -> str:
    path = project / "launch" / "train.yaml"
    path.write_text(yaml.safe_dump({**data, **more}))
    return str(path)
