"""Judges the ledger of a run, by itself: `python -m tests.agent.audit FOLDER --checkpoint NAME --batch N`.

Two questions, neither of which the end state can answer. Was every sample consumed exactly once in the line
of rounds that led to the last checkpoint? Were two rank-0 workers of different rounds ever at work at once?
Prints each fault on a line; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows(folder: Path, which: str = "*") -> list[Row]:
    """Every line of the ledger, or of these files; the last one of a killed worker may be torn."""
    result = []
    for file in sorted(folder.glob(f"{which}.jsonl")):
        lines = file.read_text().splitlines(keepends=True)
        result += [json.loads(line) for line in lines if line.endswith("\n")]
    return result


def life(row: Row) -> tuple[int, int]:
    """Which round, of which store."""
    return row["incarnation"], row["round"]


def line_of(folder: Path, checkpoint: str | None) -> Iterator[tuple[Row, int]]:
    """The checkpoints that led to this one, last first, each with the step at which it began."""
    while checkpoint:
        state = json.loads((folder / checkpoint / "state.json").read_text())
        parent = state["parent"]
        began = json.loads((folder / parent / "state.json").read_text())["step"] if parent else 0
        yield state, began
        checkpoint = parent


def coverage(folder: Path, recorded: list[Row], checkpoint: str, batch: int) -> Iterator[str]:
    """Samples lost or consumed twice in the restored line, up to the step of the checkpoint."""
    steps = json.loads((folder / checkpoint / "state.json").read_text())["step"]
    consumed: list[int] = []
    done = [row for row in recorded if row["event"] == "step"]
    for state, began in line_of(folder, checkpoint):
        for row in done:
            if life(row) == life(state) and began <= row["step"] < state["step"]:
                consumed += row["ids"]
    wanted = set(range(steps * batch))
    lost = sorted(wanted - set(consumed))
    if lost:
        yield f"{len(lost)} samples lost, first {lost[0]}"
    twice = len(consumed) - len(set(consumed))
    if twice:
        yield f"{twice} samples consumed twice"
    if set(consumed) - wanted:
        yield "samples consumed that are not in the data"


def overlaps(recorded: list[Row]) -> Iterator[str]:
    """Rank-0 workers of different rounds, or two of one round, at work at the same time."""
    spans: dict[tuple[tuple[int, int], int], tuple[float, float]] = {}
    for row in recorded:
        if row["rank"] == 0:
            key = (life(row), row["pid"])
            first, last = spans.get(key, (row["t"], row["t"]))
            spans[key] = (min(first, row["t"]), max(last, row["t"]))
    ordered = sorted(spans.items(), key=lambda span: span[1])
    for ((round_a, pid_a), (_, end)), ((round_b, pid_b), (start, _)) in pairwise(ordered):
        if start < end:
            yield f"rank 0 of round {round_a[1]} ({pid_a}) and of round {round_b[1]} ({pid_b}) overlap"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--batch", type=int, required=True)
    options = parser.parse_args()
    recorded = rows(options.folder)
    faults = [
        *coverage(options.folder, recorded, options.checkpoint, options.batch),
        *overlaps(recorded),
    ]
    print(*faults or [f"clean: {len(recorded)} lines"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
