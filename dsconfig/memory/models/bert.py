"""BERT and RoBERTa, for masked words or for classification of sequences."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import (
    LOGITS,
    Heads,
    activation,
    add,
    attend,
    dropout,
    layer_norm,
    linear,
    masked_loss,
    relu,
)
from dsconfig.memory.models.shape import Architecture, MicroBatch


class Output:
    """A projection, and the norm of its sum with what was read before."""

    def __init__(self, tape: Tape, prefix: str, hidden: int, into: int) -> None:
        self.whole = tape.module(f"{prefix}.output")
        self.dense = tape.projection(f"{prefix}.output.dense", hidden, into, hidden)
        self.norm = tape.module(f"{prefix}.output.LayerNorm", hidden, hidden)
        self.kept = tape.module(f"{prefix}.output.dropout")

    def compute(self, tape: Tape, y: Tensor, x: Tensor, rows: int, shape: Architecture) -> Tensor:
        """Of what was computed, and what it was computed from."""
        with tape.scope(self.whole, y, x):
            y = linear(tape, self.dense, y, rows, shape.hidden_size)
            with tape.scope(self.kept):
                y = dropout(tape, y, shape.dropout)
            return layer_norm(tape, self.norm, add(tape, y, x), rows)


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, wide = shape.hidden_size, shape.intermediate_size
        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.attention")
        self.own = tape.module(f"{prefix}.attention.self")
        self.inputs = [
            tape.projection(f"{prefix}.attention.self.{name}", hidden, hidden, hidden)
            for name in ("query", "key", "value")
        ]
        self.mixed = Output(tape, f"{prefix}.attention", hidden, hidden)
        self.between = tape.module(f"{prefix}.intermediate")
        self.up = tape.projection(f"{prefix}.intermediate.dense", wide, hidden, wide)
        self.act = tape.module(f"{prefix}.intermediate.intermediate_act_fn")
        self.output = Output(tape, prefix, hidden, wide)


class Embeddings:
    """Words, places and kinds of sentences; RoBERTa makes the places last."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden = shape.hidden_size
        self.whole = tape.module(prefix, inputs_require_grad=False)
        sizes = {
            "word": shape.vocab_size,
            "position": shape.max_position_embeddings + shape.position_offset,
            "token_type": shape.type_vocab_size,
        }
        words = tape.module(
            f"{prefix}.word_embeddings",
            (sizes["word"], hidden),
            inputs_require_grad=False,
            casts=shape.tie_word_embeddings,
        )
        self.tables = {"word": words}
        last = shape.name == "roberta"
        for name in ("token_type",) if last else ("position", "token_type"):
            self.tables[name] = self._table(tape, prefix, name, sizes[name], hidden)
        self.norm = tape.module(f"{prefix}.LayerNorm", hidden, hidden)
        self.kept = tape.module(f"{prefix}.dropout")
        if last:
            self.tables["position"] = self._table(tape, prefix, "position", sizes["position"], hidden)

    @staticmethod
    def _table(tape: Tape, prefix: str, name: str, rows: int, hidden: int) -> Module:
        return tape.module(f"{prefix}.{name}_embeddings", (rows, hidden), inputs_require_grad=False)

    def compute(self, tape: Tape, shape: Architecture, work: MicroBatch) -> Tensor:
        """Their sum, normalised."""
        rows, hidden = work.micro_batch_size * work.sequence_length, shape.hidden_size
        places = rows if shape.name == "roberta" else work.sequence_length
        with tape.scope(self.whole):
            found = []
            for name, count in (("word", rows), ("token_type", rows), ("position", places)):
                table = self.tables[name]
                with tape.scope(table):
                    y = tape.op([], tape.tensor(count * hidden), weights=table.weights)
                    if name == "word" and work.needs_input_grad:
                        tape.enable_input_grad(y)
                found.append(y)
                if len(found) > 1:
                    total = tape.op(found, tape.tensor(rows * hidden), passes_grad_through=count == rows)
                    found = [total]
            x = layer_norm(tape, self.norm, found[0], rows)
            with tape.scope(self.kept):
                return dropout(tape, x, shape.dropout)


class Words:
    """The head for masked words: a layer, then the table of words again, with a bias."""

    def __init__(self, tape: Tape, shape: Architecture, words: Module) -> None:
        hidden, bert = shape.hidden_size, shape.name == "bert"
        prefix = "cls.predictions" if bert else "lm_head"
        self.outer = [tape.module("cls", inputs_require_grad=True)] if bert else []
        self.whole = tape.module(prefix, shape.vocab_size, casts=True)
        inner = f"{prefix}.transform" if bert else prefix
        self.transform = tape.module(inner) if bert else None
        self.dense = tape.projection(f"{inner}.dense", hidden, hidden, hidden)
        self.act = tape.module(f"{inner}.transform_act_fn") if bert else None
        self.norm = tape.module(f"{inner}.{'LayerNorm' if bert else 'layer_norm'}", hidden, hidden)
        own = () if shape.tie_word_embeddings else ((shape.vocab_size, hidden),)
        self.decoder = tape.module(f"{prefix}.decoder", *own, casts=True)
        self.decoder.weights = (
            *(words if shape.tie_word_embeddings else self.decoder).weights,
            *self.whole.weights,
        )
        self.whole.weights[0].module_number = self.decoder.number
        self.whole.external_params, self.whole.weights = self.whole.weights, ()  # the bias is of both
        tape.untied_numel = shape.vocab_size * (hidden if shape.tie_word_embeddings else 0) + shape.vocab_size

    def loss(self, tape: Tape, shape: Architecture, work: MicroBatch, x: Tensor) -> None:
        """Logits of all words, and their loss."""
        rows = work.micro_batch_size * work.sequence_length
        with ExitStack() as stack:
            for module in (*self.outer, self.whole):
                stack.enter_context(tape.scope(module))
            with tape.scope(self.transform) if self.transform else nullcontext():
                y = activation(tape, self.act, linear(tape, self.dense, x, rows, shape.hidden_size))
                y = layer_norm(tape, self.norm, y, rows)
            logits = linear(tape, self.decoder, y, rows, shape.vocab_size, LOGITS)
        masked_loss(tape, logits)


class Classes:
    """The head for classes: the first token of each sequence, through a layer and a projection."""

    def __init__(self, tape: Tape, shape: Architecture) -> None:
        hidden, self.bert = shape.hidden_size, shape.name == "bert"
        prefix = "bert.pooler" if self.bert else "classifier"
        self.whole = tape.module(prefix)
        self.dense = tape.projection(f"{prefix}.dense", hidden, hidden, hidden)
        self.act = tape.module(f"{prefix}.activation")
        self.kept = tape.module("dropout" if self.bert else f"{prefix}.dropout")
        last = "classifier" if self.bert else f"{prefix}.out_proj"
        self.classes = tape.module(last, (shape.num_labels, hidden), shape.num_labels, casts=True)

    def pooled(self, tape: Tape, work: MicroBatch, x: Tensor) -> Tensor:
        """The first token of each sequence, through the layer."""
        hidden = self.dense.weights[0].shape[0]
        with tape.scope(self.whole):
            first = tape.op([x], tape.tensor(work.micro_batch_size * hidden, x.itemsize))
            return relu(
                tape, self.act, linear(tape, self.dense, first, work.micro_batch_size, hidden, flat=True)
            )

    def loss(self, tape: Tape, shape: Architecture, work: MicroBatch, x: Tensor) -> None:
        """Logits of the classes, and their loss."""
        if not self.bert:
            x = self.pooled(tape, work, x)
        with tape.scope(self.kept):
            x = dropout(tape, x, shape.dropout)
        masked_loss(tape, linear(tape, self.classes, x, work.micro_batch_size, shape.num_labels, flat=True))


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    rows, name = work.micro_batch_size * work.sequence_length, shape.name
    root, model = tape.module("", inputs_require_grad=False), tape.module(name, inputs_require_grad=False)
    embeddings = Embeddings(tape, shape, f"{name}.embeddings")
    encoder = tape.module(f"{name}.encoder")
    layers = [Layer(tape, shape, f"{name}.encoder.layer.{index}") for index in range(shape.num_layers)]
    head = Classes(tape, shape) if shape.num_labels else Words(tape, shape, embeddings.tables["word"])
    tape.input_bytes = 8 * (work.micro_batch_size if shape.num_labels else rows)
    if not work.records_pass:
        return tape
    size = shape.hidden_size // shape.num_heads
    sizes = (shape.num_heads, shape.num_heads, size, work.micro_batch_size, work.sequence_length)
    heads = Heads(*sizes, shape.attention_dropout, bare=True, upcast=False)
    with tape.scope(root):
        with tape.scope(model):
            x = embeddings.compute(tape, shape, work)
            with tape.scope(encoder):
                for layer in layers:
                    x = bert_layer(tape, shape, layer, heads, work, x)
            if isinstance(head, Classes) and shape.name == "bert":
                x = head.pooled(tape, work, x)
        head.loss(tape, shape, work, x)
    return tape


def bert_layer(
    tape: Tape, shape: Architecture, layer: Layer, heads: Heads, work: MicroBatch, x: Tensor
) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden_size
    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        with tape.scope(layer.attention, x):
            with tape.scope(layer.own):
                parts = [linear(tape, module, x, rows, hidden) for module in layer.inputs]
                y = attend(tape, work.attn_implementation, heads, parts[0], parts[1], parts[2])
            x = layer.mixed.compute(tape, y, x, rows, shape)
        with tape.scope(layer.between, x):
            y = activation(tape, layer.act, linear(tape, layer.up, x, rows, shape.intermediate_size))
        return layer.output.compute(tape, y, x, rows, shape)
