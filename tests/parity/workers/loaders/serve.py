"""Reads cases, writes them as files into an empty folder, and says what a loader made of each."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 8
"""The processes of every job."""
Config = dict[str, Any]
LAUNCH, CONFIG = "train.yaml", "ds.json"


def serve(load: Callable[[Config], tuple[Config, list[str]]]) -> None:
    """Answer every case; what `load` prints goes to standard error.

    Args:
        load: makes of a case, whose files lie in the current folder, what goes to DeepSpeed, and the keys
            of mismatches that it names.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for line in sys.stdin:
            case = json.loads(line)
            # YAML reads JSON, but for a number such as 1e-5, which is to arrive as people write it.
            Path(LAUNCH).write_text(case["text"], "utf-8")
            Path(CONFIG).write_text(json.dumps(case["config"]), "utf-8")
            try:
                config, mismatches = load(case)
                answer = {"config": config, "mismatches": mismatches}
            except (Exception, SystemExit) as error:
                answer = {"refused": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
        os.chdir("/")
