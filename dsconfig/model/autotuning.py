"""Autotuning: search for the fastest ZeRO stage and micro-batch size with short trial runs."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import SCRIPT, EarlierType, Key, NonObjectValues
from dsconfig.model.section import RootKeys, Section

_Directory = Annotated[str, Field(min_length=1)]


class ModelInfo(Section):
    """Size of the model; without it, the tuner determines the size in a profiling run."""

    SOURCE = "autotuning/config.py:get_model_info_config"

    profile: Annotated[bool, Key(since="0.5.7")] = False
    """Profile the model once to determine the values of this section."""
    num_params: Annotated[int | None, Key(since="0.5.7", unit="elements")] = None
    """Number of parameters of the model."""
    hidden_size: Annotated[int | None, Key(since="0.9.3")] = None
    """Hidden size of the model."""
    num_layers: Annotated[int | None, Key(since="0.5.7")] = None
    """Number of layers of the model."""
    hideen_size: Annotated[
        int | None, Key(since="0.5.7", until="0.9.2", replaced_by="autotuning.model_info.hidden_size")
    ] = None
    """Hidden size of the model, under the misspelled name that these releases read."""


class Autotuning(Section):
    """The autotuner, started with `deepspeed --autotuning tune` or `run`."""

    SOURCE = "autotuning/config.py:DeepSpeedAutotuningConfig._initialize"

    enabled: Annotated[bool, Key(since="0.5.7")] = False
    """Run the autotuner when the launcher asks for it."""
    fast: Annotated[bool, Key(since="0.5.7")] = True
    """Tune stage and micro-batch size only; false also tries other ZeRO settings, which takes far longer."""
    results_dir: Annotated[
        _Directory,
        Key(since="0.5.7", was=(EarlierType("0.7.4", str | None),), defaults=(("0.7.4", None),)),
    ] = "autotuning_results"
    """Directory for results. Must not be empty, even while autotuning is off."""
    exps_dir: Annotated[
        _Directory,
        Key(since="0.5.7", was=(EarlierType("0.7.4", str | None),), defaults=(("0.7.4", None),)),
    ] = "autotuning_exps"
    """Directory for the configurations of the experiments. Must not be empty, even while autotuning is off.
    """
    overwrite: Annotated[bool, Key(since="0.5.7")] = True
    """Repeat experiments whose results already exist."""
    start_profile_step: Annotated[
        int, Key(since="0.5.7", unit="steps", miswritten=("autotuning.start_step",))
    ] = 3
    """Step at which measuring starts; earlier ones are warm-up."""
    end_profile_step: Annotated[
        int, Key(since="0.5.7", unit="steps", miswritten=("autotuning.end_step",))
    ] = 5
    """Step at which an experiment ends; more steps are more exact and take longer."""
    metric: Annotated[
        str,
        Key(
            since="0.5.7",
            known=("latency", "throughput", "flops"),
            means=(
                ("latency", "time per step"),
                ("throughput", "samples per second"),
                ("flops", "FLOPS per GPU"),
            ),
        ),
    ] = "throughput"
    """Metric to optimize: time per step, samples per second, or FLOPS per GPU."""
    metric_path: Annotated[str | None, Key(since="0.5.7")] = None
    """File to which an experiment writes its metric; the tuner sets it."""
    tuner_type: Annotated[
        Literal["gridsearch", "random", "model_based"],
        Key(
            since="0.5.7",
            wrong_type="altered",
            means=(
                ("gridsearch", "in order"),
                ("random", "in random order"),
                ("model_based", "by a cost model that learns from earlier experiments"),
            ),
        ),
    ] = "gridsearch"
    """Search strategy: all experiments in order, in random order, or by a cost model that learns from earlier
    ones. Any other value means gridsearch."""
    tuner_early_stopping: Annotated[int, Key(since="0.5.7", unit="experiments")] = 5
    """The search ends after this many experiments without a better result."""
    tuner_num_trials: Annotated[int, Key(since="0.5.7", unit="experiments")] = 50
    """Maximum number of experiments in one search."""
    arg_mappings: Annotated[
        dict[str, str] | None,
        Key(
            since="0.5.7",
            takes=(NonObjectValues(("null", "true", "false", "[]", "list", "string", "number", "auto")),),
        ),
    ] = None
    """Flags of the training script by config key, so that the tuner can replace what the script is given.

    The keys are config keys such as `train_micro_batch_size_per_gpu`; the values belong to the script.
    """
    model_info: Annotated[
        ModelInfo | None,
        Key(
            since="0.5.7",
            source="autotuning/config.py:get_model_info_config",
            takes=(NonObjectValues(("null",)),),
        ),
    ] = None
    """Size of the model, which makes the profiling run unnecessary."""
    model_info_path: Annotated[str | None, Key(since="0.5.7")] = None
    """File to which the profiling run writes the model's size; the tuner sets it."""
    mp_size: Annotated[int, Key(since="0.5.7")] = 1
    """Model-parallel degree: GPUs that share one copy of the model."""
    max_train_batch_size: Annotated[int | None, Key(since="0.5.7", unit="samples")] = None
    """Largest global batch to try; null sets no limit."""
    min_train_batch_size: Annotated[int, Key(since="0.5.7", unit="samples")] = 1
    """Smallest global batch to try."""
    max_train_micro_batch_size_per_gpu: Annotated[int, Key(since="0.5.7", unit="samples")] = 1024
    """Largest micro batch to try."""
    min_train_micro_batch_size_per_gpu: Annotated[int, Key(since="0.5.7", unit="samples")] = 1
    """Smallest micro batch to try."""
    num_tuning_micro_batch_sizes: Annotated[int, Key(since="0.5.7")] = 3
    """Number of micro-batch sizes to try per stage."""


class AutotuningRootKeys(RootKeys):
    """The root key of the autotuner."""

    autotuning: Annotated[
        Autotuning,
        Key(
            since="0.5.7",
            source="autotuning/config.py:DeepSpeedAutotuningConfig.__init__",
            opened_by=SCRIPT,  # the tuner, or a trial run that ends
        ),
    ] = Field(default_factory=Autotuning)
    """Searches for the fastest ZeRO stage and micro-batch size with short trial runs."""
