"""One case of the parity suite: a config, as a dict or as a file's text, and the world size it is read at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Class = Literal["valid", "mutation", "interacting", "corpus"]
CLASSES: tuple[Class, ...] = ("valid", "mutation", "interacting")
WORLD_SIZES = (1, 2, 3, 4, 7, 8, 16, 64)


@dataclass(frozen=True, slots=True)
class Case:
    """A config to judge; `text` None means that `config` is given as a dict."""

    id: str
    kind: Class
    label: str
    """What was done to it: the mutation and its path, or the situations."""
    world_size: int
    config: Any = None
    text: str | None = None

    @property
    def form(self) -> str:
        """How it is handed over."""
        return "dict" if self.text is None else "text"

    @property
    def source(self) -> Any:
        """What `dsconfig.check` is given: a dict is judged as a dict, bytes as a file."""
        return self.config if self.text is None else self.text.encode("utf-8", "surrogateescape")
