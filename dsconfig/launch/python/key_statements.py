"""Statements that set keys of a dict after its creation: `ds_config["train_batch_size"] = 8`, `ds_config.update(...)`.

A key that such a statement sets is known if the statement certainly runs, and runs before any other code can get hold
of the dict. All other changes make a key unknown: `dsconfig.launch.python.data_flow`.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from dsconfig.document.python_source import is_dict_expression
from dsconfig.launch.python.dict_calls import BUILTIN_READS, only_reads_dict, subscript_key
from dsconfig.launch.python.name_bindings import ModuleNames, last_dotted_name

_READING_METHODS = frozenset(("get", "keys", "values", "items", "update", "setdefault", "pop", "copy"))


class KeyStatement(NamedTuple):
    """One key that a statement sets."""

    path: tuple[str, ...]
    key: ast.expr | ast.keyword
    """The key as written: a string literal, or a keyword argument."""
    value: ast.expr
    write: ast.AST
    """Node that `DataFlow` records for this change."""


Position: TypeAlias = tuple[int, int]
"""Line and column at which a statement starts."""
_MAX_STATEMENTS = 500
"""Most statements behind a dict that are read."""


class DictVariable(NamedTuple):
    """A variable or attribute that is assigned a new dict, and the block that contains the assignment."""

    names: ModuleNames
    value: ast.expr
    uses: tuple[ast.expr, ...]
    """Reads of the variable, anywhere in the module."""
    bindings: tuple[ast.AST, ...]
    """Targets of all statements that bind the variable."""
    block: list[ast.stmt]

    def position_in_block(self, node: ast.AST) -> Position | None:
        """Return the position of the statement around a node in the block; None unless it follows the dict."""
        names = self.names
        if names.enclosing_function(node) is not names.enclosing_function(self.value):
            return None
        owner = names.parents.get(names.parents[self.value])
        current: ast.AST | None = node
        while current is not None and names.parents.get(current) is not owner:
            current = names.parents.get(current)
        if not isinstance(current, ast.stmt):
            return None
        at = _position_of_node(current)
        return (
            at
            if _position_of_node(names.parents[self.value]) < at <= _position_of_node(self.block[-1])
            else None
        )

    def key_statements(self) -> Iterator[KeyStatement]:
        """Yield the keys that are certainly set before other code can access the dict, in order."""
        uses: dict[Position, list[ast.expr]] = {}
        for use in self.uses:
            if (at := self.position_in_block(use)) is not None:
                uses.setdefault(at, []).append(use)
        rebound = [at for each in self.bindings if (at := self.position_in_block(each)) is not None]
        is_shared = sum(map(len, uses.values())) < len(self.uses)
        for statement in islice(self._following_statements(), _MAX_STATEMENTS):
            used = uses.pop(_position_of_node(statement), ())
            if rebound and _position_of_node(statement) >= min(rebound):
                return
            if is_shared and _runs_other_code(statement, self.names):
                return
            if not all(self._is_harmless_use(use) for use in used):
                return
            yield from _keys_set_by_statement(statement, used) if used else ()
            if not uses:
                return

    def _following_statements(self) -> Iterator[ast.stmt]:
        """Yield the statements of the block after the one that assigns the dict."""
        start = _position_of_node(self.names.parents[self.value])
        yield from islice(self.block, bisect_right(self.block, start, key=_position_of_node), None)

    def _is_harmless_use(self, use: ast.expr) -> bool:
        """Whether an expression only looks up or changes entries of the dict, and passes it nowhere."""
        parent = self.names.parents.get(use)
        if isinstance(parent, ast.Subscript):
            return parent.value is use
        if isinstance(parent, ast.Attribute):
            return parent.attr in _READING_METHODS
        if isinstance(parent, ast.Call):
            name = parent.func.id if isinstance(parent.func, ast.Name) else ""
            # What is written to a file has the keys of that moment.
            is_written = last_dotted_name(parent.func) in ("dump", "dumps")
            return name in BUILTIN_READS or (only_reads_dict(parent.func) and not is_written)
        return isinstance(parent, ast.Compare | ast.FormattedValue) or (
            isinstance(parent, ast.AugAssign) and parent.target is use
        )


def variable_of_dict(names: ModuleNames, value: ast.expr) -> DictVariable | None:
    """Return the variable that a dict expression is assigned to; None if it is used in another way."""
    statement = names.parents.get(value)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    if isinstance(target, ast.Name):
        key = (names.scope_binding_name(target, target.id), target.id)
        uses: Sequence[ast.expr] = names.loads.get(key, ())
        bindings = names.bindings.get(key, ())
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        text = ast.unparse(target)
        bindings = names.fields.get(target.attr, ())
        uses = [each for each in names.attributes.get(target.attr, ()) if each is not target]
        if any(ast.unparse(each) != text for each in uses):
            uses = [*uses, target]  # another object may be the same one: counts as shared
    else:
        return None
    block = _block_of_statement(names, statement)
    if not block:
        return None
    return DictVariable(names, value, tuple(uses), tuple(each.node for each in bindings), block)


def _block_of_statement(names: ModuleNames, statement: ast.stmt) -> list[ast.stmt]:
    """Return the block of statements that contains a statement; empty without one."""
    parent, at = names.parents.get(statement), _position_of_node(statement)
    for field in ("body", "orelse", "finalbody"):
        block: object = getattr(parent, field, None)
        if (
            isinstance(block, list)
            and block
            and _position_of_node(block[0]) <= at <= _position_of_node(block[-1])
        ):
            return block
    return []


def _position_of_node(node: ast.AST) -> Position:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def statements_setting_keys(variable: DictVariable | None, keys: frozenset[str]) -> list[KeyStatement]:
    """Return the statements that set keys in the dict of a variable; none unless one sets one of `keys`.

    Most dicts have no such key, and are not read any further.
    """
    if variable is None:
        return []
    for use in variable.uses:
        parent = variable.names.parents.get(use)
        if isinstance(parent, ast.Subscript) and parent.value is use and subscript_key(parent.slice) in keys:
            break
        if isinstance(parent, ast.Attribute) and parent.attr == "update":
            break
    else:
        return []
    return list(variable.key_statements())


def _keys_set_by_statement(statement: ast.stmt, uses: Sequence[ast.expr]) -> Iterator[KeyStatement]:
    """Yield the keys that an assignment or a call of `update` sets in the dict."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and (path := _subscript_path(target, uses)):
            yield KeyStatement(path, target.slice, statement.value, target)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "update":
            path = _subscript_path(call.func.value, uses)
            if path is not None and len(call.args) <= 1:
                yield from _keys_of_update_call(path, call)


def _keys_of_update_call(path: tuple[str, ...], call: ast.Call) -> Iterator[KeyStatement]:
    """Yield the keys that `update` copies from a literal and from its keyword arguments."""
    for mapping in call.args:
        if isinstance(mapping, ast.Dict):
            for key, value in zip(mapping.keys, mapping.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield KeyStatement((*path, key.value), key, value, mapping)
        elif is_dict_expression(mapping) and isinstance(mapping, ast.Call) and not mapping.args:
            for each in mapping.keywords:
                if each.arg is not None:
                    yield KeyStatement((*path, each.arg), each, each.value, mapping)
    for each in call.keywords:
        if each.arg is not None:
            yield KeyStatement((*path, each.arg), each, each.value, each.value)


def _subscript_path(node: ast.expr, uses: Sequence[ast.expr]) -> tuple[str, ...] | None:
    """Return the keys of `variable["a"]["b"]`, none for the variable itself; None for any other expression."""
    keys: list[str] = []
    while isinstance(node, ast.Subscript):
        key = subscript_key(node.slice)
        if not isinstance(key, str) or not isinstance(node.slice, ast.Constant):
            return None
        keys.append(key)
        node = node.value
    return tuple(reversed(keys)) if any(node is each for each in uses) else None


def _runs_other_code(statement: ast.stmt, names: ModuleNames) -> bool:
    """Whether a statement may call a function of the module or a method."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or any(
                each.kind != "import" for each in names.bindings_of_name(root)
            ):
                return True
    return False
