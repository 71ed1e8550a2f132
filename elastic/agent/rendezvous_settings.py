"""`RendezvousSettings`: timeouts of the rendezvous, with checks for unsafe values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from elastic.agent.errors import SettingsError
from elastic.json_types import Json

FEWEST_ATTEMPTS = 3
"""Minimum: with fewer, one delayed heartbeat removes a live node (measured with torch's own rendezvous)."""
SHORTEST_INTERVAL = 0.5
"""Minimum time between the end of a lost node's workers and its removal: they poll their lease every 0.1 s."""
SHORTEST_TIMEOUT = 2.0
"""Minimum of `heartbeat_timeout`: a busy node may be silent for nearly as long."""
LONGEST = 1e6
"""Maximum of any time: eleven days."""


@dataclass(frozen=True, slots=True)
class RendezvousSettings:
    """Times in seconds; names that torch's rendezvous also has mean the same."""

    join_timeout: float = 600.0
    """How long a node waits for a group to form; standby does not count."""
    last_call_timeout: float = 2.0
    """How long the first group waits for more nodes, and a running group for more joiners."""
    keep_alive_interval: float = 1.0
    """Time between two heartbeats of a node."""
    keep_alive_max_attempt: int = 4
    """Heartbeats that may be missing before a node counts as lost."""
    arrive_timeout: float = 60.0
    """How long a group waits for a live member that does not come to the next round."""
    checkpoint_timeout: float = 20.0
    """How long a group may take for a checkpoint before it grows, or before a node leaves cleanly."""
    stall_timeout: float = 60.0
    """Duration of a step, at ten times the usual, after which the workers' stacks are logged; 0: never."""
    stall_restart: float = 0.0
    """Duration of a step after which its worker is killed as failed; 0: never."""
    read_timeout: float = 10.0
    """Timeout of one call to the store."""
    connect_timeout: float = 60.0
    """How long a node tries to connect to the store."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            if not 0 <= getattr(self, name) <= LONGEST:
                raise SettingsError(f"`{name}` must be from 0 to {LONGEST:g}, not {getattr(self, name)}")
        if self.keep_alive_max_attempt < FEWEST_ATTEMPTS:
            raise SettingsError(
                f"`keep_alive_max_attempt` {self.keep_alive_max_attempt} is unsafe: one late heartbeat would "
                f"remove a live node; use at least {FEWEST_ATTEMPTS}"
            )
        if self.keep_alive_interval < SHORTEST_INTERVAL:
            raise SettingsError(
                f"`keep_alive_interval` {self.keep_alive_interval:g} is unsafe: a lost node's workers would "
                f"have too little time to exit; use at least {SHORTEST_INTERVAL:g}"
            )
        if self.heartbeat_timeout < SHORTEST_TIMEOUT:
            raise SettingsError(
                f"`keep_alive_interval` {self.keep_alive_interval:g} x `keep_alive_max_attempt` "
                f"{self.keep_alive_max_attempt} = {self.heartbeat_timeout:g} s is unsafe: a busy node is "
                f"silent for that long; use a product of at least {SHORTEST_TIMEOUT:g} s"
            )
        if self.join_timeout < self.heartbeat_timeout:
            raise SettingsError(
                f"`join_timeout` {self.join_timeout:g} is below the {self.heartbeat_timeout:g} s after which "
                "a silent node counts as lost: no group could form after a loss"
            )

    @property
    def heartbeat_timeout(self) -> float:
        """How long a node may be silent before it counts as lost."""
        return self.keep_alive_interval * self.keep_alive_max_attempt

    @property
    def lease_duration(self) -> float:
        """How long workers may continue after their agent's last heartbeat: one interval less."""
        return self.keep_alive_interval * (self.keep_alive_max_attempt - 1)

    @property
    def poll_interval(self) -> float:
        """Time between two polls of the state."""
        return min(0.2, self.keep_alive_interval / 4)


def read_settings(options: Mapping[str, Json]) -> RendezvousSettings:
    """Parse settings from texts or numbers by name; other names are ignored.

    Raises `SettingsError` for text that is not a number, and for unsafe values.
    """
    values: dict[str, Json] = {}
    for field in fields(RendezvousSettings):
        if field.name in options:
            kind = int if field.name == "keep_alive_max_attempt" else float
            try:
                values[field.name] = kind(options[field.name])
            except (TypeError, ValueError):
                raise SettingsError(f"`{field.name}` must be a number, not {options[field.name]!r}") from None
    return RendezvousSettings(**values)
