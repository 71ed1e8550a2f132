"""Data sampling: curricula by custom metrics, and batches limited by tokens."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import ABSENT, Checked
from dsconfig.model.data.curriculum import PACINGS, Pacing
from dsconfig.model.key import Key, Reads, Takes
from dsconfig.model.section import Section

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
