"""Asynchronous file I/O between host memory and NVMe."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, NonObjectValues
from dsconfig.model.section import RootKeys, Section


class Aio(Section):
    """Asynchronous NVMe reads and writes, used by ZeRO-Infinity and the fast checkpoint writer."""

    SOURCE = "runtime/swap_tensor/aio_config.py:get_aio_config"

    block_size: Annotated[int, Key(since="0.3.15", unit="bytes")] = 1_048_576
    """Size of one I/O request. Larger requests give more throughput on fast drives, smaller ones distribute
    better."""
    queue_depth: Annotated[int, Key(since="0.3.15", unit="requests")] = 8
    """I/O requests that one thread keeps in flight."""
    intra_op_parallelism: Annotated[int, Key(since="0.16.4", unit="threads")] = 1
    """Threads that share a single read or write."""
    thread_count: Annotated[
        int,
        Key(
            since="0.3.15",
            until="0.16.3",
            replaced_by="aio.intra_op_parallelism",
            rewrite="rename",
            unit="threads",
        ),
    ] = 1
    """Earlier name of `intra_op_parallelism`; later releases ignore it without a warning."""
    single_submit: Annotated[bool, Key(since="0.3.15")] = False
    """Submit requests to the kernel one at a time instead of many per call; slower, easier to trace."""
    overlap_events: Annotated[bool, Key(since="0.3.15")] = True
    """Submit further requests before earlier ones complete."""
    use_gds: Annotated[bool, Key(since="0.15.0")] = False
    """Transfer data directly between drive and GPU with NVIDIA GPUDirect Storage; requires a CUDA device."""


class AioRootKeys(RootKeys):
    """The root key of NVMe I/O."""

    aio: Annotated[
        Aio,
        Key(
            since="0.3.15",
            source="runtime/swap_tensor/aio_config.py:get_aio_config",
            takes=(NonObjectValues(("null",), since="0.3.15"),),
        ),
    ] = Field(default_factory=Aio)
    """Asynchronous NVMe I/O."""
