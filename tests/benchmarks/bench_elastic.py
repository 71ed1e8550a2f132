"""How fast `elastic` is beside DeepSpeed's own solver: ratios, measured in one run.

    python tests/benchmarks/bench_elastic.py [--home .parity] [--release 0.19.7] [--runs 7]

Every figure of the first table is the first call in a fresh process, imports apart, median over the runs.
Without the releases under `--home` only the figures of `elastic` are printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMED = """
import sys, time
{load}
config = {config!r}
start = time.perf_counter()
compute(config, "0.19.7")
print((time.perf_counter() - start) * 1e6)
"""
OURS = f"sys.path.insert(0, {str(ROOT)!r})\nfrom elastic import compute_elastic_config as compute"
SEARCH = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
start = time.perf_counter()
import elastic
found = elastic.search({{config!r}})
print((time.perf_counter() - start) * 1e6)
"""
SETS = ([2, 4, 6], [8, 12, 16, 17], [1, 2, 3, 5, 7, 11])
TEN = [3, 4, 5, 7, 8, 10, 11, 13, 16, 24]


def config(cap: int, micro_batches: list[int], max_gpus: int = 10000) -> dict[str, Any]:
    """A v0.1 block."""
    block = {"max_train_batch_size": cap, "micro_batch_sizes": micro_batches, "max_gpus": max_gpus}
    return {"elasticity": {"enabled": True, "version": 0.1, **block}}


def measure(python: str, program: str, runs: int) -> float:
    """Median microseconds that a program prints, each run in a fresh interpreter."""
    command = [python, "-W", "ignore", "-c", program]
    return median(float(subprocess.check_output(command, text=True, cwd="/")) for _ in range(runs))


def compare(home: Path, release: str, runs: int) -> None:
    """First calls of both solvers, by cap, set and bound on GPUs."""
    python, root = home / "venv" / "bin" / "python", home / "ds" / release
    worker = ROOT / "tests" / "parity" / "workers"
    load = f"sys.path.insert(0, {str(worker)!r})\nfrom elasticity import load"
    real = f"{load}\ncompute = load({str(root)!r}).compute_elastic_config"
    print(f"{'cap':>9} {'max_gpus':>9} {'micro batches':22} {'elastic us':>11} {release:>10} us {'ratio':>8}")
    cases = [(cap, SETS[0], 10000) for cap in (10, 100, 2000)]
    cases += [(cap, SETS[0], gpus) for cap in (86486, 864864, 8648640) for gpus in (10000, cap)]
    cases += [(8648640, micro_batches, gpus) for micro_batches in SETS[1:] for gpus in (10000, 8648640)]
    for cap, micro_batches, gpus in cases:
        block = config(cap, micro_batches, gpus)
        ours = measure(sys.executable, TIMED.format(load=OURS, config=block), runs)
        line = f"{cap:9} {gpus:9} {micro_batches!s:22} {ours:11.0f}"
        if python.exists():
            # One run is enough where DeepSpeed takes seconds.
            few = runs if cap * gpus < 10**11 else 1
            theirs = measure(str(python), TIMED.format(load=real, config=block), few)
            line += f" {theirs:13.0f} {theirs / ours:8.1f}"
        print(line, flush=True)


def growth(runs: int) -> None:
    """Cost by growing cap: the heuristic's first call, and the exact search with its import of numpy."""
    print(f"\n{'cap':>13} {'heuristic us':>13} {'exact search ms':>16}   ten micro batches, max_gpus 10000")
    for exponent in range(3, 13):
        block = config(10**exponent, TEN)
        first = measure(sys.executable, TIMED.format(load=OURS, config=block), runs)
        exact = (
            f"{measure(sys.executable, SEARCH.format(config=block), 1) / 1000:16.0f}" if exponent < 8 else ""
        )
        print(f"{10**exponent:13} {first:13.0f} {exact}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("DSCONFIG_PARITY_HOME", ".parity")))
    parser.add_argument("--release", default="0.19.7")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    compare(options.home.absolute(), options.release, options.runs)
    growth(options.runs)


if __name__ == "__main__":
    main()
