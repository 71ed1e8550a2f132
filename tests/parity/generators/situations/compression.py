"""Compression, up to 0.19.6."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.parity.generators.situations.base import (
    ABSENT,
    SHAPES,
    Pool,
    Situation,
)

C = "compression_training"
GROUP: dict[str, Any] = {"g": {"params": {"dense_ratio": 0.5}, "modules": ["a"]}}
BITS: dict[str, Any] = {"g": {"params": {"start_bits": 8, "target_bits": 4}}}
PRUNING_GROUPS: Pool = (
    ABSENT,
    {},
    GROUP,
    GROUP,
    {"g": {"params": {}}},
    {"g": {}},
    {"g": None},
    None,
    [],
    {"g": {"params": {"dense_ratio": "x"}}},
)
STEPS: Pool = (1000, 0, -1, 1.5, "x", None, ABSENT)


def _pruning(name: str, methods: Pool) -> Situation:
    """What compression/config.py asks of one pruning technique."""
    here = f"{C}.{name}"
    return Situation(
        name.replace("_", "-"),
        {
            f"{here}.shared_parameters.enabled": (True, True, True, False, "false", ABSENT),
            f"{here}.shared_parameters.method": methods,
            f"{here}.shared_parameters.schedule_offset": STEPS,
            f"{here}.shared_parameters.num_heads": (12, ABSENT, None),
            f"{here}.different_groups": PRUNING_GROUPS,
        },
        since=(0, 6),
        until=(0, 19, 6),
    )


COMPRESSION = (
    Situation("compression-shape", {C: SHAPES}, since=(0, 6)),
    *(
        Situation(
            f"compression-{name}-{part}",
            {f"{C}.{name}.{part}": SHAPES, f"{C}.{name}.shared_parameters.enabled": (ABSENT, True)},
            since=(0, 6),
            until=(0, 19, 6),
        )
        for name, part in product(
            ("weight_quantization", "activation_quantization", "row_pruning", "head_pruning"),
            ("shared_parameters", "different_groups"),
        )
    ),
    _pruning("row_pruning", ("l1", "topk", "L1", "x", None, ABSENT)),
    _pruning("channel_pruning", ("l1", "topk", "x", ABSENT)),
    _pruning("head_pruning", ("topk", "topk", "l1", "x", ABSENT)),
    _pruning("sparse_pruning", ("l1", "topk", "snip_momentum", "x", ABSENT)),
    Situation(
        "sparse-pruning-momentum",
        {
            f"{C}.sparse_pruning.shared_parameters.enabled": (True,),
            f"{C}.sparse_pruning.shared_parameters.method": ("snip_momentum", "snip_momentum", "topk"),
            f"{C}.sparse_pruning.shared_parameters.dense_ratio": (0.5, 0, 1, 0.99, 1.01, "x", None, ABSENT),
            f"{C}.sparse_pruning.shared_parameters.schedule_offset": (100, 1000, 0, "x", ABSENT),
            f"{C}.sparse_pruning.shared_parameters.schedule_offset_end": (100, 99, 2000, "x", ABSENT),
            f"{C}.sparse_pruning.shared_parameters.block_pattern": ("4x1", "x", ABSENT),
            f"{C}.sparse_pruning.different_groups": (ABSENT, GROUP),
        },
        since=(0, 6),
        until=(0, 19, 6),
    ),
    Situation(
        "weight-compression",
        {
            f"{C}.weight_quantization.shared_parameters.enabled": (True, True, False, ABSENT),
            f"{C}.weight_quantization.shared_parameters.quantization_type": (
                "symmetric",
                "asymmetric",
                "x",
                None,
                ABSENT,
            ),
            f"{C}.weight_quantization.shared_parameters.rounding": ("nearest", "stochastic", "up", ABSENT),
            f"{C}.weight_quantization.shared_parameters.fp16_mixed_quantize": (
                ABSENT,
                ABSENT,
                {},
                {"enabled": True},
                None,
                [],
            ),
            f"{C}.weight_quantization.different_groups": (
                ABSENT,
                BITS,
                BITS,
                {"g": {"params": {"start_bits": 8}}},
                {"g": {"params": None}},
                {},
            ),
        },
        since=(0, 6),
        until=(0, 19, 6),
    ),
    Situation(
        "activation-compression",
        {
            f"{C}.activation_quantization.shared_parameters.enabled": (True, True, False),
            f"{C}.activation_quantization.shared_parameters.quantization_type": (
                "symmetric",
                "asymmetric",
                "x",
                ABSENT,
            ),
            f"{C}.activation_quantization.shared_parameters.range_calibration": (
                "dynamic",
                "static",
                "x",
                ABSENT,
            ),
            f"{C}.activation_quantization.different_groups": (
                ABSENT,
                {"g": {"params": {"bits": 8}}},
                {"g": {"params": {}}},
                {},
            ),
        },
        since=(0, 6),
        until=(0, 19, 6),
    ),
    Situation(
        "layer-reduction",
        {f"{C}.layer_reduction": (*SHAPES, {"enabled": True, "keep_number_layer": 4})},
        since=(0, 6),
        until=(0, 19, 6),
    ),
)
