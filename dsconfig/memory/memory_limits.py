"""Compare estimates with the memory of a GPU and of a host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.estimates import NO_LIMIT, DeviceVerdict, MemoryLimit
from dsconfig.memory.memory_ledger import LimitExceededError
from dsconfig.memory.verdict import FITS, WORST_FIRST

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.gpu_memory import GpuMemory
    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.estimates import Estimate
    from dsconfig.memory.verdict import Verdict


class RequestedLimits(NamedTuple):
    """The memory limits of a GPU and a host that the user has given; None if not given."""

    gpu: GpuMemory | None = None
    host: int | None = None
    margin: int | None = None
    """Headroom on the GPU that replaces the expected memory besides tensors, or None if not requested."""

    def verdicts(self, estimate: Estimate) -> tuple[Verdict | None, Verdict | None]:
        """Return the verdicts for a rank and for a host; None without a limit."""
        return (
            None if self.gpu is None else self.gpu_verdict(estimate).word,
            None if self.host is None else estimate.verdict("host", self.host),
        )

    def gpu_verdict(self, estimate: Estimate) -> DeviceVerdict:
        """Return the verdict for a rank, and the assumption on which it depends."""
        assert self.gpu is not None
        least, most = self.gpu.least, self.gpu.most
        if self.margin is None and estimate.device is not None:
            return estimate.device_verdict(least, most)
        return DeviceVerdict(estimate.verdict("rank", least, most, self.margin or 0))

    def verdict(self, estimate: Estimate) -> Verdict:
        """Return the worse of the verdicts for a rank and a host, or `fits` without limits."""
        verdicts = self.verdicts(estimate)
        return next((word for word in WORST_FIRST if word in verdicts), FITS)

    def fits(self, estimate: Estimate) -> bool:
        """Return whether rank and host fit, ignoring missing inputs and settings without an estimate."""
        return self.verdict(replace(estimate, unmodelled=(), assumed=())) == FITS

    @property
    def bounds(self) -> MemoryLimit:
        """Limits that the tensors of a rank and of a host must stay within if the run fits."""
        return MemoryLimit(
            None if self.gpu is None else max(0, self.gpu.least - (self.margin or 0)), self.host
        )

    def fitting(self, answer: Callable[[MemoryLimit], Estimate]) -> Estimate | None:
        """Compute an estimate; return None as soon as the run certainly does not fit."""
        try:
            estimate = answer(self.bounds)
        except LimitExceededError:
            return None
        if not self.bounds.fits(estimate):
            return None
        estimate = answer(NO_LIMIT) if self.margin is None else estimate
        return estimate if self.fits(estimate) else None

    def needed(self, estimate: Estimate) -> int:
        """Return the bytes that a rank needs: the upper bound of its tensors plus headroom, or plus all overheads."""
        if self.margin is None and estimate.device is not None:
            return estimate.device.needed
        return estimate.rank.upper_bound + (self.margin or 0)

    def fits_as_assumed(self, estimate: Estimate) -> bool:
        """Return whether rank and host fit, given the assumptions about missing inputs."""
        _, host = self.verdicts(estimate)
        return host in (None, "fits") and self.gpu is not None and self.gpu_verdict(estimate).is_assumed

    def to_dict(self, estimate: Estimate) -> JsonObject:
        """Return the limits as JSON; `gpu_fits` and `host_fits` are null if the verdict is uncertain."""
        rank, host = self.verdicts(estimate)
        fits: dict[str | None, bool] = {"fits": True, "does not fit": False}
        return {
            "limits": {
                "gpu": self.gpu and self.gpu.least,
                "gpu_name": (self.gpu and self.gpu.name) or None,
                "host": self.host,
                "margin": self.margin,
                "gpu_fits": fits.get(rank),
                "host_fits": fits.get(host),
                "gpu_verdict": rank,
                "gpu_reason": (self.gpu and self.gpu_verdict(estimate).reason) or None,
                "host_verdict": host,
            }
        }
