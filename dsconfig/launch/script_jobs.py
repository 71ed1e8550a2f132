"""Jobs of a shell script, or of a manifest that runs commands."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice

from dsconfig.consumers.accelerate_launch_file import BLOCK, BLOCK_KEYS, is_launch_file
from dsconfig.consumers.consumer import BY_NAME
from dsconfig.core.file_access import MAX_SIZE, contents
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, at
from dsconfig.document import Document, read_bytes, read_dict
from dsconfig.job.detect_consumer import OWN_FLAGS, Reader, of_content
from dsconfig.launch.command import AtRanks, Command, Script, commands_in, script_of
from dsconfig.launch.config_references import read_passed, reader_of
from dsconfig.launch.format_table import Format
from dsconfig.launch.launched_job import Job, text_of
from dsconfig.launch.program_arguments import NAMES, arguments_in
from dsconfig.launch.program_config import readers_of_command
from dsconfig.launch.repository import Budget, SpentError, installed, of_text, search
from dsconfig.launch.shell_interpreter import Shell
from dsconfig.launch.training_arguments import given, plain

_KUBERNETES = re.compile(r"\$\((\w+)\)")
_MOST = 200
"""Most commands of a script that become jobs."""
_UNKNOWN = re.compile(r"\$[\w({]|`")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^${}]*))?\})")
"""A variable in a here-document, perhaps with a default."""


def of_commands(found: Format, launch: Document, data: Mapping[str, Json] | None) -> Job | None:
    """The job of the first command whose config exists, else of the first that names one."""
    first: Job | None = None
    for job in jobs_of_commands(found, launch, data):
        if job.document is not None:
            return job
        first = first or job
    return first


def jobs_of_commands(
    found: Format,
    launch: Document,
    data: Mapping[str, Json] | None,
    wanted: str | None = None,
    within: Budget | None = None,
) -> Iterator[Job]:
    """Yield the job of each command; none if reading the commands exceeds the budget.

    `data`: manifest that contains the commands; None: the launch file is a script. `wanted`: real path of the
    only config whose jobs are needed. `within`: budget of the directory.

    Raises:
        SpentError: the commands exceed their budget or that of the directory, if the latter is given.
    """
    if within is not None:
        within.spend(len(launch.text))
    script = _script(found, launch, data)
    if within is not None:
        within.spend(script.used)
    if script.shell is None:
        if within is not None:
            raise SpentError
        return
    once = cache(_config_at)
    for command in script.commands:
        if within is not None:
            within.spend(_SEARCH)
        if wanted is not None and not _leads_to(wanted, command, launch):
            continue
        job = _job(found, launch, command, script.shell, once)
        job = job and _with_program_arguments(job, command, script_of(script.shell))
        if job is not None and data is None:
            job = job._replace(line=launch.position(command.offset).line)
        if job is not None:
            yield job


def takes_too_much(found: Format, launch: Document, data: Mapping[str, Json] | None) -> bool:
    """Whether reading the commands exceeds the budget, so that none is known."""
    return _script(found, launch, data).shell is None


class _Script(NamedTuple):
    """The commands of a text that run DeepSpeed, and the shell after reading them; no shell: the text was not
    read.
    """

    commands: tuple[Command, ...]
    shell: Shell | None
    used: int
    """Budget steps spent."""


def _script(found: Format, launch: Document, data: Mapping[str, Json] | None) -> _Script:
    if data is None:
        path = "" if launch.name.startswith("<") else os.path.abspath(launch.name)
        return _read(launch.text, path, ())
    budget = of_text(len(launch.text))
    try:
        text = "\n".join(line for key in found.commands for line in _texts(at(data, key)))
        text = with_inputs(text, data, budget)
    except SpentError:
        return _Script((), None, budget.used)
    return _read(text, "", tuple(environment(found, data).items()))


@lru_cache(maxsize=256)
def _read(text: str, path: str, variables: tuple[tuple[str, str], ...]) -> _Script:
    """Read a text once: many configs of a directory ask about the same scripts."""
    shell = Shell(text, path, dict(variables))
    try:
        commands = tuple(islice(commands_in(shell), _MOST))
    except SpentError:
        return _Script((), None, shell.budget.used)
    return _Script(commands, shell, shell.budget.used)


_SEARCH = 200
"""Budget steps charged for resolving a config's path."""


def _leads_to(wanted: str, command: Command, launch: Document) -> bool:
    """Whether a command names the config at a real path."""
    path = search(command.path, launch.name, command.folder).path if command.path else None
    return path is not None and os.path.realpath(path) == wanted


def _config_at(path: str, reader: str) -> Document:
    """Read the config at a path with the parser of its consumer."""
    return read_passed(contents(path), path, reader)


def _job(
    found: Format, launch: Document, command: Command, shell: Shell, read: Callable[[str, str], Document]
) -> Job | None:
    told = (command.format or found)._replace(reader=command.reader, commands=found.commands)
    job = Job(
        told,
        launch,
        command.path,
        command.flag,
        None,
        None,
        given(told._replace(within=""), command.arguments),
        command.world_size,
        arguments=command.arguments,
        processes=command.processes,
        program_file=command.program_file,
        folder=command.folder,
    )
    if job.given is not None and command.varies:
        job = job._replace(given=job.given._replace(at=AtRanks(script_of(shell), command, told)))
    if not command.path:
        if command.format is None:
            told = told._replace(name="Accelerate", makes="accelerate")
        return job._replace(format=told, written=command.flag, document=_made(command, launch))
    if text := text_of(command.path):
        config = read_bytes(text.data, f"{launch.name}: {command.flag}")
        return job._replace(format=told, written=command.flag, document=config, encoded=text.encoded)
    if told.preset and (preset := installed(told.preset, command.path)):
        return job._replace(document=read_passed(contents(preset), preset, told.reader))
    place = search(command.path, launch.name, command.folder)
    if place.path is None:
        return _with_own(job._replace(place=place), command.path, shell)
    document = read(place.path, told.reader)
    if command.flag == "--config_file":
        if not is_launch_file(document.value()):
            return None  # this Accelerate launch file does not use DeepSpeed
        job = job._replace(flags=_of_block(command))
        document = _without_processes(document, command)
    if command.format is None and command.reader == "transformers":
        # The command's program, if it can be read, may parse the file itself instead of passing it to a
        # Trainer.
        reader = reader_of(place.path, Reader(command.reader, "", "script"))
        own = _is_own(command, document)
        told = told._replace(reader="deepspeed" if own else reader.name if reader else command.reader)
        if command.is_whole and not _arguments(command):
            job = job._replace(given=None)  # the program sets them in code
    return _as_program_reads(job._replace(format=told, document=document, place=place), command)


def _as_program_reads(job: Job, command: Command) -> Job:
    """The job with the consumer to which its program passes the file of a flag."""
    if command.format is not None or command.flag not in OWN_FLAGS or job.document is None:
        return job
    bare = command.arguments.get("deepspeed") is True
    readers = readers_of_command(
        command.program_file, job.launch.name, command.flag, command.folder, bare=bare
    )
    content = of_content(job.document.value()).name
    told = job.format._replace(reader=readers.first(content))
    return job._replace(format=told, others=readers.others(content), why=readers.why)


def _with_program_arguments(job: Job, command: Command, script: Script) -> Job:
    """The job with the program's defaults for training arguments that the command leaves out."""
    if command.format is not None or not command.program_file:
        return job
    if job.format.reader != "transformers" and (command.reader != "accelerate" or job.others):
        return job
    path = search(command.program_file, job.launch.name, command.folder).path
    found = None if path is None else arguments_in(path, job.launch.name, command.arguments, command.varies)
    if found is None or (job.format.reader == "accelerate" and found.has_loop):
        return job
    # Also under `accelerate launch` the Trainer fills the config: transformers
    # integrations/deepspeed.py:propagate_args_to_deepspeed.
    told = job.format._replace(within="", defaults=found.defaults, reader="transformers")
    job = job._replace(format=job.format._replace(reader="transformers"))
    flags = {
        name: value for name, value in command.arguments.items() if not found.is_code or name not in NAMES
    }
    known = given(told, {**flags, **dict.fromkeys(found.changed)})
    if command.varies and not found.is_code and not found.changed:
        known = known._replace(at=AtRanks(script, command, told))
    return job._replace(given=known._replace(note=found.note))


def _without_processes(launch: Document, command: Command) -> Document:
    """An Accelerate launch file without `num_processes`, if a flag with an unknown value overrides it."""
    data = launch.value()
    if not command.processes.open or not isinstance(data, dict) or "num_processes" not in data:
        return launch
    return launch.read_as({key: value for key, value in data.items() if key != "num_processes"})


def _of_block(command: Command) -> JsonObject:
    """The flags of `accelerate launch` that its launch file can set as well."""
    known = BLOCK_KEYS | {"mixed_precision"}
    return {key: plain(value) for key, value in command.arguments.items() if key in known}


def _is_own(command: Command, config: Document) -> bool:
    """Whether a program with a flag of the Trainer's name uses no other Trainer argument and a config without
    "auto".
    """
    trained = "output_dir" in command.arguments or _arguments(command)
    return command.is_whole and not trained and of_content(config.value()).name == "deepspeed"


def _arguments(command: Command) -> set[str]:
    """Trainer arguments of a command that fill a config."""
    return command.arguments.keys() & BY_NAME["transformers"].defaults.keys()


def _made(command: Command, launch: Document) -> Document | None:
    """The config that a program builds from its flags."""
    name = f"{launch.name}: {command.flag}"
    if command.format is not None and command.format.makes == "openrlhf":
        return read_dict(config(command.arguments), name)
    # `accelerate launch --use_deepspeed` without further flags: ZeRO stage 2 (commands/launch.py,
    # `--zero_stage`).
    block = {key: plain(value) for key, value in command.arguments.items() if key in BLOCK_KEYS}
    made: JsonObject = {"distributed_type": "DEEPSPEED", BLOCK: block or {"zero_stage": 2}}
    if isinstance(precision := command.arguments.get("mixed_precision"), str):
        made["mixed_precision"] = precision
    return read_dict(made, name)


def _with_own(job: Job, name: str, shell: Shell) -> Job:
    """The job with the config that its script writes to this path, if it does."""
    try:
        document = _written_by_script(name, shell, job.launch)
    except SpentError:
        return job._replace(is_written_by_script=True, is_too_long=True)
    return job._replace(
        document=document,
        place=None if document else job.place,
        is_written_by_script=name in shell.documents or name in shell.edited,
        is_template=name in shell.edited and name not in shell.documents,
    )


def _written_by_script(name: str, shell: Shell, launch: Document) -> Document | None:
    """A config that the script writes: a here-document, or a template edited by `sed`.

    Raises:
        SpentError: the text exceeds the size limit for configs.
    """
    budget = Budget(MAX_SIZE)

    def value(match: re.Match[str]) -> str:
        found = shell.variables.get(match[1] or match[2])
        text: str = found[0] if found else match[3] or match[0]
        budget.spend(len(text))
        return text

    if (body := shell.documents.get(name)) is not None:
        text = _VARIABLE.sub(value, body)
    elif (edited := shell.edited.get(name)) is not None:
        template = search(edited.template, launch.name)
        if template.path is None:
            return None
        text = edited.text(contents(template.path, MAX_SIZE).decode("utf-8", "replace"), MAX_SIZE)
    else:
        return None
    if _UNKNOWN.search(text):
        return None
    return read_bytes(text.encode("utf-8", "replace"), f"{launch.name}: {name}")


def _texts(value: Json) -> Iterator[str]:
    """Yield every text in a value; the words of a list are one command, and `args` follow their `command`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(word, str | int | float) for word in value):
        yield _joined(value)
    elif isinstance(value, dict):
        command, more = value.get("command"), value.get("args")
        for entry in value.get("env", ()) if isinstance(value.get("env"), list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("value"), str | int):
                yield f"export {entry.get('name')}={shlex.quote(str(entry['value']))}"
        if isinstance(command, list) and isinstance(more, list):
            yield _joined([*command, *more])
        for key, each in value.items():
            if key != "env" and not (
                key in ("command", "args") and isinstance(each, list) and command and more
            ):
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _joined(words: list[Json]) -> str:
    """Join the words of one command. Kubernetes writes variables as `$(NAME)`."""
    texts = [_KUBERNETES.sub(r"${\1}", word) if isinstance(word, str) else json.dumps(word) for word in words]
    return " ".join(text if re.fullmatch(r"[\w./:=,@%+${}-]+", text) else shlex.quote(text) for text in texts)


# Variables that a manifest sets for its commands.

_INPUT = re.compile(r"\$\{\{\s*([\w.]{1,99})\s*\}\}")


def environment(found: Format, data: Mapping[str, Json]) -> dict[str, str]:
    """Variables by name: those in the manifest, and those that its program sets."""
    holders = (at(data, key) for key in found.environment)
    written = (each for holder in holders if isinstance(holder, Mapping) for each in holder.items())
    given = {name: text for name, value in written if (text := _text(value)) is not None}
    for name, key in found.variables.items():
        value = next((found for each in key.split("|") if (found := at(data, each)) is not None), None)
        count = _count(value) if key.endswith("accelerators") else _replicas(value)
        if (text := _text(count)) is not None and not _is_elastic(data):
            given.setdefault(name, text)
        elif value is not None and name not in given:
            given[name] = f"${name}"  # it will be set, but its value is unknown before the run
    if data.get("kind") == "TrainJob":  # without `numNodes` the training runtime decides
        given.setdefault("PET_NNODES", "$PET_NNODES")
    return given


def _is_elastic(data: Mapping[str, Json]) -> bool:
    """Whether the node count of a PyTorchJob may vary; `PET_NNODES` is a range then.

    Source: kubeflow training-operator pkg/controller.v1/pytorch/envvar.go.
    """
    policy = at(data, "spec.elasticPolicy")
    if not isinstance(policy, Mapping):
        return False
    return policy.get("minReplicas") != policy.get("maxReplicas") or policy.get("minReplicas") is None


def with_inputs(text: str, data: Mapping[str, Json], budget: Budget) -> str:
    """Expand `${{inputs.name}}` in a command of Azure ML.

    Raises:
        SpentError: the text exceeds the budget.
    """

    def value(match: re.Match[str]) -> str:
        found = at(data, match[1])
        found = found.get("path") if isinstance(found, Mapping) else found
        written = _text(found) or match[0]
        budget.spend(len(written))
        return written

    return _INPUT.sub(value, text)


def _text(value: Json) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) if isinstance(value, str) or abs(value) < _LARGEST else None


_LARGEST = 10**9


def _count(value: Json) -> Json:
    """Number of devices in `A100:8` or `{A100: 8}`."""
    if isinstance(value, Mapping):
        return next(iter(value.values()), None)
    name, colon, count = value.partition(":") if isinstance(value, str) else ("", "", "")
    return count if colon else "1" if name else None


def _replicas(value: Json) -> Json:
    """A number, or the sum of `replicas` over all replica specs of a job."""
    if not isinstance(value, Mapping):
        return value
    counts = [each.get("replicas", 1) for each in value.values() if isinstance(each, Mapping)]
    known = [count for count in counts if type(count) is int]
    return sum(known) if known and len(known) == len(counts) else None


# Config that OpenRLHF builds from its flags; it reads no file.
#
# Source: OpenRLHF 0.11 utils/deepspeed/deepspeed_utils.py, get_train_ds_config; deepspeed.py,
# DeepspeedStrategy.get_ds_train_config; flags of older releases: 0.8 cli/train_sft.py.


def config(flags: Mapping[str, Json]) -> JsonObject:
    """The config of an OpenRLHF job; flags with unknown values keep DeepSpeed's defaults."""

    def flag(default: Json, *names: str) -> Json:
        return next((plain(flags[name]) for name in names if flags.get(name) is not None), default)

    stage = flag(2, "ds.zero_stage", "zero_stage")
    dtype = flag("bf16", "ds.param_dtype", "param_dtype")
    ring = flag(1, "ds.ring_attn_size", "ring_attn_size")
    tensor = flag(1, "ds.tensor_parallel_size", "ds_tensor_parallel_size")
    zero: JsonObject = {
        "stage": stage,
        "offload_param": {"device": "none"},
        "offload_optimizer": {
            "device": "cpu" if flag(False, "ds.adam_offload", "adam_offload") else "none",
            "pin_memory": True,
        },
        "zero_hpz_partition_size": flag(1, "ds.zpg", "zpg"),
    }
    if flag(False, "ds.overlap_comm", "overlap_comm"):
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        zero["reduce_scatter"] = True
    made: JsonObject = {
        "zero_optimization": zero,
        "bf16": {"enabled": dtype == "bf16"},
        "fp16": {"enabled": dtype == "fp16"},
        "gradient_clipping": flag(1.0, "max_norm", "adam.max_norm"),
    }
    if tensor != 1:
        made["tensor_parallel"] = {"autotp_size": tensor}
    batch = flag(None, "train.batch_size", "train_batch_size")
    micro = flag(None, "train.micro_batch_size", "micro_train_batch_size")
    if flag(False, "train.dynamic_batch_enable", "use_dynamic_batch"):
        return made | {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    if micro is not None:
        made["train_micro_batch_size_per_gpu"] = micro
    # Ring-attention and tensor-parallel ranks share samples, but DeepSpeed divides the batch by all ranks:
    # get_ds_train_config multiplies it to compensate.
    if batch is not None and all(type(each) is int for each in (batch, ring, tensor)):
        made["train_batch_size"] = batch * ring * tensor
    return made
