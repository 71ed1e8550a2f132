"""Edits of YAML in block style: an entry has lines of its own, and no commas or brackets around it."""

from __future__ import annotations

import re
from typing import Any, Final

from dsconfig.document.edit import Edit, EditError, Editor, end_of
from dsconfig.document.layout import Raw, dump, moved, quoted_like
from dsconfig.document.tree import Member, Node, Path, Span

_COLON: Final = re.compile(r"[ \t]*:")
_BLANK: Final = re.compile(r"[ \t]*")
_NEWLINE: Final = re.compile(r"\r\n?|\n")


class YamlEditor(Editor):
    """Edits of a YAML text. Places with anchors, aliases or tags are left alone: others may share them."""

    def check_own(self, path: Path) -> None:
        """Raise where the text at the path stands for other paths, too, or has a tag."""
        for length in range(len(path) + 1):
            node = self.document.node(path[:length])
            if node is None:
                return
            if self.text[node.span.start : node.span.start + 1] in ("&", "*", "!"):
                raise EditError("the value has an anchor or a tag")
            inside = [node.span, *(member.key_span for member in node.members)]
            inside += [span for span in self.spans(node) if span.start < span.end]
            if any(span.start < node.span.start or span.end > node.span.end for span in inside):
                raise EditError("the value is merged from elsewhere")

    def spans(self, node: Node) -> list[Span]:
        """The stretch of each entry. An alias's value stands elsewhere, a value left out nowhere."""
        if node.kind != "object":
            return super().spans(node)
        return [Span(member.key_span.start, self.tail(member)) for member in node.members]

    def tail(self, member: Member) -> int:
        """Where the entry ends."""
        if member.node.span.start < member.node.span.end:
            if member.node.span.start < member.key_span.end:
                raise EditError("the value is an alias")
            return member.node.span.end
        return self.colon(member.key_span)

    def colon(self, key: Span) -> int:
        """Behind the colon of a key."""
        match = _COLON.match(self.text, key.end)
        if match is None:
            raise EditError("the key is not followed by its colon")
        return match.end()

    def raw(self, node: Node) -> Raw | Any:
        """The value as it is written; a block scalar depends on where it stands."""
        start, end = node.span
        if start == end or self.text[start] in "|>":
            return node.value
        if node.kind in ("object", "array") and not self.braced(node):
            return Raw(self.text[start:end], " " * (start - self.line_start(start)), block=True)
        return Raw(self.text[start:end], self.indent(start))

    def set(self, path: Path, value: Any) -> list[Edit]:
        """Give the key this value: behind its colon where nothing stands yet."""
        node = self.document.node(path)
        if node is None or node.span.start < node.span.end:
            if node is not None and node.items and not self.braced(node):
                raise EditError("a list in block style may stand where no other value can")
            return super().set(path, value)
        parent, index = self.entry(path)
        if parent.kind != "object":
            raise EditError("the item has no text")
        at = self.colon(parent.members[index].key_span)
        return [Edit(at, at, f" {dump(value, self.layout, None)}")]

    # -- removing ----------------------------------------------------------------------------------

    def without(self, parent: Node, index: int) -> list[Edit]:
        """The parent without one of its entries."""
        if self.braced(parent):
            return super().without(parent, index)
        spans = self.spans(parent)
        if len(spans) == 1:
            return [self.emptied(parent)]
        start, end = spans[index]
        start = start if parent.kind == "object" else self.dash(spans[index])
        after = end_of(_BLANK, self.text, end)
        newline = _NEWLINE.match(self.text, after)
        if after in self.comments:
            return [Edit(start, after, "")]
        if newline is None and after < len(self.text):
            raise EditError("the entry does not end with its line")
        if self.starts_line(start):
            return [Edit(self.line_start(start), newline.end() if newline else after, "")]
        following = spans[index + 1].start if index + 1 < len(spans) else after
        if parent.kind != "object" or self.commented(after, following):
            raise EditError("the entry does not begin its line")
        return [Edit(start, following, "")]

    def emptied(self, parent: Node) -> Edit:
        """An object or list without entries has brackets: without them it would be null."""
        brackets = "{}" if parent.kind == "object" else "[]"
        start, end = parent.span.start, max(parent.span.end, *(span.end for span in self.spans(parent)))
        before = len(self.text[:start].rstrip())
        if before and self.text[before - 1] == ":":
            return Edit(before, end, f" {brackets}")
        # The dashes of a list may stand below its key, where brackets may not.
        return Edit(start, end, f"{'' if parent.kind == 'object' else self.layout.unit}{brackets}")

    def dash(self, item: Span) -> int:
        """Where the dash of an item stands."""
        before = len(self.text[: item.start].rstrip(" \t"))
        if item.start == item.end or self.text[before - 1 : before] != "-":
            raise EditError("the item does not follow its dash")
        return before - 1

    # -- adding ------------------------------------------------------------------------------------

    def added(self, parent: Node, key: str, value: Any) -> list[Edit]:
        """One more entry of the mapping."""
        if self.braced(parent):
            return super().added(parent, key, value)
        first, last = self.spans(parent)[0].start, self.spans(parent)[-1].end
        at = self.end_of_entry(last)
        if at < len(self.text) and not _NEWLINE.match(self.text, end_of(_BLANK, self.text, at)):
            raise EditError("the entry does not end with its line")
        indent = self.text[self.line_start(first) : first]
        indent = indent if not indent.strip() else " " * len(indent)
        word = quoted_like(self.text[first : first + 1], key)
        return [Edit(at, at, f"{self.layout.newline}{indent}{word}:{self.block(value, indent)}")]

    def block(self, value: Any, indent: str) -> str:
        """What stands behind the colon of a key that is indented by `indent`."""
        inner = indent + self.layout.unit
        if isinstance(value, Raw) and value.block:
            return f"{self.layout.newline}{inner}{moved(value, self.layout, inner)}"
        if isinstance(value, dict) and value:
            lines = (f"{inner}{quoted_like('x', str(k))}:{self.block(v, inner)}" for k, v in value.items())
            return self.layout.newline + self.layout.newline.join(lines)
        return f" {dump(value, self.layout, indent)}"
