"""Offloading parameters and optimizer state to host memory or NVMe."""

from typing import Annotated, Literal, TypeAlias

from dsconfig.model.annotations import Auto, Fraction, NonNegativeInt, PathText
from dsconfig.model.key import Key, Reads, Was
from dsconfig.model.section import Section

Device: TypeAlias = Annotated[
    Literal["none", "cpu", "nvme"] | Auto,
    Key(
        since="0.3.15",
        was=(Was("0.5.6", object),),
        defaults=(("0.5.6", "cpu"), ("0.6.7", None)),
        fills=("transformers", "accelerate"),
        wrong_type="rejected",
        means=(
            ("none", "stays on the GPU"),
            ("cpu", "goes to host memory"),
            ("nvme", "goes to an NVMe drive; needs `nvme_path`"),
        ),
    ),
]

OFFLOAD_READS = (
    Reads("hand", until="0.6.7"),
    Reads("pydantic", since="0.7.0", unknown="rejected", drops_auto=True),
)


class OffloadParam(Section):
    """Where parameters stay while no layer needs them; stage 3 only."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadParamConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Home of the parameters: GPU ("none"), host memory, or an NVMe drive. Each step out saves GPU memory
    and costs transfer time. From 0.5.7 to 0.6.7 the section is refused without it."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; needed with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(Was("0.6.7", int),))] = 5
    """Host buffers through which parameters pass to and from the drive."""
    buffer_size: Annotated[NonNegativeInt, Key(since="0.3.15", unit="elements", was=(Was("0.6.7", int),))] = (
        100_000_000
    )
    """Size of one such buffer; the largest parameter must fit into it."""
    max_in_cpu: Annotated[NonNegativeInt, Key(since="0.3.15", unit="elements", was=(Was("0.6.7", int),))] = (
        1_000_000_000
    )
    """Parameter elements that stay in host memory although the home is NVMe."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Lock the host buffers into memory: faster transfers, less memory for everything else."""


class OffloadOptimizer(Section):
    """Where the optimizer's state lives; its update then runs on the CPU."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadOptimizerConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Home of the optimizer's state: GPU ("none"), host memory, or, at stage 3, an NVMe drive. From 0.5.7 to
    0.6.7 the section is refused without it."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; needed with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(Was("0.6.7", int),))] = 4
    """Host buffers for state on its way to and from the drive: at least as many as the optimizer keeps
    states per parameter, four with Adam."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Lock the host buffers into memory: faster transfers, less memory for everything else."""
    pipeline_read: Annotated[bool, Key(since="0.3.15")] = False
    """Read the next tile of state from the drive while the current one is updated."""
    pipeline_write: Annotated[bool, Key(since="0.3.15")] = False
    """Write the previous tile back while the current one is updated."""
    fast_init: Annotated[bool, Key(since="0.3.15")] = False
    """Build the optimizer faster when its state goes to NVMe."""
    ratio: Annotated[Fraction, Key(since="0.12.3")] = 1.0
    """Share of the optimizer's state and update that goes to the CPU; the rest stays on the GPU. Below 1 it
    needs stage 3."""
    super_offload: Annotated[bool, Key(since="0.18.0")] = False
    """Offload the way that suits superchips, whose CPU and GPU are tightly coupled; stage 3."""
    cpuadam_cores_perc: Annotated[Fraction, Key(since="0.18.0")] = 0.8
    """Share of the CPU cores that work on the update with `super_offload`."""
