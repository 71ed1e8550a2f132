"""Root keys of the training engine: clipping, logging, and the optimizers that it accepts."""

from typing import Annotated, ClassVar, Literal

from dsconfig.model.key import Key
from dsconfig.model.section import Auto, NonNegativeFloat, RootKeys


class EngineRootKeys(RootKeys):
    """Root keys about the engine."""

    NOT_KEYS: ClassVar[tuple[str, ...]] = ("num_epochs", "num_train_epochs", "seed")

    gradient_clipping: Annotated[
        NonNegativeFloat | Auto,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_gradient_clipping",
            miswritten=("max_grad_norm", "grad_clip", "clip_grad_norm"),
            fills=("transformers", "accelerate"),
            defaults=(("0.19.2", 0.0),),
            wrong_type="crashes",
        ),
    ] = 1.0
    """Maximum global gradient norm; larger gradients are scaled down. 0 disables clipping."""
    steps_per_print: Annotated[
        int | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_steps_per_print",
            unit="steps",
            defaults=(("0.15.1", 10),),
            wrong_type="crashes",
        ),
    ] = None
    """Optimizer steps between two progress lines in the log; null logs none."""
    wall_clock_breakdown: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_wall_clock_breakdown")
    ] = False
    """Log the time of forward, backward and step; synchronizes the device. The flops profiler enables it too.
    """
    memory_breakdown: Annotated[bool, Key(since="0.2.0", source="runtime/config.py:get_memory_breakdown")] = (
        False
    )
    """Log device memory at several points of a step."""
    dump_state: Annotated[bool, Key(since="0.1.0", source="runtime/config.py:get_dump_state")] = False
    """Print the whole configuration once the engine is initialized."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"] | None,
        Key(
            since="0.19.3",
            source="runtime/config.py:get_log_level",
            fold_case=True,
            means=(
                ("debug", "all messages"),
                ("info", "progress, warnings and errors"),
                ("warning", "warnings and errors"),
                ("error", "errors"),
                ("critical", "only critical errors"),
            ),
        ),
    ] = None
    """Level of DeepSpeed's logger; null leaves it unchanged."""
    disable_python_gc: Annotated[
        bool, Key(since="0.19.8", source="runtime/config.py:get_disable_python_gc")
    ] = False
    """Disable Python's garbage collector during training, because its pauses come at a different time on
    every rank. Reference cycles then stay in memory."""
    vocabulary_size: Annotated[
        int | None,
        Key(
            since="0.1.0", source="runtime/config.py:DeepSpeedConfig._do_warning_check", wrong_type="ignored"
        ),
    ] = None
    """Vocabulary size of the model. DeepSpeed only warns if it is not a multiple of 8, which tensor cores
    prefer."""
    zero_allow_untested_optimizer: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_zero_allow_untested_optimizer")
    ] = False
    """Allow ZeRO with an optimizer that DeepSpeed has not been tested with."""
    zero_force_ds_cpu_optimizer: Annotated[
        bool, Key(since="0.8.3", source="runtime/config.py:get_zero_force_ds_cpu_optimizer")
    ] = True
    """With optimizer offload, reject every optimizer other than DeepSpeed's CPU kernels; false allows slower
    ones."""
    graph_harvesting: Annotated[
        bool,
        Key(
            since="0.12.6",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_graph_harvesting",
        ),
    ] = False
    """Replay the repeated operations of the bf16 optimizer as CUDA graphs."""
