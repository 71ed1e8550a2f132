"""`dsconfig resolve`: the config on stdout or in a file, the rest beside it, bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Runs, Spawns

ELASTIC = """{
  train_batch_size: 8 // Hjson
  elasticity: {
    enabled: true, max_train_batch_size: 2000, micro_batch_sizes: [2, 4, 6], version: 0.1
    ignore_non_elastic_batch_info: true
  }
}
"""
TARGET = ("--target", "0.19.8")


@pytest.fixture(autouse=True)
def files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "DEEPSPEED_ELASTICITY_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (here / "elastic.json").write_text(ELASTIC)
    (here / "plain.json").write_text('{"train_batch_size": 64}')
    (here / "hf.json").write_text(
        '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 0.5, "zero_optimization": '
        '{"stage": 3, "reduce_bucket_size": "auto"}}'
    )
    (here / "args.yaml").write_text("per_device_train_batch_size: 4\n")
    (here / "model.json").write_text('{"n_embd": 1000}')


def test_config_on_stdout_the_rest_on_stderr(run: Runs) -> None:
    code, out, err = run("resolve", "elastic.json", "--world-size", "8", *TARGET)
    assert code == 0
    assert json.loads(out) == {
        "train_batch_size": 1680,
        "train_micro_batch_size_per_gpu": 6,
        "gradient_accumulation_steps": 35,
    }
    assert err.splitlines() == [
        "1680 samples a step = 6 (micro batch) × 35 (accumulation steps) × 8 ranks, DeepSpeed 0.19.8",
        "overridden: elasticity overrides `train_batch_size`: 8 becomes 1680",
        "removed: the `elasticity` block is replaced by the batch for 8 ranks: this release rejects it",
    ]


def test_config_into_a_file(run: Runs, here: Path) -> None:
    code, out, err = run("resolve", "plain.json", "--world-size", "8", "-o", "out.json", *TARGET, "--tp", "2")
    assert (code, err) == (0, "")
    assert out == (
        "64 samples a step = 16 (micro batch) × 1 (accumulation steps) × 4 data-parallel of 8 ranks, "
        "DeepSpeed 0.19.8\n"
    )
    assert json.loads((here / "out.json").read_text())["train_micro_batch_size_per_gpu"] == 16
    assert sorted(path.name for path in here.glob("out*")) == ["out.json"]


def test_file_stays_whole_where_it_cannot_be_replaced(run: Runs, here: Path) -> None:
    (here / "out.json").mkdir()
    code, _, err = run("resolve", "plain.json", "--world-size", "8", "-o", "out.json", *TARGET)
    assert code == 2
    assert err.startswith("dsconfig: error: out.json: ")
    assert sorted(path.name for path in here.glob("out*")) == ["out.json"]


def test_impossible_request_explains_itself(run: Runs) -> None:
    code, out, err = run("resolve", "plain.json", "--world-size", "7", *TARGET)
    assert (code, out) == (1, "")
    first, second = err.splitlines()
    assert first == "error: `train_batch_size` 64 is not divisible by 7 (world size): 9 × 7 = 63"
    assert second.startswith(
        "  = set `train_batch_size` to a multiple of 7, for example 63 or 70, or run on 1, 2, 4"
    )


def test_world_size_command_line_environment_settings(
    run: Runs, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "dsconfig.toml").write_text("world-size = 2\n")
    assert "× 2 ranks" in run("resolve", "plain.json", *TARGET).err
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "× 4 ranks" in run("resolve", "plain.json", *TARGET).err
    assert "× 8 ranks" in run("resolve", "plain.json", "--world-size", "8", *TARGET).err


def test_values_set_first(run: Runs) -> None:
    settings = ("--set", "zero_optimization.stage=2", "--set", "optimizer.type=AdamW", "--set", "fp16={}")
    _, out, _ = run("resolve", "plain.json", "--world-size", "8", *TARGET, *settings)
    config = json.loads(out)
    assert config["zero_optimization"] == {"stage": 2}
    assert config["optimizer"] == {"type": "AdamW"}
    assert config["fp16"] == {}


def test_mismatch_with_the_trainer_is_a_finding(run: Runs, here: Path) -> None:
    arguments = ("--consumer", "transformers", "--training-args", "args.yaml", "--model-config", "model.json")
    code, out, err = run("resolve", "hf.json", "--world-size", "2", *TARGET, *arguments, "-o", "out.json")
    assert (code, out) == (1, "")
    assert not (here / "out.json").exists()
    assert "mismatch: `gradient_clipping` is 0.5, but `max_grad_norm` is 1.0\n" in err
    assert "filled: `train_micro_batch_size_per_gpu` = 4 from per_device_train_batch_size\n" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("plain.json",), "no world size: pass --world-size, or set WORLD_SIZE in the environment"),
        (("nope.json", "--world-size", "8"), "nope.json: no such file or directory"),
        (("plain.json", "--world-size", "0"), "expected a whole number above 0, got `0`"),
        (("plain.json", "--world-size", "8", "--tp", "x"), "expected a whole number above 0, got `x`"),
        (("plain.json", "--world-size", "8", "--set", "x"), "expected KEY=VALUE, got `x`"),
        (("plain.json", "--world-size", "8", "--set", "train_batch_size.x=1"), "is not an object"),
        (("plain.json", "--world-size", "8", "--target", "9.x"), "unknown DeepSpeed release `9.x`"),
        (("plain.json", "--world-size", "8", "--training-args", "no.yaml"), "no.yaml: no such file"),
        (
            ("plain.json", "--world-size", "8", "--model-config", "bad.json"),
            "bad.json does not contain a JSON object",
        ),
        (
            ("nan.json", "--world-size", "8", "--consumer", "lightning", "--training-args", "batch.json"),
            "`gradient_clipping` is NaN, which JSON cannot",
        ),
        ((".", "--world-size", "8"), ".: is a directory"),
    ],
)
def test_wrong_use_is_one_line(run: Runs, here: Path, argv: tuple[str, ...], message: str) -> None:
    (here / "bad.json").write_text("[1")
    (here / "nan.json").write_text('{"train_batch_size": 8, "gradient_clipping": NaN}')
    (here / "batch.json").write_text('{"per_device_train_batch_size": 1, "accumulate_grad_batches": 1}')
    code, out, err = run("resolve", *argv)
    assert (code, out) == (2, "")
    assert err.startswith("dsconfig: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[1]", "{", "\x00\x01", '{"a": 1'])
def test_unreadable_config_is_a_finding(spawn: Spawns, text: str) -> None:
    result = spawn("resolve", "-", "--world-size", "8", *TARGET, stdin=text.encode())
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith("error: <stdin> cannot be read: DSC")
    assert "Traceback" not in result.err


def test_show_tells_where_values_come_from(run: Runs) -> None:
    code, out, err = run("show", "plain.json", "--world-size", "8", *TARGET)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "train_batch_size                64  line 1",
        "train_micro_batch_size_per_gpu  8   derived for 8 ranks",
        "gradient_accumulation_steps     1   derived for 8 ranks",
    ]
    document = json.loads(run("show", "plain.json", *TARGET, "--output-format", "json").out)
    assert document == {
        "version": 1,
        "release": "0.19.8",
        "values": [
            {"key": "train_batch_size", "value": 64, "origin": "written", "note": "line 1"},
            {
                "key": "train_micro_batch_size_per_gpu",
                "value": None,
                "origin": "derived",
                "note": "64 / GPUs; the number of GPUs is not known: give --world-size",
            },
        ],
    }


def test_show_says_what_is_no_key(run: Runs) -> None:
    code, out, err = run("show", "plain.json", "nope", *TARGET)
    assert (code, out) == (2, "")
    assert err == "dsconfig: error: DeepSpeed 0.19.8 has no key `nope`\n"


ODD = """\
steps_per_print: 10
prescale_gradients: false
train_batch_size: 8
day: 2020-01-01
names: !!set {b, a}
bytes: !!binary aGVsbG8=
2021-01-01: {2: 3, 1.5: [2020-01-01 10:00:00, .nan, -.inf]}
"""


def test_values_that_json_has_no_word_for(run: Runs, here: Path) -> None:
    (here / "odd.yaml").write_text(ODD)
    (here / "read.yaml").write_text(f"{ODD}dump_state: 2020-01-01\n")
    code, out, err = run("resolve", "read.yaml", "--world-size", "8", *TARGET)
    assert (code, out) == (2, "")
    assert err == "dsconfig: error: `dump_state` is a date, which JSON cannot represent\n"
    code, out, err = run("resolve", "odd.yaml", "--world-size", "8", *TARGET)
    resolved = json.loads(out)
    assert (code, resolved["day"], resolved["names"]) == (0, "2020-01-01", ["a", "b"])  # nobody reads them
    code, out, _ = run("show", "odd.yaml", *TARGET, "--output-format", "json")
    values = {value["key"]: value["value"] for value in json.loads(out)["values"]}
    assert code == 0
    assert values["day"] == "2020-01-01"
    assert values["names"] == ["a", "b"]
    assert values["bytes"] == "aGVsbG8="
    assert values["2021-01-01"] == {"2": 3, "1.5": ["2020-01-01 10:00:00", "NaN", "-Infinity"]}
    assert run("show", "odd.yaml", *TARGET).code == 0
