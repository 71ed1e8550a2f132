"""`dsconfig elastic plan`: table, JSON, CSV, chart."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Runs

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    block = {"enabled": True, "max_train_batch_size": 100, "micro_batch_sizes": [2, 3], "version": 0.1}
    (here / "ds.json").write_text(json.dumps({"elasticity": {**block, "max_gpus": 12}}))
    (here / "plain.json").write_text('{"train_batch_size": 8}')
    (here / "broken.json").write_text("{")


def test_table(run: Runs) -> None:
    code, out, err = run("elastic", "plan", "ds.json", "--world-sizes", "8:11")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "72 samples per step, 8 admissible world sizes (cap 100, micro batches 2, 3)"
    assert lines[2] == "world size  GPUs  nodes  micro batch  steps  idle"
    assert lines[3].split() == ["8", "8", "8", "3", "3"]
    assert lines[5].startswith(
        "        10    10     10            -      -   10%  world size 10 does not divide"
    )


def test_exact_stands_beside_the_heuristic(run: Runs) -> None:
    out = run("elastic", "plan", "ds.json", "--world-sizes", "5,7,10", "--exact").out
    assert out.splitlines()[0].startswith("heuristic: 72 samples per step")
    assert out.splitlines()[1] == "exact: 100 samples per step admits 2 of the 3 sizes below, the heuristic 0"


def test_json(run: Runs) -> None:
    document = json.loads(run("elastic", "plan", "ds.json", "--output-format", "json").out)
    assert (document["version"], document["batch_size"], document["exact_batch_size"]) == (1, 72, None)
    assert document["world_sizes"] == [row["world_size"] for row in document["rows"]]
    for row in document["rows"]:
        assert row["micro_batch_size"] * row["accumulation_steps"] * row["world_size"] == row["batch_size"]


def test_csv(run: Runs) -> None:
    out = run(
        "elastic", "plan", "ds.json", "--output-format", "csv", "--nodes", "1:2", "--gpus-per-node", "5"
    ).out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["world_size"], row["nodes"], row["admissible"]) for row in rows] == [
        ("5", "1", "False"),
        ("10", "2", "False"),
    ]


def test_plans_as_the_release_did(run: Runs, here: Path) -> None:
    block = {"enabled": True, "max_train_batch_size": 100, "micro_batch_sizes": [8, 10, 12], "version": 0.1}
    (here / "lcm.json").write_text(json.dumps({"elasticity": block}))
    assert run("elastic", "plan", "lcm.json").code == 0
    code, _, err = run("elastic", "plan", "lcm.json", "--target", "0.19.5")
    assert code == 1
    assert "batch 120, the least common multiple" in err


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("plain.json",), 1, "plain.json: the config has no `elasticity` block: add one, for example"),
        (("nope.json",), 2, "nope.json: no such file or directory"),
        (("broken.json",), 2, "broken.json is not a valid config: run `dsconfig check broken.json`"),
        (("ds.json", "--world-sizes", "8:x"), 2, "expected whole numbers above 0"),
        (("ds.json", "--nodes", "0"), 2, "expected whole numbers above 0"),
        (("ds.json", "--nodes", "1", "--world-sizes", "1"), 2, "not allowed with argument"),
        (("ds.json", "--plot", "x.gif"), 2, "--plot x.gif: expected a file that ends in .svg or .png"),
        (("ds.json", "--target", "x"), 2, "unknown DeepSpeed release `x`"),
        (("ds.json", "--target", "0.3.1"), 1, "DeepSpeed 0.3.1 has no elasticity"),
    ],
)
def test_bad_input_is_one_line(run: Runs, argv: tuple[str, ...], code: int, message: str) -> None:
    result = run("elastic", "plan", *argv)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1


def test_verbs_of_elastic(run: Runs) -> None:
    assert run("elastic").err.startswith("dsconfig: error: no command given: expected one of plan")
    assert run("elastic", "nope").code == 2


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="needs matplotlib, the extra `plot`")
@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_chart(run: Runs, here: Path, suffix: str, start: bytes) -> None:
    for name in (f"a{suffix}", f"b{suffix}"):
        assert run("elastic", "plan", "ds.json", "--exact", "--plot", name).code == 0
    assert (here / f"a{suffix}").read_bytes().startswith(start)
    assert (here / f"a{suffix}").read_bytes() == (here / f"b{suffix}").read_bytes()


@pytest.mark.skipif(HAS_MATPLOTLIB, reason="matplotlib is installed")
def test_chart_says_what_it_needs(run: Runs) -> None:
    code, _, err = run("elastic", "plan", "ds.json", "--plot", "x.svg")
    assert code == 2
    assert err == "dsconfig: error: --plot needs matplotlib: install `deepspeed-config[plot]`\n"
