"""Data flow of config dicts in Python programs: what stays known, what does not, and who receives the dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsconfig import check
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.config_dicts import PythonConfig, find_python_configs

IMPORTS = "import copy, json, deepspeed\n"
LITERAL = "cfg = {'train_batch_size': 8, 'zero_optimization': {'stage': 2, 'cpu_offload': False}}\n"
START = "deepspeed.initialize(model=m, config=cfg)\n"
BATCH, STAGE, OFFLOAD = "train_batch_size", "zero_optimization.stage", "zero_optimization.cpu_offload"
ALL = [BATCH, STAGE, OFFLOAD]
CASES = [
    ("z = cfg['zero_optimization']\nz['stage'] = 2\n", [STAGE], [BATCH, OFFLOAD]),
    ("cfg.get('zero_optimization')['stage'] = 3\n", [STAGE], [BATCH, OFFLOAD]),
    ("c = cfg\nc['train_batch_size'] = 3\n", [BATCH], [STAGE, OFFLOAD]),
    ("def fill(c):\n  c['train_batch_size'] = 3\nfill(cfg)\n", [BATCH], [STAGE, OFFLOAD]),
    (
        "def fill(*, conf):\n  conf['zero_optimization'].update(stage=1)\nfill(conf=cfg)\n",
        [STAGE],
        [BATCH, OFFLOAD],
    ),
    ("from lib import fill\nfill(cfg)\n", ALL, []),
    ("fill(cfg)\n", ALL, []),
    ("cfg.clear()\n", ALL, []),
    ("cfg.__setitem__('train_batch_size', 4)\n", [BATCH], [STAGE, OFFLOAD]),
    ("cfg.pop('zero_optimization')\n", [STAGE, OFFLOAD], [BATCH]),
    ("del cfg['zero_optimization']['stage']\n", [STAGE], [BATCH, OFFLOAD]),
    ("cfg.setdefault('train_batch_size', 4)\n", [], ALL),
    ("cfg.setdefault('zero_optimization', {})['stage'] = 3\n", [STAGE], [BATCH, OFFLOAD]),
    ("cfg = dict(cfg, train_batch_size=n)\n", [BATCH], [STAGE, OFFLOAD]),
    ("cfg = dict(cfg, **kw)\n", ALL, []),
    ("cfg = {**cfg, 'train_batch_size': n}\n", [BATCH], [STAGE, OFFLOAD]),
    ("cfg = {'train_batch_size': n, **cfg}\n", [], ALL),
    ("cfg = cfg | {'train_batch_size': n}\n", [BATCH], [STAGE, OFFLOAD]),
    ("cfg |= {'train_batch_size': n}\n", [BATCH], [STAGE, OFFLOAD]),
    ("cfg = cfg | other\n", ALL, []),
    ("cfg = other | cfg\n", [], ALL),
    ("cfg = copy.deepcopy(cfg)\ncfg['zero_optimization']['stage'] = s\n", [STAGE], [BATCH, OFFLOAD]),
    ("cfg = cfg.copy()\ncfg['train_batch_size'] = s\n", [BATCH], [STAGE, OFFLOAD]),
    ("for k, v in cfg.items():\n  print(k, v)\n", [], ALL),
    ("for k in cfg:\n  cfg[k] = 1\n", ALL, []),
    ("for k, v in cfg.items():\n  if isinstance(v, dict):\n    v['stage'] = 1\n", [STAGE], []),
    ("print(cfg, len(cfg)); json.dump(cfg, f); logger.info(cfg)\n", [], ALL),
    ("if cfg['zero_optimization']['stage'] == 3: pass\n", [], ALL),
    ("x = cfg['train_batch_size']; x = x + 1; foo(x)\n", [], ALL),
    ("foo(cfg['zero_optimization'])\n", [STAGE, OFFLOAD], [BATCH]),
    ("a, b = cfg, 3\na['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("box = {'ds': cfg}\nbox['ds']['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("box = {}\nbox['ds'] = cfg\nbox['ds']['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("box = [cfg]\nfor each in box:\n  each['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("box = []\nbox.append(cfg)\nbox[0]['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("def get():\n  return cfg\nget()['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    (
        (
            "class A:\n  def __init__(self, c):\n    self.c = c\n"
            "  def go(self):\n    self.c['train_batch_size'] = 1\nA(cfg)\n"
        ),
        [BATCH],
        [STAGE, OFFLOAD],
    ),
    ("(x := cfg)['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("def f(c=cfg):\n  c['train_batch_size'] = 2\n", [BATCH], [STAGE, OFFLOAD]),
    ("def f():\n  global cfg\n  cfg['train_batch_size'] = 2\n", [BATCH], [STAGE, OFFLOAD]),
    ("def f():\n  cfg = {}\n  cfg['train_batch_size'] = 2\n", [], ALL),
    ("def f(cfg):\n  cfg['train_batch_size'] = 2\n", [], ALL),
    ("exec(open('configurator.py').read())\n", ALL, []),
    ("cfg = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create(cfg), cli))\n", ALL, []),
    (
        (
            "def merge(a, b):\n"
            "  for k, v in b.items():\n    if isinstance(v, dict):\n      merge(a[k], v)\n"
            "    else:\n      a[k] = v\n  return a\ncfg = merge(cfg, other)\n"
        ),
        ALL,
        [],
    ),
    ("setattr(args, 'ds', cfg)\n", ALL, []),
    ("args.ds = cfg\nargs.ds['train_batch_size'] = 4\n", [BATCH], [STAGE, OFFLOAD]),
    ("u = cfg.update\nu(x)\n", ALL, []),
    (
        "cfg['zero_optimization']['offload_optimizer'] = x\n",
        ["zero_optimization.offload_optimizer"],
        ALL,
    ),
    ("cfg['zero_optimization'] |= {'stage': 1}\n", [STAGE, OFFLOAD], [BATCH]),
    ("with open(p) as f:\n  f.write(json.dumps(cfg))\n", [], ALL),
    ("cfg.update([('train_batch_size', 3)])\n", ALL, []),
    ("if x:\n  cfg.update(zero_optimization={'stage': 1})\n", [STAGE, OFFLOAD], [BATCH]),
    ("l = lambda c: c.update(a=1)\nl(cfg)\n", ["a"], ALL),
    ("kw = dict(config=cfg)\nkw['config']['train_batch_size'] = 1\n", [BATCH], [STAGE, OFFLOAD]),
    ("match cfg:\n  case {'zero_optimization': z}:\n    z['stage'] = 1\n", ALL, []),
    ("del cfg\n", [], ALL),
    ("t = threading.Thread(target=f, args=(cfg,))\n", ALL, []),
    ("assert cfg.keys() >= {'a'}\n", [], ALL),
    ("x = [v for v in cfg.values()]\nx[0]['stage']=2\n", [STAGE], []),
    ("c2 = {k: v for k, v in cfg.items() if k != 'fp16'}\n", [], ALL),
    ("cfg = {k: v for k, v in cfg.items() if k != 'fp16'}\n", ALL, []),
]
"""Code between the literal and its use, the keys that it leaves unknown, and those that stay known."""


def value_at(config: PythonConfig, path: str) -> Any:
    value: Any = config.document.value()
    for key in path.split("."):
        value = value if value is UNKNOWN else value[key]
    return value


@pytest.mark.parametrize("is_local", [False, True], ids=["global", "local"])
@pytest.mark.parametrize(("code", "unknown", "known"), CASES, ids=[code for code, _, _ in CASES])
def test_what_the_program_may_change_is_unknown(
    code: str, unknown: list[str], known: list[str], *, is_local: bool
) -> None:
    body = LITERAL + code + START
    if is_local and ("global" in code or "exec" in code):
        pytest.skip("about global names")
    if is_local:
        body = "def main():\n" + "".join(f"  {line}\n" for line in body.splitlines())
    (config,) = (
        each
        for each in find_python_configs(IMPORTS + body, "<x>")
        if each.document.has_path((BATCH,))
        and each.reader
        and each.document.has_path(("zero_optimization", "cpu_offload"))
    )
    assert {path: value_at(config, path) is UNKNOWN for path in (*unknown, *known)} == {
        **dict.fromkeys(unknown, True),
        **dict.fromkeys(known, False),
    }


@pytest.mark.parametrize(
    "text",
    [
        (
            "S = {'type': 'object', 'properties': {'zero_optimization': {'type': 'object', 'properties': {}},"
            " 'train_batch_size': {'type': 'integer'}}}"
        ),
        "ds_config_help = {'zero_optimization': {'stage': 'the ZeRO stage'}, 'train_batch_size': 'samples per step'}",
        "SOURCES = {'zero_optimization': 'get_zero_config', 'fp16': 'get_fp16_config', 'bf16': 'config.py:get_bf16'}",
        "TYPES = {'train_batch_size': int, 'zero_optimization': dict}",
        "from hydra import initialize\ninitialize(config={'fp16': {}})",
        "from torch.nn import Init\nInit(config={'fp16': {}})",
        "initialize(config={'fp16': {}})",
        "class DeepSpeedConfig: pass\nDeepSpeedConfig({'fp16': {}})",
        "run(deepspeed={'fp16': {}})",
    ],
)
def test_a_dict_of_another_program_is_no_config(text: str) -> None:
    assert find_python_configs(text, "<x>") == ()


@pytest.mark.parametrize(
    ("text", "consumer", "unknown"),
    [
        ("def train(c):\n  deepspeed.initialize(config=c)\ntrain({'fp16': {}})", "deepspeed", set()),
        ("from deepspeed.zero import Init\nInit(config_dict_or_path={'fp16': {}})", "deepspeed", set()),
        ("kw = {'deepspeed': {'fp16': {}}}\nTrainingArguments(**kw)", "transformers", set()),
        (
            (
                "@dataclass\nclass A:\n  ds: dict = field(default_factory=lambda: {'fp16': {}})\n"
                "def f(a):\n  deepspeed.initialize(config=a.ds)"
            ),
            "deepspeed",
            set(),
        ),
        (
            (
                "class T:\n  @property\n  def conf(self):\n    return {'fp16': {}}\n"
                "  def go(self):\n    deepspeed.initialize(config=self.conf)"
            ),
            "deepspeed",
            set(),
        ),
        ("cfg = base() | {'train_batch_size': 8}\ndeepspeed.initialize(config=cfg)", "deepspeed", {("*",)}),
        ("cfg = {**base(), 'fp16': {}}\ndeepspeed.initialize(config=cfg)", "deepspeed", {("*",)}),
        ("cfg = dict(base, fp16={})\ndeepspeed.initialize(config=cfg)", "deepspeed", {("*",)}),
        ("training_args.deepspeed = {'fp16': {}}", "transformers", set()),
        (
            (
                "try:\n  import deepspeed\nexcept ImportError:\n  deepspeed = None\n"
                "deepspeed.initialize(config={'fp16': {}})"
            ),
            "deepspeed",
            set(),
        ),
    ],
)
def test_the_call_that_receives_a_dict_is_found(
    text: str, consumer: str, unknown: set[tuple[str, ...]]
) -> None:
    (config,) = find_python_configs(text, "<x>")
    assert config.reader is not None
    assert (config.reader.name, config.unknown) == (consumer, unknown)


def test_fabric_is_not_the_trainer_of_lightning() -> None:
    text = (
        "from lightning.fabric import Fabric\nfrom lightning.fabric.strategies import DeepSpeedStrategy\n"
        "Fabric(strategy=DeepSpeedStrategy(config={'fp16': {}, 'gradient_accumulation_steps': 1}))"
    )
    (config,) = find_python_configs(text, "<x>")
    assert (config.reader, config.unknown) == (None, {("*",)})


def test_several_dicts_of_a_table_are_configs() -> None:
    text = "CONF = {'a': {'fp16': {}}, 'b': {'bf16': {}}}\ndeepspeed.initialize(config=CONF[name])"
    assert [each.reader and each.reader.name for each in find_python_configs(text, "<x>")] == [
        "deepspeed"
    ] * 2


@pytest.mark.parametrize(
    ("binding", "is_known"),
    [
        ("STAGE = 7", True),
        ("STAGE = 7\nSTAGE = 2", False),
        ("from x import STAGE", False),
        ("from x import *", False),
        ("STAGE = 7\nfrom x import *", False),
        ("from x import *\nSTAGE = 7", True),
        ("STAGE = 7\nfor STAGE in (1, 2): pass", False),
        ("STAGE = 7\ntry: pass\nexcept E as STAGE: pass", False),
        ("STAGE = 7\nmatch x:\n  case [STAGE]: pass", False),
        ("STAGE = 7\n(a, (STAGE, b)) = c", False),
        ("(a, (STAGE, b)) = 1, (7, 3)", True),
        ("STAGE = 7\ndef f():\n  global STAGE\n  STAGE = 2", False),
        ("STAGE = 7\ndef f():\n  STAGE = 2", True),
        ("STAGE = 7\ndef f(STAGE): pass", True),
        ("STAGE = 7\nexec(open('overrides.py').read())", False),
        ("STAGE = 7\nwith open() as STAGE: pass", False),
        ("STAGE = 7\nSTAGE += 1", False),
        ("STAGE = 7\ndel STAGE", False),
        ("STAGE = 7\nif (STAGE := f()): pass", False),
        ("STAGE = 7\n[STAGE for STAGE in x]", True),
        ("class A:\n  STAGE = 7", False),
    ],
)
def test_a_name_is_known_if_one_statement_binds_it(binding: str, is_known: bool) -> None:
    text = f"{binding}\nds_config = {{'zero_optimization': {{'stage': STAGE}}, 'fp16': {{}}}}"
    (config,) = find_python_configs(text, "<x>")
    assert value_at(config, STAGE) == (7 if is_known else UNKNOWN)


def test_other_modules_are_followed(empty_repository: Path) -> None:
    Path("pkg").mkdir()
    Path("pkg/__init__.py").touch()
    Path("pkg/conf.py").write_text(
        "ds_config = {'train_batch_size': 7, 'zero_optimization': {'stage': 9}}\n"
        "def make():\n    return {'fp16': {'enabled': 1}, 'zero_optimization': {'stage': 8}}\n"
    )
    Path("pkg/help.py").write_text("def fill(x):\n    x['fp16'] = {}\n")
    Path("train.py").write_text(
        "import deepspeed\nfrom pkg import help as h\nfrom pkg.conf import ds_config, make\n"
        "ds_config['train_batch_size'] = 4\ncfg = make()\nh.fill(cfg)\n"
        "deepspeed.initialize(config=cfg)\ndeepspeed.initialize(config=ds_config)\n"
    )
    first, second = find_python_configs(Path("pkg/conf.py").read_text(), "pkg/conf.py")
    assert first.unknown == {("train_batch_size",)}
    assert first.places == {("train_batch_size",): "train.py:4"}
    assert second.unknown == {("fp16",)}
    assert first.reader is not None
    assert first.reader.why == "train.py:8 passes it to `deepspeed.initialize`"


def test_a_fix_is_not_safe_if_the_program_looks_the_key_up(empty_repository: Path) -> None:
    Path("train.py").write_text(
        f"{IMPORTS}{LITERAL}if cfg['zero_optimization']['cpu_offload']: pass\n{START}"
    )
    Path("other.py").write_text(IMPORTS + LITERAL + START)
    safe = [[each.fix.safe for each in check(name) if each.fix] for name in ("train.py", "other.py")]
    assert safe == [[False], [True]]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"ds_config = {'zero_optimization': (}", "line 1"),
        (b"ds_config = {'zero_optimization': %s}" % (b"9" * 5000), "limit"),
        (b"# coding: klingon\nds_config = {'zero_optimization': {}}", "encoding"),
        (b"ds_config = {'zero_optimization': {}}" + b"#" * 600_000, "larger than 512 KiB"),
        (b"ds_config = {'zero_optimization': " + b"(" * 900 + b")" * 900, "nested"),
    ],
    ids=["syntax", "digits", "cookie", "size", "depth"],
)
def test_an_unreadable_source_says_why(empty_repository: Path, data: bytes, reason: str) -> None:
    Path("train.py").write_bytes(data)
    report = check("train.py")
    assert "is not searched for configs" in (report.why_not_config or "")
    assert reason in (report.why_not_config or "")


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b"# coding: latin-1\n# \xe9\n"], ids=["mark", "cookie"])
def test_other_encodings_are_read(empty_repository: Path, prefix: bytes) -> None:
    Path("train.py").write_bytes(prefix + b"ds_config = {'zero_optimization': {'stage': 9}, 'fp16': {}}\n")
    assert [each.dotted for each in check("train.py") if each.severity == "error"] == [
        "zero_optimization.stage"
    ]
