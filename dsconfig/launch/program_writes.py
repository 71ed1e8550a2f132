"""What a program of the repository writes into a config before DeepSpeed sees it."""

from __future__ import annotations

import os
import re

from dsconfig.consumers.boundary import root
from dsconfig.launch.config_references import may_be
from dsconfig.launch.repository import texts

_BUILDS = b"deepspeed.initialize"
_LONGEST = 300
"""Characters of the folders of a name."""


def writes(name: str, section: str, key: str) -> bool:
    """Whether a program that reads the config at a path writes this key of this section itself.

    A length that only the data tell, such as `total_num_steps`, is often put in between the reading of the
    file and `deepspeed.initialize`: what DeepSpeed gets is whole, though the file is not.
    """
    if name.startswith("<") or not name:
        return False
    path = os.path.abspath(name)
    folder = os.path.dirname(path)
    top = root(folder)
    known = texts(top or folder, path, deep=top is not None)
    programs = [
        program
        for program, data in known
        if program.endswith(".py") and _BUILDS in data and _is_written(data, section, key)
    ]
    return any(_reads(program, path, known) for program in programs)


def _is_written(data: bytes, section: str, key: str) -> bool:
    """Whether a program assigns the key, or has it in a literal and names the section: a log has it, too."""
    word, line = re.escape(key.encode()), rb"(?m)^[^#\n]*"
    if word not in data:
        return False
    if re.search(line + rb"[\"']%b[\"']\s*\]\s*=(?!=)" % word, data):
        return True
    if not re.search(rb"[\"']%b[\"']" % section.encode(), data):
        return False
    literal = rb"(?:[\"']%b[\"']\s*:|\bsetdefault\(\s*[\"']%b[\"']\s*,|\bupdate\(%b=)" % (word, word, word)
    return re.search(line + literal, data) is not None


def _reads(program: str, path: str, known: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether the config lies at or below the program's folder, or a text names both."""
    if path.startswith(os.path.join(os.path.dirname(program), "")):
        return True
    return any((at == program or _names(data, program)) and _names(data, path) for at, data in known)


def _names(data: bytes, path: str) -> bool:
    base = os.path.basename(path)
    if base.encode() not in data:
        return False
    text = data.decode("latin-1")
    for match in re.finditer(rf"(?<![\w-]){re.escape(base)}(?![\w.-])", text):
        # Searched backwards: a search forwards begins anew at each character of a long word.
        before = text[max(0, match.start() - _LONGEST) : match.start()][::-1]
        folders = re.match(r"[\w./~${}-]*", before)
        if folders and may_be(folders[0][::-1] + base, path):
            return True
    return False
