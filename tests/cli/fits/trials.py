"""Random configs and arguments, and how much room there is for them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.cli.fits.layouts import FREE, LAYOUTS, laid_out

Config = dict[str, Any]
MICRO, STEPS, TRAIN = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}
MODEL = ("--params", "3e8", "--hidden", "1024", "--layers", "3", "--sequence-length", "512")
RELEASES = ("0.19.8", "0.19.8", "0.18.9", "0.16.9", "0.14.5")


@dataclass
class Trial:
    """One config as a text, and how it is asked about."""

    config: Config
    name: str
    text: str
    argv: list[str]
    """Without `--set`, `--micro-batch` and `--training-args`."""
    set: Config = field(default_factory=dict)
    micro: int | None = None
    arguments: Config | None = None
    room: float = 0.5
    host: float | None = None
    launch: bool = False
    """Whether the text is a launch file's, into which nothing is written."""


def trial_of(rng: random.Random) -> Trial:
    """A trial as this generator has it."""
    ranks = rng.choice([1, 2, 4, 8])
    config = config_of(rng, ranks)
    autos = '"auto"' in json.dumps(config)
    layout = rng.choice([each for each in LAYOUTS if not (autos and each in FREE) or rng.random() < 0.1])
    name = "ds" + LAYOUTS[layout]
    argv = [*MODEL, "--world-size", str(ranks), "--target", rng.choice(RELEASES), "--margin", "0GiB"]
    argv += [word for word in ("--checkpointing", "--zero-init", "--no-zero-init") if rng.random() < 0.1]
    argv += rng.choice([[], [], ["--optimizer", "adamw"]])
    trial = Trial(config, name, laid_out(config, layout, rng), argv)
    if name.endswith(".yaml") and rng.random() < 0.3:
        trial.launch, trial.text = True, in_launch_file(config, rng)
    elif rng.random() < 0.03:
        trial.text = trial.text.replace("zero_optimization: ", "zero_optimization: &zero ")
    if rng.random() < (0.5 if autos else 0.2):
        trial.argv += ["--consumer", rng.choice(["transformers", "accelerate", *["deepspeed"] * (not autos)])]
    if rng.random() < (0.75 if autos else 0.15):
        trial.arguments = arguments_of(rng, config)
    if rng.random() < (0.8 if autos and trial.arguments is None else 0.1):
        trial.micro = rng.choice([1, 2, 4])
    if autos and trial.arguments is None:
        trial.set["bf16.enabled"] = True
    for key, values in SETS.items():
        if rng.random() < 0.06:
            trial.set[key] = rng.choice(values)
    trial.room = rng.choice([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1])
    trial.host = rng.choice([None, None, None, 0.3, 0.7, 1.2])
    return trial


def in_launch_file(config: Config, rng: random.Random) -> str:
    """The text of a launch file that holds the config, or from which Accelerate makes one."""
    steps = config.get(STEPS, 1)
    launches: list[Config] = [
        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, STEPS: steps}},
        {"max_duration": "1ep", "deepspeed_config": config},
        {"type": "sft", "model": {"name_or_path": "m"}, "deepspeed": config},
    ]
    return laid_out(rng.choice(launches), "yaml", rng)


SETS: dict[str, list[Any]] = {
    MICRO: [1, 2, 6],
    "zero_optimization.stage": [1, 2, 3],
    "zero_optimization.reduce_bucket_size": [50_000_000, 200_000_000],
    "zero_optimization.offload_optimizer.pin_memory": [True, False],
    "zero_optimization.offload_param.device": ["none"],
    "gradient_clipping": [1.0],
}


def config_of(rng: random.Random, ranks: int) -> Config:
    """A config, the parts of it in any order."""
    parts = {**batch_of(rng, ranks), **precision_of(rng), **optimizer_of(rng)}
    if rng.random() < 0.95:
        parts["zero_optimization"] = zero_of(rng)
    others: Config = {
        "steps_per_print": 10,
        "wall_clock_breakdown": False,
        "gradient_clipping": rng.choice([1.0, "auto"]),
        "zero_allow_untested_optimizer": True,
        "$dsconfig": {"ignore": ["DSC999"]},
        "tensorboard": {"enabled": False, "output_path": "runs/a # b"},
    }
    parts |= {key: value for key, value in others.items() if rng.random() < 0.2}
    keys = list(parts)
    rng.shuffle(keys)
    return {key: parts[key] for key in keys}


def batch_of(rng: random.Random, ranks: int) -> Config:
    micro, steps = rng.choice([1, 2, 4, 6, 8, 16]), rng.choice([1, 2, 3])
    whole: Config = {TRAIN: micro * steps * ranks, MICRO: micro, STEPS: steps}
    if rng.random() < 0.35:
        whole = {key: "auto" if rng.random() < 0.7 else value for key, value in whole.items()}
    names = rng.choice([(MICRO,), (TRAIN,), (MICRO, STEPS), (TRAIN, MICRO), tuple(whole), tuple(whole)])
    if rng.random() < 0.03:
        names = ()
    return {key: whole[key] for key in names}


def precision_of(rng: random.Random) -> Config:
    kind = rng.choice(["bf16", "bf16", "fp16", "", "auto"])
    if kind == "auto":
        return {"bf16": {"enabled": "auto"}}
    return {kind: {"enabled": True}} if kind else {}


def optimizer_of(rng: random.Random) -> Config:
    kind = rng.choice(["", "AdamW", "Adam", "Lion", "AdamW", "Muon"])
    if not kind:
        return {}
    rate = rng.choice([1e-4, "auto"])
    return {
        "optimizer": {
            "type": kind,
            "params": {"lr": rate, **({"betas": "auto"} if rate == "auto" and rng.random() < 0.5 else {})},
        }
    }


def zero_of(rng: random.Random) -> Config:
    stage = rng.choice([0, 1, 2, 3, 3])
    device = rng.choice(["cpu", "none", "cpu"])
    section: Config = rng.choice([{"device": device}, {"device": device, "pin_memory": True}, {}, None])
    choices: Config = {
        "stage": stage,
        "reduce_bucket_size": rng.choice([500_000_000, 5e8, 10_000_000, "auto"]),
        "allgather_bucket_size": 200_000_000,
        "overlap_comm": rng.choice([True, False]),
        "contiguous_gradients": True,
        "offload_optimizer": section,
    }
    if rng.random() < 0.1:
        choices["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
        choices["zenflow"] = {"topk_ratio": 0.1, "update_interval": rng.choice([2, 4])}
    if stage == 3:
        choices["offload_param"] = rng.choice([{"device": "cpu"}, {"device": "none"}, {}])
        choices["stage3_max_live_parameters"] = rng.choice([1_000_000_000, 1e9])
        choices["stage3_prefetch_bucket_size"] = rng.choice([50_000_000, "auto"])
        choices["sub_group_size"] = 1e9
        choices["stage3_gather_16bit_weights_on_model_save"] = rng.choice([True, "auto"])
    kept = {key: value for key, value in choices.items() if rng.random() < (0.9 if key == "stage" else 0.35)}
    keys = list(kept)
    rng.shuffle(keys)
    return {key: kept[key] for key in keys}


def arguments_of(rng: random.Random, config: Config) -> Config:
    """Training arguments, as often as not those that the config has."""
    micro, steps = config.get(MICRO, "auto"), config.get(STEPS, "auto")
    values = {
        ARGUMENTS[MICRO]: rng.choice([2, 4, 8]) if micro == "auto" else micro,
        ARGUMENTS[STEPS]: rng.choice([1, 2]) if steps == "auto" else steps,
        "fp16": "fp16" in config,
        "bf16": "bf16" in config,
        "learning_rate": 1e-4,
        "gradient_checkpointing": rng.random() < 0.1,
    }
    return {key: value for key, value in values.items() if rng.random() < 0.95}


def put(config: Any, trial: Trial) -> Any:
    """The config with what is written first."""
    micro = {} if trial.micro is None else {MICRO: trial.micro}
    for key, value in {**trial.set, **micro}.items():
        *sections, last = key.split(".")
        here = config
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = value
    return config
