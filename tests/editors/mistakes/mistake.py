"""One mistake, and configs to make it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Part: TypeAlias = Literal["key", "value", "entry"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A config with one fault at the dotted `path`, and the message of VS Code's services."""

    config: dict[str, Any]
    path: str
    part: Part
    message: str
    yaml: str | None = None
    """The YAML service's own wording, where it differs.

    Empty where that service accepts the value: it reads 5e8 as a number, PyYAML as text.
    """


def zero(**keys: Any) -> dict[str, Any]:
    return {"train_batch_size": 8, "zero_optimization": {"stage": 3, **keys}}


def root(**keys: Any) -> dict[str, Any]:
    return {"train_batch_size": 8, **keys}


def adamw(**params: Any) -> dict[str, Any]:
    return root(optimizer={"type": "AdamW", "params": params})


def schedule(kind: str, **params: Any) -> dict[str, Any]:
    return root(scheduler={"type": kind, "params": params})
