"""Base class of all engines: forward and backward passes of each micro batch, and the phases of a step."""

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

# Base engine: passes of each micro batch, and the phases of a step.

WEIGHTS, MASTER, STATES = "parameters", "master weights", "optimizer states"
GRADIENTS, BUCKET, TEMPORARY = "gradients", "reduce bucket", "optimizer step temporaries"
MIDDLE = 1
"""Index of the micro batch that stands for all between the first and the last."""
SAVE, CONSOLIDATED = "save", "consolidated weights"
"""Phase in which stage 3 gathers the whole model, and the term for the gathered copy on the host."""
FLATTENED, BUILT = "flattened bucket copy", "initial model copy"


class Engine:
    """A DeepSpeed engine after `initialize` and a first step."""

    gathers = False

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        self.setup, self.tape, self.ledger = setup, tape, ledger
        self.trainable = [weight for weight in tape.weights if weight.requires_grad]
        self.trainable_numel = sum(weight.numel for weight in self.trainable)
        self.total_numel = sum(weight.numel for weight in tape.weights)
        self.is_boundary = True
        self.micro_step, self.repeats = 0, 1
        self.calls: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        """Number of calls and total numel, by phase, collective, itemsize and group size."""

    def load(self) -> None:
        """Allocate what building the model and the engine takes, in order."""
        raise NotImplementedError

    def build(self) -> None:
        """Build the model on the host, cast it parameter by parameter, and move it to the device."""
        built, itemsize, ledger = self.setup.build_itemsize, self.setup.itemsize, self.ledger
        if self.tape.tp_size > 1:
            self._build_tensor_parallel()
            return
        ledger.allocate(BUILT, built * self.model_numel, host=True)
        ledger.allocate_briefly(BUILT, built * self.tape.untied_numel, host=True)
        self._shard_experts()
        if self.setup.optimizer.is_client:  # a client optimizer exists before the engine
            ledger.allocate(STATES, self.construction_state_bytes)
        for weight in self.tape.weights if built != itemsize else ():
            ledger.allocate(BUILT, itemsize * weight.numel, host=True)
            ledger.free(BUILT, built * weight.numel, host=True)
        ledger.free(BUILT, itemsize * self.total_numel, host=True)
        ledger.allocate(WEIGHTS, itemsize * self.total_numel)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, self.construction_state_bytes)

    def _shard_experts(self) -> None:
        """Replace MoE blocks layer by layer; the original experts are freed at the end (AutoEP)."""
        built, ledger = self.setup.build_itemsize, self.ledger
        expert_numels = [weight.numel for weight in self.tape.weights if weight.is_expert]
        if expert_numels:
            largest = sum(expert_numels) // sum(
                module.weights[0].is_expert for module in self.tape.modules if module.weights
            )
            routers = sum(weight.numel for weight in self.tape.weights if weight.name.endswith("router.gate"))
            ledger.allocate(BUILT, built * (sum(expert_numels) + routers), host=True)
            ledger.allocate_briefly(BUILT, built * largest, host=True)
            ledger.free(BUILT, built * (sum(expert_numels) * self.tape.ep_size + routers), host=True)

    def _build_tensor_parallel(self) -> None:
        """Shard linear layers, which go to the device in the built dtype and are cast there (AutoTP)."""
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
        for weight in weights if built != itemsize else ():  # cast one by one
            # DeepSpeed casts each parameter in place (engine.py `_cast_module_mixed_precision`, before
            # `module.half()`).
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
        """Bytes of states from the optimizer's constructor; a client optimizer still sees unsharded layers."""
        is_unsharded = self.setup.optimizer.is_client and self.setup.quirks.autotp_runs_in_initialize
        return self.setup.early_state_itemsize * sum(
            weight.numel * (weight.tp_size if is_unsharded else 1) for weight in self.trainable
        )

    @property
    def model_numel(self) -> int:
        """Parameters of the whole model, across tensor-parallel and expert-parallel ranks."""
        return sum(
            weight.numel * (self.tape.ep_size if weight.is_expert else weight.tp_size)
            for weight in self.tape.weights
        )

    def ranks_of(self, weight: Weight) -> int:
        """Data-parallel ranks that share the gradients, states and stage 3 shards of a parameter."""
        setup = self.setup
        if setup.tp_size > 1 and setup.stage == 3 and setup.zero_init and not weight.created_after_init:
            # `zero.Init` partitions over all ranks: it runs before AutoTP.
            return setup.dp_world_size * setup.tp_size
        return setup.dp_world_size // (self.tape.ep_size if weight.is_expert else 1)

    def largest_block_in(self, phase: str) -> int:
        """Bytes of the largest gradient; for the save phase, of the largest parameter."""
        weights = self.tape.weights if phase == SAVE else self.trainable
        return self.setup.itemsize * max((weight.numel for weight in weights), default=0)

    def allocate_at_rest(self) -> None:
        """Allocate what stays between steps."""
        raise NotImplementedError

    def allocate_steady_state(self) -> None:
        """Allocate what stays between steps, plus the padding of pinned memory."""
        self.ledger.allocate(PINNED, self.pinned_padding() if self.setup.has_separate_host else 0, host=True)
        self.allocate_at_rest()

    def pinned_padding(self) -> int:
        """Bytes that pinned host tensors take beyond their size; see the function of that name."""
        return 0

    def run(self) -> None:
        """Run one step: all micro batches, the last one with the gradient accumulation boundary."""
        steps = self.setup.gradient_accumulation_steps
        # Micro batches between the first and the last are identical.
        for number in range(min(steps, MIDDLE + 2)):
            self.micro_step, self.repeats = (
                number,
                steps - MIDDLE - 1 if number == MIDDLE and steps > 2 else 1,
            )
            self.is_boundary = number == min(steps, MIDDLE + 2) - 1
            self.ledger.allocate("inputs", self.tape.input_bytes)
            self.ledger.enter("forward")
            micro_batch = Pass(self.tape, self.ledger, self, self.setup.itemsize)
            self.before_forward()
            self._count_model_collectives("forward")
            micro_batch.forward()
            self.ledger.enter("backward")
            self.before_backward()
            self._count_model_collectives("backward")
            micro_batch.backward()
            self.after_backward()
            self.ledger.enter("step")
            if self.is_boundary:
                # The embedding output and its gradient (measured).
                input_grads = 2 * self.tape.input_grad_bytes
                self.ledger.allocate("activations", input_grads)
                self.step()
                self.ledger.free("activations", input_grads)
            self.ledger.free("inputs", self.tape.input_bytes)
        self.consolidate()
        self.ledger.enter("at rest")

    def _count_model_collectives(self, phase: str) -> None:
        for collective in self.tape.collectives:
            if collective.phase == phase and collective.calls:
                self.count_collective(
                    collective.name, collective.numel, collective.itemsize, collective.ranks, collective.calls
                )

    def consolidate(self) -> None:
        """Gather the whole model if parameters are partitioned and the config asks for it."""

    def before_forward(self) -> None:
        """Hook at the start of a forward pass."""

    def before_backward(self) -> None:
        """Hook at the start of a backward pass."""

    def after_backward(self) -> None:
        """Hook at the end of a backward pass."""

    def step(self) -> None:
        """Update the weights."""
        raise NotImplementedError

    def enter_module(self, number: int, forward: bool) -> None:
        """Hook before a module's forward or backward."""

    def leave_module(self, number: int, forward: bool) -> None:
        """Hook after a module's forward or backward."""

    def set_recomputing_module(self, number: int | None) -> None:
        """Hook at the start (with a module) and end (None) of a recomputation."""

    def hold_view(self, weight: Weight) -> None:
        """Hook for a view of a weight saved in the graph."""

    def release_view(self, weight: Weight) -> None:
        """Hook for a saved view that is freed."""

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """Hook for a complete gradient of `count` bytes."""
        raise NotImplementedError

    def count_collective(self, name: str, numel: int, itemsize: int, ranks: int = 0, count: int = 1) -> None:
        """Count `count` calls of a collective, among all ranks or a group of `ranks`."""
        key = (self.ledger.rank.phase, name, itemsize, ranks or self.setup.dp_world_size)
        calls, total = self.calls.get(key, (0, 0))
        times = self.repeats * count
        self.calls[key] = (calls + times, total + numel * times)

    def update(self, numel: int, largest: int, *, host: bool = False) -> None:
        """Allocate the optimizer's temporary tensors for an update of `numel` elements."""
        rule = self.setup.optimizer
        # `OptimizerCost` counts fp32 masters; half-precision ones take half of it.
        scale = self.setup.master_itemsize / 4
        self.ledger.allocate_briefly(
            TEMPORARY,
            int((rule.temporary_bytes * numel + rule.largest_tensor_bytes * largest) * scale),
            host=host,
        )


# Forward and backward run over a tape: lifetimes of activations and gradients.

FLOWING = "activation gradients"
COPIES = "autocast weight copies"


class Hooks(Protocol):
    """Hooks of an engine that a pass calls."""

    gathers: bool

    def set_recomputing_module(self, number: int | None) -> None:
        """Start (with a module) or end (None) a recomputation."""

    def enter_module(self, number: int, forward: bool) -> None:
        """Prepare a module's forward or backward."""

    def leave_module(self, number: int, forward: bool) -> None:
        """Finish a module's forward or backward."""

    def hold_view(self, weight: Weight) -> None:
        """Note a view of a weight saved in the graph."""

    def release_view(self, weight: Weight) -> None:
        """Note that a saved view is freed."""

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """Take over a complete gradient, a block of `count` bytes."""


def tensors_released_by(step: Step) -> tuple[Tensor, ...]:
    """Tensors that lose a reference after a step."""
    if isinstance(step, Operation):
        return step.inputs
    return step.tensors if isinstance(step, DropReferences) else ()


class GradientBuffer:
    """Gradient of an activation, with its number of owners."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


class Pass:
    """Forward and backward pass of one micro batch."""

    def __init__(self, tape: Tape, ledger: Ledger, hooks: Hooks, grad_itemsize: int) -> None:
        self.tape, self.ledger, self.hooks = tape, ledger, hooks
        self.grad_itemsize = grad_itemsize
        self.grads: dict[Tensor, GradientBuffer] = {}
        self.tied_grads: dict[Weight, list[int]] = {}
        self.autocast_copies: dict[Weight, int] = {}
        self.last_recomputed: Operation | None = None
        """The operation at which a recomputation stops: the last one that saves something."""

    # ------------------------------------------------------------ forward
    def forward(self) -> None:
        """Run from the batch to the loss."""
        self._forward(self.tape.steps, saving=True)
        self._clear_autocast_cache()

    def _clear_autocast_cache(self) -> None:
        """Clear autocast's cache; copies saved in the graph stay."""
        for weight in [weight for weight in self.autocast_copies if weight.requires_grad]:
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

    def _release_tensor(self, tensor: Tensor) -> None:
        tensor.refcount -= 1
        if not tensor.refcount:
            self.ledger.free(tensor.label, tensor.bytes)

    def _cast_weights(self, operation: Operation, output: Tensor, saving: bool) -> None:
        """Take a copy of each autocast weight: one reference for the cache, one for the graph."""
        for weight in operation.weights if operation.inputs else ():
            if weight.is_autocast and not self._uses_stage3_linear(weight):
                if weight not in self.autocast_copies:
                    self.ledger.allocate(COPIES, 2 * weight.numel)
                    self.autocast_copies[weight] = 1
                if saving and output.requires_grad:
                    self.autocast_copies[weight] += 1
                if not weight.requires_grad:  # torch caches only leaves that require grad
                    self._drop_copy(weight)

    def _cast_briefly(self, operation: Operation) -> None:
        """Cast the weight of stage 3's own linear (or its gradient) without keeping the copy."""
        if operation.inputs:
            numels = [
                weight.numel
                for weight in operation.weights
                if weight.is_autocast and self._uses_stage3_linear(weight)
            ]
            self.ledger.allocate_briefly(COPIES, 2 * sum(numels))

    def _drop_copy(self, weight: Weight) -> None:
        if weight in self.autocast_copies:
            self.autocast_copies[weight] -= 1
            if not self.autocast_copies[weight]:
                del self.autocast_copies[weight]
                self.ledger.free(COPIES, 2 * weight.numel)

    # ------------------------------------------------------------ backward
    def backward(self) -> None:
        """Run from the loss to the gradients of the parameters."""
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
        """Run the backward of a segment, recomputing its forward when a saved tensor is missing."""
        recomputed, rest = segment.split()
        self._backward(rest)
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

    def _stop_recomputing(self, recomputed: Sequence[Step], rest: Sequence[Step]) -> None:
        """Free tensors that only later steps of the segment would have read."""
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
                self._accumulate(weight, size)
            return
        self._release_saved(operation)

    def _gradients_of(self, operation: Operation) -> dict[Weight, int]:
        """Allocate the weight gradients of an operation; bytes by weight, in order of arrival."""
        weights = self._arrival_order([weight for weight in operation.weights if weight.requires_grad])
        sizes = {
            weight: weight.numel * (4 if weight.stays_fp32 else self.grad_itemsize) for weight in weights
        }
        self.ledger.allocate("gradients", sum(sizes.values()))
        if self.tape.autocast:
            self._cast_briefly(operation)
        return sizes

    def _arrival_order(self, weights: list[Weight]) -> list[Weight]:
        """Order in which autograd delivers the gradients of a weight and its bias.

        For `nn.Linear`, which multiplies by a transposed view, the bias comes first. For autocast copies and
        stage 3's own linear the weight comes first, for `Conv1D` the bias, its first argument.
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
            self._drop_copy(weight)

    def _for_each_view(self, operation: Operation, hook: Callable[[Weight], None]) -> None:
        """Call a hook for the weight if the input's gradient needs a view of it."""
        if not any(tensor.requires_grad for tensor in operation.inputs):
            return
        for weight in operation.weights[:1]:
            copied = self.tape.autocast and weight.is_autocast
            if weight.saves_view and not copied and not self._uses_stage3_linear(weight):
                hook(weight)

    def _uses_stage3_linear(self, weight: Weight) -> bool:
        """Whether stage 3's own linear multiplies by the weight, and saves the weight itself."""
        return weight.is_linear and self.tape.saves_linear_inputs

    def _release_grad(self, grad: GradientBuffer) -> None:
        grad.owners -= 1
        if not grad.owners:
            self.ledger.free(FLOWING, grad.bytes)

    def _add_grad(self, tensor: Tensor, grad: GradientBuffer) -> None:
        """Add an incoming gradient: in place if one of the two tensors has a single owner."""
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

    def _accumulate(self, weight: Weight, count: int) -> None:
        """Collect the gradients of a tied weight; their sum needs another block if the first one is a view."""
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


# Pinned host memory: `Tensor.pin_memory` allocates blocks of a power of two and caches them
# (ATen/core/CachingHostAllocator.h, `PowerOf2Ceil`).

PINNED = "pinned memory rounding"


def pinned_padding(blocks: Iterable[int]) -> int:
    """Bytes that pinned blocks take beyond their size."""
    return sum((1 << (count - 1).bit_length()) - count for count in blocks if count > 1)
