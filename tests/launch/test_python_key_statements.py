"""Config dicts that a Python program fills key by key, and sections in variables of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, fix
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.config_dicts import find_python_configs

HEAD = "import deepspeed\n"
START = "deepspeed.initialize(model=m, config=cfg)\n"


def value_of(code: str) -> Any:
    """Value of the only config that the program passes to DeepSpeed."""
    (config,) = [each for each in find_python_configs(HEAD + code, "<x>") if each.reader]
    return config.document.value()


def inside(code: str) -> str:
    return "def main():\n" + "".join(f"  {line}\n" for line in code.splitlines())


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("cfg = {}\ncfg['train_batch_size'] = 8\n", {"train_batch_size": 8}),
        ("cfg = dict()\ncfg['train_batch_size'] = 8\n", {"train_batch_size": 8}),
        ("cfg: dict = {}\ncfg['train_batch_size'] = 8\n", {"train_batch_size": 8}),
        ("cfg = {'train_batch_size': 4}\ncfg['train_batch_size'] = 8\n", {"train_batch_size": 8}),
        ("cfg = {}\ncfg['fp16'] = {}\ncfg['fp16']['enabled'] = True\n", {"fp16": {"enabled": True}}),
        ("cfg = {'fp16': {}}\ncfg['fp16']['enabled'] = True\n", {"fp16": {"enabled": True}}),
        ("cfg = {}\ncfg.update({'fp16': {'enabled': True}})\n", {"fp16": {"enabled": True}}),
        ("cfg = {}\ncfg.update(dict(train_batch_size=8))\n", {"train_batch_size": 8}),
        ("cfg = {}\ncfg.update(train_batch_size=8)\n", {"train_batch_size": 8}),
        ("cfg = {'fp16': {}}\ncfg['fp16'].update(enabled=True)\n", {"fp16": {"enabled": True}}),
        ("B = 8\ncfg = {}\ncfg['train_batch_size'] = B * 2\n", {"train_batch_size": 16}),
        (
            "zero = {'stage': 2}\ncfg = {'train_batch_size': 8, 'zero_optimization': zero}\n",
            {"train_batch_size": 8, "zero_optimization": {"stage": 2}},
        ),
        (
            "zero = {}\nzero['stage'] = 2\ncfg = {}\ncfg['zero_optimization'] = zero\n",
            {"zero_optimization": {"stage": 2}},
        ),
        ("cfg = {}\nif x:\n  print(cfg)\ncfg['train_batch_size'] = 8\n", {"train_batch_size": 8}),
    ],
)
@pytest.mark.parametrize("is_local", [False, True])
def test_keys_of_statements_that_certainly_run_are_known(code: str, value: Any, *, is_local: bool) -> None:
    assert value_of(inside(code + START) if is_local else code + START) == value


@pytest.mark.parametrize(
    "code",
    [
        "cfg['train_batch_size'] = n\n",
        "if x:\n  cfg['train_batch_size'] = 8\n",
        "for n in (4, 8):\n  cfg['train_batch_size'] = n\n",
        "c = cfg\ncfg['train_batch_size'] = 8\n",
        "f(cfg)\ncfg['train_batch_size'] = 8\n",
        "def f():\n  cfg['train_batch_size'] = 8\nf()\n",
        "cfg['train_batch_size'] = 8\nif x:\n  cfg['train_batch_size'] = 16\n",
        "cfg['train_batch_size'] += 8\n",
        "if x:\n  cfg = {}\ncfg['train_batch_size'] = 8\n",
        "c, cfg['train_batch_size'] = 1, 8\n",
    ],
)
@pytest.mark.parametrize("is_local", [False, True])
def test_a_key_that_may_have_another_value_is_unknown(code: str, *, is_local: bool) -> None:
    code = "cfg = {'fp16': {'enabled': True}}\n" + code + START
    values = [
        each.document.value()
        for each in find_python_configs(HEAD + (inside(code) if is_local else code), "<x>")
        if each.reader and each.document.has_path(("fp16",))
    ]
    assert [value["train_batch_size"] is UNKNOWN for value in values if isinstance(value, dict)] == [True]


def test_a_section_that_a_function_may_change_is_unknown() -> None:
    value = value_of(
        "zero = {'stage': 2}\nif x:\n  zero['stage'] = 3\ncfg = {'fp16': {}, 'zero_optimization': zero}\n"
        + START
    )
    assert value == {"fp16": {}, "zero_optimization": {"stage": UNKNOWN}}


@pytest.mark.parametrize(
    "code",
    [
        "cfg['train_batch_size'] = 16\n",
        "cfg['fp16']['enabled'] = False\n",
        "cfg.update(x)\n",
        "save(cfg)\n",
        "if x:\n  cfg['train_batch_size'] = 16\n",
    ],
)
def test_what_changes_behind_the_last_call_stays_known(code: str) -> None:
    literal = "cfg = {'train_batch_size': 8, 'fp16': {'enabled': True}}\n"
    assert value_of(literal + START + code) == {"train_batch_size": 8, "fp16": {"enabled": True}}


@pytest.mark.parametrize(
    "code",
    [
        f"for i in range(3):\n  {START}  f(cfg)\n",
        "deepspeed.zero.Init(config_dict_or_path=cfg)\nf(cfg)\n",
        f"g(cfg)\n{START}",
        f"def run():\n  {START}run()\nf(cfg)\n",
    ],
)
def test_what_may_change_before_the_last_call_is_unknown(code: str) -> None:
    literal = "cfg = {'train_batch_size': 8, 'fp16': {'enabled': True}}\n"
    assert value_of(literal + code) == {"train_batch_size": UNKNOWN, "fp16": UNKNOWN}


def test_locations_are_those_of_the_statements(empty_repository: Path) -> None:
    Path("train.py").write_text(
        f"{HEAD}cfg = {{}}\ncfg['train_batch_size'] = 8\ncfg['zero_optimization'] = {{\n    'stage': 7,\n}}\n{START}"
    )
    (error,) = check("train.py")
    assert error.location is not None
    assert (error.dotted, error.location.line) == ("zero_optimization.stage", 5)


def test_a_comment_on_a_statement_suppresses(empty_repository: Path) -> None:
    text = f"{HEAD}cfg = {{}}\ncfg['train_batch_size'] = 8\ncfg['gradient_cliping'] = 1.0  # dsconfig: ignore[typo]\n"
    Path("train.py").write_text(text + START)
    assert list(check("train.py")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cfg = {}\ncfg['gradient_cliping'] = 1.0\n", "cfg = {}\ncfg['gradient_clipping'] = 1.0\n"),
        (
            "cfg = {}\ncfg['steps_per_print'] = 5\ncfg['zero_optimization'] = {'stage': 1, 'cpu_offload': False}\n",
            "cfg = {}\ncfg['steps_per_print'] = 5\ncfg['zero_optimization'] = {'stage': 1}\n",
        ),
        (
            "cfg = {\n    'fp16': {'enabled': False},\n}\ncfg['optimizer'] = None\ncfg['steps_per_print'] = 5\n",
            "cfg = {\n    'fp16': {'enabled': False},\n}\ncfg['steps_per_print'] = 5\n",
        ),
        (
            "zero = {'stage': 1, 'cpu_offload': False}\ncfg = {'steps_per_print': 5, 'zero_optimization': zero}\n",
            "zero = {'stage': 1}\ncfg = {'steps_per_print': 5, 'zero_optimization': zero}\n",
        ),
    ],
)
def test_fixes_edit_the_statements(empty_repository: Path, before: str, after: str) -> None:
    batch = "cfg['train_batch_size'] = 8\n"
    Path("train.py").write_text(HEAD + before + batch + START)
    assert fix("train.py", target="0.18.0", unsafe=True).text == HEAD + after + batch + START


@pytest.mark.parametrize(
    "code",
    [
        "config = {}\nconfig['optimizer'] = 'adam'\nconfig['scheduler'] = 'cosine'\n",
        "config = {}\nconfig['train_batch_size'] = 8\nconfig['lr'] = 0.1\n",
    ],
)
def test_a_dict_of_another_program_is_no_config(code: str) -> None:
    assert find_python_configs(f"x = 'train_batch_size'\n{code}train(config)\n", "<x>") == ()
