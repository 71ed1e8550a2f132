"""Generated from dsconfig/model and dsconfig/__init__.py by `make generate`; do not edit.

Declarative schema and validation toolkit for DeepSpeed configuration.

    report = dsconfig.check("ds_config.json", target="0.19.8", world_size=64)
    config = dsconfig.load("ds_config.json")
    config = dsconfig.Config(train_batch_size=64, zero_optimization=dsconfig.ZeroOptimization(stage=3))

Names are imported when they are first used: `import dsconfig` alone loads nothing else.
"""

from dsconfig import types as types
from dsconfig.api import presets as presets
from dsconfig.api.check import (
    check as check,
)
from dsconfig.api.config import (
    CommentsDroppedWarning as CommentsDroppedWarning,
    Config as Config,
    load as load,
)
from dsconfig.api.migrate_api import (
    migrate as migrate,
)
from dsconfig.api.typed_model import (
    ConfigError as ConfigError,
)
from dsconfig.check.compat import (
    Stretch as Stretch,
    compat as compat,
)
from dsconfig.check.report import (
    Report as Report,
)
from dsconfig.core.diagnostic import (
    Diagnostic as Diagnostic,
    Effect as Effect,
    Fix as Fix,
    Location as Location,
    Related as Related,
)
from dsconfig.core.releases import (
    LATEST as LATEST,
    RELEASES as RELEASES,
    UnknownReleaseError as UnknownReleaseError,
)
from dsconfig.fix.fix import (
    FixResult as FixResult,
    fix as fix,
)
from dsconfig.fix.migrate import (
    Migration as Migration,
)
from dsconfig.memory.estimate import (
    Estimate as Estimate,
)
from dsconfig.memory.verdict import (
    NotModelledError as NotModelledError,
)
from dsconfig.model import (
    ActivationCheckpointing as ActivationCheckpointing,
    Aio as Aio,
    Amp as Amp,
    Autotuning as Autotuning,
    Bf16 as Bf16,
    BuildError as BuildError,
    Checkpoint as Checkpoint,
    Comet as Comet,
    CommsLogger as CommsLogger,
    Compile as Compile,
    CompressionTraining as CompressionTraining,
    CsvMonitor as CsvMonitor,
    CurriculumLearning as CurriculumLearning,
    DataEfficiency as DataEfficiency,
    DataTypes as DataTypes,
    DatastatesCkpt as DatastatesCkpt,
    Elasticity as Elasticity,
    ExpertParallel as ExpertParallel,
    FlopsProfiler as FlopsProfiler,
    Fp16 as Fp16,
    HybridEngine as HybridEngine,
    Nebula as Nebula,
    OffloadOptimizer as OffloadOptimizer,
    OffloadParam as OffloadParam,
    Optimizer as Optimizer,
    Pipeline as Pipeline,
    ProgressiveLayerDrop as ProgressiveLayerDrop,
    QuantizeTraining as QuantizeTraining,
    Scheduler as Scheduler,
    SparseAttention as SparseAttention,
    TensorParallel as TensorParallel,
    Tensorboard as Tensorboard,
    ThroughputTimer as ThroughputTimer,
    Timers as Timers,
    TorchAutocast as TorchAutocast,
    Wandb as Wandb,
    WeightQuantization as WeightQuantization,
    ZenFlow as ZenFlow,
    ZeroOptimization as ZeroOptimization,
)
from dsconfig.model.compose import (
    Difference as Difference,
)
from dsconfig.resolve.effective_values import (
    Shown as Shown,
    show as show,
)
from dsconfig.resolve.errors import (
    ResolveError as ResolveError,
    UnknownWorldSizeError as UnknownWorldSizeError,
)
from dsconfig.resolve.memory import (
    memory as memory,
)
from dsconfig.resolve.resolve import (
    resolve as resolve,
)
from dsconfig.resolve.run import (
    Run as Run,
)
from dsconfig.schema import (
    json_schema as json_schema,
)

__version__: str
__all__ = [
    "LATEST",
    "RELEASES",
    "ActivationCheckpointing",
    "Aio",
    "Amp",
    "Autotuning",
    "Bf16",
    "BuildError",
    "Checkpoint",
    "Comet",
    "CommentsDroppedWarning",
    "CommsLogger",
    "Compile",
    "CompressionTraining",
    "Config",
    "ConfigError",
    "CsvMonitor",
    "CurriculumLearning",
    "DataEfficiency",
    "DataTypes",
    "DatastatesCkpt",
    "Diagnostic",
    "Difference",
    "Effect",
    "Elasticity",
    "Estimate",
    "ExpertParallel",
    "Fix",
    "FixResult",
    "FlopsProfiler",
    "Fp16",
    "HybridEngine",
    "Location",
    "Migration",
    "Nebula",
    "NotModelledError",
    "OffloadOptimizer",
    "OffloadParam",
    "Optimizer",
    "Pipeline",
    "ProgressiveLayerDrop",
    "QuantizeTraining",
    "Related",
    "Report",
    "ResolveError",
    "Run",
    "Scheduler",
    "Shown",
    "SparseAttention",
    "Stretch",
    "TensorParallel",
    "Tensorboard",
    "ThroughputTimer",
    "Timers",
    "TorchAutocast",
    "UnknownReleaseError",
    "UnknownWorldSizeError",
    "Wandb",
    "WeightQuantization",
    "ZenFlow",
    "ZeroOptimization",
    "__version__",
    "check",
    "compat",
    "fix",
    "json_schema",
    "load",
    "memory",
    "migrate",
    "presets",
    "resolve",
    "show",
    "types",
]
