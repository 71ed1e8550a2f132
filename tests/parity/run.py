"""Compares `dsconfig` with real DeepSpeed releases on generated cases, or on the files of a directory.

`python -m tests.parity.run --release 0.19.8 --cases 3000 --seed 0`; see `--help`. The releases are those of
the parity environment (`python -m tests.parity.environment`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.cases import generate
from tests.parity.judges import compare, judging
from tests.parity.judges.compare import Outcome

CORPUS_SIZES = (1, 8, 64)


def corpus(folder: Path) -> Iterator[Case]:
    """The files of a directory, each at several world sizes."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        for size in CORPUS_SIZES:
            name = str(path.relative_to(folder))
            yield Case(f"{name}@{size}", "corpus", name, size, text=text)


def cases_for(release: str, options: argparse.Namespace) -> list[Case]:
    """The cases that the options name."""
    if options.corpus:
        return list(corpus(options.corpus))
    return list(generate(release, options.cases, options.seed))


def judge(release: str, options: argparse.Namespace) -> list[Outcome]:
    """Both verdicts on every case, with a line about the time they took."""
    check = compare.checker()
    cases = cases_for(release, options)
    start = time.monotonic()
    verdicts = judging.judge(release, cases)
    middle = time.monotonic()
    outcomes = [compare.outcome(release, case, verdicts[case.id], check) for case in cases]
    end = time.monotonic()
    print(
        f"\nDeepSpeed {release}: {len(cases)} cases, seed {options.seed}; "
        f"judged in {middle - start:.0f} s, checked in {end - middle:.1f} s"
    )
    return outcomes


def report(outcomes: Sequence[Outcome], options: argparse.Namespace) -> None:
    """Prints what came out for one release."""
    print("\n".join(compare.table(outcomes)))
    disagreements = [o for o in outcomes if o.decided and not o.agrees]
    if disagreements:
        print("disagreements by cause:")
        print("\n".join(compare.causes(disagreements)))
    for found in disagreements[: options.show]:
        print("\n".join(compare.describe(found)))
    matched = [o.triplet_matches for o in outcomes if o.triplet_matches is not None]
    if matched:
        print(f"the same batch triplet where DeepSpeed accepts: {sum(matched)} of {len(matched)}")
    placed = [o.place_matches for o in outcomes if o.place_matches is not None]
    if placed:
        print(f"the key that DeepSpeed's error names is among our findings: {sum(placed)} of {len(placed)}")
        for found in [o for o in outcomes if o.place_matches is False][: options.show // 2]:
            print("\n".join(compare.describe(found)))


def explain(outcomes: Sequence[Outcome], options: argparse.Namespace) -> None:
    """Prints sampled rejections, DeepSpeed's words and ours, to see whether path and cause match."""
    both = [o for o in outcomes if o.verdict.ok is False and o.findings]
    sample = Random(options.seed).sample(both, min(options.explain, len(both)))
    print(f"\n{len(sample)} sampled rejections:")
    for found in sample:
        print("\n".join(compare.describe(found)))


def as_json(outcome: Outcome) -> dict[str, Any]:
    """One line of `--json`."""
    case, verdict = outcome.case, outcome.verdict
    return {
        "release": outcome.release,
        "id": case.id,
        "class": case.kind,
        "label": case.label,
        "world_size": case.world_size,
        "config": case.config,
        "text": case.text,
        "ok": verdict.ok,
        "stage": verdict.stage,
        "error": verdict.error,
        "message": verdict.message,
        "raised_at": verdict.raised_at,
        "triplet": verdict.triplet,
        "agrees": outcome.agrees,
        "place_matches": outcome.place_matches,
        "findings": [str(finding) for finding in outcome.findings],
        "crash": outcome.crash,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.run", description=__doc__.split("\n")[0])
    parser.add_argument("--release", action="append", default=[], help="may be given several times")
    parser.add_argument("--all", action="store_true", help="every release of the environment")
    parser.add_argument("--cases", type=int, default=3000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="the files of DIR instead of generated cases"
    )
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to print in full")
    parser.add_argument("--explain", type=int, default=0, metavar="K", help="sampled rejections to print")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every outcome as JSON lines")
    parser.add_argument(
        "--require", type=float, default=1, metavar="SHARE", help="exit 1 below this agreement"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 where every release reaches the required agreement."""
    options = parse(arguments)
    available = environment.available()
    wanted = available if options.all else options.release or available[-1:]
    missing = [release for release in wanted if release not in available]
    if missing or not wanted:
        names = " ".join(missing or environment.DEFAULT)
        print(
            f"not in the environment; run `python -m tests.parity.environment {names}` first", file=sys.stderr
        )
        return 2
    if compare.checker() is None:
        print("dsconfig.check is not there yet: only DeepSpeed judges", file=sys.stderr)
    everything: list[Outcome] = []
    for release in wanted:
        outcomes = judge(release, options)
        report(outcomes, options)
        if options.explain:
            explain(outcomes, options)
        everything += outcomes
    if len(wanted) > 1:
        print("\nby release:")
        for release in wanted:
            print(compare.row(release, [o for o in everything if o.release == release]))
    if options.json:
        options.json.write_text("".join(json.dumps(as_json(o)) + "\n" for o in everything), encoding="utf-8")
    lowest = min(compare.agreement([o for o in everything if o.release == release]) for release in wanted)
    print(f"\nlowest agreement {lowest:.2%}, required {options.require:.2%}")
    return 0 if lowest >= options.require else 1


if __name__ == "__main__":
    sys.exit(main())
