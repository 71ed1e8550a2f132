"""Extract the commands from job manifests, Makefiles and Dockerfiles, with their variables and GPU counts.

Commands from Makefiles and Dockerfiles keep their line numbers in the file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from dsconfig.core.json_types import Json, value_at_dotted_path
from dsconfig.launch.launch_file_formats import DEBUGGER, JUSTFILES, LaunchFileFormat
from dsconfig.launch.launcher_call import MPI_SLOTS, MPI_WORKERS, NODE_GPUS
from dsconfig.launch.repository_files import ReadingBudget

_KUBERNETES_VARIABLE = re.compile(r"\$\((\w+)\)")


def commands_of(value: Json, *, lists_commands: bool = False) -> Iterator[str]:
    """Yield the commands in a manifest value; a list of words is one command, to which `args` is appended.

    If `lists_commands`, each item of a list is a command. The environment variables and GPUs that the manifest sets for
    a command are prepended as assignments.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and lists_commands and all(isinstance(each, str) for each in value):
        yield from (each for each in value if isinstance(each, str))
    elif isinstance(value, list) and all(isinstance(word, str | int | float) for word in value):
        yield _join_command_words(value)
    elif isinstance(value, dict):
        command, args = value.get("command"), value.get("args")
        yield from (
            f"export {each}" for key in _ENVIRONMENT for each in _environment_assignments(value.get(key))
        )
        if "command" in value or "args" in value or "entrypoint" in value:
            yield f"export {NODE_GPUS}={_gpu_count(value) or ''}"
        if isinstance(command, list) and isinstance(args, list):
            yield _join_command_words([*command, *args])
        for key, each in value.items():
            if key not in _ENVIRONMENT and not (
                key in ("command", "args") and isinstance(each, list) and command and args
            ):
                yield from commands_of(each, lists_commands=lists_commands)
    elif isinstance(value, list):
        for each in value:
            yield from commands_of(each, lists_commands=lists_commands)


def commands_of_section(launch_format: LaunchFileFormat, section: Json) -> Iterator[str]:
    """Yield the commands in a section of a manifest, in the syntax of its format."""
    if launch_format.name == DEBUGGER:
        return commands_of_debugger(section)
    return commands_of(section, lists_commands=launch_format.lists_commands)


def commands_of_debugger(configurations: Json) -> Iterator[str]:
    """Yield the commands of the debug configurations of Visual Studio Code that start a Python program.

    Source: vscode-python-debugger package.json, the properties of a `launch` request.
    """
    for each in configurations if isinstance(configurations, list) else ():
        if (
            not isinstance(each, dict)
            or each.get("request") != "launch"
            or each.get("type") not in _DEBUGGERS
        ):
            continue
        program, arguments = each.get("program"), each.get("args")
        if isinstance(module := each.get("module"), str):
            start: list[Json] = ["python", "-m", module]
        elif isinstance(program, str) and "${file" not in program:
            # The program may be the launcher itself: `/opt/env/bin/deepspeed`.
            start = ["python", program] if program.endswith(".py") else [program]
        else:
            continue
        words = [*start, *(arguments if isinstance(arguments, list) else [])]
        if not all(isinstance(word, str | int | float) for word in words):
            continue
        variables = " ".join(_environment_assignments(each.get("env")))
        text = arguments if isinstance(arguments, str) else ""
        command = " ".join(part for part in (variables, _join_command_words(words), text) if part)
        yield _WORKSPACE.sub("./", command)


_DEBUGGERS = ("debugpy", "python")
_WORKSPACE = re.compile(r"\$\{workspace(?:Folder|Root)\}/?")
_ENVIRONMENT = ("env", "environment")
"""Keys with environment variables of a command: `env` in Kubernetes and GitHub Actions, else Docker Compose."""


_GPU_LIMITS = ("nvidia.com/gpu", "amd.com/gpu")


def _gpu_count(container: Mapping[str, Json]) -> int | None:
    """Return the number of GPUs from Kubernetes limits or Docker Compose reservations, or None if unknown."""
    limits = value_at_dotted_path(container, "resources.limits")
    devices = value_at_dotted_path(container, "deploy.resources.reservations.devices")
    count: Json = None
    if isinstance(limits, Mapping):
        count = next((limits[name] for name in _GPU_LIMITS if name in limits), None)
    elif isinstance(devices, list) and len(devices) == 1 and isinstance(devices[0], Mapping):
        names = devices[0].get("device_ids")
        count = len(names) if isinstance(names, list) else devices[0].get("count")
    text = _scalar_as_text(count) or ""
    return int(text) if text.isdecimal() else None


def _environment_assignments(value: Json) -> Iterator[str]:
    """Yield the variables in a mapping, a list of `NAME=value`, or a list of objects with `name` and `value`."""
    if isinstance(value, dict):
        yield from (
            f"{name}={shlex.quote(str(each))}" for name, each in value.items() if isinstance(each, str | int)
        )
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("value"), str | int):
            yield f"{entry.get('name')}={shlex.quote(str(entry['value']))}"
        elif isinstance(entry, str) and "=" in entry:
            name, _, text = entry.partition("=")
            yield f"{name}={shlex.quote(text)}"


def _join_command_words(words: list[Json]) -> str:
    """Join the words of a command, converting Kubernetes variables such as `$(NAME)` to shell syntax."""
    texts = [
        _KUBERNETES_VARIABLE.sub(r"${\1}", word) if isinstance(word, str) else json.dumps(word)
        for word in words
    ]
    return " ".join(text if re.fullmatch(r"[\w./:=,@%+${}-]+", text) else shlex.quote(text) for text in texts)


# Variables that a manifest sets for its commands.

_INPUT = re.compile(r"\$\{\{\s*([\w.]{1,99})\s*\}\}")


def manifest_environment_variables(
    launch_format: LaunchFileFormat, data: Mapping[str, Json]
) -> dict[str, str]:
    """Return the environment variables that a manifest sets, and those that its program sets."""
    mappings = (value_at_dotted_path(data, key) for key in launch_format.environment)
    entries = (each for holder in mappings if isinstance(holder, Mapping) for each in holder.items())
    variables = {name: text for name, value in entries if (text := _scalar_as_text(value)) is not None}
    for name, key in launch_format.variables.items():
        value = next(
            (
                launch_format
                for each in key.split("|")
                if (launch_format := value_at_dotted_path(data, each)) is not None
            ),
            None,
        )
        count = _count_devices(value) if key.endswith("accelerators") else _count_replicas(value)
        if (text := _scalar_as_text(count)) is not None and not _is_elastic_pytorchjob(data):
            variables.setdefault(name, text)
        elif value is not None and name not in variables:
            variables[name] = f"${name}"  # it will be set, but its value is unknown before the run
    if data.get("kind") in ("PyTorchJob", "TrainJob"):
        # kubeflow training-operator pkg/controller.v1/pytorch/envvar.go; trainer pkg/runtime/framework/plugins/torch.
        variables.setdefault("PET_MASTER_ADDR", "$PET_MASTER_ADDR")
    if (workers := value_at_dotted_path(data, "spec.mpiReplicaSpecs.Worker")) and value_at_dotted_path(
        data, "spec.runLauncherAsWorker"
    ) is None:
        counts = (
            value_at_dotted_path(workers, "replicas"),
            value_at_dotted_path(data, "spec.slotsPerWorker"),
        )
        texts = [_scalar_as_text(1 if each is None else each) for each in counts]
        variables |= {name: text for name, text in zip((MPI_WORKERS, MPI_SLOTS), texts, strict=True) if text}
    if data.get("kind") == "TrainJob":  # without `numNodes` the training runtime decides
        variables.setdefault("PET_NNODES", "$PET_NNODES")
    return variables


def _is_elastic_pytorchjob(data: Mapping[str, Json]) -> bool:
    """Return whether a PyTorchJob has a variable number of nodes, which makes `PET_NNODES` a range.

    Source: kubeflow training-operator pkg/controller.v1/pytorch/envvar.go.
    """
    policy = value_at_dotted_path(data, "spec.elasticPolicy")
    if not isinstance(policy, Mapping):
        return False
    return policy.get("minReplicas") != policy.get("maxReplicas") or policy.get("minReplicas") is None


def expand_azure_inputs(text: str, data: Mapping[str, Json], budget: ReadingBudget) -> str:
    """Expand references such as `${{inputs.name}}` in an Azure ML command.

    Raises:
        BudgetExceededError: the text exceeds the budget.
    """

    def input_value(match: re.Match[str]) -> str:
        entry = value_at_dotted_path(data, match[1])
        entry = entry.get("path") if isinstance(entry, Mapping) else entry
        replacement = _scalar_as_text(entry) or match[0]
        budget.spend(len(replacement))
        return replacement

    return _INPUT.sub(input_value, text)


def _scalar_as_text(value: Json) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) if isinstance(value, str) or abs(value) < _MAX_NUMBER else None


_MAX_NUMBER = 10**9


def _count_devices(value: Json) -> Json:
    """Return the number of devices in a value such as `A100:8` or `{A100: 8}`."""
    if isinstance(value, Mapping):
        return next(iter(value.values()), None)
    name, colon, count = value.partition(":") if isinstance(value, str) else ("", "", "")
    return count if colon else "1" if name else None


def _count_replicas(value: Json) -> Json:
    """Return the number of replicas: `value` itself if it is a number, otherwise the sum over all replica specs."""
    if not isinstance(value, Mapping):
        return value
    counts = [each.get("replicas", 1) for each in value.values() if isinstance(each, Mapping)]
    integers = [count for count in counts if type(count) is int]
    return sum(integers) if integers and len(integers) == len(counts) else None


_MAKE_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*(?::{0,3}=|\?=)\s*(.*)")
_MAKE_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_INSTRUCTION = re.compile(r"\s*(ENV|ARG|CMD|ENTRYPOINT)\s+(.*)", re.IGNORECASE | re.DOTALL)


def extract_shell_commands(name: str, text: str) -> str:
    """Return the shell commands of a script, Makefile or Dockerfile."""
    base = name.rpartition("/")[2]
    if base.lower() in JUSTFILES:
        return _justfile_recipes(text)
    if base.lower().endswith("makefile") or base.endswith(".mk"):
        return _makefile_recipes(text)
    if "dockerfile" in base.lower() or "containerfile" in base.lower():
        return _dockerfile_commands(text)
    return text


def _makefile_recipes(text: str) -> str:
    """Return the recipes of a Makefile as shell text that runs each line in its own shell."""
    lines: list[str] = []
    continues = in_recipe = False
    for line in text.split("\n"):
        ends_open = line.rstrip("\r").endswith("\\")
        if line.startswith("\t") or (continues and in_recipe):
            body = line.strip("\r").lstrip("\t" if continues else "\t @-+")
            body = _MAKE_VARIABLE.sub(r"${\1}", body.replace("$$", "\0")).replace("\0", "$")
            is_first, in_recipe = not (continues and in_recipe), True
            comment = body.lstrip().startswith("#")
            lines.append("" if comment else f"{'( ' * is_first}{body}{' )' * (not ends_open)}")
        else:
            match = _MAKE_ASSIGNMENT.fullmatch(line.strip())
            in_recipe = False
            # A value with blanks or calls of functions is unknown to a shell, but plain words are not.
            is_plain = match is not None and not re.search(r"[$()#\\]", _MAKE_VARIABLE.sub("", match[2]))
            value = _MAKE_VARIABLE.sub(r"${\1}", match[2]) if match else ""
            quote = shlex.quote(value) if "$" not in value else f'"{value}"'
            lines.append(f"{match[1]}={quote}" if match and is_plain else "")
        continues = ends_open
    return "\n".join(lines)


_JUST_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*([\"'])(.*)\2")
_JUST_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*)\s*\}\}")
_JUST_EXPRESSION = re.compile(r"\{\{.*?\}\}")


def _justfile_recipes(text: str) -> str:
    """Return the recipes of a justfile as shell text in which each line runs in its own shell.

    A recipe that starts with `#!` is one script. Source: just manual, "Recipe Lines" and "Shebang Recipes".
    """
    lines: list[str] = []
    is_script = continues = False
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped and not line[:1].isspace():
            match = _JUST_ASSIGNMENT.fullmatch(stripped)
            assignment = f"{match[1].replace('-', '_')}={shlex.quote(match[3])}" if match else ""
            lines.append(f") {assignment and '; '}{assignment}" if is_script else assignment)
            is_script = continues = False
            continue
        if stripped.startswith("#!"):
            is_script = True
            lines.append("(")
            continue
        body = _JUST_VARIABLE.sub(lambda each: f"${{{each[1].replace('-', '_')}}}", stripped.lstrip("@-"))
        body = "" if stripped.startswith("#") else _JUST_EXPRESSION.sub("${JUST_EXPRESSION}", body)
        ends_open = body.endswith("\\")
        opening, closing = "( " * (not continues), " )" * (not ends_open)
        lines.append(body if is_script or not body else f"{opening}{body}{closing}")
        continues = ends_open
    return "\n".join(lines) + "\n)" * is_script


def _dockerfile_commands(text: str) -> str:
    """Return the variables and the command of a Dockerfile as shell text, without its build steps."""
    lines: list[str] = []
    entry = ""
    pending, count = "", 0
    for line in text.split("\n"):
        if not pending and line.lstrip().startswith("#"):
            lines.append("")
            continue
        stripped = line.rstrip()
        pending += stripped.removesuffix("\\") + " "
        count += 1
        if stripped.endswith("\\"):
            continue
        match = _INSTRUCTION.fullmatch(pending.strip())
        command = ""
        if match is not None:
            kind, value = match[1].upper(), match[2].strip()
            if kind in ("ENV", "ARG"):
                assigned = value if "=" in value.split(maxsplit=1)[0] else "=".join(value.split(maxsplit=1))
                command = f"export {assigned}" if "=" in assigned else ""
            elif kind == "ENTRYPOINT":
                entry = command = _join_exec_form(value)
            else:
                # The words of CMD are the arguments of an entry point in exec form.
                command = (
                    f"{entry} {_join_exec_form(value)}".strip()
                    if value.startswith("[")
                    else _join_exec_form(value)
                )
        lines += [command, *[""] * (count - 1)]
        pending, count = "", 0
    return "\n".join(lines)


def _join_exec_form(value: str) -> str:
    """Convert a Dockerfile instruction in exec form (`["a", "b"]`) or shell form to a shell command."""
    if value.startswith("["):
        try:
            words = json.loads(value)
        except ValueError:
            return ""
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return shlex.join(words)
        return ""
    return value
