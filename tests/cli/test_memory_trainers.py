"""What preference training and reinforcement learning add: sequences, frozen models, generation, vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig.memory.autograd_graph import FusedKernels
from dsconfig.resolve.launch_settings import (
    default_optimizer_of_trainer,
    is_checkpointing_reentrant,
    selected_method,
    unmodeled_arguments,
)
from dsconfig.resolve.training_features import add_default_loss_of_trl
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

CONFIG = config_of(2)
GIB = 1 << 30
NUMEL = 8_030_261_248
REFERENCE = "the optimizer of the reference model"
RUN = (
    *("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8", "--sequence-length", "1024"),
    "--checkpointing",
)

pytestmark = pytest.mark.usefixtures("ds_json")


def terms(run: Runs, *argv: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    return phases_of(estimate(run, *RUN, *argv, codes=codes))


@pytest.mark.parametrize(("stage", "share"), [(2, 1), (3, 8)])
def test_a_reference_model_is_whole_or_partitioned(run: Runs, stage: int, share: int) -> None:
    found = terms(run, "--trainer", "dpo", "--set", f"zero_optimization.stage={stage}", "--zero-init")
    assert found["frozen models"]["at_rest"] == -(-2 * NUMEL // share)


@pytest.mark.parametrize("trainer", ["orpo", "simpo", "cpo"])
def test_methods_without_a_reference_have_two_sequences(run: Runs, trainer: str) -> None:
    found = terms(run, "--trainer", trainer)
    assert "frozen models" not in found
    activations = terms(run, "--micro-batch", "2")["activations"]
    assert found["activations"] == pytest.approx(activations, rel=1e-3)


def test_adapters_share_the_reference(run: Runs) -> None:
    assert "frozen models" not in terms(run, "--trainer", "dpo", "--lora", "r=16,target=all")


def test_ppo_trains_a_value_model_and_asks_for_the_reward_model(run: Runs) -> None:
    result = estimate(run, *RUN, "--trainer", "ppo")
    assert [each["key"] for each in result["not_modelled"]] == [REFERENCE, "the reward model"]
    assert phases_of(result)["value model"]["at_rest"] > 3 * NUMEL
    known = estimate(run, *RUN, "--trainer", "ppo", "--frozen-model", "llama-3.2-1b")
    assert [each["key"] for each in known["not_modelled"]] == [REFERENCE]
    assert phases_of(known)["frozen models"]["at_rest"] == 2 * (NUMEL + 1_235_814_400)


def test_generation_gathers_the_model_at_stage_3(run: Runs) -> None:
    cache = 2 * 32 * 8 * 128 * 2 * 1024
    for stage, gathered in ((2, 0), (3, 2 * NUMEL)):
        result = estimate(run, *RUN, "--trainer", "grpo", "--set", f"zero_optimization.stage={stage}")
        needed = phases_of(result).get("generation", {}).get("forward", 0)
        assert needed in (0, cache + gathered)


def test_vllm_takes_its_fraction_of_the_gpu(run: Runs) -> None:
    found = terms(run, "--trainer", "grpo", "--vllm", "0.25", "--gpu", "h200", codes=(0, 2))
    assert found["vLLM"]["at_rest"] == int(0.25 * int(139.7 * GIB))
    assert "vLLM" not in terms(run, "--trainer", "grpo", "--vllm", "0")
    result = estimate(run, *RUN, "--trainer", "grpo", "--vllm", "0.25")
    assert [each["key"] for each in result["not_modelled"]] == ["vLLM", REFERENCE]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trainer", "magic"), "trainer 'magic': expected one of sft, dpo"),
        (("--vllm", "1.5"), "vllm 1.5: expected a fraction"),
    ],
)
def test_impossible_values_name_what_is_expected(run: Runs, options: tuple[str, ...], message: str) -> None:
    code, _, err = run(*RUN, *options)
    assert (code, message in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "trainer", "reference", "vllm"),
    [
        ({"stage": "dpo"}, "dpo", None, None),
        ({"stage": "dpo", "pref_loss": "orpo"}, "dpo", False, None),
        ({"stage": "rm"}, "reward", None, None),
        ({"rlhf_type": "gkd"}, "gkd", None, None),
        ({"rl": "simpo"}, "simpo", None, None),
        ({"SCRIPT": "trl/scripts/online_dpo.py"}, "online_dpo", None, None),
        ({"SCRIPT": "run_grpo.py", "beta": 0.0}, "grpo", False, None),
        ({"SCRIPT": "run_grpo.py", "beta": "0.04"}, "grpo", True, None),
        ({"rlhf_type": "grpo", "use_vllm": True}, "grpo", None, 0.3),
        ({"rlhf_type": "grpo", "use_vllm": "true", "vllm_mode": "server"}, "grpo", None, 0.0),
        ({"stage": "sft"}, "sft", None, None),
        ({"stage": "unheard_of"}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_launch_files_name_the_method(
    arguments: dict[str, Any], trainer: str | None, reference: bool | None, vllm: float | None
) -> None:
    assert selected_method(arguments)[:3] == (trainer, reference, vllm)


@pytest.mark.parametrize(("sleep", "is_awake"), [("", True), (" --sleep_level 1", False)])
def test_vllm_that_sleeps_is_not_next_to_training(run: Runs, here: Path, sleep: str, is_awake: bool) -> None:
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    (here / "train.sh").write_text(
        f"swift rlhf --rlhf_type grpo --deepspeed ds.json --use_vllm true --vllm_mode colocate{sleep}"
        " --vllm_gpu_memory_utilization 0.25\n"
    )
    code, out, _ = run(*RUN, "--gpu", "h200", "--output-format", "json")
    assert code == 0
    usage = phases_of(json.loads(out))["vLLM"]
    assert ("at_rest" in usage, "forward" in usage) == (is_awake, True)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"rpo_alpha": 0.1}, "rpo_alpha: 0.1"),
        ({"ENV": {"CELOSS_PARALLEL_SIZE": "2048"}}, "CELOSS_PARALLEL_SIZE: 2048"),
        ({"ENV": {"CELOSS_PARALLEL_SIZE": "0"}}, None),
    ],
)
def test_settings_of_a_loss_without_an_estimate_are_listed(
    arguments: dict[str, Any], key: str | None
) -> None:
    assert [each.key for each in unmodeled_arguments(arguments)] == [key] * (key is not None)


def test_an_optimizer_in_the_config_is_created_for_the_reference_model_too(run: Runs) -> None:
    keys = [each["key"] for each in estimate(run, *RUN, "--trainer", "dpo")["not_modelled"]]
    assert keys == [REFERENCE]
    assert not estimate(run, *RUN, "--trainer", "dpo", "--lora", "r=8")["not_modelled"]


@pytest.mark.parametrize(
    ("kwargs", "version", "is_reentrant"),
    [
        ({}, None, True),
        ({}, "4.57.1", True),
        ({}, "5.0.0", False),
        ({"gradient_checkpointing_kwargs": {"use_reentrant": True}}, "5.0.0", True),
        ({"gradient_checkpointing_kwargs": '{"use_reentrant": false}'}, "4.57.1", False),
    ],
)
def test_checkpointing_is_reentrant_before_transformers_5(
    kwargs: dict[str, Any], version: str | None, is_reentrant: bool
) -> None:
    assert is_checkpointing_reentrant(kwargs, version) is is_reentrant


@pytest.mark.parametrize(
    ("transformers", "torch", "optimizer"),
    [
        ("4.53.3", "2.8.0", None),
        ("4.54.0", "2.7.1", None),
        ("4.54.0", "2.8.0", "adamw-fused"),
        (None, "2.8.0", None),
        ("5.0.0", None, None),
    ],
)
def test_the_trainer_fuses_its_optimizer_since_torch_2_8(
    transformers: str | None, torch: str | None, optimizer: str | None
) -> None:
    assert default_optimizer_of_trainer(transformers, torch) == optimizer


def test_a_recipe_for_dpo_has_an_estimate(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    recipe = {
        "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
        "deepspeed": "ds.json",
        "stage": "dpo",
        "finetuning_type": "full",
        "per_device_train_batch_size": 1,
        "bf16": True,
        "cutoff_len": 1024,
    }
    (here / "train.yaml").write_text(json.dumps(recipe))
    result = estimate(run, "memory", "train.yaml", "--world-size", "8")
    assert result["not_modelled"] == []
    assert phases_of(result)["frozen models"]["at_rest"] == 2 * NUMEL


def logits(found: dict[str, Any]) -> int:
    return int(found.get("logits and loss", {}).get("forward", 0))


WORDS, TOKENS = 128_256, 1024


def test_a_reward_model_has_scores_instead_of_logits(run: Runs) -> None:
    assert logits(terms(run, "--trainer", "reward")) == 0


@pytest.mark.parametrize(
    ("trainer", "bytes_each"),
    [
        ("sft", 10),  # logits, their copy in fp32 and log-probabilities
        ("kto", 2 + 4),  # log-probabilities, and logits and log-probabilities of the reference
        ("dpo", 2 * (2 + 4)),  # of two sequences
        ("grpo", 6),  # logits, scaled logits and log-probabilities
        ("simpo", 2 * (4 + 1)),  # and log-probabilities of the chosen half
        ("gkd", 34),  # 17 tensors of the divergence
    ],
)
def test_each_method_computes_its_own_tensors_of_all_words(run: Runs, trainer: str, bytes_each: int) -> None:
    found = terms(run, "--trainer", trainer, codes=(0, 2))
    needed = logits(found) + found.get("temporaries", {}).get("forward", 0)
    assert needed == bytes_each * TOKENS * WORDS


def test_llama_factory_casts_the_logits_of_preference_losses_to_fp32(run: Runs, here: Path) -> None:
    recipe = {"model_name_or_path": "llama-3-8b", "deepspeed": "ds.json", "stage": "dpo", "cutoff_len": 1024}
    recipe |= {
        "finetuning_type": "full",
        "bf16": True,
        "per_device_train_batch_size": 1,
        "learning_rate": 1e-4,
    }
    (here / "train.yaml").write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in recipe.items())
    )
    found = phases_of(estimate(run, "memory", "train.yaml", "--world-size", "8"))
    words = 2 * TOKENS * WORDS
    assert found["logits and loss"]["forward"] == (4 + 4) * words
    assert found["temporaries"]["forward"] == 2 * 4 * words  # of the reference model


def test_ppo_gathers_policy_and_value_model_to_generate(run: Runs) -> None:
    result = estimate(run, *RUN, "--trainer", "ppo", "--set", "zero_optimization.stage=3", "--zero-init")
    cache = 2 * 32 * 8 * 128 * 2 * TOKENS
    assert phases_of(result)["generation"]["forward"] == cache + 2 * 2 * NUMEL


def test_adapters_of_ppo_have_two_frozen_bases(run: Runs) -> None:
    found = terms(run, "--trainer", "ppo", "--lora", "r=8,target=all")
    assert found["frozen models"]["at_rest"] == 2 * NUMEL


@pytest.mark.parametrize(
    ("name", "version", "loss"),
    [
        ("sft", "1.6.0", "full"),
        ("sft", "1.7.0", "chunked"),
        ("dpo", "1.14.0", "full"),
        ("dpo", "1.16.0", "chunked"),
        ("grpo", "1.14.0", "chunked"),
        ("ppo", "1.16.0", "full"),
    ],
)
def test_newer_releases_of_trl_compute_losses_in_chunks(name: str, version: str, loss: str) -> None:
    kernels, unknown = add_default_loss_of_trl(FusedKernels(), {}, name, version)
    assert (kernels.loss, unknown) == (loss, ())


def test_an_unknown_release_of_trl_can_decide_whether_it_fits() -> None:
    kernels, unknown = add_default_loss_of_trl(FusedKernels(), {}, "sft", None)
    assert (kernels.loss, [each.key for each in unknown]) == ("full", ["the version of TRL"])


SWIFT = "NPROC_PER_NODE=4 swift sft --model {model} --deepspeed zero2 --torch_dtype bfloat16 --max_length 512 {more}\n"


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A tiny Qwen2.5-VL."""
    vision = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "out_hidden_size": 128}
    text = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256, "num_attention_heads": 2}
    config = {"model_type": "qwen2_5_vl", **text, "vocab_size": 1000, "vision_config": vision}
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


ZERO2 = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
}
SCRIPT = (
    "torchrun --nproc_per_node=2 {script} --deepspeed zero2.json --model_name_or_path {model} --bf16 True "
    "--output_dir o --learning_rate 1e-5 --gradient_accumulation_steps 1 --per_device_train_batch_size 1 {more}\n"
)
DECODER = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}


def estimate_of_script(
    run: Runs, folder: Path, model: dict[str, Any], script: str, more: str
) -> dict[str, Any]:
    """Estimate a script of a training repository, which names the config and a model beside it."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(DECODER | model))
    (folder / "zero2.json").write_text(json.dumps(ZERO2))
    (folder / "run.sh").write_text(SCRIPT.format(script=script, model=folder / "model", more=more))
    return estimate(run, "memory", str(folder / "run.sh"), "--image-tokens", "256")


CLIP = (
    "--vision_tower openai/clip-vit-large-patch14-336 --mm_projector_type mlp2x_gelu --model_max_length 512"
)


def test_llava_adds_its_encoder_to_a_text_model(run: Runs, tmp_path: Path) -> None:
    train, llama = "llava/train/train_mem.py", {"model_type": "llama"}
    text = estimate_of_script(run, tmp_path, llama, train, "--model_max_length 512")
    image = estimate_of_script(run, tmp_path, llama, train, CLIP)
    assert image["parameters"] - text["parameters"] > 303e6
    assert image["trained"] - text["trained"] == (1024 + 1) * 128 + (128 + 1) * 128
    projector = estimate_of_script(run, tmp_path, llama, train, f"{CLIP} --tune_mm_mlp_adapter True")
    assert projector["trained"] == image["trained"] - text["trained"]
    assert "the language model is frozen" in projector["assumptions"]
    other = estimate_of_script(run, tmp_path, llama, train, "--vision_tower a/b --model_max_length 512")
    assert any("`vision_tower`" in line for line in other["assumptions"])


def test_internvl_has_arguments_of_its_own(run: Runs, tmp_path: Path) -> None:
    vision = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    model = {"model_type": "internvl_chat", "llm_config": DECODER | {"model_type": "internlm2"}}
    model["vision_config"] = vision
    train, more = "internvl/train/internvl_chat_finetune.py", "--max_seq_length 512 --grad_checkpoint True"
    full = estimate_of_script(run, tmp_path, model, train, f"{more} --freeze_mlp False")
    assert full["trained"] == full["parameters"]
    frozen = "--freeze_llm True --freeze_mlp True --freeze_backbone True"
    lora = estimate_of_script(run, tmp_path, model, train, f"{more} {frozen} --use_llm_lora 4")
    sizes = ((128, 384), (128, 128), (128, 256), (128, 256), (256, 128))
    assert lora["trained"] == 2 * 4 * sum(map(sum, sizes))
    assert any("checkpointed per layer" in line for line in lora["assumptions"])


def test_minicpm_v_saves_its_encoder_next_to_adapters(run: Runs, tmp_path: Path) -> None:
    vision = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    model = {"model_type": "minicpmv", "version": "2.5", "query_num": 64, "vision_config": vision}
    target = r'--lora_target_modules "llm\..*layers\.\d+\.self_attn\.(q_proj|k_proj)"'
    more = f"--model_max_length 512 --use_lora true --tune_llm false {target} --tune_vision"
    whole, frozen = (
        estimate_of_script(run, tmp_path, model, "finetune.py", f"{more} {value}")
        for value in ("true", "false")
    )
    assert whole["trained"] > frozen["trained"] > 2 * 8 * (2 * 2 * 128)
    assert any("whose encoder is trained" in line for line in whole["assumptions"])


def estimate_of_swift(run: Runs, folder: Path, more: str) -> dict[str, Any]:
    script = folder.parent / "run.sh"
    script.write_text(SWIFT.format(model=folder, more=more))
    return estimate(run, "memory", str(script), "--image-tokens", "256", "--micro-batch", "1")


def test_lora_llm_trains_the_encoder_next_to_adapters(run: Runs, model_folder: Path) -> None:
    alone = estimate_of_swift(run, model_folder, "--train_type lora")
    beside = estimate_of_swift(run, model_folder, "--tuner_type lora_llm")
    assert any("whose encoder is frozen" in line for line in alone["assumptions"])
    assert any("whose encoder is trained" in line for line in beside["assumptions"])
    assert beside["trained"] > alone["trained"]


def test_the_encoder_of_ms_swift_has_its_own_checkpointing(run: Runs, model_folder: Path) -> None:
    more = "--tuner_type full --freeze_vit false --vit_gradient_checkpointing"
    on, off = (estimate_of_swift(run, model_folder, f"{more} {value}") for value in ("true", "false"))
    assert phases_of(off)["activations"]["forward"] > phases_of(on)["activations"]["forward"]
