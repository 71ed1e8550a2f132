"""Config of `deepspeed.init_inference`: kernel injection, tensor parallelism, checkpoints, MoE and quantization."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.key import EarlierType, Key, KeyAlias, SectionReading
from dsconfig.model.section import FreeForm, Names, PositiveInt, Section, TypeCheckedByDeepSpeed
from dsconfig.model.zero import ZeroOptimization

_STRICT = (SectionReading("pydantic", since="0.7.6", unknown="rejected", drops_auto=True),)
_GRIDS = (
    ("symmetric", "a range around zero"),
    ("asymmetric", "a range from the minimum to the maximum"),
)
_LAYERS = (("standard", "one expert per token"), ("residual", "a dense layer plus one expert"))
_ANY_ITEMS = TypeCheckedByDeepSpeed(("list", ("any",)))
"""DeepSpeed checks that the value is a list, but not its items."""

_Fp16: TypeAlias = Literal["torch.float16", "fp16", "float16", "half"]
_Fp32: TypeAlias = Literal["torch.float32", "fp32", "float32", "float"]
_FirstBf16: TypeAlias = Literal["torch.bfloat16", "bf16", "bfloat16"]
_Int8: TypeAlias = Literal["torch.int8", "int8"]


class InferenceTensorParallel(Section):
    """Splits the model over GPUs for inference."""

    SOURCE = "inference/config.py:DeepSpeedTPConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.7.6", unread=True)] = True
    """Accepted without effect: `tp_size` alone decides."""
    tp_size: Annotated[int, Key(since="0.7.6")] = 1
    """Number of GPUs over which the model is split."""
    tp_grain_size: Annotated[int, Key(since="0.16.2", unit="elements")] = 64
    """Multiple to which split MLP and LM-head sizes are kept; matrix libraries prefer powers of two."""
    mpu: Annotated[object, Key(since="0.7.6", not_json=True)] = None
    """Model-parallel unit, a Python object; replaces `tp_size`."""
    tp_group: Annotated[object, Key(since="0.7.6", not_json=True)] = None
    """Process group, a Python object."""


class InferenceMoE(Section):
    """Expert parallelism of a mixture-of-experts model during inference."""

    SOURCE = "inference/config.py:DeepSpeedMoEConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.7.6")] = True
    """Whether the model has MoE layers."""
    ep_size: Annotated[int, Key(since="0.7.6")] = 1
    """Number of GPUs over which the experts are split."""
    moe_experts: Annotated[
        list[int],
        _ANY_ITEMS,
        Key(since="0.7.6", aliases=(KeyAlias("num_experts", since="0.7.6"),)),
    ] = Field(default=[1])
    """Number of experts of each MoE layer."""
    type: Annotated[Literal["standard", "residual"], Key(since="0.7.6", means=_LAYERS)] = "standard"
    """Kind of MoE layer."""
    ep_mp_group: Annotated[object, Key(since="0.7.6", not_json=True)] = None
    """Process group of expert and model parallelism, a Python object."""
    ep_group: Annotated[
        object, Key(since="0.7.6", aliases=(KeyAlias("expert_group", since="0.7.6"),), not_json=True)
    ] = None
    """Process group of expert parallelism, a Python object."""


class BaseInferenceQuantization(Section):
    """Keys that the quantization of activations and of weights have in common."""

    SOURCE = "inference/config.py:BaseQuantConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.7.6")] = True
    """Quantize these tensors."""
    num_bits: Annotated[int, Key(since="0.7.6", unit="bits")] = 8
    """Bits per quantized value."""
    q_type: Annotated[Literal["symmetric", "asymmetric"], Key(since="0.7.6", means=_GRIDS)] = "symmetric"
    """Range of the quantized values."""
    q_groups: Annotated[int, Key(since="0.7.6")] = 1
    """Number of groups, each with its own scale."""


class InferenceActivationQuantization(BaseInferenceQuantization):
    """Quantization of activations. DeepSpeed parses it, but no inference engine reads it."""

    SOURCE = "inference/config.py:ActivationQuantConfig"


class InferenceWeightQuantization(BaseInferenceQuantization):
    """Quantization of weights. DeepSpeed parses it, but no inference engine reads it."""

    SOURCE = "inference/config.py:WeightQuantConfig"

    quantized_initialization: Annotated[FreeForm, Key(since="0.10.3")] = Field(default={})
    """Quantization while the model is built; only `weight_quantization` of a training config has an effect."""
    post_init_quant: Annotated[FreeForm, Key(since="0.10.3")] = Field(default={})
    """Quantization of an existing model; only `weight_quantization` of a training config has an effect."""


class InferenceQKVQuantization(Section):
    """Quantization of the attention projections. DeepSpeed parses it, but no inference engine reads it."""

    SOURCE = "inference/config.py:QKVQuantConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.7.6")] = True
    """Quantize the query, key and value projections."""


class InferenceQuantization(Section):
    """Quantization settings. DeepSpeed parses them, but no inference engine reads them."""

    SOURCE = "inference/config.py:QuantizationConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.7.6")] = True
    """Quantize the model."""
    activation: Annotated[InferenceActivationQuantization, Key(since="0.7.6")] = Field(
        default_factory=InferenceActivationQuantization
    )
    """Quantization of activations."""
    weight: Annotated[InferenceWeightQuantization, Key(since="0.7.6")] = Field(
        default_factory=InferenceWeightQuantization
    )
    """Quantization of weights."""
    qkv: Annotated[InferenceQKVQuantization, Key(since="0.7.6")] = Field(
        default_factory=InferenceQKVQuantization
    )
    """Quantization of the query, key and value projections."""


class InferenceCheckpoint(Section):
    """Checkpoint paths. DeepSpeed parses them, but the engine reads the top-level keys of the same names."""

    SOURCE = "inference/config.py:InferenceCheckpointConfig"
    READS = _STRICT

    checkpoint_dir: Annotated[str | None, Key(since="0.7.6")] = None
    """Directory of the checkpoint."""
    save_mp_checkpoint_path: Annotated[str | None, Key(since="0.7.6")] = None
    """Directory to which the split checkpoint is saved."""
    base_dir: Annotated[str | None, Key(since="0.7.6")] = None
    """Directory to which the paths in the checkpoint description are relative."""


class InferenceConfig(Section):
    """The config of `deepspeed.init_inference`: a dict, a JSON file, or keyword arguments."""

    SOURCE = "inference/config.py:DeepSpeedInferenceConfig"
    READS = _STRICT

    replace_with_kernel_inject: Annotated[
        bool, Key(since="0.7.6", aliases=(KeyAlias("kernel_inject", since="0.7.6"),))
    ] = False
    """Replace the layers of supported models (BERT, GPT-2, GPT-Neo, GPT-J, OPT, BLOOM, LLaMA, …) by DeepSpeed's
    inference kernels. Not together with `injection_policy`."""
    dtype: Annotated[
        Literal[_Fp16, _Fp32, _FirstBf16, "bfloat", _Int8],
        Key(
            since="0.7.6",
            was=(
                EarlierType("0.8.3", Literal[_Fp16, _Fp32, _FirstBf16, _Int8]),
                EarlierType("0.9.2", Literal[_Fp16, _Fp32, _Int8]),
            ),
        ),
    ] = "fp16"
    """Data type to which the model is converted. In Python, a `torch.dtype` as well."""
    tensor_parallel: Annotated[
        InferenceTensorParallel, Key(since="0.7.6", aliases=(KeyAlias("tp", since="0.7.6"),))
    ] = Field(default_factory=InferenceTensorParallel)
    """Tensor parallelism: the number of GPUs over which the model is split."""
    enable_cuda_graph: Annotated[bool, Key(since="0.7.6")] = False
    """Capture the forward pass as a CUDA graph and replay it; faster for small batches of a fixed shape."""
    use_triton: Annotated[bool, Key(since="0.10.0")] = False
    """Use Triton kernels. DeepSpeed rejects true if the package `triton` is not installed."""
    triton_autotune: Annotated[bool, Key(since="0.10.0")] = False
    """Tune the Triton kernels during the first run, which takes longer."""
    zero: Annotated[ZeroOptimization, Key(since="0.7.6", unread=True)] = Field(
        default_factory=ZeroOptimization
    )
    """ZeRO settings. DeepSpeed validates them, but no inference engine reads them: for ZeRO-Inference, pass a config
    with `zero_optimization` at stage 3 to `deepspeed.initialize`."""
    triangular_masking: Annotated[bool, Key(since="0.7.6", aliases=(KeyAlias("tm", since="0.7.6"),))] = True
    """Use a causal attention mask in the injected kernels."""
    moe: Annotated[
        InferenceMoE | bool,
        Key(since="0.7.6", was=(EarlierType("0.19.2", InferenceMoE),)),
    ] = Field(default_factory=InferenceMoE)
    """Expert parallelism of a mixture-of-experts model. Before 0.19.3, the short forms true and false are rejected."""
    keep_module_on_host: Annotated[bool, Key(since="0.16.3")] = False
    """Keep loaded weights in host memory, for example to quantize a model that is larger than the GPU. Only for
    automatic tensor parallelism and injection policies."""
    quant: Annotated[InferenceQuantization, Key(since="0.7.6", unread=True)] = Field(
        default_factory=InferenceQuantization
    )
    """Quantization settings. DeepSpeed validates them, but no inference engine reads them."""
    checkpoint: Annotated[
        str | FreeForm | None, Key(since="0.7.6", was=(EarlierType("0.9.2", str | None),))
    ] = None
    """Checkpoint to load: the path to a JSON file that describes it, or that description itself."""
    base_dir: Annotated[
        str, Key(since="0.7.6", was=(EarlierType("0.10.0", str | None),), defaults=(("0.10.0", None),))
    ] = ""
    """Directory to which the paths in the checkpoint description are relative."""
    set_empty_params: Annotated[bool, Key(since="0.9.0")] = False
    """Create the injected modules without memory for their parameters, which a checkpoint then provides."""
    save_mp_checkpoint_path: Annotated[str | None, Key(since="0.7.6")] = None
    """Directory to which the model is saved as split by tensor parallelism, so that it loads faster next time."""
    checkpoint_config: Annotated[
        InferenceCheckpoint,
        Key(since="0.7.6", aliases=(KeyAlias("ckpt_config", since="0.7.6"),), unread=True),
    ] = Field(default_factory=InferenceCheckpoint)
    """Checkpoint paths. The engine never reads this section: set `checkpoint` and `base_dir` at the top level."""
    return_tuple: Annotated[bool, Key(since="0.7.6")] = True
    """Whether injected layers return a tuple, as the model's own layers do, or a tensor."""
    training_mp_size: Annotated[int, Key(since="0.7.6")] = 1
    """Model-parallel degree with which the checkpoint was trained."""
    replace_method: Annotated[
        str,
        Key(
            since="0.7.6",
            deprecated="0.8.1",
            advice="remove it: DeepSpeed no longer reads it",
            auto_is_value=True,
        ),
    ] = "auto"
    """How layers were replaced; without effect since 0.8.1."""
    injection_policy: Annotated[
        FreeForm | None,
        Key(since="0.7.6", aliases=(KeyAlias("injection_dict", since="0.7.6"),), not_json=True),
    ] = None
    """Layers after which the ranks' results are all-reduced, by module class. The classes are Python objects, so it
    can only be set in Python."""
    injection_policy_tuple: Annotated[Names | None, Key(since="0.7.6", internal=True)] = None
    """Layers of one class in `injection_policy`; the engine sets it."""
    config: Annotated[
        FreeForm | None, Key(since="0.7.6", aliases=(KeyAlias("args", since="0.7.6"),), not_json=True)
    ] = None
    """Config object of the model, for models without an attribute `config`."""
    max_out_tokens: Annotated[
        PositiveInt,
        Key(
            since="0.7.6",
            aliases=(KeyAlias("max_tokens", since="0.7.6"),),
            unit="tokens",
            was=(EarlierType("0.19.6", int),),
        ),
    ] = 1024
    """Maximum number of tokens of a sequence, prompt included, for which the injected kernels allocate their cache."""
    min_out_tokens: Annotated[
        int, Key(since="0.9.0", aliases=(KeyAlias("min_tokens", since="0.9.0"),), unit="tokens")
    ] = 1
    """Number of tokens that must fit; DeepSpeed raises an error if GPU memory suffices for fewer."""
    transposed_mode: Annotated[bool, Key(since="0.9.0")] = False
    """Store the weights of the injected kernels transposed."""
    mp_size: Annotated[
        int,
        Key(since="0.7.6", deprecated="0.7.6", replaced_by="tensor_parallel.tp_size", rewrite="move"),
    ] = 1
    """Old name of `tensor_parallel.tp_size`."""
    mpu: Annotated[
        object,
        Key(
            since="0.7.6",
            deprecated="0.7.6",
            replaced_by="tensor_parallel.mpu",
            rewrite="move",
            not_json=True,
        ),
    ] = None
    """Old name of `tensor_parallel.mpu`, a Python object."""
    ep_size: Annotated[
        int, Key(since="0.7.6", deprecated="0.7.6", replaced_by="moe.ep_size", rewrite="move")
    ] = 1
    """Old name of `moe.ep_size`."""
    ep_group: Annotated[
        object,
        Key(
            since="0.7.6",
            aliases=(KeyAlias("expert_group", since="0.7.6"),),
            deprecated="0.7.6",
            replaced_by="moe.ep_group",
            rewrite="move",
            not_json=True,
        ),
    ] = None
    """Old name of `moe.ep_group`, a Python object."""
    ep_mp_group: Annotated[
        object,
        Key(
            since="0.7.6",
            aliases=(KeyAlias("expert_mp_group", since="0.7.6"),),
            deprecated="0.7.6",
            replaced_by="moe.ep_mp_group",
            rewrite="move",
            not_json=True,
        ),
    ] = None
    """Old name of `moe.ep_mp_group`, a Python object."""
    moe_experts: Annotated[
        list[int],
        _ANY_ITEMS,
        Key(since="0.7.6", deprecated="0.7.6", replaced_by="moe.moe_experts", rewrite="move"),
    ] = Field(default=[1])
    """Old name of `moe.moe_experts`."""
    moe_type: Annotated[
        Literal["standard", "residual"],
        Key(since="0.7.6", deprecated="0.7.6", replaced_by="moe.type", rewrite="move", means=_LAYERS),
    ] = "standard"
    """Old name of `moe.type`."""
