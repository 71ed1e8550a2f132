"""`RoundStore`: what torch's agent gets as the store of a round.  Imports torch."""

from __future__ import annotations

from datetime import timedelta

from torch.distributed import Store


class RoundStore(Store):
    """A store that keeps nothing: torch's exit barrier, which alone uses it, is passed at once.

    torch enters it when all workers of the node have ended well, and waits 300 s for a node that was killed
    since (`elastic/agent/server/api.py`, `SimpleElasticAgent._exit_barrier`).  Here the job's state says when
    all have ended (`Node.succeed`), and who was lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used = False
        """Whether the workers have ended well."""

    def add(self, _key: str, _value: int) -> int:
        """Never the last one, who would tell the others."""
        self.used = True
        return 0

    def wait(self, _keys: list[str], *_timeout: timedelta) -> None:
        """At once."""
