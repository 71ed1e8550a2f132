"""AutoTP: ranks share linear layers (DeepSpeed's `module_inject/layers.py`, from 0.16.4 on)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.graph import ModelCollective
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json
    from dsconfig.memory.graph import TensorParallel
    from dsconfig.memory.models.architecture import Architecture, MicroBatch

KEY = "tensor_parallel.autotp_size"
HPZ = "zero_optimization.zero_hpz_partition_size"
AT_STAGE_3 = 19004
"""DeepSpeed 0.19.4: up to 0.19.3 `_configure_tensor_parallel_states` asserts a stage below 3."""
BY_CONFIG = 18006
"""DeepSpeed 0.18.6: before, `tp_model_init` shares layers, which the script has to call."""
SUPPORTED_MODELS = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
"""Decoders whose engines were measured."""
UNSUPPORTED_FAMILIES = {
    "gpt2": "DeepSpeed stops with an AssertionError: AutoTP does not support it",
    "plain": "DeepSpeed stops with an AssertionError: AutoTP finds no policy for it",
    "vit": "DeepSpeed cuts its layers so that shapes do not fit, and stops",
}


OTHER_KEYS = {
    "tensor_parallel.partition_config.layer_specs": "it decides which layers are shared",
    "tensor_parallel.preset_model": "it decides which layers are shared",
    "tensor_parallel.injection_policy_tuple": "it decides which outputs are summed",
    "tensor_parallel.vocab_parallel_lm_head": "the loss is shared too",
    "tensor_parallel.keep_module_on_host": "parts of layers stay on the host",
    "zero_optimization.zero_quantized_gradients": "no engine was measured with it",
}
"""Keys that change what is shared, and why they are not modelled beside it."""


def reject_tensor_parallel_keys(
    values: Mapping[str, Json], release: int, zero_init: bool, client: str | None
) -> None:
    """Refuse keys beside it, and an optimizer of the script that has states before layers are shared.

    Raises:
        NotModelledError: DeepSpeed stops, or no engine was measured.
    """
    size = values.get(KEY)
    if not isinstance(size, int) or size < 2:
        return
    if values.get("zero_optimization.stage") == 3 and release < AT_STAGE_3:
        why = "DeepSpeed stops with an AssertionError before 0.19.4"
        raise NotModelledError(f"`{KEY}` above 1 is not modelled at stage 3: {why}")
    if client == "adagrad":
        _reject_adagrad(values, release, zero_init)
    secondary = values.get(HPZ, 1)
    there = {HPZ: "no engine was measured with it"} if isinstance(secondary, int) and secondary > 1 else {}
    there |= {key: why for key, why in OTHER_KEYS.items() if values.get(key)}
    for key, why in there.items():
        raise NotModelledError(f"`{key}` beside `{KEY}` is not modelled: {why}")


def _reject_adagrad(values: Mapping[str, Json], release: int, zero_init: bool) -> None:
    """Its states are there before the engine."""
    what, flat = f"`{KEY}` with Adagrad of the script is not modelled", ("bf16.enabled", "fp16.enabled")
    if zero_init:
        why = "DeepSpeed cannot keep the states of shards that `zero.Init` made"
        raise NotModelledError(f"{what} at stage 3: {why}, and stops with a RuntimeError")
    if release >= BY_CONFIG and not values.get("zero_optimization.stage") and not any(map(values.get, flat)):
        why = "its states are those of whole layers, which it then steps in parts"
        raise NotModelledError(f"{what} at stage 0 in fp32: {why}, and DeepSpeed stops with a RuntimeError")


def reject_model(arch: Architecture, batch: MicroBatch) -> None:
    """Refuse what DeepSpeed stops at, and what was not measured.

    Raises:
        NotModelledError: it is one of these.
    """
    sharing = batch.tensor_parallel
    if arch.family != "decoder":
        why = UNSUPPORTED_FAMILIES.get(arch.family, "no engine was measured with it")
        raise NotModelledError(f"`{KEY}` is not modelled for such a model: {why}")
    if arch.name and arch.name not in SUPPORTED_MODELS:
        raise NotModelledError(f"`{KEY}` is not modelled for {arch.name}: no engine was measured with it")
    if batch.adapter:
        why = "DeepSpeed cuts their layers too, so that shapes do not fit, and stops"
        raise NotModelledError(f"`{KEY}` with adapters is not modelled: {why}")
    if arch.num_experts and sharing.reads_tp_plans:
        why = "DeepSpeed stops with a ValueError, for Transformers' plan shares them in another way"
        raise NotModelledError(f"`{KEY}` is not modelled for a model with experts: {why}")
    if arch.tie_word_embeddings and sharing.may_shard_lm_head:
        why = "the vocabulary is shared too, which was not measured"
        raise NotModelledError(f"`{KEY}` is not modelled where embeddings are tied: {why}")
    _reject_uneven(arch, sharing)


def _reject_uneven(arch: Architecture, sharing: TensorParallel) -> None:
    """Ranks would hold parts that differ."""
    whole = {"heads": arch.num_heads, "key and value heads": arch.num_kv_heads}
    whole |= {} if arch.num_experts else {"elements of an MLP": arch.intermediate_size}
    whole |= {"words": arch.vocab_size} if sharing.shards_lm_head(bool(arch.variant.qk_norm)) else {}
    for name, count in whole.items():
        if count % sharing.size:
            raise NotModelledError(
                f"`{KEY}` {sharing.size} does not divide {count} {name}: that is not modelled"
            )


def rank_architecture(arch: Architecture, sharing: TensorParallel) -> Architecture:
    """What one rank has of a model."""
    ranks = sharing.size
    return arch._replace(
        num_heads=arch.num_heads // ranks,
        num_kv_heads=arch.num_kv_heads // ranks,
        intermediate_size=arch.intermediate_size if arch.num_experts else arch.intermediate_size // ranks,
        lm_head_shards=ranks if sharing.shards_lm_head(bool(arch.variant.qk_norm)) else 1,
    )


def tensor_parallel_collectives(arch: Architecture, batch: MicroBatch) -> list[ModelCollective]:
    """What ranks send each other in a micro batch (measured).

    On the way there what `o_proj` and `down_proj` make is summed, and the head's logits are gathered; on the
    way back five gradients of inputs a layer are summed (q, k, v, gate and up), and that of the head. What
    is computed again ends before the sum of `down_proj`.
    """
    sharing, rows, layers = (
        batch.tensor_parallel,
        batch.micro_batch_size * batch.sequence_length,
        arch.num_layers,
    )
    head, again = sharing.shards_lm_head(bool(arch.variant.qk_norm)), layers * batch.gradient_checkpointing
    there, back = (layers, 3 * layers) if arch.num_experts else (2 * layers, 5 * layers)
    norms = 2 * layers if sharing.reads_tp_plans and arch.variant.qk_norm else 0
    made = 2 if batch.autocast else batch.itemsize
    return [
        ModelCollective(name, phase, calls, numel, itemsize, sharing.size)
        for phase, name, calls, numel, itemsize in (
            ("forward", "all_reduce", there, rows * arch.hidden_size, made),
            ("forward", "all_gather", int(head), rows * arch.vocab_size, made),
            ("backward", "all_reduce", again, rows * arch.hidden_size, made),
            ("backward", "all_reduce", back + head, rows * arch.hidden_size, batch.itemsize),
            ("backward", "all_reduce", norms, arch.head_dim, batch.itemsize),
        )
        if calls
    ]
