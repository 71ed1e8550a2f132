"""Search for the largest micro batch, sequence or model that fits a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.memory import ASSUMED_LENGTH, FITS, RANK, UNKNOWN, NotModelledError
from dsconfig.resolve.errors import UnfilledError
from dsconfig.resolve.memory import EstimateRequest, estimate_request
from dsconfig.resolve.memory_options import MemoryOptions
from dsconfig.resolve.memory_run_defaults import LONGEST

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.memory import Estimate, RequestedLimits, UnmodeledSetting, Verdict

KINDS = ("micro-batch", "sequence", "model")
MOST_LAYERS = 2000


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The largest value that fits; 0 if none does."""

    kind: str
    value: int
    """The value: a number of samples, tokens, or layers."""
    bound: int | None
    """Bytes that a rank may need with this value."""
    next_bound: int | None
    """Bytes that a rank may need with the next larger value; None if there is no larger value."""
    parameters: int
    verdict: Verdict
    """The verdict of `dsconfig memory` on this value, or on the smallest one if none fits."""
    reason: str = ""
    """The assumption on which the verdict depends, in words."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the result as a JSON object."""
        return {
            "kind": self.kind,
            "value": self.value,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "parameters": self.parameters,
            "verdict": self.verdict,
            "reason": self.reason or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


def find_largest_fit(
    document: Document, options: MemoryOptions, kind: str, limits: RequestedLimits
) -> LargestFit:
    """Find the largest micro batch, sequence length or number of layers that fits, as `dsconfig memory` judges it."""
    assert limits.gpu is not None
    options = options._replace(gpu_limit=limits.gpu.usable_bytes(limits.margin))
    request = _request_allowing_missing_value(document, options, kind)
    if kind == "sequence" and request.arch.image_size:
        raise NotModelledError("image models have no sequence length")
    # Must be divisible by the sequence-parallel ranks.
    step = request.micro_batch.sp_size if kind == "sequence" else 1
    limit = {
        "micro-batch": LONGEST,
        "sequence": request.arch.max_position_embeddings or LONGEST,
        "model": MOST_LAYERS,
    }[kind]

    def estimate_of(value: int) -> Estimate:
        return _request_with_value(request, kind, value).answer()

    def fits(value: int) -> bool:
        return limits.fitting(_request_with_value(request, kind, step * value).answer) is not None

    value = step * _bisect_largest(fits, limit // step)
    estimate = estimate_of(value or step)
    verdict = limits.verdict(estimate)
    if verdict == FITS and any(RANK in each.lowers for each in request.unmodelled):
        verdict = UNKNOWN  # a larger value may fit as well
    return LargestFit(
        kind,
        value,
        limits.needed(estimate) if value else None,
        limits.needed(estimate_of(value + step)) if value + step <= limit else None,
        estimate.parameters if value else 0,
        verdict,
        limits.gpu_verdict(estimate).reason,
        request.unmodelled,
    )


def _request_allowing_missing_value(document: Document, options: MemoryOptions, kind: str) -> EstimateRequest:
    """Return the request for an estimate, in which the value of the searched kind may be missing."""
    try:
        request = estimate_request(document, options)
        if kind == "sequence":
            assumed = tuple(each for each in request.assumed_inputs if each != ASSUMED_LENGTH)
            request = request._replace(assumed_inputs=assumed)
        return request
    except UnfilledError:
        if kind != "micro-batch" or options.micro_batch is not None:
            raise
        return estimate_request(document, options._replace(micro_batch=1))


def _request_with_value(request: EstimateRequest, kind: str, value: int) -> EstimateRequest:
    """Return the request with another micro batch, sequence length or number of layers."""
    if kind == "model":
        return request._replace(arch=request.arch._replace(num_layers=value))
    if kind == "sequence":
        return request.with_micro_batch(request.job.micro_batch._replace(sequence_length=value))
    return request.with_micro_batch(request.job.micro_batch._replace(micro_batch_size=value))


def _bisect_largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to `limit` that fits, found by bisection, or 0 if none fits."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
