"""Changes described in CONTRIBUTING.md and on the site, made in a copy of the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.core.releases import LATEST
from dsconfig.rules import RULES
from schema.add_release import add_release_to_source
from tests.readme import blocks
from tests.repository_copy import Copy

ROOT = Path(__file__).resolve().parents[2]
SERIES, _, PATCH = LATEST.rpartition(".")
NEWEST = f"{SERIES}.{int(PATCH) + 1}"
CONFIG = {"train_batch_size": 8}


CODE = next(f"DSC{number}" for number in range(900, 1000) if f"DSC{number}" not in RULES)
KEY = f'''    quiet_start: Annotated[
        bool,
        Key(since="{LATEST}", source="runtime/config.py:get_quiet_start", miswritten=("silent_start",)),
    ] = False
    """Log nothing before the first step."""
'''
SECTION = f'''"""Warm start from the state of another run."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key
from dsconfig.model.section import RootKeys, Section


class WarmStart(Section):
    """Warm start from the state of another run."""

    SOURCE = "runtime/config.py:get_warm_start"

    enabled: Annotated[bool, Key(since="{LATEST}")] = False
    """Load the state of another run."""


class WarmStartKeys(RootKeys):
    """The root key of warm starts."""

    warm_start: Annotated[WarmStart, Key(since="{LATEST}")] = Field(default_factory=WarmStart)
    """Warm start from another run."""
'''
EXAMPLE = {
    block.file: block.text
    for block in blocks((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    if block.file is not None
}
"""The files of the example rule in CONTRIBUTING.md."""
RULE, CASES = EXAMPLE.values()
MESSAGE = "`dataloader_drop_last` is `true`: the last, incomplete batch of each epoch is not used"
HELP = "choose a batch size that divides the data set"
ENGINE, WARM_START = "dsconfig/model/engine.py", "dsconfig/model/warm_start.py"
DATA, DATA_CASES = (name.replace("DSC999", CODE) for name in EXAMPLE)
RELEASES = "dsconfig/core/releases.py"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A repository with one new key, section, rule and release, and no other edits."""
    copy = Copy(tmp_path_factory.mktemp("repository"))
    copy.run("schema.add_release", NEWEST)
    assert copy.by_hand() == {RELEASES}, "`make census` adds the release"
    removed = 'dump_state: Annotated[bool, Key(since="0.1.0"'
    copy.edit(ENGINE, removed, f'{removed}, until="{LATEST}"')
    copy.edit(ENGINE, "    dump_state: Annotated", f"{KEY}    dump_state: Annotated")
    copy.write(WARM_START, SECTION)
    copy.write(DATA, RULE.replace("DSC999", CODE))
    copy.write(DATA_CASES, CASES)
    copy.run("schema.generate")
    copy.run("tests.cases")
    assert copy.by_hand() == {RELEASES, ENGINE, WARM_START, DATA, DATA_CASES}
    return copy


def test_generating_once_is_enough(copy: Copy) -> None:
    assert copy.run("schema.generate", "--check") == ""


def test_a_key_is_one_field(copy: Copy) -> None:
    assert copy.diagnostics({**CONFIG, "quiet_start": True}, NEWEST) == []
    codes = [code for code, *_ in copy.diagnostics({**CONFIG, "quiet_start": True}, "0.9.5")]
    # DSC883: the repository pins versions of PyTorch, pydantic and NumPy that 0.9.5 cannot be imported with.
    assert [code for code in codes if code != "DSC883"] == ["DSC105"]
    assert copy.diagnostics({**CONFIG, "quiet_strat": True}, NEWEST)[0][2] == "did you mean `quiet_start`?"
    assert copy.diagnostics({**CONFIG, "silent_start": True}, NEWEST)[0][2] == "use `quiet_start` instead"
    assert "Log nothing before the first step." in copy.run("dsconfig", "explain", "quiet_start")
    assert "quiet_start" in copy.schema("deepspeed.json")["properties"]


def test_a_section_is_one_file(copy: Copy) -> None:
    assert copy.diagnostics({**CONFIG, "warm_start": {"enabled": True}}, NEWEST) == []
    assert (
        copy.diagnostics({**CONFIG, "warm_start": {"enabld": True}}, NEWEST)[0][2]
        == "did you mean `enabled`?"
    )
    built = "dsconfig.Config(warm_start=dsconfig.WarmStart(enabled=True)).to_dict()"
    copy.write("built.py", f"import dsconfig\nprint({built})\n")
    assert copy.run("built") == "{'warm_start': {'enabled': True}}\n"
    assert "WarmStart" in copy.schema("deepspeed.json")["definitions"]


def test_a_rule_is_its_function_and_its_cases(copy: Copy) -> None:
    assert MESSAGE in (copy.folder / DATA_CASES).read_text("utf-8")
    assert copy.diagnostics({**CONFIG, "dataloader_drop_last": True}, NEWEST) == [(CODE, MESSAGE, HELP)]
    name = "incomplete-batch-dropped"
    assert copy.run("dsconfig", "explain", name).startswith(f"{CODE} {name}")
    assert CODE in json.dumps(copy.schema("dsconfig.json"))


def test_a_release_is_the_fields_that_it_changes(copy: Copy) -> None:
    assert copy.diagnostics({**CONFIG, "dump_state": True}, LATEST) == []
    ((code, message, _),) = copy.diagnostics({**CONFIG, "dump_state": True}, NEWEST)
    assert code == "DSC104"
    assert f"after {LATEST}" in message
    assert "dump_state" in copy.schema(f"deepspeed-{LATEST}.json")["properties"]


def test_the_copy_passes_its_own_tests(copy: Copy) -> None:
    chosen = f"quiet_start or warm_start or WarmStart or table or {CODE} or every_rule or domains"
    files = ("tests/model/test_keys.py", "tests/rules/test_cases.py", "tests/rules/test_rule_pages.py")
    copy.run("pytest", "-p", "no:cacheprovider", *files, "-k", chosen)


def test_no_test_depends_on_the_newest_release(copy: Copy) -> None:
    """Tests about the newest release pass in a copy that has a newer one."""
    files = ("tests/cli/test_schema.py", "tests/cli/test_compat.py", "tests/cli/test_migrate.py")
    presets = "tests/schema/test_presets.py::test_wrong_use_is_one_line"
    copy.run("pytest", "-p", "no:cacheprovider", *files, "tests/check/test_check.py", presets)


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ("0.19.8", '    ("0.19", "0 1 8"),'),
        ("0.19.1", '    ("0.19", "0 1"),'),
        ("0.20.0", '    ("0.20", "0"),'),
    ],
)
def test_a_release_is_listed_once(release: str, line: str) -> None:
    text = add_release_to_source('_SERIES = (\n    ("0.19", "0 1"),\n)\nRELEASES = 1\n', release)
    assert text.count(line) == 1
    assert add_release_to_source(text, release) == text
