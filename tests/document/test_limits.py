"""Hostile texts end in a problem, in bounded time and memory."""

from __future__ import annotations

import resource
import time

import pytest

from dsconfig.core.file_access import MAX_SIZE
from dsconfig.document import MAX_DEPTH, MAX_VALUES, read_bytes, read_text

N = 100_000
JSON = {
    "deep lists": ("[" * N, "too-deep"),
    "deep closed lists": ("[" * N + "]" * N, "too-deep"),
    "deep objects": ('{"a":' * N, "too-deep"),
    "values": ("[" + "1," * MAX_VALUES + "1]", "too-large"),
    "keys": ("{" + ",".join(f'"k{number}":1' for number in range(N)) + "}", "too-large"),
    "comments": ("{" + "#\n" * N + "}", "too-large"),
    "integer": ('{"a": ' + "9" * N + "}", "huge-number"),
    "float": ('{"a": ' + "9" * N + ".0}", "huge-number"),
    "commas": ('{"a": 1' + "," * N, "unexpected"),
    "brackets": ('{"a": 1' + "]" * N, "unexpected"),
    "ends and an entry": ('{"a": 1' + "}" * N + '"b": 1}', "unexpected"),
    "colons": ('{"a": ' + ":" * N, "unexpected"),
    "quotes": ('{"a": ' + '"' * N, "missing-colon"),
    "single quotes": ('{"a": ' + "'" * N, "single-quotes"),
    "open templates": ('{"a": ' + "{{" * N, "unexpected"),
    "open placeholders": ('{"a": ' + "${" * N, "unexpected"),
    "keys only": ("{" + '"a" ' * N, "missing-colon"),
    "control characters": ('{"a": "' + "\x01" * N, "control-character"),
    "bare word": ('{"a": ' + "x" * N + "}", "unquoted-string"),
    "spaces": ('{"a": 1' + " " * N, "unclosed"),
}
YAML = {
    "deep lists": ("[" * N, "too-deep"),
    "deep blocks": ("- " * N, "too-deep"),
    "deep keys": ("? " * N, "too-deep"),
    "values": ("a: 1\n" * N, "too-large"),
    "comments": ("#\n" * N, "too-large"),
    "aliases": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "alias-bomb",
    ),
    "alias in itself": ("a: &a [*a]", "alias-bomb"),
    "alias in itself behind an error": ("a: - 1, 2]\nc: &x {d: *x}\n", "alias-bomb"),
    "integer": ("a: " + "9" * N, "huge-number"),
    "base sixty": ("a: 1" + ":1" * N, "huge-number"),
    "errors": ("a: b: c\n" * N, "yaml-error"),
}


@pytest.mark.parametrize(
    ("format", "text", "kind"),
    [
        pytest.param(language, text, kind, id=f"{language} {name}")
        for language, cases in (("json", JSON), ("yaml", YAML))
        for name, (text, kind) in cases.items()
    ],
)
def test_hostile_text_is_a_problem(format: str, text: str, kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    document = read_text(text, format=format)  # type: ignore[arg-type]
    assert kind in [problem.kind for problem in document.problems]
    repr(document.span(("a",)))
    assert not document.is_readable("yaml" if format == "yaml" else "hjson")
    assert time.process_time() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_an_overlong_text_is_not_parsed() -> None:
    for document in (read_bytes(b" " * (MAX_SIZE + 1)), read_text("é" * (MAX_SIZE + 1), format="yaml")):
        assert [problem.kind for problem in document.problems] == ["too-large"]
        assert document.value() is None


def test_the_limits_themselves_are_read() -> None:
    deep = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    for text in (f'{{"a": {deep}}}', f"{{a: {deep}}}"):
        assert read_text(text).is_readable()
        assert read_text(text.replace("[]", "[[]]")).problems[-1].kind == "too-deep"
    wide = '{"a": [' + "1," * (MAX_VALUES - 3) + "1]}"
    assert read_text(wide).root is not None
    assert read_text("#\n" + wide).is_readable()
