"""Text edits: what each operation writes, and that nothing else changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsconfig.core.diagnostic import Fix, MoveKey, Operation, RemoveKey, RenameKey, ReplaceText, SetValue
from dsconfig.core.json_types import KeyPath
from dsconfig.document import Document, read_text
from dsconfig.document.apply_operations import apply_operations_to_value, are_equal_for_parsers, edits_for_fix
from dsconfig.document.text_edit import EditError, apply_edits, smallest_edit

JSONC = """{
  // what we train with
  "batch": 8,   // per step
  "fp16": {"enabled": true, "scale": 0},
  "zero": {
    "stage": 3,
    /* off */ "offload": {
      "device": "cpu"
    }
  }
}
"""
HJSON = """batch: 8
fp16: {
\tenabled: true
\tname: some words, with a comma
}
"""
YAML = """# launch
batch: 8  # per step
zero:
  stage: 3
  offload:
    device: cpu
    # the fast one
    path: /nvme
hosts:
- name: a
  slots: 2
- name: b
empty:
"""


def edited(text: str, *operations: Operation, format: str = "json") -> str:
    document = read_text(text, format=format)  # type: ignore[arg-type]
    return apply_edits(text, edits_for_fix(document, Fix("", operations)))


def lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that went, and those that came."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return list((old - new).elements()), list((new - old).elements())


@pytest.mark.parametrize(
    ("operation", "gone", "come"),
    [
        (SetValue(("batch",), 16), ['  "batch": 8,   // per step'], ['  "batch": 16,   // per step']),
        (RemoveKey(("batch",)), ['  "batch": 8,   // per step'], ["  // per step"]),
        (
            RenameKey(("fp16",), "bf16"),
            ['  "fp16": {"enabled": true, "scale": 0},'],
            ['  "bf16": {"enabled": true, "scale": 0},'],
        ),
        (
            RemoveKey(("fp16", "scale")),
            ['  "fp16": {"enabled": true, "scale": 0},'],
            ['  "fp16": {"enabled": true},'],
        ),
        (
            RemoveKey(("fp16", "enabled")),
            ['  "fp16": {"enabled": true, "scale": 0},'],
            ['  "fp16": {"scale": 0},'],
        ),
        (RemoveKey(("fp16",)), ['  "fp16": {"enabled": true, "scale": 0},'], []),
        (
            SetValue(("fp16", "window"), 1e-5),
            ['  "fp16": {"enabled": true, "scale": 0},'],
            ['  "fp16": {"enabled": true, "scale": 0, "window": 1e-05},'],
        ),
        (
            SetValue(("zero", "offload", "pin"), True),
            ['      "device": "cpu"'],
            ['      "device": "cpu",', '      "pin": true'],
        ),
        (SetValue(("new", "deep"), [1]), [], ["  },", '  "new": {', '    "deep": [1]']),
        (MoveKey(("zero", "stage"), ("stage",)), ['    "stage": 3,', "  }"], ["  },", '  "stage": 3']),
    ],
)  # fmt: skip
def test_only_the_lines_of_the_entry_change(operation: Operation, gone: list[str], come: list[str]) -> None:
    after = edited(JSONC, operation)
    assert lines(JSONC, after) == (gone, come)
    assert read_text(after).is_readable("hjson")


def test_a_section_without_entries_remains() -> None:
    assert edited('{\n  "a": {\n    "b": 1\n  }\n}\n', RemoveKey(("a", "b"))) == '{\n  "a": {}\n}\n'
    assert edited("a:\n  b: 1\nc: 2\n", RemoveKey(("a", "b")), format="yaml") == "a: {}\nc: 2\n"
    assert edited("a:  # why\n  b: 1\n", RemoveKey(("a", "b")), format="yaml") == "a:  # why\n  {}\n"
    assert edited("a:\n- 1\n", RemoveKey(("a", 0)), format="yaml") == "a: []\n"


def test_removing_the_last_entry_removes_the_comma_before_it() -> None:
    assert edited('{"a": 1, "b": 2}', RemoveKey(("b",))) == '{"a": 1}'
    assert edited('{"a": 1, // x\n"b": 2}', RemoveKey(("b",))) == '{"a": 1 // x\n}'
    assert edited('{"a": [1, 2, 3]}', RemoveKey(("a", 2))) == '{"a": [1, 2]}'
    assert edited('{"a": 1, "b": 2,}', RemoveKey(("b",))) == '{"a": 1,}'


def test_added_entries_follow_the_style_of_the_text() -> None:
    assert edited("{}", SetValue(("a",), 1)) == '{"a": 1}'
    assert edited("{\n}\n", SetValue(("a",), 1)) == '{\n  "a": 1\n}\n'
    assert edited('{"a": 1,}', SetValue(("b",), 2)) == '{"a": 1, "b": 2,}'
    assert edited('{\r\n\t"a": 1\r\n}', SetValue(("b",), {"c": 2})) == (
        '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}'
    )
    assert edited("{'a': 1}", SetValue(("b",), "x")) == "{'a': 1, 'b': 'x'}"
    assert edited(HJSON, SetValue(("fp16", "new"), 1)) == HJSON.replace("comma\n", "comma\n\tnew: 1\n")
    assert edited(HJSON, SetValue(("new",), 1)) == HJSON.rstrip() + "\nnew: 1\n"
    assert edited("{ // c\n}", SetValue(("a",), 1)) == '{ // c\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("operation", "gone", "come"),
    [
        (SetValue(("batch",), 1e-5), ["batch: 8  # per step"], ["batch: 1.0e-05  # per step"]),
        (RemoveKey(("batch",)), ["batch: 8  # per step"], ["# per step"]),
        (RemoveKey(("zero", "offload", "path")), ["    path: /nvme"], []),
        (SetValue(("zero", "offload", "pin"), True), [], ["    pin: true"]),
        (SetValue(("empty",), 1), ["empty:"], ["empty: 1"]),
        (SetValue(("new", "no"), {"a": 1}), [], ["new:", '  "no":', "    a: 1"]),
        (RenameKey(("zero",), "one"), ["zero:"], ["one:"]),
        (RemoveKey(("hosts", 1)), ["- name: b"], []),
        (RemoveKey(("hosts", 0, "name")), ["- name: a", "  slots: 2"], ["- slots: 2"]),
        (
            MoveKey(("zero", "offload"), ("fast", "disk")),
            ["  offload:"],
            ["fast:", "  disk:"],
        ),
    ],
)
def test_yaml_keeps_its_lines(operation: Operation, gone: list[str], come: list[str]) -> None:
    after = edited(YAML, operation, format="yaml")
    assert lines(YAML, after) == (gone, come)
    assert read_text(after, format="yaml").is_readable()


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("a: &x {b: 1}\nc: *x\n", SetValue(("c", "b"), 2)),
        ("a: &x {b: 1}\nc: *x\n", SetValue(("a", "b"), 2)),
        ("a: &x\n  b: 1\nc:\n  <<: *x\n", RemoveKey(("c", "b"))),
        ("a: !!str 1\n", SetValue(("a",), 2)),
        ("a: 1\n", RemoveKey(("b",))),
        ("a: 1\n", SetValue(("a", "b"), 2)),
        ("a: 1\nb: 2\n", RenameKey(("a",), "b")),
        ("a: 1\nb: 2\n", MoveKey(("a",), ("b",))),
        ("a:\n- null\nb: [{}]\n", MoveKey(("a",), ("b", 0, "a"))),
        ("a: {b: 1}\n", MoveKey(("a",), ("a", "b", "c"))),
        ("a: 1\n", SetValue(("b",), float("nan"))),
    ],
)
def test_harmful_edits_are_rejected(text: str, operation: Operation) -> None:
    with pytest.raises(EditError):
        edited(text, operation, format="yaml")


def test_a_dict_has_no_text_to_edit() -> None:
    from dsconfig.document import read_dict

    with pytest.raises(EditError, match="no text"):
        edits_for_fix(read_dict({"a": 1}), Fix("", (RemoveKey(("a",)),)))


def test_minimal_edit() -> None:
    assert smallest_edit("abcd", "abXd") == (2, 3, "X")
    assert smallest_edit("aa", "aaa") == (2, 2, "a")
    assert smallest_edit("same", "same") == (4, 4, "")


# -- any text, any operation -----------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "stage", "fp16", "no", "x y", "#k", "ключ", "'", '"'])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "auto", "5e8", "# no comment", "// neither", "null", "a: b", "é", "'", "- x", "|"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
CONFIGS = st.dictionaries(KEYS, VALUES, max_size=5)
GAPS = ["", " ", "\n", "\r\n  ", "\t", " /* c */ ", " // to the end\n", "\n# whole line\n", "\n\n  "]


class Writer:
    """Writes a value as JSON of any layout, with comments wherever one may stand."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.gap = lambda: draw(st.sampled_from(GAPS))
        self.flag = lambda: draw(st.booleans())
        self.plain = draw(st.booleans())

    def space(self) -> str:
        return " " if self.plain else self.gap()

    def write(self, value: Any) -> str:
        match value:
            case dict():
                return self.bracketed("{}", [f"{json.dumps(k)}{self.space()}:{self.space()}{self.write(v)}" for k, v in value.items()])  # fmt: skip # noqa: E501
            case list():
                return self.bracketed("[]", [self.write(item) for item in value])
        return json.dumps(value)

    def bracketed(self, brackets: str, entries: list[str]) -> str:
        text = ",".join(f"{self.space()}{entry}{self.space()}" for entry in entries)
        comma = "," if entries and not self.plain and self.flag() else ""
        return f"{brackets[0]}{text}{comma}{self.space()}{brackets[1]}"


@st.composite
def jsonc(draw: st.DrawFn) -> Document:
    writer = Writer(draw)
    return read_text(f"{writer.space()}{writer.write(draw(CONFIGS))}{writer.space()}")


@st.composite
def yaml_texts(draw: st.DrawFn) -> Document:
    import yaml

    text = yaml.safe_dump(
        draw(CONFIGS), default_flow_style=draw(st.sampled_from([False, None, True])), sort_keys=False,
        allow_unicode=True, indent=draw(st.sampled_from([2, 4])),
    )  # fmt: skip
    if draw(st.booleans()):
        kept = [line.rstrip() for line in text.splitlines()]
        text = "".join(f"{line}{draw(st.sampled_from(['', '  # c', chr(10) + '# d']))}\n" for line in kept)
    return read_text(text, format="yaml")


def paths(value: Any, here: KeyPath = ()) -> list[KeyPath]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, item in inside for path in paths(item, (*here, key)))]


@st.composite
def operations(draw: st.DrawFn, document: Document) -> Operation:
    value = document.value()
    known = paths(value)
    path = draw(st.sampled_from(known[1:] or [("a",)]))
    new = (*draw(st.sampled_from([p for p in known if isinstance(_at(value, p), dict)])), draw(KEYS))
    return draw(
        st.one_of(
            st.builds(SetValue, st.sampled_from([path, new, (*new, "deep")]), SCALARS | VALUES),
            st.just(RemoveKey(path)),
            st.builds(RenameKey, st.just(path), KEYS),
            st.just(MoveKey(path, new)),
        )
    )


def _at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def check(document: Document, operation: Operation) -> None:
    """The text says what the operation means, and no comment outside of what goes is lost."""
    text = document.text
    try:
        made = edits_for_fix(document, Fix("", (operation,)))
        expected = apply_operations_to_value(document.value(), (operation,))
    except (EditError, KeyError, IndexError, TypeError, AttributeError):
        return
    after = read_text(apply_edits(text, made), format=document.format)
    assert after.is_readable(), (text, operation, after.text)
    assert are_equal_for_parsers(after.value(), expected), (text, operation, after.text)
    if isinstance(operation, ReplaceText):
        return
    start, end = document.span(operation.path, "value" if isinstance(operation, SetValue) else "entry")
    gone = document.has_path(operation.path)
    around = [words for span, words in document.comments if not (gone and start <= span.start < end)]
    kept = Counter(words.strip() for _, words in after.comments)
    assert not Counter(words.strip() for words in around) - kept, (text, operation, after.text)


@settings(max_examples=300, deadline=None)
@given(st.data(), jsonc())
def test_any_operation_on_json_with_comments(data: st.DataObject, document: Document) -> None:
    assume(document.is_readable() and isinstance(document.value(), dict))
    check(document, data.draw(operations(document)))


@settings(max_examples=300, deadline=None)
@given(st.data(), yaml_texts())
def test_any_operation_on_yaml(data: st.DataObject, document: Document) -> None:
    assume(document.is_readable() and isinstance(document.value(), dict))
    check(document, data.draw(operations(document)))
