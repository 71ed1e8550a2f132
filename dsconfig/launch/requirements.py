"""Determine package versions from a repository's requirements, lock files and images, or from the installation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.file_access import may_read_file, read_contents, relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import installed_version, specifier_allows
from dsconfig.launch.repository_files import project_root, time_cache_key

# Nothing is executed or resolved: a requirement is a literal line of a file.

_MAX_LOCK_FILE = 4 << 20
"""Maximum size of a lock file in bytes; larger files are skipped. Lock files of large projects have 2 MiB."""
_MAX_FILES = 20
_MAX_LINE = 4096
"""Maximum length of a line; longer lines are generated, and searching them takes quadratic time."""
_LOCK_FILES = frozenset(("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"))
_PROJECT_FILES = frozenset(("pyproject.toml", "Pipfile", "pixi.toml"))
"""Names of files with a table that maps packages to versions."""
_FILES = (
    r"[\w.-]*requirements[\w.-]*\.(?:txt|in)|constraints[\w.-]*\.txt|pyproject\.toml|Pipfile|pixi\.toml|setup\.(?:py|cfg)"
    r"|environment[\w.-]*\.ya?ml|conda[\w.-]*\.ya?ml|(?:[\w.-]+\.)?Dockerfile[\w.-]*|Containerfile"
)
_INSTALL_SCRIPTS = r"(?:[\w.-]*[_-])?(?:setup|install|env|environment|build)(?:[_-][\w.-]*)?\.(?:sh|bash)"
"""Pattern of scripts with `pip install`, which small projects have instead of a requirements file."""
_INCLUDE = rb"(?m)^[ \t]*(?:-r|-c|--requirement|--constraint)(?:[ \t]+|=)[\"']?([^\s\"'#]+)"
"""Pattern of a line that includes another file in a requirements file."""
_MAX_INCLUDE_DEPTH = 4
_OPERATOR = r"(?:===|==|~=|!=|<=|>=|<|>)"
_CLAUSE = rf"{_OPERATOR}\s*v?[0-9][\w.*+!]*"


class VersionRequirement(NamedTuple):
    """The version of a package that a repository requires."""

    specifier: str
    """A version specifier as pip reads it (PEP 440): `==0.14.5`, `>=0.14,<0.16`."""
    source: str
    """File and line of the requirement: `requirements.txt:3`."""

    @property
    def exact_version(self) -> str | None:
        """The only allowed version, or None if several versions are allowed."""
        match = re.fullmatch(r"===?\s*v?([0-9][\w.+!]*)", self.specifier)
        return match[1] if match else None

    @property
    def installed_version(self) -> str | None:
        """The version that pip would likely install, from `==`, `~=` or `<=`; None without such a clause."""
        match = re.search(r"(?:^|,)(?:===?|~=|<=)(\d+(?:\.\d+){0,2})", self.specifier)
        return match[1] if match else None

    @property
    def has_lower_bound(self) -> bool:
        """Whether a lower bound excludes old releases; with only `<0.15`, pip installs the newest allowed release."""
        return any(clause.startswith(("==", "~=", ">")) for clause in self.specifier.split(","))

    @property
    def shown_requirement(self) -> str:
        """The requirement and its source, formatted for messages: `0.14.5 (requirements.txt:3)`."""
        return f"{self.exact_version or self.specifier} ({self.source})"


class DirectoryRequirements(NamedTuple):
    """The version requirements for one package in the files of a directory."""

    requirements: tuple[VersionRequirement, ...]

    @property
    def agreed_requirement(self) -> VersionRequirement | None:
        """The requirement that satisfies all files, or None if they contradict each other."""
        specifiers = {each.specifier: each for each in self.requirements}
        if len(specifiers) == 1:
            return self.requirements[0]
        exact = {each.exact_version: each for each in self.requirements if each.exact_version}
        versions = [version for version in exact if version is not None and self._all_allow_version(version)]
        return exact[versions[0]] if len(exact) == 1 and versions else None

    def _all_allow_version(self, version: str) -> bool:
        return all(specifier_allows(each.specifier, version) for each in self.requirements)


def find_requirements(package: str, name: str) -> DirectoryRequirements | None:
    """Find the version of a package that the repository of a file requires.

    The nearest directory with a requirement decides. In that directory a lock file takes precedence, because its
    versions are installed. A requirement without a version is ignored.

    Args:
        package: name of the distribution: `deepspeed`.
        name: path of the config; text without a path (`<stdin>`) has no repository.
    """
    if name.startswith("<") or not name:
        return None
    folder = os.path.dirname(os.path.abspath(name))
    top = project_root(folder)
    while True:
        if requirements := _requirements_in_folder(folder, package, time_cache_key()):
            return DirectoryRequirements(requirements)
        if top is None or folder in (top, os.path.dirname(folder)):
            return None
        folder = os.path.dirname(folder)


@lru_cache(maxsize=64)
def _requirements_in_folder(folder: str, package: str, _: int) -> tuple[VersionRequirement, ...]:
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    locks = sorted(_LOCK_FILES.intersection(names))
    others = _matching(_FILES, names)
    nested = [os.path.join("requirements", each) for each in _requirement_folder(folder, names)]
    for group in (locks, others, nested, _matching(_INSTALL_SCRIPTS, names)):
        requirements = [
            each for entry in group for each in _requirements_in_file(os.path.join(folder, entry), package)
        ]
        if requirements:
            return tuple(requirements)
    return ()


def _matching(pattern: str, names: list[str]) -> list[str]:
    """Return the first names that match a pattern, shortest first."""
    return sorted(filter(re.compile(pattern).fullmatch, names), key=lambda each: (len(each), each))[
        :_MAX_FILES
    ]


def _requirement_folder(folder: str, names: list[str]) -> list[str]:
    """Return the text files in the subfolder `requirements`, which larger projects have instead of a single file."""
    try:
        nested = os.listdir(os.path.join(folder, "requirements")) if "requirements" in names else []
    except OSError:
        nested = []
    return _matching(r"[\w.-]+\.(?:txt|in)", nested)


def _requirements_in_file(
    path: str, package: str, origin: str = "", depth: int = 0
) -> list[VersionRequirement]:
    """Return the requirements in a file and in the requirements files that it includes.

    `origin` is the file that includes this one, if any.
    """
    if not may_read_file(path, origin or path):
        return []
    try:
        data = read_contents(path, _MAX_LOCK_FILE)
    except OSError:
        return []
    included = []
    if path.endswith((".txt", ".in")) and depth < _MAX_INCLUDE_DEPTH:
        for match in re.findall(_INCLUDE, data)[:_MAX_FILES]:
            target = os.path.join(os.path.dirname(path), match.decode("utf-8", "replace"))
            if target.endswith((".txt", ".in")) and os.path.basename(target) != os.path.basename(path):
                included += _requirements_in_file(os.path.normpath(target), package, path, depth + 1)
    if package.encode() not in data.lower():
        return included
    text, name = data.decode("utf-8", "replace"), os.path.basename(path)
    if name == "Pipfile.lock":
        versions = _pipfile_lock_versions(text, package)
    elif name in _LOCK_FILES:
        versions = _lock_file_versions(text, package)
    elif name in _PROJECT_FILES:
        versions = _project_file_requirements(text, package)
    else:
        versions = _requirements_in_lines(text, package, conda=name.endswith((".yml", ".yaml")))
    display_path = relative_path(path)
    distinct = {
        specifier: VersionRequirement(specifier, f"{display_path}:{line}")
        for line, specifier in reversed(list(versions))
    }
    return [*reversed(distinct.values()), *included]


def _lock_file_versions(text: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield the versions of a package in a lock file of uv, Poetry or PDM, where the version follows the name."""
    pattern = rf'(?m)^name = "{re.escape(package)}"\r?\nversion = "([^"\n]+)"'
    line = last = 0
    for match in re.finditer(pattern, text):
        line += text.count("\n", last, match.start())
        last = match.start()
        yield line + 2, f"=={match[1]}"


def _pipfile_lock_versions(text: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield the versions of a package in `Pipfile.lock`, which maps each package to hashes and a version."""
    pattern = rf'"{re.escape(package)}":\s*\{{[^{{}}]*?"version":\s*"(==[^"\n]+)"'
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def _requirement_pattern(package: str) -> re.Pattern[str]:
    """Return the pattern of a requirement: name, extras, and at least one version clause."""
    name = re.escape(package)
    extras = r"(?:\[[\w,\s.-]*\])?"
    return re.compile(
        rf"(?<![\w./@-]){name}{extras}\s*(?:\(\s*)?({_CLAUSE}(?:\s*,\s*{_CLAUSE})*)", re.IGNORECASE
    )


def _requirements_in_lines(text: str, package: str, *, conda: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the requirements in a requirements file, `setup.cfg`, strings of `setup.py`, or `pip install` commands."""
    pattern = _requirement_pattern(package)
    git_pattern = re.compile(rf"(?<![\w./-]){re.escape(package)}\s*@\s*git\+(\S+)", re.IGNORECASE)
    conda_pin = rf"^\s*-\s*[\"']?(?:[\w-]+::)?{re.escape(package)}\s*=\s*(\d[\w.*]*)"  # one `=`
    conda_pattern = re.compile(conda_pin)
    for number, line in enumerate(text.splitlines(), 1):
        if package not in line.lower() or line.lstrip().startswith("#") or len(line) > _MAX_LINE:
            continue
        code = line.partition(" #")[0]
        for match in pattern.finditer(code):
            yield number, _normalize_specifier(match[1])
        for match in git_pattern.finditer(code):
            if tag := re.search(r"@v?(\d+\.\d+\.\d+)\b", match[1]):
                yield number, f"=={tag[1]}"
        if conda and (pinned := conda_pattern.match(code)):
            # conda's `name=1.2` means any 1.2.x; a version with three numbers is exactly one release of
            # DeepSpeed.
            version = pinned[1].removesuffix(".*").removesuffix("*")
            yield number, f"=={version}" if version.count(".") >= 2 else f"=={version}.*"


def _project_file_requirements(text: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield the requirements in `pyproject.toml` (PEP 621, PEP 735, Poetry), `Pipfile` or `pixi.toml`."""
    yield from _requirements_in_lines(text, package)
    key = re.compile(rf"^\s*[\"']?{re.escape(package)}[\"']?\s*=\s*(.+)$", re.IGNORECASE)
    version = re.compile(r"[\"']([^\"']+)[\"']")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE or not (match := key.match(line.partition(" #")[0])):
            continue
        value = match[1].strip()
        if value.startswith("{"):  # Poetry: `deepspeed = { version = "^0.14", optional = true }`
            version_match = re.search(r"\bversion\s*=\s*([\"'][^\"']+[\"'])", value)
            value = version_match[1] if version_match else ""
        if constraint := version.match(value):
            specifier = _convert_poetry_constraint(constraint[1])
            if specifier:
                yield number, specifier


def _convert_poetry_constraint(text: str) -> str:
    """Convert a Poetry constraint to a version specifier; empty if the constraint sets no clear limit.

    A caret fixes the first nonzero number, a tilde the minor version; a bare version is exact. Source: Poetry's
    documentation, "Dependency specification".
    """
    clauses = [_convert_poetry_clause(part.strip()) for part in text.split(",")]
    return ",".join(clauses) if all(clauses) else ""


def _convert_poetry_clause(text: str) -> str:
    match = re.fullmatch(r"(\^|~|)v?(\d+(?:\.\d+)*(?:\.\*)?)", text)
    if match is None:
        return _normalize_specifier(text) if re.fullmatch(_CLAUSE, text) else ""
    sign, version = match.groups()
    if not sign:
        return f"=={version}"
    numbers = [int(part) for part in version.split(".") if part != "*"]
    if sign == "^":
        last_fixed = next((at for at, each in enumerate(numbers) if each), len(numbers) - 1)
    else:
        last_fixed = min(1, len(numbers) - 1)
    upper = [*numbers[:last_fixed], numbers[last_fixed] + 1]
    return f">={version},<{'.'.join(map(str, upper))}"


def _normalize_specifier(specifier: str) -> str:
    """Return a version specifier without spaces, and without a `v` before versions."""
    return re.sub(r"(?<=[=<>~])v(?=\d)", "", re.sub(r"\s+", "", specifier))


# Version of a consumer that a repository pins, or that is installed.


def consumer_version(consumer: str, name: str) -> tuple[str, str] | None:
    """Return the version of a config's consumer, and where it was found, or None if unknown.

    A pin in the nearest directory of the repository takes precedence over the installed version.
    """
    if (pinned := pinned_consumer_version(consumer, name)) is not None:
        return pinned
    version = installed_version(consumer)
    return None if version is None else (version, "as installed")


def pinned_consumer_version(consumer: str, name: str) -> tuple[str, str] | None:
    """Return the version of the consumer in the pin nearest to a config, with its source, or None if it is not pinned.

    `<=` counts as a pin, because pip installs the newest version that it allows.
    """
    requirements = find_requirements(consumer, name)
    agreed = requirements and requirements.agreed_requirement
    if not agreed or (version := agreed.installed_version) is None:
        return None
    return version, f"of {agreed.source.rpartition(':')[0] or agreed.source}"
