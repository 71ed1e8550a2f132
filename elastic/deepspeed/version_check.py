"""Is a DeepSpeed release new enough for elasticity?  As each release asked it.

Source: `elasticity/elasticity.py`, `_compatible_ds_version_check` and, up to 0.3.16, `_parse_version`.
"""

from __future__ import annotations

from elastic.constants import MINIMUM_DEEPSPEED_VERSION
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.errors import ElasticityError

_MINIMUM = (0, 3, 8)
_WIDTH = 20
_PADDED_MINIMUM = [str(part).zfill(_WIDTH) for part in _MINIMUM]


def check_target(release: str, semantics: Semantics = LATEST) -> None:
    """Raise `ElasticityError` where `release` is older than 0.3.8.

    Text that is not a version raises `packaging.version.InvalidVersion` (a `ValueError`); under the semantics
    of 0.3.9 it is an `AssertionError`, and major, minor and patch are compared each on its own, as that
    span did.
    """
    if semantics.parts_compared:
        fits = all(part >= least for part, least in zip(_leading_parts(release), _MINIMUM, strict=True))
    else:
        fits = _is_new_enough(release)
    if not fits:
        raise ElasticityError(
            f"target DeepSpeed {release} is older than {MINIMUM_DEEPSPEED_VERSION}, the first with elasticity"
        )


def _is_new_enough(release: str) -> bool:
    # Plain numbers, padded, compare as text; importing packaging costs more than a whole plan.
    if isinstance(release, str) and len(release) <= _WIDTH and release.isascii():
        parts = release.split(".")
        if "" not in parts and release.replace(".", "").isdigit():
            return [part.zfill(_WIDTH) for part in parts] >= _PADDED_MINIMUM
    from packaging.version import Version

    return Version(release) >= Version(MINIMUM_DEEPSPEED_VERSION)


def _leading_parts(release: str) -> tuple[int, int, int]:
    import re

    matched = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if matched is None:
        raise AssertionError(f"`{release}` is not a DeepSpeed release such as 0.3.16")
    return int(matched[1]), int(matched[2]), int(matched[3] or 0)
