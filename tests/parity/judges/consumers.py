"""What Transformers and Accelerate hand to `deepspeed.initialize`, by their own code.

Needs both, and torch; nothing of DeepSpeed itself, which a module that only takes what it is given replaces.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Sequence
from functools import partialmethod
from typing import Any

from dsconfig.job.consumers.consumer import BY_NAME
from tests.parity.generators.auto import Config
from tests.parity.workers.loaders.hand_over import hand_over, stand_in
from tests.parity.workers.loaders.serve import RANKS

__all__ = ["RANKS", "by_accelerate", "by_transformers", "disagreements", "stand_in"]


def disagreements(label: str, cases: Sequence[tuple[Any, ...]], differs: Callable[..., str | None]) -> int:
    """How many cases `differs` says something of; prints the figure under `label`, and the first of them."""
    found = [(case, text) for case in cases if (text := differs(*case)) is not None]
    print(f"{label}: {len(cases) - len(found)} of {len(cases)} are alike")
    for case, text in found[:5]:
        print(f"{case}\n  {text}", file=sys.stderr)
    return len(found)


def by_accelerate(config: Config, args: Config, hidden: int) -> tuple[Config, int]:
    """What a loop with `DummyOptim` and `DummyScheduler` hands over; raises `ValueError` as it does."""
    import torch
    from accelerate import DeepSpeedPlugin
    from accelerate.utils.deepspeed import DummyOptim, DummyScheduler

    plugin = DeepSpeedPlugin(
        hf_ds_config=copy.deepcopy(config), gradient_clipping=args.get("gradient_clipping")
    )
    plugin.set_mixed_precision(args.get("mixed_precision", "no"))
    weights = [torch.nn.Parameter(torch.zeros(1))]
    optimizer: Any = torch.optim.AdamW(weights)
    if "optimizer" in config:
        named = {"lr": args.get("learning_rate"), "weight_decay": args.get("weight_decay")}
        optimizer = DummyOptim(weights, **{key: value for key, value in named.items() if value is not None})
    steps = {"total_num_steps": args["max_steps"], "warmup_num_steps": args.get("warmup_steps", 0)}
    scheduler = DummyScheduler(optimizer, **steps) if "scheduler" in config else None
    return hand_over(plugin, args, hidden, optimizer, scheduler), 0


def by_transformers(config: Config, args: Config, hidden: int) -> tuple[Config, list[str]]:
    """What the Trainer hands over, and the keys of the mismatches that it found."""
    import torch
    import transformers.integrations.deepspeed as theirs
    from accelerate import DeepSpeedPlugin
    from accelerate.utils.deepspeed import DummyOptim, DummyScheduler, HfDeepSpeedConfig
    from transformers import TrainingArguments

    trainer = theirs.HfTrainerDeepSpeedConfig
    # Their class has no base where no DeepSpeed is installed; its methods are taken as they are.
    own: Config = {name: vars(trainer)[name] for name in ("is_auto", "fill_match", "trainer_config_process")}
    own |= {"fill_only": partialmethod(trainer.fill_match, must_match=False)}
    own["trainer_config_finalize"] = trainer.trainer_config_finalize
    filled: Any = type("Config", (HfDeepSpeedConfig,), own)(copy.deepcopy(config))
    filled.mismatches = []
    named = {**BY_NAME["transformers"].defaults, **args}
    arguments = types.SimpleNamespace(**named, world_size=RANKS)
    arguments.get_warmup_steps = types.MethodType(TrainingArguments.get_warmup_steps, arguments)
    filled.trainer_config_process(arguments)
    plugin = DeepSpeedPlugin(hf_ds_config=filled)
    plugin.set_mixed_precision("fp16" if args.get("fp16") else "bf16" if args.get("bf16") else "no")
    model = types.SimpleNamespace(config=types.SimpleNamespace(hidden_size=hidden))
    try:
        filled.trainer_config_finalize(arguments, model, args["max_steps"])
    except ValueError:
        if not filled.mismatches:
            raise
    weights = [torch.nn.Parameter(torch.zeros(1))]
    optimizer: Any = DummyOptim(weights) if "optimizer" in config else torch.optim.AdamW(weights)
    scheduler = DummyScheduler(optimizer) if "scheduler" in config else None
    return hand_over(plugin, args, hidden, optimizer, scheduler), [
        text.partition("=")[0].removeprefix("- ds ") for text in filled.mismatches
    ]
