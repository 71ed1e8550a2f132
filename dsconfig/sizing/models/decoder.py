"""Llama and what is built like it: Mistral, Qwen 2 and 3, Mixtral."""

from __future__ import annotations

from dsconfig.sizing.attention import Heads, attend, turn
from dsconfig.sizing.experts import dispatch, grouped
from dsconfig.sizing.layers import activation, add, cast, kept, linear, multiply, rms_norm
from dsconfig.sizing.models.head import language_loss
from dsconfig.sizing.models.shape import Shape, Work
from dsconfig.sizing.tape import Module, Tape, Tensor
from dsconfig.sizing.ulysses import attend_shared


class Layer:
    """The modules of one decoder layer."""

    def __init__(self, tape: Tape, shape: Shape, work: Work, prefix: str) -> None:
        hidden, size = shape.hidden, shape.head_size
        queries, keys = shape.heads * size, shape.key_heads * size
        bias = shape.query_bias

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return tape.projection(f"{prefix}.self_attn.{name}", out, into, *([out] if with_bias else []))

        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", returns=False)
        self.query = projection("q_proj", queries, hidden, bias)
        self.key = projection("k_proj", keys, hidden, bias)
        self.value = projection("v_proj", keys, hidden, bias)
        self.output = projection("o_proj", hidden, queries, shape.output_bias)
        self.norms = (
            [tape.module(f"{prefix}.self_attn.{name}_norm", size) for name in "qk"]
            if shape.head_norms
            else []
        )
        self._mlp(tape, shape, work, prefix)
        self.before = tape.module(f"{prefix}.input_layernorm", hidden)
        self.after = tape.module(f"{prefix}.post_attention_layernorm", hidden)

    def _mlp(self, tape: Tape, shape: Shape, work: Work, prefix: str) -> None:
        self.mlp = tape.module(f"{prefix}.mlp")
        if work.experts:
            self.grouped = grouped(tape, shape, work, f"{prefix}.mlp")
        elif shape.experts:
            self.mlp.kind = "MixtralSparseMoeBlock"
            self.gate = tape.module(f"{prefix}.mlp.gate", (shape.experts, shape.hidden))
            pair = (shape.experts, 2 * shape.wide, shape.hidden), (shape.experts, shape.hidden, shape.wide)
            self.experts = tape.module(f"{prefix}.mlp.experts", *pair, casts=True)
            for weight in self.experts.weights:
                weight.linear = weight.casts = False  # autocast knows no `grouped_mm`
            self.act = tape.module(f"{prefix}.mlp.experts.act_fn")
        else:
            self._plain(tape, shape, prefix)

    def _plain(self, tape: Tape, shape: Shape, prefix: str) -> None:
        up = (shape.wide, shape.hidden, *([shape.wide] if shape.mlp_bias else []))
        down = (shape.hidden, shape.wide, *([shape.hidden] if shape.mlp_bias else []))
        self.gate = tape.projection(f"{prefix}.mlp.gate_proj", *up)
        self.up = tape.projection(f"{prefix}.mlp.up_proj", *up)
        self.down = tape.projection(f"{prefix}.mlp.down_proj", *down)
        self.act = tape.module(f"{prefix}.mlp.act_fn")


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, shares = work.micro * work.part, work.sequence > 1
    root, model = tape.module("", returns=False), tape.module("model", returns=False)
    embedding = tape.module(
        "model.embed_tokens", (shape.vocabulary, shape.hidden), returns=False, casts=shape.tied
    )
    layers = [Layer(tape, shape, work, f"model.layers.{index}") for index in range(shape.layers)]
    norm = tape.module("model.norm", shape.hidden)
    turning = tape.module("model.rotary_emb", returns=False)
    head = tape.module(
        "lm_head", *(() if shape.tied else ((shape.vocabulary // shape.parts, shape.hidden),)), casts=True
    )
    if shape.tied:
        head.weights = embedding.weights
    tape.extra = (24 if shares else 8) * rows  # places, and labels that are shifted
    tape.untied = shape.vocabulary * shape.hidden if shape.tied else 0
    if not work.computes:
        return tape
    heads = Heads(shape.heads, shape.key_heads, shape.head_size, work.micro, work.part)
    with tape.inside(root):
        with tape.inside(model):
            with tape.inside(embedding):
                x = tape.step([], tape.tensor(rows * shape.hidden), weights=embedding.weights)
                if work.starts_gradients:
                    tape.start(x)
            with tape.inside(turning):
                turned = work.part * (work.micro if shares else 1)
                turns = tape.step([], tape.tensor(2 * turned * shape.head_size, needs=False))
            for layer in layers:
                x = decoder_layer(tape, shape, layer, heads, work, x)
            x = rms_norm(tape, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary, shape.parts)
    tape.hold(turns)
    return tape


def decoder_layer(tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, x: Tensor) -> Tensor:
    """One layer."""
    rows = heads.rows
    with tape.inside(layer.whole), tape.segment(x, work.checkpointing):
        y = rms_norm(tape, layer.before, x, rows)
        with tape.inside(layer.attention):
            query = linear(tape, layer.query, y, rows, heads.queries * heads.size)
            if layer.norms:
                query = rms_norm(tape, layer.norms[0], query, rows * heads.queries)
            key = linear(tape, layer.key, y, rows, heads.keys * heads.size)
            if layer.norms:
                key = rms_norm(tape, layer.norms[1], key, rows * heads.keys)
            value = linear(tape, layer.value, y, rows, heads.keys * heads.size)
            query, key = turn(tape, query, key)
            if work.sequence > 1:
                mixed = attend_shared(tape, work, heads, query, key, value)
            else:
                mixed = attend(tape, work.attention, heads, query, key, value)
            y = linear(tape, layer.output, mixed, rows, shape.hidden)
            if work.sequence > 1:
                tape.hold(query, key, value)
        x = add(tape, x, y)
        y = rms_norm(tape, layer.after, x, rows)
        with tape.inside(layer.mlp):
            if work.experts:
                y = dispatch(tape, shape, work, layer.grouped, y, rows)
            elif shape.experts:
                y = _experts(tape, shape, layer, y, rows)
            else:
                y = _gated(tape, shape, layer, y, rows)
        return add(tape, x, y)


def _gated(tape: Tape, shape: Shape, layer: Layer, y: Tensor, rows: int) -> Tensor:
    gate = activation(tape, layer.act, linear(tape, layer.gate, y, rows, shape.wide))
    up = linear(tape, layer.up, y, rows, shape.wide)
    return linear(tape, layer.down, multiply(tape, gate, up), rows, shape.hidden)


def _experts(tape: Tape, shape: Shape, layer: Layer, y: Tensor, rows: int) -> Tensor:
    """`grouped_mm` over tokens sorted by expert; each token is there once for each expert it goes to."""
    many = rows * shape.chosen
    with tape.inside(layer.gate):
        chooser = layer.gate.weights
        scores = tape.step([y], tape.tensor(rows * shape.experts), kept(tape, y, chooser), chooser)
        odds = tape.tensor(rows * shape.experts, 4)
        tape.step([cast(tape, scores, 4)], odds, [odds])
        best = tape.tensor(many, 4)
        tape.step([odds], best, [best])
    width = tape.width
    first, second = layer.experts.weights
    with tape.inside(layer.experts):
        sent = tape.step([y], tape.tensor(many * shape.hidden, width))
        both = tape.step(
            [sent], tape.tensor(2 * many * shape.wide, width), [sent] if first.trains else [], [first]
        )
        with tape.inside(layer.act):
            gate = tape.step([both], tape.tensor(many * shape.wide, width), [both])
        product = tape.step([gate, both], tape.tensor(many * shape.wide, width), [gate, both])
        out = tape.step(
            [product], tape.tensor(many * shape.hidden, width), [product] if second.trains else [], [second]
        )
        weighed = tape.step([out, best], tape.tensor(many * shape.hidden, width), [out, best])
        return tape.step(
            [weighed], tape.tensor(rows * shape.hidden, width), temporary=many * shape.hidden * width
        )
