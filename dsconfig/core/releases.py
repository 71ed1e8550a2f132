"""The DeepSpeed releases on the package index: their order, ranges of them, and which one is installed.

A release is written `0.19.8` outside and is a number inside (`number`), so that comparing releases, which
every key and rule does, is comparing integers.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Literal

from dsconfig.core.json_types import NamedTuple

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
"""Every release on the package index, oldest first."""

LATEST = RELEASES[-1]
NEVER = 10**9
"""Greater than every release's number: the last one of an interval that is still open."""


class Interval(NamedTuple):
    """Releases in a row, by their numbers, both ends included."""

    first: int = 0
    last: int = NEVER

    def __contains__(self, release: object) -> bool:
        return isinstance(release, int) and self.first <= release <= self.last

    def meet(self, other: Interval) -> Interval:
        """The releases that lie in both."""
        if self.first >= other.first and self.last <= other.last:
            return self
        return Interval(max(self.first, other.first), min(self.last, other.last))

    def side(self, release: int) -> Interval:
        """The releases on the release's side of both ends: these, all before them, or all after."""
        if release < self.first:
            return Interval(last=self.first - 1)
        return self if release <= self.last else Interval(self.last + 1)


EVERY_RELEASE = Interval()


Origin = Literal["argument", "environment", "file", "settings", "pin", "installed", "latest"]


class UnknownReleaseError(ValueError):
    """A target that names no release; the message is one line and says what would be accepted."""


class Target(NamedTuple):
    """The releases a config is checked against, oldest first, and how they were chosen."""

    releases: tuple[str, ...]
    text: str
    origin: Origin
    note: str | None = None
    """What the user should know of the choice, for example that a newer release is taken as the newest known.
    """
    source: str = ""
    """The file that pins the releases; empty for any other origin."""


def number(release: str) -> int:
    """`0.19.8` → 19008. Order of numbers is order of releases.

    Raises:
        ValueError: the text is not three numbers joined by dots.
    """
    major, minor, patch = release.split(".")
    return int(major) * 1_000_000 + int(minor) * 1_000 + int(patch)


def name(value: int) -> str:
    """The release with this number: 19008 → `0.19.8`."""
    return f"{value // 1_000_000}.{value // 1_000 % 1_000}.{value % 1_000}"


NUMBERS: dict[str, int] = {release: number(release) for release in RELEASES}


PYDANTIC_2 = number("0.15.0")
"""DeepSpeed's models are pydantic 1 models up to 0.14.5 (runtime/config_utils.py, pydantic_v1.py), then pydantic 2."""


def resolve(text: str | None, origin: Origin = "argument") -> Target:
    """The releases that `text` means: one release, a range such as `>=0.14,<0.19.8`, `installed`, or None.

    None means the installed DeepSpeed where there is one, else the latest release known here.

    Raises:
        UnknownReleaseError: no release of the package index matches.
    """
    if text is None:
        return _installed(fallback=True)
    if not isinstance(text, str):
        raise UnknownReleaseError(f"unknown DeepSpeed release {text!r}: expected text such as {LATEST!r}")
    text = text.strip()
    if text == "installed":
        return _installed(fallback=False)
    if text == "latest":
        return Target((LATEST,), text, origin)
    if text in NUMBERS:
        return Target((text,), text, origin)
    return _range(text, origin) if any(c in text for c in "<>=!~,*") else _single(text, origin)


def _single(text: str, origin: Origin) -> Target:
    parts = text.removeprefix("v").split("+")[0].split(".")
    if not all(part.isdecimal() and len(part) < 6 for part in parts) or not 1 < len(parts) <= 3:
        raise UnknownReleaseError(
            f"unknown DeepSpeed release `{text}`: expected a release such as `{LATEST}`, a range such as "
            f"`>=0.14,<{LATEST}`, `latest` or `installed`"
        )
    if len(parts) == 2:  # a series stands for its newest release
        series = [r for r in RELEASES if r.split(".")[:2] == parts]
        if series:
            return Target((series[-1],), text, origin, f"{text} is taken as its newest release, {series[-1]}")
        parts.append("0")
    wanted = ".".join(str(int(part)) for part in parts)
    if wanted in NUMBERS:
        return Target((wanted,), wanted, origin)
    if number(wanted) > NUMBERS[LATEST]:
        if origin != "installed" and not _is_installed(wanted):
            raise UnknownReleaseError(
                f"unknown DeepSpeed release `{text}`: the latest known here is `{LATEST}`"
            )
        return Target(
            (LATEST,),
            wanted,
            origin,
            f"{wanted} is newer than every release known here and is checked as {LATEST}",
        )
    nearest = min(RELEASES, key=lambda release: abs(NUMBERS[release] - number(wanted)))
    raise UnknownReleaseError(
        f"unknown DeepSpeed release `{text}`: it is not on the package index; the nearest is `{nearest}`"
    )


def allows(specifier: str, version: str) -> bool:
    """Whether a version specifier (PEP 440) allows a version; text that is no specifier allows nothing."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return version in SpecifierSet(specifier)
    except InvalidSpecifier:
        return False


def _is_installed(release: str) -> bool:
    found = version_installed("deepspeed")
    return found is not None and found.split("+")[0] == release


def _range(text: str, origin: Origin) -> Target:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        raise UnknownReleaseError(
            f"`{text}` is not a range of DeepSpeed releases: write it like `>=0.14,<{LATEST}`"
        ) from None
    found = tuple(release for release in RELEASES if release in specifier)
    if not found:
        raise UnknownReleaseError(
            f"no DeepSpeed release matches `{text}`: the releases go from {RELEASES[0]} to {LATEST}"
        )
    return Target(found, text, origin)


def _installed(*, fallback: bool) -> Target:
    found = version_installed("deepspeed")
    if found is not None:
        return _nearest_to_installed(found)
    if fallback:
        return Target((LATEST,), LATEST, "latest")
    raise UnknownReleaseError(
        f"DeepSpeed is not installed here: give a release instead, for example `--target {LATEST}`"
    )


def version_installed(package: str) -> str | None:
    """The version in the metadata of an installed package, which itself is never imported.

    The folders of `sys.path` are listed here rather than through importlib.metadata, whose import costs more
    than a check.
    """
    begin = f"{package}-"
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for entry in names:
            if entry.startswith(begin) and entry.endswith((".dist-info", ".egg-info")):
                version = entry[len(begin) :].rpartition(".")[0].partition("-")[0]
                if version[:1].isdigit():
                    return version
    return None


def _nearest_to_installed(found: str) -> Target:
    """Development builds (`0.17.0.dev3`, `0.18.9+abc`) count as the newest release that is not later."""
    try:
        return _single(found, "installed")
    except UnknownReleaseError:
        pass
    digits = re.findall(r"\d+", found)[:3]
    wanted = number(".".join(digits)) if len(digits) == 3 else 0
    release = next((r for r in reversed(RELEASES) if NUMBERS[r] <= wanted), RELEASES[0])
    return Target((release,), found, "installed", f"the installed {found} is checked as {release}")
