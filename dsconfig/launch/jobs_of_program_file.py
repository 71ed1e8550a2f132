"""Jobs of a Python program that names its config files itself, such as `TrainingArguments(deepspeed="ds.json")`."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.file_access import read_contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.document.config_file_names import is_notebook_name
from dsconfig.launch.config_source import parse_passed_config
from dsconfig.launch.launched_job import PROGRAM_FILE, LaunchedJob
from dsconfig.launch.program_text import read_program_text
from dsconfig.launch.python.calls_receiving_dict import consumer_of_argument
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, parse_module
from dsconfig.launch.repository_files import resolve_written_path

if TYPE_CHECKING:
    from dsconfig.document import Document

_BY_WEIGHT = ("transformers", "accelerate", "lightning", "deepspeed")
"""Consumers of a file that several calls receive, most decisive first: the Trainer fills Accelerate's dict."""
_PREPARES = "HfDeepSpeedConfig"
"""Call that prepares the loading of a model, whichever library trains the model."""
_LOADS = frozenset(("load", "loads", "safe_load", "full_load"))
"""Functions of `json`, `hjson` and `yaml` that return the content of a file."""
_OPENS = frozenset(("open", "read_text", "read", "Path", "str", "expanduser", "abspath", "resolve"))
"""Calls between the path of a file and the function that parses its content."""
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
        """Sort key; of the calls that receive one file, the one with the least key decides the consumer."""
        return self.function == _PREPARES, _BY_WEIGHT.index(self.consumer)


def jobs_of_program_file(program: Document, config_path: str | None = None) -> Iterator[LaunchedJob]:
    """Yield a job for each config file that a program without an embedded config passes to a consumer.

    The path is a constant in the call or of the file that the program parses. A path known only at run time, and a
    file that does not exist, give no job. `config_path`: real path of the only config whose jobs are needed.

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
    """Search for the path of the file that an expression names, or whose content it is."""

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
        """Return the only value of a variable, which `with open(path) as name` may bind as well."""
        bindings = self._names.bindings_of_name(name)
        item = self._names.parents.get(bindings[0].node) if len(bindings) == 1 else None
        return item.context_expr if isinstance(item, ast.withitem) else self._constants.only_binding_of(name)


def _is_program_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__file__"
