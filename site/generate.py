"""Writes the generated pages of the site into site/docs: `make docs` runs it first.

They are not kept in the repository. A page that nothing makes any more is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from pages import command, keys, messages, playground, readers, releases, rules, schemas

DOCS = Path(__file__).resolve().parent / "docs"
FOLDERS = ("cli", "keys", "messages", "playground", "readers", "releases", "rules", "schema", "settings")
"""Folders of `docs` in which all files are generated."""
MAKERS: tuple[Callable[[], dict[str, str]], ...] = (
    rules.pages,
    messages.pages,
    keys.pages,
    releases.pages,
    command.pages,
    readers.pages,
    schemas.pages,
)


@cache
def texts() -> dict[str, str]:
    """Every generated file by its path below `docs`."""
    found: dict[str, str] = {}
    for make in MAKERS:
        made = make()
        twice = found.keys() & made.keys()
        assert not twice, f"two makers of {', '.join(twice)}"
        found |= made
    return found


def write(docs: Path) -> None:
    """Write below a folder what has changed, and remove what is made no more."""
    made = {name: text.encode() for name, text in texts().items()} | playground.files()
    for name, content in made.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    for path in [path for folder in FOLDERS for path in (docs / folder).rglob("*") if path.is_file()]:
        if path.relative_to(docs).as_posix() not in made:
            path.unlink()


if __name__ == "__main__":
    write(DOCS)
