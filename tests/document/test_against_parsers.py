"""The parsers agree with the real ones: hjson and json as DeepSpeed calls them, and PyYAML."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import hjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dsconfig.document import KINDS, Document, read_file, read_text
from dsconfig.document.read_document import read_json

TEXTS = sorted(Path(__file__).parent.joinpath("texts").iterdir())
HJSON = [path for path in TEXTS if path.suffix != ".yaml"]
YAML = [path for path in TEXTS if path.suffix == ".yaml"]


def exact(value: object) -> object:
    """A form in which 1, 1.0 and True differ, and in which the order of keys counts."""
    if isinstance(value, dict):
        return [(exact(key), exact(child)) for key, child in value.items()]
    if isinstance(value, list):
        return ("list", [exact(child) for child in value])
    return type(value).__name__, repr(value)


def loaded(load: Any, *args: Any, **kwargs: Any) -> tuple[bool, object]:
    try:
        return True, load(*args, **kwargs)
    except RecursionError:
        raise
    except Exception as error:
        return False, error


def assert_agrees(document: Document, parser: Any, accepted: bool, value: object) -> None:
    where = f"{document.text!r} {parser} {value!r} {document.problems}"
    assert document.is_readable(parser) == accepted, where
    if accepted:
        found = document.value(parser)
        assert exact(with_their_keys(found, value) if parser == "yaml" else found) == exact(value), where


def with_their_keys(found: object, theirs: object) -> object:
    """The value with PyYAML's keys where those are not strings: ours are their text."""
    match found, theirs:
        case dict(), dict() if len(found) == len(theirs):
            pairs = zip(found.items(), theirs.items(), strict=True)
            return {a if isinstance(b, str) else b: with_their_keys(one, two) for (a, one), (b, two) in pairs}
        case dict(), dict() if not all(isinstance(key, str) for key in theirs):
            return theirs  # 1 and true are one key in Python, and two texts
        case list(), list() if len(found) == len(theirs):
            return [with_their_keys(one, two) for one, two in zip(found, theirs, strict=True)]
    return found


def assert_sound(document: Document) -> None:
    """Problems are known and inside the text; spans of an accepted text hold what they say."""
    for problem in document.problems:
        assert problem.kind in KINDS
        assert 0 <= problem.span.start <= problem.span.end <= len(document.text)
    if document.is_readable() and document.root is not None:
        assert exact(document.root.value) == exact(document.value())
        nodes = [document.root]
        while nodes:
            node = nodes.pop()
            text = document.text[slice(*node.span)]
            assert text == text.strip() or node.kind == "object", (document.text, node)
            if node.kind == "array" and document.format == "json":
                assert (text[0], text[-1]) == ("[", "]")
            nodes += [*node.items, *(member.node for member in node.members)]


def check_text(text: str, *, translate: bool = True) -> None:
    seen = text.replace("\r\n", "\n").replace("\r", "\n") if translate else text
    document = read_text(text) if translate else read_json(text, "x", translate=False)
    assert_agrees(document, "hjson", *loaded(hjson.loads, seen, object_pairs_hook=dict))
    assert_agrees(document, "json", *loaded(json.loads, seen))
    assert_sound(document)


def test_there_are_texts() -> None:
    assert len(HJSON) > 30
    assert len(YAML) > 15


@pytest.mark.parametrize("path", HJSON, ids=lambda path: path.name)
def test_text_is_read_as_hjson_and_json_read_it(path: Path) -> None:
    document = read_file(path)
    with open(path, encoding="utf-8") as file:
        assert_agrees(document, "hjson", *loaded(hjson.load, file, object_pairs_hook=dict))
    with open(path, encoding="utf-8") as file:
        assert_agrees(document, "json", *loaded(json.load, file))
    assert_sound(document)
    assert document.is_readable() == (
        not path.name.startswith("refused_") and path.name != "marked_blank.hjson"
    )


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_read_as_the_safe_loader_reads_it(path: Path) -> None:
    document = read_file(path)
    with open(path, encoding="utf-8") as file:
        assert_agrees(document, "yaml", *loaded(yaml.safe_load, file))
    assert document.is_readable("yaml") != path.name.startswith("refused_")
    if path.name.startswith("refused_"):
        assert isinstance(document.value("yaml"), dict)
        assert len(document.problems) >= 1


WORDS = r"""
{ } [ ] , : " ' ''' // # /* */ \ \u \ud800 \udc00 \x \/ / "" '' "a" [] {} b: "k": ${X} {{y}}
1 0 - . e E + 1e400 1e5 1_0 0x1 007 .5 5. 9999999999 1e10 1.0 -0 -0.0
NaN Infinity -Infinity true false null auto
"""
SPACES = [
    "\n",
    " ",
    "\t",
    "\r",
    "\r\n",
    "\x00",
    "\x0b",
    "\xa0",
    "\u2028",
    "\ufeff",
    "\u0663",
    "é",
    "😀",
    "\x1f",
    "k :",
]
PIECES = [*WORDS.split(), *SPACES]
SPLIT_ESCAPE = re.compile(r'\\u[^"]{0,3}\r')
"""hjson counts four characters behind \\u after its line ends were translated; the reader counts before."""


def mutated(pick: random.Random, text: str) -> str:
    for _ in range(pick.choice((1, 1, 2, 4))):
        start = pick.randrange(len(text) + 1)
        end = start + pick.choice((0, 1, 1, 2, 5))
        piece = pick.choice(PIECES) if pick.random() < 0.6 else text[end : end + pick.randrange(12)]
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("seed", range(8))
def test_mutated_texts(seed: int) -> None:
    pick = random.Random(seed)
    texts = [path.read_bytes().decode() for path in HJSON]
    for _ in range(400):
        text = mutated(pick, pick.choice(texts))
        translate = pick.random() < 0.7
        if not (translate and SPLIT_ESCAPE.search(text)):
            check_text(text, translate=translate)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_pieces(text: str) -> None:
    if not SPLIT_ESCAPE.search(text):
        check_text(text)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda child: st.lists(child) | st.dictionaries(st.text(), child),
        max_leaves=12,
    )
)
def test_any_strict_json(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        check_text(text)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_yaml(seed: int) -> None:
    pick = random.Random(seed)
    texts = [path.read_bytes().decode() for path in YAML]
    for _ in range(60):
        text = mutated(pick, pick.choice(texts))
        document = read_text(text, format="yaml")
        if not any(problem.kind in ("alias-bomb", "too-deep") for problem in document.problems):
            assert_agrees(document, "yaml", *loaded(yaml.safe_load, text))
        assert_sound(document)
