"""Commands of a shell script with their words, variables and Slurm options; nothing is executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import dropwhile
from types import MappingProxyType

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.repository import Budget, SpentError, text_budget
from dsconfig.launch.shell_lexer import MAX_LENGTH, Lexer

# Variables and arrays are evaluated while reading. An unknown variable stays as written, `$NAME`; it is never
# guessed.

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARE = frozenset(("export", "local", "declare", "readonly", "typeset"))
_TEXT_COMMANDS = frozenset(
    ("echo", "printf", "cat", "sed", "grep", "awk", "test", "[", "[[", "rm", "mkdir", "ls", "pip")
)
"""Commands whose words are plain text, even if they look like a launcher command."""
_PREFIX_WORDS = frozenset((
    "if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "exec", "nohup", "sudo",
    "eval", "env", "command",
))  # fmt: skip
"""Keywords and wrappers before a command; they do not change what it runs."""
_LAUNCHER_VARIABLES = (
    *("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "PET_NPROC_PER_NODE", "PET_NNODES"),
    *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"),
)
"""Variables that launchers read."""
_DEFAULT_ASSIGNMENT = re.compile(r"\$\{(\w+):?=(.*)\}", re.DOTALL)
"""Default assignment: `: ${NNODES:=2}`."""
_OUTPUT_ASSIGNMENT = re.compile(r"\w+=\"?\$\((.*)\)\"?", re.DOTALL)
"""Assignment of a command's output."""
_CALLER_VALUE = re.compile(r"\$(?:\{?\d|OPTARG|\{OPTARG)")
"""Values set by the script's caller: positional arguments and options."""
_SED_SUBSTITUTION = re.compile(r"s([/|#,])((?:(?!\1).)+)\1(.*)\1g?", re.DOTALL)
_MAX_EDITS = 100
_MAX_DEPTH = 3
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
    dependencies: Mapping[str, frozenset[str]]
    """Unset variables of the job's shell that a word or variable depends on."""


class SedOutput(NamedTuple):
    """A file that `sed` creates from another one."""

    template: str
    edits: tuple[tuple[str, str], ...]
    """Pairs of a text and its replacement."""

    def text(self, template: str, max_length: int) -> str:
        """Apply the edits to the template's text.

        Raises:
            SpentError: the result has more than `max_length` characters; seven edits can turn one character into
            1 GB.
        """
        for old, new in self.edits:
            if len(template) + template.count(old) * (len(new) - len(old)) > max_length:
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
        self.text, self.path, self.environment, self.folder = text, path, variables, ""
        path_variables = {"0": path, "BASH_SOURCE": path} if path else {}
        short_variables = {name: value for name, value in variables.items() if len(value) <= MAX_LENGTH}
        initial = {**path_variables, **slurm_variables(text), **short_variables}
        self.variables: dict[str, tuple[str, ...]] = {name: (value,) for name, value in initial.items()}
        self.origins: dict[str, frozenset[str]] = dict.fromkeys(path_variables, frozenset())
        """Unset variables of the job's shell that each variable of the script depends on."""
        self._dependencies: frozenset[str] = frozenset()
        """Unset variables that the text itself depends on, if it is a word of another command."""
        self.documents: dict[str, str] = {}
        """Here-documents written to files, by the path as written."""
        self.sed_outputs: dict[str, SedOutput] = {}
        """Files written by `sed`, by the path as written."""
        self._sed_output: SedOutput | None = None
        self._read_variable = ""
        """Variable of a `read` command that receives the next here-document."""
        self.budget = text_budget(len(text)) if budget is None else budget
        self._lexer = Lexer(text, budget=self.budget)

    def commands(self, depth: int = 0) -> Iterator[ShellCommand]:
        """Yield each simple command in text order.

        Raises:
            SpentError: reading them exceeds the budget.
        """
        for offset, raw, target, body in self._lexer.simple_commands():
            if body is not None:
                name = "".join(self._lexer.expand(target, self.variables)) if target else ""
                self.documents[name] = body
                if self._read_variable and not name:
                    text = self._lexer.expand_quoted(body, self.variables)
                    self._set(self._read_variable, (text,), self._last_origins())
            if raw:
                yield from self._command(offset, raw, target, depth)

    def _command(self, offset: int, raw: list[str], target: str, depth: int) -> Iterator[ShellCommand]:
        raw = list(dropwhile(_PREFIX_WORDS.__contains__, raw))
        if not raw:
            return
        # A loop is read once, with its first value: the others differ in what they train, rarely in how.
        if raw[0] == "for" and raw[2:3] == ["in"] and raw[3:]:
            self.variables[raw[1]] = tuple(self._expanded([raw[3]])[:1])
            self.origins[raw[1]] = self._last_origins()
            return
        declares = raw[0] in _DECLARE
        count = next((at for at, word in enumerate(raw) if not _assigns(word, declares=declares)), len(raw))
        for word in raw[:count]:
            self._assign(word)
            if output := _OUTPUT_ASSIGNMENT.fullmatch(word):
                yield from self._nested_commands(output[1], offset, depth)
        raw = raw[count:]
        if raw[:1] == [":"]:
            self._default(raw)
        words, dependencies = self._words(raw)
        self._read_variable = words[-1] if words and words[0] == "read" else ""
        if words and words[0] == "sed":
            self._edit(words, "".join(self._lexer.expand(target, self.variables)))
        if not words or words[0] in _TEXT_COMMANDS:
            return
        if words[0] in ("cd", "pushd") and len(words) > 1:
            self.folder = _enter_folder(self.folder, words[1])
            return
        launcher_variables = {
            name: self.variables[name][0] for name in _LAUNCHER_VARIABLES if self.variables.get(name)
        }
        dependencies |= {name: self.origins.get(name, frozenset((name,))) for name in launcher_variables}
        yield ShellCommand(words, offset, self.folder, launcher_variables, dependencies)
        for word in words:
            yield from self._nested_commands(word, offset, depth, dependencies.get(word, frozenset()))

    def _words(self, raw: Iterable[str]) -> tuple[tuple[str, ...], dict[str, frozenset[str]]]:
        """Expand the words of a command; also return the unset variables that each word depends on."""
        words: list[str] = []
        dependencies: dict[str, frozenset[str]] = {}
        for each in raw:
            expanded = self._expanded([each])
            words += expanded
            if origins := self._last_origins():
                self.budget.spend(len(expanded) * len(origins))
                dependencies |= {word: dependencies.get(word, frozenset()) | origins for word in expanded}
        return tuple(words), dependencies

    def _expanded(self, raw: Iterable[str], *, split: bool = True) -> list[str]:
        self._lexer.used.clear()
        return [each for word in raw for each in self._lexer.expand(word, self.variables, split=split)]

    def _last_origins(self) -> frozenset[str]:
        """Unset variables of the job's shell that the last expansion used."""
        origins = [self.origins.get(name, (name,)) for name in self._lexer.used]
        if not origins:
            return self._dependencies
        self.budget.spend(len(self._dependencies) + sum(map(len, origins)))
        return self._dependencies.union(*origins)

    def _nested_commands(
        self, text: str, offset: int, depth: int, dependencies: frozenset[str] = frozenset()
    ) -> Iterator[ShellCommand]:
        """Yield the commands of a text inside a command, such as `bash -c "…"` and `id=$(…)`."""
        # Only text with flags can contain a launcher command; skipping the rest saves most of the budget.
        if depth < _MAX_DEPTH and "--" in text and any(char.isspace() for char in text):
            self.budget.spend(len(self.variables))
            inner = Shell(text, budget=self.budget)
            inner.variables, inner.origins = dict(self.variables), dict(self.origins)
            inner.folder, inner._dependencies = self.folder, dependencies | self._dependencies
            for each in inner.commands(depth + 1):
                yield each._replace(offset=offset)

    def _edit(self, words: tuple[str, ...], target: str) -> None:
        """Record a `sed` command that creates a config from a template: `sed "s/A/1/" t.json > ds.json`."""
        edits = tuple((each[2], each[3]) for each in map(_SED_SUBSTITUTION.fullmatch, words) if each)
        files = [
            word for word in words[1:] if not word.startswith("-") and not _SED_SUBSTITUTION.fullmatch(word)
        ]
        previous = self._sed_output
        self._sed_output = None
        if files:
            self._sed_output = SedOutput(files[-1], edits)
        elif previous is not None and len(previous.edits) < _MAX_EDITS:
            self._sed_output = SedOutput(previous.template, previous.edits + edits)
        if target and self._sed_output is not None:
            self.sed_outputs[target] = self._sed_output

    def _default(self, raw: list[str]) -> None:
        """Apply the default assignments of a `:` command to unset variables."""
        for match in (_DEFAULT_ASSIGNMENT.fullmatch(word.strip('"')) for word in raw):
            if match and not any(self.variables.get(match[1], ())):
                self._assign(f"{match[1]}={match[2]}")
                self.origins[match[1]] = self.origins.get(match[1], frozenset()) | {match[1]}

    def _assign(self, word: str) -> None:
        variables = self.variables
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        name, appends, value = match.groups()
        previous_origins = self.origins.get(name, frozenset()) if appends else frozenset()
        if value.startswith("("):
            # The elements of an array may be on several lines.
            listing = value[1:-1].replace("\n", " \\\n")
            parts = Lexer(listing, budget=self.budget).simple_commands()
            elements = tuple(self._expanded(part for _, raw, *_ in parts for part in raw))
            values = variables.get(name, ()) + elements if appends else elements
        else:
            text = " ".join(self._expanded([value], split=False))
            old_values = variables.get(name, ("",)) or ("",)
            if name in variables and _CALLER_VALUE.search(text) and "$" not in old_values[-1]:
                return  # an option of the script: without it, the earlier value stays
            values = (*old_values[:-1], old_values[-1] + text) if appends else (text,)
        self._set(name, values, previous_origins | self._last_origins())

    def _set(self, name: str, values: tuple[str, ...], origins: frozenset[str]) -> None:
        self.budget.spend(len(values))
        if sum(map(len, values)) + len(values) <= MAX_LENGTH:
            self.variables[name] = values
            self.origins[name] = origins


def _assigns(word: str, *, declares: bool) -> bool:
    return _ASSIGNMENT.fullmatch(word) is not None or (declares and (word in _DECLARE or word[:1] == "-"))


def _enter_folder(folder: str, step: str) -> str:
    """Directory after a `cd`; empty if unknown."""
    if step.startswith("/") or "$" in step or step in ("-", "~"):
        return "" if "$" in step or step in ("-", "~") else step
    return f"{folder}/{step}" if folder else step


# `#SBATCH` options of a script, as the variables that Slurm sets in the job.

_SBATCH_LINE = re.compile(r"^#SBATCH[ \t]+([^\n#]*)", re.MULTILINE)
_SLURM_VARIABLES = {
    "nodes": "SLURM_NNODES",
    "N": "SLURM_NNODES",
    "ntasks": "SLURM_NTASKS",
    "n": "SLURM_NTASKS",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "tasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gres": "SLURM_GPUS_ON_NODE",
}
_SLURM_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,6})")
"""A count in an option: `2`, `a100:4`, `gpu:8`, `gpu:a100:4`."""


def slurm_variables(text: str) -> dict[str, str]:
    """Variables that Slurm sets in the job of a script, from its `#SBATCH` lines.

    Source: Slurm's sbatch, INPUT and OUTPUT ENVIRONMENT VARIABLES.
    """
    if "#SBATCH" not in text:
        return {}
    variables: dict[str, str] = {}
    for line in _SBATCH_LINE.findall(text):
        for flag, value in _sbatch_flags(line):
            if (name := _SLURM_VARIABLES.get(flag)) and (count := _SLURM_COUNT.fullmatch(value)):
                variables[name] = count[1]
    nodes = variables.get("SLURM_NNODES")
    if nodes is not None:
        variables["SLURM_JOB_NUM_NODES"] = nodes
    tasks = variables.get("SLURM_NTASKS_PER_NODE")
    if tasks is not None and "SLURM_NTASKS" not in variables:
        # Slurm starts this many tasks if only --ntasks-per-node is given.
        variables["SLURM_NTASKS"] = str(int(nodes or 1) * int(tasks))
    gpus = variables.get("SLURM_GPUS_PER_NODE")
    if gpus is not None:
        variables.setdefault("SLURM_GPUS_ON_NODE", gpus)
    return variables


def _sbatch_flags(line: str) -> list[tuple[str, str]]:
    """Flags of a line with their values."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    flags = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            flags.append((name, value if equals else following))
        elif word.startswith("-"):
            flags.append((word[1:2], word[2:].lstrip("=") or following))
    return flags
