"""Generated from dsconfig/model and dsconfig/__init__.py by `make generate`; do not edit.

The section classes that `dsconfig` exports.
"""

from dsconfig.model import (
    ActivationCheckpointing as ActivationCheckpointing, Aio as Aio, Amp as Amp, Autotuning as Autotuning,
    Bf16 as Bf16, BuildError as BuildError, Checkpoint as Checkpoint, Comet as Comet,
    CommsLogger as CommsLogger, Compile as Compile, CompressionTraining as CompressionTraining,
    CsvMonitor as CsvMonitor, CurriculumLearning as CurriculumLearning, DataEfficiency as DataEfficiency,
    DataTypes as DataTypes, DatastatesCkpt as DatastatesCkpt, Elasticity as Elasticity,
    ExpertParallel as ExpertParallel, FlopsProfiler as FlopsProfiler, Fp16 as Fp16,
    HybridEngine as HybridEngine, Nebula as Nebula, OffloadOptimizer as OffloadOptimizer,
    OffloadParam as OffloadParam, Optimizer as Optimizer, Pipeline as Pipeline,
    ProgressiveLayerDrop as ProgressiveLayerDrop, QuantizeTraining as QuantizeTraining,
    Scheduler as Scheduler, SparseAttention as SparseAttention, TensorParallel as TensorParallel,
    Tensorboard as Tensorboard, ThroughputTimer as ThroughputTimer, Timers as Timers,
    TorchAutocast as TorchAutocast, Wandb as Wandb, WeightQuantization as WeightQuantization,
    ZenFlow as ZenFlow, ZeroOptimization as ZeroOptimization
)
