"""How AutoTP splits layers: presets, partition types, the LM head."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._autocast import autocasts
from dsconfig.rules._dtypes import format_of, format_place, model_format
from dsconfig.rules.tensor_parallel._size import tensor_parallel

_APPLY = "runtime/engine.py:DeepSpeedEngine._apply_autotp_partitioning"
_PRESETS = ("llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3")


@rule(
    "DSC707",
    effect="ignored",
    since="0.18.6",
    source="module_inject/autotp_config.py:AutoTPPresets.get_preset",
)
def unknown_tensor_parallel_preset(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.preset_model` names no preset.

    DeepSpeed says nothing, and splits the model by its own guesses as if no preset were asked for.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "preset_model": "llama3"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "preset_model": "llama"}}
    """
    path = "tensor_parallel.preset_model"
    value = ctx.value(path) if ctx.has(path) else None
    if isinstance(value, str) and value and value.lower() not in _PRESETS:
        yield ctx.at(
            path,
            f"`{path}` is {quoted(value)}: DeepSpeed has no such preset",
            help=f"use {one_of(_PRESETS)}, or remove it, and describe the layers in `partition_config`",
        )


@rule(
    "DSC708",
    effect="crashes",
    since="0.18.6",
    source="module_inject/autotp_config.py:AutoTPConfig.from_dict",
)
def unknown_partition_type(ctx: Context) -> Iterator[Finding]:
    """A layer of `tensor_parallel.partition_config` has a `partition_type` that DeepSpeed does not know.

    The words are looked up when the engine splits the model, in any case of letters, and only where
    `autotp_size` is above 1.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "partition_config": {
            "layer_specs": [{"patterns": [".*o_proj.weight$"], "partition_type": "rows"}]}}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "partition_config": {
            "layer_specs": [{"patterns": [".*o_proj.weight$"], "partition_type": "row"}]}}}
    """
    layers = ctx.written("tensor_parallel.partition_config.layer_specs")
    if not isinstance(layers, list) or tensor_parallel(ctx) <= 1:
        return
    for index, layer in enumerate(layers):
        word = layer.get("partition_type", "column") if isinstance(layer, dict) else None
        if isinstance(word, str) and word.lower() not in _PARTITIONS:
            yield ctx.at(
                ("tensor_parallel", "partition_config", "layer_specs", index, "partition_type"),
                f"`partition_type` is {quoted(word)}, but DeepSpeed knows only {one_of(_PARTITIONS, 'and')}",
                help=f"use {one_of(_PARTITIONS)}",
            )


_PARTITIONS = ("row", "column", "skip")


@rule("DSC709", effect="crashes", since="0.19.8", source=_APPLY)
def liger_without_split_head(ctx: Context) -> Iterator[Finding]:
    """`vocab_parallel_ce_backend` is "liger", and `vocab_parallel_lm_head` is false.

    The backend computes the loss of an LM head that is split over the vocabulary, so that the engine refuses
    it where the head is not split.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {
            "autotp_size": 2, "vocab_parallel_ce_backend": "liger", "vocab_parallel_lm_head": false}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {
            "autotp_size": 2, "vocab_parallel_ce_backend": "liger", "vocab_parallel_lm_head": true}}
    """
    backend, head = "tensor_parallel.vocab_parallel_ce_backend", "tensor_parallel.vocab_parallel_lm_head"
    if tensor_parallel(ctx) > 1 and ctx.value(backend) == "liger" and ctx.value(head) is False:
        yield ctx.at(
            backend,
            '`vocab_parallel_ce_backend` is `"liger"`, which needs a split LM head, and '
            "`vocab_parallel_lm_head` is `false`",
            help='set `vocab_parallel_lm_head` to `true`, or set `vocab_parallel_ce_backend` to `"torch"`',
            related=[("the head is kept whole here", head)],
        )


@rule(
    "DSC714",
    effect="crashes",
    since="0.17.2",
    source="module_inject/layers.py:AsyncColumnParallel.backward",
)
def overlap_of_tensor_parallel_under_autocast(ctx: Context) -> Iterator[Finding]:
    """`tp_overlap_comm` is on together with `torch_autocast`, and the model is in another format.

    Layers that are split by columns then have a backward pass of their own, which autocast does not reach: it
    multiplies gradients in autocast's format by weights in the model's, and ends in "expected m1 and m2 to
    have the same dtype".

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "tensor_parallel": {"autotp_size": 2, "tp_overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true},
        "tensor_parallel": {"autotp_size": 2, "tp_overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "tensor_parallel": {"autotp_size": 2, "tp_overlap_comm": false}}
    """
    path, word = "tensor_parallel.tp_overlap_comm", "torch_autocast.dtype"
    if tensor_parallel(ctx) <= 1 or not ctx.on(path) or not autocasts(ctx):
        return
    model, chosen = model_format(ctx), format_of(ctx.value(word)) if ctx.has(word) else "fp16"
    if chosen in ("fp16", "bf16") and chosen != model and (ctx.has(word) or model == "fp32"):
        yield ctx.at(
            path,
            f"`tp_overlap_comm` is on beside `torch_autocast`: split layers multiply gradients in {chosen} by"
            f" weights in {model}, and the first backward pass stops",
            help="set it to `false`, or set `torch_autocast.enabled` to `false`",
            related=[("autocast is switched on here", "torch_autocast.enabled"), *format_place(ctx)],
            fix=Fix("replace by false", (Set(ctx.place(path), False),)),
        )
