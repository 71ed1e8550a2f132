"""The corner cases of the rules hold, and their files are in order: see `tests.cases`."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from dsconfig.rules import RULES
from tests.cases import KNOWN, Case, cases, files, place, read
from tests.cases.__main__ import laid_out, rewrite
from tests.cases.words import difference, found, verdicts
from tests.parity.crashes import Crash
from tests.parity.crashes import load as crashes

CASES = list(cases())
NEEDED = {"name", "why", "target", "finds"}
OPTIONAL = {"world_size", "consumer", *KNOWN}
CRASH_NEEDED = {"name", "release", "raises", "bad", "steps"}
CRASH_OPTIONAL = {"good", "torch_adam", "compile"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_case(case: Case) -> None:
    finds = found(case)
    differs = json.dumps(finds) != json.dumps(case.finds)  # As text, because True == 1.
    if differs:
        is_wrong = verdicts(finds) != verdicts(case.finds)
        advice = (
            "the verdict differs" if is_wrong else "the words differ: run `make cases`, and read the diff"
        )
        pytest.fail(f"{case.entry['why']}\n{advice}\n{difference(case.finds, finds)}", pytrace=False)


def test_difference_shows_what_a_reader_sees() -> None:
    expected = {"path": "fp16", "effect": "ignored", "message": "it is off", "help": "remove it"}
    fixed = {"fix": {"title": "remove `fp16`", "safe": True, "gives": {"a": True}}}
    assert difference([expected], [expected]) == ""
    assert difference([expected], [{**expected, "help": "turn it on"} | fixed]).split("\n")[3:] == [
        " fp16: ignored",
        "   message: it is off",
        "-  help: remove it",
        "+  help: turn it on",
        "+  fix (safe): remove `fp16`",
        "+    {",
        '+      "a": true',
        "+    }",
    ]
    one = {**expected, "fix": {**fixed["fix"], "gives": {"a": 1}}}
    assert "true" in difference([expected | fixed], [one]), "True == 1, but they differ"


@pytest.mark.parametrize("crash", crashes(), ids=lambda crash: crash.name)
def test_crash_is_predicted(crash: Crash) -> None:
    assert crash.disagreement() is None


def test_every_rule_has_its_file_and_no_other_file_is_there() -> None:
    assert set(files()) == {place(rule) for rule in RULES.values()}
    assert all(read(path)["cases"] for path in files())


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_file_is_well_formed(path: Path) -> None:
    content = read(path)
    assert path.read_text("utf-8") == laid_out(content), "run `make cases`"
    assert set(content) <= {"cases", "crashes"}
    for entries in content.values():
        names = [entry["name"] for entry in entries]
        assert len(set(names)) == len(names)
    for entry in content["cases"]:
        assert set(entry) - OPTIONAL in (NEEDED | {"config"}, NEEDED | {"text"}), entry["name"]
    for entry in content.get("crashes", ()):
        assert set(entry) - CRASH_OPTIONAL == CRASH_NEEDED, entry["name"]


def test_words_are_rewritten_and_verdicts_are_not() -> None:
    path = place(RULES["DSC112"])
    content = read(path)
    worded, judged = deepcopy(content), deepcopy(content)
    for entry in worded["cases"]:
        entry["finds"] = [{"path": each["path"], "effect": each["effect"]} for each in entry["finds"]]
    assert rewrite(path.stem, worded) == []
    assert worded == content
    judged["cases"][0]["finds"][0]["effect"] = "deprecated"
    assert len(rewrite(path.stem, judged)) == 1
    assert judged["cases"][0]["finds"][0]["effect"] == "deprecated"
    assert judged["cases"][1:] == content["cases"][1:]
