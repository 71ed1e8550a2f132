"""Compares `elastic` with the real `deepspeed.elasticity` of six releases, on thousands of generated blocks.

    python -m tests.parity.elastic --home .parity --cases 20000

`--home` holds `ds/<release>/deepspeed` and `venv` (numpy, packaging).  Two comparisons a case: `as_released`
must return or raise exactly what the release does; `compute_elastic_config` likewise outside
`elastic.DIFFERENCES`, which are counted.  Exit status 1 where anything else differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import elastic
from elastic.deepspeed.differences_from_deepspeed import overflows
from elastic.errors import NoWorldSizesError
from tests.parity import environment
from tests.parity.generators.elastic_blocks import Case, for_release, generated_cases
from tests.parity.workers.elasticity import public_error, set_environment

RELEASES = ("0.3.16", "0.6.7", "0.10.3", "0.14.5", "0.19.5", "0.19.7")
WORKER = environment.WORKERS / "elasticity.py"


def real_answers(home: Path, release: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """What the release itself answers, from a process of its own."""
    command = [str(home / "venv" / "bin" / "python"), "-W", "ignore", str(WORKER), str(home / "ds" / release)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    # Only what the interpreter needs: the variables under test are set case by case.
    variables = {"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, env=variables)
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    """`{"ok": value}` as JSON would carry it, or `{"error": type}`."""
    try:
        value = call()
    except Exception as error:
        return {"error": public_error(error)}
    return {"ok": list(value) if isinstance(value, tuple) else value}


def differing(case: Case, semantics: elastic.ElasticitySemantics) -> str | None:
    """The documented difference that applies to a case, by its predicate; `None` where there is none."""
    try:
        answer = elastic.as_released(*_arguments(case, semantics), semantics=semantics)
    except NoWorldSizesError:
        return "no-world-sizes"
    except Exception:
        return None
    return next((entry.name for entry in elastic.DIFFERENCES if entry.holds(answer)), None)


def compare(
    case: Case, real: dict[str, Any], semantics: elastic.ElasticitySemantics
) -> tuple[str, str | None]:
    """`("same", None)`, `("documented", name)` or `("different", text)`."""
    set_environment(case["environment"])
    if case["call"] == "enabled":
        return _verdict(case, real, outcome(lambda: elastic.elasticity_enabled(case["config"])))
    if case["call"] == "immutable":
        block, check = case["config"]["elasticity"], elastic.ensure_immutable_elastic_config
        return _verdict(case, real, outcome(lambda: check(block, semantics=semantics)))
    if case["call"] != "compute":
        return _compare_part(case, real, semantics)
    if _wraps(case):
        return "documented", "int64-overflow"
    arguments = _arguments(case, semantics)
    replayed = outcome(lambda: elastic.as_released(*arguments, semantics=semantics).as_tuple())
    verdict = _verdict(case, real, replayed)
    if verdict[0] == "different":
        return verdict
    computed = outcome(lambda: elastic.compute_elastic_config(*arguments, semantics=semantics))
    name = differing(case, semantics)
    if name is None:
        return _verdict(case, real, computed)
    refused = str(computed.get("error", "")).startswith("Elasticity")
    return ("documented", name) if refused else ("different", f"{name} is not refused: {case}")


def _compare_part(
    case: Case, real: dict[str, Any], semantics: elastic.ElasticitySemantics
) -> tuple[str, str | None]:
    """Compare one building block, such as `get_valid_gpus`, called by itself."""
    function = getattr(elastic, case["call"])
    extra = {"semantics": semantics} if case["call"] == "get_candidate_batch_sizes" else {}
    ours = outcome(lambda: function(*case["arguments"], **extra))
    if case["call"] == "get_best_candidates" and "ok" in real and not real["ok"][1]:
        refused = ours == {"error": "ElasticityConfigError"}
        return ("documented", "no-world-sizes") if refused else _verdict(case, real, ours)
    return _verdict(case, real, ours)


def _arguments(case: Case, semantics: elastic.ElasticitySemantics) -> tuple[Any, str, int, bool]:
    # Releases before 0.7.0 have no such parameter; the worker leaves it out there, too.
    wants_micro = case["return_microbatch"] and semantics.latest_version >= 0.2
    return case["config"], case["target"], case["world_size"], wants_micro


def _wraps(case: Case) -> bool:
    try:
        block = case["config"]["elasticity"]
        return overflows(block["micro_batch_sizes"], block["max_train_batch_size"])
    except Exception:
        return False


def _verdict(case: Case, real: dict[str, Any], ours: dict[str, Any]) -> tuple[str, str | None]:
    return ("same", None) if real == ours else ("different", f"{case}\n  real {real}\n  ours {ours}")


def run(home: Path, releases: Sequence[str], cases: Sequence[Case]) -> int:
    """Compare all releases on all cases and print the counts; the number of undocumented differences."""
    return sum(_run_release(home, release, cases) for release in releases)


def _run_release(home: Path, release: str, cases: Sequence[Case]) -> int:
    semantics = elastic.semantics_for(release)
    verdicts: Counter[str] = Counter(same=0, documented=0, different=0)
    documented: Counter[str] = Counter()
    plans = 0
    given = [for_release(case, release, semantics.latest_version) for case in cases]
    for case, answer in zip(given, real_answers(home, release, given), strict=True):
        plans += _is_plan(case, answer)
        verdict, detail = compare(case, answer, semantics)
        verdicts[verdict] += 1
        documented[str(detail)] += verdict == "documented"
        if verdict == "different" and verdicts[verdict] <= 5:
            print(detail, file=sys.stderr)
    counted = {name: count for name, count in documented.most_common() if count}
    # Documented cases passed the first comparison, too; only those beyond 64 bits skip it.
    replayed = len(cases) - verdicts["different"] - documented["int64-overflow"]
    print(
        f"{release}: {len(cases)} cases, {plans} plans, as released {replayed}, {dict(verdicts)}, {counted}"
    )
    return verdicts["different"]


def _is_plan(case: Case, answer: dict[str, Any]) -> bool:
    """Whether DeepSpeed gave a batch above 0 and at least one world size."""
    if case["call"] != "compute" or not answer.get("ok"):
        return False
    batch, sizes, *_ = answer["ok"]
    return bool(batch and sizes)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("DSCONFIG_PARITY_HOME", ".parity")))
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--releases", nargs="+", help="default: those of the suite that are built")
    options = parser.parse_args()
    built = [release for release in RELEASES if (options.home / "ds" / release).is_dir()]
    releases = options.releases or built
    logging.getLogger("elastic").setLevel(logging.ERROR)
    cases = list(generated_cases(options.cases, options.seed))
    v02 = sum(1 for case in cases if _version(case) == 0.2)
    print(f"{len(cases)} cases from seed {options.seed}, {v02} of them v0.2")
    return 1 if run(options.home.absolute(), releases, cases) else 0


def _version(case: Case) -> Any:
    try:
        return case["config"]["elasticity"]["version"]
    except (KeyError, TypeError):
        return None


if __name__ == "__main__":
    raise SystemExit(main())
