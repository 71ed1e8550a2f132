"""Which texts are any business of this server: an editor may hand over every JSON and YAML file there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.checking.circumstances import foreign
from dsconfig.checking.discover import reads_as_config
from dsconfig.consumers.launchers.table import SCRIPTS
from dsconfig.consumers.mentions import launchers_of
from dsconfig.consumers.own_words import KEY
from dsconfig.evaluation.recognition import may_be_named

if TYPE_CHECKING:
    from dsconfig.lsp.texts import OpenText

LANGUAGES = "deepspeed"
"""How an editor's names of our languages begin: who chooses one means it."""
_MEANT = (f'"{KEY}"'.encode(), b"deepspeed.schema.json", b"dsconfig:")


def is_ours(text: OpenText) -> bool:
    """Whether a text is a config, or a launch file that leads to one, or is about to become one."""
    if text.language.startswith(LANGUAGES):
        return True
    data = text.text.encode("utf-8", "surrogatepass")
    if text.name.endswith(SCRIPTS):
        return b"deepspeed" in data and not foreign(text.document)
    if any(word in data for word in _MEANT):
        return True
    if reads_as_config(text.name, data, yaml=text.yaml):
        return True
    named = may_be_named(data) and not text.name.startswith("<")
    return named and bool(launchers_of(text.name)) and not foreign(text.document)
