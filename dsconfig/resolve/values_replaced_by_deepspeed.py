"""Values that DeepSpeed replaces: overridden, derived from other keys, or converted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.diagnostic import Effect
from dsconfig.core.json_types import copy_json, value_at_dotted_path
from dsconfig.core.releases import EVERY_RELEASE, NEVER, ReleaseInterval, release_number
from dsconfig.document import read_dict
from dsconfig.evaluation.key_walk import CoercionEvent, RejectionEvent
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument, SkipRule
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.launch.config_overwrites import overwrite_of_key
from dsconfig.model.key_table import (
    INFERENCE_ROOT,
    KeyView,
    SectionView,
    find_type,
    keys_of_section_class,
    secret_key_names,
)
from dsconfig.resolve.raw_config import check_in_release
from dsconfig.resolve.resolved_run import ResolvedRun

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.job.consumers.autofill import AutofillState


# Effective values and their sources.

ValueOrigin: TypeAlias = Literal[
    "written", "converted", "default", "dropped", "derived", "filled", "ignored", "refused"
]
_Path: TypeAlias = tuple[str, ...]


class EffectiveValue(NamedTuple):
    """The effective value of a key, and where it comes from."""

    key: str
    value: Json
    origin: ValueOrigin
    note: str
    """The source in words, such as `line 3` or `default of 0.19.8`."""


class ValueOrigins:
    """Determines where the values of a config come from, whether it is resolved or not."""

    def __init__(
        self,
        context: Context,
        result: ResolvedRun | AutofillState | None,
        describe_location: Callable[[_Path], str],
        formula: str | None = None,
    ) -> None:
        """Collect the origins; `formula` is the batch for an unknown world size (see `batch_formula`)."""
        run = result if isinstance(result, ResolvedRun) else None
        self.context, self.resolved, self.release = context, run, context.release_name
        self.describe_location = describe_location
        self.formula_key, _, self.formula = (formula or "").partition(" = ")
        self.data: JsonObject = copy_json(result.config if result else context.data)
        if run is not None:
            self.data |= dict(zip(KEYS, run.triplet, strict=True))
        self.judge = "deepspeed" if run else context.consumer
        self.resolved_context = Context(
            EvaluatedDocument(read_dict(self.data), self.judge, None), context.release
        )
        walk = self.resolved_context.walk
        coercions: list[CoercionEvent | RejectionEvent] = [*walk.coerced, *walk.rejected]
        self.verdicts = {entry.path: entry for entry in coercions}
        self.dropped = {event.path for event in walk.unresolved_autos if event.section.drops_auto}
        self.filled = {filled.key: filled.origin for filled in result.filled} if result else {}
        self.unknown = result.unknown if result else None
        self.derivations = derivations_by_key(self.resolved_context)
        self._derived_sections = {
            ".".join(key.split(".")[:length])
            for key, entry in self.derivations.items()
            if any(is_set(self.resolved_context, other) for other in entry.of)
            for length in range(1, key.count(".") + 1)
        }
        self._rejected_paths: list[KeyPath] | None = None

    def may_determine_values_below(self, path: _Path) -> bool:
        """Return whether a key in the config may determine a value inside this section."""
        return ".".join(path) in self._derived_sections

    def value_of_key(self, key: KeyView, value: Json, path: _Path) -> EffectiveValue:
        """Return the effective value of a key in the config that the release reads."""
        dotted, location = ".".join(path), self.describe_location(path)
        overwrite = overwrite_of_key(self.context.document.name, dotted, self.context.data)
        if overwrite is not None and value == value_at_dotted_path(self.context.data, dotted):
            return _effective_value(
                dotted, value, "written", f"{location}, before {overwrite.place} overwrites it"
            )
        filled = next((name for name in self.filled if f"{dotted}.".startswith(f"{name}.")), None)
        if filled is not None:
            note = f"filled by {self.context.consumer} from {self.filled[filled]}"
            return self._derive_value(_effective_value(dotted, value, "filled", note), key)
        if dotted in KEYS and self.resolved is not None and value != self.context.data.get(dotted):
            return _effective_value(dotted, value, "derived", f"derived for {self.resolved.world_size} ranks")
        if value == "auto" and isinstance(value, str):
            return self._value_of_auto(key, path)
        return self._derive_value(self._value_as_written(dotted, value, path, location), key)

    def _value_as_written(self, dotted: str, value: Json, path: _Path, location: str) -> EffectiveValue:
        entry = self.verdicts.get(path)
        if entry is None:
            return _effective_value(dotted, value, "written", location)
        is_read_by_hand = entry.section.dialect == "hand"
        if isinstance(entry, RejectionEvent):
            if is_read_by_hand and not self._is_rejected_value(path):
                return _effective_value(dotted, value, "written", location)
            return _effective_value(dotted, value, "refused", f"{location}, rejected by {self.release}")
        converted = entry.verdict.value
        if is_read_by_hand:  # code that parses by hand keeps the written value
            return _effective_value(
                dotted, value, "written", f"{location}, treated as {_format_json(converted)}"
            )
        return _effective_value(dotted, converted, "converted", f"{location}, from {value!r}")

    def _is_rejected_value(self, path: _Path) -> bool:
        """Return whether `check` reports that the release rejects the value."""
        if self._rejected_paths is None:
            report = check_in_release(self.resolved_context.document, self.release, self.judge)
            self._rejected_paths = [
                diagnostic.path for diagnostic in report if diagnostic.effect is Effect.REJECTED
            ]
        return any(rejected[: len(path)] == path for rejected in self._rejected_paths)

    def _derive_value(self, original: EffectiveValue, key: KeyView) -> EffectiveValue:
        """Return the value that DeepSpeed derives from `original`, or `original` if it keeps it."""
        entry = self.derivations.get(".".join((*original.key.split(".")[:-1], key.info.name)))
        if entry is None or original.origin == "refused":
            return original
        try:
            value = entry.find(self.resolved_context, original.value)
        except SkipRule:
            return original
        if value == original.value and type(value) is type(original.value):
            return original
        if entry.why is not None and original.origin != "default":
            return original._replace(value=value, origin="derived", note=f"{original.note}, {entry.why}")
        origins = [other for other in entry.of if is_set(self.resolved_context, other)]
        if origins:
            note = f"derived from `{'`, `'.join(origins)}`"
            return original._replace(value=value, origin="derived", note=note)
        if original.origin in ("default", "dropped"):
            return original._replace(value=value)
        return original._replace(
            value=value, origin="converted", note=f"{original.note}, from {original.value!r}"
        )

    def _value_of_auto(self, key: KeyView, path: _Path) -> EffectiveValue:
        dotted, location = ".".join(path), self.describe_location(path)
        consumer = self.context.consumer
        origin = consumer_from_spec(consumer).origin_of_value(dotted)
        if origin is not None and (self.unknown is None or dotted in self.unknown):
            return _effective_value(
                dotted, "auto", "filled", f"{location}, filled by {consumer} from {origin}"
            )
        if path in self.dropped:
            value = self._value_without_auto(key, path)
            note = f"default of {self.release}, `auto` of {location} is dropped"
            return self._derive_value(_effective_value(dotted, value, "dropped", note), key)
        note = "" if "auto_is_value" in key.info.flags else ", unresolved"
        return self._derive_value(_effective_value(dotted, "auto", "written", f"{location}{note}"), key)

    def _value_without_auto(self, key: KeyView, path: _Path) -> Json:
        """Return the value that replaces an ignored "auto": the value of an alias, or the default."""
        try:
            value = self.resolved_context.value(".".join((*path[:-1], key.info.name)))
        except SkipRule:
            value = key.default
        return {} if value is None and key.type[0] == "section" else value

    def value_of_unknown_key(self, section: SectionView, value: Json, path: _Path) -> EffectiveValue:
        """Return the value of a key that the release does not know."""
        dotted, location = ".".join(path), self.describe_location(path)
        if section.unknown == "rejected":
            return _effective_value(dotted, value, "refused", f"{location}, unknown to {self.release}")
        if section.unknown == "ignored":
            return _effective_value(dotted, value, "ignored", f"{location}, not read by {self.release}")
        return _effective_value(dotted, value, "written", location)

    def value_of_absent_key(self, key: KeyView, path: _Path) -> EffectiveValue:
        """Return the effective value of a key that is not in the config."""
        if self.formula and ".".join(path) == self.formula_key:
            note = f"{self.formula}; the number of GPUs is not known: give --world-size"
            return _effective_value(self.formula_key, None, "derived", note)
        default = _effective_value(".".join(path), key.default, "default", f"default of {self.release}")
        return self._derive_value(default, key)


def _format_json(value: Json) -> str:
    return json.dumps(value, default=str)


def _effective_value(key: str, value: Json, origin: ValueOrigin, note: str) -> EffectiveValue:
    secret = key.rpartition(".")[2] in secret_key_names() and value is not None
    return EffectiveValue(key, "***" if secret else value, origin, note)


# ZeRO: deprecated forms, and defaults that depend on the stage (runtime/zero/config.py).

_ZERO = "zero_optimization"
_STAGE = f"{_ZERO}.stage"


def _find_stage(ctx: Context, value: Json) -> Json:
    section = ctx.raw(_ZERO)
    return int(section) if isinstance(section, bool) else value


def _find_allgather_bucket(ctx: Context, value: Json) -> Json:
    return ctx.value("allgather_size") if ctx.raw(_ZERO) is True and ctx.has("allgather_size") else value


def _find_overlap_comm(ctx: Context, value: Json) -> Json:
    return bool(_find_stage(ctx, ctx.value(_STAGE)) == 3) if value is None else value


def _find_gather_on_save(ctx: Context, value: Json) -> Json:
    old = f"{_ZERO}.stage3_gather_fp16_weights_on_model_save"
    return ctx.value(old) if is_set(ctx, old) else value


def _offload_device_finder(*switches: str) -> Find:
    """Return a `Find` for the device of an offload section, which deprecated switches set to `cpu`."""

    def find(ctx: Context, value: Json) -> Json:
        return "cpu" if any(ctx.key(switch) and ctx.is_on(switch) for switch in switches) else value

    return find


_ZERO_CONFIG = "runtime/zero/config.py:DeepSpeedZeroConfig"
_DEPRECATED = "runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field"
_LEAVES = "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig"


def _wrap_in_list(value: Json) -> Json:
    entries = [value] if isinstance(value, str) else value
    return list(dict.fromkeys(entries)) if _is_list_of_strings(entries) else value


def _is_list_of_strings(entries: Json) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)


def _convert_path(value: Json) -> Json:
    from pathlib import PurePosixPath  # whose import takes longer than the rest of this module

    return str(PurePosixPath(value)) if isinstance(value, str) else value


def zero_derivations() -> Iterator[ValueDerivation]:
    """Yield the derivations of values in `zero_optimization`."""
    old = "runtime/zero/config.py:read_zero_config_deprecated"
    yield ValueDerivation(_STAGE, _find_stage, old, (_ZERO,))
    yield ValueDerivation(f"{_ZERO}.allgather_bucket_size", _find_allgather_bucket, old, ("allgather_size",))
    yield ValueDerivation(
        f"{_ZERO}.overlap_comm", _find_overlap_comm, f"{_ZERO_CONFIG}.overlap_comm_valid", (_STAGE,)
    )
    gather = f"{_ZERO}.stage3_gather_fp16_weights_on_model_save"
    yield ValueDerivation(
        f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", _find_gather_on_save, _DEPRECATED, (gather,)
    )
    optimizer, param = f"{_ZERO}.offload_optimizer", f"{_ZERO}.offload_param"
    switch, switches = f"{_ZERO}.cpu_offload", (f"{_ZERO}.cpu_offload_param", f"{_ZERO}.cpu_offload_params")
    yield ValueDerivation(f"{optimizer}.device", _offload_device_finder(switch), _DEPRECATED, (switch,))
    yield ValueDerivation(f"{param}.device", _offload_device_finder(*switches), _DEPRECATED, switches)
    for section in (optimizer, param):
        source = "runtime/zero/offload_config.py:nvme_path"
        yield ValueDerivation(
            f"{section}.nvme_path", find_from_value(_convert_path), source, releases=releases_from("0.7.0")
        )
    for key in ("classes", "names", "name_suffixes"):
        yield ValueDerivation(
            f"{_ZERO}.leaf_module.{key}", find_from_value(_wrap_in_list), f"{_LEAVES}._coerce_container_types"
        )


# Derivations: how DeepSpeed changes one key's value while it builds its config object.

Find: TypeAlias = "Callable[[Context, Json], Json]"
"""Function from the config and a key's value to the effective value.

The function may raise `SkipRule` if a key that it reads is rejected or not resolved yet.
"""


class ValueDerivation(NamedTuple):
    """How DeepSpeed changes the value of one key, and in which releases."""

    key: str
    find: Find
    source: str
    of: tuple[str, ...] = ()
    """Other keys that the derivation reads."""
    releases: ReleaseInterval = EVERY_RELEASE
    why: str | None = None
    """Reason for the value in words, if the value does not come from another key."""


def find_from_value(make: Callable[[Json], Json]) -> Find:
    """Return a `Find` that depends only on the key's own value."""
    return lambda _, value: make(value)


def releases_from(release: str, until: str | None = None) -> ReleaseInterval:
    """Return the interval of releases from `release` to `until`, or to the newest one."""
    return ReleaseInterval(release_number(release), release_number(until) if until else NEVER)


def is_set(ctx: Context, key: str) -> bool:
    """Return whether a key is in the config, with a value other than an "auto" that DeepSpeed ignores."""
    node: Json = ctx.walk.values
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


# Precision: `fp16` and `bf16`, parsed by hand up to 0.17.0.

_BY_HAND = releases_from("0.3.1", "0.17.0")
"""Releases that parse precision by hand (runtime/config.py)."""


def _find_only_if_fp16(key: str, under_bf16: Json) -> Find:
    """Return a `Find` for a key that DeepSpeed reads only if `fp16` is enabled."""

    def find(ctx: Context, value: Json) -> Json:
        if ctx.is_on("fp16.enabled"):
            return value
        bf16 = next((name for name in ("bf16", "bfloat16") if ctx.has(name) and ctx.key(name)), None)
        if under_bf16 is not None and bf16 is not None and ctx.is_on(f"{bf16}.enabled"):
            return under_bf16
        return None if key == "auto_cast" else ctx.default(f"fp16.{key}")

    return find


def _find_under_old_name(key: str) -> Find:
    """Return a `Find` for a key of `bf16`, a section that had another name before."""

    def find(ctx: Context, value: Json) -> Json:
        old = ctx.data.get("bf16") is None and isinstance(ctx.data.get("bfloat16"), dict)
        return ctx.value(f"bfloat16.{key}") if old else value

    return find


def _find_immediate_grad_update(ctx: Context, value: Json) -> Json:
    """Return `immediate_grad_update`, which is false without a section in releases that do not use pydantic for it."""
    if ctx.release in _BY_HAND and ctx.data.keys().isdisjoint(("bf16", "bfloat16")):
        return False
    return _find_under_old_name("immediate_grad_update")(ctx, value)


_FP16: tuple[tuple[str, Json, str], ...] = (
    ("loss_scale", 1.0, "get_loss_scale"),
    ("initial_scale_power", 0, "get_initial_dynamic_scale"),
    ("auto_cast", None, "get_fp16_auto_cast"),
    ("fp16_master_weights_and_grads", None, "get_fp16_master_weights_and_grads_enabled"),
)
"""Keys of `fp16`, their values if `bf16` is on, and the functions that read them."""
_STATES = "bf16_optimizer_states"
_BF16: tuple[tuple[str, Find], ...] = (
    ("immediate_grad_update", _find_immediate_grad_update),
    *(
        (key, _find_under_old_name(key))
        for key in ("enabled", "check_grad_overflow", "bf16_master_weights_and_grads", _STATES)
    ),
)


_NORM = "optimizer.params.max_grad_norm"
_TO_ZERO = releases_from("0.3.1", "0.19.5")


def _find_norm(ctx: Context, value: Json) -> Json:
    above = isinstance(value, int | float) and value > 0
    return 0.0 if above and not ctx.is_on("fp16.enabled") else value


def precision_derivations() -> Iterator[ValueDerivation]:
    """Yield the derivations of values in `fp16`, `bf16`, and related optimizer keys."""
    switches = ("fp16.enabled", "bf16.enabled", "bfloat16.enabled")
    for key, under_bf16, reader in _FP16:
        find, source = _find_only_if_fp16(key, under_bf16), f"runtime/config.py:{reader}"
        yield ValueDerivation(f"fp16.{key}", find, source, switches, _BY_HAND, "not read: `fp16` is off")
    source, why = "runtime/config.py:DeepSpeedConfig._do_warning_check", "set to 0 because `fp16` is off"
    yield ValueDerivation(_NORM, _find_norm, source, switches[:1], _TO_ZERO, why)
    for key, find in _BF16:
        source = "runtime/precision_config.py:get_bfloat16_config"
        yield ValueDerivation(f"bf16.{key}", find, source, (f"bfloat16.{key}",))


# Other keys.


def _convert_to_lower_case(value: Json) -> Json:
    return value.lower() if isinstance(value, str) else value


def _convert_to_upper_case(value: Json) -> Json:
    return value.upper() if isinstance(value, str) else value


def _find_optimizer_type(ctx: Context, value: Json) -> Json:
    kind = find_type("Optimizer", value)
    return value.lower() if kind is not None and ctx.release in kind.releases else value


def _find_breakdown(ctx: Context, value: Json) -> Json:
    profiler = ctx.value("flops_profiler.enabled")
    whole = isinstance(value, int) and isinstance(profiler, int)  # booleans among them
    return value | profiler if whole else value


def _convert_or_keep(kind: type, value: Json) -> Json:
    """Convert a value to `kind`; return it unchanged if DeepSpeed could not convert it either."""
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return value


def _find_converted(kind: type) -> Find:
    return find_from_value(lambda value: _convert_or_keep(kind, value))


_BATCHING = "data_efficiency.data_sampling.dynamic_batching"
_CONVERTED: tuple[tuple[str, type], ...] = (
    ("enabled", bool),
    ("lr_scaling_method", str),
    ("min_batch_size", int),
    ("max_batch_size", int),
    ("sequence_picking_order", str),
    ("verbose", bool),
)


def _find_tokens(ctx: Context, value: Json) -> Json:
    return _convert_or_keep(int, value) if ctx.is_on(f"{_BATCHING}.enabled") and value is not None else value


def _find_only_with_type(section: str) -> Find:
    """Return a `Find` for optimizer or scheduler params, which DeepSpeed reads only if `type` is set."""

    def find(ctx: Context, value: Json) -> Json:
        return value if ctx.value(f"{section}.type") is not None else None

    return find


def _find_switch_in_section(section: str) -> Find:
    """Return a `Find` for a switch that is off without its section."""
    return lambda ctx, value: value if ctx.has(section) else False


_SPARSE = "compression_training.sparse_pruning.shared_parameters"


def _find_offset_end(ctx: Context, value: Json) -> Json:
    return ctx.value(f"{_SPARSE}.schedule_offset") if value is None else value


_LTD = "data_efficiency.data_routing.random_ltd"


def _find_only_if_random_ltd(ctx: Context, value: Json) -> Json:
    return value if ctx.is_on(f"{_LTD}.enabled") else False


_LAYERS = "compression_training.layer_reduction.enabled"


def _find_default_dtype(value: Json) -> Json:
    """Return `value`, or for a key whose default is a torch dtype, that default as text."""
    return "torch.float16" if value is None else value


def _null_to_false(value: Json) -> Json:
    return value or False


def switch_derivations() -> Iterator[ValueDerivation]:
    """Yield the derivations of switches that DeepSpeed reads only if their section is enabled."""
    yield ValueDerivation(
        _LAYERS, find_from_value(_null_to_false), "compression/config.py:get_layer_reduction"
    )
    source, switch = "runtime/data_pipeline/config.py:get_random_ltd", f"{_LTD}.enabled"
    yield ValueDerivation(switch, _find_only_if_random_ltd, source)
    key, why = f"{_LTD}.layer_token_lr_schedule.enabled", "not read: `random_ltd` is off"
    yield ValueDerivation(key, _find_only_if_random_ltd, source, (switch,), why=why)


def other_derivations() -> Iterator[ValueDerivation]:
    """Yield the derivations for keys other than those of ZeRO, precision and switches."""
    config = "runtime/config.py:DeepSpeedConfig._initialize_params"
    yield ValueDerivation("optimizer.type", _find_optimizer_type, config)
    for section in ("optimizer", "scheduler"):
        source = f"runtime/config.py:get_{section}_params"
        why = "not read without `type`"
        yield ValueDerivation(f"{section}.params", _find_only_with_type(section), source, why=why)
    for section, reader in (("amp", "get_amp_enabled"), ("progressive_layer_drop", "get_pld_enabled")):
        yield ValueDerivation(
            f"{section}.enabled", _find_switch_in_section(section), f"runtime/config.py:{reader}"
        )
    profiler = ("flops_profiler.enabled",)
    yield ValueDerivation("wall_clock_breakdown", _find_breakdown, config, profiler, releases_from("0.4.0"))
    source = "runtime/tensor_parallel/config.py:TPTrainingConfig"
    yield ValueDerivation("tensor_parallel.dtype", find_from_value(_find_default_dtype), source)
    operation = "runtime/config.py:get_gradient_allreduce_op"
    yield ValueDerivation("gradient_allreduce_op", find_from_value(_convert_to_lower_case), operation)
    sequence = ("seq_parallel_communication_data_type", "seq_parallel_comm_data_type")
    for key in ("communication_data_type", *sequence):
        yield ValueDerivation(
            key, find_from_value(_convert_to_lower_case), "runtime/config.py:get_communication_data_type"
        )
    tag = "runtime/config.py:get_checkpoint_tag_validation_mode"
    yield ValueDerivation("checkpoint.tag_validation", find_from_value(_convert_to_upper_case), tag)
    writer = "runtime/model_checkpointing/config.py:get_checkpoint_writer_config"
    for key in ("type", "data_parallel"):
        yield ValueDerivation(f"checkpoint.writer.{key}", find_from_value(_convert_to_upper_case), writer)
    source = "compression/config.py:get_sparse_pruning_shared_parameters"
    yield ValueDerivation(
        f"{_SPARSE}.schedule_offset_end", _find_offset_end, source, (f"{_SPARSE}.schedule_offset",)
    )
    source = "runtime/data_pipeline/config.py:get_dynamic_batching"
    yield ValueDerivation(f"{_BATCHING}.max_tokens", _find_tokens, source)
    for key, kind in _CONVERTED:
        yield ValueDerivation(f"{_BATCHING}.{key}", _find_converted(kind), source)


# All derivations of DeepSpeed's own code. Conversions by pydantic follow from a key's type and need no entry.

DERIVATIONS = (*zero_derivations(), *precision_derivations(), *switch_derivations(), *other_derivations())


def derivations_by_key(ctx: Context) -> dict[str, ValueDerivation]:
    """Return the derivations that apply in a release, by key."""
    if ctx.root_section == INFERENCE_ROOT:
        return _renamed_inference_keys()
    return {entry.key: entry for entry in DERIVATIONS if ctx.release in entry.releases}


@cache
def _renamed_inference_keys() -> dict[str, ValueDerivation]:
    """Return the keys of an inference config into which DeepSpeed copies the value of a former name.

    Source: runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field.
    """
    infos = keys_of_section_class(INFERENCE_ROOT)
    derivations = {}
    for info in infos.values():
        section, _, name = (info.replaced_by or "").partition(".")
        for word in (section, *(alias for alias, _ in infos[section].aliases)) if name else ():
            find = partial(_value_of_old_name, info.name, f"{section}.{name}")
            source = "runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field"
            derivations[f"{word}.{name}"] = ValueDerivation(f"{word}.{name}", find, source, (info.name,))
    return derivations


def _value_of_old_name(old: str, new: str, ctx: Context, value: Json) -> Json:
    return ctx.value(old) if is_set(ctx, old) and not is_set(ctx, new) else value
