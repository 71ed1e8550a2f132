"""Commands: what the command line tells of a config, told of the text in the editor."""

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
    from dsconfig.lsp.workspace import Judged, Workspace

RESOLVE, COMPAT, MEMORY, SHOW, FIX = (
    f"dsconfig.{verb}" for verb in ("resolve", "compat", "memory", "show", "fix")
)
_NO_MODEL = """no model is named
help: name one in dsconfig.toml or in the config's "$dsconfig" ("model": a name, or its config.json's path)
"""
_GIB = 1 << 30


class Told(NamedTuple):
    """What a command has to tell: a text, its language, and a line about it."""

    title: str
    text: str
    language: str = "plaintext"

    def to_dict(self) -> JsonObject:
        """As the editor gets it."""
        return self._asdict()


def answer(workspace: Workspace, params: JsonObject) -> Json:
    """`workspace/executeCommand`."""
    command, arguments = params["command"], params.get("arguments") or []
    run = COMMANDS.get(command)
    if run is None:
        raise RequestError(REFUSED, f"there is no command {command}")
    judged = workspace.judged(str(arguments[0])) if arguments else None
    if judged is None:
        raise RequestError(REFUSED, "no config is open under this address")
    return _delivered(workspace, run(judged, arguments[1:]))


def _delivered(workspace: Workspace, told: Told) -> JsonObject:
    """Give the text back; an editor that does nothing with it is asked to show it."""
    if workspace.options.get("commands") != "return":
        workspace.show(told.title, told.text, told.language)
    return told.to_dict()


def _resolve(judged: Judged, arguments: list[Json]) -> Told:
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.resolve import resolve
    from dsconfig.resolve.run import run_lines

    size = _size(judged, arguments)
    title = f"{_name(judged)} at world size {size}"
    try:
        run = resolve(
            judged.text.document,
            world_size=size,
            target=judged.report.target,
            consumer=judged.report.reader.explicit_spec,
        )
    except ResolveError as error:
        return Told(title, f"{error}\n")
    lines = "".join(f"// {line}" for line in run_lines(run, Style()))
    config = json.dumps(run.config, indent=2, ensure_ascii=False, default=str)
    return Told(title, f"{lines}{config}\n", "jsonc")


def _compat(judged: Judged, _: list[Json]) -> Told:
    from dsconfig.check.compat import compat, table
    from dsconfig.render.terminal import Style

    report = judged.report
    title = f"{_name(judged)}: releases"
    try:
        stretches = compat(judged.text.document, world_size=report.world_size, consumer=report.reader)
    except OSError as error:
        return Told(title, f"{error}\n")
    return Told(title, table(stretches, Style()))


def _memory(judged: Judged, arguments: list[Json]) -> Told:
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.memory import memory
    from dsconfig.resolve.memory_output import Limits, text_lines

    size = _size(judged, arguments)
    model = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else judged.model
    if not model:
        return Told(f"{_name(judged)}: memory", _NO_MODEL)
    title = f"{_name(judged)}: {model} at world size {size}"
    try:
        report = judged.report
        found = memory(
            judged.text.document,
            model=model,
            world_size=size,
            target=report.target,
            consumer=report.reader.explicit_spec,
        )
    except (ResolveError, OSError, ValueError) as error:
        return Told(title, f"{error}\n")
    limits = Limits(None, None, 2 * _GIB)
    return Told(title, f"model: {model}\n{''.join(text_lines(found, limits, Style()))}")


def _show(judged: Judged, arguments: list[Json]) -> Told:
    from dsconfig.lsp.effective_values import nested, shown

    title = f"{_name(judged)}: effective values"
    found = shown(judged, every=bool(arguments and arguments[0]))
    if found is None:
        return Told(title, "the release refuses the config\n")
    remarks = "".join(f"// {each.kind}: {each.text}\n" for each in found.messages)
    return Told(title, remarks + nested(found.values), "jsonc")


def _fix(judged: Judged, arguments: list[Json]) -> Told:
    from dsconfig.check.check import recheck
    from dsconfig.fix.fix import fix_document

    document: Document = judged.text.document
    done = fix_document(document, partial(recheck, judged.report), unsafe=bool(arguments and arguments[0]))
    return Told(f"{len(done.applied)} fixed, {len(done.report)} left", done.text, document.format)


def _size(judged: Judged, arguments: list[Json]) -> int:
    asked = arguments[0] if arguments else None
    if asked is None:
        return judged.likely_world_size
    if type(asked) is not int or not 0 < asked < 10**9:
        raise RequestError(REFUSED, f"world size {asked!r}: expected a whole number above 0")
    return asked


def _name(judged: Judged) -> str:
    return os.path.basename(judged.text.name.strip("<>"))


COMMANDS: Mapping[str, Callable[[Judged, list[Json]], Told]] = {
    RESOLVE: _resolve,
    COMPAT: _compat,
    MEMORY: _memory,
    SHOW: _show,
    FIX: _fix,
}
"""Each command, whose first argument is the address of a text. Then come: of `resolve` and `memory` the world
size, of `memory` a model (else the one that somebody names), of `show` whether every default is told,
of `fix` whether unsafe fixes are made.
"""
