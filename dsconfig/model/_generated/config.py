"""Generated from dsconfig/model by `make generate`; do not edit.

The DeepSpeed config over all releases, composed of the root keys that each module declares.
"""

from dsconfig.model.activation_checkpointing import ActivationCheckpointingKeys
from dsconfig.model.aio import AioKeys
from dsconfig.model.autotuning import AutotuningKeys
from dsconfig.model.batch import BatchKeys
from dsconfig.model.checkpoint import CheckpointKeys
from dsconfig.model.communication import CommunicationKeys
from dsconfig.model.compile import CompileKeys
from dsconfig.model.compression import CompressionKeys
from dsconfig.model.data import DataKeys
from dsconfig.model.elasticity import ElasticityKeys
from dsconfig.model.engine import EngineKeys
from dsconfig.model.expert_parallel import ExpertParallelKeys
from dsconfig.model.hybrid_engine import HybridEngineKeys
from dsconfig.model.monitor import MonitorKeys
from dsconfig.model.optimizer import OptimizerKeys
from dsconfig.model.pipeline import PipelineKeys
from dsconfig.model.precision import PrecisionKeys
from dsconfig.model.profiling import ProfilingKeys
from dsconfig.model.progressive_layer_drop import ProgressiveLayerDropKeys
from dsconfig.model.quantization import QuantizationKeys
from dsconfig.model.scheduler import SchedulerKeys
from dsconfig.model.sparse_attention import SparseAttentionKeys
from dsconfig.model.tensor_parallel import TensorParallelKeys
from dsconfig.model.zero import ZeroKeys


class Config(
    SparseAttentionKeys,
    ProgressiveLayerDropKeys,
    ElasticityKeys,
    HybridEngineKeys,
    CompileKeys,
    QuantizationKeys,
    CompressionKeys,
    DataKeys,
    AutotuningKeys,
    ProfilingKeys,
    MonitorKeys,
    CheckpointKeys,
    ExpertParallelKeys,
    TensorParallelKeys,
    PipelineKeys,
    ActivationCheckpointingKeys,
    AioKeys,
    ZeroKeys,
    SchedulerKeys,
    OptimizerKeys,
    PrecisionKeys,
    BatchKeys,
    CommunicationKeys,
    EngineKeys,
):
    """A DeepSpeed config: the content of a `ds_config.json`.

    DeepSpeed ignores unknown keys at this level, in every release.
    """
