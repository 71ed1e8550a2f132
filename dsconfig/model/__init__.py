"""Generated from dsconfig/model by `make generate`; do not edit.

The typed model of the whole DeepSpeed config over all releases; a file per domain. Importing this package
imports nothing: a class comes with its module when it is first asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.model.activation_checkpointing import ActivationCheckpointing
    from dsconfig.model.aio import Aio
    from dsconfig.model.autotuning import Autotuning, ModelInfo
    from dsconfig.model.checkpoint import Checkpoint, CheckpointWriter, DatastatesCkpt, Nebula, ParallelWrite
    from dsconfig.model.compile import Compile
    from dsconfig.model.compression import CompressionTraining
    from dsconfig.model.compression.groups import DenseRatio
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
    from dsconfig.model.key import Key
    from dsconfig.model.monitor import Comet, CsvMonitor, Tensorboard, Wandb
    from dsconfig.model.offload import OffloadOptimizer, OffloadParam
    from dsconfig.model.optimizer import OPTIMIZERS, Optimizer, OptimizerType
    from dsconfig.model.optimizer.adam import AdagradParams, AdamParams, AdamWParams
    from dsconfig.model.optimizer.lamb import LambParams
    from dsconfig.model.optimizer.lion import LionParams
    from dsconfig.model.optimizer.muon import MuonParams
    from dsconfig.model.optimizer.one_bit import (
        OneBitAdamParams,
        OneBitLambParams,
        OneBitParams,
        ZeroOneAdamParams,
    )
    from dsconfig.model.optimizer.params import OptimizerParams
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
    from dsconfig.model.section import Section
    from dsconfig.model.sparse_attention import SparseAttention
    from dsconfig.model.tensor_parallel import LayerSpec, PartitionConfig, TensorParallel, TensorParallelGroup
    from dsconfig.model.zenflow import ZenFlow
    from dsconfig.model.zero import ZeroOptimization
    from dsconfig.model.zero.leaf_module import LeafModule
    from dsconfig.model.zero.loco import ZeroppLocoParam
else:
    _HOME = {
        "ActivationBits": "compression.quantize",
        "ActivationCheckpointing": "activation_checkpointing",
        "ActivationGroup": "compression.quantize",
        "ActivationParameters": "compression.quantize",
        "AdagradParams": "optimizer.adam",
        "AdamParams": "optimizer.adam",
        "AdamWParams": "optimizer.adam",
        "Aio": "aio",
        "Amp": "precision",
        "Autotuning": "autotuning",
        "Bf16": "precision",
        "ChannelGroup": "compression.pruning",
        "ChannelParameters": "compression.pruning",
        "ChannelPruning": "compression.pruning",
        "Checkpoint": "checkpoint",
        "CheckpointWriter": "checkpoint",
        "Comet": "monitor",
        "CommsLogger": "profiling",
        "Compile": "compile",
        "CompressionTraining": "compression",
        "Config": "config",
        "CsvMonitor": "monitor",
        "CurriculumLearning": "data.curriculum",
        "CurriculumMetric": "data.sampling",
        "DataEfficiency": "data",
        "DataRouting": "data.routing",
        "DataSampling": "data.sampling",
        "DataTypes": "precision",
        "DatastatesCkpt": "checkpoint",
        "DenseRatio": "compression.groups",
        "DynamicBatching": "data.sampling",
        "Eigenvalue": "quantization",
        "Elasticity": "elasticity",
        "ExpertParallel": "expert_parallel",
        "FlopsProfiler": "profiling",
        "Fp16": "precision",
        "Fp16MixedQuantize": "quantization",
        "GroupQuantization": "quantization",
        "HeadGroup": "compression.pruning",
        "HeadParameters": "compression.pruning",
        "HeadPruning": "compression.pruning",
        "HybridEngine": "hybrid_engine",
        "Key": "key",
        "LRRangeTestParams": "scheduler",
        "LambParams": "optimizer.lamb",
        "LayerReduction": "compression.layer_reduction",
        "LayerSpec": "tensor_parallel",
        "LayerTokenLearningRate": "data.routing",
        "LeafModule": "zero.leaf_module",
        "LengthSchedule": "data.curriculum",
        "LionParams": "optimizer.lion",
        "MetricCurriculum": "data.sampling",
        "MetricSchedule": "data.sampling",
        "MixedFp16": "compression.quantize",
        "ModelInfo": "autotuning",
        "MuonParams": "optimizer.muon",
        "Nebula": "checkpoint",
        "OPTIMIZERS": "optimizer",
        "OffloadOptimizer": "offload",
        "OffloadParam": "offload",
        "OneBitAdamParams": "optimizer.one_bit",
        "OneBitLambParams": "optimizer.one_bit",
        "OneBitParams": "optimizer.one_bit",
        "OneCycleParams": "scheduler",
        "Optimizer": "optimizer",
        "OptimizerParams": "optimizer.params",
        "OptimizerType": "optimizer",
        "ParallelWrite": "checkpoint",
        "PartitionConfig": "tensor_parallel",
        "Pipeline": "pipeline",
        "ProgressiveLayerDrop": "progressive_layer_drop",
        "QuantizeAlgo": "quantization",
        "QuantizeBits": "quantization",
        "QuantizeSchedule": "quantization",
        "QuantizeTraining": "quantization",
        "QuantizedActivations": "compression.quantize",
        "QuantizedWeights": "compression.quantize",
        "RandomLtd": "data.routing",
        "RowGroup": "compression.pruning",
        "RowParameters": "compression.pruning",
        "RowPruning": "compression.pruning",
        "SCHEDULERS": "scheduler",
        "Scheduler": "scheduler",
        "SchedulerParams": "scheduler",
        "SchedulerType": "scheduler",
        "Section": "section",
        "SparseAttention": "sparse_attention",
        "SparseGroup": "compression.pruning",
        "SparseParameters": "compression.pruning",
        "SparsePruning": "compression.pruning",
        "TensorParallel": "tensor_parallel",
        "TensorParallelGroup": "tensor_parallel",
        "Tensorboard": "monitor",
        "ThroughputTimer": "profiling",
        "Timers": "profiling",
        "TokenSchedule": "data.routing",
        "TokenScheduleConfig": "data.routing",
        "TorchAutocast": "precision",
        "Wandb": "monitor",
        "WarmupCosineLRParams": "scheduler",
        "WarmupDecayLRParams": "scheduler",
        "WarmupLRParams": "scheduler",
        "WeightBits": "compression.quantize",
        "WeightGroup": "compression.quantize",
        "WeightParameters": "compression.quantize",
        "WeightQuantization": "quantization",
        "ZenFlow": "zenflow",
        "ZeroOneAdamParams": "optimizer.one_bit",
        "ZeroOptimization": "zero",
        "ZeroppLocoParam": "zero.loco",
    }

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
