"""Batch keys, precision, communication, optimizer and scheduler."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    BATCH,
    BOOL,
    SHAPES,
    STAGES,
    TRUTHY,
    Pool,
    Situation,
)

TOTAL, MICRO, STEPS = BATCH
COMMUNICATION: Pool = (
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
LOSS_SCALES: Pool = (
    0,
    0.0,
    1,
    128,
    -1,
    -0.5,
    "128",
    "0",
    "dynamic",
    "",
    "inf",
    "nan",
    "1e3",
    True,
    False,
    None,
    [1],
    1e400,
)
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

PRECISION = (
    Situation("fp16-and-bf16", {"fp16.enabled": TRUTHY, "bf16.enabled": TRUTHY}),
    Situation(
        "fp16-and-bfloat16",
        {"fp16.enabled": TRUTHY, "bfloat16.enabled": TRUTHY, "bf16": (ABSENT, None, {}, {"enabled": False})},
    ),
    Situation(
        "fp16-and-amp",
        {
            "fp16.enabled": BOOL,
            "amp": (ABSENT, {"enabled": True}, {"enabled": False}, {}, {"opt_level": "O1"}),
        },
    ),
    Situation("bf16-and-stage", {"bf16.enabled": (True,), "zero_optimization.stage": STAGES}),
    Situation("bfloat16-and-stage", {"bfloat16.enabled": (True,), "zero_optimization.stage": STAGES}),
    Situation(
        "fp16-master-weights",
        {
            "fp16.enabled": (True, True, False, ABSENT),
            "fp16.fp16_master_weights_and_grads": TRUTHY,
            "zero_optimization.stage": STAGES,
            "zero_optimization.offload_optimizer": (ABSENT, {"device": "cpu"}, {"device": "none"}),
        },
    ),
    Situation(
        "bf16-master-weights",
        {
            "bf16.enabled": (True, True, False),
            "bf16.bf16_master_weights_and_grads": (True, True, False, ABSENT, "auto"),
            "bf16.bf16_optimizer_states": (True, False, ABSENT, "auto"),
            "zero_optimization.stage": STAGES,
        },
        since=(0, 17),
    ),
    Situation(
        "fp16-dynamic-scale",
        {
            "fp16.enabled": (True, True, False, "auto"),
            "fp16.loss_scale": (0, 0, ABSENT, 128, "0", "128"),
            "fp16.loss_scale_window": (1, 0, -1, 1000, 1.5, 1000.0, True, "100", ABSENT),
            "fp16.min_loss_scale": (1, 0, -1, 0.5, 1.0, False, "1", ABSENT),
            "fp16.hysteresis": (1, 0, -1, 2.0, True, ABSENT),
        },
    ),
    Situation("fp16-loss-scale", {"fp16.enabled": BOOL, "fp16.loss_scale": LOSS_SCALES}),
    Situation(
        "fp16-initial-scale",
        {
            "fp16.enabled": (True, True, False),
            "fp16.initial_scale_power": (
                16,
                0,
                -1,
                32,
                12.5,
                "16",
                None,
                True,
                1024,
                "auto",
                [],
                1e3,
                ABSENT,
            ),
            "fp16.min_loss_scale": (ABSENT, 1, 0, "1"),
        },
    ),
    Situation(
        "fp16-old-keys",
        {
            "fp16.enabled": BOOL,
            "fp16.opt_level": (ABSENT, "O1", "O2"),
            "fp16.auto_cast": BOOL,
            "fp16.type": ("fp16", ABSENT),
        },
    ),
    Situation(
        "fp16-bf16-typed",
        {
            "fp16.enabled": (True, False, ABSENT),
            "fp16.type": ("bfloat16", "fp16", ABSENT),
            "zero_optimization.stage": STAGES,
        },
    ),
    Situation(
        "bf16-with-loss-scale-keys",
        {
            "bf16.enabled": BOOL,
            "bf16.loss_scale": (0, ABSENT),
            "bf16.loss_scale_window": (1000, ABSENT),
            "bf16.initial_scale_power": (16, ABSENT),
            "bf16.hysteresis": (2, ABSENT),
            "bf16.min_loss_scale": (1, ABSENT),
            "bf16.auto_cast": (False, ABSENT),
        },
    ),
    Situation("precision-as-shapes", {"fp16": SHAPES, "bf16": SHAPES}),
    Situation("amp-and-zero", {"amp": (*SHAPES, {"enabled": "auto"}), "zero_optimization.stage": STAGES}),
    Situation(
        "torch-autocast",
        {
            "torch_autocast.enabled": TRUTHY,
            "torch_autocast.dtype": (
                "bfloat16",
                "fp16",
                "BF16",
                "int8",
                "float64",
                "auto",
                None,
                16,
                [],
                {},
                "torch.bfloat16",
                ABSENT,
            ),
            "torch_autocast.lower_precision_safe_modules": (
                ["torch.nn.Linear"],
                [],
                [1],
                "torch.nn.Linear",
                None,
                {},
                3,
                "",
                {"a": 1},
                ABSENT,
            ),
        },
    ),
    Situation(
        "data-types",
        {
            "data_types.grad_accum_dtype": ("fp32", "fp16", "BF16", "fp64", "auto", None, 32, ABSENT),
            "data_types.param_dtype": ("bf16", "auto", None, 7, ABSENT),
            "data_types.buffer_dtype": ("fp32", "nope", ABSENT),
            "data_types.keep_in_fp32_modules": (
                "auto",
                [],
                ["norm"],
                ["norm", 1],
                "norm",
                None,
                True,
                {},
                ABSENT,
            ),
            "bf16.enabled": BOOL,
        },
    ),
)

COMMUNICATION_SITUATIONS = (
    Situation(
        "communication-dtype",
        {"communication_data_type": COMMUNICATION, "fp16.enabled": BOOL, "zero_optimization.stage": STAGES},
    ),
    Situation(
        "sequence-communication-dtype",
        {"seq_parallel_communication_data_type": COMMUNICATION, "seq_parallel_comm_data_type": COMMUNICATION},
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

OPTIMIZER = (
    Situation(
        "optimizer-type",
        {
            "optimizer.type": ("Adam", "adamw", "Nonesuch", "", None, 1, True, ["Adam"], {}, "auto", ABSENT),
            "optimizer.params": ({"lr": 0.1}, {}, None, [], "x", 1, ABSENT),
            "optimizer.legacy_fusion": (True, "x", None, ABSENT),
        },
    ),
    Situation(
        "optimizer-max-grad-norm",
        {
            "optimizer.type": ("Adam", "Lamb", None, "Custom", ABSENT),
            "optimizer.params.max_grad_norm": (1.0, 0, -1, "auto", "1", None, True, [1], {}),
            "fp16.enabled": BOOL,
        },
    ),
    Situation(
        "optimizer-and-scheduler-shapes",
        {"optimizer": (*SHAPES, "Adam"), "scheduler": (*SHAPES, "WarmupLR", ABSENT)},
    ),
    Situation(
        "scheduler",
        {
            "scheduler.type": ("WarmupLR", "Nonesuch", None, 1, [], "auto", ABSENT),
            "scheduler.params": (
                {"warmup_num_steps": 10},
                {},
                None,
                [],
                "x",
                ABSENT,
                {"warmup_num_steps": "auto"},
            ),
        },
    ),
    Situation(
        "untested-optimizer",
        {
            "zero_allow_untested_optimizer": TRUTHY,
            "zero_force_ds_cpu_optimizer": TRUTHY,
            "zero_optimization.stage": STAGES,
        },
    ),
    Situation(
        "vocabulary",
        {
            "vocabulary_size": (
                50304,
                50257,
                0,
                -1,
                "50304",
                "auto",
                None,
                8.5,
                True,
                [],
                [1],
                {},
                {"a": 1},
                "%d",
            ),
            "fp16.enabled": BOOL,
        },
    ),
)

TRAINING = (*BATCH_SITUATIONS, *PRECISION, *COMMUNICATION_SITUATIONS, *OPTIMIZER)
