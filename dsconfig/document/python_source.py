"""Config dicts in Python sources as documents, read from the syntax tree without executing the code.

Each literal keeps its location in the source, so diagnostics and fixes apply to the source itself. A value that is
only known at run time (a name, a call, an f-string) is `UNKNOWN`, and so is a key that the program sets later.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.document import LINE_END, Document
from dsconfig.document.tree import MAX_DEPTH, MAX_VALUES, UNKNOWN, Member, Node, NodeKind, Span, Tree

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

MAX_SIZE = 512 * 1024
"""Sources with more characters than this are not searched for configs."""
WORDS = re.compile(
    rb"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps"
)
"""Keys of which every source with a config contains at least one: searching for them is cheaper than parsing."""
_CONFIG_CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "initialize": ("deepspeed", ("config", "config_params")),
    "DeepSpeedConfig": ("deepspeed", ("config",)),
    "HfDeepSpeedConfig": ("deepspeed", ("config_file_or_dict",)),
    "Init": ("deepspeed", ("config_dict_or_path", "config")),
    "DeepSpeedPlugin": ("accelerate", ("hf_ds_config",)),
    "DeepSpeedStrategy": ("lightning", ("config",)),
}
"""Consumer and keyword arguments of each call that accepts a config.

The config may also be the first positional argument, except for `initialize` and `Init`, where another one comes first.
"""
_TRAINER_ARGUMENT = "deepspeed"
"""Argument of `TrainingArguments` and its subclasses, such as TRL's configs."""
_NAME = re.compile(
    r"(?i)(?:\w*_)?(?:ds|deepspeed|deep_speed|zero\d?)_?(?:\w*_)?(?:config|cfg|conf|params|dict)\w*"
)
_ROOT_KEYS = frozenset(
    {
        "activation_checkpointing",
        "bf16",
        "fp16",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "optimizer",
        "scheduler",
        "steps_per_print",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
        "zero_optimization",
    }
)
_UNIQUE_KEYS = frozenset({"train_micro_batch_size_per_gpu", "zero_optimization"})
"""Top-level keys that only a DeepSpeed config has."""


class PythonConfig(NamedTuple):
    """One config in a Python source."""

    document: Document
    consumer: str | None
    """Library that the source passes the config to; None if the source does not show it."""
    why: str
    """Reason, such as `train.py:12 passes it to deepspeed.initialize`; empty if `consumer` is None."""
    unknown: frozenset[KeyPath]
    """Paths whose value is only known at run time; a final `*` stands for every key that the object does not show."""


@lru_cache(maxsize=32)
def python_configs(text: str, name: str) -> tuple[PythonConfig, ...]:
    """Return the configs in a Python source in their order; none if it is not valid Python."""
    if len(text) > MAX_SIZE:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the source may contain invalid escapes
            tree = ast.parse(text)
        return tuple(_Source(text, name, tree).configs())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def config_at(document: Document) -> PythonConfig | None:
    """Return the config that a document was made from; None if its source no longer contains it."""
    root = document.root
    configs = python_configs(document.text, document.name)
    return next(
        (each for each in configs if root and each.document.root and each.document.root.span == root.span),
        None,
    )


def reread(document: Document, text: str) -> Document:
    """Return the same config in an edited text of its source; edits do not reorder configs.

    Raises:
        ValueError: the text is not valid Python, or has another number of configs.
    """
    before = [each.document.root for each in python_configs(document.text, document.name)]
    after = python_configs(text, document.name)
    spans = [root.span for root in before if root is not None]
    if document.root is None or len(after) != len(before):
        raise ValueError("the edited source does not contain the same configs")
    return after[spans.index(document.root.span)].document


class _Candidate(NamedTuple):
    """A dict expression that is a config, and the library that loads it."""

    value: ast.expr
    consumer: str | None
    why: str


class _Source:
    """A parsed source: line offsets, assignments, and the configs in it."""

    def __init__(self, text: str, name: str, tree: ast.Module) -> None:
        self.text, self.name, self.tree = text, name, tree
        self.starts = [0, *[match.end() for match in LINE_END.finditer(text)]]
        self.lines = [text[a:b] for a, b in zip(self.starts, [*self.starts[1:], len(text)], strict=True)]
        self.nodes = list(ast.walk(tree))
        self.assigned: dict[str, list[ast.expr]] = {}
        """Values assigned anywhere in the source, by name or last part of an attribute."""
        self.returned: dict[str, list[ast.expr]] = {}
        """Returned expressions by function name."""
        self.rebound: set[str] = set()
        """Names bound without a visible value, by an argument, a loop, `with`, `global` or unpacking."""
        self.aliases = {
            alias.asname or alias.name
            for node in self.nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name.partition(".")[0] == "deepspeed"
        }
        """Names under which the module `deepspeed` is imported."""
        self.values = 0
        for node in self.nodes:
            self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.returned[node.name] = [
                each.value
                for each in ast.walk(node)
                if isinstance(each, ast.Return) and each.value is not None
            ]
        elif isinstance(node, ast.arg):
            self.rebound.add(node.arg)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self.rebound.update(each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.AugAssign):
            self.rebound.update(each.id for each in [node.target] if isinstance(each, ast.Name))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self.rebound.update(
                each.id for each in ast.walk(node.optional_vars) if isinstance(each, ast.Name)
            )
        elif isinstance(node, ast.Global | ast.Nonlocal):
            self.rebound.update(node.names)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            self.assigned.setdefault(_last_name(target), []).append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.rebound.update(_last_name(each) for each in target.elts)

    # ------------------------------------------------------------ find configs

    def configs(self) -> Iterator[PythonConfig]:
        """Yield the configs in the order of the text; a dict nested in another config is not one of its own."""
        candidates: dict[int, _Candidate] = {}
        for each in (*self._dicts_in_calls(), *self._dicts_by_name(), *self._dicts_by_keys()):
            previous = candidates.get(id(each.value))
            if previous is None or (previous.consumer is None and each.consumer):
                candidates[id(each.value)] = each
        nested = {
            id(part)
            for each in candidates.values()
            for part in ast.walk(each.value)
            if part is not each.value
        }
        for each in sorted(candidates.values(), key=lambda each: (each.value.lineno, each.value.col_offset)):
            if id(each.value) not in nested:
                yield self._config(each)

    def _dicts_in_calls(self) -> Iterator[_Candidate]:
        """Yield the dicts passed to calls that accept a config."""
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            name, argument = _last_name(node.func), None
            if name in _CONFIG_CALLS:
                consumer, keywords = _CONFIG_CALLS[name]
                if name == "initialize" and not self._is_of_deepspeed(node.func):
                    continue
                argument = _keyword(node, *keywords)
                if argument is None and node.args and name not in ("initialize", "Init"):
                    argument = node.args[0]
            elif (argument := _keyword(node, _TRAINER_ARGUMENT)) is not None:
                consumer = "transformers"
            if argument is not None:
                why = f"{self.name}:{node.lineno} passes it to `{ast.unparse(node.func)}`"
                yield from (_Candidate(value, consumer, why) for value in self._dicts(argument))

    def _is_of_deepspeed(self, function: ast.expr) -> bool:
        """Whether a function named `initialize` is DeepSpeed's; other libraries have one too."""
        if isinstance(function, ast.Name):
            return True
        module = ast.unparse(function).partition(".")[0]
        return "deepspeed" in ast.unparse(function).lower() or module in self.aliases

    def _dicts_by_name(self) -> Iterator[_Candidate]:
        """Yield dicts with a top-level key that are assigned to a name such as `ds_config`."""
        for name, values in self.assigned.items():
            if _NAME.fullmatch(name):
                for value in values:
                    if _is_dict(value) and not _ROOT_KEYS.isdisjoint(_keys(value)):
                        yield _Candidate(value, None, "")

    def _dicts_by_keys(self) -> Iterator[_Candidate]:
        """Yield dicts with two top-level keys, at least one of which is unique to DeepSpeed."""
        for node in self.nodes:
            if isinstance(node, ast.expr) and _is_dict(node):
                keys = _keys(node)
                if not _UNIQUE_KEYS.isdisjoint(keys) and len(_ROOT_KEYS.intersection(keys)) > 1:
                    yield _Candidate(node, None, "")

    def _dicts(self, value: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """Yield the dict literals that an expression may evaluate to."""
        if _is_dict(value):
            if _keys(value):  # the program fills an empty dict later
                yield value
        elif depth > 4:
            return
        elif isinstance(value, ast.Name | ast.Attribute):
            for each in self.assigned.get(_last_name(value), ()):
                yield from self._dicts(each, depth + 1)
        elif isinstance(value, ast.Call):
            for each in self.returned.get(_last_name(value.func), ()):
                yield from self._dicts(each, depth + 1)
        elif isinstance(value, ast.IfExp):
            for each in (value.body, value.orelse):
                yield from self._dicts(each, depth + 1)

    # ------------------------------------------------------------ build documents

    def _config(self, candidate: _Candidate) -> PythonConfig:
        self.values = 0
        root = self._node(candidate.value, 0)
        nodes = list(_walk(root, ()))
        unknown = {path for path, node in nodes if node.value is UNKNOWN}
        unknown |= {(*path, "*") for path in open_objects(candidate.value)}
        if candidate.consumer is None:
            unknown.add(("*",))  # the dict may be only part of the config that the program passes on
        value = root.value
        later = {*self._paths_set_later(candidate.value), *self._overwritten(candidate.value, ())}
        by_path = dict(nodes)
        for path in [*later]:
            # A key that is only known at run time may be any of the keys that the literal shows.
            section = by_path.get(path[:-1]) if path[-1] == "*" else None
            later |= {(*path[:-1], member.key) for member in (section.members if section else ())}
        for path in sorted(later, key=len):
            unknown.add(path)
            value = _with_unknown(value, path)
        root = root._replace(value=value)
        tree = Tree(root, (), tuple(self._comments(root.span)))
        document = Document(self.name, self.text, "python", tree, embedded_at=())
        return PythonConfig(document, candidate.consumer, candidate.why, frozenset(unknown))

    def _node(self, value: ast.expr, depth: int) -> Node:
        """Convert an expression to a node with its value and span."""
        span = self._span(value)
        self.values += 1
        if depth > MAX_DEPTH or self.values > MAX_VALUES:
            return Node("unknown", span, UNKNOWN)
        if isinstance(value, ast.Dict):
            members = tuple(
                Member(key.value, self._span(key), self._node(item, depth + 1))
                for key, item in zip(value.keys, value.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )
            return Node("object", span, {each.key: each.node.value for each in members}, members)
        if _is_dict(value) and isinstance(value, ast.Call):
            members = tuple(
                Member(each.arg, self._argument_span(each), self._node(each.value, depth + 1))
                for each in value.keywords
                if each.arg is not None
            )
            return Node("object", span, {each.key: each.node.value for each in members}, members)
        if isinstance(value, ast.List | ast.Tuple) and not any(
            isinstance(e, ast.Starred) for e in value.elts
        ):
            items = tuple(self._node(each, depth + 1) for each in value.elts)
            return Node("array", span, [each.value for each in items], items=items)
        constant = self._constant(value, 0)
        return Node(_kind(constant), span, constant)

    def _constant(self, value: ast.expr, depth: int) -> Json:
        """Evaluate constants, simple arithmetic, and names with a single assignment; anything else is `UNKNOWN`."""
        if isinstance(value, ast.Constant) and isinstance(value.value, str | bool | int | float | None):
            return value.value
        if depth > 8:
            return UNKNOWN
        if isinstance(value, ast.Name) and value.id not in self.rebound:
            bound = self.assigned.get(value.id, [])
            return self._constant(bound[0], depth + 1) if len(bound) == 1 else UNKNOWN
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
            number = self._constant(value.operand, depth + 1)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return -number if isinstance(value.op, ast.USub) else number
        if isinstance(value, ast.BinOp):
            return _arithmetic(
                value.op, self._constant(value.left, depth + 1), self._constant(value.right, depth + 1)
            )
        if (
            isinstance(value, ast.Call)
            and _last_name(value.func) in ("int", "float")
            and len(value.args) == 1
        ):
            number = self._constant(value.args[0], depth + 1)
            if isinstance(number, int | float) and abs(number) < 1e18:
                return int(number) if _last_name(value.func) == "int" else float(number)
        return UNKNOWN

    def _overwritten(self, value: ast.expr, path: KeyPath) -> Iterator[KeyPath]:
        """Yield the keys of a literal that stand before `**other` or a key that is not a literal."""
        if not isinstance(value, ast.Dict):
            return
        before: list[KeyPath] = []
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                before.append((*path, key.value))
                yield from self._overwritten(item, (*path, key.value))
            else:
                yield from before
                before = []

    # ------------------------------------------------------------ keys set after the literal

    def _paths_set_later(self, value: ast.expr) -> Iterator[KeyPath]:
        """Yield the paths that the program sets or removes after the literal."""
        names = self._names_of(value)
        for node in self.nodes if names else ():
            if isinstance(node, ast.Assign | ast.Delete):
                for target in node.targets:
                    yield from self._path_of_target(target, names)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                yield from self._path_of_target(node.target, names)
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
                    yield from self._paths_merged(node.target, [node.value], names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "update":
                    yield from self._paths_merged(node.func.value, node.args, names, node.keywords)
                elif node.func.attr in ("setdefault", "pop") and node.args:
                    base, key = _path(node.func.value, names), node.args[0]
                    if base is not None:
                        yield (*base, str(key.value) if isinstance(key, ast.Constant) else "*")

    def _names_of(self, value: ast.expr) -> frozenset[str]:
        """Return the variables that hold a config: assigned to it, or to a call of a function that returns it."""
        names = {name for name, values in self.assigned.items() if any(each is value for each in values)}
        functions = {name for name, values in self.returned.items() if any(each is value for each in values)}
        functions |= {
            function
            for function, values in self.returned.items()
            if any(isinstance(each, ast.Name) and each.id in names for each in values)
        }
        for name, values in self.assigned.items():
            if any(isinstance(each, ast.Call) and _last_name(each.func) in functions for each in values):
                names.add(name)
        return frozenset(names)

    def _path_of_target(self, target: ast.expr, names: frozenset[str]) -> Iterator[KeyPath]:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                yield from self._path_of_target(each, names)
        elif isinstance(target, ast.Subscript) and (path := _path(target, names)):
            yield path

    def _paths_merged(
        self,
        base: ast.expr,
        others: list[ast.expr],
        names: frozenset[str],
        keywords: list[ast.keyword] | None = None,
    ) -> Iterator[KeyPath]:
        path = _path(base, names)
        if path is None:
            return
        for other in others:
            if _is_dict(other):
                yield from ((*path, key) for key in _keys(other))
            if not _is_dict(other) or any(True for _ in open_objects(other)):
                yield (*path, "*")
        for each in keywords or ():
            yield (*path, "*" if each.arg is None else each.arg)

    # ------------------------------------------------------------ spans

    def _span(self, node: ast.expr) -> Span:
        return Span(
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
        )

    def _offset(self, line: int, column: int) -> int:
        """Convert a position of `ast`, which counts bytes in a line, to an offset in the text."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
        )

    def _argument_span(self, keyword: ast.keyword) -> Span:
        start = self._offset(keyword.lineno, keyword.col_offset)
        return Span(start, start + len(keyword.arg or ""))

    def _comments(self, span: Span) -> Iterator[tuple[Span, str]]:
        """Yield the comments on the lines of a config."""
        first, last = (bisect_right(self.starts, offset) for offset in span)
        for line, comment in self._all_comments:
            if first <= line <= last:
                yield comment

    @cached_property
    def _all_comments(self) -> list[tuple[int, tuple[Span, str]]]:
        """The comments of the source with their line numbers, up to the first invalid token."""
        comments: list[tuple[int, tuple[Span, str]]] = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT:
                    line, column = token.start
                    start = self.starts[line - 1] + column
                    comments.append((line, (Span(start, start + len(token.string)), token.string)))
        except (tokenize.TokenError, SyntaxError):
            pass
        return comments


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _keyword(call: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg in names), None)


def open_objects(value: ast.expr, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the objects with keys that the source does not show: `**other`, or a key that is not a literal."""
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from open_objects(item, (*path, key.value))
            else:
                yield path
    elif _is_dict(value) and isinstance(value, ast.Call):
        if value.args:
            yield path
        for each in value.keywords:
            if each.arg is None:
                yield path
            else:
                yield from open_objects(each.value, (*path, each.arg))


def _is_dict(value: ast.expr) -> bool:
    """Whether an expression is a dict literal or a call of `dict(...)`."""
    if isinstance(value, ast.Dict):
        return True
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"


def _keys(value: ast.expr) -> list[str]:
    if isinstance(value, ast.Dict):
        return [
            each.value
            for each in value.keys
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
    return [each.arg for each in value.keywords if each.arg] if isinstance(value, ast.Call) else []


def _kind(value: Json) -> NodeKind:
    if value is UNKNOWN:
        return "unknown"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _arithmetic(operator: ast.operator, left: Json, right: Json) -> Json:
    """Compute simple arithmetic; `UNKNOWN` for numbers that are too large for a config."""
    if not all(isinstance(each, int | float) and abs(each) < 1e18 for each in (left, right)):
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
            case ast.Pow() if abs(right) < 64:
                return left**right
    except (ArithmeticError, ValueError):
        pass
    return UNKNOWN


def _path(node: ast.expr, names: frozenset[str]) -> KeyPath | None:
    """Return the config path of nested subscripts; None if they start at another variable."""
    keys: list[str] = []
    while isinstance(node, ast.Subscript):
        key = node.slice
        keys.append(key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else "*")
        node = node.value
    if isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in names:
        path = tuple(reversed(keys))
        return path[: path.index("*") + 1] if "*" in path else path
    return None


def _walk(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    yield path, node
    for member in node.members:
        yield from _walk(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        yield from _walk(item, (*path, index))


def _with_unknown(value: Json, path: KeyPath) -> Json:
    """Return the value with `UNKNOWN` at a path; missing parent sections are added."""
    if not path or path[0] == "*":
        return value
    if not isinstance(value, dict):
        return UNKNOWN
    inner = value.get(str(path[0]), {})
    return {**value, str(path[0]): UNKNOWN if len(path) == 1 else _with_unknown(inner, path[1:])}
