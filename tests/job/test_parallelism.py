"""Degrees of parallelism of a job, and the data-parallel size that divides its batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import NotModelledError, ResolveError, UnknownWorldSizeError, check, fix, memory, resolve, show
from dsconfig.cli import main
from dsconfig.core.batch_triplet import (
    ABSENT,
    ParallelDegree,
    Parallelism,
    UnevenRanksError,
    data_parallel_size,
)

CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}
NAMES = "--deepspeed_config ds.json"
MEGATRON = f"deepspeed --num_gpus 16 pretrain_gpt.py {NAMES}"


@pytest.fixture(autouse=True)
def project(empty_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (empty_repository / "ds.json").write_text(json.dumps(CONFIG))
    return empty_repository


def size_of(name: str) -> float:
    return resolve(name, target="0.19.8").data_parallel_size


def script(text: str) -> str:
    Path("run.sh").write_text(f"{text}\n")
    return "run.sh"


@pytest.mark.parametrize(
    ("command", "size"),
    [
        (f"{MEGATRON} --pipeline-model-parallel-size 8", 2),
        (f"{MEGATRON} --tensor-model-parallel-size 2 --pipeline-model-parallel-size=4", 2),
        (f"{MEGATRON} --tensor_model_parallel_size 4", 4),
        (f"{MEGATRON} --ds-sequence-parallel-size 4", 4),
        (f"{MEGATRON} --tensor-model-parallel-size 2 --context-parallel-size 2", 4),
        (f"TP=2\n{MEGATRON} --tensor-model-parallel-size $TP", 8),
        (f"{MEGATRON} --tensor-model-parallel-size 64", 1),
        (f"{MEGATRON} --tensor-model-parallel-size 2 --expert-model-parallel-size 4 --ep-size 4", 8),
        (f"{MEGATRON} --tensor-model-parallel-size 2 --sequence-parallel --no-pipeline-parallel", 8),
        (f'P=(\n--pipeline-model-parallel-size 4\n)\n{MEGATRON} "${{P[@]}}"', 4),
        (f"deepspeed --num_gpus 8 mine.py --expert_parallel_size 4 {NAMES}", 8),
        (f"torchrun --nproc_per_node 8 mine.py --tensor-model-parallel-size 2 {NAMES}", 4),
        (f"deepspeed --num_gpus 8 mine.py --tensor_parallel_size 1 {NAMES}", 8),
        (f"deepspeed --num_gpus 8 mine.py --vllm_tensor_parallel_size 4 {NAMES}", 8),
    ],
)
def test_flags_divide_the_ranks(command: str, size: int) -> None:
    assert size_of(script(command)) == size
    assert resolve("run.sh", target="0.19.8").train_batch_size == 32 * size


@pytest.mark.parametrize("hyphens", [True, False])
def test_neox_divides_by_pipeline_and_model(hyphens: bool) -> None:
    job = {"pipe_parallel_size": 2, "model_parallel_size": 4, "num_layers": 12, **CONFIG}
    named = {key.replace("_", "-") if hyphens else key: value for key, value in job.items()}
    named |= CONFIG if hyphens else {}
    named = {key: value for key, value in named.items() if key not in {"train-micro-batch-size-per-gpu"}}
    Path("job.yml").write_text(yaml.safe_dump(named))
    run = resolve("job.yml", world_size=16, target="0.19.8")
    assert (run.data_parallel_size, run.train_batch_size) == (2, 64)
    with pytest.raises(
        ResolveError, match=r"12 ranks cannot be divided into groups of 8 \(2 pipeline × 4 tensor"
    ):
        resolve("job.yml", world_size=12, target="0.19.8")


def test_pipeline_of_no_stages_is_none() -> None:
    job = {"pipe-parallel-size": 0, "num-layers": 12, "global_num_gpus": 8, **CONFIG}
    Path("job.yml").write_text(yaml.safe_dump(job))
    assert size_of("job.yml") == 8


@pytest.mark.parametrize("flags", ["--ds_tensor_parallel_size 2", "--ds.tensor_parallel_size 2"])
def test_openrlhf_multiplies_the_batch_instead(flags: str) -> None:
    command = "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --bf16 --train_batch_size 64"
    run = resolve(script(f"{command} --micro_train_batch_size 4 {flags} --ring_attn_size 2"), target="0.19.8")
    assert (run.triplet, run.data_parallel_size) == ((256, 4, 8), 8)
    assert run.config["tensor_parallel"] == {"autotp_size": 2}
    messages = " ".join(message.text for message in run.messages)
    assert "`--ring-attn-size` in run.sh:1 is 2: DeepSpeed counts all 8 ranks in the batch" in messages
    assert check("run.sh").ok


@pytest.mark.parametrize(
    ("job", "key"),
    [
        ({"model": "m", "dataset": "d", "tuner_type": "full"}, "sequence_parallel_size"),
        ({"base_model": "m", "datasets": [], "micro_batch_size": 2}, "context_parallel_size"),
        ({"base_model": "m", "datasets": [], "micro_batch_size": 2}, "sequence_parallel_degree"),
        ({"model_name_or_path": "m", "stage": "sft", "finetuning_type": "full"}, "sequence_parallel_size"),
    ],
)
def test_programs_that_share_sequences_behind_deepspeed_s_back(job: dict[str, Any], key: str) -> None:
    batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    Path("ds.json").write_text(
        json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {}})
    )
    Path("job.yaml").write_text(yaml.safe_dump({**job, **batch, "deepspeed": "ds.json", key: 4}))
    run = resolve("job.yaml", world_size=8, target="0.19.8")
    assert run.data_parallel_size == 8
    assert any(
        f"`{key}` in job.yaml is 4: DeepSpeed counts all 8 ranks" in each.text for each in run.messages
    )


ACCELERATE = {
    "distributed_type": "DEEPSPEED",
    "num_processes": 8,
    "deepspeed_config": {"deepspeed_config_file": "ds.json"},
    "parallelism_config": {"parallelism_config_sp_size": 2, "parallelism_config_sp_backend": "deepspeed"},
}


def test_accelerate_divides_by_ulysses() -> None:
    Path("ds.json").write_text(
        json.dumps({**CONFIG, "train_batch_size": "auto", "zero_optimization": {"stage": 3}})
    )
    Path("acc.yaml").write_text(yaml.safe_dump(ACCELERATE))
    for name in ("acc.yaml", script("accelerate launch --config_file acc.yaml t.py")):
        run = resolve(name, target="0.19.8")
        assert (run.data_parallel_size, run.train_batch_size) == (4, 128), name
        assert check(name).ok
    flags = "accelerate launch --num_processes 8 --use_deepspeed --parallelism_config_sp_size 4 "
    assert size_of(script(f"{flags} --deepspeed_config_file ds.json t.py")) == 2


def test_a_batch_that_fits_the_data_parallel_ranks_is_no_error() -> None:
    Path("ds.json").write_text(json.dumps({**CONFIG, "train_batch_size": 128}))
    assert check(script(f"{MEGATRON} --tensor-model-parallel-size 4"), target="0.19.8").ok
    (child,) = check(script(MEGATRON), target="0.19.8").children
    assert [diagnostic.code for diagnostic in child] == ["DSC202"]
    (child,) = check(script(f"{MEGATRON} --tensor-model-parallel-size 2"), target="0.19.8").children
    (diagnostic,) = child
    assert diagnostic.message.endswith("accumulation steps × data-parallel ranks, 16 / (2 tensor))")
    assert "use 8 GPUs" in (diagnostic.help or "")


def test_a_config_alone_has_the_degrees_of_its_job() -> None:
    script(f"{MEGATRON} --tensor-model-parallel-size 4")
    assert size_of("ds.json") == 4
    script(f"{MEGATRON} --tensor-model-parallel-size 4\n{MEGATRON} --tensor-model-parallel-size 2")
    with pytest.raises(ResolveError, match="the data-parallel size is not known"):
        resolve("ds.json", world_size=16, target="0.19.8")
    assert resolve("ds.json", world_size=16, target="0.19.8", tp=2).data_parallel_size == 8


def test_sizes_that_do_not_divide() -> None:
    (child,) = check(script(f"{MEGATRON} --ds-sequence-parallel-size 3"), target="0.19.8").children
    assert [(diagnostic.code, diagnostic.severity) for diagnostic in child] == [("DSC213", "error")]
    with pytest.raises(ResolveError, match="16 ranks cannot be divided into groups of 3"):
        resolve("run.sh", target="0.19.8")


@pytest.mark.parametrize(
    "flag",
    ["--pipeline_parallel_size 2", "--tp_size 2", "--sequence-parallel-size 4", "--tensor_parallel_size $T"],
)
def test_degrees_of_unknown_programs_are_unknown(flag: str) -> None:
    Path("ds.json").write_text(json.dumps({**CONFIG, "train_batch_size": 32}))
    report = check(script(f"deepspeed --num_gpus 8 mine.py {flag} {NAMES}"), target="0.19.8")
    assert report.ok
    assert any("the data-parallel size is not known" in note for note in report.notes)
    with pytest.raises(ResolveError, match="the data-parallel size is not known"):
        resolve("run.sh", target="0.19.8", set={"train_batch_size": None})
    run = resolve("run.sh", target="0.19.8", set={"train_batch_size": None}, tp=2, pp=1, sp=1)
    assert run.data_parallel_size == 4


@pytest.mark.parametrize(
    ("program", "flags", "size"),
    [
        ("net = PipelineModule(layers=l, num_stages=4)", "", 2),
        ("net = PipelineModule(l, num_stages=args.stages)", "--stages 2", 4),
        ("p.add_argument('--stages', type=int, default=8)\nPipelineModule(l, num_stages=args.stages)", "", 1),
        ("p.add_argument('-s', '--stages', default=8)\nPipelineModule(l, num_stages=args.stages)", "", None),
        ("net = PipelineModule(l, topology=topology)", "", None),
        ("from deepspeed.pipe import PipelineModule", "", 8),
    ],
)
def test_the_pipeline_that_the_program_builds(program: str, flags: str, size: int | None) -> None:
    Path("train.py").write_text(program)
    name = script(f"deepspeed --num_gpus 8 train.py {flags} {NAMES}")
    if size is None:
        with pytest.raises(ResolveError, match=r"of `PipelineModule` in train\.py is known only at run time"):
            resolve(name, target="0.19.8")
    else:
        assert size_of(name) == size


def test_memory_with_unsupported_parallelism() -> None:
    model = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model |= {"intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 4096}
    with pytest.raises(
        NotModelledError, match="pipeline parallelism is not supported yet: `--pipeline-model"
    ):
        memory(script(f"{MEGATRON} --pipeline-model-parallel-size 2"), model=model, target="0.19.8")


@pytest.mark.parametrize(
    ("key", "release", "from_file", "size"),
    [
        ({"tensor_parallel": {"autotp_size": 2}}, "0.19.8", True, 8),  # groups are made after the batch
        ({"sequence_parallel_size": 2}, "0.19.8", False, 4),
        ({"sequence_parallel_size": 2}, "0.19.8", True, 8),
        ({"sequence_parallel_size": 2}, "0.16.9", False, 8),
        ({"expert_parallel": {"enabled": True, "autoep_size": 4}}, "0.19.8", True, 8),
        ({"pipeline": {"stages": 4}}, "0.19.8", True, 8),  # no engine reads it
    ],
)
def test_keys_of_the_config(key: dict[str, Any], release: str, from_file: bool, size: int) -> None:
    config = {**CONFIG, **key}
    source = json.dumps(config) if from_file else config
    run = resolve(source, world_size=8, target=release, set={"zero_optimization.stage": 2})
    assert (run.data_parallel_size, run.train_batch_size) == (size, 32 * size)


def test_no_formula_where_the_degree_is_unknown_too() -> None:
    script(f"deepspeed --num_gpus=$N pretrain_gpt.py --pipeline-model-parallel-size $PP {NAMES}")
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve("run.sh", target="0.19.8")
    assert caught.value.formula is None
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve("run.sh", target="0.19.8", pp=4)
    assert caught.value.formula == "train_batch_size = 4 × 8 × GPUs / 4"
    with pytest.raises(ResolveError, match="the data-parallel size is not known: `--pipeline-model"):
        resolve("run.sh", world_size=8, target="0.19.8")


def test_every_verb_divides(capsys: pytest.CaptureFixture[str]) -> None:
    script(f"{MEGATRON} --pipeline-model-parallel-size 4 --tensor-model-parallel-size 2")
    assert main(["resolve", "run.sh"]) == 0
    assert "2 data-parallel of 16 ranks" in capsys.readouterr().err
    values = {value.key: value.value for value in show("run.sh").values}
    assert values["train_batch_size"] == 64
    Path("ds.json").write_text(json.dumps({**CONFIG, "train_batch_size": 64}))
    assert main(["check", "run.sh"]) == 0
    assert fix("run.sh").report.ok
    Path("ds.json").write_text(json.dumps({**CONFIG, "train_batch_size": 512}))
    assert main(["check", "run.sh"]) == 1
    assert main(["resolve", "run.sh"]) == 1


def test_one_function_divides() -> None:
    two = Parallelism((ParallelDegree("tensor", 2, ""), ParallelDegree("sequence", 4, "", False)))
    assert data_parallel_size(8, two, 4, 19008, from_file=False) == 4  # an mpu comes before the key
    assert data_parallel_size(8, Parallelism(), 4, 19008, from_file=False) == 2
    assert data_parallel_size(8, Parallelism(), 4, 19008, from_file=True) == 8
    with pytest.raises(UnevenRanksError):
        data_parallel_size(9, two, ABSENT, 19008, from_file=False)
