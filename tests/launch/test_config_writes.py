"""Keys that a program writes into the config before DeepSpeed starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import ResolveError, check, memory, resolve
from dsconfig.launch.repository_files import invalidate_cache
from dsconfig.memory.verdict import NotModelledError
from dsconfig.resolve.effective_values import effective_values_of as show

LOAD = "import json, deepspeed\nds_config = json.load(open(args.config))\n"
START = "engine = deepspeed.initialize(model=model, config=ds_config)\n"
MICRO = "train_micro_batch_size_per_gpu"
PLAIN: dict[str, Any] = {"zero_optimization": {"stage": 2}}
WRITES = [
    f'ds_config["{MICRO}"] = args.batch\n',
    f"ds_config.update({MICRO}=args.batch)\n",
    f'ds_config.update({{"{MICRO}": args.batch}})\n',
    f'ds_config |= {{"{MICRO}": args.batch}}\n',
    f'ds_config = ds_config | {{"{MICRO}": args.batch}}\n',
    f'ds_config.setdefault("{MICRO}", args.batch)\n',
    f'ds_config = {{**ds_config, "{MICRO}": args.batch}}\n',
    f"ds_config = dict(ds_config, {MICRO}=args.batch)\n",
    f'if "{MICRO}" not in ds_config:\n    ds_config["{MICRO}"] = args.batch\n',
    f'with open("x") as file:\n    ds_config["{MICRO}"] = args.batch\n',
    f'ds_config["train_batch_size"], ds_config["{MICRO}"] = total, args.batch\n',
    "ds_config.update(vars(args))\n",
    "for key, value in overrides.items():\n    ds_config[key] = value\n",
]
KEEPS = [
    f'if ds_config["{MICRO}"] == 3:\n    pass\n',
    f'# ds_config["{MICRO}"] = args.batch\n',
    f'print(ds_config["{MICRO}"])\n',
    'metrics = {}\nmetrics["train_batch_size"] = 3\nmetrics.update(vars(args))\n',
    f'other = {{}}\nother["{MICRO}"] = 3\n',
    'checkpoint["optimizer"] = optimizer.state_dict()\n',
    'ds_config["gradient_clipping"] = 1.0\n',
    "def broken(:\n",
    # TRL's copy for the reference model, which the model in training does not use
    f'ref = deepcopy(self.accelerator.state.deepspeed_plugin.deepspeed_config)\nref["{MICRO}"] = 1\n',
]


@pytest.fixture
def config(empty_repository: Path) -> Path:
    """A config without a batch, of a repository whose root is the current folder."""
    (empty_repository / "conf").mkdir()
    path = Path("conf/ds.json")
    path.write_text(json.dumps(PLAIN))
    return path


def codes(config: Path) -> set[str]:
    return {diagnostic.code for diagnostic in check(config)}


@pytest.mark.parametrize("line", WRITES)
def test_a_batch_that_the_program_writes_is_not_missing(config: Path, line: str) -> None:
    Path("train.py").write_text(LOAD + line + START)
    report = check(config)
    assert "DSC201" not in {diagnostic.code for diagnostic in report}
    assert any("train.py:" in note and "before DeepSpeed starts" in note for note in report.notes)
    with pytest.raises(ResolveError, match="before DeepSpeed starts"):
        resolve(config, world_size=4)


@pytest.mark.parametrize("line", KEEPS)
def test_what_writes_no_batch_leaves_it_missing(config: Path, line: str) -> None:
    Path("train.py").write_text(LOAD + line + START)
    assert "DSC201" in codes(config)


LOADING_CODE = {
    "trainer": f"ds = json.load(open(path))\nds['{MICRO}'] = 4\nTrainingArguments('o', deepspeed=ds)\n",
    "plugin": f"cfg = json.load(open(path))\ncfg['{MICRO}'] = 4\nDeepSpeedPlugin(hf_ds_config=cfg)\n",
    "accelerator": f"accelerator.state.deepspeed_plugin.deepspeed_config['{MICRO}'] = 4\n",
    "attribute": f"def run(self):\n    self.cfg['{MICRO}'] = 4\n    deepspeed.initialize(config=self.cfg)\n",
    "module": "from lib.ds import prepared\ndeepspeed.initialize(config=prepared(path))\n",
}


@pytest.mark.parametrize("loading", LOADING_CODE)
def test_however_the_config_is_handed_over(config: Path, loading: str) -> None:
    Path("train.py").write_text(f"import deepspeed, json\n{LOADING_CODE[loading]}")
    Path("lib").mkdir()
    if loading == "module":
        Path("lib/ds.py").write_text(f"def prepared(config):\n    config['{MICRO}'] = 4\n    return config\n")
    assert not codes(config) & {"DSC201", "DSC802"}
    with pytest.raises(ResolveError, match="before DeepSpeed starts"):
        resolve(config, world_size=4, consumer="deepspeed")


def test_a_value_of_the_file_stays_where_only_an_absent_one_is_written(config: Path) -> None:
    config.write_text(json.dumps({**PLAIN, MICRO: 4}))
    Path("train.py").write_text(LOAD + f'ds_config.setdefault("{MICRO}", args.batch)\n' + START)
    assert resolve(config, world_size=2).triplet == (8, 4, 1)


def test_a_placeholder_that_the_program_replaces_is_no_error(config: Path) -> None:
    config.write_text(json.dumps({MICRO: "auto", "gradient_clipping": "auto", "train_batch_size": None}))
    lines = f'ds_config["{MICRO}"] = args.batch\nds_config["gradient_clipping"] = args.clip\n'
    Path("train.py").write_text(LOAD + lines + START)
    assert not [
        diagnostic for diagnostic in check(config, consumer="deepspeed") if diagnostic.severity == "error"
    ]
    run = resolve(config, world_size=4, consumer="deepspeed", set={MICRO: 2})
    assert run.triplet == (8, 2, 1)
    assert any("train.py:4 writes `gradient_clipping`" in each.text for each in run.messages)


def test_another_key_that_is_wrong_is_told(config: Path) -> None:
    config.write_text(json.dumps({MICRO: 1, "zero_optimization": {"stage": 7}}))
    Path("train.py").write_text(LOAD + f'ds_config["{MICRO}"] = args.batch\n' + START)
    assert [diagnostic.dotted for diagnostic in check(config) if diagnostic.severity == "error"] == [
        "zero_optimization.stage"
    ]


def test_a_section_is_written_with_all_that_is_in_it(config: Path) -> None:
    config.write_text(json.dumps({MICRO: 1, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}))
    Path("train.py").write_text(LOAD + 'ds_config["optimizer"]["params"]["lr"] = args.lr\n' + START)
    assert not check(config, consumer="deepspeed").diagnostics
    notes = {value.key: value.note for value in show(config, 2, consumer="deepspeed").values}
    assert notes["optimizer.params.lr"] == "line 1, before train.py:3 overwrites it"


def test_memory_does_not_guess_the_precision_that_a_program_writes(config: Path) -> None:
    config.write_text(json.dumps({**PLAIN, MICRO: 1}))
    Path("train.py").write_text(LOAD + 'ds_config["bf16"] = {"enabled": args.bf16}\n' + START)
    with pytest.raises(NotModelledError, match="writes `bf16` before"):
        memory(config, model="llama-3-8b", world_size=4)


def test_a_program_that_reads_another_config_says_nothing(config: Path) -> None:
    Path("other").mkdir()
    Path("other/train.py").write_text(LOAD + WRITES[0] + START)
    assert "DSC201" in codes(config)


def test_a_module_of_the_program_that_a_script_starts_with_the_config(config: Path) -> None:
    Path("app/methods").mkdir(parents=True)
    Path("app/main.py").write_text("from methods import train\ntrain()\n")
    Path("app/methods/__init__.py").write_text("from .vanilla import train\n")
    Path("app/methods/vanilla.py").write_text(LOAD + f'ds_config["{MICRO}"] = args.batch\n' + START)
    Path("run.sh").write_text("deepspeed app/other.py --deepspeed --deepspeed_config conf/ds.json\n")
    assert "DSC201" in codes(config)
    Path("run.sh").write_text("deepspeed app/main.py --deepspeed --deepspeed_config conf/ds.json\n")
    invalidate_cache()
    assert "DSC201" not in codes(config)


def test_a_program_of_brackets_without_end_is_not_read(config: Path) -> None:
    Path("train.py").write_text(LOAD + "(" * 50_000 + START)
    assert "DSC201" in codes(config)


@pytest.mark.parametrize(
    "change",
    [
        "ds_config = merge(ds_config, overrides)\n",
        "fill(ds_config)\n",
        "ds_config = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create(ds_config), cli))\n",
        "def deep(a, b):\n    for key in b:\n        a[key] = b[key]\ndeep(ds_config, overrides)\n",
        "zero = ds_config['zero_optimization']\nzero['stage'] = args.stage\n",
        "ds_config.get('zero_optimization')['stage'] = args.stage\n",
        "ds_config.clear()\n",
        "ds_config.__setitem__('zero_optimization', args.zero)\n",
    ],
)
def test_a_value_that_other_code_may_change_is_not_checked(config: Path, change: str) -> None:
    config.write_text(json.dumps({MICRO: 1, "zero_optimization": {"stage": 7}}))
    Path("train.py").write_text(LOAD + change + START)
    assert not [each for each in check(config) if each.severity == "error"]


def test_a_config_that_other_code_only_reads_is_checked(config: Path) -> None:
    config.write_text(json.dumps({MICRO: 1, "zero_optimization": {"stage": 7}}))
    reads = "print(json.dumps(ds_config))\nlogger.info(ds_config)\nn = len(ds_config)\n"
    Path("train.py").write_text(LOAD + reads + START)
    assert [each.dotted for each in check(config) if each.severity == "error"] == ["zero_optimization.stage"]
