"""Commands of a shell script with their words, variables and Slurm options; nothing is executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import dropwhile
from types import MappingProxyType

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.repository import Budget, SpentError, of_text
from dsconfig.launch.shell_lexer import LONGEST, Quoting

# Variables and arrays are evaluated while reading. An unknown variable stays as written, `$NAME`; it is never
# guessed.

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARE = frozenset(("export", "local", "declare", "readonly", "typeset"))
_SAYS = frozenset(
    ("echo", "printf", "cat", "sed", "grep", "awk", "test", "[", "[[", "rm", "mkdir", "ls", "pip")
)
"""Commands whose words are plain text, even if they look like a launcher command."""
_LEADS = frozenset((
    "if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "exec", "nohup", "sudo",
    "eval", "env", "command",
))  # fmt: skip
"""Keywords and wrappers before a command; they do not change what it runs."""
OF_JOBS = (
    *("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "PET_NPROC_PER_NODE", "PET_NNODES"),
    *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"),
)
"""Variables that launchers read."""
_DEFAULT = re.compile(r"\$\{(\w+):?=(.*)\}", re.DOTALL)
"""Default assignment: `: ${NNODES:=2}`."""
_OUTPUT = re.compile(r"\w+=\"?\$\((.*)\)\"?", re.DOTALL)
"""Assignment of a command's output."""
_OF_CALLER = re.compile(r"\$(?:\{?\d|OPTARG|\{OPTARG)")
"""Values set by the script's caller: positional arguments and options."""
_SUBSTITUTE = re.compile(r"s([/|#,])((?:(?!\1).)+)\1(.*)\1g?", re.DOTALL)
_EDITS = 100
_DEEP = 3
"""Deepest nesting of texts that are read: `srun bash -c "…"`."""


class ShellCommand(NamedTuple):
    """One command with its words expanded."""

    words: tuple[str, ...]
    offset: int
    """Start of the command in the text."""
    folder: str
    """Directory that `cd` has entered, relative to the script's start."""
    variables: Mapping[str, str]
    """Variables in `LAUNCHER_VARIABLES` that are set for the command or were set earlier in the script."""
    open: Mapping[str, frozenset[str]]
    """Unset variables of the job's shell that a word or variable depends on."""


class Edited(NamedTuple):
    """A file that `sed` creates from another one."""

    template: str
    edits: tuple[tuple[str, str], ...]
    """Pairs of a text and its replacement."""

    def text(self, template: str, longest: int) -> str:
        """Apply the edits to the template's text.

        Raises:
            SpentError: the result has more than `longest` characters; seven edits can turn one character into
            1 GB.
        """
        for old, new in self.edits:
            if len(template) + template.count(old) * (len(new) - len(old)) > longest:
                raise SpentError
            template = template.replace(old, new)
        return template


class Shell:
    """Reader of a script from start to end.

    `path`: location of the script. `variables`: known variables of the job's shell. `budget`: limit of the
    steps.
    """

    def __init__(
        self,
        text: str,
        path: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
        budget: Budget | None = None,
    ) -> None:
        self.text, self.path, self.told, self.folder = text, path, variables, ""
        own = {"0": path, "BASH_SOURCE": path} if path else {}
        known = {name: value for name, value in variables.items() if len(value) <= LONGEST}
        told = {**own, **asked_for(text), **known}
        self.variables: dict[str, tuple[str, ...]] = {name: (value,) for name, value in told.items()}
        self.origins: dict[str, frozenset[str]] = dict.fromkeys(own, frozenset())
        """Unset variables of the job's shell that each variable of the script depends on."""
        self._around: frozenset[str] = frozenset()
        """Unset variables that the text itself depends on, if it is a word of another command."""
        self.documents: dict[str, str] = {}
        """Here-documents written to files, by the path as written."""
        self.edited: dict[str, Edited] = {}
        """Files written by `sed`, by the path as written."""
        self._editing: Edited | None = None
        self._reading = ""
        """Variable of a `read` command that receives the next here-document."""
        self.budget = of_text(len(text)) if budget is None else budget
        self._quoting = Quoting(text, budget=self.budget)

    def commands(self, deep: int = 0) -> Iterator[ShellCommand]:
        """Yield each simple command in text order.

        Raises:
            SpentError: reading them exceeds the budget.
        """
        for offset, raw, target, body in self._quoting.simple_commands():
            if body is not None:
                name = "".join(self._quoting.expanded(target, self.variables)) if target else ""
                self.documents[name] = body
                if self._reading and not name:
                    text = self._quoting.in_quotes(body, self.variables)
                    self._set(self._reading, (text,), self._read())
            if raw:
                yield from self._command(offset, raw, target, deep)

    def _command(self, offset: int, raw: list[str], target: str, deep: int) -> Iterator[ShellCommand]:
        raw = list(dropwhile(_LEADS.__contains__, raw))
        if not raw:
            return
        if raw[0] == "for" and raw[2:3] == ["in"] and raw[3:]:
            self.variables[raw[1]] = tuple(self._expanded([raw[3]])[:1])
            self.origins[raw[1]] = self._read()
            return
        declares = raw[0] in _DECLARE
        count = next((at for at, word in enumerate(raw) if not _assigns(word, declares=declares)), len(raw))
        for word in raw[:count]:
            self._assign(word)
            if inside := _OUTPUT.fullmatch(word):
                yield from self._within(inside[1], offset, deep)
        raw = raw[count:]
        if raw[:1] == [":"]:
            self._default(raw)
        words, opened = self._words(raw)
        self._reading = words[-1] if words and words[0] == "read" else ""
        if words and words[0] == "sed":
            self._edit(words, "".join(self._quoting.expanded(target, self.variables)))
        if not words or words[0] in _SAYS:
            return
        if words[0] in ("cd", "pushd") and len(words) > 1:
            self.folder = _join(self.folder, words[1])
            return
        known = {name: self.variables[name][0] for name in OF_JOBS if self.variables.get(name)}
        opened |= {name: self.origins.get(name, frozenset((name,))) for name in known}
        yield ShellCommand(words, offset, self.folder, known, opened)
        for word in words:
            yield from self._within(word, offset, deep, opened.get(word, frozenset()))

    def _words(self, raw: Iterable[str]) -> tuple[tuple[str, ...], dict[str, frozenset[str]]]:
        """Expand the words of a command; also return the unset variables that each word depends on."""
        words: list[str] = []
        opened: dict[str, frozenset[str]] = {}
        for each in raw:
            found = self._expanded([each])
            words += found
            if read := self._read():
                self.budget.spend(len(found) * len(read))
                opened |= {word: opened.get(word, frozenset()) | read for word in found}
        return tuple(words), opened

    def _expanded(self, raw: Iterable[str], *, split: bool = True) -> list[str]:
        self._quoting.read.clear()
        return [each for word in raw for each in self._quoting.expanded(word, self.variables, split=split)]

    def _read(self) -> frozenset[str]:
        """Unset variables of the job's shell that the last expansion used."""
        origins = [self.origins.get(name, (name,)) for name in self._quoting.read]
        if not origins:
            return self._around
        self.budget.spend(len(self._around) + sum(map(len, origins)))
        return self._around.union(*origins)

    def _within(
        self, text: str, offset: int, deep: int, around: frozenset[str] = frozenset()
    ) -> Iterator[ShellCommand]:
        """Yield the commands of a text inside a command, such as `bash -c "…"` and `id=$(…)`."""
        if deep < _DEEP and "--" in text and any(char.isspace() for char in text):
            self.budget.spend(len(self.variables))
            inner = Shell(text, budget=self.budget)
            inner.variables, inner.origins = dict(self.variables), dict(self.origins)
            inner.folder, inner._around = self.folder, around | self._around
            for each in inner.commands(deep + 1):
                yield each._replace(offset=offset)

    def _edit(self, words: tuple[str, ...], target: str) -> None:
        """Record a `sed` command that creates a config from a template: `sed "s/A/1/" t.json > ds.json`."""
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

    def _default(self, raw: list[str]) -> None:
        """Apply the default assignments of a `:` command to unset variables."""
        for match in (_DEFAULT.fullmatch(word.strip('"')) for word in raw):
            if match and not any(self.variables.get(match[1], ())):
                self._assign(f"{match[1]}={match[2]}")
                self.origins[match[1]] = self.origins.get(match[1], frozenset()) | {match[1]}

    def _assign(self, word: str) -> None:
        variables = self.variables
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        name, more, value = match.groups()
        before = self.origins.get(name, frozenset()) if more else frozenset()
        if value.startswith("("):
            listing = value[1:-1].replace("\n", " \\\n")
            parts = Quoting(listing, budget=self.budget).simple_commands()
            listed = tuple(self._expanded(part for _, raw, *_ in parts for part in raw))
            found = variables.get(name, ()) + listed if more else listed
        else:
            text = " ".join(self._expanded([value], split=False))
            old = variables.get(name, ("",)) or ("",)
            if name in variables and _OF_CALLER.search(text) and "$" not in old[-1]:
                return  # an option of the script: without it, the earlier value stays
            found = (*old[:-1], old[-1] + text) if more else (text,)
        self._set(name, found, before | self._read())

    def _set(self, name: str, found: tuple[str, ...], origins: frozenset[str]) -> None:
        self.budget.spend(len(found))
        if sum(map(len, found)) + len(found) <= LONGEST:
            self.variables[name] = found
            self.origins[name] = origins


def _assigns(word: str, *, declares: bool) -> bool:
    return _ASSIGNMENT.fullmatch(word) is not None or (declares and (word in _DECLARE or word[:1] == "-"))


def _join(folder: str, step: str) -> str:
    """Directory after a `cd`; empty if unknown."""
    if step.startswith("/") or "$" in step or step in ("-", "~"):
        return "" if "$" in step or step in ("-", "~") else step
    return f"{folder}/{step}" if folder else step


# `#SBATCH` options of a script, as the variables that Slurm sets in the job.

_LINE = re.compile(r"^#SBATCH[ \t]+([^\n#]*)", re.MULTILINE)
_FLAGS = {
    "nodes": "SLURM_NNODES",
    "N": "SLURM_NNODES",
    "ntasks": "SLURM_NTASKS",
    "n": "SLURM_NTASKS",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "tasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gres": "SLURM_GPUS_ON_NODE",
}
_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,6})")
"""A count in an option: `2`, `a100:4`, `gpu:8`, `gpu:a100:4`."""


def asked_for(text: str) -> dict[str, str]:
    """Variables that Slurm sets in the job of a script, from its `#SBATCH` lines.

    Source: Slurm's sbatch, INPUT and OUTPUT ENVIRONMENT VARIABLES.
    """
    if "#SBATCH" not in text:
        return {}
    found: dict[str, str] = {}
    for line in _LINE.findall(text):
        for flag, value in _flags(line):
            if (name := _FLAGS.get(flag)) and (count := _COUNT.fullmatch(value)):
                found[name] = count[1]
    nodes = found.get("SLURM_NNODES")
    if nodes is not None:
        found["SLURM_JOB_NUM_NODES"] = nodes
    tasks = found.get("SLURM_NTASKS_PER_NODE")
    if tasks is not None and "SLURM_NTASKS" not in found:
        found["SLURM_NTASKS"] = str(int(nodes or 1) * int(tasks))
    gpus = found.get("SLURM_GPUS_PER_NODE")
    if gpus is not None:
        found.setdefault("SLURM_GPUS_ON_NODE", gpus)
    return found


def _flags(line: str) -> list[tuple[str, str]]:
    """Flags of a line with their values."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            found.append((name, value if equals else following))
        elif word.startswith("-"):
            found.append((word[1:2], word[2:].lstrip("=") or following))
    return found
