"""Llama and what is built like it: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3."""

from __future__ import annotations

from dsconfig.memory.attention import Heads
from dsconfig.memory.graph import Tape
from dsconfig.memory.layers import rms_norm
from dsconfig.memory.models.decoder_layer import Layer, decoder_layer
from dsconfig.memory.models.lm_head import embedded, head_of, language_loss
from dsconfig.memory.models.masks import Masks
from dsconfig.memory.models.shape import Shape, Work


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, shares, style = work.micro * work.part, work.sequence > 1, shape.style
    root, model = tape.module("", returns=False), tape.module("model", returns=False)
    embedding = tape.module(
        "model.embed_tokens", (shape.vocabulary, shape.hidden), returns=False, casts=shape.tied
    )
    layers = [Layer(tape, shape, work, index) for index in range(shape.layers)]
    norm = tape.module("model.norm", shape.hidden)
    turning = tape.module("model.rotary_emb", returns=False)
    head = head_of(tape, embedding, shape)
    tape.extra = (24 if shares else 8) * rows  # places, and labels that are shifted
    if not work.computes:
        return tape
    sizes = shape.heads, shape.key_heads, shape.head_size
    heads = Heads(*sizes, work.micro, work.part, shape.attention_dropout, apart=style.joined)
    turned = work.part * (work.micro if shares else 1) * (shape.turned or shape.head_size)
    with tape.inside(root):
        with tape.inside(model):
            x = embedded(tape, embedding, rows * shape.hidden, work, style.scaled)
            masks = Masks(tape, shape, work)
            turns = []
            for _ in range(style.turns):
                with tape.inside(turning):
                    turns.append(tape.step([], tape.tensor(2 * turned, 4 if style.turns_wide else 0, False)))
            for layer in layers:
                x = decoder_layer(tape, shape, layer, heads, work, x, masks.of(layer.number))
            x = rms_norm(tape, norm, x, rows, style.norm)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary, shape.parts, shape.caps_logits)
    tape.hold(*turns)
    return tape
