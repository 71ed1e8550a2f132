"""DeepSpeed releases: their order, ranges of releases, and the installed release.

A release is written `0.19.8` for users and is an integer inside (`number`), because every key and rule
compares releases.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

from dsconfig.core.json_types import NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

_SERIES = (
    ("0.3", "1 2 3 4 5 6 7 8 9 10 12 13 14 15 16"),
    ("0.4", "0 1 2 3 4 5"),
    ("0.5", "0 1 2 3 4 5 6 7 8 9 10"),
    ("0.6", "0 1 3 4 5 6 7"),
    ("0.7", "0 1 2 3 4 5 6 7"),
    ("0.8", "0 1 2 3"),
    ("0.9", "0 1 2 3 4 5"),
    ("0.10", "0 1 2 3"),
    ("0.11", "0 1 2"),
    ("0.12", "0 1 2 3 4 5 6"),
    ("0.13", "0 1 2 3 4 5"),
    ("0.14", "0 1 2 3 4 5"),
    ("0.15", "0 1 2 3 4"),
    ("0.16", "0 1 2 3 4 5 6 7 8 9"),
    ("0.17", "0 1 2 3 4 5 6"),
    ("0.18", "0 1 2 3 4 5 6 7 8 9"),
    ("0.19", "0 1 2 3 4 5 6 7 8"),
)
RELEASES: tuple[str, ...] = tuple(
    [f"{series}.{patch}" for series, patches in _SERIES for patch in patches.split()]
)
"""All DeepSpeed releases on the package index, oldest first."""

LATEST = RELEASES[-1]
NEVER = 10**9
"""A number greater than every release: the end of an open interval."""


class ReleaseInterval(NamedTuple):
    """A range of consecutive releases as two release numbers, both inclusive."""

    first: int = 0
    last: int = NEVER

    def __contains__(self, release: object) -> bool:
        return isinstance(release, int) and self.first <= release <= self.last

    def intersect(self, other: ReleaseInterval) -> ReleaseInterval:
        """Return the intersection of two intervals."""
        if self.first >= other.first and self.last <= other.last:
            return self
        return ReleaseInterval(max(self.first, other.first), min(self.last, other.last))

    def releases_on_same_side(self, release: int) -> ReleaseInterval:
        """Return the releases on the same side of this interval as `release`: inside, before or after it."""
        if release < self.first:
            return ReleaseInterval(last=self.first - 1)
        return self if release <= self.last else ReleaseInterval(self.last + 1)


EVERY_RELEASE = ReleaseInterval()


Origin: TypeAlias = "Literal['argument', 'environment', 'file', 'settings', 'pin', 'installed', 'latest']"


class UnknownReleaseError(ValueError):
    """A target matches no release; the one-line message lists the accepted forms."""


class ReleaseTarget(NamedTuple):
    """The releases against which a config is checked, oldest first, and where they were specified."""

    releases: tuple[str, ...]
    text: str
    origin: Origin
    note: str | None = None
    """A note for the user, for example that a newer release is checked as the newest known release."""
    source: str = ""
    """The file that pins the releases; empty if the target comes from anywhere else."""


def release_number(release: str) -> int:
    """Convert a release such as `0.19.8` to an integer (19008) that sorts in release order.

    Raises:
        ValueError: `release` is not three numbers joined by dots.
    """
    major, minor, patch = release.split(".")
    return int(major) * 1_000_000 + int(minor) * 1_000 + int(patch)


def release_name(value: int) -> str:
    """Convert a release number such as 19008 back to its name, `0.19.8`."""
    return f"{value // 1_000_000}.{value // 1_000 % 1_000}.{value % 1_000}"


NUMBERS: dict[str, int] = {release: release_number(release) for release in RELEASES}


PYDANTIC_2 = release_number("0.15.0")
"""First release whose models use pydantic 2; up to 0.14.5, pydantic 1 (runtime/config_utils.py, pydantic_v1.py)."""


def resolve_target(text: str | None, origin: Origin = "argument") -> ReleaseTarget:
    """Return the releases that `text` selects: a release, a range (`>=0.14,<0.19.8`), `installed` or `latest`.

    If `text` is None, return the release of the installed DeepSpeed, or else the latest known release.

    Raises:
        UnknownReleaseError: no release of the package index matches.
    """
    if text is None:
        return _installed_target(fallback=True)
    if not isinstance(text, str):
        raise UnknownReleaseError(f"unknown DeepSpeed release {text!r}: expected text such as {LATEST!r}")
    text = text.strip()
    if text == "installed":
        return _installed_target(fallback=False)
    if text == "latest":
        return ReleaseTarget((LATEST,), text, origin)
    if text in NUMBERS:
        return ReleaseTarget((text,), text, origin)
    return (
        _target_of_range(text, origin)
        if any(c in text for c in "<>=!~,*")
        else _target_of_one_release(text, origin)
    )


def _target_of_one_release(text: str, origin: Origin) -> ReleaseTarget:
    parts = text.removeprefix("v").split("+")[0].split(".")
    if not all(part.isdecimal() and len(part) < 6 for part in parts) or not 1 < len(parts) <= 3:
        raise UnknownReleaseError(
            f"unknown DeepSpeed release `{text}`: expected a release such as `{LATEST}`, a range such as "
            f"`>=0.14,<{LATEST}`, `latest` or `installed`"
        )
    if len(parts) == 2:  # a series means its newest release
        series = [r for r in RELEASES if r.split(".")[:2] == parts]
        if series:
            return ReleaseTarget(
                (series[-1],), text, origin, f"{text} means its newest release, {series[-1]}"
            )
        parts.append("0")
    release = ".".join(str(int(part)) for part in parts)
    if release in NUMBERS:
        return ReleaseTarget((release,), release, origin)
    if release_number(release) > NUMBERS[LATEST]:
        if origin != "installed" and not _is_release_installed(release):
            raise UnknownReleaseError(
                f"unknown DeepSpeed release `{text}`: the latest known to this version of dsconfig is `{LATEST}`"
            )
        return ReleaseTarget(
            (LATEST,),
            release,
            origin,
            f"{release} is newer than every release that dsconfig knows; checking it as {LATEST}",
        )
    closest = min(RELEASES, key=lambda each: abs(NUMBERS[each] - release_number(release)))
    raise UnknownReleaseError(
        f"unknown DeepSpeed release `{text}`: it is not on the package index; the nearest is `{closest}`"
    )


def specifier_allows(specifier: str, version: str) -> bool:
    """Return whether a version specifier (PEP 440) allows a version; an invalid specifier allows none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return version in SpecifierSet(specifier)
    except InvalidSpecifier:
        return False


def _is_release_installed(release: str) -> bool:
    version = installed_version("deepspeed")
    return version is not None and version.split("+")[0] == release


def _target_of_range(text: str, origin: Origin) -> ReleaseTarget:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        raise UnknownReleaseError(
            f"`{text}` is not a range of DeepSpeed releases: expected a range such as `>=0.14,<{LATEST}`"
        ) from None
    releases = tuple(release for release in RELEASES if release in specifier)
    if not releases:
        raise UnknownReleaseError(
            f"no DeepSpeed release matches `{text}`: the releases go from {RELEASES[0]} to {LATEST}"
        )
    return ReleaseTarget(releases, text, origin)


def _installed_target(*, fallback: bool) -> ReleaseTarget:
    version = installed_version("deepspeed")
    if version is not None:
        return _nearest_release_to_installed(version)
    if fallback:
        return ReleaseTarget((LATEST,), LATEST, "latest")
    raise UnknownReleaseError(
        f"DeepSpeed is not installed: install it, or name a release such as `--target {LATEST}`"
    )


def installed_version(package: str) -> str | None:
    """Return the version of an installed package from its metadata, without importing the package.

    The folders of `sys.path` are listed directly, because importing importlib.metadata costs more than a check. A
    folder is listed again once it has changed, because a language server keeps running while packages are installed.
    """
    versions = (_version_in_folder(folder or os.curdir, package) for folder in sys.path)
    return next((version for version in versions if version is not None), None)


def _version_in_folder(folder: str, package: str) -> str | None:
    """Return the version of the package installed in a folder, or None if it is not there."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return _version_listed_in_folder(folder, package, status.st_dev, status.st_ino, status.st_mtime_ns)


@lru_cache(
    maxsize=64
)  # a folder may have hundreds of entries, and each config asks for the installed DeepSpeed
def _version_listed_in_folder(folder: str, package: str, *_: int) -> str | None:
    prefix = f"{package}-"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for entry in names:
        if entry.startswith(prefix) and entry.endswith((".dist-info", ".egg-info")):
            version = entry[len(prefix) :].rpartition(".")[0].partition("-")[0]
            if version[:1].isdigit():
                return version
    return None


def _nearest_release_to_installed(version: str) -> ReleaseTarget:
    """Map a development build (`0.17.0.dev3`, `0.18.9+abc`) to the newest release that is not later."""
    try:
        return _target_of_one_release(version, "installed")
    except UnknownReleaseError:
        pass
    digits = re.findall(r"\d+", version)[:3]
    installed = release_number(".".join(digits)) if len(digits) == 3 else 0
    release = next((r for r in reversed(RELEASES) if NUMBERS[r] <= installed), RELEASES[0])
    return ReleaseTarget((release,), version, "installed", f"the installed {version} is checked as {release}")
