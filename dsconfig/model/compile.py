"""Compiler settings: torch.compile up to 0.14.3, DeepCompile from 0.16.6 on, nothing in between."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import EarlierType, Key, SectionReading
from dsconfig.model.section import FreeForm, RootKeys, Section


class Compile(Section):
    """DeepCompile: graph passes that `engine.compile()` applies. Up to 0.14.3: arguments of torch.compile."""

    SOURCE = "compile/config.py:CompileConfig"
    READS = (
        SectionReading("pydantic", since="0.13.2", until="0.14.3", unknown="rejected", drops_auto=True),
        SectionReading("pydantic", since="0.16.6", unknown="rejected", drops_auto=True),
    )

    deepcompile: Annotated[bool, Key(since="0.16.6")] = False
    """Apply DeepSpeed's graph passes when `engine.compile()` is called."""
    autoep_non_moe: Annotated[bool, Key(since="0.19.8")] = False
    """Compile the modules around AutoEP layers and run the experts eagerly."""
    free_activation: Annotated[bool, Key(since="0.16.6")] = False
    """Free large activations in the graph after their last use; saves memory."""
    free_activation_threshold: Annotated[int, Key(since="0.18.0", unit="bytes")] = 10 * 1024 * 1024
    """Minimum size of an activation that `free_activation` frees."""
    offload_activation: Annotated[bool, Key(since="0.16.6")] = False
    """Offload activations to host memory until the backward pass; cannot be combined with the other two
    offloads."""
    offload_activation_pin_memory: Annotated[bool, Key(since="0.19.6")] = True
    """Pin the host buffers of activation offload: copies overlap, at the cost of pinned memory."""
    offload_opt_states: Annotated[bool, Key(since="0.16.6")] = False
    """Offload optimizer state to host memory during forward and backward; intended for one micro-batch per
    step."""
    double_buffer: Annotated[bool, Key(since="0.16.6")] = True
    """Use double buffering for communication in the graph: more overlap, more memory."""
    symmetric_memory: Annotated[bool, Key(since="0.16.6")] = False
    """Use symmetric memory for collectives if the hardware supports it."""
    debug_log: Annotated[bool, Key(since="0.16.6")] = False
    """Dump the transformed graphs."""
    offload_parameters: Annotated[bool, Key(since="0.16.6")] = False
    """Offload parameters from within the graph; cannot be combined with the other two offloads."""
    sync_before_reduce: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: synchronize the device before each gradient reduction."""
    sync_after_reduce: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: synchronize the device after each gradient reduction."""
    sync_before_allgather: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: synchronize the device before each all-gather of parameters."""
    sync_after_allgather: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: synchronize the device after each all-gather of parameters."""
    keep_int_input_tensors: Annotated[bool, Key(since="0.17.2")] = True
    """Profile with the real integer inputs instead of dummies; required if they control the computation."""
    keep_all_input_tensors: Annotated[bool, Key(since="0.17.2")] = False
    """Profile with all real inputs instead of dummies; needs memory."""
    passes: Annotated[
        list[Literal["z1", "z3", "autosp", "autotp"]] | None,
        Key(
            since="0.18.9",
            was=(EarlierType("0.19.5", list[Literal["z1", "z3", "autosp"]] | None),),
            means=(
                ("z1", "ZeRO stage 1"),
                ("z3", "ZeRO stage 3"),
                ("autosp", "sequence parallelism"),
                ("autotp", "tensor parallelism"),
            ),
        ),
    ] = None
    """Graph passes to apply; null selects them by ZeRO stage."""
    enabled: Annotated[
        bool,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="`engine.compile()`",
            source="runtime/compiler.py:CompileConfig.enabled",
        ),
    ] = False
    """Wrap the model with torch.compile."""
    backend: Annotated[
        str,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="`engine.compile(backend=...)`",
            source="runtime/compiler.py:CompileConfig.backend",
        ),
    ] = "inductor"
    """Backend of torch.compile, by its name or as the dotted path of a function."""
    kwargs: Annotated[
        FreeForm,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="`engine.compile(compile_kwargs=...)`",
            source="runtime/compiler.py:CompileConfig.kwargs",
        ),
    ] = Field(default={})
    """Additional keyword arguments for torch.compile."""


class CompileRootKeys(RootKeys):
    """The root key of compilation."""

    compile: Annotated[
        Compile,
        Key(
            since="0.13.2",
            spans=(("0.13.2", "0.14.3"), ("0.16.6", None)),
            source="runtime/config.py:DeepSpeedConfig._initialize_params",
        ),
    ] = Field(default_factory=Compile)
    """Settings for `torch.compile` up to 0.14.3 and for DeepCompile from 0.16.6 on. Releases in between do
    not read it."""
