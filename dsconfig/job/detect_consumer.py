"""Who reads a config, as far as its own content tells, and why that is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.job.run_facts import NOTHING, Known, declared

Origin: TypeAlias = Literal[
    "argument",
    "environment",
    "file",
    "settings",
    "launch file",
    "script",
    "content",
    "pin",
    "installed",
    "latest",
    "default",
]
"""Where a fact comes from, the strongest first; `file` is the config's own block `"$dsconfig"`."""


class Written(NamedTuple):
    """What a program writes into a config, by dotted key, unless something is there."""

    key: str
    value: Json
    """None: it takes the key out."""
    unless: str = ""
    stage: int | None = None
    """The ZeRO stage of the configs into which it is written; None: of any."""


class Overwrite(NamedTuple):
    """A key that a program writes, or takes out, and where: `train.py:12`."""

    key: str
    place: str
    absent_only: bool
    """Whether a value of the file stays: it is written where there is none, or "auto"."""


class Given(NamedTuple):
    """Training arguments that a launch file gives, and the names of those that only a run shows."""

    arguments: Mapping[str, Json]
    unknown: frozenset[str] = frozenset()
    sets: Mapping[str, Json] = MappingProxyType({})
    """What its program writes into a config that lacks it: keys of the root."""
    writes: tuple[Written, ...] = ()
    """What its program writes because of its own keys."""
    update: int | None = None
    """The samples of an update, which the accumulation steps are to make up, where they are not written."""
    likely: Mapping[str, Json] = MappingProxyType({})
    """What arguments that are not known are on most machines: it fills, and contradicts nothing."""

    at: Callable[[int], Given | None] | None = None
    """What gives the arguments on so many ranks, where its script reckons with their number."""
    note: str = ""
    """How that came out, in words."""
    has_flags: bool = False
    """Whether the arguments are flags of a command, and not keys of the launch file."""
    spelled: Mapping[str, str] = MappingProxyType({})
    """Arguments that the launch file calls otherwise: the Trainer's name first, its own second."""

    def on(self, world_size: int | None) -> Given:
        """The arguments on so many ranks."""
        if self.at is not None and world_size is not None:
            return (self.at(world_size) or self._replace(at=None)).on(world_size)
        micro = self.arguments.get(_MICRO)
        if self.update is None or world_size is None or not isinstance(micro, int) or micro < 1:
            return self
        steps = max(1, -(-self.update // (micro * world_size)))
        return self._replace(arguments={**self.arguments, _STEPS: steps}, unknown=self.unknown - {_STEPS})

    def complete(self, config: JsonObject) -> frozenset[str]:
        """Put into a config what its program does; returns the keys of the root that are new."""
        added = frozenset(self.sets.keys() - config.keys())
        config.update({key: self.sets[key] for key in added})
        zero = config.get(_ZERO)
        stage = zero.get("stage") if isinstance(zero, Mapping) else None
        for dotted, value, unless, at_stage in self.writes:
            if (unless and _has(config, unless)) or at_stage not in (None, stage):
                continue
            *sections, last = dotted.split(".")
            here: Json = config
            for section in sections:
                here = here.setdefault(section, {}) if isinstance(here, dict) else None
            if isinstance(here, dict) and value is None:
                here.pop(last, None)
            elif isinstance(here, dict):
                here[last] = value
        return added


def _has(config: Json, dotted: str) -> bool:
    for part in dotted.split("."):
        if not isinstance(config, dict) or part not in config:
            return False
        config = config[part]
    return True


_MICRO, _STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"


OWN_FLAGS = ("--deepspeed_config", "--deepspeed-config")
"""Flags whose file a program may hand to anybody."""


class ProgramReaders(NamedTuple):
    """Those that may read the config, the likeliest first, and what shows it."""

    names: tuple[str, ...]
    why: str
    """A clause: `` `TrainingArguments(deepspeed=...)` in train.py:9 ``; empty where nothing is known."""
    by_content: bool = False
    """Whether the values of the config tell better which of them reads it than the order of the names."""

    def first(self, content: str) -> str:
        """The one that is assumed. `content`: who would read the config, going by its values alone."""
        return content if self.by_content and content in self.names else self.names[0]

    def others(self, content: str) -> tuple[str, ...]:
        """Who else may read it."""
        first = self.first(content)
        return tuple(name for name in self.names if name != first)


class Reader(NamedTuple):
    """Who reads a config, and why that is believed."""

    name: str
    why: str
    """A clause: `16 values are "auto"`."""
    origin: Origin
    likely: bool = False
    """The content fits this reader better than the others, and does not rule them out."""
    given: Given | None = None
    """The training arguments of the one job that is known to read the config."""
    processes: int | None = None
    """The world size of that job, where it is known."""
    version: str | None = None
    """Of the reader, where it does not do all that the newest one does."""
    launch: str = ""
    """The files that launch that job, in words."""
    known: Known = NOTHING
    """What else is known of the run: its model and its hosts."""
    others: tuple[str, ...] = ()
    """Who else may read it: what is an error for this reader alone is none that is known."""

    def __hash__(self) -> int:  # arguments have none
        return hash((self.name, self.why, self.origin))

    def among(self, readers: ProgramReaders, content: str) -> Reader:
        """The likeliest of several. `content`: who would read it, going by its values alone."""
        return self._replace(name=readers.first(content), others=readers.others(content), likely=True)

    @property
    def spec(self) -> str:
        """The name, with the version where it matters: `transformers==4.45`."""
        return f"{self.name}=={self.version}" if self.version else self.name

    @property
    def said(self) -> str | None:
        """The name, where somebody said it; None where it follows from evidence."""
        return self.spec if self.origin in ("argument", "file", "settings") else None

    def __str__(self) -> str:
        """`read by transformers: 16 values are "auto"`."""
        model = f"; trains {self.known.model}" if self.known.model else ""
        return f"{'probably ' * self.likely}read by {self.name}: {self.why}{model}"


def given(name: str, why: str = "--consumer", origin: Origin = "argument") -> Reader:
    """The reader that somebody named."""
    consumer, version = parted(name)
    return Reader(consumer, why if version is None else f"{why}, version {version}", origin, version=version)


def of_file(data: object) -> Reader | None:
    """The reader that the file itself names in its block `"$dsconfig"`."""
    name = declared(data).consumer
    return None if name is None else given(name, 'set in its own `"$dsconfig"`', "file")


_ZERO = "zero_optimization"
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_TRAINER_ONLY = ("optimizer.params.betas", "optimizer.params.eps")
_GATHERING = f"{_ZERO}.stage3_gather_16bit_weights_on_model_save"


def of_content(data: object) -> Reader:
    """The reader that the values of a config fit best.

    The Trainer and Accelerate both fill "auto". The Trainer alone fills `betas` and `eps`, and it refuses a
    number that is not its own argument's; Accelerate takes the file's. DeepSpeed itself passes over "auto" in
    `zero_optimization`, and needs numbers in the batch.
    """
    if not isinstance(data, Mapping):
        return _DEEPSPEED
    autos = list(_autos(data))
    if autos:
        filled = _filled()
        autos = [path for path in autos if path in filled]
    if not autos:
        return _DEEPSPEED
    known = next((path for path in _TRAINER_ONLY if path in autos), None)
    if known is not None:
        name = known.rpartition(".")[2]
        return Reader(
            "transformers", f"{_count(autos)}, among them `{name}`, which it alone fills", "content"
        )
    if _GATHERING in autos:
        why = f"{_count(autos)}, among them one for which the Trainer has no argument, in `{_ZERO}`"
        return Reader("accelerate", why, "content", likely=True)
    return _undecided(data, autos)


def _undecided(data: Mapping[str, Json], autos: list[str]) -> Reader:
    """What is more likely where both of those that fill "auto" could read the file."""
    if all(path.startswith(f"{_ZERO}.") for path in autos) and _written(data):
        why = f'"auto" stands only in `{_ZERO}`, where DeepSpeed passes over it, and the batch is written out'
        return Reader("deepspeed", why, "content", likely=True)
    params = _params(data)
    rates = "auto" in (params.get("lr"), params.get("weight_decay"))
    if rates and ("betas" in params or "eps" in params or _gathers(data)):
        return Reader("transformers", _count(autos), "content", likely=True)
    batch = _written(data)
    if batch and len(batch) < len(_BATCH):
        why = f"{_count(autos)}, and `{batch[0]}` is not, which the Trainer would compare with its own"
        return Reader("accelerate", why, "content", likely=True)
    if rates:
        why = f"{_count(autos)}, and the optimizer has neither `betas` nor `eps`, which the Trainer fills"
        return Reader("accelerate", why, "content", likely=True)
    return Reader("transformers", _count(autos), "content", likely=True)


_DEEPSPEED = Reader("deepspeed", 'no value is "auto"', "default", likely=True)


def _filled() -> frozenset[str]:
    """Every key that somebody fills."""
    from dsconfig.consumers.consumer import BY_NAME

    return frozenset(fill.key for consumer in BY_NAME.values() for fill in consumer.fills)


def _autos(section: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _autos(value, f"{prefix}{key}.")
        elif isinstance(value, str) and value == "auto":
            yield f"{prefix}{key}"


def _params(data: Mapping[str, Json]) -> Mapping[str, Json]:
    optimizer = data.get("optimizer")
    params = optimizer.get("params") if isinstance(optimizer, Mapping) else None
    return params if isinstance(params, Mapping) else {}


def _gathers(data: Mapping[str, Json]) -> bool:
    """Whether saving is written out, as who writes for the Trainer must; Accelerate would fill it."""
    zero = data.get(_ZERO)
    return isinstance(zero, Mapping) and any("gather_16bit" in key for key in zero)


def _written(data: Mapping[str, Json]) -> list[str]:
    """The keys of the batch that are not left to anybody."""
    return [key for key in _BATCH if data.get(key, "auto") != "auto"]


def _count(autos: list[str]) -> str:
    return '1 value is "auto"' if len(autos) == 1 else f'{len(autos)} values are "auto"'
