"""Find the files to check: the DeepSpeed configs in a directory that git does not ignore."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from dsconfig.core.file_access import (
    MAX_NOTEBOOK_SIZE,
    OUTSIDE,
    may_read_discovered_file,
    may_read_file,
    read_contents,
    relative_path,
    repository_root,
)
from dsconfig.document import keep_document, kept_document
from dsconfig.document.config_file_names import (
    SUFFIXES,
    is_config_name,
    is_notebook_name,
    is_python_name,
    is_yaml_name,
)
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.launch.repository_files import may_lead_to_deepspeed_job

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document, Format


# Content decides whether a file is a config; names only select the files worth reading.

_LAUNCHES = rb"(?m)^distributed_type\s*:\s*['\"]?DEEPSPEED\b"
_BLOCK = rb"(?m)^deepspeed_config\s*:"
SKIPPED = frozenset(("node_modules", "__pycache__", "site-packages"))
_MAX_CONFIG_SIZE = 1 << 20
"""Size in bytes above which a file is not read; configs written by hand are far smaller."""


def find_configs(
    folder: str,
    excludes: Callable[[str], bool] = lambda _: False,
    note: Callable[[str], object] = str,
    hidden: Callable[[str], object] = str,
    *,
    launches: bool = False,
) -> Iterator[str]:
    """Yield the paths of the DeepSpeed configs below `folder` in a stable order.

    Links to folders are not followed. A file that looks like a config but cannot be read is yielded too, so that
    reading the file later reports the error.

    Args:
        folder: the directory to search.
        excludes: function that returns whether to skip a file or folder.
        note: function called with one line for each path that cannot be read, or when git does not answer.
        hidden: function called with each hidden folder that is skipped.
        launches: whether to also find scripts and manifests that start a job with DeepSpeed.
    """
    git_client = GitFileLister(note)
    folders: list[tuple[str, GitListing | None]] = [(folder, git_client.list_folder(folder))]
    while folders:  # a stack and not recursion: no depth of folders can exhaust it
        folder, listing = folders.pop()
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            note(_unreadable_message(folder))
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue  # a virtual environment (PEP 405): installed packages are not the user's configs
        subfolders: list[tuple[str, GitListing | None]] = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            is_start = launches and is_shell_script_name(entry.name)
            if entry.name in SKIPPED or not (is_folder or is_start or may_be_config(entry.name)):
                continue
            if (listing and not listing.lists_path(entry.path)) or excludes(entry.path):
                continue
            if entry.name.startswith(".") and not (launches and entry.name in _HIDDEN_LAUNCHES):
                if is_folder and entry.name != ".git":
                    hidden(_shorten_path(entry.path))
            elif is_folder:
                # `git ls-files` does not descend into a nested repository or submodule, so ask in there.
                inner_listing = (
                    git_client.list_folder(entry.path)
                    if listing and listing.is_nested_repository(entry.path)
                    else listing
                )
                subfolders.append((entry.path, inner_listing))
            elif entry_starts_job(entry) if is_start else _is_config_entry(entry, note):
                yield _shorten_path(entry.path)
        folders += reversed(subfolders)


_HIDDEN_LAUNCHES = frozenset(
    {
        ".github",
        ".gitlab-ci.yml",
        ".gitlab",
        ".circleci",
        ".azure-pipelines",
        ".azure-pipelines.yml",
        ".justfile",
        ".buildkite",
        ".travis.yml",
        ".vscode",
    }
)
"""Hidden files and directories with commands that may start jobs."""


def entry_starts_job(entry: os.DirEntry[str]) -> bool:
    """Return whether a directory entry is a script that starts a DeepSpeed job, or whose launcher rejects its flags."""
    if not entry.is_file() or not may_read_discovered_file(entry.path):
        return False
    data = read_small_file(entry.path)
    if not may_lead_to_deepspeed_job(data, entry.path):
        return False
    from dsconfig.document import read_bytes
    from dsconfig.launch.find_jobs import job_of_launch_file
    from dsconfig.launch.jobs_of_script import script_starts_job as has_job
    from dsconfig.launch.launcher_checks import has_launcher_problems

    script = read_bytes(data, _shorten_path(entry.path))
    try:
        # The examples of DeepSpeed-Chat build their config from flags: only the launcher can be checked.
        return has_job(script, job_of_launch_file) or has_launcher_problems(script)
    except OSError:
        return False


def _is_config_entry(entry: os.DirEntry[str], note: Callable[[str], object]) -> bool:
    """Return whether an entry is a config, or a special file named like one, which is reported when read."""
    if entry.is_symlink() and not may_read_discovered_file(entry.path):
        note(f"{_shorten_path(entry.path)} is a link to a file that {OUTSIDE}; skipped")
        return False
    try:
        is_file = entry.is_file()
    except OSError:  # a link to itself: reading it will report the loop
        return True
    if not is_file:
        return is_config_name(entry.path)
    if is_config_file(entry.path):
        return True
    if is_python_name(entry.path) and (why := _why_python_source_unread(entry.path)):
        note(f"{_shorten_path(entry.path)} is not searched for configs: {why}")
    if not os.access(entry.path, os.R_OK):
        note(_unreadable_message(entry.path))
    return False


def _unreadable_message(path: str) -> str:
    return f"{_shorten_path(path)} cannot be read (permission denied); skipped"


def _shorten_path(path: str) -> str:
    return path[2:] if path.startswith(_HERE) else path


_HERE = os.path.join(os.curdir, "")


def is_skipped_by_discovery(path: str) -> bool:
    """Return whether discovery skips a file because it is hidden, installed, or a link out of the repository."""
    if os.path.realpath(path) != os.path.abspath(path) and not may_read_file(path, "<here>"):
        return True  # the target is not part of this repository
    folder, name = os.path.split(relative_path(path) if os.path.isabs(path) else os.path.normpath(path))
    return name.startswith(".") or _is_in_skipped_folder(folder, os.getcwd())


@cache
def _is_in_skipped_folder(folder: str, cwd: str) -> bool:
    parent, name = os.path.split(folder)
    if name in ("", os.pardir):
        return False
    if name.startswith(".") or name in SKIPPED or os.path.lexists(os.path.join(cwd, folder, "pyvenv.cfg")):
        return True
    return _is_in_skipped_folder(parent, cwd)


def is_excluded(path: str, root: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches the file or a parent; one without a slash may match any part of the path."""
    if not patterns:
        return False
    from fnmatch import fnmatch

    # The semantics of ruff's `exclude`: a name without a slash matches at any depth.
    parts = relative_path(path, root).replace(os.sep, "/").split("/")
    prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(
        fnmatch(name, pattern.strip("/"))
        for pattern in patterns
        for name in (prefixes if "/" in pattern.strip("/") else [*parts, prefixes[-1]])
    )


def host_kind(path: str) -> str:
    """Return the kind of a launch file or program as named by the setting `skip`, or "" for other files."""
    name = os.path.basename(path)
    if is_shell_script_name(name):
        is_container = "file" in name.lower() and not name.lower().endswith(("makefile", "justfile"))
        return "containers" if is_container else "scripts"
    if is_python_name(name):
        return "notebooks" if is_notebook_name(name) else "python"
    if name == ".github" or f"{os.sep}.github{os.sep}" in os.path.abspath(path):
        return "workflows"
    if not is_yaml_name(name):
        return ""
    from dsconfig.launch.launch_file_formats import detect_launch_format

    launch_format = detect_launch_format(_read_document(path, read_small_file(path), yaml=True).value())
    if launch_format is None or not launch_format.commands:
        return ""
    if launch_format.name == "Docker Compose":
        return "containers"
    return "workflows" if launch_format.name in _WORKFLOWS else "manifests"


_WORKFLOWS = (
    "GitHub Actions", "GitLab CI", "Azure Pipelines", "CircleCI", "Bitbucket Pipelines", "Buildkite", "Travis CI",
)  # fmt: skip


def is_config_file(path: str) -> bool:
    """Return whether the file at `path` is a DeepSpeed config, or a launch file that names one."""
    return is_config_text(path, read_small_file(path), yaml=is_yaml_name(path))


def is_config_text(path: str, data: bytes, *, yaml: bool) -> bool:
    """Return whether `data`, read from `path`, is a DeepSpeed config or a launch file that names one."""
    from dsconfig.job.detect_consumer import is_inference_config
    from dsconfig.launch import classify_config_file
    from dsconfig.launch.classify_config_file import describe_other_file, describe_other_object

    if re.search(_AUTOTUNER_FOLDERS, path.replace(os.sep, "/")):
        return False  # generated in bulk, and not edited by users
    if is_python_name(path):
        return _contains_python_config(path, data)
    data = _convert_to_utf8(data)
    if yaml and resembles_accelerate_file(data):
        return True
    if classify_config_file.may_contain_config(data) or classify_config_file.mentions_deepspeed(data):
        document = _read_document(path, data, yaml=yaml)
        root = _root_object(document)
        is_other = describe_other_file(document) or describe_other_object(root)
        if not is_other and (
            classify_config_file.contains_config(root)
            or classify_config_file.is_broken_config(document)
            or (yaml and classify_config_file.has_config_below_a_key(document))
        ):
            keep_document(document, data)
            return True
    # `ds_config.json` can be nothing else: report it even if its content is broken or all keys are typos.
    named = not yaml and is_config_name(path)
    if not named:
        return False
    root = _root_object(_read_document(path, data, yaml=False))
    return is_inference_config(root) or not (
        classify_config_file.has_mostly_unknown_keys(root) or describe_other_object(root)
    )


def has_config_name(document: Document | None) -> bool:
    """Return whether an unparsable file has the name of a config, so that its errors are worth reporting."""
    from dsconfig.launch.classify_config_file import is_unparsable

    return document is not None and is_config_name(document.name) and is_unparsable(document)


_STRATEGY = rb"deepspeed_stage|DeepSpeedStrategy"
"""Words of the Python sources that pass a DeepSpeed strategy to Lightning."""
_WORDS = rb"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|init_inference|" + _STRATEGY
"""Words of which every Python source to check contains one; a search for them is far cheaper than parsing."""
_IS_TEST = r"(?:^|/)(?:tests?/(?:.*/)?[^/]*|test_[^/]*|[^/]*_test|conftest)\.py$"
"""Names of tests, whose configs may be wrong on purpose: tests are checked if named, not as part of a folder."""


def _contains_python_config(path: str, data: bytes) -> bool:
    """Return whether a Python source that is not a test contains a config dict."""
    if not re.search(_WORDS, data) or re.search(_IS_TEST, path.replace(os.sep, "/")):
        return False
    if b"ightning" in data and re.search(_STRATEGY, data):
        from dsconfig.document import read_bytes
        from dsconfig.launch.lightning_strategies import lightning_problems

        if lightning_problems(read_bytes(data, path)):
            return True
    from dsconfig.launch.python.config_dicts import config_documents_in_source

    return bool(config_documents_in_source(data, path))


def _why_python_source_unread(path: str) -> str | None:
    """Return why a Python source that mentions DeepSpeed keys cannot be searched, or None if it can."""
    data = read_small_file(path)
    if not re.search(_UNIQUE_WORDS, data) or re.search(_IS_TEST, path.replace(os.sep, "/")):
        return None
    from dsconfig.launch.python.config_dicts import why_source_unread

    return why_source_unread(data, path)


_UNIQUE_WORDS = rb"zero_optimization|train_micro_batch_size_per_gpu|init_inference"
_AUTOTUNER_FOLDERS = r"(?:^|/)(?:autotuning/config_templates|autotuning_(?:exps|results))/"
"""Folders of the autotuner's templates and experiments (DeepSpeed's autotuning/constants.py)."""


def may_be_config(name: str) -> bool:
    """Return whether a file of this name may be a config, or a launch file other than a script."""
    return name.lower().endswith(SUFFIXES) or is_python_name(name)


def resembles_accelerate_file(data: bytes) -> bool:
    """Return whether a YAML text looks like an Accelerate launch file that uses DeepSpeed."""
    return bool(re.search(_LAUNCHES, data) and re.search(_BLOCK, data))


def linked_configs_by_path(names: Iterable[str]) -> dict[str, list[str]]:
    """Map the real path of each config that a launch file among `names` refers to, to these launch files."""
    from dsconfig.launch import classify_config_file

    launches_by_config: dict[str, list[str]] = {}
    for name in names:
        data = read_small_file(name) if may_be_config(name) or is_shell_script_name(name) else b""
        is_launch = is_shell_script_name(name) and may_lead_to_deepspeed_job(data, name)
        if not (is_launch if is_shell_script_name(name) else classify_config_file.mentions_deepspeed(data)):
            continue
        from dsconfig.document import read_bytes
        from dsconfig.launch.config_source import read_config_at_path
        from dsconfig.launch.find_jobs import jobs_of_launch_file
        from dsconfig.launch.located_config import find_config_link

        if is_python_name(name):
            document = read_config_at_path(name)
        else:
            syntax: Format = "yaml" if is_yaml_name(name) else "json"
            document = kept_document(data, name, syntax) or read_bytes(data, name, syntax)
        jobs = list(jobs_of_launch_file(document))
        paths = [job.lookup.path for job in jobs if job.lookup is not None and job.lookup.path]
        paths += [job.launch.name for job in jobs if job.started_by]
        if not jobs and (link := find_config_link(document)) and link[1].path:
            paths = [link[1].path]
        for path in dict.fromkeys(map(os.path.realpath, paths)):
            launches_by_config.setdefault(path, []).append(name)
    return _drop_cyclic_references(launches_by_config)


def _drop_cyclic_references(launches_by_config: dict[str, list[str]]) -> dict[str, list[str]]:
    """Drop files reachable only from each other, so that each config keeps a launch file outside the cycle."""
    grounded: dict[str, list[str]] = {}
    while True:
        reachable = {
            path: launches
            for path, launches in launches_by_config.items()
            if path not in grounded
            and any(
                real in grounded or real not in launches_by_config for real in map(os.path.realpath, launches)
            )
        }
        if not reachable:
            return grounded
        grounded |= reachable


def read_small_file(path: str) -> bytes:
    """Return the bytes of the file at `path`, or empty bytes if it is too large or unreadable."""
    try:
        limit = MAX_NOTEBOOK_SIZE if is_notebook_name(path) else _MAX_CONFIG_SIZE
        data = read_contents(path, limit) if os.path.getsize(path) <= limit else b""
    except OSError:
        return b""
    return data if len(data) <= limit else b""


def _convert_to_utf8(data: bytes) -> bytes:
    """Convert UTF-16 or UTF-32, Windows PowerShell's default, to UTF-8."""
    if b"\0" not in data[:4]:
        return data
    from dsconfig.document.read_document import wide_encoding

    encoding = wide_encoding(data[:1024].decode("latin-1"))
    return data.decode(encoding, "replace").encode("utf-8", "replace") if encoding else data


def _read_document(path: str, data: bytes, *, yaml: bool) -> Document:
    from dsconfig.document import read_bytes

    return read_bytes(data, _shorten_path(path), "yaml" if yaml else "json")


def _root_object(document: Document) -> JsonObject:
    """Return the root object of a document, or an empty one if the root is not an object."""
    value = document.value()
    return (
        {key: each for key, each in value.items() if isinstance(key, str)} if isinstance(value, dict) else {}
    )


# Git's view of a folder: tracked files, and untracked ones that it does not ignore.
#
# The git program itself is asked, because only git implements all of its ignore rules and reads its index,
# and a tracked file is never ignored. It must not read the configuration of the checked repository, because
# that can name programs to run (`core.fsmonitor`, `core.sshCommand`, `remote.*.uploadpack`). It therefore
# runs on an empty repository that we create, with the index and the ignore rules of the real one. For the
# same reason an embedded bare repository is not found.

_COMMAND = (
    *("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.hooksPath="),
    *("-c", "safe.bareRepository=explicit"),
    # `git init` would detect this; these systems have case-insensitive file systems by default.
    *("-c", f"core.ignoreCase={str(sys.platform in ('darwin', 'win32')).lower()}"),
)
_SAFE_ENVIRONMENT = {
    # A partial clone fetches missing objects on demand; a check must not access the network.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_USER_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Environment variables of git that are passed on: the location of the user's own configuration."""
GIT_TIMEOUT = 30.0
"""Seconds to wait for git, which a named pipe called `.gitignore` would block forever."""
_MAX_LINK_LENGTH = 4096


class GitListing:
    """The files below a folder that git tracks or would track."""

    def __init__(self, folder: str, names: list[str]) -> None:
        base = os.path.join(folder, "")
        paths, nested = set[str](), set[str]()
        for name in names:
            path = name.rstrip("/")
            if path != name:
                nested.add(base + path)
            while path and base + path not in paths:  # folders too: git lists files only
                paths.add(base + path)
                path = path.rpartition("/")[0]
        self._paths = {*map(_folded_path, paths)} if _IS_FOLDED else paths
        self._nested = {*map(_folded_path, nested)} if _IS_FOLDED else nested

    def lists_path(self, path: str) -> bool:
        """Return whether git lists a file, or any file in a folder."""
        return (_folded_path(path) if _IS_FOLDED else path) in self._paths

    def is_nested_repository(self, path: str) -> bool:
        """Return whether a folder is a repository of its own, whose files the listing omits."""
        is_nested = (_folded_path(path) if _IS_FOLDED else path) in self._nested
        return is_nested or os.path.lexists(os.path.join(path, ".git"))


_IS_FOLDED = sys.platform in ("darwin", "win32")
"""Whether git and the file system may spell the path to a file differently."""


def _folded_path(path: str) -> str:
    """Normalize a path so that all spellings that name the same file on Windows and macOS become equal.

    Git writes slashes on every system, and keeps the case in which a file was added. On macOS it composes accented
    letters, which older file systems store decomposed.
    """
    from unicodedata import normalize

    return normalize("NFC", os.path.normcase(path)).lower()


class GitFileLister:
    """Lists the files of folders with git, which is not called again after a first timeout."""

    def __init__(self, note: Callable[[str], object] = str) -> None:
        self._note = note
        self._answers = True

    def list_folder(self, folder: str) -> GitListing | None:
        """Return the files that git lists below a folder, or None outside a repository or if it is ignored."""
        top = repository_root(os.path.abspath(folder))
        store = None if top is None else _git_directory(top)
        program = _git_executable(top) if top is not None and store is not None and self._answers else None
        if top is None or store is None or program is None:
            return None
        import subprocess
        import tempfile

        try:
            with tempfile.TemporaryDirectory(prefix="dsconfig-") as git_dir:
                index = _create_shadow_repository(store, git_dir)
                for extra in (index, {}) if index else ({},):  # git may fail to read the index
                    git = subprocess.run(
                        [program, *_COMMAND, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--", "."],
                        cwd=folder,
                        env={
                            **_environment_without_git(),
                            **_SAFE_ENVIRONMENT,
                            "GIT_DIR": git_dir,
                            "GIT_WORK_TREE": top,
                            **extra,
                        },
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        check=False,
                        timeout=GIT_TIMEOUT,
                    )
                    if git.returncode == 0:
                        break
        except subprocess.TimeoutExpired:
            self._answers = False
            self._note(f"git did not answer within {GIT_TIMEOUT:g} seconds; checking ignored files too")
            return None
        except OSError:
            return None
        names = os.fsdecode(git.stdout).split("\0")[:-1]
        return GitListing(folder, names) if git.returncode == 0 and names else None


def _git_executable(top: str) -> str | None:
    """Return the path to git in PATH, but never one inside the repository being checked."""
    name = "git.exe" if os.name == "nt" else "git"
    untrusted = {_real_path_prefix(top), _real_path_prefix(os.curdir)}
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if not os.path.isabs(folder) or not (os.path.isfile(path) and os.access(path, os.X_OK)):
            continue
        prefix = _real_path_prefix(folder)
        # Every program is below the root directory, so the root cannot be barred.
        if not any(prefix.startswith(each) for each in untrusted if each != os.path.dirname(each)):
            return path
    return None


def _real_path_prefix(folder: str) -> str:
    """Return the prefix that the real paths of everything in a folder share."""
    return os.path.normcase(os.path.join(os.path.realpath(folder), ""))


def _environment_without_git() -> dict[str, str]:
    """Return the environment without variables such as `GIT_DIR`, which git sets for hooks."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _USER_VARIABLES
    }


def _git_directory(top: str) -> str | None:
    """Return the git directory of a repository, or None if `.git` is missing or empty."""
    path = os.path.join(top, ".git")
    path = (
        _folder_named_in_file(path, r"gitdir: (.*)") or path
    )  # a linked worktree or submodule has a `.git` file
    return path if os.path.lexists(os.path.join(path, "HEAD")) else None


def _create_shadow_repository(source: str, git_dir: str) -> dict[str, str]:
    """Create an empty repository with the ignore rules of `source`; return variables that select its index."""
    for name in ("objects", "refs", "info"):
        os.mkdir(os.path.join(git_dir, name))
    shared = _folder_named_in_file(os.path.join(source, "commondir"), r"(.*)") or source
    config = "[core]\n\trepositoryformatversion = 0\n"
    if re.search(
        rb"(?im)^[ \t]*objectformat\s*=\s*\"?sha256",
        _read_limited(os.path.join(shared, "config"), _MAX_CONFIG_SIZE),
    ):
        config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
    excluded = _read_limited(os.path.join(shared, "info", "exclude"), _MAX_CONFIG_SIZE)
    files = {"HEAD": b"ref: refs/heads/main\n", "config": config.encode(), "info/exclude": excluded}
    for name, data in files.items():
        with open(os.path.join(git_dir, name), "xb") as file:
            file.write(data)
    index = os.path.join(source, "index")
    try:
        return {"GIT_INDEX_FILE": os.path.abspath(index)} if stat.S_ISREG(os.stat(index).st_mode) else {}
    except OSError:
        return {}


def _folder_named_in_file(path: str, pattern: str) -> str | None:
    """Return the folder named in a one-line file such as `gitdir: FOLDER`."""
    match = re.fullmatch(pattern, os.fsdecode(_read_limited(path, _MAX_LINK_LENGTH)).rstrip("\r\n"))
    return os.path.join(os.path.dirname(path), match[1]) if match and "\0" not in match[1] else None


def _read_limited(path: str, limit: int) -> bytes:
    try:
        return read_contents(path, limit)[:limit]
    except (OSError, ValueError):
        return b""
