"""Fixing a text: which fixes are safe, which wait for another one, and that fixing ends."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsconfig
from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import (
    Diagnostic,
    Effect,
    Fix,
    Operation,
    RemoveKey,
    RenameKey,
    ReplaceText,
    SetValue,
)
from dsconfig.core.releases import resolve_target
from dsconfig.document import Document, read_text
from dsconfig.fix.apply_fixes import MAX_PASSES, fix_document
from dsconfig.rules import RULES, Rule
from tests.examples import Example, examples

MIXED = """{
  "train_batch_sise": 8, // a typo at the top level is dropped in silence
  "train_micro_batch_size_per_gpu": "4",
  "amp": {"enabled": false},
  "fp16": {"enabled": "true", "loss_scal": 0},
  "zero_optimization": {
    "stage": 3,
    "stage3_prefetch_bucket_size": 15099494.4,
    "reduce_bucket_size": "5e8"
  }
}
"""
SAFE = """{
  "train_batch_sise": 8, // a typo at the top level is dropped in silence
  "train_micro_batch_size_per_gpu": 4,
  "fp16": {"enabled": true, "loss_scale": 0},
  "zero_optimization": {
    "stage": 3,
    "stage3_prefetch_bucket_size": 15099494.4,
    "reduce_bucket_size": 500000000
  }
}
"""


def test_safe_fixes_are_applied_by_default() -> None:
    assert dsconfig.fix(MIXED, target="0.19.8").text == SAFE


def test_unsafe_fixes_are_applied_on_request() -> None:
    text = dsconfig.fix(MIXED, unsafe=True, target="0.19.8").text
    assert text == SAFE.replace("sise", "size").replace("15099494.4", "15099494")
    assert dsconfig.check(text, target="0.19.8").ok


@pytest.mark.parametrize(
    ("text", "consumer", "safe", "unsafe"),
    [
        ('{"train_batch_size": 8,}', "deepspeed", '{"train_batch_size": 8}', None),
        ('{"train_batch_size": 8,, "x": 1}', "deepspeed", '{"train_batch_size": 8, "x": 1}', "{}"),
        ('{"train_batch_size": 8 "fp16": {}}', "deepspeed", '{"train_batch_size": 8, "fp16": {}}', None),
        ('{train_batch_size: 8 // x\n}', "deepspeed", "{train_batch_size: 8 // x\n}", None),
        (
            "{train_batch_size: 8 // x\n}",
            "lightning",
            '{"train_batch_size": 8 // x\n}',
            '{"train_batch_size": 8\n}',
        ),
        ("{'train_batch_size': 8}", "lightning", '{"train_batch_size": 8}', None),
        ("train_batch_size: 8\n", "lightning", '{\n"train_batch_size": 8\n}\n', None),
        ('\ufeff{"train_batch_size": 8}', "lightning", '{"train_batch_size": 8}', None),
        (
            '{"train_batch_size": 8, "train_batch_size": 8}',
            "deepspeed",
            '{"train_batch_size": 8}',
            None,
        ),
        (
            '{"train_batch_size": 9, "train_batch_size": 8}',
            "deepspeed",
            '{"train_batch_size": 9, "train_batch_size": 8}',
            '{"train_batch_size": 8}',
        ),
    ],
)  # fmt: skip
def test_the_text_itself(text: str, consumer: str, safe: str, unsafe: str | None) -> None:
    assert dsconfig.fix(text, target="0.19.8", consumer=consumer).text == safe
    if unsafe is not None and unsafe != "{}":
        assert dsconfig.fix(text, unsafe=True, target="0.19.8", consumer=consumer).text == unsafe


@pytest.mark.parametrize("word", ["True,", "hello, world", "none"])
def test_ambiguous_words_are_not_fixed(word: str) -> None:
    text = f'{{"train_batch_size": 8,\n"job": {word}\n}}'
    assert dsconfig.fix(text, target="0.19.8", consumer="lightning", unsafe=False).text == text


def test_old_names_are_renamed() -> None:
    text = """{"train_batch_size": 8, "bfloat16": {"enabled": true},
 "zero_optimization": {"stage": 2, "cpu_offload": true, "stage3_gather_fp16_weights_on_model_save": true}}"""
    assert json.loads(dsconfig.fix(text, target="0.19.8").text) == {
        "train_batch_size": 8,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 2,
            "offload_optimizer": {"device": "cpu"},
            "stage3_gather_16bit_weights_on_model_save": True,
        },
    }


def test_a_comment_that_would_be_lost_makes_a_fix_unsafe() -> None:
    bare = '{"train_batch_size": 8, "amp": {"enabled": false}}'
    kept = '{"train_batch_size": 8, "amp": {"enabled": false // since the upgrade\n}}'
    assert dsconfig.fix(bare, target="0.19.8").text == '{"train_batch_size": 8}'
    assert dsconfig.fix(kept, target="0.19.8").text == kept
    assert dsconfig.fix(kept, unsafe=True, target="0.19.8").text == '{"train_batch_size": 8}'


def test_safe_means_safe_in_every_release_of_a_range() -> None:
    text = '{"train_batch_size": 8, "fp16": {"enabled": true, "loss_scal": 0}}'
    assert "loss_scale" in dsconfig.fix(text, target="0.19.8").text
    assert dsconfig.fix(text, target=">=0.14,<=0.19.8").text == text


def test_suppressed_diagnostics_are_not_fixed() -> None:
    text = '{"train_batch_size": 8, "prescale_gradients": 1, "$dsconfig": {"ignore": ["DSC113"]}}'
    assert dsconfig.fix(text, target="0.19.8").text == text


def test_a_fix_that_would_empty_the_file_waits_for_the_others() -> None:
    text = "no_key_a: 1\nno_key_b: 2\nno_key_c: 3\n"
    assert dsconfig.fix(text, unsafe=True, target="0.19.8", format="yaml").text == "{}\n"


def test_unknown_formats_are_named() -> None:
    with pytest.raises(ValueError, match="expected json or yaml"):
        dsconfig.fix("a: 1\n", format="toml")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[1]", "\0\1", "{" * 300, "{{ batch }}", '{"a": 1' + "0" * 5000 + "}"])
def test_hopeless_texts_stay_unchanged(text: str) -> None:
    assert dsconfig.fix(text + "\n", unsafe=True).text == text + "\n"


# -- the engine, with findings made by hand ----------------------------------------------------------------


def finding(*operations: Operation, safe: bool = True) -> Diagnostic:
    return Diagnostic(
        "DSC101", "x", Effect.IGNORED, "x", releases=("0.19.8",), fix=Fix("x", operations, safe)
    )


def report_of(document: Document, *diagnostics: Diagnostic) -> Report:
    return Report("x", resolve_target("0.19.8"), "deepspeed", None, diagnostics, document=document)


def test_fixes_that_undo_each_other_end() -> None:
    def judge(document: Document) -> Report:
        value = document.value()
        assert isinstance(value, dict)
        return report_of(
            document, finding(RenameKey(("a",), "b") if "a" in value else RenameKey(("b",), "a"))
        )

    assert fix_document(read_text('{"a": 1}'), judge).text == '{"b": 1}'


def test_endless_fixes_are_stopped() -> None:
    def judge(document: Document) -> Report:
        value = document.value()
        assert isinstance(value, dict)
        return report_of(document, finding(SetValue(("a",), value["a"] + 1)))

    assert fix_document(read_text('{"a": 0}'), judge).text == f'{{"a": {MAX_PASSES}}}'


def test_an_edit_with_another_value_is_not_applied() -> None:
    document = read_text('{"a": 1}')
    wrong = finding(ReplaceText(6, 7, "2"))
    assert fix_document(document, lambda _: report_of(document, wrong)).text == document.text


def test_operations_of_one_fix_follow_each_other() -> None:
    text = '{"a": 1, "b": 2}'

    def judge(document: Document) -> Report:
        steps = (RenameKey(("a",), "c"), SetValue(("c",), 3), RemoveKey(("b",)))
        return report_of(document, *([finding(*steps)] if document.text == text else []))

    assert fix_document(read_text(text), judge).text == '{"c": 3}'


# -- what pages promise ------------------------------------------------------------------------------------

FIXED = [(rule, example) for rule in RULES.values() for example in examples(rule) if example.kind == "Fixed"]


def _name(value: object) -> str:
    return value.code if isinstance(value, Rule) else ""


@pytest.mark.parametrize(("rule", "fixed"), FIXED, ids=_name)
def test_the_fix_turns_a_bad_example_into_the_fixed_one(rule: Rule, fixed: Example) -> None:
    bad = [example for example in examples(rule) if example.kind == "Bad"]
    results = [json.loads(_mended_by(rule, example)) for example in bad]
    assert json.loads(fixed.text) in results


def _mended_by(rule: Rule, example: Example) -> str:
    """The example's text after the fixes of this rule alone."""
    target = resolve_target(example.target)

    def judge(document: Document) -> Report:
        report = check_document(document, target, world_size=example.world_size, consumer=example.consumer)
        return report.copy_with(
            diagnostics=tuple(diagnostic for diagnostic in report if diagnostic.code == rule.code)
        )

    text = fix_document(read_text(example.text), judge, unsafe=True).text
    return text if read_text(text).is_readable("json") else "null"


# -- anything at all ---------------------------------------------------------------------------------------

BAD = [example.text for rule in RULES.values() for example in examples(rule) if example.kind == "Bad"]
TEXTS = st.sampled_from(BAD) | st.builds(
    lambda one, other: one.rstrip()[:-1] + ", // both\n" + other.lstrip()[1:],
    st.sampled_from(BAD),
    st.sampled_from(BAD),
)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from(["0.19.8", "0.14.5", "0.8.0"]))
def test_a_second_run_changes_nothing(text: str, unsafe: bool, release: str) -> None:
    def judge(document: Document) -> Report:
        return check_document(document, resolve_target(release))

    once = fix_document(read_text(text), judge, unsafe=unsafe)
    assert fix_document(read_text(once.text), judge, unsafe=unsafe).text == once.text
    assert len(once.applied) or once.text == text
    if not unsafe:
        kept = Counter(words.strip() for _, words in read_text(once.text).comments)
        assert not Counter(words.strip() for _, words in read_text(text).comments) - kept
    document = read_text(text)
    # What a duplicate key hides is seen only once that is gone (`dsconfig.fix.verify_fixes.trial`).
    if document.is_readable() and not any(problem.rejected_by for problem in document.problems):
        new = Counter(diagnostic.code for diagnostic in once.report) - Counter(
            diagnostic.code for diagnostic in judge(read_text(text))
        )
        assert not new, "a fix that brings a finding is withdrawn"


def test_a_fix_that_introduces_a_diagnostic_is_withdrawn() -> None:
    """Naming the stage would lay open that the section's old key is refused there."""
    text = '{"train_batch_size": 8, "zero_optimization": true, "allgather_size": -1}'
    report = check_document(read_text(text), resolve_target("0.19.8"))
    assert any(diagnostic.code == "DSC140" and diagnostic.fix is not None for diagnostic in report)
    assert dsconfig.fix(text, unsafe=True, target="0.19.8").text == text


@pytest.mark.parametrize(
    ("text", "target", "world_size", "path"),
    [
        # A rule of several keys speaks only once the fix is made.
        ('{"train_batch_size": 8, "zero_optimization": true, "allgather_size": -1}', "0.19.8", None, ()),
        ('{"train_batch_size": 8, "offload_param": {"device": "cpu"}}', "0.19.8", None, ("offload_param",)),
        # Fewer world sizes work than before: at 8 ranks the config is refused then.
        ('{"train_batch_size": 8, "train_micro_batch_size": 4}', "0.19.8", None, ("train_micro_batch_size",)),
        ('{"train_batch_size": 8, "train_micro_batch_size": 4}', "0.19.8", 8, ("train_micro_batch_size",)),
    ],
)  # fmt: skip
def test_a_harmful_fix_is_not_offered(
    text: str, target: str, world_size: int | None, path: tuple[str, ...]
) -> None:
    plain = check_document(read_text(text), resolve_target(target), world_size=world_size)
    assert any(diagnostic.fix is not None and diagnostic.path[: len(path)] == path for diagnostic in plain)
    for source in (text, json.loads(text)):
        report = dsconfig.check(source, target=target, world_size=world_size)
        for diagnostic in report:
            if diagnostic.path[: len(path)] == path:
                assert diagnostic.fix is None, diagnostic.fix
                assert diagnostic.help, "what it would have done is said in words"
    fixed = dsconfig.fix(text, unsafe=True, target=target, world_size=world_size).text
    assert json.loads(text).items() <= json.loads(fixed).items()


def test_a_fix_that_waited_for_a_withdrawn_one_is_applied() -> None:
    text = "train_batch_size: 8\nautotuning:\n    scheduler:\n        type: Adam\ncompile: {disable: true}\n"
    fixed = dsconfig.fix(text, unsafe=True, target="0.12.3", consumer="transformers", format="yaml").text
    assert "scheduler" in fixed, "moved, it would want its arguments"
    assert "compile" not in fixed


def test_a_verified_fix_is_offered() -> None:
    text = '{"train_batch_size": 8, "train_micro_batch_size": 4}'
    (diagnostic,) = dsconfig.check(text, target="0.19.8", world_size=2)
    assert diagnostic.fix is not None
    assert diagnostic.fix.title == "rename to `train_micro_batch_size_per_gpu`"


def test_a_fix_is_marked_safe_for_its_releases_and_comments() -> None:
    text = '{"train_batch_size": 8, "amp": {"enabled": false // why\n}}'
    marks = [
        diagnostic.fix.safe
        for diagnostic in dsconfig.check(text, target="0.19.8")
        if diagnostic.code == "DSC104" and diagnostic.fix
    ]
    assert marks == [False]


def test_many_fixes_are_verified_together() -> None:
    text = json.dumps({"train_batch_size": 8, **{f"nobody_knows_{i}": i for i in range(900)}})
    report = dsconfig.check(text, target="0.19.8")
    assert sum(diagnostic.fix is not None for diagnostic in report) == 900


def test_duplicates_of_one_key_are_one_diagnostic() -> None:
    text = '{\n  "train_batch_size": 1,\n  "train_batch_size": 2,\n  "train_batch_size": 8\n}\n'
    messages = [each.message for each in dsconfig.check(text, target="0.19.8") if each.code == "DSC003"]
    assert messages == ["`train_batch_size` occurs 3 times in one object: DeepSpeed rejects the file"]
    assert dsconfig.fix(text, unsafe=True, target="0.19.8").text == '{\n  "train_batch_size": 8\n}\n'
    one_line = (
        '{"train_batch_size": 1,\n "train_batch_size": 2, "train_batch_size": 3, "train_batch_size": 8}'
    )
    assert read_text(dsconfig.fix(one_line, unsafe=True).text).value() == {"train_batch_size": 8}
