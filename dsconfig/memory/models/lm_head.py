"""The end of a language model: logits and their loss, in fp32 (Transformers' `ForCausalLMLoss`)."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.memory.graph import Module, Tape, Tensor, Weight
from dsconfig.memory.layers import cast, kept, widened
from dsconfig.memory.models.shape import Shape, Work

LOGITS = "logits and loss"


def head_of(tape: Tape, words: Module, shape: Shape) -> Module:
    """The projection onto the vocabulary, whose weight may be the table of words."""
    own = () if shape.tied else ((shape.vocabulary // shape.parts, shape.hidden),)
    head = tape.module("lm_head", *own, casts=True)
    if shape.tied:
        head.weights = words.weights
        tape.untied = shape.vocabulary * shape.hidden
    return head


def embedded(tape: Tape, table: Module, count: int, work: Work, scaled: bool = False) -> Tensor:
    """Words by their table; multiplied by the root of the width in Gemma."""
    with tape.inside(table):
        x = tape.step([], tape.tensor(count), weights=table.weights)
        if scaled:
            x = tape.step([x], tape.tensor(count))
        if work.starts_gradients:
            tape.start(x)
    return x


def language_loss(
    tape: Tape,
    head: Module,
    weights: Sequence[Weight],
    x: Tensor,
    rows: int,
    vocabulary: int,
    parts: int = 1,
    capped: bool = False,
) -> None:
    """The projection onto the vocabulary and the cross entropy of it; `parts`: ranks that share it.

    `capped`: logits are divided, go through a tanh, and are multiplied (Gemma).
    """
    width = 2 if tape.autocast else tape.width
    hidden = x
    with tape.inside(head):
        x = cast(tape, x, width)
        logits = tape.tensor(rows * vocabulary // parts, width, label=LOGITS)
        tape.step([x], logits, kept(tape, x, weights), weights)
        if parts > 1:  # gathered side by side, then put together (`GatherFromTensorParallelRegion`)
            whole = tape.tensor(rows * vocabulary, width, label=LOGITS)
            logits = tape.step([logits], whole, temporary=whole.bytes)
    if capped:
        count, curve = logits.elements, tape.tensor(logits.elements, width, label=LOGITS)
        tape.step([tape.step([logits], tape.tensor(count, width, label=LOGITS))], curve, [curve])
        logits = tape.step([curve], tape.tensor(count, width, label=LOGITS))
    cross_entropy(tape, hidden, logits, rows)


def cross_entropy(tape: Tape, hidden: Tensor, logits: Tensor, rows: int) -> None:
    """The mean over all rows; what the model made, and the logits, have names in Python until it is there."""
    full = logits
    if logits.width != 4:
        full = tape.step([logits], tape.tensor(logits.elements, 4, label=LOGITS))
    labels = tape.tensor(rows, 8, needs=False)
    tape.step([], labels)
    odds = tape.tensor(logits.elements, 4, label=LOGITS)
    tape.step([full], odds, [odds])
    loss = tape.tensor(1, 4)
    tape.step([odds, labels], loss, [odds, labels])
    tape.hold(hidden, logits, *([full] if full is not logits else []))
    tape.step([loss], tape.tensor(1, 4), shares=True)


def masked_loss(tape: Tape, logits: Tensor) -> None:
    """The mean over all rows, in the type of the logits; autocast computes it in fp32."""
    full = widened(tape, logits)
    odds = tape.tensor(full.elements, full.width, label=LOGITS)
    tape.step([full], odds, [odds])
    loss = tape.tensor(1, full.width)
    tape.step([odds], loss, [odds])
    tape.hold(logits)
    tape.step([loss], tape.tensor(1, 4), shares=True)
