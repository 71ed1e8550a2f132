"""Config dicts in Python sources: which dicts are taken, what is known of them, and where they stand."""

from __future__ import annotations

import ast
import json
from random import Random

import pytest

from dsconfig.core.diagnostic import Fix, RemoveKey, RenameKey, SetValue
from dsconfig.document.apply_operations import (
    apply_operations,
    apply_operations_to_value,
    edits_for_fix,
    reparse_document,
)
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.document.text_edit import EditError, apply_edits
from dsconfig.launch.python.config_dicts import PythonConfig, find_python_configs


def only(text: str) -> PythonConfig:
    (config,) = find_python_configs(text, "train.py")
    return config


@pytest.mark.parametrize(
    ("text", "consumer"),
    [
        ("deepspeed.initialize(model=m, config={'train_batch_size': 8})", "deepspeed"),
        ("import deepspeed as ds\nc = {'train_batch_size': 8}\nds.initialize(config_params=c)", "deepspeed"),
        ("from deepspeed import initialize\nc = {'fp16': {}}\ninitialize(m, config=c)", "deepspeed"),
        ("class T:\n  def a(self):\n    self.c = {'fp16': {}}\n    deepspeed.initialize(config=self.c)", "deepspeed"),
        ("def make():\n  return {'fp16': {}}\ndeepspeed.initialize(config=make())", "deepspeed"),
        ("TrainingArguments(output_dir='o', deepspeed={'fp16': {}})", "transformers"),
        ("c = dict(fp16=dict(enabled=True))\nSFTConfig(deepspeed=c)", "transformers"),
        ("DeepSpeedPlugin(hf_ds_config={'fp16': {}})", "accelerate"),
        ("DeepSpeedStrategy(config={'zero_optimization': {}})", "lightning"),
        ("HfDeepSpeedConfig({'fp16': {}})", "transformers"),
        ("ds_config = {'train_batch_size': 8}", None),
        ("DEEPSPEED_CONFIG: dict = {'fp16': {}}", None),
        ("x = {'zero_optimization': {'stage': 2}, 'train_batch_size': 8}", None),
        ("def get_train_ds_config(stage):\n  return {'train_micro_batch_size_per_gpu': 4, 'bf16': {}}", None),
    ],
)  # fmt: skip
def test_which_dicts_are_configs(text: str, consumer: str | None) -> None:
    config = only(text)
    assert (config.reader and config.reader.name) == consumer
    assert config.reader is None or "train.py:" in config.reader.why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = {'a': 1}",
        "optimizer = {'optimizer': 'adam', 'scheduler': None}",
        "config = {'train_batch_size': 8}",
        "app.initialize(config={'fp16': {}})",
        "config = {}\ndeepspeed.initialize(config=config)",
        "ds_config = 'ds_config.json'",
        "ds_config = {'stage': 2}",
        "this is no Python {'zero_optimization': {}, 'fp16': {}}",
        "def f(:\n  ds_config = {'fp16': {}}",
    ],
)
def test_other_dicts_are_none(text: str) -> None:
    assert find_python_configs(text, "x.py") == ()


def test_a_dict_within_a_config_is_part_of_it() -> None:
    text = (
        "ds_config = {'zero_optimization': {'stage': 2}, 'fp16': {}}\ndeepspeed.initialize(config=ds_config)"
    )
    assert (reader := only(text).reader) is not None
    assert reader.name == "deepspeed"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("8", 8),
        ("-1", -1),
        ("5e8", 5e8),
        ("int(5e8)", 500_000_000),
        ("2 ** 20", 2**20),
        ("4 * 1024", 4096),
        ("STAGE", 3),
        ("None", None),
        ("True", True),
        ("'auto'", "auto"),
        ("(0.9, 0.95)", [0.9, 0.95]),
        ("[1, n]", [1, UNKNOWN]),
        ("args.x", UNKNOWN),
        ("f'{x}'", UNKNOWN),
        ("n", UNKNOWN),
        ("LOOP", UNKNOWN),
        ("a if b else c", UNKNOWN),
        ("not fp16", UNKNOWN),
        ("10 ** 10 ** 10", UNKNOWN),
        ("1 / 0", UNKNOWN),
        ("[*a]", UNKNOWN),
        ("{1: 2}", {}),
        ("dict(a=1)", {"a": 1}),
    ],
)
def test_values(literal: str, value: object) -> None:
    text = f"STAGE = 3\nLOOP = 1\nLOOP = 2\ndef f(n):\n  ds_config = {{'fp16': {{}}, 'x': {literal}}}"
    assert only(text).document.value()["x"] == value  # type: ignore[index]


@pytest.mark.parametrize(
    ("write", "path"),
    [
        ("ds_config['train_batch_size'] = args.b", ("train_batch_size",)),
        ("ds_config['fp16']['enabled'] = True", ("fp16", "enabled")),
        ("ds_config['optimizer']['params']['lr'] = lr", ("optimizer", "params", "lr")),
        ("ds_config.update({'fp16': x})", ("fp16",)),
        ("ds_config.update(fp16=x)", ("fp16",)),
        ("ds_config['fp16'].update(loss_scale=x)", ("fp16", "loss_scale")),
        ("ds_config.setdefault('bf16', {})", ("bf16",)),
        ("ds_config.pop('fp16')", ("fp16",)),
        ("del ds_config['fp16']", ("fp16",)),
        ("ds_config |= {'bf16': x}", ("bf16",)),
        ("ds_config.update(other)", ("*",)),
        ("ds_config[key] = 1", ("*",)),
    ],
)
def test_what_is_written_later_is_unknown(write: str, path: tuple[str, ...]) -> None:
    config = only(
        f"ds_config = {{'train_batch_size': 8, 'fp16': {{'enabled': False}}}}\nif x:\n    {write}\n"
    )
    assert path in config.unknown
    value: object = config.document.value()
    for key in path if path != ("*",) else ():
        assert isinstance(value, dict)
        value = value[key]
    assert path == ("*",) or value is UNKNOWN


def test_what_a_caller_writes_into_a_returned_config() -> None:
    text = (
        "def make():\n  return {'fp16': {}, 'zero_optimization': {}}\nc = make()\nc['train_batch_size'] = 8\n"
    )
    assert ("train_batch_size",) in only(text).unknown


def test_spread_and_computed_keys_leave_a_section_open() -> None:
    text = "ds_config = {**base, 'fp16': {}, 'zero_optimization': {key: 1, 'stage': 2}}"
    assert {("*",), ("zero_optimization", "*")} <= only(text).unknown


def test_places_are_those_of_the_source() -> None:
    text = "# für\nds_config = {\n  'é': 1, 'fp16': {'enabled': True},  # dsconfig: ignore\n}\n"
    document = only(text).document
    assert text[slice(*document.span(("fp16", "enabled")))] == "True"
    assert text[slice(*document.span(("fp16",), "key"))] == "'fp16'"
    assert [comment for _, comment in document.comments] == ["# dsconfig: ignore"]


def literal(value: object, random: Random) -> str:
    """The value as Python source, laid out at random."""
    gap = random.choice(["", " ", "\n        ", "  # why\n    "])
    if isinstance(value, dict):
        quote = random.choice("'\"")
        parts = [f"{gap}{quote}{key}{quote}: {literal(item, random)}" for key, item in value.items()]
        return "{" + ",".join(parts) + random.choice(["", ",", ",\n"] if parts else [""]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(literal(item, random) for item in value) + "]"
    return repr(value)


CONFIG = {
    "train_batch_size": 64,
    "zero_optimization": {"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": None}},
    "fp16": {"enabled": False, "loss_scale": 0},
}
OPERATIONS = [
    SetValue(("zero_optimization", "stage"), 3),
    SetValue(("zero_optimization", "round_robin_gradients"), True),
    SetValue(("bf16",), {"enabled": True, "x": None}),
    RemoveKey(("fp16", "loss_scale")),
    RemoveKey(("optimizer",)),
    RenameKey(("zero_optimization", "overlap_comm"), "overlap"),
]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_edit_changes_what_it_means_and_nothing_else(
    seed: int, operation: SetValue | RemoveKey | RenameKey
) -> None:
    random = Random(seed)
    before, after = "x = 1\nds_config = ", "\nprint(ds_config)\n"
    text = f"{before}{literal(CONFIG, random)}{after}"
    document = only(text).document
    new = apply_operations(document, [operation])
    assert new.text.startswith(before)
    assert new.text.endswith(after)
    ast.parse(new.text)
    assert new.value() == apply_operations_to_value(json.loads(json.dumps(CONFIG)), [operation])


def test_a_call_of_dict_keeps_its_syntax() -> None:
    document = only("ds_config = dict(fp16=dict(enabled=True))").document
    assert (
        apply_operations(document, [SetValue(("fp16", "loss_scale"), 0)]).text
        == "ds_config = dict(fp16=dict(enabled=True, loss_scale=0))"
    )
    with pytest.raises(EditError):
        edits_for_fix(document, Fix("", (SetValue(("fp16", "not-a-name"), 0),)))
    assert (
        apply_operations(document, [RenameKey(("fp16", "enabled"), "on")]).text
        == "ds_config = dict(fp16=dict(on=True))"
    )
    with pytest.raises(EditError):
        edits_for_fix(document, Fix("", (RenameKey(("fp16", "enabled"), "not-a-name"),)))


def test_the_same_config_is_found_in_the_edited_source() -> None:
    text = "ds_config_a = {'fp16': {}}\nds_config = {'train_batch_size': 8}\n"
    _, second = find_python_configs(text, "train.py")
    new = apply_edits(text, edits_for_fix(second.document, Fix("", (SetValue(("train_batch_size",), 16),))))
    assert reparse_document(second.document, new).value() == {"train_batch_size": 16}
    with pytest.raises(EditError):
        reparse_document(second.document, "nothing = 1")


def test_a_deep_or_huge_source_is_no_config() -> None:
    assert find_python_configs("ds_config = " + "{'fp16': " * 3000 + "1" + "}" * 3000, "x.py") == ()
    assert find_python_configs("ds_config = {'fp16': {}}\n" + "#" * 600_000, "x.py") == ()


def test_a_dict_that_nothing_takes_may_be_a_part() -> None:
    assert ("*",) in only("ds_config = {'fp16': {'enabled': True}}").unknown
    assert not only("DeepSpeedConfig({'fp16': {'enabled': True}})").unknown
