"""Configs in Python sources, as the command checks and fixes them."""

from __future__ import annotations

import json
import pprint
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from dsconfig.cli import main
from dsconfig.rules import RULES
from tests.examples import examples

from .conftest import Runs

TRAIN = """import deepspeed

ds_config = {
    "train_micro_batch_size_per_gpu": args.batch,
    "zero_optimization": {"stage": 2, "overlap_com": True},
    'fp16': dict(enabled=True, loss_scal=0),
    "gradient_cliping": 1.0,  # dsconfig: ignore[DSC102]
}
ds_config["gradient_accumulation_steps"] = args.steps
engine, *_ = deepspeed.initialize(model=model, config=ds_config)
"""


def codes(run: Runs, *argv: str) -> list[tuple[str, int]]:
    files = json.loads(run("check", *argv, "--output-format", "json").out)["files"]
    return [(each["code"], each["line"]) for file in files for each in file["diagnostics"]]


def test_a_source_is_checked_at_its_lines(run: Runs, here: Path) -> None:
    (here / "train.py").write_text(TRAIN)
    assert codes(run, "train.py") == [("DSC102", 5), ("DSC102", 6)]
    assert "train.py:10 passes it to `deepspeed.initialize`" in run("check", "train.py", "--verbose").out


def test_a_folder_is_searched_for_sources(run: Runs, here: Path) -> None:
    (here / "train.py").write_text(TRAIN)
    (here / "other.py").write_text("print('zero_optimization')\n")
    (here / "tests").mkdir()
    (here / "tests" / "test_train.py").write_text(TRAIN)
    assert run("check", "--show-files", ".").out.splitlines() == [
        "train.py: read by deepspeed: train.py:10 passes it to `deepspeed.initialize`"
    ]


def test_fixes_go_into_the_literal(run: Runs, here: Path) -> None:
    path = here / "train.py"
    path.write_text(TRAIN)
    run("fix", "train.py")
    fixed = TRAIN.replace("overlap_com", "overlap_comm").replace("loss_scal=", "loss_scale=")
    assert path.read_text() == fixed


def test_several_configs_of_a_source(run: Runs, here: Path) -> None:
    path = here / "train.py"
    text = TRAIN + 'other_ds_config = {"fp16": {"enabled": "true"}, "train_batch_size": 8}\n'
    path.write_text(text)
    assert codes(run, "train.py") == [("DSC102", 5), ("DSC102", 6), ("DSC113", 11)]
    result = run("fix", "train.py", "--diff")
    assert result.out.count("+++ ") == 1
    assert result.out.count("\n-") == 3
    assert path.read_text() == text
    done = run("fix", "train.py").out
    assert "Fixed 3 problems in 1 file" in done
    assert '"enabled": True}' in path.read_text()
    code, _, err = run("show", "train.py")
    assert code == 2
    assert "contains 2 configs" in err


JSON_TEXT = '{\n"train_batch_size": 8,\n"zero_optimization": {"stage": 2, "overlap_com": true}\n}\n'


@pytest.mark.parametrize("write", ["f.write(TEXT)", "Path('ds.json').write_text(TEXT)"])
def test_json_text_that_a_program_writes_to_a_file(run: Runs, here: Path, write: str) -> None:
    (here / "train.py").write_text(f'TEXT = """{JSON_TEXT}"""\n{write}\n')
    assert codes(run, "train.py") == [("DSC102", 3)]
    (here / "train.py").write_text('TEXT = """{"train_batch_size": 8, "epochs": 3}"""\nf.write(TEXT)\n')
    assert run("check", "train.py").code == 2


def test_a_batch_that_updates_a_config_is_none_of_its_own(run: Runs, here: Path) -> None:
    update = "{'train_batch_size': batch, 'train_micro_batch_size_per_gpu': 4}"
    (here / "train.py").write_text(
        f"import deepspeed\nds_config = OmegaConf.to_container(cfg.deepspeed)\nds_config.update({update})\n"
        "deepspeed.initialize(model=m, config=ds_config)\n"
    )
    assert run("check", "train.py").code == 2


def test_a_batch_for_the_plugin_of_accelerate_is_no_config(run: Runs, here: Path) -> None:
    (here / "train.py").write_text(
        "kwargs = {'train_micro_batch_size_per_gpu': 4, 'train_batch_size': 4 * accelerator.num_processes}\n"
        "AcceleratorState().deepspeed_plugin.deepspeed_config_process(must_match=True, **kwargs)\n"
    )
    assert run("check", "train.py").code == 2


def test_a_value_of_the_run_is_not_guessed(run: Runs, here: Path) -> None:
    (here / "train.py").write_text(TRAIN)
    code, out, err = run("resolve", "--world-size", "8", "train.py")
    assert (code, out) == (2, "")
    assert "train_micro_batch_size_per_gpu" in err
    assert "only known at run time" in err


# A dict with the keys of NeoX is taken for a launch file of NeoX, in a source it is what the call makes of it.
JUDGED = [code for code, rule in RULES.items() if rule.reads == "config" and code != "DSC213"]


@pytest.mark.parametrize("code", JUDGED)
def test_a_rule_finds_in_a_literal_what_it_finds_in_the_dict(here: Path, code: str) -> None:
    for number, example in enumerate(examples(RULES[code])):
        try:
            config = json.loads(example.text)
        except ValueError:
            continue
        if not isinstance(config, dict) or not config or "deepspeed" in config:
            continue  # the last is a launch file, which a source does not contain
        options: dict[str, Any] = {
            "target": example.target,
            "world_size": example.world_size,
            "consumer": example.consumer,
            "host_memory": example.host_memory,
        }
        path = here / f"train_{number}.py"
        path.write_text(f"x = 0\nDeepSpeedConfig(\n{pprint.pformat(config, sort_dicts=False)}\n)\n")
        expected = dsconfig.check(config, **options)
        found = dsconfig.check(str(path), **options)
        # DSC927 is about the program around the literal, which a dict does not have.
        compared = [d for d in found if d.code != "DSC927"]
        assert sorted((d.code, d.path, d.message) for d in compared) == sorted(
            (d.code, d.path, d.message) for d in expected
        )
        assert all(d.location for d in found)


@pytest.mark.parametrize("code", JUDGED)
def test_no_rule_guesses_a_value_that_only_a_run_shows(here: Path, code: str) -> None:
    """Each key of an example in turn is left to the run: what is found then is found with any value of the key."""
    for number, example in enumerate(examples(RULES[code])):
        try:
            config = json.loads(example.text)
        except ValueError:
            continue
        if not isinstance(config, dict):
            continue
        for place, path in enumerate(leaves(config, ())):
            source = here / f"train_{number}_{place}.py"
            text = pprint.pformat(replaced(config, path), sort_dicts=False).replace("'<run>'", "args.value")
            source.write_text(f"DeepSpeedConfig(\n{text}\n)\n")
            report = dsconfig.check(
                str(source), target=example.target, world_size=example.world_size, consumer=example.consumer
            )
            for found in report:
                assert found.path[: len(path)] != path, found
                assert "unknown>" not in found.message


def leaves(value: object, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    return [path] if path and path[0] != "$dsconfig" else []


def replaced(value: object, path: tuple[str, ...]) -> object:
    if not path:
        return "<run>"
    assert isinstance(value, dict)
    return {**value, path[0]: replaced(value[path[0]], path[1:])}


@pytest.mark.parametrize(
    "entries",
    [
        '"zero_optimization": {**other, "cpu_offload_params": False}',
        '"zero_optimization": {"cpu_offload_params": False, **other}',
        '"zero_optimization": {"cpu_offload_params": False, KEY: 3}',
        '"zero_optimization": dict(other, cpu_offload_params=False)',
        '"zero_optimization": {"stage": 2, u"cpu_offload": True}',
    ],
)
def test_a_fix_keeps_entries_that_the_source_does_not_show(entries: str, tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    text = f'import deepspeed\ncfg = {{"train_batch_size": 8, {entries}}}\ndeepspeed.initialize(config=cfg)\n'
    source.write_text(text)
    main(["fix", "--isolated", str(source)])
    assert source.read_text() == text


@pytest.mark.parametrize(
    "program",
    [
        'cfg = {"train_batch_size": 8, "zero_optimization": {"stage": 7}, **other}',
        'cfg = {"train_batch_size": 8, "zero_optimization": {"stage": 7, KEY: 1}}',
        'cfg = {"train_batch_size": 8, "zero_optimization": {"stage": 7}}\ncfg.update(other)',
        'cfg = {"train_batch_size": 8, "zero_optimization": {"stage": 7}}\nfor k, v in other.items():\n    cfg[k] = v',
    ],
)
def test_a_value_that_may_be_overwritten_is_unknown(program: str, tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text(f"import deepspeed\n{program}\ndeepspeed.initialize(config=cfg)\n")
    assert main(["check", "--isolated", str(source)]) == 0


def test_a_value_after_other_entries_is_known(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    entries = '**other, "train_batch_size": 8, "zero_optimization": {"stage": 7}'
    source.write_text(f"import deepspeed\ncfg = {{{entries}}}\ndeepspeed.initialize(config=cfg)\n")
    assert main(["check", "--isolated", str(source)]) == 1
