"""Find the config file whose path a Python program passes to a consumer."""

from __future__ import annotations

import ast
import os

from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document
from dsconfig.document.config_file_names import is_python_name
from dsconfig.launch.config_loaded_by_program import config_arguments_of_call
from dsconfig.launch.config_source import read_config_at_path
from dsconfig.launch.program_text import read_program_text
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.syntax_trees import (
    ParsedModule,
    ProgramRepository,
    called_function_name,
    parse_module,
)
from dsconfig.launch.repository_files import resolve_written_path


class ConfigNamedByProgram(NamedTuple):
    """A config file and a message that points to the call that receives its path."""

    document: Document
    note: str
    """Message about the call: `train.py:4: HfDeepSpeedConfig reads ds.json`."""


def config_named_by_program(program: Document) -> ConfigNamedByProgram | None:
    """Return the config file that a program passes to a consumer, or None unless there is exactly one.

    The path is a constant in the call, or a variable that is bound only once. A path known only at run time is not
    followed.

    Raises:
        OSError: the config cannot be read.
    """
    if not is_python_name(program.name) or program.is_in_program or program.name.startswith("<"):
        return None
    try:
        text = read_program_text(program.text, program.name).text
    except (SyntaxError, ValueError):  # not valid Python, or not readable as a notebook
        return None
    module = parse_module(os.path.abspath(program.name), text.encode("utf-8", "replace"))
    named = {} if module is None else dict(_named_paths(module))
    calls = {
        lookup.path: call
        for written, call in named.items()
        if (lookup := resolve_written_path(written, program.name)).path is not None
    }
    if module is None or len(calls) != 1:
        return None
    ((path, call),) = calls.items()
    note = f"{module.shown_location(call)}: `{called_function_name(call)}` reads {os.path.relpath(path)}"
    return ConfigNamedByProgram(read_config_at_path(path), note)


def _named_paths(module: ParsedModule) -> list[tuple[str, ast.Call]]:
    """Return each path that a call passes as a config, together with the call."""
    constants = ConstantEvaluator(module, ProgramRepository(module.path))
    paths = []
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        for argument in config_arguments_of_call(call):
            path = constants.evaluate_constant(argument)
            if isinstance(path, str) and "{" not in path:
                paths.append((path, call))
    return paths
