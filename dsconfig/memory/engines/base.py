"""What all engines share: the model's pass, micro batch by micro batch, and the phases of a step."""

from __future__ import annotations

from dsconfig.memory.engines.pinned_memory import PINNED
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.forward_backward import Pass
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

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
