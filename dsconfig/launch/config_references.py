"""Find the scripts and launch files that mention a config, and derive the config's consumer from them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dsconfig.core.file_access import may_read_file, read_contents, relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.document.config_file_names import SCRIPTS, is_notebook_name
from dsconfig.job.consumers.accelerate_launch_file import LINK
from dsconfig.job.detect_consumer import DEEPSPEED_CONFIG_FLAGS, ConsumerEvidence, Origin, PossibleConsumers
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.launch.repository_files import (
    FOLDER_STEPS,
    BudgetExceededError,
    ReadingBudget,
    deepspeed_texts,
    project_root,
    repository_cache_key,
    resolve_written_path,
    time_cache_key,
)

# A script can run from any directory, so a path in it is compared with the end of the config's path:
# `configs/z3.json` in a script matches any file `z3.json` in a directory `configs`. The nearest reference
# wins.

_BEFORE_PATH = r"[\s\\=,(\"']*(?:[rf](?=[\"'])|str\()?[\"']?(?:\$\{(?P<unset>\w+):-)?[\"']?(?:\./)*"
"""Pattern of the text allowed between a flag or key and its path; `unset` is the variable of a default such as
`${CONFIG:-z3.json}`.
"""
_ELASTIC_ARGUMENTS = r"(?:(?!\.(?:json|py)\b)(?:[^\n;&|\\]|\\(?!\n)|\\\n|\n\s*(?:- |[\"'])))*"
"""Pattern of words allowed between `elastic run` and its config, in a command or in a JSON or YAML list.

No two alternatives start with the same text: otherwise `re` would backtrack through every split of the words.
"""
_ELASTIC = rf"\bdsconfig\W+elastic\W+run\b{_ELASTIC_ARGUMENTS}"
_RENDEZVOUS = r"\brdzv[-_]conf\b(?:(?!\brdzv[-_]conf\b)[^\n])*[ =,\"']ds_config=[\"']?"
_INITIALIZES = "`deepspeed.initialize`"
_INITIALIZE = r"\bdeepspeed\.initialize\((?:[^()]|\([^()]*\))*?"
"""Pattern of a call of `deepspeed.initialize` up to one of its arguments."""
_VALUE = r"(?P<words>[\w.]*)\$?\{?(?P<value>[\w.]*)"
"""Pattern of a variable where a path is expected."""
_FLAGS_AND_KEYS = (
    (_ELASTIC, "elastic", "`dsconfig elastic run`"),
    (rf"(?:{_RENDEZVOUS}|\bDSCONFIG_RDZV_DS_CONFIG=[\"']?)", "elastic", "`--rdzv-conf ds_config=`"),
    (rf"deepspeed_config_file[\"']?(?:\s*:)?{_BEFORE_PATH}", "accelerate", "`deepspeed_config_file`"),
    (rf"--deepspeed_config\b{_BEFORE_PATH}", "deepspeed", "`--deepspeed_config`"),
    (rf"--deepspeed-config\b{_BEFORE_PATH}", "deepspeed", "`--deepspeed-config`"),
    (rf"--(?:training_args\.)?deepspeed\b{_BEFORE_PATH}", "transformers", "`--deepspeed`"),
    (rf"\bhf_ds_config\b{_BEFORE_PATH}", "accelerate", "`DeepSpeedPlugin`"),
    (rf"DeepSpeedStrategy\([^()]*?\bconfig{_BEFORE_PATH}", "lightning", "`DeepSpeedStrategy`"),
    (rf"{_INITIALIZE}\bconfig(?:_params)?{_BEFORE_PATH}", "deepspeed", _INITIALIZES),
    (rf"(?<![-/])\bdeepspeed[\"']?\s*[=,(]{_BEFORE_PATH}", "transformers", "`deepspeed=`"),
)
"""Patterns of the text before a path or variable, each with its consumer and its name in messages.

`re` compiles a pattern only when there is a text to search, and most configs have no such text around them. The
time of each pattern is linear in the text, or quadratic in the `_BEFORE` characters before a path.
"""
_YAML_KEY = (
    r"(?m)(?:^[ \t]*|[{,]\s*)[\"']?deepspeed[\"']?[ \t]*:[ \t]*[\"']?(?:\./)*",
    "transformers",
    "`deepspeed:`",
)
"""Pattern of a YAML key whose value is the path of a config, never a variable."""
_VARIABLE = rf"\b([A-Za-z_]\w*)(?:: *\w+)? *[:=]{_BEFORE_PATH}$"
_PYTHON = (
    (r"\bDeepSpeedStrategy\b", "lightning", "`DeepSpeedStrategy`"),
    # The plugin of Lightning 1 has the name of Accelerate's.
    (r"lightning[\w.]*\s+import\s[^\n]*\bDeepSpeedPlugin\b", "lightning", "Lightning's `DeepSpeedPlugin`"),
    (r"\bdeepspeed\.(?:initialize|init_inference)\b", "deepspeed", _INITIALIZES),
    (r"\b(?:HfArgumentParser|\w*TrainingArguments)\b", "transformers", "`TrainingArguments`"),
    (r"\b(?:DeepSpeedPlugin|Accelerator)\(", "accelerate", "`Accelerator`"),
)
"""Patterns of calls that show the consumer of a file named by a program, in order of closeness to DeepSpeed."""
_CONTEXT = 1000
"""Number of characters before a path that are searched for its flag or key: a manifest has one word per line."""
_OWN_LOOP = r"\bdeepspeed\.initialize\b"
_TRAINER = r"TrainingArguments|HfArgumentParser|Trainer\("
_OPENS_CONFIG, _USES_TRAINER = r"\bopen\((?:\w+\.)+deepspeed\b", r"TrainingArguments|Trainer\("
"""Patterns of a program that opens the file of its own argument `deepspeed`, and of signs that a Trainer reads
this file nevertheless.
"""
_MAX_TEXTS = 50
"""Maximum number of files that mention DeepSpeed; a repository with more holds several projects."""
LAUNCHES = (*SCRIPTS, ".yaml", ".yml", ".json", ".ipynb")
"""File name suffixes of scripts and launch files that can give arguments to a job."""
_DEEPSPEED_FLAGS = tuple(f"`{flag}`" for flag in DEEPSPEED_CONFIG_FLAGS)
_COMMAND_FLAGS = ("`--deepspeed`", *_DEEPSPEED_FLAGS)
_PATH = r"[\w./-]+"
_PROGRAM = r"[\w./-]+\.py\b"
_LAUNCHERS = ("torch", "accelerate", "deepspeed")
"""Prefixes of modules that start another program."""
_COMMAND_LENGTH = 2000
"""Number of characters before a flag that are searched for the program of the command."""


class ConfigReference(NamedTuple):
    """A mention of the config in another file, with the consumer that it implies."""

    rank: int
    """Strength: 3 for a flag or key, 2 for a program, 1 for documentation, 0 for a program that names no file."""
    shared: int
    """Length of the directory path that the referring file shares with the config."""
    reader: str
    why: str
    script: str
    path_as_written: str = ""
    """Path of the config as written in the referring file."""
    candidates: PossibleConsumers | None = None
    """Possible consumers, if the program does not show which one reads the file."""


def find_consumer_in_repository(name: str, content: ConsumerEvidence) -> ConsumerEvidence | None:
    """Return the consumer that the files of a repository imply for a config, or None without evidence.

    If no file names the config and its `content` fits several consumers, the programs of a small repository decide, if
    all of them use the same consumer. Also return None if `references_exceed_budget`.
    """
    if name.startswith("<") or not name:
        return None
    path, top, deep = _repository_of_config(name)
    if _find_references(path, top, deep, repository_cache_key(path)) is None:
        return None
    reference = _strongest_reference(path, top, deep, repository_cache_key(path))
    if (
        reference is not None
        and reference.reader == "accelerate"
        and (trainer := _find_trainer_program(reference.script, top, deep=deep))
    ):
        reference = reference._replace(
            reader="transformers", why=f"{reference.why}, beside the Trainer of {trainer}"
        )
    if reference is None and content.likely:
        reference = _consumer_of_all_programs(path, top, content.name, deep=deep)
    if reference is None:
        return None
    in_launch_file = reference.why.endswith((".yaml", ".yml", ".json"))
    origin: Origin = "launch file" if in_launch_file else "script"
    reader = ConsumerEvidence(reference.reader, reference.why, origin, likely=reference.rank == 0)
    return reader if reference.candidates is None else reader.choose_among(reference.candidates, content.name)


@lru_cache(maxsize=8)
def _strongest_reference(path: str, top: str, deep: bool, at: tuple[int, ...]) -> ConfigReference | None:
    """Return the strongest reference to a config, cached because every command of a script needs it."""
    return _pick_strongest_reference(_find_references(path, top, deep, at) or (), path)


def _pick_strongest_reference(mentions: tuple[ConfigReference, ...], path: str) -> ConfigReference | None:
    """Return the strongest reference, or None if there is none.

    An Accelerate launch file is considered only if no command names the config itself, because it says nothing about
    jobs that other scripts start.
    """
    if any(
        each.rank == 3 and is_shell_script_name(each.script) and _resolves_to_config(each, path)
        for each in mentions
    ):
        mentions = tuple(
            each
            for each in mentions
            if is_shell_script_name(each.script) or not each.why.startswith(f"`{LINK}`")
        )
    return max(mentions, key=_reference_strength, default=None)


def _resolves_to_config(mention: ConfigReference, path: str) -> bool:
    """Return whether the path in a script resolves to the config at `path`, rather than to a file of the same name."""
    resolved = resolve_written_path(mention.path_as_written, mention.script).path
    return resolved is not None and os.path.realpath(resolved) == os.path.realpath(path)


def _reference_strength(reference: ConfigReference) -> tuple[int, int, bool]:
    """Return the sort key that ranks references by strength; a Trainer wins a tie against an Accelerate launch file.

    The Trainer re-reads the config that Accelerate's plugin has loaded and fills it from its own arguments
    (transformers integrations/deepspeed.py:propagate_args_to_deepspeed).
    """
    return reference.rank, reference.shared, reference.reader == "transformers"


def _find_trainer_program(launch: str, top: str, *, deep: bool) -> str | None:
    """Find a program with a Trainer near an Accelerate launch file; return None if a program has its own training loop.

    Source: transformers integrations/deepspeed.py, propagate_args_to_deepspeed.
    """
    base = os.path.join(os.path.dirname(launch), "")
    trainer = None
    for path, data in () if is_shell_script_name(launch) else deepspeed_texts(top, launch, deep=deep):
        if path.startswith(base) and path.endswith(".py"):
            if b"Accelerator(" in data:
                return None
            if b"TrainingArguments(" in data:
                trainer = trainer or relative_path(path, top)
    return trainer


def launch_files_naming_config(name: str) -> tuple[str, ...]:
    """Return the paths of the scripts and launch files whose flags or keys name the config at a path.

    The result is empty if `references_exceed_budget`.
    """
    path, top, deep = _repository_of_config(name)
    scripts = {
        each.script: None
        for each in _find_references(path, top, deep, repository_cache_key(path)) or ()
        if each.rank == 3 or is_notebook_name(each.script)
    }
    return tuple(script for script in scripts if script.endswith(LAUNCHES))


def programs_naming_config(name: str) -> tuple[str, ...]:
    """Return the paths of Python programs and notebooks that load a config or pass its path to a call."""
    path, top, deep = _repository_of_config(name)
    references = _find_references(path, top, deep, repository_cache_key(path)) or ()
    # The text around a call decides the rank in a notebook, whose cells are not followed here.
    programs = [
        each
        for each in references
        if (each.rank > 1 and each.script.endswith(".py"))
        or (each.rank > 0 and is_notebook_name(each.script) and _resolves_to_config(each, path))
    ]
    # A program elsewhere may name another file of this name, which it writes itself.
    resolved = [each for each in programs if _resolves_to_config(each, path)]
    return tuple(dict.fromkeys(each.script for each in resolved or programs))


def references_exceed_budget(name: str) -> bool:
    """Return whether a repository mentions a config too often to examine every mention."""
    path, top, deep = _repository_of_config(name)
    return _find_references(path, top, deep, repository_cache_key(path)) is None


def scripts_calling_accelerate_launch(launch: str) -> tuple[str, ...]:
    """Return the paths of the scripts that may pass an Accelerate launch file to `accelerate launch`."""
    path, top, deep = _repository_of_config(launch)
    base = os.fsencode(os.path.basename(path))
    return tuple(
        script
        for script, data in deepspeed_texts(top, path, deep=deep)
        if is_shell_script_name(script) and base in data and b"accelerate" in data
    )


def consumer_given_config_path(name: str, *, flags_only: bool) -> str | None:
    """Return the consumer that receives the path to the config, or None if unknown.

    If `flags_only`, consider only flags and keys, because a program that names the path may open the file itself.
    """
    path, top, deep = _repository_of_config(name)
    return _cached_consumer_given_path(path, top, deep, repository_cache_key(path), flags_only=flags_only)


@lru_cache(maxsize=8)
def _cached_consumer_given_path(
    path: str, top: str, deep: bool, at: tuple[int, ...], *, flags_only: bool
) -> str | None:
    references = (each for each in _find_references(path, top, deep, at) or () if each.rank > 1 + flags_only)
    strongest = max(references, key=_reference_strength, default=None)
    return None if strongest is None else strongest.reader


def deepspeed_program_texts(name: str) -> Iterator[bytes]:
    """Yield the source of each program near a config that mentions DeepSpeed."""
    path, top, deep = _repository_of_config(name)
    return (
        data for script, data in deepspeed_texts(top, path, deep=deep) if script.endswith((".py", ".ipynb"))
    )


def _repository_of_config(name: str) -> tuple[str, str, bool]:
    """Return a config's absolute path, its repository (or its directory), and whether it is in a repository."""
    return _repository_at(name, os.getcwd(), time_cache_key())


@lru_cache(maxsize=8)  # four functions ask for the repository of each config
def _repository_at(name: str, working_directory: str, _: int) -> tuple[str, str, bool]:
    path = os.path.normpath(os.path.join(working_directory, name))
    folder = os.path.dirname(path)
    top = project_root(folder)
    return path, top or folder, top is not None


@lru_cache(maxsize=8)
def _find_references(
    path: str, top: str, deep: bool, _: tuple[int, ...]
) -> tuple[ConfigReference, ...] | None:
    """Return all references to the config, or None if they exceed the budget."""
    references = _find_path_references(
        deepspeed_texts(top, path, deep=deep), os.path.basename(path), top, time_cache_key()
    )
    if references is None:
        return None
    matching = tuple(_references_matching_path(references, path, top))
    # A bare name in an unrelated folder means this config only if nothing nearer names it.
    remote = [each for each in matching if _is_bare_name_elsewhere(each, path)]
    if not remote or not any(each.rank > 1 and _resolves_to_config(each, path) for each in matching):
        return matching
    return tuple(each for each in matching if each not in remote or _resolves_to_config(each, path))


def _is_bare_name_elsewhere(reference: ConfigReference, path: str) -> bool:
    """Return whether a script names only a file, and neither folder, its own or the config's, contains the other."""
    folder, script_folder = os.path.dirname(path), os.path.dirname(reference.script)
    is_bare = (
        os.sep not in reference.path_as_written.removeprefix("./") and "$" not in reference.path_as_written
    )
    return is_bare and os.path.commonpath([folder, script_folder]) not in (folder, script_folder)


def _references_matching_path(
    references: tuple[_PathReference, ...], path: str, top: str
) -> Iterator[ConfigReference]:
    """Yield the references whose path matches the full path of the config, not only its file name."""
    for each in references:
        if (
            each.script == path
            or not may_name_config(each.path_as_written, path)
            or _names_other_file(each, path)
        ):
            continue
        shared, readers = len(os.path.commonpath([path, each.script])), each.readers
        rank = 1 if each.script.endswith((".md", ".ipynb")) else each.rank
        why = f"{each.why} in {relative_path(each.script, top)}"
        why = f"{why}, {readers.why}" if readers.why else why
        candidates = readers if len(readers.names) > 1 else None
        yield ConfigReference(
            rank, shared, readers.names[0], why, each.script, each.path_as_written, candidates
        )


class _PathReference(NamedTuple):
    """A path in a script that ends with the config's file name, not yet compared with the config's full path."""

    script: str
    path_as_written: str
    rank: int
    readers: PossibleConsumers
    why: str


@lru_cache(maxsize=8)
def _find_path_references(
    files: tuple[tuple[str, bytes], ...], base: str, top: str, _: int
) -> tuple[_PathReference, ...] | None:
    """Search files for paths that end with a file name; the result serves all configs of that name in a repository.

    Return None if the search exceeds the budget of a directory.
    """
    try:
        return tuple(_search_texts_for_paths(files, base, top))
    except BudgetExceededError:
        return None


def _search_texts_for_paths(
    files: tuple[tuple[str, bytes], ...], base: str, top: str
) -> Iterator[_PathReference]:
    budget, name = ReadingBudget(FOLDER_STEPS), os.fsencode(base)
    for script, data in [each for each in files if name in each[1]]:
        # Latin-1 never fails, and paths are compared as ASCII; JSON escapes the quotes of a command.
        text = data.decode("latin-1").replace('\\"', '"')
        variables = _ConfigPathVariables(text, budget)
        for at, end in islice(_find_config_paths(text, base), _MAX_REFERENCES):
            start, line = _find_path_start(text, at)
            if _is_comment_line(line):
                continue
            budget.spend(_REFERENCE_COST)
            if (classified := _classify_reference(text, start, script, top, variables)) is not None:
                if classified[2] == f"`{LINK}`" and not _accelerate_file_uses_deepspeed(script, text):
                    continue
                yield _PathReference(script, text[start:end], *classified)


def _accelerate_file_uses_deepspeed(launch: str, text: str) -> bool:
    """Return whether `accelerate launch` passes the config named by a launch file to DeepSpeed.

    `accelerate launch` uses the block `deepspeed_config` only with `distributed_type: DEEPSPEED`; a file for
    FSDP may contain an unused block. Source: accelerate commands/launch.py, _validate_launch_command.
    """
    kinds = re.findall(_DISTRIBUTED, text) if launch.endswith(_LAUNCH_FILES) else []
    return not kinds or "DEEPSPEED" in kinds


def _names_other_file(reference: _PathReference, path: str) -> bool:
    """Return whether the path in a script or launch file resolves to a file other than the config at `path`.

    A script in a directory with another file of that name may still mean the config if it runs in a directory above.
    """
    script = reference.script
    is_accelerate_file = reference.why == f"`{LINK}`" and script.endswith(_LAUNCH_FILES)
    if not is_accelerate_file and script.startswith(os.path.join(os.path.dirname(path), "")):
        return False
    beside_script = os.path.normpath(os.path.join(os.path.dirname(script), reference.path_as_written))
    if not is_accelerate_file and beside_script == path:
        return False
    resolved = resolve_written_path(reference.path_as_written, script).path
    return resolved is not None and os.path.realpath(resolved) != os.path.realpath(path)


_LAUNCH_FILES = (".yaml", ".yml", ".json")


_DISTRIBUTED = r"\bdistributed_type[\"']?\s*:\s*[\"']?(\w+)"
_MAX_REFERENCES = 200
"""Maximum number of occurrences of a file name that are examined in one text."""
_REFERENCE_COST = 1000
"""Number of budget steps charged for each occurrence of a file name."""
_PATH_CHARACTERS = r"[^\s\"'=`(),;:\[\]{}<>|]*"
"""Pattern of the characters of a path, matched backwards from the file name because a notebook may contain an image
as one huge word.
"""


def _find_config_paths(text: str, base: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each path in a text that ends with a given file name."""
    letters, at = re.compile(_PATH_CHARACTERS), text.find(base)
    while at >= 0:
        end = at + len(base)
        if not re.match(r"[\w.-]", text[end : end + 1]):
            before = letters.match(text[max(0, at - _CONTEXT) : at][::-1])
            yield at - (before.end() if before else 0), end
        at = text.find(base, end)


def _find_path_start(text: str, at: int) -> tuple[int, str]:
    """Return the start of a path, and the text before `at` on its line; quoted paths may contain spaces."""
    first = max(0, at - _CONTEXT)
    line = text[max(first, text.rfind("\n", first, at) + 1) : at]
    if (match := re.search(_QUOTED_PATH, line)) is not None:
        at -= len(line) - match.start(1)
    return at, line


_QUOTED_PATH = r"[\"']((?:/|\./|~/)(?:(?! -)[^\"'\n])*)$"


def _is_comment_line(line: str) -> bool:
    """Return whether a line is a comment, which may mention a flag without being part of a command."""
    return line.lstrip().startswith("#") and "--" in line and not re.search(_COMMAND, line)


_COMMAND = r"\.py\b|(?<!-)\b(?:deepspeed|torchrun|accelerate|python3?)\s"


def may_name_config(reference: str, path: str) -> bool:
    """Return whether the known parts of a path in a script are compatible with the config's path."""
    parts = [part for part in reference.lstrip("-").split("/") if part not in ("", ".", "..")]
    path_parts = path.replace(os.sep, "/").split("/")
    if parts[-1] != path_parts[-1]:
        return False
    for part, path_part in zip(reversed(parts[:-1]), reversed(path_parts[:-1]), strict=False):
        if part != path_part:
            return "$" in reference or reference.startswith("/")
    return True


class _ConfigPathVariables:
    """The variables of a script or program that are used as config paths."""

    def __init__(self, text: str, budget: ReadingBudget) -> None:
        self._text, self._budget = text, budget
        self._uses: dict[str, tuple[int, str, str]] | None = None

    def find_first_use(self, name: str) -> tuple[int, str, str] | None:
        """Return the first use of a variable as a config path: its offset, the consumer, and the reason."""
        if self._uses is None:
            self._budget.spend(len(self._text) // 2)
            self._uses = {}
            for at, variable, reader, why in self._find_variable_uses():
                self._uses.setdefault(variable, (at, reader, why))
        return self._uses.get(name)

    def _find_variable_uses(self) -> Iterator[tuple[int, str, str, str]]:
        for pattern, reader, why in _FLAGS_AND_KEYS:
            if pattern == _ELASTIC:
                for match in re.finditer(pattern, self._text):
                    _, _, _, *words = re.findall(r"\w+", match[0])
                    yield from ((match.start(), word, reader, why) for word in words)
                continue
            for match in re.finditer(pattern + _VALUE, self._text):
                for word in ".".join(filter(None, match.groups())).split("."):
                    yield match.start(), word, reader, why


def _classify_reference(
    text: str, start: int, script: str, top: str, variables: _ConfigPathVariables
) -> tuple[int, PossibleConsumers, str] | None:
    """Classify the reference at an offset: return its strength, the possible consumers, and the reason."""
    before = text[max(0, start - _CONTEXT) : start]
    for pattern, reader, why in (*_FLAGS_AND_KEYS, _YAML_KEY):
        if match := re.search(rf"{pattern}$", before):
            if (
                why == f"`{LINK}`"
                and is_shell_script_name(script)
                and not before[: match.start()].endswith("--")
            ):
                continue  # a variable of the script, which may be named like Accelerate's key
            at = start - len(before) + match.start()
            consumers = _consumer_of_command_flag(text, at, script, top, why) or _as_only_consumer(reader)
            # The argument may be a default that a script replaces.
            return 2 if why == _INITIALIZES else 3, consumers, why
    if (match := re.search(_VARIABLE, before)) and (use := variables.find_first_use(match[1])):
        at, reader, why = use
        return 3, _consumer_of_command_flag(text, at, script, top, why) or _as_only_consumer(reader), why
    if script.endswith((".py", ".ipynb")):
        for pattern, reader, why in _PYTHON:
            if re.search(pattern, text):
                return 2, _as_only_consumer(reader), why
    return None


_BARE_FLAG = r"--deepspeed(?=[\s\\\"',]*(?:\s-|[\"']-|$))(?![\w=-])"
"""Pattern of `--deepspeed` without a value."""


def _as_only_consumer(reader: str) -> PossibleConsumers:
    return PossibleConsumers((reader,), "")


def _consumer_of_command_flag(
    text: str, at: int, script: str, top: str, why: str
) -> PossibleConsumers | None:
    """Return the possible consumers of a file passed by a flag, judging by the program that the command starts."""
    program = (
        _program_started_by_command(text[max(0, at - _COMMAND_LENGTH) : at]) if why in _COMMAND_FLAGS else ""
    )
    if why in _DEEPSPEED_FLAGS:
        from dsconfig.launch.config_loaded_by_program import config_consumers_of_command  # reads syntax trees

        after = text[at : at + _CONTEXT]
        end = re.search(r"(?<!\\)\n", after)
        command = text[max(0, at - _CONTEXT) : at] + after[: end.start() if end else _CONTEXT]
        is_bare = re.search(_BARE_FLAG, command) is not None
        return config_consumers_of_command(program, script, why.strip("`"), is_bare=is_bare)
    if not program:
        return None
    folder = script
    while folder != top and len(folder) > len(top):
        folder = os.path.dirname(folder)
        path = os.path.join(folder, program)
        if may_read_file(path, script) and (consumer := loop_consumer(path, time_cache_key())) is not None:
            return _as_only_consumer(consumer) if consumer else None
    return None


def _program_started_by_command(command: str) -> str:
    """Return the path or module name of the program that a command starts, or an empty string if there is none."""
    words = re.findall(_PATH, command)
    for last, word in zip(reversed(["", *words[:-1]]), reversed(words), strict=True):
        if last == "-m" and not word.startswith(_LAUNCHERS):
            return str(word)
        if ".py" in word and (match := re.match(_PROGRAM, word)):
            return match[0]
    return ""


@lru_cache(maxsize=16)
def loop_consumer(path: str, _: int) -> str | None:
    """Return the consumer used by a program's training loop; empty if unclear, None if the program cannot be read."""
    try:
        program = read_contents(path).decode("latin-1")
    except OSError:
        return None
    if re.search(_OPENS_CONFIG, program) and not re.search(_USES_TRAINER, program):
        return "deepspeed"
    loop, trainer = bool(re.search(_OWN_LOOP, program)), bool(re.search(_TRAINER, program))
    return "" if loop == trainer else "deepspeed" if loop else "transformers"


_PASSES_TO_TRAINER = rb"\bdeepspeed\s*=\s*[^\s,)]|\bHfArgumentParser\b"
"""Pattern of a program that passes a config to the arguments of a Trainer, or reads all of them from flags."""


def _consumer_of_all_programs(path: str, top: str, content: str, *, deep: bool) -> ConfigReference | None:
    """Return the consumer that all programs of the repository use, which is weak evidence."""
    consumers: dict[tuple[str, str], str] = {}
    files = deepspeed_texts(top, path, deep=deep)
    for script, data in files if len(files) <= _MAX_TEXTS else ():
        if script.endswith(".py"):
            text = data.decode("latin-1")
            consumers |= {
                (reader, why): script for pattern, reader, why in _PYTHON if re.search(pattern, text)
            }
    if len({reader for reader, _ in consumers}) != 1:
        return None
    ((reader, why), script), *_ = consumers.items()
    if reader in (content, "accelerate"):
        return None
    if reader == "transformers" and not any(
        re.search(_PASSES_TO_TRAINER, data) for name, data in files if name.endswith(".py")
    ):
        return None
    return ConfigReference(0, 0, reader, f"{why} in {relative_path(script, top)}", script)
