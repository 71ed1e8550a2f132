"""Programs recognized by their command, and programs that build the config themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import ResolveError, check, resolve
from dsconfig.cli import main
from tests.launches import AUTO, COMMANDS, JOBS, launch


@pytest.mark.parametrize("name", COMMANDS)
def test_recognized_by_its_command(project: Path, name: str) -> None:
    command, leads_to = COMMANDS[name]
    (project / "run.sh").write_text(f"{command}\n")
    report = check("run.sh")
    (config,) = report.children or (report,)
    assert (config.name, config.consumer) == (leads_to, "deepspeed")
    assert report.notes[0].startswith(f"run.sh:1: {name} ")


def test_neox_builds_the_config_from_its_keys(project: Path) -> None:
    job = {**JOBS["GPT-NeoX"], "global_num_gpus": 16, "model-parallel-size": 2, "gradient-clipping": 1.0}
    job |= {"gradient_accumulation_steps": 2, "precision": "bfloat16", "steps-per-print": 100}
    path = launch(project, job, zero_optimization={"stage": 1, "reduce_bucket_size": "much"})
    assert {diagnostic.dotted for diagnostic in check(path) if diagnostic.severity == "error"} == {
        "zero_optimization.reduce_bucket_size"
    }
    run = resolve(launch(project, job), target="0.19.8")
    assert (run.triplet, run.world_size, run.data_parallel_size) == ((64, 4, 2), 16, 8)
    assert run.config["bf16"] == {"enabled": True}
    assert "gradient_clipping" not in run.config, "its own default is not handed on"
    assert run.config["zero_optimization"]["stage"] == 0
    assert not check(launch(project, {**job, "train_batch_size": 60})).ok


def test_no_diagnostic_for_keys_that_neox_adds(project: Path) -> None:
    job = {**JOBS["GPT-NeoX"], "precision": "fp16", "optimizer": {"type": "sm3", "params": {"lr": 1e-3}}}
    path = launch(project, {**job, "deepspeed_extra_args": {"comms_logger": {"enabled": True}}})
    (diagnostic,) = check(path, target="0.16.9")
    line = Path(path).read_text().splitlines().index("    enabled: true") + 1
    assert (diagnostic.code, diagnostic.location and diagnostic.location.line) == ("DSC921", line)
    (refused,) = [each for each in check(path, target="0.19.8") if each.severity == "error"]
    assert (refused.code, refused.fix) == ("DSC101", None)
    assert str(refused.help).startswith("set `fp16` in the launch file; without it, GPT-NeoX adds this value")
    tuned = launch(project, {**job, "autotuning": {"enabled": True}, "zero_optimization": {"stage": [1, 2]}})
    assert (
        check(tuned).why_not_config
        == "not a DeepSpeed config: a launch file of GPT-NeoX for DeepSpeed's autotuner"
    )


def test_openrlhf_builds_the_config_from_its_flags(project: Path) -> None:
    command = "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --train.batch_size 256 "
    (project / "run.sh").write_text(
        command + "--train.micro_batch_size 4 --ds.zero_stage 3 --ds.adam_offload"
    )
    run = resolve("run.sh", target="0.19.8")
    assert run.triplet == (256, 4, 8)
    assert run.config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    (project / "run.sh").write_text(command + "--train.micro_batch_size 3")
    assert not check("run.sh").ok


def test_lightning_builds_and_completes_configs(project: Path) -> None:
    job = {"strategy": "deepspeed_stage_3_offload", "devices": 4, "accumulate_grad_batches": 2}
    job |= {"precision": "bf16-mixed", "gradient_clip_val": 0.5}
    assert check(launch(project, {"trainer": job})).ok
    (project / "ds" / "z.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 4}))
    job["strategy"] = {"class_path": "DeepSpeedStrategy", "init_args": {"config": "ds/z.json"}}
    run = resolve(launch(project, {"trainer": job}), target="0.19.8")
    assert (run.triplet, run.consumer) == ((32, 4, 2), "lightning")
    assert (run.config["bf16"], run.config["gradient_clipping"]) == ({"enabled": True}, 0.5)
    (project / "ds" / "z.json").write_text(json.dumps({"train_batch_size": 12}))
    (diagnostic,) = [each for each in check(launch(project, {"trainer": job})).children[0] if each.effect]
    assert diagnostic.effect.value == "rejected"
    (project / "ds" / "z.json").write_text(json.dumps({"gradient_accumulation_steps": 2}))
    assert "DSC803" in {each.code for each in check(launch(project, {"trainer": job})).children[0]}


def test_a_preset_is_the_packages_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "run.sh").write_text("NPROC_PER_NODE=4 swift sft --model m --deepspeed zero3\n")
    # Known here, without ms-swift: the batch is 16 per step unless said otherwise.
    run = resolve("run.sh", target="0.19.8", set={"gradient_accumulation_steps": 4})
    assert (run.triplet, run.config["zero_optimization"]["stage"]) == ((16, 1, 4), 3)
    folder = project / "packages" / "swift" / "config"
    folder.mkdir(parents=True)
    (folder / "zero3.json").write_text(json.dumps(AUTO))
    monkeypatch.syspath_prepend(str(project / "packages"))
    assert resolve("run.sh", target="0.19.8", set={"gradient_accumulation_steps": 4}).triplet == (16, 1, 4)


def test_one_of_several_manifests(project: Path) -> None:
    manifest = yaml.safe_dump(JOBS["Kubernetes"])
    path = project / "launch" / "job.yaml"
    path.write_text(
        f"apiVersion: v1\nkind: ConfigMap\n---  # the job\n{manifest}---\napiVersion: v1\nkind: Service\n"
    )
    report = check(str(path))
    assert [child.name for child in report.children] == ["ds/z.json"]
    assert not any(diagnostic.severity == "error" for diagnostic in report)


def test_omegaconf_numbers(project: Path) -> None:
    job = {**JOBS["LLaMA-Factory"], "deepspeed": {**AUTO, "zero_optimization": {"reduce_bucket_size": "5e8"}}}
    text = yaml.safe_dump(job).replace("'5e8'", "5e8")
    (project / "launch" / "train.yaml").write_text(text)
    assert check(str(project / "launch" / "train.yaml")).ok
    swift = {**JOBS["ms-swift"], "deepspeed": job["deepspeed"]}
    (project / "launch" / "train.yaml").write_text(yaml.safe_dump(swift).replace("'5e8'", "5e8"))
    assert not check(str(project / "launch" / "train.yaml")).ok


def test_files_that_name_each_other_are_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.yaml").write_text("output_dir: o\ndeepspeed: a.yaml\n")
    assert main(["check", "a.yaml"]) == 0
    (project / "a.yaml").write_text("output_dir: o\ndeepspeed: b.yaml\n")
    (project / "b.yaml").write_text("output_dir: o\ndeepspeed: a.yaml\n")
    assert main(["check", "a.yaml", "b.yaml"]) == 0
    assert capsys.readouterr().out.count("Checked") == 2


READS = "config = json.load(open(args.config))\n"
STARTS = "engine = deepspeed.initialize(model=model, config=config)\n"


@pytest.mark.parametrize(
    ("name", "line", "is_reported"),
    [
        ("train.py", 'config["scheduler"]["params"]["total_num_steps"] = steps\n', False),
        (
            "train.py",
            "params = config['scheduler']['params']\nparams.update({'total_num_steps': steps})\n",
            False,
        ),
        ("train.py", 'config["scheduler"]["params"].setdefault("total_num_steps", steps)\n', False),
        ("train.py", 'config["scheduler"]["params"].update(total_num_steps=steps)\n', False),
        ("src/train.py", 'config["scheduler"]["params"]["total_num_steps"] = steps\n', False),
        ("other/train.py", 'config["scheduler"]["params"]["total_num_steps"] = steps\n', True),
        ("train.py", 'if config["scheduler"]["params"]["total_num_steps"] == 0:\n    pass\n', True),
        ("train.py", '# config["scheduler"]["params"]["total_num_steps"] = steps\n', True),
        ("train.py", 'wandb.log({"total_num_steps": steps})\n', True),
        ("train.py", 'config["scheduler"]["params"]["warmup_num_steps"] = steps\n', True),
    ],
)
def test_key_written_by_the_program_is_not_missing(
    project: Path, name: str, line: str, *, is_reported: bool
) -> None:
    scheduler = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10}}
    (project / "conf").mkdir()
    config = project / "conf" / "steps.json"
    config.write_text(json.dumps({"train_batch_size": 8, "scheduler": scheduler}))
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(READS + line + STARTS)
    (project / "run.sh").write_text("deepspeed src/train.py --config conf/steps.json\n")
    (project / "run2.sh").write_text("deepspeed other/train2.py\n")
    assert ("DSC557" in {diagnostic.code for diagnostic in check(config)}) is is_reported


def test_arctic_replaces_the_batch_of_the_config(project: Path) -> None:
    batch = {"train_micro_batch_size_per_gpu": 9, "train_batch_size": 44, "gradient_accumulation_steps": 7}
    job = {
        **JOBS["ArcticTraining"],
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 3,
        "deepspeed": batch,
    }
    assert resolve(launch(project, job), world_size=8, target="0.19.8").triplet == (48, 2, 3)
    assert check(launch(project, job), world_size=8).ok


def test_determined_overrides(project: Path) -> None:
    over = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}}
    hyper = {
        "deepspeed_config": {"train_batch_size": 64, "zero_optimization": {"stage": 9, "overlap_comm": True}}
    }
    job = {**JOBS["Determined"], "hyperparameters": hyper | {"overwrite_deepspeed_args": over}}
    run = resolve(launch(project, job), world_size=8, target="0.19.8")
    assert run.triplet == (64, 4, 2)
    assert run.config["zero_optimization"] == {"stage": 1, "overlap_comm": True}


def test_ludwig_gives_arguments_to_the_plugin(project: Path) -> None:
    job = {"strategy": {"type": "accelerate", "deepspeed_config": {"zero_stage": 3, "zero_stag": 1}}}
    (child,) = check(launch(project, job)).children
    assert [diagnostic.code for diagnostic in child] == ["DSC820", "DSC828"], "no key of a config"


def test_swift_uses_the_batch_of_the_elasticity_block(project: Path) -> None:
    block = {"enabled": True, "max_train_batch_size": 64, "micro_batch_sizes": [2, 4], "version": 0.1}
    config = {**AUTO, "elasticity": {**block, "ignore_non_elastic_batch_info": True}}
    job = {**JOBS["ms-swift"], "deepspeed": config, "callbacks": ["deepspeed_elastic"]}
    run = resolve(launch(project, job), world_size=8, target="0.16.9")
    assert (run.triplet, run.config["checkpoint"]) == ((48, 2, 3), {"load_universal": True})
    assert "elasticity" in str(next(iter(check(launch(project, job), target="0.19.8"))).path)


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (
            {
                "resources": {"accelerators": {"A100": 4}},
                "num_nodes": 2,
                "envs": {"DS": "ds/z.json"},
                "run": "torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE"
                " t.py --deepspeed_config $DS",
            },
            8,
        ),
        (
            {
                "command": "python t.py --deepspeed_config ${{inputs.ds}}",
                "inputs": {"ds": {"type": "uri_file", "path": "ds/z.json"}},
                "distribution": {"type": "pytorch", "process_count_per_instance": 4},
                "resources": {"instance_count": 3},
            },
            12,
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "PyTorchJob",
                "spec": {
                    "nprocPerNode": "8",
                    "pytorchReplicaSpecs": {
                        "Master": {
                            "replicas": 1,
                            "c": [
                                {"command": ["torchrun", "t.py"], "args": ["--deepspeed_config", "ds/z.json"]}
                            ],
                        },
                        "Worker": {"replicas": 3},
                    },
                },
            },
            32,
        ),
        (
            {
                "entrypoint": "torchrun --nproc_per_node $N t.py --deepspeed_config ds/z.json",
                "runtime_env": {"env_vars": {"N": "4"}},
            },
            4,
        ),
    ],
)
def test_variables_of_manifests(project: Path, job: dict[str, Any], size: int) -> None:
    report = check(launch(project, job))
    assert [child.name for child in report.children] == ["ds/z.json"]
    assert report.children[0].world_size == size


def test_flags_of_openrlhf_with_unknown_values(project: Path) -> None:
    command = "ZERO=$1\ndeepspeed --num_gpus 8 --module openrlhf.cli.train_rm --zero_stage $ZERO "
    (project / "run.sh").write_text(f"{command} --train_batch_size $2 --micro_train_batch_size $3 --bf16\n")
    assert not check("run.sh").diagnostics, "neither a missing batch size nor stage 2"
    with pytest.raises(ResolveError, match="only known at run time"):
        resolve("run.sh")
    (project / "train.sh").write_text("sh ./run.sh 3 64 4\n")
    run = resolve("train.sh")
    assert (run.triplet, run.config["zero_optimization"]["stage"]) == ((64, 4, 2), 3)
    # Without the flags the batch is OpenRLHF's default, and the micro batch differs between its commands.
    (project / "run.sh").write_text(f"{command} --bf16\n")
    assert not check("run.sh").diagnostics


def test_preset_names_of_older_ms_swift(project: Path) -> None:
    flags = "--sft_type full --batch_size 4 --gradient_accumulation_steps 8"
    (project / "run.sh").write_text(
        f"NPROC_PER_NODE=3 swift sft --model_type a {flags} --deepspeed default-zero3"
    )
    run = resolve("run.sh")
    assert (run.triplet, run.config["zero_optimization"]["stage"]) == ((96, 4, 8), 3)


@pytest.mark.parametrize(("pin", "release"), [("", "0.16.5"), ("deepspeed==0.19.8\n", "0.19.8")])
def test_neox_is_checked_against_the_base_of_its_fork(project: Path, pin: str, release: str) -> None:
    (project / "requirements.txt").write_text(f"torch\n{pin}")
    job = {**JOBS["GPT-NeoX"], "fp16": {"fp16": True, "enabled": True, "type": "fp16"}}
    path = launch(project, job)
    report = check(path)
    assert report.target.releases == (release,)
    severity = "error" if pin else "warning"
    assert [(each.code, each.severity) for each in report] == [("DSC107", severity)]


def test_a_model_file_of_neox_without_the_file_of_its_cluster(project: Path) -> None:
    job = {key: value for key, value in JOBS["GPT-NeoX"].items() if key != "pipe-parallel-size"}
    path = launch(project, {**job, "num-attention-heads": 8, "train_micro_batch_size_per_gpu": 4})
    assert not check(path, world_size=8).diagnostics
    with pytest.raises(ResolveError, match="another file"):
        resolve(path, world_size=8, target="0.16.5")
