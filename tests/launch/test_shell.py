"""Shell scripts: commands are evaluated by reading them, and nothing is executed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from dsconfig import ResolveError, UnknownWorldSizeError, check, resolve
from dsconfig.launch.launch_commands import LaunchCommand, find_launch_commands
from dsconfig.launch.repository_files import BudgetExceededError
from dsconfig.launch.shell.interpreter import ShellInterpreter
from tests.launches import AUTO


def first(text: str) -> LaunchCommand:
    return next(find_launch_commands(ShellInterpreter(text, "/repo/scripts/run.sh")))


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed t.py \\\n  --deepspeed ds.json \\\n  --max_steps 7",
        "deepspeed t.py --deepspeed=ds.json --max-steps=7 2>&1 | tee log",
        "export DS=ds.json STEPS=7\ndeepspeed t.py --deepspeed $DS --max_steps ${STEPS}",
        'ARGS=(\n  --deepspeed "ds.json"  # don\'t touch\n)\nARGS+=(--max_steps 7)\nt "${ARGS[@]}"',
        'ARGS="--deepspeed ds.json --max_steps 7"; python -m t $ARGS "$@"',
        'ARGS="--deepspeed ds.json"\nARGS+=" --max_steps 7"\nt $ARGS',
        "DS=${1:-ds.json}\nN=$((2 * 3 + 1))\nif true; then t --deepspeed $DS --max_steps $N; fi",
        'CMD="t --deepspeed ds.json --max_steps 7"\necho $CMD\neval $CMD',
        "srun bash -c 'cd x && t --deepspeed ds.json --max_steps 7'",
        "echo t --deepspeed no.json\n# t --deepspeed no.json\nt --deepspeed ds.json --max_steps 7",
        "cat <<'EOF' > other.sh\nt --deepspeed no.json\nEOF\nt --deepspeed ds.json --max_steps 7",
        'OUT=$(run -- t --deepspeed ds.json \\\n --max_steps 7 2>&1)\necho "$OUT"',
        "for s in 7; do t --deepspeed ds.json --max_steps $s; done",
        "run() {\n  t --deepspeed ds.json --max_steps 7\n}\nrun",
        "t --flag --deepspeed 'ds.json' --max_steps \"7\" > out 2>&1 &",
        "t --deepspeed ds.json --max_steps 7\r\n",
        "DS=a/ds.yaml; DS=${DS##*/}\nt --deepspeed ${DS%.*}.json --max_steps ${N:-${M:-7}}",
        "DS=ds.json\ncase $1 in --ds) shift; DS=$1;; esac\nt --deepspeed $DS --max_steps 7",
        "N=7\nwhile getopts d: o; do N=$OPTARG; done\nt --deepspeed ds.json --max_steps $N",
        "read -r -d '' ARGS <<EOF\n--deepspeed ds.json \\\n --max_steps 7\nEOF\nt $ARGS",
    ],
)
def test_commands(text: str) -> None:
    command = first(text)
    assert (command.path, command.arguments["max_steps"]) == ("ds.json", "7")


def test_unclosed_quote() -> None:
    assert not list(find_launch_commands(ShellInterpreter('X="open\nt --deepspeed ds.json')))


def test_unset_variables_are_unknown() -> None:
    command = first("t --deepspeed $DS --learning_rate $LR --num_gpus $N --max_steps $(cat steps)")
    assert (command.path, command.world_size) == ("$DS", None)
    assert command.arguments["learning_rate"] is None is command.arguments["max_steps"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("deepspeed --num_gpus 8 --num_nodes 2 t.py", 16),
        ("deepspeed --include localhost:0,1,2 t.py", 3),
        ("deepspeed --include a:0,1@b:0,1 t.py", 4),
        ("deepspeed --include a t.py", None),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py", 2),
        ("export CUDA_VISIBLE_DEVICES=0,1\ndeepspeed --hostfile h t.py", None),
        ("torchrun --nproc-per-node=4 --nnodes=1:2 t.py", None),
        ("torchrun --nproc-per-node=gpu t.py", None),
        ("NNODES=2 NPROC_PER_NODE=4 swift sft", 8),
        ("accelerate launch --num_processes 6 --num_machines 2 t.py", 6),
        ("#SBATCH --ntasks=1 --gres=gpu:v100:4\n#SBATCH \nsrun apptainer exec deepspeed t.py", 4),
        ("#SBATCH --ntasks=2 --gres=gpu:4\nsrun deepspeed t.py", None),
        ("#SBATCH --nodes=2 --gres=gpu:4\ntorchrun --nnodes $SLURM_NNODES --nproc_per_node 4 t.py", 8),
        ("#SBATCH --nodes=2 --gres=gpu:a100:4\ntorchrun --nproc_per_node $SLURM_GPUS_ON_NODE t.py", 4),
        ("#SBATCH -N 3\n#SBATCH --ntasks-per-node=2 # a GPU each\nsrun python t.py", 6),
        ("#SBATCH --nodes=2\nsrun -n 12 python t.py", 12),
        ("srun python -m t", None),
        ("export PET_NNODES=2\ntorchrun --nproc_per_node=4 t.py", 8),
        ("G=(0 1 2)\ntorchrun --nproc_per_node=${#G[@]} t.py", 3),
        ("GPUS=0,1,2\ntorchrun --nproc_per_node=$(echo $GPUS | tr ',' '\\n' | wc -l) t.py", 3),
        ("N=4\ntorchrun --nproc_per_node=$(expr $N \\* 2) t.py", 8),
        (": ${N:=2}\ntorchrun --nproc_per_node=$((N % 3 + ${M:-4})) t.py", 6),
    ],
)
def test_world_size(text: str, size: int | None) -> None:
    assert first(f"{text} --deepspeed ds.json").world_size == size


def test_the_folder_of_the_script() -> None:
    assignment = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"\n'
    assert first(assignment + "t --deepspeed $HERE/ds.json").path == "/repo/ds.json"
    assert first("t --deepspeed $(dirname $0)/ds.json").path == "/repo/scripts/ds.json"
    assert first("t --deepspeed $(realpath $PWD/ds.json)").path == "ds.json"


@pytest.mark.parametrize("name", ["run.sh", "run.slurm"])
def test_cd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune" / "ds.json").write_text(json.dumps({"train_batch_size": 8}))
    for line in ("cd tune\nt --deepspeed_config ds.json", "t --deepspeed_config $ROOT/tune/ds.json"):
        (tmp_path / name).write_text(line)
        assert [child.name for child in check(name).children] == ["tune/ds.json"], line
    assert check(name).notes[0].endswith("found from the current folder for `$ROOT/tune/ds.json`")


def test_a_config_that_the_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = """
MICRO=4
CONFIG="./ds.json"
cat <<EOT > $CONFIG
{"train_micro_batch_size_per_gpu": $MICRO, "train_batch_size": 32, "zero_optimization": {"stage": 7}}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --deepspeed_config ${CONFIG}
"""
    (tmp_path / "run.sh").write_text(script)
    report = check("run.sh")
    assert (report.name, report.world_size) == ("run.sh", 8)
    assert {diagnostic.dotted for diagnostic in report if diagnostic.severity == "error"} == {
        "zero_optimization.stage"
    }


def test_a_template_that_the_script_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds_TEMPLATE.json").write_text(
        '{"train_batch_size": CONFIG_BATCH, "train_micro_batch_size_per_gpu": CONFIG_MICRO,'
        ' "zero_optimization": {"stage": ZERO}}'
    )
    (tmp_path / "run.sh").write_text("""
BATCH=64
JSON="ds_$(basename run.sh .sh)_${BATCH}.json"
sed "s/CONFIG_BATCH/${BATCH}/" ds_TEMPLATE.json \\
    | sed "s/CONFIG_MICRO/4/" \\
    | sed -e "s|ZERO|1|g" > ${JSON}
deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --deepspeed_config $JSON
""")
    assert resolve("run.sh", target="0.19.8").triplet == (64, 4, 2)


def test_accelerate_with_flags_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "accelerate launch --use_deepspeed --num_processes 8 --zero_stage {} t.py"
    (tmp_path / "run.sh").write_text(text.format(3))
    assert check("run.sh").ok
    (tmp_path / "run.sh").write_text(text.format(7))
    (child,) = check("run.sh").children
    assert {diagnostic.dotted for diagnostic in child if diagnostic.severity == "error"} == {
        "deepspeed_config.zero_stage"
    }


def test_accelerate_with_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acc.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 7\n"
    )
    (tmp_path / "run.sh").write_text("accelerate launch --config_file acc.yaml t.py --bf16 True\n")
    (child,) = check("run.sh").children
    assert (child.name, child.ok) == ("acc.yaml", False)


def test_unknown_arguments_never_contradict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}}
    config["train_micro_batch_size_per_gpu"] = "auto"
    (tmp_path / "ds.json").write_text(json.dumps(config))
    (tmp_path / "run.sh").write_text("t --deepspeed ds.json --gradient_accumulation_steps $STEPS")
    assert check("run.sh").ok
    (tmp_path / "run.sh").write_text("STEPS=4\nt --deepspeed ds.json --gradient_accumulation_steps $STEPS")
    assert {diagnostic.code for child in check("run.sh").children for diagnostic in child} == {"DSC809"}
    (tmp_path / "run.sh").write_text("t --deepspeed ds.json --gradient_accumulation_steps 8")
    assert resolve("run.sh", world_size=2, target="0.19.8").triplet == (128, 8, 8)


@pytest.mark.parametrize(
    "piece",
    ["$(", '"', "'", "${", "`", "a=(", "<<E\n", "\\", "$((", '"$("', '"--x $( ', "a+=$a$a\n", "a=($a $a)\n"],
)
def test_odd_text_is_read_quickly(piece: str) -> None:
    """Bounded values of variables keep this test from running for hours."""
    with suppress(BudgetExceededError):
        list(find_launch_commands(ShellInterpreter(piece * 3000)))
    list(find_launch_commands(ShellInterpreter(f"a=1\n{piece * 60}\nt --deepspeed $a.json")))


def test_unknown_batch(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps(AUTO))
    flags = "--per_device_train_batch_size 2 --gradient_accumulation_steps $((16 / WORLD_SIZE))"
    (project / "run.sh").write_text(f"deepspeed t.py --deepspeed ds/z.json {flags}\n")
    assert check("run.sh").ok
    with pytest.raises(ResolveError, match="`gradient_accumulation_steps` of the job is not known"):
        resolve("run.sh", world_size=4)
    assert resolve("run.sh", world_size=4, training_args={"gradient_accumulation_steps": 3}).triplet == (
        24,
        2,
        3,
    )


def test_a_program_without_arguments_of_the_trainer_reads_it_itself(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 1}))
    (project / "run.sh").write_text("deepspeed chat.py --deepspeed ds/z.json --end_string '#'\n")
    (config,) = check("run.sh").children
    assert (config.ok, config.consumer) == (True, "deepspeed")
    (project / "run.sh").write_text("deepspeed chat.py --deepspeed ds/z.json --output_dir out\n")
    assert check("run.sh").children[0].consumer == "transformers"


def test_a_path_of_another_machine(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps(AUTO))
    (project / "run.sh").write_text("t --deepspeed /workspace/app/ds/z.json --output_dir out\n")
    assert check("run.sh").notes[0].endswith("found from the current folder for `/workspace/app/ds/z.json`")
    (project / "run.sh").write_text("t --deepspeed /workspace/app/ds/other.json --output_dir out\n")
    assert not check("run.sh").children


def test_ranks_of_mpi() -> None:
    command = "mpirun --allow-run-as-root -np 16 -bind-to none python t.py --deepspeed_config ds.json"
    assert first(command).world_size == 16


def test_a_here_document_with_a_default(project: Path) -> None:
    body = '{"train_micro_batch_size_per_gpu": ${MBS:-4}, "zero_optimization": {"stage": $STAGE}}'
    script = (
        f"STAGE=2\ncat > ds.json <<END\n{body}\nEND\ndeepspeed --num_gpus=4 t.py --deepspeed_config ds.json\n"
    )
    (project / "run.sh").write_text(script)
    assert resolve("run.sh").triplet == (16, 4, 1)


def test_arguments_that_a_program_gives_in_code(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "gradient_clipping": 0.3}))
    (project / "run.sh").write_text("deepspeed --num_gpus=1 t.py --deepspeed ds/z.json --output_dir out\n")
    assert check("run.sh").children[0].ok, "nobody knows them"
    (project / "run.sh").write_text("t --deepspeed ds/z.json --output_dir out --learning_rate 1e-4\n")
    assert not check("run.sh").children[0].ok


SCRIPT = """
GPUS=${GPUS:-8}
STEPS=$((512 / MICRO / WORLD_SIZE / GPUS))
torchrun --nnodes=$WORLD_SIZE --nproc_per_node=$GPUS t.py --output_dir out \\
    --per_device_train_batch_size $MICRO --gradient_accumulation_steps $STEPS --deepspeed ds.json
"""
SLURM = "#SBATCH --nodes=2\n" + SCRIPT.replace("WORLD_SIZE", "SLURM_NNODES")
ACCELERATE = SCRIPT.replace("torchrun --nnodes", "accelerate launch --num_machines").replace(
    "nproc_per_node=$GPUS", "num_processes $((WORLD_SIZE * GPUS))"
)


@pytest.mark.parametrize(
    ("script", "size", "triplet"),
    [
        (SCRIPT, 8, (512, 2, 32)),
        (SCRIPT, 16, (512, 2, 16)),
        (SCRIPT, 4, (512, 2, 64)),
        (SCRIPT.replace("=${GPUS:-8}", "=$(nvidia-smi -L | wc -l)"), 16, (512, 2, 16)),
        (SCRIPT.replace("=$GPUS t", "=$(nvidia-smi -L | wc -l) t").replace(" / GPUS", ""), 4, (2048, 2, 256)),
        (SCRIPT.replace("GPUS=${GPUS:-8}", "WORLD_SIZE=${MLP_WORKER_NUM:-1}; GPUS=8"), 32, (512, 2, 8)),
        (SLURM, 32, (512, 2, 8)),
        (SLURM.replace("MICRO / SLURM_NNODES", "MICRO / WORLD_SIZE"), 32, None),
        (ACCELERATE, 24, (480, 2, 10)),
        ("bash -c '" + SCRIPT + "'", 16, (512, 2, 16)),
    ],
)
def test_arguments_calculated_from_the_number_of_ranks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    size: int,
    triplet: tuple[int, int, int] | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    (tmp_path / "run.sh").write_text(f"export MICRO=2\n{script}")
    for name in ("run.sh", "ds.json"):
        if triplet is None:
            with pytest.raises(ResolveError, match="`gradient_accumulation_steps` of the job is not known"):
                resolve(name, world_size=size, target="0.19.8")
        else:
            assert resolve(name, world_size=size, target="0.19.8").triplet == triplet, name


def test_unknown_number_of_nodes_is_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    (tmp_path / "run.sh").write_text(f"MICRO=2\n{SCRIPT}")
    with pytest.raises(UnknownWorldSizeError) as caught:
        resolve("run.sh", target="0.19.8")
    assert caught.value.formula == "train_batch_size = 2 × gradient_accumulation_steps × 8 × nodes"
    assert caught.value.source == "run.sh:5 leaves it to the run: `--nnodes=$WORLD_SIZE`"
    assert caught.value.advice == ("one node has 8 ranks, two have 16",)
    assert check("run.sh").world_size is None  # nobody said so


def test_hostile_text_is_read_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    (tmp_path / "picture.ipynb").write_text("a" * 300_000 + " ds.json")
    unclosed = "".join(f"cat > c <<E{at}\n" for at in range(3000))
    nested = f"S={'$((1+' * 2000}1{'))' * 2000}\n"
    line = "torchrun --nnodes=$N --nproc_per_node=$P t.py --output_dir o --max_steps $S --deepspeed ds.json\n"
    (tmp_path / "run.sh").write_text(f"{unclosed}{nested}S=$S$A\nA=$S$S\n{line * 2000}")
    report = check("run.sh")
    assert [child.name for child in report.children] == ["ds.json"]


@pytest.mark.parametrize(
    ("script", "processes"),
    [
        ('N=4\n[ -n "$DEBUG" ] && N=1\n', "$N"),
        ('N=4\n[ -z "$DEBUG" ] || N=1\n', "$N"),
        ("N=4\nif a; then N=1; fi\n", "$N"),
        ("if a; then N=4; elif b; then N=2; else N=1; fi\n", "$N"),
        ("if a; then N=4; else N=4; fi\n", "4"),
        ("N=4\nif a; then if b; then N=2; fi; fi\n", "$N"),
        ("case $MODEL in 7b) N=4;; 13b) N=2;; esac\n", "$N"),
        ("for N in 1 4; do a; done\n", "$N"),
        ("for N in 4; do a; done\n", "4"),
        ("N=4\nlet N=N/2\n", "2"),
        ("N=4\n((N*=2))\n", "8"),
        ("N=4\n((N*=M))\n", "$N"),
        ("N=4\nread -p ranks N\n", "$N"),
        ("N=4\nprintf -v N 2\n", "$N"),
        ("N=4\nusage() {\n  N=1\n}\n", "4"),
        # what the script does without an option of its caller
        ('N=4\nif [ "$1" = debug ]; then N=1; fi\n', "4"),
        ("N=4\nwhile [[ $# -gt 0 ]]; do case $1 in --n) N=$2; shift;; esac; done\n", "4"),
        ('if [ -z "$N" ]; then N=4; fi\n', "4"),
        ('if [ -z "$1" ]; then N=4; else N=$1; fi\n', "4"),
        # a success, not a condition
        ("N=2\ncd sources && N=4\n", "4"),
        # another scope
        ("N=4\nN=1 python prepare.py\n", "4"),
        ("N=4\nwarm() { local N=1; a $N; }; warm\n", "4"),
    ],
)
def test_a_value_that_depends_on_a_condition_is_unknown(script: str, processes: str) -> None:
    text = f"{script}torchrun --nproc_per_node $N t --deepspeed ds.json"
    commands = [each.words for each in ShellInterpreter(text).run_commands() if each.words[0] == "torchrun"]
    assert commands == [("torchrun", "--nproc_per_node", processes, "t", "--deepspeed", "ds.json")]


def test_inside_a_branch_its_value_is_known() -> None:
    text = "N=4\nif a; then\n  N=1\n  torchrun --nproc_per_node $N t\nfi\ntorchrun --nproc_per_node $N t"
    commands = [each.words for each in ShellInterpreter(text).run_commands() if each.words[0] == "torchrun"]
    assert [words[2] for words in commands] == ["1", "$N"]


@pytest.mark.parametrize(
    "script",
    ['A="--x 1"\nif a; then A="--x 1 --y 8"; fi\nt $A', 'A=(--x 1)\nif a; then A+=(--y 8); fi\nt "${A[@]}"'],
)
def test_flags_of_all_branches_stay(script: str) -> None:
    (*_, command) = ShellInterpreter(script).run_commands()
    assert command.words == ("t", "--x", "1", "--y", "$A")
