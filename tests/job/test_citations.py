"""What is read of other programs: citations, and versions that nobody has read yet."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dsconfig import check
from dsconfig.job.consumers.consumer_versions import CHANGES, NEWEST_READ, version_tuple
from tests.parity.citations import (
    PROGRAMS,
    Sources,
    deepspeed_citations,
    fingerprints,
    program_citations,
    program_sources,
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


def test_the_package_of_a_wheel_with_libraries_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[list[str]] = []

    def download(command: list[str], *, check: bool) -> None:
        downloads.append(command)
        name = command[-1].replace("==", "-")
        with ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.data/purelib/openrlhf/cli/train.py", "def main(): pass")
            wheel.writestr(f"{name}.data/purelib/tests/cli/train.py", "def main(): fail()")
            wheel.writestr("torch/distributed/run.py", "def main(): pass")

    monkeypatch.setattr(subprocess, "run", download)
    assert program_sources("openrlhf", "0.11.2", tmp_path).code("cli/train.py", "main") is not None
    assert program_sources("torch", "2.15.0", tmp_path).code("distributed/run.py", "main") is not None
    # A source distribution would run the program's code, and torch's wheels for Linux have gigabytes of libraries.
    assert all(command[command.index("--only-binary") + 1] == ":all:" for command in downloads)
    assert "--platform" in downloads[1]


def test_citations_name_programs_as_they_write_themselves() -> None:
    files = {(each.file, each.symbol) for each in program_citations("openrlhf")}
    assert ("utils/deepspeed/deepspeed_utils.py", "get_train_ds_config") in files
    places = {each.place.partition("/")[0] for each in program_citations("torch")}
    assert places == {"dsconfig", "elastic"}
