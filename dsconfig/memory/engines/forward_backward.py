"""Simulate the forward and backward passes of a recorded model: module hooks and lifetimes of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dsconfig.memory.autograd_graph import (
    ActivationTensor,
    CheckpointedSegment,
    DropReferences,
    EnterModule,
    ForwardTape,
    LeaveModule,
    ModelParameter,
    Operation,
    Step,
)
from dsconfig.memory.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dsconfig.memory.autograd_graph import Module, Step


# Order of module hooks in the forward and backward passes.


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
    """Return the innermost module whose backward has started when a segment is recomputed, or None."""
    # The backward of a module starts at its `LeaveModule`; the last one still open asks for the lost tensors.
    open_modules: list[int] = []
    for step in reversed(rest):
        if isinstance(step, LeaveModule) and step.requires_grad:
            open_modules.append(step.module.number)
        elif isinstance(step, EnterModule) and step.module.number in open_modules:
            open_modules.remove(step.module.number)
    return open_modules[-1] if open_modules else None


def module_hook_calls(steps: Sequence[Step], counted: Collection[int] = ()) -> list[ModuleHookCall]:
    """Return the module hooks of both passes, except post-backward hooks of modules in `counted`."""
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
    """Return the modules whose post-backward hook never fires, because no gradient reaches their inputs."""
    open_modules: dict[Module, None] = {}
    for visit in visits:
        if visit.is_backward and visit.is_entry:
            open_modules[visit.module] = None
        elif visit.is_backward:
            open_modules.pop(visit.module, None)
    return list(open_modules)


FLOWING = "activation gradients"
OFFLOADED_INPUTS = "offloaded activations"
COPIES = "autocast weight copies"


class EngineHooks(Protocol):
    """Engine hooks that the forward and backward passes call."""

    gathers: bool

    def set_recomputing_module(self, number: int | None) -> None:
        """Set the module whose recomputation starts, or None at the end of the recomputation."""

    def enter_module(self, number: int, forward: bool) -> None:
        """Prepare the forward or backward of a module."""

    def leave_module(self, number: int, forward: bool) -> None:
        """Finish the forward or backward of a module."""

    def hold_view(self, weight: ModelParameter) -> None:
        """Record that the graph saves a view of a weight."""

    def release_view(self, weight: ModelParameter) -> None:
        """Record that a saved view is freed."""

    def receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Take ownership of a complete gradient in a block of `count` bytes."""


def tensors_released_by(step: Step) -> tuple[ActivationTensor, ...]:
    """Return the tensors to which a step drops a reference."""
    if isinstance(step, Operation):
        return step.inputs
    return step.tensors if isinstance(step, DropReferences) else ()


class GradientBuffer:
    """The gradient of an activation, and its number of owners."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


class ForwardBackwardPass:
    """The forward and backward pass of one micro batch."""

    def __init__(
        self, tape: ForwardTape, ledger: MemoryLedger, hooks: EngineHooks, grad_itemsize: int
    ) -> None:
        self.tape, self.ledger, self.hooks = tape, ledger, hooks
        self.grad_itemsize = grad_itemsize
        self.grads: dict[ActivationTensor, GradientBuffer] = {}
        self.tied_grads: dict[ModelParameter, list[int]] = {}
        self.autocast_copies: dict[ModelParameter, int] = {}
        self.last_recomputed: Operation | None = None
        """Operation at which a recomputation stops: the last one that saves a tensor."""

    # ------------------------------------------------------------ forward
    def forward(self) -> None:
        """Run the forward pass from the batch to the loss."""
        self._forward(self.tape.steps, saving=True)
        self._clear_autocast_cache()

    def _clear_autocast_cache(self) -> None:
        """Clear autocast's cache; copies saved in the graph stay allocated."""
        for weight in [weight for weight in self.autocast_copies if weight.requires_grad]:
            self._drop_autocast_copy(weight)

    def _forward(self, steps: Sequence[Step], *, saving: bool) -> None:
        for step in steps:
            if isinstance(step, Operation):
                self._run_operation(step, saving)
            elif isinstance(step, EnterModule):
                self.hooks.enter_module(step.module.number, True)
            elif isinstance(step, LeaveModule):
                self.hooks.leave_module(step.module.number, True)
            elif isinstance(step, DropReferences):
                for tensor in step.tensors:
                    self._release_tensor(tensor)
            else:
                step.source.refcount += 1
                self._forward(step.steps, saving=False)
                if step.is_offloaded:
                    self.ledger.allocate(OFFLOADED_INPUTS, step.source.bytes, host=True)
                    self._release_tensor(step.source)

    def _run_operation(self, operation: Operation, saving: bool) -> None:
        output, casts = operation.output, self.tape.autocast and operation.weights
        if casts:
            self._cast_weights(operation, output, saving)
        # The last recomputed operation only saves its inputs.
        computes = operation is not self.last_recomputed or output in operation.saved
        output.refcount = output.reader_count if computes else 0
        if computes:
            self.ledger.allocate(output.label, output.bytes)
            if operation.temporary:
                self.ledger.allocate_briefly("temporaries", operation.temporary)
            if casts:
                self._cast_briefly(operation)
        if saving and output.requires_grad:
            for tensor in operation.saved:
                tensor.refcount += 1
            if operation.weights:
                self._for_each_view(operation, self.hooks.hold_view)
        for tensor in operation.inputs:
            self._release_tensor(tensor)
        if computes and not output.refcount:
            self.ledger.free(output.label, output.bytes)

    def _release_tensor(self, tensor: ActivationTensor) -> None:
        tensor.refcount -= 1
        if not tensor.refcount:
            self.ledger.free(tensor.label, tensor.bytes)

    def _cast_weights(self, operation: Operation, output: ActivationTensor, saving: bool) -> None:
        """Reference each autocast copy of a weight twice, for the cache and for the graph."""
        for weight in operation.weights if operation.inputs else ():
            if weight.is_autocast and not self._uses_stage3_linear(weight):
                if weight not in self.autocast_copies:
                    self.ledger.allocate(COPIES, 2 * weight.numel)
                    self.autocast_copies[weight] = 1
                if saving and output.requires_grad:
                    self.autocast_copies[weight] += 1
                if not weight.requires_grad:  # torch caches only leaves that require grad
                    self._drop_autocast_copy(weight)

    def _cast_briefly(self, operation: Operation) -> None:
        """Cast the weight of stage 3's linear layer, or its gradient, and free the copy."""
        if operation.inputs:
            numels = [
                weight.numel
                for weight in operation.weights
                if weight.is_autocast and self._uses_stage3_linear(weight)
            ]
            self.ledger.allocate_briefly(COPIES, 2 * sum(numels))

    def _drop_autocast_copy(self, weight: ModelParameter) -> None:
        if weight in self.autocast_copies:
            self.autocast_copies[weight] -= 1
            if not self.autocast_copies[weight]:
                del self.autocast_copies[weight]
                self.ledger.free(COPIES, 2 * weight.numel)

    # ------------------------------------------------------------ backward
    def backward(self) -> None:
        """Run the backward pass from the loss to the gradients of the parameters."""
        last = next(step for step in reversed(self.tape.steps) if isinstance(step, Operation))
        self.grads[last.output] = GradientBuffer(0)
        self._backward(self.tape.steps)
        self.grads.clear()

    def _backward(self, steps: Sequence[Step]) -> None:
        for step in reversed(steps):
            if isinstance(step, Operation):
                self._differentiate(step)
            elif isinstance(step, LeaveModule):
                if step.requires_grad:
                    self.hooks.enter_module(step.module.number, False)
            elif isinstance(step, EnterModule):
                if step.requires_grad and step.module.inputs_require_grad:
                    self.hooks.leave_module(step.module.number, False)
            elif isinstance(step, CheckpointedSegment):
                self._recompute_segment(step)

    def _recompute_segment(self, segment: CheckpointedSegment) -> None:
        """Run the backward of a segment, recomputing its forward when a saved tensor is missing."""
        recomputed, rest = segment.split()
        self._backward(rest)
        if segment.is_offloaded:
            self._restore_offloaded_input(segment.source)
        segment.source.refcount += sum(tensors_released_by(step).count(segment.source) for step in recomputed)
        self.hooks.set_recomputing_module(recomputing_module(rest))
        self.last_recomputed = next(
            (step for step in reversed(recomputed) if isinstance(step, Operation)), None
        )
        self._forward(recomputed, saving=True)
        self._stop_recomputing(recomputed, rest)
        self.last_recomputed = None
        self.hooks.set_recomputing_module(None)
        self._clear_autocast_cache()
        self._backward(recomputed)
        self._release_tensor(segment.source)

    def _restore_offloaded_input(self, source: ActivationTensor) -> None:
        """Copy the input of an offloaded segment back to the device."""
        if not source.refcount:
            self.ledger.allocate(source.label, source.bytes)
        source.refcount += 1
        self.ledger.free(OFFLOADED_INPUTS, source.bytes, host=True)

    def _stop_recomputing(self, recomputed: Sequence[Step], rest: Sequence[Step]) -> None:
        """Free the tensors that only steps after the end of the recomputation would have used."""
        operations = [step for step in recomputed if isinstance(step, Operation)]
        outputs = {
            step.output
            for step in operations
            if step is not self.last_recomputed or step.output in step.saved
        }
        for step in rest:
            for tensor in tensors_released_by(step):
                if tensor in outputs:
                    self._release_tensor(tensor)

    def _differentiate(self, operation: Operation) -> None:
        output, ledger = operation.output, self.ledger
        grad = self.grads.pop(output, None)
        if not output.requires_grad:
            return
        inputs = [tensor for tensor in operation.inputs if tensor.requires_grad]
        if operation.shares_grad and grad is not None:
            for tensor in inputs:
                grad.owners += 1
                self._add_grad(tensor, grad)
            self._release_grad(grad)
        else:
            for tensor in inputs:
                ledger.allocate(FLOWING, tensor.bytes)
            sizes = self._gradients_of(operation) if operation.weights else {}
            if operation.backward_temporary:
                ledger.allocate_briefly("temporaries", operation.backward_temporary)
            if grad is not None:
                self._release_grad(grad)
            self._release_saved(operation)
            for tensor in inputs:
                self._add_grad(tensor, GradientBuffer(tensor.bytes))
            for weight, size in sizes.items():
                self._accumulate_tied_gradient(weight, size)
            return
        self._release_saved(operation)

    def _gradients_of(self, operation: Operation) -> dict[ModelParameter, int]:
        """Allocate the weight gradients of an operation, and return their bytes in order of arrival."""
        weights = self._arrival_order([weight for weight in operation.weights if weight.requires_grad])
        sizes = {
            weight: weight.numel * (4 if weight.stays_fp32 else self.grad_itemsize) for weight in weights
        }
        self.ledger.allocate("gradients", sum(sizes.values()))
        if self.tape.autocast:
            self._cast_briefly(operation)
        return sizes

    def _arrival_order(self, weights: list[ModelParameter]) -> list[ModelParameter]:
        """Return the order in which autograd delivers the gradients of a weight and its bias.

        The bias comes first for `nn.Linear`, which multiplies by a transposed view, and for `Conv1D`, where it is the
        first argument. The weight comes first for autocast copies and for stage 3's own linear layer.
        """
        if len(weights) != 2 or not weights[0].is_autocast or len(weights[0].shape) != 2:
            return weights
        through_view = weights[0].saves_view and not (
            self.tape.autocast or self._uses_stage3_linear(weights[0])
        )
        return weights[::-1] if through_view or not weights[0].is_linear else weights

    def _release_saved(self, operation: Operation) -> None:
        for tensor in operation.saved:
            self._release_tensor(tensor)
        if operation.weights:
            self._for_each_view(operation, self.hooks.release_view)
        for weight in operation.weights if self.autocast_copies else ():
            self._drop_autocast_copy(weight)

    def _for_each_view(self, operation: Operation, hook: Callable[[ModelParameter], None]) -> None:
        """Call `hook` with the weight if the gradient of the input is computed from a view of it."""
        if not any(tensor.requires_grad for tensor in operation.inputs):
            return
        for weight in operation.weights[:1]:
            copied = self.tape.autocast and weight.is_autocast
            if weight.saves_view and not copied and not self._uses_stage3_linear(weight):
                hook(weight)

    def _uses_stage3_linear(self, weight: ModelParameter) -> bool:
        """Return whether a weight belongs to stage 3's own linear layer, which saves the weight itself."""
        return weight.is_linear and self.tape.saves_linear_inputs

    def _release_grad(self, grad: GradientBuffer) -> None:
        grad.owners -= 1
        if not grad.owners:
            self.ledger.free(FLOWING, grad.bytes)

    def _add_grad(self, tensor: ActivationTensor, grad: GradientBuffer) -> None:
        """Add a gradient to a tensor's gradient, in place if either has a single owner."""
        existing = self.grads.get(tensor)
        if existing is None:
            self.grads[tensor] = grad
        elif existing.owners == 1:
            self._release_grad(grad)
        elif grad.owners == 1:
            self.grads[tensor] = grad
            self._release_grad(existing)
        else:
            self.grads[tensor] = GradientBuffer(grad.bytes)
            self.ledger.allocate(FLOWING, grad.bytes)
            self._release_grad(grad)
            self._release_grad(existing)

    def _accumulate_tied_gradient(self, weight: ModelParameter, count: int) -> None:
        """Sum the gradients of a tied weight; the sum needs a new block if the first gradient is a view."""
        if weight.use_count == 1:
            self.hooks.receive_gradient(weight, count)
            return
        parts = self.tied_grads.setdefault(weight, [])
        parts.append(count)
        if len(parts) == weight.use_count:
            adds_in_place = self.tape.autocast or self.tape.saves_linear_inputs
            self.ledger.allocate("gradients", 0 if adds_in_place else count)
            for part in self.tied_grads.pop(weight)[adds_in_place:]:
                self.ledger.free("gradients", part)
            self.hooks.receive_gradient(weight, count)
