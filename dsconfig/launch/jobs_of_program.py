"""Find the jobs of a Python program: the config files that it names, and the configs that it builds as dicts."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core.file_access import read_contents, relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import read_dict, read_file
from dsconfig.document.config_file_names import is_notebook_name
from dsconfig.job.consumers import INFERENCE
from dsconfig.launch.config_source import parse_passed_config
from dsconfig.launch.launch_commands import names_other_config
from dsconfig.launch.launch_file_formats import PROGRAM_FILE
from dsconfig.launch.launched_job import PROGRAM, LaunchedJob
from dsconfig.launch.program_text import MAX_SIZE, read_program_text
from dsconfig.launch.python.calls_receiving_dict import consumer_of_argument
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, parse_module
from dsconfig.launch.repository_files import python_files_of_repository, resolve_written_path, time_cache_key

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.launch.launch_commands import LaunchCommand
    from dsconfig.launch.launch_file_formats import LaunchFileFormat
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.python.interpreted_values import ValueOrigin


# Programs that name their config files, such as `TrainingArguments(deepspeed="ds.json")`.

_BY_WEIGHT = ("transformers", "accelerate", "lightning", "deepspeed", INFERENCE)
"""Consumers of a file that several calls receive, most decisive first: the Trainer fills Accelerate's dict."""
_PREPARES = "HfDeepSpeedConfig"
"""Call that prepares the loading of a model, whichever library trains the model."""
_LOADS = frozenset(("load", "loads", "safe_load", "full_load"))
"""Functions of `json`, `hjson` and `yaml` that return the content of a file."""
_OPENS = frozenset(("open", "read_text", "read", "Path", "str", "expanduser", "abspath", "resolve"))
"""Calls between the path to a file and the function that parses its content."""
_MOST_STEPS = 10


class _NamedConfig(NamedTuple):
    """A config file that a call receives."""

    written: str
    """Path of the file as written in the program."""
    consumer: str
    call: ast.Call
    function: str

    @property
    def weight(self) -> tuple[bool, int]:
        """Sort key: the call with the smallest weight decides the consumer of a file that several calls receive."""
        return self.function == _PREPARES, _BY_WEIGHT.index(self.consumer)


def jobs_of_program_file(program: Document, config_path: str | None = None) -> Iterator[LaunchedJob]:
    """Yield a job for each config file that a program without an embedded config passes to a consumer.

    There is no job for a path known only at run time, or for a file that does not exist. `config_path` is the real path
    of the only config whose jobs are needed.

    Raises:
        OSError: a config cannot be read.
    """
    if program.is_in_program or program.name.startswith("<"):
        return
    try:
        text = read_program_text(program.text, program.name).text
    except (SyntaxError, ValueError):  # not valid Python, or not readable as a notebook
        return
    module = parse_module(os.path.abspath(program.name), text.encode("utf-8", "replace"))
    strongest: dict[str, _NamedConfig] = {}
    for named in () if module is None else _named_configs(module):
        lookup = resolve_written_path(named.written, program.name)
        path = None if lookup.path is None else os.path.realpath(lookup.path)
        if path is not None and config_path in (None, path):
            strongest[path] = min(strongest.get(path, named), named, key=lambda each: each.weight)
    for named in strongest.values():
        lookup = resolve_written_path(named.written, program.name)
        assert lookup.path is not None
        yield LaunchedJob(
            PROGRAM_FILE._replace(reader=named.consumer),
            program,
            named.written,
            named.function,
            parse_passed_config(read_contents(lookup.path), lookup.path, named.consumer),
            lookup,
            None,
            None,
            line=None if is_notebook_name(program.name) else named.call.lineno,
            arguments={},
            program_file=os.path.basename(program.name),
        )


def _named_configs(module: ParsedModule) -> Iterator[_NamedConfig]:
    """Yield each config file that a call of the module receives, in source order."""
    repository = ProgramRepository(module.path)
    search = _PathSearch(module, ConstantEvaluator(module, repository))
    for call in sorted(module.names.calls, key=lambda each: (each.lineno, each.col_offset)):
        arguments: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
        arguments += [(each.arg or "", each.value) for each in call.keywords]
        for key, argument in arguments:
            consumer = consumer_of_argument(repository, module, call, key)
            # dsconfig does not know which keys Lightning's Fabric fills in.
            if consumer in _BY_WEIGHT and (written := search.path_behind(argument)):
                yield _NamedConfig(written, consumer, call, last_dotted_name(call.func))


class _PathSearch:
    """Search for the path to the file that an expression names, or whose content the expression is."""

    def __init__(self, module: ParsedModule, constants: ConstantEvaluator) -> None:
        self._names, self._constants = module.names, constants

    def path_behind(self, value: ast.expr | None, steps: int = 0) -> str:
        """Return the path behind an expression, or an empty string if it is known only at run time."""
        if value is None or steps > _MOST_STEPS:
            return ""
        constant = self._constants.evaluate_constant(value)
        if isinstance(constant, str):
            return constant if "{" not in constant else ""
        if isinstance(value, ast.Name):
            return self.path_behind(self._only_value_of(value), steps + 1)
        if isinstance(value, ast.BinOp) and isinstance(
            value.op, ast.Div
        ):  # Path(__file__).parent / "ds.json"
            parts = [value.left, value.right]
        elif isinstance(value, ast.Call) and last_dotted_name(value.func) == "join":
            parts = value.args
        elif isinstance(value, ast.Call) and last_dotted_name(value.func) in (*_LOADS, *_OPENS):
            receiver = value.func.value if isinstance(value.func, ast.Attribute) else None
            return self.path_behind(value.args[0] if value.args else receiver, steps + 1)
        else:
            return ""
        # The folder of the program, in which a written path is searched for anyway.
        known = [each for each in parts if not any(_is_program_path(node) for node in ast.walk(each))]
        paths = [self.path_behind(each, steps + 1) for each in known]
        return os.path.join(*paths) if paths and all(paths) else ""

    def _only_value_of(self, name: ast.Name) -> ast.expr | None:
        """Return the only value of a variable, which may also be bound by `with open(path) as name`."""
        bindings = self._names.bindings_of_name(name)
        item = self._names.parents.get(bindings[0].node) if len(bindings) == 1 else None
        return item.context_expr if isinstance(item, ast.withitem) else self._constants.only_binding_of(name)


def _is_program_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__file__"


# Jobs of commands whose program names or builds its config, such as `deepspeed main.py --zero_stage 3`.

_RECEIVES_CONFIG = (
    b"deepspeed.initialize",
    b"init_inference",
    b"deepspeed=",
    b"DeepSpeedPlugin",
    b"hf_ds_config",
)
"""Words at least one of which occurs in every program that passes a dict to a consumer."""


def jobs_with_built_configs(
    launch_format: LaunchFileFormat, launch: Document, command: LaunchCommand
) -> Iterator[LaunchedJob]:
    """Yield a job for each config that the program of a command builds."""
    path = resolve_written_path(command.program_file, launch.name, command.folder).path
    if path is None or not _may_pass_config(os.path.abspath(path), time_cache_key()):
        return
    from dsconfig.launch.python.built_configs import configs_built_by_program

    for config in configs_built_by_program(path, command):
        job_format = launch_format._replace(name=config.location, reader=config.consumer, builds=PROGRAM)
        document = None
        if config.value is not None:
            document = read_dict(config.value, f"{launch.name}: {config.location}")
        job = command.job_without_config(job_format, launch, job_format._replace(arguments_key=""))
        yield job._replace(
            reference=config.location,
            key=command.program_file,
            document=document,
            source=None if config.literal is None else _document_of_dict(config.literal),
        )


def jobs_with_named_configs(
    launch: Document, command: LaunchCommand, config_path: str | None = None
) -> Iterator[LaunchedJob]:
    """Yield a job for each config file that the program of a command names itself.

    `config_path` is the real path of the only config whose jobs are needed.

    Raises:
        OSError: a config cannot be read.
    """
    path = resolve_written_path(command.program_file, launch.name, command.folder).path
    if path is None or not _may_pass_config(os.path.abspath(path), time_cache_key()):
        return
    program = read_file(path)
    for each in jobs_of_program_file(program, config_path):
        if each.document is None or names_other_config(command, each.document.name):
            continue
        job = command.job_without_config(each.format, launch, each.format._replace(arguments_key=""))
        yield job._replace(reference=each.reference, key=each.key, document=each.document, lookup=each.lookup)


def _document_of_dict(literal: ValueOrigin) -> Document | None:
    """Return a dict literal of a program as a config, or None if it has too few config keys."""
    from dsconfig.launch.python.config_dicts import config_documents_in_source

    path = literal.module.path
    try:
        documents = config_documents_in_source(read_contents(path, MAX_SIZE), relative_path(path))
    except OSError:
        return None
    line = literal.node.lineno
    return next(
        (each for each in documents if each.root and each.position(each.root.span.start).line == line), None
    )


@lru_cache(maxsize=64)
def _may_pass_config(program: str, _: int) -> bool:
    """Return whether a program, or a module that it imports, mentions a function that receives configs.

    The result is cached, because the scripts of a repository often start the same program dozens of times.
    """
    try:
        data = read_contents(program, MAX_SIZE)
    except OSError:
        return False
    if any(word in data for word in _RECEIVES_CONFIG):
        return True
    return b"import" in data and any(
        word in text for _, text in python_files_of_repository(program) for word in _RECEIVES_CONFIG
    )
