"""YAML text to a located tree: limits before PyYAML, its nodes, repairs, comments and problems."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from dsconfig.document.document import line_start
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
    Problem,
    Span,
    Tree,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# YAML text becomes a located tree; lines that are not YAML are left out, and noted.

_ODD: Final = re.compile("\ufeff?[^\t\ufeff]*[\t\ufeff]")
"""`yaml.safe_load` refuses tabs that libyaml takes, and takes inner byte order marks; it reads such text."""
_SLOWLY: Final = 100_000
"""Longest text that PyYAML's Python code reads: it takes ten times as long."""
_LINE: Final = re.compile(r"[^\r\n]*")
_ATTEMPTS: Final = 8


def read_yaml(text: str) -> Tree:
    """The located tree of a YAML text: PyYAML's values, spans from its marks."""
    mark = 1 if text.startswith("\ufeff") else 0
    mark -= text.startswith("\ufeff\ufeff")  # PyYAML steps over one only
    notes = Notes(text, mark)
    if mark:
        notes.note("bom", Span(0, 1), refused_by=NOBODY)
    try:
        root = _root(_manifest(text[mark:]), notes)
    except LimitError as limit:
        at = limit.at + mark
        notes.note(limit.kind, Span(at, at), limit.detail)
        root = None
    return _tree(root, notes)


def _manifest(text: str) -> str:
    """Of several manifests of Kubernetes the one that speaks of DeepSpeed, all else blanked out."""
    if "\n---" not in text or not _MANIFEST.search(text):
        return text
    ends = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    parts = [Span(*each) for each in zip(starts, [*(at for at, _ in ends), len(text)], strict=True)]
    told = [part for part in parts if _MANIFEST.search(text, *part)]
    chosen = next((part for part in told if "deepspeed" in text[slice(*part)].lower()), told[0])
    before, after = text[: chosen.start], text[chosen.end :]
    return _NO_END.sub(" ", before) + text[slice(*chosen)] + _NO_END.sub(" ", after)


_MANIFEST: Final = re.compile(r"^apiVersion:", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^---(?:[ \t][^\r\n]*)?$", re.MULTILINE)
_NO_END: Final = re.compile(r"[^\r\n]")


def _tree(root: Node | None, notes: Notes) -> Tree:
    """What was read."""
    if root is not None and root.kind != "object":
        kind = "root-not-object" if root.value is not None else "empty"
        notes.note(kind, root.span, root.kind, NOBODY)
    found = comments(notes.text, root)
    if len(found) >= MAX_VALUES:
        notes.note("too-large", found[-1][0], f"more than {MAX_VALUES} comments")
    return Tree(root, tuple(sorted(notes.problems, key=lambda problem: problem.span)), found)


def _root(text: str, notes: Notes) -> Node | None:
    """The root with its values and places."""
    node = _compose(text, notes)
    if node is None:
        if not notes.problems:
            notes.note("empty", Span(0, 0), refused_by=NOBODY)
        return None
    values = values_of(node, notes)
    return None if values is None else Locator(notes, values).node(node)


def _compose(text: str, notes: Notes) -> yaml.Node | None:
    """PyYAML's root node; lines that are not YAML are blanked out until the rest is."""
    loader_class = yaml.SafeLoader if _ODD.match(notes.text) and len(notes.text) < _SLOWLY else LOADER
    first_fault = len(text)
    for attempt in range(_ATTEMPTS):
        loader = None
        check_limits(text)  # also of what is left: an error may have hidden an alias from it
        try:
            loader = loader_class(text)
            return loader.get_single_node()
        except ERRORS as error:
            at = offset(error, text)
            first_fault = min(first_fault, at)
            if attempt == 0:
                notes.note("yaml-error", Span(at + notes.shift, at + notes.shift + 1), message(error))
            text = _without_line(text, at, error) if attempt < _ATTEMPTS - 2 else text[:first_fault]
        finally:
            if loader is not None:
                loader.dispose()
    return None


def _without_line(text: str, at: int, error: BaseException) -> str:
    """The text with the line of the error blanked out, so that all places stay."""
    if "another document" in message(error):
        return text[:at]
    start = line_start(text, at)
    while start and not text[start:at].strip() and not _line(text, start).strip():
        at = start - 1  # the error is found at the end, or on an empty line: its cause stands above
        start = line_start(text, at)
    length = len(_line(text, start))
    return text[:start] + " " * length + text[start + length :]


def _line(text: str, start: int) -> str:
    match = _LINE.match(text, start)
    return match.group() if match else ""


# From PyYAML's nodes and their values to the located tree.


class Locator:
    """Places one text's nodes; aliases share a node. The depth of recursion is bounded by MAX_DEPTH."""

    def __init__(self, notes: Notes, values: dict[yaml.Node, object]) -> None:
        self.notes, self.values = notes, values
        self.done: dict[int, Node] = {}

    def node(self, node: yaml.Node, path: KeyPath = ()) -> Node:
        """The node with its place and entries."""
        known = self.done.get(id(node))
        if known is not None:
            return known
        value, (start, end) = self.values[node], self.notes.place(node)
        members: tuple[Member, ...] = ()
        items: tuple[Node, ...] = ()
        kind = _kind(node, value)
        if kind == "object":
            members = tuple(self.member(key, child, path) for key, child in node.value)
            _text_keys(value, members)
        elif kind == "array" and isinstance(node, yaml.SequenceNode):
            items = tuple(self.node(child, (*path, index)) for index, child in enumerate(node.value))
        if (members or items) and isinstance(node, yaml.CollectionNode) and not node.flow_style:
            end = _last_end((*(member.node for member in members), *items), start, end)
        end = start + len(self.notes.text[start:end].rstrip())  # an empty last value stands behind the line
        self.done[id(node)] = located = Node(kind, Span(start, end), value, members, items)
        return located

    def member(self, key: yaml.Node, child: yaml.Node, path: KeyPath) -> Member:
        """An entry of a mapping. A key that is not a string counts as its text."""
        place, name = self.notes.place(key), self.values.get(key, key.value)
        text = name if isinstance(name, str) else self.notes.text[place.start : place.end]
        if not isinstance(name, str):
            self.notes.note("non-string-key", place, type(name).__name__, NOBODY, (*path, text))
        return Member(text, place, self.node(child, (*path, text)))


def _text_keys(value: object, members: tuple[Member, ...]) -> None:
    """Turn the keys of a mapping into text, in place: whoever holds the mapping sees it so."""
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        named = {member.key: member.node.value for member in members}
        value.clear()
        value.update(named)


def _last_end(nodes: Iterable[Node], start: int, end: int) -> int:
    """Where the last of them ends; aliases stand elsewhere, before the start."""
    return max((node.span.end for node in nodes if node.span.start >= start), default=end)


def _kind(node: yaml.Node, value: object) -> NodeKind:
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


# A YAML document made fit to be constructed: what the safe loader refuses becomes plain data, and a note.

_PLAIN_TAGS: Final = {yaml.ScalarNode: "str", yaml.SequenceNode: "seq", yaml.MappingNode: "map"}
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def values_of(root: yaml.Node, notes: Notes) -> dict[yaml.Node, object] | None:
    """The value of each node, repaired where that is needed. None where nothing helps."""
    _note_duplicates(root, notes)
    _tame_numbers(root, notes)
    try:
        return construct(root)
    except (*ERRORS, RecursionError) as error:
        if not _repair(root, notes):
            notes.note("yaml-error", Span(notes.shift, notes.shift), message(error))
    try:
        return construct(root)
    except (*ERRORS, RecursionError):
        return None


def _note_duplicates(root: yaml.Node, notes: Notes) -> None:
    """Keys written twice in one mapping, before merge keys are resolved."""
    for node, path in walk(root):
        if not isinstance(node, yaml.MappingNode):
            continue
        seen = set()
        for key, _ in node.value:
            identity = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if identity in seen and not key.tag.endswith(":merge"):
                notes.note("duplicate-key", notes.place(key), key.value, NOBODY, (*path, key.value))
            seen.add(identity)
            seen.discard(None)


def _tame_numbers(root: yaml.Node, notes: Notes) -> None:
    """Numbers too long to be made: PyYAML's own way to `1:1:1…` takes quadratic time."""
    for node, path in walk(root):
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_DIGITS and node.tag in _NUMBERS:
            node.tag = "tag:yaml.org,2002:str"
            notes.note("huge-number", notes.place(node), node.value[:20], path=path)


def _repair(root: yaml.Node, notes: Notes) -> bool:
    """Read what has a tag or a form that the safe loader refuses as plain data. True: there was some."""
    found = False
    nodes = list(walk(root))
    merges = {id(key) for node, _ in nodes for key in _merges(node)}
    for node, path in nodes:
        plain = None if id(node) in merges else _with_plain_tag(node)
        for refusal in (_without_odd_keys(node), plain):
            if refusal is not None:
                found = True
                notes.note("yaml-error", notes.place(node), refusal, path=path)
    return found


def _merges(node: yaml.Node) -> Iterator[yaml.Node]:
    """The keys of a mapping that merge others into it, which is done as it is constructed."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        several = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if key.tag.endswith(":merge") and all(isinstance(each, yaml.MappingNode) for each in several):
            yield key


def _without_odd_keys(node: yaml.Node) -> str | None:
    """Take out the entries of a mapping whose keys are lists or mappings; what is wrong with them."""
    if not isinstance(node, yaml.MappingNode):
        return None
    kept = [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)]
    if len(kept) == len(node.value):
        return None
    node.value = kept
    return "a key that is not a scalar"


def _with_plain_tag(node: yaml.Node) -> str | None:
    """Give a node that the safe loader refuses the plain tag of its kind; why it is refused."""
    refusal = _refusal(node)
    if refusal is not None:
        node.tag = f"tag:yaml.org,2002:{_PLAIN_TAGS[type(node)]}"
    return refusal


def _refusal(node: yaml.Node) -> str | None:
    """Why the safe loader refuses the node itself, if it does."""
    if not isinstance(node, yaml.ScalarNode):
        return None if node.tag in LOADER.yaml_constructors else f"unknown tag {node.tag}".splitlines()[0]
    try:
        construct(node)
    except ERRORS as error:
        return message(error)
    return None


# What is odd in a YAML text, and where PyYAML's nodes stand in it.


class Notes:
    """The oddities of one text. `shift`: length of the byte order mark that PyYAML is not given."""

    __slots__ = ("problems", "shift", "text")

    def __init__(self, text: str, shift: int) -> None:
        self.text, self.shift = text, shift
        self.problems: list[Problem] = []

    def note(
        self,
        kind: str,
        span: Span,
        detail: str = "",
        refused_by: frozenset[Parser] = ONLY_YAML,
        path: KeyPath = (),
    ) -> None:
        """Keep an oddity as data."""
        end = min(span.end, len(self.text))
        self.problems.append(Problem(kind, Span(min(span.start, end), end), path, detail, refused_by))

    def place(self, node: yaml.Node) -> Span:
        """Where a node stands. The marks of block collections and block scalars run on to the next token."""
        start, end = node.start_mark.index + self.shift, node.end_mark.index + self.shift
        return Span(start, start + len(self.text[start:end].rstrip()))


# Limits on a YAML text, held before PyYAML recurses through 100,000 levels in C, or multiplies aliases.

_NESTING: Final = re.compile(r"[\[{:?-]")


class LimitError(Exception):
    """More than is read."""

    def __init__(self, kind: str, at: int) -> None:
        super().__init__(kind)
        self.kind, self.at = kind, at
        details = {"too-deep": str(MAX_DEPTH), "too-large": f"more than {MAX_VALUES} values"}
        self.detail = details.get(kind, "")


def check_limits(text: str) -> None:
    """Raise `LimitError` where the text holds too many values, or is nested too deep."""
    if "*" not in text and len(text) < MAX_VALUES and sum(1 for _ in _NESTING.finditer(text)) < MAX_DEPTH:
        return
    count = _Count()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            count.add(event)
    except ERRORS as error:
        if "nesting depth" in message(error):  # LibYAML's own limit, from PyYAML 6.0.4 on: it reads ahead
            raise LimitError("too-deep", offset(error, text)) from None
        # the reading itself will meet any other


def _limit(kind: str, event: yaml.Event) -> LimitError:
    return LimitError(kind, event.start_mark.index if event.start_mark else 0)


class _Size(NamedTuple):
    """How many values a node holds, itself included, and how deep it is."""

    values: int
    depth: int


class _Open:
    """A collection that is still open."""

    __slots__ = ("anchor", "depth", "values")

    def __init__(self, anchor: str | None) -> None:
        self.anchor, self.values, self.depth = anchor, 1, 1


class _Count:
    """Counts values and depth with every alias written out."""

    def __init__(self) -> None:
        self.anchored: dict[str, _Size] = {}
        self.stack: list[_Open] = []
        self.events = 0

    def add(self, event: yaml.Event) -> None:
        """Take the next of PyYAML's events."""
        if isinstance(event, yaml.CollectionStartEvent):
            self.open(event)
            return
        anchor, size = None, _Size(1, 1)
        if isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            anchor, size = done.anchor, _Size(done.values, done.depth)
        elif isinstance(event, yaml.AliasEvent):
            size = self.aliased(event)
        elif isinstance(event, yaml.ScalarEvent):
            anchor = event.anchor
        else:
            return
        if anchor:
            self.anchored[anchor] = size
        self.attach(size, event)

    def open(self, event: yaml.CollectionStartEvent) -> None:
        """Go down into a collection."""
        self.stack.append(_Open(event.anchor))
        if event.anchor:
            self.anchored.pop(event.anchor, None)
        if len(self.stack) > MAX_DEPTH:
            raise _limit("too-deep", event)

    def aliased(self, event: yaml.AliasEvent) -> _Size:
        """The size of what the alias stands for."""
        if any(outer.anchor == event.anchor for outer in self.stack):
            raise _limit("alias-bomb", event)  # it holds itself
        return self.anchored.get(event.anchor or "", _Size(1, 1))

    def attach(self, size: _Size, event: yaml.Event) -> None:
        """Add a finished node to the collection around it."""
        values = size.values
        if self.stack:
            outer = self.stack[-1]
            outer.values += size.values
            outer.depth = max(outer.depth, size.depth + 1)
            values = outer.values
        if len(self.stack) + size.depth > MAX_DEPTH:
            raise _limit("too-deep", event)
        if values > MAX_VALUES or self.events >= MAX_VALUES:
            kind = "alias-bomb" if isinstance(event, yaml.AliasEvent) else "too-large"
            raise _limit(kind, event)
        self.events += 1


# Comments of a YAML text, which PyYAML's nodes do not keep.

_COMMENT: Final = re.compile(r"(?:^|(?<=[\s]))#[^\r\n]*", re.MULTILINE)


def comments(text: str, root: Node | None) -> tuple[tuple[Span, str], ...]:
    """Every `#` after white space that stands in no scalar, to the end of its line."""
    scalars = sorted(_scalar_spans(root)) if root else []
    starts = [span.start for span in scalars]
    found: list[tuple[Span, str]] = []
    at = 0
    while (match := _COMMENT.search(text, at)) and len(found) < MAX_VALUES:
        index = bisect_right(starts, match.start()) - 1
        if index >= 0 and scalars[index].end > match.start():  # behind it there may be one on the same line
            at = scalars[index].end
            continue
        found.append((Span(*match.span()), match.group()))
        at = match.end()
    return tuple(found)


def _scalar_spans(root: Node) -> list[Span]:
    spans: list[Span] = []
    todo, seen = [root], set()
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


# PyYAML as we use it: its loader, what it raises, the values of its nodes.

LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ERRORS: Final = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises: besides its own, whatever a constructor trips over, as in `!!int ""`."""


def message(error: BaseException) -> str:
    """What went wrong, on one line."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]


def offset(error: BaseException, text: str) -> int:
    """Where the error is; a character that YAML forbids has no mark, only a position.

    LibYAML counts that one in bytes of UTF-8 (PyYAML `yaml/_yaml.pyx:CParser._parser_error`).
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = int(mark.index if mark is not None else getattr(error, "position", getattr(error, "start", 0)))
    if isinstance(error, yaml.reader.ReaderError) and LOADER is not yaml.SafeLoader:
        at = len(text.encode(errors="surrogatepass")[:at].decode(errors="ignore"))
    return max(0, min(at, len(text)))


def construct(root: yaml.Node) -> dict[yaml.Node, object]:
    """The value of each node: what `construct_document` does, but keeping its table of them."""
    loader = LOADER("")
    try:
        loader.construct_object(root)
        while loader.state_generators:
            generators, loader.state_generators = loader.state_generators, []
            for generator in generators:
                for _ in generator:
                    pass
        values: dict[yaml.Node, object] = loader.constructed_objects
        return values
    finally:
        loader.dispose()


def walk(root: yaml.Node) -> list[tuple[yaml.Node, KeyPath]]:
    """Every node once, with a path to it."""
    found: list[tuple[yaml.Node, KeyPath]] = []
    seen: set[int] = set()
    todo: list[tuple[yaml.Node, KeyPath]] = [(root, ())]
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
