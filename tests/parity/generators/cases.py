"""The seeded generator: a third valid cases, a third with one mutation, a third in which things interact.

`python -m tests.parity.generate` prints them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.parity.environment import order
from tests.parity.generators import bases, keyspace, mutate, situations, values, writing
from tests.parity.generators.case import WORLD_SIZES, Case, Class

STRICT_SECTIONS = (0, 7)
"""Before, no section refuses a key or a type by itself: it takes more at once to see refusals as often."""
DELICATE = {
    "elasticity",
    "sequence_parallel_size",
    "gradient_allreduce_op",
    "vocabulary_size",
    "nebula",
    "use_gds",
    "dtype",
    "cpu_offload",
    "cpu_offload_param",
    "cpu_offload_params",
    "cpu_offload_use_pin_memory",
    "ratio",
    "compute_grad_norm",
    "fp16_master_weights_and_grads",
    "bf16_master_weights_and_grads",
    "bf16_optimizer_states",
    "max_grad_norm",
    "load_balance_coeff",
    "mics_shard_size",
    "legacy_stage1",
    "stage3_gather_fp16_weights_on_model_save",
    "exps_dir",
    "results_dir",
}
"""Keys on which a right value alone may be refused: they belong to the situations."""


def generate(release: str, count: int, seed: int) -> Iterator[Case]:
    """`count` cases for this release; the same arguments give the same cases."""
    third = count // 3
    yield from valid(release, count - 2 * third, Random(f"valid {release} {seed}"))
    yield from mutated(release, third, Random(f"mutation {release} {seed}"))
    yield from interacting(release, third, Random(f"interacting {release} {seed}"))


def valid(release: str, count: int, rng: Random) -> Iterator[Case]:
    """Realistic configs, some with a few more keys at random values that their types take."""
    sizes = _sizes(rng)
    for number in range(count):
        world_size = next(sizes)
        config = bases.rich(rng, release, world_size)
        added = _add_some(config, release, rng) if number % 3 == 0 else ""
        yield _case("valid", number, f"rich{added}", world_size, config, release, rng)


def mutated(release: str, count: int, rng: Random) -> Iterator[Case]:
    """One mutation each; some spoil the text instead, one in eight is a key of other releases."""
    sizes = _sizes(rng)
    single = mutate.mutations(release, rng, sizes)
    foreign = itertools.cycle(list(mutate.foreign_keys(release, rng, 1)) or [("foreign none", {})])
    spoils = itertools.cycle(writing.BROKEN)
    for number in range(count):
        if number % (6 if order(release) >= STRICT_SECTIONS else 4) == 3:
            name, world_size = next(spoils), next(sizes)
            base = bases.rich(rng, release, world_size)
            text = writing.BROKEN[name](json.dumps(base, indent=rng.choice((None, 2, 4))), rng)
            yield Case(f"mutation-{number}", "mutation", f"text {name}", world_size, text=text)
        elif number % 8 == 4:
            label, config = next(foreign)
            yield _case("mutation", number, label, 1, config, release, rng)
        else:
            label, world_size, config = next(single)
            yield _case("mutation", number, label, world_size, config, release, rng)


def interacting(release: str, count: int, rng: Random) -> Iterator[Case]:
    """One to three situations at once, applied to a sound config."""
    sizes = _sizes(rng)
    fitting = [one for one in situations.SITUATIONS if one.fits(order(release)) and _timely(one, release)]
    turns: list[situations.Situation] = []
    more = (1, 1, 2, 3) if order(release) < STRICT_SECTIONS else (0, 0, 0, 1, 1, 2)
    for number in range(count):
        turns = turns or rng.sample(fitting, len(fitting))
        world_size = next(sizes)
        rich = rng.random() < 0.4
        config = bases.rich(rng, release, world_size) if rich else bases.small(rng, release, world_size)
        chosen = [turns.pop(), *rng.sample(fitting, rng.choice(more))]
        for situation in reversed(chosen):
            situation.apply(config, world_size, rng)
        label = " + ".join(dict.fromkeys(one.name for one in chosen))
        yield _case("interacting", number, label, world_size, config, release, rng)


def _timely(situation: situations.Situation, release: str) -> bool:
    """Whether the release knows, or knew, at least half of the situation's keys."""
    known = keyspace.known_by(release)
    paths = [tuple(dotted.split(".")) for dotted in situation.pools]
    return 2 * sum(path in known or path[:-1] in known for path in paths) >= len(paths)


def _sizes(rng: Random) -> Iterator[int]:
    while True:
        yield from rng.sample(WORLD_SIZES, len(WORLD_SIZES))


def _add_some(config: dict[str, Any], release: str, rng: Random) -> str:
    """Adds keys of the sections that the config has, or of the root, at values their types take."""
    fitting = [
        slot
        for slot in keyspace.slots(release)
        if DELICATE.isdisjoint(slot.path)
        and slot.path[0] not in bases.BATCH_KEYS
        and not slot.section
        and isinstance(keyspace.get(config, slot.path[:-1]), dict)
        and keyspace.get(config, slot.path, ...) is ...
    ]
    chosen = rng.sample(fitting, min(len(fitting), rng.choice((1, 1, 2, 3))))
    for slot in chosen:
        keyspace.put(config, slot.path, values.valid(slot.type, rng))
    return "".join(f" + {slot.dotted}" for slot in chosen)


def _case(kind: Class, number: int, label: str, size: int, config: Any, release: str, rng: Random) -> Case:
    """The config as a dict or a text; Hjson where the release reads it, else now and then to see it fail."""
    identity = f"{kind}-{number}"
    if rng.random() < 0.5:
        return Case(identity, kind, label, size, config=config)
    takes_hjson = order(release) >= (0, 8, 1)
    if rng.random() < (0.5 if takes_hjson else 0.0 if kind == "valid" else 0.05):
        return Case(identity, kind, f"{label} as hjson", size, text=writing.hjson(config, rng))
    return Case(identity, kind, label, size, text=writing.plain(config, rng))
