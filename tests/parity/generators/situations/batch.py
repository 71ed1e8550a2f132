"""Batch keys."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    BATCH,
    Situation,
)

TOTAL, MICRO, STEPS = BATCH
BATCH_SITUATIONS = (
    Situation(
        "batch-all-three",
        {
            TOTAL: (lambda w: 8 * w, lambda w: 8 * w + 1, lambda w: 16 * w, 64, 32.0, lambda w: 8.0 * w),
            MICRO: (2, 4, 8, 4.0, 1),
            STEPS: (1, 2, 4, 2.0),
        },
        drops=BATCH,
    ),
    Situation(
        "batch-all-three-agreeing",
        {TOTAL: (lambda w: 8 * w,), MICRO: (4,), STEPS: (2, 2, 2.0, 3)},
        drops=BATCH,
    ),
    Situation(
        "batch-total-and-micro",
        {
            TOTAL: (lambda w: 4 * w, lambda w: 12 * w, lambda w: 4 * w - 1, lambda w: w, 30, 1, 7, 100.0),
            MICRO: (1, 2, 3, 4, 5, 8, 0, -1, 2.5),
        },
        drops=BATCH,
    ),
    Situation(
        "batch-total-and-steps",
        {TOTAL: (lambda w: 4 * w, lambda w: 6 * w + 1, 30, 3, 64.0), STEPS: (1, 2, 3, 4, 0, -2, 1.5)},
        drops=BATCH,
    ),
    Situation(
        "batch-micro-and-steps",
        {MICRO: (1, 4, 0, -1, 1.5, True, False), STEPS: (1, 2, 0, -1, 2.0, 0.5, True)},
        drops=BATCH,
    ),
    Situation(
        "batch-total-alone", {TOTAL: (1, 2, 3, 7, 8, 16, 30, 64, 64.0, 63.5, 0, -8, True)}, drops=BATCH
    ),
    Situation("batch-micro-alone", {MICRO: (1, 3, 0, -1, 2.0, 0.5, True, False, 1e3)}, drops=BATCH),
    Situation("batch-steps-alone-or-nothing", {STEPS: (1, 4, ABSENT, ABSENT, None)}, drops=BATCH),
    Situation(
        "batch-no-numbers",
        {
            TOTAL: (ABSENT, "auto", "32", None, lambda w: 8 * w, [8], {}, True, ""),
            MICRO: (ABSENT, "auto", "4", None, 4, [4], {}, False),
            STEPS: (ABSENT, "auto", "1", None, 2, [1], "x"),
        },
        drops=BATCH,
    ),
    Situation(
        "batch-zero-or-negative",
        {
            TOTAL: (lambda w: 8 * w, lambda w: -8 * w, 0, 0.0, ABSENT),
            MICRO: (4, -4, 0, 0.0, False, ABSENT),
            STEPS: (2, -2, 0, 0.0, False, ABSENT),
        },
        drops=BATCH,
    ),
    Situation(
        "batch-fractions",
        {
            TOTAL: (lambda w: 8.5 * w, lambda w: w / 2, 1e3, 1e20, 10**20, ABSENT),
            MICRO: (0.5, 1.5, 2.0, 1e-3, ABSENT),
            STEPS: (0.5, 1.5, 2.0, ABSENT),
        },
        drops=BATCH,
    ),
    Situation(
        "sequence-parallel-world",
        {
            "sequence_parallel_size": (
                1,
                2,
                4,
                3,
                0,
                -1,
                "2",
                0.5,
                True,
                None,
                [1],
                lambda w: w,
                lambda w: 2 * w,
            ),
            TOTAL: (ABSENT, 8, lambda w: 4 * w, lambda w: 2 * w),
            MICRO: (1, 2, ABSENT),
            STEPS: (ABSENT, 1, 2),
        },
        drops=BATCH,
    ),
    Situation(
        "batch-and-tensor-parallel",
        {
            "tensor_parallel.autotp_size": (1, 2, 4, "auto", "2"),
            TOTAL: (lambda w: 8 * w, 8),
            MICRO: (2, ABSENT),
        },
        drops=BATCH,
    ),
)
