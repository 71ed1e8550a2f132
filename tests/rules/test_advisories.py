"""Advisories: each applies to exactly its versions and settings, and unknown versions warn about nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, compat
from dsconfig.core.releases import RELEASES, release_number
from dsconfig.core.version_ranges import VersionRange, parse_version_range, version_numbers
from dsconfig.rules._advisory_table import Advisory, advisories_for_versions, load_advisories

ALL = load_advisories()


def check_example(
    advisory: Advisory, folder: Path, target: str, requirements: str | None = None
) -> list[Any]:
    """Diagnostics that name the advisory, for its example with one release."""
    example: dict[str, Any] = dict(advisory.example)
    pinned = example.pop("requirements", "")
    pins = pinned if requirements is None else requirements
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "requirements.txt").write_text(f"{pins}\n", "utf-8")
    path = folder / "ds_config.json"
    path.write_text(json.dumps(example.pop("config")), "utf-8")
    report = check(path, target=target, **{"consumer": "deepspeed", **example})
    return [each for each in report if f"(advisory `{advisory.id}`)" in each.message]


@pytest.mark.parametrize("advisory", ALL, ids=lambda each: each.id)
def test_applies_to_its_releases_alone(advisory: Advisory, tmp_path: Path) -> None:
    affected = [each for each in RELEASES if release_number(each) in advisory.releases]
    before = [each for each in RELEASES if release_number(each) < release_number(affected[0])][-1:]
    for release in {affected[0], affected[-1]}:
        diagnostics = check_example(advisory, tmp_path, release)
        assert len(diagnostics) == 1, release
        assert diagnostics[0].effect.value == advisory.effect
        assert diagnostics[0].help == advisory.remedies
    for release in [*before, *([advisory.fixed] if advisory.fixed else [])]:
        assert check_example(advisory, tmp_path, release) == [], release


@pytest.mark.parametrize(
    "advisory", [each for each in ALL if each.example.get("requirements")], ids=lambda e: e.id
)
def test_unknown_versions_of_other_programs_warn_about_nothing(advisory: Advisory, tmp_path: Path) -> None:
    release = next(each for each in RELEASES if release_number(each) in advisory.releases)
    program = advisory.example["requirements"].partition("==")[0]
    for pins in ("", program, f"{program}>=0.1"):
        assert check_example(advisory, tmp_path, release, pins) == [], pins


@pytest.mark.parametrize("advisory", ALL, ids=lambda each: each.id)
def test_the_table_is_complete(advisory: Advisory) -> None:
    assert advisory.confirmed in ("engine", "code", "maintainer")
    assert advisory.example.get("config")
    assert advisory.remedies
    assert advisory.detail.endswith(".") or advisory.detail.endswith('".') or advisory.detail.endswith(").")
    assert not advisory.summary.endswith(".")
    assert "/" in advisory.reference
    assert advisory.affected.startswith(("DeepSpeed ", "Accelerate "))


def test_a_range_of_releases_is_an_unknown_release() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 4,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }
    advisory = "offload-drops-micro-batches"
    messages = [each.message for each in check(config, target=">=0.16.6,<0.19")]
    assert any(advisory in each for each in messages)
    for target in (">=0.15", ">=0.18,<0.19.5"):
        assert not any(advisory in each.message for each in check(config, target=target))


def test_compat_lists_releases_that_fail() -> None:
    config = {"train_batch_size": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    verdicts = {
        release: each.word for each in compat(config, target=">=0.7.5,<0.8") for release in each.releases
    }
    assert verdicts == {"0.7.5": "ok", "0.7.6": "crashes", "0.7.7": "ok"}


def test_ids_are_unique() -> None:
    assert len({each.id for each in ALL}) == len(ALL)
    assert len(ALL) >= 40


def test_lists_the_defects_of_versions() -> None:
    ids = {each.id for each in advisories_for_versions({"deepspeed": "0.14.0", "torch": "2.4.1+cu121"})}
    assert "import-on-torch-2.4" in ids
    assert "import-on-torch-2.4" not in {each.id for each in advisories_for_versions({"deepspeed": "0.14.0"})}
    assert "import-on-torch-2.4" not in {
        each.id for each in advisories_for_versions({"deepspeed": "0.14.4", "torch": "2.4.1"})
    }


@pytest.mark.parametrize(
    ("specifier", "first", "end"),
    [
        ("==2.4.0", (2, 4), (2, 4, 0, 0, 0, 1)),
        ("==2.4.*", (2, 4), (2, 5)),
        ("~=2.4", (2, 4), (3,)),
        ("~=2.4.1", (2, 4, 1), (2, 5)),
        (">=2.0,<2.10", (2,), (2, 10)),
        ("<=2.4", (), (2, 4, 0, 0, 0, 1)),
        ("!=2.4", (), VersionRange().end),
        ("==2.4.0+cu121", (2, 4), (2, 4, 0, 0, 0, 1)),
    ],
)
def test_ranges_of_specifiers(specifier: str, first: tuple[int, ...], end: tuple[int, ...]) -> None:
    assert parse_version_range(specifier) == VersionRange(first, end)


def test_numbers_of_versions() -> None:
    assert version_numbers("2.10.0a0+git123") == (2, 10)
    assert version_numbers("2.4.1.post1") == (2, 4, 1)
    assert parse_version_range("==2.4.1").is_within(parse_version_range(">=2.4"))
    assert not parse_version_range(">=2.3").is_within(parse_version_range(">=2.4"))
    assert not parse_version_range("<2.5").is_within(parse_version_range(">=2.4"))
    assert parse_version_range("<2.5").overlaps(parse_version_range(">=2.4"))
    assert not parse_version_range("<2.4").overlaps(parse_version_range(">=2.4"))
