"""README.md and the site's guides, done line by line as they stand: `make readme` writes what comes out.

Each is done in an empty folder. A block that bears a file's name, or whose text introduces it by one, is that
Each is done in an empty folder. A block that bears a file's name, or that its text introduces by one, is that
follows a line in `console` is what it writes.
Python runs as one session, and the block of `text` after it is what it prints. What needs more machines or
packages stands in `bash` and `py`: its commands and its syntax are held, and it is not run.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dsconfig.cli import build_parser
from dsconfig.core.version import __version__

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "site" / "docs"
WRITTEN = ("index.md", "guides/*.md", "reference/*.md", "contributing/index.md")
GUIDES = tuple(sorted(path for pattern in WRITTEN for path in DOCS.glob(pattern)))
ADDRESS = re.findall(r'^Repository = "(.+?)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0]
"""The one place that holds the repository's address is `[project.urls]`."""
HOOKS = re.compile(r"^  - repo: (?P<address>\S+)\n    rev: v(?P<version>\S+)$", re.MULTILINE)
FENCED = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CAPTION = re.compile(r"`([\w./-]+\.(?:json|py|toml|ya?ml))`[^`]*:\Z")
SHOWN = ("bibtex", "markdown")
"""Languages that nothing runs: a text to copy."""
PACKAGED = (
    "dsconfig",
    "elastic",
    "schema",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".pre-commit-hooks.yaml",
)


class Block(NamedTuple):
    """A fenced block, its language, the file that it is, if any, and where its text stands."""

    language: str
    file: str | None
    text: str
    start: int


def blocks(readme: str) -> Iterator[Block]:
    """Every fenced block in order."""
    for found in FENCED.finditer(readme):
        caption = CAPTION.search(readme[: found.start()].rstrip().rpartition("\n\n")[2])
        file = found[2] or (caption[1] if caption else None)
        yield Block(found[1], file, found[3], found.start(3))


def addressed(readme: str) -> str:
    """The text with the repository's address and the version as they are now."""
    found = HOOKS.search(readme)
    if found is None:
        return readme
    named = HOOKS.sub(rf"  - repo: \g<address>\n    rev: v{__version__}", readme)
    return named.replace(found["address"], ADDRESS)


def repository(folder: Path) -> Path:
    """A repository of what is packaged, as it stands here, for pip and pre-commit to clone."""
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        (*author, "commit", "-qm", "all"),
        ("tag", f"v{__version__}"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def environment(clone: Path) -> dict[str, str]:
    """Variables under which the address leads to a clone, and this environment's commands are found first."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("DSCONFIG_", "GIT_"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",  # the two streams are shown as they would be on a terminal
        "NO_COLOR": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
    }


class Player:
    """Does what the blocks say, in one folder, and keeps what comes out."""

    def __init__(self, folder: Path, clone: Path) -> None:
        self.folder, self.python = folder, ""
        self.done: dict[str, str] = {}
        """What a line of the shell wrote: one that stands in several blocks is done once."""
        # pip builds with what is installed here, and installs into a folder that nothing looks into.
        pip = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_TARGET": str(clone / "installed")}
        self.variables = environment(clone) | pip | {"PIP_QUIET": "2", "PIP_UPGRADE": "1"}

    def shown(self, block: Block) -> str:
        """The block as it should read."""
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.language == "yaml":
                for line in steps(yaml.safe_load(block.text)):
                    self._shell(line)
        elif block.language == "sh":
            for line in block.text.splitlines():
                self._shell(line)
        elif block.language == "console":
            lines = [line for line in block.text.splitlines() if line.startswith("$ ")]
            return "".join(f"{line}\n{self._shell(line[2:])}" for line in lines)
        elif block.language == "python":
            self.python += f"\nprint('\\0', end='')\n{block.text}"
        elif block.language == "text":
            return self._session().rpartition("\0")[2]
        else:
            held(block)
        return block.text

    def _session(self) -> str:
        return self._run([sys.executable, "-c", self.python], (0,))

    def _shell(self, line: str) -> str:
        # `make` is what stands in the checkout; doing all of it would run this very test.
        make = line.startswith("make ")
        codes = (0, 1) if line.startswith("dsconfig ") else (0,)
        if line not in self.done:
            where = ROOT if make else None
            self.done[line] = self._run(["sh", "-c", line], codes, where, MAKEFLAGS="n" if make else "")
        return self.done[line]

    def _run(self, command: list[str], codes: tuple[int, ...], cwd: Path | None = None, **more: str) -> str:
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=self.variables | more, check=False, timeout=300,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode in codes, f"{command[-1]}\nends in {done.returncode}:\n{done.stdout}"
        return done.stdout


def held(block: Block) -> None:
    """Hold what can be held of a block that is not run. Raises AssertionError where nothing can."""
    if block.language == "py":
        ast.parse(textwrap.dedent(block.text))
    elif block.language == "bash":
        for line in block.text.replace("\\\n", " ").splitlines():
            parsed(line)
    elif block.language not in SHOWN:
        raise AssertionError(f"a block of {block.language} that is no file: nobody runs it")


def parsed(line: str) -> None:
    """Hold that the command would understand a line that is not run. Raises UsageError where it would not."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["dsconfig"]:
        build_parser([words[1]]).parse_args(words[1:])


def steps(parsed: Any) -> Iterator[str]:
    """The lines that a CI file hands to a shell: GitHub's `run`, GitLab's `script`."""
    if isinstance(parsed, dict):
        for key, value in parsed.items():
            yield from [value] if key == "run" else value if key == "script" else steps(value)
    elif isinstance(parsed, list):
        for value in parsed:
            yield from steps(value)


def played(readme: str, folder: Path, clone: Path) -> str:
    """The text with what its lines write today. Raises AssertionError where one fails."""
    player, text, done = Player(folder, clone), "", 0
    for block in blocks(readme):
        text += readme[done : block.start] + player.shown(block)
        done = block.start + len(block.text)
    return text + readme[done:]


def main() -> None:
    """Write the README and the guides anew, or the files that are named."""
    with tempfile.TemporaryDirectory() as clone:
        repository(Path(clone))
        for page in [Path(name).absolute() for name in sys.argv[1:]] or [README, *GUIDES]:
            with tempfile.TemporaryDirectory() as folder:
                text = played(addressed(page.read_text("utf-8")), Path(folder), Path(clone))
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
