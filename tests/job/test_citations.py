"""What is read of other programs: citations, and versions that nobody has read yet."""

from __future__ import annotations

from typing import Any

from dsconfig import check
from dsconfig.job.consumers.consumer_versions import CHANGES, NEWEST_READ, version_tuple
from tests.parity.citations import (
    PROGRAMS,
    Sources,
    deepspeed_citations,
    fingerprints,
    program_citations,
    read_releases,
)

CONFIG: dict[str, Any] = {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}


def notes(consumer: str) -> list[str]:
    return [
        note for note in check(CONFIG, target="0.19.8", consumer=consumer).notes if "newest version" in note
    ]


def test_an_unknown_version_is_told_apart_from_a_known_one() -> None:
    for name, newest in NEWEST_READ.items():
        assert notes(name) == notes(f"{name}=={newest}") == []
        note = f"{name} 99 is newer than {newest}, the newest version that dsconfig knows; it is checked as {newest}"
        assert notes(f"{name}==99") == [f"<dict>: {note}"]


def test_the_newest_read_version_is_the_recorded_one() -> None:
    recorded = {name: each["release"] for name, each in read_releases().items()}
    assert recorded.keys() == PROGRAMS.keys()
    assert {name: recorded[name] for name in NEWEST_READ} == NEWEST_READ
    assert all(version_tuple(each.since) <= version_tuple(NEWEST_READ[each.consumer]) for each in CHANGES)


def test_deepspeed_is_cited_with_the_last_release_of_the_rule() -> None:
    cited = {(each.place, each.file, each.symbol): each.release for each in deepspeed_citations()}
    assert cited["DSC346", "runtime/constants.py", "DDP_BFLOAT16"] == "0.18.4"
    assert len(cited) > 500


def test_code_is_compared_without_docstrings_and_layout() -> None:
    citations = program_citations("trl")[:1]
    file, symbol = citations[0].file, citations[0].symbol
    owner, _, name = symbol.rpartition(".")

    def text(body: str) -> Sources:
        method = f"def {name}(self):\n{body}"
        lines = "".join(f"    {line}\n" for line in method.splitlines())
        return Sources({f"trl/{file}": f"class {owner}:\n{lines}" if owner else method})

    first = fingerprints(citations, text('    """Text."""\n    return 1'))
    assert first == fingerprints(citations, text('    """Other text."""\n\n    return  1  # why'))
    assert first != fingerprints(citations, text('    """Text."""\n    return 2'))
    assert fingerprints(citations, Sources({})) == {}
