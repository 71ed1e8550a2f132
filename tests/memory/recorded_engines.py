"""Recorded engines, and what the estimate of each says by term: `python -m tests.memory.recorded_engines` writes it.

The engines were built and measured by `tests.parity.memory --write`. An engine on a CPU has one memory, so the estimate
is that of rank and host together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.parity.judges.memory import simulated

FOLDER = Path(__file__).parent
FILES = ("measured.jsonl", "families.jsonl", "decoders.jsonl", "tensor.jsonl", "ratio.jsonl")
EXPECTED = FOLDER / "expected.jsonl"
AT_REST = "at rest"
Case = dict[str, Any]
Terms = Mapping[str, Mapping[str, int]]


class Expected(NamedTuple):
    """The estimate of one engine, and how far it is off."""

    terms: Terms
    """Bytes of each term, at rest and at the peak of each phase."""
    off: Mapping[str, int]
    """Bytes by which the estimate exceeds the measurement."""


def recorded() -> list[Case]:
    """Recorded engines: release, trial and measurement."""
    return [json.loads(line) for name in FILES for line in (FOLDER / name).read_text("utf-8").splitlines()]


def name_of(case: Case) -> str:
    """Name of an engine."""
    return f"{case['trial']['id']} {case['release']}"


def terms_of(case: Case) -> Terms:
    """Bytes of each term of the estimate, at rest and at the peak of each phase that was measured."""
    ledger, _ = simulated(case["trial"], case["release"])
    pool = ledger.combined
    moments = {AT_REST: pool.live} | {phase: pool.peaks[phase].live for phase in case["measured"]["peak"]}
    return {
        moment: {name: count for name, count in sorted(live.items()) if count}
        for moment, live in moments.items()
    }


def differences(case: Case, terms: Terms) -> dict[str, int]:
    """Bytes by which an estimate exceeds the measurement, at rest and at each peak."""
    seen = {AT_REST: case["measured"]["at_rest"], **case["measured"]["peak"]}
    return {moment: sum(terms[moment].values()) - count for moment, count in seen.items()}


def expected() -> dict[str, Expected]:
    """The written estimates, by the name of the engine."""
    lines = map(json.loads, EXPECTED.read_text("utf-8").splitlines())
    return {line["name"]: Expected(line["terms"], line["off"]) for line in lines}


def changed_terms(before: Terms, now: Terms) -> Iterator[str]:
    """A line for each term that changed."""
    for moment in now:
        old, new = before.get(moment, {}), now[moment]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name, 0) != new.get(name, 0):
                yield f"{moment}: {name} is {new.get(name, 0):,}, expected {old.get(name, 0):,}"


def main(arguments: list[str] | None = None) -> int:
    """Write the estimates, unless one of them is further off than before."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory.recorded_engines", description=__doc__)
    parser.add_argument("--worse", action="store_true", help="write estimates that are further off, too")
    options = parser.parse_args(arguments)
    before = expected() if EXPECTED.exists() else {}
    lines, worse = [], []
    for case in recorded():
        name, terms = name_of(case), terms_of(case)
        off = differences(case, terms)
        old = before[name].off if name in before else off
        worse += [
            f"{name} {moment}: off by {count:,}, before by {old[moment]:,}"
            for moment, count in off.items()
            if abs(count) > abs(old.get(moment, count))
        ]
        lines.append(json.dumps({"name": name, "off": off, "terms": terms}, separators=(",", ":")) + "\n")
    print(*worse, sep="\n", end="\n" if worse else "")
    if worse and not options.worse:
        return 1
    EXPECTED.write_text("".join(lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
