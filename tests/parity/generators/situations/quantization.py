"""Quantization while training, with eigenvalues."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    SHAPES,
    TRUTHY,
    Pool,
    Situation,
)

Q = "quantize_training"
STEPS: Pool = (1000, 0, -1, 1.5, "x", None, ABSENT)

QUANTIZATION = (
    Situation(
        "moq",
        {
            f"{Q}.enabled": (True, True, False, ABSENT),
            f"{Q}.eigenvalue": (
                ABSENT,
                ABSENT,
                {},
                {"enabled": False},
                {"enabled": True},
                {"enabled": True, "layer_name": "a"},
                None,
            ),
            f"{Q}.quantize_bits": (
                ABSENT,
                {},
                {"start_bits": 16, "target_bits": 8},
                None,
                {"start_bits": 16},
            ),
            f"{Q}.quantize_schedule": (ABSENT, {}, {"quantize_period": 10}, None, {"schedule_offset": 10}),
            f"{Q}.quantize_algo": (ABSENT, {}, {"q_type": "symmetric"}, {"q_type": "x", "rounding": "y"}, []),
            f"{Q}.fp16_mixed_quantize": (ABSENT, {}, {"enabled": True}, None),
        },
        until=(0, 19, 6),
    ),
    Situation(
        "moq-by-compression",  # get_quantize_enabled() looks for `shared_parameters` one level too high
        {
            "compression_training.shared_parameters": (
                {"enabled": True},
                {"enabled": True},
                {"enabled": False},
                {},
                None,
            ),
            "compression_training.shared_parameters.quantization_type": (ABSENT, "symmetric", "x"),
            Q: ({"eigenvalue": {"enabled": True}}, {"eigenvalue": {"enabled": False}}, {}, None, ABSENT),
        },
        since=(0, 7),
        until=(0, 19, 6),
    ),
    Situation("moq-shape", {Q: SHAPES, "eigenvalue": (ABSENT, {"enabled": True}, {"enabled": False}, {})}),
    Situation(
        "eigenvalue",
        {
            "eigenvalue.enabled": TRUTHY,
            "eigenvalue.max_iter": (ABSENT, 100, "x"),
            "eigenvalue.layer_name": (ABSENT, "a", "", 1),
            "eigenvalue.layer_num": (ABSENT, 0, "x"),
            Q: (ABSENT, ABSENT, {}, {"enabled": True}),
        },
        until=(0, 19, 7),
    ),
    Situation("eigenvalue-shape", {"eigenvalue": SHAPES}),
)
