"""The reverse of `memory`: the largest micro batch, sequence or model that fits a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.memory.estimates import MemoryLimit
from dsconfig.memory.verdict import EXCEEDS, FITS, RANK, UNKNOWN, NotModelledError
from dsconfig.resolve.errors import UnfilledError
from dsconfig.resolve.memory import EstimateRequest, MemoryOptions, estimate_request
from dsconfig.resolve.memory_run_defaults import LONGEST

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict

KINDS = ("micro-batch", "sequence", "model")
MOST_LAYERS = 2000


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The largest value that fits; 0 if none does."""

    kind: str
    value: int
    """Samples, tokens, or layers."""
    bound: int | None
    """Upper bound of a rank with this value."""
    next_bound: int | None
    """Upper bound with the next larger value; None if there is none."""
    parameters: int
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether any value fits, or an unsupported setting decides."""
        if any(RANK in each.raises | each.lowers for each in self.unmodelled):
            return UNKNOWN
        return FITS if self.value else EXCEEDS

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        return {
            "kind": self.kind,
            "value": self.value,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "parameters": self.parameters,
            "verdict": self.verdict,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


def largest(document: Document, options: MemoryOptions, kind: str, gpu_bytes: int) -> LargestFit:
    """Find the largest value with which a rank stays within `gpu_bytes`; for a model, the number of layers."""
    request = _request(document, options._replace(gpu_limit=gpu_bytes), kind)
    if kind == "sequence" and request.arch.image_size:
        raise NotModelledError("image models have no sequence length")
    # Must be divisible by the sequence-parallel ranks.
    step = request.micro_batch.sp_size if kind == "sequence" else 1
    limit = {
        "micro-batch": LONGEST,
        "sequence": request.arch.max_position_embeddings or LONGEST,
        "model": MOST_LAYERS,
    }[kind]

    def bound(value: int) -> int:
        return _with_value(request, kind, value).answer().rank.upper_bound

    def fits(value: int) -> bool:
        return _with_value(request, kind, step * value).fitting(MemoryLimit(gpu_bytes)) is not None

    value = step * _most(fits, limit // step)
    estimate = _with_value(request, kind, value).answer() if value else None
    return LargestFit(
        kind,
        value,
        estimate.rank.upper_bound if estimate else None,
        bound(value + step) if value + step <= limit else None,
        estimate.parameters if estimate else 0,
        request.unmodelled,
    )


def _request(document: Document, options: MemoryOptions, kind: str) -> EstimateRequest:
    """The request; if the micro batch is searched for, the config need not set it."""
    try:
        return estimate_request(document, options)
    except UnfilledError:
        if kind != "micro-batch" or options.micro_batch is not None:
            raise
        return estimate_request(document, options._replace(micro_batch=1))


def _with_value(request: EstimateRequest, kind: str, value: int) -> EstimateRequest:
    """The request with another micro batch, sequence length or number of layers."""
    if kind == "model":
        return request._replace(arch=request.arch._replace(num_layers=value))
    if kind == "sequence":
        return request.with_micro_batch(request.job.micro_batch._replace(sequence_length=value))
    return request.with_micro_batch(request.job.micro_batch._replace(micro_batch_size=value))


def _most(fits: Callable[[int], bool], limit: int) -> int:
    """The largest fitting number up to `limit`, by bisection; 0 if none fits."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
