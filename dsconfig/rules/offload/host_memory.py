"""What is offloaded, held against the host's memory and the buffers, where the model is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import OPTIMIZER, PARAM, asked_for, device, device_place, stage
from dsconfig.rules._model_facts import is_known, largest, model, shape
from dsconfig.rules._numbers import rounded_up

if TYPE_CHECKING:
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.estimate import Estimate
    from dsconfig.memory.models.architecture import Architecture

_NODE, _LENGTH, _HALVES = 8, 128, ("bf16", "fp16")


@rule(
    "DSC409",
    effect="crashes",
    since="0.14.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def host_memory_exceeded(ctx: Context) -> Iterator[Finding]:
    """What training holds on the host is more than the host has.

    Offloaded masters, gradients and states of the optimizer stay there for the whole run, those of all ranks
    of the host, and up to 0.18 stages 1 and 2 flatten the weights there. A process that asks for more than
    there is is killed, mostly without a word. Reported where model, world size and `host-memory` are known,
    of a model that is trained whole, by the estimate of `dsconfig memory --host`: its highest peak, with
    torch's rounding of pinned memory to powers of two, and without what a script decides, as how it builds
    the model. `gpus-per-node` ranks share a host, 8 by default.

    Bad, world size 8, host memory 64GiB:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 8, host memory 512GiB:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    if ctx.known.host_memory is None or not is_known(ctx):
        return
    if ctx.world_size is None or ctx.known.adapters or stage(ctx) not in (1, 2, 3):
        return
    found, has = ctx.once(_estimate), ctx.known.host_memory
    verdict = found.verdict("host", has)
    if verdict == "unknown":
        why = "; ".join(f"{each.key}: {each.text}" for each in found.assumed)
        ctx.remarks[
            f"whether a host with {_gib(has)} holds {model(ctx).shown} depends on the script ({why})"
        ] = None
    if verdict == "does not fit":
        ranks, needed = _ranks(ctx), found.lower_bound("host")
        yield ctx.at(
            _place(ctx),
            f"training all of {model(ctx).shown} holds up to {_gib(needed)} on a host that has {_gib(has)}:"
            f" {ranks} rank{'s' * (ranks > 1)} of {ctx.world_size} with {_gib(needed // ranks)} each",
            help="spread the ranks over more hosts, or offload to NVMe: `dsconfig memory` shows what is held",
        )


def _place(ctx: Context) -> str:
    """What puts most on the host: an offload section, else the stage, which flattens weights there."""
    parts = [part for part in (OPTIMIZER, PARAM) if asked_for(ctx, part) and device(ctx, part) != "none"]
    return device_place(ctx, parts[0]) if parts else "zero_optimization.stage"


def _ranks(ctx: Context) -> int:
    """Ranks that share a host."""
    return min(ctx.known.gpus_per_node or _NODE, ctx.world_size or 1)


BORDERS = (
    "0.15.4",
    "0.16.0",
    "0.16.3",
    "0.16.4",
    "0.16.5",
    "0.16.8",
    "0.17.0",
    "0.17.2",
    "0.17.3",
    "0.17.4",
    "0.17.5",
    "0.17.6",
    "0.18.0",
    "0.18.1",
    "0.18.2",
    "0.18.3",
    "0.18.5",
    "0.18.6",
    "0.19.0",
    "0.19.2",
    "0.19.3",
    "0.19.4",
    "0.19.5",
    "0.19.6",
    "0.19.7",
    "0.19.8",
)
"""Releases from which on engines hold other things than before (memory/engines/setup.py, `release_quirks`)."""


def _estimate(ctx: Context) -> Estimate:
    from dsconfig.memory.verdict import NotModelledError

    ctx.depends_on(*BORDERS)
    try:
        return _of_host(shape(ctx), _setup(ctx), _ranks(ctx))
    except NotModelledError:
        raise SkipRule from None


@lru_cache(maxsize=32)
def _of_host(found: Architecture, setup: Setup, ranks: int) -> Estimate:
    """The estimate of `dsconfig memory`; no activations are on the host, so one short sample is enough."""
    from dsconfig.memory.estimate import estimate
    from dsconfig.memory.models.architecture import MicroBatch
    from dsconfig.memory.verdict import HOST_BUILD, SCRIPT_OPTIMIZER

    work = MicroBatch(
        1,
        _LENGTH * setup.sp_size,
        setup.itemsize,
        setup.autocast,
        found.variant.attn_implementations[0],
        saves_linear_inputs=setup.memory_efficient_linear,
        tensor_parallel=setup.tensor_parallel,
        sp_size=setup.sp_size,
        ep_size=setup.ep_size,
    )
    done = estimate(setup, found, work, "", ranks, ())
    return replace(
        done, assumed=(HOST_BUILD, SCRIPT_OPTIMIZER) if setup.optimizer.is_client else (HOST_BUILD,)
    )


def _setup(ctx: Context) -> Setup:
    """The engine's circumstances, as `dsconfig memory` assumes them."""
    from dsconfig.memory.read_setup import Values, default_client, setup_of

    effective = _Effective(ctx)
    zenflow = isinstance(ctx.value("zero_optimization.zenflow"), dict)
    values = Values(effective, ["zero_optimization.zenflow."] if zenflow else [])
    in_shards = ctx.consumer in HUGGING_FACE
    setup = setup_of(values, ctx.world_size or 1, default_client(values), in_shards, ctx.release)
    return setup._replace(gpus_per_node=_ranks(ctx))


class _Effective(Mapping[str, Json]):
    """The effective values of a config, each asked for when it is read."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        params = ctx.value("optimizer.params") if ctx.has("optimizer.params") else None
        self._params = [f"optimizer.params.{key}" for key in params] if isinstance(params, dict) else []

    def __getitem__(self, key: str) -> Json:
        kind, _, rest = key.partition(".")
        if kind in _HALVES and rest == "enabled":  # `bfloat16` is read where `bf16` is absent
            return self._ctx.on(key) or (kind == "bf16" and self._ctx.on(f"bfloat16.{rest}"))
        return self._ctx.value(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):,.1f} GiB"


@rule(
    "DSC410",
    effect="crashes",
    since="0.3.15",
    source="runtime/swap_tensor/partitioned_param_swapper.py:AsyncPartitionedParameterSwapper.get_buffer",
)
def nvme_buffer_smaller_than_parameter(ctx: Context) -> Iterator[Finding]:
    """A rank's part of the largest parameter does not fit a buffer of `offload_param`.

    Parameters travel to and from the drive through buffers of `buffer_size` elements, one buffer each: "More
    elements than buffer size". Embeddings are the largest mostly, and ranks are few. Reported where model and
    world size are known.

    Bad, world size 4:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}, "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 8:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    path = f"{PARAM}.buffer_size"
    if not is_known(ctx) or ctx.world_size is None or not ctx.has(PARAM):
        return
    if device(ctx, PARAM) != "nvme" or stage(ctx) != 3:
        return
    size = ctx.value(path)
    most = largest(ctx)
    part = -(-most.elements // ctx.world_size)
    if isinstance(size, int | float) and (part > size or (part == size and ctx.before("0.17.0"))):
        yield ctx.at(
            path,
            f"`buffer_size` is {size:,.0f}{'' if ctx.has(path) else ' by default'}, and a rank's part of"
            f" `{most.name}` in {model(ctx).shown} has {part:,} elements",
            help=f"set `{path}` to {rounded_up(part)}",
        )
