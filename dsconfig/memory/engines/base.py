"""Base class of all engines: forward and backward pass of each micro batch, and the phases of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import (
    DropReferences,
    EnterModule,
    LeaveModule,
    Operation,
    Segment,
    Step,
    Tape,
    Tensor,
    Weight,
    recomputing_module,
)
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
        self.trainable = [weight for weight in tape.weights if weight.requires_grad]
        self.trainable_numel = sum(weight.numel for weight in self.trainable)
        self.total_numel = sum(weight.numel for weight in tape.weights)
        self.is_boundary = True
        self.micro_step, self.repeats = 0, 1
        self.calls: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        """Of each phase, collective, width and size of the group: calls, and elements of whole tensors."""

    def load(self) -> None:
        """Hold what building the model and the engine takes, one thing after the other."""
        raise NotImplementedError

    def build(self) -> None:
        """The script's model: on the host, cast parameter by parameter, then moved to the device."""
        built, itemsize, ledger = self.setup.build_itemsize, self.setup.itemsize, self.ledger
        if self.tape.tp_size > 1:
            self._build_tensor_parallel()
            return
        ledger.allocate(BUILT, built * self.model_numel, host=True)
        ledger.allocate_briefly(BUILT, built * self.tape.untied_numel, host=True)
        self._shard_experts()
        if self.setup.optimizer.is_client:  # its optimizer is made before the engine
            ledger.allocate(STATES, self.construction_state_bytes)
        for weight in self.tape.weights if built != itemsize else ():
            ledger.allocate(BUILT, itemsize * weight.numel, host=True)
            ledger.free(BUILT, built * weight.numel, host=True)
        ledger.free(BUILT, itemsize * self.total_numel, host=True)
        ledger.allocate(WEIGHTS, itemsize * self.total_numel)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, self.construction_state_bytes)

    def _shard_experts(self) -> None:
        """This rank's experts are put together layer by layer; all others stay up to the last (AutoEP)."""
        built, ledger = self.setup.build_itemsize, self.ledger
        own = [weight.numel for weight in self.tape.weights if weight.is_expert]
        if own:
            largest = sum(own) // sum(
                module.weights[0].is_expert for module in self.tape.modules if module.weights
            )
            routers = sum(weight.numel for weight in self.tape.weights if weight.name.endswith("router.gate"))
            ledger.allocate(BUILT, built * (sum(own) + routers), host=True)
            ledger.allocate_briefly(BUILT, built * largest, host=True)
            ledger.free(BUILT, built * (sum(own) * self.tape.ep_size + routers), host=True)

    def _build_tensor_parallel(self) -> None:
        """Linear layers are cut into parts, which go to the device as they were built, and are cast there."""
        built, itemsize, ledger, weights = (
            self.setup.build_itemsize,
            self.setup.itemsize,
            self.ledger,
            self.tape.weights,
        )
        ledger.allocate(BUILT, built * self.model_numel, host=True)
        if self.setup.optimizer.is_client:
            ledger.allocate(STATES, self.construction_state_bytes)
        for weight in weights:
            if weight.tp_size > 1:
                ledger.allocate(WEIGHTS, built * weight.numel)
                ledger.free(BUILT, built * weight.numel * weight.tp_size, host=True)
        for weight in weights if built != itemsize else ():  # each as it is, then in the model's type
            name, host = (WEIGHTS, False) if weight.tp_size > 1 else (BUILT, True)
            ledger.allocate(name, itemsize * weight.numel, host=host)
            ledger.free(name, built * weight.numel, host=host)
        others = sum(weight.numel for weight in weights if weight.tp_size == 1)
        ledger.free(BUILT, itemsize * others, host=True)
        ledger.allocate(WEIGHTS, itemsize * others)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, self.construction_state_bytes)

    @property
    def construction_state_bytes(self) -> int:
        """Bytes of states that an optimizer makes at construction; the script's, of whole layers still."""
        late = self.setup.optimizer.is_client and self.setup.quirks.shards_layers_in_initialize
        return self.setup.early_state_itemsize * sum(
            weight.numel * (weight.tp_size if late else 1) for weight in self.trainable
        )

    @property
    def model_numel(self) -> int:
        """Parameters of the model; a rank has a part of linear layers, or of experts, that are shared."""
        return sum(
            weight.numel * (self.tape.ep_size if weight.is_expert else weight.tp_size)
            for weight in self.tape.weights
        )

    def ranks_of(self, weight: Weight) -> int:
        """Ranks that share a parameter's gradients and states, and its parts at stage 3."""
        setup = self.setup
        if setup.tp_size > 1 and setup.stage == 3 and setup.zero_init and not weight.created_after_init:
            return setup.dp_world_size * setup.tp_size  # `zero.Init` knows nothing of layers that are shared
        return setup.dp_world_size // (self.tape.ep_size if weight.is_expert else 1)

    def largest_block_in(self, phase: str) -> int:
        """Bytes of the largest gradient; of the largest parameter, where all are put together."""
        weights = self.tape.weights if phase == SAVE else self.trainable
        return self.setup.itemsize * max((weight.numel for weight in weights), default=0)

    def allocate_at_rest(self) -> None:
        """Hold what is held at rest."""
        raise NotImplementedError

    def allocate_steady_state(self) -> None:
        """Hold what is held at rest, and what pinned memory takes beyond that on a host of its own."""
        self.ledger.allocate(PINNED, self.pinned_padding() if self.setup.has_separate_host else 0, host=True)
        self.allocate_at_rest()

    def pinned_padding(self) -> int:
        """Bytes on the host that pinned tensors take beyond what they hold; see `pinned`."""
        return 0

    def run(self) -> None:
        """A step: all its micro batches, the backward pass at the boundary last."""
        steps = self.setup.gradient_accumulation_steps
        for number in range(min(steps, MIDDLE + 2)):  # those between the second and the last are alike
            self.micro_step, self.repeats = (
                number,
                steps - MIDDLE - 1 if number == MIDDLE and steps > 2 else 1,
            )
            self.is_boundary = number == min(steps, MIDDLE + 2) - 1
            self.ledger.allocate("inputs", self.tape.input_bytes)
            self.ledger.enter("forward")
            passing = Pass(self.tape, self.ledger, self, self.setup.itemsize)
            self.before_forward()
            self._count_model_collectives("forward")
            passing.forward()
            self.ledger.enter("backward")
            self.before_backward()
            self._count_model_collectives("backward")
            passing.backward()
            self.after_backward()
            self.ledger.enter("step")
            if self.is_boundary:
                left = (
                    2 * self.tape.input_grad_bytes
                )  # the output that gradients began at, and its own (measured)
                self.ledger.allocate("activations", left)
                self.step()
                self.ledger.free("activations", left)
            self.ledger.free("inputs", self.tape.input_bytes)
        self.consolidate()
        self.ledger.enter("at rest")

    def _count_model_collectives(self, phase: str) -> None:
        for found in self.tape.collectives:
            if found.phase == phase and found.calls:
                self.count_collective(found.name, found.numel, found.itemsize, found.ranks, found.calls)

    def consolidate(self) -> None:
        """Put the whole model together, where weights are partitioned and that is wanted."""

    def before_forward(self) -> None:
        """As a forward pass begins."""

    def before_backward(self) -> None:
        """As a backward pass begins."""

    def after_backward(self) -> None:
        """As a backward pass ends."""

    def step(self) -> None:
        """Update the weights."""
        raise NotImplementedError

    def enter_module(self, number: int, forward: bool) -> None:
        """Before a module computes."""

    def leave_module(self, number: int, forward: bool) -> None:
        """After it has."""

    def set_recomputing_module(self, number: int | None) -> None:
        """What is computed from here on is computed again, for this module, or is not."""

    def hold_view(self, weight: Weight) -> None:
        """The graph keeps a view of a weight."""

    def release_view(self, weight: Weight) -> None:
        """It lets go of it."""

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """A gradient is there."""
        raise NotImplementedError

    def count_collective(self, name: str, numel: int, itemsize: int, ranks: int = 0, alike: int = 1) -> None:
        """Count a collective, of all ranks or of so many, or several that are alike."""
        key = (self.ledger.rank.phase, name, itemsize, ranks or self.setup.dp_world_size)
        calls, total = self.calls.get(key, (0, 0))
        times = self.repeats * alike
        self.calls[key] = (calls + times, total + numel * times)

    def update(self, numel: int, largest: int, *, host: bool = False) -> None:
        """The optimizer's own temporaries, for so many elements at once."""
        rule = self.setup.optimizer
        scale = self.setup.master_itemsize / 4
        self.ledger.allocate_briefly(
            TEMPORARY,
            int((rule.temporary_bytes * numel + rule.largest_tensor_bytes * largest) * scale),
            host=host,
        )


# The forward and the backward pass over a tape: which tensors are there when, and which gradients.

FLOWING = "gradients of activations"
COPIES = "autocast's copies of weights"


class Hooks(Protocol):
    """What an engine does as modules come and go, and as the gradient of a parameter is there."""

    gathers: bool

    def set_recomputing_module(self, number: int | None) -> None:
        """Steps are computed again, for this module, or are no more."""

    def enter_module(self, number: int, forward: bool) -> None:
        """Before a module computes, forward or backward."""

    def leave_module(self, number: int, forward: bool) -> None:
        """After it has."""

    def hold_view(self, weight: Weight) -> None:
        """The graph keeps a view of a weight."""

    def release_view(self, weight: Weight) -> None:
        """It lets go of it."""

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """The gradient of a weight is there, in a block of its own of this many bytes."""


def tensors_released_by(step: Step) -> tuple[Tensor, ...]:
    """What a step lets go of."""
    if isinstance(step, Operation):
        return step.inputs
    return step.tensors if isinstance(step, DropReferences) else ()


class GradientBuffer:
    """The gradient of a tensor, and how many wait for it."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


class Pass:
    """One micro batch."""

    def __init__(self, tape: Tape, ledger: Ledger, hooks: Hooks, grad_itemsize: int) -> None:
        self.tape, self.ledger, self.hooks = tape, ledger, hooks
        self.grad_itemsize = grad_itemsize
        self.grads: dict[Tensor, GradientBuffer] = {}
        self.tied_grads: dict[Weight, list[int]] = {}
        self.autocast_copies: dict[Weight, int] = {}
        self.last_recomputed: Operation | None = None
        """Where computing a segment again stops: at the last operation that keeps something."""

    # ------------------------------------------------------------ forward
    def forward(self) -> None:
        """From the batch to the loss."""
        self._forward(self.tape.steps, saving=True)
        self._clear_autocast_cache()

    def _clear_autocast_cache(self) -> None:
        """Autocast forgets its copies; the graph keeps those that it needs."""
        for weight in [found for found in self.autocast_copies if found.requires_grad]:
            self._drop_copy(weight)

    def _forward(self, steps: Sequence[Step], *, saving: bool) -> None:
        for step in steps:
            if isinstance(step, Operation):
                self._compute(step, saving)
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

    def _compute(self, operation: Operation, saving: bool) -> None:
        made, casts = operation.output, self.tape.autocast and operation.weights
        if casts:
            self._cast_weights(operation, made, saving)
        computes = (
            operation is not self.last_recomputed or made in operation.saved
        )  # else it keeps what it reads
        made.refcount = made.reader_count if computes else 0
        if computes:
            self.ledger.allocate(made.label, made.bytes)
            if operation.temporary:
                self.ledger.allocate_briefly("temporaries", operation.temporary)
            if casts:
                self._cast_briefly(operation)
        if saving and made.requires_grad:
            for tensor in operation.saved:
                tensor.refcount += 1
            if operation.weights:
                self._for_each_view(operation, self.hooks.hold_view)
        for tensor in operation.inputs:
            self._release_tensor(tensor)
        if computes and not made.refcount:
            self.ledger.free(made.label, made.bytes)

    def _release_tensor(self, tensor: Tensor) -> None:
        tensor.refcount -= 1
        if not tensor.refcount:
            self.ledger.free(tensor.label, tensor.bytes)

    def _cast_weights(self, operation: Operation, made: Tensor, saving: bool) -> None:
        """Autocast's copy of each weight: one reference for its cache, one for the graph."""
        for weight in operation.weights if operation.inputs else ():
            if weight.is_autocast and not self._uses_stage3_linear(weight):
                if weight not in self.autocast_copies:
                    self.ledger.allocate(COPIES, 2 * weight.numel)
                    self.autocast_copies[weight] = 1
                if saving and made.requires_grad:
                    self.autocast_copies[weight] += 1
                if not weight.requires_grad:  # the cache holds leaves that train
                    self._drop_copy(weight)

    def _cast_briefly(self, operation: Operation) -> None:
        """Stage 3's own linear casts its weight, or on the way back the gradient of it, and keeps no copy."""
        if operation.inputs:
            own = [
                weight.numel
                for weight in operation.weights
                if weight.is_autocast and self._uses_stage3_linear(weight)
            ]
            self.ledger.allocate_briefly(COPIES, 2 * sum(own))

    def _drop_copy(self, weight: Weight) -> None:
        if weight in self.autocast_copies:
            self.autocast_copies[weight] -= 1
            if not self.autocast_copies[weight]:
                del self.autocast_copies[weight]
                self.ledger.free(COPIES, 2 * weight.numel)

    # ------------------------------------------------------------ backward
    def backward(self) -> None:
        """From the loss to the gradients of the parameters."""
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
            elif isinstance(step, Segment):
                self._recompute_segment(step)

    def _recompute_segment(self, segment: Segment) -> None:
        """Go back through a segment, and compute it once more where something is missing."""
        early, late = segment.split()
        self._backward(late)
        segment.source.refcount += sum(tensors_released_by(step).count(segment.source) for step in early)
        self.hooks.set_recomputing_module(recomputing_module(late))
        self.last_recomputed = next((step for step in reversed(early) if isinstance(step, Operation)), None)
        self._forward(early, saving=True)
        self._stop_recomputing(early, late)
        self.last_recomputed = None
        self.hooks.set_recomputing_module(None)
        self._clear_autocast_cache()
        self._backward(early)
        self._release_tensor(segment.source)

    def _stop_recomputing(self, early: Sequence[Step], late: Sequence[Step]) -> None:
        """Nobody reads on: let go of what is kept for that alone."""
        operations = [step for step in early if isinstance(step, Operation)]
        made = {
            step.output
            for step in operations
            if step is not self.last_recomputed or step.output in step.saved
        }
        for step in late:
            for tensor in tensors_released_by(step):
                if tensor in made:
                    self._release_tensor(tensor)

    def _differentiate(self, operation: Operation) -> None:
        made, ledger = operation.output, self.ledger
        grad = self.grads.pop(made, None)
        if not made.requires_grad:
            return
        arriving = [tensor for tensor in operation.inputs if tensor.requires_grad]
        if operation.passes_grad_through and grad is not None:
            for tensor in arriving:
                grad.owners += 1
                self._add_grad(tensor, grad)
            self._release_grad(grad)
        else:
            for tensor in arriving:
                ledger.allocate(FLOWING, tensor.bytes)
            sizes = self._gradients_of(operation) if operation.weights else {}
            if operation.backward_temporary:
                ledger.allocate_briefly("temporaries", operation.backward_temporary)
            if grad is not None:
                self._release_grad(grad)
            self._release_saved(operation)
            for tensor in arriving:
                self._add_grad(tensor, GradientBuffer(tensor.bytes))
            for weight, size in sizes.items():
                self._accumulate(weight, size)
            return
        self._release_saved(operation)

    def _gradients_of(self, operation: Operation) -> dict[Weight, int]:
        """Gradients of weights, in bytes, in the order in which they come."""
        weights = self._arrival_order([weight for weight in operation.weights if weight.requires_grad])
        sizes = {
            weight: weight.numel * (4 if weight.stays_fp32 else self.grad_itemsize) for weight in weights
        }
        self.ledger.allocate("gradients", sum(sizes.values()))
        if self.tape.autocast:
            self._cast_briefly(operation)
        return sizes

    def _arrival_order(self, weights: list[Weight]) -> list[Weight]:
        """Gradients as they come: a bias's first, where a product reads its weight through a view.

        So does `nn.Linear`; of copies, of stage 3's own linear, and of `Conv1D` both go alike, the bias of
        the last as the first of its arguments.
        """
        if len(weights) != 2 or not weights[0].is_autocast or len(weights[0].shape) != 2:
            return weights
        through = weights[0].saves_view and not (self.tape.autocast or self._uses_stage3_linear(weights[0]))
        return weights[::-1] if through or not weights[0].is_linear else weights

    def _release_saved(self, operation: Operation) -> None:
        for tensor in operation.saved:
            self._release_tensor(tensor)
        if operation.weights:
            self._for_each_view(operation, self.hooks.release_view)
        for weight in operation.weights if self.autocast_copies else ():
            self._drop_copy(weight)

    def _for_each_view(self, operation: Operation, hook: Callable[[Weight], None]) -> None:
        """The gradient of an input is computed from a view of the weight, or from autocast's copy of it."""
        if not any(tensor.requires_grad for tensor in operation.inputs):
            return
        for weight in operation.weights[:1]:
            copied = self.tape.autocast and weight.is_autocast
            if weight.saves_view and not copied and not self._uses_stage3_linear(weight):
                hook(weight)

    def _uses_stage3_linear(self, weight: Weight) -> bool:
        """Whether its product is stage 3's own, which keeps the weight itself."""
        return weight.is_linear and self.tape.saves_linear_inputs

    def _release_grad(self, grad: GradientBuffer) -> None:
        grad.owners -= 1
        if not grad.owners:
            self.ledger.free(FLOWING, grad.bytes)

    def _add_grad(self, tensor: Tensor, grad: GradientBuffer) -> None:
        """Add a gradient to what has arrived: in place where one of the two belongs to nobody else."""
        forward_visits = self.grads.get(tensor)
        if forward_visits is None:
            self.grads[tensor] = grad
        elif forward_visits.owners == 1:
            self._release_grad(grad)
        elif grad.owners == 1:
            self.grads[tensor] = grad
            self._release_grad(forward_visits)
        else:
            self.grads[tensor] = GradientBuffer(grad.bytes)
            self.ledger.allocate(FLOWING, grad.bytes)
            self._release_grad(grad)
            self._release_grad(forward_visits)

    def _accumulate(self, weight: Weight, count: int) -> None:
        """A tied weight waits for all its gradients; their sum is a block more where the first is a view."""
        if weight.use_count == 1:
            self.hooks.receive_gradient(weight, count)
            return
        parts = self.tied_grads.setdefault(weight, [])
        parts.append(count)
        if len(parts) == weight.use_count:
            alone = self.tape.autocast or self.tape.saves_linear_inputs
            self.ledger.allocate("gradients", 0 if alone else count)
            for part in self.tied_grads.pop(weight)[alone:]:
                self.ledger.free("gradients", part)
            self.hooks.receive_gradient(weight, count)


# What torch rounds where memory of the host is pinned.
#
# `Tensor.pin_memory` takes blocks of powers of two from an allocator that keeps them
# (ATen/core/CachingHostAllocator.h, `PowerOf2Ceil`); the tensor itself is as long as it was.

PINNED = "rounding of pinned memory"


def pinned_padding(blocks: Iterable[int]) -> int:
    """Bytes that these blocks have beyond what they hold."""
    return sum((1 << (count - 1).bit_length()) - count for count in blocks if count > 1)
