"""The typed model of the whole DeepSpeed config over all releases; a file per domain.

Importing this package imports nothing: a class comes with its module when it is first asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.model.activation_checkpointing import ActivationCheckpointing
    from dsconfig.model.aio import Aio
    from dsconfig.model.autotuning import Autotuning, ModelInfo
    from dsconfig.model.base import Key, Section
    from dsconfig.model.checkpoint import Checkpoint, CheckpointWriter, DatastatesCkpt, Nebula, ParallelWrite
    from dsconfig.model.compile import Compile
    from dsconfig.model.compression import CompressionTraining
    from dsconfig.model.compression.groups import DenseRatio, Group
    from dsconfig.model.compression.layer_reduction import LayerReduction
    from dsconfig.model.compression.pruning import (
        ChannelGroup,
        ChannelParameters,
        ChannelPruning,
        HeadGroup,
        HeadParameters,
        HeadPruning,
        RowGroup,
        RowParameters,
        RowPruning,
        SparseGroup,
        SparseParameters,
        SparsePruning,
    )
    from dsconfig.model.compression.quantize import (
        ActivationBits,
        ActivationGroup,
        ActivationParameters,
        MixedFp16,
        QuantizedActivations,
        QuantizedWeights,
        WeightBits,
        WeightGroup,
        WeightParameters,
    )
    from dsconfig.model.config import Config
    from dsconfig.model.data import DataEfficiency
    from dsconfig.model.data.curriculum import CurriculumLearning, LengthSchedule
    from dsconfig.model.data.routing import (
        DataRouting,
        LayerTokenLearningRate,
        RandomLtd,
        TokenSchedule,
        TokenScheduleConfig,
    )
    from dsconfig.model.data.sampling import (
        CurriculumMetric,
        DataSampling,
        DynamicBatching,
        MetricCurriculum,
        MetricSchedule,
    )
    from dsconfig.model.elasticity import Elasticity
    from dsconfig.model.expert_parallel import ExpertParallel
    from dsconfig.model.hybrid_engine import HybridEngine
    from dsconfig.model.monitor import Comet, CsvMonitor, Tensorboard, Wandb
    from dsconfig.model.offload import OffloadOptimizer, OffloadParam
    from dsconfig.model.optimizer import (
        OPTIMIZERS,
        AdagradParams,
        AdamParams,
        AdamWParams,
        LambParams,
        LionParams,
        MuonParams,
        OneBitAdamParams,
        OneBitLambParams,
        OneBitParams,
        Optimizer,
        OptimizerParams,
        OptimizerType,
        ZeroOneAdamParams,
    )
    from dsconfig.model.pipeline import Pipeline
    from dsconfig.model.precision import Amp, Bf16, DataTypes, Fp16, TorchAutocast
    from dsconfig.model.profiling import CommsLogger, FlopsProfiler, ThroughputTimer, Timers
    from dsconfig.model.progressive_layer_drop import ProgressiveLayerDrop
    from dsconfig.model.quantization import (
        Eigenvalue,
        Fp16MixedQuantize,
        GroupQuantization,
        QuantizeAlgo,
        QuantizeBits,
        QuantizeSchedule,
        QuantizeTraining,
        WeightQuantization,
    )
    from dsconfig.model.scheduler import (
        SCHEDULERS,
        LRRangeTestParams,
        OneCycleParams,
        Scheduler,
        SchedulerParams,
        SchedulerType,
        WarmupCosineLRParams,
        WarmupDecayLRParams,
        WarmupLRParams,
    )
    from dsconfig.model.sparse_attention import SparseAttention
    from dsconfig.model.tensor_parallel import LayerSpec, PartitionConfig, TensorParallel, TensorParallelGroup
    from dsconfig.model.zenflow import ZenFlow
    from dsconfig.model.zero import LeafModule, ZeroOptimization, ZeroppLocoParam
else:
    _MODULES = {
        "activation_checkpointing": "ActivationCheckpointing",
        "aio": "Aio",
        "autotuning": "Autotuning ModelInfo",
        "base": "Key Section",
        "checkpoint": "Checkpoint CheckpointWriter DatastatesCkpt Nebula ParallelWrite",
        "compile": "Compile",
        "compression": "CompressionTraining",
        "compression.groups": "DenseRatio Group",
        "compression.layer_reduction": "LayerReduction",
        "compression.pruning": (
            "ChannelGroup ChannelParameters ChannelPruning HeadGroup HeadParameters HeadPruning "
            "RowGroup RowParameters RowPruning SparseGroup SparseParameters SparsePruning"
        ),
        "compression.quantize": (
            "ActivationBits ActivationGroup ActivationParameters MixedFp16 QuantizedActivations "
            "QuantizedWeights WeightBits WeightGroup WeightParameters"
        ),
        "config": "Config",
        "data": "DataEfficiency",
        "data.curriculum": "CurriculumLearning LengthSchedule",
        "data.routing": "DataRouting LayerTokenLearningRate RandomLtd TokenSchedule TokenScheduleConfig",
        "data.sampling": "CurriculumMetric DataSampling DynamicBatching MetricCurriculum MetricSchedule",
        "elasticity": "Elasticity",
        "expert_parallel": "ExpertParallel",
        "hybrid_engine": "HybridEngine",
        "monitor": "Comet CsvMonitor Tensorboard Wandb",
        "offload": "OffloadOptimizer OffloadParam",
        "optimizer": (
            "AdagradParams AdamParams AdamWParams LambParams LionParams MuonParams OPTIMIZERS "
            "OneBitAdamParams OneBitLambParams OneBitParams Optimizer OptimizerParams OptimizerType "
            "ZeroOneAdamParams"
        ),
        "pipeline": "Pipeline",
        "precision": "Amp Bf16 DataTypes Fp16 TorchAutocast",
        "profiling": "CommsLogger FlopsProfiler ThroughputTimer Timers",
        "progressive_layer_drop": "ProgressiveLayerDrop",
        "quantization": (
            "Eigenvalue Fp16MixedQuantize GroupQuantization QuantizeAlgo QuantizeBits QuantizeSchedule "
            "QuantizeTraining WeightQuantization"
        ),
        "scheduler": (
            "LRRangeTestParams OneCycleParams SCHEDULERS Scheduler SchedulerParams SchedulerType "
            "WarmupCosineLRParams WarmupDecayLRParams WarmupLRParams"
        ),
        "sparse_attention": "SparseAttention",
        "tensor_parallel": "LayerSpec PartitionConfig TensorParallel TensorParallelGroup",
        "zenflow": "ZenFlow",
        "zero": "LeafModule ZeroOptimization ZeroppLocoParam",
    }
    _HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        """Import the module that holds `name`."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Name also what is not imported yet."""
        return sorted({*globals(), *_HOME})


__all__ = [
    "OPTIMIZERS",
    "SCHEDULERS",
    "ActivationBits",
    "ActivationCheckpointing",
    "ActivationGroup",
    "ActivationParameters",
    "AdagradParams",
    "AdamParams",
    "AdamWParams",
    "Aio",
    "Amp",
    "Autotuning",
    "Bf16",
    "ChannelGroup",
    "ChannelParameters",
    "ChannelPruning",
    "Checkpoint",
    "CheckpointWriter",
    "Comet",
    "CommsLogger",
    "Compile",
    "CompressionTraining",
    "Config",
    "CsvMonitor",
    "CurriculumLearning",
    "CurriculumMetric",
    "DataEfficiency",
    "DataRouting",
    "DataSampling",
    "DataTypes",
    "DatastatesCkpt",
    "DenseRatio",
    "DynamicBatching",
    "Eigenvalue",
    "Elasticity",
    "ExpertParallel",
    "FlopsProfiler",
    "Fp16",
    "Fp16MixedQuantize",
    "Group",
    "GroupQuantization",
    "HeadGroup",
    "HeadParameters",
    "HeadPruning",
    "HybridEngine",
    "Key",
    "LRRangeTestParams",
    "LambParams",
    "LayerReduction",
    "LayerSpec",
    "LayerTokenLearningRate",
    "LeafModule",
    "LengthSchedule",
    "LionParams",
    "MetricCurriculum",
    "MetricSchedule",
    "MixedFp16",
    "ModelInfo",
    "MuonParams",
    "Nebula",
    "OffloadOptimizer",
    "OffloadParam",
    "OneBitAdamParams",
    "OneBitLambParams",
    "OneBitParams",
    "OneCycleParams",
    "Optimizer",
    "OptimizerParams",
    "OptimizerType",
    "ParallelWrite",
    "PartitionConfig",
    "Pipeline",
    "ProgressiveLayerDrop",
    "QuantizeAlgo",
    "QuantizeBits",
    "QuantizeSchedule",
    "QuantizeTraining",
    "QuantizedActivations",
    "QuantizedWeights",
    "RandomLtd",
    "RowGroup",
    "RowParameters",
    "RowPruning",
    "Scheduler",
    "SchedulerParams",
    "SchedulerType",
    "Section",
    "SparseAttention",
    "SparseGroup",
    "SparseParameters",
    "SparsePruning",
    "TensorParallel",
    "TensorParallelGroup",
    "Tensorboard",
    "ThroughputTimer",
    "Timers",
    "TokenSchedule",
    "TokenScheduleConfig",
    "TorchAutocast",
    "Wandb",
    "WarmupCosineLRParams",
    "WarmupDecayLRParams",
    "WarmupLRParams",
    "WeightBits",
    "WeightGroup",
    "WeightParameters",
    "WeightQuantization",
    "ZenFlow",
    "ZeroOneAdamParams",
    "ZeroOptimization",
    "ZeroppLocoParam",
]
