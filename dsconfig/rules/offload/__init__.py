"""Offloading to host memory and NVMe: devices, what each needs, and what has no effect."""

from __future__ import annotations

from dsconfig.rules.offload import refused, devices, optimizers  # isort: skip

__all__: list[str] = []

del refused, devices, optimizers
