"""The forward and the backward pass over a tape: which tensors are there when, and which gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dsconfig.memory.graph import Done, Enter, Leave, Operation, Segment, Step, Tape, Tensor, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.module_order import asking

FLOWING = "gradients of activations"
COPIES = "autocast's copies of weights"


class Hooks(Protocol):
    """What an engine does as modules come and go, and as the gradient of a parameter is there."""

    gathers: bool

    def again(self, number: int | None) -> None:
        """Steps are computed again, for this module, or are no more."""

    def enter(self, number: int, forward: bool) -> None:
        """Before a module computes, forward or backward."""

    def leave(self, number: int, forward: bool) -> None:
        """After it has."""

    def hold(self, weight: Weight) -> None:
        """The graph keeps a view of a weight."""

    def unhold(self, weight: Weight) -> None:
        """It lets go of it."""

    def gradient(self, weight: Weight, count: int) -> None:
        """The gradient of a weight is there, in a block of its own of this many bytes."""


def read(step: Step) -> tuple[Tensor, ...]:
    """What a step lets go of."""
    if isinstance(step, Operation):
        return step.inputs
    return step.tensors if isinstance(step, Done) else ()


class Flow:
    """The gradient of a tensor, and how many wait for it."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


class Pass:
    """One micro batch."""

    def __init__(self, tape: Tape, ledger: Ledger, hooks: Hooks, gradient_width: int) -> None:
        self.tape, self.ledger, self.hooks = tape, ledger, hooks
        self.gradient_width = gradient_width
        self.flows: dict[Tensor, Flow] = {}
        self.partial: dict[Weight, list[int]] = {}
        self.copies: dict[Weight, int] = {}
        self.last: Operation | None = None
        """Where computing a segment again stops: at the last operation that keeps something."""

    # ------------------------------------------------------------ forward
    def forward(self) -> None:
        """From the batch to the loss."""
        self._forward(self.tape.steps, saving=True)
        self._forget()

    def _forget(self) -> None:
        """Autocast forgets its copies; the graph keeps those that it needs."""
        for weight in [found for found in self.copies if found.trains]:
            self._drop_copy(weight)

    def _forward(self, steps: Sequence[Step], *, saving: bool) -> None:
        for step in steps:
            if isinstance(step, Operation):
                self._compute(step, saving)
            elif isinstance(step, Enter):
                self.hooks.enter(step.module.number, True)
            elif isinstance(step, Leave):
                self.hooks.leave(step.module.number, True)
            elif isinstance(step, Done):
                for tensor in step.tensors:
                    self._drop(tensor)
            else:
                step.source.references += 1
                self._forward(step.steps, saving=False)

    def _compute(self, operation: Operation, saving: bool) -> None:
        made, casts = operation.output, self.tape.autocast and operation.weights
        if casts:
            self._cast_weights(operation, made, saving)
        computes = operation is not self.last or made in operation.saved  # else it keeps what it reads
        made.references = made.readers if computes else 0
        if computes:
            self.ledger.take(made.label, made.bytes)
            if operation.temporary:
                self.ledger.touch("temporaries", operation.temporary)
            if casts:
                self._cast_for_a_moment(operation)
        if saving and made.needs:
            for tensor in operation.saved:
                tensor.references += 1
            if operation.weights:
                self._view(operation, self.hooks.hold)
        for tensor in operation.inputs:
            self._drop(tensor)
        if computes and not made.references:
            self.ledger.give(made.label, made.bytes)

    def _drop(self, tensor: Tensor) -> None:
        tensor.references -= 1
        if not tensor.references:
            self.ledger.give(tensor.label, tensor.bytes)

    def _cast_weights(self, operation: Operation, made: Tensor, saving: bool) -> None:
        """Autocast's copy of each weight: one reference for its cache, one for the graph."""
        for weight in operation.weights if operation.inputs else ():
            if weight.casts and not self._is_own(weight):
                if weight not in self.copies:
                    self.ledger.take(COPIES, 2 * weight.elements)
                    self.copies[weight] = 1
                if saving and made.needs:
                    self.copies[weight] += 1
                if not weight.trains:  # the cache holds leaves that train
                    self._drop_copy(weight)

    def _cast_for_a_moment(self, operation: Operation) -> None:
        """Stage 3's own linear casts its weight, or on the way back the gradient of it, and keeps no copy."""
        if operation.inputs:
            own = [weight.elements for weight in operation.weights if weight.casts and self._is_own(weight)]
            self.ledger.touch(COPIES, 2 * sum(own))

    def _drop_copy(self, weight: Weight) -> None:
        if weight in self.copies:
            self.copies[weight] -= 1
            if not self.copies[weight]:
                del self.copies[weight]
                self.ledger.give(COPIES, 2 * weight.elements)

    # ------------------------------------------------------------ backward
    def backward(self) -> None:
        """From the loss to the gradients of the parameters."""
        last = next(step for step in reversed(self.tape.steps) if isinstance(step, Operation))
        self.flows[last.output] = Flow(0)
        self._backward(self.tape.steps)
        self.flows.clear()

    def _backward(self, steps: Sequence[Step]) -> None:
        for step in reversed(steps):
            if isinstance(step, Operation):
                self._differentiate(step)
            elif isinstance(step, Leave):
                if step.needs:
                    self.hooks.enter(step.module.number, False)
            elif isinstance(step, Enter):
                if step.needs and step.module.returns:
                    self.hooks.leave(step.module.number, False)
            elif isinstance(step, Segment):
                self._again(step)

    def _again(self, segment: Segment) -> None:
        """Go back through a segment, and compute it once more where something is missing."""
        early, late = segment.parts()
        self._backward(late)
        segment.source.references += sum(read(step).count(segment.source) for step in early)
        self.hooks.again(asking(late))
        self.last = next((step for step in reversed(early) if isinstance(step, Operation)), None)
        self._forward(early, saving=True)
        self._leave_off(early, late)
        self.last = None
        self.hooks.again(None)
        self._forget()
        self._backward(early)
        self._drop(segment.source)

    def _leave_off(self, early: Sequence[Step], late: Sequence[Step]) -> None:
        """Nobody reads on: let go of what is kept for that alone."""
        operations = [step for step in early if isinstance(step, Operation)]
        made = {step.output for step in operations if step is not self.last or step.output in step.saved}
        for step in late:
            for tensor in read(step):
                if tensor in made:
                    self._drop(tensor)

    def _differentiate(self, operation: Operation) -> None:
        made, ledger = operation.output, self.ledger
        flow = self.flows.pop(made, None)
        if not made.needs:
            return
        arriving = [tensor for tensor in operation.inputs if tensor.needs]
        if operation.shares and flow is not None:
            for tensor in arriving:
                flow.owners += 1
                self._arrive(tensor, flow)
            self._spend(flow)
        else:
            for tensor in arriving:
                ledger.take(FLOWING, tensor.bytes)
            sizes = self._gradients_of(operation) if operation.weights else {}
            if operation.back:
                ledger.touch("temporaries", operation.back)
            if flow is not None:
                self._spend(flow)
            self._release(operation)
            for tensor in arriving:
                self._arrive(tensor, Flow(tensor.bytes))
            for weight, size in sizes.items():
                self._accumulate(weight, size)
            return
        self._release(operation)

    def _gradients_of(self, operation: Operation) -> dict[Weight, int]:
        """Gradients of weights, in bytes, in the order in which they come."""
        weights = self._in_order([weight for weight in operation.weights if weight.trains])
        sizes = {weight: weight.elements * (4 if weight.full else self.gradient_width) for weight in weights}
        self.ledger.take("gradients", sum(sizes.values()))
        if self.tape.autocast:
            self._cast_for_a_moment(operation)
        return sizes

    def _in_order(self, weights: list[Weight]) -> list[Weight]:
        """Gradients as they come: a bias's first, where a product reads its weight through a view.

        So does `nn.Linear`; of copies, of stage 3's own linear, and of `Conv1D` both go alike, the bias of
        the last as the first of its arguments.
        """
        if len(weights) != 2 or not weights[0].casts or len(weights[0].shape) != 2:
            return weights
        through = weights[0].viewed and not (self.tape.autocast or self._is_own(weights[0]))
        return weights[::-1] if through or not weights[0].linear else weights

    def _release(self, operation: Operation) -> None:
        for tensor in operation.saved:
            self._drop(tensor)
        if operation.weights:
            self._view(operation, self.hooks.unhold)
        for weight in operation.weights if self.copies else ():
            self._drop_copy(weight)

    def _view(self, operation: Operation, hook: Callable[[Weight], None]) -> None:
        """The gradient of an input is computed from a view of the weight, or from autocast's copy of it."""
        if not any(tensor.needs for tensor in operation.inputs):
            return
        for weight in operation.weights[:1]:
            copied = self.tape.autocast and weight.casts
            if weight.viewed and not copied and not self._is_own(weight):
                hook(weight)

    def _is_own(self, weight: Weight) -> bool:
        """Whether its product is stage 3's own, which keeps the weight itself."""
        return weight.linear and self.tape.keeps_inputs

    def _spend(self, flow: Flow) -> None:
        flow.owners -= 1
        if not flow.owners:
            self.ledger.give(FLOWING, flow.bytes)

    def _arrive(self, tensor: Tensor, flow: Flow) -> None:
        """Add a gradient to what has arrived: in place where one of the two belongs to nobody else."""
        there = self.flows.get(tensor)
        if there is None:
            self.flows[tensor] = flow
        elif there.owners == 1:
            self._spend(flow)
        elif flow.owners == 1:
            self.flows[tensor] = flow
            self._spend(there)
        else:
            self.flows[tensor] = Flow(flow.bytes)
            self.ledger.take(FLOWING, flow.bytes)
            self._spend(flow)
            self._spend(there)

    def _accumulate(self, weight: Weight, count: int) -> None:
        """A tied weight waits for all its gradients; their sum is a block more where the first is a view."""
        if weight.uses == 1:
            self.hooks.gradient(weight, count)
            return
        parts = self.partial.setdefault(weight, [])
        parts.append(count)
        if len(parts) == weight.uses:
            alone = self.tape.autocast or self.tape.keeps_inputs
            self.ledger.take("gradients", 0 if alone else count)
            for part in self.partial.pop(weight)[alone:]:
                self.ledger.give("gradients", part)
            self.hooks.gradient(weight, count)
