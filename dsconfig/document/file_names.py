"""Which files may hold a config, by their names: one list, for directories, hooks, editors and the catalogue.

Content decides wherever it can be read (`dsconfig.launch.detect_config`). A name counts alone in two
places: an editor joins a schema to a file before anything of it is read, and knows nothing but patterns; and
a file with such a name is worth a finding where its content is too broken to tell. Both need names that no
other program's files bear: `zero3.json` or `ds.json` is known by its content, or names its `$schema`.
"""

from __future__ import annotations

import re
from functools import cache

JSON = (".json", ".jsonc", ".hjson")
YAML = (".yaml", ".yml")
SUFFIXES = (*JSON, *YAML)
"""Ends of the names of files that are looked into."""
_WORDS = ("config", "config_*", "cfg", "cfg_*", "conf", "conf_*")
CONFIGS = (
    *(f"{whose}?{word}.json" for whose in ("ds", "deepspeed") for word in _WORDS),
    "ds_z?_*config.json",
    "**/deepspeed_configs/*.json",
)
"""Patterns of configs' names; `?` stands for one of the marks between words."""
LAUNCH_FILES = ("accelerate_config.yaml", "accelerate_config_*.yaml", "**/accelerate/default_config.yaml")
"""Patterns of the names of Accelerate's own files."""


def is_yaml(name: str) -> bool:
    """Whether a file is read as YAML."""
    return name.lower().endswith(YAML)


def is_named_config(path: str) -> bool:
    """Whether a file is named as only a config is: with words before that, too, and as JSONC or Hjson."""
    return _pattern().search("/" + path.lower().replace("\\", "/")) is not None


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(map(_as_regex, CONFIGS)))


def _as_regex(pattern: str) -> str:
    """A pattern, read more generously than by editors: as to marks, and with words before the name."""
    folder, _, name = pattern.removeprefix("**/").removesuffix(".json").rpartition("/")
    marks = ((r"\?", r"\d" if "_z" in name else "[-_.]?"), (r"_\*", r"(?:[^a-z/][^/]*)?"), (r"\*", "[^/]*"))
    name = re.escape(name)
    for mark, meant in marks:
        name = name.replace(mark, meant)
    before = f"/{re.escape(folder)}/" if folder else "[^a-z]"
    return rf"{before}{name}\.[hj]?jsonc?$"
