"""Generated from dsconfig/model by `make generate`; do not edit.

A TypedDict for each section, with the values from which the section can be built.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from dsconfig import model

__all__ = [
    "ActivationBitsDict", "ActivationCheckpointingDict", "ActivationGroupDict", "ActivationParametersDict",
    "AdagradParamsDict", "AdamParamsDict", "AdamWParamsDict", "AioDict", "AmpDict", "AutotuningDict",
    "Bf16Dict", "ChannelGroupDict", "ChannelParametersDict", "ChannelPruningDict", "CheckpointDict",
    "CheckpointWriterDict", "CometDict", "CommsLoggerDict", "CompileDict", "CompressionTrainingDict",
    "ConfigDict", "CsvMonitorDict", "CurriculumLearningDict", "CurriculumMetricDict", "DataEfficiencyDict",
    "DataRoutingDict", "DataSamplingDict", "DataTypesDict", "DatastatesCkptDict", "DenseRatioDict",
    "DynamicBatchingDict", "EigenvalueDict", "ElasticityDict", "ExpertParallelDict", "FlopsProfilerDict",
    "Fp16Dict", "Fp16MixedQuantizeDict", "GroupQuantizationDict", "HeadGroupDict", "HeadParametersDict",
    "HeadPruningDict", "HybridEngineDict", "LRRangeTestParamsDict", "LambParamsDict", "LayerReductionDict",
    "LayerSpecDict", "LayerTokenLearningRateDict", "LeafModuleDict", "LengthScheduleDict", "LionParamsDict",
    "MetricCurriculumDict", "MetricScheduleDict", "MixedFp16Dict", "ModelInfoDict", "MuonParamsDict",
    "NebulaDict", "OffloadOptimizerDict", "OffloadParamDict", "OneBitAdamParamsDict", "OneBitLambParamsDict",
    "OneBitParamsDict", "OneCycleParamsDict", "OptimizerDict", "OptimizerParamsDict", "ParallelWriteDict",
    "PartitionConfigDict", "PipelineDict", "ProgressiveLayerDropDict", "QuantizeAlgoDict", "QuantizeBitsDict",
    "QuantizeScheduleDict", "QuantizeTrainingDict", "QuantizedActivationsDict", "QuantizedWeightsDict",
    "RandomLtdDict", "RowGroupDict", "RowParametersDict", "RowPruningDict", "SchedulerDict",
    "SchedulerParamsDict", "SparseAttentionDict", "SparseGroupDict", "SparseParametersDict",
    "SparsePruningDict", "TensorParallelDict", "TensorParallelGroupDict", "TensorboardDict",
    "ThroughputTimerDict", "TimersDict", "TokenScheduleDict", "TokenScheduleConfigDict", "TorchAutocastDict",
    "WandbDict", "WarmupCosineLRParamsDict", "WarmupDecayLRParamsDict", "WarmupLRParamsDict",
    "WeightBitsDict", "WeightGroupDict", "WeightParametersDict", "WeightQuantizationDict", "ZenFlowDict",
    "ZeroOneAdamParamsDict", "ZeroOptimizationDict", "ZeroppLocoParamDict",
]


class DType(Protocol):
    """A `torch.dtype`."""

    @property
    def is_floating_point(self) -> bool: ...
    @property
    def is_complex(self) -> bool: ...


EditorKeysDict = TypedDict("EditorKeysDict", {"$schema": str, "$dsconfig": "dict[str, Any]"}, total=False)
"""Top-level keys for editors and for dsconfig."""

class ConfigDict(EditorKeysDict, total=False):
    """A DeepSpeed config: the content of a `ds_config.json`."""
    gradient_clipping: float | Literal["auto"]
    """Largest norm that all gradients together may have; above, they are scaled down. 0 clips nothing.\n\n- Accepts: a number of at least 0\n- Default: `1.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    steps_per_print: int | None
    """Optimizer steps from one progress line to the next; null logs none.\n\n- Accepts: an integer or `null`\n- Unit: steps\n- Releases: 0.1.0 and later"""
    wall_clock_breakdown: bool
    """Time forward, backward and step, and log the result; makes the device wait. Also on with the flops profiler.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    memory_breakdown: bool
    """Log device memory at several points of a step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    dump_state: bool
    """Print the engine's whole configuration when it is ready.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    log_level: Literal["debug", "info", "warning", "error", "critical"] | Enum | None
    """How much DeepSpeed's own logger says; null leaves it as it is.\n\n- Accepts: one of `"debug"`, `"info"`, `"warning"`, `"error"` or `"critical"` or `null`\n- Note: case does not matter\n- Releases: 0.19.3 and later"""
    disable_python_gc: bool
    """Switch Python's collector of cycles off while training, whose pauses come at a different time on every rank; cycles then stay in memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    vocabulary_size: int | None
    """Only used to warn when it is not a multiple of 8, as tensor cores prefer.\n\n- Accepts: an integer or `null`\n- Releases: 0.1.0 and later"""
    zero_allow_untested_optimizer: bool
    """Let ZeRO work with an optimizer that DeepSpeed has not been tested with.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    zero_force_ds_cpu_optimizer: bool
    """With an offloaded optimizer, refuse any but DeepSpeed's CPU ones; false lets slower ones through.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.8.3 and later"""
    graph_harvesting: bool
    """Replay the repeated work of the bf16 optimizer as CUDA graphs.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.12.6 to 0.19.7"""
    communication_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """Number format in which gradients are reduced. A half-precision one halves the traffic, fp32 keeps every bit; null follows the training precision.\n\n- Accepts: one of `"fp16"`, `"bf16"` or `"fp32"` or `null`\n- Note: case does not matter\n- Releases: 0.5.8 and later"""
    fp32_allreduce: bool
    """Reduce gradients in fp32 whatever the training precision.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: `communication_data_type`\n- Releases: 0.1.0 to 0.5.7"""
    seq_parallel_communication_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """Number format for reducing gradients over the ranks that share a sequence.\n\n- Accepts: one of `"fp16"`, `"bf16"` or `"fp32"` or `null`\n- Default: `"fp32"`\n- Note: case does not matter\n- Releases: 0.16.5 and later"""
    seq_parallel_comm_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """First name of `seq_parallel_communication_data_type`.\n\n- Accepts: one of `"fp16"`, `"bf16"` or `"fp32"` or `null`\n- Default: `"fp32"`\n- Replacement: `seq_parallel_communication_data_type`\n- Note: case does not matter\n- Releases: 0.11.2 to 0.16.4"""
    prescale_gradients: bool
    """Divide gradients before they are summed over the ranks instead of after: no overflow in fp16 on many ranks, at the price of small gradients that vanish.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    gradient_predivide_factor: float
    """With `prescale_gradients`, how much of the division comes before the sum; the rest comes after it.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.2.0 and later"""
    gradient_allreduce_op: Literal["mean", "sum"] | Enum
    """Average gradients over the data-parallel ranks, or leave them summed. A sum is refused with ZeRO stage 3, ZenFlow and DeepCompile.\n\n- Accepts: one of `"mean"` or `"sum"`\n- Default: `"mean"`\n- Note: case does not matter\n- Releases: 0.19.6 and later"""
    disable_allgather: bool
    """Once replaced the all-gather of parameters by broadcasts; still taken, no longer looked at.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Note: accepted but has no effect\n- Releases: 0.1.0 and later"""
    allgather_size: float
    """All-gather bucket of the boolean form of `zero_optimization`; read only beside `"zero_optimization": true`.\n\n- Accepts: an integer\n- Unit: elements\n- Default: `500000000`\n- Deprecated: since 0.2.0\n- Replacement: `zero_optimization.allgather_bucket_size`\n- Releases: 0.1.0 and later"""
    sparse_gradients: bool
    """Send the gradients of `torch.nn.Embedding` as indices and rows instead of whole.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.1.0 to 0.19.7"""
    use_data_before_expert_parallelism: bool
    """Rank layout for mixtures of experts: neighbours are data-parallel first, expert-parallel second, instead of the other way round.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.12.4 and later"""
    train_batch_size: int | Literal["auto"] | None
    """Samples that all ranks together consume per optimizer step: micro-batch times accumulation steps times data-parallel size. Derived when absent; this or `train_micro_batch_size_per_gpu` must be given.\n\n- Accepts: an integer greater than 0 or `null`\n- Unit: samples\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    train_micro_batch_size_per_gpu: int | Literal["auto"] | None
    """Samples that one rank takes through a single forward and backward pass; larger fills the GPU better and needs more activation memory. Derived from the other two when absent.\n\n- Accepts: an integer greater than 0 or `null`\n- Unit: samples\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    gradient_accumulation_steps: int | Literal["auto"] | None
    """Micro-batches summed up on a rank before the optimizer steps; more of them mean larger batches without more memory. Derived from the other two when absent, 1 if only one of them is given.\n\n- Accepts: an integer greater than 0 or `null`\n- Unit: micro-batches\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    managed_gradient_accumulation: bool
    """Let the engine count micro-batches and step only at the end of a batch; when false every `engine.step()` is an update and the caller keeps count.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.4 and later"""
    sequence_parallel_size: int
    """Ranks that share one sequence (Ulysses). Divides the world size in the batch arithmetic; given together with `data_parallel_size`, DeepSpeed builds a device mesh from both. 1 when absent. Up to 0.19.2 anything is accepted, and counts as 1 unless it is a number.\n\n- Accepts: an integer greater than 0\n- Unit: ranks\n- Releases: 0.15.0 and later"""
    data_parallel_size: int
    """Data-parallel ranks of the device mesh that is built when `sequence_parallel_size` is given too.\n\n- Accepts: an integer greater than 0\n- Unit: ranks\n- Releases: 0.15.0 and later"""
    dataloader_drop_last: bool
    """Leave out the last, incomplete batch in the data loader that the engine builds from `training_data`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.2 and later"""
    fp16: model.Fp16 | Fp16Dict
    """Mixed precision in IEEE half precision (fp16), with loss scaling.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    bf16: model.Bf16 | Bf16Dict
    """Mixed precision in bfloat16, which needs no loss scaling.\n\n- Accepts: an object\n- Releases: 0.6.0 and later"""
    bfloat16: model.Bf16 | Bf16Dict
    """First name of `bf16`; read only where that one is absent.\n\n- Accepts: an object\n- Deprecated: since 0.6.0\n- Replacement: `bf16`\n- Releases: 0.5.5 and later"""
    amp: model.Amp | AmpDict
    """Mixed precision by NVIDIA Apex.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Replacement: `torch_autocast`\n- Releases: 0.3.0 to 0.19.7"""
    torch_autocast: model.TorchAutocast | TorchAutocastDict
    """Mixed precision by PyTorch's autocast.\n\n- Accepts: an object\n- Releases: 0.17.2 and later"""
    data_types: model.DataTypes | DataTypesDict
    """Number formats of buffers, accumulated gradients and parameters.\n\n- Accepts: an object\n- Releases: 0.7.6 and later"""
    optimizer: model.Optimizer | OptimizerDict
    """The optimizer that DeepSpeed builds, unless the script passes one.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    scheduler: model.Scheduler | SchedulerDict
    """The learning-rate scheduler that DeepSpeed builds. One that the script passes replaces it from 0.14.5 on; up to 0.14.4 that is used only where this section names no `type`.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    zero_optimization: model.ZeroOptimization | ZeroOptimizationDict
    """Sharding of training state. The boolean of the first release is still read: true is stage 1, false stage 0.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    aio: model.Aio | AioDict
    """Asynchronous NVMe I/O.\n\n- Accepts: an object\n- Releases: 0.3.15 and later"""
    activation_checkpointing: model.ActivationCheckpointing | ActivationCheckpointingDict
    """Recomputing activations instead of keeping them.\n\n- Accepts: an object\n- Releases: 0.2.0 and later"""
    pipeline: model.Pipeline | PipelineDict
    """Traffic and recomputation of the pipeline engine; the stages come from `PipelineModule`.\n\n- Accepts: an object\n- Releases: 0.3.0 and later"""
    tensor_parallel: model.TensorParallel | TensorParallelDict
    """Splitting the weights of each layer over ranks (AutoTP).\n\n- Accepts: an object\n- Releases: 0.16.4 and later"""
    expert_parallel: model.ExpertParallel | ExpertParallelDict
    """Spreading the experts of Hugging Face models over ranks.\n\n- Accepts: an object\n- Releases: 0.19.2 and later"""
    checkpoint: model.Checkpoint | CheckpointDict
    """Saving and loading of checkpoints.\n\n- Accepts: an object\n- Releases: 0.3.11 and later"""
    nebula: model.Nebula | NebulaDict
    """Asynchronous checkpoints through Azure Nebula.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.7.0 to 0.19.6"""
    datastates_ckpt: model.DatastatesCkpt | DatastatesCkptDict
    """Checkpoints through DataStates-LLM; on as soon as anything but false stands here.\n\n- Accepts: an object\n- Releases: 0.18.1 and later"""
    tensorboard: model.Tensorboard | TensorboardDict
    """Loss, learning rate and loss scale, written for TensorBoard.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    wandb: model.Wandb | WandbDict
    """Loss, learning rate and loss scale, sent to Weights & Biases.\n\n- Accepts: an object\n- Releases: 0.6.6 and later"""
    csv_monitor: model.CsvMonitor | CsvMonitorDict
    """Loss, learning rate and loss scale, written to CSV files.\n\n- Accepts: an object\n- Releases: 0.6.6 and later"""
    comet: model.Comet | CometDict
    """Loss, learning rate and loss scale, sent to Comet.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""
    flops_profiler: model.FlopsProfiler | FlopsProfilerDict
    """Count of a model's operations, parameters and time, module by module.\n\n- Accepts: an object\n- Releases: 0.3.11 and later"""
    comms_logger: model.CommsLogger | CommsLoggerDict
    """Log of the size and bandwidth of collectives.\n\n- Accepts: an object\n- Releases: 0.7.0 and later"""
    timers: model.Timers | TimersDict
    """Clocks of the engine: how throughput is measured.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""
    autotuning: model.Autotuning | AutotuningDict
    """Search for the fastest ZeRO stage and micro-batch size by short trial runs.\n\n- Accepts: an object\n- Releases: 0.5.7 and later"""
    data_efficiency: model.DataEfficiency | DataEfficiencyDict
    """Curriculum sampling, dynamic batches, random token dropping.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    curriculum_learning: model.CurriculumLearning | CurriculumLearningDict
    """First form of curriculum learning, by sequence length.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning`\n- Releases: 0.5.0 to 0.19.7"""
    compression_training: model.CompressionTraining | CompressionTrainingDict
    """Pruning and quantising while training.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.7.0 to 0.19.6"""
    quantize_training: model.QuantizeTraining | QuantizeTrainingDict
    """Quantising while training (MoQ).\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Replacement: `compression_training.weight_quantization`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    eigenvalue: Mapping[str, Any] | None
    """Never read here; what counted stood in `quantize_training`. Refused by name all the same.\n\n- Accepts: any value\n- Rejected: from 0.19.8 on, whatever the value\n- Note: accepted but has no effect\n- Releases: 0.3.1 to 0.19.7"""
    weight_quantization: model.WeightQuantization | WeightQuantizationDict
    """Weights quantised for inference under ZeRO.\n\n- Accepts: an object\n- Releases: 0.10.3 and later"""
    compile: model.Compile | CompileDict
    """Up to 0.14.3 settings for `torch.compile`, from 0.16.6 on for DeepCompile; in between nobody read it.\n\n- Accepts: an object\n- Releases: 0.13.2 to 0.14.3, 0.16.6 and later"""
    hybrid_engine: model.HybridEngine | HybridEngineDict
    """Training and generating in turns with one set of weights, as RLHF does.\n\n- Accepts: an object\n- Releases: 0.9.0 and later"""
    elasticity: model.Elasticity | ElasticityDict
    """Batch sizes that fit many numbers of GPUs.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.3.9 to 0.19.7"""
    progressive_layer_drop: model.ProgressiveLayerDrop | ProgressiveLayerDropDict
    """Skipping more and more layers at random while training.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.3.1 to 0.19.7"""
    sparse_attention: model.SparseAttention | SparseAttentionDict
    """Block-sparse attention: which blocks of the attention matrix are computed.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.3.0 to 0.19.6"""

class Fp16Dict(TypedDict, total=False):
    """Mixed precision in IEEE half precision, with loss scaling against underflow."""
    enabled: bool | Literal["auto"]
    """Train in fp16; excludes `bf16`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    auto_cast: bool
    """Cast the floating-point inputs of `forward` to fp16.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    loss_scale: float
    """Factor on the loss that keeps small gradients from vanishing; 0 lets DeepSpeed adapt it. From 0.18.8 on a boolean is refused too.\n\n- Accepts: a number of at least 0\n- Default: `0.0`\n- Releases: 0.1.0 and later"""
    initial_scale_power: int
    """Power of two at which the adapting loss scale starts. Too high costs skipped steps at the beginning.\n\n- Accepts: an integer\n- Default: `16`\n- Releases: 0.1.0 and later"""
    loss_scale_window: int
    """Steps without overflow after which the adapting scale doubles. From 0.19.3 on it must be positive where fp16 is enabled with a scale that adapts.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.1.0 and later"""
    hysteresis: int
    """Overflows that are let pass before the adapting scale is halved.\n\n- Accepts: an integer\n- Unit: overflows\n- Default: `2`\n- Releases: 0.1.0 and later"""
    consecutive_hysteresis: bool
    """Count only overflows in a row: a step without one fills the allowance up again.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.3 and later"""
    min_loss_scale: int
    """Floor of the adapting scale. From 0.19.3 on it must be positive where fp16 is enabled with a scale that adapts.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.1.0 and later"""
    fp16_master_weights_and_grads: bool
    """Keep master weights and gradients in fp16 too: half the memory, less accuracy. Needs ZeRO and CPU Adam.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.0 and later"""

class Bf16Dict(TypedDict, total=False):
    """Mixed precision in bfloat16, which needs no loss scaling."""
    enabled: bool | Literal["auto"]
    """Train in bfloat16; excludes `fp16`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.5.5 and later"""
    immediate_grad_update: bool
    """Add each gradient to its fp32 sum as soon as it exists, instead of all after the backward pass; frees the bfloat16 copy early.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.13.3 and later"""
    check_grad_overflow: bool
    """Look for infinite and undefined gradients before a step, and leave the step out if there are any.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.1 and later"""
    bf16_master_weights_and_grads: bool
    """Keep master weights and gradients in bfloat16 too; for ZeRO stages 1 to 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.3 and later"""
    bf16_optimizer_states: bool
    """Keep the optimizer's moments in bfloat16; only with `bf16_master_weights_and_grads`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.3 and later"""

class AmpDict(TypedDict, total=False):
    """Mixed precision by NVIDIA Apex; its keys beyond these go to `apex.amp.initialize`."""
    enabled: Required[bool | Literal["auto"]]
    """Hand model and optimizer to Apex. The section is refused without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Replacement: `torch_autocast.enabled`\n- "auto": resolved by Transformers\n- Releases: 0.3.0 to 0.19.7"""
    opt_level: str
    """How much Apex casts: O0 nothing, O1 what is safe, O2 nearly all, O3 all.\n\n- Accepts: a string\n- Known values: `O0`, `O1`, `O2`, `O3`\n- Default: `"O1"`\n- "auto": resolved by Transformers\n- Releases: 0.3.0 to 0.19.7"""

class TorchAutocastDict(TypedDict, total=False):
    """Run the forward pass under `torch.autocast`, managed by the engine."""
    enabled: bool
    """Switch managed autocast on.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.2 and later"""
    dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | DType
    """Number format of autocast; when absent, PyTorch's own for the device.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"` or `"bfloat16"`\n- Releases: 0.17.2 and later"""
    lower_precision_safe_modules: list[str] | tuple[str, ...]
    """Full names of module classes whose parameters may travel in the autocast format; when absent, linear layers and convolutions.\n\n- Accepts: a list of strings\n- Releases: 0.17.2 and later"""

class DataTypesDict(TypedDict, total=False):
    """Number formats of buffers, accumulated gradients and parameters."""
    grad_accum_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Format in which gradients add up over micro-batches; null follows the model. fp32 loses nothing and takes twice the memory.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"` or `"bfloat16"` or `null`\n- Releases: 0.7.6 and later"""
    param_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Format of the parameters. It can only repeat what `fp16` or `bf16` says, and null means just that.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"` or `"bfloat16"` or `null`\n- Releases: 0.19.2 and later"""
    buffer_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Cast the buffers of the model to this format; null leaves them as they were loaded.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"` or `"bfloat16"` or `null`\n- Releases: 0.19.2 and later"""
    keep_in_fp32_modules: list[str] | tuple[str, ...] | Literal["auto"]
    """Buffers that stay in fp32: name patterns, none for an empty list, or "auto" for the list that a Transformers model brings along.\n\n- Accepts: a list of strings or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.8 and later"""

class OptimizerDict(TypedDict, total=False):
    """The optimizer that the engine builds when `deepspeed.initialize` is given none."""
    type: str | None
    """Name of the optimizer: one of DeepSpeed's own in any case of letters, or a class of `torch.optim`, written exactly so. Without it the whole section has no effect.\n\n- Accepts: a string or `null`\n- Known values: `Adam`, `AdamW`, `Adagrad`, `Lamb`, `Lion`, `Muon`, `MuAdam`, `MuAdamW`, `MuSGD`, `OneBitAdam`, `OneBitLamb`, `ZeroOneAdam`\n- Note: case does not matter\n- Releases: 0.1.0 and later"""
    params: model.OptimizerParams | OptimizerParamsDict | AdamParamsDict | AdamWParamsDict | AdagradParamsDict | LambParamsDict | LionParamsDict | MuonParamsDict | OneBitParamsDict | OneBitAdamParamsDict | OneBitLambParamsDict | ZeroOneAdamParamsDict | Mapping[str, Any] | None
    """Arguments for the optimizer: the params class of its type, or, for a class of `torch.optim` or `mup`, a free mapping with that class's own keywords.\n\n- Accepts: an object or an object or `null`\n- Releases: 0.1.0 and later"""
    legacy_fusion: bool
    """Flatten parameters the way the first fp16 wrapper did.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class OptimizerParamsDict(TypedDict, total=False):
    """Keyword arguments of an optimizer; this class holds what all types share."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""

class AdamParamsDict(TypedDict, total=False):
    """Adam: the fused GPU kernel, the CPU kernel under offload, or PyTorch's own."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Keep the largest second moment seen; only PyTorch's own implementation can.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """Take weight decay apart from the gradient, as AdamW does, even for type Adam; false is classic L2. Type AdamW ignores false.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    torch_adam: bool
    """Take `torch.optim` instead of DeepSpeed's kernels: slower, and every option of PyTorch works.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.1 and later"""
    foreach: bool | None
    """With `torch_adam`: force or forbid the implementation that handles many tensors at once; null lets PyTorch choose.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.6 and later"""
    set_grad_none: bool
    """Drop gradients in `zero_grad` instead of zeroing them; not known to the CPU kernel.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    fp32_optimizer_states: bool
    """Keep the CPU kernel's moments in fp32; false halves their memory with half-precision parameters.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.0 and later"""
    adamw_mode: bool
    """The CPU kernel's name for `adam_w_mode`, which the engine fills in; write that one.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: for internal use by DeepSpeed\n- Releases: 0.3.1 and later"""

class AdamWParamsDict(TypedDict, total=False):
    """AdamW: Adam whose weight decay does not pass through the gradient."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Keep the largest second moment seen; only PyTorch's own implementation can.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """Take weight decay apart from the gradient, as AdamW does, even for type Adam; false is classic L2. Type AdamW ignores false.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    torch_adam: bool
    """Take `torch.optim` instead of DeepSpeed's kernels: slower, and every option of PyTorch works.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.1 and later"""
    foreach: bool | None
    """With `torch_adam`: force or forbid the implementation that handles many tensors at once; null lets PyTorch choose.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.6 and later"""
    set_grad_none: bool
    """Drop gradients in `zero_grad` instead of zeroing them; not known to the CPU kernel.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    fp32_optimizer_states: bool
    """Keep the CPU kernel's moments in fp32; false halves their memory with half-precision parameters.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.0 and later"""
    adamw_mode: bool
    """The CPU kernel's name for `adam_w_mode`, which the engine fills in; write that one.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: for internal use by DeepSpeed\n- Releases: 0.3.1 and later"""

class AdagradParamsDict(TypedDict, total=False):
    """Adagrad: PyTorch's own, or the CPU kernel under offload, whose params differ."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.01`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-10`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Only under offload, where it does nothing.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.5 and later"""
    fp32_optimizer_states: bool
    """Only under offload: keep the sum of squares in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.5 and later"""
    lr_decay: float
    """Only without offload: how fast the learning rate falls.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.5.5 and later"""
    initial_accumulator_value: float
    """Only without offload: value from which squares are summed up.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.5.5 and later"""

class LambParamsDict(TypedDict, total=False):
    """Lamb: Adam with a step size for each layer, for very large batches; GPU only."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    eps_inside_sqrt: bool
    """Add `eps` before the square root is drawn instead of after.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    max_coeff: float
    """Largest factor by which a layer's norm may scale its step.\n\n- Accepts: a number\n- Default: `10.0`\n- Releases: 0.1.0 and later"""
    min_coeff: float
    """Smallest factor by which a layer's norm may scale its step.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Here only because Adam has it; the kernel refuses true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class LionParamsDict(TypedDict, total=False):
    """Lion: steps by the sign of the momentum; half of Adam's state, and no `eps`."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Weight of the momentum in a step, and its decay.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    set_grad_none: bool
    """Drop gradients in `zero_grad` instead of zeroing them; not known to the CPU kernel.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.11.0 and later"""
    fp32_optimizer_states: bool
    """Only under offload: keep the momentum in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.11.0 and later"""

class MuonParamsDict(TypedDict, total=False):
    """Muon for matrices, Adam for everything else."""
    lr: float | Literal["auto"]
    """Learning rate of both halves; when absent, 0.02 for Muon and 0.0003 for Adam.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    muon_lr: float
    """Learning rate of the matrices; when absent, `lr`.\n\n- Accepts: a number\n- Releases: 0.18.3 and later"""
    adam_lr: float
    """Learning rate of what is left to Adam; when absent, `lr`.\n\n- Accepts: a number\n- Releases: 0.18.3 and later"""
    momentum: float
    """How much of the past the direction of a step keeps.\n\n- Accepts: a number\n- Default: `0.95`\n- Releases: 0.17.6 and later"""
    ns_method: Literal["gram", "standard"] | Enum
    """How the step is made orthogonal: with Gram matrices, which is faster, or as first published.\n\n- Accepts: one of `"gram"` or `"standard"`\n- Default: `"gram"`\n- Releases: 0.19.0 and later"""
    per_head_muon: bool
    """Make attention projections orthogonal head by head.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Adam half: decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.95]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Adam half: added to the denominator.\n\n- Accepts: a number\n- Default: `1e-10`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """Adam half: take weight decay apart from the gradient.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""
    torch_adam: bool
    """Adam half: take `torch.optim` instead of DeepSpeed's kernels.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""
    fp32_optimizer_states: bool
    """Adam half, on the CPU: keep the moments in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""

class OneBitParamsDict(TypedDict, total=False):
    """What the optimizers with compressed communication share; they refuse ZeRO."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` before the square root is drawn instead of after.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Here only because Adam has it; true is refused.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library can read GPU memory itself.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Library that carries the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""

class OneBitAdamParamsDict(TypedDict, total=False):
    """1-bit Adam: after a warm-up, only the sign of the momentum is sent."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` before the square root is drawn instead of after.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Here only because Adam has it; true is refused.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library can read GPU memory itself.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Library that carries the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    freeze_step: float
    """Warm-up steps without compression; too few of them spoil convergence.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.3.0 to 0.19.6"""

class OneBitLambParamsDict(TypedDict, total=False):
    """1-bit Lamb: after a warm-up, only the sign of the momentum is sent."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` before the square root is drawn instead of after.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Here only because Adam has it; true is refused.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library can read GPU memory itself.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Library that carries the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    freeze_step: float
    """Warm-up steps without compression; too few of them spoil convergence.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.3.0 to 0.19.6"""
    max_coeff: float
    """Largest factor by which a layer's norm may scale its step.\n\n- Accepts: a number\n- Default: `10.0`\n- Releases: 0.3.16 to 0.19.6"""
    min_coeff: float
    """Smallest factor by which a layer's norm may scale its step.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.3.16 to 0.19.6"""
    coeff_beta: float
    """Decay of the running average of that factor.\n\n- Accepts: a number\n- Default: `0.9`\n- Releases: 0.3.16 to 0.19.6"""
    factor_max: float
    """Largest correction of the factor after the warm-up.\n\n- Accepts: a number\n- Default: `4.0`\n- Releases: 0.3.16 to 0.19.6"""
    factor_min: float
    """Smallest correction of the factor after the warm-up.\n\n- Accepts: a number\n- Default: `0.5`\n- Releases: 0.3.16 to 0.19.6"""
    factor_threshold: float
    """Largest change of the correction from one step to the next.\n\n- Accepts: a number\n- Default: `0.1`\n- Releases: 0.3.16 to 0.19.6"""

class ZeroOneAdamParamsDict(TypedDict, total=False):
    """0/1 Adam: compressed from the start, and ranks that do not talk at every step."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Clipping by the optimizer itself. The engine refuses it beside any type.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay of the running averages of the gradient and of its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Added to the denominator against division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Make up for the running averages starting at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` before the square root is drawn instead of after.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Here only because Adam has it; true is refused.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library can read GPU memory itself.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Library that carries the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    var_freeze_step: float
    """Last step at which the variance still changes.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.6.1 to 0.19.6"""
    var_update_scaler: int
    """How fast the interval between updates of the variance grows.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `16`\n- Releases: 0.6.1 to 0.19.6"""
    local_step_scaler: int
    """Steps after which the interval between messages grows.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `32678`\n- Releases: 0.6.1 to 0.19.6"""
    local_step_clipper: int
    """Longest interval between messages.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `16`\n- Releases: 0.6.1 to 0.19.6"""

class SchedulerDict(TypedDict, total=False):
    """The learning-rate scheduler that the engine builds, and moves on after every optimizer step."""
    type: str | None
    """Name of the scheduler: one of DeepSpeed's own or a class of `torch.optim.lr_scheduler`. The latter work only without ZeRO, in fp32. Without it the whole section has no effect.\n\n- Accepts: a string or `null`\n- Known values: `LRRangeTest`, `OneCycle`, `WarmupLR`, `WarmupDecayLR`, `WarmupCosineLR`\n- Releases: 0.1.0 and later"""
    params: model.SchedulerParams | SchedulerParamsDict | LRRangeTestParamsDict | OneCycleParamsDict | WarmupLRParamsDict | WarmupDecayLRParamsDict | WarmupCosineLRParamsDict | Mapping[str, Any]
    """Arguments for the scheduler: the params class of its type, or, for a class of PyTorch, a free mapping with that class's own keywords. Must be there, if only as an empty object; no release looks at its shape at load.\n\n- Accepts: an object or an object\n- Releases: 0.1.0 and later"""

class SchedulerParamsDict(TypedDict, total=False):
    """Keyword arguments of a scheduler; this class holds what DeepSpeed's own share."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""

class LRRangeTestParamsDict(TypedDict, total=False):
    """Raise the learning rate until training breaks, to learn how high it may go."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    lr_range_test_min_lr: float | Sequence[float]
    """Learning rate to begin with.\n\n- Accepts: a number or a list of numbers\n- Default: `0.001`\n- Releases: 0.1.0 and later"""
    lr_range_test_step_size: int
    """Steps from one rise to the next.\n\n- Accepts: an integer greater than 0\n- Unit: steps\n- Default: `2000`\n- Releases: 0.1.0 and later"""
    lr_range_test_step_rate: float
    """How much the learning rate gains in that time, as a multiple of the first one.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.1.0 and later"""
    lr_range_test_staircase: bool
    """Rise in jumps instead of at every step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class OneCycleParamsDict(TypedDict, total=False):
    """Up, down, and then slowly towards nothing; the momentum goes the other way."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    cycle_min_lr: Required[float | Sequence[float]]
    """Learning rate at both ends of the cycle.\n\n- Accepts: a number or a list of numbers\n- Default: required\n- Releases: 0.1.0 and later"""
    cycle_max_lr: Required[float | Sequence[float]]
    """Learning rate at the top of the cycle.\n\n- Accepts: a number or a list of numbers\n- Default: required\n- Releases: 0.1.0 and later"""
    cycle_first_step_size: int
    """Length of the way up.\n\n- Accepts: any value\n- Unit: steps\n- Default: `2000`\n- Releases: 0.1.0 and later"""
    cycle_second_step_size: int | None
    """Length of the way down; null makes it as long as the way up.\n\n- Accepts: any value\n- Unit: steps\n- Releases: 0.1.0 and later"""
    cycle_first_stair_count: int
    """Stairs on the way up; 0 is a smooth slope.\n\n- Accepts: a number\n- Default: `0`\n- Releases: 0.1.0 and later"""
    cycle_second_stair_count: int | None
    """Stairs on the way down; null takes as many as on the way up.\n\n- Accepts: a number or `null`\n- Releases: 0.1.0 and later"""
    decay_step_size: int
    """Steps of one decay after the cycle; 0 decays not at all.\n\n- Accepts: a number\n- Unit: steps\n- Default: `0`\n- Releases: 0.1.0 and later"""
    decay_lr_rate: float
    """How strongly the learning rate falls with each decay.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.1.0 and later"""
    cycle_momentum: bool
    """Move the momentum too; writes over the optimizer's betas.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    cycle_min_mom: float
    """Momentum at the top of the cycle.\n\n- Accepts: a number\n- Default: `0.8`\n- Releases: 0.1.0 and later"""
    cycle_max_mom: float
    """Momentum at both ends of the cycle.\n\n- Accepts: a number\n- Default: `0.9`\n- Releases: 0.1.0 and later"""
    decay_mom_rate: float
    """How strongly the momentum changes with each decay.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.1.0 and later"""

class WarmupLRParamsDict(TypedDict, total=False):
    """Up to a learning rate, and then stay there."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    warmup_min_lr: float | Sequence[float] | Literal["auto"]
    """Learning rate to begin with.\n\n- Accepts: a number or a list of numbers\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_max_lr: float | Sequence[float] | Literal["auto"] | None
    """Learning rate to reach; null takes the optimizer's.\n\n- Accepts: a number or a list of numbers or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Length of the way up; 1 counts as 2.\n\n- Accepts: an integer greater than 0\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the way up: steep at first, or straight. Any other word becomes log, with a warning.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.5.7 and later"""

class WarmupDecayLRParamsDict(TypedDict, total=False):
    """Up to a learning rate, and then straight down to zero."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    warmup_min_lr: float | Sequence[float] | Literal["auto"]
    """Learning rate to begin with.\n\n- Accepts: a number or a list of numbers\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_max_lr: float | Sequence[float] | Literal["auto"] | None
    """Learning rate to reach; null takes the optimizer's.\n\n- Accepts: a number or a list of numbers or `null`\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.1 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Length of the way up; 1 counts as 2.\n\n- Accepts: an integer greater than 0\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the way up: steep at first, or straight. Any other word becomes log, with a warning.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.5.7 and later"""
    total_num_steps: Required[int | float | Literal["auto"]]
    """Length of the whole schedule, the way up included.\n\n- Accepts: a number\n- Unit: steps\n- Default: required\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.1 and later"""

class WarmupCosineLRParamsDict(TypedDict, total=False):
    """Up to the optimizer's learning rate, and then down along a cosine; in shares of that rate."""
    last_batch_iteration: int
    """Step after which to go on; -1 begins anew.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    total_num_steps: Required[int | float | Literal["auto"]]
    """Length of the whole schedule, the way up included.\n\n- Accepts: a number\n- Unit: steps\n- Default: required\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.12.3 and later"""
    warmup_min_ratio: float
    """Share of the learning rate to begin with.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.12.3 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Length of the way up; 1 counts as 2.\n\n- Accepts: an integer greater than 0\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.12.3 and later"""
    cos_min_ratio: float
    """Share of the learning rate to end with.\n\n- Accepts: a number\n- Default: `0.0001`\n- Releases: 0.12.3 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the way up: steep at first, or straight. Any other word becomes log, with a warning.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.12.3 and later"""

class ZeroOptimizationDict(TypedDict, total=False):
    """Shard training state over the data-parallel ranks."""
    stage: Literal[0, 1, 2, 3, "auto"] | Enum
    """What is sharded: nothing (0), optimizer state (1), gradients too (2), parameters too (3).\n\n- Accepts: one of `0`, `1`, `2` or `3`\n- Default: `0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.2.0 and later"""
    contiguous_gradients: bool
    """Gather gradients in one buffer as they are made, so that they do not fragment memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    reduce_scatter: bool
    """Give each rank only the averaged gradients it owns, instead of all of them by an all-reduce.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    reduce_bucket_size: float | Literal["auto"]
    """Gradient elements reduced in one go; fewer take less memory, more use the network better.\n\n- Accepts: an integer greater than 0\n- Unit: elements\n- Default: `500000000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.2.0 and later"""
    use_multi_rank_bucket_allreduce: bool
    """Merge what several ranks are to receive into one all-reduce instead of a reduce for each.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.4 and later"""
    allgather_partitions: bool
    """Collect updated parameters by all-gather; false takes a broadcast from every rank.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    allgather_bucket_size: float
    """Elements collected in one all-gather; from 0.11.3 on it changes nothing where torch can gather into one tensor, as it can since 1.13.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `500000000`\n- Releases: 0.2.0 and later"""
    overlap_comm: bool | None
    """Reduce gradients while the backward pass still runs; hides traffic and takes several buckets of memory. When absent or null: true at stage 3, false below.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.2.0 and later"""
    compute_grad_norm: bool
    """Work out the norm of all gradients; only stages 1 and 2 can do without, and then nothing is clipped.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.7 and later"""
    load_from_fp32_weights: bool
    """Restore master weights from their fp32 copy in the checkpoint; false rounds them through half precision.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 and later"""
    elastic_checkpoint: bool
    """Save so that another number of ranks can load. Warned about at stage 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.19.3\n- Replacement: `the universal checkpoint format`\n- Releases: 0.3.3 and later"""
    offload_param: model.OffloadParam | OffloadParamDict | None
    """Keep parameters off the GPU while they are not needed; stage 3.\n\n- Accepts: an object or `null`\n- Releases: 0.3.15 and later"""
    offload_optimizer: model.OffloadOptimizer | OffloadOptimizerDict | None
    """Keep the optimizer's state, and its work, off the GPU.\n\n- Accepts: an object or `null`\n- Releases: 0.3.15 and later"""
    zenflow: model.ZenFlow | ZenFlowDict | None
    """Update what matters on the GPU, the rest later on the CPU.\n\n- Accepts: an object or `null`\n- Releases: 0.17.5 and later"""
    cpu_offload: bool | None
    """First switch for keeping the optimizer's state in host memory.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.3.15\n- Replacement: `zero_optimization.offload_optimizer`\n- Releases: 0.3.0 and later"""
    cpu_offload_param: bool | None
    """Deprecated from its first release: switch for keeping parameters in host memory.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.7.0\n- Replacement: `zero_optimization.offload_param`\n- Releases: 0.7.0 and later"""
    cpu_offload_params: bool
    """First switch for keeping parameters in host memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.3.15\n- Replacement: `zero_optimization.offload_param`\n- Releases: 0.3.12 to 0.6.7"""
    cpu_offload_use_pin_memory: bool | None
    """First switch for locked host memory; taken, and without effect.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.3.15\n- Replacement: `pin_memory in zero_optimization.offload_param and offload_optimizer`\n- Note: accepted but has no effect\n- Releases: 0.3.12 to 0.3.14, 0.7.0 and later"""
    sub_group_size: float
    """Parameters that one slice of the stage-3 optimizer step works on; fewer need less memory for temporaries.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `1000000000`\n- Releases: 0.3.12 and later"""
    stage3_prefetch_bucket_size: float | Literal["auto"]
    """Parameter elements fetched ahead of their use; more hide more traffic and take more memory.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `50000000`\n- Aliases: `prefetch_bucket_size` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.12 and later"""
    stage3_param_persistence_threshold: float | Literal["auto"]
    """Parameters below this size stay whole on every rank, which saves many small messages.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `100000`\n- Aliases: `param_persistence_threshold` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.12 and later"""
    stage3_model_persistence_threshold: float
    """Most elements that may stay whole on every rank by the threshold for single parameters.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `9223372036854775807`\n- Aliases: `model_persistence_threshold` (0.7.0 and later)\n- Releases: 0.7.0 and later"""
    stage3_max_live_parameters: float
    """Most gathered parameter elements on a GPU before the first are let go; fewer save memory, more save traffic.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `1000000000`\n- Aliases: `max_live_parameters` (0.7.0 and later)\n- Releases: 0.3.12 and later"""
    stage3_max_reuse_distance: float
    """Keep a gathered parameter if it is needed again within this many elements.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `1000000000`\n- Aliases: `max_reuse_distance` (0.7.0 and later)\n- Releases: 0.3.12 and later"""
    stage3_gather_16bit_weights_on_model_save: bool | Literal["auto"]
    """Gather the sharded weights so that `save_16bit_model` can write them as one file; takes memory and time.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `gather_16bit_weights_on_model_save` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.6.0 and later"""
    stage3_gather_fp16_weights_on_model_save: bool
    """First name of `stage3_gather_16bit_weights_on_model_save`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.6.0\n- Replacement: `zero_optimization.stage3_gather_16bit_weights_on_model_save`\n- Releases: 0.3.14 and later"""
    stage3_module_granularity_threshold: int
    """Fetch a module whole when its submodules hold fewer parameters each than this; spares hooks on finely cut models. 0 switches it off.\n\n- Accepts: an integer\n- Unit: elements per module\n- Default: `0`\n- Aliases: `module_granularity_threshold` (0.16.0 and later)\n- Releases: 0.16.0 and later"""
    stage3_use_all_reduce_for_fetch_params: bool
    """Fetch parameters by all-reduce: more traffic, less copying on the host.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `use_all_reduce_for_fetch_params` (0.14.3 and later)\n- Releases: 0.14.3 and later"""
    stage3_allgather_sequential: bool
    """Gather parameters one after another without a common buffer: lower peak memory, more messages.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `allgather_sequential` (0.18.5 and later)\n- Releases: 0.18.5 and later"""
    ignore_unused_parameters: bool
    """Pass over parameters that get no gradient in a step; false fails on them (stage 2).\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.4.0 and later"""
    find_unused_parameters: bool
    """Predecessor of `ignore_unused_parameters`, with the opposite sense.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: `zero_optimization.ignore_unused_parameters`\n- Releases: 0.3.16 to 0.3.16"""
    legacy_stage1: bool
    """Take the first implementation of stage 1. From 0.5.9 on, where it is gone, true stops the engine.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 and later"""
    round_robin_gradients: bool
    """Stages 1 and 2 with offload: spread the copying of gradients over the ranks, which pays with many accumulation steps.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.4 and later"""
    parameter_alignment: bool
    """Stages 1 and 2: start every parameter at a multiple of 16 bytes in its flat buffer, at the cost of padding.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.7 and later"""
    zero_hpz_partition_size: int
    """ZeRO++: ranks, usually those of a node, that keep a second shard of the parameters among them: less traffic between nodes for more memory. 1 is off.\n\n- Accepts: an integer of at least 0\n- Unit: ranks\n- Default: `1`\n- Releases: 0.10.0 and later"""
    zero_quantized_weights: bool
    """ZeRO++: quantise parameters for the all-gather; half the traffic, some accuracy.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    zero_quantized_nontrainable_weights: bool
    """ZeRO++: keep frozen weights quantised, as with LoRA.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.2 and later"""
    zero_quantized_gradients: bool
    """ZeRO++: quantise gradients for their reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    zeropp_loco_param: model.ZeroppLocoParam | ZeroppLocoParamDict | None
    """ZeRO++: make up for the error of quantised gradients (LoCo).\n\n- Accepts: an object or `null`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.16.2 to 0.19.7"""
    mics_shard_size: int
    """MiCS: ranks among which parameters are sharded, instead of all; -1 is off.\n\n- Accepts: an integer\n- Unit: ranks\n- Default: `-1`\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.9.2 to 0.19.6"""
    mics_hierarchical_params_gather: bool
    """MiCS: gather parameters first between nodes, then within them.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.9.2 to 0.19.6"""
    memory_efficient_linear: bool
    """Stage 3: have linear layers not keep their weight for the backward pass.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.9.0 and later"""
    pipeline_loading_checkpoint: bool
    """Stage 3: load the shards of a checkpoint one after another, which bounds host memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.1 and later"""
    override_module_apply: bool
    """Stage 3: have `nn.Module.apply` gather parameters before it touches them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.10.1 and later"""
    log_trace_cache_warnings: bool
    """Stage 3: log when the recorded order of modules no longer holds and prefetching starts anew.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.4 and later"""
    enable_sanity_checks: bool
    """Check internal consistency as training goes; slow, for debugging.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.6 and later"""
    save_muon_momentum_buffer_in_memory: bool
    """Stage 3 with Muon and NVMe offload: keep the momentum in memory instead of swapping it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.9 and later"""
    leaf_module: model.LeafModule | LeafModuleDict
    """Stage 3: modules fetched whole. Null means its defaults.\n\n- Accepts: an object\n- Releases: 0.18.0 and later"""

class OffloadParamDict(TypedDict, total=False):
    """Where parameters stay while no layer needs them; stage 3 only."""
    device: Literal["none", "cpu", "nvme", "auto"] | Enum
    """Home of the parameters: GPU ("none"), host memory, or an NVMe drive. Each step out saves GPU memory and costs transfer time. From 0.5.7 to 0.6.7 the section is refused without it.\n\n- Accepts: one of `"none"`, `"cpu"` or `"nvme"`\n- Default: `"none"`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    nvme_path: str | None | os.PathLike[str]
    """Directory on the drive; needed with device "nvme".\n\n- Accepts: a path or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    buffer_count: int
    """Host buffers through which parameters pass to and from the drive.\n\n- Accepts: an integer of at least 0\n- Default: `5`\n- Releases: 0.3.15 and later"""
    buffer_size: float
    """Size of one such buffer; the largest parameter must fit into it.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `100000000`\n- Releases: 0.3.15 and later"""
    max_in_cpu: float
    """Parameter elements that stay in host memory although the home is NVMe.\n\n- Accepts: an integer of at least 0\n- Unit: elements\n- Default: `1000000000`\n- Releases: 0.3.15 and later"""
    pin_memory: bool
    """Lock the host buffers into memory: faster transfers, less memory for everything else.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""

class OffloadOptimizerDict(TypedDict, total=False):
    """Where the optimizer's state lives; its update then runs on the CPU."""
    device: Literal["none", "cpu", "nvme", "auto"] | Enum
    """Home of the optimizer's state: GPU ("none"), host memory, or, at stage 3, an NVMe drive. From 0.5.7 to 0.6.7 the section is refused without it.\n\n- Accepts: one of `"none"`, `"cpu"` or `"nvme"`\n- Default: `"none"`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    nvme_path: str | None | os.PathLike[str]
    """Directory on the drive; needed with device "nvme".\n\n- Accepts: a path or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    buffer_count: int
    """Host buffers for state on its way to and from the drive: at least as many as the optimizer keeps states per parameter, four with Adam.\n\n- Accepts: an integer of at least 0\n- Default: `4`\n- Releases: 0.3.15 and later"""
    pin_memory: bool
    """Lock the host buffers into memory: faster transfers, less memory for everything else.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""
    pipeline_read: bool
    """Read the next tile of state from the drive while the current one is updated.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    pipeline_write: bool
    """Write the previous tile back while the current one is updated.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    fast_init: bool
    """Build the optimizer faster when its state goes to NVMe.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    ratio: float
    """Share of the optimizer's state and update that goes to the CPU; the rest stays on the GPU. Below 1 it needs stage 3.\n\n- Accepts: a number of at least 0 and at most 1\n- Default: `1.0`\n- Releases: 0.12.3 and later"""
    super_offload: bool
    """Offload the way that suits superchips, whose CPU and GPU are tightly coupled; stage 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.0 and later"""
    cpuadam_cores_perc: float
    """Share of the CPU cores that work on the update with `super_offload`.\n\n- Accepts: a number of at least 0 and at most 1\n- Default: `0.8`\n- Releases: 0.18.0 and later"""

class ZenFlowDict(TypedDict, total=False):
    """Update the important gradient columns on the GPU at once, and the others later on the CPU."""
    topk_ratio: float
    """Share of gradient columns that count as important; more of them cost GPU memory and time.\n\n- Accepts: a number greater than 0 and less than 1\n- Default: `0.1`\n- Releases: 0.17.5 and later"""
    select_strategy: Literal["auto", "step", "epoch"] | Enum
    """What the interval between two selections of columns is counted in.\n\n- Accepts: one of `"auto"`, `"step"` or `"epoch"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    select_interval: int | Literal["auto"]
    """How many steps or epochs a selection holds.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    update_interval: int | Literal["auto"]
    """Steps for which unimportant gradients gather before they are applied; longer means less traffic and staler weights.\n\n- Accepts: an integer greater than 0 or `"auto"`\n- Unit: steps\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    overlap_step: bool
    """Let the CPU update run while the GPU goes on with the next batch.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.5 and later"""
    offload: bool
    """Keep the state of the important columns on the CPU too; saves GPU memory, costs transfers.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.5 and later"""
    auto_ratio: float
    """Threshold by which "auto" picks the update interval.\n\n- Accepts: a number of at least 0 and at most 1\n- Default: `0.99`\n- Releases: 0.17.5 and later"""
    full_warm_up_rounds: int
    """First rounds in which every gradient is applied at once.\n\n- Accepts: an integer\n- Unit: rounds\n- Default: `0`\n- Releases: 0.17.5 and later"""
    pt_reserved_cores_perc: float
    """Share of the CPU cores that stays with PyTorch; the others run the update.\n\n- Accepts: a number of at least 0 and at most 1\n- Default: `0.5`\n- Releases: 0.17.6 and later"""
    steps_per_epoch: int | None
    """Filled in by the engine as it starts.\n\n- Accepts: an integer or `null`\n- Note: for internal use by DeepSpeed\n- Releases: 0.17.5 and later"""

class ZeroppLocoParamDict(TypedDict, total=False):
    """Error feedback for quantised gradients, handed on unread at load."""
    err_beta: Required[float]
    """Weight of the latest quantisation error in its moving average; 0.8 is a usual value.\n\n- Accepts: a number\n- Default: required\n- Releases: 0.16.2 to 0.19.7"""
    reset_T: Required[int]
    """Steps after which the remembered error is dropped; 1024 is a usual value.\n\n- Accepts: an integer\n- Unit: steps\n- Default: required\n- Releases: 0.16.2 to 0.19.7"""

class LeafModuleDict(TypedDict, total=False):
    """Modules that stage 3 fetches whole, without looking inside; usually mixture-of-experts blocks."""
    classes: list[str] | tuple[str, ...] | str
    """Classes of such modules, by short or full name.\n\n- Accepts: a list of strings or a string\n- Default: `["transformers.models.mixtral.modeling_mixtral.MixtralSpars…`\n- Releases: 0.18.0 and later"""
    names: list[str] | tuple[str, ...] | str
    """Such modules by their exact name in the model.\n\n- Accepts: a list of strings or a string\n- Default: `[]`\n- Releases: 0.18.0 and later"""
    name_suffixes: list[str] | tuple[str, ...] | str
    """Such modules by the end of their name.\n\n- Accepts: a list of strings or a string\n- Default: `[]`\n- Releases: 0.18.0 and later"""

class AioDict(TypedDict, total=False):
    """Asynchronous NVMe reads and writes, as ZeRO-Infinity and the fast checkpoint writer use them."""
    block_size: float
    """Size of one request. Larger ones give more throughput on fast drives, smaller ones spread better.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `1048576`\n- Releases: 0.3.15 and later"""
    queue_depth: int
    """Requests that one thread keeps in flight.\n\n- Accepts: an integer\n- Unit: requests\n- Default: `8`\n- Releases: 0.3.15 and later"""
    intra_op_parallelism: int
    """Threads that work on a single read or write together.\n\n- Accepts: an integer\n- Unit: threads\n- Default: `1`\n- Releases: 0.16.4 and later"""
    thread_count: int
    """First name of `intra_op_parallelism`; later releases pass over it in silence.\n\n- Accepts: an integer\n- Unit: threads\n- Default: `1`\n- Replacement: `aio.intra_op_parallelism`\n- Releases: 0.3.15 to 0.16.3"""
    single_submit: bool
    """Hand requests to the kernel one at a time instead of many in one call; slower, easier to trace.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    overlap_events: bool
    """Submit further requests while earlier ones are still under way.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""
    use_gds: bool
    """Move data between drive and GPU directly with NVIDIA GPUDirect Storage; needs a CUDA device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.15.0 and later"""

class ActivationCheckpointingDict(TypedDict, total=False):
    """Settings of `deepspeed.checkpointing`; without effect unless the script calls its `configure`."""
    partition_activations: bool
    """Split kept activations over the model-parallel ranks: less memory, an all-gather in the backward pass.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    contiguous_memory_optimization: bool
    """Copy split activations into one buffer, so that they do not fragment memory; needs `number_checkpoints`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    cpu_checkpointing: bool
    """Keep split activations in host memory; saves GPU memory and costs transfers.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    number_checkpoints: int | None
    """Checkpoints that one forward pass makes; gives the contiguous buffers their size.\n\n- Accepts: an integer or `null`\n- Releases: 0.2.0 and later"""
    synchronize_checkpoint_boundary: bool
    """Wait for the device at each checkpoint, which makes timings exact and training slower.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    profile: bool
    """Log how long each checkpointed function takes forward and backward.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""

class PipelineDict(TypedDict, total=False):
    """Pipeline parallelism. Every key is copied; `PipelineModule` settles those that nothing reads."""
    stages: int | Literal["auto"]
    """Taken and never looked at: the number of stages comes from `PipelineModule`.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own; accepted but has no effect\n- Releases: 0.3.0 and later"""
    partition: str
    """Taken and never looked at: `PipelineModule(partition_method=...)` decides how layers are spread.\n\n- Accepts: a string\n- Default: `"best"`\n- Note: accepted but has no effect\n- Releases: 0.3.0 and later"""
    seed_layers: bool
    """Taken and never looked at: `PipelineModule(seed_layers=...)` decides.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Note: accepted but has no effect\n- Releases: 0.3.0 and later"""
    activation_checkpoint_interval: int
    """Recompute activations in groups of this many layers; 0 leaves it to `PipelineModule`.\n\n- Accepts: an integer\n- Unit: layers\n- Default: `0`\n- Releases: 0.3.0 and later"""
    pipe_partitioned: bool
    """Send activations between stages split over the tensor-parallel ranks: less traffic, one all-gather.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.3 and later"""
    grad_partitioned: bool
    """Send gradients between stages split over the tensor-parallel ranks.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.3 and later"""
    use_reentrant: bool
    """Recompute activations with PyTorch's reentrant checkpoint function; false takes the newer one.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.10.3 and later"""

class TensorParallelDict(TypedDict, total=False):
    """Splits the weights of each layer over ranks; combines with ZeRO up to stage 2."""
    autotp_size: int
    """Ranks that share each layer; 0 turns it off.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.16.4 and later"""
    tp_overlap_comm: bool
    """Overlap the all-reduce of a layer with computation.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    vocab_parallel_lm_head: bool | None
    """Split the LM head over the vocabulary: true insists, false forbids, null follows the model's plan.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.8 and later"""
    vocab_parallel_ce_backend: Literal["torch", "liger"] | Enum
    """Cross entropy for a split LM head; liger is faster and needs the `liger-kernel` package.\n\n- Accepts: one of `"torch"` or `"liger"`\n- Default: `"torch"`\n- Releases: 0.19.8 and later"""
    preset_model: str | None
    """Built-in partition rules of a model family; an unknown name means none.\n\n- Accepts: a string or `null`\n- Known values: `llama`, `bloom`, `chatglm`, `mixtral`, `deepseek_v2`, `qwen2`, `phi3`\n- Note: case does not matter\n- Releases: 0.18.6 and later"""
    partition_config: model.PartitionConfig | PartitionConfigDict | None
    """Custom partition rules, for models without a preset.\n\n- Accepts: an object or `null`\n- Releases: 0.18.6 and later"""
    injection_policy_tuple: list[str] | tuple[str, ...] | None
    """Names of the layers after which the ranks' results are summed, for models the parser does not know.\n\n- Accepts: a list or `null`\n- Releases: 0.16.4 and later"""
    keep_module_on_host: bool
    """Leave loaded weights in host memory; slower, for models too large for the device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.4 and later"""
    kernel_inject: bool
    """Put inference kernels in; there for the parser shared with inference.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `replace_with_kernel_inject` (0.16.4 and later)\n- Releases: 0.16.4 and later"""
    tp: model.TensorParallelGroup | TensorParallelGroupDict
    """Settings of the parser that training shares with the inference engine.\n\n- Accepts: an object\n- Aliases: `tensor_parallel` (0.16.4 and later)\n- Releases: 0.16.4 and later"""
    dtype: object
    """Data type of the model, a torch.dtype (by default torch.float16): no JSON value is accepted.\n\n- Accepts: no value that JSON has\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""

class PartitionConfigDict(TypedDict, total=False):
    """Custom partition rules. Taken over as a dictionary and opened when the engine starts."""
    tp_size: int
    """Degree of the rule set; `autotp_size` overwrites it.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.18.6 and later"""
    layer_specs: Sequence[model.LayerSpec | LayerSpecDict]
    """Rules in order; the first that matches a parameter counts.\n\n- Accepts: a list of objects\n- Default: `[]`\n- Releases: 0.18.6 and later"""
    embedding_partition_dim: int
    """Dimension along which embeddings are split.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.18.6 and later"""
    lm_head_patterns: list[str] | tuple[str, ...]
    """Names by which the LM head is found.\n\n- Accepts: a list of strings\n- Default: `["lm_head", "embed_out"]`\n- Releases: 0.18.6 and later"""
    use_default_specs: bool
    """Add these rules to those of `preset_model`; false replaces them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.18.6 and later"""
    strict_mode: bool
    """Fail when a linear layer matches no rule, instead of leaving it whole.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.6 and later"""

class LayerSpecDict(TypedDict, total=False):
    """One partition rule."""
    patterns: list[str] | tuple[str, ...]
    """Regular expressions, matched from the start of a parameter's name.\n\n- Accepts: a list of strings\n- Default: `[]`\n- Releases: 0.18.6 and later"""
    partition_type: Literal["column", "row", "skip"] | Enum
    """Split the output dimension, the input dimension, or leave the parameter whole on every rank.\n\n- Accepts: one of `"column"`, `"row"` or `"skip"`\n- Default: `"column"`\n- Note: case does not matter\n- Releases: 0.18.6 and later"""
    shape: Sequence[int | Sequence[int]] | None
    """View of a fused weight before it is split: -1 is inferred, a nested list gives unequal parts.\n\n- Accepts: a list of an integer or a list of integers or `null`\n- Releases: 0.18.6 and later"""
    partition_dim: int | None
    """Dimension to split, in that view; null means 0 for column and 1 for row.\n\n- Accepts: an integer or `null`\n- Releases: 0.18.6 and later"""
    model_types: list[str] | tuple[str, ...] | None
    """Model types the rule is for; null means all.\n\n- Accepts: a list of strings or `null`\n- Releases: 0.18.6 and later"""
    gather_output: bool
    """Gather the output of a column split, so that every rank has all of it; costs a collective.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.4 and later"""
    grad_allreduce: bool
    """With skip: sum the parameter's gradient over the ranks, where each sees only its share of the work.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""

class TensorParallelGroupDict(TypedDict, total=False):
    """Inner settings, shared with the inference engine's parser."""
    tp_size: int
    """Tensor-parallel degree as the parser records it; set `autotp_size` to turn training on.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.16.4 and later"""
    tp_grain_size: int
    """Multiple to which split MLP and LM-head sizes are kept; not active in training yet.\n\n- Accepts: an integer\n- Unit: elements\n- Default: `1`\n- Releases: 0.16.4 and later"""
    mpu: object
    """Model-parallel unit, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""
    tp_group: object
    """Process group, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""

class ExpertParallelDict(TypedDict, total=False):
    """Read without conversion at load and checked when the engine starts, then only if `enabled`."""
    enabled: bool
    """Replace the MoE layers of the model.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.2 and later"""
    autoep_size: int
    """Ranks that share one set of experts; must divide the experts and the ranks of a pipeline stage.\n\n- Accepts: an integer greater than 0\n- Default: `1`\n- Releases: 0.19.2 and later"""
    expert_tensor_parallel_size: int
    """Tensor-parallel degree inside an expert; only 1 is supported.\n\n- Accepts: an integer greater than 0\n- Default: `1`\n- Releases: 0.19.3 and later"""
    validate_folding_routing: bool
    """Check routing while running, when expert and tensor parallelism share ranks; slow.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.3 and later"""
    async_split_plan: bool
    """Work out the sizes of the all-to-all while other work goes on; not together with tensor parallelism.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    preset_model: Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"] | Enum | None
    """Built-in description of a model family; null tries to recognise it.\n\n- Accepts: one of `"mixtral"`, `"qwen3_moe"`, `"qwen3_5_moe"`, `"deepseek_v2"`, `"deepseek_v3"` or `"minimax_m3"` or `null`\n- Releases: 0.19.2 and later"""
    use_grouped_mm: bool
    """Run all experts of a rank in one grouped multiplication; false loops over them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.2 and later"""
    disable_triton_grouped_mm: bool
    """Do not use the Triton kernel on devices older than Hopper.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.4 and later"""
    gate_up_impl: Literal["separate", "fused"] | Enum
    """Run gate and up projection one after the other, or as one grouped multiplication.\n\n- Accepts: one of `"separate"` or `"fused"`\n- Default: `"separate"`\n- Releases: 0.19.8 and later"""
    score_apply: Literal["auto", "pre", "post"] | Enum
    """Multiply by the router's scores before or after the experts; auto follows the preset.\n\n- Accepts: one of `"auto"`, `"pre"` or `"post"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    combine_impl: Literal["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"] | Enum
    """How a token's expert outputs are added up; the fused form excludes tensor parallelism and DeepEP.\n\n- Accepts: one of `"auto"`, `"weighted_sum"`, `"fused_weighted_sum"` or `"legacy_bmm"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    row_weighting_impl: Literal["auto", "eager", "fused"] | Enum
    """How rows are weighted by their scores; fused needs `comm_backend` deepep.\n\n- Accepts: one of `"auto"`, `"eager"` or `"fused"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.8 and later"""
    comm_backend: Literal["comm", "deepep"] | Enum
    """All-to-all of DeepSpeed, or DeepEP's kernels, which need the `deep_ep` package.\n\n- Accepts: one of `"comm"` or `"deepep"`\n- Default: `"comm"`\n- Releases: 0.19.7 and later"""
    comm_num_sm: int
    """Multiprocessors DeepEP may take; more move data faster and leave fewer for computing.\n\n- Accepts: an integer greater than 0\n- Default: `12`\n- Releases: 0.19.7 and later"""
    comm_qp_margin: int
    """RDMA queue pairs DeepEP gets beyond what it needs.\n\n- Accepts: an integer of at least 0\n- Default: `4`\n- Releases: 0.19.7 and later"""
    comm_max_tokens_per_rank: int
    """Most tokens that one rank routes, for DeepEP's buffers; with DeepEP it must be above 0.\n\n- Accepts: an integer of at least 0\n- Unit: tokens\n- Default: `0`\n- Releases: 0.19.7 and later"""
    num_expert_groups: int | None
    """Groups of experts for routing by group; null takes it from the model.\n\n- Accepts: an integer greater than 0 or `null`\n- Releases: 0.19.2 and later"""
    num_limited_groups: int | None
    """Groups a token may choose from, at most `num_expert_groups`; null takes it from the model.\n\n- Accepts: an integer greater than 0 or `null`\n- Releases: 0.19.2 and later"""
    score_func: Literal["auto", "softmax", "sigmoid"] | Enum
    """Function that makes scores of the router's output; auto follows the preset.\n\n- Accepts: one of `"auto"`, `"softmax"` or `"sigmoid"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    top_k: int | Literal["auto"]
    """Experts for each token; auto reads it from the model's config.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    route_norm: bool | None
    """Scale the chosen scores to a sum of 1; null follows the preset.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.2 and later"""
    route_scale: float
    """Factor on the router's scores.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.19.2 and later"""
    routed_scaling_factor: float | Literal["auto"]
    """Factor on the routed experts' sum; auto reads it from the model's config.\n\n- Accepts: a number or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    load_balance_coeff: None
    """Reserved: anything but null is refused.\n\n- Accepts: `null`\n- Releases: 0.19.2 and later"""
    moe_layer_pattern: str | None
    """Regular expression over module names that finds the MoE layers.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    router_pattern: str | None
    """Attribute of a MoE layer that holds its router.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_pattern: str | None
    """Attribute of a MoE layer that holds its experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w1: str | None
    """Name of an expert's gate weight, or of gate and up in one.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w2: str | None
    """Name of an expert's down projection.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w3: str | None
    """Name of an expert's up projection. Null: it is part of `expert_w1`; left out: the preset decides.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_activation: Literal["swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"] | Enum | None
    """Activation inside an expert; null follows the preset.\n\n- Accepts: one of `"swiglu"`, `"geglu_tanh"`, `"swiglu_clamped"` or `"swiglu_oai"` or `null`\n- Releases: 0.19.8 and later"""
    num_experts_attr: str | None
    """Attribute of the model's config with the number of experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    top_k_attr: str | None
    """Attribute of the model's config with the experts for each token.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    has_shared_experts: bool | None
    """Whether some experts see every token; null follows the preset.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.2 and later"""
    shared_experts_pattern: str | None
    """Attribute of a MoE layer that holds the shared experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    shared_experts_gate_pattern: str | None
    """Attribute of a MoE layer that holds the shared experts' gate.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""

class CheckpointDict(TypedDict, total=False):
    """Saving and loading of checkpoints."""
    tag_validation: Literal["WARN", "IGNORE", "FAIL"] | Enum
    """What happens when ranks save under different tags; they would not find each other's files again.\n\n- Accepts: one of `"WARN"`, `"IGNORE"` or `"FAIL"`\n- Default: `"WARN"`\n- Note: case does not matter\n- Releases: 0.3.11 and later"""
    load_universal: bool
    """Load checkpoints in the universal format, which fits any number of ranks.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    use_node_local_storage: bool
    """Have every node write its own files, where the nodes share no file system.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.5 and later"""
    checkpoint_serialization: bool
    """Meant to save in `torch.save`'s zip format; taken, and never looked at.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: accepted but has no effect\n- Releases: 0.17.1 and later"""
    writer: model.CheckpointWriter | CheckpointWriterDict | None
    """Fast or decoupled writing; null keeps `torch.save`.\n\n- Accepts: an object or `null`\n- Releases: 0.17.1 and later"""
    parallel_write: model.ParallelWrite | ParallelWriteDict
    """Which ranks write at once.\n\n- Accepts: an object\n- Releases: 0.7.4 and later"""

class CheckpointWriterDict(TypedDict, total=False):
    """Fast or decoupled writing; an empty object already switches the fast writer on."""
    type: Literal["MOCK", "PYTHON", "FAST"] | Enum | None
    """Writer: FAST goes through asynchronous I/O, PYTHON through plain files, MOCK writes nothing. Null is let in, and names no writer when the first checkpoint is saved.\n\n- Accepts: one of `"MOCK"`, `"PYTHON"` or `"FAST"` or `null`\n- Default: `"FAST"`\n- Note: case does not matter\n- Releases: 0.17.1 and later"""
    decoupled: bool
    """Write from a process of its own, so that training goes on meanwhile.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.1 and later"""
    io_buffer_size: float
    """Size of the host buffer through which data passes on its way to the drive.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `67108864`\n- Releases: 0.17.1 and later"""
    io_buffer_double: bool
    """Fill one half of the buffer while the other is written.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.1 and later"""
    show_statistics: bool
    """Log the throughput of each file when it is closed.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.1 and later"""
    data_parallel: Literal["REPLICA", "SOCKET", "MACHINE"] | Enum | None
    """Unit among whose data-parallel ranks the writing is shared; null leaves it to one rank.\n\n- Accepts: one of `"REPLICA"`, `"SOCKET"` or `"MACHINE"` or `null`\n- Note: case does not matter\n- Releases: 0.17.1 and later"""
    io_multiplier: int
    """Multiplies the number of ranks that write at once.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.17.1 and later"""

class ParallelWriteDict(TypedDict, total=False):
    """Writing by several ranks at once."""
    pipeline_stage: bool
    """Let every rank of a pipeline stage write a part of its layer files instead of the first rank all.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.4 and later"""

class NebulaDict(TypedDict, total=False):
    """Asynchronous checkpoints through the Azure Nebula service."""
    enabled: bool
    """Hand checkpoints to Nebula.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    persistent_storage_path: str | None | os.PathLike[str]
    """Directory for checkpoints that shall last.\n\n- Accepts: a string or `null`\n- Releases: 0.7.0 to 0.19.6"""
    persistent_time_interval: int
    """Time between two lasting checkpoints.\n\n- Accepts: an integer\n- Unit: seconds\n- Default: `100`\n- Releases: 0.7.0 to 0.19.6"""
    num_of_version_in_retention: int
    """Lasting checkpoints kept; older ones go.\n\n- Accepts: an integer\n- Default: `2`\n- Releases: 0.7.0 to 0.19.6"""
    enable_nebula_load: bool
    """Look for checkpoints in Nebula when loading, not only on disk.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.0 to 0.19.6"""
    nebula_load_path: str | None | os.PathLike[str]
    """Directory from which Nebula loads; null takes `persistent_storage_path`.\n\n- Accepts: a string or `null`\n- Releases: 0.7.0 to 0.19.6"""

class DatastatesCkptDict(TypedDict, total=False):
    """Asynchronous checkpoints through DataStates-LLM; its keys beyond these belong to that package."""
    host_cache_size: float
    """Pinned host memory in which checkpoints wait to be written; when absent, that package decides.\n\n- Accepts: a number\n- Unit: GB\n- Releases: 0.18.1 and later"""

class TensorboardDict(TypedDict, total=False):
    """Event files for TensorBoard; needs the `tensorboard` package."""
    enabled: bool
    """Write event files, on rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    output_path: str | os.PathLike[str]
    """Directory for the files; empty means below the directory the script was started in.\n\n- Accepts: a string\n- Default: `""`\n- Releases: 0.1.0 and later"""
    job_name: str
    """Name of the run, used as a sub-directory of `output_path`; runs of one name share it.\n\n- Accepts: a string\n- Default: `"DeepSpeedJobName"`\n- Releases: 0.1.0 and later"""

class WandbDict(TypedDict, total=False):
    """Weights & Biases; needs the `wandb` package."""
    enabled: bool
    """Send metrics to Weights & Biases, from rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.6.6 and later"""
    group: str | None
    """Group under which the service shows the run with others.\n\n- Accepts: a string or `null`\n- Releases: 0.6.6 and later"""
    team: str | None
    """Team or user that owns the run; null takes the account's default entity.\n\n- Accepts: a string or `null`\n- Releases: 0.6.6 and later"""
    project: str
    """Project that receives the run.\n\n- Accepts: a string\n- Default: `"deepspeed"`\n- Releases: 0.6.6 and later"""

class CsvMonitorDict(TypedDict, total=False):
    """One CSV file per metric."""
    enabled: bool
    """Write CSV files, on rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.6.6 and later"""
    output_path: str | os.PathLike[str]
    """Directory for the files; empty means below the directory the script was started in.\n\n- Accepts: a string\n- Default: `""`\n- Releases: 0.6.6 and later"""
    job_name: str
    """Name of the run, a sub-directory of `output_path`; runs of one name append to the same files.\n\n- Accepts: a string\n- Default: `"DeepSpeedJobName"`\n- Releases: 0.6.6 and later"""

class CometDict(TypedDict, total=False):
    """Comet; needs the `comet_ml` package. Keys left out come from Comet's own settings."""
    enabled: bool
    """Send metrics to Comet, from rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.14.3 and later"""
    samples_log_interval: int
    """Samples between two submissions; fewer give a finer curve and more traffic.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `100`\n- Releases: 0.14.3 and later"""
    project: str | None
    """Project that receives the experiment.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    workspace: str | None
    """Workspace of the project.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    api_key: str | None
    """Key of the account. A config is easily shared: rather set COMET_API_KEY in the environment.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    experiment_name: str | None
    """Display name of the experiment.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    experiment_key: str | None
    """Identity of the experiment, 32 to 50 letters and digits; lets a restarted job continue its curves.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    online: bool | None
    """True sends to the server, false keeps an experiment on disk, null leaves it to Comet (online).\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.14.3 and later"""
    mode: str | None
    """Continue the experiment of `experiment_key`, start a new one, or whichever is possible.\n\n- Accepts: a string or `null`\n- Known values: `get`, `create`, `get_or_create`\n- Releases: 0.14.3 and later"""

class FlopsProfilerDict(TypedDict, total=False):
    """Counts operations, parameters and latency of each module during one step."""
    enabled: bool
    """Profile one step, which is then slow; also turns on the timers of `wall_clock_breakdown`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.11 and later"""
    recompute_fwd_factor: float
    """Extra forward passes to count in each step: 1.0 when all activations are recomputed.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.9.3 and later"""
    profile_step: int
    """Global step to profile; a later one leaves out the warm-up.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.3.12 and later"""
    module_depth: int
    """Depth of the module tree down to which totals are printed; -1 goes down to the innermost.\n\n- Accepts: an integer\n- Default: `-1`\n- Releases: 0.3.11 and later"""
    top_modules: int
    """Modules to list at each depth, the heaviest first.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.3.11 and later"""
    detailed: bool
    """Print the whole module tree with its figures, not only the totals.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.12 and later"""
    output_file: str | None | os.PathLike[str]
    """File for the report; null prints it.\n\n- Accepts: a string or `null`\n- Releases: 0.4.0 and later"""
    start_step: int
    """First step to profile.\n\n- Accepts: an integer\n- Default: `5`\n- Replacement: `flops_profiler.profile_step`\n- Releases: 0.3.11 to 0.3.11"""
    end_step: int
    """Step at which profiling ends.\n\n- Accepts: an integer\n- Default: `6`\n- Replacement: `flops_profiler.profile_step`\n- Releases: 0.3.11 to 0.3.11"""

class CommsLoggerDict(TypedDict, total=False):
    """Logs size, time and bandwidth of every collective that goes through `deepspeed.comm`."""
    enabled: bool
    """Log collectives; each of them is then synchronised, which costs speed.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    prof_all: bool
    """Log every operation, whatever `prof_ops` says.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.0 and later"""
    prof_ops: list[str] | tuple[str, ...]
    """Operations to log when `prof_all` is false, by the names of `deepspeed.comm`.\n\n- Accepts: a list\n- Default: `[]`\n- Releases: 0.7.0 and later"""
    verbose: bool
    """Print each collective as it happens, not only a summary on request.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    debug: bool
    """Add the calling function to the name of each entry.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""

class TimersDict(TypedDict, total=False):
    """Timers of the engine. Only `throughput` is read."""
    throughput: model.ThroughputTimer | ThroughputTimerDict
    """Settings of the throughput timer.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""

class ThroughputTimerDict(TypedDict, total=False):
    """Timer behind the samples per second that the engine prints."""
    enabled: bool
    """Measure throughput.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.14.3 and later"""
    synchronized: bool
    """Wait for the device before reading the clock: exact, but it stalls the pipeline of kernels.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.14.3 and later"""

class AutotuningDict(TypedDict, total=False):
    """The autotuner, started with `deepspeed --autotuning tune` or `run`."""
    enabled: bool
    """Run the autotuner when the launcher asks for it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.7 and later"""
    fast: bool
    """Tune stage and micro-batch size only; false also tries other ZeRO settings, which takes far longer.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.7 and later"""
    results_dir: str | os.PathLike[str]
    """Directory for results. Must not be empty, even while autotuning is off.\n\n- Accepts: a string\n- Default: `"autotuning_results"`\n- Releases: 0.5.7 and later"""
    exps_dir: str | os.PathLike[str]
    """Directory for the descriptions of the experiments. Must not be empty, even while autotuning is off.\n\n- Accepts: a string\n- Default: `"autotuning_exps"`\n- Releases: 0.5.7 and later"""
    overwrite: bool
    """Run experiments again whose results already exist.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.7 and later"""
    start_profile_step: int
    """Step at which measuring starts; earlier ones are warm-up.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `3`\n- Releases: 0.5.7 and later"""
    end_profile_step: int
    """Step at which an experiment ends; more steps measure better and take longer.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `5`\n- Releases: 0.5.7 and later"""
    metric: str
    """What makes one experiment better than another: the time of a step, samples per second, or floating-point operations per second on one GPU.\n\n- Accepts: a string\n- Known values: `latency`, `throughput`, `flops`\n- Default: `"throughput"`\n- Releases: 0.5.7 and later"""
    metric_path: str | None | os.PathLike[str]
    """File where an experiment leaves its metric; the tuner sets it.\n\n- Accepts: a string or `null`\n- Releases: 0.5.7 and later"""
    tuner_type: Literal["gridsearch", "random", "model_based"] | Enum
    """Order of the experiments: all in turn, by chance, or by a cost model that learns from earlier ones. Any other word counts as gridsearch.\n\n- Accepts: one of `"gridsearch"`, `"random"` or `"model_based"`\n- Default: `"gridsearch"`\n- Releases: 0.5.7 and later"""
    tuner_early_stopping: int
    """Experiments without a better result after which a search ends.\n\n- Accepts: an integer\n- Unit: experiments\n- Default: `5`\n- Releases: 0.5.7 and later"""
    tuner_num_trials: int
    """Most experiments in one search.\n\n- Accepts: an integer\n- Unit: experiments\n- Default: `50`\n- Releases: 0.5.7 and later"""
    arg_mappings: Mapping[str, str] | None
    """Flags of the training script by config key, so that the tuner can replace what the script is given. The keys are config keys such as `train_micro_batch_size_per_gpu`; the values belong to the script.\n\n- Accepts: an object or `null`\n- Releases: 0.5.7 and later"""
    model_info: model.ModelInfo | ModelInfoDict | None
    """Size of the model, to save the profiling run.\n\n- Accepts: an object or `null`\n- Releases: 0.5.7 and later"""
    model_info_path: str | None | os.PathLike[str]
    """File where the profiling run leaves the model's size; the tuner sets it.\n\n- Accepts: a string or `null`\n- Releases: 0.5.7 and later"""
    mp_size: int
    """GPUs that share one copy of the model.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.5.7 and later"""
    max_train_batch_size: int | None
    """Largest global batch to try; null sets no limit.\n\n- Accepts: an integer or `null`\n- Unit: samples\n- Releases: 0.5.7 and later"""
    min_train_batch_size: int
    """Smallest global batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1`\n- Releases: 0.5.7 and later"""
    max_train_micro_batch_size_per_gpu: int
    """Largest micro batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1024`\n- Releases: 0.5.7 and later"""
    min_train_micro_batch_size_per_gpu: int
    """Smallest micro batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1`\n- Releases: 0.5.7 and later"""
    num_tuning_micro_batch_sizes: int
    """How many micro-batch sizes to try for each stage.\n\n- Accepts: an integer\n- Default: `3`\n- Releases: 0.5.7 and later"""

class ModelInfoDict(TypedDict, total=False):
    """What the tuner would otherwise find out with a profiling run."""
    profile: bool
    """Run the model once to fill in this section.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.7 and later"""
    num_params: int | None
    """Parameters of the model.\n\n- Accepts: an integer or `null`\n- Unit: elements\n- Releases: 0.5.7 and later"""
    hidden_size: int | None
    """Width of the hidden states.\n\n- Accepts: an integer or `null`\n- Releases: 0.9.3 and later"""
    num_layers: int | None
    """Layers of the model.\n\n- Accepts: an integer or `null`\n- Releases: 0.5.7 and later"""
    hideen_size: int | None
    """Width of the hidden states, under the misspelt name that these releases look for.\n\n- Accepts: an integer or `null`\n- Replacement: `autotuning.model_info.hidden_size`\n- Releases: 0.5.7 to 0.9.2"""

class DataEfficiencyDict(TypedDict, total=False):
    """The data efficiency library. Every inner section has a switch of its own."""
    enabled: bool
    """Turn the library on.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    seed: int
    """Seed of the order in which samples are drawn.\n\n- Accepts: an integer\n- Default: `1234`\n- Releases: 0.8.0 and later"""
    data_sampling: model.DataSampling | DataSamplingDict
    """Which samples make up a batch.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    data_routing: model.DataRouting | DataRoutingDict
    """Which tokens pass through which layers.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class DataSamplingDict(TypedDict, total=False):
    """How batches are sampled."""
    enabled: bool
    """Meant to turn sampling techniques on; each of them has the switch that counts.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    num_epochs: int
    """Most passes over the data; the sampler prepares its indices for that many.\n\n- Accepts: an integer\n- Unit: epochs\n- Default: `1000`\n- Releases: 0.8.0 and later"""
    num_workers: int
    """Worker processes of the dataloader.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.8.0 and later"""
    pin_memory: bool
    """Pin the dataloader's memory, for faster copies to the device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""
    curriculum_learning: model.MetricCurriculum | MetricCurriculumDict
    """Easy samples first.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    dynamic_batching: model.DynamicBatching | DynamicBatchingDict
    """Batches by number of tokens.\n\n- Accepts: an object\n- Releases: 0.16.5 and later"""

class MetricCurriculumDict(TypedDict, total=False):
    """Curriculum learning: easy samples first, by one metric or several."""
    enabled: bool
    """Draw samples by the difficulty that the schedule allows at each step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    data_cluster_path: str | os.PathLike[str]
    """Directory where clusters of samples are kept; needed when it is on.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    curriculum_metrics: Mapping[str, model.CurriculumMetric | CurriculumMetricDict]
    """Metrics by the names of the data analyser. Must be given when the curriculum is on.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class CurriculumMetricDict(TypedDict, total=False):
    """How one metric paces the curriculum. Difficulty bounds and `schedule_type` are needed when it runs."""
    index_to_sample_path: str | os.PathLike[str]
    """File of the data analyser with the samples of each metric value; not for single_cluster.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    index_to_metric_path: str | os.PathLike[str]
    """File of the data analyser with the metric value of each sample; not for single_cluster.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    difficulty_type: Literal["value", "percentile"] | Enum
    """Whether difficulty is a value of the metric or a percentile of the data, as which other words count.\n\n- Accepts: one of `"value"` or `"percentile"`\n- Releases: 0.8.0 and later"""
    clustering_type: Literal["schedule_based", "single_cluster"] | Enum
    """Cluster samples as the difficulty grows, as other words do too, or take all and shorten them.\n\n- Accepts: one of `"schedule_based"` or `"single_cluster"`\n- Releases: 0.8.0 and later"""
    min_difficulty: int
    """Difficulty at the first step.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    max_difficulty: int
    """Difficulty at the end; with difficulty_type percentile 100 is all data.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"] | Enum
    """Pacing function; custom is set from Python.\n\n- Accepts: one of `"fixed_linear"`, `"fixed_root"`, `"fixed_discrete"` or `"custom"`\n- Releases: 0.8.0 and later"""
    schedule_config: model.MetricSchedule | MetricScheduleDict
    """Numbers of the pacing function; needed unless it is custom.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class MetricScheduleDict(TypedDict, total=False):
    """Numbers of the pacing function; which are needed depends on `schedule_type`."""
    total_curriculum_step: int
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.8.0 and later"""
    difficulty_step: int
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    root_degree: int
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    difficulty: Sequence[int]
    """Difficulties in turn. For fixed_discrete.\n\n- Accepts: a list of integers\n- Releases: 0.8.0 and later"""
    max_step: Sequence[int]
    """Last step of each difficulty but the final one, so one entry fewer. For fixed_discrete.\n\n- Accepts: a list of integers\n- Unit: steps\n- Releases: 0.8.0 and later"""

class DynamicBatchingDict(TypedDict, total=False):
    """Batches of varying size that hold about the same number of tokens."""
    enabled: bool
    """Fill batches up to a number of tokens instead of a number of samples.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""
    metrics_path: str | os.PathLike[str]
    """Directory of the data analyser's sequence lengths; needed unless lengths are passed in from Python.\n\n- Accepts: a string\n- Releases: 0.16.5 and later"""
    lr_scaling_method: Literal["linear", "sqrt", "none"] | Enum
    """How the learning rate follows the size of the batch.\n\n- Accepts: one of `"linear"`, `"sqrt"` or `"none"`\n- Default: `"linear"`\n- Releases: 0.16.5 and later"""
    min_batch_size: int
    """Fewest samples in a batch; smaller ones are left out.\n\n- Accepts: an integer or a string\n- Unit: samples\n- Default: `1`\n- Releases: 0.16.5 and later"""
    max_batch_size: int
    """Most samples in a batch; leave it out for no limit, null is refused.\n\n- Accepts: an integer or a string\n- Unit: samples\n- Releases: 0.16.5 and later"""
    max_tokens: int
    """Most tokens in a batch. Must be given when dynamic batching is on.\n\n- Accepts: an integer or a string\n- Unit: tokens\n- Releases: 0.16.5 and later"""
    sequence_picking_order: Literal["random", "seqlen", "dataloader"] | Enum
    """Order in which sequences are packed: by chance, by length (least padding), or as they come.\n\n- Accepts: one of `"random"`, `"seqlen"` or `"dataloader"`\n- Default: `"dataloader"`\n- Releases: 0.16.5 and later"""
    verbose: bool
    """Log the batches that are built.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""

class DataRoutingDict(TypedDict, total=False):
    """Routing techniques."""
    enabled: bool
    """Meant to turn routing techniques on; `random_ltd` has the switch that counts.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    random_ltd: model.RandomLtd | RandomLtdDict
    """Random token dropping.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class RandomLtdDict(TypedDict, total=False):
    """Middle layers see a random part of the tokens. Keys without default are needed when it is on."""
    enabled: bool
    """Let the layers of `random_ltd_layer_id` see only a random part of the tokens.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    total_layer_num: int
    """Layers of the model, to count the tokens that were computed.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    random_ltd_layer_num: int
    """Layers that drop tokens; as many as `random_ltd_layer_id` names.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    random_ltd_layer_id: Sequence[int]
    """Which layers drop tokens; leaving out the first and the last keeps quality.\n\n- Accepts: a list of integers\n- Releases: 0.8.0 and later"""
    model_mask_name: str | None
    """Name of the attention mask among a layer's arguments; null if it has none.\n\n- Accepts: a string or `null`\n- Releases: 0.8.0 and later"""
    model_type: Literal["decoder", "encoder"] | Enum
    """Kind of model, for the way masks are cut.\n\n- Accepts: one of `"decoder"` or `"encoder"`\n- Releases: 0.8.0 and later"""
    hidden_state_order: Literal["batch_seq_dim", "seq_batch_dim"] | Enum
    """Order of the axes of hidden states.\n\n- Accepts: one of `"batch_seq_dim"` or `"seq_batch_dim"`\n- Releases: 0.8.0 and later"""
    random_ltd_schedule: model.TokenSchedule | TokenScheduleDict
    """How many tokens are kept over time.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    layer_token_lr_schedule: model.LayerTokenLearningRate | LayerTokenLearningRateDict
    """A learning rate by consumed layer tokens. Unfinished: leave it out, or off.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class TokenScheduleDict(TypedDict, total=False):
    """How many tokens the dropping layers keep; all keys are needed when random-LTD is on."""
    min_value: int
    """Tokens kept at the start; fewer save more and disturb more.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    max_value: int
    """Tokens kept in the end, usually the whole sequence.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    schedule_type: Literal["fixed_linear"] | Enum
    """Shape of the schedule; only a straight line is offered.\n\n- Accepts: `"fixed_linear"`\n- Releases: 0.8.0 and later"""
    schedule_config: model.TokenScheduleConfig | TokenScheduleConfigDict
    """Length and step size of the schedule.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class TokenScheduleConfigDict(TypedDict, total=False):
    """Numbers of the schedule; `require_steps` and `seq_per_step` are needed."""
    require_steps: int
    """Steps until all tokens are kept.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.8.0 and later"""
    seq_per_step: int
    """The kept length is rounded down to a multiple of this; 8 or 16 suits tensor cores.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    root_degree: int
    """Degree of a root schedule that is not offered.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""

class LayerTokenLearningRateDict(TypedDict, total=False):
    """A learning rate by consumed layer tokens, never finished."""
    enabled: bool
    """Must be false: true ends in NotImplementedError. Must be given when the section is.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    total_layer_tokens: int
    """Tokens times layers that the whole training computes; never looked at.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""
    warmup_type: str
    """Shape of the warm-up; never looked at.\n\n- Accepts: a string\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""
    warmup_layer_tokens: int
    """Tokens times layers that the warm-up lasts; never looked at.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""

class CurriculumLearningDict(TypedDict, total=False):
    """Short sequences first. The engine hands the current length to the model as an argument."""
    enabled: Required[bool]
    """Turn the curriculum on. The section is refused without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.enabled`\n- Releases: 0.5.0 to 0.19.7"""
    curriculum_type: Literal["seqlen"] | Enum
    """What difficulty means; only sequence length is offered. Needed when the curriculum is on.\n\n- Accepts: `"seqlen"`\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics`\n- Releases: 0.5.0 to 0.19.7"""
    min_difficulty: int
    """Difficulty at the first step. Needed when the curriculum is on.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.min_difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    max_difficulty: int
    """Difficulty at the end, usually the full length. Needed when the curriculum is on.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.max_difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"] | Enum
    """Pacing function; custom is set from Python. Needed when the curriculum is on.\n\n- Accepts: one of `"fixed_linear"`, `"fixed_root"`, `"fixed_discrete"` or `"custom"`\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_type`\n- Releases: 0.5.0 to 0.19.7"""
    schedule_config: model.LengthSchedule | LengthScheduleDict
    """Numbers of the pacing function; needed unless it is custom.\n\n- Accepts: an object\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config`\n- Releases: 0.5.0 to 0.19.7"""

class LengthScheduleDict(TypedDict, total=False):
    """Numbers of the pacing function; which are needed depends on `schedule_type`."""
    total_curriculum_step: int
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root.\n\n- Accepts: an integer\n- Unit: steps\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.total_curriculum_step`\n- Releases: 0.5.0 to 0.19.7"""
    difficulty_step: int
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty_step`\n- Releases: 0.5.0 to 0.19.7"""
    root_degree: int
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.root_degree`\n- Releases: 0.5.0 to 0.19.7"""
    difficulty: Sequence[int]
    """Difficulties in turn. For fixed_discrete.\n\n- Accepts: a list of integers\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    max_step: Sequence[int]
    """Last step of each difficulty but the final one, so one entry fewer. For fixed_discrete.\n\n- Accepts: a list of integers\n- Unit: steps\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.max_step`\n- Releases: 0.5.0 to 0.19.7"""

class CompressionTrainingDict(TypedDict, total=False):
    """Seven techniques, each absent or on by itself."""
    weight_quantization: model.QuantizedWeights | QuantizedWeightsDict
    """Quantise weights, from many bits to few.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    activation_quantization: model.QuantizedActivations | QuantizedActivationsDict
    """Quantise activations.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    sparse_pruning: model.SparsePruning | SparsePruningDict
    """Set single weights to zero; compresses most, and only special kernels gain speed.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    row_pruning: model.RowPruning | RowPruningDict
    """Remove rows of weight matrices.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    head_pruning: model.HeadPruning | HeadPruningDict
    """Remove attention heads.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    channel_pruning: model.ChannelPruning | ChannelPruningDict
    """Remove channels of convolutions.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    layer_reduction: model.LayerReduction | LayerReductionDict
    """Start a shallow student from layers of a deep teacher.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""

class QuantizedWeightsDict(TypedDict, total=False):
    """Quantisation of weights."""
    shared_parameters: model.WeightParameters | WeightParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.WeightGroup | WeightGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class WeightParametersDict(TypedDict, total=False):
    """Settings for all groups of quantised weights."""
    enabled: bool
    """Quantise weights.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantizer_kernel: bool
    """Quantise with the CUDA kernel; only with the fp16 optimizer.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before quantisation begins; a model that trained first loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `0`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_groups: int
    """Groups of a weight matrix with scales of their own; more are more exact and cost more.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_verbose: bool
    """Log what is quantised.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantization_type: Literal["symmetric", "asymmetric"] | Enum
    """Grid around zero, or between the extremes.\n\n- Accepts: one of `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_weight_in_forward: bool
    """Quantise in the forward pass rather than in the optimizer step; fp32 training needs it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    rounding: Literal["nearest", "stochastic"] | Enum
    """Round to the nearest value, or by chance, which is unbiased and noisier.\n\n- Accepts: one of `"nearest"` or `"stochastic"`\n- Default: `"nearest"`\n- Releases: 0.7.0 to 0.19.6"""
    fp16_mixed_quantize: model.MixedFp16 | MixedFp16Dict
    """Blend of fp16 and quantised weights.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""

class MixedFp16Dict(TypedDict, total=False):
    """Blend of fp16 and quantised weights that moves towards the quantised ones."""
    enabled: bool
    """Blend instead of switching at once.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_change_ratio: float
    """Share by which the quantised weights gain at each step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.7.0 to 0.19.6"""

class WeightGroupDict(TypedDict, total=False):
    """Modules whose weights are quantised alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.WeightBits | WeightBitsDict]
    """From how many bits to how many, and how fast.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class WeightBitsDict(TypedDict, total=False):
    """Widths of a group of weights."""
    start_bits: Required[int]
    """Width to start with. The config is refused without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""
    target_bits: Required[int]
    """Width to end with. The config is refused without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""
    quantization_period: int
    """Steps until the next bit goes; a slow descent loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.7.0 to 0.19.6"""

class QuantizedActivationsDict(TypedDict, total=False):
    """Quantisation of activations."""
    shared_parameters: model.ActivationParameters | ActivationParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.ActivationGroup | ActivationGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ActivationParametersDict(TypedDict, total=False):
    """Settings for all groups of quantised activations."""
    enabled: bool
    """Quantise activations.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantization_type: Literal["symmetric", "asymmetric"] | Enum
    """Grid around zero, or between the extremes.\n\n- Accepts: one of `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.0 to 0.19.6"""
    range_calibration: Literal["dynamic", "static"] | Enum
    """Find the range for each batch, or keep one that training found: faster, less exact.\n\n- Accepts: one of `"dynamic"` or `"static"`\n- Default: `"dynamic"`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before quantisation begins.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""

class ActivationGroupDict(TypedDict, total=False):
    """Modules whose inputs are quantised alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.ActivationBits | ActivationBitsDict]
    """How many bits.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ActivationBitsDict(TypedDict, total=False):
    """Width of a group of activations."""
    bits: Required[int]
    """Width of an activation. The config is refused without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class SparsePruningDict(TypedDict, total=False):
    """Pruning of single weights."""
    shared_parameters: model.SparseParameters | SparseParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.SparseGroup | SparseGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class SparseParametersDict(TypedDict, total=False):
    """Settings for all groups of single weights."""
    enabled: bool
    """Switch the technique on; a group alone does nothing.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning begins; a model that trained first loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk", "snip_momentum"] | Enum
    """Rank weights by size, by a learned score, or by SNIP scores, which needs `neural_compressor`.\n\n- Accepts: one of `"l1"`, `"topk"` or `"snip_momentum"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""
    block_pattern: str
    """Shape of what is pruned together, as blocks (4x1) or N of M (2:4). For snip_momentum.\n\n- Accepts: a string\n- Default: `"4x1"`\n- Releases: 0.9.3 to 0.19.6"""
    dense_ratio: float
    """Share of weights that stay. For snip_momentum, and checked only with it.\n\n- Accepts: a number greater than 0 and less than 1\n- Default: `0.1`\n- Releases: 0.9.3 to 0.19.6"""
    excluded_modules: list[str] | tuple[str, ...]
    """Modules to leave alone. For snip_momentum.\n\n- Accepts: a list of strings\n- Default: `[]`\n- Releases: 0.9.3 to 0.19.6"""
    schedule_offset_end: int
    """Last pruning step, not before `schedule_offset`, which is also its default. For snip_momentum.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.9.3 to 0.19.6"""
    schedule_offset_stride: int
    """Steps from one pruning to the next. For snip_momentum.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.9.3 to 0.19.6"""

class SparseGroupDict(TypedDict, total=False):
    """Modules whose single weights are pruned alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """How much stays.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class DenseRatioDict(TypedDict, total=False):
    """Parameters of a pruned group."""
    dense_ratio: Required[float]
    """Share of weights that stay; 0.1 removes nine tenths. The config is refused without it.\n\n- Accepts: a number of at least 0 and at most 1\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class RowPruningDict(TypedDict, total=False):
    """Pruning of rows."""
    shared_parameters: model.RowParameters | RowParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.RowGroup | RowGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class RowParametersDict(TypedDict, total=False):
    """Settings for all groups of rows."""
    enabled: bool
    """Switch the technique on; a group alone does nothing.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning begins; a model that trained first loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Rank rows by size, or by a learned score.\n\n- Accepts: one of `"l1"` or `"topk"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""

class RowGroupDict(TypedDict, total=False):
    """Modules whose rows are pruned alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """How much stays.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class HeadPruningDict(TypedDict, total=False):
    """Pruning of attention heads."""
    shared_parameters: model.HeadParameters | HeadParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.HeadGroup | HeadGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class HeadParametersDict(TypedDict, total=False):
    """Settings for all groups of attention heads."""
    enabled: bool
    """Switch the technique on; a group alone does nothing.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning begins; a model that trained first loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Ranking of heads; only topk, a learned score, is implemented.\n\n- Accepts: one of `"l1"` or `"topk"`\n- Default: `"topk"`\n- Releases: 0.7.0 to 0.19.6"""
    num_heads: int
    """Attention heads of a layer. Must be given when the technique is on.\n\n- Accepts: an integer\n- Releases: 0.7.0 to 0.19.6"""

class HeadGroupDict(TypedDict, total=False):
    """Modules whose attention heads are pruned alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """How much stays.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ChannelPruningDict(TypedDict, total=False):
    """Pruning of channels."""
    shared_parameters: model.ChannelParameters | ChannelParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.ChannelGroup | ChannelGroupDict]]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ChannelParametersDict(TypedDict, total=False):
    """Settings for all groups of channels."""
    enabled: bool
    """Switch the technique on; a group alone does nothing.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning begins; a model that trained first loses less.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Rank channels by size, or by a learned score.\n\n- Accepts: one of `"l1"` or `"topk"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""

class ChannelGroupDict(TypedDict, total=False):
    """Modules whose channels are pruned alike."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default takes all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each of `modules`, those that must shrink with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """How much stays.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class LayerReductionDict(TypedDict, total=False):
    """Used when `init_compression` is given a teacher model; the keys are then needed."""
    enabled: bool
    """Copy layers of the teacher into the student.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    keep_number_layer: int
    """Layers of the student; for the reader only, the length of `teacher_layer` counts.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.7.0 to 0.19.6"""
    module_name_prefix: str
    """Attribute path of the list of layers, the same in both models.\n\n- Accepts: a string\n- Releases: 0.7.0 to 0.19.6"""
    teacher_layer: Sequence[int]
    """Layers of the teacher, by index, that become the student's in this order.\n\n- Accepts: a list of integers\n- Releases: 0.7.0 to 0.19.6"""
    other_module_name: list[str] | tuple[str, ...]
    """Further modules to copy, such as embeddings and the classifier.\n\n- Accepts: a list of strings\n- Releases: 0.7.0 to 0.19.6"""

class QuantizeTrainingDict(TypedDict, total=False):
    """Mixture of Quantization, up to 0.6.7. From 0.7.0 `compression_training` does this."""
    enabled: bool
    """Quantise weights while training.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_verbose: bool
    """Log every change of width.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantizer_kernel: bool
    """Quantise with the CUDA kernel.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_groups: int
    """Groups of a weight matrix with scales of their own; more are more exact and cost more.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_bits: Required[model.QuantizeBits | QuantizeBitsDict]
    """Range of widths. The config is refused without it.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""
    quantize_schedule: model.QuantizeSchedule | QuantizeScheduleDict
    """When the width shrinks.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    quantize_algo: model.QuantizeAlgo | QuantizeAlgoDict
    """How values are rounded to the grid.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    fp16_mixed_quantize: model.Fp16MixedQuantize | Fp16MixedQuantizeDict
    """Blend of fp16 and quantised weights.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    eigenvalue: model.Eigenvalue | EigenvalueDict
    """Curvature that sets the pace of each layer. Opened only where `enabled` is true.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""

class QuantizeBitsDict(TypedDict, total=False):
    """From how many bits to how many."""
    start_bits: int
    """Width to start with.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `16`\n- Releases: 0.4.0 to 0.6.7"""
    target_bits: Required[int]
    """Width to end with. The config is refused without it; 8 holds only while the whole section is absent.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""

class QuantizeScheduleDict(TypedDict, total=False):
    """When the width shrinks."""
    quantize_period: Required[int]
    """Steps until the next bit goes. Must be given in this section; without the section it is 1000.\n\n- Accepts: an integer\n- Unit: steps\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""
    schedule_offset: int
    """Steps before quantisation begins.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.4.0 to 0.6.7"""

class QuantizeAlgoDict(TypedDict, total=False):
    """How values are rounded to the grid."""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Grid around zero, or between the extremes. Any other word counts as symmetric.\n\n- Accepts: one of `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.4.0 to 0.6.7"""
    rounding: Literal["nearest", "stochastic"] | Enum
    """Round to the nearest value or by chance. Any other word counts as nearest.\n\n- Accepts: one of `"nearest"` or `"stochastic"`\n- Default: `"nearest"`\n- Releases: 0.4.0 to 0.6.7"""

class Fp16MixedQuantizeDict(TypedDict, total=False):
    """Blend of fp16 and quantised weights that moves towards the quantised ones."""
    enabled: bool
    """Blend instead of switching at once.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_change_ratio: float
    """Share by which the quantised weights gain at each step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.4.0 to 0.6.7"""

class EigenvalueDict(TypedDict, total=False):
    """Curvature of each layer by power iteration: layers with small eigenvalues are quantised faster."""
    enabled: bool
    """Compute eigenvalues; slow, and refused in most releases.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    verbose: bool
    """Log every step of the power iteration.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    max_iter: int
    """Most iterations for one layer; more take longer and find the value better.\n\n- Accepts: an integer\n- Default: `100`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    tol: float
    """Relative change at which the iteration ends.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    stability: float
    """Small constant that keeps divisions stable.\n\n- Accepts: a number\n- Default: `1e-06`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    gas_boundary_resolution: int
    """Compute again every so many optimizer steps.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    layer_name: str
    """Attribute path of the list of layers in the model.\n\n- Accepts: a string\n- Default: `"bert.encoder.layer"`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    layer_num: int
    """Number of layers in that list.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""

class WeightQuantizationDict(TypedDict, total=False):
    """Weight-only quantisation of a model that is served with ZeRO-Inference."""
    enabled: bool
    """Inherited from a shared model; what counts is which of the two sections below is filled.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    num_bits: int
    """Inherited from a shared model; the width of each group section counts.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `8`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Inherited from a shared model, and not read: only asymmetric groups are supported.\n\n- Accepts: one of `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    q_groups: int
    """Inherited from a shared model, and not read: `group_size` of each section below counts.\n\n- Accepts: an integer\n- Default: `1`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    quantized_initialization: model.GroupQuantization | GroupQuantizationDict
    """Quantise weights while the model is built under zero.Init, so that it never stands in full width.\n\n- Accepts: an object\n- Releases: 0.10.3 and later"""
    post_init_quant: Mapping[str, model.GroupQuantization | GroupQuantizationDict]
    """Quantise a finished model, by part of a module's name.\n\n- Accepts: an object\n- Default: `{}`\n- Releases: 0.10.3 and later"""

class GroupQuantizationDict(TypedDict, total=False):
    """Asymmetric quantisation of a weight in groups. All four keys are needed once weights are quantised."""
    num_bits: Literal[4, 8] | Enum
    """Width of a weight: 4 halves the memory of 8 and loses more.\n\n- Accepts: one of `4` or `8`\n- Unit: bits\n- Releases: 0.10.3 and later"""
    group_size: int
    """Elements that share a scale; must divide the size along `group_dim`. Fewer are more exact.\n\n- Accepts: an integer\n- Unit: elements\n- Releases: 0.10.3 and later"""
    group_dim: int
    """Dimension that is cut into groups.\n\n- Accepts: an integer\n- Releases: 0.10.3 and later"""
    symmetric: Literal[False] | Enum
    """Only false is supported.\n\n- Accepts: `false`\n- Releases: 0.10.3 and later"""

class CompileDict(TypedDict, total=False):
    """Graph passes that `engine.compile()` applies; until 0.14.3, how to call torch.compile."""
    deepcompile: bool
    """Apply DeepSpeed's graph passes when `engine.compile()` is called.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    autoep_non_moe: bool
    """Compile what surrounds AutoEP layers and leave the experts eager.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    free_activation: bool
    """Free large activations inside the graph as soon as nothing reads them; saves memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    free_activation_threshold: float
    """Smallest activation that `free_activation` frees.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `10485760`\n- Releases: 0.18.0 and later"""
    offload_activation: bool
    """Keep activations for the backward pass in host memory; excludes the other two offloads.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    offload_activation_pin_memory: bool
    """Pin the host buffers of activation offload: copies overlap, at the cost of locked memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""
    offload_opt_states: bool
    """Keep optimizer state in host memory during forward and backward; meant for one micro batch a step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    double_buffer: bool
    """Use two buffers for communication in the graph: more overlap, more memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.16.6 and later"""
    symmetric_memory: bool
    """Use symmetric memory for collectives, where the hardware has it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    debug_log: bool
    """Write the transformed graphs out.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    offload_parameters: bool
    """Move parameters out of the device from within the graph; excludes the other two offloads.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_before_reduce: bool
    """For debugging: wait for the device before each gradient reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_after_reduce: bool
    """For debugging: wait for the device after each gradient reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_before_allgather: bool
    """For debugging: wait for the device before each parameter gather.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_after_allgather: bool
    """For debugging: wait for the device after each parameter gather.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    keep_int_input_tensors: bool
    """Profile with the real integer inputs instead of dummies; needed where they steer the computation.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.2 and later"""
    keep_all_input_tensors: bool
    """Profile with all real inputs instead of dummies; takes memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.2 and later"""
    passes: Sequence[Literal["z1", "z3", "autosp", "autotp"] | Enum] | None
    """Optimisations to combine; null chooses by ZeRO stage.\n\n- Accepts: a list of any of `"z1"`, `"z3"`, `"autosp"` or `"autotp"` or `null`\n- Releases: 0.18.9 and later"""
    enabled: bool
    """Wrap the model with torch.compile.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: `engine.compile()`\n- Releases: 0.13.2 to 0.14.3"""
    backend: str
    """Backend of torch.compile, by its name or as the dotted path of a function.\n\n- Accepts: a string\n- Default: `"inductor"`\n- Replacement: `engine.compile(backend=...)`\n- Releases: 0.13.2 to 0.14.3"""
    kwargs: Mapping[str, Any]
    """Further arguments for torch.compile, by its own names.\n\n- Accepts: an object\n- Default: `{}`\n- Replacement: `engine.compile(compile_kwargs=...)`\n- Releases: 0.13.2 to 0.14.3"""

class HybridEngineDict(TypedDict, total=False):
    """Switches a model between training and inference kernels."""
    enabled: bool
    """Build the hybrid engine instead of the plain one.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    max_out_tokens: int
    """Longest sequence, prompt included, for which inference buffers are made; more takes more memory.\n\n- Accepts: an integer greater than 0\n- Unit: tokens\n- Default: `512`\n- Releases: 0.9.0 and later"""
    inference_tp_size: int
    """Ranks that share the model while it generates; lets larger models fit.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.9.0 and later"""
    release_inference_cache: bool
    """Free the inference buffers after each generation: memory for training, time to make them again.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    pin_parameters: bool
    """Keep gathered parameters in place during a generation phase: faster, more memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.9.0 and later"""
    tp_gather_partition_size: int
    """Layers gathered at once when switching to inference tensor parallelism; fewer take less memory.\n\n- Accepts: an integer\n- Unit: layers\n- Default: `8`\n- Releases: 0.9.0 and later"""
    enable_cuda_graph: bool
    """Replay token generation from CUDA graphs; saves launch time where shapes stay the same.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""

class ElasticityDict(TypedDict, total=False):
    """Computes the batch sizes, so that a job can go on with more or fewer GPUs."""
    enabled: bool
    """Let DeepSpeed choose the batch sizes; the batch keys at the top are then refused or overwritten.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.9 to 0.19.7"""
    max_train_batch_size: int
    """Largest acceptable global batch. Must be given when elasticity is on.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `2000`\n- Releases: 0.3.9 to 0.19.7"""
    micro_batch_sizes: Sequence[int]
    """Micro-batch sizes to choose from; more allow more GPU counts. Must be given when elasticity is on.\n\n- Accepts: a list of integers\n- Unit: samples\n- Default: `[2, 4, 6]`\n- Releases: 0.3.9 to 0.19.7"""
    min_gpus: int
    """Smallest GPU count that must work.\n\n- Accepts: an integer greater than 0\n- Default: `1`\n- Releases: 0.3.9 to 0.19.7"""
    max_gpus: int
    """Largest GPU count to consider; not below `min_gpus`.\n\n- Accepts: an integer greater than 0\n- Default: `10000`\n- Releases: 0.3.9 to 0.19.7"""
    num_gpus_per_node: int
    """GPUs in one machine; algorithm 0.2 scales by whole machines.\n\n- Accepts: an integer greater than 0\n- Default: `1`\n- Releases: 0.7.0 to 0.19.7"""
    model_parallel_size: int
    """GPUs that share one copy of the model; above 1 only with algorithm 0.2.\n\n- Accepts: an integer greater than 0\n- Default: `1`\n- Releases: 0.7.0 to 0.19.7"""
    min_time: int
    """Shortest run before a scheduler may change the GPU count again; 0 leaves it to the scheduler.\n\n- Accepts: an integer of at least 0\n- Unit: minutes\n- Default: `0`\n- Releases: 0.3.9 to 0.19.7"""
    prefer_larger_batch: bool
    """Of equally flexible batch sizes take the larger one; false takes the smaller.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.9 to 0.19.7"""
    ignore_non_elastic_batch_info: bool
    """Overwrite batch keys found at the top of the config instead of refusing them.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.9 to 0.19.7"""
    version: float
    """Algorithm: 0.1 counts single GPUs; 0.2 (from 0.7.0 on) counts machines and knows model parallelism.\n\n- Accepts: a number\n- Known values: `0.1`, `0.2`\n- Default: `0.2`\n- Releases: 0.3.9 to 0.19.7"""

class ProgressiveLayerDropDict(TypedDict, total=False):
    """The engine looks both numbers up when it is on; the defaults are never used."""
    enabled: Required[bool]
    """Turn layer dropping on. The section is refused without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Releases: 0.3.1 to 0.19.7"""
    theta: float
    """Share of layers kept in the end; lower trains faster and less robustly.\n\n- Accepts: a number\n- Default: `0.5`\n- Releases: 0.3.1 to 0.19.7"""
    gamma: float
    """How fast the share falls from 1 to `theta`, per step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.3.1 to 0.19.7"""

class SparseAttentionDict(TypedDict, total=False):
    """Layout of block-sparse attention. `mode` decides which other keys are read; the rest have no effect."""
    mode: Literal["dense", "fixed", "variable", "bigbird", "bslongformer"] | Enum
    """Family of layouts; the word is compared letter by letter.\n\n- Accepts: one of `"dense"`, `"fixed"`, `"variable"`, `"bigbird"` or `"bslongformer"`\n- Default: `"fixed"`\n- Releases: 0.3.0 to 0.19.6"""
    block: int
    """Edge length of a block; larger blocks compute faster and cut coarser. All modes.\n\n- Accepts: an integer\n- Unit: tokens\n- Default: `16`\n- Releases: 0.3.0 to 0.19.6"""
    different_layout_per_head: bool
    """Give every head a layout of its own, which takes more memory. All modes but dense.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    num_local_blocks: int
    """Blocks in a local window. Mode fixed.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `4`\n- Releases: 0.3.0 to 0.19.6"""
    num_global_blocks: int
    """Blocks of a window that stand for it globally. Modes fixed and bigbird.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `1`\n- Releases: 0.3.0 to 0.19.6"""
    attention: Literal["unidirectional", "bidirectional"] | Enum
    """Whether tokens see only what precedes them. Modes fixed and variable.\n\n- Accepts: one of `"unidirectional"` or `"bidirectional"`\n- Default: `"bidirectional"`\n- Releases: 0.3.0 to 0.19.6"""
    horizontal_global_attention: bool
    """Let global blocks also attend to all others; only when bidirectional. Modes fixed and variable.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    num_different_global_patterns: int
    """Different choices of global blocks over the heads; above 1 needs a layout per head. Mode fixed.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.3.0 to 0.19.6"""
    num_random_blocks: int
    """Blocks chosen by chance in each row. Modes variable and bigbird.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `0`\n- Releases: 0.3.0 to 0.19.6"""
    local_window_blocks: Sequence[int]
    """Sizes of the local windows in turn; the last one repeats. Mode variable.\n\n- Accepts: a list of integers\n- Unit: blocks\n- Default: `[4]`\n- Releases: 0.3.0 to 0.19.6"""
    global_block_indices: Sequence[int]
    """Global blocks, or the first block of each global range. Modes variable and bslongformer.\n\n- Accepts: a list of integers\n- Default: `[0]`\n- Releases: 0.3.0 to 0.19.6"""
    global_block_end_indices: Sequence[int] | None
    """End (exclusive) of each range that `global_block_indices` begins; null makes each index one block.\n\n- Accepts: a list of integers or `null`\n- Releases: 0.3.0 to 0.19.6"""
    num_sliding_window_blocks: int
    """Blocks in the sliding window. Modes bigbird and bslongformer.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `3`\n- Releases: 0.3.0 to 0.19.6"""
