"""Find the calls in a Python program, the conditions under which they run, and the values of variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, called_function_name

# Only the program file itself is examined, not the modules that it imports: those also serve evaluation and export.
# A call counts only if the source proves that it runs in a DeepSpeed job: not in a function that nothing calls, and
# not under a condition about the number of processes or DeepSpeed.

Kind: TypeAlias = Literal[
    "device map",
    "spread device map",
    "low memory load",
    "8-bit weights",
    "4-bit weights",
    "save without gathering",
    "collective save on one rank",
    "collective save of stage 3 on one rank",
    "move to device",
    "prepare without loader",
    "dummy optimizer",
    "dummy scheduler",
    "own optimizer",
    "own scheduler",
    "initialize without optimizer",
    "model before arguments",
    "model before plugin",
    "unprepared model",
    "partitioned construction",
    "nested construction",
    "whole model",
    "unsynchronized generation",
    "gathered generation",
    "inference mode",
    "non-reentrant checkpointing",
    "accumulation",
    "load before rendezvous",
    "load on one rank first",
    "several models",
    "second model",
    "optimizer prepared alone",
    "size of partition",
    "reference model",
    "model without config",
    "resume",
    "load without optimizer",
    "loader of constant batch",
    "steps divided by ranks",
    "ranks set by hand",
]


class ConfigSensitiveCall(NamedTuple):
    """A call that depends on the config, with its location (`train.py:12`) and its shortened source text."""

    kind: Kind
    location: str
    text: str
    value: Json = None
    """Number or name that the call passes, for the kinds of call that need one."""


ABOUT_PARALLELISM = re.compile(
    r"deepspeed|zero|stage|fsdp|distributed|world_size|n_gpu|num_gpus|device_count|ddp|local_rank|device_map|parallel",
    re.IGNORECASE,
)
"""Pattern of conditions by which a program handles runs with DeepSpeed or with several GPUs separately."""
_MAX_TEXT = 80
_TRAINS = frozenset({"initialize", "prepare", "get_peft_model", "prepare_model_for_kbit_training"})
"""Functions that receive the model that a program trains, beside the trainers."""
_NO_MODEL = re.compile(
    r"Tokenizer|Processor|Config|FeatureExtractor|Scheduler|Dataset|Pipeline$", re.IGNORECASE
)
"""Pattern of classes whose `from_pretrained` loads no trainable module."""
MODEL = re.compile(r"model|net$|policy|actor|critic|transformer", re.IGNORECASE)
_WRAPPERS = frozenset({"initialize", "prepare", "unwrap_model"})


class ProgramCalls:
    """The calls in a program file, with each node's parent and the values assigned to each name."""

    def __init__(self, module: ParsedModule) -> None:
        self.module = module
        self.parents = {id(child): node for node in module.nodes for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in module.nodes if isinstance(node, ast.Call)]
        self.text = "\n".join(
            last_dotted_name(node) or (node.arg or "" if isinstance(node, ast.keyword) else "")
            for node in module.nodes
            if isinstance(node, ast.Name | ast.Attribute | ast.keyword)
        )
        self.strings = {
            node.value
            for node in module.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        self.assigned = frozenset(
            node.attr
            for node in module.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )
        self.values: dict[str, list[ast.expr | None]] = {}
        for node in module.nodes:
            for name, value in _assigned_names_with_values(node):
                self.values.setdefault(name, []).append(value)
        references = [
            last_dotted_name(node) for node in module.nodes if isinstance(node, ast.Name | ast.Attribute)
        ]
        self.referenced = frozenset(references)

    def _describe_call(self, kind: Kind, node: ast.AST, value: Json = None) -> ConfigSensitiveCall:
        text = " ".join(ast.unparse(node).split())
        text = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
        return ConfigSensitiveCall(kind, self.module.shown_location(node), text, value)

    # Position of a node
    # ----------------------------------------------------------------------------------------------

    def _ancestors_of_node(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield each ancestor of a node together with its child on the path to the node, innermost first."""
        child, parent = node, self.parents.get(id(node))
        while parent is not None:
            yield parent, child
            child, parent = parent, self.parents.get(id(parent))

    def _enclosing_function(self, node: ast.AST) -> ast.AST:
        """Return the innermost function that contains a node, or the module for top-level code."""
        for parent, _ in self._ancestors_of_node(node):
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return parent
        return self.module.nodes[0]

    def _may_run(self, node: ast.AST) -> bool:
        """Return whether a node may run, as far as the file shows."""
        for parent, _ in self._ancestors_of_node(node):
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                in_class = any(isinstance(each, ast.ClassDef) for each, _ in self._ancestors_of_node(parent))
                if parent.name not in self.referenced and not in_class and not parent.decorator_list:
                    return False
        return True

    def _enclosing_conditions(self, node: ast.AST) -> Iterator[str]:
        """Yield the source of each condition under which a node runs, including early returns above the node."""
        for parent, child in self._ancestors_of_node(node):
            if isinstance(parent, ast.If | ast.IfExp | ast.While) and child is not parent.test:
                yield ast.unparse(parent.test)
            elif isinstance(parent, ast.ExceptHandler):
                yield "except"
            elif isinstance(parent, ast.BoolOp):
                yield ast.unparse(parent)
            body = getattr(parent, "body", None)
            if isinstance(body, list) and child in body:
                for earlier in body[: body.index(child)]:
                    if isinstance(earlier, ast.If) and isinstance(earlier.body[-1], ast.Return | ast.Raise):
                        yield ast.unparse(earlier.test)

    def _runs_unless_excluded(self, node: ast.AST, exception: re.Pattern[str] = ABOUT_PARALLELISM) -> bool:
        """Return whether a node may run and none of its enclosing conditions matches the pattern `exception`."""
        return self._may_run(node) and not any(map(exception.search, self._enclosing_conditions(node)))

    def _is_unconditional(self, node: ast.AST) -> bool:
        return self._may_run(node) and not [
            test for test in self._enclosing_conditions(node) if "__main__" not in test
        ]

    def _is_after_node(self, node: ast.AST, other: ast.AST) -> bool:
        """Return whether a node comes after the node `other` in the same function."""
        return self._enclosing_function(node) is self._enclosing_function(other) and line_number_of(
            node
        ) > line_number_of(other)

    def _all_values_of_variable(self, name: str, node: ast.AST) -> list[ast.expr]:
        """Return every value assigned to a variable, or an empty list if the source does not show all of them."""
        values = self.values.get(name, [])
        is_parameter = isinstance(
            scope := self._enclosing_function(node), ast.FunctionDef
        ) and name in _parameter_names(scope)
        return [] if is_parameter or None in values else [value for value in values if value is not None]

    # Models
    # ----------------------------------------------------------------------------------------------

    def model_load_calls(self) -> Iterator[ast.Call]:
        """Yield the calls of `from_pretrained` that load a model."""
        for call in self.calls:
            if called_function_name(call) == "from_pretrained" and isinstance(call.func, ast.Attribute):
                owner = last_dotted_name(call.func.value)
                if owner and not _NO_MODEL.search(owner) and owner not in ("self", "cls"):
                    yield call

    def is_model_trained(self, call: ast.Call) -> bool:
        """Return whether a loaded model is passed to a Trainer, to PEFT or to an engine."""
        parent = self.parents.get(id(call))
        names = (
            {last_dotted_name(target) for target in parent.targets}
            if isinstance(parent, ast.Assign)
            else set()
        )
        return any(
            last_dotted_name(argument) in names - {""}
            for other in self.calls
            if called_function_name(other).endswith("Trainer") or called_function_name(other) in _TRAINS
            for argument in (*other.args, *(each.value for each in other.keywords))
        )

    # Engines
    # ----------------------------------------------------------------------------------------------

    def _names_of_call_results(self, *functions: str) -> dict[str, ast.Call]:
        """Map each name assigned from a call of `functions` to the call; for a tuple, only its first name."""
        results: dict[str, ast.Call] = {}
        for node in self.module.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Subscript)
                and isinstance(node.value.value, ast.Call)
            ):
                call = node.value.value
            else:
                continue
            if called_function_name(call) not in functions:
                continue
            for target in node.targets:
                first = target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else target
                if isinstance(first, ast.Name | ast.Attribute):
                    results[ast.unparse(first)] = call
        return results

    def _names_of_wrapped_models(self) -> dict[str, int]:
        """Map the name of each engine or prepared model to the line on which the model is wrapped."""
        wrapped = {
            name: line_number_of(call)
            for name, call in self._names_of_call_results("initialize").items()
            if is_deepspeed_initialize(call)
        }
        # Only models are unwrapped, whatever their names are.
        unwrapped = {
            ast.unparse(call.args[0])
            for call in self.calls
            if called_function_name(call) == "unwrap_model" and call.args
        }
        for name, call in self._names_of_call_results("prepare").items():
            is_model = MODEL.search(name) or name in unwrapped
            if call.args and not isinstance(call.args[0], ast.Starred) and is_model:
                wrapped[name] = line_number_of(call)
        for name, call in self._names_of_call_results("unwrap_model").items():
            if call.args and ast.unparse(call.args[0]) in wrapped:
                wrapped[name] = line_number_of(call)
        return wrapped

    def _is_function_called(self, node: ast.Name) -> bool:
        parent = self.parents.get(id(node))
        return isinstance(parent, ast.Call) and parent.func is node

    def _is_result_assigned_to(self, call: ast.Call, name: str) -> bool:
        parent = self.parents.get(id(call))
        return isinstance(parent, ast.Assign) and any(
            last_dotted_name(target) == name for target in parent.targets
        )


def line_number_of(node: ast.AST) -> int:
    """Return the line number of a node, or 0 if the node has none."""
    return getattr(node, "lineno", 0)


def _parameter_names(function: ast.FunctionDef) -> frozenset[str]:
    arguments = function.args
    return frozenset(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _assigned_names_with_values(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement assigns, each with its value, or None if the value is not an expression."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _names_assigned_by_target(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        yield ast.unparse(node.target), node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield from ((name, None) for name in _names_in_expression(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((name, None) for name in _names_in_expression(node.optional_vars))


def _names_assigned_by_target(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name | ast.Attribute):
        yield ast.unparse(target), value
    # `prepare` and `initialize` return their arguments, wrapped: the names keep their meaning.
    elif isinstance(target, ast.Tuple | ast.List) and not (
        isinstance(value, ast.Call) and called_function_name(value) in _WRAPPERS
    ):
        values = value.elts if isinstance(value, ast.Tuple) else []
        is_pairwise = len(values) == len(target.elts)
        for at, each in enumerate(target.elts):
            if isinstance(each, ast.Name | ast.Attribute):
                yield ast.unparse(each), values[at] if is_pairwise else None


def _names_in_expression(node: ast.AST) -> frozenset[str]:
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def is_deepspeed_initialize(call: ast.Call) -> bool:
    """Return whether a call is `deepspeed.initialize(...)`."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called_function_name(call) == "initialize" and last_dotted_name(base) in ("deepspeed", "ds")
