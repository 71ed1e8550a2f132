"""Other keys that later releases lost."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    SHAPES,
    TRUTHY,
    Situation,
)

GONE = (
    Situation(
        "layer-drop", {"progressive_layer_drop": (*SHAPES, {"enabled": True, "theta": 0.5}, {"theta": 0.5})}
    ),
    Situation(
        "old-curriculum",
        {
            "curriculum_learning.enabled": (True, True, False, "x", ABSENT),
            "curriculum_learning.curriculum_type": ("seqlen", "x", ABSENT),
            "curriculum_learning.min_difficulty": (8, "x", ABSENT),
            "curriculum_learning.schedule_type": ("fixed_linear", "nope", ABSENT),
            "curriculum_learning.schedule_config": (ABSENT, {}, None),
        },
        until=(0, 19, 7),
    ),
    Situation("old-curriculum-shape", {"curriculum_learning": SHAPES}),
    Situation(
        "sparse-attention",
        {
            "sparse_attention.mode": (
                "dense",
                "fixed",
                "variable",
                "bigbird",
                "bslongformer",
                "Fixed",
                "x",
                None,
                "auto",
                1,
                [],
                ABSENT,
            ),
            "sparse_attention.block": (ABSENT, 16, "x"),
            "sparse_attention.num_local_blocks": (ABSENT, 4, None),
            "sparse_attention.attention": (ABSENT, "unidirectional", "x"),
        },
        until=(0, 19, 6),
    ),
    Situation("sparse-attention-shape", {"sparse_attention": SHAPES}),
    Situation(
        "nebula",
        {
            "nebula": (
                *SHAPES,
                {"enabled": True, "persistent_storage_path": "/p", "persistent_time_interval": 100},
                {"enabled": True, "persistent_storage_path": None},
            )
        },
    ),
    Situation(
        "gone-at-the-root",
        {
            name: (ABSENT, ABSENT, ABSENT, None, {}, False)
            for name in (
                "nebula",
                "amp",
                "elasticity",
                "eigenvalue",
                "sparse_gradients",
                "compression_training",
                "quantize_training",
                "sparse_attention",
            )
        },
    ),
    Situation(
        "old-root-keys",
        {
            "disable_allgather": TRUTHY,
            "allreduce_always_fp32": TRUTHY,
            "fp32_allreduce": TRUTHY,
            "allgather_size": (5e8, "x", None, ABSENT),
        },
    ),
)
