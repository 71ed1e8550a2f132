"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any, Literal

from typing_extensions import Unpack

from dsconfig.model._generated import dicts
from dsconfig.model.section import Section

class Config(Section):
    """A DeepSpeed config: the content of a `ds_config.json`.\n\nDeepSpeed ignores unknown keys at this level, in every release."""
    def __init__(self, **values: Unpack[dicts.ConfigDict]) -> None: ...
    gradient_clipping: float | Literal["auto"]
    steps_per_print: int | None
    wall_clock_breakdown: bool
    memory_breakdown: bool
    dump_state: bool
    log_level: Literal["debug", "info", "warning", "error", "critical"] | None
    disable_python_gc: bool
    vocabulary_size: int | None
    zero_allow_untested_optimizer: bool
    zero_force_ds_cpu_optimizer: bool
    graph_harvesting: bool
    communication_data_type: Literal["fp16", "bf16", "fp32"] | None
    fp32_allreduce: bool
    seq_parallel_communication_data_type: Literal["fp16", "bf16", "fp32"] | None
    seq_parallel_comm_data_type: Literal["fp16", "bf16", "fp32"] | None
    prescale_gradients: bool
    gradient_predivide_factor: float
    gradient_allreduce_op: Literal["mean", "sum"]
    disable_allgather: bool
    allgather_size: int
    sparse_gradients: bool
    use_data_before_expert_parallelism: bool
    train_batch_size: int | Literal["auto"] | None
    train_micro_batch_size_per_gpu: int | Literal["auto"] | None
    gradient_accumulation_steps: int | Literal["auto"] | None
    managed_gradient_accumulation: bool
    sequence_parallel_size: int
    data_parallel_size: int
    dataloader_drop_last: bool
    fp16: Fp16
    bf16: Bf16
    bfloat16: Bf16
    amp: Amp
    torch_autocast: TorchAutocast
    data_types: DataTypes
    optimizer: Optimizer
    scheduler: Scheduler
    zero_optimization: ZeroOptimization
    aio: Aio
    activation_checkpointing: ActivationCheckpointing
    pipeline: Pipeline
    tensor_parallel: TensorParallel
    expert_parallel: ExpertParallel
    checkpoint: Checkpoint
    nebula: Nebula
    datastates_ckpt: DatastatesCkpt
    tensorboard: Tensorboard
    wandb: Wandb
    csv_monitor: CsvMonitor
    comet: Comet
    flops_profiler: FlopsProfiler
    comms_logger: CommsLogger
    timers: Timers
    autotuning: Autotuning
    data_efficiency: DataEfficiency
    curriculum_learning: CurriculumLearning
    compression_training: CompressionTraining
    quantize_training: QuantizeTraining
    eigenvalue: dict[str, Any] | None
    weight_quantization: WeightQuantization
    compile: Compile
    hybrid_engine: HybridEngine
    elasticity: Elasticity
    progressive_layer_drop: ProgressiveLayerDrop
    sparse_attention: SparseAttention

class Fp16(Section):
    """Mixed precision in fp16 (IEEE half precision), with loss scaling against underflow."""
    def __init__(self, **values: Unpack[dicts.Fp16Dict]) -> None: ...
    enabled: bool | Literal["auto"]
    auto_cast: bool
    loss_scale: float
    initial_scale_power: int
    loss_scale_window: int
    hysteresis: int
    consecutive_hysteresis: bool
    min_loss_scale: int
    fp16_master_weights_and_grads: bool

class Bf16(Section):
    """Mixed precision in bfloat16, which needs no loss scaling."""
    def __init__(self, **values: Unpack[dicts.Bf16Dict]) -> None: ...
    enabled: bool | Literal["auto"]
    immediate_grad_update: bool
    check_grad_overflow: bool
    bf16_master_weights_and_grads: bool
    bf16_optimizer_states: bool

class Amp(Section):
    """Mixed precision with NVIDIA Apex; other keys go to `apex.amp.initialize`."""
    def __init__(self, **values: Unpack[dicts.AmpDict]) -> None: ...
    enabled: bool | Literal["auto"]
    opt_level: str

class TorchAutocast(Section):
    """Run the forward pass under `torch.autocast`, managed by the engine."""
    def __init__(self, **values: Unpack[dicts.TorchAutocastDict]) -> None: ...
    enabled: bool
    dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"]
    lower_precision_safe_modules: list[str]

class DataTypes(Section):
    """Data types of buffers, accumulated gradients and parameters."""
    def __init__(self, **values: Unpack[dicts.DataTypesDict]) -> None: ...
    grad_accum_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | None
    param_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | None
    buffer_dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"] | None
    keep_in_fp32_modules: list[str] | Literal["auto"]

class Optimizer(Section):
    """The optimizer that the engine builds if `deepspeed.initialize` gets none."""
    def __init__(self, **values: Unpack[dicts.OptimizerDict]) -> None: ...
    type: str | None
    params: OptimizerParams | dict[str, Any] | None
    legacy_fusion: bool

class OptimizerParams(Section):
    """Params that all optimizer types share."""
    def __init__(self, **values: Unpack[dicts.OptimizerParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float

class Scheduler(Section):
    """The learning-rate scheduler that the engine builds and advances after every optimizer step."""
    def __init__(self, **values: Unpack[dicts.SchedulerDict]) -> None: ...
    type: str | None
    params: SchedulerParams | dict[str, Any]

class SchedulerParams(Section):
    """Params that all of DeepSpeed's own schedulers share."""
    def __init__(self, **values: Unpack[dicts.SchedulerParamsDict]) -> None: ...
    last_batch_iteration: int

class ZeroOptimization(Section):
    """Shards the training state over the data-parallel ranks.\n\nA higher stage needs less memory and more communication. Keys that begin with `stage3_` are also read\nwithout that prefix."""
    def __init__(self, **values: Unpack[dicts.ZeroOptimizationDict]) -> None: ...
    stage: Literal[0, 1, 2, 3, "auto"]
    contiguous_gradients: bool
    reduce_scatter: bool
    reduce_bucket_size: int | Literal["auto"]
    use_multi_rank_bucket_allreduce: bool
    allgather_partitions: bool
    allgather_bucket_size: int
    overlap_comm: bool | None
    compute_grad_norm: bool
    load_from_fp32_weights: bool
    elastic_checkpoint: bool
    offload_param: OffloadParam | None
    offload_optimizer: OffloadOptimizer | None
    zenflow: ZenFlow | None
    cpu_offload: bool | None
    cpu_offload_param: bool | None
    cpu_offload_params: bool
    cpu_offload_use_pin_memory: bool | None
    sub_group_size: int
    stage3_prefetch_bucket_size: int | Literal["auto"]
    stage3_param_persistence_threshold: int | Literal["auto"]
    stage3_model_persistence_threshold: int
    stage3_max_live_parameters: int
    stage3_max_reuse_distance: int
    stage3_gather_16bit_weights_on_model_save: bool | Literal["auto"]
    stage3_gather_fp16_weights_on_model_save: bool
    stage3_module_granularity_threshold: int
    stage3_use_all_reduce_for_fetch_params: bool
    stage3_allgather_sequential: bool
    ignore_unused_parameters: bool
    find_unused_parameters: bool
    legacy_stage1: bool
    round_robin_gradients: bool
    parameter_alignment: bool
    zero_hpz_partition_size: int
    zero_quantized_weights: bool
    zero_quantized_nontrainable_weights: bool
    zero_quantized_gradients: bool
    zeropp_loco_param: ZeroppLocoParam | None
    mics_shard_size: int
    mics_hierarchical_params_gather: bool
    memory_efficient_linear: bool
    pipeline_loading_checkpoint: bool
    override_module_apply: bool
    log_trace_cache_warnings: bool
    enable_sanity_checks: bool
    save_muon_momentum_buffer_in_memory: bool
    leaf_module: LeafModule

class OffloadParam(Section):
    """Offload of parameters while no layer needs them; stage 3 only."""
    def __init__(self, **values: Unpack[dicts.OffloadParamDict]) -> None: ...
    device: Literal["none", "cpu", "nvme", "auto"]
    nvme_path: str | None
    buffer_count: int
    buffer_size: int
    max_in_cpu: int
    pin_memory: bool

class OffloadOptimizer(Section):
    """Offload of optimizer states; the update then runs on the CPU."""
    def __init__(self, **values: Unpack[dicts.OffloadOptimizerDict]) -> None: ...
    device: Literal["none", "cpu", "nvme", "auto"]
    nvme_path: str | None
    buffer_count: int
    pin_memory: bool
    pipeline_read: bool
    pipeline_write: bool
    fast_init: bool
    ratio: float
    super_offload: bool
    cpuadam_cores_perc: float

class ZenFlow(Section):
    """Updates the most important gradient columns on the GPU at once, and the others later on the CPU."""
    def __init__(self, **values: Unpack[dicts.ZenFlowDict]) -> None: ...
    topk_ratio: float
    select_strategy: Literal["auto", "step", "epoch"]
    select_interval: int | Literal["auto"]
    update_interval: int | Literal["auto"]
    overlap_step: bool
    offload: bool
    auto_ratio: float
    full_warm_up_rounds: int
    pt_reserved_cores_perc: float
    steps_per_epoch: int | None

class ZeroppLocoParam(Section):
    """Error feedback for quantized gradients. Not validated when the config is loaded."""
    def __init__(self, **values: Unpack[dicts.ZeroppLocoParamDict]) -> None: ...
    err_beta: float
    reset_T: int

class LeafModule(Section):
    """Leaf modules, which stage 3 fetches as a unit; usually mixture-of-experts blocks."""
    def __init__(self, **values: Unpack[dicts.LeafModuleDict]) -> None: ...
    classes: list[str] | str
    names: list[str] | str
    name_suffixes: list[str] | str

class Aio(Section):
    """Asynchronous NVMe reads and writes, used by ZeRO-Infinity and the fast checkpoint writer."""
    def __init__(self, **values: Unpack[dicts.AioDict]) -> None: ...
    block_size: int
    queue_depth: int
    intra_op_parallelism: int
    thread_count: int
    single_submit: bool
    overlap_events: bool
    use_gds: bool

class ActivationCheckpointing(Section):
    """Settings of `deepspeed.checkpointing`; no effect unless the script calls its `configure`."""
    def __init__(self, **values: Unpack[dicts.ActivationCheckpointingDict]) -> None: ...
    partition_activations: bool
    contiguous_memory_optimization: bool
    cpu_checkpointing: bool
    number_checkpoints: int | None
    synchronize_checkpoint_boundary: bool
    profile: bool

class Pipeline(Section):
    """Pipeline parallelism. Keys that DeepSpeed does not read here are arguments of `PipelineModule`."""
    def __init__(self, **values: Unpack[dicts.PipelineDict]) -> None: ...
    stages: int | Literal["auto"]
    partition: str
    seed_layers: bool
    activation_checkpoint_interval: int
    pipe_partitioned: bool
    grad_partitioned: bool
    use_reentrant: bool

class TensorParallel(Section):
    """Splits the weights of each layer over ranks; combines with ZeRO up to stage 2."""
    def __init__(self, **values: Unpack[dicts.TensorParallelDict]) -> None: ...
    autotp_size: int
    tp_overlap_comm: bool
    vocab_parallel_lm_head: bool | None
    vocab_parallel_ce_backend: Literal["torch", "liger"]
    preset_model: str | None
    partition_config: PartitionConfig | None
    injection_policy_tuple: list[str] | None
    keep_module_on_host: bool
    kernel_inject: bool
    tp: TensorParallelGroup
    dtype: object

class PartitionConfig(Section):
    """Custom partition rules. Not validated until the engine starts."""
    def __init__(self, **values: Unpack[dicts.PartitionConfigDict]) -> None: ...
    tp_size: int
    layer_specs: list[LayerSpec]
    embedding_partition_dim: int
    lm_head_patterns: list[str]
    use_default_specs: bool
    strict_mode: bool

class LayerSpec(Section):
    """A partition rule for some layers."""
    def __init__(self, **values: Unpack[dicts.LayerSpecDict]) -> None: ...
    patterns: list[str]
    partition_type: Literal["column", "row", "skip"]
    shape: list[int | list[int]] | None
    partition_dim: int | None
    model_types: list[str] | None
    gather_output: bool
    grad_allreduce: bool

class TensorParallelGroup(Section):
    """Inner settings, which DeepSpeed parses with the class of the inference engine."""
    def __init__(self, **values: Unpack[dicts.TensorParallelGroupDict]) -> None: ...
    tp_size: int
    tp_grain_size: int
    mpu: object
    tp_group: object

class ExpertParallel(Section):
    """Expert parallelism (AutoEP). Not validated until the engine starts, and then only if `enabled`.\n\nThe names and patterns describe a model family without a preset, or override those of a preset."""
    def __init__(self, **values: Unpack[dicts.ExpertParallelDict]) -> None: ...
    enabled: bool
    autoep_size: int
    expert_tensor_parallel_size: int
    validate_folding_routing: bool
    async_split_plan: bool
    preset_model: Literal["mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"] | None
    use_grouped_mm: bool
    disable_triton_grouped_mm: bool
    gate_up_impl: Literal["separate", "fused"]
    score_apply: Literal["auto", "pre", "post"]
    combine_impl: Literal["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"]
    row_weighting_impl: Literal["auto", "eager", "fused"]
    comm_backend: Literal["comm", "deepep"]
    comm_num_sm: int
    comm_qp_margin: int
    comm_max_tokens_per_rank: int
    num_expert_groups: int | None
    num_limited_groups: int | None
    score_func: Literal["auto", "softmax", "sigmoid"]
    top_k: int | Literal["auto"]
    route_norm: bool | None
    route_scale: float
    routed_scaling_factor: float | Literal["auto"]
    load_balance_coeff: None
    moe_layer_pattern: str | None
    router_pattern: str | None
    expert_pattern: str | None
    expert_w1: str | None
    expert_w2: str | None
    expert_w3: str | None
    expert_activation: Literal["swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"] | None
    num_experts_attr: str | None
    top_k_attr: str | None
    has_shared_experts: bool | None
    shared_experts_pattern: str | None
    shared_experts_gate_pattern: str | None

class Checkpoint(Section):
    """Saving and loading of checkpoints."""
    def __init__(self, **values: Unpack[dicts.CheckpointDict]) -> None: ...
    tag_validation: Literal["WARN", "IGNORE", "FAIL"]
    load_universal: bool
    use_node_local_storage: bool
    checkpoint_serialization: bool
    writer: CheckpointWriter | None
    parallel_write: ParallelWrite

class CheckpointWriter(Section):
    """Fast or decoupled checkpoint writer; even an empty object enables the fast writer."""
    def __init__(self, **values: Unpack[dicts.CheckpointWriterDict]) -> None: ...
    type: Literal["MOCK", "PYTHON", "FAST"] | None
    decoupled: bool
    io_buffer_size: int
    io_buffer_double: bool
    show_statistics: bool
    data_parallel: Literal["REPLICA", "SOCKET", "MACHINE"] | None
    io_multiplier: int

class ParallelWrite(Section):
    """Writing of checkpoints by several ranks in parallel."""
    def __init__(self, **values: Unpack[dicts.ParallelWriteDict]) -> None: ...
    pipeline_stage: bool

class Nebula(Section):
    """Asynchronous checkpoints through the Azure Nebula service."""
    def __init__(self, **values: Unpack[dicts.NebulaDict]) -> None: ...
    enabled: bool
    persistent_storage_path: str | None
    persistent_time_interval: int
    num_of_version_in_retention: int
    enable_nebula_load: bool
    nebula_load_path: str | None

class DatastatesCkpt(Section):
    """Asynchronous checkpoints through DataStates-LLM; other keys belong to that package.\n\nAny value other than false, even `{"enabled": false}`, enables it."""
    def __init__(self, **values: Unpack[dicts.DatastatesCkptDict]) -> None: ...
    host_cache_size: float

class Tensorboard(Section):
    """Event files for TensorBoard; requires the `tensorboard` package."""
    def __init__(self, **values: Unpack[dicts.TensorboardDict]) -> None: ...
    enabled: bool
    output_path: str
    job_name: str

class Wandb(Section):
    """Weights & Biases; requires the `wandb` package."""
    def __init__(self, **values: Unpack[dicts.WandbDict]) -> None: ...
    enabled: bool
    group: str | None
    team: str | None
    project: str

class CsvMonitor(Section):
    """One CSV file per metric."""
    def __init__(self, **values: Unpack[dicts.CsvMonitorDict]) -> None: ...
    enabled: bool
    output_path: str
    job_name: str

class Comet(Section):
    """Logging to Comet; requires the `comet_ml` package. Keys that are not set default to Comet's own settings."""
    def __init__(self, **values: Unpack[dicts.CometDict]) -> None: ...
    enabled: bool
    samples_log_interval: int
    project: str | None
    workspace: str | None
    api_key: str | None
    experiment_name: str | None
    experiment_key: str | None
    online: bool | None
    mode: str | None

class FlopsProfiler(Section):
    """Reports the operations, parameters and latency of each module in one step."""
    def __init__(self, **values: Unpack[dicts.FlopsProfilerDict]) -> None: ...
    enabled: bool
    recompute_fwd_factor: float
    profile_step: int
    module_depth: int
    top_modules: int
    detailed: bool
    output_file: str | None
    start_step: int
    end_step: int

class CommsLogger(Section):
    """Logs size, time and bandwidth of every collective that goes through `deepspeed.comm`."""
    def __init__(self, **values: Unpack[dicts.CommsLoggerDict]) -> None: ...
    enabled: bool
    prof_all: bool
    prof_ops: list[str]
    verbose: bool
    debug: bool

class Timers(Section):
    """Timers of the engine. Only `throughput` is read."""
    def __init__(self, **values: Unpack[dicts.TimersDict]) -> None: ...
    throughput: ThroughputTimer

class ThroughputTimer(Section):
    """Timer for the samples per second that the engine prints."""
    def __init__(self, **values: Unpack[dicts.ThroughputTimerDict]) -> None: ...
    enabled: bool
    synchronized: bool

class Autotuning(Section):
    """The autotuner, started with `deepspeed --autotuning tune` or `run`."""
    def __init__(self, **values: Unpack[dicts.AutotuningDict]) -> None: ...
    enabled: bool
    fast: bool
    results_dir: str
    exps_dir: str
    overwrite: bool
    start_profile_step: int
    end_profile_step: int
    metric: str
    metric_path: str | None
    tuner_type: Literal["gridsearch", "random", "model_based"]
    tuner_early_stopping: int
    tuner_num_trials: int
    arg_mappings: dict[str, str] | None
    model_info: ModelInfo | None
    model_info_path: str | None
    mp_size: int
    max_train_batch_size: int | None
    min_train_batch_size: int
    max_train_micro_batch_size_per_gpu: int
    min_train_micro_batch_size_per_gpu: int
    num_tuning_micro_batch_sizes: int

class ModelInfo(Section):
    """Size of the model; without it, the tuner determines the size in a profiling run."""
    def __init__(self, **values: Unpack[dicts.ModelInfoDict]) -> None: ...
    profile: bool
    num_params: int | None
    hidden_size: int | None
    num_layers: int | None
    hideen_size: int | None

class DataEfficiency(Section):
    """The data efficiency library. Every inner section has its own `enabled`."""
    def __init__(self, **values: Unpack[dicts.DataEfficiencyDict]) -> None: ...
    enabled: bool
    seed: int
    data_sampling: DataSampling
    data_routing: DataRouting

class DataSampling(Section):
    """How batches are sampled."""
    def __init__(self, **values: Unpack[dicts.DataSamplingDict]) -> None: ...
    enabled: bool
    num_epochs: int
    num_workers: int
    pin_memory: bool
    curriculum_learning: MetricCurriculum
    dynamic_batching: DynamicBatching

class MetricCurriculum(Section):
    """Curriculum learning: easy samples first, by one metric or several."""
    def __init__(self, **values: Unpack[dicts.MetricCurriculumDict]) -> None: ...
    enabled: bool
    data_cluster_path: str
    curriculum_metrics: dict[str, CurriculumMetric]

class CurriculumMetric(Section):
    """Schedule of one metric of the curriculum.\n\nThe difficulty bounds and `schedule_type` are required if the curriculum is enabled."""
    def __init__(self, **values: Unpack[dicts.CurriculumMetricDict]) -> None: ...
    index_to_sample_path: str
    index_to_metric_path: str
    difficulty_type: Literal["value", "percentile"]
    clustering_type: Literal["schedule_based", "single_cluster"]
    min_difficulty: int
    max_difficulty: int
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"]
    schedule_config: MetricSchedule

class MetricSchedule(Section):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""
    def __init__(self, **values: Unpack[dicts.MetricScheduleDict]) -> None: ...
    total_curriculum_step: int
    difficulty_step: int
    root_degree: int
    difficulty: list[int]
    max_step: list[int]

class DynamicBatching(Section):
    """Batches of varying size that hold about the same number of tokens.\n\nDeepSpeed converts the values with bool(), int() and str()."""
    def __init__(self, **values: Unpack[dicts.DynamicBatchingDict]) -> None: ...
    enabled: bool
    metrics_path: str
    lr_scaling_method: Literal["linear", "sqrt", "none"]
    min_batch_size: int
    max_batch_size: int
    max_tokens: int
    sequence_picking_order: Literal["random", "seqlen", "dataloader"]
    verbose: bool

class DataRouting(Section):
    """Routing techniques."""
    def __init__(self, **values: Unpack[dicts.DataRoutingDict]) -> None: ...
    enabled: bool
    random_ltd: RandomLtd

class RandomLtd(Section):
    """Random layerwise token dropping: middle layers process a random subset of the tokens.\n\nKeys without a default are required if it is enabled."""
    def __init__(self, **values: Unpack[dicts.RandomLtdDict]) -> None: ...
    enabled: bool
    total_layer_num: int
    random_ltd_layer_num: int
    random_ltd_layer_id: list[int]
    model_mask_name: str | None
    model_type: Literal["decoder", "encoder"]
    hidden_state_order: Literal["batch_seq_dim", "seq_batch_dim"]
    random_ltd_schedule: TokenSchedule
    layer_token_lr_schedule: LayerTokenLearningRate

class TokenSchedule(Section):
    """Number of tokens that layers with token dropping keep; all keys are required if random-LTD is enabled."""
    def __init__(self, **values: Unpack[dicts.TokenScheduleDict]) -> None: ...
    min_value: int
    max_value: int
    schedule_type: Literal["fixed_linear"]
    schedule_config: TokenScheduleConfig

class TokenScheduleConfig(Section):
    """Parameters of the schedule; `require_steps` and `seq_per_step` are required."""
    def __init__(self, **values: Unpack[dicts.TokenScheduleConfigDict]) -> None: ...
    require_steps: int
    seq_per_step: int
    root_degree: int

class LayerTokenLearningRate(Section):
    """Learning-rate schedule by consumed layer tokens, which DeepSpeed never implemented."""
    def __init__(self, **values: Unpack[dicts.LayerTokenLearningRateDict]) -> None: ...
    enabled: bool
    total_layer_tokens: int
    warmup_type: str
    warmup_layer_tokens: int

class CurriculumLearning(Section):
    """Curriculum learning: short sequences first.\n\nThe engine passes the current length to the model as an argument."""
    def __init__(self, **values: Unpack[dicts.CurriculumLearningDict]) -> None: ...
    enabled: bool
    curriculum_type: Literal["seqlen"]
    min_difficulty: int
    max_difficulty: int
    schedule_type: Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"]
    schedule_config: LengthSchedule

class LengthSchedule(Section):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""
    def __init__(self, **values: Unpack[dicts.LengthScheduleDict]) -> None: ...
    total_curriculum_step: int
    difficulty_step: int
    root_degree: int
    difficulty: list[int]
    max_step: list[int]

class CompressionTraining(Section):
    """Compression techniques, each of which can be enabled separately."""
    def __init__(self, **values: Unpack[dicts.CompressionTrainingDict]) -> None: ...
    weight_quantization: QuantizedWeights
    activation_quantization: QuantizedActivations
    sparse_pruning: SparsePruning
    row_pruning: RowPruning
    head_pruning: HeadPruning
    channel_pruning: ChannelPruning
    layer_reduction: LayerReduction

class QuantizedWeights(Section):
    """Quantization of weights."""
    def __init__(self, **values: Unpack[dicts.QuantizedWeightsDict]) -> None: ...
    shared_parameters: WeightParameters
    different_groups: dict[str, WeightGroup]

class WeightParameters(Section):
    """Settings for all groups of quantized weights."""
    def __init__(self, **values: Unpack[dicts.WeightParametersDict]) -> None: ...
    enabled: bool
    quantizer_kernel: bool
    schedule_offset: int
    quantize_groups: int
    quantize_verbose: bool
    quantization_type: Literal["symmetric", "asymmetric"]
    quantize_weight_in_forward: bool
    rounding: Literal["nearest", "stochastic"]
    fp16_mixed_quantize: MixedFp16

class MixedFp16(Section):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""
    def __init__(self, **values: Unpack[dicts.MixedFp16Dict]) -> None: ...
    enabled: bool
    quantize_change_ratio: float

class WeightGroup(Section):
    """Modules whose weights are quantized with the same settings."""
    def __init__(self, **values: Unpack[dicts.WeightGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: WeightBits

class WeightBits(Section):
    """Bit widths of a group of weights."""
    def __init__(self, **values: Unpack[dicts.WeightBitsDict]) -> None: ...
    start_bits: int
    target_bits: int
    quantization_period: int

class QuantizedActivations(Section):
    """Quantization of activations."""
    def __init__(self, **values: Unpack[dicts.QuantizedActivationsDict]) -> None: ...
    shared_parameters: ActivationParameters
    different_groups: dict[str, ActivationGroup]

class ActivationParameters(Section):
    """Settings for all groups of quantized activations."""
    def __init__(self, **values: Unpack[dicts.ActivationParametersDict]) -> None: ...
    enabled: bool
    quantization_type: Literal["symmetric", "asymmetric"]
    range_calibration: Literal["dynamic", "static"]
    schedule_offset: int

class ActivationGroup(Section):
    """Modules whose inputs are quantized with the same settings."""
    def __init__(self, **values: Unpack[dicts.ActivationGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: ActivationBits

class ActivationBits(Section):
    """Bit width of a group of activations."""
    def __init__(self, **values: Unpack[dicts.ActivationBitsDict]) -> None: ...
    bits: int

class SparsePruning(Section):
    """Pruning of individual weights."""
    def __init__(self, **values: Unpack[dicts.SparsePruningDict]) -> None: ...
    shared_parameters: SparsePruningParameters
    different_groups: dict[str, SparsePruningGroup]

class SparsePruningParameters(Section):
    """Settings for all groups of the pruning of individual weights."""
    def __init__(self, **values: Unpack[dicts.SparsePruningParametersDict]) -> None: ...
    enabled: bool
    schedule_offset: int
    method: Literal["l1", "topk", "snip_momentum"]
    block_pattern: str
    dense_ratio: float
    excluded_modules: list[str]
    schedule_offset_end: int
    schedule_offset_stride: int

class SparsePruningGroup(Section):
    """Modules whose individual weights are pruned with the same settings."""
    def __init__(self, **values: Unpack[dicts.SparsePruningGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: DenseRatio

class DenseRatio(Section):
    """Params of a group that is pruned."""
    def __init__(self, **values: Unpack[dicts.DenseRatioDict]) -> None: ...
    dense_ratio: float

class RowPruning(Section):
    """Pruning of rows."""
    def __init__(self, **values: Unpack[dicts.RowPruningDict]) -> None: ...
    shared_parameters: RowPruningParameters
    different_groups: dict[str, RowPruningGroup]

class RowPruningParameters(Section):
    """Settings for all groups of row pruning."""
    def __init__(self, **values: Unpack[dicts.RowPruningParametersDict]) -> None: ...
    enabled: bool
    schedule_offset: int
    method: Literal["l1", "topk"]

class RowPruningGroup(Section):
    """Modules whose rows are pruned with the same settings."""
    def __init__(self, **values: Unpack[dicts.RowPruningGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: DenseRatio

class HeadPruning(Section):
    """Pruning of attention heads."""
    def __init__(self, **values: Unpack[dicts.HeadPruningDict]) -> None: ...
    shared_parameters: HeadPruningParameters
    different_groups: dict[str, HeadPruningGroup]

class HeadPruningParameters(Section):
    """Settings for all groups of attention head pruning."""
    def __init__(self, **values: Unpack[dicts.HeadPruningParametersDict]) -> None: ...
    enabled: bool
    schedule_offset: int
    method: Literal["l1", "topk"]
    num_heads: int

class HeadPruningGroup(Section):
    """Modules whose attention heads are pruned with the same settings."""
    def __init__(self, **values: Unpack[dicts.HeadPruningGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: DenseRatio

class ChannelPruning(Section):
    """Pruning of channels."""
    def __init__(self, **values: Unpack[dicts.ChannelPruningDict]) -> None: ...
    shared_parameters: ChannelPruningParameters
    different_groups: dict[str, ChannelPruningGroup]

class ChannelPruningParameters(Section):
    """Settings for all groups of channel pruning."""
    def __init__(self, **values: Unpack[dicts.ChannelPruningParametersDict]) -> None: ...
    enabled: bool
    schedule_offset: int
    method: Literal["l1", "topk"]

class ChannelPruningGroup(Section):
    """Modules whose channels are pruned with the same settings."""
    def __init__(self, **values: Unpack[dicts.ChannelPruningGroupDict]) -> None: ...
    modules: list[str] | str
    related_modules: list[list[str]] | None
    params: DenseRatio

class LayerReduction(Section):
    """Layer reduction, used if `init_compression` receives a teacher model; all keys are then required."""
    def __init__(self, **values: Unpack[dicts.LayerReductionDict]) -> None: ...
    enabled: bool
    keep_number_layer: int
    module_name_prefix: str
    teacher_layer: list[int]
    other_module_name: list[str]

class QuantizeTraining(Section):
    """Mixture of Quantization, up to 0.6.7; `compression_training` replaces it since 0.7.0."""
    def __init__(self, **values: Unpack[dicts.QuantizeTrainingDict]) -> None: ...
    enabled: bool
    quantize_verbose: bool
    quantizer_kernel: bool
    quantize_groups: int
    quantize_bits: QuantizeBits
    quantize_schedule: QuantizeSchedule
    quantize_algo: QuantizeAlgo
    fp16_mixed_quantize: Fp16MixedQuantize
    eigenvalue: Eigenvalue

class QuantizeBits(Section):
    """Initial and final bit width."""
    def __init__(self, **values: Unpack[dicts.QuantizeBitsDict]) -> None: ...
    start_bits: int
    target_bits: int

class QuantizeSchedule(Section):
    """Schedule by which the bit width decreases."""
    def __init__(self, **values: Unpack[dicts.QuantizeScheduleDict]) -> None: ...
    quantize_period: int
    schedule_offset: int

class QuantizeAlgo(Section):
    """How values are quantized and rounded."""
    def __init__(self, **values: Unpack[dicts.QuantizeAlgoDict]) -> None: ...
    q_type: Literal["symmetric", "asymmetric"]
    rounding: Literal["nearest", "stochastic"]

class Fp16MixedQuantize(Section):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""
    def __init__(self, **values: Unpack[dicts.Fp16MixedQuantizeDict]) -> None: ...
    enabled: bool
    quantize_change_ratio: float

class Eigenvalue(Section):
    """Curvature of each layer by power iteration; layers with small eigenvalues are quantized faster.\n\nReleases 0.19.3 to 0.19.6 read the section again, but `enabled` then fails with an AssertionError."""
    def __init__(self, **values: Unpack[dicts.EigenvalueDict]) -> None: ...
    enabled: bool
    verbose: bool
    max_iter: int
    tol: float
    stability: float
    gas_boundary_resolution: int
    layer_name: str
    layer_num: int

class WeightQuantization(Section):
    """Weight-only quantization of a model for ZeRO-Inference."""
    def __init__(self, **values: Unpack[dicts.WeightQuantizationDict]) -> None: ...
    enabled: bool
    num_bits: int
    q_type: Literal["symmetric", "asymmetric"]
    q_groups: int
    quantized_initialization: GroupQuantization
    post_init_quant: dict[str, GroupQuantization]

class GroupQuantization(Section):
    """Asymmetric quantization of a weight in groups. All four keys are required if weights are quantized."""
    def __init__(self, **values: Unpack[dicts.GroupQuantizationDict]) -> None: ...
    num_bits: Literal[4, 8]
    group_size: int
    group_dim: int
    symmetric: Literal[False]

class Compile(Section):
    """DeepCompile: graph passes that `engine.compile()` applies. Up to 0.14.3: arguments of torch.compile."""
    def __init__(self, **values: Unpack[dicts.CompileDict]) -> None: ...
    deepcompile: bool
    autoep_non_moe: bool
    free_activation: bool
    free_activation_threshold: int
    offload_activation: bool
    offload_activation_pin_memory: bool
    offload_opt_states: bool
    double_buffer: bool
    symmetric_memory: bool
    debug_log: bool
    offload_parameters: bool
    sync_before_reduce: bool
    sync_after_reduce: bool
    sync_before_allgather: bool
    sync_after_allgather: bool
    keep_int_input_tensors: bool
    keep_all_input_tensors: bool
    passes: list[Literal["z1", "z3", "autosp", "autotp"]] | None
    enabled: bool
    backend: str
    kwargs: dict[str, Any]

class HybridEngine(Section):
    """Switches a model between training and inference kernels."""
    def __init__(self, **values: Unpack[dicts.HybridEngineDict]) -> None: ...
    enabled: bool
    max_out_tokens: int
    inference_tp_size: int
    release_inference_cache: bool
    pin_parameters: bool
    tp_gather_partition_size: int
    enable_cuda_graph: bool

class Elasticity(Section):
    """Elastic training: batch sizes are computed so that a job can continue with more or fewer GPUs.\n\nKeys are checked only while `enabled` is true."""
    def __init__(self, **values: Unpack[dicts.ElasticityDict]) -> None: ...
    enabled: bool
    max_train_batch_size: int
    micro_batch_sizes: list[int]
    min_gpus: int
    max_gpus: int
    num_gpus_per_node: int
    model_parallel_size: int
    min_time: int
    prefer_larger_batch: bool
    ignore_non_elastic_batch_info: bool
    version: float

class ProgressiveLayerDrop(Section):
    """Progressive layer drop. If it is enabled, both numbers are required, so their defaults are never used."""
    def __init__(self, **values: Unpack[dicts.ProgressiveLayerDropDict]) -> None: ...
    enabled: bool
    theta: float
    gamma: float

class SparseAttention(Section):
    """Layout of block-sparse attention.\n\n`mode` determines which other keys are read; the others have no effect."""
    def __init__(self, **values: Unpack[dicts.SparseAttentionDict]) -> None: ...
    mode: Literal["dense", "fixed", "variable", "bigbird", "bslongformer"]
    block: int
    different_layout_per_head: bool
    num_local_blocks: int
    num_global_blocks: int
    attention: Literal["unidirectional", "bidirectional"]
    horizontal_global_attention: bool
    num_different_global_patterns: int
    num_random_blocks: int
    local_window_blocks: list[int]
    global_block_indices: list[int]
    global_block_end_indices: list[int] | None
    num_sliding_window_blocks: int

class InferenceConfig(Section):
    """The config of `deepspeed.init_inference`: a dict, a JSON file, or keyword arguments."""
    def __init__(self, **values: Unpack[dicts.InferenceConfigDict]) -> None: ...
    replace_with_kernel_inject: bool
    dtype: Literal["torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.bfloat16", "bf16", "bfloat16", "bfloat", "torch.int8", "int8"]
    tensor_parallel: InferenceTensorParallel
    enable_cuda_graph: bool
    use_triton: bool
    triton_autotune: bool
    zero: ZeroOptimization
    triangular_masking: bool
    moe: InferenceMoE | bool
    keep_module_on_host: bool
    quant: InferenceQuantization
    checkpoint: str | dict[str, Any] | None
    base_dir: str
    set_empty_params: bool
    save_mp_checkpoint_path: str | None
    checkpoint_config: InferenceCheckpoint
    return_tuple: bool
    training_mp_size: int
    replace_method: str
    injection_policy: dict[str, Any] | None
    injection_policy_tuple: list[str] | None
    config: dict[str, Any] | None
    max_out_tokens: int
    min_out_tokens: int
    transposed_mode: bool
    mp_size: int
    mpu: object
    ep_size: int
    ep_group: object
    ep_mp_group: object
    moe_experts: list[int]
    moe_type: Literal["standard", "residual"]

class InferenceTensorParallel(Section):
    """Splits the model over GPUs for inference."""
    def __init__(self, **values: Unpack[dicts.InferenceTensorParallelDict]) -> None: ...
    enabled: bool
    tp_size: int
    tp_grain_size: int
    mpu: object
    tp_group: object

class InferenceMoE(Section):
    """Expert parallelism of a mixture-of-experts model during inference."""
    def __init__(self, **values: Unpack[dicts.InferenceMoEDict]) -> None: ...
    enabled: bool
    ep_size: int
    moe_experts: list[int]
    type: Literal["standard", "residual"]
    ep_mp_group: object
    ep_group: object

class InferenceQuantization(Section):
    """Quantization settings. DeepSpeed parses them, but no inference engine reads them."""
    def __init__(self, **values: Unpack[dicts.InferenceQuantizationDict]) -> None: ...
    enabled: bool
    activation: InferenceActivationQuantization
    weight: InferenceWeightQuantization
    qkv: InferenceQKVQuantization

class InferenceActivationQuantization(Section):
    """Quantization of activations. DeepSpeed parses it, but no inference engine reads it."""
    def __init__(self, **values: Unpack[dicts.InferenceActivationQuantizationDict]) -> None: ...
    enabled: bool
    num_bits: int
    q_type: Literal["symmetric", "asymmetric"]
    q_groups: int

class InferenceWeightQuantization(Section):
    """Quantization of weights. DeepSpeed parses it, but no inference engine reads it."""
    def __init__(self, **values: Unpack[dicts.InferenceWeightQuantizationDict]) -> None: ...
    enabled: bool
    num_bits: int
    q_type: Literal["symmetric", "asymmetric"]
    q_groups: int
    quantized_initialization: dict[str, Any]
    post_init_quant: dict[str, Any]

class InferenceQKVQuantization(Section):
    """Quantization of the attention projections. DeepSpeed parses it, but no inference engine reads it."""
    def __init__(self, **values: Unpack[dicts.InferenceQKVQuantizationDict]) -> None: ...
    enabled: bool

class InferenceCheckpoint(Section):
    """Checkpoint paths. DeepSpeed parses them, but the engine reads the top-level keys of the same names."""
    def __init__(self, **values: Unpack[dicts.InferenceCheckpointDict]) -> None: ...
    checkpoint_dir: str | None
    save_mp_checkpoint_path: str | None
    base_dir: str | None

class AdamParams(OptimizerParams):
    """Adam: the fused GPU kernel, the CPU kernel with offload, or PyTorch's own."""
    def __init__(self, **values: Unpack[dicts.AdamParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    amsgrad: bool
    adam_w_mode: bool
    torch_adam: bool
    foreach: bool | None
    set_grad_none: bool
    fp32_optimizer_states: bool
    adamw_mode: bool

class AdagradParams(OptimizerParams):
    """Adagrad: PyTorch's own, or the CPU kernel with offload, whose params differ."""
    def __init__(self, **values: Unpack[dicts.AdagradParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    eps: float | Literal["auto"]
    amsgrad: bool
    fp32_optimizer_states: bool
    lr_decay: float
    initial_accumulator_value: float

class LambParams(OptimizerParams):
    """LAMB: Adam with a step size per layer, for very large batches; GPU only."""
    def __init__(self, **values: Unpack[dicts.LambParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    eps_inside_sqrt: bool
    max_coeff: float
    min_coeff: float
    amsgrad: bool

class LionParams(OptimizerParams):
    """Lion: updates by the sign of the momentum; it needs half the state of Adam, and no `eps`."""
    def __init__(self, **values: Unpack[dicts.LionParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    set_grad_none: bool
    fp32_optimizer_states: bool

class MuonParams(OptimizerParams):
    """Muon for matrices, Adam for everything else.\n\nThe only type that ignores unknown params."""
    def __init__(self, **values: Unpack[dicts.MuonParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    muon_lr: float
    adam_lr: float
    momentum: float
    ns_method: Literal["gram", "standard"]
    per_head_muon: bool
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    adam_w_mode: bool
    torch_adam: bool
    fp32_optimizer_states: bool

class OneBitParams(OptimizerParams):
    """Params that the optimizers with compressed communication share; these optimizers do not work with ZeRO."""
    def __init__(self, **values: Unpack[dicts.OneBitParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    eps_inside_sqrt: bool
    amsgrad: bool
    cuda_aware: bool
    comm_backend_name: str

class LRRangeTestParams(SchedulerParams):
    """Learning-rate range test: increase the learning rate until training diverges, to find its maximum."""
    def __init__(self, **values: Unpack[dicts.LRRangeTestParamsDict]) -> None: ...
    last_batch_iteration: int
    lr_range_test_min_lr: float | list[float]
    lr_range_test_step_size: int
    lr_range_test_step_rate: float
    lr_range_test_staircase: bool

class OneCycleParams(SchedulerParams):
    """1cycle policy: increase, decrease, then slowly decay; the momentum changes in the opposite direction."""
    def __init__(self, **values: Unpack[dicts.OneCycleParamsDict]) -> None: ...
    last_batch_iteration: int
    cycle_min_lr: float | list[float]
    cycle_max_lr: float | list[float]
    cycle_first_step_size: int
    cycle_second_step_size: int | None
    cycle_first_stair_count: int
    cycle_second_stair_count: int | None
    decay_step_size: int
    decay_lr_rate: float
    cycle_momentum: bool
    cycle_min_mom: float
    cycle_max_mom: float
    decay_mom_rate: float

class WarmupLRParams(SchedulerParams):
    """Warm up to a learning rate, then keep it."""
    def __init__(self, **values: Unpack[dicts.WarmupLRParamsDict]) -> None: ...
    last_batch_iteration: int
    warmup_min_lr: float | list[float] | Literal["auto"]
    warmup_max_lr: float | list[float] | Literal["auto"] | None
    warmup_num_steps: int | Literal["auto"]
    warmup_type: Literal["log", "linear"]

class WarmupCosineLRParams(SchedulerParams):
    """Warm up to the optimizer's learning rate, then follow a cosine; rates are fractions of that rate."""
    def __init__(self, **values: Unpack[dicts.WarmupCosineLRParamsDict]) -> None: ...
    last_batch_iteration: int
    total_num_steps: int | float | Literal["auto"]
    warmup_min_ratio: float
    warmup_num_steps: int | Literal["auto"]
    cos_min_ratio: float
    warmup_type: Literal["log", "linear"]

class AdamWParams(AdamParams):
    """AdamW: Adam with decoupled weight decay."""
    def __init__(self, **values: Unpack[dicts.AdamWParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    amsgrad: bool
    adam_w_mode: bool
    torch_adam: bool
    foreach: bool | None
    set_grad_none: bool
    fp32_optimizer_states: bool
    adamw_mode: bool

class OneBitAdamParams(OneBitParams):
    """1-bit Adam: after a warm-up, only the sign of the momentum is communicated."""
    def __init__(self, **values: Unpack[dicts.OneBitAdamParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    eps_inside_sqrt: bool
    amsgrad: bool
    cuda_aware: bool
    comm_backend_name: str
    freeze_step: int

class ZeroOneAdamParams(OneBitParams):
    """0/1 Adam: communication is compressed from the start, and does not take place in every step."""
    def __init__(self, **values: Unpack[dicts.ZeroOneAdamParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    eps_inside_sqrt: bool
    amsgrad: bool
    cuda_aware: bool
    comm_backend_name: str
    var_freeze_step: int
    var_update_scaler: int
    local_step_scaler: int
    local_step_clipper: int

class WarmupDecayLRParams(WarmupLRParams):
    """Warm up to a learning rate, then decay linearly to zero."""
    def __init__(self, **values: Unpack[dicts.WarmupDecayLRParamsDict]) -> None: ...
    last_batch_iteration: int
    warmup_min_lr: float | list[float] | Literal["auto"]
    warmup_max_lr: float | list[float] | Literal["auto"] | None
    warmup_num_steps: int | Literal["auto"]
    warmup_type: Literal["log", "linear"]
    total_num_steps: int | float | Literal["auto"]

class OneBitLambParams(OneBitAdamParams):
    """1-bit LAMB: after a warm-up, only the sign of the momentum is communicated."""
    def __init__(self, **values: Unpack[dicts.OneBitLambParamsDict]) -> None: ...
    lr: float | Literal["auto"]
    weight_decay: float | Literal["auto"]
    max_grad_norm: float
    betas: list[float] | Literal["auto"]
    eps: float | Literal["auto"]
    bias_correction: bool
    eps_inside_sqrt: bool
    amsgrad: bool
    cuda_aware: bool
    comm_backend_name: str
    freeze_step: int
    max_coeff: float
    min_coeff: float
    coeff_beta: float
    factor_max: float
    factor_min: float
    factor_threshold: float
