"""`memory`: from a config and a model to what a rank and a host hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.check.build_job import MappingSource
from dsconfig.core.gpu_memory import gpu as gpu_of
from dsconfig.document import Document
from dsconfig.launch.config_source import read
from dsconfig.memory.estimate import Estimate as Estimate  # noqa: PLC0414  the result, for those who show it
from dsconfig.memory.verdict import Verdict as Verdict  # noqa: PLC0414  likewise
from dsconfig.resolve.memory_request import Options, ask
from dsconfig.resolve.model_source import ModelSource

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.core.releases import Target
    from dsconfig.launch.config_source import ConfigSource


def memory(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    sequence_length: int | None = None,
    micro_batch: int | None = None,
    attention: str | None = None,
    checkpointing: bool | None = None,
    lora: str | Mapping[str, Json] | None = None,
    optimizer: str | None = None,
    zero_init: bool | None = None,
    gpus_per_node: int | None = None,
    sp: int | None = None,
    imbalance: float | None = None,
    gpu: int | str | None = None,
    set: Mapping[str, Json] | None = None,
) -> Estimate:
    """What a rank and its host hold in training, at rest and at the peaks of a step; see also `resolve`.

    Args:
        source: a path, text, bytes, a dict or a document that was read; see `check`.
        model: its `config.json` (a path or a mapping), a name, or a `Shape`; None: as the file itself names.
        world_size: number of ranks, one a GPU; None: as for `resolve`.
        target: the release that runs it, of a range the newest; None: as for `check`.
        consumer: who reads the file; None: it is found out.
        sequence_length: tokens of a sequence; None: as a launch file says, else 2048.
        micro_batch: samples of a micro batch; None: as the config says.
        attention: `sdpa`, `flash` or `eager`; None: as a launch file says, else `sdpa`.
        checkpointing: whether layers are computed again; None: as a launch file or training arguments say.
        lora: adapters that are trained instead of the model: `r=16,target=q_proj,v_proj`, or a mapping.
        optimizer: what the script hands to DeepSpeed, where the config names no optimizer; see `CLIENTS`.
        zero_init: whether the model is built in shards at stage 3; None: as Transformers and
            Accelerate do it (`zero3_init_flag`), where they read the file.
        gpus_per_node: ranks that share a host; None: 8, or all of fewer.
        imbalance: with AutoEP, tokens that the busiest rank's experts get in times of the mean; None: 1.
        gpu: its memory in bytes, or as `--gpu` takes it (`80GiB`, `h100`, `48GB`), by which stages 1 and 2
            choose where they flatten weights from 0.19.0 on; None: they do it on the GPU.
        sp: ranks that share each sequence (Ulysses); None: as `sequence_parallel_size` of the config says.
        set: values to write first, by dotted path.
        training_args: what the consumer fills "auto" from; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        NotModelledError: something in the config or the model is not modelled; the text names it.
        UnknownWorldSizeError, ResolveError, OSError, UnknownReleaseError, ValueError: as `resolve` does.
    """
    given = (sequence_length, micro_batch, attention, checkpointing, lora, optimizer, zero_init)
    options = Options(
        model, world_size, target, consumer, *given, gpus_per_node, set, training_args, sp, imbalance
    )
    options = options._replace(launch=launch, room=None if gpu is None else gpu_of(gpu).room())
    return ask(source if isinstance(source, Document) else read(source), options).answer()
