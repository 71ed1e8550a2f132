"""Compare host memory and NVMe buffers with what a known model needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dsconfig.core.json_types import Json
from dsconfig.core.releases import release_name
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    PARAM,
    effective_stage,
    offload_device,
    offload_device_path,
    offload_keys,
    round_up,
)
from dsconfig.rules._model_facts import has_model, largest_parameter, model_architecture, trained_model

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.memory import Estimate

_GPUS_PER_NODE, _SEQUENCE_LENGTH, _HALF_PRECISION = 8, 128, ("bf16", "fp16")


@rule(
    "DSC409",
    effect="crashes",
    since="0.14.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def host_memory_exceeded(ctx: Context) -> Iterator[Finding]:
    """Training needs more host memory than a node has.

    Offloaded master weights, gradients and optimizer states of all ranks on a node stay in host memory for
    the whole run. Up to 0.18, stages 1 and 2 also flatten the weights there. The operating system kills a
    process that exceeds host memory, usually without an error message.

    Reported only when the model, the world size and the node's host memory are known and the whole model is trained:
    `host-memory`, or `--mem` in the `#SBATCH` lines of the Slurm script that starts the job. The number is the highest
    peak that `dsconfig memory --host` estimates. It includes torch's rounding of pinned memory to powers of two, but
    not what depends on the script, such as how it builds the model. A node runs `gpus-per-node` ranks, 8 by default,
    or those of the Slurm script.

    Bad, world size 8, host memory 64GiB:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 8, host memory 512GiB:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    if ctx.facts.host_memory is None or not has_model(ctx):
        return
    if ctx.world_size is None or ctx.facts.adapters or effective_stage(ctx) not in (1, 2, 3):
        return
    estimate, available = ctx.cached(_host_estimate), ctx.facts.host_memory
    verdict = estimate.verdict("host", available)
    if verdict == "unknown":
        reasons = "; ".join(f"{each.key}: {each.text}" for each in estimate.assumed)
        ctx.notes[
            f"whether {trained_model(ctx).shown} fits in {_format_gib(available)} of host memory depends on the script"
            f" ({reasons})"
        ] = None
    if verdict == "does not fit":
        ranks, needed = _ranks_per_node(ctx), estimate.lower_bound("host")
        yield ctx.at(
            _key_with_most_host_memory(ctx),
            f"training all parameters of {trained_model(ctx).shown} needs up to {_format_gib(needed)} of host memory"
            f" on {_describe_node(ranks, ctx.world_size)} ({_format_gib(needed // ranks)} each), but the job may use"
            f" only {_format_gib(available)}",
            help="spread the ranks over more nodes, or offload to NVMe; `dsconfig memory` lists the"
            " allocations",
        )


def _key_with_most_host_memory(ctx: Context) -> str:
    """Return the key to which most host memory is due: an offload section, or the stage."""
    sections = [
        key for key in (OPTIMIZER, PARAM) if offload_keys(ctx, key) and offload_device(ctx, key) != "none"
    ]
    return offload_device_path(ctx, sections[0]) if sections else "zero_optimization.stage"


def _describe_node(ranks: int, world_size: int) -> str:
    """Describe a node by the number of ranks that it runs."""
    if world_size == 1:
        return "the node"
    return (
        f"a node that runs {f'all {ranks}' if ranks == world_size else f'{ranks} of the {world_size}'} ranks"
    )


def _ranks_per_node(ctx: Context) -> int:
    """Return the number of ranks on each node."""
    return min(ctx.facts.gpus_per_node or _GPUS_PER_NODE, ctx.world_size or 1)


def _host_estimate(ctx: Context) -> Estimate:
    """Return the memory estimate for one short sample, because activations do not affect the host."""
    from dsconfig.memory import (
        HOST_BUILD,
        SCRIPT_OPTIMIZER,
        ConfigValues,
        MicroBatch,
        NotModelledError,
        TrainingJob,
        estimate,
        release_borders,
    )

    ctx.depends_on(*release_borders())
    sections = [f"{ZENFLOW}."] if isinstance(ctx.value(ZENFLOW), dict) else []
    values, model = ConfigValues(_LazyEffectiveValues(ctx), sections), model_architecture(ctx)
    sample = MicroBatch(
        1, _SEQUENCE_LENGTH * values.sp_size, attn_implementation=model.variant.attn_implementations[0]
    )
    job = TrainingJob(
        release_name(ctx.release),
        ctx.world_size or 1,
        sample,
        _ranks_per_node(ctx),
        zero_init=ctx.consumer in HUGGING_FACE,
    )
    try:
        result = estimate(values, model, job, expects_device=False)
    except NotModelledError:
        raise SkipRule from None
    is_client = not values.text("optimizer.type")
    return replace(result, assumed=(HOST_BUILD, SCRIPT_OPTIMIZER) if is_client else (HOST_BUILD,))


ZENFLOW = "zero_optimization.zenflow"


class _LazyEffectiveValues(Mapping[str, Json]):
    """The effective values of a config, resolved on first access."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        params = ctx.value("optimizer.params") if ctx.has("optimizer.params") else None
        self._params = [f"optimizer.params.{key}" for key in params] if isinstance(params, dict) else []

    def __getitem__(self, key: str) -> Json:
        section, _, rest = key.partition(".")
        if section in _HALF_PRECISION and rest == "enabled":  # DeepSpeed reads `bfloat16` if `bf16` is absent
            return self._ctx.is_on(key) or (section == "bf16" and self._ctx.is_on(f"bfloat16.{rest}"))
        return self._ctx.value(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def _format_gib(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB"


@rule(
    "DSC410",
    effect="crashes",
    since="0.3.15",
    source="runtime/swap_tensor/partitioned_param_swapper.py:AsyncPartitionedParameterSwapper.get_buffer",
)
def nvme_buffer_smaller_than_parameter(ctx: Context) -> Iterator[Finding]:
    """A rank's partition of the largest parameter does not fit in an `offload_param` buffer.

    Parameters are swapped to and from NVMe through buffers of `buffer_size` elements, one parameter per
    buffer. A larger partition fails with "More elements than buffer size". The largest parameter is usually
    an embedding, and its partitions are largest on few ranks. Reported only when the model and the world size
    are known.

    Bad, world size 4:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}, "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 8:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    path = f"{PARAM}.buffer_size"
    if not has_model(ctx) or ctx.world_size is None or not ctx.has(PARAM):
        return
    if offload_device(ctx, PARAM) != "nvme" or effective_stage(ctx) != 3:
        return
    size = ctx.value(path)
    weight = largest_parameter(ctx)
    numel = -(-weight.numel // ctx.world_size)
    # Before 0.17.0 the swapper also rejected a partition that fills its buffer exactly.
    if isinstance(size, int | float) and (numel > size or (numel == size and ctx.before("0.17.0"))):
        yield ctx.at(
            path,
            f"`buffer_size` is {size:,.0f}{'' if ctx.has(path) else ' by default'}, but a rank's partition of"
            f" `{weight.name}` in {trained_model(ctx).shown} has {numel:,} elements",
            help=f"set `{path}` to {round_up(numel)}",
        )
