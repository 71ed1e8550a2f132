"""The reverse of `memory`: the largest micro batch, sequence or model that a GPU holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.memory.estimate import MemoryLimit
from dsconfig.memory.verdict import EXCEEDS, FITS, RANK, UNKNOWN, NotModelledError
from dsconfig.resolve.errors import UnfilledError
from dsconfig.resolve.memory import LONGEST, EstimateRequest, Options, estimate_request

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict

KINDS = ("micro-batch", "sequence", "model")
MOST_LAYERS = 2000


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest that fits; 0 where nothing does."""

    kind: str
    value: int
    """Samples, tokens, or layers."""
    bound: int | None
    """What a rank holds at most with it."""
    next_bound: int | None
    """What it would hold with one more, or one token more of each rank; None where there is no more."""
    parameters: int
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether any fits, or what is not supported yet decides how large the largest is."""
        if any(RANK in each.raises | each.lowers for each in self.unmodelled):
            return UNKNOWN
        return FITS if self.value else EXCEEDS

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        return {
            "kind": self.kind,
            "value": self.value,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "parameters": self.parameters,
            "verdict": self.verdict,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


def largest(document: Document, options: Options, kind: str, room: int) -> Largest:
    """The largest with which a rank holds no more than `room` bytes; of a model the layers count."""
    asked = _request(document, options._replace(gpu_limit=room), kind)
    if kind == "sequence" and asked.arch.image_size:
        raise NotModelledError("a model of images has no sequence length")
    step = asked.micro_batch.sp_size if kind == "sequence" else 1  # ranks that share one have equal parts
    most = {
        "micro-batch": LONGEST,
        "sequence": asked.arch.max_position_embeddings or LONGEST,
        "model": MOST_LAYERS,
    }[kind]

    def bound(value: int) -> int:
        return _with_value(asked, kind, value).answer().rank.upper_bound

    def fits(value: int) -> bool:
        return _with_value(asked, kind, step * value).fitting(MemoryLimit(room)) is not None

    value = step * _most(fits, most // step)
    with_it = _with_value(asked, kind, value).answer() if value else None
    return Largest(
        kind,
        value,
        with_it.rank.upper_bound if with_it else None,
        bound(value + step) if value + step <= most else None,
        with_it.parameters if with_it else 0,
        asked.unmodelled,
    )


def _request(document: Document, options: Options, kind: str) -> EstimateRequest:
    """The question as it stands; where the micro batch is what is asked for, nothing else need say it."""
    try:
        return estimate_request(document, options)
    except UnfilledError:
        if kind != "micro-batch" or options.micro_batch is not None:
            raise
        return estimate_request(document, options._replace(micro_batch=1))


def _with_value(asked: EstimateRequest, kind: str, value: int) -> EstimateRequest:
    """The same with another micro batch, sequence or number of layers."""
    if kind == "model":
        return asked._replace(arch=asked.arch._replace(num_layers=value))
    if kind == "sequence":
        return asked._replace(micro_batch=asked.micro_batch._replace(sequence_length=value))
    return asked._replace(micro_batch=asked.micro_batch._replace(micro_batch_size=value))


def _most(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits, where all smaller ones do; 0 where none does."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
