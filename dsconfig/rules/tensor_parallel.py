"""Tensor parallelism (AutoTP): its size, how layers are split, and keys meant for inference."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._effective_values import (
    AUTOTP,
    STAGE,
    effective_stage,
    format_remainder,
    has_autocast,
    normalize_dtype,
    related_dtype,
    related_stage,
    tensor_parallel_ranks,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._suggest_section import format_key

# `autotp_size`: valid values, the world size, and the ZeRO stage.

_APPLY = "runtime/engine.py:DeepSpeedEngine._apply_autotp_partitioning"


@rule("DSC703", effect="crashes", since="0.18.6", source="__init__.py:initialize")
def text_for_tensor_parallel_size(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` is "auto" or another string.

    The section itself ignores "auto" and converts quoted digits. But before that, `deepspeed.initialize` compares the
    raw value with 0, which raises.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": "auto"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": "4"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}
    """
    value = ctx.raw(AUTOTP)
    if isinstance(value, str) and value:
        number = ctx.value(AUTOTP) if value != "auto" else None
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is the string {quote_value(value)}, but `deepspeed.initialize` requires a number",
            help="set it to the number of ranks that share each layer, or remove the key",
            fix=None
            if number is None
            else Fix(
                f"replace with {quote_value(number)}",
                (SetValue(("tensor_parallel", "autotp_size"), number),),
                safe=True,
            ),
        )


@rule("DSC704", effect="crashes", since="0.18.6", source=_APPLY)
def tensor_parallel_sizes_differ(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` and `tensor_parallel.tp.tp_size` differ.

    DeepSpeed uses the first. The second comes from the parser that the section shares with inference, and has
    to be 1 or the same.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "tp": {"tp_size": 4}}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    size, path = tensor_parallel_ranks(ctx), "tensor_parallel.tp.tp_size"
    if size > 1 and ctx.has(path) and (other := ctx.value(path)) not in (1, size):
        yield ctx.at(
            path,
            f"{format_key(ctx.written_path(path))} is {quote_value(other)}, "
            f"but must be 1 or equal to `autotp_size`, {size}",
            help="remove it: `autotp_size` is sufficient",
            related=[("the effective size is set here", AUTOTP)],
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC705", effect="crashes", since="0.16.4", source="utils/groups.py:_init_tp_mesh_device")
def world_size_not_divided_by_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """The world size is not a multiple of `tensor_parallel.autotp_size`.

    DeepSpeed arranges the ranks in a mesh of data-parallel groups × `autotp_size`. The remaining ranks belong to no
    group, and fail with an assertion or an index error that mentions neither number.

    Bad, world size 6:

        {"train_batch_size": 12, "tensor_parallel": {"autotp_size": 4}}

    Good, world size 8:

        {"train_batch_size": 16, "tensor_parallel": {"autotp_size": 4}}
    """
    size, world = tensor_parallel_ranks(ctx), ctx.world_size
    if size > 1 and world and world % size:
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` {size} does not divide the world size {world} {format_remainder(world, size)}",
            help=f"set `autotp_size` to {join_alternatives(divisors(world)[:12])}, or change the number of ranks",
        )


@rule("DSC706", effect="ignored", since="0.16.4", source="runtime/engine.py:DeepSpeedEngine.__init__")
def tensor_parallel_size_without_effect(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` does not enable tensor parallelism.

    Only a size above 1 enables it. DeepSpeed accepts negative numbers, and with 1 or less the other keys of
    the section have no effect.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": -1}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    section = ctx.data.get("tensor_parallel")
    if not isinstance(section, dict) or "autotp_size" not in section:
        return
    size = tensor_parallel_ranks(ctx)
    if size < 0 or (size == 1 and len(section) > 1):
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is {quote_value(size)}, which does not enable tensor parallelism"
            + ("" if len(section) == 1 else ", so the other keys of the section have no effect"),
            help="set it to the number of ranks that share each layer, or remove the section",
            fix=remove_key(("tensor_parallel",)),
        )


@rule(
    "DSC713",
    effect="crashes",
    since="0.16.4",
    until="0.19.3",
    source="runtime/engine.py:DeepSpeedEngine._configure_tensor_parallel_states",
)
def tensor_parallel_at_stage_3(ctx: Context) -> Iterator[Finding]:
    """Tensor parallelism is enabled at ZeRO stage 3, which DeepSpeed supports since 0.19.4.

    Up to 0.19.3, engine initialization fails with "Currently, the compatibility between 'autotp' and
    'zero_stage = 3' has not been validated".

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 2}}
    """
    size = tensor_parallel_ranks(ctx)
    if size > 1 and effective_stage(ctx) == 3:
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is {size} at ZeRO stage 3, which DeepSpeed {ctx.release_name} does not support",
            help=f"set `{STAGE}` to 2, or upgrade DeepSpeed to 0.19.4 or later",
            related=related_stage(ctx),
        )


# How AutoTP splits layers: presets, partition types, the LM head.

_PRESETS = ("llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3")


@rule(
    "DSC707",
    effect="ignored",
    since="0.18.6",
    source="module_inject/autotp_config.py:AutoTPPresets.get_preset",
)
def unknown_tensor_parallel_preset(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.preset_model` is not the name of a preset.

    DeepSpeed does not raise, but splits the model by its own heuristics, as if no preset were set.

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
            f"`{path}` is {quote_value(value)}, but DeepSpeed has no such preset",
            help=f"use {join_alternatives(_PRESETS)}, or remove it and describe the layers in `partition_config`",
        )


@rule(
    "DSC708",
    effect="crashes",
    since="0.18.6",
    source="module_inject/autotp_config.py:AutoTPConfig.from_dict",
)
def unknown_partition_type(ctx: Context) -> Iterator[Finding]:
    """A layer of `tensor_parallel.partition_config` has an unknown `partition_type`.

    DeepSpeed ignores case when it looks up the type. It does so when it splits the model, and only if
    `autotp_size` is above 1.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "partition_config": {
            "layer_specs": [{"patterns": [".*o_proj.weight$"], "partition_type": "rows"}]}}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "partition_config": {
            "layer_specs": [{"patterns": [".*o_proj.weight$"], "partition_type": "row"}]}}}
    """
    layers = ctx.raw("tensor_parallel.partition_config.layer_specs")
    if not isinstance(layers, list) or tensor_parallel_ranks(ctx) <= 1:
        return
    for index, layer in enumerate(layers):
        partition_type = layer.get("partition_type", "column") if isinstance(layer, dict) else None
        if isinstance(partition_type, str) and partition_type.lower() not in _PARTITIONS:
            yield ctx.at(
                ("tensor_parallel", "partition_config", "layer_specs", index, "partition_type"),
                f"`partition_type` is {quote_value(partition_type)}, but DeepSpeed supports only"
                f" {join_alternatives(_PARTITIONS, 'and')}",
                help=f"use {join_alternatives(_PARTITIONS)}",
            )


_PARTITIONS = ("row", "column", "skip")


@rule("DSC709", effect="crashes", since="0.19.8", source=_APPLY)
def liger_without_split_head(ctx: Context) -> Iterator[Finding]:
    """`vocab_parallel_ce_backend` is "liger", but `vocab_parallel_lm_head` is false.

    The backend computes the loss of an LM head that is split over the vocabulary, so the engine rejects it if
    the head is not split.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {
            "autotp_size": 2, "vocab_parallel_ce_backend": "liger", "vocab_parallel_lm_head": false}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {
            "autotp_size": 2, "vocab_parallel_ce_backend": "liger", "vocab_parallel_lm_head": true}}
    """
    backend, head = "tensor_parallel.vocab_parallel_ce_backend", "tensor_parallel.vocab_parallel_lm_head"
    if tensor_parallel_ranks(ctx) > 1 and ctx.value(backend) == "liger" and ctx.value(head) is False:
        yield ctx.at(
            backend,
            '`vocab_parallel_ce_backend` is `"liger"`, which needs a split LM head, but '
            "`vocab_parallel_lm_head` is `false`",
            help='set `vocab_parallel_lm_head` to `true`, or set `vocab_parallel_ce_backend` to `"torch"`',
            related=[("splitting of the head is disabled here", head)],
        )


@rule(
    "DSC714",
    effect="crashes",
    since="0.17.2",
    source="module_inject/layers.py:AsyncColumnParallel.backward",
)
def overlap_of_tensor_parallel_under_autocast(ctx: Context) -> Iterator[Finding]:
    """`tp_overlap_comm` is enabled with `torch_autocast`, but the model has another dtype.

    Column-parallel layers then use a custom backward pass outside of autocast. It multiplies gradients in
    autocast's dtype by weights in the model's dtype, and fails with "expected m1 and m2 to have the same
    dtype".

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
    path, dtype_key = "tensor_parallel.tp_overlap_comm", "torch_autocast.dtype"
    if tensor_parallel_ranks(ctx) <= 1 or not ctx.is_on(path) or not has_autocast(ctx):
        return
    model_dtype, dtype = (
        training_dtype(ctx),
        normalize_dtype(ctx.value(dtype_key)) if ctx.has(dtype_key) else "fp16",
    )
    if dtype in ("fp16", "bf16") and dtype != model_dtype and (ctx.has(dtype_key) or model_dtype == "fp32"):
        yield ctx.at(
            path,
            f"`tp_overlap_comm` does not work with `torch_autocast`: tensor-parallel layers multiply {dtype} gradients"
            f" by {model_dtype} weights, so the first backward pass fails",
            help="set `tp_overlap_comm` to `false`, or set `torch_autocast.enabled` to `false`",
            related=[("autocast is enabled here", "torch_autocast.enabled"), *related_dtype(ctx)],
            fix=Fix("replace with `false`", (SetValue(ctx.written_path(path), False),)),
        )


# Keys for inference or for Python.


@rule(
    "DSC701", effect="rejected", since="0.16.4", source="runtime/tensor_parallel/config.py:TPTrainingConfig"
)
def tensor_parallel_dtype_in_json(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.dtype` is set, but JSON cannot express its value.

    DeepSpeed expects a `torch.dtype` object, which JSON cannot represent. Only "auto" is accepted, because strict
    sections ignore it.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "bf16": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    path = "tensor_parallel.dtype"
    value = ctx.raw(path)
    if ctx.has(path) and value != "auto":
        yield ctx.at(
            path,
            f"`dtype` is {quote_value(value)}, but DeepSpeed accepts only a `torch.dtype`, which JSON cannot"
            " contain",
            help="remove it and choose the precision with `bf16` or `fp16`",
            fix=remove_key(("tensor_parallel", "dtype")),
        )


_INFERENCE_KEYS = {
    "kernel_inject": ("training does not inject inference kernels", False),
    "tp.mpu": ("it is a Python object, and training does not read it", None),
    "tp.tp_group": ("it is a Python object, which JSON cannot contain", None),
}


@rule("DSC710", effect="ignored", since="0.16.4", source="runtime/tensor_parallel/config.py:TPTrainingConfig")
def inference_key_in_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """A key of `tensor_parallel` is only for inference or for Python.

    The section shares its parser with the inference engine. DeepSpeed accepts `kernel_inject`, `tp.mpu` and
    `tp.tp_group`, but they have no effect in a training config.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "kernel_inject": true}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    if not isinstance(ctx.data.get("tensor_parallel"), dict):
        return
    for key, (reason, default) in _INFERENCE_KEYS.items():
        path = f"tensor_parallel.{key}"
        if ctx.has(path) and ctx.value(path) != default:
            name = key.rsplit(".", 1)[-1]
            yield ctx.at(
                path,
                f"`{name}` has no effect: {reason}",
                help="remove it",
                part="key",
                fix=Fix(f"remove `{name}`", (RemoveKey(ctx.written_path(path)),)),
            )
