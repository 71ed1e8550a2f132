"""Commands of a shell script with their words, variables and Slurm options; nothing is executed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from types import MappingProxyType

from dsconfig.core.file_access import contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.launcher_call import MPI_SLOTS, MPI_WORKERS, NODE_GPUS
from dsconfig.launch.repository import Budget, SpentError, search, text_budget
from dsconfig.launch.shell import builtins as shell_builtins
from dsconfig.launch.shell import parser as shell_parser
from dsconfig.launch.shell.builtins import ASSUMED, FAILURE, SUCCESS, UNKNOWN
from dsconfig.launch.shell.lexer import MAX_LENGTH, Lexer
from dsconfig.launch.shell.parser import (
    Arithmetic,
    Block,
    Case,
    For,
    Function,
    If,
    Item,
    Negation,
    Node,
    Pipeline,
    Simple,
    Subshell,
    Test,
    While,
    describe,
)
from dsconfig.launch.shell.test_expressions import is_unknown
from dsconfig.launch.shell.variables import ASSIGNMENT, CALLER_CONDITION, Scope, Value, Values, expand_numbers
from dsconfig.launch.shell.written_files import OutputFiles, Redirections, redirections
from dsconfig.launch.slurm_options import slurm_variables

# The tree of a script is evaluated in the order in which a shell would run it. An unknown value stays as written,
# `$NAME`; it is never guessed. A condition on known values decides; after any other, a variable to which the
# branches give different values is unknown. The script counts as started without arguments.

_DECLARE = frozenset(("export", "local", "declare", "readonly", "typeset"))
_TEXT_COMMANDS = frozenset(("echo", "printf", "cat", "sed", "grep", "awk", "rm", "mkdir", "ls", "pip"))
"""Commands whose words are plain text, even if they look like a launcher command."""
_WRAPPERS = frozenset(("exec", "nohup", "sudo", "command", "builtin", "setsid", "time"))
"""Wrappers before a command; they do not change what it runs."""
_LAUNCHER_VARIABLES = (
    *("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "PET_NPROC_PER_NODE", "PET_NNODES"),
    *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES", "SLURM_GPUS_ON_NODE"),
    *("PET_MASTER_ADDR", NODE_GPUS, MPI_WORKERS, MPI_SLOTS),
)
"""Variables that launchers read."""
_OUTPUT_ASSIGNMENT = re.compile(r"\w+=\"?\$\((.*)\)\"?", re.DOTALL)
"""Assignment of a command's output."""
_HARMLESS = re.compile(
    r"conda|mamba|venv|virtualenv|activate|\.(?:bash|z)(?:rc|_profile)|profile|modules?\.sh|modulecmd|lmod|spack|pyenv"
    r"|direnv|ssh-agent|setvars|^/(?:etc|usr|opt|dev)/|nvm\.sh|poetry|/init/bash"
)
"""Texts of `source` and `eval` that prepare an environment, and do not set what a training script sets."""
_MAX_NESTED = 3
"""Deepest nesting of texts and scripts that are read: `srun bash -c "…"`, `bash train.sh`."""
_MAX_CALLS = 8
"""Deepest nesting of function calls."""
_MAX_SCRIPT = 256 * 1024


class ShellCommand(NamedTuple):
    """One command with its words expanded."""

    words: tuple[str, ...]
    offset: int
    """Start of the command in the text."""
    folder: str
    """Directory that `cd` has entered, relative to the script's start."""
    variables: Mapping[str, str]
    """Variables in `LAUNCHER_VARIABLES` that are exported or set for the command."""
    dependencies: Mapping[str, frozenset[str]]
    """Unset variables of the job's shell that a word or variable depends on."""


class Shell:
    """Reader of a script from start to end.

    `path`: location of the script. `variables`: known variables of the job's shell. `budget`: limit of the
    steps. `location`: file from which other scripts are searched; default: the script itself.
    """

    def __init__(
        self,
        text: str,
        path: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
        budget: Budget | None = None,
        location: str = "",
    ) -> None:
        self.text, self.path, self.environment, self.folder = text, path, variables, ""
        self.location = location or path
        path_variables = {"0": path, "BASH_SOURCE": path} if path else {}
        short_variables = {name: value for name, value in variables.items() if len(value) <= MAX_LENGTH}
        environment = {**slurm_variables(text), **short_variables}
        self.budget = text_budget(len(text)) if budget is None else budget
        self.values = Values({**path_variables, **environment}, Lexer(text, budget=self.budget), self.budget)
        self.values.origins |= dict.fromkeys(path_variables, frozenset())
        self.exported: set[str] = set(environment)
        """Variables that the commands of the script get."""
        self.output = OutputFiles()
        """Files that the script writes."""
        self.scripts: set[str] = set()
        """Real paths of the scripts that this one starts or sources."""
        self._functions: dict[str, Node] = {}
        self._called: set[str] = set()
        self._locals: list[dict[str, Value]] = []
        """By function call, the values that its local variables hide."""
        self.status = ASSUMED
        self.stop = ""
        """`exit`, `return` or `break`, if the current list of commands ends there."""
        self._nesting = 0

    def commands(self, depth: int = 0) -> Iterator[ShellCommand]:
        """Yield each simple command in the order in which the script runs them.

        Raises:
            SpentError: reading them exceeds the budget.
        """
        self._nesting = depth
        try:
            yield from self._all_commands()
        except RecursionError:  # nesting deeper than the interpreter's stack
            raise SpentError from None

    def _all_commands(self) -> Iterator[ShellCommand]:
        yield from self._block(shell_parser.parse(self.values.lexer))
        self.stop = ""
        # A function without a visible call may be called by a name that only the caller knows.
        for name in list(self._functions):
            if name not in self._called:
                with self._isolated():
                    yield from self._call(name, None)

    # Lists, conditions and loops
    # ----------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> Iterator[ShellCommand]:
        previous = ""
        for item in block.items:
            if self.stop:
                return
            yield from self._item(item, previous)
            previous = describe(item.node)

    def _item(self, item: Item, previous: str) -> Iterator[ShellCommand]:
        """Run a command of a list if the command before it lets it run."""
        needed = {"&&": SUCCESS, "||": FAILURE}.get(item.operator)
        decisive = {"&&": (SUCCESS, ASSUMED), "||": (FAILURE,)}.get(item.operator, (self.status,))
        if needed is not None and self.status in (SUCCESS, FAILURE) and self.status != needed:
            return
        if self.status in decisive:
            if item.is_background:
                with self._isolated():
                    yield from self._node(item.node)
                return
            yield from self._node(item.node)
            return
        scope = Scope(previous)
        yield from self._branches(scope, [lambda: self._node(item.node)])
        self.status = UNKNOWN

    def _branches(
        self, scope: Scope, branches: Iterable[Callable[[], Iterator[ShellCommand]]]
    ) -> Iterator[ShellCommand]:
        """Run the branches of a condition one after another, and merge what they assign."""
        stops: list[str] = []
        self.values.scopes.append(scope)
        folder = self.folder
        try:
            for branch in branches:
                yield from branch()
                stops.append(self.stop)
                self.values.next_branch(scope, is_kept=self.stop not in ("exit", "return"))
                self.stop = ""
        finally:
            self.values.scopes.pop()
        if self.folder != folder and not scope.exhaustive:
            self.folder = folder
        self.values.close_scope(scope)
        if scope.exhaustive and stops and all(each in ("exit", "return") for each in stops):
            self.stop = stops[0]

    @contextmanager
    def _isolated(self) -> Iterator[None]:
        """Undo all assignments at the end, as after a subshell."""
        scope = Scope()
        self.values.scopes.append(scope)
        state = (self.folder, dict(self._functions), set(self.exported), self.stop)
        try:
            yield
        finally:
            self.values.scopes.pop()
            for name, value in scope.before.items():
                self.values.restore(name, value)
            self.folder, self._functions, self.exported, self.stop = state

    def _node(self, node: Node) -> Iterator[ShellCommand]:
        self.budget.spend(1)
        match node:
            case Function():
                self._functions[node.name] = node.body
                self._called.discard(node.name)
            case Test():
                shell_builtins.run_test(self, node.words, is_double=True)
            case Arithmetic():
                shell_builtins.calculate(self, node.text)
            case Block():
                yield from self._block(node)
            case _:
                yield from _RUNNERS[type(node)](self, node)

    def _subshell(self, node: Subshell) -> Iterator[ShellCommand]:
        with self._isolated():
            yield from self._block(node.body)

    def _pipeline(self, node: Pipeline) -> Iterator[ShellCommand]:
        self.output.start_pipeline()
        for stage in node.stages:
            with self._isolated():
                yield from self._node(stage)
        self.status = ASSUMED

    def _negation(self, node: Negation) -> Iterator[ShellCommand]:
        yield from self._node(node.node)
        self.status = {SUCCESS: FAILURE, FAILURE: SUCCESS}.get(self.status, UNKNOWN)

    def _if(self, node: If) -> Iterator[ShellCommand]:
        possible: list[Callable[[], Iterator[ShellCommand]]] = []
        conditions: list[str] = []
        is_decided = False
        for branch in node.branches:
            yield from self._block(branch.test)
            if self.status == FAILURE:
                continue
            conditions.append(describe(branch.test))
            possible.append(lambda body=branch.body: self._block(body))  # type: ignore[misc]
            if self.status == SUCCESS:
                is_decided = True
                break
        if not is_decided and node.otherwise is not None:
            otherwise = node.otherwise
            possible.append(lambda: self._block(otherwise))
            is_decided = True
        if is_decided and len(possible) == 1:
            yield from possible[0]()
            return
        yield from self._branches(Scope(" ".join(conditions), exhaustive=is_decided), possible)
        self.status = ASSUMED

    def _case(self, node: Case) -> Iterator[ShellCommand]:
        word = "".join(self.values.expanded([node.word], split=False))
        possible: list[Callable[[], Iterator[ShellCommand]]] = []
        is_decided = False
        for branch in node.branches:
            patterns = ["".join(self.values.expanded([each], split=False)) for each in branch.patterns]
            is_known = not is_unknown(word, *patterns)
            matches = any(each == "*" or (is_known and fnmatchcase(word, each)) for each in patterns)
            if is_known and not matches:
                continue
            possible.append(lambda body=branch.body: self._block(body))  # type: ignore[misc]
            if matches:
                is_decided = True
                break
        if is_decided and len(possible) == 1:
            yield from possible[0]()
            return
        yield from self._branches(Scope(node.word, exhaustive=is_decided), possible)

    def _for(self, node: For) -> Iterator[ShellCommand]:
        # A loop is read once, with its first value: the others differ in what they train, rarely in how. A number
        # that differs is unknown, and so is what one iteration passes on to the next.
        raw = ('"$@"',) if node.words is None else node.words
        values = [each for word in self.values.expanded(raw) for each in expand_numbers(word)]
        of_caller = not values and any("$@" in word or "$*" in word for word in raw)
        is_single = len(values) == 1 and not is_unknown(*values)
        varies = len(set(values)) > 1 and all(value.isdecimal() for value in values)
        first = (f"${node.variable}",) if varies or of_caller else tuple(values[:1])
        origins = self.values.last_origins()
        if not is_single and not of_caller:
            self._forget_changes(node.body, lambda: self.values.set(node.variable, first, origins))
        scope = Scope("$@" if of_caller else "", exhaustive=bool(values))

        def iteration() -> Iterator[ShellCommand]:
            self.values.set(node.variable, first, origins)
            yield from self._block(node.body)

        yield from self._branches(scope, [iteration])
        if len(set(values)) > 1:
            self.values.forget(node.variable)
        self.stop = "" if self.stop == "break" else self.stop

    def _while(self, node: While) -> Iterator[ShellCommand]:
        yield from self._block(node.test)
        status = self.status
        if status == (SUCCESS if node.is_until else FAILURE):
            return
        condition = describe(node.test)
        if not CALLER_CONDITION.search(condition):
            self._forget_changes(node.body, lambda: None)
        is_endless = condition in ("true", ":")
        scope = Scope(condition, exhaustive=is_endless)
        yield from self._branches(scope, [lambda: self._block(node.body)])
        self.stop = "" if self.stop == "break" else self.stop

    def _forget_changes(self, body: Block, prepare: Callable[[], object]) -> None:
        """Forget the variables that differ between two iterations of a loop, such as a counter."""
        scope = Scope()
        self.values.scopes.append(scope)
        results = []
        stop, folder = self.stop, self.folder
        for _ in range(2):
            prepare()
            for _command in self._block(body):
                pass
            self.stop = ""
            results.append({name: self.values.value(name) for name in scope.before})
        self.values.scopes.pop()
        for name, value in scope.before.items():
            self.values.restore(name, value)
        self.stop, self.folder = stop, folder
        first, second = results
        for name, value in second.items():
            if name not in first or first[name].words != value.words:
                self.values.forget(name)

    # Simple commands
    # ----------------------------------------------------------------------------------------------

    def _simple(self, node: Simple) -> Iterator[ShellCommand]:
        raw = list(node.words)
        redirected = redirections(node, self.values)
        while raw and raw[0] in _WRAPPERS and len(raw) > 1 and not raw[1].startswith("-"):
            raw.pop(0)
        if raw[:1] == ["env"]:
            raw = self._without_env_options(raw)
        if not raw:
            self._write((), redirected)
            return
        declares = raw[0] in _DECLARE
        count = next((at for at, word in enumerate(raw) if not _assigns(word, declares=declares)), len(raw))
        if declares or count == len(raw):
            yield from self._assignments(raw, node.offset)
            return
        # Assignments before a command hold for this command only.
        prefixes = raw[:count]
        names = [match[1] for match in map(ASSIGNMENT.fullmatch, prefixes) if match]
        before = {name: self.values.value(name) for name in names}
        exported = set(self.exported)
        for word in prefixes:
            self.values.assign(word)
        self.exported |= set(names)
        raw = raw[count:]
        if raw[0] == ":":
            self.values.set_default(raw)
        words, dependencies = self.values.words(raw)
        self._write(words, redirected)
        self.status = ASSUMED
        yield from self._run(node.offset, raw, words, dependencies, redirected)
        for name, value in before.items():
            self.values.restore(name, value)
        if names:
            self.exported = exported

    def _write(self, words: tuple[str, ...], redirected: Redirections) -> None:
        self.output.write(words, redirected, self.values, self.exported)

    def _without_env_options(self, raw: list[str]) -> list[str]:
        """The words behind `env`, whose assignments stand before a command as in a shell."""
        rest = raw[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in ("-u", "--unset", "-C", "--chdir") else rest[1:]
        return rest

    def _assignments(self, raw: list[str], offset: int) -> Iterator[ShellCommand]:
        """Apply a command that consists of assignments, perhaps behind `export` or `declare`."""
        keyword = raw[0] if raw[0] in _DECLARE else ""
        options = "".join(word[1:] for word in raw[1:] if keyword and word.startswith("-"))
        self.status = SUCCESS
        for word in raw[bool(keyword) :]:
            if keyword and word.startswith(("-", "+")):
                continue
            match = ASSIGNMENT.fullmatch(word)
            name = match[1] if match else word
            if keyword in ("local", "declare", "typeset") and self._locals and "g" not in options:
                self._locals[-1].setdefault(name, self.values.value(name))
            if "A" in options:
                self.values.set(f"{name}[]", (), frozenset())
            if match is not None:
                self.values.assign(word, is_integer="i" in options)
            elif keyword in ("local",) and name.isidentifier():
                self.values.set(name, (), frozenset())
            if keyword == "export" or "x" in options:
                self.exported.add(name)
            if output := _OUTPUT_ASSIGNMENT.fullmatch(word):
                self.status = ASSUMED
                yield from self._nested_commands(output[1], offset)

    def _run(
        self,
        offset: int,
        raw: list[str],
        words: tuple[str, ...],
        dependencies: dict[str, frozenset[str]],
        redirected: Redirections,
    ) -> Iterator[ShellCommand]:
        """Yield a command with expanded words, unless it only changes what is known of the script."""
        if not words:
            return
        name = words[0]
        if name in self._functions:
            yield from self._call(name, words[1:])
            return
        if handler := shell_builtins.BUILTINS.get(name):
            handler(self, shell_builtins.Call(raw, words, redirected.bodies))
            return
        if name in ("eval", "source", "."):
            yield from self._evaluate(offset, words)
            return
        if name in _TEXT_COMMANDS:
            return
        launcher_variables = {
            each: self.values.variables[each][0]
            for each in _LAUNCHER_VARIABLES
            if self.values.variables.get(each) and each in self.exported
        }
        dependencies |= {
            each: self.values.origins.get(each, frozenset((each,))) for each in launcher_variables
        }
        yield ShellCommand(words, offset, self.folder, launcher_variables, dependencies)
        for word in words:
            yield from self._nested_commands(
                word, offset, dependencies.get(word, frozenset()), only_exported=True
            )
        yield from self._started_script(offset, words)

    def _call(self, name: str, arguments: tuple[str, ...] | None) -> Iterator[ShellCommand]:
        """Run a function. `arguments` None: unknown."""
        self._called.add(name)
        if len(self._locals) >= _MAX_CALLS:
            return
        self._locals.append({})
        before = {each: self.values.variables.get(each) for each in ("@", "#")}
        self.values.set_arguments(arguments)
        yield from self._node(self._functions[name])
        for each, values in before.items():
            self.values.variables.pop(each, None)
            if values is not None:
                self.values.variables[each] = values
        for variable, value in self._locals.pop().items():
            self.values.note(variable)
            self.values.restore(variable, value)
        self.stop = "" if self.stop == "return" else self.stop

    # Other texts: nested commands, sourced files and started scripts
    # ----------------------------------------------------------------------------------------------

    def _nested_commands(
        self,
        text: str,
        offset: int,
        dependencies: frozenset[str] = frozenset(),
        *,
        only_exported: bool = False,
    ) -> Iterator[ShellCommand]:
        """Yield the commands of a text inside a command, such as `bash -c "…"` and `id=$(…)`."""
        # Only text with flags can contain a launcher command; skipping the rest saves most of the budget.
        if self._nesting < _MAX_NESTED and "--" in text and any(char.isspace() for char in text):
            inner = self._child(text, self.path, only_exported=only_exported)
            inner.folder, inner.values.dependencies = self.folder, dependencies | self.values.dependencies
            for each in inner.commands(self._nesting + 1):
                yield each._replace(offset=offset)

    def _child(self, text: str, path: str, *, only_exported: bool) -> Shell:
        """A shell that this one starts."""
        self.budget.spend(len(self.values.variables))
        child = Shell(text, path, budget=self.budget, location=self.location)
        names = self.exported if only_exported else self.values.variables.keys()
        child.values.variables |= {
            name: self.values.variables[name] for name in names if name in self.values.variables
        }
        child.values.origins |= {
            name: self.values.origins[name] for name in names if name in self.values.origins
        }
        child.exported |= self.exported
        child.output, child.scripts = self.output, self.scripts
        if not only_exported:
            child._functions = dict(self._functions)
            child._called = set(self._functions)
        return child

    def _started_script(self, offset: int, words: tuple[str, ...]) -> Iterator[ShellCommand]:
        """Yield the commands of a script that a command starts: `bash train.sh 4`, `srun ./train.sh`."""
        at = next((at for at, word in enumerate(words[:_MAX_LEADING]) if _is_script(word)), None)
        if at is None or self._nesting >= _MAX_NESTED:
            return
        if any(os.path.basename(word) not in _STARTERS for word in words[:at] if _is_program(word)):
            return
        path, text = self._script(words[at])
        if text is None:
            return
        child = self._child(text, path, only_exported=True)
        child.values.set_arguments(words[at + 1 :])
        child.folder = self.folder
        for each in child.commands(self._nesting + 1):
            yield each._replace(offset=offset)

    def _script(self, name: str) -> tuple[str, str | None]:
        """Path and text of a script of the repository; None as text if it cannot be read."""
        if not self.location or is_unknown(name):
            return name, None
        lookup = search(name, self.location, self.folder)
        if lookup.path is None:
            return name, None
        try:
            data = contents(lookup.path, _MAX_SCRIPT)
        except OSError:
            return name, None
        if len(data) > _MAX_SCRIPT or b"\0" in data:
            return name, None
        self.scripts.add(os.path.realpath(lookup.path))
        return os.path.abspath(lookup.path), data.decode("utf-8", "replace")

    def _evaluate(self, offset: int, words: tuple[str, ...]) -> Iterator[ShellCommand]:
        """Run the text of `eval`, or the file of `source`, in this shell. What an unknown text sets is unknown."""
        if len(words) < 2 or self._nesting >= _MAX_NESTED:
            return
        text: str | None = " ".join(words[1:])
        arguments: tuple[str, ...] = ()
        if words[0] != "eval":
            _, text = self._script(words[1])
            arguments = words[2:]
        if text is None or (words[0] == "eval" and _SUBSTITUTION.search(text)):
            if not _HARMLESS.search(" ".join(words[1:])):
                self.values.forget_all()
            if text is None:
                return
        lexer, positional = self.values.lexer, {each: self.values.variables.get(each) for each in ("@", "#")}
        self.values.lexer = Lexer(text, budget=self.budget)
        self.values.lexer.unset_is_unknown = lexer.unset_is_unknown
        if arguments:
            self.values.set_arguments(arguments)
        self._nesting += 1
        try:
            for each in self._block(shell_parser.parse(self.values.lexer)):
                yield each._replace(offset=offset)
        finally:
            self._nesting -= 1
            lexer.unset_is_unknown |= self.values.lexer.unset_is_unknown
            self.values.lexer = lexer
            if arguments:
                self.values.variables |= {
                    each: values for each, values in positional.items() if values is not None
                }
            if words[0] != "eval":
                self.stop = "" if self.stop == "return" else self.stop


_RUNNERS: Mapping[type, Callable[..., Iterator[ShellCommand]]] = {
    Simple: Shell._simple,  # noqa: SLF001
    Subshell: Shell._subshell,  # noqa: SLF001
    Pipeline: Shell._pipeline,  # noqa: SLF001
    Negation: Shell._negation,  # noqa: SLF001
    If: Shell._if,  # noqa: SLF001
    Case: Shell._case,  # noqa: SLF001
    For: Shell._for,  # noqa: SLF001
    While: Shell._while,  # noqa: SLF001
}
_SUBSTITUTION = re.compile(r"\$\(|`")
_STARTERS = frozenset(
    ("bash", "sh", "srun", "sbatch", "source", "exec", "nohup", "zsh", "qsub", "env", "time", "setsid")
)
"""Programs that start a script."""
_SCRIPT_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")
_MAX_LEADING = 20
"""Leading words searched for the script that a command starts."""


def _is_script(word: str) -> bool:
    return word.endswith(_SCRIPT_SUFFIXES) and not word.startswith("-")


def _is_program(word: str) -> bool:
    """Whether a word can be the name of a program, not a flag or its value."""
    return not word.startswith("-") and "=" not in word and not word.isdecimal()


def _assigns(word: str, *, declares: bool) -> bool:
    return ASSIGNMENT.fullmatch(word) is not None or (declares and (word in _DECLARE or word[:1] == "-"))
