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
