"""The workers of the process tests: a tiny training run that writes a ledger of what it consumed.

A step consumes the next `train_batch_size` sample ids, shared among the ranks by micro batch and
accumulation; gloo adds up the gradients. Each rank writes its ids with fsync before it trains on them. Rank 0
writes a checkpoint after the first step, every few, and when the agent wants one; it names the one it grew
from. The run ends after STEPS, or when there is a file `stop` in the ledger. Environment: LEDGER (a folder),
STEPS, EVERY, STEP_SECONDS and, for misbehaviour, FAULT.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

BEGAN = time.monotonic()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

IMPORTED = time.monotonic()
import elastic  # noqa: E402
from elastic import Checkpoints  # noqa: E402
from tests.agent.ledger import Ledger  # noqa: E402

FOLDER = Path(os.environ["LEDGER"])
STEPS = int(os.environ.get("STEPS", "30"))
EVERY = int(os.environ.get("EVERY", "3"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.15"))
FAULT, _, FAULT_STEP = os.environ.get("FAULT", "").partition("@")


def once(name: str) -> bool:
    """Whether nobody has done this yet, in any round."""
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def told(name: str) -> str | None:
    """Content of a file in the ledger's folder for the process that removes it first; `None` for others."""
    with contextlib.suppress(FileNotFoundError):
        text = (FOLDER / name).read_text()
        (FOLDER / name).unlink()
        return text
    return None


def misbehave(session: elastic.Session, step: int) -> None:
    """The fault of this test, where its step has come, or one that the ledger's folder asks for."""
    if (wanted := told("hang-one")) is not None:
        time.sleep(float(wanted or 3600))
    if FAULT == "fail" and step >= int(FAULT_STEP):
        sys.exit(3)
    if step == int(FAULT_STEP or -1) and session.rank == session.world_size - 1:
        if FAULT == "crash" and once("crashed"):
            raise RuntimeError("this test crashes here")
        if FAULT == "hang" and once("hung"):
            time.sleep(3600)
        if FAULT == "kill" and once("killed"):
            os.kill(os.getpid(), signal.SIGKILL)


class Training:
    """How far the training has come, and from which checkpoint it grew."""

    def __init__(self, session: elastic.Session) -> None:
        self._session = session
        self._checkpoints = Checkpoints(FOLDER, session)
        self.step, self.weight, self._parent = 0, 0.0, None
        if saved := self._checkpoints.latest():
            read = json.loads((FOLDER / saved.name / "state.json").read_text())
            skipped = 1 if FAULT == "skip" and session.round > 1 else 0
            self.step, self.weight, self._parent = read["step"] + skipped, read["weight"], saved.name

    def save(self, ledger: Ledger) -> None:
        """A checkpoint in this round's folder; it does not become the latest if this round is over."""
        tag = f"step-{self.step}"
        folder = self._checkpoints.folder / tag
        folder.mkdir(parents=True, exist_ok=FAULT == "split")
        state = {"step": self.step, "weight": self.weight, "parent": self._parent}
        state |= {"round": self._session.round, "incarnation": self._session.incarnation}
        full = told("disk-full") is not None
        (Path("/dev/full") if full else folder / "state.json").write_text(json.dumps(state))
        self._session.check()
        if FAULT == "freeze" and self.step == int(FAULT_STEP) and once("frozen"):
            ledger.write("frozen")
            os.kill(os.getpid(), signal.SIGSTOP)
        name = f"{folder.parent.name}/{tag}"
        self._checkpoints.commit(tag)
        self._parent = name
        ledger.write("committed", checkpoint=name)


def train(session: elastic.Session) -> None:
    training = Training(session)
    ledger = Ledger(FOLDER, session, began=BEGAN, **{"import": IMPORTED - BEGAN})
    dist.init_process_group("gloo")
    share = session.micro_batch_size * session.accumulation_steps
    stopping = False
    while training.step < STEPS and not stopping:
        first = training.step * session.train_batch_size + session.rank * share
        ids = list(range(first, first + share))
        session.check()
        ledger.write("step", step=training.step, ids=ids)
        misbehave(session, training.step)
        time.sleep(STEP_SECONDS)
        local_values = [sum(ids), session.checkpoint_wanted, (FOLDER / "stop").exists()]
        total = torch.tensor(local_values, dtype=torch.float64)
        dist.all_reduce(total)
        wanted, stopping = bool(total[1] > 0), bool(total[2] > 0)
        training.weight += total[0].item()
        training.step += 1
        if training.step == 1 or training.step % EVERY == 0 or training.step == STEPS or wanted or stopping:
            if session.rank == 0:
                training.save(ledger)
            dist.barrier()
    ledger.write("end", weight=training.weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    assert elastic.current().config()["train_batch_size"] == elastic.current().train_batch_size
    train(elastic.current())
