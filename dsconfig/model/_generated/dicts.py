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
    "Bf16Dict", "ChannelPruningDict", "ChannelPruningGroupDict", "ChannelPruningParametersDict",
    "CheckpointDict", "CheckpointWriterDict", "CometDict", "CommsLoggerDict", "CompileDict",
    "CompressionTrainingDict", "ConfigDict", "CsvMonitorDict", "CurriculumLearningDict",
    "CurriculumMetricDict", "DataEfficiencyDict", "DataRoutingDict", "DataSamplingDict", "DataTypesDict",
    "DatastatesCkptDict", "DenseRatioDict", "DynamicBatchingDict", "EigenvalueDict", "ElasticityDict",
    "ExpertParallelDict", "FlopsProfilerDict", "Fp16Dict", "Fp16MixedQuantizeDict", "GroupQuantizationDict",
    "HeadPruningDict", "HeadPruningGroupDict", "HeadPruningParametersDict", "HybridEngineDict",
    "InferenceActivationQuantizationDict", "InferenceCheckpointDict", "InferenceConfigDict",
    "InferenceMoEDict", "InferenceQKVQuantizationDict", "InferenceQuantizationDict",
    "InferenceTensorParallelDict", "InferenceWeightQuantizationDict", "LRRangeTestParamsDict",
    "LambParamsDict", "LayerReductionDict", "LayerSpecDict", "LayerTokenLearningRateDict", "LeafModuleDict",
    "LengthScheduleDict", "LionParamsDict", "MetricCurriculumDict", "MetricScheduleDict", "MixedFp16Dict",
    "ModelInfoDict", "MuonParamsDict", "NebulaDict", "OffloadOptimizerDict", "OffloadParamDict",
    "OneBitAdamParamsDict", "OneBitLambParamsDict", "OneBitParamsDict", "OneCycleParamsDict", "OptimizerDict",
    "OptimizerParamsDict", "ParallelWriteDict", "PartitionConfigDict", "PipelineDict",
    "ProgressiveLayerDropDict", "QuantizeAlgoDict", "QuantizeBitsDict", "QuantizeScheduleDict",
    "QuantizeTrainingDict", "QuantizedActivationsDict", "QuantizedWeightsDict", "RandomLtdDict",
    "RowPruningDict", "RowPruningGroupDict", "RowPruningParametersDict", "SchedulerDict",
    "SchedulerParamsDict", "SparseAttentionDict", "SparsePruningDict", "SparsePruningGroupDict",
    "SparsePruningParametersDict", "TensorParallelDict", "TensorParallelGroupDict", "TensorboardDict",
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
    """Maximum global gradient norm; larger gradients are scaled down. 0 disables clipping.\n\n- Accepts: a non-negative number\n- Default: `1.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    steps_per_print: int | None
    """Optimizer steps between two progress lines in the log; null logs none.\n\n- Accepts: an integer or `null`\n- Unit: steps\n- Releases: 0.1.0 and later"""
    wall_clock_breakdown: bool
    """Log the time of forward, backward and step; synchronizes the device. The flops profiler enables it too.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    memory_breakdown: bool
    """Log device memory at several points of a step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    dump_state: bool
    """Print the whole configuration once the engine is initialized.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    log_level: Literal["debug", "info", "warning", "error", "critical"] | Enum | None
    """Level of DeepSpeed's logger; null leaves it unchanged.\n\n- Accepts: one of `"debug"`, `"info"`, `"warning"`, `"error"`, `"critical"` or `null`\n- Note: case does not matter\n- Releases: 0.19.3 and later"""
    disable_python_gc: bool
    """Disable Python's garbage collector during training, because its pauses come at a different time on every rank. Reference cycles then stay in memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    vocabulary_size: int | None
    """Vocabulary size of the model. DeepSpeed only warns if it is not a multiple of 8, which tensor cores prefer.\n\n- Accepts: an integer or `null`\n- Releases: 0.1.0 and later"""
    zero_allow_untested_optimizer: bool
    """Allow ZeRO with an optimizer that DeepSpeed has not been tested with.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    zero_force_ds_cpu_optimizer: bool
    """With optimizer offload, reject every optimizer other than DeepSpeed's CPU kernels; false allows slower ones.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.8.3 and later"""
    graph_harvesting: bool
    """Replay the repeated operations of the bf16 optimizer as CUDA graphs.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.12.6 to 0.19.7"""
    communication_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """Data type in which gradients are reduced. Half precision halves the communication volume, fp32 loses no precision; null follows the training precision.\n\n- Accepts: one of `"fp16"`, `"bf16"`, `"fp32"` or `null`\n- Note: case does not matter\n- Releases: 0.5.8 and later"""
    fp32_allreduce: bool
    """Reduce gradients in fp32, whatever the training precision.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: `communication_data_type`\n- Releases: 0.1.0 to 0.5.7"""
    seq_parallel_communication_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """Data type in which gradients are reduced over the ranks of a sequence-parallel group.\n\n- Accepts: one of `"fp16"`, `"bf16"`, `"fp32"` or `null`\n- Default: `"fp32"`\n- Note: case does not matter\n- Releases: 0.16.5 and later"""
    seq_parallel_comm_data_type: Literal["fp16", "bf16", "fp32"] | Enum | None | DType
    """Earlier name of `seq_parallel_communication_data_type`.\n\n- Accepts: one of `"fp16"`, `"bf16"`, `"fp32"` or `null`\n- Default: `"fp32"`\n- Replacement: `seq_parallel_communication_data_type`\n- Note: case does not matter\n- Releases: 0.11.2 to 0.16.4"""
    prescale_gradients: bool
    """Divide gradients before the sum over the ranks instead of after it. Avoids fp16 overflow on many ranks, but small gradients can underflow.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    gradient_predivide_factor: float
    """With `prescale_gradients`: divisor applied before the sum over the ranks; the rest of the division follows the sum.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.2.0 and later"""
    gradient_allreduce_op: Literal["mean", "sum"] | Enum
    """Average gradients over the data-parallel ranks, or leave them summed. DeepSpeed rejects `"sum"` with ZeRO stage 3, ZenFlow and DeepCompile.\n\n- Accepts: `"mean"` or `"sum"`\n- Default: `"mean"`\n- Note: case does not matter\n- Releases: 0.19.6 and later"""
    disable_allgather: bool
    """Replaced the all-gather of parameters with broadcasts in early releases. Later releases accept the key and ignore it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Note: accepted but has no effect\n- Releases: 0.1.0 and later"""
    allgather_size: float
    """All-gather bucket size for the boolean form of `zero_optimization`; read only if `zero_optimization` is `true`.\n\n- Accepts: an integer\n- Unit: elements\n- Default: `500000000`\n- Deprecated: since 0.2.0\n- Replacement: `zero_optimization.allgather_bucket_size`\n- Releases: 0.1.0 and later"""
    sparse_gradients: bool
    """Reduce the gradients of `torch.nn.Embedding` as sparse tensors (indices and rows).\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.1.0 to 0.19.7"""
    use_data_before_expert_parallelism: bool
    """Rank layout for mixture-of-experts models: consecutive ranks form data-parallel groups first and expert-parallel groups second, instead of the reverse.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.12.4 and later"""
    train_batch_size: int | Literal["auto"] | None
    """Global batch size per optimizer step: micro-batch size × gradient accumulation steps × data-parallel size. Derived if absent; this key or `train_micro_batch_size_per_gpu` is required.\n\n- Accepts: a positive integer or `null`\n- Unit: samples\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    train_micro_batch_size_per_gpu: int | Literal["auto"] | None
    """Samples per rank in one forward and backward pass. Larger values use the GPU better and need more activation memory. Derived from the other two batch keys if absent.\n\n- Accepts: a positive integer or `null`\n- Unit: samples\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    gradient_accumulation_steps: int | Literal["auto"] | None
    """Micro-batches per rank whose gradients are accumulated before an optimizer step: larger batches without more memory. Derived from the other two batch keys if absent; 1 if only one of them is set.\n\n- Accepts: a positive integer or `null`\n- Unit: micro-batches\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    managed_gradient_accumulation: bool
    """The engine counts micro-batches and updates only at the end of a batch. If false, every `engine.step()` is an update and the caller counts.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.4 and later"""
    sequence_parallel_size: int
    """Ranks that share one sequence (Ulysses). Divides the world size in the batch arithmetic. Together with `data_parallel_size`, DeepSpeed builds a device mesh from both. 1 if absent. Releases up to 0.19.2 accept any value and use 1 unless it is a number.\n\n- Accepts: a positive integer\n- Unit: ranks\n- Releases: 0.15.0 and later"""
    data_parallel_size: int
    """Data-parallel ranks of the device mesh, which DeepSpeed builds only if `sequence_parallel_size` is set too.\n\n- Accepts: a positive integer\n- Unit: ranks\n- Releases: 0.15.0 and later"""
    dataloader_drop_last: bool
    """Drop the last, incomplete batch in the data loader that the engine builds from `training_data`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.2 and later"""
    fp16: model.Fp16 | Fp16Dict
    """Mixed precision in IEEE half precision (fp16), with loss scaling.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    bf16: model.Bf16 | Bf16Dict
    """Mixed precision in bfloat16, which needs no loss scaling.\n\n- Accepts: an object\n- Releases: 0.6.0 and later"""
    bfloat16: model.Bf16 | Bf16Dict
    """Earlier name of `bf16`; read only if `bf16` is absent.\n\n- Accepts: an object\n- Deprecated: since 0.6.0\n- Replacement: `bf16`\n- Releases: 0.5.5 and later"""
    amp: model.Amp | AmpDict
    """Mixed precision with NVIDIA Apex.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Replacement: `torch_autocast`\n- Releases: 0.3.0 to 0.19.7"""
    torch_autocast: model.TorchAutocast | TorchAutocastDict
    """Mixed precision with PyTorch's autocast.\n\n- Accepts: an object\n- Releases: 0.17.2 and later"""
    data_types: model.DataTypes | DataTypesDict
    """Data types of buffers, accumulated gradients and parameters.\n\n- Accepts: an object\n- Releases: 0.7.6 and later"""
    optimizer: model.Optimizer | OptimizerDict
    """The optimizer that DeepSpeed builds, unless the script passes one.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    scheduler: model.Scheduler | SchedulerDict
    """The learning-rate scheduler that DeepSpeed builds. From 0.14.5 on, a scheduler passed by the script replaces it; up to 0.14.4, the script's scheduler is used only if this section has no `type`.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    zero_optimization: model.ZeroOptimization | ZeroOptimizationDict
    """ZeRO: sharding of training state. The boolean of the first release is still accepted: true is stage 1, false is stage 0.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    aio: model.Aio | AioDict
    """Asynchronous NVMe I/O.\n\n- Accepts: an object\n- Releases: 0.3.15 and later"""
    activation_checkpointing: model.ActivationCheckpointing | ActivationCheckpointingDict
    """Recomputation of activations in the backward pass instead of keeping them.\n\n- Accepts: an object\n- Releases: 0.2.0 and later"""
    pipeline: model.Pipeline | PipelineDict
    """Communication and recomputation of the pipeline engine; `PipelineModule` sets the stages.\n\n- Accepts: an object\n- Releases: 0.3.0 and later"""
    tensor_parallel: model.TensorParallel | TensorParallelDict
    """Tensor parallelism (AutoTP): splits the weights of each layer over ranks.\n\n- Accepts: an object\n- Releases: 0.16.4 and later"""
    expert_parallel: model.ExpertParallel | ExpertParallelDict
    """Expert parallelism (AutoEP): distributes the experts of Hugging Face models over ranks.\n\n- Accepts: an object\n- Releases: 0.19.2 and later"""
    checkpoint: model.Checkpoint | CheckpointDict
    """Saving and loading of checkpoints.\n\n- Accepts: an object\n- Releases: 0.3.11 and later"""
    nebula: model.Nebula | NebulaDict
    """Asynchronous checkpoints through Azure Nebula.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.7.0 to 0.19.6"""
    datastates_ckpt: model.DatastatesCkpt | DatastatesCkptDict
    """Checkpoints through DataStates-LLM; any value other than `false` enables it.\n\n- Accepts: an object\n- Releases: 0.18.1 and later"""
    tensorboard: model.Tensorboard | TensorboardDict
    """Writes loss, learning rate and loss scale for TensorBoard.\n\n- Accepts: an object\n- Releases: 0.1.0 and later"""
    wandb: model.Wandb | WandbDict
    """Sends loss, learning rate and loss scale to Weights & Biases.\n\n- Accepts: an object\n- Releases: 0.6.6 and later"""
    csv_monitor: model.CsvMonitor | CsvMonitorDict
    """Writes loss, learning rate and loss scale to CSV files.\n\n- Accepts: an object\n- Releases: 0.6.6 and later"""
    comet: model.Comet | CometDict
    """Sends loss, learning rate and loss scale to Comet.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""
    flops_profiler: model.FlopsProfiler | FlopsProfilerDict
    """Profiles operations, parameters and latency of each module.\n\n- Accepts: an object\n- Releases: 0.3.11 and later"""
    comms_logger: model.CommsLogger | CommsLoggerDict
    """Logs size and bandwidth of collectives.\n\n- Accepts: an object\n- Releases: 0.7.0 and later"""
    timers: model.Timers | TimersDict
    """Timers of the engine: how throughput is measured.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""
    autotuning: model.Autotuning | AutotuningDict
    """Searches for the fastest ZeRO stage and micro-batch size with short trial runs.\n\n- Accepts: an object\n- Releases: 0.5.7 and later"""
    data_efficiency: model.DataEfficiency | DataEfficiencyDict
    """Curriculum sampling, dynamic batches, random token dropping.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    curriculum_learning: model.CurriculumLearning | CurriculumLearningDict
    """Earlier form of curriculum learning, by sequence length.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning`\n- Releases: 0.5.0 to 0.19.7"""
    compression_training: model.CompressionTraining | CompressionTrainingDict
    """Pruning and quantization during training.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.7.0 to 0.19.6"""
    quantize_training: model.QuantizeTraining | QuantizeTrainingDict
    """Quantization during training (MoQ, Mixture of Quantization).\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Replacement: `compression_training.weight_quantization`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    eigenvalue: Mapping[str, Any] | None
    """No release reads the key here; the section belongs in `quantize_training`. Some releases reject it by name.\n\n- Accepts: any value\n- Rejected: from 0.19.8 on, whatever the value\n- Note: accepted but has no effect\n- Releases: 0.3.1 to 0.19.7"""
    weight_quantization: model.WeightQuantization | WeightQuantizationDict
    """Weight quantization for ZeRO-Inference.\n\n- Accepts: an object\n- Releases: 0.10.3 and later"""
    compile: model.Compile | CompileDict
    """Settings for `torch.compile` up to 0.14.3 and for DeepCompile from 0.16.6 on. Releases in between do not read it.\n\n- Accepts: an object\n- Releases: 0.13.2 to 0.14.3, 0.16.6 and later"""
    hybrid_engine: model.HybridEngine | HybridEngineDict
    """Alternates training and generation with one set of weights, for RLHF.\n\n- Accepts: an object\n- Releases: 0.9.0 and later"""
    elasticity: model.Elasticity | ElasticityDict
    """Elastic training: batch sizes that work with many GPU counts.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.3.9 to 0.19.7"""
    progressive_layer_drop: model.ProgressiveLayerDrop | ProgressiveLayerDropDict
    """Randomly skips more and more layers during training.\n\n- Accepts: an object\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.3.1 to 0.19.7"""
    sparse_attention: model.SparseAttention | SparseAttentionDict
    """Block-sparse attention: layout of the blocks that are computed.\n\n- Accepts: an object\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.3.0 to 0.19.6"""

class Fp16Dict(TypedDict, total=False):
    """Mixed precision in fp16 (IEEE half precision), with loss scaling against underflow."""
    enabled: bool | Literal["auto"]
    """Train in fp16; excludes `bf16`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    auto_cast: bool
    """Cast the floating-point inputs of `forward` to fp16.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    loss_scale: float
    """Static loss scale, which keeps small gradients from underflow; 0 selects dynamic loss scaling. From 0.18.8 on DeepSpeed rejects booleans.\n\n- Accepts: a non-negative number\n- Default: `0.0`\n- Releases: 0.1.0 and later"""
    initial_scale_power: int
    """Dynamic loss scaling starts at 2 to this power. A value that is too high causes skipped steps at the beginning.\n\n- Accepts: an integer\n- Default: `16`\n- Releases: 0.1.0 and later"""
    loss_scale_window: int
    """Steps without overflow after which the dynamic loss scale doubles. From 0.19.3 on it must be positive if fp16 uses dynamic loss scaling.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.1.0 and later"""
    hysteresis: int
    """Overflows that are tolerated before the dynamic loss scale is halved.\n\n- Accepts: an integer\n- Unit: overflows\n- Default: `2`\n- Releases: 0.1.0 and later"""
    consecutive_hysteresis: bool
    """Reset the `hysteresis` count after each step without overflow, so that only consecutive overflows count.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.3 and later"""
    min_loss_scale: int
    """Minimum of the dynamic loss scale. From 0.19.3 on it must be positive if fp16 uses dynamic loss scaling.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.1.0 and later"""
    fp16_master_weights_and_grads: bool
    """Keep master weights and gradients in fp16 too: half the memory, less accuracy. Requires ZeRO and CPU Adam.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.0 and later"""

class Bf16Dict(TypedDict, total=False):
    """Mixed precision in bfloat16, which needs no loss scaling."""
    enabled: bool | Literal["auto"]
    """Train in bfloat16; excludes `fp16`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.5.5 and later"""
    immediate_grad_update: bool
    """Accumulate each gradient in fp32 as soon as it is computed, instead of after the backward pass; frees the bfloat16 copy early.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.13.3 and later"""
    check_grad_overflow: bool
    """Check gradients for inf and NaN before a step, and skip the step if there are any.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.1 and later"""
    bf16_master_weights_and_grads: bool
    """Keep master weights and gradients in bfloat16 too; for ZeRO stages 1 to 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.3 and later"""
    bf16_optimizer_states: bool
    """Keep the optimizer's moments in bfloat16; only with `bf16_master_weights_and_grads`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.3 and later"""

class AmpDict(TypedDict, total=False):
    """Mixed precision with NVIDIA Apex; other keys go to `apex.amp.initialize`."""
    enabled: Required[bool | Literal["auto"]]
    """Initialize model and optimizer with Apex. DeepSpeed rejects the section without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Replacement: `torch_autocast.enabled`\n- "auto": resolved by Transformers\n- Releases: 0.3.0 to 0.19.7"""
    opt_level: str
    """Apex optimization level: O0 casts nothing, O1 safe operations, O2 nearly everything, O3 everything.\n\n- Accepts: a string\n- Known values: `O0`, `O1`, `O2`, `O3`\n- Default: `"O1"`\n- "auto": resolved by Transformers\n- Releases: 0.3.0 to 0.19.7"""

class TorchAutocastDict(TypedDict, total=False):
    """Run the forward pass under `torch.autocast`, managed by the engine."""
    enabled: bool
    """Run the forward pass under autocast.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.2 and later"""
    dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | DType
    """Data type of autocast; if absent, PyTorch's default for the device.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"` or `"bfloat16"`\n- Releases: 0.17.2 and later"""
    lower_precision_safe_modules: list[str] | tuple[str, ...]
    """Full names of module classes whose parameters may be communicated in the autocast data type; if absent, linear layers and convolutions.\n\n- Accepts: a list of strings\n- Releases: 0.17.2 and later"""

class DataTypesDict(TypedDict, total=False):
    """Data types of buffers, accumulated gradients and parameters."""
    grad_accum_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Data type in which gradients are accumulated over micro-batches; null follows the model. fp32 loses no precision and takes twice the memory.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"`, `"bfloat16"` or `null`\n- Releases: 0.7.6 and later"""
    param_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Data type of the parameters. Must agree with `fp16` or `bf16`; null follows them.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"`, `"bfloat16"` or `null`\n- Releases: 0.19.2 and later"""
    buffer_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | Enum | None | DType
    """Cast the buffers of the model to this data type; null leaves them unchanged.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.int8"`, `"int8"`, `"torch.bfloat16"`, `"bf16"`, `"bfloat16"` or `null`\n- Releases: 0.19.2 and later"""
    keep_in_fp32_modules: list[str] | tuple[str, ...] | Literal["auto"]
    """Buffers that stay in fp32: a list of name patterns, which may be empty, or "auto" for the list that a Transformers model defines.\n\n- Accepts: a list of strings or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.8 and later"""

class OptimizerDict(TypedDict, total=False):
    """The optimizer that the engine builds if `deepspeed.initialize` gets none."""
    type: str | None
    """Name of the optimizer: one of DeepSpeed's own (case does not matter) or a class of `torch.optim` (exact name). Without `type` the whole section has no effect.\n\n- Accepts: a string or `null`\n- Known values: `Adam`, `AdamW`, `Adagrad`, `Lamb`, `Lion`, `Muon`, `MuAdam`, `MuAdamW`, `MuSGD`, `OneBitAdam`, `OneBitLamb`, `ZeroOneAdam`\n- Note: case does not matter\n- Releases: 0.1.0 and later"""
    params: model.OptimizerParams | OptimizerParamsDict | AdamParamsDict | AdamWParamsDict | AdagradParamsDict | LambParamsDict | LionParamsDict | MuonParamsDict | OneBitParamsDict | OneBitAdamParamsDict | OneBitLambParamsDict | ZeroOneAdamParamsDict | Mapping[str, Any] | None
    """Keyword arguments of the optimizer: the params class of its type, or, for a class of `torch.optim` or `mup`, a mapping with the arguments of that class.\n\n- Accepts: an object, an object or `null`\n- Releases: 0.1.0 and later"""
    legacy_fusion: bool
    """Flatten parameters in the same way as the first fp16 wrapper.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class OptimizerParamsDict(TypedDict, total=False):
    """Params that all optimizer types share."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""

class AdamParamsDict(TypedDict, total=False):
    """Adam: the fused GPU kernel, the CPU kernel with offload, or PyTorch's own."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Use the AMSGrad variant; only PyTorch's implementation supports it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """Decouple weight decay from the gradient (AdamW), even for type Adam; false is L2 regularization. Type AdamW ignores false.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    torch_adam: bool
    """Use `torch.optim` instead of DeepSpeed's kernels: slower, but all of PyTorch's options work.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.1 and later"""
    foreach: bool | None
    """With `torch_adam`: force or forbid PyTorch's multi-tensor implementation; null lets PyTorch choose.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.6 and later"""
    set_grad_none: bool
    """Set gradients to None in `zero_grad` instead of zeroing them; the CPU kernel does not have this argument.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    fp32_optimizer_states: bool
    """Keep the moments of the CPU kernel in fp32; with half-precision parameters, false halves their memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.0 and later"""
    adamw_mode: bool
    """The CPU kernel's name for `adam_w_mode`. The engine sets it; use `adam_w_mode` instead.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: for internal use by DeepSpeed\n- Releases: 0.3.1 and later"""

class AdamWParamsDict(TypedDict, total=False):
    """AdamW: Adam with decoupled weight decay."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Use the AMSGrad variant; only PyTorch's implementation supports it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """Decouple weight decay from the gradient (AdamW), even for type Adam; false is L2 regularization. Type AdamW ignores false.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    torch_adam: bool
    """Use `torch.optim` instead of DeepSpeed's kernels: slower, but all of PyTorch's options work.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.1 and later"""
    foreach: bool | None
    """With `torch_adam`: force or forbid PyTorch's multi-tensor implementation; null lets PyTorch choose.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.6 and later"""
    set_grad_none: bool
    """Set gradients to None in `zero_grad` instead of zeroing them; the CPU kernel does not have this argument.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.1 and later"""
    fp32_optimizer_states: bool
    """Keep the moments of the CPU kernel in fp32; with half-precision parameters, false halves their memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.0 and later"""
    adamw_mode: bool
    """The CPU kernel's name for `adam_w_mode`. The engine sets it; use `adam_w_mode` instead.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: for internal use by DeepSpeed\n- Releases: 0.3.1 and later"""

class AdagradParamsDict(TypedDict, total=False):
    """Adagrad: PyTorch's own, or the CPU kernel with offload, whose params differ."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.01`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-10`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Only with offload, where it has no effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.5 and later"""
    fp32_optimizer_states: bool
    """Only with offload: keep the sum of squares in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.5 and later"""
    lr_decay: float
    """Only without offload: decay of the learning rate.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.5.5 and later"""
    initial_accumulator_value: float
    """Only without offload: initial value of the sum of squares.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.5.5 and later"""

class LambParamsDict(TypedDict, total=False):
    """LAMB: Adam with a step size per layer, for very large batches; GPU only."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    eps_inside_sqrt: bool
    """Add `eps` inside the square root instead of after it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    max_coeff: float
    """Maximum of the scaling coefficient of a layer's update.\n\n- Accepts: a number\n- Default: `10.0`\n- Releases: 0.1.0 and later"""
    min_coeff: float
    """Minimum of the scaling coefficient of a layer's update.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.1.0 and later"""
    amsgrad: bool
    """Exists only for compatibility with Adam; the kernel rejects true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class LionParamsDict(TypedDict, total=False):
    """Lion: updates by the sign of the momentum; it needs half the state of Adam, and no `eps`."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Weight of the momentum in an update, and decay rate of the momentum.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    set_grad_none: bool
    """Set gradients to None in `zero_grad` instead of zeroing them; the CPU kernel does not have this argument.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.11.0 and later"""
    fp32_optimizer_states: bool
    """Only with offload: keep the momentum in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.11.0 and later"""

class MuonParamsDict(TypedDict, total=False):
    """Muon for matrices, Adam for everything else."""
    lr: float | Literal["auto"]
    """Learning rate of both the Muon and the Adam part; if absent, 0.02 for Muon and 0.0003 for Adam.\n\n- Accepts: a number\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    muon_lr: float
    """Learning rate of the parameters that Muon updates (matrices); if absent, `lr`.\n\n- Accepts: a number\n- Releases: 0.18.3 and later"""
    adam_lr: float
    """Learning rate of the parameters that Adam updates; if absent, `lr`.\n\n- Accepts: a number\n- Releases: 0.18.3 and later"""
    momentum: float
    """Momentum coefficient of Muon.\n\n- Accepts: a number\n- Default: `0.95`\n- Releases: 0.17.6 and later"""
    ns_method: Literal["gram", "standard"] | Enum
    """Newton-Schulz variant that orthogonalizes the update: with Gram matrices, which is faster, or the published one.\n\n- Accepts: `"gram"` or `"standard"`\n- Default: `"gram"`\n- Releases: 0.19.0 and later"""
    per_head_muon: bool
    """Orthogonalize the update of attention projections separately for each head.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    betas: Sequence[float] | Literal["auto"]
    """For Adam: decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.95]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """For Adam: term added to the denominator.\n\n- Accepts: a number\n- Default: `1e-10`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    adam_w_mode: bool
    """For Adam: decouple weight decay from the gradient.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""
    torch_adam: bool
    """For Adam: use `torch.optim` instead of DeepSpeed's kernels.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""
    fp32_optimizer_states: bool
    """For Adam on the CPU: keep the moments in fp32.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""

class OneBitParamsDict(TypedDict, total=False):
    """Params that the optimizers with compressed communication share; these optimizers do not work with ZeRO."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` inside the square root instead of after it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Exists only for compatibility with Adam; the optimizer rejects true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library is CUDA-aware: it can access GPU memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Communication library for the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""

class OneBitAdamParamsDict(TypedDict, total=False):
    """1-bit Adam: after a warm-up, only the sign of the momentum is communicated."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` inside the square root instead of after it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Exists only for compatibility with Adam; the optimizer rejects true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library is CUDA-aware: it can access GPU memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Communication library for the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    freeze_step: float
    """Warm-up steps without compression; too few harm convergence.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.3.0 to 0.19.6"""

class OneBitLambParamsDict(TypedDict, total=False):
    """1-bit LAMB: after a warm-up, only the sign of the momentum is communicated."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` inside the square root instead of after it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Exists only for compatibility with Adam; the optimizer rejects true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library is CUDA-aware: it can access GPU memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Communication library for the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    freeze_step: float
    """Warm-up steps without compression; too few harm convergence.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.3.0 to 0.19.6"""
    max_coeff: float
    """Maximum of the scaling coefficient of a layer's update.\n\n- Accepts: a number\n- Default: `10.0`\n- Releases: 0.3.16 to 0.19.6"""
    min_coeff: float
    """Minimum of the scaling coefficient of a layer's update.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.3.16 to 0.19.6"""
    coeff_beta: float
    """Decay rate of the running average of the scaling coefficient.\n\n- Accepts: a number\n- Default: `0.9`\n- Releases: 0.3.16 to 0.19.6"""
    factor_max: float
    """Maximum correction factor of the scaling coefficient after the warm-up.\n\n- Accepts: a number\n- Default: `4.0`\n- Releases: 0.3.16 to 0.19.6"""
    factor_min: float
    """Minimum correction factor of the scaling coefficient after the warm-up.\n\n- Accepts: a number\n- Default: `0.5`\n- Releases: 0.3.16 to 0.19.6"""
    factor_threshold: float
    """Maximum change of the correction factor between two steps.\n\n- Accepts: a number\n- Default: `0.1`\n- Releases: 0.3.16 to 0.19.6"""

class ZeroOneAdamParamsDict(TypedDict, total=False):
    """0/1 Adam: communication is compressed from the start, and does not take place in every step."""
    lr: float | Literal["auto"]
    """Learning rate of all parameters; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    weight_decay: float | Literal["auto"]
    """Weight decay coefficient; if absent, the optimizer's default.\n\n- Accepts: a number\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    max_grad_norm: float
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use `gradient_clipping`.\n\n- Accepts: a number\n- Default: `0.0`\n- Replacement: `gradient_clipping`\n- Releases: 0.1.0 and later"""
    betas: Sequence[float] | Literal["auto"]
    """Decay rates of the running averages of the gradient and its square.\n\n- Accepts: a list of numbers\n- Default: `[0.9, 0.999]`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    eps: float | Literal["auto"]
    """Term added to the denominator to avoid division by zero.\n\n- Accepts: a number\n- Default: `1e-08`\n- "auto": resolved by Transformers\n- Releases: 0.1.0 and later"""
    bias_correction: bool
    """Correct the bias of running averages that start at zero.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 to 0.19.6"""
    eps_inside_sqrt: bool
    """Add `eps` inside the square root instead of after it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    amsgrad: bool
    """Exists only for compatibility with Adam; the optimizer rejects true.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    cuda_aware: bool
    """The MPI library is CUDA-aware: it can access GPU memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    comm_backend_name: str
    """Communication library for the compressed messages.\n\n- Accepts: a string\n- Known values: `nccl`, `mpi`, `hccl`, `compressed`\n- Default: `"nccl"`\n- Releases: 0.3.14 to 0.19.6"""
    var_freeze_step: float
    """Last step at which the variance is updated.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `100000`\n- Releases: 0.6.1 to 0.19.6"""
    var_update_scaler: int
    """Growth of the interval between variance updates.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `16`\n- Releases: 0.6.1 to 0.19.6"""
    local_step_scaler: int
    """Steps after which the interval between synchronizations grows.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `32678`\n- Releases: 0.6.1 to 0.19.6"""
    local_step_clipper: int
    """Maximum interval between synchronizations.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `16`\n- Releases: 0.6.1 to 0.19.6"""

class SchedulerDict(TypedDict, total=False):
    """The learning-rate scheduler that the engine builds and advances after every optimizer step."""
    type: str | None
    """Name of the scheduler: one of DeepSpeed's own or a class of `torch.optim.lr_scheduler`. Classes of PyTorch work only in fp32 without ZeRO. Without `type` the whole section has no effect.\n\n- Accepts: a string or `null`\n- Known values: `LRRangeTest`, `OneCycle`, `WarmupLR`, `WarmupDecayLR`, `WarmupCosineLR`\n- Releases: 0.1.0 and later"""
    params: model.SchedulerParams | SchedulerParamsDict | LRRangeTestParamsDict | OneCycleParamsDict | WarmupLRParamsDict | WarmupDecayLRParamsDict | WarmupCosineLRParamsDict | Mapping[str, Any]
    """Keyword arguments of the scheduler: the params class of its type, or, for a class of PyTorch, a mapping with the arguments of that class. Required, if only as an empty object; no release validates it when the config is loaded.\n\n- Accepts: an object or an object\n- Releases: 0.1.0 and later"""

class SchedulerParamsDict(TypedDict, total=False):
    """Params that all of DeepSpeed's own schedulers share."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""

class LRRangeTestParamsDict(TypedDict, total=False):
    """Learning-rate range test: increase the learning rate until training diverges, to find its maximum."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    lr_range_test_min_lr: float | Sequence[float]
    """Initial learning rate.\n\n- Accepts: a number or a list of numbers\n- Default: `0.001`\n- Releases: 0.1.0 and later"""
    lr_range_test_step_size: int
    """Steps between two increases.\n\n- Accepts: a positive integer\n- Unit: steps\n- Default: `2000`\n- Releases: 0.1.0 and later"""
    lr_range_test_step_rate: float
    """Increase of the learning rate per `lr_range_test_step_size`, as a multiple of the initial learning rate.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.1.0 and later"""
    lr_range_test_staircase: bool
    """Increase in jumps instead of at every step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""

class OneCycleParamsDict(TypedDict, total=False):
    """1cycle policy: increase, decrease, then slowly decay; the momentum changes in the opposite direction."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    cycle_min_lr: Required[float | Sequence[float]]
    """Learning rate at the start and the end of the cycle.\n\n- Accepts: a number or a list of numbers\n- Default: required\n- Releases: 0.1.0 and later"""
    cycle_max_lr: Required[float | Sequence[float]]
    """Maximum learning rate of the cycle.\n\n- Accepts: a number or a list of numbers\n- Default: required\n- Releases: 0.1.0 and later"""
    cycle_first_step_size: int
    """Steps from the minimum to the maximum of the cycle.\n\n- Accepts: any value\n- Unit: steps\n- Default: `2000`\n- Releases: 0.1.0 and later"""
    cycle_second_step_size: int | None
    """Steps from the maximum back to the minimum; null uses `cycle_first_step_size`.\n\n- Accepts: any value\n- Unit: steps\n- Releases: 0.1.0 and later"""
    cycle_first_stair_count: int
    """Stairs while the learning rate increases; 0 is a smooth slope.\n\n- Accepts: a number\n- Default: `0`\n- Releases: 0.1.0 and later"""
    cycle_second_stair_count: int | None
    """Stairs while the learning rate decreases; null uses `cycle_first_stair_count`.\n\n- Accepts: a number or `null`\n- Releases: 0.1.0 and later"""
    decay_step_size: int
    """Steps per decay interval after the cycle; 0 disables decay.\n\n- Accepts: a number\n- Unit: steps\n- Default: `0`\n- Releases: 0.1.0 and later"""
    decay_lr_rate: float
    """Decay rate of the learning rate per decay interval.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.1.0 and later"""
    cycle_momentum: bool
    """Cycle the momentum too; overwrites the optimizer's betas.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.1.0 and later"""
    cycle_min_mom: float
    """Momentum at the maximum learning rate.\n\n- Accepts: a number\n- Default: `0.8`\n- Releases: 0.1.0 and later"""
    cycle_max_mom: float
    """Momentum at the start and the end of the cycle.\n\n- Accepts: a number\n- Default: `0.9`\n- Releases: 0.1.0 and later"""
    decay_mom_rate: float
    """Change of the momentum per decay interval.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.1.0 and later"""

class WarmupLRParamsDict(TypedDict, total=False):
    """Warm up to a learning rate, then keep it."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    warmup_min_lr: float | Sequence[float] | Literal["auto"]
    """Initial learning rate.\n\n- Accepts: a number or a list of numbers\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_max_lr: float | Sequence[float] | Literal["auto"] | None
    """Learning rate after the warm-up; null uses the optimizer's.\n\n- Accepts: a number, a list of numbers or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Warm-up steps; 1 has the effect of 2.\n\n- Accepts: a positive integer\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the warm-up: logarithmic or linear. DeepSpeed replaces any other value with log and warns.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.5.7 and later"""

class WarmupDecayLRParamsDict(TypedDict, total=False):
    """Warm up to a learning rate, then decay linearly to zero."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    warmup_min_lr: float | Sequence[float] | Literal["auto"]
    """Initial learning rate.\n\n- Accepts: a number or a list of numbers\n- Default: `0.0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_max_lr: float | Sequence[float] | Literal["auto"] | None
    """Learning rate after the warm-up; null uses the optimizer's.\n\n- Accepts: a number, a list of numbers or `null`\n- Default: `0.001`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.1 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Warm-up steps; 1 has the effect of 2.\n\n- Accepts: a positive integer\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.1.0 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the warm-up: logarithmic or linear. DeepSpeed replaces any other value with log and warns.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.5.7 and later"""
    total_num_steps: Required[int | float | Literal["auto"]]
    """Steps of the whole schedule, including the warm-up.\n\n- Accepts: a number\n- Unit: steps\n- Default: required\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.1 and later"""

class WarmupCosineLRParamsDict(TypedDict, total=False):
    """Warm up to the optimizer's learning rate, then follow a cosine; rates are fractions of that rate."""
    last_batch_iteration: int
    """Step from which the schedule resumes; -1 starts a new one.\n\n- Accepts: a number\n- Default: `-1`\n- Releases: 0.1.0 and later"""
    total_num_steps: Required[int | float | Literal["auto"]]
    """Steps of the whole schedule, including the warm-up.\n\n- Accepts: a number\n- Unit: steps\n- Default: required\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.12.3 and later"""
    warmup_min_ratio: float
    """Initial learning rate, as a fraction of the optimizer's.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.12.3 and later"""
    warmup_num_steps: int | Literal["auto"]
    """Warm-up steps; 1 has the effect of 2.\n\n- Accepts: a positive integer\n- Unit: steps\n- Default: `1000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.12.3 and later"""
    cos_min_ratio: float
    """Final learning rate, as a fraction of the optimizer's.\n\n- Accepts: a number\n- Default: `0.0001`\n- Releases: 0.12.3 and later"""
    warmup_type: Literal["log", "linear"] | Enum
    """Shape of the warm-up: logarithmic or linear. DeepSpeed replaces any other value with log and warns.\n\n- Accepts: any value\n- Known values: `log`, `linear`\n- Default: `"log"`\n- Releases: 0.12.3 and later"""

class ZeroOptimizationDict(TypedDict, total=False):
    """Shards the training state over the data-parallel ranks."""
    stage: Literal[0, 1, 2, 3, "auto"] | Enum
    """ZeRO stage: shards nothing (0), optimizer state (1), also gradients (2), also parameters (3).\n\n- Accepts: one of `0`, `1`, `2` or `3`\n- Default: `0`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.2.0 and later"""
    contiguous_gradients: bool
    """Copy gradients into one contiguous buffer as they are produced, to avoid memory fragmentation.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    reduce_scatter: bool
    """Use reduce-scatter, so that each rank receives only its own averaged gradients, instead of an all-reduce.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    reduce_bucket_size: float | Literal["auto"]
    """Gradient elements per reduction. Smaller values need less memory, larger ones use the network better.\n\n- Accepts: a positive integer\n- Unit: elements\n- Default: `500000000`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.2.0 and later"""
    use_multi_rank_bucket_allreduce: bool
    """Use one all-reduce for the gradients of several ranks instead of one reduce per rank.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.4 and later"""
    allgather_partitions: bool
    """Collect updated parameters with an all-gather; false uses a broadcast from every rank.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.2.0 and later"""
    allgather_bucket_size: float
    """Elements per all-gather. From 0.11.3 on it has no effect if torch can gather into one tensor, which it can since 1.13.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `500000000`\n- Releases: 0.2.0 and later"""
    overlap_comm: bool | None
    """Overlap the reduction of gradients with the backward pass: hides communication and needs memory for several buckets. If absent or null: true at stage 3, false below.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.2.0 and later"""
    compute_grad_norm: bool
    """Compute the global gradient norm. False works at stages 1 and 2 only, and disables clipping.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.7 and later"""
    load_from_fp32_weights: bool
    """Restore master weights from the fp32 copy in the checkpoint; false restores them from the half-precision weights.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.0 and later"""
    elastic_checkpoint: bool
    """Save checkpoints that another number of ranks can load. DeepSpeed warns about it at stage 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.19.3\n- Replacement: `the universal checkpoint format`\n- Releases: 0.3.3 and later"""
    offload_param: model.OffloadParam | OffloadParamDict | None
    """Offload parameters to host memory or NVMe while they are not needed; stage 3.\n\n- Accepts: an object or `null`\n- Releases: 0.3.15 and later"""
    offload_optimizer: model.OffloadOptimizer | OffloadOptimizerDict | None
    """Offload optimizer state to host memory or NVMe, and the optimizer step to the CPU.\n\n- Accepts: an object or `null`\n- Releases: 0.3.15 and later"""
    zenflow: model.ZenFlow | ZenFlowDict | None
    """ZenFlow: update important gradients on the GPU at once, and the others later on the CPU.\n\n- Accepts: an object or `null`\n- Releases: 0.17.5 and later"""
    cpu_offload: bool | None
    """Earlier switch that offloads optimizer state to host memory.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.3.15\n- Replacement: `zero_optimization.offload_optimizer`\n- Releases: 0.3.0 and later"""
    cpu_offload_param: bool | None
    """Switch that offloads parameters to host memory; deprecated since its first release.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.7.0\n- Replacement: `zero_optimization.offload_param`\n- Releases: 0.7.0 and later"""
    cpu_offload_params: bool
    """Earlier switch that offloads parameters to host memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.3.15\n- Replacement: `zero_optimization.offload_param`\n- Releases: 0.3.12 to 0.6.7"""
    cpu_offload_use_pin_memory: bool | None
    """Earlier switch for pinned host memory; accepted, without effect.\n\n- Accepts: `true` or `false` or `null`\n- Deprecated: since 0.3.15\n- Replacement: ``pin_memory` in `offload_param` and `offload_optimizer``\n- Note: accepted but has no effect\n- Releases: 0.3.12 to 0.3.14, 0.7.0 and later"""
    sub_group_size: float
    """Parameters that the stage-3 optimizer updates at a time; smaller values need less temporary memory.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `1000000000`\n- Releases: 0.3.12 and later"""
    stage3_prefetch_bucket_size: float | Literal["auto"]
    """Parameter elements prefetched before their use. Larger values hide more communication and need more memory.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `50000000`\n- Aliases: `prefetch_bucket_size` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.12 and later"""
    stage3_param_persistence_threshold: float | Literal["auto"]
    """Parameters smaller than this are not partitioned, which avoids many small messages.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `100000`\n- Aliases: `param_persistence_threshold` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.12 and later"""
    stage3_model_persistence_threshold: float
    """Maximum number of elements that may stay unpartitioned because of `stage3_param_persistence_threshold`.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `9223372036854775807`\n- Aliases: `model_persistence_threshold` (0.7.0 and later)\n- Releases: 0.7.0 and later"""
    stage3_max_live_parameters: float
    """Maximum number of gathered parameter elements per GPU before any are released. Smaller values save memory, larger ones save communication.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `1000000000`\n- Aliases: `max_live_parameters` (0.7.0 and later)\n- Releases: 0.3.12 and later"""
    stage3_max_reuse_distance: float
    """Do not release a gathered parameter that is used again within this many elements.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `1000000000`\n- Aliases: `max_reuse_distance` (0.7.0 and later)\n- Releases: 0.3.12 and later"""
    stage3_gather_16bit_weights_on_model_save: bool | Literal["auto"]
    """Gather the partitioned weights so that `save_16bit_model` can write one file; needs memory and time.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `gather_16bit_weights_on_model_save` (0.7.0 and later)\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.6.0 and later"""
    stage3_gather_fp16_weights_on_model_save: bool
    """Earlier name of `stage3_gather_16bit_weights_on_model_save`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Deprecated: since 0.6.0\n- Replacement: `zero_optimization.stage3_gather_16bit_weights_on_model_save`\n- Releases: 0.3.14 and later"""
    stage3_module_granularity_threshold: int
    """Fetch a module as a unit if each of its submodules has fewer parameters than this; saves hooks in models with many small modules. 0 disables it.\n\n- Accepts: an integer\n- Unit: elements per module\n- Default: `0`\n- Aliases: `module_granularity_threshold` (0.16.0 and later)\n- Releases: 0.16.0 and later"""
    stage3_use_all_reduce_for_fetch_params: bool
    """Fetch parameters with an all-reduce: more communication, less copying on the host.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `use_all_reduce_for_fetch_params` (0.14.3 and later)\n- Releases: 0.14.3 and later"""
    stage3_allgather_sequential: bool
    """Gather parameters one at a time without a common buffer: lower peak memory, more messages.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `allgather_sequential` (0.18.5 and later)\n- Releases: 0.18.5 and later"""
    ignore_unused_parameters: bool
    """Ignore parameters without a gradient in a step; false raises an error for them (stage 2).\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.4.0 and later"""
    find_unused_parameters: bool
    """Predecessor of `ignore_unused_parameters`, with the opposite meaning.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: `zero_optimization.ignore_unused_parameters`\n- Releases: 0.3.16 to 0.3.16"""
    legacy_stage1: bool
    """Use the first implementation of stage 1. It was removed in 0.5.9; from then on true raises an error.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 and later"""
    round_robin_gradients: bool
    """Stages 1 and 2 with offload: distribute the copying of gradients over the ranks; faster with many accumulation steps.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.4 and later"""
    parameter_alignment: bool
    """Stages 1 and 2: align every parameter to 16 bytes in its flat buffer, at the cost of padding.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.7 and later"""
    zero_hpz_partition_size: int
    """ZeRO++: ranks, usually those of one node, that keep a secondary partition of the parameters. Less communication between nodes, more memory. 1 disables it.\n\n- Accepts: a non-negative integer\n- Unit: ranks\n- Default: `1`\n- Releases: 0.10.0 and later"""
    zero_quantized_weights: bool
    """ZeRO++: quantize parameters for the all-gather. Halves the communication volume at some loss of accuracy.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    zero_quantized_nontrainable_weights: bool
    """ZeRO++: keep frozen weights quantized, as with LoRA.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.2 and later"""
    zero_quantized_gradients: bool
    """ZeRO++: quantize gradients for their reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    zeropp_loco_param: model.ZeroppLocoParam | ZeroppLocoParamDict | None
    """ZeRO++: error feedback for quantized gradients (LoCo).\n\n- Accepts: an object or `null`\n- Rejected: from 0.19.8 on, whatever the value\n- Releases: 0.16.2 to 0.19.7"""
    mics_shard_size: int
    """MiCS: number of ranks over which parameters are sharded, instead of all ranks; -1 disables it.\n\n- Accepts: an integer\n- Unit: ranks\n- Default: `-1`\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.9.2 to 0.19.6"""
    mics_hierarchical_params_gather: bool
    """MiCS: gather parameters first between nodes, then within them.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Rejected: from 0.19.7 on, whatever the value\n- Releases: 0.9.2 to 0.19.6"""
    memory_efficient_linear: bool
    """Stage 3: linear layers do not save their weight for the backward pass.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.9.0 and later"""
    pipeline_loading_checkpoint: bool
    """Stage 3: load the shards of a checkpoint one after another, which limits host memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.1 and later"""
    override_module_apply: bool
    """Stage 3: `nn.Module.apply` gathers parameters before it accesses them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.10.1 and later"""
    log_trace_cache_warnings: bool
    """Stage 3: log when the recorded order of modules becomes invalid and prefetching starts over.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.4 and later"""
    enable_sanity_checks: bool
    """Check internal consistency during training; slow, for debugging.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.6 and later"""
    save_muon_momentum_buffer_in_memory: bool
    """Stage 3 with Muon and NVMe offload: keep the momentum in memory instead of swapping it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.9 and later"""
    leaf_module: model.LeafModule | LeafModuleDict
    """Stage 3: modules that are fetched as a unit. Null uses the defaults.\n\n- Accepts: an object\n- Releases: 0.18.0 and later"""

class OffloadParamDict(TypedDict, total=False):
    """Offload of parameters while no layer needs them; stage 3 only."""
    device: Literal["none", "cpu", "nvme", "auto"] | Enum
    """Where parameters are kept: on the GPU ("none"), in host memory, or on an NVMe drive. Offload saves GPU memory and costs transfer time. Releases 0.5.7 to 0.6.7 reject the section without this key.\n\n- Accepts: one of `"none"`, `"cpu"` or `"nvme"`\n- Default: `"none"`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    nvme_path: str | None | os.PathLike[str]
    """Directory on the drive; required with device "nvme".\n\n- Accepts: a path or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    buffer_count: int
    """Number of host buffers for transfers of parameters to and from the drive.\n\n- Accepts: a non-negative integer\n- Default: `5`\n- Releases: 0.3.15 and later"""
    buffer_size: float
    """Size of one of these buffers; the largest parameter must fit.\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `100000000`\n- Releases: 0.3.15 and later"""
    max_in_cpu: float
    """Parameter elements that stay in host memory with device "nvme".\n\n- Accepts: a non-negative integer\n- Unit: elements\n- Default: `1000000000`\n- Releases: 0.3.15 and later"""
    pin_memory: bool
    """Pin the host buffers: faster transfers, less memory for everything else.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""

class OffloadOptimizerDict(TypedDict, total=False):
    """Offload of optimizer states; the update then runs on the CPU."""
    device: Literal["none", "cpu", "nvme", "auto"] | Enum
    """Where optimizer state is kept: on the GPU ("none"), in host memory, or, at stage 3, on an NVMe drive. Releases 0.5.7 to 0.6.7 reject the section without this key.\n\n- Accepts: one of `"none"`, `"cpu"` or `"nvme"`\n- Default: `"none"`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    nvme_path: str | None | os.PathLike[str]
    """Directory on the drive; required with device "nvme".\n\n- Accepts: a path or `null`\n- "auto": resolved by Transformers and Accelerate\n- Releases: 0.3.15 and later"""
    buffer_count: int
    """Number of host buffers for transfers of optimizer state to and from the drive: at least as many as the optimizer has tensors per parameter, four with Adam.\n\n- Accepts: a non-negative integer\n- Default: `4`\n- Releases: 0.3.15 and later"""
    pin_memory: bool
    """Pin the host buffers: faster transfers, less memory for everything else.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""
    pipeline_read: bool
    """Read the next tile of state from the drive while the current one is updated.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    pipeline_write: bool
    """Write the previous tile back while the current one is updated.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    fast_init: bool
    """Initialize the optimizer faster if its state is offloaded to NVMe.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    ratio: float
    """Fraction of the optimizer state and update that is offloaded to the CPU; the rest stays on the GPU. Values below 1 require stage 3.\n\n- Accepts: a number from 0 to 1\n- Default: `1.0`\n- Releases: 0.12.3 and later"""
    super_offload: bool
    """Use the offload strategy for superchips, whose CPU and GPU are tightly coupled; stage 3.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.0 and later"""
    cpuadam_cores_perc: float
    """With `super_offload`: fraction of the CPU cores that run the update.\n\n- Accepts: a number from 0 to 1\n- Default: `0.8`\n- Releases: 0.18.0 and later"""

class ZenFlowDict(TypedDict, total=False):
    """Updates the most important gradient columns on the GPU at once, and the others later on the CPU."""
    topk_ratio: float
    """Fraction of gradient columns that count as important; larger values cost GPU memory and time.\n\n- Accepts: a number greater than 0 and less than 1\n- Default: `0.1`\n- Releases: 0.17.5 and later"""
    select_strategy: Literal["auto", "step", "epoch"] | Enum
    """Unit of the interval between two selections of columns.\n\n- Accepts: one of `"auto"`, `"step"` or `"epoch"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    select_interval: int | Literal["auto"]
    """Steps or epochs for which a selection is used.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    update_interval: int | Literal["auto"]
    """Steps over which unimportant gradients are accumulated before they are applied. Larger values mean less communication and staler weights.\n\n- Accepts: a positive integer or `"auto"`\n- Unit: steps\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.17.5 and later"""
    overlap_step: bool
    """Overlap the CPU update with the next batch on the GPU.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.5 and later"""
    offload: bool
    """Offload the state of the important columns to the CPU too; saves GPU memory, costs transfers.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.5 and later"""
    auto_ratio: float
    """Threshold by which "auto" picks the update interval.\n\n- Accepts: a number from 0 to 1\n- Default: `0.99`\n- Releases: 0.17.5 and later"""
    full_warm_up_rounds: int
    """Initial rounds in which every gradient is applied at once.\n\n- Accepts: an integer\n- Unit: rounds\n- Default: `0`\n- Releases: 0.17.5 and later"""
    pt_reserved_cores_perc: float
    """Fraction of the CPU cores reserved for PyTorch; the others run the update.\n\n- Accepts: a number from 0 to 1\n- Default: `0.5`\n- Releases: 0.17.6 and later"""
    steps_per_epoch: int | None
    """Set by the engine when it starts.\n\n- Accepts: an integer or `null`\n- Note: for internal use by DeepSpeed\n- Releases: 0.17.5 and later"""

class ZeroppLocoParamDict(TypedDict, total=False):
    """Error feedback for quantized gradients. Not validated when the config is loaded."""
    err_beta: Required[float]
    """Weight of the latest quantization error in its moving average; 0.8 is a common value.\n\n- Accepts: a number\n- Default: required\n- Releases: 0.16.2 to 0.19.7"""
    reset_T: Required[int]
    """Steps after which the accumulated error is reset; 1024 is a common value.\n\n- Accepts: an integer\n- Unit: steps\n- Default: required\n- Releases: 0.16.2 to 0.19.7"""

class LeafModuleDict(TypedDict, total=False):
    """Leaf modules, which stage 3 fetches as a unit; usually mixture-of-experts blocks."""
    classes: list[str] | tuple[str, ...] | str
    """Classes of leaf modules, by short or full name.\n\n- Accepts: a list of strings or a string\n- Default: `["transformers.models.mixtral.modeling_mixtral.MixtralSpars…`\n- Releases: 0.18.0 and later"""
    names: list[str] | tuple[str, ...] | str
    """Exact names of leaf modules in the model.\n\n- Accepts: a list of strings or a string\n- Default: `[]`\n- Releases: 0.18.0 and later"""
    name_suffixes: list[str] | tuple[str, ...] | str
    """Suffixes of the names of leaf modules.\n\n- Accepts: a list of strings or a string\n- Default: `[]`\n- Releases: 0.18.0 and later"""

class AioDict(TypedDict, total=False):
    """Asynchronous NVMe reads and writes, used by ZeRO-Infinity and the fast checkpoint writer."""
    block_size: float
    """Size of one I/O request. Larger requests give more throughput on fast drives, smaller ones distribute better.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `1048576`\n- Releases: 0.3.15 and later"""
    queue_depth: int
    """I/O requests that one thread keeps in flight.\n\n- Accepts: an integer\n- Unit: requests\n- Default: `8`\n- Releases: 0.3.15 and later"""
    intra_op_parallelism: int
    """Threads that share a single read or write.\n\n- Accepts: an integer\n- Unit: threads\n- Default: `1`\n- Releases: 0.16.4 and later"""
    thread_count: int
    """Earlier name of `intra_op_parallelism`; later releases ignore it without a warning.\n\n- Accepts: an integer\n- Unit: threads\n- Default: `1`\n- Replacement: `aio.intra_op_parallelism`\n- Releases: 0.3.15 to 0.16.3"""
    single_submit: bool
    """Submit requests to the kernel one at a time instead of many per call; slower, easier to trace.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.15 and later"""
    overlap_events: bool
    """Submit further requests before earlier ones complete.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.15 and later"""
    use_gds: bool
    """Transfer data directly between drive and GPU with NVIDIA GPUDirect Storage; requires a CUDA device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.15.0 and later"""

class ActivationCheckpointingDict(TypedDict, total=False):
    """Settings of `deepspeed.checkpointing`; no effect unless the script calls its `configure`."""
    partition_activations: bool
    """Partition checkpointed activations over the model-parallel ranks: less memory, one all-gather in the backward pass.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    contiguous_memory_optimization: bool
    """Copy partitioned activations into one contiguous buffer to avoid memory fragmentation; requires `number_checkpoints`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    cpu_checkpointing: bool
    """Offload partitioned activations to host memory; saves GPU memory and costs transfers.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    number_checkpoints: int | None
    """Number of activation checkpoints in one forward pass; determines the size of the contiguous buffers.\n\n- Accepts: an integer or `null`\n- Releases: 0.2.0 and later"""
    synchronize_checkpoint_boundary: bool
    """Synchronize the device at each checkpoint; makes timings exact and training slower.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""
    profile: bool
    """Log the forward and backward time of each checkpointed function.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.2.0 and later"""

class PipelineDict(TypedDict, total=False):
    """Pipeline parallelism. Keys that DeepSpeed does not read here are arguments of `PipelineModule`."""
    stages: int | Literal["auto"]
    """Accepted without effect: `PipelineModule` sets the number of stages.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own; accepted but has no effect\n- Releases: 0.3.0 and later"""
    partition: str
    """Accepted without effect: `PipelineModule(partition_method=...)` sets the partitioning of layers.\n\n- Accepts: a string\n- Default: `"best"`\n- Note: accepted but has no effect\n- Releases: 0.3.0 and later"""
    seed_layers: bool
    """Accepted without effect: use `PipelineModule(seed_layers=...)`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Note: accepted but has no effect\n- Releases: 0.3.0 and later"""
    activation_checkpoint_interval: int
    """Number of layers between activation checkpoints; 0 uses the setting of `PipelineModule`.\n\n- Accepts: an integer\n- Unit: layers\n- Default: `0`\n- Releases: 0.3.0 and later"""
    pipe_partitioned: bool
    """Partition the activations sent between stages over the tensor-parallel ranks: less communication, one all-gather.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.3 and later"""
    grad_partitioned: bool
    """Partition the gradients sent between stages over the tensor-parallel ranks.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.12.3 and later"""
    use_reentrant: bool
    """Use PyTorch's reentrant activation checkpointing; false uses the non-reentrant implementation.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.10.3 and later"""

class TensorParallelDict(TypedDict, total=False):
    """Splits the weights of each layer over ranks; combines with ZeRO up to stage 2."""
    autotp_size: int
    """Tensor-parallel degree: ranks that share each layer. 0 disables it.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.16.4 and later"""
    tp_overlap_comm: bool
    """Overlap the all-reduce of a layer with computation.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    vocab_parallel_lm_head: bool | None
    """Split the LM head over the vocabulary: true requires it, false disables it, null follows the model's plan.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.8 and later"""
    vocab_parallel_ce_backend: Literal["torch", "liger"] | Enum
    """Cross-entropy implementation for a split LM head; liger is faster and requires the `liger-kernel` package.\n\n- Accepts: `"torch"` or `"liger"`\n- Default: `"torch"`\n- Releases: 0.19.8 and later"""
    preset_model: str | None
    """Built-in partition rules of a model family; an unknown name selects none.\n\n- Accepts: a string or `null`\n- Known values: `llama`, `bloom`, `chatglm`, `mixtral`, `deepseek_v2`, `qwen2`, `phi3`\n- Note: case does not matter\n- Releases: 0.18.6 and later"""
    partition_config: model.PartitionConfig | PartitionConfigDict | None
    """Custom partition rules, for models without a preset.\n\n- Accepts: an object or `null`\n- Releases: 0.18.6 and later"""
    injection_policy_tuple: list[str] | tuple[str, ...] | None
    """Names of the layers after which the ranks' results are all-reduced, for models that AutoTP cannot parse.\n\n- Accepts: a list or `null`\n- Releases: 0.16.4 and later"""
    keep_module_on_host: bool
    """Keep loaded weights in host memory; slower, for models too large for the device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.4 and later"""
    kernel_inject: bool
    """Inject inference kernels. Exists because the parser is shared with inference.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `replace_with_kernel_inject` (0.16.4 and later)\n- Releases: 0.16.4 and later"""
    tp: model.TensorParallelGroup | TensorParallelGroupDict
    """Inner settings of the parser that training shares with the inference engine.\n\n- Accepts: an object\n- Aliases: `tensor_parallel` (0.16.4 and later)\n- Releases: 0.16.4 and later"""
    dtype: object
    """Data type of the model, a torch.dtype (by default torch.float16): no JSON value is accepted.\n\n- Accepts: no JSON value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""

class PartitionConfigDict(TypedDict, total=False):
    """Custom partition rules. Not validated until the engine starts."""
    tp_size: int
    """Tensor-parallel degree of the rule set; `autotp_size` overrides it.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.18.6 and later"""
    layer_specs: Sequence[model.LayerSpec | LayerSpecDict]
    """Partition rules in order; the first one that matches a parameter applies.\n\n- Accepts: a list of objects\n- Default: `[]`\n- Releases: 0.18.6 and later"""
    embedding_partition_dim: int
    """Dimension along which embeddings are split.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.18.6 and later"""
    lm_head_patterns: list[str] | tuple[str, ...]
    """Name patterns of the LM head.\n\n- Accepts: a list of strings\n- Default: `["lm_head", "embed_out"]`\n- Releases: 0.18.6 and later"""
    use_default_specs: bool
    """Add these rules to those of `preset_model`; false replaces them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.18.6 and later"""
    strict_mode: bool
    """Raise an error if a linear layer matches no rule, instead of leaving it unpartitioned.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.18.6 and later"""

class LayerSpecDict(TypedDict, total=False):
    """A partition rule for some layers."""
    patterns: list[str] | tuple[str, ...]
    """Regular expressions, matched from the start of a parameter's name.\n\n- Accepts: a list of strings\n- Default: `[]`\n- Releases: 0.18.6 and later"""
    partition_type: Literal["column", "row", "skip"] | Enum
    """Split the output dimension (column), the input dimension (row), or keep the whole parameter on every rank (skip).\n\n- Accepts: one of `"column"`, `"row"` or `"skip"`\n- Default: `"column"`\n- Note: case does not matter\n- Releases: 0.18.6 and later"""
    shape: Sequence[int | Sequence[int]] | None
    """Shape to which a fused weight is viewed before it is split: -1 is inferred, a nested list gives unequal parts.\n\n- Accepts: a list of an integer or a list of integers or `null`\n- Releases: 0.18.6 and later"""
    partition_dim: int | None
    """Dimension to split, in that view; null means 0 for column and 1 for row.\n\n- Accepts: an integer or `null`\n- Releases: 0.18.6 and later"""
    model_types: list[str] | tuple[str, ...] | None
    """Model types to which the rule applies; null means all.\n\n- Accepts: a list of strings or `null`\n- Releases: 0.18.6 and later"""
    gather_output: bool
    """Gather the output of a column split on every rank; costs one collective.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.4 and later"""
    grad_allreduce: bool
    """With skip: sum the parameter's gradient over the ranks, because each rank computes only its part.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""

class TensorParallelGroupDict(TypedDict, total=False):
    """Inner settings, which DeepSpeed parses with the class of the inference engine."""
    tp_size: int
    """Tensor-parallel degree as recorded by the parser; set `autotp_size` to enable tensor-parallel training.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.16.4 and later"""
    tp_grain_size: int
    """Multiple to which split MLP and LM-head sizes are kept; not active in training yet.\n\n- Accepts: an integer\n- Unit: elements\n- Default: `1`\n- Releases: 0.16.4 and later"""
    mpu: object
    """Model-parallel unit, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""
    tp_group: object
    """Process group, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.16.4 and later"""

class ExpertParallelDict(TypedDict, total=False):
    """Expert parallelism (AutoEP). Not validated until the engine starts, and then only if `enabled`."""
    enabled: bool
    """Replace the MoE layers of the model with expert-parallel ones.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.2 and later"""
    autoep_size: int
    """Expert-parallel degree: ranks that share one set of experts. Must divide the number of experts and the ranks of a pipeline stage.\n\n- Accepts: a positive integer\n- Default: `1`\n- Releases: 0.19.2 and later"""
    expert_tensor_parallel_size: int
    """Tensor-parallel degree inside an expert; only 1 is supported.\n\n- Accepts: a positive integer\n- Default: `1`\n- Releases: 0.19.3 and later"""
    validate_folding_routing: bool
    """Validate the routing at run time if expert and tensor parallelism share ranks; slow.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.3 and later"""
    async_split_plan: bool
    """Compute the sizes of the all-to-all asynchronously; not supported with tensor parallelism.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    preset_model: Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"] | Enum | None
    """Built-in description of a model family; null detects it.\n\n- Accepts: one of `"mixtral"`, `"qwen3_moe"`, `"qwen3_5_moe"`, `"deepseek_v2"`, `"deepseek_v3"`, `"minimax_m3"` or `null`\n- Releases: 0.19.2 and later"""
    use_grouped_mm: bool
    """Run all experts of a rank in one grouped matrix multiplication; false loops over them.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.2 and later"""
    disable_triton_grouped_mm: bool
    """Do not use the Triton kernel on devices older than Hopper.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.4 and later"""
    gate_up_impl: Literal["separate", "fused"] | Enum
    """Run the gate and up projections separately, or as one grouped matrix multiplication.\n\n- Accepts: `"separate"` or `"fused"`\n- Default: `"separate"`\n- Releases: 0.19.8 and later"""
    score_apply: Literal["auto", "pre", "post"] | Enum
    """Apply the router's scores before or after the experts; auto follows the preset.\n\n- Accepts: one of `"auto"`, `"pre"` or `"post"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    combine_impl: Literal["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"] | Enum
    """Implementation that combines the expert outputs of a token; the fused one does not support tensor parallelism or DeepEP.\n\n- Accepts: one of `"auto"`, `"weighted_sum"`, `"fused_weighted_sum"` or `"legacy_bmm"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    row_weighting_impl: Literal["auto", "eager", "fused"] | Enum
    """Implementation that weights rows by their scores; fused requires `comm_backend` deepep.\n\n- Accepts: one of `"auto"`, `"eager"` or `"fused"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.8 and later"""
    comm_backend: Literal["comm", "deepep"] | Enum
    """DeepSpeed's all-to-all, or DeepEP's kernels, which require the `deep_ep` package.\n\n- Accepts: `"comm"` or `"deepep"`\n- Default: `"comm"`\n- Releases: 0.19.7 and later"""
    comm_num_sm: int
    """Streaming multiprocessors for DeepEP; more make communication faster and leave fewer for computation.\n\n- Accepts: a positive integer\n- Default: `12`\n- Releases: 0.19.7 and later"""
    comm_qp_margin: int
    """Additional RDMA queue pairs for DeepEP, beyond those it needs.\n\n- Accepts: a non-negative integer\n- Default: `4`\n- Releases: 0.19.7 and later"""
    comm_max_tokens_per_rank: int
    """Maximum number of tokens that one rank routes; sets the size of DeepEP's buffers. Must be above 0 with DeepEP.\n\n- Accepts: a non-negative integer\n- Unit: tokens\n- Default: `0`\n- Releases: 0.19.7 and later"""
    num_expert_groups: int | None
    """Number of expert groups for group-limited routing; null reads it from the model.\n\n- Accepts: a positive integer or `null`\n- Releases: 0.19.2 and later"""
    num_limited_groups: int | None
    """Number of groups from which a token may choose experts, at most `num_expert_groups`; null reads it from the model.\n\n- Accepts: a positive integer or `null`\n- Releases: 0.19.2 and later"""
    score_func: Literal["auto", "softmax", "sigmoid"] | Enum
    """Function that turns the router's output into scores; auto follows the preset.\n\n- Accepts: one of `"auto"`, `"softmax"` or `"sigmoid"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    top_k: int | Literal["auto"]
    """Number of experts per token; auto reads it from the model's config.\n\n- Accepts: an integer or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    route_norm: bool | None
    """Normalize the selected scores to a sum of 1; null follows the preset.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.2 and later"""
    route_scale: float
    """Factor on the router's scores.\n\n- Accepts: a number\n- Default: `1.0`\n- Releases: 0.19.2 and later"""
    routed_scaling_factor: float | Literal["auto"]
    """Factor on the routed experts' sum; auto reads it from the model's config.\n\n- Accepts: a number or `"auto"`\n- Default: `"auto"`\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.19.2 and later"""
    load_balance_coeff: None
    """Reserved: DeepSpeed rejects any value other than null.\n\n- Accepts: `null`\n- Releases: 0.19.2 and later"""
    moe_layer_pattern: str | None
    """Regular expression that matches the module names of MoE layers.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    router_pattern: str | None
    """Attribute of a MoE layer that holds its router.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_pattern: str | None
    """Attribute of a MoE layer that holds its experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w1: str | None
    """Name of an expert's gate weight, or of the fused gate and up weight.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w2: str | None
    """Name of an expert's down projection.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_w3: str | None
    """Name of an expert's up projection. Null: it is part of `expert_w1`. If absent, the preset decides.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    expert_activation: Literal["swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"] | Enum | None
    """Activation inside an expert; null follows the preset.\n\n- Accepts: one of `"swiglu"`, `"geglu_tanh"`, `"swiglu_clamped"`, `"swiglu_oai"` or `null`\n- Releases: 0.19.8 and later"""
    num_experts_attr: str | None
    """Attribute of the model's config with the number of experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    top_k_attr: str | None
    """Attribute of the model's config with the number of experts per token.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    has_shared_experts: bool | None
    """Whether the model has shared experts, which process every token; null follows the preset.\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.19.2 and later"""
    shared_experts_pattern: str | None
    """Attribute of a MoE layer that holds the shared experts.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""
    shared_experts_gate_pattern: str | None
    """Attribute of a MoE layer that holds the shared experts' gate.\n\n- Accepts: a string or `null`\n- Releases: 0.19.2 and later"""

class CheckpointDict(TypedDict, total=False):
    """Saving and loading of checkpoints."""
    tag_validation: Literal["WARN", "IGNORE", "FAIL"] | Enum
    """Reaction if ranks save under different tags, because they then do not find each other's files.\n\n- Accepts: one of `"WARN"`, `"IGNORE"` or `"FAIL"`\n- Default: `"WARN"`\n- Note: case does not matter\n- Releases: 0.3.11 and later"""
    load_universal: bool
    """Load checkpoints in the universal format, which works with any number of ranks.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    use_node_local_storage: bool
    """Every node writes its own files; for nodes without a shared file system.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.5 and later"""
    checkpoint_serialization: bool
    """Intended to save in the zip format of `torch.save`; accepted without effect.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: accepted but has no effect\n- Releases: 0.17.1 and later"""
    writer: model.CheckpointWriter | CheckpointWriterDict | None
    """Fast or decoupled checkpoint writer; null uses `torch.save`.\n\n- Accepts: an object or `null`\n- Releases: 0.17.1 and later"""
    parallel_write: model.ParallelWrite | ParallelWriteDict
    """Which ranks write in parallel.\n\n- Accepts: an object\n- Releases: 0.7.4 and later"""

class CheckpointWriterDict(TypedDict, total=False):
    """Fast or decoupled checkpoint writer; even an empty object enables the fast writer."""
    type: Literal["MOCK", "PYTHON", "FAST"] | Enum | None
    """Writer: FAST uses asynchronous I/O, PYTHON plain files, MOCK writes nothing. DeepSpeed accepts null when the config is loaded, but then has no writer when it saves the first checkpoint.\n\n- Accepts: one of `"MOCK"`, `"PYTHON"`, `"FAST"` or `null`\n- Default: `"FAST"`\n- Note: case does not matter\n- Releases: 0.17.1 and later"""
    decoupled: bool
    """Write in a separate process while training continues.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.1 and later"""
    io_buffer_size: float
    """Size of the host buffer for data that is written to the drive.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `67108864`\n- Releases: 0.17.1 and later"""
    io_buffer_double: bool
    """Double buffering: fill one half of the buffer while the other is written.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.1 and later"""
    show_statistics: bool
    """Log the throughput of each file when it is closed.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.1 and later"""
    data_parallel: Literal["REPLICA", "SOCKET", "MACHINE"] | Enum | None
    """Data-parallel ranks that share the writing; null uses one rank.\n\n- Accepts: one of `"REPLICA"`, `"SOCKET"`, `"MACHINE"` or `null`\n- Note: case does not matter\n- Releases: 0.17.1 and later"""
    io_multiplier: int
    """Factor on the number of ranks that write in parallel.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.17.1 and later"""

class ParallelWriteDict(TypedDict, total=False):
    """Writing of checkpoints by several ranks in parallel."""
    pipeline_stage: bool
    """Every rank of a pipeline stage writes a part of its layer files; false lets the first rank write all.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.4 and later"""

class NebulaDict(TypedDict, total=False):
    """Asynchronous checkpoints through the Azure Nebula service."""
    enabled: bool
    """Save checkpoints with Nebula.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    persistent_storage_path: str | None | os.PathLike[str]
    """Directory for persistent checkpoints.\n\n- Accepts: a string or `null`\n- Releases: 0.7.0 to 0.19.6"""
    persistent_time_interval: int
    """Time between two persistent checkpoints.\n\n- Accepts: an integer\n- Unit: seconds\n- Default: `100`\n- Releases: 0.7.0 to 0.19.6"""
    num_of_version_in_retention: int
    """Number of persistent checkpoints to keep; older ones are deleted.\n\n- Accepts: an integer\n- Default: `2`\n- Releases: 0.7.0 to 0.19.6"""
    enable_nebula_load: bool
    """Load checkpoints from Nebula too, not only from disk.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.0 to 0.19.6"""
    nebula_load_path: str | None | os.PathLike[str]
    """Directory from which Nebula loads; null uses `persistent_storage_path`.\n\n- Accepts: a string or `null`\n- Releases: 0.7.0 to 0.19.6"""

class DatastatesCkptDict(TypedDict, total=False):
    """Asynchronous checkpoints through DataStates-LLM; other keys belong to that package."""
    host_cache_size: float
    """Pinned host memory for checkpoints that wait to be written; if absent, the DataStates package decides.\n\n- Accepts: a number\n- Unit: GB\n- Releases: 0.18.1 and later"""

class TensorboardDict(TypedDict, total=False):
    """Event files for TensorBoard; requires the `tensorboard` package."""
    enabled: bool
    """Write event files, on rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.1.0 and later"""
    output_path: str | os.PathLike[str]
    """Output directory; empty means below the working directory of the script.\n\n- Accepts: a string\n- Default: `""`\n- Releases: 0.1.0 and later"""
    job_name: str
    """Name of the run, used as a subdirectory of `output_path`; runs with the same name share it.\n\n- Accepts: a string\n- Default: `"DeepSpeedJobName"`\n- Releases: 0.1.0 and later"""

class WandbDict(TypedDict, total=False):
    """Weights & Biases; requires the `wandb` package."""
    enabled: bool
    """Send metrics to Weights & Biases, from rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.6.6 and later"""
    group: str | None
    """Group of the run in Weights & Biases.\n\n- Accepts: a string or `null`\n- Releases: 0.6.6 and later"""
    team: str | None
    """Team or user that owns the run; null uses the account's default entity.\n\n- Accepts: a string or `null`\n- Releases: 0.6.6 and later"""
    project: str
    """Project of the run.\n\n- Accepts: a string\n- Default: `"deepspeed"`\n- Releases: 0.6.6 and later"""

class CsvMonitorDict(TypedDict, total=False):
    """One CSV file per metric."""
    enabled: bool
    """Write CSV files, on rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.6.6 and later"""
    output_path: str | os.PathLike[str]
    """Output directory; empty means below the working directory of the script.\n\n- Accepts: a string\n- Default: `""`\n- Releases: 0.6.6 and later"""
    job_name: str
    """Name of the run, used as a subdirectory of `output_path`; runs with the same name append to the same files.\n\n- Accepts: a string\n- Default: `"DeepSpeedJobName"`\n- Releases: 0.6.6 and later"""

class CometDict(TypedDict, total=False):
    """Logging to Comet; requires the `comet_ml` package. Keys that are not set default to Comet's own settings."""
    enabled: bool
    """Send metrics to Comet, from rank 0 only.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.14.3 and later"""
    samples_log_interval: int
    """Samples between two submissions; smaller values give finer curves and more network traffic.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `100`\n- Releases: 0.14.3 and later"""
    project: str | None
    """Project of the experiment.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    workspace: str | None
    """Workspace of the project.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    api_key: str | None
    """API key of the account. Configs are easily shared: prefer the environment variable COMET_API_KEY.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    experiment_name: str | None
    """Display name of the experiment.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    experiment_key: str | None
    """Key of the experiment, 32 to 50 letters and digits; a restarted job with the same key continues its curves.\n\n- Accepts: a string or `null`\n- Releases: 0.14.3 and later"""
    online: bool | None
    """True sends to the server, false keeps the experiment on disk, null uses Comet's default (online).\n\n- Accepts: `true` or `false` or `null`\n- Releases: 0.14.3 and later"""
    mode: str | None
    """Continue the experiment of `experiment_key`, start a new one, or whichever is possible.\n\n- Accepts: a string or `null`\n- Known values: `get`, `create`, `get_or_create`\n- Releases: 0.14.3 and later"""

class FlopsProfilerDict(TypedDict, total=False):
    """Reports the operations, parameters and latency of each module in one step."""
    enabled: bool
    """Profile one step, which becomes slow; also enables `wall_clock_breakdown`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.11 and later"""
    recompute_fwd_factor: float
    """Extra forward passes to count in each step: 1.0 when all activations are recomputed.\n\n- Accepts: a number\n- Default: `0.0`\n- Releases: 0.9.3 and later"""
    profile_step: int
    """Global step to profile; choose one after the warm-up.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.3.12 and later"""
    module_depth: int
    """Depth of the module tree to which totals are printed; -1 prints all levels.\n\n- Accepts: an integer\n- Default: `-1`\n- Releases: 0.3.11 and later"""
    top_modules: int
    """Number of modules to list at each depth, most expensive first.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.3.11 and later"""
    detailed: bool
    """Print the profile of every module in the tree, not only the totals.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.12 and later"""
    output_file: str | None | os.PathLike[str]
    """File for the report; null prints it.\n\n- Accepts: a string or `null`\n- Releases: 0.4.0 and later"""
    start_step: int
    """First step to profile.\n\n- Accepts: an integer\n- Default: `5`\n- Replacement: `flops_profiler.profile_step`\n- Releases: 0.3.11 to 0.3.11"""
    end_step: int
    """Step at which profiling ends.\n\n- Accepts: an integer\n- Default: `6`\n- Replacement: `flops_profiler.profile_step`\n- Releases: 0.3.11 to 0.3.11"""

class CommsLoggerDict(TypedDict, total=False):
    """Logs size, time and bandwidth of every collective that goes through `deepspeed.comm`."""
    enabled: bool
    """Log collectives. Each of them is synchronized, which slows training down.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    prof_all: bool
    """Log every operation; `prof_ops` is then ignored.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.0 and later"""
    prof_ops: list[str] | tuple[str, ...]
    """Operations to log if `prof_all` is false, by their names in `deepspeed.comm`.\n\n- Accepts: a list\n- Default: `[]`\n- Releases: 0.7.0 and later"""
    verbose: bool
    """Print each collective as it happens, not only a summary on request.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""
    debug: bool
    """Add the calling function to the name of each entry.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 and later"""

class TimersDict(TypedDict, total=False):
    """Timers of the engine. Only `throughput` is read."""
    throughput: model.ThroughputTimer | ThroughputTimerDict
    """Settings of the throughput timer.\n\n- Accepts: an object\n- Releases: 0.14.3 and later"""

class ThroughputTimerDict(TypedDict, total=False):
    """Timer for the samples per second that the engine prints."""
    enabled: bool
    """Measure throughput.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.14.3 and later"""
    synchronized: bool
    """Synchronize the device before the timer is read: exact, but interrupts the queue of kernels.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.14.3 and later"""

class AutotuningDict(TypedDict, total=False):
    """The autotuner, started with `deepspeed --autotuning tune` or `run`."""
    enabled: bool
    """Run the autotuner when the launcher asks for it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.7 and later"""
    fast: bool
    """Tune stage and micro-batch size only; false also tries other ZeRO settings, which takes far longer.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.7 and later"""
    results_dir: str | os.PathLike[str]
    """Directory for results. Must not be empty, even while autotuning is off.\n\n- Accepts: a string\n- Default: `"autotuning_results"`\n- Releases: 0.5.7 and later"""
    exps_dir: str | os.PathLike[str]
    """Directory for the configurations of the experiments. Must not be empty, even while autotuning is off.\n\n- Accepts: a string\n- Default: `"autotuning_exps"`\n- Releases: 0.5.7 and later"""
    overwrite: bool
    """Repeat experiments whose results already exist.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.5.7 and later"""
    start_profile_step: int
    """Step at which measuring starts; earlier ones are warm-up.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `3`\n- Releases: 0.5.7 and later"""
    end_profile_step: int
    """Step at which an experiment ends; more steps are more exact and take longer.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `5`\n- Releases: 0.5.7 and later"""
    metric: str
    """Metric to optimize: time per step, samples per second, or FLOPS per GPU.\n\n- Accepts: a string\n- Known values: `latency`, `throughput`, `flops`\n- Default: `"throughput"`\n- Releases: 0.5.7 and later"""
    metric_path: str | None | os.PathLike[str]
    """File to which an experiment writes its metric; the tuner sets it.\n\n- Accepts: a string or `null`\n- Releases: 0.5.7 and later"""
    tuner_type: Literal["gridsearch", "random", "model_based"] | Enum
    """Search strategy: all experiments in order, in random order, or by a cost model that learns from earlier ones. Any other value means gridsearch.\n\n- Accepts: one of `"gridsearch"`, `"random"` or `"model_based"`\n- Default: `"gridsearch"`\n- Releases: 0.5.7 and later"""
    tuner_early_stopping: int
    """The search ends after this many experiments without a better result.\n\n- Accepts: an integer\n- Unit: experiments\n- Default: `5`\n- Releases: 0.5.7 and later"""
    tuner_num_trials: int
    """Maximum number of experiments in one search.\n\n- Accepts: an integer\n- Unit: experiments\n- Default: `50`\n- Releases: 0.5.7 and later"""
    arg_mappings: Mapping[str, str] | None
    """Flags of the training script by config key, so that the tuner can replace what the script is given. The keys are config keys such as `train_micro_batch_size_per_gpu`; the values belong to the script.\n\n- Accepts: an object or `null`\n- Releases: 0.5.7 and later"""
    model_info: model.ModelInfo | ModelInfoDict | None
    """Size of the model, which makes the profiling run unnecessary.\n\n- Accepts: an object or `null`\n- Releases: 0.5.7 and later"""
    model_info_path: str | None | os.PathLike[str]
    """File to which the profiling run writes the model's size; the tuner sets it.\n\n- Accepts: a string or `null`\n- Releases: 0.5.7 and later"""
    mp_size: int
    """Model-parallel degree: GPUs that share one copy of the model.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.5.7 and later"""
    max_train_batch_size: int | None
    """Largest global batch to try; null sets no limit.\n\n- Accepts: an integer or `null`\n- Unit: samples\n- Releases: 0.5.7 and later"""
    min_train_batch_size: int
    """Smallest global batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1`\n- Releases: 0.5.7 and later"""
    max_train_micro_batch_size_per_gpu: int
    """Largest micro batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1024`\n- Releases: 0.5.7 and later"""
    min_train_micro_batch_size_per_gpu: int
    """Smallest micro batch to try.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `1`\n- Releases: 0.5.7 and later"""
    num_tuning_micro_batch_sizes: int
    """Number of micro-batch sizes to try per stage.\n\n- Accepts: an integer\n- Default: `3`\n- Releases: 0.5.7 and later"""

class ModelInfoDict(TypedDict, total=False):
    """Size of the model; without it, the tuner determines the size in a profiling run."""
    profile: bool
    """Profile the model once to determine the values of this section.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.5.7 and later"""
    num_params: int | None
    """Number of parameters of the model.\n\n- Accepts: an integer or `null`\n- Unit: elements\n- Releases: 0.5.7 and later"""
    hidden_size: int | None
    """Hidden size of the model.\n\n- Accepts: an integer or `null`\n- Releases: 0.9.3 and later"""
    num_layers: int | None
    """Number of layers of the model.\n\n- Accepts: an integer or `null`\n- Releases: 0.5.7 and later"""
    hideen_size: int | None
    """Hidden size of the model, under the misspelled name that these releases read.\n\n- Accepts: an integer or `null`\n- Replacement: `autotuning.model_info.hidden_size`\n- Releases: 0.5.7 to 0.9.2"""

class DataEfficiencyDict(TypedDict, total=False):
    """The data efficiency library. Every inner section has its own `enabled`."""
    enabled: bool
    """Enable the data efficiency library.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    seed: int
    """Seed of the order in which samples are drawn.\n\n- Accepts: an integer\n- Default: `1234`\n- Releases: 0.8.0 and later"""
    data_sampling: model.DataSampling | DataSamplingDict
    """Which samples make up a batch.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    data_routing: model.DataRouting | DataRoutingDict
    """Which tokens pass through which layers.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class DataSamplingDict(TypedDict, total=False):
    """How batches are sampled."""
    enabled: bool
    """Intended to enable sampling techniques; only the `enabled` key of each technique has an effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    num_epochs: int
    """Maximum number of epochs; the sampler prepares its indices for that many.\n\n- Accepts: an integer\n- Unit: epochs\n- Default: `1000`\n- Releases: 0.8.0 and later"""
    num_workers: int
    """Worker processes of the dataloader.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.8.0 and later"""
    pin_memory: bool
    """Pin the dataloader's memory, for faster copies to the device.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""
    curriculum_learning: model.MetricCurriculum | MetricCurriculumDict
    """Curriculum learning: easy samples first.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    dynamic_batching: model.DynamicBatching | DynamicBatchingDict
    """Dynamic batching: batches by number of tokens.\n\n- Accepts: an object\n- Releases: 0.16.5 and later"""

class MetricCurriculumDict(TypedDict, total=False):
    """Curriculum learning: easy samples first, by one metric or several."""
    enabled: bool
    """Sample by the difficulty that the schedule allows at each step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    data_cluster_path: str | os.PathLike[str]
    """Directory for the clusters of samples; required if the curriculum is enabled.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    curriculum_metrics: Mapping[str, model.CurriculumMetric | CurriculumMetricDict]
    """Metrics, by their names in the data analyzer. Required if the curriculum is enabled.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class CurriculumMetricDict(TypedDict, total=False):
    """Schedule of one metric of the curriculum."""
    index_to_sample_path: str | os.PathLike[str]
    """File of the data analyzer with the samples of each metric value; not for single_cluster.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    index_to_metric_path: str | os.PathLike[str]
    """File of the data analyzer with the metric value of each sample; not for single_cluster.\n\n- Accepts: a string\n- Releases: 0.8.0 and later"""
    difficulty_type: Literal["value", "percentile"] | Enum
    """Whether difficulty is a value of the metric or a percentile of the data. Any other value means percentile.\n\n- Accepts: `"value"` or `"percentile"`\n- Releases: 0.8.0 and later"""
    clustering_type: Literal["schedule_based", "single_cluster"] | Enum
    """Cluster samples as the difficulty grows, or use all samples and shorten them. Any other value means schedule_based.\n\n- Accepts: `"schedule_based"` or `"single_cluster"`\n- Releases: 0.8.0 and later"""
    min_difficulty: int
    """Initial difficulty.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    max_difficulty: int
    """Final difficulty; with difficulty_type percentile, 100 is all data.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"] | Enum
    """Pacing function; custom is set from Python.\n\n- Accepts: one of `"fixed_linear"`, `"fixed_root"`, `"fixed_discrete"` or `"custom"`\n- Releases: 0.8.0 and later"""
    schedule_config: model.MetricSchedule | MetricScheduleDict
    """Parameters of the pacing function; required unless it is custom.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class MetricScheduleDict(TypedDict, total=False):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""
    total_curriculum_step: int
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.8.0 and later"""
    difficulty_step: int
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    root_degree: int
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    difficulty: Sequence[int]
    """List of difficulties in order. For fixed_discrete.\n\n- Accepts: a list of integers\n- Releases: 0.8.0 and later"""
    max_step: Sequence[int]
    """Last step of each difficulty except the final one, so one entry fewer. For fixed_discrete.\n\n- Accepts: a list of integers\n- Unit: steps\n- Releases: 0.8.0 and later"""

class DynamicBatchingDict(TypedDict, total=False):
    """Batches of varying size that hold about the same number of tokens."""
    enabled: bool
    """Fill batches up to a number of tokens instead of a number of samples.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""
    metrics_path: str | os.PathLike[str]
    """Directory with the data analyzer's sequence lengths; required unless the script passes lengths.\n\n- Accepts: a string\n- Releases: 0.16.5 and later"""
    lr_scaling_method: Literal["linear", "sqrt", "none"] | Enum
    """Scaling of the learning rate with the batch size.\n\n- Accepts: one of `"linear"`, `"sqrt"` or `"none"`\n- Default: `"linear"`\n- Releases: 0.16.5 and later"""
    min_batch_size: int
    """Minimum number of samples in a batch; smaller batches are dropped.\n\n- Accepts: an integer or a string\n- Unit: samples\n- Default: `1`\n- Releases: 0.16.5 and later"""
    max_batch_size: int
    """Maximum number of samples in a batch; omit it for no limit, because DeepSpeed rejects null.\n\n- Accepts: an integer or a string\n- Unit: samples\n- Releases: 0.16.5 and later"""
    max_tokens: int
    """Maximum number of tokens in a batch. Required if dynamic batching is enabled.\n\n- Accepts: an integer or a string\n- Unit: tokens\n- Releases: 0.16.5 and later"""
    sequence_picking_order: Literal["random", "seqlen", "dataloader"] | Enum
    """Order in which sequences are packed: random, by length (least padding), or data loader order.\n\n- Accepts: one of `"random"`, `"seqlen"` or `"dataloader"`\n- Default: `"dataloader"`\n- Releases: 0.16.5 and later"""
    verbose: bool
    """Log the batches.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.5 and later"""

class DataRoutingDict(TypedDict, total=False):
    """Routing techniques."""
    enabled: bool
    """Intended to enable routing techniques; only `random_ltd.enabled` has an effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    random_ltd: model.RandomLtd | RandomLtdDict
    """Random token dropping.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class RandomLtdDict(TypedDict, total=False):
    """Random layerwise token dropping: middle layers process a random subset of the tokens."""
    enabled: bool
    """Enable random layerwise token dropping: the layers of `random_ltd_layer_id` process a random subset of the tokens.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    total_layer_num: int
    """Number of layers of the model, used to count processed tokens.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    random_ltd_layer_num: int
    """Number of layers that drop tokens; must equal the length of `random_ltd_layer_id`.\n\n- Accepts: an integer\n- Releases: 0.8.0 and later"""
    random_ltd_layer_id: Sequence[int]
    """Indices of the layers that drop tokens; exclude the first and the last layer to preserve quality.\n\n- Accepts: a list of integers\n- Releases: 0.8.0 and later"""
    model_mask_name: str | None
    """Name of the attention mask argument of a layer; null if it has none.\n\n- Accepts: a string or `null`\n- Releases: 0.8.0 and later"""
    model_type: Literal["decoder", "encoder"] | Enum
    """Kind of model, which determines how masks are sliced.\n\n- Accepts: `"decoder"` or `"encoder"`\n- Releases: 0.8.0 and later"""
    hidden_state_order: Literal["batch_seq_dim", "seq_batch_dim"] | Enum
    """Order of the axes of hidden states.\n\n- Accepts: `"batch_seq_dim"` or `"seq_batch_dim"`\n- Releases: 0.8.0 and later"""
    random_ltd_schedule: model.TokenSchedule | TokenScheduleDict
    """Schedule of the number of tokens that are kept.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""
    layer_token_lr_schedule: model.LayerTokenLearningRate | LayerTokenLearningRateDict
    """Learning-rate schedule by consumed layer tokens. Not implemented: omit it, or leave it disabled.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class TokenScheduleDict(TypedDict, total=False):
    """Number of tokens that layers with token dropping keep; all keys are required if random-LTD is enabled."""
    min_value: int
    """Tokens kept at the start; smaller values save more computation and disturb training more.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    max_value: int
    """Tokens kept at the end, usually the whole sequence.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    schedule_type: Literal["fixed_linear"] | Enum
    """Shape of the schedule; only fixed_linear is implemented.\n\n- Accepts: `"fixed_linear"`\n- Releases: 0.8.0 and later"""
    schedule_config: model.TokenScheduleConfig | TokenScheduleConfigDict
    """Length and step size of the schedule.\n\n- Accepts: an object\n- Releases: 0.8.0 and later"""

class TokenScheduleConfigDict(TypedDict, total=False):
    """Parameters of the schedule; `require_steps` and `seq_per_step` are required."""
    require_steps: int
    """Steps until all tokens are kept.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.8.0 and later"""
    seq_per_step: int
    """The kept length is rounded down to a multiple of this; 8 or 16 suits tensor cores.\n\n- Accepts: an integer\n- Unit: tokens\n- Releases: 0.8.0 and later"""
    root_degree: int
    """Degree of the root schedule, which is not implemented.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""

class LayerTokenLearningRateDict(TypedDict, total=False):
    """Learning-rate schedule by consumed layer tokens, which DeepSpeed never implemented."""
    enabled: bool
    """Must be false: true raises NotImplementedError. Required in this section.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.8.0 and later"""
    total_layer_tokens: int
    """Layer tokens (tokens × layers) of the whole training; never read.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""
    warmup_type: str
    """Shape of the warm-up; never read.\n\n- Accepts: a string\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""
    warmup_layer_tokens: int
    """Layer tokens (tokens × layers) of the warm-up; never read.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.8.0 and later"""

class CurriculumLearningDict(TypedDict, total=False):
    """Curriculum learning: short sequences first."""
    enabled: Required[bool]
    """Enable the curriculum. DeepSpeed rejects the section without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.enabled`\n- Releases: 0.5.0 to 0.19.7"""
    curriculum_type: Literal["seqlen"] | Enum
    """Metric of difficulty; only sequence length is implemented. Required if the curriculum is enabled.\n\n- Accepts: `"seqlen"`\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics`\n- Releases: 0.5.0 to 0.19.7"""
    min_difficulty: int
    """Initial difficulty. Required if the curriculum is enabled.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.min_difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    max_difficulty: int
    """Final difficulty, usually the full sequence length. Required if the curriculum is enabled.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.max_difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"] | Enum
    """Pacing function; custom is set from Python. Required if the curriculum is enabled.\n\n- Accepts: one of `"fixed_linear"`, `"fixed_root"`, `"fixed_discrete"` or `"custom"`\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_type`\n- Releases: 0.5.0 to 0.19.7"""
    schedule_config: model.LengthSchedule | LengthScheduleDict
    """Parameters of the pacing function; required unless it is custom.\n\n- Accepts: an object\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config`\n- Releases: 0.5.0 to 0.19.7"""

class LengthScheduleDict(TypedDict, total=False):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""
    total_curriculum_step: int
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root.\n\n- Accepts: an integer\n- Unit: steps\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.total_curriculum_step`\n- Releases: 0.5.0 to 0.19.7"""
    difficulty_step: int
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty_step`\n- Releases: 0.5.0 to 0.19.7"""
    root_degree: int
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root.\n\n- Accepts: an integer\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.root_degree`\n- Releases: 0.5.0 to 0.19.7"""
    difficulty: Sequence[int]
    """List of difficulties in order. For fixed_discrete.\n\n- Accepts: a list of integers\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty`\n- Releases: 0.5.0 to 0.19.7"""
    max_step: Sequence[int]
    """Last step of each difficulty except the final one, so one entry fewer. For fixed_discrete.\n\n- Accepts: a list of integers\n- Unit: steps\n- Deprecated: since 0.8.0\n- Replacement: `data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.max_step`\n- Releases: 0.5.0 to 0.19.7"""

class CompressionTrainingDict(TypedDict, total=False):
    """Compression techniques, each of which can be enabled separately."""
    weight_quantization: model.QuantizedWeights | QuantizedWeightsDict
    """Weight quantization, from many bits to few.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    activation_quantization: model.QuantizedActivations | QuantizedActivationsDict
    """Quantize activations.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    sparse_pruning: model.SparsePruning | SparsePruningDict
    """Set individual weights to zero: the highest compression, but only special kernels become faster.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    row_pruning: model.RowPruning | RowPruningDict
    """Prune rows of weight matrices.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    head_pruning: model.HeadPruning | HeadPruningDict
    """Prune attention heads.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    channel_pruning: model.ChannelPruning | ChannelPruningDict
    """Prune channels of convolutions.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    layer_reduction: model.LayerReduction | LayerReductionDict
    """Initialize a shallow student from layers of a deep teacher.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""

class QuantizedWeightsDict(TypedDict, total=False):
    """Quantization of weights."""
    shared_parameters: model.WeightParameters | WeightParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.WeightGroup | WeightGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class WeightParametersDict(TypedDict, total=False):
    """Settings for all groups of quantized weights."""
    enabled: bool
    """Quantize weights.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantizer_kernel: bool
    """Quantize with the CUDA kernel; works only with the fp16 optimizer.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before quantization starts; training without it first loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `0`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_groups: int
    """Number of groups of a weight matrix that have separate scales; more groups are more exact and cost more.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_verbose: bool
    """Log each quantization.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantization_type: Literal["symmetric", "asymmetric"] | Enum
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_weight_in_forward: bool
    """Quantize in the forward pass instead of the optimizer step; required for fp32 training.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    rounding: Literal["nearest", "stochastic"] | Enum
    """Round to the nearest value, or stochastically, which is unbiased and noisier.\n\n- Accepts: `"nearest"` or `"stochastic"`\n- Default: `"nearest"`\n- Releases: 0.7.0 to 0.19.6"""
    fp16_mixed_quantize: model.MixedFp16 | MixedFp16Dict
    """Blend of fp16 and quantized weights.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""

class MixedFp16Dict(TypedDict, total=False):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""
    enabled: bool
    """Blend fp16 and quantized weights instead of switching at once.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantize_change_ratio: float
    """Fraction by which the share of the quantized weights grows at each step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.7.0 to 0.19.6"""

class WeightGroupDict(TypedDict, total=False):
    """Modules whose weights are quantized with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.WeightBits | WeightBitsDict]
    """Start bits, target bits and period.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class WeightBitsDict(TypedDict, total=False):
    """Bit widths of a group of weights."""
    start_bits: Required[int]
    """Initial number of bits. DeepSpeed rejects the config without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""
    target_bits: Required[int]
    """Final number of bits. DeepSpeed rejects the config without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""
    quantization_period: int
    """Steps between two reductions by one bit; a longer period loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.7.0 to 0.19.6"""

class QuantizedActivationsDict(TypedDict, total=False):
    """Quantization of activations."""
    shared_parameters: model.ActivationParameters | ActivationParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.ActivationGroup | ActivationGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ActivationParametersDict(TypedDict, total=False):
    """Settings for all groups of quantized activations."""
    enabled: bool
    """Quantize activations.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    quantization_type: Literal["symmetric", "asymmetric"] | Enum
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.0 to 0.19.6"""
    range_calibration: Literal["dynamic", "static"] | Enum
    """Determine the range for each batch, or use one that was recorded during training: faster, less exact.\n\n- Accepts: `"dynamic"` or `"static"`\n- Default: `"dynamic"`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before quantization starts.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""

class ActivationGroupDict(TypedDict, total=False):
    """Modules whose inputs are quantized with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.ActivationBits | ActivationBitsDict]
    """Number of bits.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ActivationBitsDict(TypedDict, total=False):
    """Bit width of a group of activations."""
    bits: Required[int]
    """Number of bits of an activation. DeepSpeed rejects the config without it.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class SparsePruningDict(TypedDict, total=False):
    """Pruning of individual weights."""
    shared_parameters: model.SparsePruningParameters | SparsePruningParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.SparsePruningGroup | SparsePruningGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class SparsePruningParametersDict(TypedDict, total=False):
    """Settings for all groups of the pruning of individual weights."""
    enabled: bool
    """Enable the technique; a group alone has no effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning starts; training without it first loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk", "snip_momentum"] | Enum
    """Rank weights by magnitude, by a learned score, or by SNIP scores, which require `neural_compressor`.\n\n- Accepts: one of `"l1"`, `"topk"` or `"snip_momentum"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""
    block_pattern: str
    """Pruning pattern: blocks (4x1) or N of M (2:4). For snip_momentum.\n\n- Accepts: a string\n- Default: `"4x1"`\n- Releases: 0.9.3 to 0.19.6"""
    dense_ratio: float
    """Fraction of weights that are kept. For snip_momentum, and validated only with it.\n\n- Accepts: a number greater than 0 and less than 1\n- Default: `0.1`\n- Releases: 0.9.3 to 0.19.6"""
    excluded_modules: list[str] | tuple[str, ...]
    """Modules that are not pruned. For snip_momentum.\n\n- Accepts: a list of strings\n- Default: `[]`\n- Releases: 0.9.3 to 0.19.6"""
    schedule_offset_end: int
    """Last pruning step, not before `schedule_offset`, which is the default. For snip_momentum.\n\n- Accepts: an integer\n- Unit: steps\n- Releases: 0.9.3 to 0.19.6"""
    schedule_offset_stride: int
    """Steps between two prunings. For snip_momentum.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.9.3 to 0.19.6"""

class SparsePruningGroupDict(TypedDict, total=False):
    """Modules whose individual weights are pruned with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """Fraction that is kept.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class DenseRatioDict(TypedDict, total=False):
    """Params of a group that is pruned."""
    dense_ratio: Required[float]
    """Fraction of weights that are kept; 0.1 removes nine tenths. DeepSpeed rejects the config without it.\n\n- Accepts: a number from 0 to 1\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class RowPruningDict(TypedDict, total=False):
    """Pruning of rows."""
    shared_parameters: model.RowPruningParameters | RowPruningParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.RowPruningGroup | RowPruningGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class RowPruningParametersDict(TypedDict, total=False):
    """Settings for all groups of row pruning."""
    enabled: bool
    """Enable the technique; a group alone has no effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning starts; training without it first loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Rank rows by magnitude, or by a learned score.\n\n- Accepts: `"l1"` or `"topk"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""

class RowPruningGroupDict(TypedDict, total=False):
    """Modules whose rows are pruned with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """Fraction that is kept.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class HeadPruningDict(TypedDict, total=False):
    """Pruning of attention heads."""
    shared_parameters: model.HeadPruningParameters | HeadPruningParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.HeadPruningGroup | HeadPruningGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class HeadPruningParametersDict(TypedDict, total=False):
    """Settings for all groups of attention head pruning."""
    enabled: bool
    """Enable the technique; a group alone has no effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning starts; training without it first loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Ranking of heads; only topk, a learned score, is implemented.\n\n- Accepts: `"l1"` or `"topk"`\n- Default: `"topk"`\n- Releases: 0.7.0 to 0.19.6"""
    num_heads: int
    """Number of attention heads of a layer. Required if the technique is enabled.\n\n- Accepts: an integer\n- Releases: 0.7.0 to 0.19.6"""

class HeadPruningGroupDict(TypedDict, total=False):
    """Modules whose attention heads are pruned with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """Fraction that is kept.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ChannelPruningDict(TypedDict, total=False):
    """Pruning of channels."""
    shared_parameters: model.ChannelPruningParameters | ChannelPruningParametersDict
    """Settings for all groups.\n\n- Accepts: an object\n- Releases: 0.7.0 to 0.19.6"""
    different_groups: Required[Mapping[str, model.ChannelPruningGroup | ChannelPruningGroupDict]]
    """Groups of modules, under names of your choice. Required if the technique is present.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class ChannelPruningParametersDict(TypedDict, total=False):
    """Settings for all groups of channel pruning."""
    enabled: bool
    """Enable the technique; a group alone has no effect.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    schedule_offset: int
    """Steps before pruning starts; training without it first loses less accuracy.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.7.0 to 0.19.6"""
    method: Literal["l1", "topk"] | Enum
    """Rank channels by magnitude, or by a learned score.\n\n- Accepts: `"l1"` or `"topk"`\n- Default: `"l1"`\n- Releases: 0.7.0 to 0.19.6"""

class ChannelPruningGroupDict(TypedDict, total=False):
    """Modules whose channels are pruned with the same settings."""
    modules: list[str] | tuple[str, ...] | str
    """Regular expressions for the names of the modules; the default matches all.\n\n- Accepts: a list of strings or a string\n- Default: `"*"`\n- Releases: 0.7.0 to 0.19.6"""
    related_modules: list[list[str] | tuple[str, ...]] | tuple[list[str] | tuple[str, ...], ...] | None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension.\n\n- Accepts: a list of lists or `null`\n- Releases: 0.7.0 to 0.19.6"""
    params: Required[model.DenseRatio | DenseRatioDict]
    """Fraction that is kept.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.7.0 to 0.19.6"""

class LayerReductionDict(TypedDict, total=False):
    """Layer reduction, used if `init_compression` receives a teacher model; all keys are then required."""
    enabled: bool
    """Copy layers of the teacher into the student.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.0 to 0.19.6"""
    keep_number_layer: int
    """Number of layers of the student. Informative only: DeepSpeed uses the length of `teacher_layer`.\n\n- Accepts: an integer\n- Note: accepted but has no effect\n- Releases: 0.7.0 to 0.19.6"""
    module_name_prefix: str
    """Attribute path of the list of layers, the same in both models.\n\n- Accepts: a string\n- Releases: 0.7.0 to 0.19.6"""
    teacher_layer: Sequence[int]
    """Indices of the teacher's layers that initialize the student's layers, in this order.\n\n- Accepts: a list of integers\n- Releases: 0.7.0 to 0.19.6"""
    other_module_name: list[str] | tuple[str, ...]
    """Other modules to copy, such as embeddings and the classifier.\n\n- Accepts: a list of strings\n- Releases: 0.7.0 to 0.19.6"""

class QuantizeTrainingDict(TypedDict, total=False):
    """Mixture of Quantization, up to 0.6.7; `compression_training` replaces it since 0.7.0."""
    enabled: bool
    """Quantize weights during training.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_verbose: bool
    """Log every change of the number of bits.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantizer_kernel: bool
    """Quantize with the CUDA kernel.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_groups: int
    """Number of groups of a weight matrix that have separate scales; more groups are more exact and cost more.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_bits: Required[model.QuantizeBits | QuantizeBitsDict]
    """Initial and final number of bits. DeepSpeed rejects the config without it.\n\n- Accepts: an object\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""
    quantize_schedule: model.QuantizeSchedule | QuantizeScheduleDict
    """When the number of bits decreases.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    quantize_algo: model.QuantizeAlgo | QuantizeAlgoDict
    """How values are quantized and rounded.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    fp16_mixed_quantize: model.Fp16MixedQuantize | Fp16MixedQuantizeDict
    """Blend of fp16 and quantized weights.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7"""
    eigenvalue: model.Eigenvalue | EigenvalueDict
    """Curvature that determines the quantization schedule of each layer. Read only if `enabled` is true.\n\n- Accepts: an object\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""

class QuantizeBitsDict(TypedDict, total=False):
    """Initial and final bit width."""
    start_bits: int
    """Initial number of bits.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `16`\n- Releases: 0.4.0 to 0.6.7"""
    target_bits: Required[int]
    """Final number of bits. DeepSpeed rejects the config without it; the default 8 applies only if the whole section is absent.\n\n- Accepts: an integer\n- Unit: bits\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""

class QuantizeScheduleDict(TypedDict, total=False):
    """Schedule by which the bit width decreases."""
    quantize_period: Required[int]
    """Steps between two reductions by one bit. Required in this section; without the section it is 1000.\n\n- Accepts: an integer\n- Unit: steps\n- Default: required\n- Releases: 0.4.0 to 0.6.7"""
    schedule_offset: int
    """Steps before quantization starts.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1000`\n- Releases: 0.4.0 to 0.6.7"""

class QuantizeAlgoDict(TypedDict, total=False):
    """How values are quantized and rounded."""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum. Any other value means symmetric.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.4.0 to 0.6.7"""
    rounding: Literal["nearest", "stochastic"] | Enum
    """Round to the nearest value or stochastically. Any other value means nearest.\n\n- Accepts: `"nearest"` or `"stochastic"`\n- Default: `"nearest"`\n- Releases: 0.4.0 to 0.6.7"""

class Fp16MixedQuantizeDict(TypedDict, total=False):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""
    enabled: bool
    """Blend fp16 and quantized weights instead of switching at once.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7"""
    quantize_change_ratio: float
    """Fraction by which the share of the quantized weights grows at each step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.4.0 to 0.6.7"""

class EigenvalueDict(TypedDict, total=False):
    """Curvature of each layer by power iteration; layers with small eigenvalues are quantized faster."""
    enabled: bool
    """Compute eigenvalues; slow, and rejected by most releases.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    verbose: bool
    """Log every step of the power iteration.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    max_iter: int
    """Maximum number of iterations per layer; more are slower and more exact.\n\n- Accepts: an integer\n- Default: `100`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    tol: float
    """Relative change at which the iteration stops.\n\n- Accepts: a number\n- Default: `0.01`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    stability: float
    """Small constant for numerical stability of divisions.\n\n- Accepts: a number\n- Default: `1e-06`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    gas_boundary_resolution: int
    """Optimizer steps between two computations.\n\n- Accepts: an integer\n- Unit: steps\n- Default: `1`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    layer_name: str
    """Attribute path of the list of layers in the model.\n\n- Accepts: a string\n- Default: `"bert.encoder.layer"`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""
    layer_num: int
    """Number of layers in that list.\n\n- Accepts: an integer\n- Default: `0`\n- Releases: 0.4.0 to 0.6.7, 0.19.3 to 0.19.6"""

class WeightQuantizationDict(TypedDict, total=False):
    """Weight-only quantization of a model for ZeRO-Inference."""
    enabled: bool
    """Inherited from a shared class, without effect here: quantization is enabled by `quantized_initialization` or `post_init_quant`.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    num_bits: int
    """Inherited from a shared class, without effect here: each group has a `num_bits` of its own.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `8`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Inherited from a shared class, without effect here: only asymmetric quantization is supported.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    q_groups: int
    """Inherited from a shared class, without effect here: each group has a `group_size`.\n\n- Accepts: an integer\n- Default: `1`\n- Note: accepted but has no effect\n- Releases: 0.10.3 and later"""
    quantized_initialization: model.GroupQuantization | GroupQuantizationDict
    """Quantize weights while the model is built under `zero.Init`, so that it never exists in full precision.\n\n- Accepts: an object\n- Releases: 0.10.3 and later"""
    post_init_quant: Mapping[str, model.GroupQuantization | GroupQuantizationDict]
    """Quantize an existing model; keys are parts of module names.\n\n- Accepts: an object\n- Default: `{}`\n- Releases: 0.10.3 and later"""

class GroupQuantizationDict(TypedDict, total=False):
    """Asymmetric quantization of a weight in groups. All four keys are required if weights are quantized."""
    num_bits: Literal[4, 8] | Enum
    """Bits per weight: 4 needs half the memory of 8 and loses more accuracy.\n\n- Accepts: `4` or `8`\n- Unit: bits\n- Releases: 0.10.3 and later"""
    group_size: int
    """Elements that share a scale; must divide the size along `group_dim`. Smaller groups are more exact.\n\n- Accepts: an integer\n- Unit: elements\n- Releases: 0.10.3 and later"""
    group_dim: int
    """Dimension that is divided into groups.\n\n- Accepts: an integer\n- Releases: 0.10.3 and later"""
    symmetric: Literal[False] | Enum
    """Only false is supported.\n\n- Accepts: `false`\n- Releases: 0.10.3 and later"""

class CompileDict(TypedDict, total=False):
    """DeepCompile: graph passes that `engine.compile()` applies. Up to 0.14.3: arguments of torch.compile."""
    deepcompile: bool
    """Apply DeepSpeed's graph passes when `engine.compile()` is called.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    autoep_non_moe: bool
    """Compile the modules around AutoEP layers and run the experts eagerly.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.8 and later"""
    free_activation: bool
    """Free large activations in the graph after their last use; saves memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    free_activation_threshold: float
    """Minimum size of an activation that `free_activation` frees.\n\n- Accepts: an integer\n- Unit: bytes\n- Default: `10485760`\n- Releases: 0.18.0 and later"""
    offload_activation: bool
    """Offload activations to host memory until the backward pass; cannot be combined with the other two offloads.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    offload_activation_pin_memory: bool
    """Pin the host buffers of activation offload: copies overlap, at the cost of pinned memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.19.6 and later"""
    offload_opt_states: bool
    """Offload optimizer state to host memory during forward and backward; intended for one micro-batch per step.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    double_buffer: bool
    """Use double buffering for communication in the graph: more overlap, more memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.16.6 and later"""
    symmetric_memory: bool
    """Use symmetric memory for collectives if the hardware supports it.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    debug_log: bool
    """Dump the transformed graphs.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    offload_parameters: bool
    """Offload parameters from within the graph; cannot be combined with the other two offloads.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_before_reduce: bool
    """For debugging: synchronize the device before each gradient reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_after_reduce: bool
    """For debugging: synchronize the device after each gradient reduction.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_before_allgather: bool
    """For debugging: synchronize the device before each all-gather of parameters.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    sync_after_allgather: bool
    """For debugging: synchronize the device after each all-gather of parameters.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.6 and later"""
    keep_int_input_tensors: bool
    """Profile with the real integer inputs instead of dummies; required if they control the computation.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.17.2 and later"""
    keep_all_input_tensors: bool
    """Profile with all real inputs instead of dummies; needs memory.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.17.2 and later"""
    passes: Sequence[Literal["z1", "z3", "autosp", "autotp"] | Enum] | None
    """Graph passes to apply; null selects them by ZeRO stage.\n\n- Accepts: a list of any of `"z1"`, `"z3"`, `"autosp"` or `"autotp"` or `null`\n- Releases: 0.18.9 and later"""
    enabled: bool
    """Wrap the model with torch.compile.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Replacement: ``engine.compile()``\n- Releases: 0.13.2 to 0.14.3"""
    backend: str
    """Backend of torch.compile, by its name or as the dotted path of a function.\n\n- Accepts: a string\n- Default: `"inductor"`\n- Replacement: ``engine.compile(backend=...)``\n- Releases: 0.13.2 to 0.14.3"""
    kwargs: Mapping[str, Any]
    """Additional keyword arguments for torch.compile.\n\n- Accepts: an object\n- Default: `{}`\n- Replacement: ``engine.compile(compile_kwargs=...)``\n- Releases: 0.13.2 to 0.14.3"""

class HybridEngineDict(TypedDict, total=False):
    """Switches a model between training and inference kernels."""
    enabled: bool
    """Use the hybrid engine instead of the default engine.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    max_out_tokens: int
    """Maximum sequence length, including the prompt, for which inference buffers are allocated; larger values need more memory.\n\n- Accepts: a positive integer\n- Unit: tokens\n- Default: `512`\n- Releases: 0.9.0 and later"""
    inference_tp_size: int
    """Tensor-parallel degree during generation; allows larger models.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.9.0 and later"""
    release_inference_cache: bool
    """Free the inference buffers after each generation: more memory for training, but they have to be allocated again.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    pin_parameters: bool
    """Keep gathered parameters during a generation phase: faster, more memory.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.9.0 and later"""
    tp_gather_partition_size: int
    """Layers gathered at once for inference tensor parallelism; smaller values need less memory.\n\n- Accepts: an integer\n- Unit: layers\n- Default: `8`\n- Releases: 0.9.0 and later"""
    enable_cuda_graph: bool
    """Use CUDA graphs for token generation; saves launch overhead if shapes do not change.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.19.6 and later"""

class ElasticityDict(TypedDict, total=False):
    """Elastic training: batch sizes are computed so that a job can continue with more or fewer GPUs."""
    enabled: bool
    """Let DeepSpeed choose the batch sizes; top-level batch keys are then rejected or overwritten.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.9 to 0.19.7"""
    max_train_batch_size: int
    """Maximum global batch size. Required if elasticity is enabled.\n\n- Accepts: an integer\n- Unit: samples\n- Default: `2000`\n- Releases: 0.3.9 to 0.19.7"""
    micro_batch_sizes: Sequence[int]
    """Candidate micro-batch sizes; more candidates allow more GPU counts. Required if elasticity is enabled.\n\n- Accepts: a list of integers\n- Unit: samples\n- Default: `[2, 4, 6]`\n- Releases: 0.3.9 to 0.19.7"""
    min_gpus: int
    """Minimum GPU count.\n\n- Accepts: a positive integer\n- Default: `1`\n- Releases: 0.3.9 to 0.19.7"""
    max_gpus: int
    """Maximum GPU count; not below `min_gpus`.\n\n- Accepts: a positive integer\n- Default: `10000`\n- Releases: 0.3.9 to 0.19.7"""
    num_gpus_per_node: int
    """GPUs per node; version 0.2 scales by whole nodes.\n\n- Accepts: a positive integer\n- Default: `1`\n- Releases: 0.7.0 to 0.19.7"""
    model_parallel_size: int
    """Model-parallel degree: GPUs that share one copy of the model. Values above 1 require version 0.2.\n\n- Accepts: a positive integer\n- Default: `1`\n- Releases: 0.7.0 to 0.19.7"""
    min_time: int
    """Minimum run time before a scheduler may change the GPU count again; 0 leaves it to the scheduler.\n\n- Accepts: a non-negative integer\n- Unit: minutes\n- Default: `0`\n- Releases: 0.3.9 to 0.19.7"""
    prefer_larger_batch: bool
    """Prefer the larger of two batch sizes that allow the same number of GPU counts; false prefers the smaller.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.3.9 to 0.19.7"""
    ignore_non_elastic_batch_info: bool
    """Overwrite top-level batch keys instead of rejecting them.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.9 to 0.19.7"""
    version: float
    """Version of the algorithm: 0.1 counts GPUs; 0.2 (from 0.7.0 on) counts nodes and supports model parallelism.\n\n- Accepts: a number\n- Known values: `0.1`, `0.2`\n- Default: `0.2`\n- Releases: 0.3.9 to 0.19.7"""

class ProgressiveLayerDropDict(TypedDict, total=False):
    """Progressive layer drop. If it is enabled, both numbers are required, so their defaults are never used."""
    enabled: Required[bool]
    """Enable layer dropping. DeepSpeed rejects the section without this key.\n\n- Accepts: `true` or `false`\n- Default: required\n- Releases: 0.3.1 to 0.19.7"""
    theta: float
    """Fraction of layers kept at the end; lower values train faster and less robustly.\n\n- Accepts: a number\n- Default: `0.5`\n- Releases: 0.3.1 to 0.19.7"""
    gamma: float
    """Rate at which the fraction falls from 1 to `theta`, per step.\n\n- Accepts: a number\n- Default: `0.001`\n- Releases: 0.3.1 to 0.19.7"""

class SparseAttentionDict(TypedDict, total=False):
    """Layout of block-sparse attention."""
    mode: Literal["dense", "fixed", "variable", "bigbird", "bslongformer"] | Enum
    """Layout of the sparse attention matrix; case matters.\n\n- Accepts: one of `"dense"`, `"fixed"`, `"variable"`, `"bigbird"` or `"bslongformer"`\n- Default: `"fixed"`\n- Releases: 0.3.0 to 0.19.6"""
    block: int
    """Edge length of a block; larger blocks are faster and coarser. All modes.\n\n- Accepts: an integer\n- Unit: tokens\n- Default: `16`\n- Releases: 0.3.0 to 0.19.6"""
    different_layout_per_head: bool
    """Use a separate layout for each head, which needs more memory. All modes except dense.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    num_local_blocks: int
    """Blocks in a local window. Mode fixed.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `4`\n- Releases: 0.3.0 to 0.19.6"""
    num_global_blocks: int
    """Blocks of a window that all others attend to. Modes fixed and bigbird.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `1`\n- Releases: 0.3.0 to 0.19.6"""
    attention: Literal["unidirectional", "bidirectional"] | Enum
    """Whether tokens attend only to preceding tokens. Modes fixed and variable.\n\n- Accepts: `"unidirectional"` or `"bidirectional"`\n- Default: `"bidirectional"`\n- Releases: 0.3.0 to 0.19.6"""
    horizontal_global_attention: bool
    """Global blocks also attend to all others; only with bidirectional attention. Modes fixed and variable.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.3.0 to 0.19.6"""
    num_different_global_patterns: int
    """Number of different global patterns over the heads; values above 1 require `different_layout_per_head`. Mode fixed.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.3.0 to 0.19.6"""
    num_random_blocks: int
    """Random blocks in each row. Modes variable and bigbird.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `0`\n- Releases: 0.3.0 to 0.19.6"""
    local_window_blocks: Sequence[int]
    """Sizes of the local windows in order; the last one repeats. Mode variable.\n\n- Accepts: a list of integers\n- Unit: blocks\n- Default: `[4]`\n- Releases: 0.3.0 to 0.19.6"""
    global_block_indices: Sequence[int]
    """Global blocks, or the first block of each global range. Modes variable and bslongformer.\n\n- Accepts: a list of integers\n- Default: `[0]`\n- Releases: 0.3.0 to 0.19.6"""
    global_block_end_indices: Sequence[int] | None
    """End (exclusive) of each range that starts at `global_block_indices`; null makes each index one block.\n\n- Accepts: a list of integers or `null`\n- Releases: 0.3.0 to 0.19.6"""
    num_sliding_window_blocks: int
    """Blocks in the sliding window. Modes bigbird and bslongformer.\n\n- Accepts: an integer\n- Unit: blocks\n- Default: `3`\n- Releases: 0.3.0 to 0.19.6"""

class InferenceConfigDict(TypedDict, total=False):
    """The config of `deepspeed.init_inference`: a dict, a JSON file, or keyword arguments."""
    replace_with_kernel_inject: bool
    """Replace the layers of supported models (BERT, GPT-2, GPT-Neo, GPT-J, OPT, BLOOM, LLaMA, …) by DeepSpeed's inference kernels. Not together with `injection_policy`.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Aliases: `kernel_inject` (0.7.6 and later)\n- Releases: 0.7.6 and later"""
    dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.bfloat16", "bf16", "bfloat16", "bfloat", "torch.int8", "int8"] | Enum | DType
    """Data type to which the model is converted. In Python, a `torch.dtype` as well.\n\n- Accepts: one of `"torch.float16"`, `"fp16"`, `"float16"`, `"half"`, `"torch.float32"`, `"fp32"`, `"float32"`, `"float"`, `"torch.bfloat16"`, `"bf16"`, `"bfloat16"`, `"bfloat"`, `"torch.int8"` or `"int8"`\n- Default: `"fp16"`\n- Releases: 0.7.6 and later"""
    tensor_parallel: model.InferenceTensorParallel | InferenceTensorParallelDict
    """Tensor parallelism: the number of GPUs over which the model is split.\n\n- Accepts: an object\n- Aliases: `tp` (0.7.6 and later)\n- Releases: 0.7.6 and later"""
    enable_cuda_graph: bool
    """Capture the forward pass as a CUDA graph and replay it; faster for small batches of a fixed shape.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.7.6 and later"""
    use_triton: bool
    """Use Triton kernels. DeepSpeed rejects true if the package `triton` is not installed.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    triton_autotune: bool
    """Tune the Triton kernels during the first run, which takes longer.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.10.0 and later"""
    zero: model.ZeroOptimization | ZeroOptimizationDict
    """ZeRO settings. DeepSpeed validates them, but no inference engine reads them: for ZeRO-Inference, pass a config with `zero_optimization` at stage 3 to `deepspeed.initialize`.\n\n- Accepts: an object\n- Note: accepted but has no effect\n- Releases: 0.7.6 and later"""
    triangular_masking: bool
    """Use a causal attention mask in the injected kernels.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Aliases: `tm` (0.7.6 and later)\n- Releases: 0.7.6 and later"""
    moe: model.InferenceMoE | InferenceMoEDict | bool
    """Expert parallelism of a mixture-of-experts model. Before 0.19.3, the short forms true and false are rejected.\n\n- Accepts: an object or `true` or `false`\n- Releases: 0.7.6 and later"""
    keep_module_on_host: bool
    """Keep loaded weights in host memory, for example to quantize a model that is larger than the GPU. Only for automatic tensor parallelism and injection policies.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.16.3 and later"""
    quant: model.InferenceQuantization | InferenceQuantizationDict
    """Quantization settings. DeepSpeed validates them, but no inference engine reads them.\n\n- Accepts: an object\n- Note: accepted but has no effect\n- Releases: 0.7.6 and later"""
    checkpoint: str | Mapping[str, Any] | None
    """Checkpoint to load: the path to a JSON file that describes it, or that description itself.\n\n- Accepts: a string, an object or `null`\n- Releases: 0.7.6 and later"""
    base_dir: str | os.PathLike[str]
    """Directory to which the paths in the checkpoint description are relative.\n\n- Accepts: a string\n- Default: `""`\n- Releases: 0.7.6 and later"""
    set_empty_params: bool
    """Create the injected modules without memory for their parameters, which a checkpoint then provides.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    save_mp_checkpoint_path: str | None | os.PathLike[str]
    """Directory to which the model is saved as split by tensor parallelism, so that it loads faster next time.\n\n- Accepts: a string or `null`\n- Releases: 0.7.6 and later"""
    checkpoint_config: model.InferenceCheckpoint | InferenceCheckpointDict
    """Checkpoint paths. The engine never reads this section: set `checkpoint` and `base_dir` at the top level.\n\n- Accepts: an object\n- Aliases: `ckpt_config` (0.7.6 and later)\n- Note: accepted but has no effect\n- Releases: 0.7.6 and later"""
    return_tuple: bool
    """Whether injected layers return a tuple, as the model's own layers do, or a tensor.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""
    training_mp_size: int
    """Model-parallel degree with which the checkpoint was trained.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.6 and later"""
    replace_method: str
    """How layers were replaced; without effect since 0.8.1.\n\n- Accepts: a string\n- Default: `"auto"`\n- Deprecated: since 0.8.1\n- Note: `"auto"` is a value with a meaning of its own\n- Releases: 0.7.6 and later"""
    injection_policy: Mapping[str, Any] | None
    """Layers after which the ranks' results are all-reduced, by module class. The classes are Python objects, so it can only be set in Python.\n\n- Accepts: an object or `null`\n- Aliases: `injection_dict` (0.7.6 and later)\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    injection_policy_tuple: list[str] | tuple[str, ...] | None
    """Layers of one class in `injection_policy`; the engine sets it.\n\n- Accepts: a list or `null`\n- Note: for internal use by DeepSpeed\n- Releases: 0.7.6 and later"""
    config: Mapping[str, Any] | None
    """Config object of the model, for models without an attribute `config`.\n\n- Accepts: an object or `null`\n- Aliases: `args` (0.7.6 and later)\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    max_out_tokens: int
    """Maximum number of tokens of a sequence, prompt included, for which the injected kernels allocate their cache.\n\n- Accepts: a positive integer\n- Unit: tokens\n- Default: `1024`\n- Aliases: `max_tokens` (0.7.6 and later)\n- Releases: 0.7.6 and later"""
    min_out_tokens: int
    """Number of tokens that must fit; DeepSpeed raises an error if GPU memory suffices for fewer.\n\n- Accepts: an integer\n- Unit: tokens\n- Default: `1`\n- Aliases: `min_tokens` (0.9.0 and later)\n- Releases: 0.9.0 and later"""
    transposed_mode: bool
    """Store the weights of the injected kernels transposed.\n\n- Accepts: `true` or `false`\n- Default: `false`\n- Releases: 0.9.0 and later"""
    mp_size: int
    """Old name of `tensor_parallel.tp_size`.\n\n- Accepts: an integer\n- Default: `1`\n- Deprecated: since 0.7.6\n- Replacement: `tensor_parallel.tp_size`\n- Releases: 0.7.6 and later"""
    mpu: object
    """Old name of `tensor_parallel.mpu`, a Python object.\n\n- Accepts: any value\n- Deprecated: since 0.7.6\n- Replacement: `tensor_parallel.mpu`\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    ep_size: int
    """Old name of `moe.ep_size`.\n\n- Accepts: an integer\n- Default: `1`\n- Deprecated: since 0.7.6\n- Replacement: `moe.ep_size`\n- Releases: 0.7.6 and later"""
    ep_group: object
    """Old name of `moe.ep_group`, a Python object.\n\n- Accepts: any value\n- Deprecated: since 0.7.6\n- Replacement: `moe.ep_group`\n- Aliases: `expert_group` (0.7.6 and later)\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    ep_mp_group: object
    """Old name of `moe.ep_mp_group`, a Python object.\n\n- Accepts: any value\n- Deprecated: since 0.7.6\n- Replacement: `moe.ep_mp_group`\n- Aliases: `expert_mp_group` (0.7.6 and later)\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    moe_experts: Sequence[int]
    """Old name of `moe.moe_experts`.\n\n- Accepts: a list\n- Default: `[1]`\n- Deprecated: since 0.7.6\n- Replacement: `moe.moe_experts`\n- Releases: 0.7.6 and later"""
    moe_type: Literal["standard", "residual"] | Enum
    """Old name of `moe.type`.\n\n- Accepts: `"standard"` or `"residual"`\n- Default: `"standard"`\n- Deprecated: since 0.7.6\n- Replacement: `moe.type`\n- Releases: 0.7.6 and later"""

class InferenceTensorParallelDict(TypedDict, total=False):
    """Splits the model over GPUs for inference."""
    enabled: bool
    """Accepted without effect: `tp_size` alone decides.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Note: accepted but has no effect\n- Releases: 0.7.6 and later"""
    tp_size: int
    """Number of GPUs over which the model is split.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.6 and later"""
    tp_grain_size: int
    """Multiple to which split MLP and LM-head sizes are kept; matrix libraries prefer powers of two.\n\n- Accepts: an integer\n- Unit: elements\n- Default: `64`\n- Releases: 0.16.2 and later"""
    mpu: object
    """Model-parallel unit, a Python object; replaces `tp_size`.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    tp_group: object
    """Process group, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""

class InferenceMoEDict(TypedDict, total=False):
    """Expert parallelism of a mixture-of-experts model during inference."""
    enabled: bool
    """Whether the model has MoE layers.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""
    ep_size: int
    """Number of GPUs over which the experts are split.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.6 and later"""
    moe_experts: Sequence[int]
    """Number of experts of each MoE layer.\n\n- Accepts: a list\n- Default: `[1]`\n- Aliases: `num_experts` (0.7.6 and later)\n- Releases: 0.7.6 and later"""
    type: Literal["standard", "residual"] | Enum
    """Kind of MoE layer.\n\n- Accepts: `"standard"` or `"residual"`\n- Default: `"standard"`\n- Releases: 0.7.6 and later"""
    ep_mp_group: object
    """Process group of expert and model parallelism, a Python object.\n\n- Accepts: any value\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""
    ep_group: object
    """Process group of expert parallelism, a Python object.\n\n- Accepts: any value\n- Aliases: `expert_group` (0.7.6 and later)\n- Note: cannot be given a meaningful value in JSON\n- Releases: 0.7.6 and later"""

class InferenceQuantizationDict(TypedDict, total=False):
    """Quantization settings. DeepSpeed parses them, but no inference engine reads them."""
    enabled: bool
    """Quantize the model.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""
    activation: model.InferenceActivationQuantization | InferenceActivationQuantizationDict
    """Quantization of activations.\n\n- Accepts: an object\n- Releases: 0.7.6 and later"""
    weight: model.InferenceWeightQuantization | InferenceWeightQuantizationDict
    """Quantization of weights.\n\n- Accepts: an object\n- Releases: 0.7.6 and later"""
    qkv: model.InferenceQKVQuantization | InferenceQKVQuantizationDict
    """Quantization of the query, key and value projections.\n\n- Accepts: an object\n- Releases: 0.7.6 and later"""

class InferenceActivationQuantizationDict(TypedDict, total=False):
    """Quantization of activations. DeepSpeed parses it, but no inference engine reads it."""
    enabled: bool
    """Quantize these tensors.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""
    num_bits: int
    """Bits per quantized value.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `8`\n- Releases: 0.7.6 and later"""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Range of the quantized values.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.6 and later"""
    q_groups: int
    """Number of groups, each with its own scale.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.6 and later"""

class InferenceWeightQuantizationDict(TypedDict, total=False):
    """Quantization of weights. DeepSpeed parses it, but no inference engine reads it."""
    enabled: bool
    """Quantize these tensors.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""
    num_bits: int
    """Bits per quantized value.\n\n- Accepts: an integer\n- Unit: bits\n- Default: `8`\n- Releases: 0.7.6 and later"""
    q_type: Literal["symmetric", "asymmetric"] | Enum
    """Range of the quantized values.\n\n- Accepts: `"symmetric"` or `"asymmetric"`\n- Default: `"symmetric"`\n- Releases: 0.7.6 and later"""
    q_groups: int
    """Number of groups, each with its own scale.\n\n- Accepts: an integer\n- Default: `1`\n- Releases: 0.7.6 and later"""
    quantized_initialization: Mapping[str, Any]
    """Quantization while the model is built; only `weight_quantization` of a training config has an effect.\n\n- Accepts: an object\n- Default: `{}`\n- Releases: 0.10.3 and later"""
    post_init_quant: Mapping[str, Any]
    """Quantization of an existing model; only `weight_quantization` of a training config has an effect.\n\n- Accepts: an object\n- Default: `{}`\n- Releases: 0.10.3 and later"""

class InferenceQKVQuantizationDict(TypedDict, total=False):
    """Quantization of the attention projections. DeepSpeed parses it, but no inference engine reads it."""
    enabled: bool
    """Quantize the query, key and value projections.\n\n- Accepts: `true` or `false`\n- Default: `true`\n- Releases: 0.7.6 and later"""

class InferenceCheckpointDict(TypedDict, total=False):
    """Checkpoint paths. DeepSpeed parses them, but the engine reads the top-level keys of the same names."""
    checkpoint_dir: str | None | os.PathLike[str]
    """Directory of the checkpoint.\n\n- Accepts: a string or `null`\n- Releases: 0.7.6 and later"""
    save_mp_checkpoint_path: str | None | os.PathLike[str]
    """Directory to which the split checkpoint is saved.\n\n- Accepts: a string or `null`\n- Releases: 0.7.6 and later"""
    base_dir: str | None | os.PathLike[str]
    """Directory to which the paths in the checkpoint description are relative.\n\n- Accepts: a string or `null`\n- Releases: 0.7.6 and later"""
