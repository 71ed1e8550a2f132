"""A worker without torch, for thousands of rounds: looks at its lease, waits a moment, and writes a line.

The moment is where a freeze is meant to catch it.  Rank 0 commits every few lines.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import elastic
import elastic.worker.session as worker_session
from tests.agent.ledger import Ledger

FOLDER = Path(os.environ["LEDGER"])
MOMENT = 0.02


def main() -> None:
    if "DSCONFIG_TEST_NO_KEEPER" in os.environ:
        worker_session.start_watchdog = lambda _: None
    session = elastic.current()
    ledger = Ledger(FOLDER, session)
    step = 0
    while not (FOLDER / "stop").exists():
        session.check()
        time.sleep(MOMENT)
        ledger.write("step", step=step)
        step += 1
        if session.rank == 0 and step % 10 == 0:
            name = f"round-{session.round}/{step}"
            session.check()
            time.sleep(MOMENT)
            session.commit(name)
            ledger.write("committed", checkpoint=name)


if __name__ == "__main__":
    main()
