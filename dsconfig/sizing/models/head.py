"""The end of a language model: logits and their loss, in fp32 (Transformers' `ForCausalLMLoss`)."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.sizing.layers import cast, kept
from dsconfig.sizing.tape import Module, Tape, Tensor, Weight

LOGITS = "logits and loss"


def language_loss(
    tape: Tape, head: Module, weights: Sequence[Weight], x: Tensor, rows: int, vocabulary: int, parts: int = 1
) -> None:
    """The projection onto the vocabulary and the cross entropy of it; `parts`: ranks that share it."""
    width = 2 if tape.autocast else tape.width
    with tape.inside(head):
        x = cast(tape, x, width)
        logits = tape.tensor(rows * vocabulary // parts, width, label=LOGITS)
        tape.step([x], logits, kept(tape, x, weights), weights)
        if parts > 1:  # gathered side by side, then put together (`GatherFromTensorParallelRegion`)
            whole = tape.tensor(rows * vocabulary, width, label=LOGITS)
            logits = tape.step([logits], whole, temporary=whole.bytes)
    cross_entropy(tape, logits, rows)


def cross_entropy(tape: Tape, logits: Tensor, rows: int) -> None:
    """The mean over all rows; the logits have names in Python until it is there."""
    full = logits
    if logits.width != 4:
        full = tape.step([logits], tape.tensor(logits.elements, 4, label=LOGITS))
    labels = tape.tensor(rows, 8, needs=False)
    tape.step([], labels)
    odds = tape.tensor(logits.elements, 4, label=LOGITS)
    tape.step([full], odds, [odds])
    loss = tape.tensor(1, 4)
    tape.step([odds, labels], loss, [odds, labels])
    tape.hold(logits, *([full] if full is not logits else []))
    tape.step([loss], tape.tensor(1, 4), shares=True)
