"""Compilation, parallelism and data efficiency."""

from __future__ import annotations

from tests.parity.generators.situations.base import ABSENT, SHAPES, TRUTHY, Pool, Situation

INTEGERS: Pool = (1, 0, -1, 2.0, 1.5, "1", None, True, "auto", ABSENT)
SAMPLING = "data_efficiency.data_sampling"
ROUTING = "data_efficiency.data_routing.random_ltd"
LINEAR = {"min_difficulty": 8, "max_difficulty": 64, "schedule_type": "fixed_linear", "schedule_config": {}}

COMPILING = (
    Situation(
        "compile-old",
        {
            "compile.enabled": TRUTHY,
            "compile.backend": (
                "inductor",
                "eager",
                "os.path.join",
                "no.such.module",
                "os.nothing",
                "",
                None,
                1,
                "auto",
                ABSENT,
            ),
            "compile.kwargs": (ABSENT, {}, {"mode": "x"}, None, "auto", []),
        },
    ),
    Situation(
        "deepcompile",
        {
            "compile.deepcompile": TRUTHY,
            "compile.passes": (
                ["z1"],
                ["z3", "autosp"],
                ["autotp"],
                ["zz"],
                [],
                None,
                "z1",
                "auto",
                [1],
                ABSENT,
            ),
            "compile.offload_activation": TRUTHY,
            "compile.free_activation_threshold": INTEGERS,
            "zero_optimization.stage": (0, 1, 2, 3),
        },
        since=(0, 16),
    ),
    Situation("compile-shape", {"compile": SHAPES}),
    Situation("graph-harvesting", {"graph_harvesting": TRUTHY}),
)

PARALLELISM = (
    Situation(
        "tensor-parallel",
        {
            "tensor_parallel.autotp_size": (0, 1, 2, -1, "2", 2.0, 1.5, None, "auto", True),
            "tensor_parallel.tp.tp_size": (ABSENT, 1, "x", None, 0),
            "tensor_parallel.tp_size": (ABSENT, ABSENT, 2),
            "tensor_parallel.dtype": (ABSENT, ABSENT, "bf16", "auto", None),
            "tensor_parallel.tp_overlap_comm": (ABSENT, True, "x"),
            "zero_optimization.stage": (0, 1, 2, 3),
        },
        since=(0, 15),
    ),
    Situation(
        "tensor-parallel-layers",
        {
            "tensor_parallel.preset_model": ("llama", "nope", None, 1, ABSENT),
            "tensor_parallel.partition_config": (
                ABSENT,
                None,
                {},
                [],
                "x",
                {"layer_specs": []},
                {"layer_specs": [{"patterns": ["a"]}], "use_default_specs": False},
                {"zz": 1},
            ),
            "tensor_parallel.injection_policy_tuple": (ABSENT, None, [], ["a"], "x", {}),
            "tensor_parallel.vocab_parallel_lm_head": (ABSENT, None, True, "x"),
            "tensor_parallel.vocab_parallel_ce_backend": (ABSENT, "torch", "liger", "x", None),
        },
        since=(0, 18),
    ),
    Situation("tensor-parallel-shape", {"tensor_parallel": SHAPES}, since=(0, 15)),
    Situation(
        "expert-parallel",
        {
            "expert_parallel": (
                *SHAPES,
                {"load_balance_coeff": 0.1},
                {"load_balance_coeff": None},
                {"enabled": True, "autoep_size": "x"},
            ),
            "tensor_parallel.autotp_size": (ABSENT, 1, 2),
        },
        since=(0, 19),
    ),
    Situation(
        "expert-parallel-keys",
        {
            "expert_parallel.enabled": TRUTHY,
            "expert_parallel.autoep_size": INTEGERS,
            "expert_parallel.score_func": (ABSENT, "softmax", "x", None),
            "expert_parallel.preset_model": (ABSENT, "mixtral", "nope", 1),
            "expert_parallel.load_balance_coeff": (ABSENT, ABSENT, None, 0, 0.001, "auto"),
            "expert_parallel.async_split_plan": (ABSENT, True, "x"),
            "expert_parallel.num_limited_groups": (ABSENT, 0, 2, "x"),
            "expert_parallel.comm_num_sm": (ABSENT, 0, "x"),
        },
        since=(0, 19),
    ),
    Situation(
        "pipeline", {"pipeline": (*SHAPES, {"stages": 2, "zz": 1}), "zero_optimization.stage": (0, 1, 2, 3)}
    ),
    Situation(
        "expert-topology",
        {"use_data_before_expert_parallelism": TRUTHY, "use_data_before_expert_parallel": TRUTHY},
    ),
    Situation(
        "hybrid-engine",
        {
            "hybrid_engine.enabled": TRUTHY,
            "hybrid_engine.max_out_tokens": (512, 1, 0, -1, "5", 1.5, None, "auto"),
            "hybrid_engine.inference_tp_size": INTEGERS,
            "zero_optimization.stage": (3, 0),
        },
    ),
    Situation("hybrid-engine-shape", {"hybrid_engine": SHAPES}),
)

DATA = (
    Situation(
        "data-efficiency-shapes",
        {
            "data_efficiency": (
                *SHAPES,
                {"data_sampling": None},
                {"data_routing": []},
                {"data_sampling": True},
            )
        },
    ),
    Situation(
        "data-curriculum",
        {
            f"{SAMPLING}.enabled": TRUTHY,
            f"{SAMPLING}.curriculum_learning.enabled": (True, True, False, "false", None, ABSENT),
            f"{SAMPLING}.curriculum_learning.curriculum_metrics": (
                ABSENT,
                {},
                {"seqlen": LINEAR},
                None,
                [],
                "x",
            ),
            "curriculum_learning": (ABSENT, ABSENT, {"enabled": True, **LINEAR}),
        },
        since=(0, 7),
    ),
    Situation(
        "data-curriculum-shape",
        {f"{SAMPLING}.curriculum_learning": SHAPES, f"{SAMPLING}.num_workers": (ABSENT, 0, "x")},
        since=(0, 7),
    ),
    Situation(
        "dynamic-batching",
        {
            f"{SAMPLING}.dynamic_batching.enabled": TRUTHY,
            f"{SAMPLING}.dynamic_batching.max_tokens": (
                4096,
                "4096",
                10.5,
                "x",
                None,
                "auto",
                [],
                ABSENT,
                ABSENT,
            ),
            f"{SAMPLING}.dynamic_batching.min_batch_size": (1, "1", "1.5", 1.5, None, "auto", [], ABSENT),
            f"{SAMPLING}.dynamic_batching.max_batch_size": (8, "8", "x", 1e400, None, {}, ABSENT),
            f"{SAMPLING}.dynamic_batching.lr_scaling_method": ("linear", "sqrt", "x", None, ABSENT),
        },
        since=(0, 16),
    ),
    Situation("dynamic-batching-shape", {f"{SAMPLING}.dynamic_batching": SHAPES}, since=(0, 16)),
    Situation(
        "random-ltd",
        {
            f"{ROUTING}.enabled": TRUTHY,
            f"{ROUTING}.total_layer_num": (ABSENT, 24, None),
            f"{ROUTING}.random_ltd_layer_num": (ABSENT, 22),
            f"{ROUTING}.random_ltd_schedule": (ABSENT, {}, {"min_value": 128, "max_value": 2048}, None, []),
            f"{ROUTING}.layer_token_lr_schedule": (
                ABSENT,
                {},
                {"enabled": True, "total_layer_tokens": 100},
                {"enabled": True},
                None,
                "x",
            ),
        },
        since=(0, 7),
    ),
    Situation(
        "random-ltd-shape",
        {ROUTING: SHAPES, "data_efficiency.data_routing.enabled": (ABSENT, True)},
        since=(0, 7),
    ),
)

PARALLEL = (*COMPILING, *PARALLELISM, *DATA)
