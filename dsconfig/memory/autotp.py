"""AutoTP: ranks share linear layers (DeepSpeed's `module_inject/layers.py`, from 0.16.4 on)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.graph import Exchange
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json
    from dsconfig.memory.graph import Sharing
    from dsconfig.memory.models.shape import Shape, Work

KEY = "tensor_parallel.autotp_size"
HPZ = "zero_optimization.zero_hpz_partition_size"
AT_STAGE_3 = 19004
"""DeepSpeed 0.19.4: up to 0.19.3 `_configure_tensor_parallel_states` asserts a stage below 3."""
BY_CONFIG = 18006
"""DeepSpeed 0.18.6: before, `tp_model_init` shares layers, which the script has to call."""
FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
"""Decoders whose engines were measured."""
STOPS = {
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


def refuse_keys(values: Mapping[str, Json], release: int, zero_init: bool, client: str | None) -> None:
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
        _refuse_adagrad(values, release, zero_init)
    secondary = values.get(HPZ, 1)
    there = {HPZ: "no engine was measured with it"} if isinstance(secondary, int) and secondary > 1 else {}
    there |= {key: why for key, why in OTHER_KEYS.items() if values.get(key)}
    for key, why in there.items():
        raise NotModelledError(f"`{key}` beside `{KEY}` is not modelled: {why}")


def _refuse_adagrad(values: Mapping[str, Json], release: int, zero_init: bool) -> None:
    """Its states are there before the engine."""
    what, flat = f"`{KEY}` with Adagrad of the script is not modelled", ("bf16.enabled", "fp16.enabled")
    if zero_init:
        why = "DeepSpeed cannot keep the states of shards that `zero.Init` made"
        raise NotModelledError(f"{what} at stage 3: {why}, and stops with a RuntimeError")
    if release >= BY_CONFIG and not values.get("zero_optimization.stage") and not any(map(values.get, flat)):
        why = "its states are those of whole layers, which it then steps in parts"
        raise NotModelledError(f"{what} at stage 0 in fp32: {why}, and DeepSpeed stops with a RuntimeError")


def refuse(shape: Shape, work: Work) -> None:
    """Refuse what DeepSpeed stops at, and what was not measured.

    Raises:
        NotModelledError: it is one of these.
    """
    sharing = work.tensor
    if shape.family != "decoder":
        why = STOPS.get(shape.family, "no engine was measured with it")
        raise NotModelledError(f"`{KEY}` is not modelled for such a model: {why}")
    if shape.name and shape.name not in FAMILIES:
        raise NotModelledError(f"`{KEY}` is not modelled for {shape.name}: no engine was measured with it")
    if work.adapter:
        why = "DeepSpeed cuts their layers too, so that shapes do not fit, and stops"
        raise NotModelledError(f"`{KEY}` with adapters is not modelled: {why}")
    if shape.experts and sharing.plans:
        why = "DeepSpeed stops with a ValueError, for Transformers' plan shares them in another way"
        raise NotModelledError(f"`{KEY}` is not modelled for a model with experts: {why}")
    if shape.tied and sharing.head:
        why = "the vocabulary is shared too, which was not measured"
        raise NotModelledError(f"`{KEY}` is not modelled where embeddings are tied: {why}")
    _refuse_uneven(shape, sharing)


def _refuse_uneven(shape: Shape, sharing: Sharing) -> None:
    """Ranks would hold parts that differ."""
    whole = {"heads": shape.heads, "key and value heads": shape.key_heads}
    whole |= {} if shape.experts else {"elements of an MLP": shape.wide}
    whole |= {"words": shape.vocabulary} if sharing.cuts_head(bool(shape.style.head_norms)) else {}
    for name, count in whole.items():
        if count % sharing.ranks:
            raise NotModelledError(
                f"`{KEY}` {sharing.ranks} does not divide {count} {name}: that is not modelled"
            )


def part_of(shape: Shape, sharing: Sharing) -> Shape:
    """What one rank has of a model."""
    ranks = sharing.ranks
    return shape._replace(
        heads=shape.heads // ranks,
        key_heads=shape.key_heads // ranks,
        wide=shape.wide if shape.experts else shape.wide // ranks,
        parts=ranks if sharing.cuts_head(bool(shape.style.head_norms)) else 1,
    )


def exchanges(shape: Shape, work: Work) -> list[Exchange]:
    """What ranks send each other in a micro batch (measured).

    On the way there what `o_proj` and `down_proj` make is summed, and the head's logits are gathered; on the
    way back five gradients of inputs a layer are summed (q, k, v, gate and up), and that of the head. What
    is computed again ends before the sum of `down_proj`.
    """
    sharing, rows, layers = work.tensor, work.micro * work.length, shape.layers
    head, again = sharing.cuts_head(bool(shape.style.head_norms)), layers * work.checkpointing
    there, back = (layers, 3 * layers) if shape.experts else (2 * layers, 5 * layers)
    norms = 2 * layers if sharing.plans and shape.style.head_norms else 0
    made = 2 if work.autocast else work.width
    return [
        Exchange(name, phase, calls, elements, width, sharing.ranks)
        for phase, name, calls, elements, width in (
            ("forward", "all_reduce", there, rows * shape.hidden, made),
            ("forward", "all_gather", int(head), rows * shape.vocabulary, made),
            ("backward", "all_reduce", again, rows * shape.hidden, made),
            ("backward", "all_reduce", back + head, rows * shape.hidden, work.width),
            ("backward", "all_reduce", norms, shape.head_size, work.width),
        )
        if calls
    ]
