"""Find the scripts and launch files in a config's repository, resolve paths, and limit how much is read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from time import monotonic

from dsconfig.core.file_access import (
    OUTSIDE,
    is_absolute,
    is_file,
    is_on_network_share,
    may_read_discovered_file,
    may_read_file,
    read_contents,
    read_directory_entry,
    relative_path,
    repository_root,
    unsaved,
)
from dsconfig.core.json_types import NamedTuple
from dsconfig.document.config_file_names import SCRIPTS

# Scripts and launch files around a config that may name it.

_SEARCHED_SUFFIXES = (*SCRIPTS, ".py", ".yaml", ".yml", ".json", ".ipynb", ".md", ".mk", ".toml")
"""File name suffixes of files that start, configure or document a job."""
_SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages", "wandb", "checkpoints"))
_TEST_FOLDERS = frozenset(("test", "tests"))
"""Directories whose files are searched only for configs inside them: tests mention every config."""
_MAX_FOLDERS, _MAX_PROGRAMS, _MAX_OTHERS, _MAX_FILE = 1000, 500, 1000, 256 * 1024
"""Limits for large repositories; beyond them the consumer of a config is derived from its content."""
_MAX_TOTAL = 64 << 20
"""Maximum number of bytes of texts in memory. DeepSpeed's own repository has 15 MB that mention DeepSpeed."""
_MAX_JSON = 64 * 1024
"""Maximum size of a JSON launch file in bytes; larger JSON files are data."""


def deepspeed_texts(folder: str, path: str, *, deep: bool) -> tuple[tuple[str, bytes], ...]:
    """Return the paths and contents of the scripts and launch files in a directory that mention DeepSpeed.

    Files that pass a config to `dsconfig elastic run` are included. `path` is the file whose references are searched:
    test directories are searched only if it is inside them. `deep` says whether to search subdirectories. The result
    is cached for a few seconds.
    """
    include_tests = not _TEST_FOLDERS.isdisjoint(path.removeprefix(folder).split(os.sep))
    found_texts = _texts_in_value(folder, deep, include_tests, time_cache_key())
    # A language server checks the text in the editor, not the file on disk.
    if not unsaved:
        return found_texts
    return tuple((name, unsaved.get(os.path.realpath(name), data)) for name, data in found_texts)


def time_cache_key() -> int:
    """Return a cache key that changes every 5 seconds, or if files are watched, with `invalidate_cache`."""
    return _generations[-1] if _generations else int(monotonic() / 5)


_generations: list[int] = []


@contextmanager
def assume_unchanged_files() -> Iterator[None]:
    """Keep cached results inside a `with` block, on the assumption that no file changes."""
    outer = list(_generations)
    invalidate_cache()
    try:
        yield
    finally:
        _generations[:] = outer


def invalidate_cache() -> None:
    """Invalidate all cached results; a server calls this when a watched file changes."""
    _generations[:] = [_generations[-1] + 1 if _generations else -1 << 30]
    repository_root.cache_clear()


@lru_cache(maxsize=4)
def _texts_in_value(folder: str, deep: bool, tests: bool, _: int) -> tuple[tuple[str, bytes], ...]:
    found_texts = []
    remaining, size = {True: _MAX_PROGRAMS, False: _MAX_OTHERS}, 0
    for entry in _walk_directory_entries(
        folder, _SKIPPED_FOLDERS if tests else _SKIPPED_FOLDERS | _TEST_FOLDERS, deep=deep
    ):
        is_program, is_json = entry.name.endswith(".py"), entry.name.endswith(".json")
        if not remaining[is_program]:
            continue
        if entry.is_symlink() and not may_read_discovered_file(entry.path):
            continue
        remaining[is_program] -= 1
        try:
            data = read_directory_entry(entry, _MAX_JSON if is_json else _MAX_FILE)
        except OSError:
            continue
        if _mentions_deepspeed(data) and not (is_json and len(data) > _MAX_JSON):
            size += len(data)
            if size > _MAX_TOTAL:
                break
            found_texts.append((entry.path, data))
    return tuple(found_texts)


@lru_cache(maxsize=4)
def _files_with_suffixes(
    folder: str, suffixes: tuple[str, ...], deep: bool, _: int
) -> tuple[tuple[str, bytes], ...]:
    found_files, size = [], 0
    for entry in _walk_directory_entries(folder, _SKIPPED_FOLDERS, deep=deep):
        if not entry.name.endswith(suffixes) or (
            entry.is_symlink() and not may_read_discovered_file(entry.path)
        ):
            continue
        try:
            data = read_directory_entry(entry, _MAX_FILE)
        except OSError:
            continue
        size += len(data)
        if size > _MAX_TOTAL:
            break
        found_files.append((entry.path, data))
    return tuple(found_files)


def python_files_of_repository(path: str) -> tuple[tuple[str, bytes], ...]:
    """Return the paths and contents of the Python files in a file's repository, or in its directory if it has none."""
    return files_of_repository(path, (".py",))


def files_of_repository(path: str, suffixes: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Return the paths and contents of files with these suffixes in a file's repository, or in its directory."""
    folder = os.path.dirname(path)
    top = repository_root(folder)
    found_files = _files_with_suffixes(top or folder, suffixes, top is not None, time_cache_key())
    if not unsaved:
        return found_files
    return tuple((name, unsaved.get(os.path.realpath(name), data)) for name, data in found_files)


def _mentions_deepspeed(data: bytes) -> bool:
    """Return whether a text mentions DeepSpeed, or a file through which a config may be found.

    Such files are Accelerate launch files, and configs for `dsconfig elastic run` or `rdzv-conf`.
    """
    # A program that reads its arguments from a YAML file need not name DeepSpeed itself.
    if b"deepspeed" in data or b"DeepSpeed" in data or b".parse_yaml_file(" in data:
        return True
    if b"accelerate" in data and (b"--config_file" in data or b"--config-file" in data):
        return True
    return b"dsconfig" in data and (b"elastic" in data or b"rdzv" in data)


_LAUNCH_WORDS = (
    rb"deepspeed|DeepSpeed|llamafactory|axolotl|openrlhf|--accelerate_config|swift |deepy\.py"
    rb"|(?:torchrun|accelerate launch|\btrl|python3?) [^;&|]{0,800}?\.(?:ya?ml|json)\b"
)
"""Pattern of words at least one of which occurs in every script that starts a job with DeepSpeed."""


def may_start_deepspeed_job(data: bytes) -> bool:
    """Return whether a script may start a DeepSpeed job, by a search for words, which is faster than parsing it."""
    return re.search(_LAUNCH_WORDS, data) is not None or _mentions_deepspeed(data)


def may_lead_to_deepspeed_job(data: bytes, path: str) -> bool:
    """Return whether a script may start a DeepSpeed job itself, or through a script or program that it names."""
    return (
        may_start_deepspeed_job(data)
        or calls_launch_script(data, path)
        or starts_deepspeed_program(data, path)
    )


def calls_launch_script(data: bytes, path: str) -> bool:
    """Return whether a script runs another script that may start a job: `bash scripts/train.sh 8 zero3`."""
    names = dict.fromkeys(
        match[1].decode("latin-1") for match in islice(re.finditer(_CALLS, data), _MAX_CALLS)
    )
    paths = (resolve_written_path(name, path).path for name in names)
    return any(may_start_deepspeed_job(_text_of(script)) for script in paths if script is not None)


def starts_deepspeed_program(data: bytes, path: str) -> bool:
    """Return whether a script names a Python program that uses DeepSpeed or Hydra, which may compose a config."""
    names = dict.fromkeys(
        match[1].decode("latin-1") for match in islice(re.finditer(_PROGRAMS, data), _MAX_CALLS)
    )
    paths = (resolve_written_path(name, path).path for name in names)
    return any(re.search(_USES, _text_of(program)) for program in paths if program is not None)


_PROGRAMS = rb"(?<![\w./$-])([\w./${}-]*\w\.py)\b"
_USES = rb"deepspeed|DeepSpeed|\bhydra\b"


def _text_of(path: str) -> bytes:
    try:
        return read_contents(path, _MAX_SCRIPT)
    except OSError:
        return b""


_CALLS = (
    rb"(?m)(?:\b(?:bash|sh|source|sbatch|srun|qsub)[ \t]+(?:-[\w=-]+[ \t]+)*|^[ \t]*(?:\.[ \t]+)?)"
    rb"[\"']?([\w./${}-]*[\w-]\.(?:%s))\b"
) % "|".join(suffix[1:] for suffix in SCRIPTS).encode()
_MAX_CALLS = 50
"""Maximum number of scripts named in another script that are examined."""
_MAX_SCRIPT = 256 * 1024


def stop_watching_files() -> None:
    """Return to time-based cache keys, because no server watches the files any more."""
    _generations.clear()


def repository_cache_key(path: str) -> tuple[int, ...]:
    """Return a cache key that changes with any file or unsaved editor buffer other than the file at `path`."""
    return (
        time_cache_key(),
        *(hash(data) for name, data in unsaved.items() if name != path and _mentions_deepspeed(data)),
    )


def _walk_directory_entries(
    folder: str, skipped: frozenset[str], *, deep: bool
) -> Iterator[os.DirEntry[str]]:
    """Yield directory entries breadth-first, so that a limit cuts off the deepest directories."""
    folders = [folder]
    for current in islice(folders, _MAX_FOLDERS):
        try:
            with os.scandir(current) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in skipped:
                continue
            # Symbolic links could form a cycle or leave the repository.
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.path] * deep
            elif entry.name.endswith(_SEARCHED_SUFFIXES) or entry.name == "Makefile":
                yield entry


# Resolution of a path in a launch file. The working directory of the job is unknown, so several are tried.

_LEADING_VARIABLE = r"\$(?:\w+|\{\w+\})/+"


class PathLookup(NamedTuple):
    """Result of a search for a file: its path (None if not found) and the directories that were tried."""

    path: str | None
    tried: tuple[str, ...]
    outside: str | None = None
    """An existing file outside the repository, which a launch file must not make dsconfig read."""

    @property
    def shown_folder(self) -> str:
        """Directory in which the file was found, formatted for messages."""
        return _display_folder(self.tried[-1]) if self.tried else "the file system's root"

    @property
    def shown_tried_folders(self) -> str:
        """All directories that were tried, formatted for messages."""
        return ", ".join(map(_display_folder, self.tried))

    @property
    def why_unread(self) -> str | None:
        """Clause that says why an existing file is not read, or None if no such file was found."""
        if self.outside is None:
            return None
        return f"{OUTSIDE} and is not read: pass {self.outside} as well to check it"


def project_root(folder: str) -> str | None:
    """Return the repository that contains a folder, or the current directory if the folder is inside it, or None.

    Users also check folders without `.git`, such as an unpacked archive or a part of a repository.
    """
    if (top := repository_root(folder)) is not None:
        return top
    here = os.getcwd()
    is_inside = folder.startswith(os.path.join(here, "")) and os.path.dirname(here) != here
    return here if is_inside and here != os.path.expanduser("~") else None


def resolve_written_path(reference: str, launch: str, script_folder: str = "") -> PathLookup:
    """Resolve a path as written in a launch file.

    `script_folder` is the directory that the job's script has entered with `cd`.

    The current directory is tried first, then the launch file's directory and its parents up to the repository root.
    Most scripts are started from the repository root or another parent directory. A leading variable such as `$ROOT/`
    is skipped.
    """
    if script_folder and not is_absolute(reference):
        lookup = resolve_written_path(os.path.join(script_folder, reference), launch)
        if lookup.path is not None:
            return lookup
    if (match := re.match(_LEADING_VARIABLE, reference)) and "$" not in reference[match.end() :]:
        lookup = resolve_written_path(reference[match.end() :], launch)
        return lookup if lookup.path is not None else lookup._replace(path=None)
    if launch.startswith("<"):
        return _lookup_at_path(reference, launch, (os.curdir,)) or PathLookup(None, (os.curdir,))
    if is_absolute(reference):
        return _lookup_at_path(reference, launch, ()) or _resolve_path_of_other_machine(reference, launch)
    folder = os.path.dirname(os.path.abspath(launch))
    folders, top, here = [os.curdir], project_root(folder), os.getcwd()
    while True:
        if folder != here:
            folders.append(folder)
        if folder == top or top is None or folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    outside: str | None = None
    for at, each in enumerate(folders, 1):
        path = os.path.normpath(os.path.join(each, reference))
        if (candidate := _lookup_at_path(path, launch, folders[:at], is_relative=True)) is None:
            continue
        if candidate.path is not None:
            return candidate
        outside = outside or candidate.outside
    return PathLookup(None, tuple(folders), outside)


def _lookup_at_path(
    path: str, launch: str, tried: Sequence[str], *, is_relative: bool = False
) -> PathLookup | None:
    """Return the lookup of the file at a path, or None if there is none; a file that must not be read is `outside`.

    `is_relative` says whether messages show the path relative to the current directory.
    """
    on_share = is_on_network_share(path)
    if not on_share and not is_file(path):  # checked first: resolving the links of each candidate is slower
        return None
    display_path = _display_path(path) if is_relative else path
    if may_read_file(path, launch):
        return PathLookup(display_path, tuple(tried)) if not on_share or is_file(path) else None
    return PathLookup(None, tuple(tried), display_path)


def _resolve_path_of_other_machine(reference: str, launch: str) -> PathLookup:
    """Resolve an absolute path from a machine on which the repository is in another directory."""
    parts = reference.split("/")[2:]
    for at in range(min(len(parts), _MAX_PARTS)):
        lookup = resolve_written_path("/".join(parts[at:]), launch)
        if lookup.path is not None:
            return lookup
    return PathLookup(None, ())


_MAX_PARTS = 16


def _display_path(path: str) -> str:
    """Return a path relative to the current directory if both are in the same repository, else unchanged."""
    relative, top = relative_path(path), repository_root(os.path.abspath(os.curdir))
    outside = relative.startswith(os.pardir) and (
        top is None or not os.path.abspath(path).startswith(top + os.sep)
    )
    return path if outside else relative


def find_installed_preset(pattern: str, name: str) -> str | None:
    """Return the file of a preset in an installed package, or None if the package is not installed."""
    if not pattern or not is_preset_name(name):
        return None
    paths = (os.path.join(folder, pattern.format(name)) for folder in sys.path if folder)
    return next((path for path in paths if os.path.isfile(path)), None)


def is_preset_name(name: str) -> bool:
    """Return whether a word of a command may be the name of a preset."""
    return name.replace("_", "").replace("-", "").isalnum()


def _display_folder(folder: str) -> str:
    return "the current folder" if folder == os.curdir else relative_path(folder)


# Budget for reading the scripts and launch files around a config, which may be hostile.
#
# A few hundred bytes of shell can expand to gigabytes, and a regular expression can backtrack for hours. All
# readers of such texts therefore count the characters they examine and create. A text that exceeds its budget
# counts as unread as a whole, and a message reports it: a partial result could be wrong.


class BudgetExceededError(Exception):
    """Raised if reading a text exceeds its budget, and handled by the code that created the budget."""


class ReadingBudget:
    """A limit on reading steps. A step examines one character or copies eight, and takes less than 1 µs.

    `parent` is the budget of the directory, which is charged too.
    """

    __slots__ = ("_parent", "left", "total")

    def __init__(self, total: int, parent: ReadingBudget | None = None) -> None:
        self.total = self.left = total
        self._parent = parent

    @property
    def used_steps(self) -> int:
        """Number of steps spent so far."""
        return self.total - self.left

    def spend(self, steps: int) -> None:
        """Charge steps to the budget before performing them.

        Raises:
            BudgetExceededError: fewer steps are left.
        """
        self.left -= steps
        if self._parent is not None:
            self._parent.spend(steps)
        if self.left < 0:
            raise BudgetExceededError


_BASE_STEPS, _STEPS_PER_CHARACTER = 250_000, 20
"""Steps for a text of any length, plus steps per character; real scripts take 4 to 8 per character."""
FOLDER_STEPS = 10_000_000
"""Steps for all texts around one config, enough for a thousand scripts that name the config."""


def budget_for_text(length: int, parent: ReadingBudget | None = None) -> ReadingBudget:
    """Return the budget for a script or launch file of `length` characters, limited by `parent`."""
    return ReadingBudget(min(_BASE_STEPS + _STEPS_PER_CHARACTER * length, FOLDER_STEPS), parent)


# ZeRO-3 leaf modules that a program sets in code, outside the config.

LEAF_MODULE_PROGRAMS = frozenset(("LLaMA-Factory", "Axolotl", "ms-swift"))
"""Programs that set leaf modules for every mixture-of-experts model they support.

Sources: LLaMA-Factory model/model_utils/moe.py:add_z3_leaf_module; Axolotl
loaders/model.py:_set_z3_leaf_modules; ms-swift model/register.py:ModelLoader._deepspeed_set_z3_leaf_modules.
"""
_LEAF_MODULE_WORDS = (
    b"set_z3_leaf_module",
    b"_z3_leaf",
    b"deepspeed_moe_layer_cls_names",
    b"set_moe_leaf_modules",
)
"""Words that set leaf modules: DeepSpeed's function, and `moe_layer_cls_names` in Accelerate's utils/dataclasses.py."""


def repository_sets_leaf_modules(name: str) -> bool:
    """Return whether a script or launch file in a config's repository sets leaf modules."""
    return _mentions(name, _LEAF_MODULE_WORDS)


_CHECKPOINTING_WORDS = (
    b"checkpointing.configure",
    b"deepspeed.checkpointing",
    b"activation_checkpointing import",
    b"activation_checkpointing.checkpointing",
    b"megatron",
)
"""Words for DeepSpeed's activation checkpointing, and for Megatron's, which calls DeepSpeed's."""


def configures_activation_checkpointing(name: str) -> bool:
    """Return whether a script in a config's repository may call `deepspeed.checkpointing`."""
    return _mentions(name, _CHECKPOINTING_WORDS)


def _mentions(name: str, words: tuple[bytes, ...]) -> bool:
    """Return whether a script or launch file in a config's repository contains one of `words`."""
    if name.startswith("<") or not name:
        return False
    path = os.path.abspath(name)
    folder = os.path.dirname(path)
    top = repository_root(folder)
    return any(
        word in data
        for _, data in deepspeed_texts(top or folder, path, deep=top is not None)
        for word in words
    )
