"""Table of release quirks: every row is complete, and borders are releases."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dsconfig.core.releases import RELEASES
from dsconfig.memory.release_quirks import (
    DeepSpeedVersion,
    MemoryQuirk,
    ReleaseQuirks,
    quirk_rows,
    release_borders,
)


@pytest.mark.parametrize("row", quirk_rows(), ids=lambda row: row.name)
def test_a_row_says_where_to_read_it_and_why_it_matters(row: MemoryQuirk) -> None:
    assert row.source.partition(":")[0].endswith(".py")
    assert len(row.why.split()) > 3
    assert {row.since, row.before} - {""} <= set(RELEASES)
    assert row.since or row.before
    assert not (row.since and row.before) or DeepSpeedVersion.parse(row.since) < DeepSpeedVersion.parse(
        row.before
    )


def test_a_quirk_applies_from_its_first_release_to_the_one_before_its_last_border() -> None:
    answers = [
        ReleaseQuirks(release).live_parameter_counter_survives_backward
        for release in ("0.15.4", "0.16.0", "0.16.7", "0.16.8")
    ]
    assert answers == [False, True, True, False]


def test_releases_without_a_border_between_them_behave_alike() -> None:
    starts = set(release_borders())
    assert starts < set(RELEASES)
    for before, after in pairwise(RELEASES):
        assert (after in starts) == (ReleaseQuirks(before) != ReleaseQuirks(after))
