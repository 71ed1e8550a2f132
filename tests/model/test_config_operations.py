"""Configs made of others, compared, written and handed on: what is written is what counts."""

import json
import pickle
import warnings
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from pydantic import BaseModel, ValidationError

import dsconfig
from dsconfig import BuildError, Config, ZeroOptimization
from dsconfig.api import presets
from tests.model import round_trips

WRITTEN = {
    "fp16": {"enabled": True},
    "my_own": {"b": [1], "a": 2},
    "train_batch_size": 8,
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
}
CONFIG = Config.from_dict(WRITTEN)


class Device(Enum):
    CPU = "cpu"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"reduce_bucket_size": 2e8}, {"reduce_bucket_size": 200_000_000}),
        ({"stage": 3.0}, {"stage": 3}),
        ({"reduce_bucket_size": np.int64(7)}, {"reduce_bucket_size": 7}),
        ({"offload_param": {"device": Device.CPU}}, {"offload_param": {"device": "cpu"}}),
        ({"offload_param": {"nvme_path": Path("/x")}}, {"offload_param": {"nvme_path": "/x"}}),
        ({"leaf_module": {"names": ("a", "b")}}, {"leaf_module": {"names": ["a", "b"]}}),
        ({"prefetch_bucket_size": 5}, {"prefetch_bucket_size": 5}),
    ],
)
def test_values_are_taken_as_people_have_them(given: dict[str, Any], written: dict[str, Any]) -> None:
    built = ZeroOptimization(**given).to_dict()
    assert json.dumps(built) == json.dumps(written)


def test_numbers_of_other_kinds_become_pythons() -> None:
    built = Config(gradient_clipping=Fraction(1, 2), train_batch_size=np.float32(8)).to_dict()  # type: ignore[arg-type]
    assert json.dumps(built) == '{"gradient_clipping": 0.5, "train_batch_size": 8}'


def test_a_dtype_is_a_word_where_a_key_means_one() -> None:
    config = Config(
        communication_data_type=torch.bfloat16,
        torch_autocast={"enabled": True, "dtype": torch.float16},
        data_types={"grad_accum_dtype": torch.float32},
    )
    assert config.to_dict() == {
        "communication_data_type": "bf16",
        "torch_autocast": {"enabled": True, "dtype": "fp16"},
        "data_types": {"grad_accum_dtype": "fp32"},
    }
    with pytest.raises(BuildError, match="a value of type `dtype`"):
        Config(communication_data_type=torch.int64)


def test_one_line_a_field() -> None:
    with pytest.raises(BuildError) as caught:
        Config(
            fp16=True,  # type: ignore[arg-type]
            train_batchsize=8,  # type: ignore[call-arg]
            optimizer={"type": "AdamW", "params": {"lr": "x", "learning_rate": 1}},
            zero_optimization={"stage": 7, "stge": 1, "offload_param": {"pin_memory": 7}},  # type: ignore
            comet={"api_key": 7},  # type: ignore[arg-type]
        )
    assert str(caught.value).splitlines() == [
        "Config:",
        "  `fp16` must be an object, not `true`",
        '  `optimizer.params.lr` must be a number or `"auto"`, not `"x"`',
        "  `optimizer.params.learning_rate` is not a known key",
        '  `zero_optimization.stage` must be one of `0`, `1`, `2`, `3` or `"auto"`, not `7`',
        "  `zero_optimization.offload_param.pin_memory` must be `true` or `false`, not `7`",
        "  `zero_optimization.stge` is not a known key: did you mean `stage`?",
        "  `comet.api_key` must be a string or `null`, not a value that is hidden",
        "  `train_batchsize` is not a known key: did you mean `train_batch_size`?",
    ]
    first = caught.value.problems[0]
    assert (first.path, first.accepted, first.given) == ("fp16", "an object", True)
    assert caught.value.problems[-1].meant == ("train_batch_size",)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), [[]], {"a": object()}, "8", float("-inf")])
@pytest.mark.parametrize("key", ["train_batch_size", "gradient_clipping", "fp16", "zero_optimization"])
def test_odd_values_are_refused_in_words(key: str, value: object) -> None:
    with pytest.raises(BuildError) as caught:
        Config(**{key: value})  # type: ignore[arg-type]
    assert "pydantic" not in str(caught.value)
    assert caught.value.problems[0].path.startswith(key)


def test_another_model_has_the_same_words() -> None:
    class Settings(BaseModel):
        deepspeed: Config

    assert Settings(deepspeed={"train_batch_size": 8}).deepspeed == Config(train_batch_size=8)  # type: ignore
    with pytest.raises(ValidationError) as caught:
        Settings(deepspeed={"fp16": {"enabled": "x", "loss_scal": 1}})  # type: ignore[arg-type]
    assert [(each["loc"], each["msg"]) for each in caught.value.errors()] == [
        (("deepspeed", "fp16", "enabled"), 'must be one of `true`, `false` or `"auto"`, not `"x"`'),
        (("deepspeed", "fp16", "loss_scal"), "is not a known key: did you mean `loss_scale`?"),
    ]


def test_the_order_of_keys_is_kept() -> None:
    assert list(CONFIG.to_dict()) == list(WRITTEN)
    built = Config(train_batch_size=8, **{"$schema": "s"}, fp16={"loss_scale": 0, "enabled": True})  # type: ignore
    assert json.dumps(built.to_dict()).startswith('{"train_batch_size": 8, "$schema": "s", "fp16": {"loss')


def test_equal_is_what_writes_the_same() -> None:
    one, other = Config(train_batch_size=8), Config.from_dict({"train_batch_size": 8.0})
    assert one == other
    assert hash(one) == hash(other)
    assert Config() != Config(gradient_clipping=1.0), "the default, but written"
    assert Config.from_dict({"x": 1}) != Config.from_dict({"x": True})
    assert Config(zero_optimization={}) != Config()
    assert pickle.loads(pickle.dumps(CONFIG)) == CONFIG


def test_repr_is_what_is_written() -> None:
    config = Config(zero_optimization={"stage": 3}, **{"$schema": "x"})  # type: ignore[arg-type]
    assert repr(config) == "Config(zero_optimization=ZeroOptimization(stage=3), **{'$schema': 'x'})"
    assert eval(repr(config), vars(dsconfig) | {"ZeroOptimization": ZeroOptimization}) == config
    assert "secret" not in repr(Config(comet={"api_key": "secret"}))


def test_replace_changes_one_place() -> None:
    deep = CONFIG.replace(zero_optimization__offload_optimizer__device="nvme")
    assert [tuple(each) for each in CONFIG.diff(deep)] == [
        (("zero_optimization", "offload_optimizer", "device"), "changed", "cpu", "nvme")
    ]
    assert CONFIG.diff(CONFIG.replace({"my_own.b": 3, "fp16.loss_scale": 1}))[0].kind == "added"
    assert CONFIG.to_dict() == WRITTEN
    for path in ("zero_optimization__stge", "zero_optimization__offload_optimizer__devise", "zeero"):
        with pytest.raises(BuildError, match=f"`{path.replace('__', '.')}` is not a known key"):
            CONFIG.replace(**{path: 1})


def test_merge_is_deep_and_the_later_wins() -> None:
    merged = CONFIG | {"fp16": {"loss_scale": 1}} | Config(zero_optimization={"stage": 3})
    assert merged.to_dict() == {
        **WRITTEN,
        "fp16": {"enabled": True, "loss_scale": 1},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    }
    assert ({"train_batch_size": 4, "steps_per_print": 1} | CONFIG).to_dict()["train_batch_size"] == 8
    assert Config().merge(CONFIG) == CONFIG


def test_params_of_two_types_are_not_mixed() -> None:
    adam = Config(optimizer={"type": "AdamW", "params": {"lr": 1, "betas": (0.9, 0.95)}})
    assert (adam | {"optimizer": {"params": {"lr": 2}}}).optimizer.params == dsconfig.types.AdamWParams(
        lr=2, betas=(0.9, 0.95)
    )
    other = adam | {"optimizer": {"type": "Lion", "params": {"lr": 2}}}
    assert other.optimizer.params == dsconfig.types.LionParams(lr=2)
    with pytest.raises(BuildError, match=r"`params` must be `AdamWParams` for type `\"AdamW\"`"):
        dsconfig.Optimizer(type="AdamW", params=dsconfig.types.LionParams(lr=1))


@pytest.mark.parametrize("name", ["c.json", "c.yaml"])
def test_files_come_back(tmp_path: Path, name: str) -> None:
    CONFIG.to_file(tmp_path / name)
    again = Config.from_file(tmp_path / name)
    assert again == CONFIG
    assert json.dumps(again.to_dict()) == json.dumps(WRITTEN)


@pytest.mark.parametrize("name", ["c.json", "c.yaml"])
@pytest.mark.parametrize(
    "word", ["\x85", "a\u2028b", "\u2029", "\ufeff", "\x7f", "\r\n", " a ", "1e3", "yes", "~", ""]
)
def test_strings_come_back(tmp_path: Path, name: str, word: str) -> None:
    config = CONFIG | Config.from_dict({"train_batch_size": 8, "list": [word, {f"k{word}": word}]})
    config.to_file(tmp_path / name)
    assert Config.from_file(tmp_path / name) == config


def test_comments_are_dropped_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"train_batch_size": 8} // mine\n')
    with pytest.warns(dsconfig.CommentsDroppedWarning, match=r"c\.json: comments are dropped"):
        assert Config.from_file(file) == Config(train_batch_size=8)


def test_from_dict_refuses_fields_and_leaves_the_rest_to_validated() -> None:
    with pytest.raises(dsconfig.ConfigError, match="DSC102 `stge`"):
        Config.from_dict({"zero_optimization": {"stge": 3}})
    odd = Config.from_dict({"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2})
    assert [found.code for found in odd.check()] == ["DSC203"]
    with pytest.raises(dsconfig.ConfigError, match="DSC203"):
        odd.validated()
    good = Config(train_batch_size=8)
    assert good.validated(world_size=8) is good
    with pytest.raises(dsconfig.ConfigError, match="DSC203"):
        good.for_deepspeed(world_size=3)


def test_a_config_goes_wherever_a_config_goes() -> None:
    config = Config(train_batch_size=8, zero_optimization={"stage": 2})
    data = config.to_dict()
    assert dsconfig.check(config).to_dict()["files"][0]["path"] == "<config>"  # type: ignore[index]
    assert json.loads(dsconfig.fix(config).text) == data
    assert dsconfig.resolve(config, world_size=2).triplet == (8, 4, 1)
    assert dsconfig.show(config, "zero_optimization.stage").values[0].value == 2
    assert dsconfig.compat(config) == dsconfig.compat(data)
    assert json.loads(dsconfig.migrate(config, to="0.19.8", origin="0.14.5").text) == data
    assert dsconfig.load(config) == config
    jsonschema.validate(config.to_dict(), dsconfig.json_schema("0.19.8"))
    with pytest.raises(TypeError, match="not list"):
        dsconfig.check([config])  # type: ignore[arg-type]


def test_presets_compose() -> None:
    config = presets.zero3(offload="cpu") | {"gradient_clipping": 0.5}
    assert config.to_dict() == {**presets.config("zero3-offload-cpu"), "gradient_clipping": 0.5}
    with pytest.raises(dsconfig.presets.PresetError, match="expected"):
        presets.zero2(offload="nvme")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, preset in presets.PRESETS.items():
            release = preset.releases[-1]
            body = presets.config(name, release)
            assert Config(**body) == Config.from_dict(body, target=release)


def test_round_trips(capsys: pytest.CaptureFixture[str]) -> None:
    assert round_trips.main(["--cases", "100", "--seed", "7"]) == 0
    assert capsys.readouterr().out.endswith("100 configs of 20 releases came back as they were\n")


def test_another_model_dumps_what_is_written() -> None:
    class Settings(BaseModel):
        deepspeed: Config

    settings = Settings(deepspeed=CONFIG)  # it has keys that only a file may have
    assert settings.model_dump() == {"deepspeed": WRITTEN}
    assert json.loads(settings.model_dump_json()) == {"deepspeed": WRITTEN}


def test_a_class_of_ones_own_is_read_too() -> None:
    class Mine(Config):
        """With a key that a script reads."""

        my_own: int = 3

    made = Mine.from_dict({"train_batch_size": 8, "my_own": 4, "other": 1})
    assert (made.my_own, made.train_batch_size) == (4, 8)
    assert made.to_dict() == {"train_batch_size": 8, "my_own": 4, "other": 1}


def test_params_follow_their_type() -> None:
    config = Config(optimizer={"type": "AdamW", "params": {"lr": 1, "betas": (0.9, 0.95)}})
    other = config.replace(optimizer__type="Lion")
    assert [change.dotted for change in config.diff(other)] == ["optimizer.type"]
    assert other.optimizer.params == dsconfig.types.LionParams(lr=1, betas=(0.9, 0.95))
    kept = config.replace(optimizer__params__amsgrad=True, optimizer__type="Lion")
    assert kept.to_dict()["optimizer"]["params"]["amsgrad"] is True


@pytest.mark.parametrize("name", ["own.json", "own.yaml"])
def test_a_file_most_of_whose_keys_are_nobodys_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    config = Config.from_dict({"mine": 1, "yours": 2, "ours": {"a": 1}, "train_batch_size": 8})
    config.to_file(tmp_path / name)
    assert Config.from_file(tmp_path / name) == config
    with pytest.raises(dsconfig.ConfigError, match="3 of its 4 keys are not DeepSpeed's"):
        dsconfig.load(tmp_path / name)


def test_lines_of_errors_end_in_no_space(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as built:
        Config(fp16={"enabled": "x"}, zero_optimization={"stage": "q"})  # type: ignore[typeddict-item]
    file = tmp_path / "two.json"
    file.write_text('{"train_batch_size": 8, "fp16": {"enabled": []}, "zero_optimization": {"stage": "q"}}')
    with pytest.raises(dsconfig.ConfigError) as loaded:
        dsconfig.load(file)
    for error in (built.value, loaded.value):
        lines = str(error).split("\n")
        assert len(lines) == 3
        assert [line for line in lines if line != line.rstrip()] == []
    assert str(BuildError("Config", ())) == "Config:"
