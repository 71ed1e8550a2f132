"""JSON Schema keywords for types, snippets, "auto", and editor extensions.

A placeholder with a caret in `defaultSnippets` is inserted without quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dsconfig.core.releases import ReleaseTarget, release_name
from dsconfig.core.wording import describe_type
from dsconfig.model.key_table import SectionView, child_section, section_view_of_release
from dsconfig.schema import presets

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec

Schema: TypeAlias = "dict[str, Any]"
DRAFT = "http://json-schema.org/draft-07/schema#"
AUTO_PATTERN = "^auto$"
"""A pattern that accepts "auto"; editors would suggest it if it were a `const`."""


def required_keys(*keys: str) -> Schema:
    """Return keywords that require keys; each key is also declared, as Ajv's strict mode demands."""
    return {"properties": dict.fromkeys(keys, True), "required": list(keys)}


def schema_alternatives(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema: those in `anyOf`, or else the schema itself."""
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def types_of_schema(schema: Schema) -> list[str]:
    """Return the JSON types that a schema accepts."""
    types_ = schema.get("type", [])
    return [types_] if isinstance(types_, str) else list(types_)


def case_insensitive_pattern(words: Sequence[str]) -> str:
    """Return a pattern that matches words in any case, as patterns in JSON Schema have no flags."""
    return f"^({'|'.join(map(_case_insensitive_word, words))})$"


def _case_insensitive_word(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in word)


# JSON Schema of a type, which is a spec of `dsconfig.model.iterate_model_fields`.

Refer: TypeAlias = "Callable[[str, frozenset[str]], Schema]"
"""Gives the reference to a section that may also be of certain shapes."""
ANY_SHAPE = frozenset(("null", "true", "false", "list", "string", "number"))
"""Whatever JSON has but "auto", which `check` reports where it stands for a section."""
ANYTHING = ANY_SHAPE | {"auto"}

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_TYPES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "path": "string",
    "null": "null",
    "list": "array",
    "map": "object",
}


def schema_of_type(spec: Spec, refer: Refer) -> Schema:
    """Return the schema of a type."""
    kind = spec[0]
    if kind in ("any", "never"):
        return {} if kind == "any" else {"not": {}}
    if kind == "enum":
        return {"enum": list(spec[1:])}
    if kind == "section":
        return refer(spec[1], frozenset())
    if kind == "union" and ("any",) in spec and (sections := [arm for arm in spec if arm[0] == "section"]):
        return refer(sections[0][1], ANYTHING)
    if kind == "union":
        return _schema_of_union([schema_of_type(arm, refer) for arm in spec[1:]])
    schema: Schema = {"type": _TYPES[kind]}
    if kind in ("int", "float"):
        schema |= _schema_bounds(spec)
    elif kind in ("list", "map"):
        inner = schema_of_type(spec[1], refer)
        if inner:
            schema["items" if kind == "list" else "additionalProperties"] = inner
    return schema


def _schema_bounds(spec: Spec) -> Schema:
    kind, ge, gt, le, lt = spec
    if kind == "int" and gt is not None:  # editors report "below the minimum of 1" more clearly
        ge, gt = gt + 1, None
    return {word: bound for word, bound in zip(_BOUNDS, (ge, gt, le, lt), strict=True) if bound is not None}


def _schema_of_union(arms: list[Schema]) -> Schema:
    """Return a single schema if the members have distinct types, so that keywords do not interfere, else `anyOf`."""
    if {} in arms:
        return {}
    words = [member for arm in arms for member in _values_of_schema(arm)]
    others = [arm for arm in arms if not _values_of_schema(arm) and "enum" not in arm]
    if words and not others:
        return {"enum": words}
    if words and all(arm == {"type": "null"} for arm in others):
        return {"enum": [*words, None]}
    merged: list[Schema] = []
    for arm in others:
        fits = merged and isinstance(arm.get("type"), str) and "$ref" not in merged[0]
        if fits and _have_disjoint_types(merged[0], arm):
            merged[0] = {**merged[0], **arm, "type": [*types_of_schema(merged[0]), arm["type"]]}
        else:
            merged.append(arm)
    arms = [*merged, *([{"enum": words}] if words else [])]
    return arms[0] if len(arms) == 1 else {"anyOf": arms}


def _values_of_schema(arm: Schema) -> list[object]:
    return list(arm["enum"]) if arm.keys() == {"enum"} else []


def _have_disjoint_types(one: Schema, other: Schema) -> bool:
    numbers = {"integer", "number"}
    used = set(types_of_schema(one))
    if not used or other["type"] in used or (other["type"] in numbers and used & numbers):
        return False
    return not (one.keys() & other.keys()) - {"type"}


# Additions to the schema of a type: "auto", any case, suggestions, messages.
#
# Editors show the `errorMessage` of the first arm of an `anyOf` that fails, so every arm has the same message.

Auto: TypeAlias = Literal["filled", "dropped"] | None
"""Whether a consumer resolves "auto" (filled), or DeepSpeed ignores the key and uses its default (dropped)."""


def accept_auto(schema: Schema, auto: Auto) -> Schema:
    """Extend a schema so that it accepts "auto"; editors suggest it only if a consumer resolves it."""
    if auto is None or not schema:
        return schema
    if auto == "filled":
        alternatives = schema_alternatives(schema)
        for index, arm in enumerate(alternatives):
            if arm.keys() == {"enum"}:
                alternatives[index] = {"enum": [*arm["enum"], "auto"]}
                break
            if arm == {"type": "boolean"} and len(alternatives) == 1:
                return {"enum": [True, False, "auto"]}
        else:
            alternatives.append({"const": "auto"})
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if any("string" in types_of_schema(arm) and "pattern" not in arm for arm in schema_alternatives(schema)):
        return schema
    return {"anyOf": [*schema_alternatives(schema), {"type": "string", "pattern": AUTO_PATTERN}]}


def accept_any_case(schema: Schema) -> Schema:
    """Extend a schema so that it accepts its words in any case."""
    alternatives = schema_alternatives(schema)
    words = [word for arm in alternatives for word in arm.get("enum", ()) if isinstance(word, str)]
    if not words:
        return schema
    return {"anyOf": [*alternatives, {"type": "string", "pattern": case_insensitive_pattern(words)}]}


def suggest_values(schema: Schema, values: Sequence[str]) -> Schema:
    """Make editors suggest known values of an open set without restricting what the schema accepts."""
    numbers = schema.get("type") in ("integer", "number")
    return {
        "anyOf": [
            {"enum": [float(word) if numbers else word for word in values]},
            *schema_alternatives(schema),
        ]
    }


def add_error_message(schema: Schema, spec: Spec, auto: Auto) -> Schema:
    """Add a single error message for all alternatives, because editors report only the first one."""
    alternatives = schema_alternatives(schema)
    if len(alternatives) < 2 or {} in alternatives:
        return schema
    arms = spec[1:] if spec[0] == "union" else (spec,)
    accepted = ("union", *arms, ("enum", "auto")) if auto == "filled" else spec
    message = f"expected {describe_type(accepted)}".replace("`", "")
    return {"anyOf": [arm if "$ref" in arm else {**arm, "errorMessage": message} for arm in alternatives]}


def describe_values(schema: Schema, means: Mapping[object, str]) -> Schema:
    """Add a description for each documented value."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [describe_values(arm, means) for arm in schema["anyOf"]]}
    if "items" in schema:
        return {**schema, "items": describe_values(schema["items"], means)}
    if "enum" not in schema or not means:
        return schema
    return {**schema, "enumDescriptions": [_meaning_of_word(means, word) for word in schema["enum"]]}


def _meaning_of_word(means: Mapping[object, str], word: object) -> str:
    # True equals 1, but a switch is not ZeRO stage 1.
    return next((text for key, text in means.items() if key == word and type(key) is type(word)), "")


_DEVICE: Schema = {"device": "cpu", "pin_memory": True}
_DRIVE: Schema = {"device": "nvme", "nvme_path": "${1:/local_nvme}", "pin_memory": True}
_RATE = "^${1:0.0001}"
_STEPS: Schema = {"warmup_num_steps": "^${1:100}", "total_num_steps": "^${2:1000}"}

_SNIPPETS: dict[tuple[str, str], tuple[tuple[str, Schema], ...]] = {
    ("Config", "zero_optimization"): (
        ("stage 1", {"stage": 1}),
        ("stage 2", {"stage": 2, "overlap_comm": True}),
        ("stage 2, optimizer on the CPU", {"stage": 2, "offload_optimizer": _DEVICE}),
        ("stage 3", {"stage": 3, "overlap_comm": True, "stage3_gather_16bit_weights_on_model_save": True}),
        ("stage 3, all on the CPU", {"stage": 3, "offload_param": _DEVICE, "offload_optimizer": _DEVICE}),
        ("stage 3, all on NVMe", {"stage": 3, "offload_param": _DRIVE, "offload_optimizer": _DRIVE}),
    ),
    ("ZeroOptimization", "offload_param"): (("to host memory", _DEVICE), ("to NVMe", _DRIVE)),
    ("ZeroOptimization", "offload_optimizer"): (("to host memory", _DEVICE), ("to NVMe", _DRIVE)),
    ("Config", "optimizer"): (
        ("AdamW", {"type": "AdamW", "params": {"lr": _RATE, "weight_decay": "^${2:0.01}"}}),
        ("Lion", {"type": "Lion", "params": {"lr": _RATE, "betas": [0.9, 0.99]}}),
        ("Muon", {"type": "Muon", "params": {"muon_lr": "^${1:0.02}", "adam_lr": "^${2:0.0003}"}}),
    ),
    ("Config", "scheduler"): (
        ("warm up, then stay", {"type": "WarmupLR", "params": {"warmup_num_steps": "^${1:100}"}}),
        ("warm up, then linear", {"type": "WarmupDecayLR", "params": _STEPS}),
        ("warm up, then cosine", {"type": "WarmupCosineLR", "params": _STEPS}),
    ),
    ("Config", "bf16"): (("on", {"enabled": True}),),
    ("Config", "fp16"): (("on, loss scale adapts", {"enabled": True, "loss_scale": 0}),),
    ("Config", "activation_checkpointing"): (
        ("partitioned", {"partition_activations": True, "contiguous_memory_optimization": True}),
    ),
    ("Config", "flops_profiler"): (("at one step", {"enabled": True, "profile_step": "^${1:5}"}),),
    ("Config", "comms_logger"): (("on", {"enabled": True, "verbose": False}),),
    ("Config", "tensorboard"): (("on", {"enabled": True, "output_path": "${1:runs}"}),),
    ("Config", "wandb"): (("on", {"enabled": True, "project": "${1:project}"}),),
    ("Config", "csv_monitor"): (("on", {"enabled": True, "output_path": "${1:runs}"}),),
    ("Config", "tensor_parallel"): (("AutoTP", {"autotp_size": "^${1:4}"}),),
    ("Config", "elasticity"): (
        (
            "version 0.1",
            {"enabled": True, "max_train_batch_size": "^${1:2048}", "micro_batch_sizes": [2, 4, 8]},
        ),
    ),
}


def snippets_of(parent: SectionView, key: str, section: str, release: int) -> list[Schema]:
    """Return the snippets for a section's key, except those with keys that the release does not read."""
    return [
        {"label": label, "body": body}
        for label, body in _SNIPPETS.get((parent.name, key), ())
        if _is_snippet_readable(section_view_of_release(section, release), body)
    ]


def _is_snippet_readable(section: SectionView, body: Schema) -> bool:
    """Return whether the release reads every key in a snippet."""
    for key, value in body.items():
        if key not in section.keys:
            return False
        inner = child_section(section.keys[key].type) if isinstance(value, dict) and key != "params" else None
        if inner is not None and not _is_snippet_readable(
            section_view_of_release(inner, section.releases.first), value
        ):
            return False
    return True


def snippets_of_whole_config(release: int, consumer: str | None) -> Iterator[Schema]:
    """Yield a snippet with the whole config for each preset."""
    target = ReleaseTarget((release_name(release),), release_name(release), "argument")
    for preset in presets.PRESETS.values():
        preset_consumer = consumer or preset.consumers[0]
        if preset_consumer in preset.consumers and preset.is_suitable(release_name(release), preset_consumer):
            body = presets.preset_config(preset.name, target, preset_consumer)
            yield {"label": preset.name, "description": preset.summary, "body": body}
