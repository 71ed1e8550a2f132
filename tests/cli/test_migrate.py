"""`dsconfig migrate`: from the release that a file was written for to a later one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import dsconfig
from dsconfig.core.diagnostic import dotted_path
from dsconfig.document import read_text
from dsconfig.fix.migrate import migrate
from dsconfig.fix.migration_plan import MigrationChange, MigrationDecision
from elastic import plan

from .conftest import Runs, Spawns

OLD = """{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_clipping": 1.0, // as always
  "steps_per_print": 10,
  "progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.001},
  "elasticity": {"enabled": false},
  "fp16": {"enabled": false, "loss_scal": 0},
  "zero_optimization": {"stage": 3, "cpu_offload": true, "stage3_prefetch_bucket_size": 15099494.4}
}
"""
NEW = """{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_clipping": 1.0, // as always
  "steps_per_print": 10,
  "fp16": {"enabled": false},
  "zero_optimization": {"stage": 3, "cpu_offload": true, "stage3_prefetch_bucket_size": 15099494}
}
"""
ELASTIC = """{
  "elasticity": {
    "enabled": true,
    "max_train_batch_size": 2000,
    "micro_batch_sizes": [2, 4, 6],
    "version": 0.1
  },
  "gradient_clipping": 1.0, "steps_per_print": 10,
  "fp16": {"enabled": true}
}
"""
WAY = ("--from", "0.14.5", "--to", "0.19.8")


def paths(items: Iterable[MigrationChange | MigrationDecision]) -> list[str]:
    return [dotted_path(each.path) for each in items]


# -- what is changed ---------------------------------------------------------------------------------------


def test_only_what_must_change_is_changed() -> None:
    done = migrate(read_text(OLD), "0.19.8", "0.14.5")
    assert done.text == NEW, "the deprecated `cpu_offload` still works"
    assert paths(each for each in done.changes if each.kind == "changed") == [
        "zero_optimization.stage3_prefetch_bucket_size"
    ]
    assert sorted(paths(each for each in done.changes if each.kind == "removed")) == [
        "elasticity",
        "fp16.loss_scal",
        "progressive_layer_drop",
    ]
    assert paths(done.decisions) == ["progressive_layer_drop", "fp16.loss_scal"]


def test_what_both_releases_take_stays_as_it_is() -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 1, "cpu_offload": true}, "tpyo": 1}'
    assert migrate(read_text(text), "0.19.8", "0.14.5").text == text
    ignored = '{"train_batch_size": 8, "data_types": {"grad_accum_dtyp": "fp32"}}'
    assert migrate(read_text(ignored), "0.16.9", "0.14.5").text == ignored


def test_what_the_old_release_reads_is_what_the_new_one_gets() -> None:
    text = '{"train_batch_size": 8, "aio": {"thread_count": 2}}'
    done = migrate(read_text(text), "0.19.8", "0.14.5")
    assert '"intra_op_parallelism": 2' in done.text, "it would be ignored without a word"


def test_the_reader_counts() -> None:
    text = '{"train_batch_size": "auto", "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}'
    alone = migrate(read_text(text), "0.19.8", "0.14.5")
    assert alone.stopped is not None
    filled = migrate(read_text(text), "0.19.8", "0.14.5", consumer="transformers")
    assert filled.text == text
    assert "steps_per_print" not in paths(filled.decisions), "Accelerate writes it"
    plain = migrate(read_text('{"train_batch_size": 8}'), "0.19.8", "0.14.5")
    assert paths(plain.decisions) == ["gradient_clipping", "steps_per_print"]


def test_auto_is_never_filled() -> None:
    text = (
        '{"train_batch_size": 8, "zero_optimization": {"sub_group_size": "auto"}, "amp": {"enabled": false}}'
    )
    done = migrate(read_text(text), "0.19.8", "0.14.5")
    assert '"sub_group_size": "auto"' in done.text
    assert "amp" not in done.text


def test_the_file_says_itself_what_it_is_for() -> None:
    text = '{"train_batch_size": 8, "$dsconfig": {"target": "0.14.5"}}'
    assert '"target": "0.19.8"' in migrate(read_text(text), "0.19.8", "0.14.5").text


# -- where nothing is changed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"train_batch_size": "x", "amp": null}', "0.14.5 rejects the file as it is"),
        ('{"train_batch_size": 8, "optimizer": {"type": "Adm"}}', "0.14.5 crashes with the file"),
        ('{"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}', "0.19.8 still crashes with"),
        ('{"train_batch_size": 8', "0.14.5 rejects the file as it is"),
    ],
)
def test_another_reason_stops_it(here: Path, run: Runs, text: str, reason: str) -> None:
    Path("a.json").write_text(text)
    for argv in ((), ("--diff",), ("-o", "b.json"), ("--write",)):
        code, out, err = run("migrate", *WAY, *argv, "a.json")
        output = out + err
        assert code == 1
        assert output.startswith("a.json: not migrated from 0.14.5 (--from) to 0.19.8, read by deepspeed: ")
        assert reason in output
        assert "\ndecide first\n  1. line 1" in output or "\ndecide first\n  1. `{`" in output
        assert Path("a.json").read_text() == text
        assert not Path("b.json").exists()


def test_which_releases_take_it_is_said(here: Path, run: Runs) -> None:
    Path("a.json").write_text('{"train_batch_size": "x"}')
    assert "\n  no release accepts it\n" in run("migrate", *WAY, "a.json").err
    Path("a.json").write_text(
        '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": "5e8"}}'
    )
    assert "`dsconfig fix --target 0.14.5 a.json` fixes it" in run("migrate", *WAY, "a.json").err
    assert run("fix", "--target", "0.14.5", "a.json").code == 0
    assert "not migrated" not in run("migrate", *WAY, "a.json").err
    Path("a.json").write_text(
        '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "log_trace_cache_warnings": true}}'
    )
    assert "including 0.19.8: there is nothing to migrate" in run("migrate", *WAY, "a.json").err


# -- from which release ------------------------------------------------------------------------------------


def test_it_asks_which_release_the_file_was_written_for(here: Path, run: Runs) -> None:
    Path("a.json").write_text(OLD)
    code, out, err = run("migrate", "--to", "0.19.8", "--write", "a.json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--from RELEASE" in err
    assert "--from installed" in err
    assert '"$dsconfig": {"target": "RELEASE"}' in err
    assert Path("a.json").read_text() == OLD


def test_the_file_the_environment_and_the_settings_may_say_it(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.json").write_text('{"train_batch_size": 8}')
    Path("dsconfig.toml").write_text('target = "0.12.6"')
    assert "from 0.12.6 (the settings) to" in run("migrate", "--to", "0.19.8", "a.json").err
    Path("a.json").write_text('{"train_batch_size": 8, "$dsconfig": {"target": "0.14.4"}}')
    assert "from 0.14.4 (its own `$dsconfig`) to" in run("migrate", "--to", "0.19.8", "a.json").err
    monkeypatch.setenv("DSCONFIG_TARGET", "0.13.5")
    assert "from 0.13.5 (DSCONFIG_TARGET) to" in run("migrate", "--to", "0.19.8", "a.json").err
    assert "from 0.14.5 (--from) to" in run("migrate", *WAY, "a.json").err
    Path("dsconfig.toml").write_text('target = ">=0.12,<0.19"')
    monkeypatch.delenv("DSCONFIG_TARGET")
    Path("a.json").write_text('{"train_batch_size": 8}')
    code, _, err = run("migrate", "--to", "0.19.8", "a.json")
    assert code == 2
    assert "migrate needs a single release; pass --from RELEASE" in err


def test_installed(here: Path, spawn: Spawns) -> None:
    Path("a.json").write_text('{"train_batch_size": 8}')
    assert (
        "DeepSpeed is not installed"
        in spawn("migrate", "--from", "installed", "--to", "0.19.8", "a.json").err
    )
    (here / "site" / "deepspeed-0.16.9.dist-info").mkdir(parents=True)
    result = spawn(
        "migrate", "--from", "installed", "--to", "0.19.8", "a.json", PYTHONPATH=str(here / "site")
    )
    assert "from 0.16.9 (--from) to 0.19.8" in result.err


# -- elasticity --------------------------------------------------------------------------------------------


def test_the_block_is_handed_over_and_its_batch_written_in(here: Path, run: Runs) -> None:
    Path("a.json").write_text(ELASTIC)
    code, out, err = run("migrate", *WAY, "--world-size", "8", "--write", "a.json")
    assert (code, err) == (1, ""), "whether the job stays elastic is to decide"
    assert "is in a.elasticity.json" in out
    config, handed = (
        json.loads(Path("a.json").read_text()),
        json.loads(Path("a.elasticity.json").read_text()),
    )
    assert handed == json.loads(ELASTIC)
    assert config == plan(handed).apply(handed, 8)
    assert dsconfig.check(config, target="0.19.8", world_size=8).ok
    assert run("elastic", "plan", "a.elasticity.json").code == 0


def test_the_batch_is_that_of_the_old_release(here: Path, run: Runs) -> None:
    block = {"enabled": True, "max_train_batch_size": 100, "micro_batch_sizes": [7, 9, 11], "version": 0.1}
    Path("a.json").write_text(json.dumps({"elasticity": block}))
    assert run("migrate", *WAY, "--world-size", "1", "-o", "b.json", "a.json").code == 1
    old = dsconfig.resolve("a.json", world_size=1, target="0.14.5")
    assert json.loads(Path("b.json").read_text())["train_batch_size"] == old.train_batch_size
    assert json.loads(Path("b.elasticity.json").read_text()) == {"elasticity": block}


def test_without_a_world_size_somebody_must_decide(here: Path, run: Runs) -> None:
    Path("a.json").write_text(ELASTIC)
    code, out, _ = run("migrate", *WAY, "--write", "a.json")
    assert code == 1
    assert "\n  1. line 2, `elasticity`: decides the batch" in out
    assert "a. pass --world-size N" in out
    assert "b. pass --keep-elasticity" in out
    assert sorted(os.listdir()) == [".git", "a.json"]
    assert Path("a.json").read_text() == ELASTIC
    assert run("migrate", *WAY, "--keep-elasticity", "--write", "a.json").code == 1
    assert Path("a.json").read_text() == ELASTIC, "nothing but the block must change"


def test_no_file_that_is_there_is_written_over(here: Path, run: Runs) -> None:
    Path("a.json").write_text(ELASTIC)
    Path("a.elasticity.json").write_text("{}")
    code, _, err = run("migrate", *WAY, "--world-size", "8", "--write", "a.json")
    assert code == 2
    assert "a.elasticity.json already exists" in err
    assert Path("a.json").read_text() == ELASTIC
    more = ("--elasticity", "c.json")
    assert run("migrate", *WAY, "--world-size", "8", *more, "--write", "a.json").code == 1
    assert json.loads(Path("c.json").read_text()) == json.loads(ELASTIC)
    assert Path("a.elasticity.json").read_text() == "{}"


def test_a_block_that_is_off_needs_no_batch(here: Path, run: Runs) -> None:
    Path("a.json").write_text(
        ELASTIC.replace('"enabled": true,', '"enabled": false,', 1).replace(
            "{\n  ", '{\n  "train_batch_size": 8, ', 1
        )
    )
    assert run("migrate", *WAY, "--write", "a.json").code == 0
    assert "elasticity" not in Path("a.json").read_text()
    assert "max_train_batch_size" in Path("a.elasticity.json").read_text()


def test_releases_that_read_the_block_keep_it() -> None:
    assert migrate(read_text(ELASTIC), "0.19.7", "0.14.5").text == ELASTIC


# -- what is to decide -------------------------------------------------------------------------------------


def test_decisions_are_numbered_with_their_lines(here: Path, run: Runs) -> None:
    Path("a.json").write_text(
        OLD.replace('"gradient_clipping": 1.0, // as always', '"wall_clock_breakdown": true,')
    )
    lines = run("migrate", *WAY, "a.json").err.splitlines()
    start = lines.index("to decide, in this order")
    numbered = [line.split("`")[1] for line in lines[start:] if re.match(r"  \d+\. ", line)]
    assert numbered == ["progressive_layer_drop", "fp16.loss_scal", "gradient_clipping"], "the gravest first"
    assert lines[start + 1].startswith(
        "  1. was line 5, `progressive_layer_drop`: was removed: 0.14.5 reads it, "
    )
    assert '{"enabled": true, "theta": 0.5, "gamma": 0.001}' in lines[start + 1], "no value gets lost"
    assert lines[start + 2 : start + 4] == [
        "     a. leave it out: the job runs without it",
        "     b. migrate to 0.19.7 instead: the last release that reads it",
    ]
    assert "progressive_layer_drop" in run("migrate", "--from", "0.14.5", "--to", "0.19.7", "a.json").out


def test_what_is_chosen_is_to_decide_no_more(here: Path, run: Runs) -> None:
    Path("a.json").write_text('{"train_batch_size": 8, "steps_per_print": 5}')
    output = run("migrate", *WAY, "a.json").err
    assert "\n     b. write `gradient_clipping`: `0.0`: as in 0.14.5\n" in output
    Path("a.json").write_text('{"train_batch_size": 8, "steps_per_print": 5, "gradient_clipping": 0.0}')
    assert run("migrate", *WAY, "a.json").code == 0


# -- where it goes -----------------------------------------------------------------------------------------


def test_the_way_back(here: Path, run: Runs, spawn: Spawns) -> None:
    Path("a.json").write_text(OLD)
    plain = spawn("migrate", *WAY, "a.json")
    assert (plain.code, plain.out) == (1, NEW)
    assert plain.err.startswith("a.json: from 0.14.5 (--from) to 0.19.8, read by deepspeed\n")
    assert spawn("migrate", *WAY, "-", stdin=OLD.encode()).out == NEW
    assert run("migrate", *WAY, "a.json", "--diff").out.startswith("--- a/a.json\n")
    assert run("migrate", *WAY, "a.json", "-o", "b.json").code == 1
    assert Path("a.json").read_text() == OLD
    assert Path("b.json").read_text() == NEW
    assert run("migrate", *WAY, "a.json", "--write").err == ""
    assert Path("a.json").read_text() == NEW
    assert run("check", "a.json", "--target", "0.19.8", "-q", "--fail-on", "error").code == 0


def test_nothing_to_do(here: Path, run: Runs) -> None:
    Path("a.json").write_text(NEW)
    before = os.stat("a.json").st_mtime_ns
    code, out, _ = run("migrate", *WAY, "--write", "a.json")
    assert (code, out) == (
        0,
        "a.json: from 0.14.5 (--from) to 0.19.8, read by deepspeed: nothing to change\n",
    )
    assert os.stat("a.json").st_mtime_ns == before


def test_without_a_release_to_go_to_it_is_the_newest(files: Path, run: Runs) -> None:
    newest = run("migrate", "--from", "0.14.5", "--to", dsconfig.LATEST, "clean.json")
    assert newest.code == 1  # something is left to decide
    assert run("migrate", "--from", "0.14.5", "clean.json") == newest


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--from", "0.14.5", "--to", "0.19.8", "missing.json"], "no such file"),
        (["--from", "0.14.5", "--to", "9", "clean.json"], "--to: unknown DeepSpeed release"),
        (["--from", "0.14.5", "--to", ">=0.19", "clean.json"], "names"),
        (
            ["--to", "0.14.5", "--from", "0.19.8", "clean.json"],
            "--from: cannot migrate from 0.19.8 to 0.14.5",
        ),
        (["clean.json"], "the config was written for is unknown: pass --from"),
        ([*WAY, "--write", "-o", "x.json", "clean.json"], "not allowed with"),
        ([*WAY, "--write", "-"], "--write needs a file"),
        ([*WAY, "-o", "clean.json", "clean.json"], "use --write to overwrite it"),
        ([*WAY, "--elasticity", "clean.json", "clean.json"], "use --write to overwrite it"),
    ],
)
def test_wrong_use(files: Path, run: Runs, argv: list[str], message: str) -> None:
    code, _, err = run("migrate", *argv)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


MICRO = {"train_micro_batch_size_per_gpu": 4}
FP16 = {**MICRO, "fp16": {"enabled": True}}
BF16 = {**MICRO, "bf16": {"enabled": True}}
MUON = {**BF16, "optimizer": {"type": "Muon"}}


@pytest.mark.parametrize(
    ("config", "way", "consumer", "code"),
    [
        ({**BF16, "zero_optimization": {"stage": 2}}, "0.7.5 0.7.6", "deepspeed", "DSC340"),
        ({**BF16, "zero_optimization": {"stage": 3}}, "0.7.5 0.7.6", "deepspeed", "DSC340"),
        ({**FP16, "communication_data_type": "fp32", "zero_optimization": {"stage": 1}}, "0.5.7 0.5.8",
         "deepspeed", "DSC903"),
        ({**MICRO, "managed_gradient_accumulation": False,
          "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}, "0.19.3 0.19.4",
         "deepspeed", "DSC420"),
        ({**MUON, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}, "0.19.2 0.19.3",
         "deepspeed", "DSC516"),
        ({**MICRO, "compile": {"deepcompile": True}, "zero_optimization": {"stage": 3}}, "0.18.3 0.18.4",
         "deepspeed", "DSC715"),
        ({**MICRO, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}, "0.15.4 0.16.0",
         "transformers==4.46.1", "DSC813"),
        ({**MICRO, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 3}}, "0.15.4 0.16.9",
         "accelerate==1.0", "DSC813"),
    ],
)  # fmt: skip
def test_what_only_the_engine_of_the_later_release_refuses_is_named(
    here: Path, run: Runs, config: dict[str, object], way: str, consumer: str, code: str
) -> None:
    """Both releases accept the config, and the later one stops when it trains."""
    Path("a.json").write_text(json.dumps(config))
    origin, to = way.split()
    done = run("migrate", "a.json", "--from", origin, "--to", to, "--consumer", consumer, "--diff")
    assert f"({code})" in done.err
    assert "nothing to change" not in done.err
