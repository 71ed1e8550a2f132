"""`dsconfig memory --fit -o`: what is written fits, keeps the rest of the text, and where it goes."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of
from tests.cli.fits.judge import judge
from tests.cli.fits.trials import trial_of
from tests.cli.test_memory import RUN
from tests.cli.test_writing import COMMAND

CONFIG: dict[str, Any] = config_of(2, allgather_bucket_size=200_000_000)
FIT = (*RUN, "--sequence-length", "2048", "--fit", "24GiB")
FITS = re.compile(r"fits 24.00 GiB with these changes; [\d.]+ to [\d.]+ GiB expected in nvidia-smi")
YAML = "train_micro_batch_size_per_gpu: 1\nbf16: {enabled: true}  # in half\n"
pytestmark = pytest.mark.usefixtures("ds_json")


@pytest.mark.parametrize("seed", range(4, 24))
def test_what_is_written_fits_and_keeps_the_rest(here: Path, run: Runs, seed: int) -> None:
    """`python -m tests.cli.fits` tries many more."""
    (here / "ds.json").unlink()
    judge(trial_of(random.Random(seed)), run)


def test_stdout_has_the_config_to_itself(run: Runs, here: Path) -> None:
    code, out, err = run(*FIT, "-o", "-")
    assert (code, json.loads(out)["zero_optimization"]["stage"]) == (0, 3)
    assert FITS.fullmatch(err.splitlines()[-1])
    assert not (here / "-").exists()
    assert run(*FIT, "-o", "out.json").out == err
    assert (here / "out.json").read_text() == out
    assert json.loads(run(*FIT, "-o", "-", "--output-format", "json").err)["fit"]["fits"] is True


@pytest.mark.parametrize(
    "argv",
    [
        ("resolve", "ds.json", "--world-size", "8", "--target", "0.19.8"),
        ("migrate", "ds.json", "--from", "0.19.7", "--to", "0.19.8"),
        ("schema", "--target", "0.19.8"),
    ],
)
def test_a_dash_is_stdout_to_every_verb(run: Runs, here: Path, argv: tuple[str, ...]) -> None:
    assert run(*argv, "-o", "-") == run(*argv)
    assert not (here / "-").exists()
    assert run(*argv, "-o", "").code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full here")
def test_a_full_disk_is_said_of_the_output(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, *FIT, "-o", "-"], stdout=full, check=False, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.endswith(b"\ndsconfig: error: cannot write the output: no space left on device\n")


@pytest.mark.parametrize("argv", [FIT, ("resolve", "ds.json", "--world-size", "8", "--target", "0.19.8")])
def test_the_file_that_stdout_is_stays_that_file(here: Path, run: Runs, argv: tuple[str, ...]) -> None:
    """Another one in its place would have half of what is written."""
    with (here / "both.txt").open("w") as both:
        subprocess.run([COMMAND, *argv, "-o", "/dev/stdout"], stdout=both, check=True, stderr=subprocess.PIPE)
    assert (here / "both.txt").read_text().startswith(run(*argv, "-o", "-").out)


@pytest.mark.parametrize(
    ("file", "out", "message"),
    [
        ("ds.yaml", "x.json", "ds.yaml is YAML and is not converted; choose a name that ends in .yaml"),
        ("ds.json", "x.yml", "ds.json is not YAML and is not converted; choose a name that ends in .json"),
    ],
)
@pytest.mark.parametrize("verb", [FIT[3:], ("--from", "0.18.9", "--to", "0.19.8")])
def test_a_text_is_not_put_under_the_name_of_another_format(
    run: Runs, here: Path, file: str, out: str, message: str, verb: tuple[str, ...]
) -> None:
    (here / "ds.yaml").write_text(YAML)
    name = "memory" if "--fit" in verb else "migrate"
    model = ("--model", "llama-2-7b") if name == "memory" else ()
    argv = [word for word in verb if word != "llama-2-7b"]
    assert run(name, file, *model, *argv, "-o", out) == (2, "", f"dsconfig: error: {out}: {message}\n")
    assert not (here / out).exists()


def test_what_nothing_reads_with_the_changes_is_taken_out(run: Runs, here: Path) -> None:
    code, out, _ = run(*FIT, "-o", "out.json")
    assert (
        code,
        "remove `zero_optimization.allgather_bucket_size`, which nothing reads any more" in out,
    ) == (
        0,
        True,
    )
    assert "allgather_bucket_size" not in (here / "out.json").read_text()
    assert run("check", "out.json", "--target", "0.19.8").code == 0


def test_values_to_write_first_are_written(run: Runs, here: Path) -> None:
    assert run(*RUN, "--set", "zero_optimization.stage=3", "--fit", "2TiB", "-o", "out.json").code == 0
    assert json.loads((here / "out.json").read_text())["zero_optimization"]["stage"] == 3


def test_a_section_that_is_there_keeps_its_other_keys(run: Runs, here: Path) -> None:
    off = {"device": "none", "pin_memory": True}
    (here / "ds.json").write_text(json.dumps(config_of(3, offload_optimizer=off)))
    assert run(*RUN, "--zero-init", "--fit", "9GiB", "-o", "out.json").code == 0
    zero = json.loads((here / "out.json").read_text())["zero_optimization"]
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": True}


def test_a_reader_that_the_text_no_longer_shows_is_named(run: Runs, here: Path) -> None:
    """The Trainer compares a batch that is written in part, Accelerate does not; all of it shows neither."""
    batch = {"train_batch_size": 64, "bf16": {"enabled": True}, "gradient_clipping": "auto"}
    (here / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, **batch}))
    (here / "args.json").write_text('{"per_device_train_batch_size": 8, "bf16": true}')
    command = (*RUN, "--training-args", "args.json", "--margin", "0GiB", "--fit", "60GiB", "-o", "out.json")
    message = "accelerate is no longer auto-detected as the consumer: pass --consumer accelerate"
    assert run(*command).out.splitlines()[-2:] == [message, "fits 60.00 GiB with these changes"]
    answer = json.loads(run(*command, "--output-format", "json").out)["fit"]
    assert (answer["consumer"], answer["removed"]) == ("accelerate", [])


HOSTILE = ("-5", "-5GiB", "nan", "inf", "1e3GiB", "1e400", "9" * 400, "80G", "", "GiB")


@pytest.mark.parametrize("size", HOSTILE)
@pytest.mark.parametrize("option", ["--fit", "--gpu", "--margin", "--host"])
def test_what_is_no_amount_is_refused_in_a_line(run: Runs, size: str, option: str) -> None:
    code, out, err = run(*RUN, option, size)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert len(err) < 200


def test_decimal_and_binary_units_differ(run: Runs) -> None:
    assert "fits 73.57 GiB" in run(*RUN, "--fit", "79GB").out
    assert "fits 80.00 GiB" in run(*RUN, "--fit", "80 gib").out
    assert run(*RUN, "--fit", "0").code == run(*RUN, "--gpu", "0", "--max", "micro-batch").code == 1


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("no/such/out.json", "no/such/out.json: no such file or directory"),
        ("ds.json/out.json", "ds.json/out.json: not a directory"),
        (".", "--output .: expected a file name, or `-` for stdout"),
        ("", "--output : expected a file name, or `-` for stdout"),
        ("config.json", "config.json would overwrite the input config.json: choose another name"),
        ("link", "link would overwrite the input config.json: choose another name"),
        ("args.json", "args.json would overwrite the input args.json: choose another name"),
        ("two.json", "two.json: has 2 hard links, which replacing it would separate; it is not written"),
    ],
)
def test_where_nothing_can_be_written(run: Runs, here: Path, out: str, message: str) -> None:
    (here / "config.json").write_text('{"model_type": "gpt2"}')
    (here / "args.json").write_text("{}")
    (here / "two.json").write_text("{}")
    os.link("two.json", "second.json")
    os.symlink("config.json", "link")
    before = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
    argv = ("memory", "ds.json", "--model", "config.json", *RUN[4:8], "--training-args", "args.json")
    code, _, err = run(*argv, "--fit", "24GiB", "-o", out)
    assert (code, err) == (2, f"dsconfig: error: {message}\n")
    assert {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()} == before


def test_through_a_link_and_never_over_the_config_itself(run: Runs, here: Path) -> None:
    (here / "old.json").write_text("{}")
    os.symlink("old.json", "link.json")
    assert run(*FIT, "-o", "link.json").code == 0
    assert (here / "link.json").is_symlink()
    assert json.loads((here / "old.json").read_text())["zero_optimization"]["stage"] == 3
    os.symlink("ds.json", "itself.json")
    assert run(*FIT, "-o", "itself.json").code == run(*FIT, "-o", "./ds.json").code == 2


def test_a_config_that_does_not_fit_is_not_written(run: Runs, here: Path) -> None:
    (here / "out.json").write_text("old")
    code, _, err = run(*RUN, "--fit", "1GiB", "-o", "out.json")
    assert (code, err) == (1, "dsconfig: note: did not write out.json\n")
    assert (here / "out.json").read_text() == "old"


def test_what_does_not_go_together(run: Runs, here: Path) -> None:
    (here / "bytes.json").write_bytes(json.dumps(CONFIG).encode() + b" // \xff")
    (here / "launch.yaml").write_text("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n")
    assert "--fit and --gpu exclude each other" in run(*FIT, "--gpu", "80GiB").err
    assert "--fit and --max exclude each other" in run(*FIT, "--max", "sequence").err
    for name, message in (("bytes.json", "is not UTF-8 text"), ("launch.yaml", "is a launch file")):
        code, out, err = run("memory", name, *FIT[2:], "--micro-batch", "1", "-o", "out")
        assert (code, out, message in err) == (2, "", True)


def test_changes_are_told_where_there_is_no_place_for_them(run: Runs, here: Path) -> None:
    text = YAML + "zero_optimization: &zero\n  stage: 2\n"
    (here / "ds.yaml").write_text(text)
    code, out, err = run("memory", "ds.yaml", *FIT[2:], "-o", "out.yaml")
    assert (code, bool(FITS.fullmatch(out.splitlines()[-1]))) == (2, True)
    assert err == "dsconfig: error: ds.yaml cannot be changed: the value has an anchor or a tag\n"
    assert not (here / "out.yaml").exists()
