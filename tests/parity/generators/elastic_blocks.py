"""Seeded `elasticity` blocks and world sizes: sound ones, odd but usable ones, and broken ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from elastic import as_released

Case = dict[str, Any]

PUBLISHED = {
    "enabled": True,
    "max_train_batch_size": 10000,
    "micro_batch_sizes": [8, 12, 16, 17],
    "min_gpus": 32,
    "max_gpus": 1500,
    "min_time": 20,
    "version": 0.1,
}
ODD: tuple[Any, ...] = (None, "8", "", [], [4], {}, -1, 0, 1, True, False, 2.0, 2.5, 0.5, 2000.0, 10**6)
TARGETS: tuple[Any, ...] = (
    *("0.3.8", "0.3.7", "0.3", "0.4.0", "0.6.7", "1.0", "0.3.8rc1", "0.3.16+cu11", "new", "0..9", "", 3),
)
VERSIONS: tuple[Any, ...] = (0.1, 0.2, 0.3, 0.15, "0.1", "0.2", "one", None, True, 1, 0)
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
USUAL = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SIZED_KEYS = (
    "max_train_batch_size",
    "min_gpus",
    "max_gpus",
    "num_gpus_per_node",
    "model_parallel_size",
    "min_time",
)


def published_cases() -> list[Case]:
    """The cases that DeepSpeed's own tests and documentation publish."""
    simple = {"enabled": True, "max_train_batch_size": 4, "micro_batch_sizes": [1, 2, 3, 4], "version": 0.1}
    nodes = {**PUBLISHED, "min_gpus": 1, "max_gpus": 1500, "num_gpus_per_node": 8, "version": 0.2}
    cases = [_case(PUBLISHED, world_size=size) for size in (0, 64, 128)]
    cases += [_case({**PUBLISHED, "enabled": False}), _case(simple), _case({**simple, "min_gpus": 4})]
    for model in (1, 2, 16):
        cases += [_case({**nodes, "model_parallel_size": model}, world_size=size) for size in (16, 64, 192)]
    cases.append(_case({"enabled": True, "max_train_batch_size": 4, "micro_batch_sizes": ["a", 2]}))
    cases.append({**_case({}), "config": {}})
    return cases


def generated_cases(count: int, seed: int) -> Iterator[Case]:
    """`count` cases, the published ones first; the same for the same seed."""
    source = random.Random(seed)
    yield from published_cases()
    for _ in range(count - len(published_cases())):
        roll = source.random()
        if roll < 0.88:
            yield _sound(source)
        elif roll < 0.9:
            yield _part(source)
        elif roll < 0.97:
            yield _broken(source)
        else:
            yield _other_call(source)


def for_release(case: Case, release: str, latest_version: float) -> Case:
    """The case for one release: its own version as target, sound v0.2 blocks as v0.1 before 0.7.0."""
    if case["target"] == "own":
        case = {**case, "target": release}
    if case.get("sound") and latest_version < 0.2:
        block = {**case["config"]["elasticity"], "version": 0.1}
        case = {**case, "config": {"elasticity": block}}
    return case


def _case(block: Any, **changes: Any) -> Case:
    return {
        "call": "compute",
        "config": {"elasticity": block},
        "target": "own",
        "world_size": 0,
        "return_microbatch": False,
        "environment": {},
        **changes,
    }


def any_block(source: random.Random) -> dict[str, Any]:
    """A block such as people write, and every so often an odder one."""
    cap = int(10 ** source.uniform(1, 4.1))
    largest = min(source.choice((8, 16, 32, 64)), cap)
    # Half of the sets are what people write; the others have least common multiples beyond many caps.
    sizes = [size for size in USUAL if size <= largest] if source.random() < 0.5 else range(1, largest + 1)
    block: dict[str, Any] = {
        "enabled": True,
        "max_train_batch_size": cap,
        "micro_batch_sizes": [source.choice(sizes) for _ in range(source.randint(1, 5))],
        "version": 0.2 if source.random() < 0.55 else 0.1,
    }
    if source.random() < 0.5:
        block["min_gpus"] = source.choice((1, 2, 4, 8, 32, source.randint(1, 200)))
    if source.random() < 0.5:
        block["max_gpus"] = block.get("min_gpus", 1) + int(10 ** source.uniform(0, 4))
    if source.random() < 0.5:
        block["prefer_larger_batch"] = source.random() < 0.5
    if block["version"] == 0.2:
        block["num_gpus_per_node"] = source.choice((1, 2, 3, 4, 8, 16))
        block["model_parallel_size"] = source.choice((1, 1, 1, 2, 4))
    if source.random() < 0.05:
        block["max_train_batch_size"] = float(cap)
    return block


def _sound(source: random.Random) -> Case:
    block = any_block(source)
    case = _case(block, return_microbatch=source.random() < 0.25, sound=True)
    model = block.get("model_parallel_size", 1)
    sizes = _sizes(block) or [1]
    # Under model parallelism DeepSpeed reads a given size as GPUs and as ranks, so hardly any passes.
    given = source.choice(sizes) if model == 1 or source.random() < 0.2 else 0
    size = source.choice((0, *[given] * 5, source.randint(1, 300), given * model))
    if source.random() < 0.02:
        size = -size
    case["world_size"] = size
    if size == 0:
        fitting = source.choice(sizes) * model
        chosen = source.choice((fitting, fitting, fitting, source.randint(0, 300)))
        case["environment"] = {"WORLD_SIZE": source.choice((*[str(chosen)] * 8, None, "many"))}
    return case


def _sizes(block: dict[str, Any]) -> list[int]:
    """Admissible sizes, so that half of the cases hit one; where there are none, those of v0.1."""
    v02 = block["version"] == 0.2
    try:
        return as_released({"elasticity": block}, "0.19.7", int(v02)).world_sizes or []
    except Exception:
        return _sizes({**block, "version": 0.1, "model_parallel_size": 1}) if v02 else []


def _broken(source: random.Random) -> Case:
    case = {**_sound(source), "sound": False}
    block = case["config"]["elasticity"]
    match 9 if source.random() < 0.03 else source.randrange(9):
        case 0:
            block[source.choice(SIZED_KEYS)] = source.choice(ODD)
        case 1:
            block["micro_batch_sizes"] = source.choice(ODD)
        case 2:
            block["micro_batch_sizes"] = [*block["micro_batch_sizes"], source.choice(ODD)]
        case 3:
            block.pop(source.choice(("enabled", "max_train_batch_size", "micro_batch_sizes", "version")))
        case 4:
            block["version"] = source.choice(VERSIONS)
        case 5:
            case["target"] = source.choice(TARGETS)
        case 6:
            case["config"] = source.choice(({}, [], {"elasticity": source.choice(ODD)}, None))
        case 9:  # a least common multiple beyond 64 bits
            block["micro_batch_sizes"] = list(PRIMES)
        case 7:
            block["max_train_batch_size"] = max(block["micro_batch_sizes"]) - 1
        case _:
            case["world_size"] = source.choice(ODD)
    return case


def _part(source: random.Random) -> Case:
    """A call of one building block."""
    block = any_block(source)
    cap, micro_batches = int(block["max_train_batch_size"]), block["micro_batch_sizes"]
    low, high = block.get("min_gpus", 1), block.get("max_gpus", 10000)
    batches = [source.randint(1, 2 * cap) for _ in range(4)]
    call, *arguments = source.choice(
        (
            ("get_candidate_batch_sizes", [*micro_batches, *batches], cap),
            ("get_valid_gpus", batches[0] * micro_batches[0], micro_batches, low, high),
            ("get_best_candidates", batches, micro_batches, low, high, source.random() < 0.5),
        )
    )
    return {**_case(block), "call": call, "arguments": arguments}


def _other_call(source: random.Random) -> Case:
    case = _broken(source) if source.random() < 0.3 else {**_sound(source), "sound": False}
    if not isinstance(case["config"], dict) or "elasticity" not in case["config"]:
        case["config"] = {"elasticity": any_block(source)}
    case["call"] = source.choice(("enabled", "immutable", "immutable"))
    planned = case["config"]["elasticity"]
    if source.random() < 0.5 and isinstance(planned, dict):
        changed = source.choice(("max_train_batch_size", "version", "min_gpus"))
        planned = {**planned, changed: source.choice(ODD)}
    text = source.choice((json.dumps(planned), json.dumps(planned), None, "{"))
    case["environment"] = {**case["environment"], "DEEPSPEED_ELASTICITY_CONFIG": text}
    return case
