"""Outline, folds, links, definition, rename, hints, lenses and commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dsconfig.lsp.language_server import LanguageServer
from dsconfig.lsp.protocol import uri_from_path
from tests.lsp.client import Editor, RefusedError, edited, whole
from tests.lsp.conftest import Editors

TEXT = """{
  // one
  // two
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 4,
  "$dsconfig": {"world-size": 4},
  "bfloat16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": null
  },
  "comet": {"enabled": true, "api_key": "hush"}
}
"""


YAML = """# a
# b
train_batch_size: 8
zero_optimization:
  stage: 2

bf16:
  enabled: true
"""


def test_the_outline_has_keys_and_values_and_no_secrets(editor: Editor) -> None:
    editor.open("outline.jsonc", TEXT)
    symbols = {each["name"]: each for each in editor.on("documentSymbol", "outline.jsonc")}
    assert symbols["train_batch_size"]["detail"] == "32"
    assert [each["name"] for each in symbols["zero_optimization"]["children"]] == ["stage", "overlap_comm"]
    assert "hush" not in json.dumps(symbols)


@pytest.mark.parametrize(
    ("name", "text", "folds"),
    [
        ("folds.jsonc", TEXT, [(0, 11), (1, 2), (7, 9)]),
        (
            "folds.yaml",
            YAML,
            [(0, 1), (3, 4), (6, 7)],
        ),
    ],
)
def test_folds(editor: Editor, name: str, text: str, folds: list[tuple[int, int]]) -> None:
    editor.open(name, text, name.rpartition(".")[2])
    ranges = editor.on("foldingRange", name)
    assert [(each["startLine"], each["endLine"]) for each in ranges] == folds
    assert [each for each in ranges if each.get("kind") == "comment"]


LAUNCHES = {
    "acc.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds/co|nf.json\n",
    "train.yaml": "stage: sft\nmodel_name_or_path: x\ndataset: y\ndeepspeed: ds/co|nf.json\n",
    "run.sh": "deepspeed train.py --deepspeed_config ds/co|nf.json\n",
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_file_leads_to_its_config(editor: Editor, name: str) -> None:
    (editor.folder / "ds").mkdir(exist_ok=True)
    (editor.folder / "ds" / "conf.json").write_text('{"train_batch_size": 8}')
    language = "shellscript" if name.endswith("sh") else "yaml"
    (diagnostic,) = editor.at("definition", name, LAUNCHES[name], language)
    assert diagnostic["uri"] == editor.uri("ds/conf.json")
    (link,) = editor.on("documentLink", name)
    text = LAUNCHES[name].replace("|", "")
    line = text.splitlines()[link["range"]["start"]["line"]]
    assert line[link["range"]["start"]["character"] : link["range"]["end"]["character"]] == "ds/conf.json"
    assert link["target"] == editor.uri("ds/conf.json")


def test_the_schema_is_a_link(editor: Editor) -> None:
    editor.open("schema.json", '{"$schema": "https://x.org/s.json", "zero_optimization": {}}')
    assert [each["target"] for each in editor.on("documentLink", "schema.json")] == ["https://x.org/s.json"]
    editor.write("schema.json", '{"$schema": "./s.json", "zero_optimization": {}}')
    assert [each["target"] for each in editor.on("documentLink", "schema.json")] == [editor.uri("s.json")]


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        (
            "ds_config_rename.json",
            '{"train_batch_size": 8, "bflo|at16": {"enabled": true}}',
            "bfloat16",
            "bf16",
        ),
        ("rename.hjson", "{\n zero_optimization: {}\n bflo|at16: {enabled: true}\n}", "bfloat16", "bf16"),
        ("rename.yaml", "zero_optimization:\n  stage: 1\nbflo|at16:\n  enabled: true\n", "bfloat16", "bf16"),
        (
            "inside.yaml",
            "zero_optimization:\n  stage: 3\n  stage3_gather_f|p16_weights_on_model_save: true\n",
            "stage3_gather_fp16_weights_on_model_save",
            "stage3_gather_16bit_weights_on_model_save",
        ),
    ],
)
def test_an_alias_becomes_the_keys_own_name(editor: Editor, name: str, text: str, old: str, new: str) -> None:
    plain = text.replace("|", "")
    prepared = editor.at("prepareRename", name, text, name.rpartition(".")[2])
    assert prepared["placeholder"] == new
    edit = editor.at("rename", name, text, newName=new)
    assert edited(plain, edit["changes"][editor.uri(name)]) == plain.replace(old, new)
    with pytest.raises(RefusedError, match=f"the key can only be renamed to `{new}`"):
        editor.at("rename", name, text, newName="other")


def test_what_has_no_other_name_is_not_renamed(editor: Editor) -> None:
    assert editor.at("prepareRename", "ds_config_own.json", '{"train_batch_size": 8, "bf|16": {}}') is None
    assert editor.at("prepareRename", "ds_config_both.json", '{"bf16": {}, "bfl|oat16": {}}') is None


def hints(editor: Editor, name: str, text: str, language: str = "json") -> list[str]:
    editor.open(name, text, language)
    return [each["label"] for each in editor.on("inlayHint", name, range=whole(text))]


def test_hints_tell_the_batch_and_what_auto_becomes(editor: Editor) -> None:
    labels = hints(editor, "hints.jsonc", TEXT)
    assert labels == ["(32 = 4 micro × 2 steps × 4 ranks)", "= false"]
    text = (
        '{"$dsconfig": {"consumer": "transformers"}, "train_batch_size": "auto", "bf16": {"enabled": "auto"}}'
    )
    (batch, precision) = hints(editor, "ds_config_auto.json", text)
    assert batch.startswith("filled by transformers from world size")
    assert precision.startswith("filled by transformers from bf16")
    assert hints(editor, "auto.yaml", "zero_optimization:\n  stage: 3\n  overlap_comm: null\n", "yaml") == [
        "= true"
    ]


COMMANDS: list[tuple[str, list[Any], str]] = [
    ("dsconfig.resolve", [8], "32 samples a step = 4 (micro batch) × 1 (accumulation steps) × 8 ranks"),
    ("dsconfig.compat", [], "0.8.1 to 0.19.8"),
    ("dsconfig.memory", [8, "llama-3-8b"], "parameters, 8 ranks"),
    ("dsconfig.show", [], '    "stage": 2,'),
    ("dsconfig.fix", [], '"bf16": {"enabled": true}'),
]


@pytest.mark.parametrize(("command", "arguments", "expected"), COMMANDS)
def test_commands_tell_what_the_command_line_tells(
    editor: Editor, command: str, arguments: list[Any], expected: str
) -> None:
    editor.open("commands.jsonc", TEXT)
    params = {"command": command, "arguments": [editor.uri("commands.jsonc"), *arguments]}
    assert expected in editor.request("workspace/executeCommand", params)["text"]


def test_effective_values_are_a_config_with_remarks(editor: Editor) -> None:
    editor.open("values.jsonc", TEXT)
    params = {"command": "dsconfig.show", "arguments": [editor.uri("values.jsonc")]}
    result = editor.request("workspace/executeCommand", params)
    assert result["language"] == "jsonc"
    remarks = dict(re.findall(r'"(\w+)": .*?\s+// (.*)', result["text"]))
    assert remarks["stage"] == "line 9"
    assert remarks["overlap_comm"].startswith("derived from")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    values = json.loads(re.sub(r"\s*// .*", "", result["text"]), object_pairs_hook=once)
    assert values["train_batch_size"] == 32
    assert values["zero_optimization"]["overlap_comm"] is False
    assert values["comet"]["api_key"] != "hush"


def test_lenses_lead_to_commands_that_work(editor: Editor) -> None:
    editor.open("lenses.jsonc", TEXT)
    commands = [each["command"] for each in editor.on("codeLens", "lenses.jsonc")]
    assert [each["title"] for each in commands] == [
        "resolve at 4 GPUs",
        "memory",
        "compat",
        "effective values",
    ]
    assert {each["command"] for each in commands} <= set(editor.can["executeCommandProvider"]["commands"])
    for each in commands:
        assert editor.request("workspace/executeCommand", each)["text"]


MODELS = {
    "named in the config": (
        "ds_config_own.json",
        '{"$dsconfig": {"model": "qwen2.5-7b"}, "train_micro_batch_size_per_gpu": 4}',
        "json",
        "qwen2.5-7b",
    ),
    "named in the launch file": (
        "recipe.yaml",
        """model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
finetuning_type: full
deepspeed: {train_micro_batch_size_per_gpu: 4, zero_optimization: {stage: 2}}
per_device_train_batch_size: 4
""",
        "yaml",
        "meta-llama/Meta-Llama-3-8B",
    ),
    "named by nobody": ("ds_config_none.json", '{"train_micro_batch_size_per_gpu": 4}', "json", None),
}


@pytest.mark.parametrize(("name", "text", "language", "model"), MODELS.values(), ids=MODELS)
def test_memory_is_told_of_the_model_that_somebody_names(
    editor: Editor, name: str, text: str, language: str, model: str | None
) -> None:
    editor.open(name, text, language)
    (lens,) = [
        each["command"] for each in editor.on("codeLens", name) if each["command"]["title"] == "memory"
    ]
    assert lens["arguments"][2:] == ([model] if model else [])
    status = editor.request("dsconfig/status", {"textDocument": {"uri": editor.uri(name)}})
    assert status["model"] == model
    text_shown = editor.request("workspace/executeCommand", lens)["text"]
    assert text_shown.startswith(f"model: {model}\n" if model else "the model is unknown\nhelp: ")


VERSIONS = {
    "newer than all": ("transformers==99", "transformers 99 is newer than 5."),
    "never released": ("transformers==4.99", "transformers 4.99 was never released"),
    "known": ("transformers==4.45", None),
}


@pytest.mark.parametrize(("consumer", "note"), VERSIONS.values(), ids=VERSIONS)
def test_an_unknown_version_is_told_apart_from_a_known_one(
    tmp_path: Path, consumer: str, note: str | None
) -> None:
    server = LanguageServer()
    server.handle_request("initialize", {"initializationOptions": {"consumer": consumer}})
    for name in ("ds_config.json", "ds_config_2.json"):
        document = {
            "uri": uri_from_path(str(tmp_path / name)),
            "text": TEXT,
            "languageId": "json",
            "version": 1,
        }
        server.handle_notification("textDocument/didOpen", {"textDocument": document})
    sent = list(server.pending_messages())
    status = server.handle_request("dsconfig/status", {"textDocument": {"uri": document["uri"]}})
    texts = [each["params"]["message"] for each in sent if each["method"] == "window/showMessage"]
    if note is None:
        assert (status["readerNote"], texts) == (None, [])
    else:
        assert status["readerNote"].startswith(note)
        assert texts == [f"dsconfig: {status['readerNote']}"], "shown once, not for each file"


def test_an_editor_that_shows_nothing_itself_is_told(editors: Editors) -> None:
    editor = editors()
    editor.open("ds_config.json", TEXT)
    params = {"command": "dsconfig.compat", "arguments": [editor.uri("ds_config.json")]}
    editor.request("workspace/executeCommand", params)
    said = editor.wait(lambda message: message.get("method") == "window/showMessage")
    assert "0.19.8" in said["params"]["message"]
    shows = editors({"window": {"showDocument": {"support": True}}})
    shows.open("ds_config.json", TEXT)
    shows.request("workspace/executeCommand", params)
    asked = shows.wait(lambda message: message.get("method") == "window/showDocument")
    assert asked["params"]["uri"].startswith("file:///")


def test_wrong_commands_are_refused(editor: Editor) -> None:
    for command, arguments in (
        ("dsconfig.none", []),
        ("dsconfig.resolve", []),
        ("dsconfig.resolve", ["x:y"]),
    ):
        with pytest.raises(RefusedError):
            run(editor, command, arguments)
    editor.open("size.jsonc", TEXT)
    with pytest.raises(RefusedError, match="world size 0"):
        run(editor, "resolve", [editor.uri("size.jsonc"), 0])


def run(editor: Editor, command: str, arguments: list[Any]) -> Any:
    params = {"command": f"dsconfig.{command}", "arguments": arguments}
    return editor.request("workspace/executeCommand", params)
