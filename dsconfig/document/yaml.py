"""Parse YAML into a tree with locations, using PyYAML's nodes, limits, repairs, comments and problems."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from dsconfig.document.document import line_start
from dsconfig.document.located_tree import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    NO_PARSER,
    ONLY_YAML,
    LocatedTree,
    NodeKind,
    ObjectMember,
    Parser,
    TextProblem,
    TextSpan,
    TreeNode,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# Lines that are not YAML are left out and recorded as problems.

_ODD: Final = re.compile("\ufeff?[^\t\ufeff]*[\t\ufeff]")
"""Matches text that only PyYAML's Python loader reads like `yaml.safe_load`: libyaml accepts tabs that the
Python loader rejects, and rejects inner byte order marks that the Python loader accepts.
"""
_MAX_SLOW_TEXT: Final = 100_000
"""Maximum length of a text for PyYAML's Python loader, which is ten times slower."""
_LINE: Final = re.compile(r"[^\r\n]*")
_ATTEMPTS: Final = 8


def read_yaml(text: str) -> LocatedTree:
    """Parse YAML text into a tree with PyYAML's values and the spans of its marks."""
    mark = 1 if text.startswith("\ufeff") else 0
    mark -= text.startswith("\ufeff\ufeff")  # PyYAML skips only one
    notes = ProblemLog(text, mark)
    if mark:
        notes.record_problem("bom", TextSpan(0, 1), rejected_by=NO_PARSER)
    try:
        root = _parse_root(_deepspeed_manifest(text[mark:]), notes)
    except YamlLimitError as limit:
        at = limit.at + mark
        notes.record_problem(limit.kind, TextSpan(at, at), limit.detail)
        root = None
    return _build_tree(root, notes)


def _deepspeed_manifest(text: str) -> str:
    """Replace everything but the Kubernetes manifest that mentions DeepSpeed with blanks."""
    if "\n---" not in text or not _MANIFEST.search(text):
        return text
    ends = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    parts = [TextSpan(*each) for each in zip(starts, [*(at for at, _ in ends), len(text)], strict=True)]
    manifests = [part for part in parts if _MANIFEST.search(text, *part)]
    chosen = next((part for part in manifests if "deepspeed" in text[slice(*part)].lower()), manifests[0])
    before, after = text[: chosen.start], text[chosen.end :]
    return _NOT_LINE_END.sub(" ", before) + text[slice(*chosen)] + _NOT_LINE_END.sub(" ", after)


_MANIFEST: Final = re.compile(r"^apiVersion:", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^---(?:[ \t][^\r\n]*)?$", re.MULTILINE)
_NOT_LINE_END: Final = re.compile(r"[^\r\n]")


def _build_tree(root: TreeNode | None, notes: ProblemLog) -> LocatedTree:
    """Build the tree from the root node and the problems."""
    if root is not None and root.kind != "object":
        kind = "root-not-object" if root.value is not None else "empty"
        notes.record_problem(kind, root.span, root.kind, NO_PARSER)
    all_comments = find_comments(notes.text, root)
    if len(all_comments) >= MAX_VALUES:
        notes.record_problem("too-large", all_comments[-1][0], f"more than {MAX_VALUES} comments")
    return LocatedTree(root, tuple(sorted(notes.problems, key=lambda problem: problem.span)), all_comments)


def _parse_root(text: str, notes: ProblemLog) -> TreeNode | None:
    """Parse the YAML text into the root node."""
    node = _compose_with_repairs(text, notes)
    if node is None:
        if not notes.problems:
            notes.record_problem("empty", TextSpan(0, 0), rejected_by=NO_PARSER)
        return None
    values = construct_values(node, notes)
    return None if values is None else NodeLocator(notes, values).locate_node(node)


def _compose_with_repairs(text: str, notes: ProblemLog) -> yaml.Node | None:
    """Return PyYAML's root node, blanking out invalid lines until the rest can be parsed."""
    loader_class = yaml.SafeLoader if _ODD.match(notes.text) and len(notes.text) < _MAX_SLOW_TEXT else LOADER
    first_fault = len(text)
    for attempt in range(_ATTEMPTS):
        loader = None
        check_limits(text)  # again after each removal: an error may have hidden an alias
        try:
            loader = loader_class(text)
            return loader.get_single_node()
        except ERRORS as error:
            at = error_offset(error, text)
            first_fault = min(first_fault, at)
            if attempt == 0:
                notes.record_problem(
                    "yaml-error", TextSpan(at + notes.shift, at + notes.shift + 1), error_message(error)
                )
            text = _blank_out_line(text, at, error) if attempt < _ATTEMPTS - 2 else text[:first_fault]
        finally:
            if loader is not None:
                loader.dispose()
    return None


def _blank_out_line(text: str, at: int, error: BaseException) -> str:
    """Replace the line of an error with blanks, so that offsets in the text do not change."""
    if "another document" in error_message(error):
        return text[:at]
    start = line_start(text, at)
    while start and not text[start:at].strip() and not _line_from(text, start).strip():
        at = start - 1  # the error is reported at the end or on an empty line: its cause is above
        start = line_start(text, at)
    length = len(_line_from(text, start))
    return text[:start] + " " * length + text[start + length :]


def _line_from(text: str, start: int) -> str:
    match = _LINE.match(text, start)
    return match.group() if match else ""


class NodeLocator:
    """Converts PyYAML's nodes to nodes with spans; aliases share a node."""

    def __init__(self, notes: ProblemLog, values: dict[yaml.Node, object]) -> None:
        self.notes, self.values = notes, values
        self.done: dict[int, TreeNode] = {}

    def locate_node(self, node: yaml.Node, path: KeyPath = ()) -> TreeNode:
        """Convert a PyYAML node, including its entries, to a node with spans."""
        located_before = self.done.get(id(node))
        if located_before is not None:
            return located_before
        value, (start, end) = self.values[node], self.notes.span_of(node)
        members: tuple[ObjectMember, ...] = ()
        items: tuple[TreeNode, ...] = ()
        kind = _node_kind(node, value)
        if kind == "object":
            members = tuple(self.locate_member(key, child, path) for key, child in node.value)
            _keys_to_text(value, members)
        elif kind == "array" and isinstance(node, yaml.SequenceNode):
            items = tuple(self.locate_node(child, (*path, index)) for index, child in enumerate(node.value))
        if (members or items) and isinstance(node, yaml.CollectionNode) and not node.flow_style:
            end = _end_of_last_node((*(member.node for member in members), *items), start, end)
        end = start + len(self.notes.text[start:end].rstrip())  # an empty last value stands behind the line
        self.done[id(node)] = located = TreeNode(kind, TextSpan(start, end), value, members, items)
        return located

    def locate_member(self, key: yaml.Node, child: yaml.Node, path: KeyPath) -> ObjectMember:
        """Convert an entry of a mapping to a member, using the text of a key that is not a string."""
        span, name = self.notes.span_of(key), self.values.get(key, key.value)
        text = name if isinstance(name, str) else self.notes.text[span.start : span.end]
        if not isinstance(name, str):
            self.notes.record_problem("non-string-key", span, type(name).__name__, NO_PARSER, (*path, text))
        return ObjectMember(text, span, self.locate_node(child, (*path, text)))


def _keys_to_text(value: object, members: tuple[ObjectMember, ...]) -> None:
    """Convert the keys of a mapping to text in place, so that all aliases of the mapping change too."""
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        named = {member.key: member.node.value for member in members}
        value.clear()
        value.update(named)


def _end_of_last_node(nodes: Iterable[TreeNode], start: int, end: int) -> int:
    """Return the end of the last node, ignoring aliases of nodes that are defined before `start`."""
    return max((node.span.end for node in nodes if node.span.start >= start), default=end)


def _node_kind(node: yaml.Node, value: object) -> NodeKind:
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


# Repairs: what the safe loader rejects becomes plain data and a problem.

_PLAIN_TAGS: Final = {yaml.ScalarNode: "str", yaml.SequenceNode: "seq", yaml.MappingNode: "map"}
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def construct_values(root: yaml.Node, notes: ProblemLog) -> dict[yaml.Node, object] | None:
    """Return the value of each node, repairing the nodes if necessary, or None on failure."""
    _record_duplicate_keys(root, notes)
    _stringify_huge_numbers(root, notes)
    try:
        return construct_node_values(root)
    except (*ERRORS, RecursionError) as error:
        if not _repair_tags(root, notes):
            notes.record_problem("yaml-error", TextSpan(notes.shift, notes.shift), error_message(error))
    try:
        return construct_node_values(root)
    except (*ERRORS, RecursionError):
        return None


def _record_duplicate_keys(root: yaml.Node, notes: ProblemLog) -> None:
    """Record keys that occur twice in a mapping, before merge keys are resolved."""
    for node, path in nodes_with_paths(root):
        if not isinstance(node, yaml.MappingNode):
            continue
        identities = set()
        for key, _ in node.value:
            identity = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if identity in identities and not key.tag.endswith(":merge"):
                notes.record_problem(
                    "duplicate-key", notes.span_of(key), key.value, NO_PARSER, (*path, key.value)
                )
            identities.add(identity)
            identities.discard(None)


def _stringify_huge_numbers(root: yaml.Node, notes: ProblemLog) -> None:
    """Convert overlong numbers to strings, because PyYAML parses `1:1:1…` in quadratic time."""
    for node, path in nodes_with_paths(root):
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_DIGITS and node.tag in _NUMBERS:
            node.tag = "tag:yaml.org,2002:str"
            notes.record_problem("huge-number", notes.span_of(node), node.value[:20], path=path)


def _repair_tags(root: yaml.Node, notes: ProblemLog) -> bool:
    """Replace tags that the safe loader rejects by plain ones; return whether there were any."""
    has_repairs = False
    nodes = list(nodes_with_paths(root))
    merges = {id(key) for node, _ in nodes for key in _merge_keys(node)}
    for node, path in nodes:
        tag_problem = None if id(node) in merges else _use_plain_tag(node)
        for reason in (_remove_unhashable_keys(node), tag_problem):
            if reason is not None:
                has_repairs = True
                notes.record_problem("yaml-error", notes.span_of(node), reason, path=path)
    return has_repairs


def _merge_keys(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the merge keys of a mapping, which construction resolves."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        several = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if key.tag.endswith(":merge") and all(isinstance(each, yaml.MappingNode) for each in several):
            yield key


def _remove_unhashable_keys(node: yaml.Node) -> str | None:
    """Remove entries whose keys are lists or mappings, and describe the problem if there are any."""
    if not isinstance(node, yaml.MappingNode):
        return None
    kept = [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)]
    if len(kept) == len(node.value):
        return None
    node.value = kept
    return "a key that is not a scalar"


def _use_plain_tag(node: yaml.Node) -> str | None:
    """Replace a tag that the safe loader rejects with the plain one; return the reason, or None."""
    reason = _why_safe_loader_rejects(node)
    if reason is not None:
        node.tag = f"tag:yaml.org,2002:{_PLAIN_TAGS[type(node)]}"
    return reason


def _why_safe_loader_rejects(node: yaml.Node) -> str | None:
    """Return why the safe loader rejects a node, or None if it does not."""
    if not isinstance(node, yaml.ScalarNode):
        return None if node.tag in LOADER.yaml_constructors else f"unknown tag {node.tag}".splitlines()[0]
    try:
        construct_node_values(node)
    except ERRORS as error:
        return error_message(error)
    return None


# The problems of a YAML text, and the spans of PyYAML's nodes.


class ProblemLog:
    """The problems found in a text; `shift` is the length of the byte order mark, which PyYAML skips."""

    __slots__ = ("problems", "shift", "text")

    def __init__(self, text: str, shift: int) -> None:
        self.text, self.shift = text, shift
        self.problems: list[TextProblem] = []

    def record_problem(
        self,
        kind: str,
        span: TextSpan,
        detail: str = "",
        rejected_by: frozenset[Parser] = ONLY_YAML,
        path: KeyPath = (),
    ) -> None:
        """Record a problem in the YAML text."""
        end = min(span.end, len(self.text))
        self.problems.append(
            TextProblem(kind, TextSpan(min(span.start, end), end), path, detail, rejected_by)
        )

    def span_of(self, node: yaml.Node) -> TextSpan:
        """Return the span of a PyYAML node, whose own end mark may be at the next token in block style."""
        start, end = node.start_mark.index + self.shift, node.end_mark.index + self.shift
        return TextSpan(start, start + len(self.text[start:end].rstrip()))


# Limits, checked before PyYAML recurses through 100,000 levels in C, or expands aliases.

_NESTING: Final = re.compile(r"[\[{:?-]")


class YamlLimitError(Exception):
    """The YAML text exceeds a limit."""

    def __init__(self, kind: str, at: int) -> None:
        super().__init__(kind)
        self.kind, self.at = kind, at
        details = {"too-deep": f"{MAX_DEPTH} levels", "too-large": f"more than {MAX_VALUES} values"}
        self.detail = details.get(kind, "")


def check_limits(text: str) -> None:
    """Raise `YamlLimitError` if the text has too many values or is nested too deeply."""
    if "*" not in text and len(text) < MAX_VALUES and sum(1 for _ in _NESTING.finditer(text)) < MAX_DEPTH:
        return
    count = _SizeCounter()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            count.count_event(event)
    except ERRORS as error:
        if "nesting depth" in error_message(error):  # LibYAML's own limit, since PyYAML 6.0.4; it reads ahead
            raise YamlLimitError("too-deep", error_offset(error, text)) from None
        # `_compose_with_repairs` will report any other error.


def _limit_error(kind: str, event: yaml.Event) -> YamlLimitError:
    return YamlLimitError(kind, event.start_mark.index if event.start_mark else 0)


class _NodeSize(NamedTuple):
    """The number of values in a node, including itself, and its depth."""

    values: int
    depth: int


class _OpenCollection:
    """A list or mapping whose end has not been reached."""

    __slots__ = ("anchor", "depth", "values")

    def __init__(self, anchor: str | None) -> None:
        self.anchor, self.values, self.depth = anchor, 1, 1


class _SizeCounter:
    """Counts the values and the depth of a YAML text, with every alias expanded."""

    def __init__(self) -> None:
        self.anchored: dict[str, _NodeSize] = {}
        self.stack: list[_OpenCollection] = []
        self.events = 0

    def count_event(self, event: yaml.Event) -> None:
        """Process the next event of PyYAML's parser."""
        if isinstance(event, yaml.CollectionStartEvent):
            self.open_collection(event)
            return
        anchor, size = None, _NodeSize(1, 1)
        if isinstance(event, yaml.CollectionEndEvent):
            closed = self.stack.pop()
            anchor, size = closed.anchor, _NodeSize(closed.values, closed.depth)
        elif isinstance(event, yaml.AliasEvent):
            size = self.size_of_alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            anchor = event.anchor
        else:
            return
        if anchor:
            self.anchored[anchor] = size
        self.attach_node(size, event)

    def open_collection(self, event: yaml.CollectionStartEvent) -> None:
        """Begin a list or mapping."""
        self.stack.append(_OpenCollection(event.anchor))
        if event.anchor:
            self.anchored.pop(event.anchor, None)
        if len(self.stack) > MAX_DEPTH:
            raise _limit_error("too-deep", event)

    def size_of_alias(self, event: yaml.AliasEvent) -> _NodeSize:
        """Return the size of the node that an alias refers to."""
        if any(outer.anchor == event.anchor for outer in self.stack):
            raise _limit_error("alias-bomb", event)  # the alias is circular
        return self.anchored.get(event.anchor or "", _NodeSize(1, 1))

    def attach_node(self, size: _NodeSize, event: yaml.Event) -> None:
        """Add the size of a completed node to its parent."""
        values = size.values
        if self.stack:
            outer = self.stack[-1]
            outer.values += size.values
            outer.depth = max(outer.depth, size.depth + 1)
            values = outer.values
        if len(self.stack) + size.depth > MAX_DEPTH:
            raise _limit_error("too-deep", event)
        if values > MAX_VALUES or self.events >= MAX_VALUES:
            kind = "alias-bomb" if isinstance(event, yaml.AliasEvent) else "too-large"
            raise _limit_error(kind, event)
        self.events += 1


# Comments, which PyYAML's nodes do not keep.

_COMMENT: Final = re.compile(r"(?:^|(?<=[\s]))#[^\r\n]*", re.MULTILINE)


def find_comments(text: str, root: TreeNode | None) -> tuple[tuple[TextSpan, str], ...]:
    """Return all comments with their spans: `#` at the start or after white space, outside of scalars."""
    scalars = sorted(_scalar_spans(root)) if root else []
    starts = [span.start for span in scalars]
    spans_and_texts: list[tuple[TextSpan, str]] = []
    at = 0
    while (match := _COMMENT.search(text, at)) and len(spans_and_texts) < MAX_VALUES:
        index = bisect_right(starts, match.start()) - 1
        # A comment may follow the scalar on the same line.
        if index >= 0 and scalars[index].end > match.start():
            at = scalars[index].end
            continue
        spans_and_texts.append((TextSpan(*match.span()), match.group()))
        at = match.end()
    return tuple(spans_and_texts)


def _scalar_spans(root: TreeNode) -> list[TextSpan]:
    spans: list[TextSpan] = []
    todo, visited = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node.members or node.items:
            spans += [member.key_span for member in node.members]
            todo += [member.node for member in node.members]
            todo += node.items
        elif node.kind not in ("object", "array"):
            spans.append(node.span)
    return spans


# PyYAML: its loader, its exceptions, and the values of its nodes.

LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ERRORS: Final = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""Exceptions that PyYAML raises: its own, and those of constructors, for example for `!!int ""`."""


def error_message(error: BaseException) -> str:
    """Return the message of a YAML error as one line."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]


def error_offset(error: BaseException, text: str) -> int:
    """Return the offset of a YAML error; an error about a forbidden character has a position instead of a mark.

    LibYAML counts the position in UTF-8 bytes (PyYAML `yaml/_yaml.pyx:CParser._parser_error`).
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = int(mark.index if mark is not None else getattr(error, "position", getattr(error, "start", 0)))
    if isinstance(error, yaml.reader.ReaderError) and LOADER is not yaml.SafeLoader:
        at = len(text.encode(errors="surrogatepass")[:at].decode(errors="ignore"))
    return max(0, min(at, len(text)))


def construct_node_values(root: yaml.Node) -> dict[yaml.Node, object]:
    """Return the node values that PyYAML's `construct_document` computes and then discards."""
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


def nodes_with_paths(root: yaml.Node) -> list[tuple[yaml.Node, KeyPath]]:
    """Return every node of a tree once, with one of its paths."""
    nodes: list[tuple[yaml.Node, KeyPath]] = []
    visited: set[int] = set()
    todo: list[tuple[yaml.Node, KeyPath]] = [(root, ())]
    while todo:
        node, path = todo.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        nodes.append((node, path))
        if isinstance(node, yaml.MappingNode):
            for key, child in node.value:
                step = key.value if isinstance(key, yaml.ScalarNode) else "?"
                todo += ((child, (*path, step)), (key, path))
        elif isinstance(node, yaml.SequenceNode):
            todo += ((child, (*path, index)) for index, child in enumerate(node.value))
    return nodes
