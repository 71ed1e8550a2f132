"""`dsconfig memory` of a config of "auto", without the arguments that the Trainer fills it from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import estimate

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"},
}
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8", "--target", "0.19.8")
ASKED = ("--micro-batch", "4", "--set", "bf16.enabled=true")


def test_only_what_takes_memory_is_asked_for(run: Runs) -> None:
    code, out, err = run(*RUN)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        (
            "error: `train_micro_batch_size_per_gpu` and `bf16.enabled` are `auto`,"
            " and the training arguments are not known"
        ),
        "  = give `--micro-batch 1`",
        "  = give `--set bf16.enabled=true`",
        "  = or pass the arguments as `--training-args FILE`",
    ]


def test_what_is_asked_for_is_enough(run: Runs, here: Path) -> None:
    result = estimate(run, *RUN, *ASKED)
    assert any("`gradient_accumulation_steps` is 1" in text for text in result["assumptions"])
    args = {"per_device_train_batch_size": 4, "bf16": True}
    (here / "args.json").write_text(json.dumps(args))
    same = estimate(run, *RUN, "--training-args", "args.json")
    assert (result["rank"], result["host"]) == (same["rank"], same["host"])


def test_what_is_written_is_not_asked_for(run: Runs, here: Path) -> None:
    config = CONFIG | {"train_batch_size": 64, "gradient_accumulation_steps": 2, "fp16": {"enabled": True}}
    del config["train_micro_batch_size_per_gpu"], config["bf16"]
    (here / "ds.json").write_text(json.dumps(config))
    result = estimate(run, *RUN)
    assert result["assumptions"][0].startswith("the micro batch is 4 × 2048 tokens")
    assert not any("`gradient_accumulation_steps` is 1" in text for text in result["assumptions"])


def test_the_largest_micro_batch_needs_none_before(run: Runs) -> None:
    largest = (
        "--gpu",
        "80GiB",
        "--max",
        "micro-batch",
        "--set",
        "fp16.enabled=true",
        "--output-format",
        "json",
    )
    code, out, err = run(*RUN, "--sequence-length", "2048", *largest)
    assert (code, err) == (0, "")
    most = json.loads(out)["max"]["value"]
    for micro, fits in ((most, True), (most + 1, False)):
        words = ("--micro-batch", str(micro), "--set", "fp16.enabled=true")
        code = run(*RUN, "--sequence-length", "2048", *words, "--gpu", "80GiB").code
        assert (code == 0) is fits


def test_the_file_of_arguments_is_taken_as_it_is(run: Runs, here: Path) -> None:
    (here / "args.json").write_text("{}")
    result = estimate(run, *RUN, "--training-args", "args.json")
    assert result["assumptions"][0].startswith("the micro batch is 8 × 2048 tokens")


SCRIPT = """\
#!/bin/bash
MODEL=meta-llama/Meta-Llama-3-8B
deepspeed --num_gpus 8 train.py --deepspeed ds.json --model_name_or_path $MODEL --bf16 True \\
  --per_device_train_batch_size $BATCH --model_max_length 4096 --gradient_checkpointing \\
  --use_peft --lora_r 32 --lora_target_modules q_proj k_proj --attn_implementation flash_attention_2
"""


@pytest.mark.parametrize("file", ["ds.json", "train.sh"])
def test_the_script_that_starts_the_job_tells_all_but_what_its_shell_knows(
    run: Runs, here: Path, file: str
) -> None:
    (here / "train.sh").write_text(SCRIPT)
    code, out, err = run("memory", file)
    assert (code, out) == (1, "")
    assert (
        "error: `train_micro_batch_size_per_gpu` is `auto`, and the training arguments are not known\n" in err
    )
    result = estimate(run, "memory", file, "--micro-batch", "2", "--target", "0.19.8")
    assert "settings that are not given come from train.sh" in result["assumptions"]
    lora = ("--lora", "r=32,target=q_proj,k_proj", "--attention", "flash", "--checkpointing")
    work = ("--micro-batch", "2", "--sequence-length", "4096", "--set", "bf16.enabled=true")
    (here / "alone.json").write_text(json.dumps(CONFIG))
    other_result = estimate(run, "memory", "alone.json", *RUN[2:], *lora, *work)
    assert (result["rank"], result["host"]) == (other_result["rank"], other_result["host"])


def test_what_the_command_line_says_goes_before_the_script(run: Runs, here: Path) -> None:
    (here / "train.sh").write_text(SCRIPT)
    result = estimate(run, "memory", "ds.json", "--micro-batch", "2", "--sequence-length", "1024")
    assert result["assumptions"][0] == "the micro batch is 2 × 1024 tokens, attention is `flash`"


def test_a_script_that_trains_a_quantised_model_is_named(run: Runs, here: Path) -> None:
    (here / "train.sh").write_text(SCRIPT.replace("--use_peft", "--use_peft --load_in_4bit True"))
    result = estimate(run, "memory", "ds.json", "--micro-batch", "2")
    stored = "frozen linear layers are stored as 4-bit bitsandbytes, all other weights in the model's dtype"
    assert stored in result["assumptions"]
