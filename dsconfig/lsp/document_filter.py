"""Which texts are any business of this server: an editor may hand over every JSON and YAML file there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsconfig.check.build_job import foreign
from dsconfig.check.discover import reads_as_config
from dsconfig.job.dsconfig_block import KEY
from dsconfig.launch.config_references import launchers_of
from dsconfig.launch.detect_config import may_be_named
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.lsp import detect_new_config

if TYPE_CHECKING:
    from dsconfig.lsp.open_documents import OpenText

LANGUAGES = "deepspeed"
"""How an editor's names of our languages begin: who chooses one means it."""
_MEANT = re.compile(rf"""["']{re.escape(KEY)}["']|dsconfig:""".encode())
"""What a text says of itself: our block, or a comment for us."""
_SCHEMA = re.compile(rb"\$schema\b.{0,3}[:=]")
_NAME = re.compile(rb"[\w.-]+")
_SCHEMAS = re.compile(rb"\b(?:deepspeed|accelerate)")
"""How the names of our schemas begin, wherever those are kept."""


def is_ours(text: OpenText) -> bool:
    """Whether a text is a config, or a launch file that leads to one, or is about to become one."""
    if text.language.startswith(LANGUAGES):
        return True
    data = text.text.encode("utf-8", "surrogatepass")
    if text.name.endswith(SCRIPTS):
        return b"deepspeed" in data and not foreign(text.document)
    if (
        _MEANT.search(data)
        or _has_schema(data)
        or reads_as_config(text.name, data, yaml=text.yaml)
        or detect_new_config.holds_config(text)
    ):
        return True
    named = may_be_named(data) and not text.name.startswith("<")
    return named and bool(launchers_of(text.name)) and not foreign(text.document)


def _has_schema(data: bytes) -> bool:
    """Whether a text says that one of our schemas is its own."""
    for line in data.split(b"\n") if b"$schema" in data else ():
        if key := _SCHEMA.search(line):
            for name in _NAME.finditer(line, key.end()):
                begin = _SCHEMAS.search(name[0])
                if begin and b".json" in name[0][begin.end() :]:
                    return True
    return False
