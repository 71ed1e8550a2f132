"""The tree under construction: which brackets are open, what has been read, what was odd on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document.hjson.errors import GiveUpError, ReadError
from dsconfig.document.tree import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    MAX_VALUES,
    NOBODY,
    ONLY_JSON,
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


class Frame:
    """An object or array that is still open."""

    __slots__ = ("braces", "closer", "is_object", "items", "key", "key_span", "members", "start")

    def __init__(self, start: int, *, is_object: bool, braces: bool) -> None:
        self.start, self.is_object, self.braces = start, is_object, braces
        self.closer = "" if not braces else "}" if is_object else "]"
        self.members: list[Member] = []
        self.items: list[Node] = []
        self.key: str | None = None
        """The key whose value comes next."""
        self.key_span = Span(start, start)

    def __len__(self) -> int:
        return len(self.members) + len(self.items)

    def last_end(self) -> int:
        """Where the last entry ends."""
        if self.members:
            return self.members[-1].node.span.end
        return self.items[-1].span.end if self.items else self.start + self.braces


class TreeBuilder:
    """Takes what a parser finds in one text, and makes the tree of it.

    The parsers keep the position themselves: a function takes one and returns where it stopped.
    `translate`: line ends count as `open()` gives them, which matters in triple quotes only.
    """

    __slots__ = ("comments", "errors", "problems", "root", "stack", "text", "translate", "values")

    def __init__(self, text: str, *, translate: bool) -> None:
        self.text, self.translate = text, translate
        self.root: Node | None = None
        self.stack: list[Frame] = []
        self.values = 0
        self.errors = 0
        """How many problems hjson refuses."""
        self.problems: list[Problem] = []
        self.comments: list[tuple[Span, str]] = []

    def note(
        self,
        kind: str,
        start: int,
        end: int,
        detail: str = "",
        refused_by: frozenset[Parser] = ONLY_JSON,
        path: KeyPath | None = None,
    ) -> None:
        """Keep an oddity as data.

        Raises:
            GiveUpError: this text is nothing but errors.
        """
        if len(self.problems) < MAX_PROBLEMS:
            end = min(end, len(self.text))
            where = self.path() if path is None else path
            self.problems.append(Problem(kind, Span(min(start, end), end), where, detail, refused_by))
        elif not refused_by <= (last := self.problems[-1]).refused_by:
            self.problems[-1] = last._replace(refused_by=last.refused_by | refused_by)
        if "hjson" in refused_by:
            self.errors += 1
            if self.errors == MAX_PROBLEMS and self.stack:
                raise GiveUpError

    def comment(self, start: int, end: int) -> None:
        """Keep a comment; one that is read again behind a bracket that stays open is kept already."""
        if self.comments and start <= self.comments[-1][0].start:
            return
        if len(self.comments) >= MAX_VALUES:
            raise ReadError("too-large", start, start + 1, f"more than {MAX_VALUES} comments", fatal=True)
        self.comments.append((Span(start, end), self.text[start:end]))
        self.note("comment", start, end, "#" if self.text[start] == "#" else self.text[start : start + 2])

    def path(self) -> KeyPath:
        """Where the parser is."""
        keys = (frame.key if frame.is_object else len(frame.items) for frame in self.stack)
        return tuple(key for key in keys if key is not None)

    def open(self, start: int, *, is_object: bool, braces: bool = True) -> None:
        """Go down into an object or array."""
        if len(self.stack) >= MAX_DEPTH:
            raise ReadError("too-deep", start, start + 1, str(MAX_DEPTH), fatal=True)
        self.stack.append(Frame(start, is_object=is_object, braces=braces))
        if not braces:
            self.note("missing-root-braces", start, start + 1, path=())

    def close(self, end: int) -> None:
        """End the innermost object or array, and hand its node to the one around it."""
        frame = self.stack.pop()
        if frame.is_object:
            value = {member.key: member.node.value for member in frame.members}
            if len(value) != len(frame.members):
                self._note_duplicates(frame)
            self.attach(Node("object", Span(frame.start, end), value, tuple(frame.members)))
        else:
            items = [item.value for item in frame.items]
            self.attach(Node("array", Span(frame.start, end), items, (), tuple(frame.items)))

    def scalar(self, kind: NodeKind, start: int, end: int, value: object) -> None:
        """Keep a value that has no entries of its own."""
        self.attach(Node(kind, Span(start, end), value))

    def attach(self, node: Node) -> None:
        """Put a finished value where it belongs."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise ReadError("too-large", *node.span, f"more than {MAX_VALUES} values", fatal=True)
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.is_object and frame.key is not None:
            frame.members.append(Member(frame.key, frame.key_span, node))
        else:
            frame.items.append(node)

    def _note_duplicates(self, frame: Frame) -> None:
        """Each key that was there before. DeepSpeed refuses it: `dict_raise_error_on_duplicate_keys`."""
        seen: set[str] = set()
        around = self.path()
        for member in frame.members:
            if member.key in seen:
                self.note("duplicate-key", *member.key_span, member.key, NOBODY, (*around, member.key))
            seen.add(member.key)

    def tree(self) -> Tree:
        """What was read."""
        if self.root and self.root.kind != "object":
            self.note("root-not-object", *self.root.span, self.root.kind, NOBODY, ())
        problems = sorted(dict.fromkeys(self.problems), key=lambda problem: problem.span)
        return Tree(self.root, tuple(problems), tuple(self.comments))
