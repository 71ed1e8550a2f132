"""Operations of a model's forward pass, the tensors that they keep, and the order of its modules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple, TypeAlias

# A model's pass as a list of operations: what each takes and makes, and what it keeps for the way back.

Sizes: TypeAlias = "int | tuple[int, ...]"
"""Elements of a vector, or the shape of a parameter with more dimensions."""
SUMMED = (".o_proj", ".down_proj")
"""Layers whose outputs are summed where ranks share them (AutoTP): each has some of the columns."""


class Weight:
    """A parameter; `number` is its place among `named_parameters()`."""

    __slots__ = (
        "casts",
        "elements",
        "expert",
        "full",
        "late",
        "linear",
        "module",
        "name",
        "number",
        "parts",
        "shape",
        "trains",
        "uses",
        "viewed",
    )

    def __init__(self, number: int, module: int, name: str, shape: Sizes, trains: bool, casts: bool) -> None:
        self.number, self.name = number, name
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        self.elements = prod(self.shape)
        self.trains, self.casts = trains, casts
        self.linear = casts
        """Whether autocast's type is the one that it is sent in: that of linear layers alone."""
        self.viewed = casts
        """Whether products keep a view of it, which holds its memory even where it is given another."""
        self.full = False
        """Whether it stays in fp32, though the model is in half precision."""
        self.expert = False
        """Whether it is of experts that ranks share (AutoEP)."""
        self.late = False
        """Whether DeepSpeed makes it, or what is left of it, after the model is there."""
        self.module = module
        """Where it was made."""
        self.parts = 1
        """Ranks that share it (AutoTP); its elements are those of one."""
        self.uses = 0
        """Operations that read it: more than one where it is tied."""


class Adapter(NamedTuple):
    """LoRA (PEFT): every weight is frozen, and layers with these names get two small ones that train."""

    rank: int
    targets: frozenset[str]
    """Last parts of modules' names; all linear layers but the head where it is empty."""
    dropout: float = 0.0
    full: bool = False
    """Whether it stays in fp32 though the model is not (`cast_adapter_dtype`)."""


class Adapted(NamedTuple):
    """The modules of PEFT's `Linear` around a layer."""

    base: Module
    dropout: Module
    first: Module
    second: Module


class Module:
    """A module with the parameters that are its own; `returns`: its inputs take part in the backward pass."""

    __slots__ = ("adapted", "external", "kind", "name", "number", "returns", "weights")

    def __init__(self, number: int, name: str, weights: Sequence[Weight], returns: bool) -> None:
        self.number, self.name, self.weights, self.returns = number, name, tuple(weights), returns
        self.kind = ""
        """Its class, where DeepSpeed's settings may name it."""
        self.adapted: Adapted | None = None
        self.external: tuple[Weight, ...] = ()
        """Of other modules: it shares them, or asks for their type (`register_external_parameter`)."""

    @property
    def gathered(self) -> tuple[Weight, ...]:
        """What stage 3 gathers for it (`iter_params`)."""
        return self.weights + self.external


class Tensor:
    """Something computed: elements, bytes of each, how often it is read, and whether gradients flow to it."""

    __slots__ = ("bytes", "elements", "label", "needs", "readers", "references", "width")

    def __init__(self, elements: int, width: int, needs: bool, label: str) -> None:
        self.elements, self.width, self.needs, self.label = elements, width, needs, label
        self.bytes = elements * width
        """Its size; its gradient's too."""
        self.readers = self.references = 0


class Operation:
    """A node of autograd's graph.

    `temporary` and `back` are bytes held for a moment, forward and backward. `shares`: the gradient of the
    output is handed on as it is.
    """

    __slots__ = ("back", "inputs", "output", "saved", "shares", "temporary", "weights")

    def __init__(
        self,
        inputs: tuple[Tensor, ...],
        output: Tensor,
        saved: tuple[Tensor, ...],
        weights: tuple[Weight, ...],
        temporary: int,
        back: int,
        shares: bool,
    ) -> None:
        self.inputs, self.output, self.saved, self.weights = inputs, output, saved, weights
        self.temporary, self.back, self.shares = temporary, back, shares

    @property
    def keeps(self) -> bool:
        """Whether it keeps something for the way back: of its inputs, or its weights for their gradients."""
        return self.output.needs and bool(
            self.saved or (self.weights and any(tensor.needs for tensor in self.inputs))
        )


class Enter:
    """A module is entered; on the way back it is left, where a gradient flows to what it reads."""

    __slots__ = ("module", "needs")

    def __init__(self, module: Module) -> None:
        self.module, self.needs = module, True


class Leave:
    """A module is left; on the way back it is entered, where a gradient flows to what it made."""

    __slots__ = ("module", "needs")

    def __init__(self, module: Module, needs: bool) -> None:
        self.module, self.needs = module, needs


class Segment:
    """Steps that are computed again on the way back: only what they read from before them is kept."""

    __slots__ = ("source", "steps")

    def __init__(self, source: Tensor) -> None:
        self.source, self.steps = source, list[Step]()

    def parts(self) -> tuple[list[Step], list[Step]]:
        """What is computed again, up to what is kept last, and what is not (`_StopRecomputationError`)."""
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if isinstance(step, Operation) and step.keeps:
                return self.steps[: index + 1], self.steps[index + 1 :]
        return [], self.steps


class Done:
    """Python lets go of tensors that it has held up to here."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.tensors = tensors


Step: TypeAlias = "Operation | Enter | Leave | Segment | Done"


class Inside:
    """What a module does: the block of `with` from where it is entered to where it is left."""

    __slots__ = ("arguments", "entered", "start", "tape")

    def __init__(self, tape: Tape, module: Module, arguments: tuple[Tensor, ...]) -> None:
        self.tape, self.start, self.entered = tape, len(tape.operations), Enter(module)
        self.arguments = arguments

    def __enter__(self) -> None:
        """The module is entered."""
        self.tape.steps.append(self.entered)

    def __exit__(self, *_: object) -> None:
        """It is left."""
        made, needs = self.tape.operations, True
        if len(made) > self.start:
            needs = made[-1].output.needs
            if inputs := made[self.start].inputs:
                self.entered.needs = any(tensor.needs for tensor in inputs)
        self.tape.steps.append(Leave(self.entered.module, needs))
        if self.arguments:
            self.tape.hold(*self.arguments)


class Tape:
    """A model under construction, and the steps of its forward pass."""

    def __init__(
        self,
        width: int,
        autocast: bool = False,
        keeps_inputs: bool = False,
        adapter: Adapter | None = None,
        on_cpu: bool = False,
    ) -> None:
        self.width, self.autocast, self.keeps_inputs = width, autocast, keeps_inputs
        self.adapter, self.on_cpu = adapter, on_cpu
        self.linear: dict[str, None] = {}
        """Last parts of the names of linear layers, which an adapter may be for."""
        self.weights: list[Weight] = []
        self.modules: list[Module] = []
        self.steps: list[Step] = []
        self.operations: list[Operation] = []
        """All of them, those of segments too."""
        self.extra = 0
        """Bytes of inputs that are there during the whole pass."""
        self.started = 0
        """Bytes of a frozen embedding's output where gradients begin at it."""
        self.parts = 1
        """Ranks that share each linear layer."""
        self.experts = 1
        """Ranks that share experts."""
        self.exchanged: list[Exchange] = []
        self.untied = 0
        """Elements of parameters that are built, then replaced by others that they are tied to."""

    def module(
        self, name: str, *sizes: Sizes, returns: bool = True, trains: bool = True, casts: bool = False
    ) -> Module:
        """A new module with parameters of these sizes; `casts`: autocast computes with a copy of them."""
        trains = trains and self.adapter is None
        own = list[Weight]()
        for size in sizes:
            own.append(Weight(len(self.weights), len(self.modules), name, size, trains, casts))
            self.weights += own[-1:]
        made = Module(len(self.modules), name, own, returns)
        self.modules.append(made)
        return made

    def projection(self, name: str, out: int, into: int, *bias: int, returns: bool = True) -> Module:
        """A linear layer, with an adapter where it is one of those that get one."""
        last, adapter = name.rpartition(".")[2], self.adapter
        self.linear[last] = None
        if adapter is None or (adapter.targets and last not in adapter.targets):
            return self.module(name, (out, into), *bias, returns=returns, casts=True)
        made = self.module(name, returns=returns)
        base = self.module(f"{name}.base_layer", (out, into), *bias, returns=returns, casts=True)
        dropout = self.module(f"{name}.lora_dropout.default", returns=returns)
        self.adapter = None  # these train
        first = self.module(f"{name}.lora_A.default", (adapter.rank, into), returns=returns, casts=True)
        second = self.module(f"{name}.lora_B.default", (out, adapter.rank), casts=True)
        self.adapter = adapter
        for weight in (*first.weights, *second.weights):
            weight.full = adapter.full
        made.adapted, made.external = Adapted(base, dropout, first, second), first.weights
        return made

    def tensor(self, elements: int, width: int = 0, needs: bool = True, label: str = "activations") -> Tensor:
        """A tensor, by default of the model's type."""
        return Tensor(elements, width or self.width, needs, label)

    def step(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        saved: Sequence[Tensor] = (),
        weights: Sequence[Weight] = (),
        temporary: int = 0,
        back: int = 0,
        shares: bool = False,
    ) -> Tensor:
        """Record an operation and return what it makes."""
        made = Operation(tuple(inputs), output, tuple(saved), tuple(weights), temporary, back, shares)
        self.steps.append(made)
        self.operations.append(made)
        needs = False
        for tensor in inputs:
            tensor.readers += 1
            needs = needs or tensor.needs
        for weight in weights:
            weight.uses += 1
            needs = needs or weight.trains
        if not needs:
            output.needs = False
        return output

    def hold(self, *tensors: Tensor) -> None:
        """Python has names for these tensors up to here."""
        for tensor in tensors:
            tensor.readers += 1
        self.steps.append(Done(tensors))

    def start(self, embedded: Tensor) -> None:
        """Let gradients begin at the output of a frozen embedding."""
        if not embedded.needs:
            embedded.needs, self.started = True, embedded.bytes

    def inside(self, module: Module, *arguments: Tensor) -> Inside:
        """What is recorded in this block happens in a module; its caller holds what it is given."""
        return Inside(self, module, arguments)

    @contextmanager
    def segment(self, source: Tensor, active: bool) -> Iterator[None]:
        """What is recorded in this block is computed again on the way back, if gradients are checkpointed."""
        if not active:
            yield
            return
        outer, made = self.steps, Segment(source)
        self.steps = made.steps
        yield
        self.steps = outer
        self.steps.append(made)

    def share(self, ranks: int, head: bool) -> None:
        """These ranks share every linear layer, and the head or not; biases of sums are whole.

        What they share is no `nn.Linear` any more, for autocast's type of messages and stage 3's own product.
        """
        self.parts = ranks
        for module in self.modules:
            summed = module.name.endswith(SUMMED)
            for weight in module.weights[: 1 if summed else None]:
                if weight.linear and (head or module.name != "lm_head"):
                    weight.parts, weight.late, weight.linear = ranks, True, False


# The order in which a pass enters and leaves the modules of a model, there and back.


class Visit(NamedTuple):
    """A module is entered, or left."""

    module: Module
    enters: bool
    back: bool = False
    owner: int | None = None
    """The module on the way back for which this is computed again."""


def there(steps: Sequence[Step], owner: int | None = None) -> Iterator[Visit]:
    """Those of a forward pass."""
    for step in steps:
        if isinstance(step, (Enter, Leave)):
            yield Visit(step.module, isinstance(step, Enter), False, owner)
        elif isinstance(step, Segment):
            yield from there(step.steps, owner)


def back(steps: Sequence[Step]) -> Iterator[Visit]:
    """Those of a backward pass, which enters what the way there leaves."""
    for step in reversed(steps):
        if isinstance(step, Leave) and step.needs:
            yield Visit(step.module, True, True)
        elif isinstance(step, Enter) and step.needs and step.module.returns:
            yield Visit(step.module, False, True)
        elif isinstance(step, Segment):
            early, late = step.parts()
            yield from back(late)
            yield from there(early, asking(late))
            yield from back(early)


def asking(late: Sequence[Step]) -> int | None:
    """The last module on the way back that is entered, and not left, before something is missing."""
    found: list[int] = []
    for step in reversed(late):
        if isinstance(step, Leave) and step.needs:
            found.append(step.module.number)
        elif isinstance(step, Enter) and step.module.number in found:
            found.remove(step.module.number)
    return found[-1] if found else None


def visits_of(steps: Sequence[Step], counted: Collection[int] = ()) -> list[Visit]:
    """Those of both ways; `counted`: modules that count a pass twice, and are not left on the way back."""
    found = [*there(steps), *back(steps)]
    return [visit for visit in found if visit.enters or not visit.back or visit.module.number not in counted]


def entered_again(steps: Sequence[Step]) -> Iterator[int]:
    """Numbers of modules that are entered once more as a segment is computed again."""
    for step in steps:
        if isinstance(step, Segment):
            early, _ = step.parts()
            yield from (visit.module.number for visit in there(early) if visit.enters)


def unreturned(visits: Sequence[Visit]) -> list[Module]:
    """What the way back enters and does not leave, since no gradient flows to what it reads."""
    found: dict[Module, None] = {}
    for visit in visits:
        if visit.back and visit.enters:
            found[visit.module] = None
        elif visit.back:
            found.pop(visit.module, None)
    return list(found)


# How ranks share linear layers, in the release that does it (AutoTP), and what they send each other.


class Sharing(NamedTuple):
    """How many ranks share them, and what of a model a release leaves whole."""

    ranks: int = 1
    head: bool = True
    """Whether the head is cut: Transformers' plan gathers its output, which 0.19.4 understands first."""
    plans: bool = True
    """Whether plans are taken with all their words (0.19.6), gradients of whole norms among them."""

    def cuts_head(self, head_norms: bool) -> bool:
        """A plan with norms of heads is not understood before 0.19.6: layers are found by their names."""
        return self.head and (self.plans or not head_norms)


class Exchange(NamedTuple):
    """What ranks that share a model, or a sequence, send each other in a micro batch."""

    name: str
    phase: str
    calls: int
    elements: int
    """Of each call."""
    width: int
    ranks: int
