"""Arguments of the job about the optimizer and the schedule, beside the sections of the config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import check

BASE: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
ADAMW = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}
WARMUP = {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}
OFFLOAD = {"stage": 2, "offload_optimizer": {"device": "cpu"}}


def schedule(type: str, **params: Any) -> dict[str, Any]:
    return {"scheduler": {"type": type, "params": params}}


REPORTED: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "--lr_scheduler_type cosine",
        schedule("WarmupLR", **WARMUP),
        "DSC829 scheduler.type",
        "stays constant after the warmup",
    ),
    ("--lr_scheduler_type linear", schedule("WarmupLR", **WARMUP), "DSC829 scheduler.type", '"WarmupLR"'),
    (
        "--lr_scheduler_type cosine --max_steps 100",
        schedule("WarmupDecayLR", **WARMUP, total_num_steps="auto"),
        "DSC829 scheduler.type",
        "falls linearly",
    ),
    ("--optim paged_adamw_8bit", {"optimizer": ADAMW}, "DSC830 optimizer.type", '"AdamW"'),
    ("--optim adafactor", {"optimizer": ADAMW}, "DSC830 optimizer.type", "rejects"),
    (
        "--optim adafactor",
        {"zero_optimization": OFFLOAD},
        "DSC831 zero_optimization.offload_optimizer.device",
        "L2 regularization",
    ),
    (
        "--adam_beta2 0.95",
        {"zero_optimization": OFFLOAD},
        "DSC831 zero_optimization.offload_optimizer.device",
        "0.999 is used",
    ),
    (
        "--learning_rate 2e-5",
        {"optimizer": {"type": "AdamW", "params": {"weight_decay": "auto"}}},
        "DSC832 optimizer.params.lr",
        "uses `0.001`",
    ),
    (
        "--weight_decay 0.1",
        {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}},
        "DSC832 optimizer.params.weight_decay",
        "FusedAdam uses `0.0`",
    ),
    (
        "--adam_beta2 0.95",
        {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}},
        "DSC832 optimizer.params.betas",
        "0.999",
    ),
    (
        "--learning_rate 2e-5 --max_steps 9000",
        schedule("WarmupDecayLR", total_num_steps="auto", warmup_num_steps="auto"),
        "DSC832 scheduler.params.warmup_max_lr",
        "uses `0.001`",
    ),
    (
        "--warmup_ratio 0.03",
        schedule("WarmupLR", warmup_min_lr="auto", warmup_max_lr="auto"),
        "DSC832 scheduler.params.warmup_num_steps",
        "uses `1000`",
    ),
    (
        "--max_grad_norm 0.5",
        {"gradient_clipping": None},
        "DSC832 gradient_clipping",
        "does not clip gradients",
    ),
]
QUIET: list[tuple[str, dict[str, Any]]] = [
    ("--lr_scheduler_type constant_with_warmup", schedule("WarmupLR", **WARMUP)),
    ("--lr_scheduler_type cosine", {}),
    ("--lr_scheduler_type $SCHEDULE", schedule("WarmupLR", **WARMUP)),
    ("--lr_scheduler_type linear", schedule("WarmupDecayLR", **WARMUP, total_num_steps="auto")),
    ("", schedule("WarmupLR", **WARMUP)),
    ("--optim adamw_torch_fused", {"optimizer": ADAMW}),
    ("--optim paged_adamw_8bit", {}),
    ("--optim adamw_torch", {"zero_optimization": OFFLOAD}),
    ("--optim adafactor", {"zero_optimization": OFFLOAD, "zero_force_ds_cpu_optimizer": False}),
    ("--learning_rate 1e-3", {"optimizer": {"type": "AdamW", "params": {"weight_decay": "auto"}}}),
    ("--learning_rate 2e-5 --weight_decay 0.1 --adam_beta2 0.95", {"optimizer": ADAMW}),
    ("--weight_decay 0", {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}),
    # The schedule sets the rate, so the optimizer's default is not used.
    (
        "--learning_rate 2e-5",
        {"optimizer": {"type": "AdamW", "params": {}}, **schedule("WarmupLR", **WARMUP)},
    ),
]


def diagnostics(folder: Path, flags: str, changes: dict[str, Any]) -> list[str]:
    config = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    (folder / "ds.json").write_text(json.dumps(config))
    (folder / "run.sh").write_text(
        f"deepspeed --num_gpus 2 train.py --deepspeed ds.json --bf16 --output_dir o {flags}\n"
    )
    report = check(str(folder / "ds.json"), target="0.19.8")
    codes = {"DSC829", "DSC830", "DSC831", "DSC832"}
    return [f"{each.code} {each.dotted}: {each.message}" for each in report if each.code in codes]


@pytest.mark.parametrize(("flags", "changes", "start", "part"), REPORTED)
def test_argument_without_effect(
    empty_repository: Path, flags: str, changes: dict[str, Any], start: str, part: str
) -> None:
    (found,) = diagnostics(empty_repository, flags, changes)
    assert found.startswith(start)
    assert part in found


@pytest.mark.parametrize(("flags", "changes"), QUIET)
def test_argument_with_effect(empty_repository: Path, flags: str, changes: dict[str, Any]) -> None:
    assert diagnostics(empty_repository, flags, changes) == []


def test_axolotl_names_its_own_keys(empty_repository: Path) -> None:
    config = {**BASE, **schedule("WarmupLR", **WARMUP), "optimizer": ADAMW}
    (empty_repository / "ds.json").write_text(json.dumps(config))
    launch = {"base_model": "m", "datasets": [], "micro_batch_size": 1, "deepspeed": "ds.json"}
    arguments = {"lr_scheduler": "cosine", "optimizer": "adamw_bnb_8bit"}
    (empty_repository / "train.yaml").write_text(yaml.safe_dump({**launch, **arguments}))
    messages = [each.message for each in check("ds.json", target="0.19.8")]
    assert any(each.startswith('`lr_scheduler` of the job is `"cosine"`') for each in messages)
    assert any(each.startswith('`optimizer` of the job is `"adamw_bnb_8bit"`') for each in messages)


def test_arguments_in_code(empty_repository: Path) -> None:
    (empty_repository / "ds.json").write_text(json.dumps({**BASE, **schedule("WarmupLR", **WARMUP)}))
    (empty_repository / "run.sh").write_text("deepspeed train.py --deepspeed ds.json --optim sgd\n")
    (empty_repository / "train.py").write_text(
        "import sys\nfrom transformers import TrainingArguments\n"
        "args = TrainingArguments('o', deepspeed=sys.argv[2], lr_scheduler_type='cosine')\n"
    )
    codes = [each.code for each in check("ds.json", target="0.19.8")]
    assert codes.count("DSC829") == 1
