"""Precision: `fp16` and `bf16`, which releases up to 0.17.0 read by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.evaluation.context import Context
from dsconfig.resolve.derived.derivation import Derivation, Find, since

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

_BY_HAND = since("0.3.1", "0.17.0")
"""Releases that read the precision by hand (runtime/config.py)."""


def _only_if_fp16(key: str, under_bf16: Json) -> Find:
    """A key of `fp16` that DeepSpeed looks at only where `fp16` is on."""

    def find(ctx: Context, value: Json) -> Json:
        if ctx.on("fp16.enabled"):
            return value
        bf16 = next((name for name in ("bf16", "bfloat16") if ctx.has(name) and ctx.key(name)), None)
        if under_bf16 is not None and bf16 is not None and ctx.on(f"{bf16}.enabled"):
            return under_bf16
        return None if key == "auto_cast" else ctx.default(f"fp16.{key}")

    return find


def _old_name(key: str) -> Find:
    """A key of `bf16`, whose section has an older name that is read where this one is absent."""

    def find(ctx: Context, value: Json) -> Json:
        old = ctx.data.get("bf16") is None and isinstance(ctx.data.get("bfloat16"), dict)
        return ctx.value(f"bfloat16.{key}") if old else value

    return find


def _updates(ctx: Context, value: Json) -> Json:
    """Read by hand, the default is another one where there is no section."""
    if ctx.release in _BY_HAND and ctx.data.keys().isdisjoint(("bf16", "bfloat16")):
        return False
    return _old_name("immediate_grad_update")(ctx, value)


_FP16: tuple[tuple[str, Json, str], ...] = (
    ("loss_scale", 1.0, "get_loss_scale"),
    ("initial_scale_power", 0, "get_initial_dynamic_scale"),
    ("auto_cast", None, "get_fp16_auto_cast"),
    ("fp16_master_weights_and_grads", None, "get_fp16_master_weights_and_grads_enabled"),
)
"""Keys of `fp16`, what they are under `bf16` instead, and who reads them."""
_STATES = "bf16_optimizer_states"
_BF16: tuple[tuple[str, Find], ...] = (
    ("immediate_grad_update", _updates),
    *(
        (key, _old_name(key))
        for key in ("enabled", "check_grad_overflow", "bf16_master_weights_and_grads", _STATES)
    ),
)


_NORM = "optimizer.params.max_grad_norm"
_TO_ZERO = since("0.3.1", "0.19.5")


def _norm(ctx: Context, value: Json) -> Json:
    above = isinstance(value, int | float) and value > 0
    return 0.0 if above and not ctx.on("fp16.enabled") else value


def of_precision() -> Iterator[Derivation]:
    """Keys of `fp16` and `bf16`, and what an optimizer has beside them."""
    switches = ("fp16.enabled", "bf16.enabled", "bfloat16.enabled")
    for key, under_bf16, reader in _FP16:
        find, source = _only_if_fp16(key, under_bf16), f"runtime/config.py:{reader}"
        yield Derivation(f"fp16.{key}", find, source, switches, _BY_HAND, "not looked at: `fp16` is off")
    source, why = "runtime/config.py:DeepSpeedConfig._do_warning_check", "set to 0 where `fp16` is off"
    yield Derivation(_NORM, _norm, source, switches[:1], _TO_ZERO, why)
    for key, find in _BF16:
        source = "runtime/precision_config.py:get_bfloat16_config"
        yield Derivation(f"bf16.{key}", find, source, (f"bfloat16.{key}",))
