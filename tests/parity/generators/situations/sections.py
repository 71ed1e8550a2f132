"""Checkpoint, monitors, profilers, autotuning, aio and the rest that is read today."""

from __future__ import annotations

from tests.parity.generators.situations.base import ABSENT, BOOL, SHAPES, TRUTHY, Pool, Situation

TEXTS: Pool = ("logs", "", None, 1, True, "auto", [], ABSENT)
INTEGERS: Pool = (1, 0, -1, 2.0, 1.5, "1", None, True, "auto", ABSENT)
CHECKPOINT = (
    Situation(
        "tag-validation",
        {"checkpoint.tag_validation": ("warn", "IGNORE", "Fail", "none", "", "auto", None, True, 1, [])},
    ),
    Situation(
        "parallel-write",
        {
            "checkpoint.parallel_write": (
                {},
                {"pipeline_stage": True},
                None,
                [],
                "x",
                True,
                ABSENT,
                {"pipeline_stage": 0},
            ),
            "checkpoint.load_universal": TRUTHY,
        },
    ),
    Situation(
        "parallel-write-stage",
        {
            "checkpoint.parallel_write.pipeline_stage": (
                True,
                False,
                1,
                0,
                1.0,
                2,
                "true",
                None,
                "auto",
                [],
                {},
            )
        },
    ),
    Situation("checkpoint-shape", {"checkpoint": SHAPES}),
    Situation(
        "checkpoint-writer",
        {
            "checkpoint.writer.type": ("FAST", "fast", "Mock", "python", "SLOW", "auto", None, 1, "", ABSENT),
            "checkpoint.writer.data_parallel": (
                "REPLICA",
                "socket",
                "Machine",
                "none",
                None,
                1,
                "auto",
                ABSENT,
            ),
            "checkpoint.writer.io_buffer_size": (ABSENT, 1024, "x", None, -1),
            "checkpoint.writer.decoupled": TRUTHY,
        },
        since=(0, 17),
    ),
    Situation(
        "checkpoint-writer-shape",
        {"checkpoint.writer": SHAPES, "checkpoint.checkpoint_serialization": TRUTHY},
        since=(0, 17),
    ),
    Situation(
        "datastates",
        {
            "datastates_ckpt": (*SHAPES, {"host_cache_size": 4}, {"host_cache_size": "x"}),
            "checkpoint": (ABSENT, {}),
        },
        since=(0, 17),
    ),
)

MONITORS = (
    Situation(
        "tensorboard",
        {
            "tensorboard.enabled": TRUTHY,
            "tensorboard.output_path": TEXTS,
            "tensorboard.job_name": TEXTS,
            "tensorboard.name": (ABSENT, "x"),
        },
    ),
    Situation(
        "csv-monitor",
        {"csv_monitor.enabled": TRUTHY, "csv_monitor.output_path": TEXTS, "csv_monitor.job_name": TEXTS},
    ),
    Situation(
        "wandb",
        {
            "wandb.enabled": TRUTHY,
            "wandb.project": TEXTS,
            "wandb.group": TEXTS,
            "wandb.team": TEXTS,
            "wandb.name": (ABSENT, ABSENT, "run"),
            "wandb.entity": (ABSENT, ABSENT, "us"),
        },
    ),
    Situation(
        "comet",
        {
            "comet.enabled": TRUTHY,
            "comet.samples_log_interval": INTEGERS,
            "comet.project": TEXTS,
            "comet.online": (None, True, "yes", "x", ABSENT),
            "comet.mode": ("get", "create", "any", None, 1, ABSENT),
        },
    ),
    Situation(
        "monitor-shapes",
        {"tensorboard": (*SHAPES, ABSENT), "wandb": (*SHAPES, ABSENT), "csv_monitor": (*SHAPES, ABSENT)},
    ),
    Situation(
        "comms-logger",
        {
            "comms_logger.enabled": TRUTHY,
            "comms_logger.prof_ops": (["all_reduce"], [], "all_reduce", None, [1], {}, "auto", ABSENT),
            "comms_logger.prof_all": TRUTHY,
            "comms_logger.verbose": TRUTHY,
        },
    ),
    Situation(
        "flops-profiler",
        {
            "flops_profiler.enabled": (True, False, "true", None, 1, 0, 2.0, "auto", [], {}, ABSENT),
            "wall_clock_breakdown": (True, False, "false", None, 1, 1.5, "auto", [], {}, ABSENT),
            "flops_profiler.profile_step": (ABSENT, 1, "x"),
            "flops_profiler.recompute_fwd_factor": (ABSENT, 0.0, "x"),
        },
    ),
    Situation(
        "breakdown", {"wall_clock_breakdown": TRUTHY, "memory_breakdown": TRUTHY, "flops_profiler": SHAPES}
    ),
    Situation(
        "timers",
        {
            "timers": (
                *SHAPES,
                "throughput",
                ["throughput"],
                {"throughput": None},
                {"throughput": {}},
                {"throughput": "auto"},
                {"throughput": True},
            )
        },
    ),
    Situation(
        "throughput-timer",
        {
            "timers.throughput.enabled": TRUTHY,
            "timers.throughput.synchronized": TRUTHY,
            "timers.throughput.steps": (ABSENT, ABSENT, 5),
        },
    ),
)

OTHERS = (
    Situation(
        "autotuning-directories",
        {
            "autotuning.enabled": TRUTHY,
            "autotuning.results_dir": ("a", "", None, 0, [], "auto", False, ABSENT),
            "autotuning.exps_dir": ("b", "", None, 1, {}, ABSENT),
            "autotuning.metric": ("throughput", "latency", "flops", "speed", None, 3, "", ABSENT),
        },
    ),
    Situation(
        "autotuning-values",
        {
            "autotuning": (
                *SHAPES,
                {"model_info": {}},
                {"model_info": None},
                {"model_info": {"num_params": 10}},
                {"model_info": []},
                {"model_info": "x"},
            ),
            "train_micro_batch_size_per_gpu": ("auto", 1, 4),
        },
    ),
    Situation(
        "autotuning-mappings",
        {
            "autotuning.arg_mappings": ({}, {"a": "b"}, None, [], "x", 1),
            "autotuning.tuner_type": ("random", "nope", 1),
            "autotuning.enabled": BOOL,
        },
    ),
    Situation(
        "aio",
        {
            "aio.use_gds": (True, True, False, "true", "", 0, None, ABSENT),
            "aio.block_size": INTEGERS,
            "aio.thread_count": (ABSENT, 1, 2),
            "aio.intra_op_parallelism": (ABSENT, 1, 0, "x"),
        },
    ),
    Situation("aio-shape", {"aio": SHAPES}),
    Situation(
        "activation-checkpointing",
        {
            "activation_checkpointing": SHAPES,
            "train_batch_size": (lambda w: 8 * w,),
            "gradient_accumulation_steps": (ABSENT, 1),
        },
    ),
    Situation(
        "weight-quantization",
        {
            "weight_quantization.q_type": ("symmetric", "asymmetric", "Symmetric", None, 1, "auto", ABSENT),
            "weight_quantization.num_bits": (8, 4, 3, 0, "8", 1.5, None, ABSENT),
            "weight_quantization.quantized_initialization": (
                ABSENT,
                {},
                {"num_bits": 4},
                None,
                [],
                "auto",
                {"a": None},
            ),
            "weight_quantization.post_init_quant": (ABSENT, {}, {"fc": {"num_bits": 4}}, None, {"fc": 1}),
        },
        since=(0, 9),
    ),
    Situation("weight-quantization-shape", {"weight_quantization": SHAPES}, since=(0, 9)),
    Situation(
        "printing",
        {
            "steps_per_print": INTEGERS,
            "dump_state": TRUTHY,
            "disable_allgather": TRUTHY,
            "log_level": ("info", "nope", 1, None, ABSENT),
        },
    ),
    Situation(
        "unknown-sections",
        {
            "zero": ({"stage": 3}, None),
            "fp_16": ({"enabled": True}, ABSENT),
            "optimzer": ({"type": "Adam"}, ABSENT),
            "$schema": ("x", ABSENT),
        },
    ),
    Situation(
        "strict-sections-with-strangers",
        {
            "fp16.enable": (ABSENT, ABSENT, True),
            "bf16.dtype": (ABSENT, ABSENT, "x"),
            "hybrid_engine.tp_size": (ABSENT, ABSENT, 1),
            "tensorboard.path": (ABSENT, ABSENT, "x"),
            "comms_logger.level": (ABSENT, ABSENT, 1),
            "compile.mode": (ABSENT, ABSENT, "x"),
            "flops_profiler.level": (ABSENT, ABSENT, 1),
            "aio.size": (ABSENT, ABSENT, 1),
        },
    ),
)

SECTIONS = (*CHECKPOINT, *MONITORS, *OTHERS)
