"""The consumers by name: which keys each of them fills, when, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.job.consumers import ELASTIC, INFERENCE
from dsconfig.job.consumers.consumer_versions import split_consumer_spec, version_includes_change

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

# One consumer and the keys that it fills.

Stage: TypeAlias = "Literal['arguments', 'plugin', 'model', 'prepare']"
"""Stage at which a key is filled: with the training arguments, when the plugin is created, after the model is loaded,
or in `Accelerator.prepare`.
"""


class AutofillRule(NamedTuple):
    """How a consumer replaces an "auto"; if `must_match`, a different value in the config is an error."""

    key: str
    origin: str
    stage: Stage
    must_match: bool = False
    change: str = ""
    """The change in `consumer_versions.CHANGES` that added the rule, or with a leading `!` the one that removed it.
    """


class ConfigConsumer(NamedTuple):
    """A library that loads configs, with its defaults for training arguments that are not given."""

    name: str
    own_keys: tuple[str, ...] = ()
    """Root keys that only the consumer reads or writes, not DeepSpeed."""
    fills: tuple[AutofillRule, ...] = ()
    defaults: Mapping[str, Json] = MappingProxyType({})
    version: str | None = None
    """Version of the consumer; None is the newest known version."""
    removed_fills: tuple[AutofillRule, ...] = ()
    """Rules that only earlier versions of the consumer have."""

    @property
    def training_argument_names(self) -> frozenset[str]:
        """Names of the training arguments from which the consumer fills keys."""
        return frozenset({"per_device_train_batch_size", *self.defaults})

    def includes_change(self, word: str) -> bool:
        """Return whether this version includes a change listed in `consumer_versions.CHANGES`."""
        return version_includes_change(word, self.name, self.version)

    def at_version(self, version: str | None) -> ConfigConsumer:
        """Return this consumer at another version."""
        if version is None:
            return self
        consumer = self._replace(version=version)
        fills = (each for each in self.fills if not each.change or consumer.includes_change(each.change))
        former = (
            each for each in self.removed_fills if not consumer.includes_change(each.change.removeprefix("!"))
        )
        return consumer._replace(fills=(*fills, *former))

    def origin_of_value(self, key: str) -> str | None:
        """Return where the consumer takes the value for `key` from, or None if it does not fill it."""
        return next((fill.origin for fill in self.fills if fill.key == key), None)


# Accelerate's DeepSpeedPlugin, which the Transformers Trainer creates too.
#
# Source: accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin.

_ZERO = "zero_optimization"
BUCKETS = (
    (f"{_ZERO}.reduce_bucket_size", "hidden size²"),
    (f"{_ZERO}.stage3_prefetch_bucket_size", "0.9 × hidden size²"),
    (f"{_ZERO}.stage3_param_persistence_threshold", "10 × hidden size"),
)
PLUGIN = (
    AutofillRule(f"{_ZERO}.stage", "zero_stage", "plugin"),
    AutofillRule(f"{_ZERO}.offload_optimizer.device", "offload_optimizer_device", "plugin"),
    AutofillRule(f"{_ZERO}.offload_param.device", "offload_param_device", "plugin"),
    AutofillRule(f"{_ZERO}.offload_optimizer.nvme_path", "offload_optimizer_nvme_path", "plugin"),
    AutofillRule(f"{_ZERO}.offload_param.nvme_path", "offload_param_nvme_path", "plugin"),
    AutofillRule(f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", "zero3_save_16bit_model", "plugin"),
)
"""Keys that Accelerate's `DeepSpeedPlugin` fills."""
PLUGIN_DEFAULTS: Mapping[str, Json] = {
    "zero_stage": 2,
    "offload_optimizer_device": "none",
    "offload_param_device": "none",
    "offload_optimizer_nvme_path": "none",
    "offload_param_nvme_path": "none",
    "zero3_save_16bit_model": False,
}


# Accelerate, for scripts with their own training loop.
#
# Source: accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin; accelerator.py,
# Accelerator._prepare_deepspeed.

ACCELERATE = ConfigConsumer(
    "accelerate",
    own_keys=("msamp",),
    fills=(
        *(each._replace(change="nvme_path") if each.key.endswith("nvme_path") else each for each in PLUGIN),
        AutofillRule("fp16.enabled", 'mixed_precision is "fp16"', "plugin"),
        AutofillRule("bf16.enabled", 'mixed_precision is "bf16" or "fp8"', "plugin"),
        AutofillRule(
            "train_micro_batch_size_per_gpu", "per_device_train_batch_size, the data loader's", "prepare"
        ),
        AutofillRule("gradient_accumulation_steps", "gradient_accumulation_steps", "prepare"),
        AutofillRule("train_batch_size", "micro batch × accumulation steps × processes", "prepare"),
        AutofillRule("gradient_clipping", "gradient_clipping, else 1.0", "prepare"),
        *(AutofillRule(key, origin, "prepare") for key, origin in BUCKETS),
        AutofillRule("optimizer.params.lr", "DummyOptim.lr", "prepare"),
        AutofillRule("optimizer.params.weight_decay", "DummyOptim.weight_decay", "prepare"),
        AutofillRule("scheduler.params.warmup_min_lr", "0", "prepare"),
        AutofillRule("scheduler.params.warmup_max_lr", "DummyOptim.lr", "prepare"),
        AutofillRule("scheduler.params.warmup_num_steps", "DummyScheduler.warmup_num_steps", "prepare"),
        AutofillRule("scheduler.params.total_num_steps", "DummyScheduler.total_num_steps", "prepare"),
    ),
    defaults={
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "learning_rate": 0.001,
        "weight_decay": 0,
        "warmup_steps": 0,
        "mixed_precision": "no",
        "split_batches": False,
        "max_steps": -1,
        **PLUGIN_DEFAULTS,
    },
)


# The Transformers Trainer.
#
# Source: transformers 5.24 integrations/deepspeed.py, HfTrainerDeepSpeedConfig.

TRANSFORMERS = ConfigConsumer(
    "transformers",
    fills=(
        AutofillRule("train_micro_batch_size_per_gpu", "per_device_train_batch_size", "arguments", True),
        AutofillRule("gradient_accumulation_steps", "gradient_accumulation_steps", "arguments", True),
        AutofillRule(
            "train_batch_size",
            "world size × per_device_train_batch_size × gradient_accumulation_steps",
            "arguments",
            True,
        ),
        AutofillRule("gradient_clipping", "max_grad_norm", "arguments", True),
        AutofillRule("optimizer.params.lr", "learning_rate", "arguments", True),
        AutofillRule("optimizer.params.betas", "[adam_beta1, adam_beta2]", "arguments", True),
        AutofillRule("optimizer.params.eps", "adam_epsilon", "arguments", True),
        AutofillRule("optimizer.params.weight_decay", "weight_decay", "arguments", True),
        AutofillRule("scheduler.params.warmup_min_lr", "0", "arguments"),
        AutofillRule("scheduler.params.warmup_max_lr", "learning_rate", "arguments", True),
        AutofillRule("fp16.enabled", "fp16 or fp16_full_eval", "arguments", True),
        AutofillRule("bf16.enabled", "bf16 or bf16_full_eval", "arguments", True),
        *(each._replace(change="plugin") for each in PLUGIN),
        *(AutofillRule(key, origin, "model") for key, origin in BUCKETS),
        AutofillRule("scheduler.params.total_num_steps", "the number of training steps", "model", True),
        AutofillRule("scheduler.params.warmup_num_steps", "warmup_steps", "model", True),
    ),
    removed_fills=(
        AutofillRule("amp.enabled", "fp16_backend", "arguments", True, "!no_amp"),
        AutofillRule("amp.opt_level", "fp16_opt_level", "arguments", True, "!no_amp"),
    ),
    defaults={
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "learning_rate": 5e-5,
        "weight_decay": 0.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "max_grad_norm": 1.0,
        "warmup_steps": 0,
        "warmup_ratio": 0.0,
        "max_steps": -1,
        "fp16": False,
        "bf16": False,
        "fp16_full_eval": False,
        "bf16_full_eval": False,
        "save_on_each_node": False,
        "auto_find_batch_size": False,
        **PLUGIN_DEFAULTS,
    },
)


SCHEDULE_ARGUMENTS = frozenset(
    {
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
        "learning_rate",
        "lr_scheduler_type",
        "max_grad_norm",
        "optim",
        "warmup_ratio",
        "warmup_steps",
        "weight_decay",
    }
)
"""Training arguments that the Trainer ignores if the config has its own section or key for them. A key that is absent
from such a section has DeepSpeed's default.

Source: transformers integrations/deepspeed.py, deepspeed_optim_sched and HfTrainerDeepSpeedConfig.fill_match.
"""
COMPARED_ARGUMENTS = SCHEDULE_ARGUMENTS | {
    "generation_batch_size",
    "num_generations",
    "load_best_model_at_end",
    "resume_from_checkpoint",
    "resume_only_model",
    "save_only_model",
    "steps_per_generation",
}
"""Training arguments that fill no key, but that rules compare with the config or with each other."""


# Lightning adds the batch to every config; it fills no "auto". `elastic` and `inference` fill nothing.
#
# Source: lightning 2.6 pytorch/strategies/deepspeed.py,
# DeepSpeedStrategy._format_batch_size_and_grad_accum_config.

LIGHTNING = ConfigConsumer("lightning", defaults={"accumulate_grad_batches": 1})

BY_NAME: Mapping[str, ConfigConsumer] = {
    "deepspeed": ConfigConsumer("deepspeed"),
    "transformers": TRANSFORMERS,
    "accelerate": ACCELERATE,
    "lightning": LIGHTNING,
    ELASTIC: ConfigConsumer(ELASTIC),
    INFERENCE: ConfigConsumer(INFERENCE),
}


def consumer_from_spec(spec: str) -> ConfigConsumer:
    """Return the consumer for a spec such as `transformers==4.45`."""
    name, version = split_consumer_spec(spec)
    return BY_NAME[name].at_version(version)


# Keys that an earlier version of a consumer does not fill.


@cache
def keys_not_filled(spec: str) -> frozenset[str]:
    """Return the keys that the newest version of a consumer fills but the version in the spec does not."""
    name, version = split_consumer_spec(spec)
    if version is None:
        return frozenset()

    newest = {fill.key for fill in consumer_from_spec(name).fills}
    return frozenset(newest - {fill.key for fill in consumer_from_spec(spec).fills})
