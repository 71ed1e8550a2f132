"""Advice can be followed as it is written, in the format of the file; "here" is where something stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.wording import numbers_for_yaml
from dsconfig.document import read_text
from tests.cases import Case, cases


def _of_configs() -> Iterator[tuple[Case, Any, list[Diagnostic]]]:
    for case in cases():
        if "config" in case.entry:
            yield case, case.entry["config"], list(case.check())


def _has(data: Any, path: tuple[str | int, ...]) -> bool:
    try:
        reduce(getitem, path, data)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def test_no_label_says_here_of_a_key_that_is_absent() -> None:
    wrong = [
        (case.label, found.code, other.message)
        for case, data, diagnostics in _of_configs()
        for found in diagnostics
        for other in found.related
        if not _has(data, other.path)
    ]
    assert wrong == []


def test_absent_factors_of_a_batch_are_not_labelled() -> None:
    text = '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}'
    (found,) = [
        each
        for each in check(text, target="0.19.8", world_size=8, consumer="accelerate")
        if each.code == "DSC202"
    ]
    assert [each.path for each in found.related] == [("train_micro_batch_size_per_gpu",)]


_LITERAL = re.compile(r"`(-?[\d.]+(?:e[-+]?\d+)?)`")


@pytest.mark.parametrize("value", ["6e-05", "1e-5", "3e16", "1.5e7", "5e8", "2e-5"])
@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_number_that_is_to_be_written_is_one_in_yaml(tmp_path: Path, value: str, quote: str) -> None:
    text = (
        "train_batch_size: 8\n"
        f"optimizer: {{type: AdamW, params: {{lr: {quote}{value}{quote}}}}}\n"
        f"gradient_clipping: {quote}{value}{quote}\n"
    )
    (tmp_path / "ds.yaml").write_text(text)
    diagnostics = [found for found in check(tmp_path / "ds.yaml", target="0.19.8") if found.code == "DSC115"]
    assert len(diagnostics) == 2
    for found in diagnostics:
        assert found.help is not None
        assert found.fix is not None
        for said in (found.help, found.fix.title):
            (number,) = _LITERAL.findall(said)
            assert read_text(f"a: {number}", format="yaml").value() == {"a": float(value)}
        assert ("quotes" in found.help) == bool(quote)


def test_every_number_of_every_help_is_one_in_yaml() -> None:
    numbers = {
        number
        for _, _, diagnostics in _of_configs()
        for found in diagnostics
        for number in _LITERAL.findall(numbers_for_yaml(found.help or ""))
    }
    assert len(numbers) > 20
    for number in numbers:
        assert read_text(f"a: {number}", format="yaml").value() == {"a": json.loads(number)}


ARGUMENTS = {
    "gradient_clipping": ("--max_grad_norm 1.0", 0.5, "pass `--max_grad_norm 0.5`"),
    "train_micro_batch_size_per_gpu": (
        "--per_device_train_batch_size 2",
        4,
        "pass `--per_device_train_batch_size 4`",
    ),
    "optimizer.params.lr": ("--learning_rate 1e-5", 2e-05, "pass `--learning_rate 2e-05`"),
    "optimizer.params.betas": (
        "--adam_beta1 0.9",
        [0.9, 0.95],
        "pass `--adam_beta1 0.9 --adam_beta2 0.95`",
    ),
    "fp16.enabled": ("--bf16", True, "pass `--fp16` instead of `--bf16`"),
    "bf16.enabled": ("--bf16", False, "leave out `--bf16`"),
}


@pytest.mark.parametrize("key", ARGUMENTS)
def test_the_flag_of_a_mismatch_is_named_beside_auto(tmp_path: Path, key: str) -> None:
    flag, value, way = ARGUMENTS[key]
    *sections, last = key.split(".")
    written: Any = {last: value}
    for section in reversed(sections):
        written = {section: written}
    config = {"train_batch_size": "auto", "zero_optimization": {"stage": 2}, **written}
    if "optimizer" in config:
        config["optimizer"]["type"] = "AdamW"
    (tmp_path / "ds.json").write_text(json.dumps(config))
    script = tmp_path / "run.sh"
    script.write_text(f"deepspeed --num_gpus 8 run_clm.py --deepspeed ds.json {flag}\n")
    (child,) = check(script).children
    (found,) = [each for each in child if each.code == "DSC809"]
    assert found.help == f'use "auto", which resolves to the argument, or {way}'


def test_the_key_of_a_mismatch_has_the_name_of_its_launch_file(tmp_path: Path) -> None:
    config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
    (tmp_path / "ds.json").write_text(json.dumps(config))
    recipe = tmp_path / "axolotl.yaml"
    recipe.write_text("base_model: m\ndatasets: []\nmicro_batch_size: 2\ndeepspeed: ds.json\n")
    (child,) = check(recipe).children
    (found,) = [each for each in child if each.code == "DSC809"]
    assert found.help is not None
    assert found.help.endswith("or set `micro_batch_size` to `4` in the launch file")
