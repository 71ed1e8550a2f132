"""Compiler settings: torch.compile up to 0.14.3, DeepCompile from 0.16.6 on, nothing in between."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.annotations import FreeForm
from dsconfig.model.key import Key, Reads, Was
from dsconfig.model.section import RootKeys, Section


class Compile(Section):
    """Graph passes that `engine.compile()` applies; until 0.14.3, how to call torch.compile."""

    SOURCE = "compile/config.py:CompileConfig"
    READS = (
        Reads("pydantic", since="0.13.2", until="0.14.3", unknown="rejected", drops_auto=True),
        Reads("pydantic", since="0.16.6", unknown="rejected", drops_auto=True),
    )

    deepcompile: Annotated[bool, Key(since="0.16.6")] = False
    """Apply DeepSpeed's graph passes when `engine.compile()` is called."""
    autoep_non_moe: Annotated[bool, Key(since="0.19.8")] = False
    """Compile what surrounds AutoEP layers and leave the experts eager."""
    free_activation: Annotated[bool, Key(since="0.16.6")] = False
    """Free large activations inside the graph as soon as nothing reads them; saves memory."""
    free_activation_threshold: Annotated[int, Key(since="0.18.0", unit="bytes")] = 10 * 1024 * 1024
    """Smallest activation that `free_activation` frees."""
    offload_activation: Annotated[bool, Key(since="0.16.6")] = False
    """Keep activations for the backward pass in host memory; excludes the other two offloads."""
    offload_activation_pin_memory: Annotated[bool, Key(since="0.19.6")] = True
    """Pin the host buffers of activation offload: copies overlap, at the cost of locked memory."""
    offload_opt_states: Annotated[bool, Key(since="0.16.6")] = False
    """Keep optimizer state in host memory during forward and backward; meant for one micro batch a step."""
    double_buffer: Annotated[bool, Key(since="0.16.6")] = True
    """Use two buffers for communication in the graph: more overlap, more memory."""
    symmetric_memory: Annotated[bool, Key(since="0.16.6")] = False
    """Use symmetric memory for collectives, where the hardware has it."""
    debug_log: Annotated[bool, Key(since="0.16.6")] = False
    """Write the transformed graphs out."""
    offload_parameters: Annotated[bool, Key(since="0.16.6")] = False
    """Move parameters out of the device from within the graph; excludes the other two offloads."""
    sync_before_reduce: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: wait for the device before each gradient reduction."""
    sync_after_reduce: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: wait for the device after each gradient reduction."""
    sync_before_allgather: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: wait for the device before each parameter gather."""
    sync_after_allgather: Annotated[bool, Key(since="0.16.6")] = False
    """For debugging: wait for the device after each parameter gather."""
    keep_int_input_tensors: Annotated[bool, Key(since="0.17.2")] = True
    """Profile with the real integer inputs instead of dummies; needed where they steer the computation."""
    keep_all_input_tensors: Annotated[bool, Key(since="0.17.2")] = False
    """Profile with all real inputs instead of dummies; takes memory."""
    passes: Annotated[
        list[Literal["z1", "z3", "autosp", "autotp"]] | None,
        Key(
            since="0.18.9",
            was=(Was("0.19.5", list[Literal["z1", "z3", "autosp"]] | None),),
            means=(
                ("z1", "ZeRO stage 1"),
                ("z3", "ZeRO stage 3"),
                ("autosp", "sequence parallelism"),
                ("autotp", "tensor parallelism"),
            ),
        ),
    ] = None
    """Optimisations to combine; null chooses by ZeRO stage."""
    enabled: Annotated[
        bool,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="engine.compile()",
            source="runtime/compiler.py:CompileConfig.enabled",
        ),
    ] = False
    """Wrap the model with torch.compile."""
    backend: Annotated[
        str,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="engine.compile(backend=...)",
            source="runtime/compiler.py:CompileConfig.backend",
        ),
    ] = "inductor"
    """Backend of torch.compile, by its name or as the dotted path of a function."""
    kwargs: Annotated[
        FreeForm,
        Key(
            since="0.13.2",
            until="0.14.3",
            replaced_by="engine.compile(compile_kwargs=...)",
            source="runtime/compiler.py:CompileConfig.kwargs",
        ),
    ] = Field(default={})
    """Further arguments for torch.compile, by its own names."""


class CompileKeys(RootKeys):
    """The root key of compilation."""

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
