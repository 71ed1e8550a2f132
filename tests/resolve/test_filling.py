"""What Transformers and Accelerate fill "auto" with, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsconfig import ResolveError, resolve
from dsconfig.document.read_document import read_mapping_file
from dsconfig.job.consumers import CONSUMERS
from dsconfig.job.consumers.consumer import BY_NAME
from dsconfig.job.consumers.training_args import ConsumerArguments, hidden_size
from dsconfig.model.key_table import iter_keys

BATCH = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
}
TRAINER: dict[str, Any] = {
    **BATCH,
    "gradient_clipping": "auto",
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
    },
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "warmup_min_lr": "auto",
            "warmup_max_lr": "auto",
            "warmup_num_steps": "auto",
            "total_num_steps": "auto",
        },
    },
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    },
}
ARGS: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-4,
    "weight_decay": 0.1,
    "bf16": True,
    "max_steps": 1000,
    "warmup_steps": 0.1,
}
MODEL = {"hidden_size": 1000}


def trainer(config: dict[str, Any], args: Any = ARGS, **more: Any) -> Any:
    return resolve(
        config,
        world_size=8,
        target="0.19.8",
        consumer="transformers",
        training_args=args,
        model=MODEL,
        **more,
    )


def test_trainer_fills_everything() -> None:
    run = trainer(TRAINER)
    assert run.config == {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "fp16": {"enabled": False},
        "bf16": {"enabled": True},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1},
        },
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {
                "warmup_min_lr": 0,
                "warmup_max_lr": 1e-4,
                "warmup_num_steps": 100,
                "total_num_steps": 1000,
            },
        },
        "zero_optimization": {
            "stage": 3,
            "reduce_bucket_size": 1_000_000,
            "stage3_prefetch_bucket_size": 900_000,
            "stage3_param_persistence_threshold": 10_000,
        },
    }
    assert run.mismatches == ()
    assert run.check().ok
    origins = {filled.key: filled.origin for filled in run.filled}
    assert origins["optimizer.params.lr"] == "learning_rate"
    assert origins["zero_optimization.reduce_bucket_size"] == "hidden size 1000²"


def test_mismatches_are_told_before_anything_is_loaded() -> None:
    run = trainer(
        {**TRAINER, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5, "train_batch_size": 32}
    )
    assert [(found.key, found.written, found.value) for found in run.mismatches] == [
        ("train_micro_batch_size_per_gpu", 2, 4),
        ("train_batch_size", 32, 64),
        ("gradient_clipping", 0.5, 1.0),
    ]
    assert str(run.mismatches[2]) == "`gradient_clipping` is 0.5, but `max_grad_norm` is 1.0"


def test_mismatch_stands_beside_an_impossible_batch() -> None:
    with pytest.raises(ResolveError) as caught:
        trainer({**TRAINER, "train_batch_size": 50})
    assert "`train_batch_size` is 50, but" in caught.value.hints[-1]


def test_without_arguments_nothing_can_be_filled() -> None:
    with pytest.raises(ResolveError, match="which are not given") as caught:
        trainer(TRAINER, None)
    assert caught.value.hints[0].startswith(
        "`train_batch_size` comes from world size × per_device_train_batch"
    )
    with pytest.raises(ResolveError, match="accelerate fills `train_micro_batch_size_per_gpu` from"):
        resolve({**BATCH, "zero_optimization": {}}, world_size=8, target="0.19.8", consumer="accelerate")
    assert trainer({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {}}, None).triplet == (16, 2, 1)


def test_unknown_length_and_hidden_size_stay_auto() -> None:
    run = resolve(
        TRAINER, world_size=8, target="0.19.8", consumer="transformers", training_args={"warmup_steps": 0.1}
    )
    unfilled = {message.key for message in run.messages if message.kind == "unfilled"}
    assert unfilled == {
        "scheduler.params.total_num_steps",
        "scheduler.params.warmup_num_steps",
        "zero_optimization.reduce_bucket_size",
        "zero_optimization.stage3_prefetch_bucket_size",
        "zero_optimization.stage3_param_persistence_threshold",
    }


def test_auto_that_nobody_fills_is_refused_in_prepare() -> None:
    config = {**TRAINER, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto"}}
    with pytest.raises(ResolveError, match='`stage3_max_live_parameters` is `"auto"`, but the Trainer'):
        trainer(config)
    betas = {**BATCH, "optimizer": {"type": "Adam", "params": {"betas": "auto"}}, "zero_optimization": {}}
    with pytest.raises(ResolveError, match="betas"):
        resolve(betas, world_size=8, target="0.19.8", consumer="accelerate", training_args=ARGS)


@pytest.mark.parametrize("consumer", ["transformers", "accelerate"])
def test_zero_block_and_other_precision_are_refused(consumer: str) -> None:
    args = {"per_device_train_batch_size": 1, "bf16": True, "mixed_precision": "bf16"}
    args.pop("mixed_precision" if consumer == "transformers" else "bf16")
    config = {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": True}}
    with pytest.raises(ResolveError, match="`zero_optimization` is missing"):
        resolve(config, world_size=1, target="0.19.8", consumer=consumer, training_args=args)
    with pytest.raises(
        ResolveError, match=r"accelerate rejects mixed precision bf16 because `fp16.enabled` is true"
    ):
        resolve(
            {**config, "zero_optimization": {}},
            world_size=1,
            target="0.19.8",
            consumer=consumer,
            training_args=args,
        )


def test_accelerate_fills_as_prepare_does() -> None:
    config = {
        **BATCH,
        "gradient_clipping": "auto",
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"},
        },
        "zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "auto"}},
    }
    args = {
        "per_device_train_batch_size": 4,
        "max_steps": 1001,
        "mixed_precision": "fp16",
        "deepspeed_config": {"gradient_accumulation_steps": 3, "gradient_clipping": 0.5, "zero_stage": 3},
    }
    run = resolve(config, world_size=8, target="0.19.8", consumer="accelerate", training_args=args)
    assert run.triplet == (96, 4, 3)
    assert run.config["gradient_clipping"] == 0.5
    assert run.config["zero_optimization"] == {"stage": 3, "offload_optimizer": {"device": "none"}}
    assert run.config["fp16"] == {"enabled": True, "auto_cast": True}
    assert run.config["bf16"] == {"enabled": False}
    assert run.config["optimizer"]["params"] == {"lr": 0.001, "weight_decay": 0}
    assert run.config["scheduler"]["params"] == {
        "warmup_max_lr": 0.001,
        "warmup_num_steps": 1,
        "total_num_steps": 126,
    }


def test_sequence_parallel_ranks_share_samples() -> None:
    run = trainer({**TRAINER, "zero_optimization": {"stage": 1}}, sp=2)
    assert run.triplet == (32, 4, 2)
    assert run.data_parallel_size == 4


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("learning_rate", "5e-5", 'is `"5e-5"`, expected a number; YAML reads an exponent only behind'),
        ("per_device_train_batch_size", 0, "is `0`, expected a positive integer"),
        ("gradient_accumulation_steps", 1.5, "expected a positive integer"),
        ("bf16", "yes", "expected true or false"),
        ("max_grad_norm", True, "expected a number"),
        ("weight_decay", float("nan"), "expected a number"),
    ],
)
def test_bad_training_argument(argument: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"training argument `{argument}` ") as caught:
        trainer(TRAINER, {**ARGS, argument: value})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "nested", "size"),
    [
        ({"hidden_size": 768, "n_embd": 1}, False, 768),
        ({"hidden_sizes": [64, 256, 128]}, False, 256),
        ({"n_embd": 1600}, False, 1600),
        ({"d_model": 512}, False, 512),
        ({"dim": 768, "hidden_dim": 3072}, False, 768),
        ({"text_config": {"hidden_size": 4096}}, True, 4096),
        ({"text_config": {"hidden_size": 4096}}, False, None),
        ({"hidden_size": "768"}, True, None),
        ({}, True, None),
    ],
)
def test_hidden_size(model: dict[str, Any], nested: bool, size: int | None) -> None:
    assert hidden_size(model, nested=nested) == size


def test_tables_and_model_tell_the_same() -> None:
    """The field of a key says who fills it; the consumer's table says from what."""
    by_field = {
        (consumer, ".".join(path))
        for path, info in iter_keys()
        for consumer in info.fills
        if consumer in CONSUMERS
    }
    by_table = {(name, fill.key) for name, consumer in BY_NAME.items() for fill in consumer.fills}
    gone = {("transformers", "amp.enabled"), ("transformers", "amp.opt_level")}  # filled by 4.x
    assert by_table - by_field == set()
    shared = {(name, "bfloat16.enabled") for name in CONSUMERS}  # the old name has the class of `bf16`
    assert by_field - by_table - gone - shared == set()


def test_consumers_have_the_same_names_everywhere() -> None:
    assert tuple(BY_NAME) == CONSUMERS


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("bf16: true\nlearning_rate: 5.0e-5\n")
    (tmp_path / "a.json").write_text('{"bf16": true}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    assert read_mapping_file(tmp_path / "a.yaml") == {"bf16": True, "learning_rate": 5e-5}
    assert read_mapping_file(tmp_path / "a.json") == {"bf16": True}
    by_path = trainer(TRAINER, tmp_path / "a.yaml")
    assert by_path.config["optimizer"]["params"]["lr"] == 5e-5
    (tmp_path / "deep.json").write_text("[" * 200)
    faults = {
        "list.json": "JSON object: the root is not an object",
        "broken.yaml": "YAML object: invalid YAML",
        "deep.json": "JSON object: nested deeper than the limit",
    }
    for name, fault in faults.items():
        with pytest.raises(ValueError, match=f"{name} does not contain a {fault}"):
            read_mapping_file(tmp_path / name)


@pytest.mark.parametrize(
    ("consumer", "name", "meant"),
    [
        ("transformers", "learning_rat", "learning_rate"),
        ("transformers", "per_device_train_batchsize", "per_device_train_batch_size"),
        ("transformers", "gradient_acc_steps", "gradient_accumulation_steps"),
        ("transformers", "gradient_clipping", "max_grad_norm"),
        ("transformers", "lr", "learning_rate"),
        ("accelerate", "micro_batch_size", "per_device_train_batch_size"),
        ("accelerate", "mixed_precison", "mixed_precision"),
    ],
)
def test_a_misspelt_training_argument_is_refused(consumer: str, name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f'`"{name}"` is unknown: did you mean `{meant}`'):
        ConsumerArguments({"per_device_train_batch_size": 1, name: 2}, BY_NAME[consumer].defaults)


@pytest.mark.parametrize("consumer", ["transformers", "accelerate"])
def test_arguments_that_fill_nothing_are_taken(consumer: str) -> None:
    others = (
        "output_dir eval_accumulation_steps per_device_eval_batch_size logging_steps fp16_backend seed optim"
    )
    names = [*others.split(), "gradient_checkpointing", "model_name_or_path", "eval_steps", "hub_strategy"]
    ConsumerArguments(
        {"per_gpu_train_batch_size": None, **dict.fromkeys(names, 1)}, BY_NAME[consumer].defaults
    )
    ConsumerArguments(
        {"deepspeed_config": {"zero3_init_flag": True}, "num_processes": 2}, BY_NAME[consumer].defaults
    )
    with pytest.raises(ValueError, match="zero_stage"):
        ConsumerArguments({"deepspeed_config": {"zero_stag": 2}}, BY_NAME[consumer].defaults)


def test_lightning_takes_the_batch_of_its_data_loader_and_trainer() -> None:
    config = {"zero_optimization": {"stage": 2}}
    with pytest.raises(ResolveError, match="the batch size of the data loader") as caught:
        resolve(config, world_size=8, consumer="lightning")
    assert caught.value.diagnostics == ()  # DeepSpeed rejects nothing
    arguments = {"per_device_train_batch_size": 2, "accumulate_grad_batches": 4}
    run = resolve(config, world_size=8, consumer="lightning", training_args=arguments)
    assert (run.train_batch_size, run.train_micro_batch_size_per_gpu, run.gradient_accumulation_steps) == (
        64,
        2,
        4,
    )
    with pytest.raises(ResolveError, match="`accumulate_grad_batches`, which is not known"):
        resolve({**config, "train_micro_batch_size_per_gpu": 2}, world_size=8, consumer="lightning")
