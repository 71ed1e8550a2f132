"""Reject settings, models and sizes that have no memory estimate, or with which DeepSpeed fails.

Each unmeasured setting or combination is one row, which also provides the error message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.config_values import AUTOEP, AUTOTP, ULYSSES, ZERO
from dsconfig.memory.engines.param_groups import is_muon
from dsconfig.memory.verdict import NotModelledError
from dsconfig.memory.zeropp_unsupported_shapes import (
    QUANTIZER_ALIGNMENT,
    UnevenShard,
    find_indivisible_groups,
    find_shard_past_parameter_end,
    find_uneven_shard,
    padded_shard_numel,
)

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter, TensorParallelSettings
    from dsconfig.memory.config_values import ConfigValues
    from dsconfig.memory.engines.engine_setup import EngineSetup
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.release_quirks import ReleaseQuirks

# Settings on their own.

MOST_RANKS = 100_000
_KERNELS = "its kernels run on GPUs only, so no engine was measured on a CPU"
_BACKEND = "its compressed communication needs a GPU backend, so no engine was measured on a CPU"
_ALONE, _BOTH = "no engine was measured with it", "no engine was measured with both"
REASONS = {
    f"{ZERO}mics_shard_size": "MiCS shard groups were not measured",
    "compile.deepcompile": "the compiler decides when weights are gathered and released",
    "hybrid_engine.enabled": "the layout of its inference copy of the weights is not known",
    "lamb": _KERNELS,
    "onebitadam": _BACKEND,
    "onebitlamb": _BACKEND,
    "zerooneadam": _BACKEND,
}
"""Reason why a config key, or an optimizer by its lower-case name, has no estimate; by default nothing was measured."""
UNMODELED_SWITCHES = (
    f"{ZERO}zero_quantized_nontrainable_weights",
    f"{ZERO}stage3_use_all_reduce_for_fetch_params",
    f"{ZERO}stage3_allgather_sequential",
    f"{ZERO}stage3_module_granularity_threshold",
    f"{ZERO}parameter_alignment",
    f"{ZERO}legacy_stage1",
    "compile.deepcompile",
    "hybrid_engine.enabled",
)
"""Boolean settings whose effect on memory is not estimated."""
AUTOEP_VALUES = {
    "comm_backend": ("comm",),
    "combine_impl": ("auto", "weighted_sum"),
    "score_apply": ("auto", "post"),
    "gate_up_impl": ("separate",),
    "use_grouped_mm": (True,),
    "preset_model": (None, "mixtral", "qwen3_moe"),
}
"""Values of `expert_parallel` keys for which engines were measured."""


def why_unsupported(name: str) -> str:
    """Return why a key, or an optimizer given by its lowercase name, has no estimate."""
    return REASONS.get(name, _ALONE)


def unsupported(what: str, why: str, help: str = "") -> NotModelledError:
    """Return the error for a setting, or a combination of two settings, that was never measured."""
    return NotModelledError(f"{what} is not supported yet: {why}", help)


def stop_error(what: str, why: str, help: str = "") -> NotModelledError:
    """Return the error for a run that fails in DeepSpeed itself."""
    return NotModelledError(f"DeepSpeed stops {what}: {why}", help)


# Combinations of settings.


class NamedSetting(NamedTuple):
    """A setting, named for messages, and a function that returns whether a config uses it."""

    shown: str
    is_used: Callable[[ConfigValues], bool]


class UnmeasuredCombination(NamedTuple):
    """Two settings that were never measured together at certain stages."""

    first: NamedSetting
    second: NamedSetting
    why: str = _BOTH
    stages: tuple[int, ...] = (0, 1, 2, 3)

    def applies_to(self, values: ConfigValues) -> bool:
        """Return whether a config combines the two settings at one of these stages."""
        return self.first.is_used(values) and self.second.is_used(values) and values.stage in self.stages


def _is_on(key: str) -> NamedSetting:
    return NamedSetting(f"`{key}`", lambda values: values.flag(key))


def _is_off(key: str) -> NamedSetting:
    return NamedSetting(f"`{key}` false", lambda values: values.is_false(key))


def _is_above_one(key: str) -> NamedSetting:
    return NamedSetting(f"`{key}`", lambda values: values.count(key, 1) > 1)


def _is_on_nvme(section: str) -> NamedSetting:
    key = f"{ZERO}{section}.device"
    return NamedSetting(f"`{key}`", lambda values: values.text(key) == "nvme")


_ZENFLOW = NamedSetting(f"`{ZERO}zenflow`", lambda values: values.has_zenflow)
_MUON = NamedSetting("Muon", lambda values: str(values.text("optimizer.type")).lower() == "muon")
_AUTOTP, _ULYSSES, _AUTOEP = _is_above_one(AUTOTP), _is_above_one(ULYSSES), _is_on(AUTOEP)
_SUPER = _is_on(f"{ZERO}offload_optimizer.super_offload")
_NVME = (_is_on_nvme("offload_optimizer"), _is_on_nvme("offload_param"))
_QUANTIZED = (_is_on(f"{ZERO}zero_quantized_weights"), _is_on(f"{ZERO}zero_quantized_gradients"))
_HPZ = _is_above_one(f"{ZERO}zero_hpz_partition_size")
_SHARDED = "it decides which layers are sharded"

ZENFLOW_COMBINATIONS = (
    UnmeasuredCombination(_ZENFLOW, _AUTOTP),
    UnmeasuredCombination(_ZENFLOW, _ULYSSES),
    *(UnmeasuredCombination(_ZENFLOW, each, stages=(3,)) for each in (*_QUANTIZED, _SUPER, *_NVME)),
)
AUTOTP_COMBINATIONS = (
    UnmeasuredCombination(_HPZ, _AUTOTP, _ALONE),
    UnmeasuredCombination(_is_on("tensor_parallel.partition_config.layer_specs"), _AUTOTP, _SHARDED),
    UnmeasuredCombination(_is_on("tensor_parallel.preset_model"), _AUTOTP, _SHARDED),
    UnmeasuredCombination(
        _is_on("tensor_parallel.injection_policy_tuple"), _AUTOTP, "it decides which outputs are summed"
    ),
    UnmeasuredCombination(
        _is_on("tensor_parallel.vocab_parallel_lm_head"), _AUTOTP, "the loss is sharded too"
    ),
    UnmeasuredCombination(_is_on("tensor_parallel.keep_module_on_host"), _AUTOTP, "shards stay on the host"),
    UnmeasuredCombination(_QUANTIZED[1], _AUTOTP, _ALONE),
)
AUTOEP_COMBINATIONS = (
    *(UnmeasuredCombination(_AUTOEP, each, _ALONE) for each in (_AUTOTP, _HPZ, *_QUANTIZED)),
    UnmeasuredCombination(_AUTOEP, _is_on(f"{ZERO}round_robin_gradients"), _ALONE),
    UnmeasuredCombination(_AUTOEP, _is_on("torch_autocast.enabled"), _ALONE),
    UnmeasuredCombination(_AUTOEP, _is_off(f"{ZERO}contiguous_gradients"), _ALONE, (1, 2)),
    UnmeasuredCombination(_AUTOEP, _is_off(f"{ZERO}reduce_scatter"), _ALONE, (1, 2)),
)
MUON_COMBINATIONS = (
    UnmeasuredCombination(
        _is_on("optimizer.params.per_head_muon"), _MUON, "splitting layers by heads was not measured"
    ),
    UnmeasuredCombination(_AUTOEP, _MUON),
    UnmeasuredCombination(_SUPER, _MUON),
    UnmeasuredCombination(
        NamedSetting(
            f"`{ZERO}use_multi_rank_bucket_allreduce`",
            lambda values: values.is_false(f"{ZERO}use_multi_rank_bucket_allreduce"),
        ),
        _MUON,
        stages=(1, 2),
    ),
    UnmeasuredCombination(_AUTOTP, _MUON),
    UnmeasuredCombination(_ULYSSES, _MUON),
    *(UnmeasuredCombination(each, _MUON, "NVMe swapping was not measured with it", (3,)) for each in _NVME),
)


def _reject_combinations(values: ConfigValues, combinations: Sequence[UnmeasuredCombination]) -> None:
    for each in combinations:
        if each.applies_to(values):
            raise unsupported(f"{each.first.shown} with {each.second.shown}", each.why)


# A config.


def reject_config(
    values: ConfigValues,
    quirks: ReleaseQuirks,
    world: int,
    client: str | None = None,
    zero_init: bool = False,
) -> None:
    """Reject a config that uses a setting, or a combination of settings, without an estimate.

    `client` is the name of the script's optimizer. Rules report the configs that DeepSpeed itself rejects.

    Raises:
        NotModelledError: there is no estimate for this config.
    """
    if world > MOST_RANKS:
        raise NotModelledError(f"runs of more than {MOST_RANKS:,} ranks are not supported")
    if values.has_zenflow:
        _reject_zenflow(values, quirks, client)
    for switch in UNMODELED_SWITCHES:
        if values.flag(switch):
            raise unsupported(f"`{switch}`", why_unsupported(switch))
    if values.count(f"{ZERO}mics_shard_size") > 0:
        raise unsupported(f"`{ZERO}mics_shard_size`", why_unsupported(f"{ZERO}mics_shard_size"))
    for key in (f"{ZERO}leaf_module.names", f"{ZERO}leaf_module.name_suffixes"):
        if values.stage == 3 and values.flag(key):
            why = "module names differ between Transformers releases"
            raise unsupported(f"`{key}`", why, "use `leaf_module.classes` instead")
    if values.sp_size > 1 and quirks.lacks_ulysses_attention:
        why = "0.17.0 is the first release with `UlyssesSPAttentionHF`"
        raise NotModelledError(f"`{ULYSSES}` above 1 is not supported before 0.17.0: {why}")
    if values.tp_size > 1:
        _reject_autotp(values, quirks, zero_init, client)
    if values.ep_size:
        _reject_autoep(values, quirks, world)
    if client is None and _MUON.is_used(values):
        _reject_muon(values, quirks)
    _reject_half_masters(values)
    _reject_super_offload(values, client or values.text("optimizer.type") or "adamw")


def _reject_zenflow(values: ConfigValues, quirks: ReleaseQuirks, client: str | None) -> None:
    for why in _unsupported_zenflow(values):
        raise unsupported(_ZENFLOW.shown, why)
    if values.stage in (1, 2) and quirks.zenflow_transposes_views:
        why = "its weights are transposed views there, and engines of 0.18.9 used different amounts"
        raise NotModelledError(f"{_ZENFLOW.shown} is not supported at stages 1 and 2 before 0.19.7: {why}")
    if values.stage == 3 and quirks.zenflow_lacks_stage3:
        raise NotModelledError(
            f"{_ZENFLOW.shown} is not supported at stage 3 before 0.18.1, the first release with it"
        )
    if client is not None:
        why = "it passes an argument to `step` that only DeepSpeed's own optimizers accept"
        raise unsupported(f"{_ZENFLOW.shown} with a client optimizer", why)
    _reject_combinations(values, ZENFLOW_COMBINATIONS)


def _unsupported_zenflow(values: ConfigValues) -> Iterator[str]:
    """Yield reasons why ZenFlow fails in the first step or does not train; rules report earlier failures."""
    if not isinstance(values.values.get(f"{ZERO}zenflow.update_interval"), int):
        yield (
            '`update_interval` is `"auto"`, which makes DeepSpeed set gradient accumulation to 0; use a number'
        )
    stage = values.stage
    if not stage or values.text(f"{ZERO}offload_optimizer.device") not in ("cpu", "nvme"):
        yield "it needs an offloaded optimizer"
    if stage in (1, 2) and values.is_false(f"{ZERO}reduce_scatter"):
        yield "`reduce_scatter` is `false`, and DeepSpeed calls `gradient_reduction_w_predivide` without an argument"
    if stage == 3 and values.is_false(f"{ZERO}contiguous_gradients"):
        yield "`contiguous_gradients` is `false`, and transposed gradients cannot be flattened"
    if values.half_dtype and values.itemsize("data_types.grad_accum_dtype", 0) == 4:
        yield "`data_types.grad_accum_dtype` is fp32, but columns are selected from other gradients"


def _reject_autotp(values: ConfigValues, quirks: ReleaseQuirks, zero_init: bool, client: str | None) -> None:
    if values.stage == 3 and quirks.autotp_stops_at_stage3:
        why = "DeepSpeed stops with an AssertionError before 0.19.4"
        raise NotModelledError(f"`{AUTOTP}` above 1 is not supported yet at stage 3: {why}")
    if client == "adagrad":
        # Its states exist before the engine shards the layers.
        subject = f"`{AUTOTP}` with Adagrad of the script is not supported yet"
        if zero_init:
            why = "DeepSpeed cannot keep the states of shards that `zero.Init` created"
            raise NotModelledError(f"{subject} at stage 3: {why}, and stops with a RuntimeError")
        if quirks.autotp_runs_in_initialize and not values.stage and not values.half_dtype:
            why = "its states belong to whole layers, but it updates shards, and DeepSpeed stops with a RuntimeError"
            raise NotModelledError(f"{subject} at stage 0 in fp32: {why}")
    _reject_combinations(values, AUTOTP_COMBINATIONS)


def _reject_autoep(values: ConfigValues, quirks: ReleaseQuirks, world: int) -> None:
    if quirks.lacks_autoep:
        raise NotModelledError(f"`{AUTOEP}` is not supported before 0.19.8")
    if world % values.ep_size:
        raise NotModelledError(f"AutoEP rejects {world} ranks in groups of {values.ep_size} (`autoep_size`)")
    for name, supported in AUTOEP_VALUES.items():
        value = values.values.get(f"expert_parallel.{name}", supported[0])
        if value not in supported:
            raise unsupported(f"`expert_parallel.{name}` {value!r}", why_unsupported(name))
    _reject_combinations(values, AUTOEP_COMBINATIONS)


def _reject_muon(values: ConfigValues, quirks: ReleaseQuirks) -> None:
    """Reject Muon before 0.18.3 and from 0.19.0 to 0.19.7, and at stage 3 before 0.19.8, where it differs."""
    if quirks.muon_stops_without_share_of_group:
        why = "DeepSpeed raises `list index out of range` on a rank without a share of a group"
        raise NotModelledError(f"the optimizer `Muon` is not supported before 0.18.3: {why}")
    if quirks.muon_differs_from_release_to_release:
        why = "each of these releases works differently"
        raise NotModelledError(f"the optimizer `Muon` is not supported from 0.19.0 to 0.19.7: {why}")
    if quirks.muon_has_its_own_adam:
        if values.stage == 3:
            raise NotModelledError("the optimizer `Muon` is not supported at stage 3 before 0.19.8")
        if values.text(f"{ZERO}offload_optimizer.device") == "cpu":
            why = "before 0.19.8 Muon falls back to SGD there, which was not measured"
            raise unsupported(f"`{ZERO}offload_optimizer` with Muon", why)
        if values.values.get("data_types.grad_accum_dtype") not in (None, "auto"):
            why = "before 0.19.7 stage 2 raises, and dtypes differ at the other stages"
            raise unsupported("`data_types.grad_accum_dtype` with Muon", why)
    _reject_combinations(values, MUON_COMBINATIONS)


def _reject_half_masters(values: ConfigValues) -> None:
    """Reject half-precision master weights if DeepSpeed does, or if no engine with them was measured."""
    half = values.half_dtype
    key = f"{half}.{half}_master_weights_and_grads"
    if not half or not values.flag(key):
        return
    if values.stage and values.text(f"{ZERO}offload_optimizer.device") in ("cpu", "nvme"):
        raise unsupported(f"`{key}` with an offloaded optimizer", _BOTH)
    if not values.flag("bf16.bf16_optimizer_states"):
        ways_out = "set `bf16.bf16_optimizer_states`, or offload" if half == "bf16" else "remove it"
        raise NotModelledError(
            f"`{key}` with fp32 optimizer states on the GPU is not supported: DeepSpeed stops with an AssertionError",
            ways_out,
        )


_ADAMS = ("adam", "adamw", "adamw-fused", "cpu-adam")
"""Optimizers that SuperOffload's separate process can run."""


def _reject_super_offload(values: ConfigValues, optimizer: str) -> None:
    """Reject configs with which SuperOffload fails before the first step at stage 3."""
    if not _SUPER.is_used(values) or values.stage != 3:
        return
    if values.text(f"{ZERO}offload_optimizer.device") != "cpu":
        why = "it writes gradients to host memory, which is not allocated"
        raise unsupported(f"{_SUPER.shown} without `device` `cpu`", why)
    if _NVME[1].is_used(values):
        raise unsupported(f"{_SUPER.shown} with parameters on NVMe", _BOTH)
    if optimizer.lower() not in _ADAMS:
        why = "its process only runs Adam, and DeepSpeed stops with a KeyError"
        raise unsupported(f"{_SUPER.shown} with `{optimizer}`", why)


# A model.

AUTOTP_MODELS = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
AUTOEP_MODELS = ("mixtral", "qwen2_moe", "qwen3_moe")
ULYSSES_MODELS = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
    *("gemma", "gemma3_text", "olmo2", "olmo3"),
)
"""Model types for which engines were measured with sequence parallelism (Ulysses)."""
_AUTOTP_FAMILIES = {
    "gpt2": "DeepSpeed stops with an AssertionError: AutoTP does not support it",
    "plain": "DeepSpeed stops with an AssertionError: AutoTP finds no policy for it",
    "vit": "DeepSpeed shards its layers into mismatched shapes, and stops",
}


def reject_model(arch: Architecture, batch: MicroBatch) -> None:
    """Reject a model, or model sizes, for which the run's parallelism has no estimate.

    Raises:
        NotModelledError: DeepSpeed or Ulysses rejects the model, or its engine was never measured.
    """
    parallel = {ULYSSES: batch.sp_size, AUTOEP: batch.ep_size, AUTOTP: batch.tensor_parallel.size}
    for key, size in parallel.items():
        if arch.towers and size > (key != AUTOEP):
            raise unsupported(f"`{key}` for a model with an encoder of images or audio", _ALONE)
    if batch.sp_size > 1:
        _reject_ulysses_model(arch, batch)
    if batch.ep_size:
        _reject_autoep_model(arch, batch)
    if batch.tensor_parallel.size > 1:
        _reject_autotp_model(arch, batch)


def _reject_ulysses_model(arch: Architecture, batch: MicroBatch) -> None:
    ranks, length = batch.sp_size, batch.sequence_length
    if arch.family != "decoder":
        why = "`UlyssesSPAttentionHF` needs `num_key_value_heads` and `position_ids`, as decoders have them"
        raise NotModelledError(f"`{ULYSSES}` is not supported yet for such a model: {why}")
    if arch.name not in ULYSSES_MODELS:
        raise NotModelledError(f"`{ULYSSES}` is not supported yet for {arch.name}: {_ALONE}")
    if batch.tensor_parallel.size > 1:
        raise NotModelledError(f"`{ULYSSES}` together with `{AUTOTP}` is not supported yet")
    if batch.attn_implementation == "eager":
        raise NotModelledError(f"`UlyssesSPAttentionHF` rejects `eager` attention with `{ULYSSES}`")
    if arch.num_heads % ranks:
        raise NotModelledError(f"`UlyssesSPAttentionHF` rejects {arch.num_heads} heads for {ranks} ranks")
    if arch.num_kv_heads % ranks and ranks % arch.num_kv_heads:
        heads = f"{arch.num_kv_heads} key/value heads for {ranks} ranks"
        raise NotModelledError(f"`UlyssesSPAttentionHF` rejects {heads}")
    if length % ranks:
        raise NotModelledError(
            f"a sequence of {length} tokens cannot be split over {ranks} ranks", f"use a multiple of {ranks}"
        )


def _reject_autoep_model(arch: Architecture, batch: MicroBatch) -> None:
    if not arch.num_experts:
        raise NotModelledError(f"`{AUTOEP}` needs a MoE model; estimates support Mixtral and Qwen MoE")
    if arch.name not in AUTOEP_MODELS:
        raise NotModelledError(f"`{AUTOEP}` is not supported yet for {arch.name}: {_ALONE}")
    if arch.num_experts % batch.ep_size:
        raise NotModelledError(f"AutoEP rejects {arch.num_experts} experts for {batch.ep_size} ranks")
    for name, is_used in (("adapters", batch.adapter), ("sequence parallelism", batch.sp_size > 1)):
        if is_used:
            raise unsupported(f"`{AUTOEP}` with {name}", _ALONE)


def _reject_autotp_model(arch: Architecture, batch: MicroBatch) -> None:
    sharing = batch.tensor_parallel
    if arch.family != "decoder":
        why = _AUTOTP_FAMILIES.get(arch.family, _ALONE)
        raise NotModelledError(f"`{AUTOTP}` is not supported yet for this model: {why}")
    if arch.name and arch.name not in AUTOTP_MODELS:
        raise NotModelledError(f"`{AUTOTP}` is not supported yet for {arch.name}: {_ALONE}")
    if batch.adapter:
        why = "DeepSpeed shards their layers too, into mismatched shapes, and stops"
        raise unsupported(f"`{AUTOTP}` with adapters", why)
    if arch.num_experts and sharing.reads_tp_plans:
        why = "DeepSpeed stops with a ValueError, because Transformers' plan shards experts differently"
        raise NotModelledError(f"`{AUTOTP}` is not supported yet for a MoE model: {why}")
    if arch.tie_word_embeddings and sharing.may_shard_lm_head:
        why = "the vocabulary is sharded too, which was not measured"
        raise NotModelledError(f"`{AUTOTP}` is not supported yet with tied embeddings: {why}")
    _reject_uneven_shards(arch, sharing)


def _reject_uneven_shards(arch: Architecture, sharing: TensorParallelSettings) -> None:
    """Reject sizes that do not divide evenly among ranks, which would then use different amounts of memory."""
    sizes = {"heads": arch.num_heads, "key/value heads": arch.num_kv_heads}
    sizes |= {} if arch.num_experts else {"MLP elements": arch.intermediate_size}
    sizes |= {"vocabulary entries": arch.vocab_size} if sharing.shards_lm_head(arch.has_qk_norms) else {}
    for name, count in sizes.items():
        if count % sharing.size:
            raise NotModelledError(
                f"`{AUTOTP}` {sharing.size} does not divide {count} {name}, which is not supported yet"
            )


# A run: sizes of a model with which DeepSpeed stops.


def reject_run(setup: EngineSetup, tape: ForwardTape, recomputes: bool) -> None:
    """Reject model sizes with which DeepSpeed fails in the first steps, or that were never measured.

    Raises:
        NotModelledError: there is no estimate for this model with this config.
    """
    if setup.zenflow:
        _reject_zenflow_shapes(setup, tape.weights, recomputes)
    _reject_quantized(setup, tape)
    _reject_mistyped_grads(setup, tape)
    _reject_secondary_partition(setup, tape)
    _reject_muon_shapes(setup, tape)


def _reject_zenflow_shapes(setup: EngineSetup, weights: Sequence[ModelParameter], recomputes: bool) -> None:
    what = f"with `{ZERO}zenflow` and this model"
    tensor = next((weight for weight in weights if weight.requires_grad and len(weight.shape) > 2), None)
    if tensor is not None:
        size = " × ".join(map(str, tensor.shape))
        raise stop_error(
            what, f"it transposes matrices only, but `{tensor.name}` has a weight of shape {size}"
        )
    if setup.stage != 3:
        return
    hooks = "at stage 3 its hooks transpose gathered weights"
    if setup.zero_init:
        raise stop_error(what, f"{hooks}, but shards from `zero.Init` were not transposed before")
    if recomputes:
        raise stop_error(what, f"{hooks}, and a recomputed segment ends before they transpose them back")
    if not all(weight.requires_grad for weight in weights):
        raise stop_error(what, f"{hooks}, but not those of frozen layers (LoRA)")
    ranks = setup.dp_world_size
    for weight in weights:
        if len(weight.shape) == 1 and weight.numel % -(-weight.numel // ranks):
            why = f"at stage 3 {ranks} ranks cannot evenly split a vector of {weight.numel:,} elements"
            raise stop_error(what, why)
    largest = max((weight.numel for weight in weights), default=0)
    if largest > setup.reduce_bucket_size:
        size = f"the size of the largest parameter, {largest:,} elements"
        raise stop_error(what, f"at stage 3 `{ZERO}reduce_bucket_size` must be at least {size}")


def _reject_secondary_partition(setup: EngineSetup, tape: ForwardTape) -> None:
    """Reject hpZ with frozen weights or MoE leaf modules, which was never measured."""
    has_leaf = any(module.class_name in setup.leaf_classes for module in tape.modules if module.class_name)
    has_frozen = not all(weight.requires_grad for weight in tape.weights)
    if setup.stage == 3 and setup.hpz_size > 1 and (has_leaf or has_frozen):
        raise unsupported(f"{_HPZ.shown} with frozen weights or MoE leaf modules", _ALONE)


_WAYS_OUT = "remove it, or change the number of GPUs"


def _reject_quantized(setup: EngineSetup, tape: ForwardTape) -> None:
    """Reject weights or gradients that DeepSpeed cannot quantize (DSC412, DSC415, DSC416)."""
    ranks, copies = setup.dp_world_size, setup.hpz_size > 1
    sizes = [(weight.name, weight.numel) for weight in tape.weights if copies or setup.quantized_weights]
    if copies and setup.quirks.secondary_partition_is_narrowed_past_end:
        short = find_shard_past_parameter_end(sizes, ranks, setup.hpz_size)
        if short is not None:
            shard = f"a rank's secondary shard of `{short.name}`"
            why = f"{shard} would start at element {short.start:,} of {short.numel:,}"
            raise stop_error(f"with {_HPZ.shown}", why, _WAYS_OUT)
    if setup.quantized_weights and ranks > 1:
        uneven_module = find_uneven_shard(sizes, ranks, setup.hpz_size if copies else ranks)
        if uneven_module is not None:
            raise _uneven_error(uneven_module)
    if setup.quantized_gradients and ranks > setup.gpus_per_node:
        trainable = ((weight.name, weight.shape) for weight in tape.weights if weight.requires_grad)
        matrix = find_indivisible_groups(trainable, ranks)
        if matrix is not None:
            groups = f"the {matrix.groups:,} groups of `{matrix.name}`"
            raise stop_error(
                f"with `{ZERO}zero_quantized_gradients`",
                f"{ranks:,} ranks do not share {groups} evenly",
                _WAYS_OUT,
            )


def reject_uneven_gather(setup: EngineSetup, weights: Sequence[ModelParameter], second: bool) -> None:
    """Reject a gather of several modules whose shards add up to an unaligned numel.

    With `zero_hpz_partition_size`, the first forward pass gathers module by module from the secondary partition, so a
    single module may be uneven. The step drops that partition, and later passes gather shards of several modules at
    once.

    Raises:
        NotModelledError: the shards of the gather are not aligned.
    """
    ranks, parts = setup.dp_world_size, setup.hpz_size if second else setup.dp_world_size
    count = sum(padded_shard_numel(weight.numel, ranks, parts) for weight in weights)
    if ranks > 1 and count % QUANTIZER_ALIGNMENT:
        raise _uneven_error(UnevenShard(weights[0].name, count))


def _uneven_error(part: UnevenShard) -> NotModelledError:
    shard = f"a rank's shard of `{part.module}` has {part.numel:,} elements"
    why = f"{shard}, not a multiple of {QUANTIZER_ALIGNMENT}"
    return stop_error(f"with `{ZERO}zero_quantized_weights`", why, _WAYS_OUT)


def _reject_mistyped_grads(setup: EngineSetup, tape: ForwardTape) -> None:
    """Reject communication dtypes that make the first backward pass of stages 1 and 2 fail."""
    if setup.is_unsharded or setup.stage == 3 or setup.uses_bf16_optimizer:
        return
    casts_late = (
        setup.stage == 1
        and setup.grad_accum_itemsize != setup.itemsize
        and setup.quirks.stage1_casts_grads_after_backward
    )
    if casts_late and setup.overlap_comm and setup.gradient_accumulation_steps == 1:  # DSC418
        why = "gradients are reduced before they are cast to `grad_accum_dtype`"
        raise stop_error(
            f"with `{ZERO}overlap_comm`", why, "remove it, or upgrade DeepSpeed to 0.16.5 or later"
        )
    other_dtype = setup.comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half
    if setup.autocast or other_dtype:
        trainable = [weight for weight in tape.weights if weight.requires_grad]
        communicated = [weight for weight in trainable if weight.is_linear] if setup.autocast else trainable
        _reject_small_bucket(setup, communicated, other_dtype)


def _reject_small_bucket(
    setup: EngineSetup, communicated: Sequence[ModelParameter], other_dtype: bool
) -> None:
    """Reject buckets that DeepSpeed fails to find because it looks them up by the model's dtype (DSC411)."""
    total, what = (
        sum(weight.numel for weight in communicated),
        f"with `{ZERO}reduce_bucket_size` {setup.reduce_bucket_size:,}",
    )
    ways_out = "increase it, or upgrade DeepSpeed to 0.18.2 or later"
    if (
        other_dtype
        and setup.quirks.full_bucket_is_reported_by_model_dtype
        and total > setup.reduce_bucket_size
    ):
        raise stop_error(what, f"the {total:,} gradient elements do not fit into one bucket", ways_out)
    largest = max(communicated, key=lambda weight: weight.numel, default=None)
    if (
        setup.quirks.large_grad_is_looked_up_by_model_dtype
        and setup.contiguous_gradients
        and largest
        and largest.numel > setup.reduce_bucket_size
    ):
        elements = f"`{largest.name}` has {largest.numel:,} elements"
        raise stop_error(what, f"{elements}, and its gradient is communicated in another dtype", ways_out)


def _reject_muon_shapes(setup: EngineSetup, tape: ForwardTape) -> None:
    """Reject experts with Muon, because `BF16_Optimizer` supports only 2D matrices (`_prepare_muon_updates`)."""
    if not (setup.optimizer.muon_method and setup.uses_bf16_optimizer):
        return
    matrices = (weight for weight in tape.weights if weight.requires_grad and is_muon(weight))
    if any(len(weight.shape) != 2 for weight in matrices):
        raise NotModelledError(
            "Muon at stage 1 with fp32 gradients and experts is not supported: DeepSpeed raises "
            "`BF16 Muon currently supports dense two-dimensional matrices only`"
        )
