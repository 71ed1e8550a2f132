"""Consumer of a config that a program takes by its own argument."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check, resolve

AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "zero_optimization": {"stage": 2},
}
PARSES = "import argparse\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\n"
TRAINER = "targs = TrainingArguments('o', deepspeed=args.deepspeed_config)\n"
PROGRAMS = {
    "keyword": (TRAINER, "transformers"),
    "variable": (
        "path = Path(args.deepspeed_config)\nTrainingArguments('o', deepspeed=str(path))\n",
        "transformers",
    ),
    "subclass": ("OwnArguments('o', deepspeed=vars(args)['deepspeed_config'])\n", "transformers"),
    "attribute": ("training_args.deepspeed = args.deepspeed_config\n", "transformers"),
    "loaded": (
        (
            "with open(args.deepspeed_config) as f:\n    ds = json.load(f)\n"
            "TrainingArguments('o', deepspeed=ds)\n"
        ),
        "transformers",
    ),
    "parameter": (
        "def run(ds):\n    TrainingArguments('o', deepspeed=ds)\nrun(ds=args.deepspeed_config)\n",
        "transformers",
    ),
    "plugin": ("plugin = DeepSpeedPlugin(hf_ds_config=args.deepspeed_config)\n", "accelerate"),
    "strategy": ("strategy = DeepSpeedStrategy(config=args.deepspeed_config)\n", "lightning"),
    "own": ("deepspeed.initialize(args=args, model=model)\n", "deepspeed"),
    "own config": ("deepspeed.initialize(model=model, config=args.deepspeed_config)\n", "deepspeed"),
    "the flag's": (
        f"{TRAINER}deepspeed.initialize(model=reference, config=other)\n",
        "transformers",
    ),
}


@pytest.fixture
def config(empty_repository: Path) -> Path:
    """A config of a repository in the current directory."""
    path = Path("ds.json")
    path.write_text(json.dumps(AUTO))
    return path


@pytest.mark.parametrize("flag", ["--deepspeed-config", "--deepspeed_config"])
@pytest.mark.parametrize("program_name", PROGRAMS)
def test_the_program_says_who_reads_the_config(config: Path, program_name: str, flag: str) -> None:
    program, consumer = PROGRAMS[program_name]
    Path("train.py").write_text(PARSES + program)
    Path("run.sh").write_text(f"torchrun --nproc_per_node 4 train.py {flag} ds.json\n")
    report = check(config)
    (child,) = check("run.sh").children
    assert (report.consumer, child.consumer) == (consumer, consumer)
    assert not report.reader.others
    for each in (report, child):
        errors = [diagnostic for diagnostic in each if diagnostic.severity == "error"]
        assert bool(errors) is (consumer in ("deepspeed", "lightning"))


def test_the_program_may_be_a_module(config: Path) -> None:
    Path("src/own").mkdir(parents=True)
    Path("src/own/train.py").write_text("from own.start import start\nstart()\n")
    Path("src/own/start.py").write_text(f"def start():\n    {TRAINER}")
    Path("run.sh").write_text("cd src\ntorchrun -m own.train --deepspeed-config ../ds.json\n")
    (child,) = check("run.sh").children
    assert (child.consumer, child.reader.others) == ("transformers", ())


@pytest.mark.parametrize(
    "program",
    [None, "from elsewhere import main\nmain()\n", f"{PARSES}{TRAINER}deepspeed.initialize(args=args)\n"],
)
def test_what_is_wrong_for_one_candidate_alone_is_no_error(config: Path, program: str | None) -> None:
    config.write_text(json.dumps({**AUTO, "steps_per_print": "often"}))
    if program is not None:
        Path("train.py").write_text(program)
    Path("run.sh").write_text("torchrun --nproc_per_node 4 train.py --deepspeed-config ds.json\n")
    (child,) = check("run.sh").children
    for report in (check(config), child):
        assert not [diagnostic for diagnostic in report if diagnostic.severity == "error"]
        assert "deepspeed" in report.reader.others
        assert str(report.reader).startswith("probably read by")
        assert any("assuming that" in note for note in report.notes)
    config.write_text(json.dumps({**AUTO, "zero_optimization": {"stage": 9}}))
    assert [each.dotted for each in check(config) if each.severity == "error"] == ["zero_optimization.stage"]


def test_a_run_says_who_is_assumed_to_read_the_config(config: Path) -> None:
    config.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}))
    Path("run.sh").write_text("torchrun --nproc_per_node 4 train.py --deepspeed-config ds.json\n")
    for name in ("run.sh", "ds.json"):
        run = resolve(name)
        assert run.triplet == (8, 2, 1)
        assert any("deepspeed is assumed to load the config" in each.text for each in run.messages)
    assert not any("is assumed" in each.text for each in resolve(config, consumer="deepspeed").messages)


def test_the_flags_of_deepspeed_itself_leave_no_doubt(config: Path) -> None:
    Path("run.sh").write_text("deepspeed train.py --deepspeed --deepspeed_config ds.json\n")
    report = check(config)
    assert (report.consumer, report.reader.others) == ("deepspeed", ())
    assert {each.code for each in report} >= {"DSC206"}
