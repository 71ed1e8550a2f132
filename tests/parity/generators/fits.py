"""Random configs that a GPU has no room for, and how much room it has."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from dsconfig.core.gpu_memory import GpuMemory
from dsconfig.document import Document, read_dict
from dsconfig.memory import ConfigChange, FittingChanges, NotModelledError, RequestedLimits
from dsconfig.resolve.memory_fit import fit_search
from dsconfig.resolve.memory_options import MemoryOptions
from tests.parity.generators.memory import model
from tests.parity.judges.memory import shape

Dict = dict[str, Any]
FEWEST, MOST, TOKENS = 1_000_000, 8_000_000, 192
"""Parameters, and tokens of a micro batch: more than slack hides, and few enough for a second or two."""
SIZES = (1, 2, 4, 8, 8, 16, 64, 256)
OPTIMIZERS: Sequence[Dict] = (
    {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "fused": True}},
    {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "fused": True}},
    {"type": "SGD", "params": {"lr": 1e-4, "momentum": 0.9}},
)
"""Those that hold the same on a CPU and on a GPU."""


class Problem(NamedTuple):
    """A config, a model and a room that is too small for them; what `--fit` answers, and what is cheaper."""

    trial: Dict
    room: int
    found: FittingChanges
    cheaper: tuple[ConfigChange, ...]
    """Every change that costs less speed than the dearest of the answer, all at once."""


def problem(source: random.Random, name: str, release: str) -> Problem:
    """A problem that some change solves."""
    while True:
        trial = _trial(source, name)
        try:
            made = _posed(source, trial, release)
        except NotModelledError:
            continue
        if made is not None:
            return made


def _trial(source: random.Random, name: str) -> Dict:
    spec, length = model(source)
    spec.pop("lora", None)
    spec.pop("train_fraction", None)
    if "image_size" in spec:
        spec["image_size"] = 32
    stage = source.choice((0, 0, 1, 1, 2, 2, 3))
    zero: Dict = {"stage": stage, "reduce_bucket_size": int(10 ** source.uniform(5, 6.5)) * 2}
    if source.random() < 0.15:
        del zero["reduce_bucket_size"]
    if stage == 3 and source.random() < 0.5:
        spec["zero_init"] = True
    micro = source.choice((1, 2, 4, 6, 8))
    length = min(length, TOKENS // micro)
    config: Dict = {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": source.choice((1, 1, 1, 2)),
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "optimizer": source.choice(OPTIMIZERS),
    }
    if source.random() < 0.8:
        config["bf16"] = {"enabled": True}
    world = source.choice(SIZES)
    return {"id": name, "world_size": world, "model": spec, "length": length, "config": config}


def asked(trial: Dict, release: str) -> tuple[Document, MemoryOptions]:
    """The trial as `dsconfig memory` is asked about it."""
    spec = trial["model"]
    options = MemoryOptions(
        shape(spec),
        trial["world_size"],
        release,
        "deepspeed",
        trial["length"],
        attention=spec.get("attention"),
        checkpointing=bool(spec.get("checkpointing")),
        zero_init=bool(spec.get("zero_init")),
    )
    return read_dict(trial["config"]), options


def of_tensors(room: int) -> RequestedLimits:
    """Room for tensors only, as on a CPU."""
    return RequestedLimits(GpuMemory(room, room), None, 0)


def _posed(source: random.Random, trial: Dict, release: str) -> Problem | None:
    """The same with a room between the bound of a rung of the ladder and what all before it hold.

    None where no rung has a bound below that: slack is most of what such a model holds.
    """
    search = fit_search(*asked(trial, release), of_tensors(0))
    first = search.first
    if not FEWEST <= first.parameters <= MOST:
        return None
    low, rungs, chosen = first.rank.highest_peak, list[tuple[int, int]](), list[ConfigChange]()
    for change in search.candidates:
        rung = search.estimate([*chosen, change], first.world_size)
        if rung is None:
            continue
        chosen.append(change)
        if rung.rank.upper_bound < low:
            rungs.append((rung.rank.upper_bound, low))
        low = min(low, rung.rank.highest_peak)
    if not rungs:
        return None
    least, most = source.choice(rungs)
    room = source.randint(least, most - 1)
    search.limits = of_tensors(room)
    found = search.fit()
    cheaper = tuple(chosen[: chosen.index(found.chosen[-1])])
    return Problem(trial, room, found, cheaper)


def changed(trial: Dict, changes: Sequence[ConfigChange], release: str, name: str) -> Dict:
    """The trial after some changes, on the rank that then holds most."""
    search = fit_search(*asked(trial, release), of_tensors(0))
    found = search.estimate(changes, search.first.world_size)
    made: Dict = json.loads(json.dumps(trial))
    made |= {"id": name, "rank": found.number if found else 0}
    for change in changes:
        for key, value in change.values.items():
            *sections, last = key.split(".")
            place = made["config"]
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        if change.checkpointing:
            made["model"]["checkpointing"] = True
        if change.zero_init:
            made["model"]["zero_init"] = True
    return made
