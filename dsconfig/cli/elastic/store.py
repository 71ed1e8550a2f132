"""`dsconfig elastic store`: serve the store separately, so that a job survives the loss of any training node."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.elastic.arguments import (
    add_token_option,
    import_module_with_torch,
    require_posix_signals,
    run_guarded,
)
from dsconfig.cli.errors import CLEAN
from elastic.agent.errors import EXIT_CODES

if TYPE_CHECKING:
    from elastic.agent.job_state import JobOutcome
    from elastic.agent.state_store import StateStore


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic store` to its parser."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    address = "address to listen on (default: 127.0.0.1:29400, not reachable from other machines)"
    add("--listen", default="127.0.0.1:29400", metavar="HOST:PORT", help=address)
    add_token_option(parser)
    add("--until-ended", metavar="ID", help="exit after the job of this name, with its exit code")
    linger = "time to keep serving after the job, so that late nodes learn that it has ended (default: 60)"
    add("--linger", type=float, default=60.0, metavar="SECONDS", help=linger)
    ended = {code: f"{EXIT_CODES[code]} (with --until-ended)" for code in (1, 3)}
    set_exit_codes(parser, {CLEAN: "ended by SIGTERM or Ctrl-C, or after a job that succeeded", **ended})


def run(args: argparse.Namespace) -> int:
    """Serve the store until SIGTERM, Ctrl-C or the end of a job, and return the exit code."""
    return run_guarded(lambda: _serve_store(args.listen, args.token, args.until_ended, args.linger))


def _serve_store(listen: str, secret: str | None, run_id: str | None, linger: float) -> None:
    require_posix_signals("store")
    from elastic.agent.errors import SUCCEEDED, RefusedError, TrainingFailedError
    from elastic.agent.job_settings import RendezvousSettings
    from elastic.agent.state_store import StateStore
    from elastic.agent.store_endpoint import exposure_warning, parse_endpoint
    from elastic.agent.token_store import read_token

    codes = {"succeeded": SUCCEEDED, "failed": TrainingFailedError.code, "refused": RefusedError.code}
    endpoint = parse_endpoint(listen, True, read_token(secret))
    signals = {signal.SIGTERM, signal.SIGINT}
    # Blocked before torch and the store start threads, which inherit the mask: only this thread receives them.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    # torch's server logs a warning with a C++ stack for each invalid line that it receives.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        store = import_module_with_torch("elastic.agent.open_store")
        server = store.host_store(endpoint, RendezvousSettings())
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        raise
    endpoint = replace(endpoint, addresses=((endpoint.host, server.port),))
    if (warning := exposure_warning(endpoint)) is not None:
        print(f"dsconfig: warning: {warning}", file=sys.stderr, flush=True)
    print(f"dsconfig: the store is listening on {endpoint}", flush=True)
    if run_id is None:
        signal.sigwait(signals)
        return
    connection = store.connect_store(endpoint, RendezvousSettings())
    job, ended = StateStore(connection, run_id, "store"), None
    while signal.sigtimedwait(signals, 1.0) is None:
        outcome = _job_outcome(job)
        ended = None if outcome is None else ended or time.monotonic()
        if outcome is not None and ended is not None and time.monotonic() - ended >= linger:
            raise SystemExit(codes[outcome.kind])


def _job_outcome(job: StateStore) -> JobOutcome | None:
    """Return the outcome of the job once all nodes have left, until then None."""
    state = job.read() if job.exists() else None
    return None if state is None or state.members else state.outcome
