"""Config dicts in Python sources, as documents: read from the syntax tree, never executed.

A literal keeps its place in the source, so that diagnostics and fixes go there. A value that only a run shows (a
name, a call, an f-string) is `UNKNOWN`, and so is a key that the program writes later.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.document import LINE_END, Document
from dsconfig.document.tree import MAX_DEPTH, MAX_VALUES, UNKNOWN, Member, Node, NodeKind, Span, Tree

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

LARGEST = 512 * 1024
"""Bytes of a source that is read."""
WORDS = re.compile(
    rb"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps"
)
"""One of these stands in every source that holds a config worth the name; a search costs less than parsing."""
_TAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    "initialize": ("deepspeed", ("config", "config_params")),
    "DeepSpeedConfig": ("deepspeed", ("config",)),
    "HfDeepSpeedConfig": ("deepspeed", ("config_file_or_dict",)),
    "Init": ("deepspeed", ("config_dict_or_path", "config")),
    "DeepSpeedPlugin": ("accelerate", ("hf_ds_config",)),
    "DeepSpeedStrategy": ("lightning", ("config",)),
}
"""Calls that take a config, the consumer that each is, and the argument: the first positional one counts, too, but
of `deepspeed.initialize`, whose first arguments are others."""
_TRAINER_ARGUMENT = "deepspeed"
"""The argument of `TrainingArguments`, and of TRL's configs that derive from it."""
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
_OWN_KEYS = frozenset({"train_micro_batch_size_per_gpu", "zero_optimization"})
"""Keys of the root that nothing but a config of DeepSpeed has."""


class PythonConfig(NamedTuple):
    """A config that stands in a Python source."""

    document: Document
    consumer: str | None
    """Which library the source hands it to; None: it does not show that."""
    why: str
    """`train.py:12 passes it to deepspeed.initialize`; empty where `consumer` is None."""
    unknown: frozenset[KeyPath]
    """Paths whose value only a run shows; a path that ends in `*`: any key that is not written there."""


def python_configs(text: str, name: str) -> tuple[PythonConfig, ...]:
    """Every config in a Python source, in the order of its text; empty where it is no Python, or holds none."""
    return _configs(text, name)


@lru_cache(maxsize=32)
def _configs(text: str, name: str) -> tuple[PythonConfig, ...]:
    if len(text) > LARGEST:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes, say
            tree = ast.parse(text)
        return tuple(_Source(text, name, tree).configs())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def config_at(document: Document) -> PythonConfig | None:
    """The config that a document of this module is."""
    root = document.root
    configs = python_configs(document.text, document.name)
    return next(
        (each for each in configs if root and each.document.root and each.document.root.span == root.span),
        None,
    )


def reread(document: Document, text: str) -> Document:
    """The same config in another text of its source: an edit changes no order.

    Raises:
        ValueError: the text is no Python, or holds another number of configs.
    """
    before = [each.document.root for each in python_configs(document.text, document.name)]
    after = python_configs(text, document.name)
    spans = [root.span for root in before if root is not None]
    if document.root is None or len(after) != len(before):
        raise ValueError("the source does not hold the same configs afterwards")
    return after[spans.index(document.root.span)].document


class _Found(NamedTuple):
    value: ast.expr
    consumer: str | None
    why: str


class _Source:
    """One source: its places, its assignments, and the configs in it."""

    def __init__(self, text: str, name: str, tree: ast.Module) -> None:
        self.text, self.name, self.tree = text, name, tree
        self.starts = [0, *[match.end() for match in LINE_END.finditer(text)]]
        self.lines = [text[a:b] for a, b in zip(self.starts, [*self.starts[1:], len(text)], strict=True)]
        self.nodes = list(ast.walk(tree))
        self.assigned: dict[str, list[ast.expr]] = {}
        """The values that a name, or the last part of an attribute, is bound to anywhere in the source."""
        self.returned: dict[str, list[ast.expr]] = {}
        """What a function returns."""
        self.rebound: set[str] = set()
        """Names that are bound in ways that show no value: arguments, loops, imports, `with`."""
        self.aliases = {
            alias.asname or alias.name
            for node in self.nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name.partition(".")[0] == "deepspeed"
        }
        """Names of the module `deepspeed`."""
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

    # -- which dicts are configs -------------------------------------------------------------------

    def configs(self) -> Iterator[PythonConfig]:
        """Every config in the order of the text; one that stands within another is part of that."""
        found: dict[int, _Found] = {}
        for each in (*self._passed(), *self._named(), *self._alike()):
            known = found.get(id(each.value))
            if known is None or (known.consumer is None and each.consumer):
                found[id(each.value)] = each
        inner = {id(part) for each in found.values() for part in ast.walk(each.value)} - found.keys()
        inner |= {
            id(part) for each in found.values() for part in ast.walk(each.value) if part is not each.value
        }
        for each in sorted(found.values(), key=lambda each: (each.value.lineno, each.value.col_offset)):
            if id(each.value) not in inner:
                yield self._config(each)

    def _passed(self) -> Iterator[_Found]:
        """What a call that takes a config is given."""
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            name, argument = _last_name(node.func), None
            if name in _TAKES:
                consumer, keywords = _TAKES[name]
                if name == "initialize" and not self._is_of_deepspeed(node.func):
                    continue
                argument = _keyword(node, *keywords)
                if argument is None and node.args and name not in ("initialize", "Init"):
                    argument = node.args[0]
            elif (argument := _keyword(node, _TRAINER_ARGUMENT)) is not None:
                consumer = "transformers"
            if argument is not None:
                why = f"{self.name}:{node.lineno} passes it to `{ast.unparse(node.func)}`"
                yield from (_Found(value, consumer, why) for value in self._dicts(argument))

    def _is_of_deepspeed(self, function: ast.expr) -> bool:
        """Whether `initialize` is DeepSpeed's: other libraries have one, too."""
        if isinstance(function, ast.Name):
            return True
        module = ast.unparse(function).partition(".")[0]
        return "deepspeed" in ast.unparse(function).lower() or module in self.aliases

    def _named(self) -> Iterator[_Found]:
        """Dicts that are bound to a name such as `ds_config`, with a key of the root."""
        for name, values in self.assigned.items():
            if _NAME.fullmatch(name):
                for value in values:
                    if _is_dict(value) and not _ROOT_KEYS.isdisjoint(_keys(value)):
                        yield _Found(value, None, "")

    def _alike(self) -> Iterator[_Found]:
        """Dicts with two keys of the root, one of which nothing else has."""
        for node in self.nodes:
            if isinstance(node, ast.expr) and _is_dict(node):
                keys = _keys(node)
                if not _OWN_KEYS.isdisjoint(keys) and len(_ROOT_KEYS.intersection(keys)) > 1:
                    yield _Found(node, None, "")

    def _dicts(self, value: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The dict literals that an expression may be."""
        if _is_dict(value):
            if _keys(value):  # `{}` is filled elsewhere
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

    # -- a config as a document --------------------------------------------------------------------

    def _config(self, found: _Found) -> PythonConfig:
        self.values = 0
        root = self._node(found.value, 0)
        unknown = {path for path, node in _walked(root, ()) if node.value is UNKNOWN}
        unknown |= {(*path, "*") for path in self._open(found.value, ())}
        if found.consumer is None:
            unknown.add(("*",))  # nothing shows that it is handed over as it stands here: it may be a part
        value = root.value
        for path in self._written(found.value):
            unknown.add(path)
            value = _with_unknown(value, path)
        root = root._replace(value=value)
        tree = Tree(root, (), tuple(self._comments(root.span)))
        document = Document(self.name, self.text, "python", tree, embedded_at=())
        return PythonConfig(document, found.consumer, found.why, frozenset(unknown))

    def _node(self, value: ast.expr, depth: int) -> Node:
        """The located value of an expression."""
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
                Member(each.arg, self._word(each), self._node(each.value, depth + 1))
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
        """The value of a constant expression, a name that is bound to one constant once among that; else `UNKNOWN`."""
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
            return _calculated(
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

    def _open(self, value: ast.expr, path: KeyPath) -> Iterator[KeyPath]:
        """The objects that have keys which the source does not show: `**other`, or a key that is no literal."""
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield from self._open(item, (*path, key.value))
                else:
                    yield path
        elif _is_dict(value) and isinstance(value, ast.Call):
            if value.args:
                yield path
            for each in value.keywords:
                if each.arg is None:
                    yield path
                else:
                    yield from self._open(each.value, (*path, each.arg))

    # -- keys that the program writes later ------------------------------------------------------------

    def _written(self, value: ast.expr) -> Iterator[KeyPath]:
        """The paths that the program writes into a config after its literal."""
        names = self._names_of(value)
        for node in self.nodes if names else ():
            if isinstance(node, ast.Assign | ast.Delete):
                for target in node.targets:
                    yield from self._of_target(target, names)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                yield from self._of_target(node.target, names)
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
                    yield from self._merged(node.target, [node.value], names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "update":
                    yield from self._merged(node.func.value, node.args, names, node.keywords)
                elif node.func.attr in ("setdefault", "pop") and node.args:
                    base, key = _path(node.func.value, names), node.args[0]
                    if base is not None:
                        yield (*base, str(key.value) if isinstance(key, ast.Constant) else "*")

    def _names_of(self, value: ast.expr) -> frozenset[str]:
        """The names under which the program has a config: bound to it, or to a call of what returns it."""
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

    def _of_target(self, target: ast.expr, names: frozenset[str]) -> Iterator[KeyPath]:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                yield from self._of_target(each, names)
        elif isinstance(target, ast.Subscript) and (path := _path(target, names)):
            yield path

    def _merged(
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
            if not _is_dict(other) or any(True for _ in self._open(other, ())):
                yield (*path, "*")
        for each in keywords or ():
            yield (*path, "*" if each.arg is None else each.arg)

    # -- places ----------------------------------------------------------------------------------------

    def _span(self, node: ast.expr) -> Span:
        return Span(
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
        )

    def _offset(self, line: int, column: int) -> int:
        """The offset in the text; `ast` counts the bytes of a line."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
        )

    def _word(self, keyword: ast.keyword) -> Span:
        start = self._offset(keyword.lineno, keyword.col_offset)
        return Span(start, start + len(keyword.arg or ""))

    def _comments(self, within: Span) -> Iterator[tuple[Span, str]]:
        """The comments on the lines of the config."""
        first, last = (bisect_right(self.starts, at) for at in within)
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT and first <= token.start[0] <= last:
                    start = self.starts[token.start[0] - 1] + token.start[1]
                    yield Span(start, start + len(token.string)), token.string
        except (tokenize.TokenError, SyntaxError):
            return


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _keyword(call: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg in names), None)


def _is_dict(value: ast.expr) -> bool:
    """Whether this is a literal of a dict, or `dict(...)` of keywords."""
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


def _calculated(operator: ast.operator, left: Json, right: Json) -> Json:
    """The result of simple arithmetic, within the sizes that configs have."""
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
    """The path in a config that subscripts lead to; None where they begin at another variable."""
    keys: list[str] = []
    while isinstance(node, ast.Subscript):
        key = node.slice
        keys.append(key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else "*")
        node = node.value
    if isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in names:
        path = tuple(reversed(keys))
        return path[: path.index("*") + 1] if "*" in path else path
    return None


def _walked(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    yield path, node
    for member in node.members:
        yield from _walked(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        yield from _walked(item, (*path, index))


def _with_unknown(value: Json, path: KeyPath) -> Json:
    """The value with `UNKNOWN` at a path; sections on the way are made where they are missing."""
    if not path or path[0] == "*":
        return value
    if not isinstance(value, dict):
        return UNKNOWN
    inner = value.get(str(path[0]), {})
    return {**value, str(path[0]): UNKNOWN if len(path) == 1 else _with_unknown(inner, path[1:])}
