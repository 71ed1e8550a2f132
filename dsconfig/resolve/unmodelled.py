"""Arguments of training programs that change what is held, and are not modelled: named beside an estimate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.launch.training_arguments import plain
from dsconfig.memory.verdict import HOST, RANK, Unmodelled

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

_RANK, _HOST = frozenset((RANK,)), frozenset((HOST,))
_BOTH, _NONE = _RANK | _HOST, frozenset[str]()
_ACTIVATIONS = frozenset(
    ("activations", "gradients of activations", "logits and loss", "temporaries", "exchanged heads", "inputs")
)
_STATES = frozenset(("optimizer states", "temporaries of the step"))
_UPDATE = _STATES | {"gradients", "master weights", "fp32 gradients of the partition", "reduce bucket"}


class Effect(NamedTuple):
    """What an argument does to memory; see `Unmodelled`."""

    text: str
    raises: frozenset[str] = _NONE
    lowers: frozenset[str] = _NONE
    terms: frozenset[str] = _NONE
    above: int = 0
    """Only a larger number does it."""


_LIGER = Effect("fused kernels keep fewer activations", lowers=_RANK, terms=_ACTIVATIONS)
_MOVED = Effect("activations go to the host", _HOST, _RANK, _ACTIVATIONS)
_SMALL = Effect("the optimizer keeps other states", _BOTH, _BOTH, _UPDATE)
_SHARED = Effect("ranks share each sequence", lowers=_RANK, terms=_ACTIVATIONS, above=1)
_WHOLE = Effect("these layers are trained whole beside the adapters", _BOTH)
_PARTS = Effect("a part of the weights is trained", _NONE, _BOTH)
_MODELS = Effect("another model, or generation, takes memory too", _BOTH)
EFFECTS: Mapping[str, Effect] = {
    "pure_bf16": Effect("weights that are trained stay in bf16", _BOTH, _BOTH),
    "fp8": Effect("linear layers compute in fp8", _RANK, _RANK),
    "torch_compile": Effect("compiled code keeps other activations", _RANK, _RANK, _ACTIVATIONS),
    "mixture_of_depths": Effect("layers pass over tokens", _RANK, _RANK),
    "use_llama_pro": Effect("only new blocks are trained", _BOTH, _BOTH),
    "upcast_layernorm": Effect("norms are in fp32", _BOTH),
    "upcast_lmhead_output": Effect("logits are in fp32", _RANK),
    "use_dora": Effect("DoRA keeps more than LoRA", _BOTH),
    "peft_use_dora": Effect("DoRA keeps more than LoRA", _BOTH),
    "use_unsloth": Effect("Unsloth's kernels keep fewer activations", lowers=_RANK, terms=_ACTIVATIONS),
    "unfrozen_parameters": _PARTS,
    "lisa_n_layers": _PARTS,
    "use_asft_loss": _MODELS,
    **dict.fromkeys(("use_unsloth_gc", "activation_offloading"), _MOVED),
    **dict.fromkeys(
        ("enable_liger_kernel", "use_liger_kernel", "use_liger", "use_liger_loss", "use_logits_to_keep"),
        _LIGER,
    ),
    **dict.fromkeys(
        ("cut_cross_entropy", "chunked_cross_entropy", "liger_fused_linear_cross_entropy"), _LIGER
    ),
    **dict.fromkeys(("use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon"), _SMALL),
    **dict.fromkeys(("sequence_parallel_size", "context_parallel_size", "cp_size"), _SHARED),
    **dict.fromkeys(("additional_target", "modules_to_save"), _WHOLE),
    **dict.fromkeys(("lora_modules_to_save", "additional_trainable_parameters"), _WHOLE),
    **dict.fromkeys(("ref_model", "ref_model_name_or_path", "reward_model", "reward_model_path"), _MODELS),
    **dict.fromkeys(("reward_model_name_or_path", "reward_funcs", "reward_pretrain"), _MODELS),
    **dict.fromkeys(("critic_pretrain", "ref_pretrain", "num_generations", "use_vllm"), _MODELS),
    **dict.fromkeys(("max_prompt_length", "max_completion_length"), _MODELS),
}
"""By argument, where it is on: of LLaMA-Factory (hparams/), the Trainer, TRL, Axolotl, ms-swift, OpenRLHF."""
METHODS = ("stage", "rlhf_type", "rl")
"""Where LLaMA-Factory, ms-swift and Axolotl name what else than one text after the other is trained."""
PLAIN = ("pt", "sft")
_PAIRS = "two answers a sample, and a reference model unless adapters alone are trained"
_ROLLOUTS = "answers are generated, and models for reward, value and reference may lie beside"
_ONLINE = ("ppo", "grpo", "rloo", "online_dpo", "gkd")
_METHOD = r"(?<![a-z])(dpo|ipo|kto|orpo|cpo|simpo|ppo|grpo|rloo|gkd|reward|rm)(?![a-z])"
"""In the name of a script, as TRL, OpenRLHF and the alignment handbook have them."""
_CHECKPOINTING = ("offload", "offload_disk", "unsloth")

OPTIMIZERS: Mapping[str, str] = {
    **dict.fromkeys(("adamw_torch", "adamw_hf", "paged_adamw", "paged_adamw_32bit"), "adamw"),
    **dict.fromkeys(("adamw_torch_fused", "adamw_apex_fused"), "adamw-fused"),
    **dict.fromkeys(("adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit"), "adamw-8bit"),
    **dict.fromkeys(("lion_32bit", "paged_lion_32bit"), "lion"),
    "sgd": "sgd",
    "adagrad": "adagrad",
}
"""The Trainer's `optim`, by the optimizers that are modelled (training_args.py, `OptimizerNames`)."""


def optimizer_of(arguments: Mapping[str, Json]) -> str | None:
    """The optimizer that the Trainer makes by `optim`; None where it is not modelled, or not said."""
    word = plain(arguments.get("optim"))
    return OPTIMIZERS.get(word) if isinstance(word, str) else None


def of_optimizer(arguments: Mapping[str, Json], origin: str) -> Iterator[Unmodelled]:
    """What of the Trainer's `optim` is not modelled."""
    word = plain(arguments.get("optim"))
    if not isinstance(word, str) or (word in OPTIMIZERS and not word.startswith("paged_")):
        return
    key = f"optim: {word}{origin}"
    if word in OPTIMIZERS:
        yield Unmodelled(key, "pages of optimizer states may lie on the host", _HOST, _RANK, _STATES)
    else:
        yield Unmodelled(key, _SMALL.text, *_SMALL[1:4])


def unmodelled(arguments: Mapping[str, Json], origin: str = "") -> Iterator[Unmodelled]:
    """What these arguments do that an estimate leaves out; `origin`: ` in train.yaml`."""
    for key in METHODS:
        word = plain(arguments.get(key))
        if isinstance(word, str) and word.lower() not in PLAIN:
            text = _ROLLOUTS if word.lower() in _ONLINE else _PAIRS
            yield Unmodelled(f"{key}: {word}{origin}", text, _BOTH)
    script = arguments.get("SCRIPT")
    if isinstance(script, str) and (method := re.search(_METHOD, script.lower())):
        text = _ROLLOUTS if method[1] in _ONLINE else _PAIRS
        yield Unmodelled(f"{script}{origin}", text, _BOTH)
    for key, effect in EFFECTS.items():
        value = plain(arguments.get(key))
        number = value if type(value) in (int, float) else None
        if value in (None, False, 0, "", "none", []) or (number is not None and number <= effect.above):
            continue
        yield Unmodelled(f"{key}: {_shown(value)}{origin}", effect.text, *effect[1:4])
    if (value := plain(arguments.get("gradient_checkpointing"))) in _CHECKPOINTING:
        yield Unmodelled(f"gradient_checkpointing: {value}{origin}", _MOVED.text, *_MOVED[1:4])


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
