"""A YAML document made fit to be constructed: what the safe loader refuses becomes plain data, and a note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

from dsconfig.document.tree import MAX_DIGITS, NOBODY, Span
from dsconfig.document.yaml.problems import Notes
from dsconfig.document.yaml.pyyaml import ERRORS, LOADER, construct, message, walk

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
