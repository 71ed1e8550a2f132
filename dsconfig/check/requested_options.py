"""What is asked for beside the settings: by the command line, or by an editor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from dsconfig.core.json_types import NamedTuple

Names: TypeAlias = "Sequence[str] | None"
Pairs: TypeAlias = "Sequence[tuple[str, Sequence[str]]] | None"


class Asked(NamedTuple):
    """None, or False, where nothing is asked for; and how to say what is wrong, or only of note."""

    refuse: Callable[[str], NoReturn]
    note: Callable[[str], object]
    target: str | None = None
    world_size: int | None = None
    consumer: str | None = None
    select: Names = None
    ignore: Names = None
    extend_select: Names = None
    fixable: Names = None
    unfixable: Names = None
    per_file_ignores: Pairs = None
    extend_per_file_ignores: Pairs = None
    exclude: Names = None
    extend_exclude: Names = None
    fail_on: str | None = None
    min_severity: str | None = None
    no_ignores: bool = False
    force_exclude: bool = False
    verbose: bool = False
    stdin_filename: str | None = None
    model: str | None = None
    launch: str | None = None
    training_args: str | None = None
    host_memory: int | None = None
    gpus_per_node: int | None = None
