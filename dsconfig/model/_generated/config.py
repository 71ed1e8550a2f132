"""Generated from dsconfig/model by `make generate`; do not edit.

The DeepSpeed config over all releases, composed of the root keys that each module declares.
"""

from dsconfig.model.activation_checkpointing import ActivationCheckpointingRootKeys
from dsconfig.model.aio import AioRootKeys
from dsconfig.model.autotuning import AutotuningRootKeys
from dsconfig.model.batch import BatchRootKeys
from dsconfig.model.checkpoint import CheckpointRootKeys
from dsconfig.model.communication import CommunicationRootKeys
from dsconfig.model.compile import CompileRootKeys
from dsconfig.model.compression import CompressionRootKeys
from dsconfig.model.data import DataRootKeys
from dsconfig.model.elasticity import ElasticityRootKeys
from dsconfig.model.engine import EngineRootKeys
from dsconfig.model.expert_parallel import ExpertParallelRootKeys
from dsconfig.model.hybrid_engine import HybridEngineRootKeys
from dsconfig.model.monitor import MonitorRootKeys
from dsconfig.model.optimizer import OptimizerRootKeys
from dsconfig.model.pipeline import PipelineRootKeys
from dsconfig.model.precision import PrecisionRootKeys
from dsconfig.model.profiling import ProfilingRootKeys
from dsconfig.model.progressive_layer_drop import ProgressiveLayerDropRootKeys
from dsconfig.model.quantization import QuantizationRootKeys
from dsconfig.model.scheduler import SchedulerRootKeys
from dsconfig.model.sparse_attention import SparseAttentionRootKeys
from dsconfig.model.tensor_parallel import TensorParallelRootKeys
from dsconfig.model.zero import ZeroRootKeys


class Config(
    SparseAttentionRootKeys,
    ProgressiveLayerDropRootKeys,
    ElasticityRootKeys,
    HybridEngineRootKeys,
    CompileRootKeys,
    QuantizationRootKeys,
    CompressionRootKeys,
    DataRootKeys,
    AutotuningRootKeys,
    ProfilingRootKeys,
    MonitorRootKeys,
    CheckpointRootKeys,
    ExpertParallelRootKeys,
    TensorParallelRootKeys,
    PipelineRootKeys,
    ActivationCheckpointingRootKeys,
    AioRootKeys,
    ZeroRootKeys,
    SchedulerRootKeys,
    OptimizerRootKeys,
    PrecisionRootKeys,
    BatchRootKeys,
    CommunicationRootKeys,
    EngineRootKeys,
):
    """A DeepSpeed config: the content of a `ds_config.json`.

    DeepSpeed ignores unknown keys at this level, in every release.
    """
