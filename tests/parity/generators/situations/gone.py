"""Features that 0.19.7 and 0.19.8 removed: what older releases check in them; newer ones refuse them."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.parity.generators.situations.base import ABSENT, BATCH, BOOL, SHAPES, TRUTHY, Pool, Situation

E = "elasticity"
C = "compression_training"
Q = "quantize_training"
MICRO_BATCHES: Pool = ([2, 4, 6], [1], [8, 12, 16, 17], [3, 7], [2, 2], [32], [1, 2, 3, 4])
TOTALS: Pool = (2000, 10_000, 64, 100, 6, 1, 48, 512)
ON: dict[str, Pool] = {
    f"{E}.enabled": (True,),
    f"{E}.max_train_batch_size": TOTALS,
    f"{E}.micro_batch_sizes": MICRO_BATCHES,
}
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

MOQ = (
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
            f"{C}.shared_parameters": ({"enabled": True}, {"enabled": True}, {"enabled": False}, {}, None),
            f"{C}.shared_parameters.quantization_type": (ABSENT, "symmetric", "x"),
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

LEGACY = (
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
                C,
                Q,
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

GONE = (*ELASTICITY, *COMPRESSION, *MOQ, *LEGACY)
