"""What is wrong with an `elasticity` section by itself."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.releases import number
from dsconfig.core.wording import described, quoted
from elastic.deepspeed.semantics import Semantics

_NEEDED = ("max_train_batch_size", "micro_batch_sizes")
_BOUNDS = (
    ("min_gpus", 1, "0.3.9"),
    ("max_gpus", 1, "0.3.9"),
    ("model_parallel_size", 1, "0.7.0"),
    ("num_gpus_per_node", 1, "0.7.0"),
    ("min_time", 0, "0.3.9"),
)


class Fault(NamedTuple):
    """Why the section cannot be used at any world size, under the code of the rule that says so."""

    code: str
    key: str
    message: str
    help: str


def faults(block: JsonObject, semantics: Semantics) -> list[Fault]:
    """Every fault of the section; the later checks calculate with what the earlier ones have found sound."""
    found = [*_missing(block), *_micro_batches(block), *_numbers(block, semantics)]
    return found or list(_version(block, semantics)) or list(_cap(block, semantics))


def _missing(block: JsonObject) -> Iterator[Fault]:
    for key in _NEEDED:
        if key not in block:
            yield Fault("DSC601", key, f"`elasticity` is enabled, but `{key}` is not given", f"add `{key}`")


def _micro_batches(block: JsonObject) -> Iterator[Fault]:
    sizes = block.get("micro_batch_sizes", [1])
    if not isinstance(sizes, list):
        message = f"`micro_batch_sizes` is {described(sizes)} where DeepSpeed expects a list of integers"
    elif all(isinstance(size, bool) for size in sizes):
        message = f"`micro_batch_sizes` is {quoted(sizes)}, but must hold at least one integer"
    else:
        wrong = [size for size in sizes if not isinstance(size, int) or size <= 0]
        if not wrong:
            return
        message = f"`micro_batch_sizes` holds {quoted(wrong[0])}, but may hold only integers greater than 0"
    yield Fault(
        "DSC602",
        "micro_batch_sizes",
        message,
        "give a list of positive integers, for example `[2, 4, 6]`",
    )


def _numbers(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    found = [] if isinstance(block.get("max_train_batch_size", 1), int | float) else ["max_train_batch_size"]
    bounds = [(key, bound) for key, bound, since in _BOUNDS if number(since) <= number(semantics.until)]
    found.extend(key for key, _ in bounds if not isinstance(block.get(key, 1), int | float))
    for key in found:
        message = f"`{key}` is {described(block[key])} and DeepSpeed calculates with it"
        quotes = ", without quotes" if isinstance(block[key], str) else ""
        yield Fault("DSC602", key, message, f"give an integer{quotes}")
    low, high = block.get("min_gpus", 1), block.get("max_gpus", 10000)
    for key, bound in bounds:
        if key not in found and block.get(key, 1) < bound:
            message = f"`{key}` is {quoted(block[key])}, but must be at least {bound}"
            yield Fault("DSC602", key, message, f"give an integer of at least {bound}")
            return
    if not {"min_gpus", "max_gpus"} & set(found) and high < low:
        message = f"`max_gpus` {quoted(high)} is less than `min_gpus` {quoted(low)}"
        wider = f"set `max_gpus` to {quoted(low)} or more"
        yield Fault("DSC602", "max_gpus" if "max_gpus" in block else "min_gpus", message, wider)


def _version(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    written = block.get("version", semantics.latest_version)
    known, version = ((0.1, 0.2) if semantics.latest_version >= 0.2 else (0.1,)), _float(written)
    model, node = block.get("model_parallel_size", 1), block.get("num_gpus_per_node", 1)
    if version not in known:
        words = " and ".join(map(str, known))
        message = f"`version` is {quoted(written)}, but this release knows only {words} of the algorithm"
        yield Fault("DSC603", "version", message, f"use {words.replace('and', 'or')}")
    elif 0.2 not in known:
        return
    elif model > 1 and version != 0.2:
        message = (
            f"`model_parallel_size` is {quoted(model)}, but version {version} knows no model parallelism"
        )
        yield Fault("DSC604", "model_parallel_size", message, "set `version` to 0.2")
    elif version == 0.2 and node % model != 0:
        message = (
            f"`num_gpus_per_node` {quoted(node)} is not a multiple of `model_parallel_size` {quoted(model)}"
        )
        yield Fault(
            "DSC604",
            "num_gpus_per_node",
            message,
            f"give a multiple of {model}, so that models do not straddle machines",
        )


def _float(value: Json) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _cap(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    cap, largest = block["max_train_batch_size"], max(block["micro_batch_sizes"])
    ranks = ranks_per_node(block, semantics)
    said = f"`elasticity.max_train_batch_size` is {quoted(cap)}"
    try:
        share = cap if ranks is None else int(cap / ranks)
    except (OverflowError, ValueError):
        share = 2**63
    if isinstance(share, int) and share >= 2**63 and number(semantics.until) >= number("0.5.8"):
        message = f"{said}, more than DeepSpeed can calculate with"
        yield Fault("DSC605", "max_train_batch_size", message, "give an integer of at most 1000000000")
    elif not largest <= share:
        each = "" if ranks in (None, 1) else f", {share} for each of {ranks} ranks of a machine"
        message = f"{said}{each}: less than micro batch size {quoted(largest)}"
        least = f"raise it to {quoted(largest * (ranks or 1))} or more"
        yield Fault(
            "DSC605", "max_train_batch_size", message, f"{least}, or list smaller `micro_batch_sizes`"
        )


def ranks_per_node(block: JsonObject, semantics: Semantics) -> Json:
    """Data-parallel ranks of a machine in version 0.2; None in version 0.1, which knows no machines."""
    if float(block.get("version", semantics.latest_version)) != 0.2:
        return None
    return block.get("num_gpus_per_node", 1) // block.get("model_parallel_size", 1)
