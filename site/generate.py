"""Write the generated pages of the site into site/docs; `make docs` runs it first.

The pages are not committed. A page that is no longer generated is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from pages import (
    advisories,
    command_line,
    consumers,
    error_messages,
    keys,
    playground,
    releases,
    rules,
    schemas,
)

DOCS = Path(__file__).resolve().parent / "docs"
FOLDERS = (
    "advisories",
    "cli",
    "consumers",
    "keys",
    "messages",
    "playground",
    "releases",
    "rules",
    "schema",
    "settings",
)
"""Folders below `docs` with generated files only."""
GENERATORS: tuple[Callable[[], dict[str, str]], ...] = (
    rules.pages,
    advisories.pages,
    error_messages.pages,
    keys.pages,
    releases.pages,
    command_line.pages,
    consumers.pages,
    schemas.pages,
)


@cache
def texts() -> dict[str, str]:
    """The text of every generated file, by its path below `docs`."""
    files: dict[str, str] = {}
    for generate in GENERATORS:
        pages = generate()
        duplicates = files.keys() & pages.keys()
        assert not duplicates, f"{', '.join(duplicates)} is generated twice"
        files |= pages
    return files


def write(docs: Path) -> None:
    """Write changed files below a folder, and remove files that are no longer generated."""
    files = {name: text.encode() for name, text in texts().items()} | playground.files()
    for name, content in files.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    for path in [path for folder in FOLDERS for path in (docs / folder).rglob("*") if path.is_file()]:
        if path.relative_to(docs).as_posix() not in files:
            path.unlink()


if __name__ == "__main__":
    write(DOCS)
