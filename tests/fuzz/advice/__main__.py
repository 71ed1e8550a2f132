"""`python -m tests.fuzz.advice`: prints what becomes of helps that are followed, by rule."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from dsconfig.document import read_text
from dsconfig.launch.launch_file_formats import detect_launch_format
from tests.cases import cases
from tests.fuzz.advice.follow import Attempt, attempts
from tests.parity.generators import auto
from tests.parity.generators.cases import generate

RELEASES = ("0.19.8", "0.14.5", "0.9.5", "0.16.9", "0.18.9", "0.5.10", "0.19.6", "0.12.6")


class Question(NamedTuple):
    """A config, and for whom it is checked."""

    data: dict[str, Any]
    target: str
    world_size: int | None
    consumer: str


def pinned() -> Iterator[Question]:
    """The configs of all rules' cases; keys that a help names are not a launch file's own."""
    for case in cases():
        data = case.entry["config"] if "config" in case.entry else read_text(case.entry["text"]).value()
        if isinstance(data, dict) and detect_launch_format(data) is None:
            yield Question(data, case.target, case.entry.get("world_size"), case.consumer)


def generated(count: int, seed: int) -> Iterator[Question]:
    """Generated configs, for each release and consumer in turn."""
    share = -(-count // len(RELEASES))
    for release in RELEASES:
        for number, case in enumerate(generate(release, share, seed)):
            data = case.config if case.text is None else read_text(case.text).value()
            if isinstance(data, dict):
                consumer = ("deepspeed", "deepspeed", "transformers", "accelerate", "lightning")[number % 5]
                yield Question(data, release, case.world_size if number % 3 else None, consumer)


def filled(count: int, seed: int) -> Iterator[Question]:
    """Configs full of "auto"."""
    source = Random(seed)
    for number in range(count):
        trainer = number % 2 == 0
        data, _, _ = auto.generated(source, trainer=trainer)
        yield Question(data, "0.19.8", None, "transformers" if trainer else "accelerate")


def main() -> int:
    """Follow and print; 1 where a help led astray."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.advice", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="CODE")
    parser.add_argument("--show", type=int, default=1, metavar="N", help="examples of each fault")
    parser.add_argument("--also", default=[], action="append", metavar="OUTCOME", help="outcomes to show")
    parser.add_argument("--most", type=int, default=100, metavar="N", help="times one advice is followed")
    options = parser.parse_args()
    often: Counter[tuple[str, str]] = Counter()

    def taken(code: str, help: str) -> bool:
        kind = code, re.sub(r"[\d.]+", "0", help)
        often[kind] += 1
        return often[kind] <= options.most

    counts: Counter[str] = Counter()
    faults: dict[tuple[str, str, str], list[tuple[Question, Attempt]]] = defaultdict(list)
    configs = 0
    sources = (pinned(), generated(options.cases, options.seed), filled(options.cases // 10, options.seed))
    for question in (each for source in sources for each in source):
        configs += 1
        for attempt in attempts(*question, taken):
            if not attempt.found.code.startswith(options.only):
                continue
            counts[attempt.outcome] += 1
            if attempt.fault or attempt.outcome in options.also:
                key = (attempt.found.code, attempt.outcome, _form(attempt))
                faults[key].append((question, attempt))
    print(f"{configs} configs; " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    for (code, outcome, form), met in sorted(faults.items(), key=lambda item: -len(item[1])):
        print(f"{len(met):5} {code} {outcome}: {form}")
        for question, attempt in met[: options.show]:
            print(f"      {attempt.found.dotted}: {attempt.found.message}\n      help: {attempt.found.help}")
            print(f"      {question.target} {question.consumer} W={question.world_size}", end=" ")
            print(json.dumps(question.data)[:600])
            if attempt.data is not None:
                print(f"      became {attempt.errors} {json.dumps(attempt.data)[:600]}")
    return 1 if faults else 0


def _form(attempt: Attempt) -> str:
    return " + ".join(type(step).__name__ for step in attempt.way)


if __name__ == "__main__":
    sys.exit(main())
