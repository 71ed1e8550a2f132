"""Suppression inside the file: the block, the comments, and what is said of those that silence nothing."""

from __future__ import annotations

from importlib import import_module

import pytest

from dsconfig.check.suppressions import SuppressionResult, apply_suppressions
from dsconfig.core.diagnostic import Diagnostic, Effect, Location
from dsconfig.document import Document, read_dict, read_text
from dsconfig.launch.python.config_dicts import find_python_configs

RULES = {
    "DSC008": "unused-suppression",
    "DSC101": "unknown-key",
    "DSC102": "typo",
    "DSC401": "zero-rule",
}


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("dsconfig.check.rule_selector"), "rule_names_by_code", lambda: RULES)


def diagnostic_at(document: Document, code: str, *path: str | int) -> Diagnostic:
    """Return a diagnostic with this code at the key of a path."""
    span = document.span(path, "key")
    start, end = document.position(span.start), document.position(span.end)
    place = Location(span.start, span.end, start.line, start.column, end.line, end.column)
    return Diagnostic(code, RULES[code], Effect.IGNORED, "it is so", path, location=place)


def suppressed(text: str, *findings: tuple[str, str], format: str = "json") -> SuppressionResult:
    """Suppress diagnostics, each given as a code and a dotted path."""
    document = read_text(text, format="yaml" if format == "yaml" else "json")
    return apply_suppressions(
        document, [diagnostic_at(document, code, *path.split(".")) for code, path in findings]
    )


def codes(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    return [diagnostic.code for diagnostic in diagnostics]


def test_without_suppressions_nothing_changes() -> None:
    result = suppressed('{"a": 1}', ("DSC101", "a"))
    assert (codes(result.kept), result.suppressed, result.unused) == (["DSC101"], (), ())


@pytest.mark.parametrize(
    ("key", "help"),
    [
        ("world_size", "write it as `world-size`"),
        ("modle", "did you mean `model`? If not, remove it"),
        ("unrelated_words", "remove it"),
    ],
)
def test_an_unknown_key_of_the_block_has_a_remedy(key: str, help: str) -> None:
    (unused,) = suppressed(f'{{"$dsconfig": {{"{key}": 8}}}}').unused
    assert unused.help == help


@pytest.mark.parametrize(
    "block",
    [
        "settings",
        "{'ignore': rules}",
        "{'ignore': [rule]}",
        "{'ignore': {'fp16': rules}}",
        "{'target': release}",
    ],
)
def test_a_block_that_a_program_computes_is_not_malformed(block: str) -> None:
    text = f"ds_config = {{'train_batch_size': 8, 'fp16': {{}}, '$dsconfig': {block}}}"
    (config,) = find_python_configs(text, "<x>")
    assert apply_suppressions(config.document, []).unused == ()


@pytest.mark.parametrize("selector", ["DSC101", "dsc101", "DSC1", "DSC", "unknown-key"])
def test_the_block_silences_rules_in_the_whole_file(selector: str) -> None:
    text = f'{{"$dsconfig": {{"ignore": ["{selector}"]}}, "a": 1, "b": {{"c": 2}}}}'
    result = suppressed(text, ("DSC101", "a"), ("DSC101", "b.c"))
    assert (result.kept, codes(result.suppressed), result.unused) == ((), ["DSC101", "DSC101"], ())


def test_the_block_can_speak_of_a_key_and_all_below_it() -> None:
    text = '{"$dsconfig": {"ignore": {"b": ["DSC1"]}}, "a": 1, "b": {"c": 2}, "bc": 3}'
    result = suppressed(text, ("DSC101", "a"), ("DSC101", "b"), ("DSC102", "b.c"), ("DSC101", "bc"))
    assert [d.dotted for d in result.kept] == ["a", "bc"]
    assert [d.dotted for d in result.suppressed] == ["b", "b.c"]


def test_a_dict_may_have_the_block() -> None:
    document = read_dict({"$dsconfig": {"ignore": ["DSC101", "DSC401"]}, "a": 1})
    result = apply_suppressions(document, [Diagnostic("DSC101", "unknown-key", Effect.IGNORED, "", ("a",))])
    assert codes(result.suppressed) == ["DSC101"]
    assert [(d.message, d.location) for d in result.unused] == [
        ("unused suppression `DSC401`: it matches no diagnostic", None)
    ]


COMMENTS = {
    "at the end of the line": '{"a": 1, // dsconfig: ignore[DSC101]\n "b": 2}',
    "before it": '{/* dsconfig: ignore[DSC101] */ "a": 1,\n "b": 2}',
    "alone above": '{\n // dsconfig: ignore[DSC101]\n "a": 1,\n "b": 2}',
    "alone above, with more": "{\n # dsconfig:ignore [ unknown-key ]  it is so\n\n // more\n a: 1\n b: 2}",
    "with other rules": '{"a": 1, // dsconfig: ignore[DSC008, DSC401, DSC1]\n "b": 2}',
}


@pytest.mark.parametrize("text", COMMENTS.values(), ids=COMMENTS)
def test_a_comment_speaks_of_one_line(text: str) -> None:
    result = suppressed(text, ("DSC101", "a"), ("DSC101", "b"))
    assert [d.dotted for d in result.kept] == ["b"]
    assert [d.dotted for d in result.suppressed if d.code == "DSC101"] == ["a"]
    assert result.unused == ()


def test_a_comment_in_yaml() -> None:
    text = "a: 1  # dsconfig: ignore[DSC101]\nb: 2\n# dsconfig: ignore[DSC101]\nc: 3\n"
    result = suppressed(text, ("DSC101", "a"), ("DSC101", "b"), ("DSC101", "c"), format="yaml")
    assert [d.dotted for d in result.kept] == ["b"]


def test_a_comment_for_the_whole_file() -> None:
    result = suppressed(
        '{"a": 1,\n"b": 2}\n# dsconfig: ignore-file[DSC101]', ("DSC101", "a"), ("DSC101", "b")
    )
    assert (result.kept, len(result.suppressed)) == ((), 2)


def test_text_in_a_string_is_no_comment() -> None:
    result = suppressed('{"a": "# dsconfig: ignore[DSC101]"}', ("DSC101", "a"))
    assert codes(result.kept) == ["DSC101"]


def test_what_silences_nothing_is_found_where_it_stands() -> None:
    (first, second) = suppressed(
        '{"$dsconfig": {"ignore": ["DSC101"]},\n"b": 1 // dsconfig: ignore[DSC102]\n}'
    ).unused
    assert first.location is not None
    assert second.location is not None
    assert {(first.location.line, first.path), (second.location.line, second.path)} == {
        (1, ("$dsconfig", "ignore", 0)),
        (2, ()),
    }
    assert {first.message, second.message} == {
        "unused suppression `DSC101`: it matches no diagnostic",
        "unused suppression `DSC102`: it matches no diagnostic",
    }
    assert first.code == second.code == "DSC008"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            '{"ignore": ["unknown-keys"]}',
            "unknown rule `unknown-keys` in a suppression, did you mean `unknown-key`?",
        ),
        ('{"ignore": [""]}', "unknown rule `` in a suppression"),
        ('["DSC101"]', "expected an object with the key `ignore`"),
        ('{"ignroe": []}', "expected one of ignore, consumer, target, world-size"),
        ('{"ignore": "DSC101"}', "expected a list of rules, or an object of such lists by key"),
        ('{"ignore": [101]}', "expected the code or name of a rule"),
        ('{"ignore": {"a": "DSC101"}}', "expected a list of rules"),
    ],
)
def test_a_broken_block_is_told_and_silences_nothing(block: str, message: str) -> None:
    result = suppressed(f'{{"$dsconfig": {block}, "a": 1}}', ("DSC101", "a"))
    assert codes(result.kept) == ["DSC101"]
    (unused,) = result.unused
    assert message in unused.message


@pytest.mark.parametrize("comment", ["dsconfig: ignore", "dsconfig: ignore[]", "dsconfig: ignore-file"])
def test_a_comment_without_rules_silences_nothing(comment: str) -> None:
    result = suppressed(f'{{"a": 1}} // {comment}', ("DSC101", "a"))
    assert codes(result.kept) == ["DSC101"]
    assert [d.message for d in result.unused] == ["this suppression does not name a rule"]


def test_that_finding_can_be_silenced_too() -> None:
    result = suppressed('{"$dsconfig": {"ignore": ["DSC101", "DSC008"]}}')
    assert (codes(result.suppressed), result.unused) == (["DSC008"], ())
