"""Defaults of training arguments from the class that the job's program uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import ResolveError, check, resolve
from dsconfig.resolve.resolved_run import ResolvedRun

AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}},
    "zero_optimization": {"stage": 2},
}
STOCK = (8, 1, False, 5e-5)
PARSE = "from trl import TrlParser\nparser = TrlParser((ScriptArguments, {}))\n"


@pytest.fixture
def config(empty_repository: Path) -> Path:
    """A config of a repository in the current directory."""
    path = Path("ds.json")
    path.write_text(json.dumps(AUTO))
    return path


def launched(program: str, flags: str = "", name: str = "train.py") -> None:
    Path(name).write_text(program)
    Path("run.sh").write_text(f"torchrun --nproc_per_node 4 {name} --deepspeed ds.json {flags}\n")


def filled(run: ResolvedRun) -> tuple[Any, ...]:
    values = {each.key: each.value for each in run.filled}
    names = (
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "bf16.enabled",
        "optimizer.params.lr",
    )
    return tuple(values.get(name) for name in names)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("SFTConfig", None, (8, 1, True, 2e-5)),
        ("GRPOConfig", None, (8, 1, True, 1e-6)),
        ("GKDConfig", None, (8, 1, True, 2e-5)),
        ("RewardConfig", None, (8, 1, True, 1e-4)),
        ("SFTConfig", "0.18.2", (8, 1, False, 2e-5)),
        ("SFTConfig", "0.11.4", (8, 1, False, 5e-5)),
        ("GRPOConfig", "0.14.0", (1, 8, False, 1e-6)),
        ("RewardConfig", "0.23.1", (8, 1, True, 5e-5)),
        ("TrainingArguments", None, STOCK),
    ],
)
def test_defaults_of_trl_by_version(
    config: Path, name: str, version: str | None, expected: tuple[Any, ...]
) -> None:
    if version:
        Path("requirements.txt").write_text(f"trl=={version}\n")
    launched(PARSE.format(name))
    for source in (config, "run.sh"):
        assert filled(resolve(source, target="0.19.8")) == expected


def test_flags_win_over_defaults(config: Path) -> None:
    launched(PARSE.format("DPOConfig"), "--learning_rate 3e-6 --gradient_accumulation_steps 4")
    assert filled(resolve(config)) == (8, 4, True, 3e-6)
    launched(PARSE.format("DPOConfig"), "--fp16 true")
    config.write_text(json.dumps({**AUTO, "fp16": {"enabled": "auto"}}))


@pytest.mark.parametrize(
    ("flags", "bf16"), [("--fp16", False), ("--bf16 false", False), ("--fp16 $HALF", None)]
)
def test_trl_trains_in_bf16_unless_in_fp16(config: Path, flags: str, bf16: bool | None) -> None:
    launched(PARSE.format("SFTConfig"), flags)
    assert filled(resolve(config))[2] is bf16


OWN = "class Own(TrainingArguments):\n    "
SUBCLASSES = {
    "annotated": f"{OWN}bf16: bool = True\n    learning_rate: float = 1e-4\n",
    "field": f"{OWN}bf16: bool = field(default=True)\n    learning_rate = 1e-4\n",
    "attribute": OWN.replace("(", "(transformers.") + "bf16: bool = True\n    learning_rate = 1e-4\n",
    "two": "class Base(TrainingArguments):\n    bf16: bool = True\n    learning_rate: float = 1\n"
    "class Own(Base):\n    learning_rate: float = 1e-4\n",
    "alias": "from transformers import TrainingArguments as HF\n"
    "class Own(HF):\n    bf16: bool = True\n    learning_rate: float = 1e-4\n",
}


@pytest.mark.parametrize("definition", SUBCLASSES)
def test_defaults_of_a_class_in_the_repository(config: Path, definition: str) -> None:
    launched(f"{SUBCLASSES[definition]}parser = HfArgumentParser((ModelArguments, Own))\n")
    run = resolve(config)
    assert filled(run) == (8, 1, True, 1e-4)
    assert any("parses its arguments into `Own`" in each.text for each in run.messages)


def test_a_class_may_have_the_name_of_its_base_and_stand_in_a_module(config: Path) -> None:
    Path("lib").mkdir()
    Path("lib/args.py").write_text(
        "import transformers\n"
        "class TrainingArguments(transformers.TrainingArguments):\n    bf16: bool = True\n"
    )
    launched("from lib.args import TrainingArguments\nHfArgumentParser((TrainingArguments,))\n")
    assert filled(resolve(config)) == (8, 1, True, 5e-5)


UNKNOWN = {
    "method": f"{OWN}def set(self):\n        self.learning_rate = rate()\n",
    "factory": f"{OWN}learning_rate: float = field(default_factory=rate)\n",
    "call": f"{OWN}learning_rate: float = rate()\n",
    "later": f"{OWN}pass\ntraining_args.learning_rate = rate()\n",
}


@pytest.mark.parametrize("definition", UNKNOWN)
def test_unknown_defaults(config: Path, definition: str) -> None:
    launched(f"{UNKNOWN[definition]}parser = HfArgumentParser((Own,))\n")
    assert filled(resolve(config)) == (8, 1, False, None)
    config.write_text(json.dumps({**AUTO, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}))
    assert not [each for each in check(config) if each.severity == "error"]


def test_a_class_of_another_package_is_not_known(config: Path) -> None:
    launched("from elsewhere import FastTrainingArguments\nHfArgumentParser(FastTrainingArguments)\n")
    with pytest.raises(ResolveError, match="`per_device_train_batch_size` of the job is not known"):
        resolve(config)
    launched(
        "from elsewhere import FastTrainingArguments\nHfArgumentParser(FastTrainingArguments)\n", "--x 1"
    )


OWN_FLAGS = """
parser.add_argument("--deepspeed")
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--learning_rate", type=float, default=3e-5)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("call", "flags", "expected"),
    [
        ("learning_rate=args.learning_rate", "", (8, 1, False, 3e-5)),
        ("learning_rate=args.learning_rate", "--learning_rate 7e-5", (8, 1, False, 7e-5)),
        ("per_device_train_batch_size=args.batch_size, bf16=True", "--batch-size 6", (6, 1, True, 5e-5)),
        ("bf16=args.bf16", "", (8, 1, None, 5e-5)),
        ("gradient_accumulation_steps=args.total // 8", "--gradient_accumulation_steps 3", None),
        ("**vars(args)", "", None),
    ],
)
def test_arguments_that_the_program_makes(
    config: Path, call: str, flags: str, expected: tuple[Any, ...] | None
) -> None:
    launched(f"{OWN_FLAGS}targs = TrainingArguments('o', deepspeed=args.deepspeed, {call})\n", flags)
    if expected is None:
        with pytest.raises(ResolveError, match="of the job is not known"):
            resolve(config)
    else:
        assert filled(resolve(config)) == expected


@pytest.mark.parametrize("is_present", [False, True])
def test_a_recipe_that_the_command_names(config: Path, *, is_present: bool) -> None:
    if is_present:
        Path("recipe.yaml").write_text("gradient_accumulation_steps: 4\nlearning_rate: 2e-4\n")
    launched(PARSE.format("SFTConfig"), "--config recipe.yaml --learning_rate 1e-4")
    if is_present:
        assert filled(resolve(config)) == (8, 4, True, 1e-4)
    else:
        with pytest.raises(ResolveError, match="of the job is not known"):
            resolve(config)


def test_without_its_program_they_are_those_of_transformers(config: Path) -> None:
    Path("run.sh").write_text("torchrun --nproc_per_node 4 gone.py --deepspeed ds.json --adam_beta1 0.9\n")
    assert filled(resolve(config)) == STOCK


ACCELERATE = {
    "file": "accelerate launch --config_file deepspeed.yaml train.py",
    "link": "accelerate launch --use_deepspeed --deepspeed_config_file ds.json --num_processes 4 train.py",
    "flags": "accelerate launch --use_deepspeed --zero_stage 2 --num_processes 4 train.py",
}


@pytest.mark.parametrize(
    "code", ["", "if accelerator.is_main_process: pass\n", "accelerator.backward(loss)\n"]
)
@pytest.mark.parametrize("definition", ACCELERATE)
def test_a_trainer_under_accelerate_has_them_too(config: Path, definition: str, code: str) -> None:
    loop = "backward" in code
    config.write_text(json.dumps({key: AUTO[key] for key in AUTO if key not in ("optimizer", "scheduler")}))
    if definition == "file":
        block = "deepspeed_config:\n  deepspeed_config_file: ds.json\n"
        Path("deepspeed.yaml").write_text(f"distributed_type: DEEPSPEED\nnum_processes: 4\n{block}")
    Path("train.py").write_text(f"{PARSE.format('GRPOConfig')}accelerator = Accelerator()\n{code}")
    Path("run.sh").write_text(f"{ACCELERATE[definition]} --per_device_train_batch_size 2\n")
    for source in ("run.sh", config)[: 1 if definition == "flags" else 2]:
        run = resolve(source, target="0.19.8")
        assert run.triplet == (8, 2, 1)
        assert run.config["bf16"] == {"enabled": not loop}
        assert run.consumer == ("accelerate" if loop else "transformers")


@pytest.mark.parametrize(
    "script", ["", "accelerate launch train.py conf/recipe.yaml\n", "python other.py conf/recipe.yaml\n"]
)
def test_a_recipe_has_those_of_the_program_that_it_is_given_to(config: Path, script: str) -> None:
    Path("conf").mkdir()
    Path("conf/recipe.yaml").write_text("deepspeed: ds.json\noutput_dir: o\ngradient_accumulation_steps: 2\n")
    Path("train.py").write_text(PARSE.format("SFTConfig"))
    if script:
        Path("run.sh").write_text(script)
        Path("other.py").write_text("HfArgumentParser(TrainingArguments).parse_yaml_file(sys.argv[1])\n")
    expected = (8, 2, False, 5e-5) if "other" in script else (8, 2, True, 2e-5)
    for source in ("conf/recipe.yaml", config):
        assert filled(resolve(source, world_size=4)) == expected


def test_a_recipe_of_several_programs_has_what_they_agree_on(config: Path) -> None:
    Path("recipe.yaml").write_text("deepspeed: ds.json\noutput_dir: o\ngradient_accumulation_steps: 2\n")
    Path("train.py").write_text(PARSE.format("SFTConfig"))
    Path("tune.py").write_text(PARSE.format("DPOConfig"))
    assert filled(resolve(config, world_size=4)) == (8, 2, True, None)


FIXED = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}
HF = "from transformers import HfArgumentParser, TrainingArguments\nHfArgumentParser(TrainingArguments)\n"
IN_CODE = (
    "import argparse\nfrom transformers import TrainingArguments\np = argparse.ArgumentParser()\n"
    "p.add_argument('--micro', type=int, default=8)\na = p.parse_args()\n"
    "TrainingArguments('o', per_device_train_batch_size=a.micro, gradient_accumulation_steps=4, bf16=True)\n"
)


@pytest.mark.parametrize(
    ("words", "is_compared"),
    [
        ("$EXTRA", False),
        ('"$@"', False),
        ('"${EXTRA[@]}"', False),
        ("$CONFIG --seed 1", False),
        ("--seed 1 ${ARGS}", False),
        ("--seed $SEED", True),
    ],
)
@pytest.mark.parametrize("program", [HF, IN_CODE])
def test_a_variable_may_hold_further_flags(config: Path, program: str, words: str, is_compared: bool) -> None:
    config.write_text(json.dumps(FIXED))
    launched(program, words)
    assert {each.code for each in check("ds.json")} == ({"DSC809"} if is_compared else set())


@pytest.mark.parametrize("bf16", ["true", "false"])
@pytest.mark.parametrize("parser", ["HfArgumentParser", "H4ArgumentParser"])
def test_a_file_of_arguments_behind_the_program(config: Path, parser: str, bf16: str) -> None:
    config.write_text(json.dumps(FIXED))
    arguments = "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\n"
    Path("args.yaml").write_text(f"{arguments}bf16: {bf16}\n")
    Path("train.py").write_text(HF.replace("HfArgumentParser", parser))
    launch = {"deepspeed_config_file": "ds.json"}
    Path("acc.yaml").write_text(json.dumps({"distributed_type": "DEEPSPEED", "deepspeed_config": launch}))
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml train.py args.yaml\n")
    assert [each.dotted for each in check("ds.json")] == (["bf16.enabled"] if bf16 == "false" else [])


def test_betas_of_which_one_is_unknown(config: Path) -> None:
    config.write_text(json.dumps({**AUTO, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}))
    launched(HF, "--adam_beta1 $BETA")
    assert "DSC809" not in {each.code for each in check("ds.json")}
