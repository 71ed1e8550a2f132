"""Base class of all engines: forward and backward pass of each micro batch, and the phases of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Done, Enter, Leave, Operation, Segment, Step, Tape, Tensor, Weight, asking
from dsconfig.memory.memory_ledger import Ledger

# What all engines share: the model's pass, micro batch by micro batch, and the phases of a step.

WEIGHTS, MASTER, STATES = "parameters", "master weights", "optimizer states"
GRADIENTS, BUCKET, TEMPORARY = "gradients", "reduce bucket", "temporaries of the step"
MIDDLE = 1
"""The micro batch that stands for all between the first and the last."""
SAVE, CONSOLIDATED = "save", "consolidated weights"
"""The phase in which stage 3 puts the whole model together, and what it puts on the host."""
FLATTENED, BUILT = "flattened bucket", "model as it is built"


class Engine:
    """An engine as it stands after `initialize` and a first step."""

    gathers = False

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        self.setup, self.tape, self.ledger = setup, tape, ledger
        self.trained = [weight for weight in tape.weights if weight.trains]
        self.elements = sum(weight.elements for weight in self.trained)
        self.everything = sum(weight.elements for weight in tape.weights)
        self.boundary = True
        self.micro, self.times = 0, 1
        self.calls: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        """Of each phase, collective, width and size of the group: calls, and elements of whole tensors."""

    def load(self) -> None:
        """Hold what building the model and the engine takes, one thing after the other."""
        raise NotImplementedError

    def build(self) -> None:
        """The script's model: on the host, cast parameter by parameter, then moved to the device."""
        built, width, ledger = self.setup.built, self.setup.width, self.ledger
        if self.tape.parts > 1:
            self._build_parts()
            return
        ledger.take(BUILT, built * self.whole, host=True)
        ledger.touch(BUILT, built * self.tape.untied, host=True)
        self._share_experts()
        if self.setup.optimizer.client:  # its optimizer is made before the engine
            ledger.take(STATES, self.begun)
        for weight in self.tape.weights if built != width else ():
            ledger.take(BUILT, width * weight.elements, host=True)
            ledger.give(BUILT, built * weight.elements, host=True)
        ledger.give(BUILT, width * self.everything, host=True)
        ledger.take(WEIGHTS, width * self.everything)
        if not self.setup.optimizer.client:
            ledger.take(STATES, self.begun)

    def _share_experts(self) -> None:
        """This rank's experts are put together layer by layer; all others stay up to the last (AutoEP)."""
        built, ledger = self.setup.built, self.ledger
        own = [weight.elements for weight in self.tape.weights if weight.expert]
        if own:
            largest = sum(own) // sum(
                module.weights[0].expert for module in self.tape.modules if module.weights
            )
            routers = sum(
                weight.elements for weight in self.tape.weights if weight.name.endswith("router.gate")
            )
            ledger.take(BUILT, built * (sum(own) + routers), host=True)
            ledger.touch(BUILT, built * largest, host=True)
            ledger.give(BUILT, built * (sum(own) * self.tape.experts + routers), host=True)

    def _build_parts(self) -> None:
        """Linear layers are cut into parts, which go to the device as they were built, and are cast there."""
        built, width, ledger, weights = self.setup.built, self.setup.width, self.ledger, self.tape.weights
        ledger.take(BUILT, built * self.whole, host=True)
        if self.setup.optimizer.client:
            ledger.take(STATES, self.begun)
        for weight in weights:
            if weight.parts > 1:
                ledger.take(WEIGHTS, built * weight.elements)
                ledger.give(BUILT, built * weight.elements * weight.parts, host=True)
        for weight in weights if built != width else ():  # each as it is, then in the model's type
            name, host = (WEIGHTS, False) if weight.parts > 1 else (BUILT, True)
            ledger.take(name, width * weight.elements, host=host)
            ledger.give(name, built * weight.elements, host=host)
        others = sum(weight.elements for weight in weights if weight.parts == 1)
        ledger.give(BUILT, width * others, host=True)
        ledger.take(WEIGHTS, width * others)
        if not self.setup.optimizer.client:
            ledger.take(STATES, self.begun)

    @property
    def begun(self) -> int:
        """Bytes of states that an optimizer makes at construction; the script's, of whole layers still."""
        late = self.setup.optimizer.client and self.setup.ways.shares_built
        return self.setup.early * sum(
            weight.elements * (weight.parts if late else 1) for weight in self.trained
        )

    @property
    def whole(self) -> int:
        """Parameters of the model; a rank has a part of linear layers, or of experts, that are shared."""
        return sum(
            weight.elements * (self.tape.experts if weight.expert else weight.parts)
            for weight in self.tape.weights
        )

    def ranks_of(self, weight: Weight) -> int:
        """Ranks that share a parameter's gradients and states, and its parts at stage 3."""
        setup = self.setup
        if setup.tensor > 1 and setup.stage == 3 and setup.zero_init and not weight.late:
            return setup.world * setup.tensor  # `zero.Init` knows nothing of layers that are shared
        return setup.world // (self.tape.experts if weight.expert else 1)

    def largest_in(self, phase: str) -> int:
        """Bytes of the largest gradient; of the largest parameter, where all are put together."""
        weights = self.tape.weights if phase == SAVE else self.trained
        return self.setup.width * max((weight.elements for weight in weights), default=0)

    def rest(self) -> None:
        """Hold what is held at rest."""
        raise NotImplementedError

    def settle(self) -> None:
        """Hold what is held at rest, and what pinned memory takes beyond that on a host of its own."""
        self.ledger.take(PINNED, self.rounding() if self.setup.apart else 0, host=True)
        self.rest()

    def rounding(self) -> int:
        """Bytes on the host that pinned tensors take beyond what they hold; see `pinned`."""
        return 0

    def run(self) -> None:
        """A step: all its micro batches, the backward pass at the boundary last."""
        steps = self.setup.accumulation
        for number in range(min(steps, MIDDLE + 2)):  # those between the second and the last are alike
            self.micro, self.times = number, steps - MIDDLE - 1 if number == MIDDLE and steps > 2 else 1
            self.boundary = number == min(steps, MIDDLE + 2) - 1
            self.ledger.take("inputs", self.tape.extra)
            self.ledger.enter("forward")
            passing = Pass(self.tape, self.ledger, self, self.setup.width)
            self.before()
            self._exchange("forward")
            passing.forward()
            self.ledger.enter("backward")
            self.begin()
            self._exchange("backward")
            passing.backward()
            self.after()
            self.ledger.enter("step")
            if self.boundary:
                left = 2 * self.tape.started  # the output that gradients began at, and its own (measured)
                self.ledger.take("activations", left)
                self.step()
                self.ledger.give("activations", left)
            self.ledger.give("inputs", self.tape.extra)
        self.save()
        self.ledger.enter("at rest")

    def _exchange(self, phase: str) -> None:
        for found in self.tape.exchanged:
            if found.phase == phase and found.calls:
                self.send(found.name, found.elements, found.width, found.ranks, found.calls)

    def save(self) -> None:
        """Put the whole model together, where weights are partitioned and that is wanted."""

    def before(self) -> None:
        """As a forward pass begins."""

    def begin(self) -> None:
        """As a backward pass begins."""

    def after(self) -> None:
        """As a backward pass ends."""

    def step(self) -> None:
        """Update the weights."""
        raise NotImplementedError

    def enter(self, number: int, forward: bool) -> None:
        """Before a module computes."""

    def leave(self, number: int, forward: bool) -> None:
        """After it has."""

    def again(self, number: int | None) -> None:
        """What is computed from here on is computed again, for this module, or is not."""

    def hold(self, weight: Weight) -> None:
        """The graph keeps a view of a weight."""

    def unhold(self, weight: Weight) -> None:
        """It lets go of it."""

    def gradient(self, weight: Weight, count: int) -> None:
        """A gradient is there."""
        raise NotImplementedError

    def send(self, name: str, elements: int, width: int, ranks: int = 0, alike: int = 1) -> None:
        """Count a collective, of all ranks or of so many, or several that are alike."""
        key = (self.ledger.rank.phase, name, width, ranks or self.setup.world)
        calls, total = self.calls.get(key, (0, 0))
        times = self.times * alike
        self.calls[key] = (calls + times, total + elements * times)

    def update(self, elements: int, largest: int, *, host: bool = False) -> None:
        """The optimizer's own temporaries, for so many elements at once."""
        rule = self.setup.optimizer
        scale = self.setup.master / 4
        self.ledger.touch(
            TEMPORARY, int((rule.temporary * elements + rule.single * largest) * scale), host=host
        )


# The forward and the backward pass over a tape: which tensors are there when, and which gradients.

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


# What torch rounds where memory of the host is pinned.
#
# `Tensor.pin_memory` takes blocks of powers of two from an allocator that keeps them
# (ATen/core/CachingHostAllocator.h, `PowerOf2Ceil`); the tensor itself is as long as it was.

PINNED = "rounding of pinned memory"


def rounding(blocks: Iterable[int]) -> int:
    """Bytes that these blocks have beyond what they hold."""
    return sum((1 << (count - 1).bit_length()) - count for count in blocks if count > 1)
