"""Hands a `Config` to everything that takes a config for DeepSpeed: `python -m tests.parity.handover`.

It builds the environment that it needs; each step runs in a process of its own there, with the real library:
DeepSpeed's engine on CPU for two steps, Transformers' arguments and `HfDeepSpeedConfig`, Accelerate's
plugin, Lightning's strategy.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tests.parity import environment, loading

RELEASE = "0.19.8"
BUILD = """
import importlib.metadata, sys
import dsconfig
config = dsconfig.Config(
    train_micro_batch_size_per_gpu=2,
    zero_optimization={"stage": 1, "reduce_bucket_size": 2e8},
    optimizer={"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
)
auto = config.replace(train_micro_batch_size_per_gpu="auto", optimizer__params__lr="auto")
def version(name):
    return f"{name} {importlib.metadata.version(name)}"
"""
STEPS = {
    "deepspeed.initialize": """
import deepspeed, deepspeed.ops, torch
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, for minutes
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=config.for_deepspeed(world_size=1)
)
while engine.global_steps < 2:
    engine.backward(engine(torch.randn(2, 4)).mean())
    engine.step()
assert engine.train_batch_size() == dsconfig.resolve(config, world_size=1).train_batch_size == 2
assert engine.zero_optimization_stage() == 1
print("DeepSpeed", deepspeed.__version__)
""",
    "TrainingArguments": """
import transformers
arguments = transformers.TrainingArguments(
    output_dir=sys.argv[1], use_cpu=True, per_device_train_batch_size=3, deepspeed=auto.for_transformers()
)
filled = arguments.hf_deepspeed_config
filled.trainer_config_process(arguments)
assert filled.config["train_micro_batch_size_per_gpu"] == 3
assert filled.config["optimizer"]["params"]["lr"] == arguments.learning_rate
assert auto.to_dict()["train_micro_batch_size_per_gpu"] == "auto"
print(version("transformers"))
""",
    "HfDeepSpeedConfig": """
from transformers.integrations import HfDeepSpeedConfig
held = HfDeepSpeedConfig(auto.for_transformers())
assert held.is_zero2() is False and held.get_value("zero_optimization.stage") == 1
print(version("transformers"))
""",
    "DeepSpeedPlugin": """
import accelerate
plugin = accelerate.DeepSpeedPlugin(hf_ds_config=auto.for_accelerate())
assert plugin.zero_stage == 1
assert plugin.hf_ds_config.config["zero_optimization"]["reduce_bucket_size"] == 200_000_000
print(version("accelerate"))
""",
    "DeepSpeedStrategy": """
from lightning.pytorch.strategies import DeepSpeedStrategy
strategy = DeepSpeedStrategy(config=config.for_lightning())
assert strategy.config["zero_optimization"]["stage"] == 1
print(version("lightning"))
""",
}


def hand_over(step: str, folder: str) -> str:
    """What one step prints: the version that took the config.

    Raises:
        AssertionError: it did not take it; the message shows the end of what it said.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = environment.clean_variables(RELEASE)
    # Without the shim of old releases: its stand-ins are not what these programs look for.
    variables["PYTHONPATH"] = os.pathsep.join(
        map(str, (environment.ROOT, environment.home() / "ds" / RELEASE))
    )
    del variables["DSCONFIG_PARITY_SHIM"]
    variables |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "DS_ACCELERATOR": "cpu"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [loading.python(loading.LIBRARIES), "-c", BUILD + STEPS[step], folder],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{step}:\n{done.stdout[-500:]}{done.stderr[-3000:]}"
    return done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Run every step, and print what took the config."""
    import tempfile

    try:
        environment.build([RELEASE])
        loading.build(loading.LIBRARIES)
    except (environment.BuildError, OSError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    failed = False
    for step in STEPS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{step}: {hand_over(step, folder)}", flush=True)
            except AssertionError as error:
                failed = True
                print(error, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
