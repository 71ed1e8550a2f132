"""What stands behind attention in a decoder's layer: a gated MLP, or experts that tokens go to."""

from __future__ import annotations

from dsconfig.memory.autoep import dispatch, grouped
from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.layers import activation, add, cast, gated_halves, kept, linear, multiply
from dsconfig.memory.models.decoder_variants import Style
from dsconfig.memory.models.shape import Shape, Work


class Gated:
    """The modules of an MLP with a gate."""

    def __init__(self, tape: Tape, shape: Shape, style: Style, prefix: str, wide: int) -> None:
        self.wide, self.joined, hidden = wide, style.joined, shape.hidden
        bias = shape.mlp_bias
        self.whole = tape.module(prefix)
        if style.joined:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = tape.projection(f"{prefix}.gate_proj", wide, hidden, *([wide] if bias else []))
            self.up = tape.projection(f"{prefix}.up_proj", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.down_proj", hidden, wide, *([hidden] if bias else []))
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: Tape, y: Tensor, rows: int, hidden: int) -> Tensor:
        """The pass; gate and up may be halves of one tensor, which stays whole for both."""
        wide = self.wide
        with tape.inside(self.whole, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.joined) * wide)
            if self.joined:
                product = gated_halves(tape, self.act, gate)
            else:
                made = activation(tape, self.act, gate)
                product = multiply(tape, made, linear(tape, self.up, y, rows, wide))
            return linear(tape, self.down, product, rows, hidden)


class Experts:
    """The modules of a block of experts."""

    def __init__(self, tape: Tape, shape: Shape, style: Style, work: Work, prefix: str) -> None:
        self.whole, self.router = tape.module(prefix), style.router
        self.shared = None
        if work.experts:
            self.grouped = grouped(tape, shape, work, prefix)
        else:
            self._local(tape, shape, style, prefix)
        if shape.shared_wide:
            name = f"{prefix}.shared_expert"
            self.shared = Gated(tape, shape, style, name, shape.shared_wide)
            self.shared_gate = tape.projection(f"{name}_gate", 1, shape.hidden)

    def _local(self, tape: Tape, shape: Shape, style: Style, prefix: str) -> None:
        self.whole.kind = style.block
        for name in ("experts", "gate") if style.experts_first else ("gate", "experts"):
            if name == "gate":
                self.gate = tape.module(f"{prefix}.gate", (shape.experts, shape.hidden))
            else:
                self._experts(tape, shape, prefix)

    def _experts(self, tape: Tape, shape: Shape, prefix: str) -> None:
        count, hidden, wide = shape.experts, shape.hidden, shape.expert_wide
        self.experts = tape.module(
            f"{prefix}.experts", (count, 2 * wide, hidden), (count, hidden, wide), casts=True
        )
        for weight in self.experts.weights:
            weight.linear = weight.casts = False  # autocast knows no `grouped_mm`
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(self, tape: Tape, shape: Shape, work: Work, y: Tensor, rows: int) -> Tensor:
        """The pass, with that of the expert for all tokens where there is one."""
        with tape.inside(self.whole, y):
            common = None
            if self.shared and not work.experts:
                common = self.shared.compute(tape, y, rows, shape.hidden)
            if work.experts:
                out = dispatch(tape, shape, work, self.grouped, y, rows)
            else:
                out = self._grouped(tape, shape, y, rows)
            if not self.shared:
                return out
            if common is None:  # AutoEP computes it last
                common = self.shared.compute(tape, y, rows, shape.hidden)
            part = linear(tape, self.shared_gate, y, rows, 1)
            weight = tape.tensor(rows, part.width)
            tape.step([part], weight, [weight])
            weighed = tape.tensor(common.elements, common.width)
            tape.step([weight, common], weighed, [weight, common])
            return add(tape, out, weighed)

    def _route(self, tape: Tape, shape: Shape, y: Tensor, rows: int) -> Tensor:
        many = rows * shape.chosen
        with tape.inside(self.gate):
            chooser = self.gate.weights
            scores = tape.step([y], tape.tensor(rows * shape.experts), kept(tape, y, chooser), chooser)
            odds = tape.tensor(rows * shape.experts, 4)
            tape.step([cast(tape, scores, 4)], odds, [odds])
            best = tape.tensor(many, 4)
            tape.step([odds], best, [best])
            return best if self.router == "wide" else cast(tape, best, scores.width)

    def _grouped(self, tape: Tape, shape: Shape, y: Tensor, rows: int) -> Tensor:
        """`grouped_mm` over tokens sorted by expert; each token is there once for each expert it goes to."""
        many, hidden, wide = rows * shape.chosen, shape.hidden, shape.expert_wide
        best = self._route(tape, shape, y, rows)
        width = tape.width
        first, second = self.experts.weights
        with tape.inside(self.experts):
            sent = tape.step([y], tape.tensor(many * hidden, width))
            both = tape.tensor(2 * many * wide, width)
            tape.step([sent], both, [sent] if first.trains else [], [first])
            product = gated_halves(tape, self.act, both)
            out = tape.tensor(many * hidden, width)
            tape.step([product], out, [product] if second.trains else [], [second])
            weighed = tape.step([out, best], tape.tensor(many * hidden, width), [out, best])
            return tape.step([weighed], tape.tensor(rows * hidden, width), temporary=many * hidden * width)
