"""Evaluate expressions of a Python program, and the effects of its calls, during interpretation.

Nothing is executed. After code outside the repository receives a container, the contents are unknown.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.batch_triplet import KEYS
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.calls_receiving_dict import (
    BUILTIN_READS,
    DICT_COPIES,
    consumer_of_argument,
    only_reads_dict,
)
from dsconfig.launch.python.constant_expressions import compute_arithmetic
from dsconfig.launch.python.interpreted_values import (
    COMMAND_ARGUMENTS,
    CONVERSIONS,
    MAX_TEXT,
    REDUCTIONS,
    Container,
    Heap,
    HeapState,
    ValueOrigin,
    change_entry,
    compare_values,
    compute_unary,
    convert_values,
    forget_container,
    truth_of,
)
from dsconfig.launch.python.name_bindings import last_dotted_name

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.launch.python.name_bindings import Function
    from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository
    from dsconfig.launch.repository_files import ReadingBudget

_MAX_CALLS = 8
"""Maximum depth of nested calls that are interpreted."""
_MAX_NODES = 200
"""Maximum number of nodes of an interpreted function that neither receives nor contains a dict."""
_CONFIG_WORDS = frozenset((*KEYS, "zero_optimization", "fp16", "bf16", "offload_optimizer", "offload_param"))
_WORLD_SIZE = "get_world_size"
_UNHANDLED: object = object()
"""Sentinel that a function returns for calls that it does not handle."""


class CommandFacts(NamedTuple):
    """Facts about a command on which the values in its program depend."""

    flags: Mapping[str, Json]
    """Values of the arguments of the program's parser; `UNKNOWN` for values known only at run time."""
    world_size: int | None
    budget: ReadingBudget
    """Budget of expressions and statements that may still be interpreted."""


class OuterValues(ABC):
    """Source of the values that an interpreted function receives from other code."""

    @abstractmethod
    def value_of_parameter(self, module: ParsedModule, function: Function, name: str) -> object:
        """Return the value of a parameter of the outermost interpreted function."""

    @abstractmethod
    def value_of_global(self, module: ParsedModule, name: ast.Name) -> object:
        """Return the value of a global variable of a module."""

    @abstractmethod
    def value_of_assigned_argument(self, name: str) -> object:
        """Return the value of an attribute that the program sets on the arguments, such as `args.steps = 4`."""

    @abstractmethod
    def value_of_field(self, module: ParsedModule, access: ast.Attribute) -> object:
        """Return the value of an attribute of `self` that another method sets."""


class FunctionCall:
    """A call that is being interpreted, with its variables and its state at each return."""

    def __init__(self, module: ParsedModule, scope: ast.AST, variables: Container) -> None:
        self.module, self.scope, self.variables = module, scope, variables
        self.returned: list[tuple[HeapState, object]] = []


class ExpressionEvaluator(ABC):
    """Evaluates expressions of the program that one command starts."""

    def __init__(self, repository: ProgramRepository, facts: CommandFacts, outer: OuterValues) -> None:
        self._repository, self._facts, self._outer = repository, facts, outer
        self.heap = Heap()
        self.visited: set[ast.AST] = set()
        """Expressions whose effects on containers have been followed."""
        self.open_branches = 0
        """Number of branches and loops around the current expression that a run might not take."""
        self._calls: list[FunctionCall] = []
        self._outer_values: dict[ast.AST | tuple[ast.AST, str], object] = {}

    @property
    def _call(self) -> FunctionCall:
        return self._calls[-1]

    @abstractmethod
    def run_block(self, body: Sequence[ast.stmt]) -> bool:
        """Interpret statements; return whether they always leave the function."""

    @abstractmethod
    def assign(self, target: ast.expr, value: object) -> None:
        """Store a value in a variable, an attribute or an element of a container."""

    # ------------------------------------------------------------ expressions

    def evaluate(self, node: ast.expr) -> object:
        """Evaluate an expression, including its side effects, and return its value."""
        self._facts.budget.spend(1)
        value = self._evaluate_expression(node)
        if isinstance(value, Container):
            self.visited.add(node)
        return value

    def skip_nodes(self, nodes: Iterable[ast.AST]) -> None:
        """Record that a branch is not taken, so that its nodes have no effect."""
        self.visited.update(inner for each in nodes for inner in ast.walk(each))

    def _evaluate_expression(self, node: ast.expr) -> object:
        match node:
            case ast.Constant():
                is_plain = isinstance(node.value, str | bool | int | float) or node.value is None
                return node.value if is_plain else UNKNOWN
            case ast.Name():
                return self._value_of_name(node)
            case ast.Attribute():
                return self._value_of_attribute(node)
            case ast.Subscript():
                return self._value_of_subscript(node)
            case ast.Dict():
                return self._build_dict(node)
            case ast.List() | ast.Tuple():
                return self._build_list(node)
            case ast.Call():
                return self._evaluate_call(node)
            case ast.JoinedStr():
                return self._format_text(node)
            case _:
                return self._evaluate_operation(node)

    def _evaluate_operation(self, node: ast.expr) -> object:
        match node:
            case ast.BinOp():
                return self._compute_binary(
                    node.op, self.evaluate(node.left), self.evaluate(node.right), node
                )
            case ast.UnaryOp():
                return compute_unary(node.op, self.evaluate(node.operand))
            case ast.BoolOp():
                return self._evaluate_boolean(node)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                test = truth_of(self.evaluate(node.test))
                if test is not None:
                    self.skip_nodes([node.orelse if test else node.body])
                    return self.evaluate(node.body if test else node.orelse)
                return self._merge_expressions([node.body, node.orelse])
            case ast.NamedExpr():
                value = self.evaluate(node.value)
                self.assign(node.target, value)
                return value
            case ast.Lambda():
                return UNKNOWN
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        forget_container(self.evaluate(child))
                return UNKNOWN

    def _merge_expressions(self, nodes: Sequence[ast.expr]) -> object:
        """Return the merge of the values of several expressions, any of which may be the one evaluated."""
        before, states, values = self.heap.save(), [], []
        self.open_branches += 1
        for each in nodes:
            self.heap.restore(before)
            values.append(self.evaluate(each))
            states.append(self.heap.save())
        self.open_branches -= 1
        return self.heap.merge(states, values)

    def _value_of_name(self, node: ast.Name) -> object:
        module, call = self._call.module, self._call
        bindings = module.names.bindings_of_name(node)
        owner = module.names.scope_binding_name(node, node.id) if bindings else None
        if owner is call.scope:
            if node.id in call.variables.entries:
                return call.variables.entries[node.id]
            is_parameter = call is self._calls[0] and any(each.kind == "parameter" for each in bindings)
            if not is_parameter or not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
                return UNKNOWN
            return self._value_from_outside(
                (owner, node.id), partial(self._outer.value_of_parameter, module, owner, node.id)
            )
        if owner is module.names.tree:
            return self._value_from_outside(
                bindings[0].node, partial(self._outer.value_of_global, module, node)
            )
        return UNKNOWN  # a variable of an enclosing function, or a builtin

    def _value_from_outside(self, key: ast.AST | tuple[ast.AST, str], read: Callable[[], object]) -> object:
        """Return a value that other code creates; it is computed once, so that all uses share the same object."""
        if key not in self._outer_values:
            self._outer_values[key] = self.heap.adopt(read())
        return self._outer_values[key]

    def _value_of_attribute(self, node: ast.Attribute) -> object:
        container = self.evaluate(node.value)
        if container is COMMAND_ARGUMENTS:
            return self._value_of_argument(node.attr)
        if isinstance(container, Container) and container.kind == "object":
            if node.attr in container.entries:
                return container.entries[node.attr]
            field = self._call.module.names.tree, f"self.{node.attr}"
            return self._value_from_outside(
                field, partial(self._outer.value_of_field, self._call.module, node)
            )
        return UNKNOWN

    def _value_of_argument(self, name: str) -> object:
        if name in self._facts.flags:
            return self._facts.flags[name]
        if name == "world_size":
            return UNKNOWN if self._facts.world_size is None else self._facts.world_size
        return self._value_from_outside(
            (self._call.module.names.tree, f"args.{name}"),
            partial(self._outer.value_of_assigned_argument, name),
        )

    def _value_of_subscript(self, node: ast.Subscript) -> object:
        if ast.unparse(node) in ("os.environ['WORLD_SIZE']", "environ['WORLD_SIZE']"):
            return UNKNOWN if self._facts.world_size is None else str(self._facts.world_size)
        container, key = self.evaluate(node.value), self.evaluate(node.slice)
        if isinstance(container, Container):
            return container.entries.get(key, UNKNOWN) if isinstance(key, str | int | bool) else UNKNOWN
        return UNKNOWN

    def _build_dict(self, node: ast.Dict) -> Container:
        result = self.heap.new("dict")
        result.literal = ValueOrigin(self._call.module, node)
        result.origins = (result.literal,)
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self._update_dict(result, self.evaluate(value))
            else:
                result.set_value(self.evaluate(key), self.evaluate(value))
        return result

    def _build_list(self, node: ast.List | ast.Tuple) -> Container:
        values = [self.evaluate(each.value if isinstance(each, ast.Starred) else each) for each in node.elts]
        result = self.heap.new("list", dict(enumerate(values)))
        result.has_other_keys = any(isinstance(each, ast.Starred) for each in node.elts)
        return result

    def _update_dict(self, target: Container, other: object) -> None:
        if isinstance(other, Container) and other.kind == "dict" and not other.has_other_keys:
            target.entries.update(other.entries)
        else:
            target.forget_values()

    def _format_text(self, node: ast.JoinedStr) -> object:
        parts = []
        for each in node.values:
            is_plain = isinstance(each, ast.FormattedValue)
            value = self.evaluate(each.value if isinstance(each, ast.FormattedValue) else each)
            if is_plain and isinstance(each, ast.FormattedValue):
                value = value if each.format_spec is None and each.conversion == -1 else UNKNOWN
            parts.append(value)
        if not all(isinstance(each, str | int | float) for each in parts):
            return UNKNOWN
        text = "".join(map(str, parts))
        return text if len(text) <= MAX_TEXT else UNKNOWN

    def _compute_binary(
        self, op: ast.operator, left: object, right: object, node: ast.expr | None = None
    ) -> object:
        if isinstance(left, Container) or isinstance(right, Container):
            if isinstance(op, ast.BitOr) and isinstance(left, Container) and left.kind == "dict":
                result = self._copy_dict(left, node)
                self._update_dict(result, right)
                self.visited.update([node.right] if isinstance(node, ast.BinOp) else ())
                return result
            return UNKNOWN
        if isinstance(left, str) and isinstance(right, str) and isinstance(op, ast.Add):
            return left + right if len(left) + len(right) <= MAX_TEXT else UNKNOWN
        is_text = isinstance(left, str) or isinstance(right, str)
        return UNKNOWN if is_text else compute_arithmetic(op, left, right)

    def _evaluate_boolean(self, node: ast.BoolOp) -> object:
        """Evaluate `and` or `or`; operands after an unknown one may or may not run."""
        stops_at = isinstance(node.op, ast.Or)
        for index, operand in enumerate(node.values):
            value = self.evaluate(operand)
            if index == len(node.values) - 1:
                return value
            if (truth := truth_of(value)) is None:
                before = self.heap.save()
                self.open_branches += 1
                for later in node.values[index + 1 :]:
                    last = self.evaluate(later)
                self.open_branches -= 1
                self.heap.merge([before, self.heap.save()])
                # `unknown or False` is unknown, but `unknown and False` is false in any test.
                is_decided = index == len(node.values) - 2 and truth_of(last) is stops_at
                return stops_at if is_decided and isinstance(last, bool) else UNKNOWN
            if truth is stops_at:
                return value
        return UNKNOWN

    def _compare(self, node: ast.Compare) -> object:
        values = [self.evaluate(each) for each in (node.left, *node.comparators)]
        results = [
            compare_values(op, left, right)
            for op, left, right in zip(node.ops, values, values[1:], strict=False)
        ]
        if False in results:
            return False
        return all(results) if UNKNOWN not in results else UNKNOWN

    # ------------------------------------------------------------ calls

    def _evaluate_call(self, node: ast.Call) -> object:
        name = last_dotted_name(node.func)
        receiver = self.evaluate(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if isinstance(receiver, Container) and receiver.kind in ("dict", "list"):
            return self._call_container_method(node, name, receiver)
        positional = [
            self.evaluate(each.value if isinstance(each, ast.Starred) else each) for each in node.args
        ]
        keywords = {each.arg: self.evaluate(each.value) for each in node.keywords}
        if name == _WORLD_SIZE:
            return UNKNOWN if self._facts.world_size is None else self._facts.world_size
        if (parsed := self._value_of_parser(name)) is not _UNHANDLED:
            return parsed
        if (builtin := self._call_builtin(node, name, positional, keywords)) is not _UNHANDLED:
            return builtin
        definition = self._definition_of(node.func, receiver)
        if definition is not None:
            return self._call_definition(node, definition, receiver, positional, keywords)
        is_read = only_reads_dict(node.func) or self._is_receiver(node)
        for value in () if is_read else (*positional, *keywords.values()):
            forget_container(value)
        return UNKNOWN

    def _value_of_parser(self, name: str) -> object:
        if name == "parse_args":
            return COMMAND_ARGUMENTS
        if name == "parse_known_args":
            return self.heap.new("list", {0: COMMAND_ARGUMENTS, 1: UNKNOWN})
        return _UNHANDLED

    def _is_receiver(self, node: ast.Call) -> bool:
        """Return whether a call receives a config, which it leaves unchanged."""
        keys: list[int | str] = [*range(len(node.args)), *(each.arg or "" for each in node.keywords)]
        module = self._call.module
        return any(consumer_of_argument(self._repository, module, node, key) for key in keys)

    def _definition_of(self, function: ast.expr, receiver: object) -> tuple[ParsedModule, ast.AST] | None:
        """Return the function or class that a call refers to, or None if it is outside the repository."""
        module = self._call.module
        if isinstance(function, ast.Name):
            bindings = module.names.bindings_of_name(function)
            if len(bindings) == 1 and bindings[0].kind in ("function", "class"):
                return module, bindings[0].node
        elif isinstance(receiver, Container) and isinstance(function, ast.Attribute):
            methods = [
                each
                for each in module.names.functions.get(function.attr, ())
                if module.names.class_of_method(each) is not None
            ]
            return (module, methods[0]) if len(methods) == 1 else None
        return self._repository.find_definition(module, function)

    def _call_definition(
        self,
        node: ast.Call,
        definition: tuple[ParsedModule, ast.AST],
        receiver: object,
        positional: Sequence[object],
        keywords: Mapping[str | None, object],
    ) -> object:
        """Interpret a call within the repository; for a class, keep the arguments for `DataFlow` to follow."""
        module, function = definition
        values = (*positional, *keywords.values())
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            if not isinstance(function, ast.ClassDef) or not _has_known_fields(function):
                for value in values:
                    forget_container(value)
            return UNKNOWN
        is_open = any(isinstance(each, ast.Starred) for each in node.args) or None in keywords
        is_nested = any(call.scope is function for call in self._calls)
        if not _may_concern_config(function) and not any(isinstance(each, Container) for each in values):
            return COMMAND_ARGUMENTS if "arg" in function.name else UNKNOWN
        if is_open or is_nested or function.args.vararg or len(self._calls) > _MAX_CALLS:
            for value in values:
                forget_container(value)
            return UNKNOWN
        is_method = isinstance(receiver, Container)
        variables = self._bind_parameters(
            module, function, (receiver, *positional) if is_method else positional, keywords
        )
        call = FunctionCall(module, function, self.heap.new("frame", variables))
        existing = set(self.heap.containers)
        self._calls.append(call)
        if not self.run_block(function.body):
            call.returned.append((self.heap.save(), None))
        self._calls.pop()
        self.heap.drop(call.variables)
        if not call.returned:
            return UNKNOWN
        states, results = zip(*call.returned, strict=True)
        result = self.heap.merge(list(states), results)
        if isinstance(result, Container) and result not in existing:
            result.origins = (ValueOrigin(self._call.module, node),)
        if result is UNKNOWN and "arg" in function.name:
            return COMMAND_ARGUMENTS
        return result

    def _bind_parameters(
        self,
        module: ParsedModule,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        positional: Sequence[object],
        keywords: Mapping[str | None, object],
    ) -> dict[object, object]:
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        variables: dict[object, object] = dict(self.default_values(module, function).items())
        variables.update(zip(names, positional, strict=False))
        variables.update({str(key): value for key, value in keywords.items()})
        return variables

    def default_values(self, module: ParsedModule, function: Function) -> dict[str, object]:
        """Return the default of each parameter of a function, or `UNKNOWN` if it is not a constant."""
        arguments = function.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        values: dict[str, object] = dict.fromkeys(
            [*names, *(each.arg for each in arguments.kwonlyargs)], UNKNOWN
        )
        defaults = [
            *zip(reversed(names), reversed(arguments.defaults), strict=False),
            *zip((each.arg for each in arguments.kwonlyargs), arguments.kw_defaults, strict=True),
        ]
        for name, default in defaults:
            if isinstance(default, ast.Constant):
                values[name] = self._evaluate_expression(default)
            elif isinstance(default, ast.Name) and module.names.scope_of_node(default) is module.names.tree:
                values[name] = self._outer.value_of_global(module, default)
        return values

    def _call_builtin(
        self,
        node: ast.Call,
        name: str,
        positional: Sequence[object],
        keywords: Mapping[str | None, object],
    ) -> object:
        """Return the result of a Python builtin, or `_UNHANDLED` for any other function."""
        names = self._call.module.names
        if name in DICT_COPIES and (len(positional) == 1 or (name == "dict" and not positional)):
            copied = self.heap.new("dict")
            copied.literal = ValueOrigin(self._call.module, node) if not positional else None
            copied.origins = (ValueOrigin(self._call.module, node),)
            self.visited.update(each.value for each in node.keywords)
            for each in (*positional, *[self.heap.new("dict", dict(keywords.items()))] * bool(keywords)):
                if name == "deepcopy" and isinstance(each, Container):
                    return self._copy_deep(each, node)
                self._update_dict(copied, each)
            if None in copied.entries:  # `dict(**other)`
                copied.forget_values()
            return copied
        if not isinstance(node.func, ast.Name) or names.bindings_of_name(node.func):
            return _UNHANDLED
        if name == "getattr" and len(positional) >= 2 and positional[0] is COMMAND_ARGUMENTS:
            return self._value_of_argument(positional[1]) if isinstance(positional[1], str) else UNKNOWN
        if name in CONVERSIONS and len(positional) == 1 and not keywords:
            return convert_values(CONVERSIONS[name], positional)
        if name in REDUCTIONS and len(positional) > 1 and not keywords:
            return convert_values(REDUCTIONS[name], positional)
        if name == "len" and positional and isinstance(positional[0], Container):
            return UNKNOWN if positional[0].has_other_keys else len(positional[0].entries)
        return UNKNOWN if name in BUILTIN_READS else _UNHANDLED

    def _copy_dict(self, value: Container, node: ast.expr | None) -> Container:
        copied = self.heap.new("dict", dict(value.entries))
        copied.has_other_keys = value.has_other_keys
        copied.origins = () if node is None else (ValueOrigin(self._call.module, node),)
        return copied

    def _copy_deep(self, value: Container, node: ast.expr, depth: int = 0) -> Container:
        copied = self._copy_dict(value, node)
        copied.kind = value.kind
        for key, each in copied.entries.items():
            if isinstance(each, Container):
                copied.entries[key] = (
                    self._copy_deep(each, node, depth + 1) if depth < _MAX_CALLS else UNKNOWN
                )
        return copied

    def _call_container_method(self, node: ast.Call, name: str, container: Container) -> object:
        """Apply a method of a dict or list, and return its result."""
        positional = [self.evaluate(each) for each in node.args]
        keywords = {each.arg: self.evaluate(each.value) for each in node.keywords}
        key = positional[0] if positional else UNKNOWN
        default = positional[1] if len(positional) > 1 else None
        self.visited.update((*node.args, *(each.value for each in node.keywords)))
        match name:
            case "get":
                value = container.value_at(key)
                return default if value is None and key not in container.entries else value
            case "copy":
                return self._copy_dict(container, node)
            case "update":
                for each in positional:
                    self._update_dict(container, each)
                for keyword, value in keywords.items():
                    container.set_value(UNKNOWN if keyword is None else keyword, value)
                return None
            case "setdefault" | "pop":
                return change_entry(name, container, key, default)
            case "keys" | "values" | "items" | "index" | "count" | "__len__" | "__contains__":
                return UNKNOWN
            case _:
                container.forget_values()
                for value in (*positional, *keywords.values()):
                    forget_container(value)
                return UNKNOWN


def _has_known_fields(definition: ast.ClassDef) -> bool:
    """Return whether a class has an `__init__` or is a dataclass, so that `DataFlow` can follow its arguments."""
    has_init = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in definition.body)
    return has_init or any("dataclass" in ast.unparse(each) for each in definition.decorator_list)


@lru_cache(maxsize=256)
def _may_concern_config(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function may affect a config, because it is short or mentions a config key."""
    nodes = list(ast.walk(function))
    return len(nodes) <= _MAX_NODES or any(
        isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in _CONFIG_WORDS
        for each in nodes
    )
