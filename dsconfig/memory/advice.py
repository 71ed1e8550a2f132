"""Advice on settings that waste memory, or that do not work with a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import CheckpointedSegment
from dsconfig.memory.engines.base_engine import GATHERED
from dsconfig.memory.engines.stage_1_and_2 import DeepSpeedZeroOptimizer

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.engines.base_engine import Engine
    from dsconfig.memory.memory_ledger import MemoryLedger

ZERO = "zero_optimization."
NEARLY_ALL = 0.98


class MemoryAdvice(NamedTuple):
    """A warning or hint about a setting that wastes memory or does not work with the model."""

    key: str
    text: str

    def to_dict(self) -> JsonObject:
        """Return the advice as a JSON object."""
        return {"key": self.key, "text": self.text}


def advice_for(engine: Engine, ledger: MemoryLedger) -> tuple[MemoryAdvice, ...]:
    """Return the advice on the settings of an engine."""
    return (
        *_warn_about_oversized_bucket(engine),
        *_advise_on_flatten_location(engine, ledger),
        *_warn_about_stage3_gathering(engine, ledger),
        *_warn_about_recomputed_modules(engine),
        *_warn_about_ignored_fp32_accumulation(engine),
        *_suggest_leaf_experts(engine),
        *_warn_about_sequence_parallel_dtype(engine),
        *_warn_about_failing_autoep_save(engine),
        *_warn_about_zenflow_transposes(engine),
    )


def _warn_about_oversized_bucket(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn about a reduce bucket that is larger than the model."""
    setup = engine.setup
    if setup.stage and setup.contiguous_gradients and setup.reduce_bucket_size > engine.trainable_numel:
        text = (
            f"the bucket of {setup.reduce_bucket_size:,} elements is larger than all {engine.trainable_numel:,}"
            " trainable elements"
        )
        yield MemoryAdvice(f"{ZERO}reduce_bucket_size", f"{text}, and is allocated in full")


def _advise_on_flatten_location(engine: Engine, ledger: MemoryLedger) -> Iterator[MemoryAdvice]:
    """Say whether stages 1 and 2 flatten the weights on the GPU or the host, if this determines the peak."""
    if not isinstance(engine, DeepSpeedZeroOptimizer) or engine.setup.quirks.flattens_weights_on_host:
        return
    since = "since 0.19.0 stages 1 and 2 flatten the weights on the host if the GPU has no memory for a second copy"
    if engine.flattened_on_host:
        yield MemoryAdvice(f"{ZERO}stage", f"{since}, as in this run")
    peaks = {phase: peak.bytes for phase, peak in ledger.rank.peaks.items()}
    if engine.setup.gpu_limit is None and max(peaks, key=lambda phase: peaks[phase]) == "load":
        yield MemoryAdvice(f"{ZERO}stage", f"{since}: pass `--gpu` to see which applies")


def _warn_about_stage3_gathering(engine: Engine, ledger: MemoryLedger) -> Iterator[MemoryAdvice]:
    """Warn if stage 3 keeps the whole model gathered, or if `ratio`, for partial offload, has no effect."""
    setup = engine.setup
    if setup.stage != 3:
        return
    peaks = ledger.rank.peaks
    gathered = max(peaks[phase].live.get(GATHERED, 0) for phase in ("forward", "backward") if phase in peaks)
    if setup.dp_world_size > 1 and gathered >= NEARLY_ALL * setup.itemsize * engine.total_numel:
        text = "all parameters are gathered at once. Lower it together with `stage3_max_live_parameters`"
        yield MemoryAdvice(f"{ZERO}stage3_max_reuse_distance", text)
    shards = sum(-(-weight.numel // setup.dp_world_size) for weight in engine.trainable)
    if setup.offloads_optimizer and 0 < setup.offload_ratio < 1 and setup.stage3.sub_group_size >= shards:
        text = f"everything is offloaded: the {shards:,} parameters of a rank form a single sub-group"
        yield MemoryAdvice(f"{ZERO}offload_optimizer.ratio", text)


def _warn_about_recomputed_modules(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn about parameters that non-reentrant checkpointing keeps gathered.

    0.16.0 to 0.16.7 do not reset `ds_grads_remaining` before a pass (runtime/zero/parameter_offload.py).
    """
    setup = engine.setup
    if not setup.depends_on_reentrant or setup.use_reentrant:
        return
    if any(isinstance(step, CheckpointedSegment) for step in engine.tape.steps):
        text = "0.16.0 to 0.16.7 keep parameters that non-reentrant checkpointing recomputes gathered until the step"
        yield MemoryAdvice(f"{ZERO}stage", f"{text}: upgrade to 0.16.8, or pass `use_reentrant=True`")


def _warn_about_ignored_fp32_accumulation(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn about fp32 gradient accumulation in releases that ignore it.

    0.17.6 to 0.18.4 define `DDP_BFLOAT16` with the value of `BFLOAT16` (runtime/constants.py).
    """
    if engine.setup.accumulates_bf16_in_fp32 and engine.setup.quirks.fp32_accumulation_is_mistaken_for_bf16:
        states = ", and every rank holds the full optimizer state" if engine.setup.stage else ""
        yield MemoryAdvice(
            "data_types.grad_accum_dtype", f"0.17.6 to 0.18.4 accumulate in bf16 anyway{states}"
        )


def _suggest_leaf_experts(engine: Engine) -> Iterator[MemoryAdvice]:
    """Suggest declaring MoE blocks as leaf modules, since ranks can route tokens to different experts."""
    classes = {module.class_name for module in engine.tape.modules if module.class_name}
    if engine.setup.stage == 3 and classes and not classes & set(engine.setup.leaf_classes):
        names = ", ".join(sorted(classes))
        why = (
            "with experts as separate modules (Transformers 4), a rank that skips an expert hangs the others"
        )
        if engine.setup.quirks.lacks_leaf_module_key:
            call = f"deepspeed.utils.set_z3_leaf_modules(model, [{names}])"
            yield MemoryAdvice(
                f"{ZERO}stage", f"make {names} a leaf module, with `{call}` in the script: {why}"
            )
        else:
            yield MemoryAdvice(f"{ZERO}leaf_module.classes", f"make {names} a leaf module: {why}")


def _warn_about_sequence_parallel_dtype(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn that gradients are communicated in fp32, the default with sequence parallelism."""
    setup = engine.setup
    if setup.sp_size > 1 and setup.stage in (0, 3) and setup.comm_itemsize > setup.itemsize:
        text = "gradients are communicated in fp32 with sequence parallelism"
        bucket = f", and the bucket takes {setup.comm_itemsize} bytes per element" if setup.stage == 3 else ""
        yield MemoryAdvice(
            "seq_parallel_communication_data_type", f"{text}{bucket}. Set it to bf16 or fp16 to halve that"
        )


def _warn_about_failing_autoep_save(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn that saving the gathered 16-bit model fails with AutoEP at stage 3.

    `_zero3_consolidated_16bit_state_dict` raises if experts have their own partition group (0.19.8).
    """
    setup = engine.setup
    if setup.ep_size and setup.stage == 3 and setup.gathers_on_save:
        text = "with AutoEP at stage 3 the model cannot be gathered: DeepSpeed raises when it is saved"
        yield MemoryAdvice(f"{ZERO}stage3_gather_16bit_weights_on_model_save", text)


def _warn_about_zenflow_transposes(engine: Engine) -> Iterator[MemoryAdvice]:
    """Warn that ZenFlow's transposed weights are read in the wrong shape at stages 1 and 2.

    `_update_model_bit16_weights` views the transposed weights in their original shape (0.19.7 and 0.19.8).
    """
    setup = engine.setup
    if setup.zenflow and setup.stage in (1, 2):
        text = "since 0.19.7 stages 1 and 2 read matrices by rows that ZenFlow stores by columns"
        yield MemoryAdvice(f"{ZERO}zenflow", f"{text}: the trained model is not the loaded one")
