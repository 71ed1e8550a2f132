"""How elasticity differs between DeepSpeed releases, in named ranges of releases.

Source: `elasticity/elasticity.py` and `elasticity/config.py` of every release tag from 0.3.9 to 0.19.7.
"""

from __future__ import annotations

from typing import NamedTuple

from elastic.errors import ElasticityError


class ElasticitySemantics(NamedTuple):
    """The behavior of a range of DeepSpeed releases, named after its first release."""

    name: str
    until: str
    """Last DeepSpeed release of the range."""
    summary: str
    latest_version: float
    """Highest supported `elasticity.version`, which is also the default."""
    small_cap_error: type[Exception]
    """Type of the error that the releases raise if a micro batch is larger than the cap."""
    parts_compared: bool = False
    """Whether major, minor and patch of the target release are compared separately."""
    keeps_to_cap: bool = False
    """Whether a least common multiple above the cap is dropped from the candidates."""
    reads_world_size: bool = False
    """Whether v0.1 reads an unset world size from `WORLD_SIZE` to choose a micro batch."""


SEMANTICS: tuple[ElasticitySemantics, ...] = (
    ElasticitySemantics(
        name="0.3.9",
        until="0.3.16",
        summary="v0.1 only; 0.4.0 counts as older than 0.3.8, since 0 < 8",
        latest_version=0.1,
        small_cap_error=AssertionError,
        parts_compared=True,
    ),
    ElasticitySemantics(
        name="0.4.0",
        until="0.5.7",
        summary="v0.1 only; releases compared as versions",
        latest_version=0.1,
        small_cap_error=AssertionError,
    ),
    ElasticitySemantics(
        name="0.5.8",
        until="0.6.7",
        summary="v0.1 only; a cap below a micro batch is a ValueError",
        latest_version=0.1,
        small_cap_error=ValueError,
    ),
    ElasticitySemantics(
        name="0.7.0",
        until="0.19.5",
        summary="adds v0.2: nodes and model parallelism; the batch may exceed the cap",
        latest_version=0.2,
        small_cap_error=ValueError,
    ),
    ElasticitySemantics(
        name="0.19.6",
        until="0.19.7",
        summary="the batch keeps to the cap; v0.1 reads WORLD_SIZE for a micro batch",
        latest_version=0.2,
        small_cap_error=ValueError,
        keeps_to_cap=True,
        reads_world_size=True,
    ),
)

LATEST: ElasticitySemantics = SEMANTICS[-1]


def semantics_for(release: str) -> ElasticitySemantics:
    """Return the semantics of a release such as "0.14.5"; for releases without elasticity, the last known ones.

    Raises:
        ElasticityError: the text is invalid, or the release is earlier than 0.3.9 and has no elasticity.
    """
    wanted = _version_numbers(release)
    fitting = [entry for entry in SEMANTICS if _version_numbers(entry.name) <= wanted]
    if not fitting:
        raise ElasticityError(
            f"DeepSpeed {release} has no elasticity, which was added in {SEMANTICS[0].name}"
        )
    return fitting[-1]


def _version_numbers(release: str) -> tuple[int, ...]:
    parts = release.split("+", 1)[0].split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:3]):
        raise ElasticityError(f"`{release}` is not a DeepSpeed release such as 0.19.7")
    return tuple(int(part) for part in parts[:3])
