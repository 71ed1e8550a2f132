"""Building a config in Python: strict at once, and `to_dict` gives back exactly what was set."""

import json
import subprocess
import sys
from typing import Any, TypeAlias

import pytest

from dsconfig.model import (
    AdamWParams,
    Amp,
    BuildError,
    Config,
    DatastatesCkpt,
    Fp16,
    MuonParams,
    OffloadParam,
    Optimizer,
    Scheduler,
    Section,
    WarmupDecayLRParams,
    ZenFlow,
    ZeroOptimization,
    ZeroppLocoParam,
    iterate_model_fields,
)
from dsconfig.model.optimizer import OPTIMIZERS
from dsconfig.model.scheduler import SCHEDULERS

Json: TypeAlias = dict[str, Any]


def test_importing_the_package_imports_no_pydantic() -> None:
    code = "import sys, dsconfig.model; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_export_exists() -> None:
    from dsconfig import model

    assert {name for name in model.__all__ if not hasattr(model, name)} == set()
    with pytest.raises(AttributeError, match="nothing"):
        model.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_nothing_set_gives_nothing() -> None:
    assert Config().to_dict() == {}


def test_set_values_come_back_under_their_keys() -> None:
    config = Config(
        train_batch_size=64,
        fp16=Fp16(enabled=True, loss_scale=0),
        zero_optimization=ZeroOptimization(stage=3, offload_param=OffloadParam(device="cpu")),
    )
    assert config.to_dict() == {
        "train_batch_size": 64,
        "fp16": {"enabled": True, "loss_scale": 0},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
    }


def test_a_value_set_on_a_section_that_stands_by_default_is_kept() -> None:
    config = Config()
    config.zero_optimization.stage = 3
    config.checkpoint.parallel_write.pipeline_stage = True
    assert config.to_dict() == {
        "zero_optimization": {"stage": 3},
        "checkpoint": {"parallel_write": {"pipeline_stage": True}},
    }
    assert Config().to_dict() == {}


def test_a_list_grown_in_place_is_kept() -> None:
    config = ZeroOptimization()
    config.leaf_module.names = ["experts"]
    assert isinstance(config.leaf_module.classes, list)
    config.leaf_module.classes.append("MyBlock")
    written = config.to_dict()["leaf_module"]
    assert written["names"] == ["experts"]
    assert written["classes"][-1] == "MyBlock"
    assert ZeroOptimization().to_dict() == {}


def test_an_empty_section_that_was_given_stays() -> None:
    assert Config(zero_optimization=ZeroOptimization()).to_dict() == {"zero_optimization": {}}


def test_a_value_equal_to_the_default_stays() -> None:
    assert ZeroOptimization(stage=0, overlap_comm=None).to_dict() == {"stage": 0, "overlap_comm": None}


def test_a_section_with_required_keys_can_be_filled_one_by_one() -> None:
    config = Config()
    config.amp.opt_level = "O2"
    config.amp.enabled = True
    assert config.to_dict() == {"amp": {"enabled": True, "opt_level": "O2"}}


def test_params_keep_the_keys_of_their_type() -> None:
    config = Config(
        optimizer=Optimizer(type="AdamW", params=AdamWParams(lr=3e-4, torch_adam=True)),
        scheduler=Scheduler(type="WarmupDecayLR", params=WarmupDecayLRParams(total_num_steps=100)),
    )
    expected = {
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "torch_adam": True}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100}},
    }
    assert config.to_dict() == expected
    assert config.model_dump(exclude_unset=True) == expected


def test_params_of_a_torch_class_are_free() -> None:
    optimizer = Optimizer(type="SGD", params={"lr": 0.1, "nesterov": True})
    assert optimizer.to_dict() == {"type": "SGD", "params": {"lr": 0.1, "nesterov": True}}


def test_keys_of_somebody_else_are_kept() -> None:
    assert DatastatesCkpt.model_validate({"host_cache_size": 16, "parser": "x"}).to_dict() == {
        "host_cache_size": 16,
        "parser": "x",
    }


def test_json_is_the_dict() -> None:
    config = Config(train_batch_size=8, optimizer=Optimizer(type="Muon", params=MuonParams(momentum=0.9)))
    assert json.loads(config.to_json()) == config.to_dict()
    assert "\n" not in config.to_json(indent=None)


WRONG: list[tuple[type[Section], Json]] = [
    (ZeroOptimization, {"stge": 3}),
    (ZeroOptimization, {"stage": True}),
    (ZeroOptimization, {"stage": 2.5}),
    (ZeroOptimization, {"stage": "3"}),
    (ZeroOptimization, {"stage": 4}),
    (ZeroOptimization, {"reduce_bucket_size": 0.5}),
    (ZeroOptimization, {"reduce_bucket_size": 0}),
    (ZeroOptimization, {"overlap_comm": 1}),
    (ZeroOptimization, {"prefetch_bucket_size": "5"}),
    (Fp16, {"loss_scale": float("inf")}),
    (Fp16, {"loss_scale": -1}),
    (Fp16, {"enabled": "true"}),
    (Fp16, {"enabled": "Auto"}),
    (Fp16, {"auto_cast": "auto"}),
    (ZeroOptimization, {"sub_group_size": "auto"}),
    (ZenFlow, {"update_interval": 0}),
    (ZenFlow, {"topk_ratio": 1.0}),
    (OffloadParam, {"device": "CPU"}),
    (Config, {"train_batch_size": 0}),
    (Config, {"train_batch_size": "8"}),
    (Config, {"fp16": True}),
    (Config, {"zero_optimisation": {}}),
    (Config, {"gradient_clipping": None}),
    (AdamWParams, {"betas": [0.9]}),
    (AdamWParams, {"lr": "3e-4"}),
    (AdamWParams, {"learning_rate": 3e-4}),
    (Amp, {}),
    (ZeroppLocoParam, {"err_beta": 0.8}),
]


@pytest.mark.parametrize(("section", "values"), WRONG, ids=str)
def test_the_builder_is_strict(section: type[Section], values: Json) -> None:
    with pytest.raises(BuildError):
        section(**values)


FILLED = [
    pytest.param(section, field, id=f"{section.__name__}.{field.name}")
    for section in iterate_model_fields.iter_sections(Config)
    for field in iterate_model_fields.iter_fields_of_section(section)
    if field.key.fills
]


@pytest.mark.parametrize(("section", "field"), FILLED)
def test_what_a_consumer_fills_takes_auto(
    section: type[Section], field: iterate_model_fields.ModelField
) -> None:
    built = section.absent()
    setattr(built, field.attribute, "auto")
    assert built.to_dict() == {field.name: "auto"}
    assert ("enum", "auto") not in field.spec, "DeepSpeed itself does not take it"


@pytest.mark.parametrize(("name", "value"), [("stage", 7), ("stage", True), ("stge", 3)])
def test_assignment_is_strict(name: str, value: object) -> None:
    config = Config()
    with pytest.raises(BuildError):
        setattr(config.zero_optimization, name, value)


DEFAULTS = [
    pytest.param(section, field, id=f"{section.__name__}.{field.name}")
    for section in iterate_model_fields.iter_sections(Config)
    for field in iterate_model_fields.iter_fields_of_section(section)
    if field.default is not None
]


@pytest.mark.parametrize(("section", "field"), DEFAULTS)
def test_every_default_is_a_value_of_its_type(
    section: type[Section], field: iterate_model_fields.ModelField
) -> None:
    built = section.absent()
    setattr(built, field.attribute, field.default)
    assert built.to_dict() == {field.name: field.default}


@pytest.mark.parametrize("kind", [*OPTIMIZERS, *SCHEDULERS], ids=lambda kind: kind.name)
def test_the_required_params_of_a_type_are_those_of_its_class(kind: Any) -> None:
    if kind.params is None:
        assert kind.required == ()
    else:
        assert {
            field.name for field in iterate_model_fields.iter_fields_of_section(kind.params) if field.required
        } == set(kind.required)
