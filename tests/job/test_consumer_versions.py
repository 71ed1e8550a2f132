"""Versions of Transformers and Accelerate that fill or reject configs differently."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, resolve
from dsconfig.cli import main
from dsconfig.job.consumers import accelerate_launch_file
from dsconfig.job.consumers.autofill import autofill_config
from dsconfig.job.consumers.consumer import BY_NAME, consumer_from_spec
from dsconfig.job.consumers.consumer_versions import (
    CHANGES,
    is_consumer_spec,
    version_includes_change,
    version_tuple,
)

ZERO3 = {"stage": 3, "stage3_prefetch_bucket_size": "auto"}
BATCH = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}
FILLED = {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}}


def codes(config: dict[str, Any], consumer: str, release: str = "0.16.9") -> set[str]:
    return {
        diagnostic.code
        for diagnostic in check(config, target=release, consumer=consumer)
        if diagnostic.severity == "error"
    }


@pytest.mark.parametrize(
    ("config", "consumer", "before", "since", "told_before", "told_since"),
    [
        (BATCH, "transformers", "4.29.2", "4.30", set(), {"DSC802"}),
        ({**BATCH, "zero_optimization": {"stage": 2, "round_robin_gradients": "auto"}}, "transformers",
         "4.29.2", "4.30", set(), {"DSC801"}),
        ({**BATCH, "zero_optimization": {"stage": 0}, "amp": {"enabled": "auto", "opt_level": "auto"}},
         "transformers", "4.57.6", "5.0", set(), {"DSC801"}),
        ({**BATCH, "zero_optimization": {
            "stage": 3, "offload_param": {"device": "nvme", "nvme_path": "auto"}}},
         "accelerate", "0.19.0", "0.20", {"DSC462", "DSC801"}, set()),
    ],
)  # fmt: skip
def test_rejected_configs(
    config: dict[str, Any],
    consumer: str,
    before: str,
    since: str,
    told_before: set[str],
    told_since: set[str],
) -> None:
    assert codes(config, f"{consumer}=={before}") == told_before
    assert codes(config, f"{consumer}=={since}") == told_since
    if consumer == "transformers":
        assert codes(config, consumer) == told_since


def filled(config: dict[str, Any], spec: str, arguments: dict[str, Any], model: dict[str, Any]) -> Any:
    config_copy = json.loads(json.dumps(config))
    autofill_config(config_copy, consumer_from_spec(spec), 2, arguments, model)
    return config_copy


def test_filled_values() -> None:
    config = {**BATCH, "zero_optimization": ZERO3, "amp": {"opt_level": "auto"}}
    arguments: dict[str, Any] = {"per_device_train_batch_size": 2, "save_on_each_node": True}
    key = "stage3_prefetch_bucket_size"
    sizes = {
        spec: filled(config, spec, arguments, {"hidden_size": 64})["zero_optimization"][key]
        for spec in (
            "transformers==4.44",
            "transformers==4.45",
            "transformers",
            "accelerate==0.30.1",
            "accelerate",
        )
    }
    assert list(map(repr, sizes.values())) == ["3686.4", "3686", "3686", "3686.4", "3686"]
    nested = {"text_config": {"hidden_size": 64}}
    assert filled(config, "transformers==4.45", arguments, nested)["zero_optimization"][key] == "auto"
    assert filled(config, "transformers==4.46", arguments, nested)["zero_optimization"][key] == 3686
    assert filled(config, "transformers==4.57", arguments, {})["amp"] == {"opt_level": "O1"}
    assert filled(config, "transformers==5.0", arguments, {})["amp"] == {"opt_level": "auto"}
    assert "checkpoint" not in filled(config, "transformers==4.26", arguments, {})
    assert filled(config, "transformers==4.29", arguments, {})["checkpoint"]
    assert "gradient_accumulation_steps" not in filled(config, "transformers==4.29", arguments, {})
    assert filled(config, "transformers==4.30", arguments, {})["gradient_accumulation_steps"] == 1


@pytest.mark.parametrize(
    ("spec", "steps"),
    [("transformers==5.16", 0), ("transformers==5.18", 1), ("accelerate==1.14", 0), ("accelerate", 1)],
)
def test_warm_up_of_zero_steps(spec: str, steps: int) -> None:
    schedule = {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}
    config = {**BATCH, "zero_optimization": {"stage": 2}, "scheduler": schedule}
    config_copy = filled(config, spec, {"per_device_train_batch_size": 2}, {})
    assert config_copy["scheduler"]["params"]["warmup_num_steps"] == steps


def test_resolve_takes_a_version() -> None:
    config = {**BATCH, "gradient_accumulation_steps": "auto"}
    run = resolve(config, world_size=2, target="0.16.9", consumer="transformers==4.29.2", training_args={})
    assert (run.triplet, "zero_optimization" in run.config) == ((16, 8, 1), False)


@pytest.mark.parametrize(
    ("name", "text", "version", "source"),
    [
        ("requirements.txt", "torch>=2\ntransformers==4.44.2\n", "4.44.2", "of requirements.txt"),
        ("requirements-dev.txt", "transformers[torch] ~= 4.44.0 # x\n", "4.44.0", "of requirements-dev.txt"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["transformers==4.44.2", "x"]\n',
            "4.44.2",
            "of pyproject.toml",
        ),
        ("setup.py", 'install_requires=["transformers<=4.44.2"]', "4.44.2", "of setup.py"),
        ("environment.yml", "dependencies:\n  - transformers==4.44.2\n", "4.44.2", "of environment.yml"),
        ("requirements.txt", "transformers>=4.44\n", None, ""),
        ("requirements.txt", "# transformers==4.44.2\nsentence-transformers-x==2.0\n", None, ""),
        ("requirements.txt", "transformers==5.24.0\n", None, ""),
        ("requirements.txt", "transformers==99.0\n", "99.0", "of requirements.txt"),
    ],
)
def test_version_pinned_by_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, version: str | None, source: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ds").mkdir()
    (tmp_path / name).write_text(text)
    path = tmp_path / "ds" / "z.json"
    path.write_text(json.dumps({**BATCH, **FILLED, "zero_optimization": {"stage": 2}}))
    monkeypatch.chdir(tmp_path)
    reader = check(str(path)).reader
    assert (reader.name, reader.version) == ("transformers", version)
    assert reader.why.endswith(f", version {version} {source}") == (version is not None)
    assert check(str(path), consumer="transformers==4.29.2").reader.version == "4.29.2"


@pytest.mark.parametrize("source", ["argument", "file", "settings"])
def test_sources_of_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    block = {"$dsconfig": {"consumer": "transformers==4.29.2"}} if source == "file" else {}
    (tmp_path / "ds_config.json").write_text(json.dumps({**block, **BATCH}))
    if source == "settings":
        (tmp_path / "dsconfig.toml").write_text('consumer = "transformers==4.29.2"\n')
    monkeypatch.chdir(tmp_path)
    options = ["--consumer", "transformers==4.29.2"] if source == "argument" else []
    assert main(["check", "ds_config.json", *options]) == 0
    assert ", version 4.29.2" in capsys.readouterr().out
    assert main(["check", "ds_config.json", "--consumer", "transformers"]) == 1


LAUNCH = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}


@pytest.mark.parametrize(
    ("key", "value", "knows", "refuses"),
    [
        ("ipex_config", {}, "1.12", "1.13"),
        ("tp_config", {}, "1.6", "1.7"),
        ("tp_config", {}, "1.4", "1.3"),
        ("debug", False, "0.22", "0.21"),
        ("mpirun_config", {}, "0.28", "0.27"),
        ("enable_cpu_affinity", False, "0.29", "0.28"),
        ("fp8_config", {}, "0.34", "0.33"),
        ("parallelism_config", {}, "1.10", "1.9"),
        ("mixed_precision", False, "0.33", "0.34"),
        ("mixed_precision", False, "0.19", "0.18"),
        ("mixed_precision", "fp8", "0.17", "0.16"),
    ],
)
def test_keys_of_a_launch_file(key: str, value: Any, knows: str, refuses: str) -> None:
    assert codes({**LAUNCH, key: value}, f"accelerate=={knows}") == set()
    expected = {"DSC824" if key == "mixed_precision" else "DSC820"}
    assert codes({**LAUNCH, key: value}, f"accelerate=={refuses}") == expected


@pytest.mark.parametrize(
    ("block", "takes", "other", "message"),
    [
        ({"gradient_accumulation_steps": "auto"}, "0.23", "0.22", "DSC826"),
        ({"gradient_clipping": "auto"}, "0.30", "0.29", "DSC826"),
        ({"deepspeed_multinode_launcher": "nossh"}, "1.6", "1.5", "DSC826"),
        ({"deepspeed_config_file": "ds.json"}, "0.15", "0.16", "DSC822"),
    ],
)
def test_values_of_the_block(block: dict[str, Any], takes: str, other: str, message: str) -> None:
    launch = {**LAUNCH, "num_machines": 2, "deepspeed_config": {"zero_stage": 2, **block}}
    assert codes(launch, f"accelerate=={takes}") == set()
    assert codes(launch, f"accelerate=={other}") == {message}


def test_message_of_a_new_key_names_its_first_version() -> None:
    launch = {**LAUNCH, "deepspeed_config": {"zero_stage": 2, "deepspeed_moe_layer_cls_names": "Moe"}}
    (diagnostic,) = check(launch, consumer="accelerate==0.29.3")
    assert diagnostic.effect.value == "ignored"
    assert diagnostic.help == "remove it, or use Accelerate 0.30 or later"


@pytest.mark.parametrize(
    ("version", "steps", "clipping"), [("0.22", 1, None), ("0.23", "auto", None), ("0.30", "auto", "auto")]
)
def test_the_config_of_a_block(version: str, steps: Any, clipping: Any) -> None:
    config_copy = accelerate_launch_file.build_plugin_config(LAUNCH, version)
    assert config_copy is not None
    assert (config_copy["gradient_accumulation_steps"], config_copy.get("gradient_clipping")) == (
        steps,
        clipping,
    )
    fp8 = {**LAUNCH, "mixed_precision": "fp8"}
    assert [
        ("bf16" in (accelerate_launch_file.build_plugin_config(fp8, each) or {})) for each in ("0.33", "0.34")
    ] == [
        False,
        True,
    ]


def test_source_of_the_batch() -> None:
    zero = {"stage": 2}
    config = {**BATCH, "gradient_accumulation_steps": 4, "zero_optimization": zero}
    arguments = {"per_device_train_batch_size": 2}
    of = {spec: filled(config, f"accelerate=={spec}", arguments, {}) for spec in ("0.22", "0.23")}
    assert [each["gradient_accumulation_steps"] for each in of.values()] == [1, 4]
    assert [each["train_batch_size"] for each in of.values()] == [4, 16]
    config = {**config, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1}
    sizes = [
        filled(config, f"accelerate=={each}", arguments, {})["train_batch_size"] for each in ("0.25", "0.26")
    ]
    assert sizes == [4, 16]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("version", "stage"), [("1.4.0", 2), ("1.5.0", 3)])
def test_flags_with_a_launch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, stage: int, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acc.yaml").write_text(json.dumps({**LAUNCH, "num_processes": 4}))
    flags = "--zero_stage 3 --gradient_accumulation_steps 2 --mixed_precision bf16 --num_processes 2"
    (tmp_path / "run.sh").write_text(f"accelerate launch --config_file acc.yaml {flags} train.py\n")
    (tmp_path / "requirements.txt").write_text("" if named else f"accelerate=={version}\n")
    consumer = f"accelerate=={version}" if named else None
    run = resolve("run.sh", consumer=consumer, training_args={"per_device_train_batch_size": 8})
    assert run.config["zero_optimization"]["stage"] == stage
    assert (run.triplet, "bf16" in run.config) == ((32, 8, 2), True)


@pytest.mark.parametrize("encoded", ["json_text", "base64"])
@pytest.mark.parametrize("script", [True, False])
def test_config_given_instead_of_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: str, script: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 9}})
    if encoded == "base64":
        text = urlsafe_b64encode(text.encode()).decode()
    name = "run.sh" if script else "args.json"
    command = f"deepspeed train.py --output_dir o --per_device_train_batch_size 2 --deepspeed '{text}'\n"
    (tmp_path / name).write_text(command if script else json.dumps({"output_dir": "o", "deepspeed": text}))
    since, before = ("4.40", "4.39.3") if encoded == "json_text" else ("4.22", "4.21.0")
    stops = {diagnostic.code for diagnostic in check(name, consumer=f"transformers=={since}")}
    assert "DSC810" not in stops
    assert "DSC112" in stops
    (diagnostic,) = (
        each for each in check(name, consumer=f"transformers=={before}") if each.code == "DSC810"
    )
    assert diagnostic.message.endswith(f"as {'JSON text' if encoded == 'json_text' else encoded}")


@pytest.mark.parametrize(
    ("argument", "stage", "rejecting", "accepting"),
    [
        ("auto_find_batch_size: true", 2, "4.44.2", "4.45"),
        ("auto_find_batch_size: true", 2, "4.38", "4.37.2"),
        ("auto_find_batch_size: true", 3, "4.45", "4.37.2"),
        ("warmup_steps: 0.1", 2, "4.57.6", "5.0"),
        ("save_only_model: true\nload_best_model_at_end: true", 2, "4.38", "4.37.2"),
    ],
)
def test_arguments_that_a_version_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, stage: int, rejecting: str, accepting: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps({**BATCH, "zero_optimization": {"stage": stage}}))
    (tmp_path / "args.yaml").write_text(f"output_dir: o\ndeepspeed: ds.json\n{argument}\n")
    assert "DSC810" in {
        diagnostic.code for diagnostic in check("args.yaml", consumer=f"transformers=={rejecting}")
    }
    assert "DSC810" not in {
        diagnostic.code for diagnostic in check("args.yaml", consumer=f"transformers=={accepting}")
    }


def test_auto_find_batch_size_compares_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}
    (tmp_path / "ds.json").write_text(json.dumps(config))
    codes: dict[str, set[str]] = {}
    for words in ("", "auto_find_batch_size: true\n"):
        (tmp_path / "args.yaml").write_text(
            f"output_dir: o\ndeepspeed: ds.json\nper_device_train_batch_size: 4\n{words}"
        )
        (child,) = check("args.yaml").children
        codes[words] = {each.code for each in child}
    assert ["DSC809" in each for each in codes.values()] == [True, False]


@pytest.mark.parametrize(
    "spec", ["deepspeed==0.16.9", "transformers==", "transformers==x", "transformers>=4", "x"]
)
def test_invalid_versions(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_consumer_spec(spec)
    with pytest.raises(ValueError, match=r"or a version such as transformers==4\.45"):
        check({}, consumer=spec)
    assert main(["check", "--consumer", spec]) == 2
    assert "expected one of deepspeed" in capsys.readouterr().err


def test_changes_are_sorted_and_used() -> None:
    for consumer in ("transformers", "accelerate"):
        rows = [each for each in CHANGES if each.consumer == consumer]
        assert rows == sorted(rows, key=lambda each: version_tuple(each.since))
        for row in rows:
            assert version_includes_change(row.word, consumer, row.since)
            assert not version_includes_change(row.word, consumer, "0.1")
    assert consumer_from_spec("transformers") == BY_NAME["transformers"]
