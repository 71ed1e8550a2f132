"""Consumer of a config, from the scripts and launch files of its repository that name it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import ResolveError, check, resolve

PLAIN = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
AUTO = {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
NAMED = [
    ("run.sh", "deepspeed train.py --deepspeed --deepspeed_config conf/z2.json\n", "deepspeed"),
    ("run.sh", "torchrun train.py \\\n  --deepspeed \\\n  ./conf/z2.json\n", "transformers"),
    ("run.sh", "accelerate launch --deepspeed_config_file=conf/z2.json train.py\n", "accelerate"),
    ("run.sh", "DS=${DS:-conf/z2.json}\ndeepspeed train.py --deepspeed_config $DS\n", "deepspeed"),
    ("run.sh", "DS=conf/z2.json\ndeepspeed train.py --deepspeed_config=${DS:-other.json}\n", "deepspeed"),
    ("run.sh", 'DS="$HERE/conf/z2.json"\npython train.py --deepspeed "${DS}"\n', "transformers"),
    ("run.slurm", "srun deepspeed train.py --deepspeed_config /mnt/x/conf/z2.json\n", "deepspeed"),
    ("a/run.sh", "deepspeed ../train.py --deepspeed_config ../conf/z2.json\n", "deepspeed"),
    ("train.yaml", "deepspeed: conf/z2.json\nstage: sft\n", "transformers"),
    ("launch.json", '{"deepspeed": "conf/z2.json"}', "transformers"),
    ("launch.json", '{"stage": "sft","deepspeed":"./conf/z2.json","do_train":true}', "transformers"),
    ("train.yaml", "{stage: sft, deepspeed: conf/z2.json}\n", "transformers"),
    ("acc.yaml", "deepspeed_config:\n  deepspeed_config_file: conf/z2.json\n", "accelerate"),
    ("train.py", 'args = TrainingArguments(out, deepspeed="conf/z2.json")\n', "transformers"),
    (
        "train.py",
        'config = json.load(open("conf/z2.json"))\ndeepspeed.initialize(config=config)\n',
        "deepspeed",
    ),
    ("train.py", 'strategy = DeepSpeedStrategy(config="conf/z2.json")\n', "lightning"),
    ("train.py", 'plugin = DeepSpeedPlugin(hf_ds_config="conf/z2.json")  # deepspeed\n', "accelerate"),
    ("run.py", 'run(["deepspeed", "train.py", "--deepspeed", "conf/z2.json"])\n', "transformers"),
    ("train.py", 'args = Args(deepspeed=r"/home/me/my project/conf/z2.json")\n', "transformers"),
    (
        "train.py",
        'import deepspeed\nds = "conf/z2.json"\nengine = deepspeed.initialize(config_params=ds)\n',
        "deepspeed",
    ),
    ("README.md", "```\ndeepspeed train.py --deepspeed conf/z2.json\n```\n", "transformers"),
]


@pytest.fixture
def repository(empty_repository: Path) -> Path:
    """A repository with a config in a folder."""
    (empty_repository / "conf").mkdir()
    return empty_repository


def reader(repository: Path, config: object = PLAIN, name: str = "conf/z2.json") -> tuple[str, str]:
    (repository / name).write_text(json.dumps(config))
    config_reader = check(repository / name).reader
    return config_reader.name, config_reader.origin


@pytest.mark.parametrize(("name", "text", "consumer"), NAMED)
def test_a_script_that_names_it(repository: Path, name: str, text: str, consumer: str) -> None:
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text(text)
    origin = "launch file" if name.endswith((".yaml", ".json")) else "script"
    assert reader(repository) == (consumer, origin)
    assert reader(repository, AUTO) == (consumer, origin)


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed train.py --deepspeed other/z2.json\n",
        "deepspeed train.py --deepspeed conf/my_z2.json\n",
        "deepspeed train.py --deepspeed conf/z2.json.bak\n",
        "deepspeed --help # conf/z2.json\n",
        "# --deepspeed conf/z2.json\n",
        'echo \'{"my_deepspeed": "conf/z2.json"}\'\n',
    ],
)
def test_a_script_that_names_another(repository: Path, text: str) -> None:
    (repository / "run.sh").write_text(text)
    assert reader(repository) == ("deepspeed", "default")
    assert reader(repository, AUTO) == ("transformers", "content")


def test_the_program_of_the_command_decides(repository: Path) -> None:
    (repository / "run.sh").write_text("deepspeed train.py --deepspeed conf/z2.json\n")
    (repository / "train.py").write_text("import deepspeed\nengine = deepspeed.initialize(args)\n")
    assert reader(repository) == ("deepspeed", "script")


def test_the_program_is_searched_in_parent_directories(repository: Path) -> None:
    for folder in ("app/scripts", "app/src", "app/conf"):
        (repository / folder).mkdir(parents=True)
    (repository / "app" / "scripts" / "run.sh").write_text("deepspeed src/x.py --deepspeed conf/z2.json\n")
    (repository / "app" / "src" / "x.py").write_text("engine = deepspeed.initialize(args)\n")
    assert reader(repository, name="app/conf/z2.json") == ("deepspeed", "script")


@pytest.mark.parametrize("loop", [False, True])
def test_a_trainer_under_accelerate_fills_more(repository: Path, *, loop: bool) -> None:
    (repository / "acc.yaml").write_text("deepspeed_config:\n  deepspeed_config_file: conf/z2.json\n")
    (repository / "train.py").write_text("args = TrainingArguments()  # with deepspeed\n")
    if loop:
        (repository / "loop.py").write_text("accelerator = Accelerator()  # with deepspeed\n")
    assert reader(repository)[0] == ("accelerate" if loop else "transformers")


@pytest.mark.parametrize("kind", ["FSDP", "MULTI_GPU", "'NO'", "MEGATRON_LM"])
@pytest.mark.parametrize("named_by_script", [False, True])
def test_an_accelerate_file_of_another_backend_says_nothing(
    repository: Path, kind: str, *, named_by_script: bool
) -> None:
    block = "deepspeed_config:\n  deepspeed_config_file: z2.json\n"
    (repository / "conf" / "acc.yaml").write_text(f"distributed_type: {kind}\n{block}")
    if named_by_script:
        (repository / "run.sh").write_text("torchrun train.py --deepspeed conf/z2.json --bf16 true\n")
    assert reader(repository) == (("transformers", "script") if named_by_script else ("deepspeed", "default"))


@pytest.mark.parametrize("name", ["z2.json", "../other/z2.json"])
def test_an_accelerate_file_that_names_another_config_says_nothing(repository: Path, name: str) -> None:
    (repository / "other").mkdir()
    (repository / "other" / "z2.json").write_text(json.dumps(AUTO))
    launch = f"distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: {name}\n"
    (repository / "other" / "acc.yaml").write_text(launch)
    assert reader(repository) == ("deepspeed", "default")
    assert reader(repository, name="other/z2.json") == ("accelerate", "launch file")


@pytest.mark.parametrize("command", ["torchrun train.py --deepspeed", "python train.py --deepspeed_config"])
def test_a_command_wins_over_an_accelerate_file(repository: Path, command: str) -> None:
    launch = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: conf/z2.json\n"
    (repository / "conf" / "acc.yaml").write_text(launch)
    (repository / "run.sh").write_text(f"{command} conf/z2.json\n")
    assert reader(repository)[1] == "script"
    assert reader(repository, name="z2.json")[1] == "default"


def test_an_accelerate_file_of_another_backend_names_no_config(repository: Path) -> None:
    launch = "distributed_type: FSDP\ndeepspeed_config:\n  deepspeed_config_file: conf/z2.json\n"
    (repository / "acc.yaml").write_text(launch)
    (repository / "conf" / "z2.json").write_text(json.dumps({**PLAIN, "train_batch_size": -1}))
    report = check("acc.yaml")
    assert [diagnostic.code for diagnostic in report] == ["DSC823"]
    assert not report.children
    with pytest.raises(ResolveError, match='`distributed_type` is `"FSDP"`'):
        resolve("acc.yaml", world_size=1)


def test_the_nearest_reference_wins(repository: Path) -> None:
    for folder, flag in (("a", "--deepspeed"), ("b", "--deepspeed_config")):
        (repository / folder).mkdir()
        (repository / folder / "run.sh").write_text(f"deepspeed train.py {flag} ds.json\n")
    assert reader(repository, name="a/ds.json") == ("transformers", "script")
    assert reader(repository, name="b/ds.json") == ("deepspeed", "script")


def test_programs_that_agree_and_name_no_file(repository: Path) -> None:
    (repository / "train.py").write_text("strategy = DeepSpeedStrategy(config=config.deepspeed)\n")
    assert reader(repository) == ("lightning", "script")


def test_without_a_repository_the_current_directory_is_searched(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".git").rmdir()
    (repository / "run.sh").write_text("deepspeed train.py --deepspeed z2.json\n")
    assert reader(repository) == ("transformers", "script")
    # Only the folder of the file itself, if it is elsewhere.
    elsewhere = repository / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert reader(repository, name=str(repository / "conf" / "z2.json")) == ("deepspeed", "default")


def test_settings_and_the_config_block_win(repository: Path) -> None:
    (repository / "run.sh").write_text("deepspeed train.py --deepspeed conf/z2.json\n")
    assert reader(repository, {"$dsconfig": {"consumer": "lightning"}, **PLAIN}) == ("lightning", "file")


def test_tests_are_searched_only_for_configs_of_tests(repository: Path) -> None:
    (repository / "tests" / "conf").mkdir(parents=True)
    (repository / "tests" / "run.sh").write_text("deepspeed train.py --deepspeed_config conf/z2.json\n")
    assert reader(repository)[1] == "default"
    assert reader(repository, name="tests/conf/z2.json") == ("deepspeed", "script")


def test_long_json_is_no_launch_file(repository: Path) -> None:
    launch = {"output_dir": "out", "deepspeed": "conf/z2.json", "note": ""}
    (repository / "train.json").write_text(json.dumps(launch, indent=1))
    assert reader(repository) == ("transformers", "launch file")
    later = repository / "again"
    (later / "conf").mkdir(parents=True)
    (later / ".git").mkdir()
    (later / "train.json").write_text(json.dumps({**launch, "note": "x" * 70_000}, indent=1))
    assert reader(later)[1] == "default"


def test_files_near_the_root_are_searched_first(repository: Path) -> None:
    for number in range(20):
        (repository / "deep" / str(number)).mkdir(parents=True)
    for number in range(600):
        (repository / "deep" / str(number % 20) / f"{number}.py").write_text("import deepspeed\n")
    (repository / "train.py").write_text('deepspeed.initialize(config="conf/z2.json")\n')
    (repository / "deep" / "7" / "run.sh").write_text("deepspeed train.py --deepspeed_config conf/z2.json\n")
    assert check_names(repository) == "deep/7/run.sh", (
        "a shell script is read, however many programs there are"
    )


def check_names(repository: Path) -> str:
    (repository / "conf" / "z2.json").write_text(json.dumps(PLAIN))
    return check(repository / "conf" / "z2.json").reader.why.split(" in ")[-1].split(",")[0]


@pytest.mark.parametrize("trains", [False, True])
def test_a_program_that_opens_the_file_of_its_flag_itself(repository: Path, *, trains: bool) -> None:
    program = "from transformers import HfArgumentParser\nds = json.load(open(arguments.deepspeed))\n"
    (repository / "chat.py").write_text(program + "Trainer(model, args).train()\n" * trains)
    (repository / "run.sh").write_text("deepspeed chat.py --deepspeed conf/z2.json --task vqa\n")
    assert reader(repository) == ("transformers" if trains else "deepspeed", "script")


def test_references_beyond_the_budget_are_ignored_with_a_message(repository: Path) -> None:
    text = "deepspeed train.py --deepspeed_config conf/z2.json --gradient_accumulation_steps 4\n" * 200
    for number in range(60):
        (repository / f"run{number}.sh").write_text(text)
    (repository / "conf" / "z2.json").write_text(json.dumps(AUTO))
    config_reader = check(repository / "conf" / "z2.json").reader
    assert (config_reader.name, config_reader.training_arguments, config_reader.processes) == (
        "transformers",
        None,
        None,
    )
    assert "the files around it exceed the reading limit, so no arguments are used" in config_reader.why


def test_message_names_a_script_beyond_the_budget(repository: Path) -> None:
    command = "deepspeed --num_gpus 8 train.py --deepspeed conf/z2.json"
    (repository / "run.sh").write_text(f"A={'v' * 8000}\n{command}{' $A' * 800}\n")
    (repository / "conf" / "z2.json").write_text(json.dumps(AUTO))
    config_reader = check(repository / "conf" / "z2.json").reader
    assert (config_reader.name, config_reader.training_arguments, config_reader.processes) == (
        "transformers",
        None,
        None,
    )
    assert "run.sh exceeds the reading limit, so no arguments are used" in config_reader.why
    report = check(repository / "run.sh")
    assert not list(report)
    assert "whose commands exceed the limit for reading a script" in str(report.why_not_config)


def test_the_plugin_of_lightning_is_not_that_of_accelerate(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from pytorch_lightning.plugins import DDPPlugin, DeepSpeedPlugin\nDEFAULT = 'z2.json'\n"
        "DeepSpeedPlugin(config=args.path)\n"
    )
    (tmp_path / "z2.json").write_text('{"zero_optimization": {"stage": 2}}')
    report = check(tmp_path / "z2.json")
    assert (report.reader.name, list(report)) == ("lightning", [])


TRAINER = "from transformers import TrainingArguments\nTrainingArguments('out', deepspeed='ds_config.json')\n"
ENGINE = (
    "import deepspeed\n"
    "deepspeed.initialize(model=net, model_parameters=net.parameters(), config='ds_config.json')\n"
)


@pytest.mark.usefixtures("empty_repository")
def test_each_folder_has_a_config_of_the_same_name() -> None:
    for folder, program, config in (("a", ENGINE, {"train_batch_size": 8}), ("b", TRAINER, AUTO)):
        Path(folder).mkdir()
        Path(folder, "ds_config.json").write_text(json.dumps(config))
        Path(folder, "train.py").write_text(program)
    # A program without a config beside it, which writes the file itself.
    Path("c").mkdir()
    Path("c/train.py").write_text(TRAINER)
    first, second = check("a/ds_config.json"), check("b/ds_config.json")
    assert (first.reader.name, second.reader.name) == ("deepspeed", "transformers")
    assert not list(first)
    assert second.reader.facts.program_files == (str(Path("b/train.py").resolve()),)


@pytest.mark.usefixtures("empty_repository")
def test_name_of_a_run_is_not_a_config() -> None:
    Path("ds_config.json").write_text(json.dumps(PLAIN))
    Path("train.py").write_text(f"wandb.init(name='my-deepspeed', config={{}})\n{ENGINE}")
    assert check("ds_config.json").reader.name == "deepspeed"
