"""Conversion of a config's effective values to an engine's `Setup`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.engines.setup import NvmeOffload, OptimizerCost, Setup, Stage3Settings
from dsconfig.memory.features import autoep
from dsconfig.memory.features.autotp import KEY as TENSOR
from dsconfig.memory.features.autotp import reject_tensor_parallel_keys
from dsconfig.memory.features.ulysses import KEY as SEQUENCE
from dsconfig.memory.models.architecture import DECODER_VARIANTS
from dsconfig.memory.optimizers import (
    DEFAULT_CLIENT,
    DEFAULT_CPU_CLIENT,
    cost_from_config,
    cost_of_client,
    reject_muon,
    reject_zenflow,
    super_offload,
    zenflow_settings,
)
from dsconfig.memory.quirks import Quirks
from dsconfig.memory.verdict import NotModelledError, reason

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

SECTIONS = (
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer",
    "zero_optimization",
    "bf16",
    "fp16",
    "torch_autocast",
    "data_types",
    "communication_data_type",
    "seq_parallel_communication_data_type",
    "tensor_parallel",
    "sequence_parallel_size",
    "compile",
    "expert_parallel",
    "hybrid_engine",
    "aio",
    "prescale_gradients",
    "gradient_predivide_factor",
)
"""Sections and keys of a config that the estimate reads."""
ITEMSIZES = {
    "fp32": 4,
    "float32": 4,
    "bf16": 2,
    "bfloat16": 2,
    "fp16": 2,
    "float16": 2,
    "half": 2,
    "float": 4,
}
ZERO = "zero_optimization."
MODULES = tuple(
    f"transformers.models.{kind}.modeling_{kind}."
    for kind, style in DECODER_VARIANTS.items()
    if style.moe_block
)
"""Module paths of the MoE block classes that can be leaf modules."""
OFFLOADED = ("cpu", "nvme")
"""Offload devices."""
UNMODELED_SWITCHES = (
    "zero_quantized_nontrainable_weights",
    "stage3_use_all_reduce_for_fetch_params",
    "stage3_allgather_sequential",
    "stage3_module_granularity_threshold",
    "parameter_alignment",
    "legacy_stage1",
)
"""Switches below `zero_optimization` whose effect on memory is not estimated."""
UNMODELED_ENGINES = ("compile.deepcompile", "hybrid_engine.enabled")


MOST_RANKS = 100_000
LARGEST = 1 << 60
"""Upper limit of a number of elements."""


class Values:
    """Effective values by dotted key."""

    def __init__(self, values: Mapping[str, Json], explicit_keys: Collection[str] = ()) -> None:
        self.values, self.explicit_keys = values, explicit_keys

    def flag(self, key: str) -> bool:
        """Whether a switch is on."""
        return bool(self.values.get(key))

    def count(self, key: str, default: int = 0) -> int:
        """A number of elements, limited to `LARGEST`."""
        value = self.values.get(key, default)
        return int(max(0, min(value, LARGEST))) if isinstance(value, (int, float)) else default

    def text(self, key: str) -> str | None:
        """A string value; None for other types."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def itemsize(self, key: str, default: int) -> int:
        """Bytes per element of the dtype that a key names."""
        return ITEMSIZES.get(str(self.values.get(key)).lower().removeprefix("torch."), default)

    def has_section(self, section: str) -> bool:
        """Whether the config sets anything below a section."""
        return any(key.startswith(f"{section}.") for key in self.explicit_keys)


def default_client(values: Values) -> str | None:
    """The client optimizer to assume; None if the config has an `optimizer` section."""
    if values.text("optimizer.type"):
        return None
    return (
        DEFAULT_CPU_CLIENT if values.text(f"{ZERO}offload_optimizer.device") in OFFLOADED else DEFAULT_CLIENT
    )


def setup_of(values: Values, world: int, client: str | None, zero_init: bool, release: str) -> Setup:
    """The setup of rank 0; `client`: name of the script's optimizer; `release`: such as `0.19.8`.

    Raises:
        NotModelledError: the config has a setting without an estimate.
    """
    quirks = Quirks(release)
    reject_unmodeled(values, quirks, world, client, zero_init)
    return _setup(values, world, client, zero_init, quirks)


def _setup(values: Values, world: int, client: str | None, zero_init: bool, quirks: Quirks) -> Setup:
    """Fill each field of the setup from its key."""
    half_dtype = next((kind for kind in ("bf16", "fp16") if values.flag(f"{kind}.enabled")), None)
    stage, itemsize = values.count(f"{ZERO}stage"), 2 if half_dtype else 4
    offloads_optimizer = stage > 0 and values.text(f"{ZERO}offload_optimizer.device") in OFFLOADED
    return Setup(
        stage=stage,
        dp_world_size=max(1, world // _tp_size(values)),
        gradient_accumulation_steps=max(1, values.count(_accumulation_key(values), 1)),
        itemsize=itemsize,
        half_dtype=half_dtype,
        autocast=values.flag("torch_autocast.enabled"),
        master_itemsize=2 if _uses_half_masters(values, half_dtype, offloads_optimizer) else 4,
        grad_accum_itemsize=_grad_accum_itemsize(values, itemsize, stage, half_dtype, quirks),
        comm_itemsize=_comm_itemsize(values, itemsize),
        comm_dtype_is_other_half=_comm_dtype_is_other_half(values, half_dtype),
        optimizer=_optimizer(values, client, offloads_optimizer, quirks.muon_has_its_own_adam),
        checks_overflow=half_dtype == "fp16",
        offloads_optimizer=offloads_optimizer,
        offloads_params=stage == 3 and values.text(f"{ZERO}offload_param.device") in OFFLOADED,
        offload_ratio=_offload_ratio(values),
        leaf_classes=_leaf_classes(values),
        nvme=_nvme_offload(values, quirks) if stage == 3 else NvmeOffload(),
        hpz_size=min(world, values.count(f"{ZERO}zero_hpz_partition_size", 1)) if stage == 3 else 1,
        zero_init=zero_init,
        reduce_bucket_size=values.count(f"{ZERO}reduce_bucket_size"),
        stage3=Stage3Settings(*(values.count(ZERO + key) for key in STAGE3_KEYS)),
        overlap_comm=values.flag(f"{ZERO}overlap_comm"),
        contiguous_gradients=values.flag(f"{ZERO}contiguous_gradients") or (offloads_optimizer and stage < 3),
        reduce_scatter=values.flag(f"{ZERO}reduce_scatter"),
        gradient_postscale=_gradient_postscale(values),
        multi_rank_allreduce=values.values.get(f"{ZERO}use_multi_rank_bucket_allreduce", True) is not False,
        round_robin_gradients=values.flag(f"{ZERO}round_robin_gradients"),
        compute_grad_norm=values.values.get(f"{ZERO}compute_grad_norm", True) is not False,
        quirks=quirks,
        quantized_weights=stage == 3 and values.flag(f"{ZERO}zero_quantized_weights"),
        quantized_gradients=stage == 3 and values.flag(f"{ZERO}zero_quantized_gradients"),
        tp_size=_tp_size(values),
        sp_size=sp_size_of(values),
        super_offload=super_offload(values.values, client or values.text("optimizer.type") or "adamw"),
        zenflow=zenflow_settings(values.values) if values.has_section(f"{ZERO}zenflow") else None,
        pins_optimizer=values.flag(f"{ZERO}offload_optimizer.pin_memory"),
        pins_params=values.flag(f"{ZERO}offload_param.pin_memory"),
        ep_size=ep_size_of(values),
        gathers_on_save=stage == 3 and values.flag(f"{ZERO}stage3_gather_16bit_weights_on_model_save"),
        memory_efficient_linear=stage == 3
        and (zero_init or quirks.linear_is_replaced_without_zero_init)
        and _uses_memory_efficient_linear(values),
    )


def _tp_size(values: Values) -> int:
    return max(1, values.count(TENSOR, 1))


def _accumulation_key(values: Values) -> str:
    """The key that sets the micro batches of a step; ZenFlow has its own (`configure_zenflow`)."""
    return (
        f"{ZERO}zenflow.update_interval"
        if values.has_section(f"{ZERO}zenflow")
        else "gradient_accumulation_steps"
    )


def _uses_half_masters(values: Values, half: str | None, offloads: bool) -> bool:
    """Whether master weights and their gradients are in half precision (`_configure_master_weights`)."""
    key = f"{half}.{half}_master_weights_and_grads"
    if not half or not values.flag(key):
        return False
    if offloads:
        raise NotModelledError(
            f"`{key}` with an offloaded optimizer is not supported yet: no engine was measured"
        )
    if not values.flag("bf16.bf16_optimizer_states"):
        why = "DeepSpeed stops with an AssertionError"
        ways_out = "set `bf16.bf16_optimizer_states`, or offload" if half == "bf16" else "remove it"
        raise NotModelledError(
            f"`{key}` with fp32 optimizer states on the GPU is not supported: {why}", ways_out
        )
    return True


STAGE3_KEYS = (
    "sub_group_size",
    "stage3_prefetch_bucket_size",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_param_persistence_threshold",
    "stage3_model_persistence_threshold",
)
"""Keys below `zero_optimization` of the fields of `Stage3Settings`."""


def _grad_accum_itemsize(values: Values, itemsize: int, stage: int, half: str | None, quirks: Quirks) -> int:
    """Bytes of an accumulated gradient (`engine.get_data_types`)."""
    if stage == 2 and quirks.stage2_ignores_grad_accum_dtype:
        return itemsize
    defaults_to_fp32 = not stage and half == "bf16" and quirks.bf16_accumulates_in_fp32_at_stage0
    return values.itemsize("data_types.grad_accum_dtype", 4 if defaults_to_fp32 else itemsize)


def _comm_itemsize(values: Values, itemsize: int) -> int:
    """Bytes of a communicated gradient; sequence parallelism has its own key, with fp32 as default."""
    key = "communication_data_type"
    if sp_size_of(values) > 1 and values.values.get(f"seq_parallel_{key}", "fp32") is not None:
        return values.itemsize(f"seq_parallel_{key}", 4)
    return itemsize if sp_size_of(values) > 1 else values.itemsize(key, itemsize)


def _comm_dtype_is_other_half(values: Values, half: str | None) -> bool:
    """Whether gradients are communicated in the other half-precision dtype."""
    dtype = str(values.values.get("communication_data_type")).lower().removeprefix("torch.")
    others = {"bf16": ("fp16", "float16", "half"), "fp16": ("bf16", "bfloat16")}
    return half is not None and sp_size_of(values) == 1 and dtype in others[half]


def sp_size_of(values: Values) -> int:
    """Sequence-parallel ranks."""
    return max(1, values.count(SEQUENCE, 1))


def _nvme_offload(values: Values, quirks: Quirks) -> NvmeOffload:
    """NVMe settings."""
    optimizer, parameters = (
        values.text(f"{ZERO}{section}.device") == "nvme" for section in ("offload_optimizer", "offload_param")
    )
    threads = "aio.thread_count" if quirks.aio_alignment_follows_thread_count else "aio.intra_op_parallelism"
    return NvmeOffload(
        values.count(f"{ZERO}offload_optimizer.buffer_count", 4) if optimizer else 0,
        values.count(f"{ZERO}offload_param.buffer_size", 10**8) if parameters else 0,
        values.count(f"{ZERO}offload_param.buffer_count", 5) if parameters else 0,
        values.count(f"{ZERO}offload_param.max_in_cpu", 10**9),
        max(1 << 20, values.count("aio.block_size", 1 << 20)),
        any(values.flag(f"{ZERO}offload_optimizer.pipeline_{direction}") for direction in ("read", "write")),
        1024 * max(1, values.count(threads, 1)),
    )


def _uses_memory_efficient_linear(values: Values) -> bool:
    return values.values.get(f"{ZERO}memory_efficient_linear", True) is not False


def _offload_ratio(values: Values) -> float:
    value = values.values.get(f"{ZERO}offload_optimizer.ratio", 1.0)
    return float(value) if isinstance(value, (int, float)) else 1.0


def _leaf_classes(values: Values) -> tuple[str, ...]:
    """Class names of `leaf_module`; DeepSpeed matches bare or full names (utils/z3_leaf_module.py)."""
    classes = values.values.get(f"{ZERO}leaf_module.classes")
    # utils/z3_leaf_module.py compares the class name, and the name with its module path.
    names = [str(name) for name in classes] if isinstance(classes, list) else []
    return tuple(
        next((name[len(module) :] for module in MODULES if name.startswith(module)), name) for name in names
    )


def _optimizer(values: Values, client: str | None, offloads: bool, muon_late: bool) -> OptimizerCost:
    kind = values.text("optimizer.type")
    if client is not None or kind is None:
        return cost_of_client(client or DEFAULT_CLIENT, offloads)
    start = "optimizer.params."
    params = {key.removeprefix(start): value for key, value in values.values.items() if key.startswith(start)}
    rule = cost_from_config(kind, params, offloads)
    # Muon's own Adam allocates several tensors of the size of the updated one.
    has_own_adam = rule.muon_method and muon_late
    return rule._replace(temporary_bytes=0, largest_tensor_bytes=16) if has_own_adam else rule


def reject_unmodeled(
    values: Values, quirks: Quirks, world: int, client: str | None = None, zero_init: bool = False
) -> None:
    """Reject settings without an estimate."""
    if world > MOST_RANKS:
        raise NotModelledError(f"runs of more than {MOST_RANKS:,} ranks are not supported")
    if values.has_section(f"{ZERO}zenflow"):
        reject_zenflow(values.values, quirks, client)
    for switch in (*(ZERO + each for each in UNMODELED_SWITCHES), *UNMODELED_ENGINES):
        if values.flag(switch):
            raise _unmodeled(switch)
    if values.count(f"{ZERO}mics_shard_size", 0) > 0:
        raise _unmodeled(f"{ZERO}mics_shard_size")
    for key in (f"{ZERO}leaf_module.names", f"{ZERO}leaf_module.name_suffixes"):
        if values.count(f"{ZERO}stage") == 3 and values.values.get(key):
            why = "module names differ between Transformers releases"
            raise NotModelledError(
                f"`{key}` is not supported yet: {why}", "use `leaf_module.classes` instead"
            )
    _reject_parallelism(values, quirks)
    reject_tensor_parallel_keys(values.values, quirks, zero_init, client)
    if ep_size_of(values):
        _reject_autoep(values, quirks, world)
    if str(values.text("optimizer.type")).lower() == "muon" and client is None:
        reject_muon(values.values, quirks)


def ep_size_of(values: Values) -> int:
    """Expert-parallel ranks (AutoEP); 0 if it is off."""
    on = values.flag(autoep.KEY)
    return max(1, values.count(f"{autoep.SECTION}autoep_size", 1)) if on else 0


def _reject_autoep(values: Values, quirks: Quirks, world: int) -> None:
    """Reject settings that AutoEP rejects, or that were not measured with it."""
    ranks, key = ep_size_of(values), autoep.KEY
    if quirks.lacks_autoep:
        raise NotModelledError(f"`{key}` is not supported before 0.19.8")
    if world % ranks:
        raise NotModelledError(f"AutoEP rejects {world} ranks in groups of {ranks} (`autoep_size`)")
    for name, supported in autoep.SUPPORTED_VALUES.items():
        value = values.values.get(autoep.SECTION + name, supported[0])
        if value not in supported:
            raise NotModelledError(f"`{autoep.SECTION}{name}` {value!r} is not supported yet: {reason(name)}")
    for name, is_used in (
        (TENSOR, values.count(TENSOR, 1) > 1),
        (f"{ZERO}zero_hpz_partition_size", values.count(f"{ZERO}zero_hpz_partition_size", 1) > 1),
        (f"{ZERO}zero_quantized_weights", values.flag(f"{ZERO}zero_quantized_weights")),
        (f"{ZERO}zero_quantized_gradients", values.flag(f"{ZERO}zero_quantized_gradients")),
        (f"{ZERO}round_robin_gradients", values.flag(f"{ZERO}round_robin_gradients")),
        ("torch_autocast.enabled", values.flag("torch_autocast.enabled")),
    ):
        if is_used:
            raise NotModelledError(f"`{key}` with `{name}` is not supported yet: {reason(name)}")
    for name in ("contiguous_gradients", "reduce_scatter"):
        if values.count(f"{ZERO}stage") in (1, 2) and values.values.get(ZERO + name) is False:
            raise NotModelledError(f"`{key}` with `{ZERO}{name}` false is not supported yet: {reason(name)}")


def _unmodeled(key: str) -> NotModelledError:
    return NotModelledError(f"`{key}` is not supported yet: {reason(key)}")


def _reject_parallelism(values: Values, quirks: Quirks) -> None:
    if _tp_size(values) > 1 and values.has_section(f"{ZERO}zenflow"):
        raise NotModelledError(
            f"`{ZERO}zenflow` with `{TENSOR}` is not supported yet: no engine was measured with both"
        )
    if sp_size_of(values) > 1 and quirks.lacks_ulysses_attention:
        why = "0.17.0 is the first release with `UlyssesSPAttentionHF`"
        raise NotModelledError(f"`{SEQUENCE}` above 1 is not supported before 0.17.0: {why}")


def _gradient_postscale(values: Values) -> float | None:
    factor: float = values.values.get("gradient_predivide_factor", 1.0)
    return None if values.flag("prescale_gradients") else factor
