"""Settings that gain nothing with this model, reported beside the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.engines.param_coordinator import GATHERED
from dsconfig.memory.engines.zero12_state import Flattened
from dsconfig.memory.graph import Segment

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.engines.base import Engine
    from dsconfig.memory.memory_ledger import Ledger

ZERO = "zero_optimization."
NEARLY_ALL = 0.98


class Remark(NamedTuple):
    """One of them, and the key that it is about."""

    key: str
    text: str

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        return {"key": self.key, "text": self.text}


def remarks(engine: Engine, ledger: Ledger) -> tuple[Remark, ...]:
    """All of them."""
    return (
        *_bucket(engine),
        *_flattened(engine, ledger),
        *_third(engine, ledger),
        *_counted_again(engine),
        *_taken_for_half(engine),
        *_experts(engine),
        *_sequences(engine),
        *_unsaved(engine),
        *_scrambled(engine),
    )


def _bucket(engine: Engine) -> Iterator[Remark]:
    setup = engine.setup
    if setup.stage and setup.contiguous and setup.bucket > engine.elements:
        text = (
            f"the bucket of {setup.bucket:,} elements is larger than all {engine.elements:,} that are trained"
        )
        yield Remark(f"{ZERO}reduce_bucket_size", f"{text}, and is allocated whole")


def _flattened(engine: Engine, ledger: Ledger) -> Iterator[Remark]:
    """Where weights are flattened decides the highest peak (`flatten_on_accelerator`, stage_1_and_2.py)."""
    if not isinstance(engine, Flattened) or engine.setup.ways.flattens_on_host:
        return
    since = "from 0.19.0 on stages 1 and 2 flatten the weights on the host where the GPU lacks room"
    if engine.on_host:
        yield Remark(f"{ZERO}stage", f"{since} for a second copy of them, as here")
    peaks = {phase: peak.bytes for phase, peak in ledger.rank.peaks.items()}
    if engine.setup.room is None and max(peaks, key=lambda phase: peaks[phase]) == "load":
        yield Remark(f"{ZERO}stage", f"{since} for a second copy of them: `--gpu` tells whether it does")


def _third(engine: Engine, ledger: Ledger) -> Iterator[Remark]:
    """What stage 3 gathers, and what it offloads of one sub-group."""
    setup = engine.setup
    if setup.stage != 3:
        return
    peaks = ledger.rank.peaks
    most = max(peaks[phase].held.get(GATHERED, 0) for phase in ("forward", "backward") if phase in peaks)
    if setup.world > 1 and most >= NEARLY_ALL * setup.width * engine.everything:
        text = "all parameters are gathered at once: lower it together with `stage3_max_live_parameters`"
        yield Remark(f"{ZERO}stage3_max_reuse_distance", text)
    shards = sum(-(-weight.elements // setup.world) for weight in engine.trained)
    if setup.offloads and 0 < setup.ratio < 1 and setup.third.sub_group >= shards:
        text = f"all is offloaded, for the {shards:,} parameters of a rank are one sub-group"
        yield Remark(f"{ZERO}offload_optimizer.ratio", text)


def _counted_again(engine: Engine) -> Iterator[Remark]:
    """`ds_grads_remaining` is not set back before a pass (0.16.0 to 0.16.7, parameter_offload.py)."""
    setup = engine.setup
    if setup.stage != 3 or not setup.ways.counts_again or setup.reentrant:
        return
    if any(isinstance(step, Segment) for step in engine.tape.steps):
        text = "0.16.0 to 0.16.7 keep what non-reentrant checkpointing computes again gathered until the step"
        yield Remark(f"{ZERO}stage", f"{text}: upgrade to 0.16.8, or pass `use_reentrant=True`")


def _taken_for_half(engine: Engine) -> Iterator[Remark]:
    """`DDP_BFLOAT16` was the same word as `BFLOAT16` (0.17.6 to 0.18.4, runtime/constants.py)."""
    if engine.setup.accumulates and engine.setup.ways.wraps_raised:
        held = ", and every rank holds the full optimizer state" if engine.setup.stage else ""
        yield Remark("data_types.grad_accum_dtype", f"0.17.6 to 0.18.4 accumulate in bf16 all the same{held}")


def _experts(engine: Engine) -> Iterator[Remark]:
    kinds = {module.kind for module in engine.tape.modules if module.kind}
    if engine.setup.stage == 3 and kinds and not kinds & set(engine.setup.leaves):
        names = ", ".join(sorted(kinds))
        why = "where experts are modules (Transformers 4), ranks that skip one wait for ever"
        if engine.setup.ways.names_leaves:
            yield Remark(f"{ZERO}leaf_module.classes", f"make {names} a leaf: {why}")
        else:
            call = f"deepspeed.utils.set_z3_leaf_modules(model, [{names}])"
            yield Remark(f"{ZERO}stage", f"make {names} a leaf, with `{call}` in the script: {why}")


def _sequences(engine: Engine) -> Iterator[Remark]:
    """Gradients of ranks that share sequences are sent in fp32 unless this key says another type."""
    setup = engine.setup
    if setup.sequence > 1 and setup.stage in (0, 3) and setup.sent > setup.width:
        text = "gradients are sent in fp32 where ranks share sequences"
        more = f", and the bucket takes {setup.sent} bytes an element" if setup.stage == 3 else ""
        yield Remark("seq_parallel_communication_data_type", f"{text}{more}: say bf16 or fp16 for half of it")


def _unsaved(engine: Engine) -> Iterator[Remark]:
    """`_zero3_consolidated_16bit_state_dict` raises where experts are partitioned apart (0.19.8)."""
    setup = engine.setup
    if setup.experts and setup.stage == 3 and setup.saves:
        text = "the model cannot be put together with AutoEP at stage 3: DeepSpeed raises as it is saved"
        yield Remark(f"{ZERO}stage3_gather_16bit_weights_on_model_save", text)


def _scrambled(engine: Engine) -> Iterator[Remark]:
    """`_update_model_bit16_weights` views the transposed weights in their old shape (0.19.7 and 0.19.8)."""
    setup = engine.setup
    if setup.selection and setup.stage in (1, 2):
        text = "from 0.19.7 on stages 1 and 2 read matrices row by row that ZenFlow has laid out by columns"
        yield Remark(f"{ZERO}zenflow", f"{text}: the model that is trained is not the one that was loaded")
