"""`Copy`: a copy of the repository, in which tests make the changes that the documentation describes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GENERATED = re.compile(r"`make generate`")
"""Generated files name their generator in the first line."""


class Copy:
    """A copy of the repository to change, and the files in it that were changed by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        leave = shutil.ignore_patterns(".*", "__pycache__", "node_modules")
        for name in ("dsconfig", "elastic", "schema", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=leave)
        for name in ("pyproject.toml", "ARCHITECTURE.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, folder)

    def run(self, *module: str, **variables: str) -> str:
        """Run a module of the copy with environment variables, and return its output."""
        process = self._run(*module, **variables)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def diagnostics(self, config: object, target: str) -> list[tuple[str, str, str]]:
        """Check a config with the copy; return the code, message and help of each diagnostic."""
        (self.folder / "config.json").write_text(json.dumps(config))
        arguments = ("config.json", "--target", target, "--output-format", "json")
        process = self._run("dsconfig", "check", *arguments)
        (self.folder / "config.json").unlink()
        (file,) = json.loads(process.stdout)["files"]
        return [(item["code"], item["message"], item["help"]) for item in file["diagnostics"]]

    def _run(self, *module: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command, environment = [sys.executable, "-m", *module], os.environ | variables
        environment["PYTHONPATH"] = str(self.folder)
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def schema(self, name: str) -> Any:
        """Return a schema of the copy."""
        return json.loads((self.folder / "schema" / name).read_text("utf-8"))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)  # the first rule of a domain has no folder of cases yet
        path.write_text(text, "utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text("utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), "utf-8")

    def by_hand(self) -> set[str]:
        """Return the new and changed files, without those that `make generate` writes."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if self._by_hand(path)}

    def _by_hand(self, path: Path) -> bool:
        if not path.is_file() or "__pycache__" in path.parts:
            return False
        before = ROOT / path.relative_to(self.folder)
        text = path.read_text("utf-8")
        return not GENERATED.search(text[:200]) and (not before.exists() or before.read_text("utf-8") != text)
