"""Texts that an editor is to show, as files of the system's folder for what is temporary."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from functools import cache

_ENDS = {"jsonc": ".jsonc", "json": ".json", "yaml": ".yaml"}


def scratch(title: str, text: str, language: str) -> str:
    """Write a text; returns its path. A later text of the same title takes its place."""
    name = re.sub(r"[^\w.-]+", "-", title).strip("-") + _ENDS.get(language, ".txt")
    path = os.path.join(_folder(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="dsconfig-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
