"""Data efficiency: selection of samples for a batch, and routing of tokens through layers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.key import ANYTHING, SCRIPT, Key, NonObjectValues, SectionReading
from dsconfig.model.section import ABSENT, RootKeys, Section, TypeCheckedByDeepSpeed

# The curriculum of 0.5.0, by sequence length; still read up to 0.19.7.

_NEW = "data_efficiency.data_sampling.curriculum_learning"
_METRIC = f"{_NEW}.curriculum_metrics.*"
Pacing: TypeAlias = Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"]
PACINGS = (
    ("fixed_linear", "increases linearly"),
    ("fixed_root", "increases with a root: fast, then slower"),
    ("fixed_discrete", "increases in steps that the config lists"),
    ("custom", "set from Python"),
)
_KEPT = (SectionReading("hand", since="0.5.0", unknown="kept"),)


class LengthSchedule(Section):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = _KEPT

    total_curriculum_step: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            unit="steps",
            replaced_by=f"{_METRIC}.schedule_config.total_curriculum_step",
        ),
    ] = ABSENT
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root."""
    difficulty_step: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.difficulty_step",
        ),
    ] = ABSENT
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete."""
    root_degree: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.root_degree",
        ),
    ] = ABSENT
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root."""
    difficulty: Annotated[
        list[int],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.difficulty",
        ),
    ] = ABSENT
    """List of difficulties in order. For fixed_discrete."""
    max_step: Annotated[
        list[int],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            unit="steps",
            replaced_by=f"{_METRIC}.schedule_config.max_step",
        ),
    ] = ABSENT
    """Last step of each difficulty except the final one, so one entry fewer. For fixed_discrete."""


class CurriculumLearning(Section):
    """Curriculum learning: short sequences first.

    The engine passes the current length to the model as an argument.
    """

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = _KEPT

    enabled: Annotated[
        bool,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            source="runtime/data_pipeline/config.py:get_curriculum_enabled_legacy",
            replaced_by=f"{_NEW}.enabled",
        ),
    ]
    """Enable the curriculum. DeepSpeed rejects the section without this key."""
    curriculum_type: Annotated[
        Literal["seqlen"],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            wrong_type="ignored",
            source="runtime/engine.py:DeepSpeedEngine.forward",
            replaced_by=f"{_NEW}.curriculum_metrics",
            means=(("seqlen", "sequence length"),),
        ),
    ] = ABSENT
    """Metric of difficulty; only sequence length is implemented. Required if the curriculum is enabled."""
    min_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.min_difficulty"),
    ] = ABSENT
    """Initial difficulty. Required if the curriculum is enabled."""
    max_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.max_difficulty"),
    ] = ABSENT
    """Final difficulty, usually the full sequence length. Required if the curriculum is enabled."""
    schedule_type: Annotated[
        Pacing,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_type",
            means=PACINGS,
        ),
    ] = ABSENT
    """Pacing function; custom is set from Python. Required if the curriculum is enabled."""
    schedule_config: Annotated[
        LengthSchedule,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            takes=(ANYTHING,),
            replaced_by=f"{_METRIC}.schedule_config",
        ),
    ] = Field(default_factory=LengthSchedule)
    """Parameters of the pacing function; required unless it is custom."""


# Data sampling: curricula by custom metrics, and batches limited by tokens.

_ANY_SHAPE = (NonObjectValues(("null", "true", "false", "[]", "list", "string", "number", "auto")),)
_Converted: TypeAlias = Annotated[
    int,
    TypeCheckedByDeepSpeed(
        ("union", ("int", None, None, None, None), ("str",))
    ),  # a rule reports values that int() rejects
]
"""A number that DeepSpeed converts with int(), which also accepts a string of digits."""
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"


class MetricSchedule(Section):
    """Parameters of the pacing function; `schedule_type` determines which of them are required."""

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = (SectionReading("hand", since="0.8.0", unknown="kept"),)

    total_curriculum_step: Annotated[int, Key(since="0.8.0", unit="steps")] = ABSENT
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root."""
    difficulty_step: Annotated[int, Key(since="0.8.0")] = ABSENT
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete."""
    root_degree: Annotated[int, Key(since="0.8.0")] = ABSENT
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root."""
    difficulty: Annotated[list[int], Key(since="0.8.0")] = ABSENT
    """List of difficulties in order. For fixed_discrete."""
    max_step: Annotated[list[int], Key(since="0.8.0", unit="steps")] = ABSENT
    """Last step of each difficulty except the final one, so one entry fewer. For fixed_discrete."""


class CurriculumMetric(Section):
    """Schedule of one metric of the curriculum.

    The difficulty bounds and `schedule_type` are required if the curriculum is enabled.
    """

    SOURCE = _SAMPLER
    READS = (SectionReading("hand", since="0.8.0", unknown="kept"),)

    index_to_sample_path: Annotated[str, Key(since="0.8.0")] = ABSENT
    """File of the data analyzer with the samples of each metric value; not for single_cluster."""
    index_to_metric_path: Annotated[str, Key(since="0.8.0")] = ABSENT
    """File of the data analyzer with the metric value of each sample; not for single_cluster."""
    difficulty_type: Annotated[
        Literal["value", "percentile"],
        Key(
            since="0.8.0",
            wrong_type="altered",
            means=(
                ("value", "a value of the metric"),
                ("percentile", "a percentile of the data"),
            ),
        ),
    ] = ABSENT
    """Whether difficulty is a value of the metric or a percentile of the data. Any other value means
    percentile."""
    clustering_type: Annotated[
        Literal["schedule_based", "single_cluster"],
        Key(
            since="0.8.0",
            wrong_type="altered",
            means=(
                ("schedule_based", "clusters samples as the difficulty grows"),
                ("single_cluster", "uses all samples, and shortens them"),
            ),
        ),
    ] = ABSENT
    """Cluster samples as the difficulty grows, or use all samples and shorten them. Any other value means
    schedule_based."""
    min_difficulty: Annotated[
        int,
        Key(
            since="0.8.0", source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
        ),
    ] = ABSENT
    """Initial difficulty."""
    max_difficulty: Annotated[
        int,
        Key(
            since="0.8.0", source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
        ),
    ] = ABSENT
    """Final difficulty; with difficulty_type percentile, 100 is all data."""
    schedule_type: Annotated[
        Pacing,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__",
            means=PACINGS,
        ),
    ] = ABSENT
    """Pacing function; custom is set from Python."""
    schedule_config: Annotated[
        MetricSchedule,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=MetricSchedule)
    """Parameters of the pacing function; required unless it is custom."""


class MetricCurriculum(Section):
    """Curriculum learning: easy samples first, by one metric or several."""

    SOURCE = "runtime/data_pipeline/config.py:get_curriculum_learning"
    READS = (SectionReading("hand", since="0.8.0", unknown="kept"),)

    enabled: Annotated[
        bool,
        Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_curriculum_learning_enabled"),
    ] = False
    """Sample by the difficulty that the schedule allows at each step."""
    data_cluster_path: Annotated[str, Key(since="0.8.0", source=_SAMPLER)] = ABSENT
    """Directory for the clusters of samples; required if the curriculum is enabled."""
    curriculum_metrics: Annotated[dict[str, CurriculumMetric], Key(since="0.8.0", takes=_ANY_SHAPE)] = ABSENT
    """Metrics, by their names in the data analyzer. Required if the curriculum is enabled."""


class DynamicBatching(Section):
    """Batches of varying size that hold about the same number of tokens.

    DeepSpeed converts the values with bool(), int() and str().
    """

    SOURCE = "runtime/data_pipeline/config.py:get_dynamic_batching"
    READS = (SectionReading("hand", since="0.16.5", unknown="kept"),)

    enabled: Annotated[bool, Key(since="0.16.5")] = False
    """Fill batches up to a number of tokens instead of a number of samples."""
    metrics_path: Annotated[
        str,
        Key(since="0.16.5", source="runtime/data_pipeline/data_sampling/variable_batch_size_and_lr.py"),
    ] = ABSENT
    """Directory with the data analyzer's sequence lengths; required unless the script passes lengths."""
    lr_scaling_method: Annotated[
        Literal["linear", "sqrt", "none"],
        Key(
            since="0.16.5",
            means=(
                ("linear", "in proportion to the batch size"),
                ("sqrt", "with the square root of the batch size"),
                ("none", "no scaling"),
            ),
        ),
    ] = "linear"
    """Scaling of the learning rate with the batch size."""
    min_batch_size: Annotated[_Converted, Key(since="0.16.5", unit="samples")] = 1
    """Minimum number of samples in a batch; smaller batches are dropped."""
    max_batch_size: Annotated[_Converted, Key(since="0.16.5", unit="samples")] = ABSENT
    """Maximum number of samples in a batch; omit it for no limit, because DeepSpeed rejects null."""
    max_tokens: Annotated[_Converted, Key(since="0.16.5", unit="tokens")] = ABSENT
    """Maximum number of tokens in a batch. Required if dynamic batching is enabled."""
    sequence_picking_order: Annotated[
        Literal["random", "seqlen", "dataloader"],
        Key(
            since="0.16.5",
            means=(
                ("random", "in random order"),
                ("seqlen", "by length: least padding"),
                ("dataloader", "data loader order"),
            ),
        ),
    ] = "dataloader"
    """Order in which sequences are packed: random, by length (least padding), or data loader order."""
    verbose: Annotated[bool, Key(since="0.16.5")] = False
    """Log the batches."""


class DataSampling(Section):
    """How batches are sampled."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_sampling"
    READS = (
        SectionReading("hand", since="0.8.0", until="0.16.4"),
        SectionReading("hand", since="0.16.5", unknown="kept"),
    )

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling_enabled")
    ] = False
    """Intended to enable sampling techniques; only the `enabled` key of each technique has an effect."""
    num_epochs: Annotated[
        int,
        Key(
            since="0.8.0",
            unit="epochs",
            source="runtime/data_pipeline/config.py:get_data_sampling_num_epochs",
        ),
    ] = 1000
    """Maximum number of epochs; the sampler prepares its indices for that many."""
    num_workers: Annotated[
        int,
        Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling_num_workers"),
    ] = 0
    """Worker processes of the dataloader."""
    pin_memory: Annotated[
        bool,
        Key(since="0.16.5", source="runtime/data_pipeline/config.py:get_data_sampling_pin_memory"),
    ] = False
    """Pin the dataloader's memory, for faster copies to the device."""
    curriculum_learning: Annotated[
        MetricCurriculum,
        Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_curriculum_learning_enabled"),
    ] = Field(default_factory=MetricCurriculum)
    """Curriculum learning: easy samples first."""
    dynamic_batching: Annotated[
        DynamicBatching,
        Key(since="0.16.5", source="runtime/data_pipeline/config.py:get_dynamic_batching"),
    ] = Field(default_factory=DynamicBatching)
    """Dynamic batching: batches by number of tokens."""


# Data routing: random layerwise token dropping (random-LTD).

_ROUTING_KEPT = (SectionReading("hand", since="0.8.0", unknown="kept"),)


class TokenScheduleConfig(Section):
    """Parameters of the schedule; `require_steps` and `seq_per_step` are required."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:BaseScheduler.__fixed_root_get_value"
    READS = _ROUTING_KEPT

    require_steps: Annotated[int, Key(since="0.8.0", unit="steps")] = ABSENT
    """Steps until all tokens are kept."""
    seq_per_step: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """The kept length is rounded down to a multiple of this; 8 or 16 suits tensor cores."""
    root_degree: Annotated[int, Key(since="0.8.0", unread=True)] = ABSENT
    """Degree of the root schedule, which is not implemented."""


class TokenSchedule(Section):
    """Number of tokens that layers with token dropping keep; all keys are required if random-LTD is enabled."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.reset_to_init"
    READS = _ROUTING_KEPT

    min_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept at the start; smaller values save more computation and disturb training more."""
    max_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept at the end, usually the whole sequence."""
    schedule_type: Annotated[
        Literal["fixed_linear"], Key(since="0.8.0", means=(("fixed_linear", "increases linearly"),))
    ] = ABSENT
    """Shape of the schedule; only fixed_linear is implemented."""
    schedule_config: Annotated[TokenScheduleConfig, Key(since="0.8.0", takes=_ANY_SHAPE)] = Field(
        default_factory=TokenScheduleConfig
    )
    """Length and step size of the schedule."""


class LayerTokenLearningRate(Section):
    """Learning-rate schedule by consumed layer tokens, which DeepSpeed never implemented."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"
    READS = _ROUTING_KEPT

    enabled: Annotated[bool, Key(since="0.8.0")] = False
    """Must be false: true raises NotImplementedError. Required in this section."""
    total_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_TOTAL_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Layer tokens (tokens × layers) of the whole training; never read."""
    warmup_type: Annotated[
        str,
        Key(since="0.8.0", unread=True, source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_TYPE"),
    ] = ABSENT
    """Shape of the warm-up; never read."""
    warmup_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Layer tokens (tokens × layers) of the warm-up; never read."""


class RandomLtd(Section):
    """Random layerwise token dropping: middle layers process a random subset of the tokens.

    Keys without a default are required if it is enabled.
    """

    SOURCE = "runtime/data_pipeline/data_routing/basic_layer.py:RandomLayerTokenDrop.init_config"
    READS = _ROUTING_KEPT

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = False
    """Enable random layerwise token dropping: the layers of `random_ltd_layer_id` process a random subset of
    the tokens."""
    total_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Number of layers of the model, used to count processed tokens."""
    random_ltd_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Number of layers that drop tokens; must equal the length of `random_ltd_layer_id`."""
    random_ltd_layer_id: Annotated[
        list[int],
        Key(since="0.8.0", source="runtime/engine.py:DeepSpeedEngine.random_ltd_initialize"),
    ] = ABSENT
    """Indices of the layers that drop tokens; exclude the first and the last layer to preserve quality."""
    model_mask_name: Annotated[str | None, Key(since="0.8.0")] = ABSENT
    """Name of the attention mask argument of a layer; null if it has none."""
    model_type: Annotated[
        Literal["decoder", "encoder"],
        Key(
            since="0.8.0",
            means=(
                ("decoder", "a decoder, such as GPT"),
                ("encoder", "an encoder, such as BERT"),
            ),
        ),
    ] = ABSENT
    """Kind of model, which determines how masks are sliced."""
    hidden_state_order: Annotated[
        Literal["batch_seq_dim", "seq_batch_dim"],
        Key(
            since="0.8.0",
            means=(
                ("batch_seq_dim", "batch first"),
                ("seq_batch_dim", "sequence first"),
            ),
        ),
    ] = ABSENT
    """Order of the axes of hidden states."""
    random_ltd_schedule: Annotated[
        TokenSchedule,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=TokenSchedule)
    """Schedule of the number of tokens that are kept."""
    layer_token_lr_schedule: Annotated[
        LayerTokenLearningRate,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=LayerTokenLearningRate)
    """Learning-rate schedule by consumed layer tokens. Not implemented: omit it, or leave it disabled."""


class DataRouting(Section):
    """Routing techniques."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_routing"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_routing_enabled")
    ] = False
    """Intended to enable routing techniques; only `random_ltd.enabled` has an effect."""
    random_ltd: Annotated[
        RandomLtd, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = Field(default_factory=RandomLtd)
    """Random token dropping."""


__all__ = ["CurriculumLearning", "DataEfficiency"]


class DataEfficiency(Section):
    """The data efficiency library. Every inner section has its own `enabled`."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_efficiency_config"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_enabled")
    ] = False
    """Enable the data efficiency library."""
    seed: Annotated[
        int, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_seed")
    ] = 1234
    """Seed of the order in which samples are drawn."""
    data_sampling: Annotated[
        DataSampling, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling")
    ] = Field(default_factory=DataSampling)
    """Which samples make up a batch."""
    data_routing: Annotated[
        DataRouting, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_routing")
    ] = Field(default_factory=DataRouting)
    """Which tokens pass through which layers."""


class DataRootKeys(RootKeys):
    """Root keys about data."""

    data_efficiency: Annotated[
        DataEfficiency,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/config.py:get_data_efficiency_enabled",
            opened_by=SCRIPT,  # the data loader that the engine builds from `training_data`
        ),
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
            complete=True,
            opened_by="curriculum_learning.enabled",
        ),
    ] = Field(default_factory=CurriculumLearning.absent)
    """Earlier form of curriculum learning, by sequence length."""
