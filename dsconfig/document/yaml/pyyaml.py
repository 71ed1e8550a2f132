"""PyYAML as we use it: its loader, what it raises, the values of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


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
