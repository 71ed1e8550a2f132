"""Operations of a model's forward pass, the tensors that they keep, and the order of its modules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple, TypeAlias

# A model's pass as a list of operations: what each takes and makes, and what it keeps for the way back.

Sizes: TypeAlias = "int | tuple[int, ...]"
"""Elements of a vector, or the shape of a parameter with more dimensions."""
ROW_PARALLEL = (".o_proj", ".down_proj")
"""Layers whose outputs are summed where ranks share them (AutoTP): each has some of the columns."""


class Weight:
    """A parameter; `number` is its place among `named_parameters()`."""

    __slots__ = (
        "created_after_init",
        "is_autocast",
        "is_expert",
        "is_linear",
        "module_number",
        "name",
        "number",
        "numel",
        "requires_grad",
        "saves_view",
        "shape",
        "stays_fp32",
        "tp_size",
        "use_count",
    )

    def __init__(
        self, number: int, module: int, name: str, shape: Sizes, requires_grad: bool, casts: bool
    ) -> None:
        self.number, self.name = number, name
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        self.numel = prod(self.shape)
        self.requires_grad, self.is_autocast = requires_grad, casts
        self.is_linear = casts
        """Whether autocast's type is the one that it is sent in: that of linear layers alone."""
        self.saves_view = casts
        """Whether products keep a view of it, which holds its memory even where it is given another."""
        self.stays_fp32 = False
        """Whether it stays in fp32, though the model is in half precision."""
        self.is_expert = False
        """Whether it is of experts that ranks share (AutoEP)."""
        self.created_after_init = False
        """Whether DeepSpeed makes it, or what is left of it, after the model is there."""
        self.module_number = module
        """Where it was made."""
        self.tp_size = 1
        """Ranks that share it (AutoTP); its elements are those of one."""
        self.use_count = 0
        """Operations that read it: more than one where it is tied."""


class Adapter(NamedTuple):
    """LoRA (PEFT): every weight is frozen, and layers with these names get two small ones that train."""

    rank: int
    targets: frozenset[str]
    """Last parts of modules' names; all linear layers but the head where it is empty."""
    dropout: float = 0.0
    stays_fp32: bool = False
    """Whether it stays in fp32 though the model is not (`cast_adapter_dtype`)."""


class LoraModules(NamedTuple):
    """The modules of PEFT's `Linear` around a layer."""

    base: Module
    dropout: Module
    lora_a: Module
    lora_b: Module


class Module:
    """A module with the parameters that are its own; `returns`: its inputs take part in the backward pass."""

    __slots__ = (
        "class_name",
        "external_params",
        "inputs_require_grad",
        "lora_modules",
        "name",
        "number",
        "weights",
    )

    def __init__(self, number: int, name: str, weights: Sequence[Weight], inputs_require_grad: bool) -> None:
        self.number, self.name, self.weights, self.inputs_require_grad = (
            number,
            name,
            tuple(weights),
            inputs_require_grad,
        )
        self.class_name = ""
        """Its class, where DeepSpeed's settings may name it."""
        self.lora_modules: LoraModules | None = None
        self.external_params: tuple[Weight, ...] = ()
        """Of other modules: it shares them, or asks for their type (`register_external_parameter`)."""

    @property
    def params_to_fetch(self) -> tuple[Weight, ...]:
        """What stage 3 gathers for it (`iter_params`)."""
        return self.weights + self.external_params


class Tensor:
    """Something computed: elements, bytes of each, how often it is read, and whether gradients flow to it."""

    __slots__ = ("bytes", "itemsize", "label", "numel", "reader_count", "refcount", "requires_grad")

    def __init__(self, numel: int, itemsize: int, requires_grad: bool, label: str) -> None:
        self.numel, self.itemsize, self.requires_grad, self.label = numel, itemsize, requires_grad, label
        self.bytes = numel * itemsize
        """Its size; its gradient's too."""
        self.reader_count = self.refcount = 0


class Operation:
    """A node of autograd's graph.

    `temporary` and `back` are bytes held for a moment, forward and backward. `shares`: the gradient of the
    output is handed on as it is.
    """

    __slots__ = (
        "backward_temporary",
        "inputs",
        "output",
        "passes_grad_through",
        "saved",
        "temporary",
        "weights",
    )

    def __init__(
        self,
        inputs: tuple[Tensor, ...],
        output: Tensor,
        saved: tuple[Tensor, ...],
        weights: tuple[Weight, ...],
        temporary: int,
        backward_temporary: int,
        passes_grad_through: bool,
    ) -> None:
        self.inputs, self.output, self.saved, self.weights = inputs, output, saved, weights
        self.temporary, self.backward_temporary, self.passes_grad_through = (
            temporary,
            backward_temporary,
            passes_grad_through,
        )

    @property
    def saves_for_backward(self) -> bool:
        """Whether it keeps something for the way back: of its inputs, or its weights for their gradients."""
        return self.output.requires_grad and bool(
            self.saved or (self.weights and any(tensor.requires_grad for tensor in self.inputs))
        )


class EnterModule:
    """A module is entered; on the way back it is left, where a gradient flows to what it reads."""

    __slots__ = ("module", "requires_grad")

    def __init__(self, module: Module) -> None:
        self.module, self.requires_grad = module, True


class LeaveModule:
    """A module is left; on the way back it is entered, where a gradient flows to what it made."""

    __slots__ = ("module", "requires_grad")

    def __init__(self, module: Module, requires_grad: bool) -> None:
        self.module, self.requires_grad = module, requires_grad


class Segment:
    """Steps that are computed again on the way back: only what they read from before them is kept."""

    __slots__ = ("source", "steps")

    def __init__(self, source: Tensor) -> None:
        self.source, self.steps = source, list[Step]()

    def split(self) -> tuple[list[Step], list[Step]]:
        """What is computed again, up to what is kept last, and what is not (`_StopRecomputationError`)."""
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if isinstance(step, Operation) and step.saves_for_backward:
                return self.steps[: index + 1], self.steps[index + 1 :]
        return [], self.steps


class DropReferences:
    """Python lets go of tensors that it has held up to here."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.tensors = tensors


Step: TypeAlias = "Operation | EnterModule | LeaveModule | Segment | DropReferences"


class ModuleScope:
    """What a module does: the block of `with` from where it is entered to where it is left."""

    __slots__ = ("arguments", "entered", "start", "tape")

    def __init__(self, tape: Tape, module: Module, arguments: tuple[Tensor, ...]) -> None:
        self.tape, self.start, self.entered = tape, len(tape.operations), EnterModule(module)
        self.arguments = arguments

    def __enter__(self) -> None:
        """The module is entered."""
        self.tape.steps.append(self.entered)

    def __exit__(self, *_: object) -> None:
        """It is left."""
        made, requires_grad = self.tape.operations, True
        if len(made) > self.start:
            requires_grad = made[-1].output.requires_grad
            if inputs := made[self.start].inputs:
                self.entered.requires_grad = any(tensor.requires_grad for tensor in inputs)
        self.tape.steps.append(LeaveModule(self.entered.module, requires_grad))
        if self.arguments:
            self.tape.keep_alive(*self.arguments)


class Tape:
    """A model under construction, and the steps of its forward pass."""

    def __init__(
        self,
        itemsize: int,
        autocast: bool = False,
        saves_linear_inputs: bool = False,
        adapter: Adapter | None = None,
        on_cpu: bool = False,
    ) -> None:
        self.itemsize, self.autocast, self.saves_linear_inputs = itemsize, autocast, saves_linear_inputs
        self.adapter, self.on_cpu = adapter, on_cpu
        self.linear_names: dict[str, None] = {}
        """Last parts of the names of linear layers, which an adapter may be for."""
        self.weights: list[Weight] = []
        self.modules: list[Module] = []
        self.steps: list[Step] = []
        self.operations: list[Operation] = []
        """All of them, those of segments too."""
        self.input_bytes = 0
        """Bytes of inputs that are there during the whole pass."""
        self.input_grad_bytes = 0
        """Bytes of a frozen embedding's output where gradients begin at it."""
        self.tp_size = 1
        """Ranks that share each linear layer."""
        self.ep_size = 1
        """Ranks that share experts."""
        self.collectives: list[ModelCollective] = []
        self.untied_numel = 0
        """Elements of parameters that are built, then replaced by others that they are tied to."""

    def module(
        self,
        name: str,
        *sizes: Sizes,
        inputs_require_grad: bool = True,
        requires_grad: bool = True,
        casts: bool = False,
    ) -> Module:
        """A new module with parameters of these sizes; `casts`: autocast computes with a copy of them."""
        requires_grad = requires_grad and self.adapter is None
        own = list[Weight]()
        for size in sizes:
            own.append(Weight(len(self.weights), len(self.modules), name, size, requires_grad, casts))
            self.weights += own[-1:]
        made = Module(len(self.modules), name, own, inputs_require_grad)
        self.modules.append(made)
        return made

    def projection(
        self, name: str, out: int, into: int, *bias: int, inputs_require_grad: bool = True
    ) -> Module:
        """A linear layer, with an adapter where it is one of those that get one."""
        last, adapter = name.rpartition(".")[2], self.adapter
        self.linear_names[last] = None
        if adapter is None or (adapter.targets and last not in adapter.targets):
            return self.module(name, (out, into), *bias, inputs_require_grad=inputs_require_grad, casts=True)
        made = self.module(name, inputs_require_grad=inputs_require_grad)
        base = self.module(
            f"{name}.base_layer", (out, into), *bias, inputs_require_grad=inputs_require_grad, casts=True
        )
        dropout = self.module(f"{name}.lora_dropout.default", inputs_require_grad=inputs_require_grad)
        self.adapter = None  # these train
        first = self.module(
            f"{name}.lora_A.default",
            (adapter.rank, into),
            inputs_require_grad=inputs_require_grad,
            casts=True,
        )
        second = self.module(f"{name}.lora_B.default", (out, adapter.rank), casts=True)
        self.adapter = adapter
        for weight in (*first.weights, *second.weights):
            weight.stays_fp32 = adapter.stays_fp32
        made.lora_modules, made.external_params = LoraModules(base, dropout, first, second), first.weights
        return made

    def tensor(
        self, numel: int, itemsize: int = 0, requires_grad: bool = True, label: str = "activations"
    ) -> Tensor:
        """A tensor, by default of the model's type."""
        return Tensor(numel, itemsize or self.itemsize, requires_grad, label)

    def op(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        saved: Sequence[Tensor] = (),
        weights: Sequence[Weight] = (),
        temporary: int = 0,
        backward_temporary: int = 0,
        passes_grad_through: bool = False,
    ) -> Tensor:
        """Record an operation and return what it makes."""
        made = Operation(
            tuple(inputs),
            output,
            tuple(saved),
            tuple(weights),
            temporary,
            backward_temporary,
            passes_grad_through,
        )
        self.steps.append(made)
        self.operations.append(made)
        requires_grad = False
        for tensor in inputs:
            tensor.reader_count += 1
            requires_grad = requires_grad or tensor.requires_grad
        for weight in weights:
            weight.use_count += 1
            requires_grad = requires_grad or weight.requires_grad
        if not requires_grad:
            output.requires_grad = False
        return output

    def keep_alive(self, *tensors: Tensor) -> None:
        """Python has names for these tensors up to here."""
        for tensor in tensors:
            tensor.reader_count += 1
        self.steps.append(DropReferences(tensors))

    def enable_input_grad(self, embedded: Tensor) -> None:
        """Let gradients begin at the output of a frozen embedding."""
        if not embedded.requires_grad:
            embedded.requires_grad, self.input_grad_bytes = True, embedded.bytes

    def scope(self, module: Module, *arguments: Tensor) -> ModuleScope:
        """What is recorded in this block happens in a module; its caller holds what it is given."""
        return ModuleScope(self, module, arguments)

    @contextmanager
    def checkpoint(self, source: Tensor, active: bool) -> Iterator[None]:
        """What is recorded in this block is computed again on the way back, if gradients are checkpointed."""
        if not active:
            yield
            return
        outer, made = self.steps, Segment(source)
        self.steps = made.steps
        yield
        self.steps = outer
        self.steps.append(made)

    def apply_tensor_parallel(self, ranks: int, head: bool) -> None:
        """These ranks share every linear layer, and the head or not; biases of sums are whole.

        What they share is no `nn.Linear` any more, for autocast's type of messages and stage 3's own product.
        """
        self.tp_size = ranks
        for module in self.modules:
            summed = module.name.endswith(ROW_PARALLEL)
            for weight in module.weights[: 1 if summed else None]:
                if weight.is_linear and (head or module.name != "lm_head"):
                    weight.tp_size, weight.created_after_init, weight.is_linear = ranks, True, False


# The order in which a pass enters and leaves the modules of a model, there and back.


class Visit(NamedTuple):
    """A module is entered, or left."""

    module: Module
    is_entry: bool
    is_backward: bool = False
    recomputed_for: int | None = None
    """The module on the way back for which this is computed again."""


def forward_visits(steps: Sequence[Step], owner: int | None = None) -> Iterator[Visit]:
    """Those of a forward pass."""
    for step in steps:
        if isinstance(step, (EnterModule, LeaveModule)):
            yield Visit(step.module, isinstance(step, EnterModule), False, owner)
        elif isinstance(step, Segment):
            yield from forward_visits(step.steps, owner)


def backward_visits(steps: Sequence[Step]) -> Iterator[Visit]:
    """Those of a backward pass, which enters what the way there leaves."""
    for step in reversed(steps):
        if isinstance(step, LeaveModule) and step.requires_grad:
            yield Visit(step.module, True, True)
        elif isinstance(step, EnterModule) and step.requires_grad and step.module.inputs_require_grad:
            yield Visit(step.module, False, True)
        elif isinstance(step, Segment):
            early, late = step.split()
            yield from backward_visits(late)
            yield from forward_visits(early, recomputing_module(late))
            yield from backward_visits(early)


def recomputing_module(late: Sequence[Step]) -> int | None:
    """The last module on the way back that is entered, and not left, before something is missing."""
    found: list[int] = []
    for step in reversed(late):
        if isinstance(step, LeaveModule) and step.requires_grad:
            found.append(step.module.number)
        elif isinstance(step, EnterModule) and step.module.number in found:
            found.remove(step.module.number)
    return found[-1] if found else None


def module_visits(steps: Sequence[Step], counted: Collection[int] = ()) -> list[Visit]:
    """Those of both ways; `counted`: modules that count a pass twice, and are not left on the way back."""
    found = [*forward_visits(steps), *backward_visits(steps)]
    return [
        visit
        for visit in found
        if visit.is_entry or not visit.is_backward or visit.module.number not in counted
    ]


def recomputed_modules(steps: Sequence[Step]) -> Iterator[int]:
    """Numbers of modules that are entered once more as a segment is computed again."""
    for step in steps:
        if isinstance(step, Segment):
            early, _ = step.split()
            yield from (visit.module.number for visit in forward_visits(early) if visit.is_entry)


def modules_never_left(visits: Sequence[Visit]) -> list[Module]:
    """What the way back enters and does not leave, since no gradient flows to what it reads."""
    found: dict[Module, None] = {}
    for visit in visits:
        if visit.is_backward and visit.is_entry:
            found[visit.module] = None
        elif visit.is_backward:
            found.pop(visit.module, None)
    return list(found)


# How ranks share linear layers, in the release that does it (AutoTP), and what they send each other.


class TensorParallel(NamedTuple):
    """How many ranks share them, and what of a model a release leaves whole."""

    size: int = 1
    may_shard_lm_head: bool = True
    """Whether the head is cut: Transformers' plan gathers its output, which 0.19.4 understands first."""
    reads_tp_plans: bool = True
    """Whether plans are taken with all their words (0.19.6), gradients of whole norms among them."""

    def shards_lm_head(self, head_norms: bool) -> bool:
        """A plan with norms of heads is not understood before 0.19.6: layers are found by their names."""
        return self.may_shard_lm_head and (self.reads_tp_plans or not head_norms)


class ModelCollective(NamedTuple):
    """What ranks that share a model, or a sequence, send each other in a micro batch."""

    name: str
    phase: str
    calls: int
    numel: int
    """Of each call."""
    itemsize: int
    ranks: int
