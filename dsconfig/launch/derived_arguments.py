"""Training arguments that a program works out of others, or leaves to the model and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsconfig.core.json_types import Json, JsonObject

_BF16, _FP16 = "bf16", "fp16"
_MICRO = "per_device_train_batch_size"
_STEPS, _WARMUP, _RATE = "gradient_accumulation_steps", "warmup_steps", "learning_rate"


def derive(program: str, written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Put into the arguments what a program works out; returns what is likely of those that stay unknown.

    `written`: the arguments by the Trainer's names, None where only a run shows them. `data`: the launch
    file's own keys.
    """
    known = _PROGRAMS.get(program)
    return known(written, data) if known else {}


def _swift(written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """The model's type decides the precision, and what is tuned the learning rate.

    Source: ms-swift 4.6 arguments/base_args/model_args.py:_init_mixed_precision; sft_args.py:_init_override;
    trainers/utils.py:prepare_deepspeed_elastic_config.
    """
    callbacks = data.get("callbacks")
    if "deepspeed_elastic" in (callbacks if isinstance(callbacks, list) else [callbacks]):
        written[_MICRO] = written[_STEPS] = None  # as the elasticity block has it for the job's ranks
    dtype, likely = data.get("torch_dtype"), {_BF16: True, _FP16: False}
    if isinstance(dtype, str) and dtype in _TYPES:
        likely = {_BF16: dtype == "bfloat16", _FP16: dtype != "bfloat16"}
        written.update({name: on for name, on in likely.items() if written.get(name) is None})
    if written.get(_RATE) is None and _RATE not in data:
        tuner = data.get("tuner_type", data.get("train_type", "lora"))
        written[_RATE] = {"full": 1e-5}.get(tuner, 1e-4) if isinstance(tuner, str) else None
    return {name: on for name, on in likely.items() if written.get(name) is None}


_TYPES = ("bfloat16", "float16", "float32")


def _axolotl(written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """`bf16: auto` asks the GPU, and is the default; one step of warm-up becomes two.

    Source: axolotl 0.19 utils/config/__init__.py:resolve_dtype, normalize_config; core/builders/base.py:
    _configure_precision_settings, _configure_warmup_and_logging.
    """
    if written.get(_WARMUP) == 1:
        written[_WARMUP] = 2
    batch, micro = data.get("batch_size"), data.get("micro_batch_size", 1)
    if data.get(_STEPS, 1) is None and type(batch) is int and type(micro) is int and micro > 0:
        written[_STEPS] = batch // micro
    bf16 = data.get(_BF16, "auto")
    if bf16 == "auto" and not data.get(_FP16):
        written[_BF16] = None
        if data.get(_FP16) is None:
            written[_FP16] = None
        return {_BF16: True, _FP16: False}
    if bf16 == "full":
        written["bf16_full_eval"] = True
    written[_BF16] = bf16 not in ("auto", "full") and bool(bf16 or data.get("bfloat16"))
    written[_FP16] = bool(data.get(_FP16)) and bf16 in ("auto", False, None)
    return {}


def _trl(written: JsonObject, _: Mapping[str, Json]) -> JsonObject:
    """Source: trl 1.16 trainer/base_config.py:_BaseConfig.__post_init__."""
    if written.get(_BF16) is None:
        written[_BF16] = not written.get(_FP16)
    return {}


_PROGRAMS: Mapping[str, Callable[[JsonObject, Mapping[str, Json]], JsonObject]] = {
    "ms-swift": _swift,
    "Axolotl": _axolotl,
    "TRL": _trl,
}
