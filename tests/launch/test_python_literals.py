"""Dict literals in many styles and places: the value that is read is the one that Python computes."""

from __future__ import annotations

import ast
import json
from random import Random

import pytest

from dsconfig.core.diagnostic import Operation, RenameKey, SetValue
from dsconfig.document.apply_operations import apply_operations, apply_operations_to_value
from dsconfig.launch.python.config_dicts import find_python_configs

CONFIG = {
    "train_batch_size": 64,
    "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 500_000_000},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": None}},
    "fp16": {"enabled": False, "loss_scale": 0},
    "gradient_clipping": -1.5,
}
PLACES = [
    "ds_config = {}\ndeepspeed.initialize(model=m, config=ds_config)\n",
    "deepspeed.initialize(model=m, config={})\n",
    "cfg: dict[str, object] = {}\nprint(cfg)\ndeepspeed.initialize(args, m, config_params=cfg)\n",
    "class T:\n  def __init__(self):\n    self.c = {}\n  def go(self):\n    deepspeed.initialize(config=self.c)\n",
    "def make():\n  return {}\ndeepspeed.initialize(config=make())\n",
    "@dataclass\nclass A:\n  ds: dict = field(default_factory=lambda: {})\ndeepspeed.initialize(config=a.ds)\n",
    "def run(c, m=None):\n  deepspeed.initialize(model=m, config=c)\nif m:\n  run({})\n",
    "deepspeed.initialize(model=m, config=(x := {}))\nlen(x)\n",
    "CONFIGS = {{'a': {}, 'b': 3}}\ndeepspeed.initialize(config=CONFIGS['a'] if flag else None)\n",
]


class Writer:
    """A writer of values as Python source, in a style drawn for each."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.constants = ""
        self.count = 0

    def value(self, value: object) -> str:
        if isinstance(value, dict):
            return self.mapping(value)
        if isinstance(value, list):
            return "({}, {})".format(*map(self.value, value))
        text = self.random.choice([repr(value), json.dumps(value)]) if isinstance(value, str) else repr(value)
        if type(value) is int and value > 1:
            text = self.random.choice(
                [text, f"{value:_}", f"int({float(value)})", f"{value // 2} + {value - value // 2}"]
            )
        if self.random.random() < 0.2:
            self.count += 1
            self.constants += self.random.choice(["V{} = {}\n", "V{}: object = {}\n"]).format(
                self.count, text
            )
            return f"V{self.count}"
        return text

    def mapping(self, value: dict[str, object]) -> str:
        if self.random.random() < 0.2:
            return "dict(" + ", ".join(f"{key}={self.value(item)}" for key, item in value.items()) + ",)"
        quote = self.random.choice("'\"")
        gap = self.random.choice(["", " ", "\n        ", "  # {'a': \"b\"}\n    "])
        entries = [f"{gap}{quote}{key}{quote} : {self.value(item)}" for key, item in value.items()]
        return "{" + ",".join(entries) + self.random.choice(["", ",", " ,\n  "]) + "}"


@pytest.mark.parametrize("place", PLACES, ids=range(len(PLACES)))
@pytest.mark.parametrize("seed", range(20))
def test_a_literal_is_read_and_edited_in_any_style(place: str, seed: int) -> None:
    writer = Writer(Random(seed))
    literal = writer.mapping(CONFIG)
    before, after = place.format("<>").split("<>")
    text = f"import deepspeed\n{writer.constants}{before}{literal}{after}"
    (config,) = find_python_configs(text, "<x>")
    assert json.loads(json.dumps(config.document.value())) == CONFIG
    assert config.reader is not None
    assert not config.unknown
    operations: list[Operation] = [
        SetValue(("zero_optimization", "stage"), 3),
        RenameKey(("fp16", "loss_scale"), "hysteresis"),
    ]
    new = apply_operations(config.document, operations)
    ast.parse(new.text)
    assert new.text.endswith(after)
    assert new.text.startswith(f"import deepspeed\n{writer.constants}{before}")
    expected = apply_operations_to_value(json.loads(json.dumps(CONFIG)), operations)
    assert json.loads(json.dumps(new.value())) == expected
