"""Evaluate constant expressions and JSON string literals in a Python program without running it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dsconfig.document import read_text
from dsconfig.document.located_tree import UNKNOWN, LocatedTree, ObjectMember, TreeNode, shift_tree
from dsconfig.launch.python.name_bindings import NameBinding, last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, keyword_argument

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document.located_tree import TextSpan

CONFIG_SUFFIXES = (".json", ".hjson")
"""Suffixes of the config files that programs write."""
_LIMIT = 1e18
"""Largest magnitude of a number that is computed."""


class ConstantEvaluator:
    """Evaluates the constants of a module, whose names other modules in `repository` may rebind."""

    def __init__(self, module: ParsedModule, repository: ProgramRepository) -> None:
        self._module, self._names, self._repository = module, module.names, repository

    def evaluate_constant(self, value: ast.expr, depth: int = 0) -> Json:
        """Evaluate constants, simple arithmetic and names assigned once; return `UNKNOWN` for anything else."""
        if isinstance(value, ast.Constant) and isinstance(value.value, str | bool | int | float | None):
            return value.value
        if depth > 8:
            return UNKNOWN
        if isinstance(value, ast.Name):
            bound = self.only_binding_of(value)
            return UNKNOWN if bound is None else self.evaluate_constant(bound, depth + 1)
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
            number = self.evaluate_constant(value.operand, depth + 1)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return -number if isinstance(value.op, ast.USub) else number
        if isinstance(value, ast.BinOp):
            return compute_arithmetic(
                value.op,
                self.evaluate_constant(value.left, depth + 1),
                self.evaluate_constant(value.right, depth + 1),
            )
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id in ("int", "float")
            and not self._names.bindings_of_name(value.func)
            and len(value.args) == 1
        ):
            number = self.evaluate_constant(value.args[0], depth + 1)
            if isinstance(number, int | float) and abs(number) < _LIMIT:
                return int(number) if value.func.id == "int" else float(number)
        return UNKNOWN

    def only_binding_of(self, name: ast.Name) -> ast.expr | None:
        """Return the only value assigned to a name, or None if several statements may bind it."""
        bindings = self._names.bindings_of_name(name)
        if len(bindings) != 1 or bindings[0].kind != "value":
            return None
        (binding,) = bindings
        is_global = self._names.scope_binding_name(name, name.id) is self._names.tree
        if is_global and (self._names.is_dynamic or self._is_rebound_elsewhere(binding, name.id)):
            return None
        value = binding.value
        for step in binding.steps:
            is_element = isinstance(value, ast.Tuple | ast.List) and isinstance(step, int)
            if not is_element or step >= len(value.elts):  # type: ignore[union-attr, operator]
                return None
            value = value.elts[step]  # type: ignore[union-attr]
            if isinstance(value, ast.Starred):
                return None
        return value

    def path_of_dump(self, call: ast.Call) -> str:
        """Return the path to the file to which `json.dump(x, file)` or a similar call writes."""
        target: ast.expr | None = call.args[1] if len(call.args) > 1 else keyword_argument(call, "fp")
        if last_dotted_name(call.func) == "dumps":
            parent = self._names.parents.get(call)
            function = parent.func if isinstance(parent, ast.Call) and call in parent.args else None
            is_write = isinstance(function, ast.Attribute) and function.attr in ("write", "write_text")
            target = function.value if is_write and isinstance(function, ast.Attribute) else None
        if isinstance(target, ast.Name):  # `with open(path, "w") as target`, `target = open(path, "w")`
            bindings = self._names.bindings_of_name(target)
            item = self._names.parents.get(bindings[0].node) if len(bindings) == 1 else None
            target = (
                item.context_expr
                if isinstance(item, ast.withitem)
                else bindings[0].value
                if bindings
                else None
            )
        if (
            isinstance(target, ast.Call)
            and last_dotted_name(target.func) == "open"
            and isinstance(target.func, ast.Attribute)
        ):
            target = target.func.value if isinstance(target.func.value, ast.Call) else target
        if (
            not isinstance(target, ast.Call)
            or last_dotted_name(target.func) not in ("open", "Path")
            or not target.args
        ):
            return ""
        path = self.evaluate_constant(target.args[0])
        return path if isinstance(path, str) and path.endswith(CONFIG_SUFFIXES) else ""

    def _is_rebound_elsewhere(self, binding: NameBinding, name: str) -> bool:
        """Return whether a later `import *` or another module may rebind a global name."""
        stars = self._names.bindings.get((self._names.tree, "*"), ())
        line = getattr(binding.node, "lineno", 0)
        if any(getattr(each.node, "lineno", 0) > line for each in stars):
            return True
        accesses = self._repository.accesses_to_attribute(self._module, name)
        return any(
            isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load) for _, each in accesses
        )


def compute_arithmetic(operator: ast.operator, left: Json, right: Json) -> Json:
    """Compute simple arithmetic; return `UNKNOWN` for numbers that no config would contain."""
    if not all(isinstance(each, int | float) and abs(each) < _LIMIT for each in (left, right)):
        return UNKNOWN
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return left // right
            case ast.Mod():
                return left % right
            case ast.Pow() if abs(right) < 64:
                return left**right
    except (ArithmeticError, ValueError):
        pass
    return UNKNOWN


def parse_json_tree(text: str, start: int) -> LocatedTree:
    """Parse JSON text into a tree with spans relative to a longer text, in which the JSON starts at `start`."""
    document = read_text(text)
    tree = document.tree
    return shift_tree(tree, start)


def json_root_keys(text: str) -> frozenset[str]:
    """Return the top-level keys of a JSON text, or an empty set if the text is not an object."""
    if "{" not in text:
        return frozenset()
    value = read_text(text).value()
    return frozenset(value) if isinstance(value, dict) else frozenset()


def collapse_to_span(node: TreeNode, span: TextSpan) -> TreeNode:
    """Return a copy of a node whose parts all have the same span, because their characters cannot be located."""
    return node._replace(
        span=span,
        members=tuple(
            ObjectMember(each.key, span, collapse_to_span(each.node, span)) for each in node.members
        ),
        items=tuple(collapse_to_span(each, span) for each in node.items),
    )
