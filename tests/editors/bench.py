"""How long VS Code's service takes for a config of 5 KB: `python -m tests.editors.bench`."""

from __future__ import annotations

import json
import statistics
import sys
from random import Random
from typing import Any

from dsconfig.releases import LATEST
from tests.editors.conftest import HERE, INSTALL, NODE, Services
from tests.parity.generators import bases

SIZE, ROUNDS = 5 * 1024, 50


def config() -> str:
    """A config of that size, every section as large as the generator makes it."""
    rng = Random(5)
    text, found = "", dict[str, Any]()
    while len(text) < SIZE:
        for key, value in bases.rich(rng, LATEST, 8).items():
            old = found.get(key)
            found[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        if len(json.dumps(found, indent=2)) <= len(text):
            found[f"// remark {len(found)}"] = "a remark of some length, as people write them " * 4
        text = json.dumps(found, indent=2)
    return text


def main() -> int:
    """Print the median for both services."""
    if NODE is None or not (HERE / "node_modules").is_dir():
        print(f"editors: node or the language services are missing: run `{INSTALL}`")
        return 0
    services, text = Services(), config()
    for language in ("json", "yaml"):
        taken = services.ask("time", "deepspeed.json", language=language, text=text, rounds=ROUNDS)
        later = statistics.median(taken[5:])
        print(
            f"editors: {language} service, {len(text):,} characters: {later:.1f} ms, first {taken[0]:.0f} ms"
        )
    services.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
