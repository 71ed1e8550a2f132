"""Confirms the rules of effect `crashes` with real engines: `python -m tests.parity.crashes`.

Every entry of `crashes` in a rule's case file (see `tests.cases`) holds a config that a release loads and
that stops its engine (`bad`), a part of what the engine says then (`raises`), and one that trains (`good`).
Here `deepspeed.initialize` and training steps on CPU judge both, and `dsconfig` has to agree: the code on the
bad one, no error on the good. Its other keys but `torch_adam` are options of the engine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsconfig.api.check import check
from tests.cases import files, read
from tests.parity import environment
from tests.parity.judges import engines
from tests.parity.judges.engines import Trial, TrialResult

OWN = frozenset({"name", "release", "bad", "good", "raises", "torch_adam"})
"""Keys of an entry that are not options of the engine."""


@dataclass(frozen=True, slots=True)
class Crash:
    """One case: what stops the engine, what it says, and what does not stop it."""

    rule: str
    """Code and name of the rule, as the file is called."""
    domain: str
    entry: str
    release: str
    bad: dict[str, Any]
    good: dict[str, Any] | None
    raises: str
    options: tuple[tuple[str, Any], ...]

    @property
    def code(self) -> str:
        return self.rule.partition("-")[0]

    @property
    def name(self) -> str:
        return f"{self.rule}/{self.entry}"

    def trials(self) -> Iterator[Trial]:
        yield Trial(f"{self.name} bad", self.bad, self.options)
        if self.good is not None:
            yield Trial(f"{self.name} good", self.good, self.options)

    def verdict(self, results: dict[str, TrialResult]) -> str | None:
        """What the engine contradicts in the case; None where it agrees."""
        bad, good = results[f"{self.name} bad"], results.get(f"{self.name} good")
        if bad.ok is not False:
            return f"the bad config is not stopped: {bad.phase} {bad.said}"
        if self.raises.lower() not in bad.said.lower():
            return f"the bad config says something else: {bad.said[:300]}"
        if good is not None and not good.ok:
            return f"the good config is stopped in {good.phase}: {good.said[:300]}"
        return None

    def disagreement(self) -> str | None:
        """What `dsconfig` contradicts in the case; None where it agrees."""
        found = [
            d
            for d in check(self.bad, target=self.release, world_size=1, consumer="deepspeed")
            if d.code == self.code
        ]
        if not any(d.severity == "error" for d in found):
            return f"dsconfig does not find {self.code} in the bad config"
        good = check(self.good, target=self.release, world_size=1, consumer="deepspeed") if self.good else ()
        errors = [d for d in good if d.severity == "error"]
        return f"dsconfig finds {errors[0].code} in the good config: {errors[0].message}" if errors else None


def load() -> list[Crash]:
    """Every case, by the names of their rules."""
    return [_crash(path, entry) for path in files() for entry in read(path).get("crashes", ())]


def _crash(path: Path, entry: dict[str, Any]) -> Crash:
    bad, good = (_with_adam(entry.get(kind), entry) for kind in ("bad", "good"))
    # As a dict, as `check` sees it here: DeepSpeed's file reader would turn 1.0 into 1.
    options = tuple(sorted({"dict": True, **{k: v for k, v in entry.items() if k not in OWN}}.items()))
    assert bad is not None, path
    return Crash(
        path.stem, path.parent.name, entry["name"], entry["release"], bad, good, entry["raises"], options
    )


def _with_adam(config: dict[str, Any] | None, said: dict[str, Any]) -> dict[str, Any] | None:
    """The config with torch's own Adam where the case asks for it: that one needs no compiler."""
    optimizer = config.get("optimizer") if config else None
    if said.get("torch_adam") and isinstance(optimizer, dict) and config is not None:
        params = {**(optimizer.get("params") or {}), "torch_adam": True}
        return {**config, "optimizer": {**optimizer, "params": params}}
    return config


def confirm(cases: Sequence[Crash]) -> Iterator[tuple[Crash, str | None]]:
    """What is wrong with each case, release by release; None where engine and `dsconfig` agree with it.

    The newest release comes first: it compiles the ops for a CPU, which older ones load and cannot all build.
    """
    for release in sorted({case.release for case in cases}, key=environment.order, reverse=True):
        own = [case for case in cases if case.release == release]
        results = engines.run(release, [trial for case in own for trial in case.trials()])
        for case in own:
            yield case, case.verdict(results) or case.disagreement()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; 0 where all are confirmed, and as many as required."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.crashes", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--release", action="append", help="the cases of this release only; may be repeated")
    parser.add_argument("--only", metavar="TEXT", default="", help="the cases whose name holds this")
    parser.add_argument(
        "--require", type=int, default=0, metavar="N", help="exit 1 below this many confirmed"
    )
    options = parser.parse_args(arguments)
    available = environment.available()
    wanted = [case for case in load() if options.only in case.name]
    wanted = [case for case in wanted if case.release in (options.release or available)]
    left_out = sorted({case.release for case in load()} - set(available))
    if left_out:
        print(f"crashes: not in the environment, left out: {' '.join(left_out)}")
    start = time.monotonic()
    confirmed = []
    for case, wrong in confirm(wanted):
        print(f"crashes: {case.name}: {wrong or 'confirmed'}", flush=True)
        confirmed += [] if wrong else [case]
    for domain, count in sorted(Counter(case.domain for case in confirmed).items()):
        print(f"{count:5} {domain}")
    print(f"crashes: {len(confirmed)} of {len(wanted)} confirmed in {time.monotonic() - start:.0f} s")
    return 0 if len(confirmed) == len(wanted) and len(confirmed) >= options.require else 1


if __name__ == "__main__":
    sys.exit(main())
