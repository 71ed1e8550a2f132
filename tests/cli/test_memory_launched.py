"""Settings in launch files of Accelerate and LLaMA-Factory that change an estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import memory
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

MODEL = ("--model", "llama-3-8b", "--target", "0.19.8", "--world-size", "8")
AUTO = {**config_of(3), "train_micro_batch_size_per_gpu": "auto"}
FILLED = {**AUTO, "bf16": {"enabled": "auto"}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
IN_SHARDS = "the model is built in fp32, in shards (zero.Init)"
BLOCK = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n"
LINKED = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"


def is_in_shards(run: Runs, *argv: str) -> bool:
    return IN_SHARDS in estimate(run, "memory", *argv, *MODEL, "--micro-batch", "1")["assumptions"]


@pytest.mark.parametrize(("flag", "expected"), [("true", True), ("false", False), (None, True)])
@pytest.mark.parametrize(("block", "file"), [(BLOCK, "acc.yaml"), (LINKED, "acc.yaml"), (LINKED, "ds.json")])
def test_zero3_init_flag_builds_in_shards_and_stage_3_does_where_it_is_left_out(
    run: Runs, here: Path, block: str, file: str, flag: str | None, expected: bool
) -> None:
    (here / "ds.json").write_text(json.dumps(AUTO))
    (here / "acc.yaml").write_text(block + (f"  zero3_init_flag: {flag}\n" if flag else ""))
    assert is_in_shards(run, file) is expected


def test_the_flag_of_accelerates_launcher_counts_and_the_option_goes_before_it(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps(AUTO))
    command = "accelerate launch --use_deepspeed --deepspeed_config_file ds.json --zero3_init_flag"
    (here / "run.sh").write_text(f"{command} false train.py\n")
    assert not is_in_shards(run, "run.sh")
    assert not is_in_shards(run, "ds.json")
    assert is_in_shards(run, "run.sh", "--zero-init")


@pytest.mark.parametrize("text", ["q_proj,v_proj", "q_proj, v_proj", ["q_proj", "v_proj"], ["q_proj,v_proj"]])
def test_targets_of_adapters_are_split_at_commas(text: Any) -> None:
    options: dict[str, Any] = {"model": "llama-3-8b", "world_size": 8, "target": "0.19.8"}
    result = memory(config_of(2), lora={"r": 16, "target": text}, **options)
    assert result == memory(config_of(2), lora="r=16,target=q_proj,v_proj", **options)


FLAGS = (
    "--stage sft --do_train --model_name_or_path meta-llama/Meta-Llama-3-8B --dataset d --template llama3"
    " --finetuning_type lora --lora_target q_proj,v_proj --deepspeed ds.json --output_dir out"
    " --per_device_train_batch_size 1"
)
CHECKPOINTS = "activations are checkpointed per layer"


@pytest.mark.parametrize("program", ["src/train.py", "src/train_bash.py", "LLaMA-Factory/src/train.py"])
def test_the_scripts_of_llama_factory_are_known_by_name_and_flags(
    run: Runs, here: Path, program: str
) -> None:
    (here / "ds.json").write_text(json.dumps(FILLED))
    (here / "run.sh").write_text(f"deepspeed --num_gpus 8 {program} {FLAGS}\n")
    result = estimate(run, "memory", "run.sh", "--target", "0.19.8")["assumptions"]
    assert CHECKPOINTS in result
    assert "adapters of rank 8 are trained and nothing else (LoRA: q_proj, v_proj)" in result


def test_a_train_py_without_the_flags_of_llama_factory_checkpoints_nothing(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps(FILLED))
    flags = FLAGS.replace("--stage sft", "").replace("--finetuning_type lora", "")
    (here / "run.sh").write_text(f"deepspeed --num_gpus 8 src/train.py {flags}\n")
    assert CHECKPOINTS not in estimate(run, "memory", "run.sh", "--target", "0.19.8")["assumptions"]


def write_recipe(here: Path, *lines: str) -> None:
    """A recipe of LLaMA-Factory that trains adapters of an 8-billion-parameter model."""
    config = {key: value for key, value in FILLED.items() if key != "optimizer"}
    (here / "ds.json").write_text(json.dumps({**config, "zero_optimization": {"stage": 2}}))
    words = ("model_name_or_path: meta-llama/Meta-Llama-3-8B", "finetuning_type: lora", "deepspeed: ds.json")
    more = ("per_device_train_batch_size: 1", "bf16: true", "learning_rate: 1.0e-4", *lines)
    stage = () if any(line.startswith("stage") for line in lines) else ("stage: sft",)
    (here / "train.yaml").write_text("".join(f"{line}\n" for line in (*words, *more, *stage)))


RECIPE = ("memory", "train.yaml", "--world-size", "8", "--target", "0.19.8")


@pytest.mark.parametrize(
    ("line", "more", "less"),
    [
        ("additional_target: embed_tokens,input_layernorm", True, False),
        ("pure_bf16: true", True, True),
        ("use_unsloth: true", False, True),
        ("optim: paged_adamw_8bit", False, True),
        ("optim: adamw_anyprecision", True, True),
    ],
)
def test_what_is_not_modelled_is_named_and_leaves_a_verdict_open_that_it_could_turn(
    run: Runs, here: Path, line: str, more: bool, less: bool
) -> None:
    write_recipe(here, line)
    result = run(*RECIPE)
    assert f"not estimated: `{line} in train.yaml`: " in result.out
    bound = max(estimate(run, *RECIPE)["rank"]["bound"].values())
    for gpu, is_open, closed in (("h200", more, 0), (f"{bound + 100}", less, 1)):
        code, out, _ = run(*RECIPE, "--gpu", gpu, *(("--margin", "1MiB") if closed else ()))
        assert code == (2 if is_open else closed)
        assert out.startswith("Unknown: ") is is_open
    fit = json.loads(run(*RECIPE, "--fit", "h200", "--output-format", "json").out)["fit"]
    assert (fit["fits"], fit["verdict"]) == (True, "unknown" if more else "fits")
    largest = run(*RECIPE, "--gpu", "h200", "--max", "micro-batch")
    assert (largest.code, largest.out.startswith("not estimated: ")) == (2, True)


def test_embeddings_and_head_next_to_adapters_are_estimated(run: Runs, here: Path) -> None:
    write_recipe(here)
    adapted = estimate(run, *RECIPE)
    write_recipe(here, "additional_target: embed_tokens,lm_head")
    assert "not estimated" not in run(*RECIPE).out
    assert estimate(run, *RECIPE)["trained"] == adapted["trained"] + 2 * 128_256 * 4096


@pytest.mark.parametrize("name", ["train.yaml", "train.sh"])
def test_a_job_without_deepspeed_is_not_estimated(run: Runs, here: Path, name: str) -> None:
    lines = (
        "model_name_or_path: meta-llama/Meta-Llama-3-8B",
        "stage: sft",
        "finetuning_type: lora",
        "do_train: true",
    )
    (here / "train.yaml").write_text("".join(f"{line}\n" for line in lines))
    (here / "train.sh").write_text("torchrun --nproc_per_node 8 train.py --bf16 True\n")
    code, out, err = run("memory", name, "--world-size", "8")
    assert (code, out) == (2, "")
    assert "no config" in err
    assert "; without DeepSpeed, memory is not estimated (`--model` without a file" in err


@pytest.mark.parametrize(
    ("line", "varied"), [("packing: false", True), ("packing: true", False), ("", False)]
)
def test_sequences_that_are_not_packed_leave_more_blocks_in_the_cache(
    run: Runs, here: Path, line: str, varied: bool
) -> None:
    note = "sequences have different lengths, up to this one, so that torch caches more blocks"
    write_recipe(here, *([line] if line else ()))
    result = estimate(run, *RECIPE)
    assert (note in result["assumptions"]) is varied
    packed = estimate(run, *RECIPE, "--packing")["expected"]
    assert (result["expected"]["high"] > packed["high"]) is varied
    assert result["expected"]["low"] == packed["low"]


def test_what_could_be_less_and_is_too_much_even_so_does_not_fit(run: Runs, here: Path) -> None:
    write_recipe(here, "use_unsloth: true")
    code, out, _ = run(*RECIPE, "--gpu", "10GiB")
    assert (code, out.startswith("Does NOT fit: ")) == (1, True)


def test_training_arguments_count_as_a_launch_file_does(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps({**FILLED, "bf16": {"enabled": True}}))
    (here / "args.json").write_text(
        '{"use_liger_kernel": true, "bf16": true, "per_device_train_batch_size": 1}'
    )
    command = ("memory", "ds.json", *MODEL, "--training-args", "args.json")
    assert "norms and MLPs run as Liger kernels" in estimate(run, *command)["assumptions"]


@pytest.mark.parametrize(
    ("word", "optimizer"),
    [("adamw_torch", "adamw"), ("adamw_torch_fused", "adamw-fused"), ("adamw_bnb_8bit", "adamw-8bit")],
)
def test_the_optimizer_that_the_trainer_makes_is_that_of_optim(
    run: Runs, here: Path, word: str, optimizer: str
) -> None:
    write_recipe(here, f"optim: {word}")
    result = estimate(run, *RECIPE)
    assert result["not_modelled"] == []
    assert result["rank"] == estimate(run, *RECIPE, "--optimizer", optimizer)["rank"]


def test_a_recipe_of_which_all_is_modelled_names_nothing(run: Runs, here: Path) -> None:
    write_recipe(here, "optim: adamw_torch", "enable_liger_kernel: false", "sequence_parallel_size: 1")
    assert "not estimated" not in run(*RECIPE).out


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("scripts/run_dpo.py", "DPO"),
        ("--multi_gpu -m trl.scripts.grpo", "GRPO"),
        ("--main_process_port=29500 dpo.py", "DPO"),
        ("train_sft.py", None),
        ("ppo_data/train.py --reward_port 1", None),
    ],
)
def test_a_script_that_trains_by_preference_names_its_method(
    run: Runs, here: Path, program: str, names: str | None
) -> None:
    (here / "ds.json").write_text(json.dumps({**config_of(2), "train_micro_batch_size_per_gpu": 1}))
    command = f"accelerate launch --use_deepspeed --deepspeed_config_file ds.json --num_processes 8 {program}"
    (here / "run.sh").write_text(f"{command} --output_dir out\n")
    lines = estimate(run, "memory", "run.sh", *MODEL)["assumptions"]
    assert any(line.startswith(f"{names}: ") for line in lines) is (names is not None)


@pytest.mark.parametrize(("line", "how"), [("", "frozen"), ("freeze_vision_tower: false\n", "trained")])
def test_llama_factory_freezes_encoders_of_images_unless_it_says_otherwise(
    run: Runs, here: Path, line: str, how: str
) -> None:
    vision = {"depth": 2, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    model = {"model_type": "qwen2_5_vl", "vocab_size": 100, **sizes, "vision_config": vision}
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text(json.dumps(model))
    (here / "ds.json").write_text(json.dumps(FILLED))
    keys = (
        "model_name_or_path: model\nstage: sft\ndo_train: true\nfinetuning_type: full\ndeepspeed: ds.json\n"
    )
    (here / "sft.yaml").write_text(
        f"{keys}bf16: true\nlearning_rate: 1.0e-4\nper_device_train_batch_size: 1\n{line}"
    )
    assumptions = estimate(run, "memory", "sft.yaml", "--world-size", "2")["assumptions"]
    assert any(f"whose encoder is {how}" in text for text in assumptions)
