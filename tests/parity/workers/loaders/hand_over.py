"""`Accelerator.prepare`, up to `deepspeed.initialize`, with a `deepspeed` that takes what it is handed.

Needs accelerate and torch; nothing of DeepSpeed itself.
"""

from __future__ import annotations

import copy
import logging
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from tests.parity.workers.loaders.serve import RANKS, Config


class Handed(Exception):  # noqa: N818  control flow, no error
    """What would go to `deepspeed.initialize`."""


def hand_over(plugin: Any, args: Config, hidden: int, optimizer: Any, scheduler: Any) -> Config:
    """`Accelerator.prepare` with the plugin, up to the call of `deepspeed.initialize`."""
    import accelerate.accelerator as module
    import torch
    import torch.distributed.device_mesh as meshes
    from accelerate.utils.deepspeed import DummyOptim, DummyScheduler

    quiet = types.SimpleNamespace(warning=lambda *_, **__: None, info=lambda *_, **__: None)
    # The module has these names only where DeepSpeed is installed.
    vars(module).update(logger=quiet, DummyOptim=DummyOptim, DummyScheduler=DummyScheduler)
    vars(module)["map_pytorch_optim_to_deepspeed"] = lambda optimizer: optimizer
    _of_earlier_versions(vars(module))
    vars(meshes)["init_device_mesh"] = lambda *_, **__: None  # of ranks that are not there
    model = torch.nn.Linear(2, 2)
    object.__setattr__(model, "config", types.SimpleNamespace(hidden_size=hidden))
    loader: Any = torch.utils.data.DataLoader(
        torch.zeros(64, 2),  # type: ignore[arg-type]
        batch_size=args["per_device_train_batch_size"],
    )
    itself = types.SimpleNamespace(
        fp8_backend=None,
        fp8_recipe_handler=None,
        deepspeed_plugin=plugin,
        parallelism_config=None,
        _prepare_one=lambda obj, first_pass=False: obj,
        split_batches=False,
        num_processes=RANKS,
        gradient_accumulation_steps=args.get("gradient_accumulation_steps", 1),
        state=types.SimpleNamespace(deepspeed_plugin=plugin),  # where old releases look for it
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


def _of_earlier_versions(names: dict[str, Any]) -> None:
    """What Accelerate before 1.1 asks of DeepSpeed itself."""
    names["deepspeed"] = sys.modules["deepspeed"]
    for name in ("deepspeed.ops", "deepspeed.ops.adam"):
        sys.modules.setdefault(name, types.ModuleType(name))
    adam: Any = sys.modules["deepspeed.ops.adam"]
    adam.DeepSpeedCPUAdam = lambda groups, **_: groups


def stand_in() -> None:
    """A `deepspeed` that only takes what it is handed."""

    def initialize(**options: Any) -> None:
        raise Handed(options["config_params"])

    schedules = types.SimpleNamespace(VALID_LR_SCHEDULES=[])
    module: Any = types.ModuleType("deepspeed")
    module.__spec__ = ModuleSpec("deepspeed", None)
    module.initialize, module.runtime = initialize, types.SimpleNamespace(lr_schedules=schedules)
    module.__version__ = "0.19.8"
    logs = types.SimpleNamespace(logger=logging.getLogger("deepspeed"))
    module.utils = types.SimpleNamespace(logging=logs)
    sys.modules["deepspeed"] = module
