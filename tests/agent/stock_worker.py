"""A worker for stock torchrun, without any of this package: steps with gloo and writes when they began."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

BEGAN = time.monotonic()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

IMPORTED = time.monotonic()

FOLDER = Path(os.environ["LEDGER"])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

dist.init_process_group("gloo")
began = time.monotonic()
with (FOLDER / f"{began:.3f}-{RANK}-{os.getpid()}.jsonl").open("a") as file:
    step = torch.zeros(1)
    marks = FOLDER / "stock-step"
    if RANK == 0 and marks.exists():
        step += float(marks.read_text() or 0)
    dist.broadcast(step, 0)
    while step < int(os.environ["STEPS"]) and not (RANK == WORLD - 1 == 0 and (FOLDER / "stop").exists()):
        row = {"t": time.monotonic(), "event": "step", "rank": RANK, "world": WORLD, "pid": os.getpid()}
        row["import"] = IMPORTED - BEGAN
        file.write(json.dumps({**row, "round": int(began * 1000), "step": int(step)}) + "\n")
        file.flush()
        time.sleep(float(os.environ.get("STEP_SECONDS", "0.15")))
        one = torch.ones(1) / WORLD
        dist.all_reduce(one)
        step += one.round()
        if RANK == 0:
            marks.write_text(str(int(step)))
dist.destroy_process_group()
