"""Flags of launchers: conflicts, hostfiles, visible GPUs, and how the nodes find each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.cli import main
from dsconfig.launch.hostfile import parse_slot_filter, read_hostfile

CONFIG = {"train_batch_size": 64, "bf16": {"enabled": True}}
PROBLEMS = [
    ("CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 {}", "DSC842", "uses GPUs 0 to 1"),
    ("export CUDA_VISIBLE_DEVICES=1\ndeepspeed --num_gpus=1 {}", "DSC842", "uses GPU 0"),
    ("CUDA_VISIBLE_DEVICES=2,3 deepspeed --include localhost:0,1 {}", "DSC842", "those of `--include`"),
    ("CUDA_VISIBLE_DEVICES=GPU-8f2e deepspeed {}", "DSC843", "expects numbers"),
    ("deepspeed --num_gpus 2 -i localhost:1 {}", "DSC843", "together with `--include`"),
    ("deepspeed --include a --exclude b:0 {}", "DSC843", "`--include` together with `--exclude`"),
    ("deepspeed --hostfile hosts --launcher srun {}", "DSC843", "does not know the launcher `srun`"),
    ("deepspeed --no_ssh --hostfile hosts {}", "DSC843", "requires the number of the node"),
    ("deepspeed --hostfile bad {}", "DSC844", "bad:2: `worker-1:8` is not `HOST slots=N`"),
    ("deepspeed --hostfile hosts --include worker-9:0 {}", "DSC844", "does not list"),
    ("deepspeed --hostfile hosts --exclude worker-1:9 {}", "DSC844", "gives it 8 slots"),
    ("deepspeed --hostfile hosts --include worker-1:a {}", "DSC844", "cannot parse"),
    ("deepspeed --num_nodes 2 --num_gpus 8 {}", "DSC845", "without `--hostfile`"),
    ("deepspeed --hostfile hosts --master_addr localhost {}", "DSC845", "connect to itself"),
    ("torchrun --nnodes=2 --nproc_per_node=8 {}", "DSC845", "uses 127.0.0.1"),
    ("python -m torch.distributed.run --nnodes 2 --master-addr 127.0.0.1 {}", "DSC845", "connect to itself"),
    ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node 4 {}", "DSC846", "makes only 2 GPUs visible"),
    (
        "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_processes 4 {}",
        "DSC846",
        "`--num_processes` starts 4",
    ),
    ("accelerate launch --gpu_ids 0 --num_processes 2 {}", "DSC846", "`--gpu_ids`"),
    ("deepspeed hosts {}", "DSC843", "starts `hosts` as the program"),
    ("deepspeed --num_gpus 2 python {}", "DSC843", "starts `python` as"),
    ("torchrun --nproc_per_node 2 python3 {}", "DSC843", "starts `python3` as"),
    ("deepspeed --num_gpus 2 python -m package.{}", "DSC843", "with `-m` as its first argument"),
    (
        "deepspeed {}\n  --lr 1",
        "DSC850",
        "line 2 starts with `--lr`, which is not part of the command in line 1",
    ),
    ("deepspeed {} \\\n  --a 1 \\ \n  --lr 1", "DSC850", "a blank follows the `\\` of line 2"),
    ("deepspeed {} \\\n  # --a 1 \\\n  --lr 1", "DSC850", "the comment in line 2 ends it"),
    ("deepspeed {} \\\n\n  --lr 1", "DSC850", "the empty line 2 ends it"),
    ("deepspeed --num_gpus 2 swift pt {}", "DSC843", "starts `swift` as a Python program"),
    (
        "deepspeed --include localhost:0 {} &\ndeepspeed --include localhost:1 {}",
        "DSC873",
        "port 29500 is in use by the command of line 1",
    ),
]
FINE = [
    "deepspeed --include localhost:0 {} &\nwait\ndeepspeed --include localhost:1 {}",
    "deepspeed --include localhost:0 {} &\ndeepspeed --include localhost:1 --master_port 29501 {} &",
    "deepspeed --include localhost:0 {} && deepspeed --include localhost:1 {}",
    "if [ $A ]; then\ndeepspeed --include localhost:0 {} &\nelse\ndeepspeed --include localhost:1 {} &\nfi",
    "ssh a deepspeed --include localhost:0 {} &\nssh b deepspeed --include localhost:0 {} &",
    "deepspeed {} \\\n  --a 1 \\\n  --lr 1\necho --lr",
    "deepspeed --no_python python {}",
    "deepspeed --module package {}",
    "deepspeed {}\n# --lr 1\n",
    "CUDA_VISIBLE_DEVICES=2,3 deepspeed {}",
    "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 {}",
    "CUDA_VISIBLE_DEVICES=$GPUS deepspeed --num_gpus 2 {}",
    "CUDA_VISIBLE_DEVICES=1,3 deepspeed --include localhost:1,3 {}",
    "deepspeed --hostfile hosts --include worker-0@worker-1:0,7 {}",
    "deepspeed --hostfile hosts --num_nodes 2 --num_gpus 8 --launcher OpenMPI {}",
    "deepspeed --hostfile $HOSTS --launcher slurm {}",
    "deepspeed {} --include data --exclude x --num_gpus 3",
    "torchrun --nnodes=$N --nproc_per_node=8 {}",
    "torchrun --nnodes=2 --rdzv_backend c10d --rdzv_endpoint head:29500 {}",
    "torchrun --standalone --nnodes=1 {}",
    "torchrun --nnodes=2 --node_rank=0 --master_addr=127.0.0.1 {}",
    "CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch --num_machines 2 --num_processes 8 {}",
    "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --config_file acc.yaml --num_processes 4 {}",
]


def diagnostics(folder: Path, command: str, target: str = "0.19.8") -> list[str]:
    (folder / "ds.json").write_text(json.dumps(CONFIG))
    (folder / "hosts").write_text("# all\nworker-0 slots=8\nworker-1 slots=8 max_slots=8\n\n")
    (folder / "bad").write_text("worker-0 slots=8\nworker-1:8\n")
    (folder / "run.sh").write_text(command.replace("{}", "train.py --deepspeed_config ds.json") + "\n")
    report = check("run.sh", target=target)
    return [
        f"{each.code} {each.location and each.location.line} {each.message}" for each in report if each.code
    ]


@pytest.mark.parametrize(("command", "code", "part"), PROBLEMS)
def test_flags_that_do_not_work(empty_repository: Path, command: str, code: str, part: str) -> None:
    (message,) = diagnostics(empty_repository, command)
    assert message.startswith(f"{code} {command.count(chr(10)) + 1} ")
    assert part in message


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "deepspeed train.py \\\n --bf16\n --deepspeed_config ds.json",
            "DSC850 3 line 3 starts with `--deepspeed_config`",
        ),
        (
            "deepspeed --num_gpus 2 \\ \n train.py \\\n --deepspeed_config ds.json",
            "DSC850 2 line 2 is a command of its own",
        ),
        (
            "deepspeed train.py \\\r\n --deepspeed_config ds.json\r",
            "DSC850 1 line 1 ends with a carriage return",
        ),
        (
            "swift sft \\\n NPROC_PER_NODE=2 \\\n --deepspeed ds.json",
            "DSC861 1 `NPROC_PER_NODE=2` comes after",
        ),
        ("NPROC_PER_NODE=2 swift sft --deepspeed ds.json", ""),
        ("docker run -e NNODES=2 image python train.py --deepspeed_config ds.json", ""),
    ],
)
def test_commands_that_end_early(empty_repository: Path, command: str, message: str) -> None:
    (empty_repository / "ds.json").write_text(
        json.dumps({"train_batch_size": "auto", "bf16": {"enabled": "auto"}})
    )
    (empty_repository / "run.sh").write_bytes(command.encode() + b"\n")
    launcher_codes = ("DSC842", "DSC843", "DSC850", "DSC861", "DSC873")
    messages = [
        f"{each.code} {each.location and each.location.line} {each.message}"
        for each in check("run.sh", target="0.19.8")
        if each.code in launcher_codes
    ]
    assert len(messages) == bool(message)
    assert all(each.startswith(message) for each in messages)


PROGRAM = "import argparse\nimport deepspeed\ndeepspeed.initialize(model=net, config='ds.json')\n"
OF_PROGRAM = [
    ("deepspeed {} --master_port 29501", PROGRAM, ["DSC861"]),
    ("torchrun --nproc_per_node 2 {} --master_port 29501", PROGRAM, ["DSC861"]),
    ("accelerate launch {} --num_processes 2", PROGRAM, ["DSC861"]),
    ("deepspeed --master_port 29501 {}", PROGRAM, []),
    ("deepspeed {} --master_port 29501", PROGRAM + "parser.add_argument('--master_port')\n", []),
    ("deepspeed {} --seed 1", PROGRAM, []),
    ("CUDA_VISIBLE_DEVICES=0,1 python {}", PROGRAM, ["DSC862"]),
    ("export CUDA_VISIBLE_DEVICES=0,1\nnohup python3 -u {}", PROGRAM, ["DSC862"]),
    ("CUDA_VISIBLE_DEVICES=0 python {}", PROGRAM, []),
    ("CUDA_VISIBLE_DEVICES=0,1 srun -n 2 python {}", PROGRAM, []),
    ("CUDA_VISIBLE_DEVICES=0,1 WORLD_SIZE=2 python {}", PROGRAM, []),
    ("CUDA_VISIBLE_DEVICES=0,1 python {}", PROGRAM + "import lightning\n", []),
    ("CUDA_VISIBLE_DEVICES=0,1 python {}", PROGRAM + "torch.multiprocessing.spawn(main)\n", []),
    ("CUDA_VISIBLE_DEVICES=0,1 python -m torch.distributed.run --nproc_per_node 2 {}", PROGRAM, []),
]


@pytest.mark.parametrize(("command", "program", "expected"), OF_PROGRAM)
def test_flags_and_the_program(
    empty_repository: Path, command: str, program: str, expected: list[str]
) -> None:
    (empty_repository / "train.py").write_text(program)
    assert [each.split()[0] for each in diagnostics(empty_repository, command)] == expected


def test_a_script_without_a_config(empty_repository: Path) -> None:
    script = empty_repository / "run.sh"
    script.write_text("deepspeed --num_nodes 2 main.py --zero_stage 3 --deepspeed\n")
    report = check("run.sh")
    assert [(each.code, each.location and each.location.line) for each in report] == [("DSC845", 1)]
    script.write_text("deepspeed main.py --zero_stage 3 --deepspeed\n")
    report = check("run.sh")
    assert not list(report)
    assert any("name no config" in note for note in report.notes)


@pytest.mark.parametrize("command", FINE)
def test_flags_that_work(empty_repository: Path, command: str) -> None:
    assert [each for each in diagnostics(empty_repository, command) if "DSC84" in each] == []


def test_each_command_of_a_script(empty_repository: Path) -> None:
    command = "deepspeed --num_gpus 1 --include a {}\ndeepspeed {}\ndeepspeed --num_nodes 2 {}"
    lines = [each.split()[:2] for each in diagnostics(empty_repository, command)]
    assert lines == [["DSC843", "1"], ["DSC845", "3"]]


def test_releases(empty_repository: Path) -> None:
    command = "CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 {}"
    assert diagnostics(empty_repository, command, "0.5.6") == []
    visible = "CUDA_VISIBLE_DEVICES=0,2 deepspeed {}"
    assert diagnostics(empty_repository, visible, "0.15.2") == []
    (message,) = diagnostics(empty_repository, visible, "0.15.1")
    assert message.startswith("DSC843")
    assert "finds no slot 2" in message
    included = "deepspeed --hostfile hosts --include worker-1:9 {}"
    assert diagnostics(empty_repository, included, "0.15.2") == []
    assert diagnostics(empty_repository, included, "0.14.5")[0].startswith("DSC844")
    assert diagnostics(empty_repository, included, "0.19.8")[0].startswith("DSC844")
    whole = "deepspeed --hostfile hosts --include worker-1 {}"
    assert "names no slots" in diagnostics(empty_repository, whole, "0.19.6")[0]
    assert [diagnostics(empty_repository, whole, each) for each in ("0.15.1", "0.19.7")] == [[], []]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("hostfile", "a slots=8\nb lots=8\n", [2]),
        ("hosts", "a slots=8\n\n# b\na slots=4\r\nc", [4, 5]),
        ("hosts.txt", "a slots=8\nb slots = 8\n", [2]),
        ("hostfile", "", [1]),
        ("hostfile", "a slots=8 max_slots=8\nb\tslots=4\n", []),
    ],
)
def test_a_hostfile_on_its_own(empty_repository: Path, name: str, text: str, lines: list[int]) -> None:
    (empty_repository / name).write_text(text)
    found = [
        each.location and each.location.line for each in check(name, target="0.19.8") if each.code == "DSC859"
    ]
    assert found == lines
    assert [each.code for each in check(name, target="0.7.7")] == []


def test_hostfile() -> None:
    hostfile = read_hostfile("a slots=2\n a slots=3\nb\n#c\n")
    assert hostfile.slots == {"a": 2}
    assert [problem.line for problem in hostfile.problems] == [2, 3]
    assert [problem.line for problem in read_hostfile("# none\n").problems] == [0]
    assert parse_slot_filter("a@b:0,2") == {"a": None, "b": [0, 2]}
    assert parse_slot_filter("b:") is None


def test_a_folder_with_nothing_but_a_rejected_launcher(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The program builds its config from flags, so the folder has no config.
    (empty_repository / "main.py").write_text("import deepspeed\n")
    (empty_repository / "fine.sh").write_text("deepspeed --num_gpus 2 main.py --zero_stage 2\n")
    (empty_repository / "run.sh").write_text(
        "deepspeed --num_gpus 2 --include localhost:0 main.py --zero_stage 2\n"
    )
    assert main(["check", ".", "--output-format", "concise"]) == 1
    assert "run.sh:1:1: DSC843" in capsys.readouterr().out


def test_a_command_is_reported_once_for_all_jobs(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, size in (("a.json", 8), ("b.json", 16)):
        (empty_repository / name).write_text(json.dumps({"train_batch_size": size}))
    commands = [f"deepspeed train.py --deepspeed_config {name}\n" for name in ("a.json", "b.json")]
    (empty_repository / "run.sh").write_text("".join(commands) + "  --lr 1\n")
    assert main(["check", "run.sh", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.count("DSC850") == 1
