"""Elasticity, up to 0.19.7."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    BATCH,
    BOOL,
    SHAPES,
    Pool,
    Situation,
)

E = "elasticity"
MICRO_BATCHES: Pool = ([2, 4, 6], [1], [8, 12, 16, 17], [3, 7], [2, 2], [32], [1, 2, 3, 4])
TOTALS: Pool = (2000, 10_000, 64, 100, 6, 1, 48, 512)
ON: dict[str, Pool] = {
    f"{E}.enabled": (True,),
    f"{E}.max_train_batch_size": TOTALS,
    f"{E}.micro_batch_sizes": MICRO_BATCHES,
}
ELASTICITY = (
    Situation("elastic", ON | {f"{E}.version": (0.1, 0.1, 0.2, ABSENT)}, drops=BATCH, until=(0, 19, 7)),
    Situation(
        "elastic-borders",
        ON
        | {
            f"{E}.min_gpus": (1, 0, 2, 4, 8, 64, -1, "1", 1.5, None, ABSENT),
            f"{E}.max_gpus": (1, 0, 2, 4, 8, 64, 1000, -1, "8", None, ABSENT),
            f"{E}.min_time": (0, 20, -1, "x", None, ABSENT),
            f"{E}.prefer_larger_batch": (True, False, "x", ABSENT),
        },
        drops=BATCH,
        until=(0, 19, 7),
    ),
    Situation(
        "elastic-micro-batches",
        {
            f"{E}.enabled": (True, True, True, "false", 1),
            f"{E}.max_train_batch_size": (2000, 4, 0, -1, "2000", 100.5, 1e3, None, True, ABSENT),
            f"{E}.micro_batch_sizes": (
                [2, 4],
                [],
                [0],
                [-1],
                [2.0],
                ["2"],
                [True],
                4,
                "auto",
                None,
                {},
                [5000],
                ABSENT,
            ),
        },
        drops=BATCH,
        until=(0, 19, 7),
    ),
    Situation(
        "elastic-version",
        ON
        | {
            f"{E}.version": (0.1, 0.2, 0.3, "0.1", "0.2", 0.15, 0, -1, None, "x", True, 1, ABSENT),
            f"{E}.model_parallel_size": (1, 2, 4, 0, 3, "2", None, ABSENT),
            f"{E}.num_gpus_per_node": (1, 2, 4, 8, 0, "4", 3, None, ABSENT),
        },
        drops=BATCH,
        until=(0, 19, 7),
    ),
    Situation(
        "elastic-nodes",
        {
            f"{E}.enabled": (True,),
            f"{E}.max_train_batch_size": (64, 256, 2000, 10_000),
            f"{E}.micro_batch_sizes": ([2, 4], [2, 4, 6], [8], [1, 3]),
            f"{E}.version": (0.2,),
            f"{E}.min_gpus": (1, 2, 4, 8, 16),
            f"{E}.max_gpus": (4, 8, 16, 64, 1000),
            f"{E}.model_parallel_size": (1, 2, 4),
            f"{E}.num_gpus_per_node": (1, 2, 4, 8),
            f"{E}.prefer_larger_batch": BOOL,
        },
        drops=BATCH,
        until=(0, 19, 7),
    ),
    Situation(
        "elastic-and-batch",
        ON
        | {
            f"{E}.ignore_non_elastic_batch_info": (True, True, False, "x", 0, ABSENT),
            "train_batch_size": (lambda w: 8 * w, "auto", None, ABSENT),
            "train_micro_batch_size_per_gpu": (2, ABSENT, "x"),
            "gradient_accumulation_steps": (1, ABSENT, ABSENT),
        },
        drops=BATCH,
        until=(0, 19, 7),
    ),
    Situation(
        "elastic-off",
        {
            f"{E}.enabled": (False, None, 0, "", ABSENT),
            f"{E}.micro_batch_sizes": (ABSENT, "x", []),
            f"{E}.version": (ABSENT, "x", 9),
        },
    ),
    Situation("elastic-shape", {E: SHAPES}),
)
