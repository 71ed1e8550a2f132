"""A rule that is left out for what it asks first would have found nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dsconfig.evaluation.evaluate import _find_applicable_rules
from dsconfig.evaluation.rule import RULES, Rule
from tests.cases import cases


@contextmanager
def all_run() -> Iterator[None]:
    """Every rule runs, whatever it asks for."""
    before = dict(RULES)
    RULES.update({code: rule._replace(triggers=None, consumers=None) for code, rule in before.items()})
    _find_applicable_rules.cache_clear()
    yield
    RULES.update(before)
    _find_applicable_rules.cache_clear()


def test_cases_are_judged_as_if_every_rule_ran() -> None:
    some = list(cases())[::4]
    alone = {case.label: list(case.check()) for case in some}
    assert any(alone.values())
    with all_run():
        assert {case.label: list(case.check()) for case in some} == alone


def test_few_rules_have_to_run_always() -> None:
    always = {
        rule.code
        for rule in RULES.values()
        if rule.triggers is None
        and rule.reads not in ("launch file", "job", "hostfile", "program", "inference config")
    }
    assert always == {"DSC201", "DSC930"}, "a rule asks first for the key that it is about"


def test_rules_for_some_consumers_are_left_out_for_the_others() -> None:
    only_for = {code: rule.consumers for code, rule in RULES.items()}
    assert only_for["DSC829"] == ("transformers",), "it asks for the training arguments of a Trainer"
    assert only_for["DSC803"] == ("lightning",)
    assert only_for["DSC813"] == ("transformers", "accelerate")
    assert only_for["DSC201"] is None
    assert RULES["DSC829"].triggers == ("<arguments>",)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code if isinstance(rule, Rule) else "")
def test_the_index_says_what_the_rule_declares(rule: Rule) -> None:
    declared = rule.declared
    effect, module = declared.effect, declared.check.__module__
    assert rule[:7] == (rule.code, declared.name, effect, *declared[3:7])
    assert rule.module == module
