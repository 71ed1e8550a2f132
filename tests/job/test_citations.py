"""What is read of other programs: citations, and versions that nobody has read yet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dsconfig import check
from dsconfig.cli import main
from dsconfig.job.consumers.consumer_versions import CHANGES, NEWEST_READ, version_tuple
from tests.parity.citations import (
    PROGRAMS,
    Sources,
    changes,
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


@pytest.mark.parametrize(("spec", "last"), [("transformers==4.99", "4.57"), ("accelerate==0.40.1", "0.34")])
def test_a_version_that_was_never_released_is_told_apart(spec: str, last: str) -> None:
    (note,) = [
        note for note in check(CONFIG, target="0.19.8", consumer=spec).notes if "never released" in note
    ]
    assert note.endswith(f"it is checked as {last}")
    name = spec.partition("==")[0]
    assert not any(
        "never released" in note
        for note in check(CONFIG, target="0.19.8", consumer=f"{name}=={last}.2").notes
    )


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["compat"],
        ["migrate", "--from", "0.14.0", "--to", "0.19.8"],
        ["memory", "--world-size", "2", "--params", "1e9"],
    ],
)
def test_each_command_names_an_unknown_version(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({**CONFIG, "$dsconfig": {"consumer": "transformers==99"}}))
    monkeypatch.chdir(tmp_path)
    main([*command, "ds.json"])
    assert "transformers 99 is newer than" in capsys.readouterr().err


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


def test_a_program_that_begins_to_use_deepspeed_is_news() -> None:
    """verl 0.9.1 trains with FSDP and Megatron, and only mentions DeepSpeed."""
    texts = {"utils/ulysses.py": '"""DeepSpeed Ulysses; see deepspeed/sequence/layer.py."""\nimport torch\n'}
    assert changes("verl", "1.0", Sources(texts)) == []
    texts["engine/ds.py"] = "def engine():\n    from deepspeed.runtime import engine\n"
    assert changes("verl", "1.0", Sources(texts)) == ["verl 1.0 imports DeepSpeed (engine/ds.py)"]
