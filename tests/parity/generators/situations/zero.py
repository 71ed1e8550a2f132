"""ZeRO: stages, offload, ZenFlow, leaf modules, and the keys that came and went."""

from __future__ import annotations

from tests.parity.generators.situations.base import ABSENT, BOOL, SHAPES, STAGES, TRUTHY, Pool, Situation

Z = "zero_optimization"
DEVICES: Pool = ("cpu", "none", "nvme", "CPU", "disk", "auto", None, 0, True, ABSENT)
SIZES: Pool = (
    500_000_000,
    0,
    1,
    -1,
    5e8,
    1.5,
    "500000000",
    "5e8",
    "5_000",
    True,
    None,
    "auto",
    10**20,
    ABSENT,
)
FRACTION: Pool = (1.0, 0, 0.0, 0.5, 1, 1.01, -0.01, "0.5", None, True, "auto", ABSENT)
OLD: Pool = (True, False, None, "auto", ABSENT, ABSENT)
OFFLOADS: Pool = (
    ABSENT,
    {},
    {"device": "cpu"},
    None,
    "auto",
    True,
    "cpu",
    {"device": "nvme", "nvme_path": "/n"},
    [],
)

ZERO = (
    Situation(
        "zero-stage",
        {
            f"{Z}.stage": (
                0,
                1,
                2,
                3,
                4,
                -1,
                2.0,
                2.5,
                "2",
                "two",
                "",
                True,
                False,
                None,
                "auto",
                [2],
                {},
                3.0,
                "3.0",
            )
        },
    ),
    Situation(
        "zero-as-shape",
        {
            Z: (*SHAPES, {"stage": 2}),
            "zero_allow_untested_optimizer": BOOL,
            "allgather_size": (ABSENT, 5e8, "x"),
        },
    ),
    Situation(
        "zero-and-fp16", {f"{Z}.stage": STAGES, "fp16.enabled": TRUTHY, "amp.enabled": (ABSENT, True, False)}
    ),
    Situation(
        "zero-sizes",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.reduce_bucket_size": SIZES,
            f"{Z}.allgather_bucket_size": SIZES,
            f"{Z}.sub_group_size": SIZES,
        },
    ),
    Situation(
        "zero-stage3-sizes",
        {
            f"{Z}.stage": (3, 3, 2),
            f"{Z}.stage3_prefetch_bucket_size": SIZES,
            f"{Z}.stage3_param_persistence_threshold": SIZES,
            f"{Z}.stage3_max_live_parameters": SIZES,
            f"{Z}.stage3_max_reuse_distance": SIZES,
            f"{Z}.stage3_model_persistence_threshold": SIZES,
            f"{Z}.stage3_module_granularity_threshold": (ABSENT, 0, -1, 1.5),
        },
    ),
    Situation(
        "zero-alias-and-name",
        {
            f"{Z}.stage3_prefetch_bucket_size": (1000, "auto", ABSENT),
            f"{Z}.prefetch_bucket_size": (1000, 2000, "auto", ABSENT),
            f"{Z}.stage3_max_live_parameters": (1000, ABSENT, ABSENT),
            f"{Z}.max_live_parameters": (1000, ABSENT, ABSENT),
            f"{Z}.gather_16bit_weights_on_model_save": (True, ABSENT, ABSENT),
            f"{Z}.stage3_gather_16bit_weights_on_model_save": (True, ABSENT),
        },
    ),
    Situation(
        "zero-gather-names",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.stage3_gather_fp16_weights_on_model_save": OLD,
            f"{Z}.stage3_gather_16bit_weights_on_model_save": OLD,
        },
    ),
    Situation(
        "offload-by-stage",
        {f"{Z}.stage": STAGES, f"{Z}.offload_optimizer": OFFLOADS, f"{Z}.offload_param": OFFLOADS},
    ),
    Situation(
        "offload-devices",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.offload_optimizer.device": DEVICES,
            f"{Z}.offload_param.device": DEVICES,
            f"{Z}.offload_param.nvme_path": ("/n", None, 3, "auto", ABSENT),
        },
    ),
    Situation(
        "offload-ratio",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.offload_optimizer.device": ("cpu", "none", "nvme", ABSENT),
            f"{Z}.offload_optimizer.ratio": FRACTION,
            f"{Z}.offload_optimizer.cpuadam_cores_perc": (ABSENT, ABSENT, 0.5, 1.1, 0),
        },
    ),
    Situation(
        "offload-keys-of-the-other",
        {
            f"{Z}.stage": (3, 2),
            f"{Z}.offload_param.pipeline_read": (True, ABSENT, ABSENT),
            f"{Z}.offload_param.fast_init": (True, ABSENT, ABSENT),
            f"{Z}.offload_param.ratio": (0.5, ABSENT, ABSENT),
            f"{Z}.offload_optimizer.max_in_cpu": (10**9, ABSENT, ABSENT),
            f"{Z}.offload_optimizer.buffer_size": (10**8, ABSENT, ABSENT),
            f"{Z}.offload_optimizer.pipeline": (True, ABSENT, ABSENT),
        },
    ),
    Situation(
        "offload-buffers",
        {
            f"{Z}.stage": (3,),
            f"{Z}.offload_param.buffer_count": (5, 0, -1, 1.5, "5", None, "auto", ABSENT),
            f"{Z}.offload_param.buffer_size": SIZES,
            f"{Z}.offload_param.max_in_cpu": SIZES,
            f"{Z}.offload_optimizer.buffer_count": (4, 0, -1, ABSENT),
            f"{Z}.offload_optimizer.pipeline_read": TRUTHY,
            f"{Z}.offload_optimizer.pipeline_write": TRUTHY,
        },
    ),
    Situation(
        "old-cpu-offload", {f"{Z}.stage": STAGES, f"{Z}.cpu_offload": OLD, f"{Z}.offload_optimizer": OFFLOADS}
    ),
    Situation(
        "old-cpu-offload-param",
        {
            f"{Z}.stage": (3, 3, 2),
            f"{Z}.cpu_offload_param": OLD,
            f"{Z}.cpu_offload_params": OLD,
            f"{Z}.offload_param": OFFLOADS,
        },
    ),
    Situation(
        "old-cpu-offload-all",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.cpu_offload": OLD,
            f"{Z}.cpu_offload_params": OLD,
            f"{Z}.cpu_offload_use_pin_memory": OLD,
            f"{Z}.offload_optimizer": (ABSENT, ABSENT, {"device": "cpu"}),
        },
    ),
    Situation(
        "mics",
        {
            f"{Z}.stage": (3, 3, 2, ABSENT),
            f"{Z}.mics_shard_size": (8, 0, -1, -2, "8", 1.5, None, ABSENT),
            f"{Z}.mics_hierarchical_params_gather": (True, False, "x", ABSENT),
            f"{Z}.zero_hpz_partition_size": (ABSENT, 1, 8),
        },
    ),
    Situation(
        "zero-plus-plus",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.zero_hpz_partition_size": (1, 0, -1, 8, 1.5, "8", ABSENT),
            f"{Z}.zero_quantized_weights": TRUTHY,
            f"{Z}.zero_quantized_gradients": TRUTHY,
            f"{Z}.zero_quantized_nontrainable_weights": (True, ABSENT),
            f"{Z}.zeropp_loco_param": (
                ABSENT,
                ABSENT,
                {},
                {"err_beta": 0.8, "reset_T": 1024},
                None,
                [],
                "auto",
            ),
        },
    ),
    Situation(
        "zero-grad-norm",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.compute_grad_norm": (False, False, True, "auto", 0, "false", None),
            "gradient_clipping": (ABSENT, 0, 0.0, 1.0),
            "fp16.enabled": (ABSENT, True, False),
        },
        since=(0, 19, 5),
    ),
    Situation(
        "zero-overlap",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.overlap_comm": (True, False, None, "auto", "x", 2),
            f"{Z}.contiguous_gradients": TRUTHY,
            f"{Z}.reduce_scatter": TRUTHY,
            f"{Z}.round_robin_gradients": (ABSENT, True),
        },
    ),
    Situation(
        "zenflow",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.zenflow.topk_ratio": (0.1, 0, 1, 0.0, 1.0, 0.999, -0.1, "0.1", ABSENT),
            f"{Z}.zenflow.select_strategy": ("auto", "step", "epoch", "Step", "none", None, ABSENT),
            f"{Z}.zenflow.select_interval": ("auto", 1, 0, -1, "1", "x", 2.0, 1.5, None, True, ABSENT),
            f"{Z}.zenflow.update_interval": ("auto", 4, 1, 0, -1, "4", 4.0, None, ABSENT),
            f"{Z}.zenflow.full_warm_up_rounds": (ABSENT, 0, -1, 1.5),
        },
        since=(0, 17),
    ),
    Situation(
        "zenflow-schedule",
        {
            f"{Z}.stage": (1, 2, 3),
            f"{Z}.zenflow.select_strategy": ("auto", "step", "epoch"),
            f"{Z}.zenflow.select_interval": ("auto", 1, 4, 8),
            f"{Z}.zenflow.update_interval": ("auto", 1, 4, 8, 3),
            f"{Z}.zenflow.steps_per_epoch": (None, 10, 0, ABSENT),
            f"{Z}.zenflow.overlap_step": TRUTHY,
            f"{Z}.zenflow.offload": TRUTHY,
            f"{Z}.zenflow.auto_ratio": FRACTION,
            f"{Z}.zenflow.pt_reserved_cores_perc": FRACTION,
            f"{Z}.offload_optimizer": OFFLOADS,
        },
        since=(0, 17),
    ),
    Situation("zenflow-shape", {f"{Z}.zenflow": SHAPES, f"{Z}.stage": STAGES}, since=(0, 17)),
    Situation(
        "leaf-module",
        {
            f"{Z}.leaf_module": SHAPES,
            f"{Z}.stage": (3, 0),
        },
        since=(0, 17),
    ),
    Situation(
        "leaf-module-names",
        {
            f"{Z}.leaf_module.classes": (["a.B"], "a.B", [], [1], None, "auto", {}, "", ["a", "a"], ABSENT),
            f"{Z}.leaf_module.names": (["a"], "a", [], [None], "auto", ABSENT),
            f"{Z}.leaf_module.name_suffixes": (["a"], "a", 1, ABSENT),
        },
        since=(0, 17),
    ),
    Situation(
        "super-offload",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.offload_optimizer": (
                {"device": "cpu", "super_offload": True, "ratio": 0.9},
                {"device": "cpu", "super_offload": "yes"},
            ),
        },
    ),
    Situation(
        "zero-removed",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.legacy_stage1": OLD,
            f"{Z}.find_unused_parameters": OLD,
            f"{Z}.ignore_unused_parameters": OLD,
            f"{Z}.grad_hooks": (ABSENT, True),
        },
    ),
    Situation(
        "zero-unknown",
        {
            f"{Z}.stage": STAGES,
            f"{Z}.stge": (ABSENT, 3),
            f"{Z}.cpu_offload_optimizer": (ABSENT, True),
            f"{Z}.offload": (ABSENT, {}),
        },
    ),
    Situation(
        "zero-automatic",
        {
            f"{Z}.stage": ("auto", 3),
            f"{Z}.reduce_bucket_size": ("auto",),
            f"{Z}.stage3_prefetch_bucket_size": ("auto",),
            f"{Z}.unknown": (ABSENT, "auto"),
            f"{Z}.overlap_comm": ("auto",),
        },
    ),
)
