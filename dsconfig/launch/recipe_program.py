"""The program that is given a launch file with training arguments: `train.py recipe.yaml`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dsconfig.core.file_bytes import contents
from dsconfig.core.json_types import Json
from dsconfig.core.read_boundary import is_own, root
from dsconfig.job.detect_consumer import Given
from dsconfig.launch.config_search import search
from dsconfig.launch.format_row import Format
from dsconfig.launch.program_arguments import ProgramArguments, arguments_in, together
from dsconfig.launch.repository import tick
from dsconfig.launch.training_arguments import given

_LARGEST, _MOST, _MOST_FOLDERS = 64 * 1024, 100, 6
_PARSES = re.compile(rb"\b(?:Hf|H4|Trl)\w*Parser\b")


def given_by_program(found: Format, data: Mapping[str, Json], launch: str) -> Given:
    """What a launch file gives, and its program where the launch file gives nothing."""
    known = None if launch.startswith("<") else _of_programs(os.path.abspath(launch), tick())
    if known is None:
        return given(found, data)
    defaults = {**known.defaults, **dict.fromkeys(known.changed)}
    written = {name: value for name, value in data.items() if name not in known.changed}
    if "fp16" in written and "bf16" not in written and defaults.get("bf16") is True:
        defaults["bf16"] = not written["fp16"]  # TRL: on unless `fp16` is
    return given(found._replace(defaults=defaults), written)._replace(note=known.note)


@lru_cache(maxsize=64)
def _of_programs(launch: str, _: int) -> ProgramArguments | None:
    """The training arguments of the programs that may be given the launch file; None: there is none."""
    texts = list(_texts(launch))
    base = re.escape(os.path.basename(launch).encode())
    # With limits, so that a text of names alone takes no longer than others.
    command = re.compile(rb"(?<![\w./-])([\w./-]{1,300}\.py)\b(?:[^\n;&|]|\\\n){0,1000}?[\s/=\"']%b\b" % base)
    named = {
        place.path
        for path, data in texts
        for match in command.finditer(data)
        if (place := search(match[1].decode(), path)).path is not None
    }
    parsing = {path for path, data in texts if path.endswith(".py") and _PARSES.search(data)}
    found = [
        known
        for program in sorted(path for path in named or parsing if path is not None)
        if (known := arguments_in(program, launch, {})) is not None and not known.is_code
    ]
    return together(found) if found else None


def _texts(launch: str) -> Iterator[tuple[str, bytes]]:
    """The scripts and programs in the folder of a launch file, and in those above it in its repository."""
    folder = os.path.dirname(launch)
    top = root(folder)
    for _ in range(_MOST_FOLDERS):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            names = []
        names = [name for name in names if name.endswith((".py", ".sh", ".md")) or name == "Makefile"]
        for path in (os.path.join(folder, name) for name in names[:_MOST]):
            if is_own(path):
                try:
                    yield path, contents(path, _LARGEST)
                except OSError:
                    continue
        if top is None or folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)
