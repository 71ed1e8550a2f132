"""`dsconfig elastic store`: the store by itself, so that no training node takes the job with it."""

from __future__ import annotations

import argparse
import signal

from dsconfig.cli.elastic_options import guarded, with_torch


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    where = "listen there (default: 0.0.0.0:29400)"
    parser.add_argument("--listen", default="0.0.0.0:29400", metavar="HOST:PORT", help=where)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    return guarded(lambda: _serve(args.listen))


def _serve(listen: str) -> None:
    from elastic.agent.settings import Settings

    store = with_torch("elastic.agent.store")
    host, port = store.parse_endpoint(listen)
    waited = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the store starts its thread, which inherits it: then only this thread takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    server = store.host_store(host, port, Settings())
    print(f"dsconfig: the store listens on {host}:{server.port}", flush=True)
    signal.sigwait(waited)
