"""Training arguments: how a consumer replaces "auto" from them, how to read them from files, and TRL's defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from dsconfig.core.did_you_mean import index_words, similar_words
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.wording import quote_value
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, BLOCK_KEYS, ROOT_KEYS
from dsconfig.job.consumers.consumer_versions import version_tuple

# Sources of filled values: training arguments, their files, and the model's hidden size.

_ALIASES: Mapping[str, str] = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "batch_size": "per_device_train_batch_size",
    "micro_batch_size": "per_device_train_batch_size",
    "per_device_bs": "per_device_train_batch_size",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "grad_clip": "max_grad_norm",
    "gradient_clipping": "max_grad_norm",
    "betas": "adam_beta1",
    "eps": "adam_epsilon",
    "warmup_num_steps": "warmup_steps",
    "total_num_steps": "max_steps",
}
"""Names by which DeepSpeed, other trainers and scripts call the Trainer's arguments."""


_MAX_VALUE = 1 << 63
"""Largest accepted value of an argument: larger values, including infinity, would break the arithmetic."""


class ConsumerArguments:
    """Training arguments merged with the consumer's defaults, for look-up by name and type.

    Raises:
        ValueError: an unknown argument resembles one that fills a key.
    """

    def __init__(
        self, values: Mapping[str, Json], defaults: Mapping[str, Json], unknown: Collection[str] = ()
    ) -> None:
        self.values, self.defaults = dict(values), {**defaults, **dict.fromkeys(unknown)}
        block = self.values.get(BLOCK)
        if isinstance(block, Mapping):  # a file of `accelerate config` keeps the plugin's fields in here
            self.values.update({key: value for key, value in block.items() if value != "auto"})
        if defaults:
            known_names = frozenset({"per_device_train_batch_size", *defaults})
            launcher_keys = ROOT_KEYS | BLOCK_KEYS if BLOCK in self.values else frozenset[str]()
            self._reject_argument_typos(known_names, known_names | launcher_keys)

    def _reject_argument_typos(self, known_names: frozenset[str], valid: frozenset[str]) -> None:
        """Raise ValueError for an unknown argument whose name resembles one that fills a key."""
        words = index_words(sorted(known_names))
        for name, value in self.values.items():
            if name in valid or value is None:
                continue
            alias = _ALIASES.get(name)
            suggestion = (
                alias
                if alias in known_names
                else next((each.word for each in similar_words(str(name), words)), None)
            )
            if suggestion is not None:
                raise ValueError(
                    f"training argument {quote_value(name)} is unknown: did you mean `{suggestion}`?"
                )

    def number_argument(self, name: str) -> Json:
        """Return a numeric argument or its default, or None if there is neither."""
        value = self._argument_or_default(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MAX_VALUE:
            raise ValueError(_describe_wrong_type(name, value, "a number"))
        return value

    def positive_integer(self, name: str) -> int | None:
        """Return a positive integer argument or its default, or None if there is neither."""
        value = self.number_argument(name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(_describe_wrong_type(name, value, "a positive integer"))
        return value

    def is_any_true(self, *names: str) -> bool | None:
        """Return whether any of these boolean arguments is true, or None if unknown."""
        values = [self._boolean_argument(name) for name in names]
        return True if True in values else None if None in values else False

    def _boolean_argument(self, name: str) -> bool | None:
        value = self._argument_or_default(name)
        if value is None:
            return None
        if not isinstance(value, bool):
            raise ValueError(_describe_wrong_type(name, value, "true or false"))
        return value

    def text_argument(self, name: str) -> str | None:
        """Return a string argument or its default, or None if there is neither."""
        value = self._argument_or_default(name)
        # YAML 1.1 parses `mixed_precision: no` as false.
        return "no" if value is False and name == "mixed_precision" else None if value is None else str(value)

    def training_steps(self) -> int | None:
        """Return the number of training steps, or None if it depends on the data set's size."""
        steps = self.number_argument("max_steps")
        return steps if steps is not None and steps > 0 else None

    def warmup_steps(self, total: int | None, *, least: int = 1) -> int | None:
        """Return the number of warmup steps; a value below 1 is a fraction of all steps."""
        steps = self.number_argument("warmup_steps")
        if steps is None:
            return None
        fraction = steps if 0 < steps < 1 else self.number_argument("warmup_ratio") if steps == 0 else None
        if not fraction:
            return max(least, int(steps))
        return None if total is None else max(least, math.ceil(total * fraction))

    def _argument_or_default(self, name: str) -> Json:
        value = self.values.get(name)
        return self.defaults.get(name) if value is None else value


def _describe_wrong_type(name: str, value: Json, wanted: str) -> str:
    hint = ""
    if isinstance(value, str) and "e" in value.lower() and _is_numeric_text(value):
        hint = "; YAML reads an exponent only behind a decimal point, as in 5.0e-5"
    return f"training argument `{name}` is {quote_value(value)}, expected {wanted}{hint}"


def _is_numeric_text(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


_HIDDEN_SIZE_NAMES = ("d_model", "n_embd", "dim", "emb_dim", "embed_dim", "hidden_dim")
"""Other names of the hidden size in `config.json`, which the `attribute_map` of a model maps to `hidden_size`."""


def hidden_size(model: Mapping[str, Json], *, nested: bool) -> int | None:
    """Return a model's hidden size, or the largest of several; with `nested`, also consider `text_config`."""
    for name in ("hidden_size", "hidden_sizes", *_HIDDEN_SIZE_NAMES):
        value = model.get(name)
        sizes = [size for size in (value if isinstance(value, list) else [value]) if type(size) is int]
        if sizes and 0 < max(sizes) < _MAX_VALUE:
            return max(sizes)
    inner = model.get("text_config")
    return hidden_size(inner, nested=False) if nested and isinstance(inner, Mapping) else None


# Defaults of TRL's training arguments that differ from those of Transformers.
#
# Source: trl v0.7.5 to v1.9.0, trl/trainer/*_config.py and trl/experimental/*/*_config.py of each tag;
# since 0.29 the precision is set in trl/trainer/base_config.py.

_LEARNING_RATES: Mapping[str, tuple[tuple[str, float], ...]] = {
    "A2POConfig": (),
    "AsyncGRPOConfig": (("1.0", 1e-6),),
    "BCOConfig": (("0.29", 5e-7),),
    "CPOConfig": (("0.12", 1e-6),),
    "DPOConfig": (("0.12", 1e-6),),
    "DistillationConfig": (("1.1", 1e-6),),
    "GOLDConfig": (("0.25", 1e-7),),
    "GRPOConfig": (("0.14", 1e-6),),
    "IWOPDConfig": (("1.9", 1e-6),),
    "IterativeSFTConfig": (),
    "KTOConfig": (("0.11", 5e-7), ("0.12", 1e-6)),
    "ORPOConfig": (("0.12", 1e-6),),
    "OnlineDPOConfig": (("0.11", 5e-7),),
    "PPOConfig": (("0.29", 3e-6),),
    "PPOv2Config": (),
    "PRMConfig": (("0.13", 1e-5),),
    "RLOOConfig": (("0.22", 1e-6),),
    "RewardConfig": (("0.24", 1e-4),),
    "SDFTConfig": (),
    "SDPOConfig": (),
    "SFTConfig": (("0.12", 2e-5),),
    "SSDConfig": (),
    "TPOConfig": (("1.3", 5e-7),),
}
"""TRL's classes of training arguments, and the default `learning_rate` of each since some version.

Earlier versions have the default of Transformers.
"""
_BASE_CLASSES = {
    "DPPOConfig": "GRPOConfig",
    "GFPOConfig": "GRPOConfig",
    "GKDConfig": "SFTConfig",
    "GMPOConfig": "GRPOConfig",
    "GRPOWithReplayBufferConfig": "GRPOConfig",
    "MiniLLMConfig": "GRPOConfig",
    "NashMDConfig": "OnlineDPOConfig",
    "PAPOConfig": "GRPOConfig",
    "ServerDistillationConfig": "DistillationConfig",
    "XPOConfig": "OnlineDPOConfig",
}
"""TRL classes that change none of these defaults, and their base classes."""
_GENERATIONS = {"GRPOConfig": 8, "RLOOConfig": 2}
"""Default of `num_generations` of the classes that compare it with the batch size, in every version with this check."""
_BF16_SINCE = "0.19"
"""Version of TRL since which `bf16` is on by default, unless `fp16` is on."""


def is_trl_config_class(name: str) -> bool:
    """Return whether `name` is a TRL class of training arguments."""
    return name in _LEARNING_RATES or name in _BASE_CLASSES


def trl_defaults(name: str, version: str | None) -> JsonObject:
    """Return the defaults in which a TRL class differs from Transformers; `version` None is the newest."""
    defaults: JsonObject = {"num_generations": _GENERATIONS[name]} if name in _GENERATIONS else {}
    name = _BASE_CLASSES.get(name, name)
    for since, rate in _LEARNING_RATES[name]:
        if _is_version_since(version, since):
            defaults["learning_rate"] = rate
    if _is_version_since(version, _BF16_SINCE):
        defaults["bf16"] = True
    if (
        name == "GRPOConfig"
        and version is not None
        and version_tuple(version)[:2] == version_tuple("0.14")[:2]
    ):
        # Only v0.14.0 sets these two (`GRPOConfig` in its trainer/grpo_config.py).
        defaults |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}
    return defaults


TRL_CHECKPOINTS_SINCE = "0.22"
"""Version of TRL since which `gradient_checkpointing` is on by default (trl trainer/*_config.py)."""
_MAX_LENGTH_SINCE: Mapping[str, str] = {
    "SFTConfig": "0.15",
    **dict.fromkeys(("CPOConfig", "DPOConfig", "KTOConfig", "ORPOConfig", "RewardConfig"), "0.14"),
}
"""Version of TRL since which sequences are cut at `_MAX_LENGTH` tokens by default, by class."""
_MAX_LENGTH = 1024


def trl_memory_defaults(name: str, version: str | None) -> JsonObject:
    """Return the defaults of a TRL class that decide memory; `version` None is the newest."""
    name = _BASE_CLASSES.get(name, name)
    since = _MAX_LENGTH_SINCE.get(name)
    defaults: JsonObject = {"gradient_checkpointing": _is_version_since(version, TRL_CHECKPOINTS_SINCE)}
    return defaults | ({"max_length": _MAX_LENGTH} if since and _is_version_since(version, since) else {})


def _is_version_since(version: str | None, since: str) -> bool:
    return version is None or version_tuple(version) >= version_tuple(since)
