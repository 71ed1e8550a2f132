"""The optimizer section: its type, the params of that type, what they do with ZeRO and offloading."""

from __future__ import annotations

from dsconfig.rules.optimizer import loading, kinds, arguments, values, adam, muon, zero  # isort: skip

__all__: list[str] = []

del loading, kinds, arguments, values, adam, muon, zero
