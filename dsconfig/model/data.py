"""Data efficiency: which samples make up a batch, and which tokens pass which layers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import ABSENT, Checked
from dsconfig.model.key import ANYTHING, SCRIPT, Key, Reads, Takes
from dsconfig.model.section import RootKeys, Section

# The curriculum of 0.5.0, by sequence length; still read up to 0.19.7.

_NEW = "data_efficiency.data_sampling.curriculum_learning"
_METRIC = f"{_NEW}.curriculum_metrics.*"
Pacing: TypeAlias = Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"]
PACINGS = (
    ("fixed_linear", "rises evenly"),
    ("fixed_root", "rises as a root does: fast, then slower"),
    ("fixed_discrete", "rises in steps that the config lists"),
    ("custom", "set from Python"),
)
_KEPT = (Reads("hand", since="0.5.0", unknown="kept"),)


class LengthSchedule(Section):
    """Numbers of the pacing function; which are needed depends on `schedule_type`."""

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
    """Difficulties in turn. For fixed_discrete."""
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
    """Last step of each difficulty but the final one, so one entry fewer. For fixed_discrete."""


class CurriculumLearning(Section):
    """Short sequences first. The engine hands the current length to the model as an argument."""

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
    """Turn the curriculum on. The section is refused without this key."""
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
    """What difficulty means; only sequence length is offered. Needed when the curriculum is on."""
    min_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.min_difficulty"),
    ] = ABSENT
    """Difficulty at the first step. Needed when the curriculum is on."""
    max_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.max_difficulty"),
    ] = ABSENT
    """Difficulty at the end, usually the full length. Needed when the curriculum is on."""
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
    """Pacing function; custom is set from Python. Needed when the curriculum is on."""
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
    """Numbers of the pacing function; needed unless it is custom."""


# Data sampling: curricula by custom metrics, and batches limited by tokens.

_ANY_SHAPE = (Takes(("null", "true", "false", "[]", "list", "string", "number", "auto")),)
_Converted: TypeAlias = Annotated[
    int, Checked(("union", ("int", None, None, None, None), ("str",)))  # what int() refuses has a rule
]
"""A number that DeepSpeed makes an integer with int(), which reads digits in quotes too."""
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"


class MetricSchedule(Section):
    """Numbers of the pacing function; which are needed depends on `schedule_type`."""

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = (Reads("hand", since="0.8.0", unknown="kept"),)

    total_curriculum_step: Annotated[int, Key(since="0.8.0", unit="steps")] = ABSENT
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root."""
    difficulty_step: Annotated[int, Key(since="0.8.0")] = ABSENT
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete."""
    root_degree: Annotated[int, Key(since="0.8.0")] = ABSENT
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root."""
    difficulty: Annotated[list[int], Key(since="0.8.0")] = ABSENT
    """Difficulties in turn. For fixed_discrete."""
    max_step: Annotated[list[int], Key(since="0.8.0", unit="steps")] = ABSENT
    """Last step of each difficulty but the final one, so one entry fewer. For fixed_discrete."""


class CurriculumMetric(Section):
    """How one metric paces the curriculum. Difficulty bounds and `schedule_type` are needed when it runs."""

    SOURCE = _SAMPLER
    READS = (Reads("hand", since="0.8.0", unknown="kept"),)

    index_to_sample_path: Annotated[str, Key(since="0.8.0")] = ABSENT
    """File of the data analyser with the samples of each metric value; not for single_cluster."""
    index_to_metric_path: Annotated[str, Key(since="0.8.0")] = ABSENT
    """File of the data analyser with the metric value of each sample; not for single_cluster."""
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
    """Whether difficulty is a value of the metric or a percentile of the data, as which other words count."""
    clustering_type: Annotated[
        Literal["schedule_based", "single_cluster"],
        Key(
            since="0.8.0",
            wrong_type="altered",
            means=(
                ("schedule_based", "clusters samples as the difficulty grows"),
                ("single_cluster", "takes all samples, and shortens them"),
            ),
        ),
    ] = ABSENT
    """Cluster samples as the difficulty grows, as other words do too, or take all and shorten them."""
    min_difficulty: Annotated[
        int,
        Key(
            since="0.8.0", source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
        ),
    ] = ABSENT
    """Difficulty at the first step."""
    max_difficulty: Annotated[
        int,
        Key(
            since="0.8.0", source="runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
        ),
    ] = ABSENT
    """Difficulty at the end; with difficulty_type percentile 100 is all data."""
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
    """Numbers of the pacing function; needed unless it is custom."""


class MetricCurriculum(Section):
    """Curriculum learning: easy samples first, by one metric or several."""

    SOURCE = "runtime/data_pipeline/config.py:get_curriculum_learning"
    READS = (Reads("hand", since="0.8.0", unknown="kept"),)

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_curriculum_learning_enabled")
    ] = False
    """Draw samples by the difficulty that the schedule allows at each step."""
    data_cluster_path: Annotated[str, Key(since="0.8.0", source=_SAMPLER)] = ABSENT
    """Directory where clusters of samples are kept; needed when it is on."""
    curriculum_metrics: Annotated[dict[str, CurriculumMetric], Key(since="0.8.0", takes=_ANY_SHAPE)] = ABSENT
    """Metrics by the names of the data analyser. Must be given when the curriculum is on."""


class DynamicBatching(Section):
    """Batches of varying size that hold about the same number of tokens.

    Unlike other sections read by hand, this one converts its values with bool(), int() and str().
    """

    SOURCE = "runtime/data_pipeline/config.py:get_dynamic_batching"
    READS = (Reads("hand", since="0.16.5", unknown="kept"),)

    enabled: Annotated[bool, Key(since="0.16.5")] = False
    """Fill batches up to a number of tokens instead of a number of samples."""
    metrics_path: Annotated[
        str,
        Key(since="0.16.5", source="runtime/data_pipeline/data_sampling/variable_batch_size_and_lr.py"),
    ] = ABSENT
    """Directory of the data analyser's sequence lengths; needed unless lengths are passed in from Python."""
    lr_scaling_method: Annotated[
        Literal["linear", "sqrt", "none"],
        Key(
            since="0.16.5",
            means=(
                ("linear", "in proportion"),
                ("sqrt", "with its square root"),
                ("none", "not at all"),
            ),
        ),
    ] = "linear"
    """How the learning rate follows the size of the batch."""
    min_batch_size: Annotated[_Converted, Key(since="0.16.5", unit="samples")] = 1
    """Fewest samples in a batch; smaller ones are left out."""
    max_batch_size: Annotated[_Converted, Key(since="0.16.5", unit="samples")] = ABSENT
    """Most samples in a batch; leave it out for no limit, null is refused."""
    max_tokens: Annotated[_Converted, Key(since="0.16.5", unit="tokens")] = ABSENT
    """Most tokens in a batch. Must be given when dynamic batching is on."""
    sequence_picking_order: Annotated[
        Literal["random", "seqlen", "dataloader"],
        Key(
            since="0.16.5",
            means=(
                ("random", "by chance"),
                ("seqlen", "by length: least padding"),
                ("dataloader", "as they come"),
            ),
        ),
    ] = "dataloader"
    """Order in which sequences are packed: by chance, by length (least padding), or as they come."""
    verbose: Annotated[bool, Key(since="0.16.5")] = False
    """Log the batches that are built."""


class DataSampling(Section):
    """How batches are sampled."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_sampling"
    READS = (
        Reads("hand", since="0.8.0", until="0.16.4"),
        Reads("hand", since="0.16.5", unknown="kept"),
    )

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling_enabled")
    ] = False
    """Meant to turn sampling techniques on; each of them has the switch that counts."""
    num_epochs: Annotated[
        int,
        Key(
            since="0.8.0",
            unit="epochs",
            source="runtime/data_pipeline/config.py:get_data_sampling_num_epochs",
        ),
    ] = 1000
    """Most passes over the data; the sampler prepares its indices for that many."""
    num_workers: Annotated[
        int, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling_num_workers")
    ] = 0
    """Worker processes of the dataloader."""
    pin_memory: Annotated[
        bool, Key(since="0.16.5", source="runtime/data_pipeline/config.py:get_data_sampling_pin_memory")
    ] = False
    """Pin the dataloader's memory, for faster copies to the device."""
    curriculum_learning: Annotated[
        MetricCurriculum,
        Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_curriculum_learning_enabled"),
    ] = Field(default_factory=MetricCurriculum)
    """Easy samples first."""
    dynamic_batching: Annotated[
        DynamicBatching, Key(since="0.16.5", source="runtime/data_pipeline/config.py:get_dynamic_batching")
    ] = Field(default_factory=DynamicBatching)
    """Batches by number of tokens."""


# Data routing: random layerwise token dropping (random-LTD).

_ROUTING_KEPT = (Reads("hand", since="0.8.0", unknown="kept"),)


class TokenScheduleConfig(Section):
    """Numbers of the schedule; `require_steps` and `seq_per_step` are needed."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:BaseScheduler.__fixed_root_get_value"
    READS = _ROUTING_KEPT

    require_steps: Annotated[int, Key(since="0.8.0", unit="steps")] = ABSENT
    """Steps until all tokens are kept."""
    seq_per_step: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """The kept length is rounded down to a multiple of this; 8 or 16 suits tensor cores."""
    root_degree: Annotated[int, Key(since="0.8.0", unread=True)] = ABSENT
    """Degree of a root schedule that is not offered."""


class TokenSchedule(Section):
    """How many tokens the dropping layers keep; all keys are needed when random-LTD is on."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.reset_to_init"
    READS = _ROUTING_KEPT

    min_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept at the start; fewer save more and disturb more."""
    max_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept in the end, usually the whole sequence."""
    schedule_type: Annotated[
        Literal["fixed_linear"], Key(since="0.8.0", means=(("fixed_linear", "rises evenly"),))
    ] = ABSENT
    """Shape of the schedule; only a straight line is offered."""
    schedule_config: Annotated[TokenScheduleConfig, Key(since="0.8.0", takes=_ANY_SHAPE)] = Field(
        default_factory=TokenScheduleConfig
    )
    """Length and step size of the schedule."""


class LayerTokenLearningRate(Section):
    """A learning rate by consumed layer tokens, never finished."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"
    READS = _ROUTING_KEPT

    enabled: Annotated[bool, Key(since="0.8.0")] = False
    """Must be false: true ends in NotImplementedError. Must be given when the section is."""
    total_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_TOTAL_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Tokens times layers that the whole training computes; never looked at."""
    warmup_type: Annotated[
        str,
        Key(since="0.8.0", unread=True, source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_TYPE"),
    ] = ABSENT
    """Shape of the warm-up; never looked at."""
    warmup_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Tokens times layers that the warm-up lasts; never looked at."""


class RandomLtd(Section):
    """Middle layers see a random part of the tokens. Keys without default are needed when it is on."""

    SOURCE = "runtime/data_pipeline/data_routing/basic_layer.py:RandomLayerTokenDrop.init_config"
    READS = _ROUTING_KEPT

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = False
    """Let the layers of `random_ltd_layer_id` see only a random part of the tokens."""
    total_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Layers of the model, to count the tokens that were computed."""
    random_ltd_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Layers that drop tokens; as many as `random_ltd_layer_id` names."""
    random_ltd_layer_id: Annotated[
        list[int], Key(since="0.8.0", source="runtime/engine.py:DeepSpeedEngine.random_ltd_initialize")
    ] = ABSENT
    """Which layers drop tokens; leaving out the first and the last keeps quality."""
    model_mask_name: Annotated[str | None, Key(since="0.8.0")] = ABSENT
    """Name of the attention mask among a layer's arguments; null if it has none."""
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
    """Kind of model, for the way masks are cut."""
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
    """How many tokens are kept over time."""
    layer_token_lr_schedule: Annotated[
        LayerTokenLearningRate,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=LayerTokenLearningRate)
    """A learning rate by consumed layer tokens. Unfinished: leave it out, or off."""


class DataRouting(Section):
    """Routing techniques."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_routing"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_routing_enabled")
    ] = False
    """Meant to turn routing techniques on; `random_ltd` has the switch that counts."""
    random_ltd: Annotated[
        RandomLtd, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = Field(default_factory=RandomLtd)
    """Random token dropping."""


__all__ = ["CurriculumLearning", "DataEfficiency"]


class DataEfficiency(Section):
    """The data efficiency library. Every inner section has a switch of its own."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_efficiency_config"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_enabled")
    ] = False
    """Turn the library on."""
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


class DataKeys(RootKeys):
    """Root keys about data."""

    data_efficiency: Annotated[
        DataEfficiency,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/config.py:get_data_efficiency_enabled",
            opened_by=SCRIPT,  # the data loader that a `training_data` argument makes
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
    """First form of curriculum learning, by sequence length."""
