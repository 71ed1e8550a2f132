"""Configs that a program or notebook writes to a file which a command or call then names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check, fix
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.config_dicts import find_python_configs

CONFIG = '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4, "gradient_cliping": 1.0}'
COMMAND = "deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config ds_config.json"


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": each} for each in cells]})


@pytest.mark.parametrize(
    "cell",
    [
        f"%%writefile ds_config.json\n{CONFIG}",
        f"%%bash\ncat <<EOT > ds_config.json\n{CONFIG}\nEOT\n",
        f"%%sh\nmkdir -p out\ncat > ds_config.json << 'EOF'\n{CONFIG}\nEOF\nls",
        f"import json\ncfg = {CONFIG}\nwith open('ds_config.json', 'w') as f:\n    json.dump(cfg, f, indent=2)",
        f"import json\ncfg = {CONFIG}\nwith open('ds_config.json', 'w') as f:\n    f.write(json.dumps(cfg))",
        f"import json\nf = open('ds_config.json', 'w')\njson.dump({CONFIG}, f)",
        f"import json\nfrom pathlib import Path\nPath('ds_config.json').write_text(json.dumps({CONFIG}))",
        f"import json\nP = 'ds_config.json'\ncfg = {CONFIG}\nwith Path(P).open('w') as f:\n    json.dump(cfg, f)",
    ],
)
@pytest.mark.parametrize("start", [f"!{COMMAND}", f"%%bash\n{COMMAND}\n"])
def test_a_command_of_the_notebook_names_the_file(empty_repository: Path, cell: str, start: str) -> None:
    Path("train.ipynb").write_text(notebook(cell, start))
    report = check("train.ipynb", target="0.18.0")
    assert (report.reader.name, report.reader.processes) == ("deepspeed", 8)
    assert {each.code for each in report} == {"DSC203", "DSC102"}
    assert "gradient_clipping" in fix("train.ipynb", target="0.18.0", unsafe=True).text


@pytest.mark.parametrize(
    ("use", "consumer"),
    [
        ("TrainingArguments('o', deepspeed='ds_config.json')", "transformers"),
        ("deepspeed.initialize(config='ds_config.json')", "deepspeed"),
    ],
)
def test_a_call_of_the_program_names_the_file(empty_repository: Path, use: str, consumer: str) -> None:
    Path("train.py").write_text(
        "import deepspeed, json\nfrom transformers import TrainingArguments\n"
        f"cfg = {CONFIG}\nwith open('ds_config.json', 'w') as f:\n    json.dump(cfg, f)\n{use}\n"
    )
    report = check("train.py", target="0.18.0")
    assert report.reader.name == consumer
    assert "DSC102" in {each.code for each in report}


@pytest.mark.parametrize(
    ("code", "is_whole"),
    [
        ("json.dump(cfg, open('ds_config.json', 'w'))", True),
        ("print(json.dumps(cfg))", False),
        ("json.dump(cfg, open(path, 'w'))", False),
        ("json.dump(cfg, open('a.json', 'w'))\njson.dump(cfg, open('b.json', 'w'))", False),
        ("json.dump({'ds': cfg}, open('ds_config.json', 'w'))", False),
    ],
)
def test_a_dict_in_a_file_is_the_whole_config(code: str, is_whole: bool) -> None:
    (config,) = find_python_configs(f"import json\ncfg = {CONFIG}\n{code}\n", "<x>")
    assert (("*",) not in config.unknown) == is_whole


def test_what_is_written_has_the_keys_of_that_moment() -> None:
    text = (
        f"import json\ncfg = {CONFIG}\njson.dump(cfg, open('ds.json', 'w'))\ncfg['train_batch_size'] = 64\n"
    )
    (config,) = find_python_configs(text, "<x>")
    value = config.document.value()
    assert isinstance(value, dict)
    assert value["train_batch_size"] is UNKNOWN


def test_a_here_document_with_variables_is_no_config(empty_repository: Path) -> None:
    text = notebook(f"%%bash\ncat <<EOT > ds_config.json\n{CONFIG.replace('100', '$N')}\nEOT\n")
    assert find_python_configs(text, "train.ipynb") == ()
