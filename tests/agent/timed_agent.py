"""`timed_agent.py FOLDER ARGUMENT...`: `python -m dsconfig`, which writes how long it takes to import torch.

The file `FOLDER/PID.import` gets the seconds, so that `tests.agent.latency` can show them apart from the agent's own.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

folder = Path(sys.argv.pop(1))
sys.path.pop(0)  # the folder of this script
began = time.monotonic()
import torch  # noqa: E402, F401 - measured

(folder / f"{os.getpid()}.import").write_text(str(time.monotonic() - began))
runpy.run_module("dsconfig", run_name="__main__", alter_sys=True)
