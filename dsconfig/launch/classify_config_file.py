"""Decide by content whether a file is a DeepSpeed config, and describe the files that are not."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from dsconfig.core.json_types import value_at_dotted_path
from dsconfig.document.config_file_names import SUFFIXES, is_notebook_name, is_python_name
from dsconfig.job.consumers import INFERENCE
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.job.detect_consumer import is_inference_config, mixes_inference_and_training
from dsconfig.launch.find_jobs import job_of_launch_file, launch_file_exceeds_budget
from dsconfig.launch.launch_file_formats import (
    LaunchFileFormat,
    commands_in_file,
    detect_launch_format,
    is_shell_script_name,
)
from dsconfig.launch.typical_config_keys import LEAST_TYPICAL, TYPICAL, UNMISTAKABLE, are_config_keys
from dsconfig.model.key_table import ROOT, all_keys, keys_of_section_class

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from dsconfig.core.json_types import Json
    from dsconfig.document import Document


# One definition for directories, hooks and files named on the command line.
#
# The file name decides nothing. The root must have a key that only DeepSpeed configs have, or several typical
# keys, and most keys must be DeepSpeed's: the settings of a training script share a few of them.

_INFERENCE_BYTES = b"kernel_inject"
"""Word that only inference configs have, as `kernel_inject` or `replace_with_kernel_inject`."""
_UNMISTAKABLE_BYTES = (*(key.encode() for key in UNMISTAKABLE), _INFERENCE_BYTES)
_TYPICAL_BYTES = tuple(key.encode() for key in sorted(TYPICAL, key=len, reverse=True))
_HALF_PRECISION = rb"""\b(?:fp16|bf16|bfloat16)["']?\s*:\s*\{?\s*["']?enabled\b"""
"""Pattern of half precision as a block with `enabled`, as only DeepSpeed has; other programs use a boolean."""
_COMMENT_PREFIXES = ("_", "/", "#", "$", "comment", "note", "description")
"""Prefixes of keys that hold comments."""


Kind: TypeAlias = "Literal['config', 'launch file', 'job', 'script', 'hostfile', 'program']"
"""Kind of a document: a config, a launch file of Accelerate (`launch file`) or another program (`job`), a
script, a hostfile, or a Python program without a config.
"""


def document_kind(document: Document) -> Kind:
    """Return the kind of a document, based on its name and content."""
    if is_shell_script_name(document.name):
        return "script"
    if is_python_name(document.name) and not document.is_in_program:
        return "program"
    if _is_hostfile(document):
        return "hostfile"
    data = document.value()
    return (
        "job"
        if detect_launch_format(data) is not None
        else "launch file"
        if is_launch_file(data)
        else "config"
    )


def _is_hostfile(document: Document) -> bool:
    """Return whether a document is a hostfile."""
    if os.path.splitext(document.name)[1] not in ("", ".txt") or document.is_data:
        return False
    from dsconfig.launch.hostfile import is_hostfile

    return is_hostfile(document.name, document.text)


def _has_lightning_problems(document: Document) -> bool:
    """Return whether a Python source without a config starts a Lightning job that fails with DeepSpeed."""
    if not document.name.endswith(".py") or document.is_data or document.is_in_program:
        return False
    from dsconfig.launch.lightning_strategies import lightning_problems

    return bool(lightning_problems(document))


def describe_hostfile(document: Document) -> str | None:
    """Describe a hostfile and suggest which file to pass instead; return None for any other document."""
    return f"not a DeepSpeed config: {_HOSTFILE}" if _is_hostfile(document) else None


def may_contain_config(data: bytes) -> bool:
    """Return whether the bytes contain enough config keys to be worth parsing."""
    if any(word in data for word in _UNMISTAKABLE_BYTES):
        return True
    count = 0
    for word in _TYPICAL_BYTES:
        count += word in data
        if count == LEAST_TYPICAL:
            return True
    return count > 1 and re.search(_HALF_PRECISION, data) is not None


def mentions_config_key(data: bytes) -> bool:
    """Return whether the bytes contain at least one config key, which is enough for a file that a launch file names."""
    return any(word in data for word in (*_UNMISTAKABLE_BYTES, *_TYPICAL_BYTES))


def mentions_deepspeed(data: bytes) -> bool:
    """Return whether the bytes contain any of the words without which no launch file has a DeepSpeed config."""
    return any(word in data for word in _DEEPSPEED_WORDS)


_DEEPSPEED_WORDS = (b"deepspeed", b"DeepSpeed", b"accelerate_config")


def has_config_keys(keys: Collection[str]) -> bool:
    """Return whether an object with these root keys is a DeepSpeed config, regardless of its file name."""
    return are_config_keys(keys) and not has_mostly_unknown_keys(keys)


def is_broken_config(document: Document) -> bool:
    """Return whether a file that cannot be parsed looks like a config, so that its syntax error is worth reporting."""
    if not is_unparsable(document):
        return False
    keys = scan_keys(document.text)
    has_half_precision = re.search(_HALF_PRECISION, document.text.encode(errors="replace"))
    if not are_config_keys(keys, LEAST_TYPICAL - 1 if has_half_precision else LEAST_TYPICAL):
        return False
    data = document.value()
    if not isinstance(data, dict) or not data:
        root_keys = without_comment_keys(keys)
        return not _is_unknown_majority(len(unknown_keys(root_keys)), len(root_keys))
    return detect_launch_format(data) is None and not has_mostly_unknown_keys(without_section_keys(data))


def contains_config(data: Mapping[str, Json]) -> bool:
    """Return whether a file found in a directory is a config, or a launch file that names, contains or builds one."""
    launch_format = detect_launch_format(data)
    if launch_format is None:
        return has_config_keys(data.keys()) or is_inference_config(data)
    if launch_format.builds == "neox":
        from dsconfig.launch.framework_configs import why_neox_has_no_config

        return not why_neox_has_no_config(data)
    return names_or_contains_config(data)


def has_config_below_a_key(document: Document) -> bool:
    """Return whether an OmegaConf or Hydra file has a config or Lightning's DeepSpeed strategy under any key."""
    return (
        document.format == "yaml"
        and detect_launch_format(document.value()) is None
        and job_of_launch_file(document) is not None
    )


def names_or_contains_config(data: Mapping[str, Json]) -> bool:
    """Return whether an object is a launch file that names or contains a DeepSpeed config."""
    launch_format = detect_launch_format(data)
    if launch_format is None or not launch_format.commands:
        return launch_format is not None and any(
            value_at_dotted_path(data, key) for key in launch_format.config
        )
    return any(
        word in str(value) for value in commands_in_file(launch_format, data) for word in _COMMAND_WORDS
    )


_COMMAND_WORDS = ("--deepspeed", "dsconfig elastic run", "'dsconfig', 'elastic', 'run'")


_TOO_MUCH = "exceed the limit for reading a script, so none of them was read"


def _why_launch_file_has_no_config(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> str:
    """Return a clause that says why a launch file has no config."""
    if launch_format.builds == "neox":
        from dsconfig.launch import framework_configs

        return framework_configs.why_neox_has_no_config(data)
    config_keys = " or ".join(
        f"`{key}`" for key in launch_format.config or launch_format.commands or (launch_format.built_from,)
    )
    if launch_format.commands == ("*",):
        return "whose commands name no config"
    return f"that names no config by {config_keys}"


def describes_job_without_config(document: Document) -> bool:
    """Whether a file is a launch file or shell script in which no config was found."""
    is_script = is_shell_script_name(document.name)
    data = None if is_script else document.value()
    is_launch = isinstance(data, dict) and detect_launch_format(data) is not None
    return (is_script or is_launch) and why_not_config(document) is not None


def why_not_config(document: Document, consumer: str | None = None) -> str | None:
    """Return why a file named by the user is not a DeepSpeed config, or None if it is one, valid or broken.

    If `consumer` is `inference`, any object is a config, whatever its keys.

    Unreadable and empty files count as broken configs and get a diagnostic.
    """
    if is_shell_script_name(document.name):
        return _why_no_config_in_script(document)
    if _is_hostfile(document):
        return None
    if (kind := describe_other_file(document)) is not None:
        return None if is_python_name(document.name) and job_of_launch_file(document) else kind
    data = document.value()
    if document.name.startswith("<") or document.is_data or not isinstance(data, dict):
        return None
    keys = [key for key in data if isinstance(key, str)]
    count = len(_unknown_root_keys(keys))
    if (launch_format := detect_launch_format(data)) is not None:
        reason = (
            f"whose commands {_TOO_MUCH}"
            if launch_file_exceeds_budget(document)
            else _why_launch_file_has_no_config(launch_format, data)
        )
        return None if job_of_launch_file(document) else f"a launch file of {launch_format.name} {reason}"
    if not count or "$dsconfig" in data or is_launch_file(data) or has_config_below_a_key(document):
        return None
    is_for_inference = (
        consumer == INFERENCE or is_inference_config(data) or mixes_inference_and_training(data)
    )
    if not is_for_inference and not is_unparsable(document) and (kind := describe_other_object(data)):
        return kind
    if is_for_inference or not has_mostly_unknown_keys(keys) or is_broken_config(document):
        return None
    if count == 1:
        return (
            f"its only key, `{_unknown_root_keys(keys)[0]}`, is not DeepSpeed's" if len(keys) == 1 else None
        )
    quantifier = "none of" if count == len(keys) else f"{count} of"
    return f"{quantifier} its {len(keys)} keys {'is' if count == len(keys) else 'are not'} DeepSpeed's"


def _why_no_config_in_script(script: Document) -> str | None:
    if any(problem.kind == "too-large" for problem in script.problems):
        return "a shell script that is too large to be read"
    reason = _TOO_MUCH if launch_file_exceeds_budget(script) else "name no config: pass the config itself"
    if job_of_launch_file(script):
        return None
    from dsconfig.launch.launcher_checks import launcher_problems_in_script

    if launcher_problems_in_script(script):  # the launcher's flags are checked without a config, too
        return None
    return f"a shell script whose commands {reason}"


def why_not_checked(document: Document, consumer: str | None = None) -> str | None:
    """Return why a file that a launch file passes to `consumer` is not checked, or None if it resembles a config.

    The reason quotes nothing from the file: a launch file of a foreign repository could name any private file, such
    as a `.env`.
    """
    if (kind := describe_other_file(document)) is not None:
        return f"{document.name} is not checked: it is not a DeepSpeed config, but {kind}"
    data = document.value()
    if not document.text.strip() or (isinstance(data, dict) and not data):
        return None
    keys = [key for key in data if isinstance(key, str)] if isinstance(data, dict) else []
    is_for_inference = isinstance(data, dict) and consumer == INFERENCE
    is_recognized = (
        is_for_inference
        or "$dsconfig" in keys
        or is_launch_file(data)
        or detect_launch_format(data) is not None
    )
    if (
        is_recognized
        or (without_comment_keys(keys) and not has_mostly_unknown_keys(keys))
        or is_broken_config(document)
    ):
        return None
    advice = "pass it directly to see why"
    return f"{document.name} does not look like a DeepSpeed config and is not checked: {advice}"


def may_be_config(document: Document) -> bool:
    """Return whether a document may be a config: any object that is not a launch file."""
    data = document.value()
    return (
        not is_shell_script_name(document.name)
        and isinstance(data, dict)
        and detect_launch_format(data) is None
    )


def without_comment_keys(keys: Collection[str]) -> list[str]:
    """Return the keys without those used as comments."""
    return [key for key in keys if not key.lower().startswith(_COMMENT_PREFIXES)]


def has_mostly_unknown_keys(keys: Collection[str]) -> bool:
    """Return whether no release knows most of the root keys; typos of known keys do not count as unknown."""
    own_keys = without_comment_keys(keys)
    unknown = _unknown_root_keys(own_keys)
    if not _is_unknown_majority(len(unknown), len(own_keys)):
        return False
    from difflib import get_close_matches

    sample = unknown[:_SAMPLE]
    typos = sum(1 for key in sample if get_close_matches(key.lower(), _all_root_keys(), 1, 0.8))
    return _is_unknown_majority(len(unknown) - typos * len(unknown) // len(sample), len(own_keys))


_SAMPLE = 100
"""Number of unknown keys compared with known ones; more are extrapolated, since one comparison takes 1 ms.
"""


def _is_unknown_majority(unknown: int, keys: int) -> bool:
    """Return whether more than three fifths of the keys are unknown; programs may add a few keys of their own."""
    return unknown * 5 > keys * 3


def _unknown_root_keys(keys: Iterable[str]) -> list[str]:
    """Return the root keys that no release has, except comments and keys that consumers add."""
    return [
        key for key in keys if key not in _all_root_keys() and not key.lower().startswith(_COMMENT_PREFIXES)
    ]


@cache
def _all_root_keys() -> frozenset[str]:
    """Return the root keys of all releases with their aliases, and the one that only Accelerate reads."""
    infos = keys_of_section_class(ROOT)
    # `msamp` is read by Accelerate's plugin alone: utils/dataclasses.py:DeepSpeedPlugin.
    return frozenset({*infos, "msamp", *(alias for info in infos.values() for alias, _ in info.aliases)})


# Descriptions of files that cannot be DeepSpeed configs, with what to pass instead.
#
# DeepSpeed's parser, Hjson, accepts nearly any text, and a dict in a Python file would be recovered as a
# config. Such a file is never checked and never edited.

_DICT = "pass the file that it loads, or the one that contains the config dict"
_CONFIG = "pass the JSON file that DeepSpeed reads"
_HOSTFILE = f"a hostfile of the `deepspeed` launcher: {_CONFIG}, and the number of GPUs as --world-size"
_LAUNCH = "pass the config that its command names, or save the command as a `.sh` file"
_PYTHON = f"a Python file: {_DICT}"
_WITHOUT_DICT = f"a Python file without a config dict: {_DICT}"
_SCRIPT = f"a script: {_LAUNCH}"
_NOTEBOOK = f"a Jupyter notebook without a config dict: {_DICT}"
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), _WITHOUT_DICT),
    ".ipynb": _NOTEBOOK,
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
_STATEMENT = r"(?m)^(?:import [\w.]+|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]|if __name__ ==)"
_ASSIGNMENT = r"(?m)^[A-Za-z_]\w* *(?::[^=\n{]+)?= *(?:dict\(|[\[{\"'])"
"""Pattern of a literal assignment in Python; a JSON file that contains one was pasted from Python."""
_HOST = r"\S+[ \t]+slots=\d+[ \t]*(?:#.*)?"
"""Pattern of a line of a hostfile: deepspeed/launcher/runner.py:_parse_hostfile."""
_SHELLS = r"#!.*\b(?:ba|z|k|da|c|tc|fi)?sh\b"


def describe_other_file(document: Document) -> str | None:
    """Describe a file that is not a config and suggest what to pass instead; return None if it may be a config.

    A file that parses as an object with DeepSpeed keys is a config under any name, because DeepSpeed opens it.
    """
    if document.is_data or document.is_in_program:
        return None
    value, by_suffix = document.value(), _BY_SUFFIX.get(os.path.splitext(document.name.lower())[1])
    if _has_lightning_problems(document):
        return None
    if by_suffix in (_WITHOUT_DICT, _NOTEBOOK) and (why := _why_program_not_searched(document)):
        return why
    if isinstance(value, dict) and not is_unparsable(document):
        return None if keys_of_section_class(ROOT).keys() & value.keys() else by_suffix
    return by_suffix or (_describe_other_text(document) if document.text.strip() else None)


def _why_program_not_searched(document: Document) -> str:
    """Return why a Python file cannot be searched for configs, or an empty string if it can."""
    from dsconfig.launch.python.config_dicts import why_source_unread

    why = why_source_unread(document.text.encode("utf-8", "surrogatepass"), document.name)
    kind = "Jupyter notebook" if is_notebook_name(document.name) else "Python file"
    return f"a {kind} that is not searched for configs: {why}" if why else ""


def _describe_other_text(document: Document) -> str | None:
    """Describe a file that is not a config by its text, because its suffix does not identify it."""
    text = document.text.lstrip("\ufeff")
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        return _SCRIPT if re.match(_SHELLS, first) else _PYTHON if "python" in first else _SCRIPT
    if re.search(_STATEMENT, text):
        return _PYTHON
    lines = [line.strip() for line in text.splitlines()]
    hosts = [line for line in lines if line and not line.startswith("#")]
    if hosts and all(re.fullmatch(_HOST, each) for each in hosts):
        return _HOSTFILE
    if document.name.startswith("<") or document.name.lower().endswith(SUFFIXES) or "\0" in text:
        return None
    if re.search(_ASSIGNMENT, text):
        return _PYTHON
    return None if re.match(r"\s*[{\[]", text) else f"a text without a JSON object: {_CONFIG}"


def describe_other_object(data: Mapping[str, object]) -> str | None:
    """Identify an object of another program by its keys, and suggest what to pass instead."""
    training = keys_of_section_class(ROOT).keys()
    if "model_type" in data and {"architectures", "hidden_size"} & data.keys() and training.isdisjoint(data):
        return "the `config.json` of a model: pass it with --model, and the config of the training run"
    if "_wandb" in data:
        return "a record of a Weights & Biases run: pass the config of the training run"
    return None


# Keys of a text that cannot be parsed, to decide whether it was meant as a DeepSpeed config.
#
# The recovered object is not enough: after a missing brace the keys of a section appear at the root, an
# unclosed quote swallows a key, and from some texts nothing can be recovered.

_KEY = r"""(?<![\w.\\/$-])([A-Za-z_]\w*)["'\u201c\u201d]?[ \t]*[:={\[]"""
"""Pattern of a key followed by its colon, or by the bracket of its value if the colon is missing."""
_MAX_KEYS = 1000
"""Maximum number of keys read from one text."""


def is_unparsable(document: Document) -> bool:
    """Return whether a file contains no object, even if Hjson can parse it as a string."""
    return not document.is_readable() or isinstance(document.value(), str)


def scan_keys(text: str) -> list[str]:
    """Return the distinct keys in a text at any level, in order of appearance."""
    distinct: dict[str, None] = {}
    for match in re.finditer(_KEY, text):
        distinct[match[1]] = None
        if len(distinct) == _MAX_KEYS:
            break
    return list(distinct)


def without_section_keys(keys: Collection[str]) -> list[str]:
    """Return the root keys of a recovered object that cannot belong to a section whose brace is missing."""
    return [key for key in keys if key not in _all_section_keys()]


def unknown_keys(keys: Collection[str]) -> list[str]:
    """Return the keys that are not in any section of any release."""
    return [key for key in keys if key not in all_keys()]


@cache
def _all_section_keys() -> frozenset[str]:
    return all_keys() - keys_of_section_class(ROOT).keys()
