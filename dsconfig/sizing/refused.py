"""What is not modelled: refused by name, never guessed."""

from __future__ import annotations


class NotModelledError(ValueError):
    """The memory of this config with this model cannot be computed; the text names what is in the way."""

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"{what}; {help}" if help else what)
        self.what, self.help = what, help
