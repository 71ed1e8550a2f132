"""AutoEP: find mixture-of-experts layers in Hugging Face models and run them expert-parallel."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import SCRIPT, EarlierType, Key, NonObjectValues, SectionReading
from dsconfig.model.section import ABSENT, Auto, NonNegativeInt, PositiveInt, RootKeys, Section


class ExpertParallel(Section):
    """Expert parallelism (AutoEP). Not validated until the engine starts, and then only if `enabled`.

    The names and patterns describe a model family without a preset, or override those of a preset.
    """

    SOURCE = "module_inject/auto_ep_config.py:parse_autoep_config"
    READS = (SectionReading("hand", since="0.19.2"),)

    enabled: Annotated[bool, Key(since="0.19.2")] = False
    """Replace the MoE layers of the model with expert-parallel ones."""
    autoep_size: Annotated[PositiveInt, Key(since="0.19.2")] = 1
    """Expert-parallel degree: ranks that share one set of experts. Must divide the number of experts and the
    ranks of a pipeline stage."""
    expert_tensor_parallel_size: Annotated[PositiveInt, Key(since="0.19.3")] = 1
    """Tensor-parallel degree inside an expert; only 1 is supported."""
    validate_folding_routing: Annotated[bool, Key(since="0.19.3")] = False
    """Validate the routing at run time if expert and tensor parallelism share ranks; slow."""
    async_split_plan: Annotated[bool, Key(since="0.19.8")] = False
    """Compute the sizes of the all-to-all asynchronously; not supported with tensor parallelism."""
    preset_model: Annotated[
        Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"] | None,
        Key(
            since="0.19.2",
            was=(
                EarlierType(
                    "0.19.7",
                    Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3"] | None,
                ),
            ),
            means=(
                ("mixtral", "Mixtral"),
                ("qwen3_moe", "Qwen3 MoE"),
                ("qwen3_5_moe", "Qwen3.5 MoE"),
                ("deepseek_v2", "DeepSeek-V2"),
                ("deepseek_v3", "DeepSeek-V3"),
                ("minimax_m3", "MiniMax-M3"),
            ),
        ),
    ] = None
    """Built-in description of a model family; null detects it."""
    use_grouped_mm: Annotated[bool, Key(since="0.19.2")] = True
    """Run all experts of a rank in one grouped matrix multiplication; false loops over them."""
    disable_triton_grouped_mm: Annotated[bool, Key(since="0.19.4")] = False
    """Do not use the Triton kernel on devices older than Hopper."""
    gate_up_impl: Annotated[
        Literal["separate", "fused"],
        Key(
            since="0.19.8",
            means=(
                ("separate", "separately"),
                ("fused", "one grouped matrix multiplication"),
            ),
        ),
    ] = "separate"
    """Run the gate and up projections separately, or as one grouped matrix multiplication."""
    score_apply: Annotated[
        Literal["auto", "pre", "post"],
        Key(
            since="0.19.2",
            auto_is_value=True,
            means=(
                ("auto", "follows the preset"),
                ("pre", "before the experts"),
                ("post", "after the experts"),
            ),
        ),
    ] = "auto"
    """Apply the router's scores before or after the experts; auto follows the preset."""
    combine_impl: Annotated[
        Literal["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"],
        Key(
            since="0.19.2",
            auto_is_value=True,
            was=(EarlierType("0.19.6", Literal["auto", "weighted_sum", "legacy_bmm"]),),
            means=(
                ("auto", "DeepSpeed chooses"),
                ("weighted_sum", "a weighted sum"),
                ("fused_weighted_sum", "one kernel; not with tensor parallelism or DeepEP"),
                ("legacy_bmm", "batched matrix multiplication, as in the first releases"),
            ),
        ),
    ] = "auto"
    """Implementation that combines the expert outputs of a token; the fused one does not support tensor
    parallelism or DeepEP."""
    row_weighting_impl: Annotated[
        Literal["auto", "eager", "fused"],
        Key(
            since="0.19.8",
            auto_is_value=True,
            means=(
                ("auto", "DeepSpeed chooses"),
                ("eager", "separate operations"),
                ("fused", "one kernel; requires `comm_backend` deepep"),
            ),
        ),
    ] = "auto"
    """Implementation that weights rows by their scores; fused requires `comm_backend` deepep."""
    comm_backend: Annotated[
        Literal["comm", "deepep"],
        Key(
            since="0.19.7",
            means=(
                ("comm", "DeepSpeed's all-to-all"),
                ("deepep", "DeepEP's kernels; requires the package `deep_ep`"),
            ),
        ),
    ] = "comm"
    """DeepSpeed's all-to-all, or DeepEP's kernels, which require the `deep_ep` package."""
    comm_num_sm: Annotated[PositiveInt, Key(since="0.19.7")] = 12
    """Streaming multiprocessors for DeepEP; more make communication faster and leave fewer for computation.
    """
    comm_qp_margin: Annotated[NonNegativeInt, Key(since="0.19.7")] = 4
    """Additional RDMA queue pairs for DeepEP, beyond those it needs."""
    comm_max_tokens_per_rank: Annotated[NonNegativeInt, Key(since="0.19.7", unit="tokens")] = 0
    """Maximum number of tokens that one rank routes; sets the size of DeepEP's buffers. Must be above 0 with
    DeepEP."""
    num_expert_groups: Annotated[PositiveInt | None, Key(since="0.19.2")] = None
    """Number of expert groups for group-limited routing; null reads it from the model."""
    num_limited_groups: Annotated[PositiveInt | None, Key(since="0.19.2")] = None
    """Number of groups from which a token may choose experts, at most `num_expert_groups`; null reads it from
    the model."""
    score_func: Annotated[
        Literal["auto", "softmax", "sigmoid"],
        Key(
            since="0.19.2",
            auto_is_value=True,
            means=(
                ("auto", "follows the preset"),
                ("softmax", "scores that sum to 1"),
                ("sigmoid", "a score between 0 and 1 for each expert"),
            ),
        ),
    ] = "auto"
    """Function that turns the router's output into scores; auto follows the preset."""
    top_k: Annotated[
        int | Auto,
        Key(since="0.19.2", auto_is_value=True, means=(("auto", "read from the model's config"),)),
    ] = "auto"
    """Number of experts per token; auto reads it from the model's config."""
    route_norm: Annotated[bool | None, Key(since="0.19.2")] = None
    """Normalize the selected scores to a sum of 1; null follows the preset."""
    route_scale: Annotated[float, Key(since="0.19.2")] = 1.0
    """Factor on the router's scores."""
    routed_scaling_factor: Annotated[
        float | Auto,
        Key(since="0.19.2", auto_is_value=True, means=(("auto", "read from the model's config"),)),
    ] = "auto"
    """Factor on the routed experts' sum; auto reads it from the model's config."""
    load_balance_coeff: Annotated[None, Key(since="0.19.2")] = None
    """Reserved: DeepSpeed rejects any value other than null."""
    moe_layer_pattern: Annotated[str | None, Key(since="0.19.2")] = None
    """Regular expression that matches the module names of MoE layers."""
    router_pattern: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of a MoE layer that holds its router."""
    expert_pattern: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of a MoE layer that holds its experts."""
    expert_w1: Annotated[str | None, Key(since="0.19.2")] = None
    """Name of an expert's gate weight, or of the fused gate and up weight."""
    expert_w2: Annotated[str | None, Key(since="0.19.2")] = None
    """Name of an expert's down projection."""
    expert_w3: Annotated[str | None, Key(since="0.19.2")] = ABSENT
    """Name of an expert's up projection. Null: it is part of `expert_w1`. If absent, the preset decides."""
    expert_activation: Annotated[
        Literal["swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"] | None,
        Key(
            since="0.19.8",
            means=(
                ("swiglu", "a SiLU gate"),
                ("geglu_tanh", "a GELU gate, approximated by tanh"),
                ("swiglu_clamped", "a SiLU gate with bounded inputs"),
                ("swiglu_oai", "the SiLU gate of gpt-oss"),
            ),
        ),
    ] = None
    """Activation inside an expert; null follows the preset."""
    num_experts_attr: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of the model's config with the number of experts."""
    top_k_attr: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of the model's config with the number of experts per token."""
    has_shared_experts: Annotated[bool | None, Key(since="0.19.2")] = None
    """Whether the model has shared experts, which process every token; null follows the preset."""
    shared_experts_pattern: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of a MoE layer that holds the shared experts."""
    shared_experts_gate_pattern: Annotated[str | None, Key(since="0.19.2")] = None
    """Attribute of a MoE layer that holds the shared experts' gate."""


class ExpertParallelRootKeys(RootKeys):
    """The root key of expert parallelism."""

    expert_parallel: Annotated[
        ExpertParallel,
        Key(
            since="0.19.2",
            source="runtime/config.py:get_expert_parallel_config",
            takes=(NonObjectValues(("falsy",), since="0.19.2"),),
            opened_by=SCRIPT,  # separate rules check what the engine validates
        ),
    ] = Field(default_factory=ExpertParallel)
    """Expert parallelism (AutoEP): distributes the experts of Hugging Face models over ranks."""
