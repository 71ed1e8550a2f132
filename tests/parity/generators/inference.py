"""Seeded inference configs: a third valid ones, a third with one mutation, a third in which keys interact."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

from dsconfig.core.releases import NUMBERS
from dsconfig.model.key_table import INFERENCE_ROOT, keys_of_section_class
from tests.parity.generators import bases, keyspace, mutate, values, writing
from tests.parity.generators.case import Case, Class
from tests.parity.generators.keyspace import Slot
from tests.parity.generators.values import UnfitError

Config: TypeAlias = "dict[str, Any]"
_ZERO = "zero"
_STRANGERS = (
    "train_batch_size",
    "fp16",
    "bf16",
    "zero_optimization",
    "optimizer",
    "$schema",
    "$dsconfig",
    "//",
)


def generate(release: str, count: int, seed: int) -> Iterator[Case]:
    """`count` cases for this release; the same arguments give the same cases."""
    for kind, make in (("valid", _valid), ("mutation", _mutated), ("interacting", _interacting)):
        rng = Random(f"inference {kind} {release} {seed}")
        made: Iterator[tuple[str, Config]] = make(release, rng)
        for number in range(count // 3 + (kind == "valid") * (count % 3)):
            label, config = next(made)
            yield _case(kind, number, label, config, rng)  # type: ignore[arg-type]


def _case(kind: Class, number: int, label: str, config: Config, rng: Random) -> Case:
    """The config as a dict, as JSON, or as a text that a JSON parser may reject."""
    identity, form = f"{kind}-{number}", rng.random()
    if form < 0.5:
        return Case(identity, kind, label, 1, config=config)
    if kind == "mutation" and form < 0.55:
        name = rng.choice(list(writing.BROKEN))
        return Case(
            identity, kind, f"text {name}", 1, text=writing.BROKEN[name](json.dumps(config, indent=2), rng)
        )
    if kind != "valid" and form < 0.58:
        return Case(identity, kind, f"{label} as hjson", 1, text=writing.hjson(config, rng))
    return Case(identity, kind, label, 1, text=writing.plain(config, rng))


def _slots(release: str) -> tuple[Slot, ...]:
    return keyspace.slots(release, INFERENCE_ROOT)


def _sound(release: str, rng: Random) -> Config:
    """A config that the release accepts."""
    deprecated = _replacements(release)
    config: Config = {}
    for slot in _slots(release):
        if slot.name == _ZERO or slot.path[0] == _ZERO or slot.name in deprecated or slot.section:
            continue
        if rng.random() < (0.2 if len(slot.path) == 1 else 0.1):
            keyspace.put(config, slot.path, values.valid(slot.type, rng))
    if rng.random() < 0.1:
        config[_ZERO] = _zero_section(release, rng)
    if rng.random() < 0.3:
        old = rng.choice(sorted(deprecated))
        new = deprecated[old]
        if keyspace.get(config, tuple(new.split(".")), ...) is ...:
            config[old] = values.valid(_slot(release, old).type, rng)
    return _under_aliases(config, release, rng)


def _under_aliases(config: Config, release: str, rng: Random) -> Config:
    """The config with some top-level keys under their aliases."""
    names = {slot.name: slot.aliases for slot in _slots(release) if len(slot.path) == 1 and slot.aliases}
    return {
        rng.choice(names[key]) if key in names and rng.random() < 0.3 else key: value
        for key, value in config.items()
    }


def _zero_section(release: str, rng: Random) -> Config:
    section: Config = bases.rich(rng, release, 8).get("zero_optimization", {})
    return section


def _replacements(release: str) -> dict[str, str]:
    """The deprecated keys that a nested key replaces, with its path."""
    infos = keys_of_section_class(INFERENCE_ROOT).values()
    return {
        info.name: info.replaced_by
        for info in infos
        if info.replaced_by and info.deprecated <= NUMBERS[release]
    }


def _slot(release: str, dotted: str) -> Slot:
    return next(slot for slot in _slots(release) if slot.dotted == dotted)


def _valid(release: str, rng: Random) -> Iterator[tuple[str, Config]]:
    while True:
        yield "sound", _sound(release, rng)


def _mutated(release: str, rng: Random) -> Iterator[tuple[str, Config]]:
    """One mutation each: every kind at every path, at the paths of `zero` less often."""
    kinds = [name for name in mutate.KINDS if name not in ("moved-aside", "other-release", "moved-up")]
    while True:
        slots = [slot for slot in _slots(release) if slot.path[0] != _ZERO or rng.random() < 0.2]
        rng.shuffle(slots)
        for slot in slots:
            kind, config = rng.choice(kinds), _sound(release, rng)
            if slot.path[0] == "moe" and len(slot.path) > 1 and isinstance(config.get("moe"), bool):
                del config["moe"]
            try:
                mutate.KINDS[kind](config, slot, release, rng)
            except UnfitError:
                continue
            yield f"{kind} {slot.dotted}", config


def _interacting(release: str, rng: Random) -> Iterator[tuple[str, Config]]:
    """Two keys that belong together, or keys of training configs and of other releases."""
    while True:
        for make in rng.sample(_SITUATIONS, len(_SITUATIONS)):
            config = _sound(release, rng)
            make(config, release, rng)
            yield make.__name__.strip("_"), config


def _old_and_new(config: Config, release: str, rng: Random) -> None:
    """A deprecated key, beside the key that replaces it, or beside its section."""
    old, new = rng.choice(sorted(_replacements(release).items()))
    section, name = new.split(".")
    value = values.valid(_slot(release, old).type, rng)
    config[old] = value
    other = rng.choice(
        (value, copy.deepcopy(value), values.valid(_slot(release, new).type, rng), "auto", None)
    )
    config.pop("tp", None)
    config[section] = rng.choice(({name: other}, {name: other}, {}, {"enabled": False}, None, "auto"))


def _two_names(config: Config, release: str, rng: Random) -> None:
    """A key under both of its names."""
    slot = rng.choice([slot for slot in _slots(release) if slot.aliases and slot.path[0] != _ZERO])
    for name in (slot.name, rng.choice(slot.aliases)):
        keyspace.put(config, (*slot.path[:-1], name), values.valid(slot.type, rng))


def _training_key(config: Config, release: str, rng: Random) -> None:
    """A key of a training config, or one for an editor."""
    config[rng.choice(_STRANGERS)] = rng.choice((8, True, {"stage": 3}, {"enabled": True}, {}, "auto", "x"))


def _moe(config: Config, release: str, rng: Random) -> None:
    """The short form of `moe`, and values near it."""
    config["moe"] = rng.choice(
        (True, False, True, 1, 0, "true", "off", {}, None, [], {"enabled": True}, 2, "auto")
    )
    if rng.random() < 0.4:
        config[rng.choice(("ep_size", "moe_experts", "moe_type"))] = rng.choice(
            (1, [4], "residual", "standard")
        )


def _dtype(config: Config, release: str, rng: Random) -> None:
    words = "fp16 half float16 torch.half torch.float16 bf16 bfloat16 bfloat torch.bfloat16 int8 float fp32"
    config["dtype"] = rng.choice((*words.split(), "FP16", "fp8", "auto", None, 16, True, ["fp16"]))


def _strict(config: Config, release: str, rng: Random) -> None:
    """`strict`, an argument of DeepSpeed's constructor that a config can set, with "auto" beside it."""
    config["strict"] = rng.choice((True, True, False, 1, 0, "", None, "auto"))
    slot = rng.choice([slot for slot in _slots(release) if len(slot.path) == 1])
    config[slot.name] = rng.choice(("auto", "auto", values.valid(slot.type, rng)))


def _zero(config: Config, release: str, rng: Random) -> None:
    """A whole ZeRO section, or one that a validator rejects."""
    section = _zero_section(release, rng)
    config[_ZERO] = section
    device = {"device": rng.choice(("cpu", "none"))}
    choices: tuple[Config, ...] = (
        {},
        {"cpu_offload": True, "offload_optimizer": device},
        {"cpu_offload_param": True, "offload_param": device},
        {"cpu_offload": rng.choice((True, False, None))},
        {
            "offload_optimizer": {**device, "ratio": rng.choice((0.3, 1.0, 1, 2))},
            "stage": rng.choice((1, 2, 3)),
        },
        {"stage": rng.choice((0, 1, 2, 3, 4, -1, "3", None))},
        {"gather_16bit_weights_on_model_save": True, "stage3_gather_fp16_weights_on_model_save": True},
        {"overlap_comm": rng.choice((None, "auto", True)), "stage": 3},
        {"reduce_bucket_size": rng.choice(("5e8", 5e8, 1.5, -1))},
    )
    section.update(rng.choice(choices))


def _other_release(config: Config, release: str, rng: Random) -> None:
    """A key that only other releases read, or no release at all."""
    known = {slot.path for slot in _slots(release)}
    foreign = [slot for slot in keyspace.slots(None, INFERENCE_ROOT) if slot.path not in known]
    foreign = [slot for slot in foreign if slot.path[0] != _ZERO]
    if not foreign or rng.random() < 0.2:
        config[rng.choice(("quantize", "kernel", "tensor_parralel", "max_token", "replace_kernel"))] = 1
        return
    slot = rng.choice(foreign)
    keyspace.put(config, slot.path, values.valid(slot.type, rng))


_SITUATIONS: tuple[Callable[[Config, str, Random], None], ...] = (
    _old_and_new,
    _old_and_new,
    _two_names,
    _training_key,
    _moe,
    _dtype,
    _strict,
    _zero,
    _other_release,
)
