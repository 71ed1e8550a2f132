"""The pages of the rules cannot lie: every example in them is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dsconfig import model
from dsconfig.rules import RULES, Rule
from tests.examples import Example, examples

ALL = [(rule, example) for rule in RULES.values() for example in examples(rule)]
# Pages whose example is not a text: the suppression that nothing needs, bytes, calls of a Python program, a hostfile.
NO_BAD_EXAMPLE = {
    "DSC004",
    "DSC006",
    "DSC008",
    "DSC009",
    "DSC809",
    "DSC814",
    "DSC816",
    "DSC844",
    "DSC850",
    "DSC859",
    "DSC861",
    "DSC862",
    "DSC869",
    "DSC870",
    "DSC873",
    "DSC875",
    "DSC888",
    "DSC889",
    "DSC929",
    "DSC883",
    "DSC884",
    "DSC927",
} | {code for code, rule in RULES.items() if rule.module.endswith("_calls")}


def _name(value: object) -> str:
    return f"{value.code}" if isinstance(value, Rule) else value.kind if isinstance(value, Example) else ""


@pytest.mark.parametrize(("rule", "example"), ALL, ids=_name)
def test_example_does_what_its_page_says(rule: Rule, example: Example) -> None:
    codes = {diagnostic.code for diagnostic in example.check()}
    assert (rule.code in codes) == (example.kind == "Bad"), example


@pytest.mark.parametrize("rule", RULES.values(), ids=_name)
def test_page_is_complete(rule: Rule) -> None:
    kinds = [example.kind for example in examples(rule)]
    assert "Bad" in kinds or rule.code in NO_BAD_EXAMPLE
    assert "Good" in kinds
    assert re.fullmatch(r"DSC[0-9]{3}", rule.code)
    assert rule.title.endswith(".")


@pytest.mark.parametrize(("rule", "example"), ALL, ids=_name)
def test_findings_are_well_said(rule: Rule, example: Example) -> None:
    for diagnostic in example.check():
        assert not diagnostic.message.endswith("."), diagnostic.message
        assert diagnostic.message[0].islower() or diagnostic.message[0] == "`", diagnostic.message
        assert diagnostic.message.count("`") % 2 == 0
        assert "\n" not in diagnostic.message


def test_good_configs_of_pages_are_json() -> None:
    for _, example in ALL:
        if example.kind != "Bad":
            json.loads(example.text)


def test_domains_bear_the_words_of_the_model() -> None:
    domains = {rule.check.__module__.split(".")[2] for rule in RULES.values()}
    files = {path.stem for path in Path(str(model.__file__)).parent.iterdir()}
    of_no_section = {"document_content", "document_syntax", "consumers", "advisories"}
    of_no_section |= {"key_lifecycle", "top_level_keys", "unknown_keys", "value_types"}
    parts_of_section = {
        "data_routing",
        "data_sampling",
        "learning_rate",
        "offload",
        "zenflow",
        "zenflow_intervals",
    }
    assert domains - files == of_no_section | parts_of_section
