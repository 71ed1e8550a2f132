"""Build the tree of a config in a Python source from its dict literal and the statements that set keys later.

A later statement such as `ds_config["train_batch_size"] = 8` or `ds_config.update(...)` sets a known value if it
certainly runs, and runs before any other code can access the dict. Any other change makes the key unknown
(`dsconfig.launch.python.data_flow`).
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.document.located_tree import UNKNOWN, LocatedTree, ObjectMember, TextSpan, TreeNode
from dsconfig.document.python_source import (
    DictNodeBuilder,
    PythonSourceText,
    has_hidden_entries,
    is_dict_expression,
    walk_nodes,
)
from dsconfig.document.python_source import make_path_unknown as with_unknown_value
from dsconfig.launch.python.argparse_values import argument_value
from dsconfig.launch.python.calls_receiving_dict import BUILTIN_READS, only_reads_dict, subscript_key
from dsconfig.launch.python.constant_expressions import collapse_to_span, parse_json_tree
from dsconfig.launch.python.name_bindings import ANY, ModuleNames, last_dotted_name

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.launch.python.constant_expressions import ConstantEvaluator
    from dsconfig.launch.python.data_flow import DictWrite
    from dsconfig.launch.python.syntax_trees import ParsedModule

_READING_METHODS = frozenset(("get", "keys", "values", "items", "update", "setdefault", "pop", "copy"))


class KeyStatement(NamedTuple):
    """A statement that sets one key of a dict."""

    path: tuple[str, ...]
    key: ast.expr | ast.keyword
    """The key as written: a string literal, or a keyword argument."""
    value: ast.expr
    write: ast.AST
    """Syntax node that `DataFlow` records for this change of the dict."""


Position: TypeAlias = tuple[int, int]
"""Line and column at which a statement starts."""
_MAX_STATEMENTS = 500
"""Maximum number of statements after a dict that are read."""


class DictVariable(NamedTuple):
    """A variable or attribute to which a new dict is assigned, and the block of statements with the assignment."""

    names: ModuleNames
    value: ast.expr
    uses: tuple[ast.expr, ...]
    """Reads of the variable, anywhere in the module."""
    bindings: tuple[ast.AST, ...]
    """Targets of all statements that bind the variable."""
    block: list[ast.stmt]

    def position_in_block(self, node: ast.AST) -> Position | None:
        """Return the position in the block of the statement around a node, or None if it is not after the dict."""
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
        """Yield, in order, the statements that certainly set a key before other code can access the dict."""
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
        """Yield the statements that follow the dict's assignment in its block."""
        start = _position_of_node(self.names.parents[self.value])
        yield from islice(self.block, bisect_right(self.block, start, key=_position_of_node), None)

    def _is_harmless_use(self, use: ast.expr) -> bool:
        """Return whether an expression only reads or changes entries of the dict, without passing it on."""
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
    """Return the variable to which a dict is assigned, or None if the dict is used directly."""
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
    """Return the block that contains a statement, or an empty list if there is none."""
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
    """Return the statements that set keys of a variable's dict; empty unless one of them sets one of `keys`.

    Most dicts have none of these keys, and need no further analysis.
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
    """Yield the keys that a statement sets in the dict, by an assignment or a call of `update`."""
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
    """Yield the keys that a call of `update` sets, from a dict literal and from keyword arguments."""
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
    """Return the keys in `variable["a"]["b"]`, empty for the variable itself, or None for other expressions."""
    keys: list[str] = []
    while isinstance(node, ast.Subscript):
        key = subscript_key(node.slice)
        if not isinstance(key, str) or not isinstance(node.slice, ast.Constant):
            return None
        keys.append(key)
        node = node.value
    return tuple(reversed(keys)) if any(node is each for each in uses) else None


def _runs_other_code(statement: ast.stmt, names: ModuleNames) -> bool:
    """Return whether a statement may call a method or a function of the module."""
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


_QUOTES = ("'", '"', "'''", '"""')
_TORCH_DTYPES: dict[str, Json] = {
    "half": "torch.float16",
    "float16": "torch.float16",
    "float": "torch.float32",
    "float32": "torch.float32",
    "bfloat16": "torch.bfloat16",
    "int8": "torch.int8",
}
"""Data types that DeepSpeed treats like their names: deepspeed inference/config.py:DtypeEnum."""
_MAX_VARIABLES = 20
"""Maximum number of variables of one config whose dicts are read."""


class SectionVariable(NamedTuple):
    """A section of a config whose value is a variable: `{"zero_optimization": zero}`."""

    path: KeyPath
    value: ast.expr


class ConfigNodeBuilder(DictNodeBuilder):
    """Builds the nodes of a config from its literal, from dicts in variables, and from statements that set keys.

    `is_in_text` returns whether an expression is in the text of the config; each notebook cell is a separate text. In
    an inference config, `torch.half` and the like stand for the names that DeepSpeed accepts in a file.
    """

    def __init__(
        self,
        text: PythonSourceText,
        names: ModuleNames,
        constants: ConstantEvaluator,
        is_in_text: Callable[[ast.expr], bool],
        module: ParsedModule,
        *,
        is_inference: bool = False,
    ) -> None:
        super().__init__(text, self._value)
        self._is_inference = is_inference
        self._module = module
        self._names, self._constants, self._is_in_text = names, constants, is_in_text
        self.sections: list[SectionVariable] = []
        self.open_paths: set[KeyPath] = set()
        """Paths of objects with keys that the source does not show, each with a final `*`."""
        self.overwritten: set[KeyPath] = set()
        """Paths of keys that may be overwritten by a later `**other` or computed key."""
        self.writes: set[ast.AST] = set()
        """Syntax nodes of the statements that set a key of the config."""
        self.comments: dict[tuple[TextSpan, str], None] = {}

    def build_node(self, value: ast.expr, path: KeyPath = ()) -> TreeNode:
        """Convert an expression to a node, replacing variables with the dicts that they hold."""
        literal = self._dict_behind_name(value)
        if literal is not None:
            self.sections.append(SectionVariable(path, literal))
            value = literal
        node = super().build_node(value, path)
        if not is_dict_expression(value):
            return node
        self.comments |= dict.fromkeys(self._text.comments_on_lines(node.span))
        if has_hidden_entries(value):
            self.open_paths.add((*path, ANY))
            self.overwritten |= set(_keys_before_unpacking(value, path))
        return self._add_key_statements(value, path, node)

    def _value(self, value: ast.expr) -> Json:
        """Evaluate an expression of constants and flags; return `UNKNOWN` if it is known only at run time."""
        known = self._constants.evaluate_constant(value)
        if known is not UNKNOWN:
            return known
        bound = self._constants.only_binding_of(value) if isinstance(value, ast.Name) else value
        if (
            self._is_inference
            and isinstance(bound, ast.Attribute)
            and last_dotted_name(bound.value) == "torch"
        ):
            return _TORCH_DTYPES.get(bound.attr, UNKNOWN)
        match value:
            case ast.Attribute():
                return argument_value(self._module, value)
            case ast.IfExp():
                test = self._value(value.test)
                return (
                    self._value(value.body if test else value.orelse) if isinstance(test, bool) else UNKNOWN
                )
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() as operator], comparators=[other]):
                left, right = self._value(value.left), self._value(other)
                is_known = left is not UNKNOWN and right is not UNKNOWN
                return (left == right) == isinstance(operator, ast.Eq) if is_known else UNKNOWN
            case ast.UnaryOp(op=ast.Not()):
                operand = self._value(value.operand)
                return not operand if isinstance(operand, bool) else UNKNOWN
        return UNKNOWN

    def _dict_behind_name(self, value: ast.expr) -> ast.expr | None:
        """Return the dict that a variable holds, or None if it may hold something else."""
        if not isinstance(value, ast.Name) or len(self.sections) >= _MAX_VARIABLES:
            return None
        literal = self._constants.only_binding_of(value)
        if literal is None or not is_dict_expression(literal) or not self._is_in_text(literal):
            return None
        return None if any(each.value is literal for each in self.sections) else literal

    def _add_key_statements(self, value: ast.expr, path: KeyPath, node: TreeNode) -> TreeNode:
        """Add the keys that later statements set in a dict to its node."""
        variable = variable_of_dict(self._names, value)
        for each in () if variable is None else variable.key_statements():
            key = each.key.value if isinstance(each.key, ast.keyword) else each.key
            full_path = (*path, *each.path)
            if not self._is_in_text(key) or _object_at_path(node, each.path[:-1]) is None:
                continue
            for paths in (self.open_paths, self.overwritten):
                paths -= {known for known in paths if known[: len(full_path)] == full_path}
            span = (
                self._text.span_of_argument_name(each.key)
                if isinstance(each.key, ast.keyword)
                else self._text.span_of_node(each.key)
            )
            node = replace_member(
                node, each.path, ObjectMember(each.path[-1], span, self.build_node(each.value, full_path))
            )
            self.comments |= dict.fromkeys(self._text.comments_on_lines(self._text.span_of_node(each.value)))
            self.writes.add(each.write)
        return node


def _object_at_path(node: TreeNode, path: KeyPath) -> TreeNode | None:
    """Return the object at a path below a node, or None if there is no object."""
    for key in path:
        if node.kind != "object":
            return None
        inner = next((each.node for each in reversed(node.members) if each.key == key), None)
        if inner is None:
            return None
        node = inner
    return node if node.kind == "object" else None


def replace_member(node: TreeNode, path: KeyPath, member: ObjectMember) -> TreeNode:
    """Return an object with a member set at a path, replacing any member with the same key."""
    if len(path) > 1:
        index = max(at for at, each in enumerate(node.members) if each.key == path[0])
        old = node.members[index]
        new = old._replace(node=replace_member(old.node, path[1:], member))
        members = (*node.members[:index], new, *node.members[index + 1 :])
    else:
        members = (*(each for each in node.members if each.key != member.key), member)
    return node._replace(members=members, value={each.key: each.node.value for each in members})


def _keys_before_unpacking(value: ast.expr, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of the keys in a literal that a later `**other` or computed key may overwrite."""
    before: list[KeyPath] = []
    for key in value.keys if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            before.append((*path, key.value))
        else:
            yield from before
            before = []


def json_literal_tree(text: PythonSourceText, literal: ast.expr, json_text: str) -> LocatedTree:
    """Return the tree of the JSON in a string literal; with escapes, the span of every node is the whole literal."""
    span = text.span_of_node(literal)
    source = text.text[span.start : span.end]
    at = source.find(json_text)
    if at >= 0 and source[:at].strip("rRuUbB") in _QUOTES and source[at + len(json_text) :] in _QUOTES:
        return parse_json_tree(json_text, span.start + at)
    tree = parse_json_tree(json_text, 0)
    return tree._replace(
        root=collapse_to_span(tree.root, span) if tree.root else None, problems=(), comments=()
    )


class ChangedConfig:
    """A config's value, in which everything that the program changes is `UNKNOWN`."""

    def __init__(self, root: TreeNode) -> None:
        self._nodes = dict(walk_nodes(root))
        self.value: Json = root.value
        self.unknown: set[KeyPath] = {path for path, node in self._nodes.items() if node.value is UNKNOWN}
        self.places: dict[KeyPath, str] = {}

    def apply_write(self, write: DictWrite, place: str, path: KeyPath = ()) -> None:
        """Mark what a write at `place` changes as unknown; `path` is the path of the changed dict in the config."""
        parent, last = (*path, *write.path[:-1]), write.path[-1]
        full_path: KeyPath = (*parent, last)
        if last != ANY:
            if not (write.absent_only and full_path in self._nodes):
                self.make_unknown(full_path, place)
            return
        section = self._nodes.get(tuple(parent))
        if section is not None and section.kind == "object":
            self.unknown.add(full_path)
            if not write.absent_only:
                self.places.setdefault(full_path, place)
                # A key that is only known at run time may be any of the keys that the literal shows.
                for member in section.members:
                    self.make_unknown((*parent, member.key), place)
        elif parent:
            self.make_unknown(tuple(parent), place)

    def make_unknown(self, path: KeyPath, place: str) -> None:
        """Mark the value at a path as unknown because code at `place` changes it."""
        self.unknown.add(path)
        if place:
            self.places.setdefault(path, place)
        self.value = with_unknown_value(self.value, path)
