"""Keys that are written more than once in one object, and the fix that keeps the last of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Fix, Replace
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document, Node, Problem
from dsconfig.document.edit import Editor, editor
from dsconfig.document.text_edit import EditError


class Duplicate(NamedTuple):
    """A key that one object has more than once."""

    problem: Problem
    """Its second entry."""
    times: int
    fix: Fix | None


def duplicates(document: Document, problems: Iterable[Problem], *, refused: bool) -> Iterator[Duplicate]:
    """Each key that is written more than once: one finding, and one fix for all its entries."""
    first = {(problem.path, problem.detail): problem for problem in reversed(list(problems))}
    repairs = _Repairs(document)
    for problem in reversed(list(first.values())):
        parent = document.node(problem.path[:-1])
        same = [] if parent is None else repairs.entries(parent).get(problem.detail, [])
        fix = repairs.fix(parent, same, refused=refused) if parent is not None and len(same) > 1 else None
        yield Duplicate(problem, max(2, len(same)), fix)


class _Repairs:
    """Looks an object's entries up by name, once for each object."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.by_name: dict[int, dict[str, list[int]]] = {}
        self.editor: Editor | None = None

    def entries(self, parent: Node) -> dict[str, list[int]]:
        """The positions of the entries of each name."""
        found = self.by_name.get(id(parent))
        if found is None:
            found = self.by_name[id(parent)] = {}
            for index, member in enumerate(parent.members):
                found.setdefault(member.key, []).append(index)
        return found

    def fix(self, parent: Node, same: list[int], *, refused: bool) -> Fix | None:
        """All entries but the last removed, which every parser that takes the file passes over."""
        *earlier, last = (parent.members[index] for index in same)
        try:
            self.editor = self.editor or editor(self.document)
            edits = self.editor.remove_entries(parent, same[:-1])
        except EditError:
            return None
        kept = last.node.value
        alike = all(type(each.node.value) is type(kept) and each.node.value == kept for each in earlier)
        which = "first" if len(earlier) == 1 else f"first {len(earlier)}"
        title = f"remove the {which} `{last.key}`, keep the last"
        return Fix(title, tuple(Replace(*edit) for edit in edits), safe=alike or not refused)
