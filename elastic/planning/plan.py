"""`plan`: the table of a block, world size -> micro batch and accumulation, and why not for the rest.

The batch is the heuristic's, so a job planned here runs as DeepSpeed 0.19.7 would have run it.
`Plan.apply` is the one place that takes the `elasticity` block out of a config and writes the batch triplet
in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.differences import no_world_sizes
from elastic.deepspeed.heuristic import compatible_v01
from elastic.deepspeed.heuristic_v02 import compatible_v02
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.errors import ElasticityConfigError, ElasticityIncompatibleWorldSize, NoWorldSizesError
from elastic.json_types import Json
from elastic.planning.block import Block, read_block
from elastic.planning.plan_row import Row, apply_row, fallback_row, make_rows
from elastic.planning.rejection_reason import reason


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch size and every admissible world size with its row, ascending.

    *World size* counts data-parallel ranks; *GPUs* are ranks times `model_parallel_size`.
    """

    block: Block
    batch_size: int
    """Samples an optimizer step, the same in every row."""
    rows: tuple[Row, ...]
    semantics: Semantics
    notes: tuple[str, ...] = ()
    """What the releases do with this block that its author may not expect."""

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """The admissible data-parallel world sizes, ascending."""
        return tuple(row.world_size for row in self.rows)

    @property
    def gpu_counts(self) -> tuple[int, ...]:
        """The GPUs that each row occupies, ascending."""
        return tuple(row.gpus for row in self.rows)

    def admits(self, world_size: int) -> bool:
        """Whether the plan has a row for this data-parallel world size."""
        return self._find(world_size) is not None

    def row(self, world_size: int) -> Row:
        """The row of a data-parallel world size; raises `ElasticityIncompatibleWorldSize` with the reason."""
        found = self._find(world_size)
        if found is None:
            raise ElasticityIncompatibleWorldSize(self.why_not(world_size) or "")
        return found

    def row_for_gpus(self, gpus: int) -> Row:
        """The row that occupies exactly `gpus` GPUs; raises `ElasticityIncompatibleWorldSize`."""
        model = self.block.model_parallel_size
        if gpus % model:
            arithmetic = f"{gpus} = {gpus // model} x {model} + {gpus % model}"
            raise ElasticityIncompatibleWorldSize(f"{gpus} GPUs hold no whole number of models: {arithmetic}")
        return self.row(gpus // model)

    def next_up(self, world_size: int) -> int | None:
        """The smallest admissible world size above this one; `None` above the last."""
        at = bisect_right(self.world_sizes, world_size)
        return self.rows[at].world_size if at < len(self.rows) else None

    def next_down(self, world_size: int) -> int | None:
        """The largest admissible world size below this one; `None` below the first."""
        at = bisect_left(self.world_sizes, world_size)
        return self.rows[at - 1].world_size if at else None

    def why_not(self, world_size: int) -> str | None:
        """Why the size is not admissible, with its arithmetic and the nearest sizes; `None` where it is."""
        if self.admits(world_size):
            return None
        near = [size for size in (self.next_down(world_size), self.next_up(world_size)) if size is not None]
        return f"{reason(self.block, self.batch_size, world_size)}; nearest: {' or '.join(map(str, near))}"

    def fallback(self, world_size: int) -> Row | None:
        """What v0.2 does at an inadmissible size: a batch for it alone, so not the plan's; `None` in v0.1.

        Training goes on, but with other samples a step.  Raises `ElasticityIncompatibleWorldSize` where not
        even one micro batch a rank stays within the cap.
        """
        return fallback_row(self.block, world_size) if self.block.version == 0.2 else None

    def apply(
        self, config: Mapping[str, Json], world_size: int, *, fallback: bool = False
    ) -> dict[str, Json]:
        """A copy of `config` without its `elasticity` block and with the batch triplet of this world size.

        `fallback` takes v0.2's own batch at an inadmissible size, as DeepSpeed does.  Raises
        `ElasticityIncompatibleWorldSize`, and `ElasticityConfigError` where the config writes batch keys of
        its own without `ignore_non_elastic_batch_info` (`runtime/config.py`, `DeepSpeedConfig.__init__`).
        """
        row = self._find(world_size) or (self.fallback(world_size) if fallback else None)
        return apply_row(config, row or self.row(world_size), self.block.ignore_non_elastic_batch_info)

    def _find(self, world_size: int) -> Row | None:
        at = bisect_left(self.rows, world_size, key=lambda row: row.world_size)
        return self.rows[at] if at < len(self.rows) and self.rows[at].world_size == world_size else None


def plan(config: Mapping[str, Json], *, semantics: Semantics = LATEST) -> Plan:
    """The plan for the `elasticity` block of a whole DeepSpeed config.

    Raises `ElasticityConfigError`, which names the key, for a block that is not strictly valid, that admits
    no world size, or (releases up to 0.19.5) whose batch would exceed the cap.
    """
    block = read_block(config, semantics)
    lenient = ElasticityConfig(block.as_dict(), semantics=semantics)
    batch, sizes = _heuristic(lenient, block, semantics)
    if not sizes:
        raise ElasticityConfigError(no_world_sizes(lenient))
    if batch > block.max_train_batch_size:
        raise ElasticityConfigError(
            f"batch {batch}, the least common multiple of `elasticity.micro_batch_sizes`, exceeds "
            f"`elasticity.max_train_batch_size` {block.max_train_batch_size}; 0.19.6 plans below it"
        )
    return Plan(block, batch, make_rows(block, batch, sizes), semantics, _notes(block))


def _heuristic(config: ElasticityConfig, block: Block, semantics: Semantics) -> tuple[int, list[int] | None]:
    if block.version == 0.2:
        try:
            return compatible_v02(config, semantics)
        except NoWorldSizesError:
            return 0, None
    cap, prefer_larger = block.max_train_batch_size, block.prefer_larger_batch
    return compatible_v01(
        block.micro_batch_sizes, cap, block.min_gpus, block.max_gpus, prefer_larger, semantics
    )


def _notes(block: Block) -> tuple[str, ...]:
    node = block.num_gpus_per_node
    if block.version == 0.2 and block.min_gpus % node and block.min_gpus > 1:
        whole = max(block.min_gpus // node, 1)
        return (f"`min_gpus` {block.min_gpus} is rounded down to {whole} whole nodes, {whole * node} GPUs",)
    return ()
