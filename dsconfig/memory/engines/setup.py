"""`Setup`: the values of the config that decide how much an engine holds, in the release that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.graph import Sharing

if TYPE_CHECKING:
    from dsconfig.memory.graph import Weight


class Rule(NamedTuple):
    """What an optimizer keeps and needs for each element that it updates, in bytes."""

    name: str
    states: int
    """Kept from step to step."""
    temporary: int
    """Held during a step, over all elements at once."""
    single: int = 0
    """Held during a step, over the largest tensor."""
    doubled: bool = False
    """Whether states are made at construction and once more for the partition (torch's Adagrad)."""
    flat: bool = False
    """DeepSpeed's own `FusedAdam`: at stage 0 its gradients are one flat tensor."""
    client: bool = False
    """Whether a script makes it."""
    blocks: int = 0
    """Elements that share a scale of fp32, in each of two quantised states (bitsandbytes)."""
    muon: str = ""
    """How DeepSpeed's Muon orthogonalises matrices (`ns_method`); the rest of the rule is its Adam's."""

    def kept(self, elements: int) -> int:
        """Bytes of the states of one tensor; bitsandbytes quantises none of fewer than 4,096 elements."""
        if not self.blocks:
            return self.states * elements
        scales = 8 * -(-elements // self.blocks) + 2048
        return self.states * elements + scales if elements >= 4096 else 8 * elements


class Third(NamedTuple):
    """What only stage 3 reads, in elements."""

    sub_group: int
    prefetch: int
    live: int
    reuse: int
    persistence: int
    model_persistence: int


class Swapping(NamedTuple):
    """Buffers on the host for what lies on NVMe; nothing lies there where both sizes are 0."""

    optimizer: int = 0
    """Buffers, each for the largest sub-group (`offload_optimizer.buffer_count`)."""
    parameters: int = 0
    """Elements of a buffer for one shard (`offload_param.buffer_size`)."""
    buffers: int = 0
    """How many of these (`offload_param.buffer_count`)."""
    in_memory: int = 0
    """Elements of shards that stay on the host for good (`offload_param.max_in_cpu`)."""
    least: int = 1 << 20
    """Bytes of what is worth a write (`MIN_AIO_BYTES`, or `aio.block_size`)."""
    pipelined: bool = False
    """Whether it is a `PipelinedOptimizerSwapper` (`offload_optimizer.pipeline_read`, `pipeline_write`)."""
    alignment: int = 1024
    """Bytes (`AIO_ALIGNED_BYTES`, for each of `aio.intra_op_parallelism`)."""

    def aligned(self, elements: int, width: int) -> int:
        """Elements of a buffer (`_io_aligned_numel`)."""
        step = max(1, self.alignment // width)
        return -(-elements // step) * step

    def is_aligned(self, elements: int, width: int) -> bool:
        """Whether so many are written as they are."""
        return self.aligned(elements, width) == elements


class Selection(NamedTuple):
    """What ZenFlow selects of each parameter, to update it on the rank (`zero_optimization.zenflow`)."""

    ratio: float
    """Share of the columns of a matrix (`topk_ratio`)."""
    overlap: bool
    """Whether a process of its own updates the rest (`overlap_step`)."""
    offload: bool
    """Whether states of what is selected lie on the host (`offload`)."""
    again: bool
    """Whether columns are selected anew as training goes, and not in the first step alone."""
    bucket: int
    """Elements of parameters whose states are on the rank at once (`allgather_bucket_size`)."""


class Ways(NamedTuple):
    """How a release goes about it, where releases differ (read in their sources, and measured)."""

    early_buckets: bool
    """Stages 1 and 2 make their bucket before the backward pass (`backward_prologue`), not in it."""
    flushes_all: bool
    """Where a bucket of stages 1 and 2 is full, those of other types are sent too (`reduce_ipg_grads`)."""
    stays_gathered: bool
    """What no backward hook releases stays gathered until the step: embeddings, mostly."""
    typed_buckets: bool
    """Buckets of stage 3 have the type in which gradients are sent (`get_param_comm_dtype`)."""
    stages_half: bool
    """Stages 1 and 2 keep offloaded weights in half precision on the host too."""
    flattens_on_host: bool
    compact: bool
    """Gradients in fp32 are those of the partition (`_build_compact_grad_partition_buffer`)."""
    wraps_raised: bool
    """Stages 0 and 1 take gradients in fp32 for those of bf16, and shard nothing (`DDP_BFLOAT16`)."""
    keeps_gradients: tuple[int, ...]
    """Stages at which the gradients of bf16 are kept in half precision too."""
    frees_gradients: bool
    """It keeps them up to the next backward pass (`clear_lp_grads`)."""
    shares_masters: bool
    """Stage 3 takes shards in fp32 on the rank for the masters (`_create_fp32_partitions`)."""
    keeps_others: bool
    """Gradients in fp32 that are other ranks' stay until the step at stage 1 (`_clear_param_grad_only`)."""
    accumulates_on_host: bool
    """Offloaded gradients are accumulated on the host at stage 1 too, though they are sent once."""
    patches_linear: bool
    """Linear layers are stage 3's own though the model was built whole (`_enable_mem_efficient_linear`)."""
    gathers_beside: bool
    """Parameters are gathered into one tensor and copied from there (`_allgather_params`)."""
    forgets_second: bool
    """A model that was put together leaves no second copy behind (`checkpoint_event_epilogue`)."""
    counts_on: bool
    """What is gathered is counted from the end of a backward pass, and so what the step partitions too."""
    frees_recomputed: bool
    """What is gathered to compute a segment again goes with who asks (`ds_recompute_parameters`)."""
    counts_on_within: bool
    """It is set back by the step alone, and goes on from one micro batch to the next."""
    pins_gradient: bool
    """Offloaded gradients of stage 3 go through a pinned buffer for one (`pinned_grad_buffer`)."""
    counts_again: bool
    """What is computed again is counted twice, and stays gathered until the step (`ds_grads_remaining`)."""
    never_empties: bool
    """A bucket of stage 3 counts all that it ever held: once full, it is sent for each parameter."""
    keeps_adapters: bool
    """A model that was built in shards is not cast again (`_cast_module_mixed_precision`)."""
    locks: bool
    """Buffers for NVMe are locked by DeepSpeed (`new_cpu_locked_tensor`), and not pinned by torch."""
    pins_masters: bool
    """Stages 1 and 2 pin offloaded masters though `pin_memory` is off."""
    pins_arriving: bool
    """SuperOffload's process pins its buffer though `pin_memory` is off."""
    muon_late: bool
    """Muon is at work at stages 1 and 2 alone, SGD elsewhere, and has an Adam of its own (before 0.19)."""
    names_leaves: bool
    """The config can name leaves of stage 3 (`leaf_module`); before, the script alone can."""
    cuts_head: bool
    """Ranks that share linear layers share the head too (`autotp.Sharing.head`)."""
    reads_plans: bool
    """It takes Transformers' plans with all their words (`autotp.Sharing.plans`)."""
    keeps_untied: bool
    """A node's copy keeps what it was cut from in its graph, tied away or not (`_partition_param_sec`)."""
    reports_own_type: bool
    """A full bucket of stages 1 and 2 is looked up by the type of the model (`mistyped`)."""
    seeks_own_type: bool
    """So is a gradient that is larger than a bucket."""
    raises_late: bool
    """Stage 1 brings gradients into the type that they accumulate in when a backward pass is over."""
    gathers_twice: bool
    """Parameters that are sent in two types are all gathered in each of them (`_all_gather_dtype`)."""
    searches: bool
    """A search for infinities at stages 1 and 2 takes three bytes more an element (`_has_inf_or_nan`)."""
    narrows_behind: bool
    """A node's copy is cut past the end of what is shorter (`quantisable.behind`)."""
    shares_built: bool
    """`initialize` shares the layers of a model, after the script made its optimizer (`autotp.BY_CONFIG`)."""


def ways_of(release: int) -> Ways:
    """How this release goes about it; its number is that of `releases.NUMBERS`."""
    return Ways(
        early_buckets=release < 17002,
        flushes_all=17002 <= release < 18005,
        stays_gathered=release < 19003,
        typed_buckets=release >= 17002,
        stages_half=release >= 17000,
        flattens_on_host=release < 19000,
        compact=release >= 19008,
        wraps_raised=17006 <= release < 18005,
        keeps_gradients=(0, 1) if release < 16005 else (0,) if release < 18006 else (),
        frees_gradients=release < 16005,
        shares_masters=release == 18002,
        keeps_others=18005 <= release < 19008,
        accumulates_on_host=release < 19000,
        patches_linear=release >= 19004,
        gathers_beside=release < 18005,
        forgets_second=release >= 18003,
        counts_on=release < 15004,
        frees_recomputed=release >= 19003,
        counts_on_within=16000 <= release < 16008,
        pins_gradient=15004 <= release < 16003,
        counts_again=16000 <= release < 16008,
        never_empties=release == 17002,
        keeps_adapters=release >= 19002,
        locks=release >= 19000,
        pins_masters=release < 18003,
        pins_arriving=release < 19006,
        muon_late=release < 19000,
        names_leaves=release >= 18000,
        cuts_head=release >= 19004,
        reads_plans=release >= 19006,
        keeps_untied=release < 18003,
        reports_own_type=17002 <= release < 18001,
        seeks_own_type=17002 <= release < 18002,
        raises_late=release < 16005,
        gathers_twice=17002 <= release < 17005,
        searches=release < 19006,
        narrows_behind=release < 19005,
        shares_built=release >= 18006,
    )


class Setup(NamedTuple):
    """An engine's circumstances."""

    stage: int
    world: int
    accumulation: int
    width: int
    """Bytes of a weight in the model."""
    half: str | None
    """bf16 or fp16, where the model's weights are of that type."""
    autocast: bool
    master: int
    """Bytes of a master weight."""
    gradient: int
    """Bytes of an accumulated gradient (`data_types.grad_accum_dtype`)."""
    sent: int
    """Bytes of a gradient as it is sent (`communication_data_type`)."""
    retyped: bool
    """Whether that is the other type in half precision."""
    optimizer: Rule
    bucket: int
    overlap: bool
    contiguous: bool
    reduce_scatter: bool
    postscale: float | None
    """What sums are multiplied by: `gradient_predivide_factor`; nothing with `prescale_gradients`."""
    together: bool
    """Whether stages 1 and 2 send what is for several ranks at once (`use_multi_rank_bucket_allreduce`)."""
    round_robin: bool
    norms: bool
    """Whether the norm of the gradients is taken (`compute_grad_norm`)."""
    overflows: bool
    """Whether gradients are searched for infinities."""
    offloads: bool
    offloads_parameters: bool
    ratio: float
    third: Third
    leaves: tuple[str, ...]
    ways: Ways
    swapping: Swapping
    secondary: int
    """Ranks that share a second copy of the weights between forward and step (`zero_hpz_partition_size`)."""
    zero_init: bool
    """Whether the model is built in shards (`zero.Init`), at stage 3."""
    own_linear: bool = False
    """Whether linear layers are stage 3's own (`memory_efficient_linear`)."""
    quantised: bool = False
    """Whether weights are gathered as int8 (`zero_quantized_weights`)."""
    quantised_gradients: bool = False
    """Whether gradients are sent as int4, in a node and then between nodes (`zero_quantized_gradients`)."""
    node: int = 1
    """Ranks of a node."""
    tensor: int = 1
    """Ranks that share each linear layer (`tensor_parallel.autotp_size`); `world` are those that do not."""
    sequence: int = 1
    """Ranks that share each sequence (`sequence_parallel_size`)."""
    experts: int = 0
    """Ranks that share the experts (`expert_parallel.autoep_size`); 0 where AutoEP is off."""
    reentrant: bool = False
    """Whether what is computed again is a pass of its own (`use_reentrant` of `torch.utils.checkpoint`)."""
    saves: bool = False
    """Whether rank 0 puts the model together to save it (`stage3_gather_16bit_weights_on_model_save`)."""
    rank: int = 0
    pins_optimizer: bool = False
    """Whether what is offloaded of the optimizer is in pinned memory (`offload_optimizer.pin_memory`)."""
    pins_parameters: bool = False
    """Whether shards that `zero.Init` builds on the host are (`offload_param.pin_memory`)."""
    super_offload: bool = False
    """Whether a process of its own updates at stage 3 (`offload_optimizer.super_offload`)."""
    selection: Selection | None = None
    """What is updated on the rank though the optimizer is offloaded (`zenflow`)."""
    apart: bool = True
    """Whether host and rank are two memories, as with a GPU: what goes from one to the other is a copy."""
    built: int = 4
    """Bytes of a weight as the script builds or loads the model."""
    room: int | None = None
    """Bytes that the GPU has for tensors, which decide where weights are flattened; None: not known."""

    @property
    def early(self) -> int:
        """Bytes of an element's states as they are made at construction: by the engine, after its cast."""
        rule = self.optimizer
        return rule.states * (self.built if rule.client else self.width) // 4 if rule.doubled else 0

    @property
    def raises_gradients(self) -> bool:
        """Whether gradients are accumulated in fp32, though the model is not."""
        return self.gradient == 4 and self.width != 4

    @property
    def accumulates(self) -> bool:
        """Whether stages 0 and 1 of bf16 are asked to accumulate in fp32 (`BF16_Optimizer`)."""
        return self.stage < 2 and self.half == "bf16" and self.gradient == 4 and not self.offloads

    @property
    def is_whole(self) -> bool:
        """Whether every rank holds all of the optimizer."""
        return not self.stage or (self.accumulates and self.ways.wraps_raised)

    def place(self, weight: Weight) -> tuple[bool, bool]:
        """What tells groups of ranks apart at stage 3: `zero.Init` has one of its own, of all ranks."""
        return weight.expert, weight.late and self.zero_init

    @property
    def full_adapters(self) -> bool:
        """Whether adapters stay in fp32 beside weights in half precision."""
        return self.stage == 3 and self.zero_init and self.half is not None and self.ways.keeps_adapters

    @property
    def sharing(self) -> Sharing:
        """How ranks share linear layers."""
        return Sharing(self.tensor, self.ways.cuts_head, self.ways.reads_plans)
