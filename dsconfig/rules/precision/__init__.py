"""Number formats: fp16 and bf16, loss scaling, master weights, accumulated gradients, autocast, Apex."""

from __future__ import annotations

from dsconfig.rules.precision import refused, loss_scale, master_weights, data_types, autocast, apex  # isort: skip

del refused, loss_scale, master_weights, data_types, autocast, apex
