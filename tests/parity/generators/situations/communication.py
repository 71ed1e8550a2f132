"""Data types and scaling of collectives."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    BOOL,
    STAGES,
    TRUTHY,
    Pool,
    Situation,
)

DATA_TYPES: Pool = (
    "fp16",
    "FP32",
    "Bf16",
    "fp64",
    "float16",
    "",
    "auto",
    None,
    16,
    True,
    ["fp16"],
    {},
    ABSENT,
)
COMMUNICATION = (
    Situation(
        "communication-dtype",
        {"communication_data_type": DATA_TYPES, "fp16.enabled": BOOL, "zero_optimization.stage": STAGES},
    ),
    Situation(
        "sequence-communication-dtype",
        {"seq_parallel_communication_data_type": DATA_TYPES, "seq_parallel_comm_data_type": DATA_TYPES},
    ),
    Situation(
        "allreduce-sum",
        {
            "gradient_allreduce_op": ("sum", "SUM", "sum", "mean", "Mean", "avg", "auto", None, 1, ABSENT),
            "zero_optimization.stage": STAGES,
            "zero_optimization.zenflow": (ABSENT, ABSENT, {}, None, {"topk_ratio": 0.1}),
            "compile.deepcompile": (ABSENT, True, False, "auto"),
        },
    ),
    Situation(
        "prescale",
        {
            "prescale_gradients": TRUTHY,
            "gradient_predivide_factor": (1.0, 0, "8", None, "auto"),
            "fp32_allreduce": TRUTHY,
        },
    ),
    Situation("sparse-gradients", {"sparse_gradients": TRUTHY, "zero_optimization.stage": STAGES}),
    Situation(
        "clipping",
        {
            "gradient_clipping": (1.0, 0, -1, "auto", "1.0", None, True, [1], {}),
            "optimizer.params.max_grad_norm": (1.0, 0, "auto", None, ABSENT),
        },
    ),
)
