"""Launcher commands: conflicting flags, hostfiles, visible GPUs, and the address of the first node."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import KeyPath
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.job.consumers.accelerate_launch_file import BLOCK
from dsconfig.launch.hostfile import read_hostfile, span_of_line
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.launcher_checks import launcher_problems_in_script
from dsconfig.launch.script_line_checks import Kind

_RUNNER = "launcher/runner.py:main"


def _launcher_findings(ctx: Context, kind: Kind) -> Iterator[Finding]:
    """Yield a finding for each launcher problem of one kind in the commands of a script or manifest."""
    try:
        problems = launcher_problems_in_script(ctx.document)
    except OSError:  # a note of the report says why
        raise SkipRule from None
    for job, problem in problems:
        if problem.kind != kind or (problem.since and ctx.before(problem.since)):
            continue
        if problem.until and not ctx.between("0.3.1", problem.until):
            continue
        span = job._replace(line=problem.line or job.line).command_span
        yield ctx.at(_path_of_command(job), problem.message, help=problem.help)._replace(span=span)


def _path_of_command(job: LaunchedJob) -> KeyPath:
    """Return the path of the command in a manifest; empty for a script, in which commands have only lines."""
    return () if job.line is not None else tuple(job.format.commands[0].split("."))


@rule("DSC842", effect="ignored", source=_RUNNER, reads="job")
def visible_devices_without_effect(ctx: Context) -> Iterator[Finding]:
    """`CUDA_VISIBLE_DEVICES` has no effect, because a flag of `deepspeed` selects the GPUs.

    Since 0.5.7, the launcher uses the GPUs of `CUDA_VISIBLE_DEVICES` on a single node, but only without `--num_gpus`,
    `--include` and `--exclude`. With `--num_gpus 2`, it uses GPUs 0 and 1, whatever the variable says.

    Bad:

        {"resources": {"accelerators": "A100:8"},
        "run": "CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 train.py --deepspeed_config ds.json"}

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --include localhost:2,3 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "ignored devices")


@rule("DSC843", effect="crashes", source=_RUNNER, reads="job")
def launcher_flags_in_conflict(ctx: Context) -> Iterator[Finding]:
    """`deepspeed` rejects its own flags.

    It selects GPUs either by number (`--num_gpus`, `--num_nodes`) or by a filter (`--include` or `--exclude`), accepts
    only known values of `--launcher`, and requires `--node_rank` with `--no_ssh`. The first word without a dash is the
    program: `deepspeed python train.py` and `deepspeed hostfile train.py` start `python` and `hostfile`. Commands such
    as `swift` and `llamafactory-cli` start the processes themselves.

    Bad:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --num_gpus 2 --include localhost:0,1 train.py --deepspeed_config ds.json"}

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --include localhost:0,1 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "conflict")


@rule("DSC844", effect="crashes", source="launcher/runner.py:_parse_hostfile", reads="job")
def hostfile_rejected(ctx: Context) -> Iterator[Finding]:
    """`deepspeed` rejects the hostfile, or a filter names a host or slot that the hostfile does not list.

    Each line is `HOST slots=N`, with the number of GPUs. A line with only a host name, a line `HOST:8`, or a host that
    is listed twice is an error. From 0.15.2 to 0.19.6, `--include worker-1` without slots finds no slot on that host.
    dsconfig reads the hostfile if it is in the repository.

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --hostfile hostfile train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "hostfile")


@rule(
    "DSC859", effect="crashes", since="0.8.0", source="launcher/runner.py:_parse_hostfile", reads="hostfile"
)
def hostfile_line_rejected(ctx: Context) -> Iterator[Finding]:
    """`deepspeed` rejects a line of the hostfile.

    Each line reads `HOST slots=N`, without blanks around `=`, and no host may occur twice. Lines that start with `#`
    are comments. `dsconfig check hostfile` checks the file on its own; DSC844 reports it for a command that names it.

    Good:

        {"train_batch_size": 8}
    """
    for problem in read_hostfile(ctx.document.text).problems:
        yield ctx.at(
            (),
            problem.message,
            help="write one line `HOST slots=N` for each host, with the number of its GPUs",
        )._replace(span=span_of_line(ctx.document.text, problem.line))


@rule("DSC845", effect="altered", source=_RUNNER, reads="job")
def nodes_without_address(ctx: Context) -> Iterator[Finding]:
    """The nodes of a job cannot find each other.

    `deepspeed` knows other hosts only from a hostfile. `torchrun` uses 127.0.0.1 unless `--master_addr` or
    `--rdzv_endpoint` names the first node, and does not read `MASTER_ADDR`.

    Bad:

        {"resources": {"accelerators": "A100:8"},
        "run": "torchrun --nnodes 2 --nproc_per_node 8 train.py --deepspeed_config ds.json"}

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "torchrun --nnodes 2 --nproc_per_node 8 --node_rank $R --master_addr $A train.py --deepspeed_config d"}
    """
    yield from _launcher_findings(ctx, "rendezvous")


@rule("DSC846", effect="crashes", source="torch distributed/run.py", reads="job")
def more_processes_than_visible_devices(ctx: Context) -> Iterator[Finding]:
    """A launcher starts more processes on a node than `CUDA_VISIBLE_DEVICES` lists GPUs.

    Each process uses the GPU of its local rank, so processes without a GPU fail with "CUDA error: invalid device
    ordinal". `deepspeed` itself takes the number of processes from the variable.

    Bad:

        {"resources": {"accelerators": "A100:8"},
        "run": "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 train.py --deepspeed_config ds.json"}

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "too few devices")


@rule("DSC850", effect="ignored", source="bash(1), QUOTING and COMMENTS", reads="job")
def command_cut_off(ctx: Context) -> Iterator[Finding]:
    """The command ends before its last flags, because a line is not continued.

    The shell joins a line with the next one only if it ends with `\\`. A missing `\\`, a blank or carriage return after
    it, or an empty line or commented-out flag between the lines ends the command. The program starts without the flags
    on the next lines, and the shell then reports "--flag: command not found".

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --num_gpus 2 train.py --deepspeed_config ds.json --bf16"}
    """
    yield from _launcher_findings(ctx, "cut command")


@rule("DSC861", effect="ignored", source="launcher/runner.py:parse_args", reads="job")
def launcher_flag_behind_program(ctx: Context) -> Iterator[Finding]:
    """A launcher flag comes after the program, so the launcher does not read it.

    `deepspeed`, `torchrun` and `accelerate launch` pass every word after the program on to it. The launcher then uses
    its default, such as port 29500, and the program ignores or rejects the flag. dsconfig reports this only if it can
    read the program and the program does not mention the flag. An environment variable such as `NPROC_PER_NODE=2` after
    the program is an argument too.

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --master_port 29501 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "misplaced flag")


@rule("DSC862", effect="altered", source="runtime/engine.py:DeepSpeedEngine", reads="job")
def several_gpus_without_launcher(ctx: Context) -> Iterator[Finding]:
    """`python` starts the program as one process, although `CUDA_VISIBLE_DEVICES` lists several GPUs.

    DeepSpeed uses one GPU for each process, and only a launcher starts several: `deepspeed`, `torchrun` or `accelerate
    launch`. The other GPUs stay idle, and ZeRO partitions nothing. dsconfig reports this only if it can read the
    program, and if the program does not start processes itself.

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "torchrun --nproc_per_node 8 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "no launcher")


@rule("DSC814", effect="wasteful", source="torch distributed/run.py", reads="job")
def fewer_processes_than_visible_devices(ctx: Context) -> Iterator[Finding]:
    """A launcher starts fewer processes than `CUDA_VISIBLE_DEVICES` shows GPUs.

    DeepSpeed uses one GPU for each process. `torchrun` starts one process unless `--nproc_per_node` says otherwise, and
    `accelerate launch` as many as `num_processes` of its launch file, whatever the variable says. The other GPUs stay
    idle, and the first ones run out of memory earlier. dsconfig reports this only if it can read the program, and
    nothing in it points to processes with several GPUs or to a server for generation.

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "idle devices")


@rule("DSC816", effect="crashes", source="llamafactory hparams/parser.py:get_train_args", reads="job")
def factory_without_torchrun(ctx: Context) -> Iterator[Finding]:
    """`llamafactory-cli` starts DeepSpeed training on one visible GPU without `FORCE_TORCHRUN=1`.

    The command starts torchrun only if several GPUs are visible or the variable is set. For a single process
    LLaMA-Factory raises "Please use `FORCE_TORCHRUN=1` to launch DeepSpeed training".

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "FORCE_TORCHRUN=1 CUDA_VISIBLE_DEVICES=0 llamafactory-cli train sft.yaml"}
    """
    yield from _launcher_findings(ctx, "no torchrun")


@rule("DSC873", effect="crashes", source="launcher/runner.py:parse_args", reads="job")
def port_used_twice(ctx: Context) -> Iterator[Finding]:
    """Two commands of a script run at the same time on one machine and use the same port.

    `deepspeed` and torchrun let rank 0 listen on port 29500 unless `--master_port` names another. While one command
    runs in the background (`&`), the next one fails with "The server socket has failed to listen on any local network
    address" or "Address already in use".

    Good:

        {"resources": {"accelerators": "A100:8"},
        "run": "deepspeed --include localhost:0,1 --master_port 29501 train.py --deepspeed_config ds.json"}
    """
    yield from _launcher_findings(ctx, "port")


@rule(
    "DSC847",
    effect="altered",
    source="accelerate utils/launch.py:prepare_deepspeed_cmd_env",
    reads="launch file",
)
def machines_without_hostfile(ctx: Context) -> Iterator[Finding]:
    """The launch file has several machines, but no hostfile for the launcher that reads one.

    Unless `deepspeed_multinode_launcher` is `standard`, Accelerate starts `deepspeed --hostfile`, by default with pdsh.
    Without a hostfile DeepSpeed trains with the local GPUs alone, on each machine that runs the command. `standard`
    starts torchrun instead, for which the command must run on every machine with its `machine_rank`, as under Slurm.

    Bad:

        {"distributed_type": "DEEPSPEED", "num_machines": 2, "num_processes": 16,
        "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "num_machines": 2, "num_processes": 16, "main_process_ip": "10.0.0.1",
        "main_process_port": 29500, "machine_rank": 0,
        "deepspeed_config": {"zero_stage": 2, "deepspeed_multinode_launcher": "standard"}}
    """
    machines, settings = ctx.data.get("num_machines"), ctx.data.get(BLOCK)
    if ctx.data.get("distributed_type") != "DEEPSPEED" or not isinstance(machines, int) or machines < 2:
        return
    if not isinstance(settings, dict) or settings.get("deepspeed_hostfile") is not None:
        return
    launcher = settings.get("deepspeed_multinode_launcher") or "pdsh"
    if launcher != "standard":
        yield ctx.at(
            (BLOCK,),
            f"`num_machines` is {machines}, but {launcher} needs a hostfile: without `deepspeed_hostfile` each machine"
            " trains alone",
            help='set `deepspeed_hostfile`, or set `deepspeed_multinode_launcher` to "standard" and start the command'
            " on every machine",
            part="key",
            related=[("the number of machines is set here", ("num_machines",))],
        )
