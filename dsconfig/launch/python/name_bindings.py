"""Resolve names in a Python module: scopes, and the statements that may bind the name that an expression reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

ANY: Literal["*"] = "*"
"""Step of a path into an element whose index or key is unknown."""
Steps: TypeAlias = tuple["str | int", ...]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
Scope: TypeAlias = (
    "ast.Module | ast.ClassDef | Function | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp"
)


class NameBinding(NamedTuple):
    """A statement that binds a name."""

    kind: Literal["value", "parameter", "import", "function", "class", "unknown"]
    node: ast.AST
    value: ast.expr | None = None
    """Expression that provides the value of the name: an assigned value, or a parameter's default."""
    steps: Steps = ()
    """Path in `value` to the part that is bound to the name, as in `(a, b) = value`."""


class ModuleNames:
    """The scopes, bindings and uses of all names and attributes in a module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.bindings: dict[tuple[ast.AST, str], list[NameBinding]] = {}
        """Bindings of each name, by scope and name."""
        self.loads: dict[tuple[ast.AST, str], list[ast.Name]] = {}
        """Reads of each name, by the binding scope and the name; unbound names belong to the module's scope."""
        self.attributes: dict[str, list[ast.Attribute]] = {}
        """Attribute accesses by the attribute's name."""
        self.fields: dict[str, list[NameBinding]] = {}
        """Values assigned to attributes, and to names in class bodies, by the attribute's name."""
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        """Functions at any nesting level, by name."""
        self.calls: list[ast.Call] = []
        self.is_dynamic = False
        """Whether the module uses `exec` or `globals()`, which may bind any of its names."""
        self._scope_of: dict[ast.AST, Scope] = {}
        self._outer: dict[ast.AST, Scope] = {}
        self._declared: dict[tuple[ast.AST, str], Literal["global", "nonlocal"]] = {}
        self._targets: dict[ast.AST, NameBinding] = {}
        reads: list[ast.Name] = []
        self._visit_tree(tree, reads)
        self._owners = {name: self._scope_of_name(name.id, self._scope_of[name]) for name in reads}
        for name, owner in self._owners.items():
            self.loads.setdefault((owner, name.id), []).append(name)

    def bindings_of_name(self, name: ast.Name) -> list[NameBinding]:
        """Return the bindings to which a name may refer; empty for a builtin or a name from `import *`."""
        owner = self._owners.get(name)
        return [] if owner is None else self.bindings.get((owner, name.id), [])

    def scope_binding_name(self, node: ast.AST, name: str) -> Scope:
        """Return the scope that binds the name used at a node."""
        return self._scope_of_name(name, self._scope_of[node])

    def scope_of_node(self, node: ast.AST) -> Scope:
        """Return the scope that a node belongs to."""
        return self._scope_of[node]

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """Return the innermost function around a node, or None if the node is not inside a function."""
        scope: Scope | None = self._scope_of[node]
        while scope is not None and not isinstance(scope, _FUNCTIONS):
            scope = self._outer.get(scope)
        return scope

    def class_of_method(self, function: ast.AST) -> ast.ClassDef | None:
        """Return the class to which a method belongs, or None if the function is not a method."""
        parent = self.parents.get(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    # ------------------------------------------------------------ build

    def _visit_tree(self, tree: ast.Module, reads: list[ast.Name]) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(tree, tree)]
        while stack:
            node, scope = stack.pop()
            self._scope_of[node] = scope
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    reads.append(node)
                else:
                    self._add_binding(scope, node.id, self._targets.get(node) or NameBinding("unknown", node))
                    if isinstance(self.parents.get(node), ast.AugAssign):
                        reads.append(node)  # `x |= y` reads it as well
            else:
                self._register_node(node, scope)
            inner = self._scope_inside_node(node, scope)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self.parents[child] = node
            # In text order, because `global` stands before the assignment that it is about.
            stack.extend(
                (child, inner if self._is_in_inner_scope(node, child) else scope)
                for child in reversed(children)
            )

    def _scope_inside_node(self, node: ast.AST, scope: Scope) -> Scope:
        if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
            self._outer[node] = scope
            return node
        return scope

    @staticmethod
    def _is_in_inner_scope(node: ast.AST, child: ast.AST) -> bool:
        """Return whether a child of a function, class or comprehension belongs to its inner scope."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return child in node.body
        if isinstance(node, ast.ClassDef):
            return child in node.body
        if isinstance(node, ast.Lambda):
            return child is node.body
        return True

    def _register_node(self, node: ast.AST, scope: Scope) -> None:
        """Record the bindings, calls and attributes in a node."""
        match node:
            case ast.Attribute():
                self.attributes.setdefault(node.attr, []).append(node)
                if not isinstance(node.ctx, ast.Load):
                    binding = self._targets.get(node) or NameBinding("unknown", node)
                    self.fields.setdefault(node.attr, []).append(binding)
            case ast.Call():
                self.calls.append(node)
                if isinstance(node.func, ast.Name) and node.func.id in ("exec", "globals"):
                    self.is_dynamic = True
            case ast.Global() | ast.Nonlocal():
                kind: Literal["global", "nonlocal"] = "global" if isinstance(node, ast.Global) else "nonlocal"
                for name in node.names:
                    self._declared[scope, name] = kind
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                    self._add_binding(scope, alias.asname or name, NameBinding("import", alias))
            case _:
                self._register_targets(node)
                self._register_definition(node, scope)

    def _register_targets(self, node: ast.AST) -> None:
        """Record the values that a statement assigns to its targets."""
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._register_target(target, node.value, ())
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                self._register_target(node.target, value, ())
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._register_target(node.target, node.iter, (ANY,))
            case ast.withitem(optional_vars=ast.expr() as target):
                self._register_target(target, None, ())
            case _:
                pass

    def _register_definition(self, node: ast.AST, scope: Scope) -> None:
        """Record the names that a definition binds: functions, classes, parameters, patterns and exceptions."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add_binding(scope, node.name, NameBinding("function", node))
                self.functions.setdefault(node.name, []).append(node)
                self._register_parameters(node)
            case ast.Lambda():
                self._register_parameters(node)
            case ast.ClassDef():
                self._add_binding(scope, node.name, NameBinding("class", node))
            case ast.ExceptHandler(name=str() as name) | ast.MatchStar(name=str() as name):
                self._add_binding(scope, name, NameBinding("unknown", node))
            case ast.MatchAs(name=str() as name) | ast.MatchMapping(rest=str() as name):
                self._add_binding(scope, name, NameBinding("unknown", node))
            case _:
                pass

    def _register_target(self, target: ast.expr, value: ast.expr | None, steps: Steps) -> None:
        """Record which part of an assigned value each target receives."""
        if isinstance(target, ast.Tuple | ast.List):
            has_star = any(isinstance(each, ast.Starred) for each in target.elts)
            for index, each in enumerate(target.elts):
                if isinstance(each, ast.Starred):
                    self._register_target(each.value, None, ())
                else:
                    self._register_target(each, value, (*steps, ANY if has_star else index))
        else:
            kind: Literal["value", "unknown"] = "unknown" if value is None else "value"
            self._targets[target] = NameBinding(kind, target, value, steps)

    def _register_parameters(self, function: Function) -> None:
        arguments = function.args
        positional = (*arguments.posonlyargs, *arguments.args)
        defaults: dict[ast.arg, ast.expr | None] = dict(
            zip(reversed(positional), reversed(arguments.defaults), strict=False)
        )
        defaults.update(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        for each in (*positional, *arguments.kwonlyargs):
            self._add_binding(function, each.arg, NameBinding("parameter", each, defaults.get(each)))
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                self._add_binding(function, star.arg, NameBinding("parameter", star))

    def _add_binding(self, scope: Scope, name: str, binding: NameBinding) -> None:
        if binding.kind != "parameter":
            scope = self._binding_scope(scope, name, binding.node)
        self.bindings.setdefault((scope, name), []).append(binding)
        if isinstance(scope, ast.ClassDef) and binding.kind in ("value", "unknown"):
            self.fields.setdefault(name, []).append(binding)

    def _binding_scope(self, scope: Scope, name: str, node: ast.AST) -> Scope:
        # A walrus in a comprehension binds in the function around it (PEP 572).
        while isinstance(scope, _COMPREHENSIONS) and isinstance(self.parents.get(node), ast.NamedExpr):
            scope = self._outer[scope]
        declared = self._declared.get((scope, name))
        return self._declared_scope(scope, name) if declared else scope

    def _declared_scope(self, scope: Scope, name: str) -> Scope:
        if self._declared[scope, name] == "global":
            return self.tree
        outer = self._outer.get(scope)
        while outer is not None and ((outer, name) not in self.bindings or isinstance(outer, ast.ClassDef)):
            outer = self._outer.get(outer)
        return outer or self.tree

    def _scope_of_name(self, name: str, scope: Scope) -> Scope:
        """Return the scope that binds a name, or the module if no scope does."""
        current: Scope | None = scope
        while current is not None:
            if (current, name) in self._declared:
                return self._declared_scope(current, name)
            # The names of a class body are not visible in its methods.
            is_visible = current is scope or not isinstance(current, ast.ClassDef)
            if is_visible and (current, name) in self.bindings:
                return current
            current = self._outer.get(current)
        return self.tree


def returned_expressions(function: Function) -> Iterator[ast.expr]:
    """Yield the expressions that a function returns, ignoring nested functions."""
    if isinstance(function, ast.Lambda):
        yield function.body
        return
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            if node.value is not None:
                yield node.value
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def last_dotted_name(node: ast.AST | None) -> str:
    """Return the last part of a dotted expression such as `a.b.c`, or an empty string for any other node."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
