"""Launch files of several programs, beside the configs that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from tests.parity.generators.auto import Config, generated

_LIGHTNING = {"bf16": "bf16-mixed", "fp16": "16-mixed"}
_EXPONENT = re.compile(r"(?m)^(\w+: )1\.0e-0([45])$")


def launched(loader: str, source: Random) -> Config:
    """A case: the text of the launch file, the config, the hidden size, the data loader's batch."""
    config, args, hidden = generated(source, trainer=True)
    if loader == "lightning":
        return _lightning(config, args, source)
    made = {**_BASES[loader], "deepspeed": "ds.json", **args}
    _vary(loader, made, source)
    text: str = yaml.safe_dump(made)
    if source.random() < 0.5:  # as people write it, and YAML reads it as a text
        text = _EXPONENT.sub(r"\g<1>1e-\2", text)
    case = {"text": text, "config": config, "hidden": hidden, "launch": made}
    return case | {"undecided": list(_undecided(loader, made))}


_BASES: dict[str, Config] = {
    "llamafactory": {
        "model_name_or_path": "m", "stage": "sft", "do_train": True, "finetuning_type": "lora",
        "dataset": "x", "template": "llama3", "output_dir": "out", "report_to": "none",
    },
    "axolotl": {
        "base_model": "m", "datasets": [{"path": "x", "type": "alpaca"}], "sequence_len": 128,
        "output_dir": "out", "val_set_size": 0,
    },
    "swift": {
        "model": "m", "model_type": "llama", "template": "llama3", "dataset": "x", "tuner_type": "lora",
        "output_dir": "out", "add_version": False, "report_to": "none",
    },
}  # fmt: skip


_REFUSED: dict[str, tuple[Config, ...]] = {
    "llamafactory": ({"use_galore": True}, {"use_apollo": True}, {"pure_bf16": True}),
    "axolotl": ({"optimizer": "muon"}, {"optimizer": "flash_adamw"}, {"fsdp": ["full_shard"]}),
    "swift": ({"fsdp": "fsdp2"}, {"bf16": True, "fp16": True}),
}


def _vary(loader: str, made: Config, source: Random) -> None:
    """What is the program's own."""
    if loader == "llamafactory" and source.random() < 0.3:
        made["finetuning_type"] = "full"
    if source.random() < 0.05:  # what none of them takes
        made |= source.choice(_REFUSED[loader])
    if loader == "swift":
        made["tuner_type"] = source.choice(("lora", "full"))
        if source.random() < 0.1:
            made["zero_hpz_partition_size"] = 8
        if source.random() < 0.2:
            made["deepspeed"] = source.choice(
                ("zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload")
            )
        if source.random() < 0.3:
            del made["per_device_train_batch_size"]
        if source.random() < 0.6:
            fitting = ("float16", "float32") if "fp16" in made else ("bfloat16", *_TYPES)
            made["torch_dtype"] = source.choice(_TYPES if source.random() < 0.1 else fitting)
        elif made.pop("fp16", False):
            made["bf16"] = True
    if loader == "axolotl":
        _vary_axolotl(made, source)


def _vary_axolotl(made: Config, source: Random) -> None:
    steps, micro = "gradient_accumulation_steps", "per_device_train_batch_size"
    made["micro_batch_size"] = made.pop(micro)
    made.setdefault("learning_rate", 1e-4)  # it has no default
    if source.random() < 0.2:
        del made["micro_batch_size"]
    if source.random() < 0.2:
        made["batch_size"] = 16
        if source.random() < 0.8:
            made.pop(steps, None)
    if source.random() < 0.2:
        made[source.choice(("bf16", "fp16"))] = source.choice((True, False, "auto", None))
    if made.get("fp16") == "auto":
        made["bf16"] = made.pop("fp16")
    made |= source.choice(
        ({}, {}, {}, {"deepcompile": True}, {"tensor_parallel_size": source.choice((1, 2))})
    )
    if made.get("warmup_steps") == 0.1:
        made["warmup_steps"] = 1


_TYPES = ("bfloat16", "float16", "float32")


def _undecided(loader: str, made: Config) -> Iterator[str]:
    """The keys whose argument the model, the GPU or the data decide."""
    automatic = made.get("bf16", "auto") == "auto" and not made.get("fp16")
    if "torch_dtype" not in made if loader == "swift" else loader == "axolotl" and automatic:
        yield from (f"{name}.enabled" for name in ("bf16", "fp16") if loader != "swift" or name not in made)
    if loader == "axolotl" and "warmup_steps" not in made:
        yield "scheduler.params.warmup_num_steps"


def _lightning(config: Config, args: Config, source: Random) -> Config:
    """One of Lightning's command line; a config without "auto", which Lightning does not know."""
    plain = _without_auto(config)
    if source.random() < 0.8:
        plain.pop("gradient_accumulation_steps", None)
    trainer: dict[str, Any] = {"devices": 8, "logger": False, "enable_checkpointing": False}
    if "gradient_accumulation_steps" in args:
        trainer["accumulate_grad_batches"] = args["gradient_accumulation_steps"]
    if "max_grad_norm" in args:
        trainer["gradient_clip_val"] = args["max_grad_norm"]
    precision = next((_LIGHTNING[name] for name in _LIGHTNING if args.get(name)), None)
    if precision:
        trainer["precision"] = precision
    own: dict[str, Any] = {"config": "ds.json"}
    if source.random() < 0.3:
        own["initial_scale_power"] = 12
    if source.random() < 0.3:
        own = {
            "stage": 3,
            "offload_optimizer": source.random() < 0.5,
            "offload_parameters": source.random() < 0.5,
        }
    name = "lightning.pytorch.strategies.DeepSpeedStrategy"
    trainer["strategy"] = {"class_path": name, "init_args": own}
    if source.random() < 0.2:
        trainer["strategy"] = source.choice(("deepspeed", "deepspeed_stage_1", "deepspeed_stage_3_offload"))
    steps = trainer.get("accumulate_grad_batches", 1)
    batch = max(1, plain.get("train_batch_size", 8 * 4 * steps) // (8 * steps))
    made = {"trainer": trainer}
    return {"text": yaml.safe_dump(made), "config": plain, "hidden": 0, "launch": made, "batch": batch}


def _without_auto(section: Config) -> Config:
    kept = {key: _without_auto(value) if isinstance(value, dict) else value for key, value in section.items()}
    return {key: value for key, value in kept.items() if value != "auto"}
