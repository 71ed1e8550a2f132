"""The keys of a text that its parser rejects, which say whether it was meant as a DeepSpeed config.

The object that is recovered from such a text is not enough: with a brace missing, the keys of a section stand
at the root, a quote that is never closed swallows a key, and of some texts nothing is recovered.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.model.keyinfo import ROOT, all_keys, section_keys

if TYPE_CHECKING:
    from dsconfig.document import Document

_KEY = re.compile(r"""(?<![\w.\\/$-])([A-Za-z_]\w*)["'\u201c\u201d]?[ \t]*[:={\[]""")
"""A key before its colon, or before the bracket of its value where the colon was forgotten."""
_MOST = 1000
"""Keys of a text that are looked at."""


def is_broken(document: Document) -> bool:
    """Whether the parser finds no object; Hjson reads some broken texts as a single string."""
    return not document.readable() or isinstance(document.value(), str)


def raw_keys(text: str) -> list[str]:
    """The keys of a text at any level, each once, in their order."""
    found: dict[str, None] = {}
    for match in _KEY.finditer(text):
        found[match[1]] = None
        if len(found) == _MOST:
            break
    return list(found)


def own_keys(keys: Collection[str]) -> list[str]:
    """The keys of a recovered root without those that may have slipped there out of a section."""
    return [key for key in keys if key not in _of_sections()]


def strangers(keys: Collection[str]) -> list[str]:
    """The keys that no section of any release has."""
    return [key for key in keys if key not in all_keys()]


@cache
def _of_sections() -> frozenset[str]:
    return all_keys() - section_keys(ROOT).keys()
