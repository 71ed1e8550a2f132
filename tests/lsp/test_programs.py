"""Configs inside Python sources and notebook cells, in an editor."""

from __future__ import annotations

from tests.lsp.client import Editor, position

PROGRAM = """import deepspeed

first = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 2, "overlap_com": True},
}
engine = deepspeed.initialize(model=m, config=first)
second = {'fp16': {'enabledd': True}, 'train_batch_size': 8}
deepspeed.initialize(config=second)
"""
CELL = "vscode-notebook-cell:/project/train.ipynb#"


def messages(diagnostics: list[dict[str, object]]) -> list[str]:
    return [str(each["message"]).partition(" is ")[0] for each in diagnostics]


def test_each_config_of_a_source_has_diagnostics(editor: Editor) -> None:
    diagnostics = editor.open("train.py", PROGRAM, "python")
    assert messages(diagnostics) == ["`overlap_com`", "`enabledd`"]
    assert [each["range"]["start"]["line"] for each in diagnostics] == [4, 7]
    start = "deepspeed.initialize(config=second)\n"
    changed = PROGRAM.replace(start, f"second.update(x)\n{start}")
    assert messages(editor.write("train.py", changed)) == ["`overlap_com`"]
    assert editor.write("train.py", "x = {'a': 1}\n") == []
    editor.close("train.py")


def test_hover_inside_a_dict(editor: Editor) -> None:
    hover = editor.at("hover", "hover.py", PROGRAM.replace("'train_batch", "'train_b|atch"), "python")
    assert "train_batch_size" in hover["contents"]["value"]
    assert editor.on("hover", "hover.py", position={"line": 0, "character": 3}) is None
    editor.close("hover.py")


def test_completion_inside_a_dict(editor: Editor) -> None:
    def labels(text: str) -> set[str]:
        items = editor.at("completion", "typed.py", text, "python")["items"]
        return {item["label"] for item in items}

    start = "ds_config = {'train_batch_size': 8, 'zero_optimization': {"
    assert {"overlap_comm", "offload_param"} <= labels(start + "'stage': 2, '|'}}")
    assert "overlap_comm" not in labels(start + "'overlap_comm': True, |}}")
    assert {"True", "False"} <= labels(start + "'overlap_comm': |}}")
    assert "zero_optimization" in labels("ds_config = {'|'}")
    assert labels("x = {'|'}") == set()
    assert labels("y = 1|") == set()
    editor.close("typed.py")


def test_code_actions_edit_each_dict(editor: Editor) -> None:
    editor.open("fix.py", PROGRAM, "python")
    whole = {"start": {"line": 0, "character": 0}, "end": position(PROGRAM, len(PROGRAM))}
    actions = editor.on("codeAction", "fix.py", range=whole, context={"diagnostics": []})
    titles = [action["title"] for action in actions]
    assert {"rename to `overlap_comm`", "rename to `enabled`", "Apply all safe fixes"} <= set(titles)
    (fix_all,) = [each for each in actions if each["title"] == "Apply all safe fixes"]
    (edits,) = fix_all["edit"]["changes"].values()
    assert sorted(edit["range"]["start"]["line"] for edit in edits) == [4, 7]
    editor.close("fix.py")


def test_cells_of_a_notebook_are_one_program(editor: Editor) -> None:
    editor.open(
        f"{CELL}1", "import deepspeed\nds = {'zero_optimization': {'stage': 9}, 'fp16': {}}", "python"
    )
    assert editor.open(f"{CELL}2", "deepspeed.initialize(config=ds)", "python") == []
    assert "`stage`" in messages(
        editor.write(f"{CELL}1", "ds = {'zero_optimization': {'stage': 9}, 'fp16': {}}\n")
    )
    editor.write(f"{CELL}2", "ds['zero_optimization']['stage'] = n")
    assert "`stage`" not in messages(
        editor.write(f"{CELL}1", "ds = {'zero_optimization': {'stage': 9}, 'fp16': {}}")
    )
    for number in (1, 2):
        editor.close(f"{CELL}{number}")


INFERENCE = """import deepspeed
import torch

settings = {"tensor_parallel": {"tp_siz": 2}}
engine = deepspeed.init_inference(model, config=settings, dtype=torch.half, kernel_injct=True)
"""


def test_dict_and_arguments_of_an_inference_config(editor: Editor) -> None:
    diagnostics = editor.open("infer.py", INFERENCE, "python")
    assert messages(diagnostics) == ["`tp_siz`", "`kernel_injct`"]
    assert [each["range"]["start"]["line"] for each in diagnostics] == [3, 4]
    for word in ("tensor_par|allel", "dt|ype="):
        hover = editor.at(
            "hover", "hover_inference.py", INFERENCE.replace(word.replace("|", ""), word), "python"
        )
        assert word.replace("|", "").strip("=") in hover["contents"]["value"], word
    actions = editor.on(
        "codeAction", "infer.py", range=diagnostics[1]["range"], context={"diagnostics": diagnostics}
    )
    assert any("kernel_inject" in each["title"] for each in actions)
    editor.close("infer.py")
    editor.close("hover_inference.py")


def test_completion_of_keyword_arguments(editor: Editor) -> None:
    def texts(arguments: str) -> dict[str, str]:
        text = f"import deepspeed\ndeepspeed.init_inference(model, {arguments})\n"
        items = editor.at("completion", "arguments.py", text, "python")["items"]
        return {item["label"]: item["textEdit"]["newText"] for item in items}

    assert texts("|")["dtype"].startswith("dtype=")
    assert "mp_size" not in texts("|"), "deprecated"
    assert "dtype" not in texts("dtype='fp16', |")
    assert texts("enable_cuda_gr|=False")["enable_cuda_graph"] == "enable_cuda_graph"
    assert "True" in texts("enable_cuda_graph=|")
    assert "tp_size" in texts("tensor_parallel={'|'}")
    assert "train_batch_size" not in texts("|")
    editor.close("arguments.py")
