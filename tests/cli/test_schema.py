"""`dsconfig schema`, `editor` and `init`, as users run them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import dsconfig
from dsconfig.cli.editor import NAMES, SCHEMA_ONLY, WITH_SCHEMA
from dsconfig.core.releases import LATEST, RELEASES
from dsconfig.schema.editor_settings import EDITORS, SERVERS
from tests.cli.conftest import Runs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KNOWN_TO_HELIX = ("json", "jsonc", "yaml", "bash")
NEWEST_SERIES = LATEST.rpartition(".")[0] + "."


def test_schema_goes_to_stdout_or_a_file(run: Runs, here: Path) -> None:
    done = run("schema", "--target", "0.16.9", "--consumer", "accelerate")
    assert done.code == 0
    assert json.loads(done.out) == dsconfig.json_schema("0.16.9", "accelerate")
    assert run("schema", "--target", "0.16.9", "-o", "out.json").code == 0
    assert json.loads((here / "out.json").read_text()) == dsconfig.json_schema("0.16.9")


def test_schema_follows_the_settings(run: Runs, here: Path) -> None:
    (here / "dsconfig.toml").write_text('target = "0.14.5"\nconsumer = "lightning"\n')
    assert json.loads(run("schema").out) == dsconfig.json_schema("0.14.5", "lightning")


def test_of_a_range_the_newest_release_counts(run: Runs) -> None:
    done = run("schema", "--target", ">=0.14,<0.16")
    assert json.loads(done.out)["x-dsconfig-target"] == "0.15.4"
    assert "using 0.15.4, the newest release of >=0.14,<0.16" in done.err


def test_path_is_that_of_a_kept_file(run: Runs) -> None:
    for release, name in ((LATEST, "deepspeed.json"), ("0.18.9", "deepspeed-0.18.json")):
        assert Path(run("schema", "--target", release, "--path").out.strip()).name == name


@pytest.mark.parametrize("release", [name for name in RELEASES if name.startswith(NEWEST_SERIES)])
def test_a_file_is_kept_for_every_release_of_the_newest_series(run: Runs, release: str) -> None:
    kept = json.loads(Path(run("schema", "--target", release, "--path").out.strip()).read_text("utf-8"))
    del kept["$id"], kept["$comment"]
    alike = json.dumps(kept).replace(kept["x-dsconfig-target"], release)
    assert json.loads(alike) == dsconfig.json_schema(release)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("schema", "--target", "0.99"), "unknown DeepSpeed release `0.99`"),
        (("schema", "--target", "nope"), "unknown DeepSpeed release `nope`"),
        (("schema", "--target", "0.8.3", "--path"), "no schema file for 0.8.3 is installed"),
        (("schema", "--path", "--consumer", "lightning", "--target", "0.19.8"), "0.19.8 and lightning"),
        (("schema", "--path", "-o", "x.json"), "exclude each other"),
        (("schema", "-o", "no/such/folder/x.json"), "no such file or directory"),
        (("schema", "--consumer", "megatron"), "`megatron` is unknown"),
        (("editor", "vim"), "`vim` is unknown"),
        (("editor",), "EDITOR is missing, for example `dsconfig editor vscode --write`"),
        (("init", "--preset", "zero9"), "unknown preset `zero9`"),
        (("init", "--preset", "elastic", "--consumer", "deepspeed"), f"not for {LATEST}"),
        (("init", "no/such/folder/x.json"), "no such file or directory"),
    ],
)
def test_wrong_use_is_one_line(run: Runs, argv: tuple[str, ...], message: str) -> None:
    done = run(*argv)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert message in done.err


def test_the_editors_are_those_of_the_module() -> None:
    assert WITH_SCHEMA == EDITORS
    assert {*NAMES} == {*SERVERS, *SCHEMA_ONLY}


@pytest.mark.parametrize("name", SERVERS)
def test_editor_starts_the_server(run: Runs, here: Path, name: str) -> None:
    printed = run("editor", name)
    assert printed.code == 0
    assert '"dsconfig"' in printed.out
    assert '"lsp"' in printed.out.replace("dsconfig lsp", '"lsp"')
    result = run("editor", name, "--write")
    where = here / SERVERS[name].file.path
    assert where.exists() == (result.code == 0) == (not SERVERS[name].place)
    where.parent.mkdir(exist_ok=True)
    where.write_text("mine")
    assert run("editor", name).out == printed.out


def test_helix_gets_all_that_it_asks_of_a_language_it_does_not_know(run: Runs) -> None:
    # helix-core/src/syntax/config.rs, `LanguageConfiguration`: without these it refuses the whole file.
    for language in tomllib.loads(run("editor", "helix").out)["language"]:
        assert language["name"] in KNOWN_TO_HELIX or {"scope", "file-types"} <= language.keys()


def test_schemas_are_for_editors_that_read_them(run: Runs) -> None:
    assert "helix uses the language server" in run("editor", "helix", "--schema").err


@pytest.mark.parametrize("name", EDITORS)
def test_editor_prints_and_writes_nothing(run: Runs, here: Path, name: str) -> None:
    before = sorted(here.rglob("*"))
    done = run("editor", name, "--schema", "--target", "0.19.8")
    assert done.code == 0
    assert "deepspeed.schema.json" in done.out
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("name", EDITORS)
def test_editor_writes_once(run: Runs, here: Path, name: str) -> None:
    assert run("editor", name, "--schema", "--write", "--target", "0.19.8").code == 0
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert len(before) == 3
    done = run("editor", name, "--schema", "--write", "--target", "0.19.8")
    assert done.out.count("is up to date") == 3
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


OWN_FILES = {
    "zero3.json": '{"zero_optimization": {"stage": 3}, "train_batch_size": 8}',
    "conf/ds.json": '{"zero_optimization": {"stage": 3}, "train_batch_size": 8}',
    "conf/acc.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n",
    "package.json": '{"name": "a", "version": "1"}',
    "args.json": '{"deepspeed": "zero3.json", "output_dir": "out", "per_device_train_batch_size": 1}',
    "ds_config.json": '{"train_batch_size": 8}',
}


@pytest.mark.parametrize("name", EDITORS)
def test_schemas_are_for_the_configs_of_the_repository(run: Runs, here: Path, name: str) -> None:
    """Users name configs `zero3.json`, which no pattern of names matches; `check` finds them by content."""
    for file, text in OWN_FILES.items():
        (here / file).parent.mkdir(exist_ok=True)
        (here / file).write_text(text)
    out = run("editor", name, "--schema", "--target", "0.19.8").out
    for own in ('"zero3.json"', '"conf/ds.json"', '"conf/acc.yaml"'):
        assert out.count(own) == 1
    for other in ("package.json", "args.json", '"ds_config.json"'):
        assert other not in out


def test_new_configs_are_added_to_the_settings(run: Runs, here: Path) -> None:
    (here / "zero3.json").write_text(OWN_FILES["zero3.json"])
    run("editor", "vscode", "--write", "--target", "0.19.8")
    (here / "zero2.json").write_text(OWN_FILES["zero3.json"])
    assert "changed .vscode/settings.json" in run("editor", "vscode", "--write", "--target", "0.19.8").out
    (schema,) = json.loads((here / ".vscode" / "settings.json").read_text())["json.schemas"]
    assert schema["fileMatch"][-2:] == ["zero3.json", "zero2.json"]


def test_zed_keeps_its_servers(run: Runs) -> None:
    done = run("editor", "zed")
    assert done.code == 0
    assert "binary" not in done.out
    assert '"fileMatch"' in done.out


def test_neovim_is_told_that_its_file_needs_exrc(run: Runs) -> None:
    for option in ([], ["--schema"]):
        assert run("editor", "neovim", *option).out.startswith(
            "-- Neovim reads this file only with `vim.o.exrc = true`"
        )


SETTINGS = """{
  // the team's own
  "editor.tabSize": 3, /* odd */
  "json.schemas": [
    {"fileMatch": ["x.json"], "url": "./x.schema.json"}, // kept
  ],
  "yaml.schemas": {"./y.json": ["y.yaml"]},
}
"""


def test_other_settings_stay_byte_for_byte(run: Runs, here: Path) -> None:
    file = here / ".vscode" / "settings.json"
    file.parent.mkdir()
    file.write_text(SETTINGS)
    assert run("editor", "vscode", "--write", "--target", "0.19.8").code == 0
    text = file.read_text()
    added = [line for line in text.splitlines() if line not in SETTINGS.splitlines()]
    assert len(added) <= 12
    for line in ("  // the team's own", '  "editor.tabSize": 3, /* odd */'):
        assert line in text
    assert '{"fileMatch": ["x.json"], "url": "./x.schema.json"}' in text
    assert '"./.vscode/deepspeed.schema.json"' in text
    assert '"./y.json": ["y.yaml"]' in text
    assert '"./.vscode/accelerate.schema.json"' in text
    assert run("editor", "vscode", "--write", "--target", "0.19.8").out.count("up to date") == 3


@pytest.mark.parametrize(
    "text", ["[]", '{"json.schemas": 3}', "{{{", '{"json.schemas": {"a": 1}}', '{"a": 1', "\x00"]
)
def test_settings_that_cannot_be_added_to_are_left_alone(run: Runs, here: Path, text: str) -> None:
    file = here / ".vscode" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    done = run("editor", "vscode", "--write", "--target", "0.19.8")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert file.read_text() == text
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json"]


@pytest.mark.parametrize(("name", "file"), [("neovim", ".nvim.lua"), ("jetbrains", ".idea/jsonSchemas.xml")])
def test_a_file_of_somebody_else_is_left_alone(run: Runs, here: Path, name: str, file: str) -> None:
    (here / file).parent.mkdir(exist_ok=True)
    (here / file).write_text("mine\n")
    assert run("editor", name, "--schema", "--write", "--target", "0.19.8").code == 2
    assert (here / file).read_text() == "mine\n"


def test_a_foreign_file_under_the_schemas_name_is_left_alone(run: Runs, here: Path) -> None:
    (here / ".zed").mkdir()
    (here / ".zed" / "deepspeed.schema.json").write_text("{}")
    assert run("editor", "zed", "--schema", "--write", "--target", "0.19.8").code == 2
    assert [path.name for path in (here / ".zed").iterdir()] == ["deepspeed.schema.json"]


def test_a_schema_of_another_release_is_replaced(run: Runs, here: Path) -> None:
    assert run("editor", "zed", "--schema", "--write", "--target", "0.19.8").code == 0
    done = run("editor", "zed", "--schema", "--write", "--target", "0.18.9")
    assert "changed .zed/deepspeed.schema.json" in done.out
    assert ".zed/settings.json is up to date" in done.out


def test_init_writes_a_clean_config_and_never_over_another(run: Runs, here: Path) -> None:
    done = run("init", "--target", "0.19.8")
    assert done.code == 0
    assert done.out == "wrote ds_config.json for DeepSpeed 0.19.8\n"
    assert run("check", "ds_config.json", "--target", "0.19.8", "--fail-on", "info").code == 0
    before = (here / "ds_config.json").read_bytes()
    assert run("init", "--preset", "zero3").code == 2
    assert (here / "ds_config.json").read_bytes() == before
    assert run("init", "--preset", "zero3", "--force").code == 0
    assert (here / "ds_config.json").read_bytes() != before


def test_init_knows_what_a_consumer_wants(run: Runs) -> None:
    done = run("init", "-", "--consumer", "transformers", "--target", "0.19.8")
    assert json.loads(done.out)["train_batch_size"] == "auto"
    assert "zero3-offload-nvme" in run("init", "--list").out
