"""Table of the memory of each ZeRO stage and offload, and of what fits, for a model without a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.launch.config_source import read_config_source
from dsconfig.memory import WORST_FIRST, NotModelledError, Verdict
from dsconfig.resolve.memory import NODE, estimate_request
from dsconfig.resolve.memory_options import MemoryOptions

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.memory import Estimate, RequestedLimits

ROWS: tuple[tuple[int, str], ...] = (
    *((0, ""), (1, ""), (1, "optimizer"), (2, ""), (2, "optimizer")),
    *((3, ""), (3, "optimizer"), (3, "optimizer, parameters")),
)
"""ZeRO stages, each with the states that are offloaded to the CPU."""


class StageTableCell(NamedTuple):
    """The estimate of a row with or without activation checkpointing."""

    checkpointing: bool
    estimate: Estimate | None
    """The estimate; None if there is none."""
    reason: str = ""
    """Why there is no estimate."""

    def verdict(self, limits: RequestedLimits) -> Verdict | None:
        """Return the worse verdict of rank and host, or None without limits."""
        if self.estimate is None:
            return "unknown"
        verdicts = limits.verdicts(self.estimate)
        return next((word for word in WORST_FIRST if word in verdicts), None)


class StageTableRow(NamedTuple):
    """A row of the table: a ZeRO stage with an offload."""

    stage: int
    offload: str
    cells: tuple[StageTableCell, ...]

    def to_dict(self, limits: RequestedLimits) -> JsonObject:
        """Return the row as a JSON object, with the expected usage of a rank and the bytes of a host."""
        cells: list[Json] = [
            {
                "checkpointing": cell.checkpointing,
                "gpu": cell.estimate and cell.estimate.device and cell.estimate.device.to_dict(),
                "host": cell.estimate and cell.estimate.host.upper_bound,
                "verdict": cell.verdict(limits),
                "reason": cell.reason or None,
            }
            for cell in self.cells
        ]
        return {"stage": self.stage, "offload": self.offload or None, "variants": cells}


def build_stage_table(options: MemoryOptions) -> tuple[StageTableRow, ...]:
    """Estimate each stage and offload in bf16, with and without activation checkpointing.

    `options`: as for `memory`, with a world size. Stage 3 builds the model in shards unless `zero_init` says
    otherwise, as the Trainer does.

    Raises:
        NotModelledError: the model has no estimate at all.
        OSError, ValueError: as `memory` does.
    """
    choices = (False, True) if options.checkpointing is None else (options.checkpointing,)
    rows = [
        StageTableRow(
            stage, offload, tuple(_estimate_cell(options, stage, offload, choice) for choice in choices)
        )
        for stage, offload in ROWS
    ]
    cells = [cell for row in rows for cell in row.cells]
    if not any(cell.estimate for cell in cells):
        raise NotModelledError(cells[0].reason)
    if not any(cell.estimate and cell.estimate.has_activations for cell in cells):
        rows = [row._replace(cells=row.cells[:1]) for row in rows]  # checkpointing makes no difference
    return tuple(rows)


def _estimate_cell(options: MemoryOptions, stage: int, offload: str, checkpointing: bool) -> StageTableCell:
    try:
        return StageTableCell(checkpointing, _estimate_stage(options, stage, offload, checkpointing))
    except NotModelledError as error:
        return StageTableCell(checkpointing, None, str(error))


def _estimate_stage(options: MemoryOptions, stage: int, offload: str, checkpointing: bool) -> Estimate:
    config = dict(_stage_config(options, stage, offload))
    zero_init = stage == 3 if options.zero_init is None else options.zero_init
    options = options._replace(
        checkpointing=checkpointing,
        zero_init=zero_init,
        micro_batch=None,
        gpus_per_node=options.gpus_per_node or NODE,
    )
    return estimate_request(read_config_source(config), options).answer()


def _stage_config(options: MemoryOptions, stage: int, offload: str) -> Iterator[tuple[str, Json]]:
    yield "train_micro_batch_size_per_gpu", options.micro_batch or 1
    yield "bf16", {"enabled": True}
    zero: JsonObject = {"stage": stage}
    for key, name in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
        if name in offload:
            zero[key] = {"device": "cpu"}
    yield "zero_optimization", zero
