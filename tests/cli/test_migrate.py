"""`dsconfig migrate` and `dsconfig compat`: the way between releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig
from dsconfig.checking.compat import compat
from dsconfig.document import read_text
from dsconfig.fixing.migrate import migrate
from dsconfig.releases import RELEASES

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
  "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, \
"stage3_prefetch_bucket_size": 15099494}
}
"""


def test_what_the_old_release_read_is_what_the_new_one_gets() -> None:
    done = migrate(read_text(OLD), "0.19.8", "0.14.5")
    assert json.loads(done.text.replace("// as always", "")) == json.loads(NEW.replace("// as always", ""))
    assert "// as always" in done.text
    assert dsconfig.check(done.text, "0.19.8").ok
    assert {".".join(map(str, change.path)) for change in done.rewritten} == {
        "zero_optimization.cpu_offload",
        "zero_optimization.stage3_prefetch_bucket_size",
    }
    assert {".".join(map(str, change.path)) for change in done.dropped} == {
        "progressive_layer_drop",
        "elasticity",
        "fp16.loss_scal",
    }
    assert [change.path for change in done.to_decide] == [("progressive_layer_drop",)]


def test_the_newest_earlier_release_that_takes_the_file_is_where_it_comes_from() -> None:
    done = migrate(read_text(OLD), "0.19.8")
    assert done.origin == "0.14.5"
    assert migrate(read_text('{"train_batch_size": 8}'), "0.19.8").origin == "0.19.7"
    assert migrate(read_text('{"train_batch_size": "x"}'), "0.19.8").origin is None
    assert migrate(read_text('{"train_batch_size": 8}'), RELEASES[0]).origin is None


def test_defaults_that_changed_are_a_persons_to_decide() -> None:
    done = migrate(read_text('{"train_batch_size": 8}'), "0.19.8", "0.14.5")
    (clipping,) = (change for change in done.to_decide if change.path == ("gradient_clipping",))
    assert "its default was `0.0` in 0.14.5 and is `1.0` in 0.19.8" in clipping.why
    assert done.text == '{"train_batch_size": 8}'


def test_values_that_both_refuse_are_mended_all_the_same() -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": "5e8"}}'
    assert '"reduce_bucket_size": 500000000' in migrate(read_text(text), "0.19.8", "0.14.5").text


def test_the_file_is_rewritten_and_the_report_told(here: Path, run: Runs) -> None:
    Path("a.json").write_text(OLD)
    code, out, err = run("migrate", "--to", "0.19.8", "a.json")
    assert (code, err) == (1, "")
    assert out.startswith("a.json: from 0.14.5 (the newest before it that takes the file) to 0.19.8\n")
    assert "\nrewritten\n  " in out
    assert "\ndropped\n  progressive_layer_drop: remove `progressive_layer_drop` with its value, `{" in out
    assert "\nto decide\n  progressive_layer_drop: " in out
    assert Path("a.json").read_text() == migrate(read_text(OLD), "0.19.8").text
    assert run("check", "a.json", "--target", "0.19.8", "-q", "--fail-on", "error").code == 0


def test_elsewhere_or_nowhere(here: Path, run: Runs, spawn: Spawns) -> None:
    Path("a.json").write_text(OLD)
    assert run("migrate", "--to", "0.19.8", "a.json", "-o", "b.json").code == 1
    assert run("migrate", "--to", "0.19.8", "a.json", "--diff").out.startswith("--- a/a.json\n")
    assert Path("a.json").read_text() == OLD
    assert Path("b.json").read_text() == migrate(read_text(OLD), "0.19.8").text
    assert spawn("migrate", "--to", "0.19.8", "-", stdin=OLD.encode()).out == Path("b.json").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--to", "0.19.8", "missing.json"], "no such file"),
        (["--to", "9", "clean.json"], "unknown DeepSpeed release"),
        (["--to", ">=0.19", "clean.json"], "names"),
        (["--to", "0.14.5", "--from", "0.19.8", "clean.json"], "not earlier than 0.14.5"),
        (["clean.json"], "--to"),
    ],
)
def test_wrong_use(files: Path, run: Runs, argv: list[str], message: str) -> None:
    code, _, err = run("migrate", *argv)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


# -- compat ------------------------------------------------------------------------------------------------


def test_equal_neighbours_are_folded(here: Path, run: Runs) -> None:
    Path("a.json").write_text(OLD.replace(" // as always", ""))
    code, out, err = run("compat", "a.json", "--target", ">=0.14")
    assert (code, err) == (0, "")
    rows = [line.split(maxsplit=5) for line in out.splitlines()]
    assert out.splitlines()[0] == "0.14.0 to 0.14.5  taken"
    assert next(row[4] for row in rows if row[3] == "refused") == "DSC114"
    last = RELEASES[-1] if RELEASES[-1] == "0.19.8" else f"0.19.8 to {RELEASES[-1]}"
    assert out.splitlines()[-1].startswith(f"{last:16}  refused  DSC104 `progressive_layer_drop` was ")


def test_every_release_stands_in_one_stretch() -> None:
    stretches = compat(read_text(OLD))
    assert [release for each in stretches for release in each.releases] == list(RELEASES)
    for each in stretches:
        report = dsconfig.check(OLD, each.releases[0])
        assert (each.word == "taken") == report.ok
        if each.reason is not None:
            assert each.reason.code in {found.code for found in report}


def test_for_machines(files: Path, run: Runs) -> None:
    out = json.loads(run("compat", "clean.json", "--output-format", "json").out)
    assert out == {
        "version": 1,
        "path": "clean.json",
        "stretches": [
            {"releases": list(RELEASES), "verdict": "taken", "code": None, "path": None, "message": None}
        ],
    }


def test_nobody_takes_it(here: Path, run: Runs) -> None:
    Path("a.json").write_text("[1]")
    assert run("compat", "a.json").code == 1
    assert run("compat", "a.json", "--target", "x").code == 2
