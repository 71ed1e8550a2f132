"""Interpret a shell script to find the commands that it runs, with expanded words, without executing anything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from types import MappingProxyType

from dsconfig.core.file_access import read_contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.launcher_call import ALLOCATOR_VARIABLES, MPI_SLOTS, MPI_WORKERS, NODE_GPUS
from dsconfig.launch.repository_files import (
    BudgetExceededError,
    ReadingBudget,
    budget_for_text,
    resolve_written_path,
)
from dsconfig.launch.shell import builtins as shell_builtins
from dsconfig.launch.shell import parser as shell_parser
from dsconfig.launch.shell.builtins import ASSUMED, FAILURE, SUCCESS, UNKNOWN, index_of_started_script
from dsconfig.launch.shell.expressions import contains_unknown_value
from dsconfig.launch.shell.lexer import MAX_LENGTH, ShellLexer
from dsconfig.launch.shell.parser import (
    ArithmeticCommand,
    CaseCommand,
    CommandBlock,
    ForLoop,
    IfCommand,
    ListItem,
    NegatedCommand,
    Node,
    Pipeline,
    ShellFunction,
    SimpleCommand,
    Subshell,
    TestCommand,
    WhileLoop,
    condition_words,
)
from dsconfig.launch.shell.variables import (
    ASSIGNMENT,
    CALLER_CONDITION,
    AssignmentScope,
    ShellVariables,
    VariableValue,
    expand_brace_range,
    slurm_variables,
)
from dsconfig.launch.shell.written_files import CommandRedirections, OutputFiles, expand_redirections

# The tree of a script is evaluated in the order in which a shell would run it. An unknown value stays as written,
# `$NAME`; it is never guessed. A condition on known values decides; after any other, a variable to which the
# branches give different values is unknown. The script counts as started without arguments.

_DECLARE = frozenset(("export", "local", "declare", "readonly", "typeset"))
_TEXT_COMMANDS = frozenset(("echo", "printf", "cat", "sed", "grep", "awk", "rm", "mkdir", "ls", "pip"))
"""Commands whose words are plain text, even if they look like a launcher command."""
_WRAPPERS = frozenset(("exec", "nohup", "sudo", "command", "builtin", "setsid", "time"))
"""Wrapper commands, which run the command after them unchanged."""
_LAUNCHER_VARIABLES = (
    *("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "PET_NPROC_PER_NODE", "PET_NNODES"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "FORCE_TORCHRUN", "USE_RAY", "USE_KT"),
    *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES", "SLURM_GPUS_ON_NODE"),
    *("PET_MASTER_ADDR", NODE_GPUS, MPI_WORKERS, MPI_SLOTS, *ALLOCATOR_VARIABLES),
)
"""Variables that launchers, LLaMA-Factory's among them, and torch's allocator read."""
_OUTPUT_ASSIGNMENT = re.compile(r"\w+=\"?\$\((.*)\)\"?", re.DOTALL)
"""Pattern of an assignment of a command's output."""
_HARMLESS = re.compile(
    r"conda|mamba|venv|virtualenv|activate|\.(?:bash|z)(?:rc|_profile)|profile|modules?\.sh|modulecmd|lmod|spack|pyenv"
    r"|direnv|ssh-agent|setvars|^/(?:etc|usr|opt|dev)/|nvm\.sh|poetry|/init/bash"
)
"""Pattern of `source` and `eval` texts that prepare an environment but set no variables of a training script."""
_MAX_NESTED = 3
"""Maximum nesting depth of texts and scripts that are read: `srun bash -c "…"`, `bash train.sh`."""
_MAX_CALLS = 8
"""Maximum nesting depth of function calls."""
_MAX_SCRIPT = 256 * 1024


class ShellCommand(NamedTuple):
    """A command with its words expanded."""

    words: tuple[str, ...]
    offset: int
    """Offset of the command in the text of the script."""
    folder: str
    """Directory entered with `cd`, relative to the directory in which the script starts."""
    variables: Mapping[str, str]
    """Variables in `LAUNCHER_VARIABLES` that are exported or set for the command."""
    dependencies: Mapping[str, frozenset[str]]
    """For each word or variable, the unset variables of the job's shell that it depends on."""


class ShellInterpreter:
    """Follows a script from start to end without running any command.

    `path` is the location of the script, `variables` the known variables of the job's shell, and `budget` the limit on
    steps. Other scripts are searched relative to `location`, by default the script itself.
    """

    def __init__(
        self,
        text: str,
        path: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
        budget: ReadingBudget | None = None,
        location: str = "",
    ) -> None:
        self.text, self.path, self.environment, self.folder = text, path, variables, ""
        self.location = location or path
        path_variables = {"0": path, "BASH_SOURCE": path} if path else {}
        short_variables = {name: value for name, value in variables.items() if len(value) <= MAX_LENGTH}
        environment = {**slurm_variables(text), **short_variables}
        self.budget = budget_for_text(len(text)) if budget is None else budget
        self.values = ShellVariables(
            {**path_variables, **environment}, ShellLexer(text, budget=self.budget), self.budget
        )
        self.values.origins |= dict.fromkeys(path_variables, frozenset())
        self.exported: set[str] = set(environment)
        """Variables that are exported to the commands of the script."""
        self.output = OutputFiles()
        """Files that the script writes."""
        self.scripts: set[str] = set()
        """Real paths of the scripts that this one starts or sources."""
        self._functions: dict[str, Node] = {}
        self._called: set[str] = set()
        self._locals: list[dict[str, VariableValue]] = []
        """For each active function call, the values that its local variables hide."""
        self.status = ASSUMED
        self.stop = ""
        """`exit`, `return` or `break`, if the current list of commands ends there."""
        self._nesting = 0

    def run_commands(self, depth: int = 0) -> Iterator[ShellCommand]:
        """Yield each simple command in the order in which the script runs it.

        Raises:
            BudgetExceededError: reading the commands exceeds the budget.
        """
        self._nesting = depth
        try:
            yield from self._run_all_commands()
        except RecursionError:  # nesting deeper than the interpreter's stack
            raise BudgetExceededError from None

    def _run_all_commands(self) -> Iterator[ShellCommand]:
        yield from self._run_block(shell_parser.parse_shell(self.values.lexer))
        self.stop = ""
        # A function without a visible call may be called by a name that only the caller knows.
        for name in list(self._functions):
            if name not in self._called:
                with self._isolate_assignments():
                    yield from self._call_function(name, None)

    # Lists, conditions and loops
    # ----------------------------------------------------------------------------------------------

    def _run_block(self, block: CommandBlock) -> Iterator[ShellCommand]:
        previous = ""
        for item in block.items:
            if self.stop:
                return
            yield from self._run_list_item(item, previous)
            previous = condition_words(item.node)

    def _run_list_item(self, item: ListItem, previous: str) -> Iterator[ShellCommand]:
        """Run a command of a list, unless `&&` or `||` skips it because of the exit status before it."""
        needed = {"&&": SUCCESS, "||": FAILURE}.get(item.operator)
        decisive = {"&&": (SUCCESS, ASSUMED), "||": (FAILURE,)}.get(item.operator, (self.status,))
        if needed is not None and self.status in (SUCCESS, FAILURE) and self.status != needed:
            return
        if self.status in decisive:
            if item.is_background:
                with self._isolate_assignments():
                    yield from self._run_node(item.node)
                return
            yield from self._run_node(item.node)
            return
        scope = AssignmentScope(previous)
        yield from self._run_branches(scope, [lambda: self._run_node(item.node)])
        self.status = UNKNOWN

    def _run_branches(
        self, scope: AssignmentScope, branches: Iterable[Callable[[], Iterator[ShellCommand]]]
    ) -> Iterator[ShellCommand]:
        """Run every branch of a conditional, and merge the resulting assignments."""
        stops: list[str] = []
        self.values.scopes.append(scope)
        folder = self.folder
        try:
            for branch in branches:
                yield from branch()
                stops.append(self.stop)
                self.values.end_branch(scope, is_kept=self.stop not in ("exit", "return"))
                self.stop = ""
        finally:
            self.values.scopes.pop()
        if self.folder != folder and not scope.exhaustive:
            self.folder = folder
        self.values.merge_scope(scope)
        if scope.exhaustive and stops and all(each in ("exit", "return") for each in stops):
            self.stop = stops[0]

    @contextmanager
    def _isolate_assignments(self) -> Iterator[None]:
        """Undo all assignments at the end of a `with` block, as a subshell does."""
        scope = AssignmentScope()
        self.values.scopes.append(scope)
        state = (self.folder, dict(self._functions), set(self.exported), self.stop)
        try:
            yield
        finally:
            self.values.scopes.pop()
            for name, value in scope.before.items():
                self.values.restore_variable(name, value)
            self.folder, self._functions, self.exported, self.stop = state

    def _run_node(self, node: Node) -> Iterator[ShellCommand]:
        self.budget.spend(1)
        match node:
            case ShellFunction():
                self._functions[node.name] = node.body
                self._called.discard(node.name)
            case TestCommand():
                shell_builtins.run_test_command(self, node.words, is_double=True)
            case ArithmeticCommand():
                shell_builtins.run_arithmetic_command(self, node.text)
            case CommandBlock():
                yield from self._run_block(node)
            case _:
                yield from _RUNNERS[type(node)](self, node)

    def _run_subshell(self, node: Subshell) -> Iterator[ShellCommand]:
        with self._isolate_assignments():
            yield from self._run_block(node.body)

    def _run_pipeline(self, node: Pipeline) -> Iterator[ShellCommand]:
        self.output.start_pipeline()
        for stage in node.stages:
            with self._isolate_assignments():
                yield from self._run_node(stage)
        self.status = ASSUMED

    def _run_negation(self, node: NegatedCommand) -> Iterator[ShellCommand]:
        yield from self._run_node(node.node)
        self.status = {SUCCESS: FAILURE, FAILURE: SUCCESS}.get(self.status, UNKNOWN)

    def _run_if(self, node: IfCommand) -> Iterator[ShellCommand]:
        possible: list[Callable[[], Iterator[ShellCommand]]] = []
        conditions: list[str] = []
        is_decided = False
        for branch in node.branches:
            yield from self._run_block(branch.test)
            if self.status == FAILURE:
                continue
            conditions.append(condition_words(branch.test))
            possible.append(lambda body=branch.body: self._run_block(body))  # type: ignore[misc]
            if self.status == SUCCESS:
                is_decided = True
                break
        if not is_decided and node.otherwise is not None:
            otherwise = node.otherwise
            possible.append(lambda: self._run_block(otherwise))
            is_decided = True
        if is_decided and len(possible) == 1:
            yield from possible[0]()
            return
        yield from self._run_branches(AssignmentScope(" ".join(conditions), exhaustive=is_decided), possible)
        self.status = ASSUMED

    def _run_case(self, node: CaseCommand) -> Iterator[ShellCommand]:
        word = "".join(self.values.expand_words([node.word], split=False))
        possible: list[Callable[[], Iterator[ShellCommand]]] = []
        is_decided = False
        for branch in node.branches:
            patterns = ["".join(self.values.expand_words([each], split=False)) for each in branch.patterns]
            is_known = not contains_unknown_value(word, *patterns)
            matches = any(each == "*" or (is_known and fnmatchcase(word, each)) for each in patterns)
            if is_known and not matches:
                continue
            possible.append(lambda body=branch.body: self._run_block(body))  # type: ignore[misc]
            if matches:
                is_decided = True
                break
        if is_decided and len(possible) == 1:
            yield from possible[0]()
            return
        yield from self._run_branches(AssignmentScope(node.word, exhaustive=is_decided), possible)

    def _run_for(self, node: ForLoop) -> Iterator[ShellCommand]:
        # A loop is read once, with its first value: the others differ in what they train, rarely in how. A number
        # that differs is unknown, and so is what one iteration passes on to the next.
        raw = ('"$@"',) if node.words is None else node.words
        values = [each for word in self.values.expand_words(raw) for each in expand_brace_range(word)]
        of_caller = not values and any("$@" in word or "$*" in word for word in raw)
        is_single = len(values) == 1 and not contains_unknown_value(*values)
        varies = len(set(values)) > 1 and all(value.isdecimal() for value in values)
        first = (f"${node.variable}",) if varies or of_caller else tuple(values[:1])
        origins = self.values.origins_of_last_expansion()
        if not is_single and not of_caller:
            self._forget_loop_changes(
                node.body, lambda: self.values.set_variable(node.variable, first, origins)
            )
        scope = AssignmentScope("$@" if of_caller else "", exhaustive=bool(values))

        def run_iteration() -> Iterator[ShellCommand]:
            self.values.set_variable(node.variable, first, origins)
            yield from self._run_block(node.body)

        yield from self._run_branches(scope, [run_iteration])
        if len(set(values)) > 1:
            self.values.forget_variable(node.variable)
        self.stop = "" if self.stop == "break" else self.stop

    def _run_while(self, node: WhileLoop) -> Iterator[ShellCommand]:
        yield from self._run_block(node.test)
        status = self.status
        if status == (SUCCESS if node.is_until else FAILURE):
            return
        condition = condition_words(node.test)
        if not CALLER_CONDITION.search(condition):
            self._forget_loop_changes(node.body, lambda: None)
        is_endless = condition in ("true", ":")
        scope = AssignmentScope(condition, exhaustive=is_endless)
        yield from self._run_branches(scope, [lambda: self._run_block(node.body)])
        self.stop = "" if self.stop == "break" else self.stop

    def _forget_loop_changes(self, body: CommandBlock, prepare: Callable[[], object]) -> None:
        """Mark variables that change between iterations of a loop, such as a counter, as unknown."""
        scope = AssignmentScope()
        self.values.scopes.append(scope)
        results = []
        stop, folder = self.stop, self.folder
        for _ in range(2):
            prepare()
            for _command in self._run_block(body):
                pass
            self.stop = ""
            results.append({name: self.values.get_variable(name) for name in scope.before})
        self.values.scopes.pop()
        for name, value in scope.before.items():
            self.values.restore_variable(name, value)
        self.stop, self.folder = stop, folder
        first, second = results
        for name, value in second.items():
            if name not in first or first[name].words != value.words:
                self.values.forget_variable(name)

    # Simple commands
    # ----------------------------------------------------------------------------------------------

    def _run_simple_command(self, node: SimpleCommand) -> Iterator[ShellCommand]:
        raw = list(node.words)
        redirected = expand_redirections(node, self.values)
        while raw and raw[0] in _WRAPPERS and len(raw) > 1 and not raw[1].startswith("-"):
            raw.pop(0)
        if raw[:1] == ["env"]:
            raw = self._without_env_options(raw)
        if not raw:
            self._record_written_file((), redirected)
            return
        declares = raw[0] in _DECLARE
        count = next(
            (at for at, word in enumerate(raw) if not _is_assignment_word(word, declares=declares)), len(raw)
        )
        if declares or count == len(raw):
            yield from self._run_assignments(raw, node.offset)
            return
        # Assignments before a command hold for this command only.
        prefixes = raw[:count]
        names = [match[1] for match in map(ASSIGNMENT.fullmatch, prefixes) if match]
        before = {name: self.values.get_variable(name) for name in names}
        exported = set(self.exported)
        for word in prefixes:
            self.values.apply_assignment(word)
        self.exported |= set(names)
        raw = raw[count:]
        if raw[0] == ":":
            self.values.apply_default_assignments(raw)
        words, dependencies = self.values.expand_with_dependencies(raw)
        self._record_written_file(words, redirected)
        self.status = ASSUMED
        yield from self._run_expanded_command(node.offset, raw, words, dependencies, redirected)
        for name, value in before.items():
            self.values.restore_variable(name, value)
        if names:
            self.exported = exported

    def _record_written_file(self, words: tuple[str, ...], redirected: CommandRedirections) -> None:
        self.output.record_command_output(words, redirected, self.values, self.exported)

    def _without_env_options(self, raw: list[str]) -> list[str]:
        """Return the words of a command without `env` and its options, keeping the assignments."""
        rest = raw[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in ("-u", "--unset", "-C", "--chdir") else rest[1:]
        return rest

    def _run_assignments(self, raw: list[str], offset: int) -> Iterator[ShellCommand]:
        """Run a command that consists of assignments, possibly after `export` or `declare`."""
        keyword = raw[0] if raw[0] in _DECLARE else ""
        options = "".join(word[1:] for word in raw[1:] if keyword and word.startswith("-"))
        self.status = SUCCESS
        for word in raw[bool(keyword) :]:
            if keyword and word.startswith(("-", "+")):
                continue
            match = ASSIGNMENT.fullmatch(word)
            name = match[1] if match else word
            if keyword in ("local", "declare", "typeset") and self._locals and "g" not in options:
                self._locals[-1].setdefault(name, self.values.get_variable(name))
            if "A" in options:
                self.values.set_variable(f"{name}[]", (), frozenset())
            if match is not None:
                self.values.apply_assignment(word, is_integer="i" in options)
            elif keyword in ("local",) and name.isidentifier():
                self.values.set_variable(name, (), frozenset())
            if keyword == "export" or "x" in options:
                self.exported.add(name)
            if output := _OUTPUT_ASSIGNMENT.fullmatch(word):
                self.status = ASSUMED
                yield from self._run_nested_commands(output[1], offset)

    def _run_expanded_command(
        self,
        offset: int,
        raw: list[str],
        words: tuple[str, ...],
        dependencies: dict[str, frozenset[str]],
        redirected: CommandRedirections,
    ) -> Iterator[ShellCommand]:
        """Run a command with expanded words: a builtin changes the state; any other command is yielded."""
        if not words:
            return
        name = words[0]
        if name in self._functions:
            yield from self._call_function(name, words[1:])
            return
        if handler := shell_builtins.BUILTINS.get(name):
            handler(self, shell_builtins.BuiltinCall(raw, words, redirected.bodies))
            return
        if name in ("eval", "source", "."):
            yield from self._run_eval_or_source(offset, words)
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
            yield from self._run_nested_commands(
                word, offset, dependencies.get(word, frozenset()), only_exported=True
            )
        yield from self._run_started_script(offset, words)

    def _call_function(self, name: str, arguments: tuple[str, ...] | None) -> Iterator[ShellCommand]:
        """Run a function of the script; `arguments` is None if its arguments are unknown."""
        self._called.add(name)
        if len(self._locals) >= _MAX_CALLS:
            return
        self._locals.append({})
        before = {each: self.values.variables.get(each) for each in ("@", "#")}
        self.values.set_positional_arguments(arguments)
        yield from self._run_node(self._functions[name])
        for each, values in before.items():
            self.values.variables.pop(each, None)
            if values is not None:
                self.values.variables[each] = values
        for variable, value in self._locals.pop().items():
            self.values.note_assignment(variable)
            self.values.restore_variable(variable, value)
        self.stop = "" if self.stop == "return" else self.stop

    # Other texts: nested commands, sourced files and started scripts
    # ----------------------------------------------------------------------------------------------

    def _run_nested_commands(
        self,
        text: str,
        offset: int,
        dependencies: frozenset[str] = frozenset(),
        *,
        only_exported: bool = False,
    ) -> Iterator[ShellCommand]:
        """Yield the commands nested in another command, such as `bash -c "…"` or `id=$(…)`."""
        # Only text with flags can contain a launcher command; skipping the rest saves most of the budget.
        if self._nesting < _MAX_NESTED and "--" in text and any(char.isspace() for char in text):
            inner = self._child_shell(text, self.path, only_exported=only_exported)
            inner.folder, inner.values.dependencies = self.folder, dependencies | self.values.dependencies
            for each in inner.run_commands(self._nesting + 1):
                yield each._replace(offset=offset)

    def _child_shell(self, text: str, path: str, *, only_exported: bool) -> ShellInterpreter:
        """Return a child shell for a text or script that this shell runs."""
        self.budget.spend(len(self.values.variables))
        child = ShellInterpreter(text, path, budget=self.budget, location=self.location)
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

    def _run_started_script(self, offset: int, words: tuple[str, ...]) -> Iterator[ShellCommand]:
        """Yield the commands of the script that a command starts: `bash train.sh 4`, `srun ./train.sh`."""
        at = index_of_started_script(words)
        if at is None or self._nesting >= _MAX_NESTED:
            return
        path, text = self._read_script(words[at])
        if text is None:
            return
        child = self._child_shell(text, path, only_exported=True)
        child.values.set_positional_arguments(words[at + 1 :])
        child.folder = self.folder
        for each in child.run_commands(self._nesting + 1):
            yield each._replace(offset=offset)

    def _read_script(self, name: str) -> tuple[str, str | None]:
        """Return the path and text of a script in the repository; the text is None if the script cannot be read."""
        if not self.location or contains_unknown_value(name):
            return name, None
        lookup = resolve_written_path(name, self.location, self.folder)
        if lookup.path is None:
            return name, None
        try:
            data = read_contents(lookup.path, _MAX_SCRIPT)
        except OSError:
            return name, None
        if len(data) > _MAX_SCRIPT or b"\0" in data:
            return name, None
        self.scripts.add(os.path.realpath(lookup.path))
        return os.path.abspath(lookup.path), data.decode("utf-8", "replace")

    def _run_eval_or_source(self, offset: int, words: tuple[str, ...]) -> Iterator[ShellCommand]:
        """Run the text of `eval` or the file of `source` in this shell; an unknown one may set any variable."""
        if len(words) < 2 or self._nesting >= _MAX_NESTED:
            return
        text: str | None = " ".join(words[1:])
        arguments: tuple[str, ...] = ()
        if words[0] != "eval":
            _, text = self._read_script(words[1])
            arguments = words[2:]
        if text is None or (words[0] == "eval" and _SUBSTITUTION.search(text)):
            if not _HARMLESS.search(" ".join(words[1:])):
                self.values.forget_all_variables()
            if text is None:
                return
        lexer, positional = self.values.lexer, {each: self.values.variables.get(each) for each in ("@", "#")}
        self.values.lexer = ShellLexer(text, budget=self.budget)
        self.values.lexer.unset_is_unknown = lexer.unset_is_unknown
        if arguments:
            self.values.set_positional_arguments(arguments)
        self._nesting += 1
        try:
            for each in self._run_block(shell_parser.parse_shell(self.values.lexer)):
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
    SimpleCommand: ShellInterpreter._run_simple_command,  # noqa: SLF001
    Subshell: ShellInterpreter._run_subshell,  # noqa: SLF001
    Pipeline: ShellInterpreter._run_pipeline,  # noqa: SLF001
    NegatedCommand: ShellInterpreter._run_negation,  # noqa: SLF001
    IfCommand: ShellInterpreter._run_if,  # noqa: SLF001
    CaseCommand: ShellInterpreter._run_case,  # noqa: SLF001
    ForLoop: ShellInterpreter._run_for,  # noqa: SLF001
    WhileLoop: ShellInterpreter._run_while,  # noqa: SLF001
}
_SUBSTITUTION = re.compile(r"\$\(|`")


def _is_assignment_word(word: str, *, declares: bool) -> bool:
    return ASSIGNMENT.fullmatch(word) is not None or (declares and (word in _DECLARE or word[:1] == "-"))
