"""What all loaders share that end in the Trainer, on a machine that seems to have GPUs."""

from __future__ import annotations

import re
import types
from typing import Any

from tests.parity.workers.loaders.hand_over import hand_over
from tests.parity.workers.loaders.serve import RANKS, Config

_MISMATCH = re.compile(r"(?m)^- ds ([\w.]+)=")


def pretend() -> None:
    """Eight GPUs, a process each, that know bf16; what a machine has is no part of what is compared."""
    import torch
    import transformers.training_args as module

    module.is_torch_bf16_gpu_available = lambda: True
    own: Any = module.TrainingArguments
    own._setup_devices = property(lambda _: torch.device("cpu"))
    own.world_size = property(lambda _: RANKS)
    own.parallel_mode = property(lambda _: module.ParallelMode.DISTRIBUTED)
    own.n_gpu = own.process_index = own.local_process_index = property(lambda _: 0)


def handed(args: Any, hidden: int, steps: int) -> tuple[Config, list[str]]:
    """What goes to DeepSpeed from training arguments, as the Trainer does it, and the mismatches it names."""
    import torch
    from accelerate.utils.deepspeed import DummyOptim, DummyScheduler

    filled, plugin = args.hf_deepspeed_config, args.deepspeed_plugin
    precision = "fp16" if args.fp16 else "bf16" if args.bf16 else "no"
    plugin.set_mixed_precision(precision)
    model = types.SimpleNamespace(config=types.SimpleNamespace(hidden_size=hidden))
    mismatches: list[str] = []
    try:
        filled.trainer_config_finalize(args, model, steps)
    except ValueError as error:
        mismatches = _MISMATCH.findall(str(error))
        if not mismatches:
            raise
    weights = [torch.nn.Parameter(torch.zeros(1))]
    optimizer: Any = DummyOptim(weights) if "optimizer" in filled.config else torch.optim.AdamW(weights)
    scheduler = DummyScheduler(optimizer) if "scheduler" in filled.config else None
    plain = {
        "per_device_train_batch_size": args.per_device_train_batch_size,
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
    }
    return hand_over(plugin, plain, hidden, optimizer, scheduler), mismatches
