"""Compares the rules of launch files with Accelerate's own code, on generated files and those of a directory.

`python -m tests.parity.launching [CASES] [--corpus DIR]`, in an environment that has accelerate (0.19 or any
later version) and torch beside what dsconfig needs. `accelerate launch` is followed to where it would start
processes, with flags beside its file now and then, and the plugin is made as the first of them would make
it; what raises has to be `rejected` here, and the other way round, and the config that the plugin makes is
the one that is made here.
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

from dsconfig.api.check import check
from dsconfig.check.report import Report
from dsconfig.document import read_file
from dsconfig.job.consumers import accelerate_launch_file
from dsconfig.launch.find_jobs import job_of_launch_file

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
    "deepspeed_moe_layer_cls_names": (None,),
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
    "debug": (False,),
    "enable_cpu_affinity": (False,),
    "ipex_config": ({},),
    "mpirun_config": ({},),
    "fp8_config": ({},),
    "parallelism_config": ({},),
    "tp_config": ({},),
}
FLAGS: Config = {
    "zero_stage": ("1", "3"),
    "gradient_accumulation_steps": ("2",),
    "gradient_clipping": ("0.5",),
    "offload_optimizer_device": ("cpu",),
    "mixed_precision": ("fp16",),
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


def flags(source: Random) -> list[str]:
    """Flags of the command that names a launch file, in one of three cases."""
    if source.random() < 0.7:
        return []
    return [
        word
        for key, values in FLAGS.items()
        if source.random() < 0.3
        for word in (f"--{key}", source.choice(values))
    ]


def theirs(path: Path, words: list[str]) -> str | Config:
    """What Accelerate raises over a launch file, or the config that its plugin makes of it."""
    from accelerate import DeepSpeedPlugin
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    parser = launch.launch_command_parser()
    found: list[str | Config] = []

    def follow(args: Any) -> None:
        environment = prepare_deepspeed_cmd_env(args)[1]
        with mock.patch.dict(os.environ, environment):
            plugin = DeepSpeedPlugin()
            plugin.set_mixed_precision(environment["ACCELERATE_MIXED_PRECISION"])
        found.append(plugin.deepspeed_config)

    # What holds the config for Transformers, which need not be one of the time.
    mock.patch.object(DeepSpeedPlugin, "set_deepspeed_weakref", create=True).start()
    with mock.patch.object(launch, "deepspeed_launcher", follow):
        for other in ("simple_launcher", "multi_gpu_launcher"):
            mock.patch.object(launch, other, return_value=None).start()
        try:
            launch.launch_command(parser.parse_args(["--config_file", str(path), *words, "train.py"]))
        except BaseException as error:
            found = [f"{type(error).__name__}: {error}"]
        finally:
            mock.patch.stopall()
    return found[0] if found else {}


def ours(path: Path, words: list[str], version: str) -> tuple[list[Report], Config]:
    """What is found in the launch file, and the config that is made of it."""
    if not words:
        data: Any = read_file(path).value()
        made = (
            accelerate_launch_file.build_plugin_config(data, version)
            if data.get("distributed_type") == "DEEPSPEED"
            else None
        )
        return [check(str(path), consumer=f"accelerate=={version}")], made or {}
    script = path.with_suffix(".sh")
    script.write_text(f"accelerate launch --config_file {path} {' '.join(words)} train.py\n", "utf-8")
    report = check(str(script), consumer=f"accelerate=={version}")
    job = job_of_launch_file(read_file(script))
    merged: Any = job.config(version) if job else None
    return [report, *report.children], accelerate_launch_file.build_plugin_config(
        merged.value(), version
    ) or {} if merged else {}


def plain(config: Config) -> Config:
    """The config without what is the same as nothing, and what is filled in later."""
    zero = config.get("zero_optimization")
    if not isinstance(zero, dict) or "train_micro_batch_size_per_gpu" not in config:
        return {}
    kept = {key: value for key, value in zero.items() if value not in (False, None)}
    for name in ("offload_optimizer", "offload_param"):
        device = kept.pop(name, {}).get("device", "none")
        kept |= {} if device == "none" else {name: device}
    on = {name: config[name] for name in ("fp16", "bf16") if config.get(name, {}).get("enabled")}
    root = ("gradient_clipping", "gradient_accumulation_steps")
    return {key: config[key] for key in root if key in config} | {"zero": kept} | on


def compare(name: str, path: Path, version: str, words: list[str]) -> bool:
    """Whether both agree on the file; says so where they do not."""
    made, (reports, own) = theirs(path, words), ours(path, words, version)
    raised = made if isinstance(made, str) else None
    # Whether DeepSpeed takes what the plugin made is the rest of the suite's question.
    refused = [
        d
        for report in reports
        for d in report
        if d.code[:5] in ("DSC82", "DSC00") and d.effect.value == "rejected"
    ]
    if isinstance(made, dict) and not refused and plain(made) == plain(own):
        return True
    if raised and refused:
        return True
    # A named file that is elsewhere is a note here, and whether fp8 works is the machine's affair.
    notes = any(report.notes for report in reports)
    if raised and (("string path" in raised and notes) or "FP8 is not available" in raised):
        return True
    found = [d.message for d in refused] or ("fine" if raised else plain(own))
    said = made if isinstance(made, str) else str(plain(made))
    print(f"{name} {words}: accelerate: {said[:300]}; here: {found}")
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
    source, verdicts, version = Random(options.seed), [], accelerate.__version__
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("ds.json").write_text(json.dumps(CONFIG))
        for number in range(options.cases):
            path = Path(folder, f"{number}.yaml")
            data = generated(source)
            path.write_text(yaml.safe_dump(data))
            verdicts.append(compare(json.dumps(data), path, version, flags(source)))
        files = sorted(options.corpus.rglob("*.y*ml")) if options.corpus else []
        launch_files = [path for path in files if "\ndeepspeed_config:" in path.read_text("utf-8", "replace")]
        verdicts += [compare(path.name, path, version, []) for path in launch_files]
    print(f"accelerate {version}: {sum(verdicts)} of {len(verdicts)} launch files agree")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
