"""`migrate` on generated configs: the later release takes each, or it is stopped and left alone.

`python -m tests.fuzz.migrate --cases 20000 --seed 1` goes over all consumers and over pairs of releases; with
`--judge 1000` the releases themselves judge that many of the results (see `tests.parity.environment`). Exit
status 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from dsconfig.check.check import check_document
from dsconfig.cli.migrate import MigrationRoute
from dsconfig.core.releases import resolve_target
from dsconfig.document import read_text
from dsconfig.fix.migrate import Migration
from tests.fuzz.migrations import broken
from tests.parity import environment
from tests.parity.generators import auto, elastic_blocks, writing
from tests.parity.generators.case import Case
from tests.parity.generators.cases import generate
from tests.parity.judges.judging import judge

CONSUMERS = ("deepspeed", "deepspeed", "transformers", "accelerate", "lightning")
RELEASES = environment.TESTED.split()
TOGETHER = 24
"""Cases that one pair of releases and one consumer share."""
REFUSED = 0.05
"""The share of configs that may be any; the others are such as their old release takes."""


class Trip(NamedTuple):
    """A config's text, and the way that it is to go."""

    text: str
    way: MigrationRoute

    def __str__(self) -> str:
        way = self.way
        return f"{way.origin} to {way.to} for {way.consumer} at world size {way.world_size}\n{self.text}"


def trips(count: int, seed: int) -> Iterator[Trip]:
    """Configs for old releases, on their way to later ones; the same for the same arguments."""
    rng = Random(f"migrate {seed}")
    made = 0
    while made < count:
        origin, to = sorted(rng.sample(RELEASES, 2), key=RELEASES.index)
        if rng.random() < 0.4 and origin != RELEASES[-1]:
            to = RELEASES[-1]
        consumer = rng.choice(CONSUMERS)
        for case in generate(origin, TOGETHER, rng.randrange(10**9)):
            if made == count:
                return
            size = case.world_size if rng.random() < 0.7 else None
            text = _text(case, consumer, rng)
            if not _encodable(text) or not (rng.random() < REFUSED or _taken(text, origin, consumer, size)):
                continue
            made += 1
            yield Trip(text, MigrationRoute(origin, "--from", to, consumer, size))


def _taken(text: str, release: str, consumer: str, size: int | None) -> bool:
    return check_document(read_text(text), resolve_target(release), world_size=size, consumer=consumer).ok


def _text(case: Case, consumer: str, rng: Random) -> str:
    """The case's text; every so often with an elastic block, or one that the consumer is to fill."""
    if consumer != "deepspeed" and rng.random() < 0.6:
        config, _, _ = auto.generated(rng, trainer=consumer == "transformers")
        if isinstance(case.config, dict) and rng.random() < 0.5:
            config = {**case.config, **config}
        return json.dumps(config, indent=rng.choice((None, 2, 4)))
    if case.text is not None:
        return case.text
    config = case.config
    if isinstance(config, dict) and rng.random() < 0.1:
        made = elastic_blocks.any_block(rng)
        config = {**config, "elasticity": made}
        if rng.random() < 0.8:
            for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
                config.pop(key, None)
    return writing.plain(config, rng)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def migrated(trip: Trip) -> Migration:
    """What `dsconfig migrate` makes of it."""
    return trip.way.migrate_document(read_text(trip.text, "config.json"), keep=False)


def judged(results: Sequence[tuple[Trip, Migration]]) -> list[str]:
    """What the releases themselves refuse of the results, for DeepSpeed as the reader."""
    by_release: dict[str, list[tuple[Case, Trip]]] = defaultdict(list)
    for number, (trip, done) in enumerate(results):
        size = trip.way.world_size or 1
        case = Case(str(number), "valid", "migrated", size, text=done.text)
        by_release[trip.way.to].append((case, trip))
    wrong = []
    for release, cases in by_release.items():
        verdicts = judge(release, [case for case, _ in cases])
        for case, trip in cases:
            verdict = verdicts[case.id]
            if verdict.ok is False:
                said = f"{release} refuses the result: {verdict.error}: {verdict.message}"
                wrong.append(f"{said}\n{trip}\n  became\n{case.text}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Migrates and prints the counts; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.migrate", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--judge", type=int, default=0, metavar="N", help="results that releases judge")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    results: list[tuple[Trip, Migration]] = []
    slowest = 0.0
    for trip in trips(options.cases, options.seed):
        start = time.process_time()
        done = migrated(trip)
        slowest = max(slowest, time.process_time() - start)
        word = "stopped" if done.stopped else "changed" if done.text != trip.text else "unchanged"
        counts.update((word, f"{word}, {trip.way.consumer}"))
        wrong += [f"{each}\n{trip}" for each in broken(trip.text, trip.way, done)]
        if done.stopped is None and trip.way.consumer == "deepspeed" and trip.way.world_size:
            results.append((trip, done))
    if options.judge:
        chosen = Random(options.seed).sample(results, min(options.judge, len(results)))
        refused = judged(chosen)
        wrong += refused
        print(f"{len(chosen)} results judged by the releases, {len(refused)} of them refused")
    print(", ".join(f"{word} {number}" for word, number in sorted(counts.items())))
    print(f"{len(wrong)} broken promises; slowest {slowest:.2f} s")
    print("\n\n".join(wrong[:10]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
