"""Detect a config's consumer from its content, and describe the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.job.consumers import INFERENCE
from dsconfig.job.consumers.consumer_versions import split_consumer_spec
from dsconfig.job.job_facts import NO_FACTS, RunFacts, read_dsconfig_block
from dsconfig.model.key_table import INFERENCE_ROOT, ROOT, keys_of_section_class

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

Origin: TypeAlias = (
    "Literal['argument', 'environment', 'file', 'settings', 'launch file', 'script',"
    " 'content', 'pin', 'installed', 'latest', 'default']"
)
"""Source of a fact, the strongest first; `file` is the config's own block `"$dsconfig"`."""


class ProgramWrite(NamedTuple):
    """A write of a program to the config key at a dotted path."""

    key: str
    value: Json
    """The value that the program writes; None if it removes the key."""
    unless: str = ""
    """Dotted key whose presence in the config prevents the write."""
    stage: int | None = None
    """ZeRO stage that the config must have for the write; None for any stage."""


class ConfigOverwrite(NamedTuple):
    """A key that a program writes or removes, and the location of that code, such as `train.py:12`."""

    key: str
    place: str
    absent_only: bool
    """Whether the program keeps an existing value other than "auto"."""


class LaunchArguments(NamedTuple):
    """Training arguments from a launch file, and the names of those known only at run time."""

    arguments: Mapping[str, Json]
    unknown: frozenset[str] = frozenset()
    sets: Mapping[str, Json] = MappingProxyType({})
    """Root keys that the program writes into a config that lacks them."""
    writes: tuple[ProgramWrite, ...] = ()
    """Writes into the config caused by keys of the launch file."""
    samples_per_step: int | None = None
    """Samples per optimizer step, from which the program calculates accumulation steps that are not set."""
    likely: Mapping[str, Json] = MappingProxyType({})
    """Typical values of unknown arguments. They fill the config but never contradict it."""

    at: Callable[[int], LaunchArguments | None] | None = None
    """Function that returns the arguments for a number of ranks, if the script calculates them from that number."""
    note: str = ""
    """Origin of the arguments, as a message."""
    has_flags: bool = False
    """Whether the arguments are flags of a command, not keys of the launch file."""
    are_in_code: bool = False
    """Whether the program sets the arguments in its code."""
    spelled: Mapping[str, str] = MappingProxyType({})
    """Argument names in the launch file, by the Trainer's names."""
    explicit: Mapping[str, Json] = MappingProxyType({})
    """Arguments among `consumer.COMPARED_ARGUMENTS` that the launch file itself sets, without any defaults.

    The value is None if the arguments are unknown before the run.
    """

    def arguments_at_world_size(self, world_size: int | None) -> LaunchArguments:
        """Return the training arguments at a world size."""
        if self.at is not None and world_size is not None:
            return (self.at(world_size) or self._replace(at=None)).arguments_at_world_size(world_size)
        micro = self.arguments.get(_MICRO)
        if self.samples_per_step is None or world_size is None or not isinstance(micro, int) or micro < 1:
            return self
        steps = max(1, -(-self.samples_per_step // (micro * world_size)))
        return self._replace(arguments={**self.arguments, _STEPS: steps}, unknown=self.unknown - {_STEPS})

    def apply_program_writes(self, config: JsonObject) -> frozenset[str]:
        """Apply a program's writes to a config, and return the root keys that they add."""
        added = frozenset(self.sets.keys() - config.keys())
        config.update({key: self.sets[key] for key in added})
        zero = config.get(_ZERO)
        stage = zero.get("stage") if isinstance(zero, Mapping) else None
        for dotted, value, unless, at_stage in self.writes:
            if (unless and _has_dotted_key(config, unless)) or at_stage not in (None, stage):
                continue
            *sections, last = dotted.split(".")
            node: Json = config
            for section in sections:
                node = node.setdefault(section, {}) if isinstance(node, dict) else None
            if isinstance(node, dict) and value is None:
                node.pop(last, None)
            elif isinstance(node, dict):
                node[last] = value
        return added


def _has_dotted_key(config: Json, dotted: str) -> bool:
    for part in dotted.split("."):
        if not isinstance(config, dict) or part not in config:
            return False
        config = config[part]
    return True


_MICRO, _STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"


DEEPSPEED_CONFIG_FLAGS = ("--deepspeed_config", "--deepspeed-config")
"""Flags that DeepSpeed and many programs define; the config that they name may have any consumer."""


class PossibleConsumers(NamedTuple):
    """The possible consumers of a config, most likely first, with the evidence."""

    names: tuple[str, ...]
    why: str
    """Evidence as a clause: `` `TrainingArguments(deepspeed=...)` in train.py:9 ``; empty if nothing is known."""
    is_content_decisive: bool = False
    """Whether the config's values are better evidence than the order of the names."""

    def most_likely(self, content: str) -> str:
        """Return the consumer to assume, given the one that the config's content suggests."""
        return content if self.is_content_decisive and content in self.names else self.names[0]

    def less_likely(self, content: str) -> tuple[str, ...]:
        """Return the other possible consumers, given the one that the config's content suggests."""
        first = self.most_likely(content)
        return tuple(name for name in self.names if name != first)


class ConsumerEvidence(NamedTuple):
    """A config's consumer, and the evidence for it."""

    name: str
    why: str
    """Evidence as a clause: `16 values are "auto"`."""
    origin: Origin
    likely: bool = False
    """Whether other consumers are possible, although less likely."""
    training_arguments: LaunchArguments | None = None
    """Training arguments of the job that reads the config, if exactly one is known."""
    processes: int | None = None
    """World size of that job, if known."""
    version: str | None = None
    """Version of the consumer, if it fills other keys than the newest version."""
    launch: str = ""
    """Launch files of that job, as shown in messages."""
    facts: RunFacts = NO_FACTS
    """Other facts about the run: model, hosts and parallelism."""
    others: tuple[str, ...] = ()
    """Other possible consumers; a problem for this consumer alone is then not reported as an error."""

    def __hash__(self) -> int:  # training arguments contain mappings, which are not hashable
        return hash((self.name, self.why, self.origin))

    def choose_among(self, readers: PossibleConsumers, content: str) -> ConsumerEvidence:
        """Narrow this evidence to the most likely of `readers`, given the consumer that the content suggests."""
        return self._replace(
            name=readers.most_likely(content), others=readers.less_likely(content), likely=True
        )

    @property
    def consumer_spec(self) -> str:
        """The consumer's name, with the version if it matters: `transformers==4.45`."""
        return f"{self.name}=={self.version}" if self.version else self.name

    @property
    def explicit_consumer_spec(self) -> str | None:
        """The consumer's name and version if given by the user, or None if detected."""
        return self.consumer_spec if self.origin in ("argument", "file", "settings") else None

    def __str__(self) -> str:
        """Describe the consumer and the evidence: `read by transformers: 16 values are "auto"`."""
        model = f"; trains {self.facts.model}" if self.facts.model else ""
        return f"{'probably ' * self.likely}read by {self.name}: {self.why}{model}"


def consumer_named_by_user(
    name: str, why: str = "--consumer", origin: Origin = "argument"
) -> ConsumerEvidence:
    """Return the consumer that the user named."""
    consumer, version = split_consumer_spec(name)
    return ConsumerEvidence(
        consumer, why if version is None else f"{why}, version {version}", origin, version=version
    )


def consumer_declared_in_config(data: object) -> ConsumerEvidence | None:
    """Return the consumer that a config names in its `"$dsconfig"` block, or None."""
    name = read_dsconfig_block(data).consumer
    return None if name is None else consumer_named_by_user(name, 'set in its own `"$dsconfig"`', "file")


_ZERO = "zero_optimization"
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
# In 493 configs whose caller is known, "auto" occurs here 97 times for the Trainer and never for Accelerate.
_TRAINER_ONLY = ("optimizer.params.betas", "optimizer.params.eps")
# In the same configs, "auto" occurs here 10 times, always for Accelerate.
_GATHERING = f"{_ZERO}.stage3_gather_16bit_weights_on_model_save"


# Inference configs, which `deepspeed.init_inference` reads.

_AMBIGUOUS = frozenset((
    "dtype", "zero", "moe", "quant", "config", "args", "checkpoint", "tensor_parallel", "tp", "tm",
    "base_dir", "max_tokens", "min_tokens", "mp_size",
))  # fmt: skip
"""Keys of inference configs that training configs and other programs use too."""
_LEAST_INFERENCE = 2


@cache
def inference_root_keys() -> frozenset[str]:
    """Return the top-level keys of inference configs of all releases, and their aliases."""
    infos = keys_of_section_class(INFERENCE_ROOT).values()
    return frozenset(word for info in infos for word in (info.name, *(alias for alias, _ in info.aliases)))


def is_inference_key(name: str) -> bool:
    """Return whether only inference configs have a top-level key of this name."""
    return (
        name in inference_root_keys() and name not in _AMBIGUOUS and name not in keys_of_section_class(ROOT)
    )


def is_inference_config(data: Mapping[str, object]) -> bool:
    """Return whether an object is an inference config: it has inference keys, and none that are only for training."""
    training = keys_of_section_class(ROOT).keys()
    if data.keys() <= training:
        return False
    fields = inference_root_keys().intersection(data)
    others = data.keys() - fields
    if not training.isdisjoint(others) or len(fields) < len(others):
        return False
    is_clear = len(fields - training) >= _LEAST_INFERENCE or {"tensor_parallel", "dtype"} <= fields
    return is_clear or bool(fields - _AMBIGUOUS)


def mixes_inference_and_training(data: Mapping[str, object]) -> bool:
    """Return whether an object has both keys of inference configs only and keys of training configs only."""
    training = keys_of_section_class(ROOT).keys()
    return bool(
        data.keys() & training - inference_root_keys()
        and data.keys() & (inference_root_keys() - training - _AMBIGUOUS)
    )


_INFERENCE = ConsumerEvidence(INFERENCE, "its keys are those of `deepspeed.init_inference`", "content")


def consumer_suggested_by_content(data: object) -> ConsumerEvidence:
    """Return the consumer that a config's values suggest.

    The Trainer and Accelerate both fill "auto". Only the Trainer fills `betas` and `eps`, and it rejects a
    number that differs from its own argument (transformers
    integrations/deepspeed.py:HfTrainerDeepSpeedConfig.fill_match); Accelerate uses the file's number.
    DeepSpeed ignores "auto" in `zero_optimization` but needs numbers in the batch.
    """
    if not isinstance(data, Mapping):
        return _DEEPSPEED
    if is_inference_config(data):
        return _INFERENCE
    autos = list(_auto_keys(data))
    if autos:
        # An "auto" that no consumer fills is a mistake, and no evidence.
        filled = _all_filled_keys()
        autos = [path for path in autos if path in filled]
    if not autos:
        return _DEEPSPEED
    trainer_key = next((path for path in _TRAINER_ONLY if path in autos), None)
    if trainer_key is not None:
        name = trainer_key.rpartition(".")[2]
        return ConsumerEvidence(
            "transformers",
            f"{_describe_auto_count(autos)}, including `{name}`, which only it fills",
            "content",
        )
    if _GATHERING in autos:
        why = (
            f"{_describe_auto_count(autos)}, including one in `{_ZERO}` for which the Trainer has no argument"
        )
        return ConsumerEvidence("accelerate", why, "content", likely=True)
    return _choose_trainer_or_accelerate(data, autos)


def _choose_trainer_or_accelerate(data: Mapping[str, Json], autos: list[str]) -> ConsumerEvidence:
    """Return the more likely consumer of a config that suits both the Trainer and Accelerate."""
    if all(path.startswith(f"{_ZERO}.") for path in autos) and _written_batch_keys(data):
        why = f'"auto" is only in `{_ZERO}`, where DeepSpeed ignores it, and the batch has numbers'
        return ConsumerEvidence("deepspeed", why, "content", likely=True)
    params = _optimizer_params(data)
    has_auto_rates = "auto" in (params.get("lr"), params.get("weight_decay"))
    if has_auto_rates and ("betas" in params or "eps" in params or _sets_gather_on_save(data)):
        return ConsumerEvidence("transformers", _describe_auto_count(autos), "content", likely=True)
    batch = _written_batch_keys(data)
    if batch and len(batch) < len(_BATCH):
        why = f"{_describe_auto_count(autos)}, but not `{batch[0]}`, which the Trainer would compare with its argument"
        return ConsumerEvidence("accelerate", why, "content", likely=True)
    if has_auto_rates:
        why = f"{_describe_auto_count(autos)}, and the optimizer lacks `betas` and `eps`, which the Trainer fills"
        return ConsumerEvidence("accelerate", why, "content", likely=True)
    return ConsumerEvidence("transformers", _describe_auto_count(autos), "content", likely=True)


# 258 of 273 configs without "auto" are read by DeepSpeed itself, 11 by the Trainer.
_DEEPSPEED = ConsumerEvidence("deepspeed", 'no value is "auto"', "default", likely=True)


def _all_filled_keys() -> frozenset[str]:
    """Return every key that at least one consumer fills."""
    from dsconfig.job.consumers.consumer import BY_NAME

    return frozenset(fill.key for consumer in BY_NAME.values() for fill in consumer.fills)


def _auto_keys(section: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _auto_keys(value, f"{prefix}{key}.")
        elif isinstance(value, str) and value == "auto":
            yield f"{prefix}{key}"


def _optimizer_params(data: Mapping[str, Json]) -> Mapping[str, Json]:
    optimizer = data.get("optimizer")
    params = optimizer.get("params") if isinstance(optimizer, Mapping) else None
    return params if isinstance(params, Mapping) else {}


def _sets_gather_on_save(data: Mapping[str, Json]) -> bool:
    """Return whether the config sets a key to gather weights on save, as the Trainer requires."""
    zero = data.get(_ZERO)
    return isinstance(zero, Mapping) and any("gather_16bit" in key for key in zero)


def _written_batch_keys(data: Mapping[str, Json]) -> list[str]:
    """Return the batch keys whose value is not "auto"."""
    return [key for key in _BATCH if data.get(key, "auto") != "auto"]


def _describe_auto_count(autos: list[str]) -> str:
    return '1 value is "auto"' if len(autos) == 1 else f'{len(autos)} values are "auto"'
