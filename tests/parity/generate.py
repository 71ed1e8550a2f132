"""Prints the cases of a seed as JSON lines, to look at them.

`python -m tests.parity.generate --release 0.19.8 --cases 3000 --seed 0`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from tests.parity.generators.cases import generate


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.generate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--release", default="0.19.8")
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for case in generate(options.release, options.cases, options.seed):
        print(json.dumps(dataclasses.asdict(case)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
