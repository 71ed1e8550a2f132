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
# guessed. No condition is evaluated: a variable to which branches give different values is unknown after them.

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
_CALLER_VALUE = re.compile(r"\$\{?(?:\d|OPTARG)")
"""Values set by the script's caller: positional arguments and options."""
_SED_SUBSTITUTION = re.compile(r"s([/|#,])((?:(?!\1).)+)\1(.*)\1g?", re.DOTALL)
_OPENERS: Mapping[str, str] = {
    **dict.fromkeys(("for", "select", "while", "until"), "done"),
    "if": "fi",
    "case": "esac",
}
"""Keywords that open a block, with the keyword that closes it."""
_TESTS = frozenset(("[", "[[", "test", "((", "grep", "command"))
"""Commands whose result is a condition: `[ -n "$DEBUG" ] && BS=1`. After others, `&&` means success."""
_CALLER_CONDITION = re.compile(rf"{_CALLER_VALUE.pattern}|\$\{{?[@*#]")
"""Condition on what the script's caller passes: one of these values, or all arguments."""
_ARITHMETIC_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:[-+*/%]?=(?!=)|\+\+|--)")
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


class _Value(NamedTuple):
    """The words of a variable, None if it is unset, and the unset variables that it depends on."""

    words: tuple[str, ...] | None
    origins: frozenset[str]


class _Block:
    """A block whose commands may not run: `if`, `case`, a loop, a function, or a command after `[ … ] &&`."""

    def __init__(self, closer: str, condition: str = "") -> None:
        self.closer, self.condition = closer, condition
        self.before: dict[str, _Value] = {}
        """Values of the assigned variables before the block."""
        self.assigned: set[str] = set()
        """Variables that the current branch assigns."""
        self.branches: list[dict[str, _Value]] = []
        """Values that each earlier branch assigned."""
        self.exhaustive = False
        """Whether one of the branches always runs."""
        self.local: set[str] = set()
        """Variables of a function."""


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
        self._blocks: list[_Block] = []
        self._previous: list[str] = []
        """Words of the last command that ran without a condition."""

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
        self._enter_blocks(offset, raw)
        raw = list(dropwhile(_PREFIX_WORDS.__contains__, raw))
        if not raw:
            return
        conditional = self._is_conditional(offset)
        if not conditional:
            self._previous = raw
        if self.text.startswith("((", max(0, offset - 2)) or raw[0] == "let":
            self._calculate(raw)
            return
        # A loop is read once, with its first value: the others differ in what they train, rarely in how. A number
        # that differs is unknown.
        if raw[0] == "for" and raw[2:3] == ["in"] and raw[3:]:
            values = self._expanded(raw[3:])
            numbers = len(set(values)) > 1 and all(value.isdecimal() for value in values)
            self._set(raw[1], (f"${raw[1]}",) if numbers else tuple(values[:1]), self._last_origins())
            return
        if conditional:
            self._blocks.append(_Block("", " ".join(self._previous)))
        try:
            yield from self._simple_command(offset, raw, target, depth)
        finally:
            if conditional:
                self._close(self._blocks.pop())

    def _simple_command(self, offset: int, raw: list[str], target: str, depth: int) -> Iterator[ShellCommand]:
        declares = raw[0] in _DECLARE
        count = next((at for at, word in enumerate(raw) if not _assigns(word, declares=declares)), len(raw))
        # Assignments before a command hold for this command only.
        prefixes = raw[:count] if count < len(raw) and not declares else []
        names = [word.partition("=")[0].rstrip("+") for word in prefixes]
        before = {name: self._value(name) for name in names}
        if raw[0] in ("local", "declare", "typeset"):
            function = next((each for each in reversed(self._blocks) if each.closer == "}"), None)
            if function is not None:
                function.local |= {word.partition("=")[0] for word in raw[1:]}
        for word in raw[:count]:
            self._assign(word)
            if output := _OUTPUT_ASSIGNMENT.fullmatch(word):
                yield from self._nested_commands(output[1], offset, depth)
        raw = raw[count:]
        if raw[:1] == [":"]:
            self._default(raw)
        words, dependencies = self._words(raw)
        yield from self._run(offset, words, dependencies, target, depth)
        for name, value in before.items():
            self._restore(name, value)

    def _run(
        self,
        offset: int,
        words: tuple[str, ...],
        dependencies: dict[str, frozenset[str]],
        target: str,
        depth: int,
    ) -> Iterator[ShellCommand]:
        """Yield a command with expanded words, unless it only changes what is known of the script."""
        self._read_variable = words[-1] if words[:1] == ("read",) else ""
        if self._read_variable in self.variables:
            self._forget(self._read_variable)
        elif words[:2] == ("printf", "-v") and len(words) > 2:
            self._forget(words[2])
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

    def _calculate(self, raw: list[str]) -> None:
        """Forget the variables that `((…))` or `let` change."""
        for name in _ARITHMETIC_ASSIGNMENT.findall(" ".join(raw)):
            if name in self.variables:
                self._forget(name)

    def _forget(self, name: str) -> None:
        self._set(name, (f"${name}",), frozenset((name,)))

    # Blocks that may not run
    # ----------------------------------------------------------------------------------------------

    def _is_conditional(self, offset: int) -> bool:
        """Whether a command runs only if a test before it succeeds or a command before it fails."""
        before = self.text[max(0, offset - 80) : offset].rstrip(" \t\r\n\\")
        return before.endswith("||") or (before.endswith("&&") and not _TESTS.isdisjoint(self._previous[:1]))

    def _enter_blocks(self, offset: int, raw: list[str]) -> None:
        """Open, switch and close blocks by the keywords of a command."""
        for at, word in enumerate(raw):
            if closer := _OPENERS.get(word):
                self._blocks.append(_Block(closer, " ".join(raw[at + 1 :])))
                # Without an `in`, a `for` reads what the caller passed.
                self._blocks[-1].exhaustive = word == "for"
                break
            if word == "{" or (word == "function" and raw[-1] == "{"):
                # A function may never be called; other groups always run.
                is_function = word == "function" or self.text[max(0, offset - 80) : offset].rstrip().endswith(
                    ")"
                )
                self._blocks.append(_Block("}"))
                self._blocks[-1].exhaustive = not is_function
                if word == "function":
                    break
                continue
            if self._blocks and word == self._blocks[-1].closer:
                self._close(self._blocks.pop())
            elif word in ("elif", "else") and self._blocks and self._blocks[-1].closer == "fi":
                self._next_branch(self._blocks[-1])
                self._blocks[-1].exhaustive = word == "else"
                self._blocks[-1].condition += f" {' '.join(raw[at + 1 :])}" * (word == "elif")
            elif word not in _PREFIX_WORDS:
                break

    def _next_branch(self, block: _Block) -> None:
        self.budget.spend(len(block.before) + 1)
        block.branches.append({name: self._value(name) for name in block.assigned})
        block.assigned = set()
        for name, value in block.before.items():
            self._restore(name, value)

    def _close(self, block: _Block) -> None:
        """Merge what the branches of a block assigned."""
        self._next_branch(block)
        for name in block.before:
            self._note(name)
            self._restore(name, self._merged(name, block))

    def _merged(self, name: str, block: _Block) -> _Value:
        """The value of a variable after a block that assigns it."""
        before = block.before[name]
        if name in block.local:
            return before
        assigned = [branch[name] for branch in block.branches if name in branch]
        may_stay = not block.exhaustive or len(assigned) < len(block.branches)
        is_default = re.search(rf"-z\s+\S*\$\{{?{name}\b", block.condition) is not None
        if before.words is None and is_default:
            return _Value(assigned[0].words, assigned[0].origins | {name})
        if (
            may_stay
            and before.words is not None
            and (is_default or _CALLER_CONDITION.search(block.condition))
        ):
            return before  # without the caller's option the earlier value stays
        values: list[_Value] = [*assigned, before] if may_stay else assigned
        distinct = {value.words for value in values}
        known = {words for words in distinct if words and not _CALLER_VALUE.search(" ".join(words))}
        if len(distinct) == 1 or (len(known) == 1 and len(distinct) == 2 and not may_stay):
            return next(each for each in values if len(distinct) == 1 or each.words in known)
        self.budget.spend(sum(len(word) for words in distinct for word in words or ()) + len(values))
        origins = frozenset((name,)).union(*(value.origins for value in values))
        return _Value(_common_flags(name, [value.words or () for value in values]), origins)

    def _value(self, name: str) -> _Value:
        return _Value(self.variables.get(name), self.origins.get(name, frozenset()))

    def _restore(self, name: str, value: _Value) -> None:
        if value.words is None:
            self.variables.pop(name, None)
            self.origins.pop(name, None)
        else:
            self.variables[name], self.origins[name] = value.words, value.origins

    def _note(self, name: str) -> None:
        """Note that the innermost block assigns a variable."""
        if self._blocks:
            block = self._blocks[-1]
            block.before.setdefault(name, self._value(name))
            block.assigned.add(name)

    def _set(self, name: str, values: tuple[str, ...], origins: frozenset[str]) -> None:
        self.budget.spend(len(values))
        self._note(name)
        if sum(map(len, values)) + len(values) <= MAX_LENGTH:
            self.variables[name] = values
            self.origins[name] = origins


def _common_flags(name: str, variants: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The value of a variable that has one of these values.

    The flags of options stay, because they tell how the script is called; one that differs gets an unknown value.
    """
    unknown = f"${name}"
    parts = [" ".join(variant).split() for variant in variants]
    if not any(word.startswith("-") for part in parts for word in part):
        return (unknown,)
    options: list[dict[str, tuple[str, ...]]] = []
    for part in parts:
        flags: dict[str, tuple[str, ...]] = {}
        flag = ""
        for word in part:
            if word.startswith("-"):
                flag, equals, value = word.partition("=")
                flags[flag] = (value,) if equals else ()
            else:
                flags[flag] = (*flags.get(flag, ()), word)
        options.append(flags)
    words: list[str] = []
    for flag in dict.fromkeys(flag for flags in options for flag in flags):
        given = {flags.get(flag) for flags in options}
        words += [flag] * bool(flag)
        words += given.pop() or () if len(given) == 1 else (unknown,)
    # one element for a string, several for an array
    return tuple(words) if any(len(variant) > 1 for variant in variants) else (" ".join(words),)


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
