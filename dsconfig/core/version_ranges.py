"""Parse version specifiers to ranges of versions, and compare ranges."""

from __future__ import annotations

import re

from dsconfig.core.json_types import NamedTuple

# `packaging` answers whether one version is allowed, not whether all allowed versions are affected. Importing it
# would also cost more than a check.

Version = tuple[int, ...]
_UNLIMITED: Version = (10**9,)
_CLAUSE = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?[\w.+!-]*")


class VersionRange(NamedTuple):
    """The versions from `first` (inclusive) to `end` (exclusive)."""

    first: Version = ()
    end: Version = _UNLIMITED

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.first <= version < self.end

    def is_within(self, other: VersionRange) -> bool:
        """Return whether another range contains every version of this one."""
        return other.first <= self.first and self.end <= other.end

    def overlaps(self, other: VersionRange) -> bool:
        """Return whether any version is in both ranges."""
        return max(self.first, other.first) < min(self.end, other.end)


def version_numbers(version: str) -> Version:
    """Return the numbers in a version without trailing zeros: `2.4.0+cu121` → `(2, 4)`.

    A pre-release is treated as the release that it precedes.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    numbers = [int(part) for part in match[1].split(".")] if match else []
    return _strip_trailing_zeros(numbers)


def parse_version_range(specifier: str) -> VersionRange:
    """Return the smallest range that contains every version allowed by a specifier (PEP 440).

    `!=` and unknown operators do not limit the range.
    """
    first: Version = ()
    end = _UNLIMITED
    for operator, text, wildcard in _CLAUSE.findall(specifier):
        low, high = _range_of_clause(operator, [int(part) for part in text.split(".")], bool(wildcard))
        first, end = max(first, low), min(end, high)
    return VersionRange(first, end)


def _range_of_clause(operator: str, numbers: list[int], wildcard: bool) -> tuple[Version, Version]:
    version = _strip_trailing_zeros(numbers)
    match operator:
        case "==" | "===":
            return version, _first_version_of_next_series(numbers) if wildcard else _least_version_above(
                version
            )
        case "~=":
            return version, _first_version_of_next_series(numbers[:-1] or numbers)
        case ">=":
            return version, _UNLIMITED
        case ">":
            return _least_version_above(version), _UNLIMITED
        case "<":
            return (), version
        case "<=":
            return (), _least_version_above(version)
        case _:
            return (), _UNLIMITED


def _strip_trailing_zeros(numbers: list[int]) -> Version:
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return tuple(numbers)


def _first_version_of_next_series(numbers: list[int]) -> Version:
    """Return the version at which the next series starts: `2.4` → `2.5`."""
    return _strip_trailing_zeros([*numbers[:-1], numbers[-1] + 1])


def _least_version_above(version: Version) -> Version:
    """Return a version just above the given one that no release has, such as `2.4.0.0.0.1` for `2.4`."""
    return (*version, *[0] * (5 - len(version)), 1)
