"""Compares how `dsconfig` fills "auto" with the code of Transformers and Accelerate.

`python -m tests.parity.filling [CASES]`, in an environment that has transformers, accelerate and torch as
well as `dsconfig`; not part of `make parity`, which has none of them. Of DeepSpeed itself nothing is needed:
what `Accelerator.prepare` hands to `deepspeed.initialize` is what is compared.
"""

from __future__ import annotations

import copy
import random
import sys
import types
from collections.abc import Callable
from functools import partialmethod
from importlib.machinery import ModuleSpec
from typing import Any

from dsconfig import ResolveError
from dsconfig.consumers.by_name import BY_NAME
from dsconfig.resolving.filling import fill

Config = dict[str, Any]
RANKS = 8
ZERO = "zero_optimization"


class Handed(Exception):  # noqa: N818  control flow, no error
    """What would go to `deepspeed.initialize`."""


def generated(source: random.Random, *, trainer: bool) -> tuple[Config, Config, int]:
    """A config, training arguments and a hidden size."""
    chance, pick = source.random, source.choice

    def keys(share: float = 0.6, **values: tuple[Any, ...]) -> Config:
        found = {key: pick(("auto", "auto", *some)) for key, some in values.items() if chance() < share}
        return {key.replace("__", "."): value for key, value in found.items()}

    config = keys(
        train_micro_batch_size_per_gpu=(4, 8),
        gradient_accumulation_steps=(1, 2),
        train_batch_size=(32, 64),
        gradient_clipping=(1.0, 0.5),
    )
    zero = keys(stage=(0, 2, 3), reduce_bucket_size=(1000,), stage3_prefetch_bucket_size=(1000,))
    zero |= keys(stage3_param_persistence_threshold=(10,), stage3_gather_16bit_weights_on_model_save=(True,))
    if chance() < 0.3:
        zero["offload_optimizer"] = keys(device=("cpu", "none"), nvme_path=("/tmp",))
    if chance() < 0.95:
        config[ZERO] = zero
    for name in ("fp16", "bf16"):
        if chance() < 0.4:
            config[name] = {"enabled": pick(("auto", "auto", True, False))}
    if chance() < 0.6:
        params = keys(lr=(1e-4,), weight_decay=(0.0,))
        params |= keys(0.6 if trainer else 0.1, betas=([0.9, 0.999],), eps=(1e-8,))
        config["optimizer"] = {"type": "AdamW", "params": params}
    if chance() < 0.6 and (trainer or "optimizer" in config):
        params = keys(warmup_min_lr=(0,), warmup_max_lr=(1e-4,))
        params |= keys(warmup_num_steps=(100,), total_num_steps=(1000,))
        config["scheduler"] = {"type": "WarmupDecayLR", "params": params}
    args = {"per_device_train_batch_size": pick((1, 4, 8)), "max_steps": pick((500, 1000))}
    given: Config = {
        "gradient_accumulation_steps": (1, 2, 4),
        "learning_rate": (1e-4, 5e-5),
        "weight_decay": (0.0, 0.1),
        "warmup_steps": (0, 100, 0.1) if trainer else (0, 100),
    }
    given |= (
        {"max_grad_norm": (1.0, 0.5), "adam_beta2": (0.95,), "save_on_each_node": (False, True)}
        if trainer
        else {"gradient_clipping": (0.5,), "mixed_precision": ("no", "bf16", "fp16")}
    )
    args |= {key: pick(some) for key, some in given.items() if chance() < 0.6}
    if trainer and chance() < 0.6:
        args[pick(("bf16", "fp16"))] = True
    return config, args, pick((768, 1024))


def hand_over(plugin: Any, args: Config, hidden: int, optimizer: Any, scheduler: Any) -> Config:
    """`Accelerator.prepare` with the plugin, up to the call of `deepspeed.initialize`."""
    import accelerate.accelerator as module
    import torch
    from accelerate.utils.deepspeed import DummyOptim, DummyScheduler

    quiet = types.SimpleNamespace(warning=lambda *_, **__: None, info=lambda *_, **__: None)
    # The module has these names only where DeepSpeed is installed.
    vars(module).update(logger=quiet, DummyOptim=DummyOptim, DummyScheduler=DummyScheduler)
    vars(module)["map_pytorch_optim_to_deepspeed"] = lambda optimizer: optimizer
    model = torch.nn.Linear(2, 2)
    object.__setattr__(model, "config", types.SimpleNamespace(hidden_size=hidden))
    loader = torch.utils.data.DataLoader(
        torch.zeros(64, 2),  # type: ignore[arg-type]
        batch_size=args["per_device_train_batch_size"],
    )
    itself = types.SimpleNamespace(
        fp8_backend=None,
        deepspeed_plugin=plugin,
        parallelism_config=None,
        _prepare_one=lambda obj, first_pass=False: obj,
        split_batches=False,
        num_processes=RANKS,
        gradient_accumulation_steps=args.get("gradient_accumulation_steps", 1),
        state=types.SimpleNamespace(),
        device=torch.device("cpu"),
    )
    prepare: Callable[..., Any] = module.Accelerator._prepare_deepspeed
    objects = [obj for obj in (model, optimizer, scheduler, loader) if obj is not None]
    try:
        prepare(itself, *objects)
    except Handed as handed:
        config: Config = copy.deepcopy(handed.args[0])
        config.pop("steps_per_print")
        return config
    raise AssertionError("deepspeed.initialize was not called")


def stand_in() -> None:
    """A `deepspeed` that only takes what it is handed."""

    def initialize(**options: Any) -> None:
        raise Handed(options["config_params"])

    schedules = types.SimpleNamespace(VALID_LR_SCHEDULES=[])
    module: Any = types.ModuleType("deepspeed")
    module.__spec__ = ModuleSpec("deepspeed", None)
    module.initialize, module.runtime = initialize, types.SimpleNamespace(lr_schedules=schedules)
    sys.modules["deepspeed"] = module


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


def by_transformers(config: Config, args: Config, hidden: int) -> tuple[Config, int]:
    """What the Trainer hands over, and how many mismatches it found."""
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
    return hand_over(plugin, args, hidden, optimizer, scheduler), len(filled.mismatches)


def differs(consumer: str, config: Config, args: Config, hidden: int) -> str | None:
    """What differs between theirs and ours; None where nothing does."""
    theirs: tuple[Config, int] | None
    try:
        theirs = (by_transformers if consumer == "transformers" else by_accelerate)(config, args, hidden)
    except ValueError:
        theirs = None
    ours = copy.deepcopy(config)
    try:
        filler = fill(ours, BY_NAME[consumer], RANKS, args, {"hidden_size": hidden})
    except ResolveError as error:
        return None if theirs is None else str(error)
    stopped = [message.text for message in filler.messages if message.kind in ("refused", "unfilled")]
    if theirs is None or stopped:
        return None if theirs is None and stopped else f"theirs {theirs}, ours {stopped or ours}"
    mine = (ours, len(filler.mismatches))
    return None if theirs == mine else f"theirs {theirs}, ours {mine}"


def main(arguments: list[str]) -> int:
    """Command line."""
    try:
        import accelerate
        import transformers
    except ImportError as error:
        print(f"needs transformers, accelerate and torch: {error}", file=sys.stderr)
        return 2
    stand_in()
    count, failed = int(arguments[0]) if arguments else 2000, 0
    for name, version in (("transformers", transformers.__version__), ("accelerate", accelerate.__version__)):
        source = random.Random(0)
        cases = [generated(source, trainer=name == "transformers") for _ in range(count)]
        found = [(case, text) for case in cases if (text := differs(name, *case)) is not None]
        failed += len(found)
        print(f"{name} {version}: {count - len(found)} of {count} configs are filled alike")
        for case, text in found[:3]:
            print(f"{case}\n  {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
