"""Tree of a config in a Python source: its dict literal, the keys that later statements set, and what is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.python_source import (
    DictNodeBuilder,
    PythonSourceText,
    has_hidden_entries,
    is_dict_expression,
    walk_nodes,
)
from dsconfig.document.python_source import make_path_unknown as with_unknown_value
from dsconfig.document.tree import UNKNOWN, LocatedTree, ObjectMember, TextSpan, TreeNode
from dsconfig.launch.python.argparse_values import argument_value
from dsconfig.launch.python.json_literals import collapse_to_span, parse_json_tree
from dsconfig.launch.python.key_statements import variable_of_dict
from dsconfig.launch.python.name_bindings import ANY

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.launch.python.constant_expressions import ConstantEvaluator
    from dsconfig.launch.python.data_flow import DictWrite
    from dsconfig.launch.python.name_bindings import ModuleNames
    from dsconfig.launch.python.syntax_trees import ParsedModule

_QUOTES = ("'", '"', "'''", '"""')
_MAX_VARIABLES = 20
"""Most variables of one config whose dicts are read."""


class SectionVariable(NamedTuple):
    """A dict that is in the config by the name of its variable: `{"zero_optimization": zero}`."""

    path: KeyPath
    value: ast.expr


class ConfigNodeBuilder(DictNodeBuilder):
    """Nodes of a config that consists of a literal, of dicts in variables, and of statements that set keys.

    `is_in_text`: whether an expression is in the text of the config; each cell of a notebook is a text of its own.
    """

    def __init__(
        self,
        text: PythonSourceText,
        names: ModuleNames,
        constants: ConstantEvaluator,
        is_in_text: Callable[[ast.expr], bool],
        module: ParsedModule,
    ) -> None:
        super().__init__(text, self._value)
        self._module = module
        self._names, self._constants, self._is_in_text = names, constants, is_in_text
        self.sections: list[SectionVariable] = []
        self.open_paths: set[KeyPath] = set()
        """Objects with keys that the source does not show, each with a final `*`."""
        self.overwritten: set[KeyPath] = set()
        """Keys in front of `**other` or of a key that is no literal, which may overwrite them."""
        self.writes: set[ast.AST] = set()
        """Nodes of the statements that set a key."""
        self.comments: dict[tuple[TextSpan, str], None] = {}

    def build_node(self, value: ast.expr, path: KeyPath = ()) -> TreeNode:
        """Convert an expression to a node; a name becomes the dict of its variable."""
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
        """Evaluate an expression of constants and flags; `UNKNOWN` if its value is known only at run time."""
        known = self._constants.evaluate_constant(value)
        if known is not UNKNOWN:
            return known
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
        """Return the dict that a variable holds; None if it may hold something else."""
        if not isinstance(value, ast.Name) or len(self.sections) >= _MAX_VARIABLES:
            return None
        literal = self._constants.only_binding_of(value)
        if literal is None or not is_dict_expression(literal) or not self._is_in_text(literal):
            return None
        return None if any(each.value is literal for each in self.sections) else literal

    def _add_key_statements(self, value: ast.expr, path: KeyPath, node: TreeNode) -> TreeNode:
        """Add the keys that statements after a dict set in it."""
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
            node = _replace_member(
                node, each.path, ObjectMember(each.path[-1], span, self.build_node(each.value, full_path))
            )
            self.comments |= dict.fromkeys(self._text.comments_on_lines(self._text.span_of_node(each.value)))
            self.writes.add(each.write)
        return node


def _object_at_path(node: TreeNode, path: KeyPath) -> TreeNode | None:
    """Return the object at a path below a node; None if there is none."""
    for key in path:
        if node.kind != "object":
            return None
        inner = next((each.node for each in reversed(node.members) if each.key == key), None)
        if inner is None:
            return None
        node = inner
    return node if node.kind == "object" else None


def _replace_member(node: TreeNode, path: KeyPath, member: ObjectMember) -> TreeNode:
    """Return an object with a member at a path, which replaces one with the same key."""
    if len(path) > 1:
        index = max(at for at, each in enumerate(node.members) if each.key == path[0])
        old = node.members[index]
        new = old._replace(node=_replace_member(old.node, path[1:], member))
        members = (*node.members[:index], new, *node.members[index + 1 :])
    else:
        members = (*(each for each in node.members if each.key != member.key), member)
    return node._replace(members=members, value={each.key: each.node.value for each in members})


def _keys_before_unpacking(value: ast.expr, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the keys of a literal that a later `**other` or computed key may overwrite."""
    before: list[KeyPath] = []
    for key in value.keys if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            before.append((*path, key.value))
        else:
            yield from before
            before = []


def json_literal_tree(text: PythonSourceText, literal: ast.expr, json_text: str) -> LocatedTree:
    """Return the tree of a JSON text in a string literal; all spans are those of the literal if it has escapes."""
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
    """The value of a config with `UNKNOWN` where the program changes it."""

    def __init__(self, root: TreeNode) -> None:
        self._nodes = dict(walk_nodes(root))
        self.value: Json = root.value
        self.unknown: set[KeyPath] = {path for path, node in self._nodes.items() if node.value is UNKNOWN}
        self.places: dict[KeyPath, str] = {}

    def apply_write(self, write: DictWrite, place: str, path: KeyPath = ()) -> None:
        """Apply a change of the program at a location. `path`: the dict that is changed."""
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
        """Make the value at a path unknown."""
        self.unknown.add(path)
        if place:
            self.places.setdefault(path, place)
        self.value = with_unknown_value(self.value, path)
