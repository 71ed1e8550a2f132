"""Run README.md and the pages of the site: `make readme` writes the output that they show.

Each document runs in an empty folder. A block with a file name as its title, or introduced by one (`ds_config.json`:),
is written to that file. `sh` blocks are commands, and `console` blocks are commands with their output. The `python`
blocks of a document are one session, and a `text` block after them is what they print. Commands that need more hosts or
packages are in `bash` and `py` blocks: they are parsed, but not run.
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
PAGES = ("index.md", "guides/*.md", "reference/*.md", "contributing/*.md")
GUIDES = tuple(sorted(path for pattern in PAGES for path in DOCS.glob(pattern)))
ADDRESS = re.findall(r'^Repository = "(.+?)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0]
"""Address of the repository, from `[project.urls]`."""
HOOKS = re.compile(r"^  - repo: (?P<address>\S+)\n    rev: v(?P<version>\S+)$", re.MULTILINE)
FENCED = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CAPTION = re.compile(r"`([\w./-]+\.(?:json|py|toml|ya?ml))`[^`]*:\Z")
SHOWN = ("bibtex", "markdown")
"""Languages of blocks that are only shown."""
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
    """A fenced block: its language, the file that it is written to, its text, and the offset of the text."""

    language: str
    file: str | None
    text: str
    start: int


def blocks(readme: str) -> Iterator[Block]:
    """Yield every fenced block, in order."""
    for fence in FENCED.finditer(readme):
        caption = CAPTION.search(readme[: fence.start()].rstrip().rpartition("\n\n")[2])
        file = fence[2] or (caption[1] if caption else None)
        yield Block(fence[1], file, fence[3], fence.start(3))


def addressed(readme: str) -> str:
    """Return the text with the current address of the repository and the current version."""
    hook = HOOKS.search(readme)
    if hook is None:
        return readme
    text = HOOKS.sub(rf"  - repo: \g<address>\n    rev: v{__version__}", readme)
    return text.replace(hook["address"], ADDRESS)


def repository(folder: Path) -> Path:
    """Create a repository of the packaged files, for pip and pre-commit to clone."""
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
    """Return variables that redirect the address to a clone and put this environment first in PATH."""
    variables = {
        name: text for name, text in os.environ.items() if not name.startswith(("DSCONFIG_", "GIT_"))
    }
    return variables | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",  # stdout and stderr in the order of a terminal
        "NO_COLOR": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
    }


class Player:
    """Runs the blocks of one document in a folder."""

    def __init__(self, folder: Path, clone: Path) -> None:
        self.folder, self.python = folder, ""
        self.outputs: dict[str, str] = {}
        """Output of `pip` by command: a package that several blocks install is installed once."""
        # pip builds with the packages of this environment, and installs into a folder that is not imported from.
        pip = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_TARGET": str(clone / "installed")}
        self.variables = environment(clone) | pip | {"PIP_QUIET": "2", "PIP_UPGRADE": "1"}

    def run(self, block: Block) -> str:
        """Run a block, and return the text that it should have."""
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
            parse(block)
        return block.text

    def _session(self) -> str:
        return self._run([sys.executable, "-c", self.python], (0,))

    def _shell(self, line: str) -> str:
        # `make` only prints its commands: `make test` would run this test.
        make = line.startswith("make ")
        codes = (0, 1) if line.startswith("dsconfig ") else (0,)
        if line in self.outputs:
            return self.outputs[line]
        folder = ROOT if make else None
        output = self._run(["sh", "-c", line], codes, folder, MAKEFLAGS="n" if make else "")
        if " pip " in line:
            self.outputs[line] = output
        return output

    def _run(self, command: list[str], codes: tuple[int, ...], cwd: Path | None = None, **more: str) -> str:
        process = subprocess.run(
            command, cwd=cwd or self.folder, env=self.variables | more, check=False, timeout=300,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.returncode in codes, f"{command[-1]}\nends in {process.returncode}:\n{process.stdout}"
        return process.stdout


def parse(block: Block) -> None:
    """Parse a block that is not run. Raises AssertionError for an unknown language."""
    if block.language == "py":
        ast.parse(textwrap.dedent(block.text))
    elif block.language == "bash":
        for line in block.text.replace("\\\n", " ").splitlines():
            parse_command(line)
    elif block.language not in SHOWN:
        raise AssertionError(f"a {block.language} block without a file name is not run")


def parse_command(line: str) -> None:
    """Parse a `dsconfig` command that is not run. Raises UsageError if its options are wrong."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["dsconfig"]:
        build_parser([words[1]]).parse_args(words[1:])


def steps(node: Any) -> Iterator[str]:
    """Yield the shell commands of a CI file: GitHub's `run`, GitLab's `script`."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "run" else value if key == "script" else steps(value)
    elif isinstance(node, list):
        for value in node:
            yield from steps(value)


def played(readme: str, folder: Path, clone: Path) -> str:
    """Return the text with the current output of its commands. Raises AssertionError if one fails."""
    player, text, end = Player(folder, clone), "", 0
    for block in blocks(readme):
        text += readme[end : block.start] + player.run(block)
        end = block.start + len(block.text)
    return text + readme[end:]


def main() -> None:
    """Update README.md, its pictures and the pages of the site, or only the files named on the command line."""
    from tests import terminal_picture

    if not sys.argv[1:]:
        terminal_picture.main()
    with tempfile.TemporaryDirectory() as clone:
        repository(Path(clone))
        for page in [Path(name).absolute() for name in sys.argv[1:]] or [README, *GUIDES]:
            with tempfile.TemporaryDirectory() as folder:
                text = played(addressed(page.read_text("utf-8")), Path(folder), Path(clone))
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
