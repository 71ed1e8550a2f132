"""How long editors wait for a config of 5 KB: `python -m tests.editors.bench`.

The language server, in process and over stdio, beside the services of VS Code and of YAML with our schema.
"""

from __future__ import annotations

import statistics
import sys

from tests.editors.conftest import HERE, INSTALL, NODE, Services
from tests.lsp.latency import clean, report, worst

ROUNDS = 50


def main() -> int:
    """Print medians and 95th percentiles of the server and of both services."""
    report()
    if NODE is None or not (HERE / "node_modules").is_dir():
        print(f"editors: node or the language services are missing: run `{INSTALL}`")
        return 0
    services = Services()
    for kind, text in (("clean", clean()), ("worst", worst())):
        for language in ("json", "yaml"):
            taken = services.ask("time", "deepspeed.json", language=language, text=text, rounds=ROUNDS)
            later = statistics.quantiles(taken[5:], n=20)
            print(
                f"editors: {language} service, {kind}, {len(text):,} characters: {later[9]:.1f} ms,"
                f" p95 {later[18]:.1f} ms, first {taken[0]:.0f} ms"
            )
    services.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
