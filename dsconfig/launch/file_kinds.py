"""Files that are no DeepSpeed config at all, named for what they are, with what to pass instead.

DeepSpeed and Hjson would read nearly any text, and what is recovered of a Python file looks like a config
where a dict stands in it. Such a file is never judged, and never edited.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.document.file_names import SUFFIXES
from dsconfig.launch.broken_config import is_broken
from dsconfig.model.keyinfo import ROOT, section_keys

if TYPE_CHECKING:
    from dsconfig.document import Document

_DICT = "pass the JSON file that it names, or write its config dict to one with `json.dump`"
_CONFIG = "pass the JSON file that DeepSpeed reads"
_LAUNCH = "pass the config that its command names, or save the command as a `.sh` file"
_PYTHON = f"a Python file: {_DICT}"
_SCRIPT = f"a script: {_LAUNCH}"
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), _PYTHON),
    ".ipynb": f"a Jupyter notebook: {_DICT}",
    ".toml": f"a TOML file: {_CONFIG}",
    ".ini": f"an INI file: {_CONFIG}",
    ".xml": f"an XML file: {_CONFIG}",
    ".csv": f"a CSV file: {_CONFIG}",
    **dict.fromkeys((".md", ".markdown", ".rst", ".html", ".htm"), f"a text for people: {_CONFIG}"),
    **dict.fromkeys((".jsonl", ".ndjson"), f"a file of many JSON values, one a line: {_CONFIG}"),
    **dict.fromkeys((".zsh", ".fish", ".ksh", ".csh", ".ps1", ".bat", ".cmd"), _SCRIPT),
    **dict.fromkeys(
        (".js", ".ts", ".c", ".cc", ".cpp", ".cu", ".h", ".go", ".rs"), f"source code: {_CONFIG}"
    ),
}
_STATEMENT = re.compile(
    r"^(?:import [\w.]+|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]|if __name__ ==)", re.MULTILINE
)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w* *(?::[^=\n{]+)?= *(?:dict\(|[\[{\"'])", re.MULTILINE)
"""A dict in a Python file; with a JSON suffix it is a config somebody pasted."""
_HOST = re.compile(r"\S+[ \t]+slots=\d+[ \t]*(?:#.*)?")
"""A host in a hostfile: launcher/runner.py:_parse_hostfile."""
_SHELLS = re.compile(r"#!.*\b(?:ba|z|k|da|c|tc|fi)?sh\b")


def kind_of(document: Document) -> str | None:
    """What a file is that is no config, and what to pass instead; None for what may be a config.

    A text that reads as an object with keys of DeepSpeed is a config under any name: DeepSpeed opens it.
    """
    if document.is_data:
        return None
    value, named = document.value(), _BY_SUFFIX.get(os.path.splitext(document.name.lower())[1])
    if isinstance(value, dict) and not is_broken(document):
        return None if section_keys(ROOT).keys() & value.keys() else named
    return named or (_by_text(document) if document.text.strip() else None)


def _by_text(document: Document) -> str | None:
    """What a text is whose name does not say it."""
    text = document.text.lstrip("\ufeff")
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        return _SCRIPT if _SHELLS.match(first) else _PYTHON if "python" in first else _SCRIPT
    if _STATEMENT.search(text):
        return _PYTHON
    lines = [line.strip() for line in text.splitlines()]
    hosts = [line for line in lines if line and not line.startswith("#")]
    if hosts and all(map(_HOST.fullmatch, hosts)):
        return f"a hostfile of the `deepspeed` launcher: {_CONFIG}, and the number of GPUs by --world-size"
    if document.name.startswith("<") or document.name.lower().endswith(SUFFIXES) or "\0" in text:
        return None
    if _ASSIGNMENT.search(text):
        return _PYTHON
    return None if re.match(r"\s*[{\[]", text) else f"a text that holds no JSON object: {_CONFIG}"


_INFERENCE = frozenset((
    "replace_with_kernel_inject", "kernel_inject", "dtype", "tensor_parallel", "tp", "enable_cuda_graph",
    "use_triton", "triton_autotune", "zero", "triangular_masking", "tm", "moe", "keep_module_on_host",
    "quant", "checkpoint", "base_dir", "set_empty_params", "save_mp_checkpoint_path", "checkpoint_config",
    "ckpt_config", "return_tuple", "training_mp_size", "replace_method", "injection_policy",
    "injection_dict", "injection_policy_tuple", "config", "args", "max_out_tokens", "max_tokens",
    "min_out_tokens", "min_tokens", "transposed_mode", "mp_size", "mpu", "ep_size", "ep_group",
    "expert_group", "ep_mp_group", "expert_mp_group", "moe_experts", "moe_type",
))  # fmt: skip
"""Fields of `DeepSpeedInferenceConfig` with their aliases: inference/config.py, 0.14.5 to 0.19.8."""
_ANYBODYS = frozenset((
    "dtype", "zero", "moe", "quant", "config", "args", "checkpoint", "tensor_parallel", "tp", "tm",
    "base_dir", "max_tokens", "min_tokens",
))  # fmt: skip
"""Fields with names that say nothing alone: other programs, and training configs, have them, too."""
_TOLD = 2


def of_keys(data: Mapping[str, object]) -> str | None:
    """What an object is that another program reads, by its keys, and what to pass instead."""
    training = section_keys(ROOT).keys()
    if _is_inference(data):
        return (
            "a config for inference (DeepSpeedInferenceConfig), which `deepspeed.init_inference` reads: "
            "pass the config of a training run"
        )
    if "model_type" in data and {"architectures", "hidden_size"} & data.keys() and training.isdisjoint(data):
        return "the `config.json` of a model: pass it with --model, beside the config of the training run"
    return None


def _is_inference(data: Mapping[str, object]) -> bool:
    """Whether an object is a config for inference: no key in it is one of training alone."""
    training = section_keys(ROOT).keys()
    fields = _INFERENCE.intersection(data)
    others = data.keys() - fields
    if not training.isdisjoint(others) or len(fields) < len(others):
        return False
    told = len(fields - training) >= _TOLD or {"tensor_parallel", "dtype"} <= fields
    return told or bool(fields - _ANYBODYS)
