"""Editor commands that run `dsconfig` commands on the open document."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.lsp.protocol import REFUSED, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace

RESOLVE, COMPAT, MEMORY, SHOW, FIX = (
    f"dsconfig.{verb}" for verb in ("resolve", "compat", "memory", "show", "fix")
)
_NO_MODEL = """the model is unknown
help: set `model` in dsconfig.toml or in the config's "$dsconfig" to a name or the path to its config.json
"""


class CommandResult(NamedTuple):
    """The result of a command: a title, and a text in a language such as JSON."""

    title: str
    text: str
    language: str = "plaintext"

    def to_dict(self) -> JsonObject:
        """Return the result as JSON."""
        return self._asdict()


def answer_execute_command(workspace: Workspace, params: JsonObject) -> Json:
    """Answer `workspace/executeCommand`."""
    command, arguments = params["command"], params.get("arguments") or []
    run = COMMANDS.get(command)
    if run is None:
        raise RequestError(REFUSED, f"unknown command {command}")
    snapshot = workspace.snapshot(str(arguments[0])) if arguments else None
    if snapshot is None:
        raise RequestError(REFUSED, "no config is open at this URI")
    return _deliver_result(workspace, run(snapshot, arguments[1:]))


def _deliver_result(workspace: Workspace, result: CommandResult) -> JsonObject:
    """Return the result of a command, and show it if the editor does not show results itself."""
    if workspace.options.get("commands") != "return":
        workspace.show_text(result.title, result.text, result.language)
    return result.to_dict()


def _run_resolve(snapshot: DocumentSnapshot, arguments: list[Json]) -> CommandResult:
    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.resolve import resolve
    from dsconfig.resolve.resolved_run import run_lines

    size = _world_size_argument(snapshot, arguments)
    title = f"{_document_name(snapshot)} at world size {size}"
    try:
        run = resolve(
            snapshot.text.document,
            world_size=size,
            target=snapshot.report.target,
            consumer=snapshot.report.reader.explicit_consumer_spec,
        )
    except ResolveError as error:
        return CommandResult(title, f"{error}\n")
    lines = "".join(f"// {line}" for line in run_lines(run, TerminalStyle()))
    config = json.dumps(run.config, indent=2, ensure_ascii=False, default=str)
    return CommandResult(title, f"{lines}{config}\n", "jsonc")


def _run_compat(snapshot: DocumentSnapshot, _: list[Json]) -> CommandResult:
    from dsconfig.check.accepting_releases import compat, compat_table
    from dsconfig.render.terminal_style import TerminalStyle

    report = snapshot.report
    title = f"{_document_name(snapshot)}: releases"
    try:
        stretches = compat(snapshot.text.document, world_size=report.world_size, consumer=report.reader)
    except OSError as error:
        return CommandResult(title, f"{error}\n")
    return CommandResult(title, compat_table(stretches, TerminalStyle()))


def _run_memory(snapshot: DocumentSnapshot, arguments: list[Json]) -> CommandResult:
    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.memory import memory
    from dsconfig.resolve.memory_output import estimate_lines

    size = _world_size_argument(snapshot, arguments)
    model = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else snapshot.job_model
    if not model:
        return CommandResult(f"{_document_name(snapshot)}: memory", _NO_MODEL)
    title = f"{_document_name(snapshot)}: {model} at world size {size}"
    try:
        report = snapshot.report
        estimate = memory(
            snapshot.text.document,
            model=model,
            world_size=size,
            target=report.target,
            consumer=report.reader.explicit_consumer_spec,
        )
    except (ResolveError, OSError, ValueError) as error:
        return CommandResult(title, f"{error}\n")
    return CommandResult(title, f"model: {model}\n{''.join(estimate_lines(estimate, TerminalStyle()))}")


def _run_show(snapshot: DocumentSnapshot, arguments: list[Json]) -> CommandResult:
    from dsconfig.lsp.commented_effective_values import effective_values, values_as_commented_json

    title = f"{_document_name(snapshot)}: effective values"
    values = effective_values(snapshot, every=bool(arguments and arguments[0]))
    if values is None:
        return CommandResult(title, "DeepSpeed rejects the config\n")
    comments = "".join(f"// {message.kind}: {message.text}\n" for message in values.messages)
    return CommandResult(title, comments + values_as_commented_json(values.values), "jsonc")


def _run_fix(snapshot: DocumentSnapshot, arguments: list[Json]) -> CommandResult:
    from dsconfig.check.check import recheck_text
    from dsconfig.fix.apply_fixes import fix_document

    document: Document = snapshot.text.document
    result = fix_document(
        document, partial(recheck_text, snapshot.report), unsafe=bool(arguments and arguments[0])
    )
    return CommandResult(
        f"{len(result.applied)} fixed, {len(result.report)} left", result.text, document.format
    )


def _world_size_argument(snapshot: DocumentSnapshot, arguments: list[Json]) -> int:
    size = arguments[0] if arguments else None
    if size is None:
        return snapshot.likely_world_size
    if type(size) is not int or not 0 < size < 10**9:
        raise RequestError(REFUSED, f"world size {size!r}: expected a whole number above 0")
    return size


def _document_name(snapshot: DocumentSnapshot) -> str:
    return os.path.basename(snapshot.text.name.strip("<>"))


COMMANDS: Mapping[str, Callable[[DocumentSnapshot, list[Json]], CommandResult]] = {
    RESOLVE: _run_resolve,
    COMPAT: _run_compat,
    MEMORY: _run_memory,
    SHOW: _run_show,
    FIX: _run_fix,
}
"""Commands by name. The first argument of each is the URI of a document. `resolve` and `memory` also take the world
size, `memory` a model (default: that of the job), `show` whether to include every default, and `fix` whether to apply
unsafe fixes.
"""
