"""The workers of the process tests: a tiny training run that writes a ledger of what it consumed.

A step consumes the next `train_batch_size` sample ids, shared among the ranks by micro batch and
accumulation; gloo adds up the gradients. Each rank writes its ids with fsync before it trains on them. Rank 0
writes a checkpoint after the first step, every few, and when the agent wants one; it names the one it grew from. The run ends
after STEPS, or when there is a file `stop` in the ledger. Environment: LEDGER (a folder), STEPS, EVERY,
STEP_SECONDS and, for misbehaviour, FAULT.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

BEGAN = time.monotonic()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

IMPORTED = time.monotonic()
import elastic  # noqa: E402

FOLDER = Path(os.environ["LEDGER"])
STEPS = int(os.environ.get("STEPS", "30"))
EVERY = int(os.environ.get("EVERY", "3"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.15"))
FAULT, _, FAULT_STEP = os.environ.get("FAULT", "").partition("@")


class Ledger:
    """One file a process; a line is on the disk before what it says is done."""

    def __init__(self, session: elastic.Session) -> None:
        self._file = open(FOLDER / f"{session.round:04}-{session.rank}-{os.getpid()}.jsonl", "a")  # noqa: SIM115
        self._same: dict[str, Any] = {
            "round": session.round,
            "rank": session.rank,
            "world": session.world_size,
            "pid": os.getpid(),
            "import": IMPORTED - BEGAN,
            "from": session.checkpoint,
        }

    def write(self, event: str, **more: Any) -> None:
        line = {"t": time.monotonic(), "event": event, **self._same, **more}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def once(name: str) -> bool:
    """Whether nobody has done this yet, in any round."""
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def misbehave(session: elastic.Session, step: int) -> None:
    """The fault of this test, where its step has come."""
    if FAULT == "fail" and step >= int(FAULT_STEP):
        sys.exit(3)
    if step == int(FAULT_STEP or -1) and session.rank == session.world_size - 1:
        if FAULT == "crash" and once("crashed"):
            raise RuntimeError("this test crashes here")
        if FAULT == "kill" and once("killed"):
            os.kill(os.getpid(), signal.SIGKILL)


def load(session: elastic.Session) -> tuple[int, float]:
    """The step to begin with and the weight."""
    if session.checkpoint is None:
        return 0, 0.0
    read = json.loads((FOLDER / session.checkpoint / "state.json").read_text())
    skipped = 1 if FAULT == "skip" and session.round > 1 else 0
    return read["step"] + skipped, read["weight"]


def save(
    session: elastic.Session, ledger: Ledger, step: int, weight: float, parent: str | None
) -> str | None:
    """A checkpoint in this round's folder; None where this round was over."""
    name = f"checkpoints/round-{session.round}/step-{step}"
    (FOLDER / name).mkdir(parents=True, exist_ok=FAULT == "split")
    state = {"step": step, "weight": weight, "parent": parent, "round": session.round}
    (FOLDER / name / "state.json").write_text(json.dumps(state))
    session.check()
    if FAULT == "freeze" and step == int(FAULT_STEP) and once("frozen"):
        ledger.write("frozen")
        os.kill(os.getpid(), signal.SIGSTOP)
    committed = session.commit(name)
    ledger.write("committed" if committed else "refused", checkpoint=name)
    return name if committed else parent


def train(session: elastic.Session) -> None:
    ledger = Ledger(session)
    dist.init_process_group("gloo")
    step, weight = load(session)
    parent = session.checkpoint
    share = session.micro_batch_size * session.accumulation_steps
    stopping = False
    while step < STEPS and not stopping:
        first = step * session.train_batch_size + session.rank * share
        ids = list(range(first, first + share))
        session.check()
        ledger.write("step", step=step, ids=ids)
        misbehave(session, step)
        time.sleep(STEP_SECONDS)
        own = [sum(ids), session.checkpoint_wanted, (FOLDER / "stop").exists()]
        total = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(total)
        gradient, wanted, stopping = total[0].item(), total[1] > 0, bool(total[2] > 0)
        weight += gradient
        step += 1
        if step == 1 or step % EVERY == 0 or step == STEPS or wanted or stopping:
            if session.rank == 0:
                parent = save(session, ledger, step, weight, parent)
            dist.barrier()
    ledger.write("end", weight=weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    assert elastic.current().config()["train_batch_size"] == elastic.current().train_batch_size
    train(elastic.current())
