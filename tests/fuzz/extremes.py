"""Values beyond all sense in configs that otherwise make some: `python -m tests.fuzz.extremes --cases N`.

Rules calculate with what is written, and an integer of 400 digits beside a float overflows, a float next to
nothing divides to infinity. Prints what raised something that no docstring names, once for each place.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random

import dsconfig
from dsconfig.core.json_types import Json, JsonObject
from tests.fuzz.drafts import PATHS, Draft, drafts

EXTREMES: list[Json] = [
    *(10**400, -(10**400), 10**4000, 2**63, 2**53 + 1, 0, -1, 1),
    *(1.7e308, -1.7e308, 5e-324, 1.5, 1e-9),
    *("9" * 5000, "1e400", "auto", True, None, [], {}, [10**400], {"a": 10**400}),
]
COUNTED = [
    path
    for path in PATHS
    if path[-1].endswith(("_size", "_steps", "_per_gpu", "_gpus", "_factor", "_scale", "_elements", "_numel"))
]
"""Keys that rules calculate with."""


def extreme(draft: Draft, spread: Random) -> Draft:
    """The draft with one to four values replaced."""
    config = deepcopy(draft.config) if isinstance(draft.config, dict) else {}
    written = list(leaves(config))
    for _ in range(spread.randint(1, 4)):
        path = spread.choice(spread.choice((COUNTED, PATHS, written or PATHS)))
        put(config, path, deepcopy(spread.choice(EXTREMES)))
    return draft._replace(config=config)


def leaves(value: JsonObject, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all keys in it."""
    for key, item in value.items():
        yield (*above, key)
        if isinstance(item, dict):
            yield from leaves(item, (*above, key))


def put(config: JsonObject, path: tuple[str, ...], value: Json) -> None:
    """Write the value at the path; what stands in the way goes."""
    for key in path[:-1]:
        inner = config.get(key)
        if not isinstance(inner, dict):
            inner = config[key] = {}
        config = inner
    config[path[-1]] = value


def raised(draft: Draft) -> Iterator[str]:
    """What checking, fixing and resolving it raises, with the place."""
    text = json.dumps(draft.config)
    size, more = draft.world_size, {"target": draft.target, "consumer": draft.consumer}
    for source in (draft.config, text):
        yield from _place(dsconfig.check, source, world_size=size, **more)
        yield from _place(dsconfig.resolve, source, world_size=size or 4, **more)
    yield from _place(dsconfig.fix, text, unsafe=True, world_size=size, **more)


def _place(call: Callable[..., object], *given: object, **options: object) -> Iterator[str]:
    try:
        call(*given, **options)
    except (dsconfig.ResolveError, dsconfig.ConfigError):
        return
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        yield f"{type(error).__name__} in {last.filename}:{last.lineno} ({last.name}): {error}"


def main() -> int:
    """Try as many as asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.extremes", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spread, found = Random(f"extremes {options.seed}"), dict[str, Draft]()
    for draft in drafts(options.cases, options.seed):
        tried = extreme(draft, spread)
        for place in raised(tried):
            found.setdefault(place, tried)
    print(f"{options.cases} configs, {len(found)} places that raise")
    for place, tried in found.items():
        print(f"--- {place}\n{tried[1:]}\n{json.dumps(tried.config)[:2000]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
