"""Tries the answers of `dsconfig memory --fit` on real engines: they fit, and what is cheaper does not.

`python -m tests.parity.fitting --cases 200 --seed 1` poses problems: a random config and model that a room
of so many bytes is too small for, though some change helps. Engines are then built with the answer, with
all changes together that are cheaper than its dearest one, and with the answer less another one of its
changes. What an engine holds on its device in its highest phase is compared with the room, as a GPU with
`--margin 0`: the answer fits where it holds no more. A cheaper one does not fit where it holds more, or
where it is less below the room than the slack that `--fit` keeps for what estimates do not see (`bound`):
those are told apart in what is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dsconfig.memory.estimates import upper_bound_of_peak
from tests.parity import environment
from tests.parity.generators.fits import Problem, changed, problem
from tests.parity.judges.memory import simulated
from tests.parity.memory import measured

Case = dict[str, Any]
RELEASES = ("0.19.8", "0.16.9", "0.14.5")
SOME = 0.3
ANSWER, CHEAPER, LESS = "answer", "cheaper", "less"
FLATTENS_ON_HOST = (0, 19)
"""Before, stages 1 and 2 flatten weights on the host, which a CPU cannot tell from the device."""


class Posed(NamedTuple):
    """An engine to build for a problem, and which of its three it is."""

    problem: Problem
    kind: str
    trial: Case


def engines_of(posed: Problem, source: random.Random, release: str) -> Iterator[Posed]:
    """The answer; everything cheaper; of some with several changes, the answer less one of the others."""
    answer = posed.found.chosen
    sets: list[tuple[str, Sequence[Any]]] = [(ANSWER, answer), (CHEAPER, posed.cheaper)]
    if len(answer) > 1 and source.random() < SOME:
        left = source.choice(answer[:-1])
        sets.append((LESS, [change for change in answer if change is not left]))
    for kind, changes in sets:
        name = f"{posed.trial['id']} {kind}"
        yield Posed(posed, kind, changed(posed.trial, changes, release, name) | {"steps": 2})


class Tally:
    """What held, and what did not."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, posed: Posed, release: str, seen: Case) -> None:
        """Judge one engine."""
        if seen.get("error") or seen.get("skipped"):
            self.counts[f"{posed.kind}: not measured"] += 1
            self.wrong.append(f"{posed.trial['id']}: {seen.get('error') or 'skipped a step'}")
            return
        most, phase = _most(posed.trial, release, seen["device"])
        room = posed.problem.room
        if posed.kind == ANSWER:
            verdict = "fits" if most <= room else "DOES NOT FIT"
        elif most > room:
            verdict = "does not fit"
        else:
            engine = simulated(posed.trial, release)[1]
            slack = upper_bound_of_peak(most, phase, engine)
            verdict = "does not fit with the slack" if slack > room else "FITS"
        self.counts[f"{posed.kind}: {verdict}"] += 1
        if verdict.isupper():
            told = " and ".join(change.description for change in posed.problem.found.chosen)
            self.wrong.append(f"{posed.trial['id']} {verdict}: {most:,} in {phase}, room {room:,}; {told}")

    def lines(self) -> Iterator[str]:
        """Counts, and what is wrong."""
        yield from (f"{count:>5} {what}" for what, count in sorted(self.counts.items()))
        yield from self.wrong


def _most(trial: Case, release: str, device: dict[str, int]) -> tuple[int, str]:
    stage = trial["config"]["zero_optimization"]["stage"]
    hidden = environment.order(release) < FLATTENS_ON_HOST and stage in (1, 2)
    return max((count, phase) for phase, count in device.items() if not (hidden and phase == "load"))


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.fitting", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    told = "keep measurements in this file, and measure nothing that is in it"
    parser.add_argument("--write", type=Path, help=told)
    options = parser.parse_args(arguments)
    try:
        environment.build(list(RELEASES))
        environment.build_transformers()
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    tally = Tally()
    for number, release in enumerate(RELEASES):
        posed = list(_posed(range(number, options.cases, len(RELEASES)), options.seed, release))
        for one, seen in _measured(posed, release, options.write):
            tally.add(one, release, seen)
    print("\n".join(tally.lines()))
    return 1 if tally.wrong else 0


def _posed(numbers: Sequence[int], seed: int, release: str) -> Iterator[Posed]:
    for number in numbers:
        source = random.Random(f"fit-{seed}-{number}")
        yield from engines_of(problem(source, f"{seed}-{number}", release), source, release)


def _measured(posed: list[Posed], release: str, file: Path | None) -> Iterator[tuple[Posed, Case]]:
    before: dict[str, Case] = {}
    if file is not None and file.exists():
        kept = map(json.loads, file.read_text("utf-8").splitlines())
        before = {json.dumps(case["trial"]): case["measured"] for case in kept if case["release"] == release}
    yield from ((one, before[key]) for one in posed if (key := json.dumps(one.trial)) in before)
    fresh = [one for one in posed if json.dumps(one.trial) not in before]
    for one, case in zip(fresh, measured(release, [one.trial for one in fresh]), strict=False):
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(case) + "\n")
        yield one, case["measured"]


if __name__ == "__main__":
    sys.exit(main())
