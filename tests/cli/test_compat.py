"""`dsconfig compat`: which releases take a config."""

from __future__ import annotations

import json
from pathlib import Path

import dsconfig
from dsconfig.check.accepting_releases import compat
from dsconfig.core.releases import RELEASES
from dsconfig.document import read_text

from .conftest import Runs
from .test_migrate import OLD


def test_equal_neighbours_are_folded(here: Path, run: Runs) -> None:
    Path("a.json").write_text(OLD.replace(" // as always", ""))
    code, out, err = run("compat", "a.json", "--target", ">=0.14.3")
    assert (code, err) == (1, ""), "the newest refuses it"
    assert run("compat", "a.json", "--target", "0.14.5").code == 0
    rows = [line.split(maxsplit=5) for line in out.splitlines()]
    assert out.splitlines()[0] == "0.14.3 to 0.14.5  ok"
    assert next(row[4] for row in rows if row[3] == "rejected") == "DSC114"
    last = RELEASES[-1] if RELEASES[-1] == "0.19.8" else f"0.19.8 to {RELEASES[-1]}"
    assert out.splitlines()[-1].startswith(f"{last:16}  rejected  DSC104 `progressive_layer_drop` was ")


def test_every_release_stands_in_one_stretch() -> None:
    stretches = compat(read_text(OLD))
    assert [release for each in stretches for release in each.releases] == list(RELEASES)
    for each in stretches:
        report = dsconfig.check(OLD, target=each.releases[0])
        assert (each.word == "ok") == report.ok
        if each.reason is not None:
            assert each.reason.code in {diagnostic.code for diagnostic in report}


def test_for_machines(files: Path, run: Runs) -> None:
    out = json.loads(run("compat", "clean.json", "--output-format", "json").out)
    assert out == {
        "version": 1,
        "path": "clean.json",
        "stretches": [
            {"releases": list(RELEASES), "verdict": "ok", "code": None, "path": None, "message": None}
        ],
    }


def test_nobody_takes_it(here: Path, run: Runs) -> None:
    Path("a.json").write_text("[1]")
    assert run("compat", "a.json").code == 1
    assert run("compat", "a.json", "--target", "x").code == 2
