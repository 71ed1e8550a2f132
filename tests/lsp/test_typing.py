"""Completion and hover while a config is typed, in each format."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dsconfig.core.releases import RELEASES
from dsconfig.lsp.hover import escape_markdown, markdown_code_span
from dsconfig.lsp.workspace import Workspace
from tests.lsp.client import Editor, edited, position
from tests.lsp.conftest import Editors

ZERO = {
    "ds_config.json": ("json", '{"zero_optimization": {"stage": 2, |}}'),
    "half.json": ("json", '{\n  "zero_optimization": {\n    "stage": 2,\n    "ov|\n'),
    "bare.json": ("json", '{\n  "zero_optimization": {\n    "stage": 2\n    |\n  },\n  "bf16": {}\n}'),
    "ds_config.jsonc": ("jsonc", '{\n  // why\n  "zero_optimization": {"stage": 2, "|": true}\n}'),
    "ds_config.hjson": ("hjson", "{\n  zero_optimization: {\n    stage: 2\n    |\n  }\n}"),
    "ds.yaml": ("yaml", "zero_optimization:\n  stage: 2\n  |\nbf16:\n  enabled: true\n"),
    "flow.yaml": ("yaml", "zero_optimization: {stage: 2, |}\n"),
}


def offered(editor: Editor, name: str, text: str, language: str = "json") -> dict[str, dict[str, Any]]:
    items = editor.at("completion", name, text, language)["items"]
    return {each["label"]: each for each in sorted(items, key=lambda each: str(each["sortText"]))}


def done(text: str, item: dict[str, Any]) -> str:
    edits = [item["textEdit"], *item.get("additionalTextEdits", [])]
    return edited(text.replace("|", "", 1), edits)


@pytest.mark.parametrize("name", ZERO)
def test_keys_of_the_section_that_are_not_there(editor: Editor, name: str) -> None:
    language, text = ZERO[name]
    items = offered(editor, name, text, language)
    assert {"overlap_comm", "reduce_bucket_size", "offload_optimizer"} <= items.keys()
    assert not {"stage", "enabled", "bf16", "cpu_offload"} & items.keys()
    # Keys that stage 2 does not read come behind those that it reads.
    order = list(items)
    assert order.index("overlap_comm") < order.index("stage3_max_live_parameters")
    assert "Default" in items["overlap_comm"]["documentation"]["value"] or "null" in str(
        items["overlap_comm"]
    )


def test_a_completed_key_leaves_json(editor: Editor) -> None:
    text = '{\n  "bf16": {"enabled": true}\n  |\n  "fp16": {}\n}'
    new = done(text, offered(editor, "ds_config_comma.json", text)["gradient_clipping"])
    assert new == ('{\n  "bf16": {"enabled": true},\n  "gradient_clipping": ${1:1.0},\n  "fp16": {}\n}')


@pytest.mark.parametrize("typed", ['"grad|', "grad|", '"grad|"'])
def test_a_half_typed_key_leaves_json(editor: Editor, typed: str) -> None:
    text = f'{{\n  "bf16": {{"enabled": true}},\n  {typed}\n  "fp16": {{}}\n}}'
    new = done(text, offered(editor, "ds_config_half.json", text)["gradient_clipping"])
    assert new == ('{\n  "bf16": {"enabled": true},\n  "gradient_clipping": ${1:1.0},\n  "fp16": {}\n}')


def test_a_completed_key_keeps_its_value(editor: Editor) -> None:
    text = '{"zero_optimization": {"sta|": 3}}'
    assert done(text, offered(editor, "value.json", text)["stage"]) == '{"zero_optimization": {"stage": 3}}'


YAML = "train_batch_size: 8\nzero_optimization: {stage: 2}\n"
HALF_TYPED = {
    "after the colon": ("fp16:\n  enabled:|\n", "true", "fp16:\n  enabled: true\n"),
    "before a block": ("optimizer:|\n", "empty", "optimizer:\n  $1\n"),
    "in an open brace": ("fp16: {ena|", "enabled", "fp16: {enabled: ${1:false}"),
    "in an open brace, above others": (
        "fp16: {ena|\nbf16: {}\n",
        "enabled",
        "fp16: {enabled: ${1:false}\nbf16: {}\n",
    ),
    "the value in an open brace": ("fp16: {enabled: tr|", "true", "fp16: {enabled: true"),
    "in two open braces": (
        "optimizer: {type: Adam, params: {l|",
        "lr",
        "optimizer: {type: Adam, params: {lr: ${1:0.001}",
    ),
}


@pytest.mark.parametrize("name", HALF_TYPED)
def test_half_typed_yaml(editor: Editor, name: str) -> None:
    text, label, wanted = HALF_TYPED[name]
    item = offered(editor, f"{name}.yaml", YAML + text, "yaml")[label]
    assert done(YAML + text, item) == YAML + wanted


@pytest.mark.parametrize(
    ("text", "some", "none"),
    [
        ('{"bf16": {"enabled": |}}', {"true", "false"}, {"auto"}),
        ('{"zero_optimization": {"stage": |}}', {"0", "1", "2", "3"}, set()),
        ('{"zero_optimization": {"offload_param": {"device": "|"}}}', {"none", "cpu", "nvme"}, {"auto"}),
        ('{"optimizer": {"type": "|"}}', {"AdamW", "Muon"}, {"WarmupLR"}),
        ('{"optimizer": {"type": "Muon", "params": {|}}}', {"muon_lr", "ns_method"}, {"cycle_min_lr"}),
        ('{"optimizer": {"type": "AdamW", "params": {|}}}', {"torch_adam", "lr"}, {"muon_lr"}),
        ('{"$dsconfig": {"target": "0.16.0"}, "optimizer": {"type": "|"}}', {"OneBitAdam"}, set()),
        ('{"$dsconfig": {"target": "0.9.0"}, "zero_optimization": {|}}', {"stage"}, {"zenflow"}),
        ('{"$dsconfig": {"consumer": "transformers"}, "train_batch_size": |}', {"auto"}, set()),
        ('{"$dsconfig": {|}}', {"target", "consumer", "world-size", "model", "ignore"}, set()),
        ('{"$dsconfig": {"target": "|"}}', set(RELEASES), set()),
        ('{"$dsconfig": {"consumer": |}}', {"transformers", "lightning"}, set()),
        ('{"$dsconfig": {"ignore": ["|"]}}', {"DSC401", "DSC102"}, set()),
    ],
)
def test_what_may_stand_there(editor: Editor, text: str, some: set[str], none: set[str]) -> None:
    items = offered(editor, "ds_config.json", text)
    assert some <= items.keys()
    assert not none & items.keys()


def test_blocks_for_sections(editor: Editor) -> None:
    text = '{"zero_optimization": |}'
    items = offered(editor, "blocks.json", text)
    assert done(text, items["stage 2"]) == '{"zero_optimization": {"stage": 2, "overlap_comm": true}}'
    yaml = "zero_optimization: |\n"
    items = offered(editor, "blocks.yaml", "train_batch_size: 8\n" + yaml, "yaml")
    assert done(yaml, {"textEdit": {**items["stage 2"]["textEdit"], "range": _end(yaml)}}) == (
        "zero_optimization: \n  stage: 2\n  overlap_comm: true\n"
    )


def _end(text: str) -> dict[str, Any]:
    at = position(text, text.index("|"))
    return {"start": at, "end": at}


def test_keys_of_a_launch_file(editor: Editor) -> None:
    head = "distributed_type: DEEPSPEED\n"
    items = offered(editor, "acc.yaml", f"{head}deepspeed_config:\n  zero_stage: 2\n  |\n", "yaml")
    assert "gradient_accumulation_steps" in items
    assert "zero_stage" not in items
    assert "bf16" in offered(
        editor, "acc.yaml", f"{head}mixed_precision: |\ndeepspeed_config: {{zero_stage: 2}}\n"
    )


HOVER = {
    "hover.json": '{"$dsconfig": {}, "zero_optimization": {"stage": 3, "over|lap_comm": null}}',
    "hover.hjson": "{\n  zero_optimization: {\n    stage: 3\n    over|lap_comm: null\n  }\n}",
    "hover.yaml": "zero_optimization:\n  stage: 3\n  over|lap_comm: null\n",
}


@pytest.mark.parametrize("name", HOVER)
def test_hover_tells_what_is_known_and_what_counts(editor: Editor, name: str) -> None:
    text, language = HOVER[name], name.rpartition(".")[2]
    markdown = editor.at("hover", name, text, language)["contents"]["value"]
    assert markdown.startswith("`zero_optimization.overlap_comm`\n\nOverlap the reduction of gradients")
    assert "- Releases: 0.2.0 and later" in markdown
    assert "Effective value: `true` (derived from `zero_optimization.stage`)" in markdown


def test_hover_tells_unit_default_and_who_fills(editor: Editor) -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size|": 5}}'
    markdown = editor.at("hover", "unit.json", text)["contents"]["value"]
    assert "- Unit: elements" in markdown
    assert "- Default in " in markdown
    assert '"auto": resolved by Transformers and Accelerate' in markdown


def test_nothing_is_told_between_keys(editor: Editor) -> None:
    assert editor.at("hover", "none.json", '{ | "bf16": {"enabled": true}}') is None


BEGUN = {
    "ds_config.json": "|",
    "zero3.json": "{|}",
    "zero2.hjson": "{\n  |\n}",
    "conf/ds_z3_offload.json": '{"|',
    "ds_config.yaml": "|",
    "stage2.yml": "# mine\nze|\n",
    "deepspeed.jsonc": '{\n  // mine\n  "$schema": "x.json",\n  |\n}',
}


@pytest.mark.parametrize("name", BEGUN)
def test_a_new_file_that_is_named_like_a_config_is_helped_from_the_first_key_on(
    editors: Editors, name: str
) -> None:
    language = name.rpartition(".")[2].replace("yml", "yaml")
    assert {"zero_optimization", "bf16"} <= offered(editors(), name, BEGUN[name], language).keys()


def test_a_new_launch_file_is_helped_from_the_first_key_on(editor: Editor) -> None:
    items = offered(editor, "accelerate_config.yaml", "compute_environment: LOCAL_MACHINE\n|\n", "yaml")
    assert "distributed_type" in items
    assert not {"compute_environment", "zero_optimization"} & items.keys()


@pytest.mark.parametrize(
    ("name", "text", "codes"),
    [
        ("zero3.json", '{"fp16": {"enabeld": true}}', {"DSC102"}),
        ("zero3.json", '{"bf16": {"enabled": "maybe"}}', {"DSC115"}),
        ("ds_config.yaml", "fp16:\n  enabeld: true\n", {"DSC102"}),
        ("mine.yaml", "train_batch_size: 8\nfp16:\n  enabled: true\n  x: 1\n", set()),
        ("mine.json", '{"fp16": {"enabled": true}, "train_batch_size": 0}', {"DSC204"}),
        ("mine.json", "{'$dsconfig': {}, 'fp16': 1}", {"DSC118"}),
        # Other programs' files, of the same names and with some of the keys.
        ("stage1.json", '{"accuracy": 0.5, "loss": 1}', None),
        ("ds.yaml", "services:\n  web: {}\n", None),
        ("zero.json", "{}", None),
        ("config.json", '{"optimizer": "adam", "scheduler": "cosine"}', None),
        ("train.yaml", "fp16: true\ngradient_accumulation_steps: 2\nlearning_rate: 1\n", None),
        ("package.json", '{"name": "x", "version": "1.0.0"}', None),
    ],
)
def test_findings_begin_with_the_first_key_that_is_told(
    editors: Editors, name: str, text: str, codes: set[str] | None
) -> None:
    language = name.rpartition(".")[2]
    published = {str(each["code"]) for each in editors().open(name, text, language)}
    assert not published if codes is None else codes <= published


def test_nothing_of_a_config_is_markdown_in_a_hover(editor: Editor) -> None:
    for value in (
        "`[a](http://b)![c](http://d)`",
        "[a](http://b)<img src=e>http://f www.g.h",
        "`",
        "``a`` *b*",
    ):
        text = json.dumps({"train_batch_size": 8, "steps_per_print": value, "nvme_path": value})
        name = "ds_config_markdown.json"
        (editor.write if editor.uri(name) in editor.versions else editor.open)(name, text)
        for key in ("steps_per_print", "nvme_path"):
            hover = editor.on("hover", name, position=position(text, text.index(key) + 1))
            markdown = hover["contents"]["value"] if hover else ""
            outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", markdown)
            assert not re.search(r"(?<!\\)[\[<!]|(?<!\\)://|www\.", outside), markdown


def test_markdown_of_a_text() -> None:
    assert markdown_code_span("a") == "`a`"
    assert markdown_code_span("`[a](b)`") == "`` `[a](b)` ``"
    assert markdown_code_span("a\n\n[b](c)") == r"`a\n\n[b](c)`"
    assert escape_markdown("from `a`, [b](http://c) <d> `") == r"from `a`, \[b\](http\://c) \<d\> \`"


def test_no_message_of_the_server_holds_a_link() -> None:
    workspace = Workspace()
    workspace.show_message("dsconfig: dsconfig.toml: unknown key [a](command:b)", 2)
    assert "](" not in workspace.outbox[-1]["params"]["message"]
