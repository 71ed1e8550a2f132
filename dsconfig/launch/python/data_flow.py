"""Follow a config dict through a Python program to find what may change it and which call receives it.

Nothing is executed. A value is unknown unless the analysis shows that the program does not change it: it follows
aliases, enters functions of the repository, and assumes that any other code with the dict may change all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from dsconfig.launch.python.calls_receiving_dict import (
    BUILTIN_COPIES,
    BUILTIN_READS,
    DICT_COPIES,
    UNPACKED,
    consumer_of_attribute,
    keys_of_merged_mapping,
    only_reads_dict,
    parameter_for_argument,
    subscript_key,
)
from dsconfig.launch.python.name_bindings import (
    ANY,
    Function,
    ModuleNames,
    NameBinding,
    Steps,
    last_dotted_name,
)
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository

Path: TypeAlias = tuple[str, ...]
_MAX_REFERENCES = 2000
"""Maximum number of expressions through which a dict is followed; beyond that, the whole dict is unknown."""
_READS = frozenset(
    ("get", "keys", "values", "items", "copy", "__len__", "__contains__", "__getitem__", "__eq__")
)
_METHODS = frozenset((
    *_READS, "update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__", "__ior__", "__or__",
))  # fmt: skip
_ADDS = frozenset(("append", "add", "insert", "extend", "appendleft", "put"))
_PLAIN_PARENTS = (
    ast.Expr, ast.Compare, ast.UnaryOp, ast.If, ast.While, ast.Assert, ast.FormattedValue, ast.JoinedStr, ast.Raise,
    ast.Slice, ast.Delete,
)  # fmt: skip
"""Parent nodes that read a dict without passing it on."""


class DictWrite(NamedTuple):
    """A change to a dict; a path that ends in `*` stands for every key at that level, present or not."""

    path: Path
    module: ParsedModule
    node: ast.AST
    absent_only: bool = False
    """Whether the change adds only absent keys, so that an existing key keeps its value."""


class ConfigReceiver(NamedTuple):
    """A call that receives the dict as a config."""

    consumer: str
    module: ParsedModule
    call: ast.AST


class ValueReference(NamedTuple):
    """An expression whose value is the dict or a part of it, or contains either."""

    module: ParsedModule
    node: ast.expr
    inside: Steps = ()
    """Path in the expression's value to the followed object; empty if the value is that object itself."""
    path: Path = ()
    """Path in the followed dict to the referenced object."""


class DataFlow:
    """The uses of an expression's value in a program: where it goes, and what may change it."""

    def __init__(
        self,
        repository: ProgramRepository,
        consumer_of: Callable[[ParsedModule, ast.Call, int | str], str | None],
        is_scalar: Callable[[Path], bool] = lambda _: False,
        *,
        is_section: bool = False,
    ) -> None:
        """Prepare to follow a value, which is part of a config if `is_section` is true."""
        self.writes: list[DictWrite] = []
        self.reads: set[Path] = set()
        """Keys of the dict that the program looks up by name."""
        self.receivers: list[ConfigReceiver] = []
        self.dumps: list[tuple[ParsedModule, ast.Call]] = []
        """Calls that write the whole dict as JSON."""
        self._repository, self._consumer_of, self._is_scalar = repository, consumer_of, is_scalar
        self._is_section = is_section
        self._seen: set[tuple[ast.AST, Steps, Path]] = set()
        self._queue: list[ValueReference] = []

    def follow_values(self, module: ParsedModule, *values: ast.expr) -> DataFlow:
        """Follow the values of expressions to wherever the program may pass them."""
        for value in values:
            self._add_reference(ValueReference(module, value))
        while self._queue:
            if len(self._seen) > _MAX_REFERENCES:
                self._record_write((ANY,), self._queue[-1])
                self._queue.clear()
                return self
            self._record_use(self._queue.pop())
        return self

    # ------------------------------------------------------------ references

    def _add_reference(self, reference: ValueReference) -> None:
        key = (reference.node, reference.inside, reference.path)
        if len(reference.path) > 8 or len(reference.inside) > 8:
            self._mark_unknown(reference)
        elif key not in self._seen:
            self._seen.add(key)
            self._queue.append(reference)

    def _record_write(self, path: Path, reference: ValueReference, *, absent_only: bool = False) -> None:
        if ANY in path:
            path = path[: path.index(ANY) + 1]
        self.writes.append(DictWrite(path, reference.module, reference.node, absent_only))

    def _mark_unknown(self, reference: ValueReference) -> None:
        """Record that anything below the reference's path may change."""
        self._record_write((*reference.path, ANY), reference)

    def _record_use(self, ref: ValueReference) -> None:
        """Record what the expression around a reference does, and queue the resulting references."""
        parent = ref.module.names.parents.get(ref.node)
        match parent:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign():
                self._follow_assignment(ref, parent)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                if parent.iter is ref.node and ref.inside:
                    self._follow_stored_value(parent.target, ref._replace(inside=ref.inside[1:]))
            case ast.Return():
                self._follow_return(ref, parent)
            case ast.Lambda():
                self._follow_lambda_result(ref, parent)
            case ast.arguments():
                self._follow_parameter_default(ref, parent)
            case ast.keyword():
                self._follow_keyword_argument(ref, parent)
            case ast.expr():
                self._follow_operand(ref, parent)
            case _ if parent is not None and not isinstance(parent, _PLAIN_PARENTS):
                self._mark_unknown(ref)

    def _follow_operand(self, ref: ValueReference, parent: ast.expr) -> None:
        """Follow a reference that is an operand of an expression."""
        match parent:
            case ast.Attribute():
                self._follow_attribute(ref, parent)
            case ast.Subscript():
                if parent.value is ref.node:
                    self._follow_subscript(ref, parent)
            case ast.Call():
                if parent.func is not ref.node:
                    self._follow_argument(ref, parent, parent.args.index(ref.node))
            case ast.IfExp() | ast.BoolOp() | ast.Await():
                if not (isinstance(parent, ast.IfExp) and parent.test is ref.node):
                    self._add_reference(ref._replace(node=parent))
            case ast.BinOp():
                self._follow_joined_value(ref, parent)
            case ast.Dict():
                self._follow_into_enclosing_dict(ref, parent)
            case _ if not isinstance(parent, _PLAIN_PARENTS):
                self._follow_element(ref, parent)

    def _follow_element(self, ref: ValueReference, parent: ast.expr) -> None:
        """Follow an element of a list, tuple or set, or a value collected by a comprehension."""
        whole = ref._replace(node=parent)
        match parent:
            case ast.Starred():
                if ref.inside:
                    self._add_reference(whole._replace(inside=(ANY, *ref.inside[1:])))
            case ast.Tuple() | ast.List():
                if isinstance(parent.ctx, ast.Load):
                    has_star = any(isinstance(each, ast.Starred) for each in parent.elts)
                    index = ANY if has_star else parent.elts.index(ref.node)
                    inside = ref.inside if isinstance(ref.node, ast.Starred) else (index, *ref.inside)
                    self._add_reference(whole._replace(inside=inside))
            case ast.Set() | ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._add_reference(whole._replace(inside=(ANY, *ref.inside)))
            case _:
                self._mark_unknown(ref)

    # ------------------------------------------------------------ statements and expressions

    def _follow_assignment(
        self, ref: ValueReference, statement: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign
    ) -> None:
        if isinstance(statement, ast.AugAssign):
            if statement.target is ref.node:
                if not ref.inside:
                    self._record_merge(ref, [statement.value], [])
            elif isinstance(statement.op, ast.BitOr):
                self._follow_stored_value(statement.target, ref)
                self._record_write((*ref.path, ANY), ref, absent_only=True)
            elif ref.inside:
                self._follow_stored_value(statement.target, ref._replace(inside=(ANY, *ref.inside[1:])))
            return
        if statement.value is not ref.node:
            return
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            self._follow_stored_value(target, ref)
        if isinstance(statement, ast.NamedExpr):
            self._add_reference(ref._replace(node=statement))

    def _follow_stored_value(self, target: ast.expr, ref: ValueReference) -> None:
        """Follow a value that is stored in a variable, an attribute or a container."""
        names = ref.module.names
        if isinstance(target, ast.Name):
            self._follow_variable(names.scope_binding_name(target, target.id), target.id, ref)
        elif isinstance(target, ast.Attribute):
            if (consumer := consumer_of_attribute(target)) and not ref.inside and not ref.path:
                self.receivers.append(ConfigReceiver(consumer, ref.module, target))
            self._follow_field(target.attr, ref)
        elif isinstance(target, ast.Tuple | ast.List):
            for index, each in enumerate(target.elts if ref.inside else ()):
                if _may_equal_key(ref.inside[0], index):
                    self._follow_stored_value(each, ref._replace(inside=ref.inside[1:]))
                elif isinstance(each, ast.Starred):
                    self._follow_stored_value(each.value, ref._replace(inside=(ANY, *ref.inside[1:])))
        elif isinstance(target, ast.Starred):
            self._follow_stored_value(target.value, ref)
        elif isinstance(target, ast.Subscript):
            self._follow_entry(target.value, subscript_key(target.slice), ref)

    def _follow_entry(self, container: ast.expr, key: int | str, ref: ValueReference) -> None:
        """Follow a value that becomes an element of a container."""
        into = ref._replace(inside=(key, *ref.inside))
        if isinstance(container, ast.Name):
            bindings = ref.module.names.bindings_of_name(container)
            if not bindings or any(not _is_new_container(each) for each in bindings):
                self._mark_unknown(ref)  # other code holds the container as well
            self._follow_stored_value(container, into)
        elif isinstance(container, ast.Attribute | ast.Subscript):
            self._follow_stored_value(container, into)
        else:
            self._mark_unknown(ref)

    def _follow_variable(self, scope: ast.AST, name: str, ref: ValueReference) -> None:
        names = ref.module.names
        for load in names.loads.get((scope, name), ()):
            self._add_reference(ref._replace(node=load))
        if scope is names.tree:
            if names.is_dynamic:
                self._mark_unknown(ref)
            for module, use in self._repository.reads_of_global_name(ref.module, name):
                self._add_reference(ref._replace(module=module, node=use))
        elif isinstance(scope, ast.ClassDef):
            self._follow_field(name, ref)

    def _follow_field(self, name: str, ref: ValueReference) -> None:
        """Follow a value stored in an attribute to every access of an attribute with this name."""
        for access in ref.module.names.attributes.get(name, ()):
            self._add_reference(ref._replace(node=access))
        for module, use in self._repository.accesses_to_attribute(ref.module, name):
            self._add_reference(ref._replace(module=module, node=use))

    def _follow_subscript(self, ref: ValueReference, parent: ast.Subscript) -> None:
        key = subscript_key(parent.slice)
        if ref.inside:
            if _may_equal_key(ref.inside[0], key):
                self._add_reference(ref._replace(node=parent, inside=ref.inside[1:]))
            return
        path = (*ref.path, str(key))
        if not isinstance(parent.ctx, ast.Load):
            self._record_write(path, ref._replace(node=parent))
            return
        self.reads.add(path)
        if not self._is_scalar(path):
            self._add_reference(ref._replace(node=parent, path=path))

    def _follow_joined_value(self, ref: ValueReference, parent: ast.BinOp) -> None:
        whole = ref._replace(node=parent)
        if isinstance(parent.op, ast.BitOr) and not ref.inside:
            self._add_reference(whole)
            if parent.left is ref.node:
                self._record_merge(ref, [parent.right], [])
            else:
                self._record_write((*ref.path, ANY), ref, absent_only=True)
        elif ref.inside:  # lists that are joined
            self._add_reference(whole._replace(inside=(ANY, *ref.inside[1:])))

    def _follow_into_enclosing_dict(self, ref: ValueReference, parent: ast.Dict) -> None:
        whole = ref._replace(node=parent)
        if ref.node not in parent.values:  # a key
            return
        index = parent.values.index(ref.node)
        key = parent.keys[index]
        if key is not None:
            self._add_reference(whole._replace(inside=(subscript_key(key), *ref.inside)))
            return
        self._add_reference(whole)
        if ref.inside:
            return
        for other, value in zip(parent.keys[index + 1 :], parent.values[index + 1 :], strict=True):
            if other is None:
                self._record_merge(ref, [value], [])
            else:
                self._record_write((*ref.path, str(subscript_key(other))), ref)
        if index:
            self._record_write((*ref.path, ANY), ref, absent_only=True)

    # ------------------------------------------------------------ functions

    def _follow_return(self, ref: ValueReference, statement: ast.AST) -> None:
        function = ref.module.names.enclosing_function(statement)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            self._follow_result(ref, function)
        else:
            self._mark_unknown(ref)

    def _follow_result(self, ref: ValueReference, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Follow the return value of a function to the function's calls."""
        names = ref.module.names
        is_property = any("property" in ast.unparse(each) for each in function.decorator_list)
        owner = names.class_of_method(function)
        accesses: list[tuple[ParsedModule, ast.expr]] = []
        if owner is not None:
            accesses += [(ref.module, each) for each in names.attributes.get(function.name, ())]
            accesses += self._repository.accesses_to_attribute(ref.module, function.name)
        else:
            scope = names.scope_of_node(function)
            accesses += [(ref.module, each) for each in names.loads.get((scope, function.name), ())]
            if scope is names.tree:
                accesses += self._repository.reads_of_global_name(ref.module, function.name)
        for module, access in accesses:
            parent = module.names.parents.get(access)
            if is_property:
                self._add_reference(ref._replace(module=module, node=access))
            elif isinstance(parent, ast.Call) and parent.func is access:
                self._add_reference(ref._replace(module=module, node=parent))

    def _follow_lambda_result(self, ref: ValueReference, function: ast.Lambda) -> None:
        """Follow the result of a lambda that is a variable or a dataclass field's `default_factory`."""
        names = ref.module.names
        parent = names.parents.get(function)
        if isinstance(parent, ast.keyword) and parent.arg == "default_factory":
            statement = names.parents.get(names.parents[parent])
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                self._follow_field(statement.target.id, ref)
                return
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            target = parent.targets[0]
            for load in names.loads.get((names.scope_binding_name(target, target.id), target.id), ()):
                call = names.parents.get(load)
                if isinstance(call, ast.Call) and call.func is load:
                    self._add_reference(ref._replace(node=call))
            return
        self._mark_unknown(ref)

    def _follow_parameter_default(self, ref: ValueReference, arguments: ast.arguments) -> None:
        function = ref.module.names.parents.get(arguments)
        for (scope, name), bindings in ref.module.names.bindings.items():
            if scope is function and any(each.value is ref.node for each in bindings):
                self._follow_variable(scope, name, ref)

    def _follow_keyword_argument(self, ref: ValueReference, keyword: ast.keyword) -> None:
        call = ref.module.names.parents.get(keyword)
        if not isinstance(call, ast.Call):
            self._mark_unknown(ref)
        elif keyword.arg is not None or self._consumer_of(ref.module, call, UNPACKED):
            self._follow_argument(ref, call, keyword.arg or UNPACKED)
        elif ref.inside:  # `f(**{"config": value})`
            key = ref.inside[0]
            inner = ref._replace(inside=ref.inside[1:])
            self._follow_argument(inner, call, str(key)) if key != ANY else self._mark_unknown(inner)
        elif last_dotted_name(call.func) in DICT_COPIES:
            self._add_reference(ref._replace(node=call))
            self._record_merge(ref, [], [each for each in call.keywords if each is not keyword])
        else:
            self._mark_unknown(ref)

    def _follow_attribute(self, ref: ValueReference, parent: ast.Attribute) -> None:
        names = ref.module.names
        call = names.parents.get(parent)
        if isinstance(call, ast.Call) and call.func is parent:
            if ref.inside:
                self._follow_container_method(ref, parent.attr, call)
            elif parent.attr in _METHODS:
                self._record_dict_method(ref, parent.attr, call)
            else:
                self._mark_unknown(ref)
        elif parent.attr in _METHODS and not ref.inside:
            self._mark_unknown(ref)

    def _follow_container_method(self, ref: ValueReference, method: str, call: ast.Call) -> None:
        """Follow an object that a method retrieves from a container."""
        first = ref.inside[0]
        if method in ("get", "pop", "setdefault", "__getitem__") and call.args:
            if _may_equal_key(first, subscript_key(call.args[0])):
                self._add_reference(ref._replace(node=call, inside=ref.inside[1:]))
        elif method in ("pop", "popleft"):
            self._add_reference(ref._replace(node=call, inside=ref.inside[1:]))
        elif method == "values":
            self._add_reference(ref._replace(node=call, inside=(ANY, *ref.inside[1:])))
        elif method == "items":
            self._add_reference(ref._replace(node=call, inside=(ANY, 1, *ref.inside[1:])))
        elif method == "copy":
            self._add_reference(ref._replace(node=call))
        elif method not in (*_ADDS, "keys", "index", "count", "update", "clear", "remove", "sort", "reverse"):
            self._mark_unknown(ref)

    def _record_dict_method(self, ref: ValueReference, method: str, call: ast.Call) -> None:
        """Record what a method of the dict changes, and follow the method's result."""
        key = str(subscript_key(call.args[0])) if call.args else ANY
        child = ref._replace(node=call, path=(*ref.path, key))
        if method in ("get", "__getitem__", "pop", "setdefault"):
            self.reads.add(child.path)
        match method:
            case "get" | "__getitem__":
                if not self._is_scalar(child.path):
                    self._add_reference(child)
            case "values" | "items":
                steps: Steps = (ANY,) if method == "values" else (ANY, 1)
                self._add_reference(ref._replace(node=call, inside=steps, path=(*ref.path, ANY)))
            case "copy":
                self._add_reference(ref._replace(node=call))
            case "setdefault":
                self._record_write(child.path, ref, absent_only=True)
                self._add_reference(child)
            case "pop" | "__setitem__" | "__delitem__":
                self._record_write(child.path, ref)
                if method == "pop":
                    self._add_reference(child)
            case "update" | "__ior__" | "__or__":
                self._record_merge(ref, call.args, call.keywords)
                if method == "__or__":
                    self._add_reference(ref._replace(node=call))
            case "clear" | "popitem":
                self._mark_unknown(ref)
            case _:
                pass

    def _record_merge(
        self, ref: ValueReference, others: Iterable[ast.expr], keywords: Iterable[ast.keyword]
    ) -> None:
        """Record the keys that are overwritten when another mapping is merged into the dict."""
        for other in others:
            for key in keys_of_merged_mapping(other):
                self._record_write((*ref.path, key), ref._replace(node=other))
        for each in keywords:
            key = ANY if each.arg is None else each.arg
            self._record_write((*ref.path, key), ref._replace(node=each.value))

    def _follow_argument(self, ref: ValueReference, call: ast.Call, key: int | str) -> None:
        """Follow a value into the call that receives it as an argument, or inside one: `f(a={"deepspeed": value})`."""
        consumer = self._consumer_of(ref.module, call, key)
        if consumer is None and ref.inside:
            consumer = self._consumer_of(ref.module, call, ".".join(map(str, (key, *ref.inside))))
            ref = ref._replace(inside=()) if consumer else ref
        if consumer is not None:
            if not ref.inside and not ref.path:
                self.receivers.append(ConfigReceiver(consumer, ref.module, call))
            elif ref.inside and not self._is_section:
                self._mark_unknown(ref)
            return
        if definition := self._definition_of(ref.module, call.func):
            self._follow_callee(ref, call, key, *definition)
        elif methods := self._methods_of_self(ref.module, call.func):
            for method in methods:
                self._follow_callee(ref, call, key, ref.module, method)
        elif not (
            self._follow_copy(ref, call, key)
            or self._follow_collection(ref, call, key)
            or only_reads_dict(call.func)
        ):
            self._mark_unknown(ref)
        elif last_dotted_name(call.func) in ("dump", "dumps") and not (ref.inside or ref.path or key):
            self.dumps.append((ref.module, call))

    def _follow_copy(self, ref: ValueReference, call: ast.Call, key: int | str) -> bool:
        """Follow a value through a builtin or a copy; return whether the call is one of these."""
        name, whole = last_dotted_name(call.func), ref._replace(node=call)
        is_builtin = isinstance(call.func, ast.Name) and not ref.module.names.bindings_of_name(call.func)
        if name in DICT_COPIES:
            if isinstance(key, str):
                self._add_reference(whole._replace(inside=(key, *ref.inside)))
            else:
                self._add_reference(whole)
                self._record_merge(ref, [], call.keywords) if name == "dict" and not ref.inside else None
            return True
        if is_builtin and name in (*BUILTIN_COPIES, "enumerate"):
            steps = (ANY, 1) if name == "enumerate" else (ANY,)
            if ref.inside:
                self._add_reference(whole._replace(inside=(*steps, *ref.inside[1:])))
            return True
        return is_builtin and name in BUILTIN_READS

    def _follow_collection(self, ref: ValueReference, call: ast.Call, key: int | str) -> bool:
        """Follow a value that a call adds to a container; return whether the call does so."""
        if not isinstance(call.func, ast.Attribute):
            return False
        name, container = call.func.attr, call.func.value
        if name in _ADDS:
            self._follow_entry(container, ANY, ref)
        elif name == "update" and isinstance(key, str):
            self._follow_entry(container, key, ref)
        elif name == "setdefault" and key == 1:
            self._follow_entry(container, subscript_key(call.args[0]), ref)
        elif name in ("get", "pop") and key == 1:
            self._add_reference(ref._replace(node=call))  # the default of a lookup
        else:
            return False
        return True

    def _definition_of(self, module: ParsedModule, function: ast.expr) -> tuple[ParsedModule, ast.AST] | None:
        """Return the function or class that a call refers to, or None if it is outside the repository."""
        if isinstance(function, ast.Name):
            bindings = module.names.bindings_of_name(function)
            if len(bindings) == 1 and bindings[0].kind in ("function", "class"):
                return module, bindings[0].node
            if len(bindings) == 1 and isinstance(bindings[0].value, ast.Lambda):
                return module, bindings[0].value
        return self._repository.find_definition(module, function)

    @staticmethod
    def _methods_of_self(module: ParsedModule, function: ast.expr) -> list[ast.AST]:
        """Return the methods in this module to which `self.method` may refer."""
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            return []
        if function.value.id not in ("self", "cls"):
            return []
        functions = module.names.functions.get(function.attr, ())
        return [each for each in functions if module.names.class_of_method(each) is not None]

    def _follow_callee(
        self, ref: ValueReference, call: ast.Call, key: int | str, module: ParsedModule, definition: ast.AST
    ) -> None:
        """Follow an argument into the function or class that is called."""
        names = module.names
        if isinstance(definition, ast.ClassDef):
            self._follow_init(ref, key, module, definition)
            return
        if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._mark_unknown(ref)
            return
        parameter = parameter_for_argument(definition, key, is_bound=self._is_bound(call, definition, names))
        if parameter is None or any(isinstance(each, ast.Starred) for each in call.args):
            self._mark_unknown(ref)
            return
        self._follow_variable(definition, parameter, ref._replace(module=module))

    @staticmethod
    def _is_bound(call: ast.Call, definition: Function, names: ModuleNames) -> bool:
        """Return whether a method call passes its object as the first parameter."""
        if isinstance(definition, ast.Lambda) or names.class_of_method(definition) is None:
            return False
        decorators = {ast.unparse(each) for each in definition.decorator_list}
        return isinstance(call.func, ast.Attribute) and "staticmethod" not in decorators

    def _follow_init(
        self, ref: ValueReference, key: int | str, module: ParsedModule, definition: ast.ClassDef
    ) -> None:
        """Follow an argument into a class, as a parameter of `__init__` or as a dataclass field."""
        inner = ref._replace(module=module)
        for each in definition.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                parameter = parameter_for_argument(each, key, is_bound=True)
                if parameter is None:
                    self._mark_unknown(ref)
                else:
                    self._follow_variable(each, parameter, inner)
                return
        fields = [
            each.target.id
            for each in definition.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        ]
        name = key if isinstance(key, str) else fields[key] if key < len(fields) else None
        is_dataclass = any("dataclass" in ast.unparse(each) for each in definition.decorator_list)
        if is_dataclass and name in fields:
            self._follow_field(str(name), inner)
        else:
            self._mark_unknown(ref)


def _is_new_container(binding: NameBinding) -> bool:
    """Return whether a binding creates a container that no other code can access."""
    value = binding.value
    if binding.kind != "value" or binding.steps:
        return False
    is_call = isinstance(value, ast.Call) and last_dotted_name(value.func) in ("dict", "list", "defaultdict")
    return is_call or isinstance(value, ast.Dict | ast.List | ast.ListComp | ast.DictComp)


def _may_equal_key(step: int | str, key: int | str) -> bool:
    return step == key or ANY in (step, key)
