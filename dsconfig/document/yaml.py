"""YAML: PyYAML's own nodes and values, with our limits before them and places and problems after them."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

import yaml

from dsconfig.document.tree import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    NOBODY,
    ONLY_YAML,
    Member,
    Node,
    NodeKind,
    Parser,
    Path,
    Problem,
    Span,
    Tree,
)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ODD: Final = re.compile("\ufeff?[^\t\ufeff]*[\t\ufeff]")
"""`yaml.safe_load` refuses tabs that libyaml takes, and takes inner byte order marks; it reads such text."""
_SLOWLY: Final = 100_000
"""Longest text that PyYAML's Python code reads: it takes ten times as long."""
_ERRORS: Final = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises: besides its own, whatever a constructor trips over, as in `!!int ""`."""
_DEFAULT_TAGS: Final = {"scalar": "str", "sequence": "seq", "mapping": "map"}
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_COMMENT: Final = re.compile(r"(?:^|(?<=[\s]))#[^\r\n]*", re.MULTILINE)
_NESTING: Final = re.compile(r"[\[{:?-]")
_LINE: Final = re.compile(r"[^\r\n]*")
_ATTEMPTS: Final = 8


class _LimitError(Exception):
    """More than is read."""

    def __init__(self, kind: str, at: int) -> None:
        super().__init__(kind)
        self.kind, self.at = kind, at


def read_yaml(text: str) -> Tree:
    """The located tree of a YAML text: PyYAML's values, spans from its marks."""
    mark = 1 if text.startswith("\ufeff") else 0
    mark -= text.startswith("\ufeff\ufeff")  # PyYAML steps over one only
    reading = _Reading(text, mark)
    if mark:
        reading.note("bom", 0, 1, refused_by=NOBODY)
    try:
        reading.read(text[mark:])
    except _LimitError as limit:
        reading.note(limit.kind, limit.at, limit.at)
        reading.root = None
    return reading.tree()


class _Reading:
    """One text on its way to a tree."""

    def __init__(self, text: str, shift: int) -> None:
        self.text, self.shift = text, shift
        self.loader: Any = yaml.SafeLoader if _ODD.match(text) and len(text) < _SLOWLY else _Loader
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.done: dict[int, Node] = {}

    def note(
        self,
        kind: str,
        start: int,
        end: int,
        detail: str = "",
        path: Path = (),
        refused_by: frozenset[Parser] = ONLY_YAML,
    ) -> None:
        """Keep an oddity as data."""
        end = min(end, len(self.text))
        self.problems.append(Problem(kind, Span(min(start, end), end), path, detail, refused_by))

    def tree(self) -> Tree:
        """What was read."""
        if self.root is not None and self.root.kind != "object":
            kind = "root-not-object" if self.root.value is not None else "empty"
            self.note(kind, *self.root.span, self.root.kind, refused_by=NOBODY)
        comments = self.comments()
        if len(comments) >= MAX_VALUES:
            self.note("too-large", *comments[-1][0], f"{MAX_VALUES} comments")
        self.problems.sort(key=lambda problem: problem.span)
        return Tree(self.root, tuple(self.problems), comments)

    # -- limits ------------------------------------------------------------------------------------

    def check_limits(self, text: str) -> None:
        """Raise `_LimitError` before PyYAML recurses through 100,000 levels in C, or multiplies aliases."""
        if "*" not in text and len(text) < MAX_VALUES and sum(1 for _ in _NESTING.finditer(text)) < MAX_DEPTH:
            return
        events = yaml.parse(text, Loader=_Loader)
        try:
            self._count(events)
        except _ERRORS:
            return  # the reading itself will meet it

    def _count(self, events: Any) -> None:
        """Count values and depth with every alias written out."""
        sizes: dict[str, tuple[int, int]] = {}
        stack: list[list[Any]] = []  # anchor, values, levels below
        total = 0
        for event in events:
            at = event.start_mark.index + self.shift
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append([event.anchor, 1, 1])
                if event.anchor:
                    sizes.pop(event.anchor, None)
                if len(stack) > MAX_DEPTH:
                    raise _LimitError("too-deep", at)
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                anchor, size, depth = stack.pop()
            elif isinstance(event, yaml.AliasEvent):
                if any(frame[0] == event.anchor for frame in stack):
                    raise _LimitError("alias-bomb", at)  # it holds itself
                anchor, (size, depth) = None, sizes.get(event.anchor or "", (1, 1))
            elif isinstance(event, yaml.ScalarEvent):
                anchor, size, depth = event.anchor, 1, 1
            else:
                continue
            if anchor:
                sizes[anchor] = (size, depth)
            total = self._add(stack, size, depth, total, at, is_alias=isinstance(event, yaml.AliasEvent))

    @staticmethod
    def _add(stack: list[list[Any]], size: int, depth: int, total: int, at: int, *, is_alias: bool) -> int:
        if stack:
            stack[-1][1] += size
            stack[-1][2] = max(stack[-1][2], depth + 1)
            size = stack[-1][1]
        if len(stack) + depth > MAX_DEPTH:
            raise _LimitError("too-deep", at)
        if size > MAX_VALUES or total >= MAX_VALUES:
            raise _LimitError("alias-bomb" if is_alias else "too-large", at)
        return total + 1

    # -- reading -----------------------------------------------------------------------------------

    def read(self, text: str) -> None:
        """Compose and construct; blank out lines that are not YAML until the rest is."""
        first_fault = len(text)
        for attempt in range(_ATTEMPTS):
            loader = None
            self.check_limits(text)  # also of what is left: an error may have hidden an alias from it
            try:
                loader = self.loader(text)
                node = loader.get_single_node()
                break
            except _ERRORS as error:
                at = _offset(error, text)
                first_fault = min(first_fault, at)
                if attempt == 0:
                    self.note("yaml-error", at + self.shift, at + self.shift + 1, _message(error))
                text = _without_line(text, at, error) if attempt < _ATTEMPTS - 2 else text[:first_fault]
            finally:
                if loader is not None:
                    loader.dispose()
        else:
            return
        if node is None:
            if not self.problems:
                self.note("empty", 0, 0, refused_by=NOBODY)
            return
        self._construct(node)

    def _construct(self, node: Any) -> None:
        """Give every node its value, then its place."""
        self._note_duplicates(node)
        self._tame_numbers(node)
        try:
            values = _construct(node)
        except (*_ERRORS, RecursionError) as error:
            if not self._repair(node):
                self.note("yaml-error", self.shift, self.shift, _message(error))
            try:
                values = _construct(node)
            except (*_ERRORS, RecursionError):
                return
        self.root = self._locate(node, values, ())

    def _note_duplicates(self, root: Any) -> None:
        """Keys written twice in one mapping, before merge keys are resolved."""
        for node, path in _walk(root):
            if not isinstance(node, yaml.MappingNode):
                continue
            seen = set()
            for key, _ in node.value:
                identity = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
                if identity in seen and not key.tag.endswith(":merge"):
                    start, end = self._place(key)
                    self.note("duplicate-key", start, end, key.value, (*path, key.value), NOBODY)
                seen.add(identity)
                seen.discard(None)

    def _tame_numbers(self, root: Any) -> None:
        """Numbers too long to be made: PyYAML's own way to `1:1:1…` takes quadratic time."""
        for node, path in _walk(root):
            if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_DIGITS and node.tag in _NUMBERS:
                node.tag = "tag:yaml.org,2002:str"
                self.note("huge-number", *self._place(node), node.value[:20], path)

    def _repair(self, root: Any) -> bool:
        """Read what has a tag or a form that the safe loader refuses as plain data; say where it is."""
        found = False
        for node, path in _walk(root):
            if isinstance(node, yaml.MappingNode) and any(key.id != "scalar" for key, _ in node.value):
                found = True
                self.note("yaml-error", *self._place(node), "a key that is no scalar", path)
                node.value = [pair for pair in node.value if pair[0].id == "scalar"]
            try:
                if isinstance(node, yaml.ScalarNode):
                    _construct(node)
                elif node.tag in _Loader.yaml_constructors:
                    continue
                else:
                    raise ValueError(f"unknown tag {node.tag}")
            except _ERRORS as error:
                found = True
                node.tag = "tag:yaml.org,2002:" + _DEFAULT_TAGS[node.id]
                start, end = self._place(node)
                self.note("yaml-error", start, end, _message(error), path)
        return found

    # -- places ------------------------------------------------------------------------------------

    def _place(self, node: Any) -> Span:
        """Where a node stands. The marks of block collections and block scalars run on to the next token."""
        start, end = node.start_mark.index + self.shift, node.end_mark.index + self.shift
        return Span(start, start + len(self.text[start:end].rstrip()))

    def _locate(self, node: Any, values: dict[Any, object], path: Path) -> Node:
        """The node with its place and entries; aliases share one node. The depth is bounded by MAX_DEPTH."""
        known = self.done.get(id(node))
        if known is not None:
            return known
        value, (start, end) = values[node], self._place(node)
        members: tuple[Member, ...] = ()
        items: tuple[Node, ...] = ()
        kind = _kind(node, value)
        if kind == "object":
            members = tuple(self._member(key, child, values, path) for key, child in node.value)
            if not node.flow_style and members:
                end = max(
                    (member.node.span.end for member in members if member.node.span.start >= start),
                    default=end,
                )
        elif kind == "array" and isinstance(node, yaml.SequenceNode):
            items = tuple(
                self._locate(child, values, (*path, index)) for index, child in enumerate(node.value)
            )
            if not node.flow_style and items:
                end = max((item.span.end for item in items if item.span.start >= start), default=end)
        end = start + len(self.text[start:end].rstrip())  # an empty last value stands behind the line end
        self.done[id(node)] = located = Node(kind, Span(start, end), value, members, items)
        return located

    def _member(self, key: Any, child: Any, values: dict[Any, object], path: Path) -> Member:
        place, name = self._place(key), values.get(key, key.value)
        text = name if isinstance(name, str) else self.text[place.start : place.end]
        if not isinstance(name, str):
            self.note("non-string-key", *place, type(name).__name__, (*path, text), NOBODY)
        return Member(text, place, self._locate(child, values, (*path, text)))

    def comments(self) -> tuple[tuple[Span, str], ...]:
        """Comments are not in PyYAML's nodes: every `#` after white space that stands in no scalar."""
        scalars = sorted(_scalar_spans(self.root)) if self.root else []
        starts = [span.start for span in scalars]
        found: list[tuple[Span, str]] = []
        for match in _COMMENT.finditer(self.text):
            if len(found) >= MAX_VALUES:
                break
            index = bisect_right(starts, match.start()) - 1
            if index < 0 or scalars[index].end <= match.start():
                found.append((Span(*match.span()), match.group()))
        return tuple(found)


def _construct(root: Any) -> dict[Any, object]:
    """The value of each node: what `construct_document` does, but keeping its table of them."""
    loader = _Loader("")
    try:
        loader.construct_object(root)
        while loader.state_generators:
            generators, loader.state_generators = loader.state_generators, []
            for generator in generators:
                for _ in generator:
                    pass
        values: dict[Any, object] = loader.constructed_objects
        return values
    finally:
        loader.dispose()


def _walk(root: Any) -> list[tuple[Any, Path]]:
    """Every node once, with a path to it."""
    found: list[tuple[Any, Path]] = []
    seen: set[int] = set()
    todo: list[tuple[Any, Path]] = [(root, ())]
    while todo:
        node, path = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found.append((node, path))
        if isinstance(node, yaml.MappingNode):
            for key, child in node.value:
                step = key.value if isinstance(key, yaml.ScalarNode) else "?"
                todo += ((child, (*path, step)), (key, path))
        elif isinstance(node, yaml.SequenceNode):
            todo += ((child, (*path, index)) for index, child in enumerate(node.value))
    return found


def _kind(node: Any, value: object) -> NodeKind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case dict() if isinstance(node, yaml.MappingNode):
            return "object"
        case list():
            return "array"
    return "string"  # also dates, sets and bytes


def _scalar_spans(root: Node) -> list[Span]:
    spans, todo, seen = [], [root], set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.members or node.items:
            spans += [member.key_span for member in node.members]
            todo += [member.node for member in node.members]
            todo += node.items
        elif node.kind not in ("object", "array"):
            spans.append(node.span)
    return spans


def _offset(error: BaseException, text: str) -> int:
    """Where the error is; a character that YAML forbids has no mark, only a position."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = mark.index if mark is not None else getattr(error, "position", getattr(error, "start", 0))
    return max(0, min(int(at), len(text)))


def _message(error: BaseException) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]


def _without_line(text: str, at: int, error: BaseException) -> str:
    """The text with the line of the error blanked out, so that all places stay."""
    if "another document" in _message(error):
        return text[:at]
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    while start and not text[start:at].strip() and not _line(text, start).strip():
        at = start - 1  # the error is found at the end, or on an empty line: its cause stands above
        start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    length = len(_line(text, start))
    return text[:start] + " " * length + text[start + length :]


def _line(text: str, start: int) -> str:
    match = _LINE.match(text, start)
    return match.group() if match else ""
