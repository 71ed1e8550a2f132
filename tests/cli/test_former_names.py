"""Former names of rules: each selects the rule that bears its current name, wherever a name is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.check.rule_selector import expand_selectors, rule_names_by_code, rules_matching_selector
from dsconfig.rules import FORMER_NAMES

from .conftest import Runs

TYPO = '{"train_batch_size": 8, "gradient_clipp1ng": 1.0}'


def test_former_names_are_not_current_names() -> None:
    names = set(rule_names_by_code().values())
    assert not names & FORMER_NAMES.keys()
    assert names >= set(FORMER_NAMES.values())


@pytest.mark.parametrize(("former", "current"), FORMER_NAMES.items())
def test_former_name_selects_the_same_rule(run: Runs, former: str, current: str) -> None:
    rules = rule_names_by_code()
    assert rules_matching_selector(former, rules) == rules_matching_selector(current, rules)
    assert len(expand_selectors((former,), rules, "--select")) == 1
    assert run("explain", former) == run("explain", current)
    assert f"Former name: {former}" in run("explain", current).out
    assert run("rules", former) == run("rules", current)


def test_options_and_settings_accept_a_former_name(run: Runs, here: Path) -> None:
    (here / "ds_config.json").write_text(TYPO)
    assert "[DSC102] typo" in run("check", "ds_config.json", "--select", "misspelt-key").out
    assert run("check", "ds_config.json", "--ignore", "misspelt-key").code == 0
    (here / "dsconfig.toml").write_text('ignore = ["misspelt-key"]\n')
    assert run("check", "ds_config.json").code == 0


@pytest.mark.parametrize(
    "text",
    [
        f'{{"$dsconfig": {{"ignore": ["misspelt-key"]}}, {TYPO[1:]}',
        f'{{"$dsconfig": {{"ignore": {{"gradient_clipp1ng": ["misspelt-key"]}}}}, {TYPO[1:]}',
        f"// dsconfig: ignore-file[misspelt-key]\n{TYPO}",
        f"{TYPO[:-1]} // dsconfig: ignore[misspelt-key]\n}}",
    ],
)
def test_ignores_in_the_file_accept_a_former_name(run: Runs, here: Path, text: str) -> None:
    (here / "ds_config.json").write_text(text)
    result = run("check", "ds_config.json", "--select", "DSC102,DSC008", "--output-format", "json")
    assert json.loads(result.out)["files"][0]["diagnostics"] == []
