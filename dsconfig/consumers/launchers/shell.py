"""Shell text as commands: words, variables and arrays are worked out by reading, and nothing is ever run.

What only the job's shell knows stays as it is written, `$NAME`: nobody guesses it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dsconfig.consumers.launchers.quoting import LONGEST, Quoting
from dsconfig.json_types import NamedTuple

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARE = frozenset(("export", "local", "declare", "readonly", "typeset"))
_SAYS = frozenset(
    ("echo", "printf", "cat", "sed", "grep", "awk", "test", "[", "[[", "rm", "mkdir", "ls", "pip")
)
"""Commands whose words are text, whatever they look like."""
_LEADS = frozenset((
    "if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "exec", "nohup", "sudo",
    "eval", "env", "command",
))  # fmt: skip
"""Words before the command that say nothing of it."""
OF_JOBS = ("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES")
"""Variables that launchers read."""
_OUTPUT = re.compile(r"\w+=\"?\$\((.*)\)\"?", re.DOTALL)
"""An assignment of what a command prints."""
_SUBSTITUTE = re.compile(r"s([/|#,])((?:(?!\1).)+)\1(.*)\1g?", re.DOTALL)
_EDITS = 100
_DEEP = 3
"""Texts within texts that are read: `srun bash -c "…"`."""


class ShellCommand(NamedTuple):
    """One command, as its shell would run it."""

    words: tuple[str, ...]
    offset: int
    """Where it begins in the text."""
    folder: str
    """Where `cd` has led to, seen from where the script was started."""
    variables: Mapping[str, str]
    """Those of `OF_JOBS` that are assigned right before it, or were earlier in the script."""


class Edited(NamedTuple):
    """A file that `sed` makes of another."""

    template: str
    edits: tuple[tuple[str, str], ...]
    """Texts, and what takes their places."""

    def text(self, template: str) -> str:
        """What it makes of the template's text."""
        for old, new in self.edits:
            template = template.replace(old, new)
        return template


class Shell:
    """Reads a script from its begin to its end. `path`: where it stands."""

    def __init__(
        self, text: str, path: str = "", variables: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.folder = ""
        own = {"0": (path,), "BASH_SOURCE": (path,)} if path else {}
        self.variables: dict[str, tuple[str, ...]] = dict(own if variables is None else variables)
        self.documents: dict[str, str] = {}
        """The here-documents that the script writes into files, by the path as it writes it."""
        self.edited: dict[str, Edited] = {}
        """The files that `sed` writes, by the path as the script writes it."""
        self._editing: Edited | None = None
        self._quoting = Quoting(text)

    def commands(self, deep: int = 0) -> Iterator[ShellCommand]:
        """Each simple command, in the order of the text."""
        for offset, raw, target, body in self._quoting.simple_commands():
            if body is not None:
                name = "".join(self._quoting.expanded(target, self.variables)) if target else ""
                self.documents[name] = body
            if raw:
                yield from self._command(offset, raw, target, deep)

    def _command(self, offset: int, raw: list[str], target: str, deep: int) -> Iterator[ShellCommand]:
        while raw and raw[0] in _LEADS:
            raw = raw[1:]
        if not raw:
            return
        if raw[0] == "for" and raw[2:3] == ["in"] and raw[3:]:
            self.variables[raw[1]] = tuple(self._quoting.expanded(raw[3], self.variables)[:1])
            return
        declares = raw[0] in _DECLARE
        count = next((at for at, word in enumerate(raw) if not _assigns(word, declares=declares)), len(raw))
        for word in raw[:count]:
            self._assign(word)
            if inside := _OUTPUT.fullmatch(word):
                yield from self._within(inside[1], offset, deep)
        raw = raw[count:]
        words = tuple(each for word in raw for each in self._quoting.expanded(word, self.variables))
        if words and words[0] == "sed":
            self._edit(words, "".join(self._quoting.expanded(target, self.variables)))
        if not words or words[0] in _SAYS:
            return
        if words[0] in ("cd", "pushd") and len(words) > 1:
            self.folder = _join(self.folder, words[1])
            return
        known = {name: self.variables[name][0] for name in OF_JOBS if self.variables.get(name)}
        yield ShellCommand(words, offset, self.folder, known)
        for word in words:
            yield from self._within(word, offset, deep)

    def _within(self, text: str, offset: int, deep: int) -> Iterator[ShellCommand]:
        """The commands of a text within a command, as `bash -c "…"` and `id=$(…)` have it."""
        if deep < _DEEP and "--" in text and any(char.isspace() for char in text):
            inner = Shell(text, variables=self.variables)
            inner.folder = self.folder
            for each in inner.commands(deep + 1):
                yield each._replace(offset=offset)

    def _edit(self, words: tuple[str, ...], target: str) -> None:
        """One of the commands that make a config of a template: `sed "s/A/1/" t.json > ds.json`."""
        edits = tuple((each[2], each[3]) for each in map(_SUBSTITUTE.fullmatch, words) if each)
        named = [word for word in words[1:] if not word.startswith("-") and not _SUBSTITUTE.fullmatch(word)]
        before = self._editing
        self._editing = None
        if named:
            self._editing = Edited(named[-1], edits)
        elif before is not None and len(before.edits) < _EDITS:
            self._editing = Edited(before.template, before.edits + edits)
        if target and self._editing is not None:
            self.edited[target] = self._editing

    def _assign(self, word: str) -> None:
        variables = self.variables
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        name, more, value = match.groups()
        if value.startswith("("):
            listed = tuple(
                each
                for _, raw, *_ in Quoting(value[1:-1].replace("\n", " \\\n")).simple_commands()
                for part in raw
                for each in self._quoting.expanded(part, variables)
            )
            found = variables.get(name, ()) + listed if more else listed
        else:
            text = " ".join(self._quoting.expanded(value, variables, split=False))
            old = variables.get(name, ("",)) or ("",)
            found = (*old[:-1], old[-1] + text) if more else (text,)
        if sum(map(len, found)) + len(found) <= LONGEST:
            variables[name] = found


def _assigns(word: str, *, declares: bool) -> bool:
    return _ASSIGNMENT.fullmatch(word) is not None or (declares and (word in _DECLARE or word[:1] == "-"))


def _join(folder: str, step: str) -> str:
    """The folder after another `cd`; empty where it is not known."""
    if step.startswith("/") or "$" in step or step in ("-", "~"):
        return "" if "$" in step or step in ("-", "~") else step
    return f"{folder}/{step}" if folder else step
