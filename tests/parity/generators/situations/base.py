"""What a situation is: keys that DeepSpeed looks at together, and for each the values around its borders."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from tests.parity.generators import keyspace

Pool: TypeAlias = tuple[Any, ...]
"""Values to choose from, a sound one first. A function gets the world size; `ABSENT` leaves the key out."""
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


class Absent:
    """Its one instance, `ABSENT`, says that the key is not given."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
BOOL: Pool = (True, False)
TRUTHY: Pool = (True, True, True, False, ABSENT, "auto", "false", 1, 0, None)
STAGES: Pool = (0, 1, 2, 3, ABSENT, 3.0, "2", True)
SHAPES: Pool = ({}, {"enabled": True}, {"enabled": False}, None, True, False, 0, 1, "", "x", "auto", [], [1])


@dataclass(frozen=True, slots=True)
class Situation:
    """Keys and their pools; every use draws anew."""

    name: str
    pools: dict[str, Pool]
    since: tuple[int, ...] = (0, 3, 1)
    until: tuple[int, ...] = (99,)
    drops: tuple[str, ...] = field(default=())
    """Root keys taken out of the config first."""

    def fits(self, release: tuple[int, ...]) -> bool:
        """Whether it says anything about this release."""
        return self.since <= release <= self.until

    def apply(self, config: dict[str, Any], world_size: int, rng: Random) -> None:
        """Puts drawn values into the config."""
        for key in self.drops:
            config.pop(key, None)
        calm = rng.choice(
            (0.0, 0.0, 0.5, 0.8)
        )  # else one bad value among many would hide the borders of the rest
        for dotted, pool in self.pools.items():
            value = pool[0] if rng.random() < calm else rng.choice(pool)
            if callable(value):
                value = value(world_size)
            if value is not ABSENT:
                keyspace.put(config, tuple(dotted.split(".")), _own(value))


def _own(value: Any) -> Any:
    """Containers of a pool are shared: a config gets its own."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    return [_own(item) for item in value] if isinstance(value, list) else value
