"""`load` gives the typed model of what is written, and everything that was written back."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import dsconfig
from dsconfig.api.config import Config
from dsconfig.api.construct_config import construct_section
from dsconfig.core.releases import LATEST, NUMBERS
from dsconfig.document import read_file
from dsconfig.model import (
    AdamWParams,
    CurriculumMetric,
    LayerSpec,
    MuonParams,
    OffloadOptimizer,
    WarmupLRParams,
)
from dsconfig.model.key_table import child_section, iter_keys, section_view_of_release
from tests.model import strategies

DEMO = sorted((Path(__file__).parents[2] / "demo" / "configs").iterdir())
NOW = NUMBERS[LATEST]
BATCH = {"train_batch_size": 8}


def exact(config: object) -> str:
    """A config as text in which 1, 1.0 and true differ, and the order of keys does not count."""
    return json.dumps(config, sort_keys=True)


def load(config: dict[str, Any], **options: Any) -> Config:
    """The config loaded, without a change to the dict it came from."""
    before = copy.deepcopy(config)
    loaded = dsconfig.load(config, **options)
    assert exact(config) == exact(before)
    assert exact(loaded.to_dict()) == exact(before)
    return loaded


def test_sections_are_typed() -> None:
    config = load({**BATCH, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})
    assert config.train_batch_size == 8
    assert config.zero_optimization.stage == 3
    assert isinstance(config.zero_optimization.offload_optimizer, OffloadOptimizer)
    assert config.zero_optimization.offload_optimizer.device == "cpu"


def test_what_is_not_written_has_its_default() -> None:
    config = load({**BATCH, "zero_optimization": {"stage": 3}})
    assert config.zero_optimization.stage3_max_live_parameters == 1_000_000_000
    assert config.zero_optimization.offload_param is None
    assert config.fp16.initial_scale_power == 16


def test_defaults_are_those_of_the_target() -> None:
    old = load(BATCH, target="0.4.0")
    assert (old.gradient_clipping, old.steps_per_print, old.fp16.initial_scale_power) == (0.0, 10, 32)
    assert old.zero_optimization.sub_group_size == 1_000_000_000_000
    offload = {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}
    for release, pinned in (("0.19.4", False), ("0.19.5", True)):
        config = load({**BATCH, **offload}, target=release)
        assert config.zero_optimization.offload_optimizer is not None
        assert config.zero_optimization.offload_optimizer.pin_memory is pinned


def test_no_default_that_could_change_in_place_differs_by_release() -> None:
    assert [
        path for path, info in iter_keys() if info.defaults and isinstance(info.default, list | dict)
    ] == []


def test_unknown_keys_are_kept() -> None:
    config = load({**BATCH, "my_script": {"lr": [1, 2.5]}, "scheduler": {"x": None}, "$schema": "a"})
    config.train_batch_size = 16
    config.zero_optimization.stage = 1
    written = config.to_dict()
    assert written["my_script"] == {"lr": [1, 2.5]}
    assert written["scheduler"] == {"x": None}
    assert (written["train_batch_size"], written["zero_optimization"]) == (16, {"stage": 1})


def test_a_copy_holds_the_same() -> None:
    written = {**BATCH, "mine": 1, "zero_optimization": {"stage": 3, "prefetch_bucket_size": 7}}
    config = load(written)
    for twin in (copy.deepcopy(config), config.model_copy(deep=True), pickle.loads(pickle.dumps(config))):
        twin.zero_optimization.stage = 2
        changed = {**written, "zero_optimization": {"stage": 2, "prefetch_bucket_size": 7}}
        assert exact(twin.to_dict()) == exact(changed)
    assert exact(config.to_dict()) == exact(written)


def test_an_alias_fills_the_attribute_and_stays_as_it_is_spelt() -> None:
    config = load({**BATCH, "zero_optimization": {"stage": 3, "prefetch_bucket_size": 7}})
    assert config.zero_optimization.stage3_prefetch_bucket_size == 7
    config.zero_optimization.stage3_prefetch_bucket_size = 9
    assert config.to_dict()["zero_optimization"] == {"stage": 3, "prefetch_bucket_size": 9}


def test_an_alias_that_the_target_does_not_read_is_an_unknown_key() -> None:
    config = load({**BATCH, "zero_optimization": {"stage": 3, "prefetch_bucket_size": 7}}, target="0.6.7")
    assert config.zero_optimization.stage3_prefetch_bucket_size == 50_000_000


def test_a_key_beside_its_alias_wins() -> None:
    both = {"kernel_inject": True, "replace_with_kernel_inject": False}
    config = construct_section(Config, {"tensor_parallel": both}, NOW)
    assert config.tensor_parallel.kernel_inject is True
    assert config.to_dict() == {"tensor_parallel": both}


@pytest.mark.parametrize(
    ("section", "kind", "params"),
    [
        ("optimizer", "AdamW", AdamWParams),
        ("optimizer", "adamw", AdamWParams),
        ("optimizer", "Muon", MuonParams),
        ("optimizer", "SGD", dict),
        ("optimizer", "MuAdam", dict),
        ("scheduler", "WarmupLR", WarmupLRParams),
        ("scheduler", "StepLR", dict),
    ],
)
def test_params_are_of_the_class_of_their_type(section: str, kind: str, params: type) -> None:
    config = load({**BATCH, section: {"type": kind, "params": {"lr": 1e-3, "of_its_own": 1}}})
    assert type(getattr(config, section).params) is params


def test_sections_in_lists_and_maps_are_typed() -> None:
    specs = [{"patterns": ["a"], "shape": [2, [1, 3]]}]
    metrics = {"seqlen": {"min_difficulty": 1, "schedule_config": {"difficulty": [1, 2]}}}
    config = construct_section(
        Config,
        {
            "tensor_parallel": {"partition_config": {"layer_specs": specs}},
            "data_efficiency": {"data_sampling": {"curriculum_learning": {"curriculum_metrics": metrics}}},
        },
        NOW,
    )
    assert config.tensor_parallel.partition_config is not None
    assert isinstance(config.tensor_parallel.partition_config.layer_specs[0], LayerSpec)
    metric = config.data_efficiency.data_sampling.curriculum_learning.curriculum_metrics["seqlen"]
    assert isinstance(metric, CurriculumMetric)
    assert metric.schedule_config.difficulty == [1, 2]


def test_values_stay_as_they_are_written() -> None:
    written = {**BATCH, "fp16": {"enabled": "true", "loss_scale": "4"}, "zero_optimization": {"stage": 2}}
    assert load(written, target="0.17.6").fp16.loss_scale == "4"  # type: ignore[comparison-overlap]


def test_what_is_no_section_stays_what_it_is() -> None:
    load({**BATCH, "zero_optimization": True, "fp16": {"enabled": True}}, target="0.3.1")
    load({**BATCH, "datastates_ckpt": 7, "optimizer": {"params": [1]}})


def test_a_refused_config_raises_with_its_report() -> None:
    with pytest.raises(dsconfig.ConfigError, match=r"(?s)DSC\d{3} .*\n  DSC\d{3} ") as caught:
        dsconfig.load({"train_batch_size": 8, "zero_optimization": {"stge": 3, "sub_group_size": []}})
    report = caught.value.report
    assert sum(found.effect.value == "rejected" for found in report) == 2
    assert str(caught.value).startswith("<dict>:\n  ")


@pytest.mark.parametrize("text", ["", "[]\n", "[1, 2]\n", "{", '{"train_batch_size": 0}'])
def test_text_that_is_no_config_raises(text: str) -> None:
    with pytest.raises(dsconfig.ConfigError):
        dsconfig.load(text)


def test_a_missing_file_raises_as_files_do() -> None:
    with pytest.raises(FileNotFoundError):
        dsconfig.load("no-such-file.json")


def test_numbers_are_those_of_the_reader(tmp_path: Path) -> None:
    text = '{"train_batch_size": 8e0, "zero_optimization": {"reduce_bucket_size": 5e8}}'
    hjson = dsconfig.load(text).zero_optimization.reduce_bucket_size
    assert (type(hjson), hjson) == (int, 500_000_000)
    plain = dsconfig.load(text.replace("8e0", "8"), consumer="transformers")
    assert type(plain.zero_optimization.reduce_bucket_size) is float


def test_yaml(tmp_path: Path) -> None:
    file = tmp_path / "ds_config.yaml"
    file.write_text("train_batch_size: 8\nzero_optimization: {stage: 2}\nyes: [1, 0x10]\n2: two\n")
    config = dsconfig.load(file)
    assert config.zero_optimization.stage == 2
    assert config.to_dict() == read_file(file).value()


@pytest.mark.parametrize("file", DEMO, ids=lambda file: file.name)
def test_demo_configs(file: Path) -> None:
    report = dsconfig.check(file)
    if any(found.effect.value == "rejected" for found in report):
        with pytest.raises(dsconfig.ConfigError):
            dsconfig.load(file)
    else:
        assert exact(dsconfig.load(file).to_dict()) == exact(read_file(file).value())


RELEASES = ("0.19.8", "0.16.9", "0.6.7")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(release=st.sampled_from(RELEASES), data=st.data())
def test_any_config_comes_back(release: str, data: st.DataObject) -> None:
    config = data.draw(strategies.section("Config", NUMBERS[release]))
    assert exact(construct_section(Config, config, NUMBERS[release]).to_dict()) == exact(config)


SECTIONS = sorted(
    name for name, key in section_view_of_release("Config", NOW).keys.items() if child_section(key.type)
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(SECTIONS), data=st.data())
def test_a_config_that_is_taken_comes_back(name: str, data: st.DataObject) -> None:
    key = section_view_of_release("Config", NOW).keys[name]
    assume(key.info.refused_from > NOW)
    config = {**BATCH, name: data.draw(strategies.value_of(key, NOW))}
    try:
        load(config)
    except dsconfig.ConfigError:
        assume(False)
