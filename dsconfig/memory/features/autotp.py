"""AutoTP: linear layers are sharded over ranks (DeepSpeed's `module_inject/layers.py`, from 0.16.4 on)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.engines.base import BUILT, GATHERED, STATES, WEIGHTS, Feature
from dsconfig.memory.graph import ROW_PARALLEL, ModelCollective
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json
    from dsconfig.memory.engines.zero3 import DeepSpeedZeroOptimizerStage3
    from dsconfig.memory.graph import Module, TensorParallel
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.quirks import Quirks

KEY = "tensor_parallel.autotp_size"
HPZ = "zero_optimization.zero_hpz_partition_size"
SUPPORTED_MODELS = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
"""Model types whose engines were measured with AutoTP."""
UNSUPPORTED_FAMILIES = {
    "gpt2": "DeepSpeed stops with an AssertionError: AutoTP does not support it",
    "plain": "DeepSpeed stops with an AssertionError: AutoTP finds no policy for it",
    "vit": "DeepSpeed shards its layers into mismatched shapes, and stops",
}


OTHER_KEYS = {
    "tensor_parallel.partition_config.layer_specs": "it decides which layers are sharded",
    "tensor_parallel.preset_model": "it decides which layers are sharded",
    "tensor_parallel.injection_policy_tuple": "it decides which outputs are summed",
    "tensor_parallel.vocab_parallel_lm_head": "the loss is sharded too",
    "tensor_parallel.keep_module_on_host": "shards stay on the host",
    "zero_optimization.zero_quantized_gradients": "no engine was measured with it",
}
"""Keys that change what is sharded, and why there is no estimate for them with AutoTP."""


def reject_tensor_parallel_keys(
    values: Mapping[str, Json], quirks: Quirks, zero_init: bool, client: str | None
) -> None:
    """Reject keys without an estimate next to AutoTP, and client optimizers that DeepSpeed cannot shard.

    Raises:
        NotModelledError: DeepSpeed stops, or no engine was measured.
    """
    size = values.get(KEY)
    if not isinstance(size, int) or size < 2:
        return
    if values.get("zero_optimization.stage") == 3 and quirks.autotp_stops_at_stage3:
        why = "DeepSpeed stops with an AssertionError before 0.19.4"
        raise NotModelledError(f"`{KEY}` above 1 is not supported yet at stage 3: {why}")
    if client == "adagrad":
        _reject_adagrad(values, quirks, zero_init)
    secondary = values.get(HPZ, 1)
    unsupported = (
        {HPZ: "no engine was measured with it"} if isinstance(secondary, int) and secondary > 1 else {}
    )
    unsupported |= {key: why for key, why in OTHER_KEYS.items() if values.get(key)}
    for key, why in unsupported.items():
        raise NotModelledError(f"`{key}` with `{KEY}` is not supported yet: {why}")


def _reject_adagrad(values: Mapping[str, Json], quirks: Quirks, zero_init: bool) -> None:
    """Reject Adagrad of the script, whose states exist before the engine shards the layers."""
    subject, half_switches = (
        f"`{KEY}` with Adagrad of the script is not supported yet",
        ("bf16.enabled", "fp16.enabled"),
    )
    if zero_init:
        why = "DeepSpeed cannot keep the states of shards that `zero.Init` created"
        raise NotModelledError(f"{subject} at stage 3: {why}, and stops with a RuntimeError")
    if (
        quirks.autotp_runs_in_initialize
        and not values.get("zero_optimization.stage")
        and not any(map(values.get, half_switches))
    ):
        why = "its states belong to whole layers, but it updates shards"
        raise NotModelledError(
            f"{subject} at stage 0 in fp32: {why}, and DeepSpeed stops with a RuntimeError"
        )


def reject_model(arch: Architecture, batch: MicroBatch) -> None:
    """Reject models that AutoTP rejects, or that were not measured.

    Raises:
        NotModelledError: there is no estimate for this model with AutoTP.
    """
    sharing = batch.tensor_parallel
    if arch.family != "decoder":
        why = UNSUPPORTED_FAMILIES.get(arch.family, "no engine was measured with it")
        raise NotModelledError(f"`{KEY}` is not supported yet for this model: {why}")
    if arch.name and arch.name not in SUPPORTED_MODELS:
        raise NotModelledError(
            f"`{KEY}` is not supported yet for {arch.name}: no engine was measured with it"
        )
    if batch.adapter:
        why = "DeepSpeed shards their layers too, into mismatched shapes, and stops"
        raise NotModelledError(f"`{KEY}` with adapters is not supported yet: {why}")
    if arch.num_experts and sharing.reads_tp_plans:
        why = "DeepSpeed stops with a ValueError, because Transformers' plan shards experts differently"
        raise NotModelledError(f"`{KEY}` is not supported yet for a MoE model: {why}")
    if arch.tie_word_embeddings and sharing.may_shard_lm_head:
        why = "the vocabulary is sharded too, which was not measured"
        raise NotModelledError(f"`{KEY}` is not supported yet with tied embeddings: {why}")
    _reject_uneven(arch, sharing)


def _reject_uneven(arch: Architecture, sharing: TensorParallel) -> None:
    """Reject sizes that ranks cannot share evenly, since ranks would then use different amounts of memory."""
    sizes = {"heads": arch.num_heads, "key/value heads": arch.num_kv_heads}
    sizes |= {} if arch.num_experts else {"MLP elements": arch.intermediate_size}
    sizes |= (
        {"vocabulary entries": arch.vocab_size} if sharing.shards_lm_head(bool(arch.variant.qk_norm)) else {}
    )
    for name, count in sizes.items():
        if count % sharing.size:
            raise NotModelledError(
                f"`{KEY}` {sharing.size} does not divide {count} {name}, which is not supported yet"
            )


def rank_architecture(arch: Architecture, sharing: TensorParallel) -> Architecture:
    """The architecture with the sizes of one rank's shards."""
    ranks = sharing.size
    return arch._replace(
        num_heads=arch.num_heads // ranks,
        num_kv_heads=arch.num_kv_heads // ranks,
        intermediate_size=arch.intermediate_size if arch.num_experts else arch.intermediate_size // ranks,
        lm_head_shards=ranks if sharing.shards_lm_head(bool(arch.variant.qk_norm)) else 1,
    )


def tensor_parallel_collectives(arch: Architecture, batch: MicroBatch) -> list[ModelCollective]:
    """Collectives of a micro batch (measured).

    The forward pass sums the outputs of `o_proj` and `down_proj` and gathers the logits. The backward pass
    sums five input gradients per layer (q, k, v, gate and up), and that of the head. A recomputed layer stops
    before the sum of `down_proj`.
    """
    sharing, rows, layers = (
        batch.tensor_parallel,
        batch.micro_batch_size * batch.sequence_length,
        arch.num_layers,
    )
    head, recomputed_sums = (
        sharing.shards_lm_head(bool(arch.variant.qk_norm)),
        layers * batch.gradient_checkpointing,
    )
    forward_sums, backward_sums = (layers, 3 * layers) if arch.num_experts else (2 * layers, 5 * layers)
    norm_sums = 2 * layers if sharing.reads_tp_plans and arch.variant.qk_norm else 0
    activation_itemsize = 2 if batch.autocast else batch.itemsize
    return [
        ModelCollective(name, phase, calls, numel, itemsize, sharing.size)
        for phase, name, calls, numel, itemsize in (
            ("forward", "all_reduce", forward_sums, rows * arch.hidden_size, activation_itemsize),
            ("forward", "all_gather", int(head), rows * arch.vocab_size, activation_itemsize),
            ("backward", "all_reduce", recomputed_sums, rows * arch.hidden_size, activation_itemsize),
            ("backward", "all_reduce", backward_sums + head, rows * arch.hidden_size, batch.itemsize),
            ("backward", "all_reduce", norm_sums, arch.head_dim, batch.itemsize),
        )
        if calls
    ]


# The engine: layers are sharded as the model is built, or after `zero.Init`, and gathered on save.


class AutoTP(Feature):
    """Linear layers whose shards tensor-parallel ranks hold."""

    def build(self) -> bool:
        """Shard linear layers, which go to the device in the built dtype and are cast there."""
        engine, ledger, weights = self.engine, self.ledger, self.engine.tape.weights
        built, itemsize = self.setup.build_itemsize, self.setup.itemsize
        ledger.allocate(BUILT, built * engine.model_numel, host=True)
        if self.setup.optimizer.is_client:
            ledger.allocate(STATES, engine.construction_state_bytes)
        for weight in weights:
            if weight.tp_size > 1:
                ledger.allocate(WEIGHTS, built * weight.numel)
                ledger.free(BUILT, built * weight.numel * weight.tp_size, host=True)
        for weight in weights if built != itemsize else ():  # cast one by one
            # DeepSpeed casts each parameter in place (engine.py `_cast_module_mixed_precision`, before
            # `module.half()`).
            name, host = (WEIGHTS, False) if weight.tp_size > 1 else (BUILT, True)
            ledger.allocate(name, itemsize * weight.numel, host=host)
            ledger.free(name, built * weight.numel, host=host)
        others = sum(weight.numel for weight in weights if weight.tp_size == 1)
        ledger.free(BUILT, itemsize * others, host=True)
        ledger.allocate(WEIGHTS, itemsize * others)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, engine.construction_state_bytes)
        return True


class AutoTPStage3(Feature):
    """The same at stage 3, which partitions the shards again."""

    engine: DeepSpeedZeroOptimizerStage3

    def after_zero_init(self) -> None:
        """Gather, copy and shard linear layers (`_gather_zero3_params`), then partition them again."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        sharded = [weight for weight in self.engine.tape.weights if weight.tp_size > 1]
        for weight in sharded:
            ledger.allocate_briefly(GATHERED, 2 * itemsize * weight.numel * weight.tp_size)
            ledger.allocate(WEIGHTS, itemsize * weight.numel)
        for weight in sharded:
            ledger.allocate_briefly(WEIGHTS, self.engine.shard_bytes_of(weight))
            ledger.free(WEIGHTS, itemsize * weight.numel)

    def gather_on_save(self, module: Module) -> int:
        """Gather a layer that AutoTP shards (`GatherReplacedLayerParams`); columns are copied once more."""
        sharded = [weight for weight in module.weights if weight.tp_size > 1]
        count = sum(self.engine.itemsize_of(weight) * weight.numel * weight.tp_size for weight in sharded)
        self.ledger.allocate(GATHERED, count)
        if module.name.endswith(ROW_PARALLEL):
            self.ledger.allocate_briefly(GATHERED, count)
        return count
