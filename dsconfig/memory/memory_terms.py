"""The names of what is held: the key that governs each, and how its size comes about."""

from __future__ import annotations

from typing import NamedTuple

ZERO = "zero_optimization."


class Meaning(NamedTuple):
    """A term's governing key and formula.

    P are trained parameters, W ranks, T tokens of a micro batch, V the vocabulary, h the hidden size; b are
    bytes of a weight, p is P/W with its padding.
    """

    key: str
    formula: str


MEANINGS = {
    "parameters": Meaning(f"{ZERO}stage", "b·P; at stage 3 b·Σ⌈n/W⌉"),
    "persistent parameters": Meaning(
        f"{ZERO}stage3_param_persistence_threshold", "b·Σ n of parameters up to the threshold"
    ),
    "gathered parameters": Meaning(
        f"{ZERO}stage3_max_live_parameters",
        "b·n of each parameter that is fetched, prefetched or soon needed again",
    ),
    "secondary partition": Meaning(
        f"{ZERO}zero_hpz_partition_size", "b·P/hpz, from a parameter's first use up to the step"
    ),
    "staging buffers of NVMe": Meaning(
        f"{ZERO}offload_optimizer.buffer_count",
        "4·buffer_count·largest sub-group; b·buffer_count·buffer_size of offload_param, "
        "and b·n of a sub-group where max_in_cpu leaves some on the drive",
    ),
    "gradients that wait for NVMe": Meaning(
        f"{ZERO}offload_optimizer.device",
        "4·⌈n/W⌉ of each parameter where that is below 1 MiB or no multiple of 1 KiB, up to the step",
    ),
    "receive buffers": Meaning(
        f"{ZERO}stage3_prefetch_bucket_size", "b·Σ n of a prefetched batch, until its last parameter is used"
    ),
    "master weights": Meaning(
        f"{ZERO}stage", "4·p; at stage 0 4·P with bf16 or fp16; half of it for masters in half precision"
    ),
    "optimizer states": Meaning(
        "optimizer.type",
        "8·p for Adam, 4·p with one moment, 0 for plain SGD; half of it with bf16_optimizer_states; "
        "2·p and 8 bytes for each 256 of them for 8-bit Adam",
    ),
    "gradients": Meaning(
        f"{ZERO}stage",
        "b·P; at stages 1 and 2 b·Σ n of the parameters that a rank's piece touches; at stage 3 b·p",
    ),
    "fp32 gradients of the partition": Meaning("data_types.grad_accum_dtype", "4·p"),
    "fp32 gradients of the model": Meaning("data_types.grad_accum_dtype", "4·P, never freed"),
    "gradients of the partition, offloaded": Meaning(f"{ZERO}offload_optimizer.device", "4·p on the host"),
    "staging buffers of offload": Meaning(
        f"{ZERO}offload_optimizer.device",
        "b·p and b·n of the largest parameter on the host, the latter on the rank too",
    ),
    "gradient buffer of the optimizer's process": Meaning(
        f"{ZERO}offload_optimizer.super_offload", "4·largest sub-group, up to sub_group_size and a parameter"
    ),
    "selected columns": Meaning(
        f"{ZERO}zenflow.topk_ratio",
        "b·S of gradients, and of their weights up to the step; S: topk_ratio of matrices, and all vectors",
    ),
    "states of selected columns": Meaning(
        f"{ZERO}zenflow.topk_ratio", "2·b·S on each rank; on the host with zenflow.offload"
    ),
    "stale weights of the optimizer's process": Meaning(f"{ZERO}zenflow.overlap_step", "4·p on the host"),
    "rounding of pinned memory": Meaning(
        f"{ZERO}offload_optimizer.pin_memory",
        "2^⌈log₂ bytes⌉ less the bytes, of each pinned tensor; and blocks of shards that zero.Init pinned, "
        "and of gradients that SuperOffload moves to shared memory",
    ),
    "reduce bucket": Meaning(
        f"{ZERO}reduce_bucket_size",
        "b·bucket, twice with overlap_comm at stages 1 and 2; always there at stage 3",
    ),
    "flattened bucket": Meaning(f"{ZERO}reduce_bucket_size", "b·elements of a bucket that is sent"),
    "buffers that put matrices together": Meaning(
        f"{ZERO}reduce_bucket_size",
        "Muon at stage 3: gradients and momenta of a bucket of matrices; up to 256 MiB stay",
    ),
    "activations": Meaning(
        "train_micro_batch_size_per_gpu", "what operations keep for the backward pass, ∝ T"
    ),
    "gradients of activations": Meaning("train_micro_batch_size_per_gpu", "of tensors on the way back, ∝ T"),
    "logits and loss": Meaning("train_micro_batch_size_per_gpu", "(b + 8)·T·V; 8·T·V where b is 4"),
    "dispatched tokens": Meaning(
        "expert_parallel.autoep_size", "b·h·k·T, as they are sent to experts and back; k experts a token"
    ),
    "exchanged heads": Meaning(
        "sequence_parallel_size",
        "b·h·T for queries, keys, values and what attention makes, each sent from a copy",
    ),
    "autocast's copies of weights": Meaning("torch_autocast.enabled", "2·n of each weight of a linear layer"),
    "temporaries": Meaning("train_micro_batch_size_per_gpu", "inside one operation"),
    "temporaries of the step": Meaning(
        "optimizer.type", "4·p for the gradient in fp32, and what the optimizer needs for its update"
    ),
    "inputs": Meaning("train_micro_batch_size_per_gpu", "the batch itself"),
    "consolidated weights": Meaning(
        f"{ZERO}stage3_gather_16bit_weights_on_model_save",
        "b·n of all parameters, on the host of rank 0 while the model is saved",
    ),
    "model as it is built": Meaning(
        f"{ZERO}stage",
        "4·P (2·P where it is built in half precision) in each process, with a head that is tied afterwards; "
        "before the weights are cast and moved",
    ),
}
