"""A number of ranks that only a run shows stays unknown: a formula takes the place of the batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import UnknownWorldSizeError, check, memory, resolve, show
from dsconfig.cli import main
from dsconfig.core.batch_triplet import batch_formula

CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}
FORMULA = "train_batch_size = 4 × 8 × GPUs"
NAMES = "t.py --deepspeed_config ds.json"
SHAPE = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 4096}


@pytest.fixture(autouse=True)
def config(empty_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (empty_repository / "ds.json").write_text(json.dumps(CONFIG))


def written(script: str) -> str:
    Path("run.sh").write_text(f"{script}\n")
    return "run.sh"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"deepspeed --num_gpus=$(nvidia-smi -L | wc -l) {NAMES}", "`--num_gpus=$(nvidia-smi -L | wc -l)`"),
        (f"N=`nvidia-smi -L | wc -l`\ndeepspeed --num_gpus $N {NAMES}", "`--num_gpus="),
        (f"torchrun --nproc_per_node=$NGPU {NAMES}", "`--nproc_per_node=$NGPU`"),
        (f"torchrun --nproc_per_node gpu {NAMES}", "`--nproc_per_node=gpu`"),
        (f"torchrun --nproc-per-node=auto {NAMES}", "`--nproc_per_node=auto`"),
        (f"torchrun --nproc_per_node=$SLURM_GPUS {NAMES}", "`--nproc_per_node=$SLURM_GPUS`"),
        (f"torchrun --nproc_per_node=${{#GPUS[@]}} {NAMES}", "`--nproc_per_node=${#GPUS[@]}`"),
        (
            f"torchrun --nnodes=$NNODES --nproc_per_node=$NGPU {NAMES}",
            "`--nproc_per_node=$NGPU` and `--nnodes",
        ),
        (f"deepspeed --num_gpus 8 --hostfile hosts {NAMES}", "`--hostfile=hosts`"),
        (f"deepspeed --hostfile hosts {NAMES}", "`--hostfile=hosts`"),
        (f"deepspeed --num_gpus -1 {NAMES}", "`--num_gpus=-1`"),
        (f"deepspeed --include localhost:$IDS {NAMES}", "`--include=localhost:$IDS`"),
        (f"deepspeed --exclude worker-0:0 {NAMES}", "`--exclude=worker-0:0`"),
        (f"CUDA_VISIBLE_DEVICES=$DEVICES deepspeed {NAMES}", "`CUDA_VISIBLE_DEVICES=$DEVICES`"),
        (f"accelerate launch --num_processes $N {NAMES}", "`--num_processes=$N`"),
        (f"mpirun -np $N python {NAMES}", "`-np $N`"),
        (f"srun --ntasks=$SLURM_NTASKS python {NAMES}", "`--ntasks=$SLURM_NTASKS`"),
        (f"srun -N $NODES --ntasks-per-node 8 python {NAMES}", "`-N=$NODES`"),
        (f"srun python {NAMES}", "does not say how many processes"),
        (f"deepspeed --num_gpus=`nvidia-smi -L | wc -l` {NAMES}", "`--num_gpus=$(nvidia-smi -L | wc -l)`"),
        (f"torchrun --nproc_per_node=$((N * 2)) {NAMES}", "`--nproc_per_node=$((N * 2))`"),
        (f"torchrun --nnodes=1:4 --nproc_per_node=8 {NAMES}", "`--nnodes=1:4`"),
        (f"deepspeed {NAMES}", "does not say how many processes"),
        (f"torchrun {NAMES}", "does not say how many processes"),
        (f"python {NAMES}", "does not say how many processes"),
        (f"accelerate launch --use_deepspeed {NAMES}", "does not say how many processes"),
        (f"export NPROC_PER_NODE=8\ndeepspeed {NAMES}", "does not say how many processes"),
    ],
)
def test_no_number_is_invented(script: str, said: str) -> None:
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve(written(script), target="0.19.8")
    assert said in caught.value.source
    assert caught.value.formula in (FORMULA, "train_batch_size = 4 × 8 × 8 × nodes")
    assert check("run.sh").world_size is None
    assert resolve("run.sh", world_size=16, target="0.19.8").train_batch_size == 512


@pytest.mark.parametrize(
    ("nodes", "flag"), [("$NNODES", "--nnodes=$NNODES"), ("$(cat hosts | wc -l)", "--nnodes=$(cat")]
)
def test_nodes_alone_are_unknown(nodes: str, flag: str) -> None:
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve(written(f"torchrun --nnodes={nodes} --nproc_per_node=8 {NAMES}"))
    assert flag in caught.value.source
    assert caught.value.formula == "train_batch_size = 4 × 8 × 8 × nodes"


def test_a_flag_that_is_unknown_comes_before_the_number_of_accelerate_s_file() -> None:
    Path("acc.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    )
    command = "accelerate launch --config_file acc.yaml {} t.py"
    assert resolve(written(command.format("")), target="0.19.8").world_size == 4
    with pytest.raises(UnknownWorldSizeError, match=r"num_processes=.N"):
        resolve(written(command.format("--num_processes $N")), target="0.19.8")
    (child,) = check("run.sh").children
    assert [child.world_size, *(each.world_size for each in child.children)] == [None, None]


def test_accelerate_s_file_without_a_number() -> None:
    Path("acc.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"
    )
    with pytest.raises(UnknownWorldSizeError, match=r"acc.yaml has no `num_processes`"):
        resolve("acc.yaml", target="0.19.8")


JOB = {"apiVersion": "v1", "kind": "PyTorchJob"}


def pods(**replicas: Any) -> dict[str, Any]:
    command = ["torchrun", "--nproc_per_node=8", *NAMES.split()]
    kinds = {kind: {"replicas": count, "template": {"command": command}} for kind, count in replicas.items()}
    return {"pytorchReplicaSpecs": kinds}


@pytest.mark.parametrize(
    ("job", "size"),
    [
        ({**JOB, "spec": pods(Master=1, Worker=3)}, 32),
        ({**JOB, "spec": pods(Master=1, Worker="{{ workers }}")}, None),
        ({**JOB, "spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}, **pods(Worker=4)}}, None),
        (
            {
                "apiVersion": "v1",
                "kind": "TrainJob",
                "spec": {"trainer": {"numNodes": 2, "numProcPerNode": 4}},
            },
            8,
        ),
        ({"apiVersion": "v1", "kind": "TrainJob", "spec": {"trainer": {"numNodes": 2}}}, 16),
        ({"apiVersion": "v1", "kind": "TrainJob", "spec": {"trainer": {}}}, None),
        ({"trainer": {"strategy": "deepspeed", "devices": -1, "num_nodes": 2}}, None),
        ({"trainer": {"strategy": "deepspeed", "devices": "auto", "num_nodes": 2}}, None),
        ({"trainer": {"strategy": "deepspeed", "devices": 4, "num_nodes": "${N}"}}, None),
        ({"trainer": {"strategy": "deepspeed", "devices": 4}}, 4),
    ],
)
def test_manifests(job: dict[str, Any], size: int | None) -> None:
    if job.get("kind") == "TrainJob":
        job["spec"]["trainer"]["command"] = ["torchrun", "--nproc_per_node=8", *NAMES.split()]
    Path("job.yaml").write_text(yaml.safe_dump(job))
    report = check("job.yaml")
    assert {each.world_size for each in report.children or [report]} == {size}


@pytest.mark.parametrize(
    ("batch", "formula"),
    [
        ((None, 4, 8), FORMULA),
        ((None, 4, None), "train_batch_size = 4 × 1 × GPUs"),
        ((64, None, None), "train_micro_batch_size_per_gpu = 64 / GPUs"),
        ((64, None, 2), "train_micro_batch_size_per_gpu = 64 / (2 × GPUs)"),
        ((64, 4, None), "gradient_accumulation_steps = 64 / (4 × GPUs)"),
        ((64, 4, 2), "train_batch_size 64 = 4 × 2 × GPUs"),
        (("auto", 4, "auto"), "train_batch_size = 4 × gradient_accumulation_steps × GPUs"),
        ((None, None, 8), None),
        ((None, "8", 8), None),
        ((None, -1, 8), None),
    ],
)
def test_the_batch_as_a_formula(batch: tuple[Any, Any, Any], formula: str | None) -> None:
    assert batch_formula(*batch) == formula


def test_degrees_divide_the_ranks_of_the_formula() -> None:
    script = f"deepspeed pretrain_gpt.py --tensor-model-parallel-size 2 --num_gpus $N {NAMES}"
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve(written(script))
    assert caught.value.formula == f"{FORMULA} / 2"


def test_every_verb_leaves_it_open(capsys: pytest.CaptureFixture[str]) -> None:
    written(f"deepspeed --num_gpus=$N {NAMES}")
    said = f"run.sh:1 leaves it to the run: `--num_gpus=$N`; {FORMULA}; pass --world-size, or"
    memory = ("memory", "run.sh", "--params", "1e9", "--hidden", "2048", "--layers", "16")
    for argv in (("resolve", "run.sh"), memory):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"dsconfig: error: no world size: {said}" in err
    assert main(["show", "run.sh", "--output-format", "json"]) == 0
    values = {each["key"]: each for each in json.loads(capsys.readouterr().out)["values"]}
    assert values["train_batch_size"]["value"] is None
    assert values["train_batch_size"]["note"].startswith("4 × 8 × GPUs; ")
    assert main(["check", "run.sh"]) == 0
    assert "world size unknown (`--num_gpus=$N`)" in capsys.readouterr().out
    assert main(["resolve", "run.sh", "--world-size", "2"]) == 0


def test_python_functions_leave_it_open() -> None:
    with pytest.raises(UnknownWorldSizeError):
        memory(CONFIG, model=SHAPE)
    with pytest.raises(UnknownWorldSizeError, match="no world size: give `world_size`") as caught:
        resolve(CONFIG)
    assert (caught.value.source, caught.value.formula) == ("", FORMULA)
    assert isinstance(caught.value, ValueError)
    batch = {value.key: value.value for value in show(CONFIG).values}
    assert batch["train_batch_size"] is None
