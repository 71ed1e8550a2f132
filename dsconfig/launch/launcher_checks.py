"""Detect launcher flags that the launcher rejects, or that do not do what they appear to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.file_access import MAX_SIZE, read_contents, relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document
from dsconfig.launch.find_jobs import jobs_of_launch_file, world_size_from_accelerate_file
from dsconfig.launch.hostfile import Hostfile, parse_slot_filter, read_hostfile
from dsconfig.launch.jobs_of_script import deepspeed_commands_of_factory, launchers_without_config
from dsconfig.launch.launch_commands import RANK_VARIABLES, STARTS_PROCESSES
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.launcher_call import ACCELERATE, DEEPSPEED, PYTHON, TORCHRUN, LauncherCall
from dsconfig.launch.repository_files import resolve_written_path, time_cache_key
from dsconfig.launch.script_line_checks import (
    LauncherProblem,
    cut_command,
    ports_used_twice,
    variables_behind_program,
)


def find_launcher_problems(job: LaunchedJob) -> Iterator[LauncherProblem]:
    """Yield the problems with the launcher command of a job.

    Sources: deepspeed launcher/runner.py:main; torch distributed/run.py; accelerate utils/launch.py.
    """
    launcher = job.launcher
    if job.line is not None:
        yield from cut_command(job.launch.text, job.line)
        yield from variables_behind_program(job.launch.text, job.line)
    if launcher is None:
        return
    if launcher.name == PYTHON:
        yield from _one_process_for_several_gpus(job, launcher)
        return
    yield from _wrong_program(launcher)
    yield from _flags_behind_program(job, launcher)
    if launcher.name == DEEPSPEED:
        yield from _conflicting_flags(launcher)
        yield from _ignored_visible_devices(launcher)
        hostfile = _hostfile_of_command(job, launcher)
        yield from _hostfile_problems(launcher, hostfile)
        yield from _deepspeed_rendezvous_problems(launcher, hostfile)
    else:
        yield from _too_few_visible_devices(launcher)
        yield from _idle_visible_devices(job, launcher)
        yield from _torchrun_rendezvous_problems(launcher)


def launcher_problems_in_script(script: Document) -> tuple[tuple[LaunchedJob, LauncherProblem], ...]:
    """Return the problems of all launcher commands in a script or manifest, each with its job.

    Raises:
        OSError: a config that a command names cannot be read.
    """
    return _cached_problems_in_script(script, time_cache_key())


@lru_cache(maxsize=8)
def _cached_problems_in_script(script: Document, _: int) -> tuple[tuple[LaunchedJob, LauncherProblem], ...]:
    # Several rules ask for the problems of one kind each, in each class of releases.
    jobs, others = list(jobs_of_launch_file(script)), list[tuple[LaunchedJob, LauncherProblem]]()
    if is_shell_script_name(script.name):
        lines = {job.line for job in jobs}
        launched = _launched_jobs(script)
        jobs += [job for job in launched if job.line not in lines]
        others += ports_used_twice(script.text, launched)
        others += _factory_commands_without_torchrun(script)
    return (*((job, problem) for job in jobs for problem in find_launcher_problems(job)), *others)


def _launched_jobs(script: Document) -> list[LaunchedJob]:
    """Return a job for each launcher command of a script.

    A command with neither launcher nor config is left out, because nothing shows that it uses DeepSpeed.
    """
    return [
        job
        for job in launchers_without_config(script)
        if job.launcher is not None and job.launcher.name != PYTHON
    ]


def has_launcher_problems(script: Document) -> bool:
    """Return whether any launcher command of a shell script has a problem, such as a config flag without a value."""
    if not is_shell_script_name(script.name):
        return False
    try:
        return bool(launcher_problems_in_script(script))
    except OSError:  # a note of the report says why
        return False


_COUNTS, _FILTERS = ("num_gpus", "num_accelerators", "num_nodes"), ("include", "exclude")
_LAUNCHERS = {
    "pdsh": "",
    "openmpi": "",
    "mvapich": "",
    "slurm": "0.7.4",
    "mpich": "0.8.2",
    "impi": "0.9.3",
}
"""Multi-node launchers of `deepspeed`, each with the release that added it."""


def _conflicting_flags(launcher: LauncherCall) -> Iterator[LauncherProblem]:
    flags = launcher.flags
    counts, filters = ([name for name in names if name in flags] for names in (_COUNTS, _FILTERS))
    if counts and filters:
        yield LauncherProblem(
            "conflict",
            f"`deepspeed` rejects `--{counts[0]}` together with `--{filters[0]}`",
            f"remove `--{counts[0]}`: the filter already selects the GPUs",
        )
    if len(filters) > 1:
        yield LauncherProblem(
            "conflict", "`deepspeed` rejects `--include` together with `--exclude`", "remove one of them"
        )
    chosen = flags.get("launcher", "")
    is_multi_node = "hostfile" in flags or "force_multi" in flags
    if chosen and is_multi_node and "$" not in chosen and chosen.lower() not in _LAUNCHERS:
        yield LauncherProblem(
            "conflict",
            f"`deepspeed` does not know the launcher `{chosen}`",
            f"use one of {', '.join(_LAUNCHERS)}",
        )
    if "no_ssh" in flags and "node_rank" not in flags:
        yield LauncherProblem(
            "conflict",
            "`deepspeed --no_ssh` requires the number of the node",
            "pass `--node_rank`, a different one on each node",
            since="0.14.5",
        )


def _wrong_program(launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem if the launcher mistakes a word before the actual program for the program."""
    first, second = (*launcher.program, "", "")[:2]
    is_free = not {"no_python", "module", "m"} & launcher.flags.keys()
    if is_free and first in ("python", "python3") and second == "-m":
        yield LauncherProblem(
            "conflict",
            f"`{launcher.name}` starts `{first}` as the program, with `-m` as its first argument",
            f"write `{launcher.name} --module PACKAGE.MODULE` instead of `{first} -m PACKAGE.MODULE`",
        )
        return
    if is_free and first in _COMMANDS and second and not second.startswith("-"):
        yield LauncherProblem(
            "conflict",
            f"`{launcher.name}` starts `{first}` as a Python program, but it is a command with a launcher of its own",
            f"{_COMMANDS[first]} instead of `{launcher.name}`",
        )
        return
    # `accelerate launch` and torchrun stop like `deepspeed`: they run `python WORD`.
    if not is_free or not second.endswith(".py") or "$" in first or first.endswith((".py", ".sh")):
        return
    if first in ("python", "python3"):
        advice = f"remove `{first}`: the launcher starts Python itself"
    elif launcher.name == DEEPSPEED:
        advice = f"if it is a hostfile, write `--hostfile {first}`; otherwise move it behind `{second}`"
    else:
        advice = f"move it behind `{second}`"
    yield LauncherProblem(
        "conflict",
        f"`{launcher.name}` starts `{first}` as the program, with `{second}` as its first argument",
        advice,
    )


_COMMANDS = {
    "swift": "write `NPROC_PER_NODE=N swift`",
    "llamafactory-cli": "write `FORCE_TORCHRUN=1 llamafactory-cli`",
    "accelerate": "write `accelerate launch`",
    "torchrun": "write `torchrun`",
    "deepspeed": "write `deepspeed` once",
    "axolotl": "write `axolotl train`",
    "trl": "write `trl` with `--accelerate_config`",
}
"""Commands that start the processes of a job themselves, with advice."""
_PLACE_FLAGS = {
    DEEPSPEED: frozenset(
        {"master_port", "master_addr", "num_gpus", "num_nodes", "include", "exclude", "hostfile"}
    ),
    TORCHRUN: frozenset(
        {"nproc_per_node", "nnodes", "node_rank", "master_port", "master_addr", "rdzv_endpoint"}
    ),
    ACCELERATE: frozenset(
        {"num_processes", "num_machines", "machine_rank", "main_process_port", "main_process_ip"}
    ),
}
"""Flags by which each launcher chooses GPUs, nodes and ports."""


def _flags_behind_program(job: LaunchedJob, launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem for each launcher flag after the program, which receives the flag but does not know it.

    All launchers pass the words after the program on to it: `nargs=argparse.REMAINDER`.
    """
    misplaced = [
        name
        for name in job.arguments or ()
        if name in _PLACE_FLAGS.get(launcher.name, ()) and name not in launcher.flags
    ]
    if not misplaced or (text := _text_of_program(job)) is None:
        return
    for name in misplaced:
        if name not in text and name.replace("_", "-") not in text:
            yield LauncherProblem(
                "misplaced flag",
                f"`--{name}` comes after `{job.program_file}`, so `{launcher.name}` passes it to the program"
                " instead of using it",
                f"move `--{name}` before `{job.program_file}`",
            )


def _one_process_for_several_gpus(job: LaunchedJob, launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem if a single Python process starts although several GPUs are visible."""
    devices = launcher.visible_device_entries
    variables = (job.arguments or {}).get("ENV")
    if devices is None or len(devices) < _SEVERAL or job.world_size not in (None, 1):
        return
    if isinstance(variables, dict) and not RANK_VARIABLES.isdisjoint(variables):
        return
    text = _text_of_program(job)
    if text is None or STARTS_PROCESSES.search(text):
        return
    count = len(devices)
    yield LauncherProblem(
        "no launcher",
        f"`python` starts one process, and DeepSpeed uses one GPU for each process: {count - 1} of the {count} GPUs in"
        " `CUDA_VISIBLE_DEVICES` stay idle",
        f"use `deepspeed --include localhost:{','.join(devices)} {job.program_file}` without the variable, or"
        f" `torchrun --nproc_per_node {count} {job.program_file}`",
    )


_SEVERAL = 2


_USES_OTHER_DEVICES = re.compile(
    r"vllm|sglang|device_map|cuda:[1-9]|tensor_parallel|model_parallel|pipeline_parallel|device_count",
    re.IGNORECASE,
)
"""Pattern of programs whose processes may use several GPUs each, or start others that do."""


def _idle_visible_devices(job: LaunchedJob, launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem if torchrun or Accelerate starts fewer processes on one node than GPUs are visible.

    A generation server of TRL may own the last GPU (`vllm_device`), so one idle GPU counts only without one.
    """
    devices, processes = launcher.visible_device_entries, job.world_size
    processes = processes or world_size_from_accelerate_file(job)
    if launcher.name == TORCHRUN and processes is None and _starts_default_process(job, launcher):
        processes = 1
    if devices is None or processes is None or processes >= len(devices):
        return
    flags = launcher.flags
    nodes = [launcher.integer_flag(name) for name in ("nnodes", "num_machines") if name in flags]
    if any(count != 1 for count in nodes) or flags.get("gpu_ids"):
        return
    text = _text_of_program(job)
    if text is None:
        return
    is_other = _USES_OTHER_DEVICES.search(text) is not None
    if is_other and (len(devices) - processes == 1 or "GRPO" not in text):
        return
    idle, flag = len(devices) - processes, "nproc_per_node" if launcher.name == TORCHRUN else "num_processes"
    where = f"`--{flag}`" if flag in flags or launcher.name == TORCHRUN else f"`{flag}` of the launch file"
    yield LauncherProblem(
        "idle devices",
        f"`CUDA_VISIBLE_DEVICES` makes {len(devices)} GPUs visible, but the command starts {processes}"
        f" process{'es' * (processes > 1)}, each on one GPU: {idle} of them stay{'s' * (idle == 1)} idle",
        f"set {where} to {len(devices)}",
    )


def _starts_default_process(job: LaunchedJob, launcher: LauncherCall) -> bool:
    """Return whether torchrun starts its default of one process: torch distributed/run.py:get_args_parser."""
    variables = (job.arguments or {}).get("ENV")
    names = variables if isinstance(variables, dict) else {}
    return "nproc_per_node" not in launcher.flags and not any(name.startswith("PET_") for name in names)


_FACTORY_LAUNCHERS = ("FORCE_TORCHRUN", "USE_RAY", "USE_KT", "LOCAL_RANK")
"""Variables with which LLaMA-Factory starts processes even for one GPU, or does not start them itself."""


def _factory_commands_without_torchrun(script: Document) -> Iterator[tuple[LaunchedJob, LauncherProblem]]:
    """Yield a problem for each `llamafactory-cli` command that trains with DeepSpeed on one visible GPU.

    Source: llamafactory launcher.py:launch, hparams/parser.py:get_train_args.
    """
    for job in deepspeed_commands_of_factory(script):
        variables = (job.arguments or {}).get("ENV")
        variables = variables if isinstance(variables, dict) else {}
        devices = LauncherCall("", visible_devices=str(variables.get("CUDA_VISIBLE_DEVICES", "")))
        if len(devices.visible_device_entries or ()) != 1 or any(
            name in variables for name in _FACTORY_LAUNCHERS
        ):
            continue
        yield (
            job,
            LauncherProblem(
                "no torchrun",
                "`CUDA_VISIBLE_DEVICES` makes one GPU visible: `llamafactory-cli` then starts no torchrun, and"
                " LLaMA-Factory rejects DeepSpeed without it",
                "write `FORCE_TORCHRUN=1` before the command",
            ),
        )


def _text_of_program(job: LaunchedJob) -> str | None:
    """Return the source of the program that a command starts, or None if it is not in the repository."""
    path = (
        resolve_written_path(job.program_file, job.launch.name, job.folder).path if job.program_file else None
    )
    if path is None:
        return None
    try:
        return read_contents(path, MAX_SIZE).decode("utf-8", "replace")
    except OSError:
        return None


def _ignored_visible_devices(launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem if the launcher ignores `CUDA_VISIBLE_DEVICES` or cannot parse it."""
    devices, flags = launcher.visible_device_entries, launcher.flags
    if devices is None or "hostfile" in flags:
        return
    count = launcher.integer_flag("num_gpus", "num_accelerators")
    flag = next((name for name in (*_FILTERS, "num_gpus", "num_accelerators") if name in flags), None)
    if flag is None:
        if not all(device.isdecimal() for device in devices):
            yield LauncherProblem(
                "conflict",
                f"`deepspeed` expects numbers in `CUDA_VISIBLE_DEVICES`, which is `{launcher.visible_devices}`",
                "write the index of each GPU, or start the processes with `torchrun`",
                since="0.5.7",
            )
        elif any(int(device) >= len(devices) for device in devices):
            # The GPUs are counted while the variable still hides the others: #6530 fixed it.
            yield LauncherProblem(
                "conflict",
                f"`deepspeed` counts {len(devices)} GPU{'s' * (len(devices) > 1)} with"
                f" `CUDA_VISIBLE_DEVICES={launcher.visible_devices}`, and then finds no slot"
                f" {next(device for device in devices if int(device) >= len(devices))}",
                f"unset the variable and use `--include localhost:{','.join(devices)}`, or use DeepSpeed 0.15.2",
                since="0.5.7",
                until="0.15.1",
            )
        return
    if flag in ("num_gpus", "num_accelerators") and (
        not count or devices == tuple(map(str, range(count))) or not all(map(str.isdecimal, devices))
    ):
        return
    if flag == "include" and flags[flag] == f"localhost:{','.join(devices)}":
        return
    used = f"GPUs 0 to {count - 1}" if count and count > 1 else "GPU 0" if count else f"those of `--{flag}`"
    yield LauncherProblem(
        "ignored devices",
        f"`CUDA_VISIBLE_DEVICES={launcher.visible_devices}` has no effect together with `--{flag}`: `deepspeed` uses"
        f" {used}",
        f"use `--include localhost:{','.join(devices)}` instead of both, or leave out `--{flag}`",
        since="0.5.7",
    )


class _NamedHostfile(NamedTuple):
    """A hostfile that a command names, and its path for use in messages."""

    path: str
    content: Hostfile


_MAX_HOSTFILE = 1 << 20


def _hostfile_of_command(job: LaunchedJob, launcher: LauncherCall) -> _NamedHostfile | None:
    """Return the hostfile that a command names, or None if there is none in the repository."""
    name = launcher.flags.get("hostfile", "")
    path = resolve_written_path(name, job.launch.name, job.folder).path if name and "$" not in name else None
    if path is None:
        return None
    try:
        text = read_contents(path, _MAX_HOSTFILE).decode("utf-8", "replace")
    except OSError:
        return None
    return _NamedHostfile(relative_path(path), read_hostfile(text))


def _hostfile_problems(launcher: LauncherCall, hostfile: _NamedHostfile | None) -> Iterator[LauncherProblem]:
    if hostfile is None:
        return
    for line, message in hostfile.content.problems:
        location = f"{hostfile.path}:{line}" if line else hostfile.path
        yield LauncherProblem(
            "hostfile",
            f"`deepspeed` rejects the hostfile {location}: {message}",
            "write one line `HOST slots=N` for each host, with the number of its GPUs",
            since="0.8.0",
        )
    if hostfile.content.problems:
        return
    slots = hostfile.content.slots
    for flag in _FILTERS:
        words = launcher.flags.get(flag, "")
        hosts = parse_slot_filter(words) if words and "$" not in words else {}
        if hosts is None:
            yield LauncherProblem(
                "hostfile",
                f"`deepspeed` cannot parse `--{flag} {words}`",
                "write `HOST:SLOT,SLOT@HOST:SLOT`",
            )
            continue
        for host, chosen in hosts.items():
            if host not in slots:
                yield LauncherProblem(
                    "hostfile",
                    f"`--{flag}` names the host `{host}`, which {hostfile.path} does not list",
                    f"use one of {', '.join(list(slots)[:_MOST_SHOWN])}",
                )
            elif beyond := [slot for slot in chosen or () if slot >= slots[host]]:
                problem = LauncherProblem(
                    "hostfile",
                    f"`--{flag}` names slot {beyond[0]} of `{host}`, but {hostfile.path} gives it {slots[host]} slots",
                    f"use slots 0 to {slots[host] - 1}, or raise `slots`",
                )
                # From #6530 to #8239 the filter itself decides which slots of an included host exist.
                yield problem._replace(until="0.15.1" if flag == "include" else "")
                if flag == "include":
                    yield problem._replace(since="0.19.7")
        if flag == "include" and hosts and not any(hosts.values()):
            listed = "@".join(f"{host}:{','.join(map(str, range(slots.get(host, 1))))}" for host in hosts)
            yield LauncherProblem(
                "hostfile",
                f"`--include {words}` names no slots: `deepspeed` finds none on these hosts, and raises an IndexError",
                f"write `--include {listed}`, or use DeepSpeed 0.19.7",
                since="0.15.2",
                until="0.19.6",
            )


_MOST_SHOWN = 8
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


def _deepspeed_rendezvous_problems(
    launcher: LauncherCall, hostfile: _NamedHostfile | None
) -> Iterator[LauncherProblem]:
    nodes, address = launcher.integer_flag("num_nodes"), launcher.flags.get("master_addr", "")
    if nodes is not None and nodes > 1 and "hostfile" not in launcher.flags:
        yield LauncherProblem(
            "rendezvous",
            f"`--num_nodes {nodes}` without `--hostfile`: unless /job/hostfile exists, `deepspeed` raises, because it"
            " knows no other host",
            "pass `--hostfile`, with one line `HOST slots=N` for each host",
        )
    hosts = 0 if hostfile is None else len(hostfile.content.slots)
    if address in _LOCAL and hosts > 1 and nodes != 1:
        yield LauncherProblem(
            "rendezvous",
            f"`--master_addr` is {address}, but there are {hosts} hosts: every other host tries to connect to itself",
            "pass the address of the first host that the others can reach, or leave out `--master_addr`",
        )


def _too_few_visible_devices(launcher: LauncherCall) -> Iterator[LauncherProblem]:
    """Yield a problem if a node starts more processes than it has visible GPUs."""
    devices = launcher.visible_device_entries
    variable = "CUDA_VISIBLE_DEVICES"
    if launcher.name == ACCELERATE:
        total, machines = launcher.integer_flag("num_processes"), launcher.integer_flag("num_machines")
        if machines is None and {"num_machines", "config_file"} & launcher.flags.keys():
            return
        processes = None if total is None else total // (machines or 1)
        chosen = launcher.flags.get("gpu_ids", "")
        if chosen == "all" or "$" in chosen:
            return
        # commands/launch.py sets CUDA_VISIBLE_DEVICES to `--gpu_ids`.
        if chosen:
            devices, variable = tuple(chosen.split(",")), "--gpu_ids"
        flag = "num_processes"
    else:
        processes, flag = launcher.integer_flag("nproc_per_node"), "nproc_per_node"
    if devices is None or processes is None or processes <= len(devices):
        return
    yield LauncherProblem(
        "too few devices",
        f"`--{flag}` starts {processes} processes on a node, but `{variable}` makes only {len(devices)}"
        f" GPU{'s' * (len(devices) > 1)} visible: the other processes fail with an invalid device ordinal",
        f"start {len(devices)} on each node, or list more GPUs in `{variable}`",
    )


def _torchrun_rendezvous_problems(launcher: LauncherCall) -> Iterator[LauncherProblem]:
    nodes, flags = launcher.integer_flag("nnodes"), launcher.flags
    has_address = {"master_addr", "rdzv_endpoint", "rdzv_conf"} & flags.keys()
    if launcher.name != TORCHRUN or nodes is None or nodes < 2 or "standalone" in flags:
        return
    if (
        flags.get("node_rank") == "0"
    ):  # the first node may reach itself like this; the others have another command
        return
    if not has_address:
        yield LauncherProblem(
            "rendezvous",
            f"`--nnodes` is {nodes}, but neither `--master_addr` nor `--rdzv_endpoint` is set: torchrun uses 127.0.0.1,"
            " so each node tries to connect to itself",
            "pass `--master_addr` and `--node_rank`, or `--rdzv_backend c10d` and `--rdzv_endpoint HOST:PORT`",
        )
    elif flags.get("master_addr") in _LOCAL:
        yield LauncherProblem(
            "rendezvous",
            f"`--master_addr` is {flags['master_addr']}, but there are {nodes} nodes: each node tries to connect to"
            " itself",
            "pass the address of the first node that the others can reach",
        )
