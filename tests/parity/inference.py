"""Compares `dsconfig` with `DeepSpeedInferenceConfig` of real releases: `python -m tests.parity.inference`.

`--release` may be given several times, `--cases` and `--seed` are those of `tests.parity.run`. Releases before
0.7.6 have no such config. `--record` writes the verdicts, which `test_inference.py` compares without DeepSpeed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dsconfig.job.consumers import INFERENCE
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.inference import generate
from tests.parity.judges import compare, judging
from tests.parity.judges.compare import Outcome

FIRST = (0, 7, 6)
"""The first release with `deepspeed/inference/config.py`."""
RECORDED = Path(__file__).with_name("inference_verdicts.jsonl")
"""Verdicts of real releases: release, config or text, and whether the release accepts it."""


def outcomes(release: str, count: int, seed: int) -> list[Outcome]:
    """Both verdicts on every case of a seed."""
    cases = list(generate(release, count, seed))
    verdicts = judging.judge(release, cases, program="inference_judge.py")
    check = compare.checker()
    return [compare.outcome(release, case, verdicts[case.id], check, INFERENCE) for case in cases]


def record(judged: Iterable[Outcome]) -> None:
    """Writes the verdicts on the cases."""
    with RECORDED.open("w", encoding="utf-8") as file:
        for each in judged:
            given = {"config": each.case.config} if each.case.text is None else {"text": each.case.text}
            file.write(json.dumps({"release": each.release, "ok": each.verdict.ok} | given) + "\n")


def recorded() -> Iterator[tuple[str, Case, bool]]:
    """The recorded verdicts: release, case, and whether the release accepts it."""
    for number, line in enumerate(RECORDED.read_text("utf-8").splitlines()):
        entry = json.loads(line)
        case = Case(f"recorded-{number}", "valid", "recorded", 1, entry.get("config"), entry.get("text"))
        yield entry["release"], case, entry["ok"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 where both verdicts are equal on every case."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.inference", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--release", action="append", default=[], help="may be given several times")
    parser.add_argument(
        "--all", action="store_true", help="every release of the environment that has the config"
    )
    parser.add_argument("--cases", type=int, default=600, metavar="N", help="cases of each release")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to print in full")
    parser.add_argument("--record", action="store_true", help=f"write the verdicts to {RECORDED.name}")
    options = parser.parse_args(arguments)
    available = [each for each in environment.available() if environment.order(each) >= FIRST]
    wanted = available if options.all else options.release or available[-1:]
    if missing := [each for each in wanted if each not in available] or not wanted:
        print(f"not in the environment, or without inference configs: {missing}", file=sys.stderr)
        return 2
    everything: list[Outcome] = []
    for release in wanted:
        judged = outcomes(release, options.cases, options.seed)
        print(compare.row(f"inference, {release}", judged))
        wrong = [each for each in judged if each.decided and not each.agrees]
        print("\n".join(compare.causes(wrong)), end="\n" if wrong else "")
        for each in wrong[: options.show]:
            print("\n".join(compare.describe(each)))
        everything += judged
    if options.record:
        record(everything)
    return 0 if compare.agreement(everything) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
