"""Which fixes are applied in one pass, and which wait for another one."""

from __future__ import annotations

import json

import dsconfig
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import RemoveKey, RenameKey, SetValue
from dsconfig.document import Document, read_text
from dsconfig.fix.apply_fixes import fix_document
from tests.fix.test_fixer import finding, report_of


def test_fixes_of_neighbors_are_combined() -> None:
    passes: list[str] = []

    def judge(document: Document) -> Report:
        passes.append(document.text)
        value = document.value()
        assert isinstance(value, dict)
        diagnostics = [finding(RemoveKey((key,))) for key in ("a", "b") if key in value]
        return report_of(document, *diagnostics)

    assert fix_document(read_text('{"a": 1, "b": 2}'), judge).text == "{}"
    assert passes == ['{"a": 1, "b": 2}', "{}"]


def test_fixes_of_one_path_wait() -> None:
    passes: list[str] = []

    def judge(document: Document) -> Report:
        passes.append(document.text)
        value = document.value()
        assert isinstance(value, dict)
        diagnostics = [finding(SetValue(("a", "x"), 1))] if value.get("a") == {"x": 0} else []
        return report_of(document, *diagnostics, *([finding(RenameKey(("a",), "b"))] if "a" in value else []))

    assert fix_document(read_text('{"a": {"x": 0}}'), judge).text == '{"b": {"x": 1}}'
    assert passes == ['{"a": {"x": 0}}', '{"a": {"x": 1}}', '{"b": {"x": 1}}']


def test_the_same_data_is_fixed_alike_in_every_format() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": 3, "reduce_scatter": True, "round_robin_gradients": True},
        "optimizer": {"type": "Muon", "params": {"lr": 0.02}},
        "prescale_gradients": True,
        "gradient_predivide_factor": 8,
    }
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in config.items())
    in_json = dsconfig.fix(json.dumps(config), unsafe=True, target="0.19.8").text
    in_yaml = dsconfig.fix(lines, unsafe=True, target="0.19.8", format="yaml").text
    assert read_text(in_json).value() == read_text(in_yaml, format="yaml").value() != config
