"""Round trips of configs that releases take: `python -m tests.model.round_trips --cases 20000`.

A config is drawn from the key table of its release, a few sections at a time. Where `Config.from_dict` takes
it, it must give the same back, in the same order; a file of it must read as the same; and one value that is
replaced must be all that differs.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dsconfig import Config, ConfigError
from dsconfig.core.releases import NUMBERS
from dsconfig.model.key_table import child_section, section_view_of_release
from tests.model import strategies
from tests.parity.environment import TESTED

CHANGES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("steps_per_print",), 7_654_321),
    (("gradient_clipping",), 0.012345),
    (("zero_optimization", "stage"), 3),
    (("zero_optimization", "sub_group_size"), 7_654_321),
    (("fp16", "loss_scale_window"), 7_654_321),
    (("optimizer", "type"), "SGD"),
    (("my own",), {"key": [1]}),
)

_TURNS = 100
"""How often more configs are drawn, until a release has taken enough."""


def configs(release: int) -> strategies.Strategy:
    """A batch, and at most three other keys of the top level with all that is in them; some of nobody's."""
    keys = {
        name: key
        for name, key in section_view_of_release("Config", release).keys.items()
        if key.info.refused_from > release and key.info.name == name
    }
    values = {name: strategies.value_of(key, release) for name, key in keys.items()}
    sections = [name for name, key in keys.items() if child_section(key.type)]
    chosen = st.lists(
        st.sampled_from(sections) | st.sampled_from(sorted(values)), min_size=1, max_size=3, unique=True
    )
    some = chosen.flatmap(lambda names: st.fixed_dictionaries({name: values[name] for name in names}))
    own = st.dictionaries(
        st.sampled_from(["my own", "$schema", "// remark"]), st.text(max_size=5), max_size=1
    )
    parts = st.tuples(own, some, st.just({"train_batch_size": 8})).flatmap(st.permutations)
    return parts.map(lambda found: {key: value for part in found for key, value in part.items()})


def round_trip(data: dict[str, Any], release: str, folder: Path, change: int) -> bool:
    """Whether the release takes the config; if so, all that is promised of it is held."""
    try:
        config = Config.from_dict(data, target=release)
    except ConfigError:
        return False
    assert json.dumps(config.to_dict()) == json.dumps(data)
    assert config == Config.from_dict(config.to_dict(), target=release)
    if is_finite(data):
        file = folder / ("config.yaml" if change % 2 else "config.json")
        config.to_file(file)
        again = Config.from_file(file, target=release)
        assert again == config, again.diff(config)
        assert hash(again) == hash(config)
    _replaced(config, *CHANGES[change % len(CHANGES)])
    return True


def is_finite(data: dict[str, Any]) -> bool:
    """Whether JSON can say the config: it knows no infinity."""
    try:
        json.dumps(data, allow_nan=False)
    except ValueError:
        return False
    return True


def same(one: object, other: object) -> bool:
    """Whether two configs write the same."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _replaced(config: Config, path: tuple[str, ...], value: object) -> None:
    expected = copy.deepcopy(config.to_dict())
    home = expected
    for key in path[:-1]:
        home = home.setdefault(key, {})
        if not isinstance(home, dict):  # the release takes something else than an object here
            return
    if path[0] not in Config.model_fields and path[0] not in expected:
        return
    home[path[-1]] = value
    changed = config.replace({".".join(path): value})
    assert changed.to_dict() == expected
    if same(expected, config.to_dict()):  # it was so before
        assert config.diff(changed) == ()
        return
    (difference,) = config.diff(changed)
    assert path[: len(difference.path)] == difference.path


def run(cases: int, number: int) -> dict[str, int]:
    """How many configs of each release were taken, and held."""
    counts: dict[str, int] = {}
    releases = TESTED.split()
    with tempfile.TemporaryDirectory() as folder:
        for release in releases:
            counts[release] = _run(release, -(-cases // len(releases)), number, Path(folder))
            print(f"{release}: {counts[release]}", flush=True)
    return counts


def _run(release: str, wanted: int, number: int, folder: Path) -> int:
    """Draw until the release has taken as many as are wanted; most are taken."""
    count = 0
    for turn in range(_TURNS):
        if count < wanted:
            count += _taken(release, wanted - count, _TURNS * number + turn, folder)
    return count


def _taken(release: str, drawn: int, number: int, folder: Path) -> int:
    """How many of that many configs the release takes."""
    count = 0

    @seed(number)
    @settings(max_examples=drawn, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=configs(NUMBERS[release]), change=st.integers(0, 41))
    def hold(data: dict[str, Any], change: int) -> None:
        nonlocal count
        count += round_trip(data, release, folder, change)

    hold()
    return count


def main(arguments: list[str] | None = None) -> int:
    """Command line of the program."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.model.round_trips", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--cases", type=int, default=400, help="configs that a release takes, of all releases"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    counts = run(options.cases, options.seed)
    print(f"{sum(counts.values())} configs of {len(counts)} releases came back as they were")
    return 0


if __name__ == "__main__":
    sys.exit(main())
