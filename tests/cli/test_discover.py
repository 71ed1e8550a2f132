"""Which files of a directory are DeepSpeed configs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig.check.discover import find_configs, is_config_file, is_excluded
from dsconfig.document.config_file_names import CONFIGS

from .conftest import Runs

CONFIG = '{"zero_optimization": {"stage": 2}}'
NEOX = """
"num-layers": 12
"hidden-size": 768
"num-attention-heads": 12
"seq-length": 2048
"pos-emb": "rotary"
"pipe-parallel-size": 1
"zero_optimization": {"stage": 1}
"train_micro_batch_size_per_gpu": 4
"optimizer": {"type": "Adam"}
"""
BY_CONTENT = [
    "ds_z3_config.json",
    "deepspeed_configs/zero3_bf16.json",
    "zero3.json",
    "deepspeed.json",
    "ds.json",
    "a.hjson",
    "train.yaml",
    "a.JSON",
]
BY_NAME = [
    "ds_config.json",
    "ds_config_zero3.json",
    "my_ds_config.json",
    "deepspeed_config.json",
    "deepspeed-config.v2.hjson",
    "ds.config.jsonc",
    "DS_Config_Stage2.JSON",
    "ds_cfg.json",
]
NOT_BY_NAME = [
    "config.json",
    "kids_config.json",
    "zero3.json",
    "deepspeed.json",
    "ds_config.txt.json5",
    "ds_configure.json",
]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_that_settles_it(here: Path, name: str) -> None:
    (here / name).write_text("{")
    assert is_config_file(name)
    assert list(find_configs(".")) == [name]


@pytest.mark.parametrize("name", BY_CONTENT)
def test_a_content_that_settles_it(here: Path, name: str) -> None:
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).write_text(CONFIG)
    assert list(find_configs(".")) == [name]


@pytest.mark.parametrize("name", NOT_BY_NAME)
def test_a_name_that_does_not(here: Path, name: str) -> None:
    (here / name).write_text("{}")
    assert not is_config_file(name)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", CONFIG, True),
        ("a.hjson", "zero_optimization: {stage: 2}  # a comment", True),
        ("a.json", '{"train_batch_size": 8, "fp16": {}, "optimizer": {}}', True),
        ("a.json", '{"train_batch_size": 8, "optimizer": {}}', False),
        ("a.json", f'{{"nested": {CONFIG}}}', False),
        ("a.json", '["zero_optimization"]', False),
        ("a.json", '{"name": "zero_optimization"}', False),
        ("a.json", "\x00zero_optimization", False),
        ("zero2.yaml", "zero_optimization: {stage: 2}", True),
        ("conf.yaml", "zero_optimization: {stage: 2}", True),
        ("deepspeed.yaml", "deepspeed_config: {zero_stage: 2}", False),
        ("ds_config.json", '{"compilerOptions": {}, "include": [], "exclude": []}', False),
        ("neox.yml", NEOX, True),
        ("exp.json", '{"name": "z0_gas1", "ds_config": {"zero_optimization": {}}, "num_gpus": 8}', False),
        ("deepspeed/autotuning/config_templates/template_zero2.json", CONFIG, False),
        ("autotuning_results/z0_gas1/ds_config.json", CONFIG, False),
        ("my_autotuning/ds_config.json", CONFIG, True),
        ("config.yaml", "_wandb: {value: {}}\noutput_dir: {value: o}\ndeepspeed: {value: ds.json}\n", False),
    ],
)
def test_content_decides_otherwise(here: Path, name: str, text: str, expected: bool) -> None:
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text(text)
    assert is_config_file(name) == expected


def test_the_order_is_fixed_and_other_folders_are_skipped(here: Path) -> None:
    names = ["b/ds_config.json", "b.json", "a.json", "a/z/ds_config.json", "a/ds_config.json"]
    hidden = ["node_modules/ds_config.json", ".venv/ds_config.json", "env/ds_config.json", ".ds_config.json"]
    for name in [*names, *hidden]:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(CONFIG)
    (here / "env" / "pyvenv.cfg").write_text("")
    (here / "loop").symlink_to(here)
    assert list(find_configs(".")) == [
        "a.json",
        "b.json",
        "a/ds_config.json",
        "a/z/ds_config.json",
        "b/ds_config.json",
    ]
    assert list(find_configs("b")) == ["b/ds_config.json"]
    assert list(find_configs(str(here / "b"))) == [str(here / "b" / "ds_config.json")]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("old", True),
        ("old/", True),
        ("ds_*.json", True),
        ("configs/old", True),
        ("configs/*/ds_config.json", True),
        ("configs/**", True),
        ("ol", False),
        ("old/ds_config.json", False),
        ("*/other/*", False),
    ],
)
def test_patterns(here: Path, pattern: str, hit: bool) -> None:
    assert is_excluded("configs/old/ds_config.json", ".", [pattern]) == hit


def test_no_patterns_exclude_nothing() -> None:
    assert not is_excluded("a", ".", ())


@pytest.mark.parametrize("pattern", CONFIGS)
def test_editors_and_directories_know_the_same_names(here: Path, pattern: str) -> None:
    """A file that editors associate with the schema by name is a config in a directory, however broken."""
    name = pattern.removeprefix("**/").replace("ds_z?", "ds_z3").replace("?", "_").replace("*", "offload")
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).write_text("{")
    assert list(find_configs(".")) == [name]


def test_named_files_are_picked_as_in_directories(here: Path, run: Runs) -> None:
    for folder in (".hidden", "node_modules", "env", "conf"):
        (here / folder).mkdir()
        (here / folder / "ds_config.json").write_text('{"train_batch_size": 0}')
    (here / "env" / "pyvenv.cfg").touch()
    names = [f"{folder}/ds_config.json" for folder in (".hidden", "node_modules", "env", "conf")]
    out = run("check", "--force-exclude", "--show-files", *names).out
    assert [line.partition(":")[0] for line in out.splitlines()] == ["conf/ds_config.json"]
    assert run("check", ".hidden/ds_config.json").code == 1, "who names it has it checked"


def test_a_link_and_its_file_are_one(here: Path, run: Runs) -> None:
    (here / "z.json").write_text(CONFIG)
    (here / "a.json").symlink_to("z.json")
    assert run("check", "--show-files", ".").out.startswith("z.json: ")


BROKEN = {
    "comma.json": '{"train_batch_size": 8 "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}}',
    "few.json": '{\n  "train_batch_size": 8\n  "fp16": {"enabled": True}\n}',
    "brace.json": '{"zero_optimization": \n  "stage": 2,\n  "overlap_comm": true,\n'
    '  "reduce_scatter": true,\n  "allgather_bucket_size": 2e8,\n  "contiguous_gradients": true\n}}',
    "quote.json": '{"zero_optimization: {"stage": 2, "overlap_comm": true}, "steps_per_print": 10}',
    "assigned.json": 'ds_config = {\n"zero_optimization": {"stage": 2}\n}',
    "words.json": "Our config:\nzero_optimization: {\n  stage: 2\n}",
    "doubled.json": f"{CONFIG}{CONFIG}",
    "conflict.json": f"<<<<<<< HEAD\n{CONFIG}\n=======\n{CONFIG}\n>>>>>>> main\n",
    "flow.yaml": "zero_optimization: {stage: 2\ntrain_batch_size: 8\n",
    "open.yaml": 'train_batch_size: 8\nfp16:\n  enabled: "true\nzero_optimization:\n  stage: 2\n',
}
"""Configs that their parser rejects, under names that say nothing."""
BROKEN_FOREIGN = {
    "package.json": '{"name": "x" "scripts": {"zero_optimization": 1}, "version": "1"}',
    "exp.json": '{"name": "z0_gas1", "ds_config": {"zero_optimization": {}} "num_gpus": 8}',
    "list.json": '["zero_optimization"',
    "words.json": '{"name": "zero_optimization" "optimizer": "adam", "fp16": True}',
    "log.json": '{"step": 1, "config": {"zero_optimization": {}}}\n{"step": 2, "config": {}}\n',
    "neox.json": '{"pipe-parallel-size": 1, "num-layers": 12 "zero_optimization": {"stage": True}}',
    "services.yaml": "services:\n  a: {zero_optimization: {stage: 2\n",
}
"""Broken files of other programs that contain words of DeepSpeed."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_config_with_a_syntax_error_is_found_and_rejected(here: Path, run: Runs, name: str) -> None:
    (here / "configs").mkdir()
    (here / "configs" / name).write_text(BROKEN[name])
    for paths in (["configs"], ["--force-exclude", f"configs/{name}"]):
        code, out, err = run("check", "--output-format", "concise", *paths)
        assert (code, err) == (1, ""), out
        assert "DSC001" in out or "DSC005" in out, out


@pytest.mark.parametrize("name", BROKEN_FOREIGN)
def test_broken_files_of_other_programs_stay_silent(here: Path, run: Runs, name: str) -> None:
    (here / name).write_text(BROKEN_FOREIGN[name])
    assert list(find_configs(".")) == []
    assert run("check", "--force-exclude", name) == (0, "", "")


def test_a_config_in_an_encoding_that_deepspeed_does_not_read_is_found(here: Path, run: Runs) -> None:
    """Windows PowerShell writes UTF-16."""
    (here / "zero2.json").write_bytes(CONFIG.encode("utf-16"))
    (here / "other.json").write_bytes('{"name": "zero_optimization"}'.encode("utf-16"))
    code, out, _ = run("check", "--output-format", "concise", ".")
    assert (code, out.count("DSC004"), "zero2.json" in out) == (1, 1, True)
