"""Notebooks: the text of their cells, and edits that leave the rest of the file as it is."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random

import pytest

from dsconfig import check
from dsconfig.cli import main
from dsconfig.document.notebook import Notebook, python_of_cell
from dsconfig.launch.python.config_dicts import find_python_configs

PIECES = ["a", "b = {\n", "é", "\n", '"', "\\", "\t", "😀", "    x\n", "}", "'q'", "\n\n"]


def notebook(
    cells: list[str], *, indent: int | None = 1, is_list: bool = True, is_ascii: bool = False
) -> str:
    """The text of a notebook with these code cells, after one of text."""
    code = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {"tags": [1, {"b": "]"}]},
            "outputs": [{"text": ['é " \\ [\n']}],
            "source": cell.splitlines(keepends=True) if is_list else cell,
        }
        for cell in cells
    ]
    data = {"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# {"]}, *code], "nbformat": 4}
    return json.dumps(data, indent=indent, ensure_ascii=is_ascii) + "\n"


@pytest.mark.parametrize("seed", range(200))
def test_an_edit_of_a_cell_changes_that_cell_alone(seed: int) -> None:
    random = Random(seed)
    layout = {
        "indent": random.choice([None, 1, 2]),
        "is_list": random.random() < 0.5,
        "is_ascii": random.random() < 0.5,
    }
    cells = ["".join(random.choices(PIECES, k=random.randint(1, 30))) for _ in range(3)]
    raw = notebook(cells, **layout)  # type: ignore[arg-type]
    parsed = Notebook(raw)
    assert [cell.text for cell in parsed.cells] == cells
    at = random.randrange(3)
    text = cells[at]
    start = random.randint(0, len(text))
    new = text[:start] + random.choice(PIECES) + text[random.randint(start, len(text)) :]
    edited = parsed.cells[at].notebook_text_with(new)
    cells[at] = new
    assert [cell.text for cell in Notebook(edited).cells] == cells
    assert json.loads(edited) | {"cells": 0} == json.loads(raw) | {"cells": 0}
    assert parsed.cells[at].notebook_text_with(text) == raw


@pytest.mark.parametrize(
    ("cell", "is_python"),
    [
        ("!pip install x \\\n  y\nx = 1", True),
        ("x = !ls\ny = %pwd\nz = 1", True),
        ("%%time\nx = 1", True),
        ("if a:\n  %matplotlib inline\n  b = 1", True),
        ("x?\n?x\nb = 1", True),
        ("%%bash\necho x", False),
        ("%%writefile a.json\n{}", False),
    ],
)
def test_magics_leave_the_code_around_them(cell: str, is_python: bool) -> None:
    code = python_of_cell(cell)
    assert [len(line) for line in code.splitlines()] == [len(line) for line in cell.splitlines()]
    assert any(isinstance(node, ast.Assign) for node in ast.walk(ast.parse(code))) is is_python


CELLS = [
    "%pip install deepspeed\nimport deepspeed, json",
    '%%writefile ds_config.json\n{\n  "train_micro_batch_size_per_gpu": 1,\n  "zero_optimization": {"stage": 7}\n}',
    (
        "ds = {\n    'train_micro_batch_size_per_gpu': 4,  # é\n"
        "    'zero_optimization': {'stage': 2, 'overlap_com': True},\n}\n"
    ),
    "ds['train_micro_batch_size_per_gpu'] = n\nengine = deepspeed.initialize(model=m, config=ds)",
    (
        'cfg = json.loads(\'\'\'{"train_batch_size": 8, "zero_optimization": {},'
        ' "bf16": {"enabledd": true}}\'\'\')\nTrainingArguments(deepspeed=cfg, bf16=True)'
    ),
    "def broken(:",
]


@pytest.mark.parametrize("is_list", [True, False])
def test_configs_of_a_notebook(empty_repository: Path, is_list: bool) -> None:
    path = Path("train.ipynb")
    raw = notebook(CELLS, is_list=is_list)
    path.write_text(raw)
    written, literal, text = find_python_configs(raw, "train.ipynb")
    assert (written.document.format, literal.document.format, text.document.format) == (
        "json",
        "python",
        "json",
    )
    assert literal.unknown == {("train_micro_batch_size_per_gpu",)}
    assert literal.places == {("train_micro_batch_size_per_gpu",): "train.ipynb:cell 5:1"}
    report = check(path)
    shown = sorted(each.location.shown for each in report if each.location)
    assert shown == ["cell 3:4:34", "cell 4:3:39", "cell 6:1:79"]  # of all configs


def test_fix_edits_the_source_of_cells(empty_repository: Path) -> None:
    path = Path("train.ipynb")
    path.write_text(notebook(CELLS))
    assert main(["fix", "train.ipynb"]) == 1
    expected = notebook(CELLS).replace("overlap_com'", "overlap_comm'").replace('enabledd\\"', 'enabled\\"')
    assert path.read_text() == expected


@pytest.mark.parametrize(
    "text", ["{}", "[]", "{", '{"cells": 3}', '{"cells": [{"cell_type": "code"}, 3, {"source": 4}]}']
)
def test_other_json_is_no_notebook(text: str) -> None:
    assert find_python_configs(text + " " * 10, "x.ipynb") == ()


COMMAND = (
    "!deepspeed --num_gpus 4 train.py \\\n  --deepspeed ds_config.json --output_dir o"
    " --learning_rate {rate} --gradient_accumulation_steps 8"
)
AUTO = (
    '{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2},'
    ' "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}'
)


@pytest.mark.parametrize(
    "command", [COMMAND, "%%bash\n" + COMMAND.removeprefix("!").replace("{rate}", "$rate")]
)
@pytest.mark.parametrize("is_written", [True, False])
def test_a_command_of_a_notebook_gives_arguments_and_ranks(
    empty_repository: Path, command: str, *, is_written: bool
) -> None:
    cells = [f"%%writefile ds_config.json\n{AUTO}", command] if is_written else [command]
    Path("train.ipynb").write_text(notebook(cells))
    if not is_written:
        Path("ds_config.json").write_text(AUTO)
    report = check("train.ipynb" if is_written else "ds_config.json")
    assert (report.consumer, report.reader.processes) == ("transformers", 4)
    assert [each.dotted for each in report if each.code == "DSC809"] == ["gradient_accumulation_steps"]


def test_a_notebook_starts_the_program_with_the_config(empty_repository: Path) -> None:
    Path("train.ipynb").write_text(notebook(["!torchrun --nproc_per_node 2 train.py"]))
    Path("train.py").write_text(
        "import deepspeed\ndeepspeed.initialize(config={'train_micro_batch_size_per_gpu': 3})\n"
    )
    assert check("train.py").reader.processes == 2
