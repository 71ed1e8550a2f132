"""Interpret the functions of a Python program to find the values of a dict and of the variables around it.

Nothing is executed. Statements are interpreted in order, with the values of one command's flags. If a condition is
known only at run time, both branches are interpreted, and values that differ between them are `UNKNOWN`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from dsconfig.document.located_tree import UNKNOWN, UnknownValue
from dsconfig.launch.python.expression_evaluator import (
    CommandFacts,
    ExpressionEvaluator,
    FunctionCall,
    OuterValues,
)
from dsconfig.launch.python.interpreted_values import Container, HeapState, remove_key, truth_of
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.repository_files import BudgetExceededError

if TYPE_CHECKING:
    from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository

_MAX_ROUNDS = 4
"""Maximum number of rounds of a loop that are interpreted."""
_EXITS = frozenset(("exit", "_exit", "quit"))


class _WatchedValueError(Exception):
    """Raised to stop an interpretation at the watched expression."""


UNREACHED: Final = UnknownValue()
"""Value of an expression that its function never evaluates."""


class FunctionInterpreter(ExpressionEvaluator):
    """Interprets a function, and the functions of the repository that it calls."""

    def __init__(
        self, repository: ProgramRepository, facts: CommandFacts, outer: OuterValues, watched: ast.expr
    ) -> None:
        super().__init__(repository, facts, outer)
        self._watched = watched
        self._observed: list[tuple[HeapState, object]] = []

    def value_in_scope(self, module: ParsedModule, scope: ast.AST) -> object:
        """Return the value of the watched expression when a function or module evaluates it.

        Return `UNREACHED` if it is never evaluated.

        Raises:
            BudgetExceededError: the function is too large to interpret.
        """
        if isinstance(scope, ast.Lambda) or not isinstance(
            scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
        ):
            return UNKNOWN
        self._calls.append(FunctionCall(module, scope, self.heap.new("frame")))
        if module.names.class_of_method(scope) is not None and scope.args.args:  # type: ignore[union-attr]
            self._call.variables.entries[scope.args.args[0].arg] = self.heap.new("object")  # type: ignore[union-attr]
        # What a function does behind the watched expression cannot change it, but for a loop around it.
        last = next(
            (at for at, each in enumerate(scope.body) if _contains(each, self._watched)), len(scope.body)
        )
        try:
            self.run_block(scope.body[: last + 1])
        except _WatchedValueError:
            pass
        except BudgetExceededError:
            if not self._observed:
                raise
        if not self._observed:
            return UNREACHED
        states, values = zip(*self._observed, strict=True)
        return self.heap.merge(list(states), values)

    def evaluate(self, node: ast.expr) -> object:
        """Evaluate an expression, including its side effects, and return its value."""
        value = super().evaluate(node)
        if node is self._watched:
            self._observed.append((self.heap.save(), value))
            if not self.open_branches:
                raise _WatchedValueError
        return value

    # ------------------------------------------------------------ statements

    def run_block(self, body: Iterable[ast.stmt]) -> bool:
        """Interpret statements; return whether they always leave the function."""
        return any(self._run_statement(each) for each in body)

    def _run_statement(self, statement: ast.stmt) -> bool:
        self._facts.budget.spend(1)
        match statement:
            case ast.Return():
                value = None if statement.value is None else self.evaluate(statement.value)
                self._call.returned.append((self.heap.save(), value))
                return True
            case ast.Raise():
                return True
            case ast.If():
                return self._run_if(statement)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._run_loop(statement)
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    self.evaluate(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, UNKNOWN)
                return self.run_block(statement.body)
            case ast.Try():
                return self._run_try(statement)
            case ast.Match():
                self.evaluate(statement.subject)
                return self._run_branches([each.body for each in statement.cases] + [[]])
            case _:
                return self._run_simple_statement(statement)

    def _run_simple_statement(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign():
                value = self.evaluate(statement.value)
                for target in statement.targets:
                    self.assign(target, value)
            case ast.AnnAssign(value=ast.expr() as assigned):
                self.assign(statement.target, self.evaluate(assigned))
            case ast.AugAssign():
                self._run_augmented_assignment(statement)
            case ast.Expr():
                self.evaluate(statement.value)
                call = statement.value
                return isinstance(call, ast.Call) and last_dotted_name(call.func) in _EXITS
            case ast.Assert():
                self.evaluate(statement.test)
            case ast.Delete():
                for target in statement.targets:
                    if isinstance(target, ast.Subscript):
                        container, key = self.evaluate(target.value), self.evaluate(target.slice)
                        if isinstance(container, Container):
                            self.visited.add(target)
                            remove_key(container, key)
            case _:
                pass
        return False

    def _run_augmented_assignment(self, statement: ast.AugAssign) -> None:
        left, right = self.evaluate(statement.target), self.evaluate(statement.value)
        if isinstance(left, Container):
            if isinstance(statement.op, ast.BitOr):
                self._update_dict(left, right)
            else:
                left.forget_values()
            self.visited.update((statement.target, statement.value))
            return
        self.assign(statement.target, self._compute_binary(statement.op, left, right))

    def _run_if(self, statement: ast.If) -> bool:
        test = truth_of(self.evaluate(statement.test))
        if test is not None:
            self.skip_nodes(statement.orelse if test else statement.body)
            return self.run_block(statement.body if test else statement.orelse)
        return self._run_branches([statement.body, statement.orelse])

    def _run_branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> bool:
        """Interpret alternative blocks from the same state, and merge the states of those that continue."""
        before, states = self.heap.save(), []
        self.open_branches += 1
        for body in bodies:
            self.heap.restore(before)
            if not self.run_block(body):
                states.append(self.heap.save())
        self.open_branches -= 1
        if states:
            self.heap.merge(states)
        return not states

    def _run_loop(self, statement: ast.For | ast.AsyncFor | ast.While) -> bool:
        """Interpret a loop until its state is stable, which covers any number of iterations, even none."""
        self.evaluate(statement.test if isinstance(statement, ast.While) else statement.iter)
        self.open_branches += 1
        for _ in range(_MAX_ROUNDS):
            before = self.heap.save()
            if not isinstance(statement, ast.While):
                self.assign(statement.target, UNKNOWN)
            if self.run_block(statement.body):
                self.heap.restore(before)
                break
            self.heap.merge([before, self.heap.save()])
            if all(entries == (each.entries, each.has_other_keys) for each, entries in before.items()):
                break
        else:
            for each, entries in before.items():
                if entries != (each.entries, each.has_other_keys):
                    each.forget_values()
        self.open_branches -= 1
        return self.run_block(statement.orelse)

    def _run_try(self, statement: ast.Try) -> bool:
        before = self.heap.save()
        leaves = self.run_block((*statement.body, *statement.orelse))
        states = [] if leaves else [self.heap.save()]
        self.heap.merge([before, self.heap.save()])
        failed = self.heap.save()
        self.open_branches += 1
        for handler in statement.handlers:
            self.heap.restore(failed)
            if not self.run_block(handler.body):
                states.append(self.heap.save())
        self.open_branches -= 1
        if states:
            self.heap.merge(states)
        return self.run_block(statement.finalbody) or not states

    def assign(self, target: ast.expr, value: object) -> None:
        """Store a value in a variable, an attribute or an element of a container."""
        match target:
            case ast.Name():
                names = self._call.module.names
                if names.scope_binding_name(target, target.id) is self._call.scope:
                    self._call.variables.entries[target.id] = value
            case ast.Attribute():
                container = self.evaluate(target.value)
                if isinstance(container, Container) and container.kind == "object":
                    container.entries[target.attr] = value
            case ast.Subscript():
                container, key = self.evaluate(target.value), self.evaluate(target.slice)
                if isinstance(container, Container):
                    self.visited.add(target)
                    container.set_value(key, value)
            case ast.Tuple() | ast.List():
                has_star = any(isinstance(each, ast.Starred) for each in target.elts)
                is_list = isinstance(value, Container) and value.kind == "list" and not value.has_other_keys
                entries = value.entries if isinstance(value, Container) and is_list and not has_star else {}
                for index, each in enumerate(target.elts):
                    self.assign(each, entries.get(index, UNKNOWN))
            case ast.Starred():
                self.assign(target.value, UNKNOWN)
            case _:
                pass


def _contains(statement: ast.stmt, node: ast.expr) -> bool:
    start, end = (
        (statement.lineno, statement.col_offset),
        (statement.end_lineno or 0, statement.end_col_offset or 0),
    )
    return start <= (node.lineno, node.col_offset) < end
