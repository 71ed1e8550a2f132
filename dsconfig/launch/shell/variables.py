"""Track the variables of a script: expansion, assignment, merging after branches, and `#SBATCH` options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import pairwise

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.repository_files import ReadingBudget
from dsconfig.launch.shell.expressions import evaluate_test
from dsconfig.launch.shell.lexer import MAX_LENGTH, ShellLexer

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_ELEMENT = re.compile(r"\[([^\]]*)\]=(.*)", re.DOTALL)
"""Pattern of an element of an associative array: `[key]=value`."""
_DEFAULT_ASSIGNMENT = re.compile(r"\$\{(\w+):?=(.*)\}", re.DOTALL)
"""Pattern of a default assignment: `: ${NNODES:=2}`."""
_CALLER_VALUE = re.compile(r"\$\{?(?:\d|OPTARG)")
"""Pattern of values set by the script's caller: positional arguments and options."""
CALLER_CONDITION = re.compile(rf"{_CALLER_VALUE.pattern}|\$\{{?[@*#]|^getopts\b")
"""Pattern of a condition on values from the script's caller: single arguments or all of them."""
_MAX_INDEX = 100


class VariableValue(NamedTuple):
    """The words of a variable (None if unset), and the unset variables on which they depend."""

    words: tuple[str, ...] | None
    origins: frozenset[str]


class AssignmentScope:
    """A part of a script whose assignments are undone or merged at its end."""

    def __init__(self, condition: str = "", *, exhaustive: bool = False) -> None:
        self.condition = condition
        self.before: dict[str, VariableValue] = {}
        """Values of the assigned variables before the scope."""
        self.assigned: set[str] = set()
        """Variables that the current branch assigns."""
        self.branches: list[dict[str, VariableValue]] = []
        """Values that each earlier branch assigned."""
        self.exhaustive = exhaustive
        """Whether one of the branches always runs."""


class ShellVariables:
    """Variables of a shell. Arrays are tuples, and an associative array `M` is stored under `M[key]` and `M[]`.

    `lexer` is the lexer of the script's text, and `budget` limits the number of steps.
    """

    def __init__(self, variables: Mapping[str, str], lexer: ShellLexer, budget: ReadingBudget) -> None:
        self.lexer, self.budget = lexer, budget
        self.variables: dict[str, tuple[str, ...]] = {name: (value,) for name, value in variables.items()}
        self.origins: dict[str, frozenset[str]] = {}
        """For each variable of the script, the unset variables of the job's shell that it depends on."""
        self.dependencies: frozenset[str] = frozenset()
        """Unset variables that the script's text itself depends on, if this text is a word of another command."""
        self.scopes: list[AssignmentScope] = []

    # Expansion
    # ----------------------------------------------------------------------------------------------

    def expand_with_dependencies(
        self, raw: Iterable[str]
    ) -> tuple[tuple[str, ...], dict[str, frozenset[str]]]:
        """Expand the words of a command, and return the unset variables on which each word depends."""
        words: list[str] = []
        dependencies: dict[str, frozenset[str]] = {}
        for each in raw:
            expanded = self.expand_words([each])
            words += expanded
            if origins := self.origins_of_last_expansion():
                self.budget.spend(len(expanded) * len(origins))
                dependencies |= {word: dependencies.get(word, frozenset()) | origins for word in expanded}
        return tuple(words), dependencies

    def expand_words(self, raw: Iterable[str], *, split: bool = True) -> list[str]:
        """Expand words, splitting unquoted values at whitespace if `split` is true."""
        self.lexer.used.clear()
        words = [each for word in raw for each in self.lexer.expand_word(word, self.variables, split=split)]
        if self.lexer.assigned:
            used = set(self.lexer.used)
            self.apply_arithmetic_assignments()
            self.lexer.used |= used
        return words

    def origins_of_last_expansion(self) -> frozenset[str]:
        """The unset variables of the job's shell that the last expansion used."""
        origins = [self.origins.get(name, (name,)) for name in self.lexer.used]
        if not origins:
            return self.dependencies
        self.budget.spend(len(self.dependencies) + sum(map(len, origins)))
        return self.dependencies.union(*origins)

    def evaluate_condition(self, words: Iterable[str], *, is_double: bool) -> bool | None:
        """Evaluate `[ … ]` or `[[ … ]]`; return None if it depends on an unknown value."""
        expanded = []
        for word in words:
            values = self.expand_words([word], split=False)
            expanded.append(values[0] if len(values) == 1 else "" if not values else "$")
        return evaluate_test(expanded, is_double=is_double)

    def apply_arithmetic_assignments(self, unknown: Iterable[str] = ()) -> None:
        """Apply the assignments of an arithmetic expression; the variables in `unknown` become unknown."""
        assigned, origins = dict(self.lexer.assigned), self.origins_of_last_expansion()
        self.lexer.assigned.clear()
        for name, value in assigned.items():
            self.set_variable(name, (f"${name}" if value is None else str(value),), origins)
        for name in unknown:
            self.forget_variable(name)

    # Assignment
    # ----------------------------------------------------------------------------------------------

    def apply_default_assignments(self, raw: list[str]) -> None:
        """Apply the default values that a `:` command assigns to unset variables."""
        for match in (_DEFAULT_ASSIGNMENT.fullmatch(word.strip('"')) for word in raw):
            if match and not any(self.variables.get(match[1], ())):
                if self.lexer.unset_is_unknown:
                    self.forget_variable(match[1])
                    continue
                self.apply_assignment(f"{match[1]}={match[2]}")
                self.origins[match[1]] = self.origins.get(match[1], frozenset()) | {match[1]}

    def apply_assignment(self, word: str, *, is_integer: bool = False) -> None:
        """Apply an assignment as written: `A=1`, `A+=(x y)` or `M[key]=v`."""
        variables = self.variables
        match = ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        name, index, appends, value = match.groups()
        previous_origins = self.origins.get(name, frozenset()) if appends else frozenset()
        if index is not None:
            self._assign_array_element(name, index, value, is_append=bool(appends))
            return
        if value.startswith("("):
            # The elements of an array may be on several lines.
            listing = value[1:-1]
            parts = [
                part
                for raw in ShellLexer(listing, budget=self.budget).split_simple_commands()
                for part in raw
            ]
            if f"{name}[]" in variables:
                self._assign_associative_array(name, parts, is_append=bool(appends))
                return
            elements = tuple(self.expand_words(parts))
            values = variables.get(name, ()) + elements if appends else elements
        else:
            text = " ".join(self.expand_words([value], split=False))
            old_values = variables.get(name, ("",)) or ("",)
            if name in variables and _CALLER_VALUE.search(text) and "$" not in old_values[-1]:
                # An option of the script: without it, the earlier value stays. An empty one has to be given.
                if not old_values[-1]:
                    self.forget_variable(name)
                return
            if is_integer:
                number = self.lexer.evaluate_arithmetic(text, variables)
                text = f"${name}" if number is None else str(number)
            values = (*old_values[:-1], old_values[-1] + text) if appends else (text,)
        self.set_variable(name, values, previous_origins | self.origins_of_last_expansion())

    def _assign_associative_array(self, name: str, parts: list[str], *, is_append: bool) -> None:
        """Assign an associative array: `M=([small]=4 [big]=8)`."""
        if not is_append:
            self.set_variable(f"{name}[]", (), frozenset())
        for part in parts:
            if match := _ELEMENT.fullmatch(part):
                self._assign_array_element(name, match[1], match[2], is_append=False)

    def _assign_array_element(self, name: str, index: str, value: str, *, is_append: bool) -> None:
        text = " ".join(self.expand_words([value], split=False))
        origins = self.origins_of_last_expansion() | self.origins.get(name, frozenset())
        keys = self.variables.get(f"{name}[]")
        if keys is not None:
            key = "".join(self.expand_words([index], split=False))
            if is_append:
                text = "".join(self.variables.get(f"{name}[{key}]", ())) + text
            if key not in keys:
                self.set_variable(f"{name}[]", (*keys, key), origins)
            self.set_variable(f"{name}[{key}]", (text,), origins)
            return
        at = self.lexer.evaluate_arithmetic(index, self.variables)
        values = self.variables.get(name, ())
        if at is None or not -len(values) <= at < _MAX_INDEX:
            self.forget_variable(name)
            return
        at = at + len(values) if at < 0 else at
        padded = [*values, *[""] * (at + 1 - len(values))]
        padded[at] = padded[at] + text if is_append else text
        self.set_variable(name, tuple(padded), origins)

    def forget_variable(self, name: str) -> None:
        """Mark the value of a variable as unknown."""
        self.set_variable(name, (f"${name}",), frozenset((name,)))

    def end_branch(self, scope: AssignmentScope, *, is_kept: bool = True) -> None:
        """End a branch of a conditional; its assignments are kept only if the script continues after it."""
        self.budget.spend(len(scope.before) + 1)
        if is_kept:
            scope.branches.append({name: self.get_variable(name) for name in scope.assigned})
        scope.assigned = set()
        for name, value in scope.before.items():
            self.restore_variable(name, value)

    def merge_scope(self, scope: AssignmentScope) -> None:
        """Merge the assignments made in a scope's branches."""
        for name in scope.before:
            self.note_assignment(name)
            self.restore_variable(name, self._merge_branches(name, scope))

    def _merge_branches(self, name: str, scope: AssignmentScope) -> VariableValue:
        """Return the value of a variable after a conditional that assigns it in some branches."""
        before = scope.before[name]
        assigned = [branch[name] for branch in scope.branches if name in branch]
        may_stay = not scope.exhaustive or len(assigned) < len(scope.branches)
        if not assigned:
            return before
        is_default = re.search(rf"-z\s+\S*\$\{{?{re.escape(name)}\b", scope.condition) is not None
        if before.words is None and is_default:
            return VariableValue(assigned[0].words, assigned[0].origins | {name})
        if may_stay and before.words is not None and (is_default or CALLER_CONDITION.search(scope.condition)):
            # Without the caller's option the earlier value stays; an empty one has to be given.
            return (
                before
                if any(before.words) or is_default
                else VariableValue((f"${name}",), frozenset((name,)))
            )
        values: list[VariableValue] = [*assigned, before] if may_stay else assigned
        distinct = {value.words for value in values}
        known = {words for words in distinct if words and not _CALLER_VALUE.search(" ".join(words))}
        if len(distinct) == 1 or (len(known) == 1 and len(distinct) == 2 and not may_stay):
            return next(each for each in values if len(distinct) == 1 or each.words in known)
        self.budget.spend(sum(len(word) for words in distinct for word in words or ()) + len(values))
        origins = frozenset((name,)).union(*(value.origins for value in values))
        return VariableValue(_flags_common_to_values(name, [value.words or () for value in values]), origins)

    def unset_variable(self, name: str) -> None:
        """Unset a variable."""
        self.note_assignment(name)
        self.restore_variable(name, VariableValue(None, frozenset()))

    def get_variable(self, name: str) -> VariableValue:
        """Return the value of a variable and the unset variables on which it depends."""
        return VariableValue(self.variables.get(name), self.origins.get(name, frozenset()))

    def restore_variable(self, name: str, value: VariableValue) -> None:
        """Restore an earlier value of a variable without recording an assignment."""
        if value.words is None:
            self.variables.pop(name, None)
            self.origins.pop(name, None)
        else:
            self.variables[name], self.origins[name] = value.words, value.origins

    def note_assignment(self, name: str) -> None:
        """Record an assignment to a variable in the innermost scope."""
        if self.scopes:
            scope = self.scopes[-1]
            scope.before.setdefault(name, self.get_variable(name))
            scope.assigned.add(name)

    def set_variable(self, name: str, values: tuple[str, ...], origins: frozenset[str]) -> None:
        """Set a variable; a value that is too long becomes unknown."""
        self.budget.spend(len(values))
        self.note_assignment(name)
        if sum(map(len, values)) + len(values) <= MAX_LENGTH:
            self.variables[name] = values
            self.origins[name] = origins

    def forget_all_variables(self) -> None:
        """Mark every variable as unknown, because a text that cannot be read may have set it."""
        self.lexer.unset_is_unknown = True
        for name in list(self.variables):
            if name.isidentifier() and name != "BASH_SOURCE" and not name.startswith("SLURM_"):
                self.forget_variable(name)

    def set_positional_arguments(self, arguments: tuple[str, ...] | None) -> None:
        """Set `$1`, `$@` and `$#`, or mark them as unknown if `arguments` is None."""
        for each in ("@", "#"):
            self.variables.pop(each, None)
        if arguments is not None and sum(map(len, arguments)) <= MAX_LENGTH:
            self.variables["@"], self.variables["#"] = arguments, (str(len(arguments)),)


def _flags_common_to_values(name: str, variants: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the flags that occur in every possible value of a variable.

    A flag whose values differ is kept with an unknown value.
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


_NUMBERS = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}")
"""Pattern of a range of numbers: `{1..8}`."""
_MAX_ITERATIONS = 100


def expand_brace_range(word: str) -> list[str]:
    """Expand a word of a loop: `{1..8}` becomes eight numbers."""
    match = _NUMBERS.fullmatch(word)
    if match is None:
        return [word]
    first, last = int(match[1]), int(match[2])
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)][:_MAX_ITERATIONS]


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
    "gpus": "SLURM_GPUS",
    "G": "SLURM_GPUS",
}
_SLURM_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,6})")
"""Pattern of a count in a Slurm option: `2`, `a100:4`, `gpu:8`, `gpu:a100:4`."""


def slurm_variables(text: str) -> dict[str, str]:
    """Return the variables that Slurm sets for a script according to its `#SBATCH` lines.

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
    elif nodes == "1" and "SLURM_GPUS" in variables:
        variables.setdefault("SLURM_GPUS_ON_NODE", variables["SLURM_GPUS"])
    return variables


def slurm_memory_of_node(text: str) -> int | None:
    """Return the memory in bytes that Slurm gives a script's job on each node, or None if its lines leave it open.

    Source: Slurm's sbatch, `--mem`, `--mem-per-gpu` and `--mem-per-cpu`. `--mem=0` is all memory of the node.
    """
    if "#SBATCH" not in text:
        return None
    flags = dict(flag for line in _SBATCH_LINE.findall(text) for flag in _sbatch_flags(line))
    variables = slurm_variables(text)
    for name, count in (
        ("mem", "1"),
        ("mem-per-gpu", variables.get("SLURM_GPUS_ON_NODE", "")),
        ("mem-per-cpu", flags.get("cpus-per-task", flags.get("c", ""))),
    ):
        amount = _SLURM_MEMORY.fullmatch(flags.get(name, ""))
        if amount is None or not count.isdecimal() or len(count) > _MOST_DIGITS:
            continue
        tasks = variables.get("SLURM_NTASKS_PER_NODE", "") if name == "mem-per-cpu" else "1"
        if tasks.isdecimal():
            return int(amount[1]) * _SLURM_UNITS[amount[2].upper()] * int(count) * int(tasks) or None
    return None


_SLURM_MEMORY = re.compile(r"(\d{1,9})([KMGTkmgt]?)B?")
_SLURM_UNITS = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""Units of Slurm's amounts of memory, which are megabytes by default."""
_MOST_DIGITS = 4


def _sbatch_flags(line: str) -> list[tuple[str, str]]:
    """Return the flags and values in an `#SBATCH` line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    flags = []
    for word, following in pairwise((*words, "")):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            flags.append((name, value if equals else following))
        elif word.startswith("-"):
            flags.append((word[1:2], word[2:].lstrip("=") or following))
    return flags
