"""The models that `memory_engine` trains: shapes from Transformers without weights, and plain modules."""

from typing import Any

import torch

OURS = (
    *("kind", "zero_init", "dtype", "attention", "checkpointing", "train_fraction", "lora", "image_tokens"),
)
IMAGE, MERGED = 3, 4
"""The token that stands for an image, and patches of Qwen that become one token."""
CLASSES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "mistral": ("MistralConfig", "MistralForCausalLM"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM"),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM"),
    "qwen2_moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM"),
    "phi3": ("Phi3Config", "Phi3ForCausalLM"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM"),
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM"),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM"),
    "granite": ("GraniteConfig", "GraniteForCausalLM"),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM"),
    "glm": ("GlmConfig", "GlmForCausalLM"),
    "glm4": ("Glm4Config", "Glm4ForCausalLM"),
    "cohere": ("CohereConfig", "CohereForCausalLM"),
    "cohere2": ("Cohere2Config", "Cohere2ForCausalLM"),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM"),
    "seed_oss": ("SeedOssConfig", "SeedOssForCausalLM"),
    "arcee": ("ArceeConfig", "ArceeForCausalLM"),
    "apertus": ("ApertusConfig", "ApertusForCausalLM"),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM"),
    "helium": ("HeliumConfig", "HeliumForCausalLM"),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM"),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM"),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM"),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM"),
    "phi": ("PhiConfig", "PhiForCausalLM"),
    "olmo": ("OlmoConfig", "OlmoForCausalLM"),
    "olmoe": ("OlmoeConfig", "OlmoeForCausalLM"),
    "glm4_moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM"),
    "deepseek_v2": ("DeepseekV2Config", "DeepseekV2ForCausalLM"),
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM"),
    "dots1": ("Dots1Config", "Dots1ForCausalLM"),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM"),
    "minimax_m2": ("MiniMaxM2Config", "MiniMaxM2ForCausalLM"),
    "falcon": ("FalconConfig", "FalconForCausalLM"),
    "llava": ("LlavaConfig", "LlavaForConditionalGeneration"),
    "qwen2_5_vl": ("Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration"),
    "ministral": ("MinistralConfig", "MinistralForCausalLM"),
    "minicpm3": ("MiniCPM3Config", "MiniCPM3ForCausalLM"),
    "ministral3": ("Ministral3Config", "Ministral3ForCausalLM"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "opt": ("OPTConfig", "OPTForCausalLM"),
    "bert": ("BertConfig", "BertForMaskedLM"),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    "vit": ("ViTConfig", "ViTForImageClassification"),
}


def import_all() -> None:
    """Import once what each child would import for seconds."""
    import transformers

    for _, name in CLASSES.values():
        getattr(transformers, name)


class Block(torch.nn.Module):
    """Two layers with a residual around them."""

    def __init__(self, hidden: int, wide: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(hidden, wide)
        self.down = torch.nn.Linear(wide, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def plain(shape: dict[str, Any], train_fraction: float) -> torch.nn.Module:
    """A stack of blocks, the last of which may be frozen."""
    hidden, layers = shape["hidden_size"], shape["num_hidden_layers"]
    wide = shape.get("intermediate_size", 4 * hidden)
    model = torch.nn.Sequential(*[Block(hidden, wide) for _ in range(layers)])
    for index, block in enumerate(model):
        block.requires_grad_(index < train_fraction * layers)
    return model


def build(spec: dict[str, Any]) -> torch.nn.Module:
    """The model of this description: `kind`, and keys of the kind's config.json."""
    kind = spec["kind"]
    shape = {key: value for key, value in spec.items() if key not in OURS}
    if kind == "plain":
        return plain(shape, spec.get("train_fraction", 1.0))
    import transformers

    config_class, model_class = CLASSES[kind]
    model_class = spec.get("architectures", [model_class])[0]
    config = getattr(transformers, config_class)(**shape)
    config.use_cache = False
    config._attn_implementation = spec.get("attention", "sdpa")
    model: torch.nn.Module = getattr(transformers, model_class)(config)
    if spec.get("checkpointing"):
        model.gradient_checkpointing_enable()
        model.train()
    return model


def adapted(model: torch.nn.Module, lora: dict[str, Any] | None) -> torch.nn.Module:
    """The model with LoRA's layers, where it is asked for."""
    if lora is None:
        return model
    import peft

    found: torch.nn.Module = peft.get_peft_model(model, peft.LoraConfig(**lora))
    return found


def batch_of(spec: dict[str, Any], micro: int, length: int, kind: torch.dtype) -> dict[str, torch.Tensor]:
    """What one forward pass is given."""
    if spec["kind"] == "plain":
        return {"input": torch.randn(micro, length, spec["hidden_size"], dtype=kind)}
    if spec["kind"] == "vit":
        side = spec["image_size"]
        pixels = torch.randn(micro, spec.get("num_channels", 3), side, side, dtype=kind)
        return {"pixel_values": pixels, "labels": torch.zeros(micro, dtype=torch.long)}
    if "vision_config" in spec:
        return with_images(spec, micro, length, kind)
    ids = torch.randint(0, spec["vocab_size"], (micro, length))
    if "Classification" in spec.get("architectures", [""])[0]:
        return {"input_ids": ids, "labels": torch.zeros(micro, dtype=torch.long)}
    return {"input_ids": ids, "labels": ids}


def with_images(spec: dict[str, Any], micro: int, length: int, kind: torch.dtype) -> dict[str, torch.Tensor]:
    """Sequences that each begin with an image."""
    vision, tokens = spec["vision_config"], spec["image_tokens"]
    words = spec.get("text_config", spec)["vocab_size"]
    ids = torch.randint(IMAGE + 3, words, (micro, length))
    ids[:, :tokens] = IMAGE
    batch = {"input_ids": ids, "labels": ids}
    if spec["kind"] == "llava":
        side = vision["image_size"]
        return batch | {"pixel_values": torch.randn(micro, 3, side, side, dtype=kind)}
    rows = int((tokens * MERGED) ** 0.5)
    pixels = torch.randn(micro * tokens * MERGED, 3 * 2 * vision["patch_size"] ** 2, dtype=kind)
    grid = torch.tensor([[1, rows, tokens * MERGED // rows]] * micro)
    return batch | {"pixel_values": pixels, "image_grid_thw": grid}


def loss_of(engine: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The loss of a batch, everything else that the model returns dropped."""
    if "input" in batch:
        return torch.Tensor.mean(engine(batch["input"]).float().pow(2))
    found: torch.Tensor = engine(**batch).loss
    return found


def share_sequences(model: torch.nn.Module, ranks: int, length: int, micro: int) -> Any:
    """Let ranks share each sequence (Ulysses); gives the groups that the engine is told of."""
    import inspect
    import tempfile

    import deepspeed
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    deepspeed.init_distributed(verbose=False)
    register = UlyssesSPAttentionHF.register_with_transformers
    name, told = "seq_length", model
    if name not in inspect.signature(register).parameters:  # up to 0.17: by a path, with an older name
        name, told = "max_length", tempfile.mkdtemp()
        model.config.save_pretrained(told)
    return register(
        model_name_or_path=told,
        core_attn_implementation="sdpa",
        sequence_parallel_size=ranks,
        micro_batch_size=micro,
        **{name: length},
    )


def shared(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A rank's part of a batch, as `UlyssesSPDataLoaderAdapter` and the Trainer hand it to the model."""
    ids = batch["input_ids"]
    places = torch.arange(ids.shape[1]).repeat(ids.shape[0], 1)
    labels = ids.clone()
    return {"input_ids": ids, "position_ids": places, "labels": labels, "shift_labels": labels}


def cut(model: torch.nn.Module, config: dict[str, Any]) -> torch.nn.Module:
    """The model with its layers shared, where the script has to ask for that (up to 0.18.5)."""
    import deepspeed
    from deepspeed.runtime.engine import DeepSpeedEngine

    ranks = config.get("tensor_parallel", {}).get("autotp_size", 0)
    if ranks < 2 or hasattr(DeepSpeedEngine, "_apply_autotp_partitioning"):
        return model
    deepspeed.init_distributed(verbose=False)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    dtype = next((kind for name, kind in kinds.items() if name in config), torch.float32)
    found: torch.nn.Module = deepspeed.tp_model_init(model, ranks, dtype)
    return found
