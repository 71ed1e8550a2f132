"""AutoTP: tensor-parallel training of models without tensor-parallel code."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key, KeyAlias, SectionReading
from dsconfig.model.section import ABSENT, Names, PythonObject, RootKeys, Section

_STRICT = (SectionReading("pydantic", since="0.16.4", unknown="rejected", drops_auto=True),)


class TensorParallelGroup(Section):
    """Inner settings, which DeepSpeed parses with the class of the inference engine."""

    SOURCE = "runtime/tensor_parallel/config.py:TPConfig"
    READS = _STRICT

    tp_size: Annotated[int, Key(since="0.16.4")] = 1
    """Tensor-parallel degree as recorded by the parser; set `autotp_size` to enable tensor-parallel training.
    """
    tp_grain_size: Annotated[int, Key(since="0.16.4", unit="elements")] = 1
    """Multiple to which split MLP and LM-head sizes are kept; not active in training yet."""
    mpu: Annotated[object, Key(since="0.16.4", not_json=True)] = None
    """Model-parallel unit, a Python object."""
    tp_group: Annotated[object, Key(since="0.16.4", not_json=True)] = None
    """Process group, a Python object."""


class LayerSpec(Section):
    """A partition rule for some layers."""

    SOURCE = "module_inject/autotp_config.py:AutoTPConfig.from_dict"

    patterns: Annotated[list[str], Key(since="0.18.6")] = Field(default=[])
    """Regular expressions, matched from the start of a parameter's name."""
    partition_type: Annotated[
        Literal["column", "row", "skip"],
        Key(
            since="0.18.6",
            fold_case=True,
            means=(
                ("column", "splits the output dimension"),
                ("row", "splits the input dimension"),
                ("skip", "keeps the whole parameter on every rank"),
            ),
        ),
    ] = "column"
    """Split the output dimension (column), the input dimension (row), or keep the whole parameter on every
    rank (skip)."""
    shape: Annotated[list[int | list[int]] | None, Key(since="0.18.6")] = None
    """Shape to which a fused weight is viewed before it is split: -1 is inferred, a nested list gives unequal
    parts."""
    partition_dim: Annotated[int | None, Key(since="0.18.6")] = None
    """Dimension to split, in that view; null means 0 for column and 1 for row."""
    model_types: Annotated[list[str] | None, Key(since="0.18.6")] = None
    """Model types to which the rule applies; null means all."""
    gather_output: Annotated[bool, Key(since="0.19.4")] = False
    """Gather the output of a column split on every rank; costs one collective."""
    grad_allreduce: Annotated[bool, Key(since="0.19.6")] = False
    """With skip: sum the parameter's gradient over the ranks, because each rank computes only its part."""


class PartitionConfig(Section):
    """Custom partition rules. Not validated until the engine starts."""

    SOURCE = "module_inject/autotp_config.py:AutoTPConfig.from_dict"
    READS = (SectionReading("hand", since="0.18.6", unknown="kept"),)

    tp_size: Annotated[int, Key(since="0.18.6")] = 1
    """Tensor-parallel degree of the rule set; `autotp_size` overrides it."""
    layer_specs: Annotated[list[LayerSpec], Key(since="0.18.6")] = Field(default=[])
    """Partition rules in order; the first one that matches a parameter applies."""
    embedding_partition_dim: Annotated[int, Key(since="0.18.6")] = 1
    """Dimension along which embeddings are split."""
    lm_head_patterns: Annotated[list[str], Key(since="0.18.6")] = Field(default=["lm_head", "embed_out"])
    """Name patterns of the LM head."""
    use_default_specs: Annotated[bool, Key(since="0.18.6")] = True
    """Add these rules to those of `preset_model`; false replaces them."""
    strict_mode: Annotated[bool, Key(since="0.18.6")] = False
    """Raise an error if a linear layer matches no rule, instead of leaving it unpartitioned."""


class TensorParallel(Section):
    """Splits the weights of each layer over ranks; combines with ZeRO up to stage 2."""

    SOURCE = "runtime/tensor_parallel/config.py:TPTrainingConfig"
    READS = _STRICT

    autotp_size: Annotated[int, Key(since="0.16.4", miswritten=("tensor_parallel.size",))] = 0
    """Tensor-parallel degree: ranks that share each layer. 0 disables it."""
    tp_overlap_comm: Annotated[bool, Key(since="0.16.6")] = False
    """Overlap the all-reduce of a layer with computation."""
    vocab_parallel_lm_head: Annotated[bool | None, Key(since="0.19.8")] = None
    """Split the LM head over the vocabulary: true requires it, false disables it, null follows the model's
    plan."""
    vocab_parallel_ce_backend: Annotated[
        Literal["torch", "liger"],
        Key(
            since="0.19.8",
            means=(
                ("torch", "PyTorch's own operations"),
                ("liger", "Liger's kernel: faster; requires the package `liger-kernel`"),
            ),
        ),
    ] = "torch"
    """Cross-entropy implementation for a split LM head; liger is faster and requires the `liger-kernel`
    package."""
    preset_model: Annotated[
        str | None,
        Key(
            since="0.18.6",
            known=("llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3"),
            fold_case=True,
            means=(
                ("llama", "LLaMA and models with the same architecture"),
                ("bloom", "BLOOM"),
                ("chatglm", "ChatGLM"),
                ("mixtral", "Mixtral"),
                ("deepseek_v2", "DeepSeek-V2"),
                ("qwen2", "Qwen2"),
                ("phi3", "Phi-3"),
            ),
        ),
    ] = None
    """Built-in partition rules of a model family; an unknown name selects none."""
    partition_config: Annotated[PartitionConfig | None, Key(since="0.18.6", opened_by=SCRIPT)] = None
    """Custom partition rules, for models without a preset."""
    injection_policy_tuple: Annotated[Names | None, Key(since="0.16.4")] = None
    """Names of the layers after which the ranks' results are all-reduced, for models that AutoTP cannot
    parse."""
    keep_module_on_host: Annotated[bool, Key(since="0.16.4")] = False
    """Keep loaded weights in host memory; slower, for models too large for the device."""
    kernel_inject: Annotated[
        bool,
        Key(
            since="0.16.4",
            aliases=(KeyAlias("replace_with_kernel_inject", since="0.16.4"),),
            source="runtime/tensor_parallel/config.py:TPTrainingConfig.replace_with_kernel_inject",
        ),
    ] = False
    """Inject inference kernels. Exists because the parser is shared with inference."""
    tp: Annotated[
        TensorParallelGroup,
        Key(
            since="0.16.4",
            aliases=(KeyAlias("tensor_parallel", since="0.16.4"),),
            source="runtime/tensor_parallel/config.py:TPTrainingConfig.tensor_parallel",
        ),
    ] = Field(default_factory=TensorParallelGroup)
    """Inner settings of the parser that training shares with the inference engine."""
    dtype: Annotated[PythonObject, Key(since="0.16.4", not_json=True)] = ABSENT
    """Data type of the model, a torch.dtype (by default torch.float16): no JSON value is accepted."""


class TensorParallelRootKeys(RootKeys):
    """The root key of tensor parallelism."""

    tensor_parallel: Annotated[
        TensorParallel,
        Key(since="0.16.4", source="runtime/tensor_parallel/config.py:get_tensor_parallel_config"),
    ] = Field(default_factory=TensorParallel)
    """Tensor parallelism (AutoTP): splits the weights of each layer over ranks."""
