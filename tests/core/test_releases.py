"""Intervals of releases, how comparisons narrow the equivalent releases, and the installed release."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dsconfig.core import releases
from dsconfig.core.releases import EVERY_RELEASE, NEVER, NUMBERS, ReleaseInterval
from dsconfig.document import read_dict
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument

SPAN = ReleaseInterval(NUMBERS["0.9.0"], NUMBERS["0.14.5"])


def context(release: str) -> Context:
    seen = Context(EvaluatedDocument(read_dict({}), "deepspeed", None), NUMBERS[release])
    seen.equivalent = EVERY_RELEASE
    return seen


def test_both_ends_belong_to_an_interval() -> None:
    assert NUMBERS["0.9.0"] in SPAN
    assert NUMBERS["0.14.5"] in SPAN
    assert NUMBERS["0.8.3"] not in SPAN
    assert NUMBERS["0.15.0"] not in SPAN
    assert all(number in EVERY_RELEASE for number in NUMBERS.values())


def test_intersection_of_intervals() -> None:
    open_end = ReleaseInterval(NUMBERS["0.12.0"])
    assert (
        SPAN.intersect(open_end)
        == open_end.intersect(SPAN)
        == ReleaseInterval(NUMBERS["0.12.0"], NUMBERS["0.14.5"])
    )
    assert SPAN.intersect(EVERY_RELEASE) is SPAN


@pytest.mark.parametrize("release", ["0.3.1", "0.8.3", "0.9.0", "0.12.6", "0.14.5", "0.15.0", "0.19.8"])
def test_sides_of_an_interval(release: str) -> None:
    number = NUMBERS[release]
    side = SPAN.releases_on_same_side(number)
    assert number in side
    assert {other for other in NUMBERS.values() if other in side} == {
        other
        for other in NUMBERS.values()
        if (other in SPAN, other < SPAN.first) == (number in SPAN, number < SPAN.first)
    }


ASKED: dict[str, Callable[[Context], object]] = {
    "since": lambda ctx: ctx.since("0.9.0"),
    "before": lambda ctx: ctx.before("0.9.0"),
    "between": lambda ctx: ctx.between("0.9.0", "0.14.5"),
    "twice": lambda ctx: (ctx.since("0.9.0"), ctx.since("0.15.0")),
    "a key": lambda ctx: ctx.key("zero_optimization.stage") and ctx.default("gradient_clipping"),
}


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("release", ["0.5.0", "0.9.0", "0.14.5", "0.15.0", "0.19.8"])
def test_equivalent_releases_give_the_same_answer(question: str, release: str) -> None:
    ask, seen = ASKED[question], context(release)
    answer = ask(seen)
    for other, number in NUMBERS.items():
        if number in seen.equivalent:
            assert ask(context(other)) == answer


def test_depends_on_narrows_without_a_comparison() -> None:
    seen = context("0.18.0")
    seen.depends_on("0.17.0", "0.19.3")
    assert seen.equivalent == ReleaseInterval(NUMBERS["0.17.0"], NUMBERS["0.19.3"] - 1)
    seen = context("0.19.3")
    seen.depends_on("0.17.0", "0.19.3")
    assert seen.equivalent == ReleaseInterval(NUMBERS["0.19.3"], NEVER)


@pytest.mark.parametrize(
    ("entry", "version"),
    [
        ("deepspeed-0.17.0.dist-info", "0.17.0"),
        ("deepspeed-0.17.0+abc.dist-info", "0.17.0+abc"),
        ("deepspeed-0.17.0.egg-info", "0.17.0"),
        ("deepspeed-0.17.0-py3.11.egg-info", "0.17.0"),
        ("deepspeed_mii-0.1.0.dist-info", None),
        ("deepspeed-mii-0.1.0-py3.11.egg-info", None),
    ],
)
def test_the_version_that_is_installed(
    entry: str, version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / entry).mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert releases.installed_version("deepspeed") == version


def test_a_folder_of_packages_is_listed_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listdir = os.listdir

    def recorded(folder: str) -> list[str]:
        listed.append(folder)
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", recorded)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    os.utime(tmp_path, (0, 0))
    assert [releases.installed_version("deepspeed") for _ in range(3)] == [None] * 3
    assert listed == [str(tmp_path)]
    (tmp_path / "deepspeed-0.17.0.dist-info").mkdir()
    assert releases.installed_version("deepspeed") == "0.17.0"
    assert listed == [str(tmp_path)] * 2


def test_the_release_that_is_installed_needs_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deepspeed-0.17.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert releases.resolve_target(None) == releases.ReleaseTarget(("0.17.0",), "0.17.0", "installed")
