"""File names of configs, shared by directory searches, hooks, editors and the schema catalog.

Wherever the content can be read, the content decides whether a file is a config
(`dsconfig.launch.classify_config_file`). The name alone decides in two cases: an editor assigns a schema by file name
patterns before it reads the file, and a file with such a name is worth a diagnostic even if its content is too broken
to recognize. Both need names that no other program uses.
`zero3.json` or `ds.json` is recognized by its content, or by its `$schema`.
"""

from __future__ import annotations

import re
from functools import cache

JSON = (".json", ".jsonc", ".hjson")
YAML = (".yaml", ".yml")
NOTEBOOK = ".ipynb"
PYTHON = (".py", NOTEBOOK)
SCRIPTS = (
    ".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".slm", ".batch", ".job", ".pbs", ".qsub", ".lsf", ".sge",
)  # fmt: skip
"""File name suffixes of shell scripts; batch systems (Slurm, PBS, LSF, Grid Engine) leave the suffix to the user."""
SUFFIXES = (*JSON, *YAML)
"""File name suffixes of the files that dsconfig reads."""
_WORDS = ("config", "config_*", "cfg", "cfg_*", "conf", "conf_*")
CONFIGS = (
    *(f"{whose}?{word}.json" for whose in ("ds", "deepspeed") for word in _WORDS),
    "ds_z?_*config.json",
    "**/deepspeed_configs/*.json",
)
"""Patterns of the file names of configs; `?` stands for a separator between words."""
LAUNCH_FILES = ("accelerate_config.yaml", "accelerate_config_*.yaml", "**/accelerate/default_config.yaml")
"""Patterns of the file names of Accelerate's launch files."""
INFERENCE_CONFIGS = ("ds?inference.json", "deepspeed?inference.json", "deepspeed?inference?config.json")
"""Patterns of the file names of inference configs. `ds_inference_config.json` is none: DeepSpeed gives this name to the
description of a checkpoint that it saves for inference."""


def is_yaml_name(name: str) -> bool:
    """Return whether a file with this name is parsed as YAML."""
    return name.lower().endswith(YAML)


def is_python_name(name: str) -> bool:
    """Return whether a file name is that of a Python source or notebook, which may contain configs."""
    return name.lower().endswith(PYTHON)


def is_notebook_name(name: str) -> bool:
    """Return whether a file name is that of a Jupyter notebook."""
    return name.lower().endswith(NOTEBOOK)


def is_config_name(path: str) -> bool:
    """Return whether a file name is used for configs only, possibly with a prefix or a JSONC or Hjson suffix."""
    return _config_name_pattern().search("/" + path.lower().replace("\\", "/")) is not None


@cache
def _config_name_pattern() -> re.Pattern[str]:
    return re.compile("|".join(map(_glob_to_regex, CONFIGS)))


def _glob_to_regex(pattern: str) -> str:
    """Convert a file name pattern to a regular expression that also matches other separators and a prefix."""
    folder, _, name = pattern.removeprefix("**/").removesuffix(".json").rpartition("/")
    marks = ((r"\?", r"\d" if "_z" in name else "[-_.]?"), (r"_\*", r"(?:[^a-z/][^/]*)?"), (r"\*", "[^/]*"))
    name = re.escape(name)
    for mark, replacement in marks:
        name = name.replace(mark, replacement)
    before = f"/{re.escape(folder)}/" if folder else "[^a-z]"
    return rf"{before}{name}\.[hj]?jsonc?$"
