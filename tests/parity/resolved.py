"""Gives what `dsconfig.resolve` makes of a config back to the release: taken, with the promised triplet?

`python -m tests.parity.resolved --release 0.19.8 --cases 1500`. Two kinds of cases: generated configs, right
and wrong ones, and, for releases without elasticity, generated elasticity blocks. `resolve` may refuse what
`DeepSpeedConfig` takes only where a finding says that an engine stops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dsconfig
from tests.parity import environment
from tests.parity.generators.case import WORLD_SIZES, Case
from tests.parity.generators.cases import generate
from tests.parity.generators.elastic_blocks import generated_cases
from tests.parity.judges import judging


@dataclass(frozen=True, slots=True)
class Promise:
    """A resolved config to be judged as a dict, and the triplet that was promised."""

    case: Case
    triplet: tuple[Any, ...]
    before: Any


def generated(release: str, count: int, seed: int) -> Iterator[Promise]:
    """What cases resolve to, those that the release takes and those that it refuses."""
    cases = list(generate(release, count, seed))
    verdicts = judging.judge(release, cases)
    for case in cases:
        try:
            run = dsconfig.resolve(
                case.source, world_size=case.world_size, target=release, consumer="deepspeed"
            )
        except dsconfig.ResolveError as error:
            if verdicts[case.id].ok and {found.effect.value for found in error.diagnostics} != {"crashes"}:
                raise RuntimeError(f"DeepSpeed {release} takes {case.source!r}: {error}") from error
            continue
        yield _promise(case.id, run, case.source)


def elastic(release: str, count: int, seed: int) -> Iterator[Promise]:
    """Blocks that 0.19.7 plans with, resolved for a release that refuses them."""
    for number, case in enumerate(generated_cases(count, seed)):
        size = WORLD_SIZES[number % len(WORLD_SIZES)]
        config = case.get("config")
        if case["call"] != "compute" or not isinstance(config, dict) or "elasticity" not in config:
            continue
        try:
            run = dsconfig.resolve(config, world_size=size, target=release, consumer="deepspeed")
        except dsconfig.ResolveError:
            continue
        yield _promise(f"elastic-{number}", run, config)


def _promise(name: str, run: dsconfig.ResolvedRun, before: Any) -> Promise:
    ranks = run.world_size
    if run.data_parallel_size != ranks and "sequence_parallel_size" not in run.config:
        ranks = int(run.data_parallel_size)  # as an mpu would say
    return Promise(Case(name, "valid", "resolved", ranks, config=run.config), run.triplet, before)


def broken(release: str, promises: Sequence[Promise]) -> list[str]:
    """A line for each promise that the release does not keep."""
    verdicts = judging.judge(release, [promise.case for promise in promises])
    lines = []
    for promise in promises:
        verdict = verdicts[promise.case.id]
        if not verdict.ok or verdict.triplet != promise.triplet:
            said = verdict.triplet if verdict.ok else f"{verdict.error}: {verdict.message}"
            lines.append(f"{promise.case.id}: promised {promise.triplet}, got {said}\n  {promise.before!r}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.resolved", description="See the module.")
    parser.add_argument("--release", action="append", default=[])
    parser.add_argument("--cases", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    failed = 0
    for release in options.release or environment.available():
        promises = list(generated(release, options.cases, options.seed))
        if environment.order(release) > (0, 19, 7):
            promises += elastic(release, options.cases, options.seed)
        lines = broken(release, promises)
        failed += len(lines)
        print(f"DeepSpeed {release}: {len(promises) - len(lines)} of {len(promises)} resolved configs kept")
        print("\n".join(lines[:5]), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
