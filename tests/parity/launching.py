"""Compares the rules of launch files with Accelerate's own code, on generated files and those of a directory.

`python -m tests.parity.launching [CASES] [--corpus DIR]`, in an environment that has accelerate and torch
beside what dsconfig needs. `accelerate launch` is followed to where it would start processes, and the plugin
is made as the first of them would make it; what raises has to be `rejected` here, and the other way round.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import yaml

from dsconfig.checking.check import check
from dsconfig.checking.report import Report

Config = dict[str, Any]
BLOCK: dict[str, tuple[Any, ...]] = {
    "zero_stage": (0, 1, 2, 3, "2", 2.0, "two", None),
    "gradient_accumulation_steps": (1, 4, "auto", "8", None),
    "gradient_clipping": (1.0, 0, "auto", "one", None),
    "offload_optimizer_device": ("none", "cpu", "nvme", "CPU", None),
    "offload_param_device": ("none", "cpu", "nvme", None),
    "offload_param_nvme_path": ("/nvme", "none"),
    "zero3_init_flag": (True, False),
    "zero3_save_16bit_model": (True, False),
    "deepspeed_config_file": ("ds.json",),
    "deepspeed_hostfile": ("hosts",),
    "train_micro_batch_size_per_gpu": (4,),
}
ROOT: dict[str, tuple[Any, ...]] = {
    "mixed_precision": ("no", "bf16", "fp16", "BF16", False, "tf32", None),
    "num_machines": (1,),
    "machine_rank": (0,),
    "use_cpu": (False,),
    "distributed_training_library": ("x",),
    "zero_stage": (2,),
    "fp16": (False,),
    "tpu_env": ([],),
}
KINDS = ("DEEPSPEED",) * 12 + ("NO", "MULTI_GPU", "deepspeed", None)
CONFIG: Config = {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}


def generated(source: Random) -> Config:
    """A launch file with a few keys, now and then one that should not be there."""
    block = {key: source.choice(values) for key, values in BLOCK.items() if source.random() < 0.25}
    root = {key: source.choice(values) for key, values in ROOT.items() if source.random() < 0.12}
    kind = source.choice(KINDS)
    return ({} if kind is None else {"distributed_type": kind}) | {
        "num_processes": 1,
        **root,
        "deepspeed_config": block or {"zero_stage": 2},
    }


def theirs(path: Path) -> str | None:
    """What Accelerate raises over a launch file; None where it launches."""
    from accelerate import DeepSpeedPlugin
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    parser = launch.launch_command_parser()
    found: list[str] = []

    def follow(args: Any) -> None:
        environment = prepare_deepspeed_cmd_env(args)[1]
        with mock.patch.dict(os.environ, environment):
            DeepSpeedPlugin()

    with mock.patch.object(launch, "deepspeed_launcher", follow):
        for other in ("simple_launcher", "multi_gpu_launcher"):
            mock.patch.object(launch, other, return_value=None).start()
        try:
            launch.launch_command(parser.parse_args(["--config_file", str(path), "train.py"]))
        except BaseException as error:
            found.append(f"{type(error).__name__}: {error}")
        finally:
            mock.patch.stopall()
    return found[0] if found else None


def ours(path: Path) -> Report:
    """What is found in the launch file."""
    return check(str(path))


def compare(name: str, path: Path) -> bool:
    """Whether both agree on the file; says so where they do not."""
    raised, report = theirs(path), ours(path)
    # Whether DeepSpeed takes what the plugin made is the rest of the suite's question.
    refused = [d for d in report if d.code[:5] in ("DSC82", "DSC00") and d.effect.value == "rejected"]
    if bool(raised) == bool(refused):
        return True
    # A named file that is elsewhere is a note here, and whether fp8 works is the machine's affair.
    if raised and (("string path" in raised and report.notes) or "FP8 is not available" in raised):
        return True
    print(
        f"{name}: accelerate: {(raised or 'launches')[:200]}; here: {[d.message for d in refused] or 'fine'}"
    )
    return False


def main(arguments: list[str] | None = None) -> int:
    """Compare; 0 where they agree on every file."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.launching", description=__doc__.split("\n")[0]
    )
    parser.add_argument("cases", nargs="?", type=int, default=300)
    parser.add_argument("--corpus", type=Path, help="a directory with launch files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        import accelerate
    except ImportError as error:
        print(f"needs accelerate and torch: {error}", file=sys.stderr)
        return 2
    source, verdicts = Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("ds.json").write_text(json.dumps(CONFIG))
        for number in range(options.cases):
            path = Path(folder, f"{number}.yaml")
            data = generated(source)
            path.write_text(yaml.safe_dump(data))
            verdicts.append(compare(json.dumps(data), path))
        files = sorted(options.corpus.rglob("*.y*ml")) if options.corpus else []
        launch_files = [path for path in files if "\ndeepspeed_config:" in path.read_text("utf-8", "replace")]
        verdicts += [compare(path.name, path) for path in launch_files]
    print(f"accelerate {accelerate.__version__}: {sum(verdicts)} of {len(verdicts)} launch files agree")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
