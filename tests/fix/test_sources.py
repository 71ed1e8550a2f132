"""Sources that `fix` accepts, and how its result describes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.fix.test_fixer import MIXED, SAFE


def test_the_result_says_what_was_fixed(tmp_path: Path) -> None:
    file = tmp_path / "ds_config.json"
    file.write_text(MIXED)
    for source, kind, name in (
        (str(file), "file", str(file)),
        (file, "file", str(file)),
        (MIXED, "text", "<text>"),
        (MIXED.encode(), "text", "<bytes>"),
    ):
        fixed = dsconfig.fix(source, target="0.19.8")
        assert (fixed.text, fixed.source, fixed.name) == (SAFE, kind, name)
        assert [diagnostic.code for diagnostic in fixed.applied] == [
            diagnostic.code for diagnostic in fixed.applied if diagnostic.fix
        ]
        assert len(fixed.applied) > 0
        assert fixed.report.target.text == "0.19.8"
    assert file.read_text() == MIXED


@pytest.mark.parametrize("wrap", [dict, dsconfig.Config.from_dict])
def test_data_is_fixed_like_its_text(wrap: Callable[[Any], Any]) -> None:
    fixed = dsconfig.fix(wrap({"train_batch_size": 8, "zero_optimisation": {"stage": 2}}), unsafe=True)
    assert json.loads(fixed.text) == {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    assert fixed.source == "data"


def test_a_missing_file_is_not_read_as_text() -> None:
    with pytest.raises(FileNotFoundError):
        dsconfig.fix("no such text")
