"""What may be spent on reading the scripts and launch files around a config, whose authors nobody knows.

A few hundred bytes of shell can stand for gigabytes, and a regular expression can go back and forth over a
few dozen for hours. So whatever reads such a text counts what it looks at and what it makes. Where that is
more than anyone writes the text counts as not read, and a note says so: no part of it is believed.
"""

from __future__ import annotations


class SpentError(Exception):
    """A text takes more than may be spent on it. Whoever gives out a budget catches this."""


class Budget:
    """So many steps, of less than 1 µs: characters that are looked at one by one, or eight that are copied.

    `within`: the budget of the folder that the text stands in, which pays as well.
    """

    __slots__ = ("_within", "left", "total")

    def __init__(self, total: int, within: Budget | None = None) -> None:
        self.total = self.left = total
        self._within = within

    @property
    def used(self) -> int:
        """What was spent."""
        return self.total - self.left

    def spend(self, steps: int) -> None:
        """Take the steps off, before they are done.

        Raises:
            SpentError: there are not as many left.
        """
        self.left -= steps
        if self._within is not None:
            self._within.spend(steps)
        if self.left < 0:
            raise SpentError


_LEAST, _EACH = 250_000, 20
"""Of a text of any length, and for each of its characters: scripts in use take 4 to 8 for each."""
FOLDER = 10_000_000
"""Of all texts around one config: those of a thousand scripts that name it."""


def of_text(length: int, within: Budget | None = None) -> Budget:
    """The budget of a script or launch file of so many characters; no text has more than its folder."""
    return Budget(min(_LEAST + _EACH * length, FOLDER), within)
