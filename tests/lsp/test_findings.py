"""Findings and their fixes, as an editor gets them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsconfig import check
from dsconfig.document import read_text
from tests.lsp.client import Editor, edited, whole
from tests.lsp.conftest import Editors

TYPO = """{
  "train_batch_size": 16,
  "zero_optimization": {"stage": 2, "cpu_offload": true},
  "bf16": {"enabld": true}
}
"""
YAML = """train_batch_size: 16
zero_optimization:
  stage: 2
  cpu_offload: true
bf16:
  enabld: true
"""
FORMATS = {
    "ds_config.json": ("json", TYPO),
    "ds_config.jsonc": ("jsonc", TYPO.replace("{\n", "{\n  // 😀 a remark\n", 1)),
    "ds_config.hjson": ("hjson", "{\n  train_batch_size: 16\n  bf16: {enabld: true}\n}\n"),
    "ds.yaml": ("yaml", YAML),
}
LAUNCH = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stag: 2\nnum_processes: 4\n"


def actions(editor: Editor, name: str, text: str, *only: str) -> list[dict[str, Any]]:
    context: dict[str, Any] = {"diagnostics": [], **({"only": list(only)} if only else {})}
    result: list[dict[str, Any]] = editor.on("codeAction", name, range=whole(text), context=context)
    return result


def carried_out(text: str, action: dict[str, Any]) -> str:
    edit = action["edit"]
    (edits,) = edit["changes"].values() if "changes" in edit else [edit["documentChanges"][0]["edits"]]
    return edited(text, edits)


@pytest.mark.parametrize("name", FORMATS)
def test_a_finding_has_code_page_place_and_tags(editor: Editor, name: str) -> None:
    language, text = FORMATS[name]
    diagnostics = {each["code"]: each for each in editor.open(name, text, language)}
    typo = diagnostics["DSC102"]
    assert typo["codeDescription"]["href"].endswith("/rules/DSC102/")
    assert (typo["source"], typo["severity"]) == ("dsconfig", 1)
    start, end = typo["range"]["start"], typo["range"]["end"]
    line = text.splitlines()[start["line"]]
    assert start["line"] == end["line"]
    assert line[start["character"] : end["character"]].strip('"') == "enabld"
    if "cpu_offload" in text:
        assert diagnostics["DSC106"]["tags"] == [2]
    report = check(read_text(text, name, "yaml" if name.endswith("yaml") else "json").value())
    assert {each.code for each in report} <= diagnostics.keys()


def test_what_is_ignored_is_faded(editor: Editor) -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 1, "sub_group_size": 5}}'
    diagnostics = {each["code"]: each for each in editor.open("faded.json", text)}
    assert diagnostics["DSC431"]["tags"] == [1]
    related = diagnostics["DSC431"]["relatedInformation"]
    assert [each["message"] for each in related] == ["the stage is set here"]
    assert related[0]["location"]["uri"] == editor.uri("faded.json")


@pytest.mark.parametrize("name", FORMATS)
def test_a_quick_fix_does_what_it_says(editor: Editor, name: str) -> None:
    language, text = FORMATS[name]
    editor.open(name, text, language)
    fixes = {each["title"]: each for each in actions(editor, name, text, "quickfix")}
    new = carried_out(text, fixes["rename to `enabled`"])
    assert new == text.replace("enabld", "enabled")
    assert fixes["rename to `enabled`"]["diagnostics"][0]["code"] == "DSC102"
    assert not any(each["code"] == "DSC102" for each in editor.write(name, new))


@pytest.mark.parametrize("name", FORMATS)
def test_a_finding_can_be_silenced_where_it_stands(editor: Editor, name: str) -> None:
    language, text = FORMATS[name]
    editor.open(name, text, language)
    silencing = next(
        each for each in actions(editor, name, text) if each["title"].startswith("Ignore DSC102")
    )
    left = [each["code"] for each in editor.write(name, carried_out(text, silencing))]
    assert "DSC102" not in left
    assert "DSC008" not in left


def test_all_safe_fixes_at_once(editor: Editor) -> None:
    text = '{"train_batch_size": 8, "bfloat16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
    editor.open("all.json", text)
    (action,) = actions(editor, "all.json", text, "source.fixAll")
    assert action["kind"] == "source.fixAll.dsconfig"
    assert "bfloat16" not in carried_out(text, action)
    assert actions(editor, "all.json", text, "refactor") == []


def test_fixes_on_save_where_they_are_wished_for(editors: Editors) -> None:
    editor = editors(fixOnSave=True)
    assert editor.can["textDocumentSync"]["willSaveWaitUntil"] is True
    text = '{"train_batch_size": 8, "bfloat16": {"enabled": true}}'
    editor.open("ds_config.json", text)
    edits = editor.on("willSaveWaitUntil", "ds_config.json", reason=1)
    assert json.loads(edited(text, edits)) == {"train_batch_size": 8, "bf16": {"enabled": True}}


def test_the_editor_names_the_model(editors: Editors) -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'
    assert [each["code"] for each in editors(model="gpt2").open("ds_config.json", text)] == ["DSC405"]


def test_a_model_that_is_not_there_leaves_the_other_settings(editors: Editors) -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "leaf_module": {}}}'
    diagnostics = editors(model="nope", target="0.17.6").open("ds_config.json", text)
    assert [each["code"] for each in diagnostics] == ["DSC105"]


def test_edits_name_the_version_where_the_editor_knows_versions(editors: Editors) -> None:
    editor = editors({"workspace": {"workspaceEdit": {"documentChanges": True}}})
    editor.open("ds_config.json", TYPO)
    (change,) = actions(editor, "ds_config.json", TYPO, "quickfix")[0]["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": editor.uri("ds_config.json"), "version": 1}


def test_a_launch_file_is_judged_with_its_config(editor: Editor) -> None:
    (diagnostic,) = editor.open("acc.yaml", LAUNCH, "yaml")
    assert "zero_stag" in diagnostic["message"]
    editor.close("acc.yaml")


def test_a_config_is_judged_with_the_launch_file_in_the_editor(editors: Editors) -> None:
    editor = editors()
    script = "deepspeed --num_gpus {} train.py --deepspeed_config ds_config.json\n"
    (editor.folder / "run.sh").write_text(script.format(4))
    config = '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2}'
    assert editor.open("ds_config.json", config) == []
    editor.open("run.sh", script.format(4), "shellscript")
    assert editor.found("ds_config.json") == []
    editor.write("run.sh", script.format(3))
    (diagnostic,) = editor.found("ds_config.json")
    assert "3" in diagnostic["message"]


def test_a_launch_file_is_judged_with_the_config_in_the_editor(editors: Editors) -> None:
    editor = editors()
    (editor.folder / "ds_config.json").write_text('{"train_batch_size": 8, "bf16": {"enabld": true}}')
    script = "deepspeed --num_gpus 4 train.py --deepspeed_config ds_config.json\n"
    editor.open("run.sh", script, "shellscript")
    assert [each["code"] for each in editor.found("ds_config.json")] == ["DSC102"]
    assert editor.open("ds_config.json", '{"train_batch_size": 8, "bf16": {"enabled": true}}') == []
    editor.found("run.sh")
    editor.close("ds_config.json")
    del editor.versions[editor.uri("ds_config.json")]
    assert editor.found("ds_config.json") == []
    assert [each["code"] for each in editor.found("ds_config.json")] == ["DSC102"]


def test_a_config_beside_a_launch_file_is_told_of_though_it_is_not_open(editors: Editors) -> None:
    editor = editors()
    (editor.folder / "ds_config.json").write_text('{"train_batch_size": 8, "bf16": {"enabld": true}}')
    launch = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds_config.json\n"
    editor.open("acc.yaml", launch, "yaml")
    assert "DSC102" in [each["code"] for each in editor.found("ds_config.json")]
    editor.close("acc.yaml")
    assert editor.found("ds_config.json") == []


def test_what_is_no_config_is_left_alone(editor: Editor) -> None:
    assert editor.open("package.json", '{"name": "x", "version": "1.0.0", "scripts": {}}') == []
    assert editor.open("empty.json", "") == []
    assert editor.open("compose.yaml", "services:\n  web:\n    image: x\n", "yaml") == []
    assert editor.at("completion", "package.json", '{"name": "x", "version": "1", |}')["items"] == []


def test_pulled_diagnostics(editors: Editors) -> None:
    editor = editors({"textDocument": {"diagnostic": {}}})
    item = {"uri": editor.uri("ds_config.json"), "languageId": "json", "version": 1, "text": TYPO}
    editor.notify("textDocument/didOpen", {"textDocument": item})
    report = editor.on("diagnostic", "ds_config.json")
    assert report["kind"] == "full"
    assert {"DSC102", "DSC106"} <= {each["code"] for each in report["items"]}
    editor.request("shutdown")
    assert not [each for each in editor.aside if each.get("method") == "textDocument/publishDiagnostics"]
    editor.notify("exit", None)
    assert editor.end() == 0
