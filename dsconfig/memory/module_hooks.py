"""Determine the order of module hooks in the forward and backward passes of a recorded model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import CheckpointedSegment, EnterModule, LeaveModule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dsconfig.memory.autograd_graph import Module, Step


class ModuleHookCall(NamedTuple):
    """A call of a module hook, on entering or leaving a module in either pass."""

    module: Module
    is_entry: bool
    is_backward: bool = False
    recomputed_for: int | None = None
    """Number of the module whose backward triggered the recomputation."""


def forward_hook_calls(steps: Sequence[Step], owner: int | None = None) -> Iterator[ModuleHookCall]:
    """Yield the module hooks of a forward pass, in order."""
    for step in steps:
        if isinstance(step, (EnterModule, LeaveModule)):
            yield ModuleHookCall(step.module, isinstance(step, EnterModule), False, owner)
        elif isinstance(step, CheckpointedSegment):
            yield from forward_hook_calls(step.steps, owner)


def backward_hook_calls(steps: Sequence[Step]) -> Iterator[ModuleHookCall]:
    """Yield the module hooks of a backward pass, including recomputations."""
    for step in reversed(steps):
        if isinstance(step, LeaveModule) and step.requires_grad:
            yield ModuleHookCall(step.module, True, True)
        elif isinstance(step, EnterModule) and step.requires_grad and step.module.inputs_require_grad:
            yield ModuleHookCall(step.module, False, True)
        elif isinstance(step, CheckpointedSegment):
            recomputed, rest = step.split()
            yield from backward_hook_calls(rest)
            yield from forward_hook_calls(recomputed, recomputing_module(rest))
            yield from backward_hook_calls(recomputed)


def recomputing_module(rest: Sequence[Step]) -> int | None:
    """Return the innermost module whose backward has started when a segment is recomputed."""
    # The backward of a module starts at its `LeaveModule`; the last one still open asks for the lost tensors.
    open_modules: list[int] = []
    for step in reversed(rest):
        if isinstance(step, LeaveModule) and step.requires_grad:
            open_modules.append(step.module.number)
        elif isinstance(step, EnterModule) and step.module.number in open_modules:
            open_modules.remove(step.module.number)
    return open_modules[-1] if open_modules else None


def module_hook_calls(steps: Sequence[Step], counted: Collection[int] = ()) -> list[ModuleHookCall]:
    """Return the module hooks of both passes, without post-backward hooks of `counted` modules."""
    visits = [*forward_hook_calls(steps), *backward_hook_calls(steps)]
    return [
        visit
        for visit in visits
        if visit.is_entry or not visit.is_backward or visit.module.number not in counted
    ]


def recomputed_modules(steps: Sequence[Step]) -> Iterator[int]:
    """Yield the numbers of the modules whose forward runs again when segments are recomputed."""
    for step in steps:
        if isinstance(step, CheckpointedSegment):
            recomputed, _ = step.split()
            yield from (visit.module.number for visit in forward_hook_calls(recomputed) if visit.is_entry)


def modules_never_left(visits: Sequence[ModuleHookCall]) -> list[Module]:
    """Return the modules whose post-backward hook never fires because no gradient reaches their inputs."""
    open_modules: dict[Module, None] = {}
    for visit in visits:
        if visit.is_backward and visit.is_entry:
            open_modules[visit.module] = None
        elif visit.is_backward:
            open_modules.pop(visit.module, None)
    return list(open_modules)
