"""Values, locations and problems of a document, by kind of source."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from dsconfig.document import Document, TextSpan, read_base64, read_bytes, read_dict, read_file, read_text

CONFIG = '{\n  "fp16": {"enabled": true, "scale": 1e3},\n  "list": [1, {"x": "😀", "y": 2}]\n}\n'


def kinds(document: Document) -> list[str]:
    return [problem.kind for problem in document.problems]


def test_each_parser_has_its_own_numbers() -> None:
    document = read_text('{"a": 1e3, "b": 4.0, "c": 2.5, "d": 1e10}')
    assert repr(document.value()) == "{'a': 1000, 'b': 4, 'c': 2.5, 'd': 10000000000.0}"
    assert repr(document.value("json")) == "{'a': 1000.0, 'b': 4.0, 'c': 2.5, 'd': 10000000000.0}"
    assert document.problems == ()


def test_recovered_values_have_the_numbers_of_the_parser_too() -> None:
    document = read_text('{"a": 1e3, "b": [4.0, 7] // open\n')
    assert repr(document.value()) == "{'a': 1000, 'b': [4, 7]}"
    assert repr(document.value("json")) == "{'a': 1000.0, 'b': [4.0, 7]}"
    assert not document.is_readable("hjson")


@pytest.mark.parametrize("comment", ["", "// one\n"], ids=["lazy", "eager"])
@pytest.mark.parametrize(
    ("path", "part", "text"),
    [
        (("fp16", "enabled"), "value", "true"),
        (("fp16", "enabled"), "key", '"enabled"'),
        (("fp16", "enabled"), "entry", '"enabled": true'),
        (("list", 1, "y"), "value", "2"),
        (("list", 0), "value", "1"),
        (("list", 0), "key", "1"),
        (("list", 0), "entry", "1"),
        (("fp16", "absent"), "value", '"fp16"'),
        (("fp16", "enabled", "deeper"), "value", '"enabled"'),
        (("list", 7), "value", '"list"'),
        (("absent", "deeper"), "entry", "{"),
        ((), "key", "{"),
    ],
)
def test_spans(comment: str, path: tuple[str | int, ...], part: str, text: str) -> None:
    document = read_text(comment + CONFIG)
    span = document.span(path, part)  # type: ignore[arg-type]
    assert document.text[slice(*span)] == text
    assert document.has_path(path) == (document.node(path) is not None)
    assert document.has_path(path) == (path[-1:] not in [("absent",), ("deeper",), (7,)])


def test_positions_count_lines_and_columns() -> None:
    document = read_text(CONFIG)
    span = document.span(("list", 1, "y"), "key")
    assert document.position(span.start) == (3, 26)
    assert document.line(3) == '  "list": [1, {"x": "😀", "y": 2}]'
    assert document.line(0) == document.line(99) == ""
    assert document.position(10**9).line == 5
    crlf = read_text("{\r\n// x\r'b': 1}")
    assert [crlf.position(at).line for at in (0, 3, 8)] == [1, 2, 3]
    assert crlf.line(1) == "{"


def test_the_last_duplicate_wins_and_is_the_one_located() -> None:
    document = read_text('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}')
    assert document.value() == {"a": 3, "b": {"c": 2}}
    assert document.text[slice(*document.span(("a",), "entry"))] == '"a": 3'
    assert [(problem.path, problem.span) for problem in document.problems] == [
        (("b", "c"), TextSpan(23, 26)),
        (("a",), TextSpan(32, 35)),
    ]
    assert document.is_readable("hjson")
    assert document.is_readable("json")


@pytest.mark.parametrize(
    ("text", "expected", "refusers"),
    [
        ("", ["empty"], "json"),
        ("\ufeff", ["bom", "empty"], "hjson json"),
        ("[1]", ["root-not-object"], ""),
        ("{'a': 1}", ["single-quotes"], "json"),
        ("{a: 1,}", ["unquoted-key", "trailing-comma"], "json"),
        ('{"a": auto,\n}', ["unquoted-string"], "json"),
        ('{"a": auto}', ["unquoted-string"], "hjson json"),
        ('{"a": NaN}', ["nan"], "hjson"),
        ('{"a": NaN\n}', ["nan"], ""),
        ('{"a": 007}', ["bad-number"], "hjson json"),
        ('{"a": 1e999}', ["huge-number"], "hjson"),
        ('{"a": ' + "9" * 4301 + "}", ["huge-number"], "hjson json"),
        ('{"a": "\\ud800"}', ["lone-surrogate"], ""),
        ('{"a": "\ud800"}', ["lone-surrogate"], ""),
        ('{"a": "\\x"}', ["bad-escape"], "hjson json"),
        ('{"a": "\t"}', ["control-character"], "hjson json"),
        ('{"a": ${X}, "b": {{y}}}', ["placeholder", "placeholder"], "hjson json"),
        ('{"a": CONFIG_BATCH_SIZE,\n"b": 1}', ["placeholder", "missing-comma"], "json"),
        ('{"a": {', ["unclosed", "unclosed"], "hjson json"),
        ('{"a": 1}}', ["unexpected"], "hjson json"),
        ('{"a" 1}', ["missing-colon"], "hjson json"),
        ('{"a": }', ["missing-value"], "hjson json"),
        ("{\na: '''x'''\n}", ["unquoted-key", "multiline-string"], "json"),
        ("a: 1", ["missing-root-braces", "unquoted-key"], "json"),
        ('{"a": \x00}', ["not-text"], "hjson json"),
    ],
)
def test_problems(text: str, expected: list[str], refusers: str) -> None:
    document = read_text(text)
    assert kinds(document) == expected
    assert [parser for parser in ("hjson", "json") if not document.is_readable(parser)] == refusers.split()


def test_comments() -> None:
    document = read_text('{"a": 1 // one\n# two\n/* three */}')
    assert [text for _, text in document.comments] == ["// one", "# two", "/* three */"]
    assert all(document.text[slice(*span)] == text for span, text in document.comments)
    yaml = read_text("# one\na: b # two\nc: 'x # y'\nd: |\n  # text\ne: x#y\n", format="yaml")
    assert [text for _, text in yaml.comments] == ["# one", "# two"]
    quoted = read_text('a: "x # y"  # one\nb: 1  # two\n', "a.yaml", "yaml")
    assert [text for _, text in quoted.comments] == ["# one", "# two"]
    assert all(yaml.text[slice(*span)] == text for span, text in yaml.comments)


def test_a_mapping_is_returned_unchanged_and_has_no_locations() -> None:
    data = {"a": {"b": 1}}
    document = read_dict(data)
    assert document.value() is data
    assert document.value("json") is data
    assert document.span(("a", "b")) == TextSpan(0, 0)
    assert not document.has_path(("a",))
    assert document.is_data
    assert document.is_readable()


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00", b"\x89PNG\r\n\x1a\n\x00", bytes(range(256))])
def test_binary_data_is_one_problem(data: bytes) -> None:
    document = read_bytes(data)
    assert kinds(document) == ["not-text"]
    assert document.value() is None
    assert not any(document.is_readable(parser) for parser in ("hjson", "json", "yaml"))


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_bytes_that_are_not_utf8_keep_their_keys(format: str) -> None:
    document = read_bytes(b'{"caf\xe9": 1, "b": 2}', format=format)  # type: ignore[arg-type]
    assert kinds(document)[0] == "invalid-utf8"
    assert document.problems[0].span == TextSpan(5, 6)
    assert document.value() == {"caf\ufffd": 1, "b": 2}
    assert not document.is_readable("yaml" if format == "yaml" else "hjson")


def test_base64_is_read_as_deepspeed_reads_it() -> None:
    encoded = base64.urlsafe_b64encode("{a: '???>>>é'\r}".encode()).decode()
    assert read_base64(encoded).value() == {"a": "???>>>é"}
    assert kinds(read_base64("{}{"))[-1:] == ["not-text"] or not read_base64("{}{").is_readable("json")
    for wrong in ("abc", "é", "/w=="):
        assert not read_base64(wrong).is_readable(), wrong


def test_the_suffix_says_what_a_file_is(tmp_path: Path) -> None:
    for name, kind in (("a.yaml", "yaml"), ("a.YML", "yaml"), ("a.json", "json"), ("a", "json")):
        path = tmp_path / name
        path.write_text('{"a": 1e-5}')
        document = read_file(path)
        assert (document.format, document.name) == (kind, str(path))
        assert document.value() == {"a": "1e-5" if kind == "yaml" else 1e-5}
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none.json")


def test_yaml_spans() -> None:
    text = "\ufeffa: 😀\nb: &x\n  c: [1, 2]  # two\n  d: 3\n\n# end\nlist:\n- *x\n- y\n"
    document = read_text(text, format="yaml")
    places = {("a",): "😀", ("b", "c", 1): "2", ("b", "d"): "3", ("list", 0, "d"): "3", ("list", 1): "y"}
    for path, values in places.items():
        assert text[slice(*document.span(path))] == values
    assert text[slice(*document.span(("b",), "key"))] == "b"
    assert text[slice(*document.span(("b",), "entry"))] == "b: &x\n  c: [1, 2]  # two\n  d: 3"
    assert document.text[slice(*document.span(("list", 9)))] == "list"


def test_yaml_continues_after_an_error() -> None:
    document = read_text("a: 1\n\tb: 2\nc: !new 3\nd: !!int x\ne: 5\n", format="yaml")
    assert document.value("yaml") == {"a": 1, "c": "3", "d": "x", "e": 5}
    assert set(kinds(document)) == {"yaml-error"}
    assert not document.is_readable("yaml")


def test_a_plain_file_needs_no_heavy_import() -> None:
    code = (
        "import sys; from dsconfig.document import read_text; read_text('{\"a\": [1]}').value();"
        "heavy = {'yaml', 'dataclasses', 'inspect', 'pydantic', 'dsconfig.document.hjson'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
