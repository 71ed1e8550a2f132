"""Generated from dsconfig/model by `make generate`; do not edit.

The module of each section class, below `dsconfig.model`. The imports lead editors from the stub to docstrings.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsconfig.model._generated.config import (
        Config as Config
    )
    from dsconfig.model.activation_checkpointing import (
        ActivationCheckpointing as ActivationCheckpointing
    )
    from dsconfig.model.aio import (
        Aio as Aio
    )
    from dsconfig.model.autotuning import (
        Autotuning as Autotuning, ModelInfo as ModelInfo
    )
    from dsconfig.model.checkpoint import (
        Checkpoint as Checkpoint, CheckpointWriter as CheckpointWriter, DatastatesCkpt as DatastatesCkpt,
        Nebula as Nebula, ParallelWrite as ParallelWrite
    )
    from dsconfig.model.compile import (
        Compile as Compile
    )
    from dsconfig.model.compression import (
        ActivationBits as ActivationBits, ActivationGroup as ActivationGroup,
        ActivationParameters as ActivationParameters, ChannelPruning as ChannelPruning,
        ChannelPruningGroup as ChannelPruningGroup, ChannelPruningParameters as ChannelPruningParameters,
        CompressionTraining as CompressionTraining, DenseRatio as DenseRatio, HeadPruning as HeadPruning,
        HeadPruningGroup as HeadPruningGroup, HeadPruningParameters as HeadPruningParameters,
        LayerReduction as LayerReduction, MixedFp16 as MixedFp16,
        QuantizedActivations as QuantizedActivations, QuantizedWeights as QuantizedWeights,
        RowPruning as RowPruning, RowPruningGroup as RowPruningGroup,
        RowPruningParameters as RowPruningParameters, SparsePruning as SparsePruning,
        SparsePruningGroup as SparsePruningGroup, SparsePruningParameters as SparsePruningParameters,
        WeightBits as WeightBits, WeightGroup as WeightGroup, WeightParameters as WeightParameters
    )
    from dsconfig.model.data import (
        CurriculumLearning as CurriculumLearning, CurriculumMetric as CurriculumMetric,
        DataEfficiency as DataEfficiency, DataRouting as DataRouting, DataSampling as DataSampling,
        DynamicBatching as DynamicBatching, LayerTokenLearningRate as LayerTokenLearningRate,
        LengthSchedule as LengthSchedule, MetricCurriculum as MetricCurriculum,
        MetricSchedule as MetricSchedule, RandomLtd as RandomLtd, TokenSchedule as TokenSchedule,
        TokenScheduleConfig as TokenScheduleConfig
    )
    from dsconfig.model.elasticity import (
        Elasticity as Elasticity
    )
    from dsconfig.model.expert_parallel import (
        ExpertParallel as ExpertParallel
    )
    from dsconfig.model.hybrid_engine import (
        HybridEngine as HybridEngine
    )
    from dsconfig.model.inference import (
        InferenceActivationQuantization as InferenceActivationQuantization,
        InferenceCheckpoint as InferenceCheckpoint, InferenceConfig as InferenceConfig,
        InferenceMoE as InferenceMoE, InferenceQKVQuantization as InferenceQKVQuantization,
        InferenceQuantization as InferenceQuantization, InferenceTensorParallel as InferenceTensorParallel,
        InferenceWeightQuantization as InferenceWeightQuantization
    )
    from dsconfig.model.monitor import (
        Comet as Comet, CsvMonitor as CsvMonitor, Tensorboard as Tensorboard, Wandb as Wandb
    )
    from dsconfig.model.optimizer import (
        AdagradParams as AdagradParams, AdamParams as AdamParams, AdamWParams as AdamWParams,
        LambParams as LambParams, LionParams as LionParams, MuonParams as MuonParams,
        OneBitAdamParams as OneBitAdamParams, OneBitLambParams as OneBitLambParams,
        OneBitParams as OneBitParams, Optimizer as Optimizer, OptimizerParams as OptimizerParams,
        ZeroOneAdamParams as ZeroOneAdamParams
    )
    from dsconfig.model.pipeline import (
        Pipeline as Pipeline
    )
    from dsconfig.model.precision import (
        Amp as Amp, Bf16 as Bf16, DataTypes as DataTypes, Fp16 as Fp16, TorchAutocast as TorchAutocast
    )
    from dsconfig.model.profiling import (
        CommsLogger as CommsLogger, FlopsProfiler as FlopsProfiler, ThroughputTimer as ThroughputTimer,
        Timers as Timers
    )
    from dsconfig.model.progressive_layer_drop import (
        ProgressiveLayerDrop as ProgressiveLayerDrop
    )
    from dsconfig.model.quantization import (
        Eigenvalue as Eigenvalue, Fp16MixedQuantize as Fp16MixedQuantize,
        GroupQuantization as GroupQuantization, QuantizeAlgo as QuantizeAlgo, QuantizeBits as QuantizeBits,
        QuantizeSchedule as QuantizeSchedule, QuantizeTraining as QuantizeTraining,
        WeightQuantization as WeightQuantization
    )
    from dsconfig.model.scheduler import (
        LRRangeTestParams as LRRangeTestParams, OneCycleParams as OneCycleParams, Scheduler as Scheduler,
        SchedulerParams as SchedulerParams, WarmupCosineLRParams as WarmupCosineLRParams,
        WarmupDecayLRParams as WarmupDecayLRParams, WarmupLRParams as WarmupLRParams
    )
    from dsconfig.model.sparse_attention import (
        SparseAttention as SparseAttention
    )
    from dsconfig.model.tensor_parallel import (
        LayerSpec as LayerSpec, PartitionConfig as PartitionConfig, TensorParallel as TensorParallel,
        TensorParallelGroup as TensorParallelGroup
    )
    from dsconfig.model.zero import (
        LeafModule as LeafModule, OffloadOptimizer as OffloadOptimizer, OffloadParam as OffloadParam,
        ZenFlow as ZenFlow, ZeroOptimization as ZeroOptimization, ZeroppLocoParam as ZeroppLocoParam
    )

MODULES = {
    "_generated.config": "Config",
    "activation_checkpointing": "ActivationCheckpointing",
    "aio": "Aio",
    "autotuning": "Autotuning ModelInfo",
    "checkpoint": "Checkpoint CheckpointWriter DatastatesCkpt Nebula ParallelWrite",
    "compile": "Compile",
    "compression": "ActivationBits ActivationGroup ActivationParameters ChannelPruning ChannelPruningGroup ChannelPruningParameters CompressionTraining DenseRatio HeadPruning HeadPruningGroup HeadPruningParameters LayerReduction MixedFp16 QuantizedActivations QuantizedWeights RowPruning RowPruningGroup RowPruningParameters SparsePruning SparsePruningGroup SparsePruningParameters WeightBits WeightGroup WeightParameters",
    "data": "CurriculumLearning CurriculumMetric DataEfficiency DataRouting DataSampling DynamicBatching LayerTokenLearningRate LengthSchedule MetricCurriculum MetricSchedule RandomLtd TokenSchedule TokenScheduleConfig",
    "elasticity": "Elasticity",
    "expert_parallel": "ExpertParallel",
    "hybrid_engine": "HybridEngine",
    "inference": "InferenceActivationQuantization InferenceCheckpoint InferenceConfig InferenceMoE InferenceQKVQuantization InferenceQuantization InferenceTensorParallel InferenceWeightQuantization",
    "monitor": "Comet CsvMonitor Tensorboard Wandb",
    "optimizer": "AdagradParams AdamParams AdamWParams LambParams LionParams MuonParams OneBitAdamParams OneBitLambParams OneBitParams Optimizer OptimizerParams ZeroOneAdamParams",
    "pipeline": "Pipeline",
    "precision": "Amp Bf16 DataTypes Fp16 TorchAutocast",
    "profiling": "CommsLogger FlopsProfiler ThroughputTimer Timers",
    "progressive_layer_drop": "ProgressiveLayerDrop",
    "quantization": "Eigenvalue Fp16MixedQuantize GroupQuantization QuantizeAlgo QuantizeBits QuantizeSchedule QuantizeTraining WeightQuantization",
    "scheduler": "LRRangeTestParams OneCycleParams Scheduler SchedulerParams WarmupCosineLRParams WarmupDecayLRParams WarmupLRParams",
    "sparse_attention": "SparseAttention",
    "tensor_parallel": "LayerSpec PartitionConfig TensorParallel TensorParallelGroup",
    "zero": "LeafModule OffloadOptimizer OffloadParam ZenFlow ZeroOptimization ZeroppLocoParam",
}
