"""Mistakes in keys of the root."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake, root

ROOT = (
    Mistake(
        root(train_batch_size="8"),
        "train_batch_size",
        "value",
        'expected a positive integer, null or "auto"',
    ),
    Mistake(root(train_batch_size=0), "train_batch_size", "value", "Value is below the minimum of 1."),
    Mistake(
        root(train_batch_size=1.5),
        "train_batch_size",
        "value",
        'expected a positive integer, null or "auto"',
    ),
    Mistake(
        root(train_micro_batch_size_per_gpu="automatic"),
        "train_micro_batch_size_per_gpu",
        "value",
        'expected a positive integer, null or "auto"',
    ),
    Mistake(
        root(gradient_accumulation_steps=-1),
        "gradient_accumulation_steps",
        "value",
        "Value is below the minimum of 1.",
    ),
    Mistake(
        root(gradient_clipping="1.0"),
        "gradient_clipping",
        "value",
        'expected a non-negative number or "auto"',
    ),
    Mistake(root(gradient_clipping=-1), "gradient_clipping", "value", "Value is below the minimum of 0."),
    Mistake(
        root(gradient_clipp1ng=1.0), "gradient_clipp1ng", "key", "Property gradient_clipp1ng is not allowed."
    ),
    Mistake(
        root(steps_per_print="10"),
        "steps_per_print",
        "value",
        "Incorrect type. Expected one of integer, null.",
    ),
    Mistake(
        root(prescale_gradients="false"),
        "prescale_gradients",
        "value",
        'Incorrect type. Expected "boolean".',
    ),
)
