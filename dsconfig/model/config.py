"""The whole DeepSpeed config over all releases."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.activation_checkpointing import ActivationCheckpointing
from dsconfig.model.aio import Aio
from dsconfig.model.autotuning import Autotuning
from dsconfig.model.base import ABSENT, ANYTHING, Checked, FreeForm, Key, Takes
from dsconfig.model.batch import BatchKeys
from dsconfig.model.checkpoint import Checkpoint, DatastatesCkpt, Nebula
from dsconfig.model.communication import CommunicationKeys
from dsconfig.model.compile import Compile
from dsconfig.model.compression import CompressionTraining
from dsconfig.model.data import CurriculumLearning, DataEfficiency
from dsconfig.model.elasticity import Elasticity
from dsconfig.model.engine import EngineKeys
from dsconfig.model.expert_parallel import ExpertParallel
from dsconfig.model.hybrid_engine import HybridEngine
from dsconfig.model.monitor import Comet, CsvMonitor, Tensorboard, Wandb
from dsconfig.model.optimizer import Optimizer
from dsconfig.model.pipeline import Pipeline
from dsconfig.model.precision import Amp, Bf16, DataTypes, Fp16, TorchAutocast
from dsconfig.model.profiling import CommsLogger, FlopsProfiler, Timers
from dsconfig.model.progressive_layer_drop import ProgressiveLayerDrop
from dsconfig.model.quantization import QuantizeTraining, WeightQuantization
from dsconfig.model.scheduler import Scheduler
from dsconfig.model.sparse_attention import SparseAttention
from dsconfig.model.tensor_parallel import TensorParallel
from dsconfig.model.zero import ZeroOptimization

MONITOR_TAKES = (Takes(("mapping", "auto"), since="0.8.1", until="0.14.5"), Takes(("auto",), since="0.15.0"))


class Config(BatchKeys, CommunicationKeys, EngineKeys):
    """A DeepSpeed config: what a `ds_config.json` holds.

    Keys that DeepSpeed does not know are ignored at this level, in every release.
    """

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"

    fp16: Annotated[Fp16, Key(since="0.1.0", source="runtime/precision_config.py:get_float16_config")] = (
        Field(default_factory=Fp16)
    )
    """Mixed precision in IEEE half precision (fp16), with loss scaling."""
    bf16: Annotated[
        Bf16,
        Key(
            since="0.6.0",
            source="runtime/precision_config.py:get_bfloat16_config",
            takes=(Takes(("null",), since="0.17.1"),),
        ),
    ] = Field(default_factory=Bf16)
    """Mixed precision in bfloat16, which needs no loss scaling."""
    bfloat16: Annotated[
        Bf16,
        Key(
            since="0.5.5",
            source="runtime/precision_config.py:get_bfloat16_config",
            deprecated="0.6.0",
            replaced_by="bf16",
        ),
    ] = Field(default_factory=Bf16)
    """First name of `bf16`; read only where that one is absent."""
    amp: Annotated[
        Amp,
        Key(
            since="0.3.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_amp_enabled",
            replaced_by="torch_autocast",
        ),
    ] = Field(default_factory=Amp.absent)
    """Mixed precision by NVIDIA Apex."""
    torch_autocast: Annotated[
        TorchAutocast, Key(since="0.17.2", source="runtime/config.py:get_torch_autocast_enabled")
    ] = Field(default_factory=TorchAutocast)
    """Mixed precision by PyTorch's autocast."""
    data_types: Annotated[DataTypes, Key(since="0.7.6", source="runtime/config.py:get_data_types_params")] = (
        Field(default_factory=DataTypes)
    )
    """Number formats of buffers, accumulated gradients and parameters."""

    optimizer: Annotated[Optimizer, Key(since="0.1.0", source="runtime/config.py:get_optimizer_name")] = (
        Field(default_factory=Optimizer)
    )
    """The optimizer that DeepSpeed builds, unless the script passes one."""
    scheduler: Annotated[Scheduler, Key(since="0.1.0", source="runtime/config.py:get_scheduler_name")] = (
        Field(default_factory=Scheduler)
    )
    """The learning-rate scheduler that DeepSpeed builds, unless the script passes one."""

    zero_optimization: Annotated[
        ZeroOptimization,
        Key(
            since="0.1.0",
            source="runtime/zero/config.py:get_zero_config",
            takes=(Takes(("true", "false"), since="0.1.0"),),
        ),
    ] = Field(default_factory=ZeroOptimization)
    """Sharding of training state. The boolean of the first release is still read: true is stage 1, false
    stage 0."""
    aio: Annotated[
        Aio,
        Key(
            since="0.3.15",
            source="runtime/swap_tensor/aio_config.py:get_aio_config",
            takes=(Takes(("null",), since="0.3.15"),),
        ),
    ] = Field(default_factory=Aio)
    """Asynchronous NVMe I/O."""
    activation_checkpointing: Annotated[
        ActivationCheckpointing,
        Key(
            since="0.2.0",
            source="runtime/activation_checkpointing/config.py:DeepSpeedActivationCheckpointingConfig.__init__",
        ),
    ] = Field(default_factory=ActivationCheckpointing)
    """Recomputing activations instead of keeping them."""

    pipeline: Annotated[Pipeline, Key(since="0.3.0", source="runtime/config.py:get_pipeline_config")] = Field(
        default_factory=Pipeline
    )
    """Traffic and recomputation of the pipeline engine; the stages come from `PipelineModule`."""
    tensor_parallel: Annotated[
        TensorParallel,
        Key(since="0.16.4", source="runtime/tensor_parallel/config.py:get_tensor_parallel_config"),
    ] = Field(default_factory=TensorParallel)
    """Splitting the weights of each layer over ranks (AutoTP)."""
    expert_parallel: Annotated[
        ExpertParallel,
        Key(
            since="0.19.2",
            source="runtime/config.py:get_expert_parallel_config",
            takes=(Takes(("falsy",), since="0.19.2"),),
        ),
    ] = Field(default_factory=ExpertParallel)
    """Spreading the experts of Hugging Face models over ranks."""

    checkpoint: Annotated[
        Checkpoint, Key(since="0.3.11", source="runtime/config.py:get_checkpoint_params")
    ] = Field(default_factory=Checkpoint)
    """Saving and loading of checkpoints."""
    nebula: Annotated[
        Nebula,
        Key(
            since="0.7.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="nebula/config.py:DeepSpeedNebulaConfig.__init__",
        ),
    ] = Field(default_factory=Nebula)
    """Asynchronous checkpoints through Azure Nebula."""
    datastates_ckpt: Annotated[
        DatastatesCkpt,
        Key(
            since="0.18.1",
            source="datastates/config.py:DeepSpeedDataStatesConfig.__init__",
            takes=(ANYTHING,),
        ),
    ] = Field(default_factory=DatastatesCkpt)
    """Checkpoints through DataStates-LLM; on as soon as anything but false stands here."""

    tensorboard: Annotated[
        Tensorboard,
        Key(
            since="0.1.0", source="monitor/config.py:DeepSpeedMonitorConfig.tensorboard", takes=MONITOR_TAKES
        ),
    ] = Field(default_factory=Tensorboard)
    """Loss, learning rate and loss scale, written for TensorBoard."""
    wandb: Annotated[
        Wandb,
        Key(since="0.6.6", source="monitor/config.py:DeepSpeedMonitorConfig.wandb", takes=MONITOR_TAKES),
    ] = Field(default_factory=Wandb)
    """Loss, learning rate and loss scale, sent to Weights & Biases."""
    csv_monitor: Annotated[
        CsvMonitor,
        Key(
            since="0.6.6", source="monitor/config.py:DeepSpeedMonitorConfig.csv_monitor", takes=MONITOR_TAKES
        ),
    ] = Field(default_factory=CsvMonitor)
    """Loss, learning rate and loss scale, written to CSV files."""
    comet: Annotated[
        Comet,
        Key(
            since="0.14.3",
            source="monitor/config.py:DeepSpeedMonitorConfig.comet",
            takes=MONITOR_TAKES,
        ),
    ] = Field(default_factory=Comet)
    """Loss, learning rate and loss scale, sent to Comet."""
    flops_profiler: Annotated[
        FlopsProfiler,
        Key(since="0.3.11", source="profiling/config.py:DeepSpeedFlopsProfilerConfig.__init__"),
    ] = Field(default_factory=FlopsProfiler)
    """Count of a model's operations, parameters and time, module by module."""
    comms_logger: Annotated[
        CommsLogger, Key(since="0.7.0", source="comm/config.py:DeepSpeedCommsConfig.__init__")
    ] = Field(default_factory=CommsLogger)
    """Log of the size and bandwidth of collectives."""
    timers: Annotated[
        Timers,
        Key(
            since="0.14.3",
            source="utils/config.py:get_timers_config",
            takes=(Takes(("[]", "list", "string", "auto"), since="0.14.3"),),
        ),
    ] = Field(default_factory=Timers)
    """Clocks of the engine: how throughput is measured."""
    autotuning: Annotated[
        Autotuning, Key(since="0.5.7", source="autotuning/config.py:DeepSpeedAutotuningConfig.__init__")
    ] = Field(default_factory=Autotuning)
    """Search for the fastest ZeRO stage and micro-batch size by short trial runs."""

    data_efficiency: Annotated[
        DataEfficiency,
        Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_enabled"),
    ] = Field(default_factory=DataEfficiency)
    """Curriculum sampling, dynamic batches, random token dropping."""
    curriculum_learning: Annotated[
        CurriculumLearning,
        Key(
            since="0.5.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/data_pipeline/config.py:get_curriculum_enabled_legacy",
            deprecated="0.8.0",
            replaced_by="data_efficiency.data_sampling.curriculum_learning",
        ),
    ] = Field(default_factory=CurriculumLearning.absent)
    """First form of curriculum learning, by sequence length."""
    compression_training: Annotated[
        CompressionTraining,
        Key(
            since="0.7.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="compression/config.py:get_compression_config",
        ),
    ] = Field(default_factory=CompressionTraining)
    """Pruning and quantising while training."""
    quantize_training: Annotated[
        QuantizeTraining,
        Key(
            since="0.4.0",
            until="0.19.6",
            spans=(("0.4.0", "0.6.7"), ("0.19.3", "0.19.6")),
            refused_from="0.19.7",
            source="runtime/config.py:get_eigenvalue_config",
            replaced_by="compression_training.weight_quantization",
            takes=(
                Takes(
                    ("null", "true", "false", "[]", "list", "string", "number", "auto"),
                    since="0.19.3",
                    until="0.19.6",
                ),
            ),
        ),
    ] = Field(default_factory=QuantizeTraining.absent)
    """Quantising while training (MoQ)."""
    eigenvalue: Annotated[
        FreeForm | None,
        Checked(("any",)),
        Key(
            since="0.3.1",
            until="0.19.7",
            refused_from="0.19.8",
            unread=True,
            source="runtime/config.py:_reject_removed_config_keys",
        ),
    ] = ABSENT
    """Never read here; what counted stood in `quantize_training`. Refused by name all the same."""
    weight_quantization: Annotated[
        WeightQuantization,
        Key(since="0.10.3", source="runtime/config.py:DeepSpeedConfig._initialize_params"),
    ] = Field(default_factory=WeightQuantization)
    """Weights quantised for inference under ZeRO."""

    compile: Annotated[
        Compile,
        Key(
            since="0.13.2",
            spans=(("0.13.2", "0.14.3"), ("0.16.6", None)),
            source="runtime/config.py:DeepSpeedConfig._initialize_params",
        ),
    ] = Field(default_factory=Compile)
    """Up to 0.14.3 settings for `torch.compile`, from 0.16.6 on for DeepCompile; in between nobody read
    it."""
    hybrid_engine: Annotated[
        HybridEngine, Key(since="0.9.0", source="runtime/config.py:get_hybrid_engine_config")
    ] = Field(default_factory=HybridEngine)
    """Training and generating in turns with one set of weights, as RLHF does."""
    elasticity: Annotated[
        Elasticity,
        Key(
            since="0.3.9",
            until="0.19.7",
            refused_from="0.19.8",
            source="elasticity/elasticity.py:elasticity_enabled",
        ),
    ] = Field(default_factory=Elasticity.absent)
    """Batch sizes that fit many numbers of GPUs."""
    progressive_layer_drop: Annotated[
        ProgressiveLayerDrop,
        Key(since="0.3.1", until="0.19.7", refused_from="0.19.8", source="runtime/config.py:get_pld_enabled"),
    ] = Field(default_factory=ProgressiveLayerDrop.absent)
    """Skipping more and more layers at random while training."""
    sparse_attention: Annotated[
        SparseAttention,
        Key(
            since="0.3.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="runtime/config.py:get_sparse_attention",
        ),
    ] = Field(default_factory=SparseAttention)
    """Block-sparse attention: which blocks of the attention matrix are computed."""
