"""What two keys demand of each other, where an editor can underline the offending one.

Only conditions on two siblings, or on a sibling and a key right inside another, stand here: a schema can say
more, but then its message lands on the whole object. The rest is `check`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dsconfig.consumers import HUGGING_FACE
from dsconfig.json_types import Json
from dsconfig.model.keyinfo import SectionView
from dsconfig.releases import NEVER, number
from dsconfig.schema.values import Schema, needs

_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


@dataclass(frozen=True, slots=True)
class Condition:
    """In `section`, where `when` holds, `then` must. `rule` is the one of `check` that says the same."""

    rule: str
    section: str
    when: Schema
    then: Schema
    keys: tuple[str, ...]
    """Keys that the release must know."""
    since: str = "0.3.1"
    until: str | None = None
    consumers: tuple[str, ...] = ()
    """Who must be reading; empty for all."""

    def holds(self, seen: SectionView, release: int, consumer: str | None) -> bool:
        """Whether it belongs in the schema of this release and consumer."""
        last = number(self.until) if self.until else NEVER
        return (
            number(self.since) <= release <= last
            and all(key in seen.keys for key in self.keys)
            and (not self.consumers or consumer in self.consumers)
        )


def of(seen: SectionView, release: int, consumer: str | None) -> Iterator[Schema]:
    """The conditions of a section."""
    for condition in CONDITIONS:
        if condition.section == seen.name and condition.holds(seen, release, consumer):
            if condition.when:
                yield {"if": condition.when, "then": condition.then}
            else:
                yield condition.then


_NOT_AUTO: Schema = {"not": {"const": "auto"}, "doNotSuggest": True}


def _written(**properties: Json) -> Schema:
    """The keys are there and as told; None: whatever they are, but for "auto", which may be dropped."""
    # VS Code proposes what it meets here too, and some of these are names of old.
    told = {key: _NOT_AUTO if value is None else value for key, value in properties.items()}
    return {"properties": told, "required": list(told)}


def _absent(message: str, *keys: str) -> Schema:
    return {"properties": dict.fromkeys(keys, False), "errorMessage": message}


def _inside(key: str, inner: Schema) -> Schema:
    return {"properties": {key: inner}}


_ON: Schema = {"const": True}
_BELOW_3: Schema = {"enum": [0, 1, 2]}
_OFFLOADED = _written(device={"enum": ["cpu", "nvme"]})
_TO_NVME = _written(device={"const": "nvme"})


def _replaced(old: str, new: str) -> Condition:
    return Condition(
        "DSC403",
        "ZeroOptimization",
        _written(**{old: None, new: None}),
        _absent(f"`{old}` is the old name of `{new}`, and DeepSpeed refuses the two together", old),
        (old, new),
        since="0.7.0",
    )


def _path_needed(section: str) -> Condition:
    return Condition(
        "DSC462",
        "ZeroOptimization",
        _written(stage={"const": 3}, **{section: _TO_NVME}),
        _inside(section, needs("nvme_path")),
        (section,),
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "DSC301",
        "Config",
        _written(fp16=_written(enabled=_ON), bf16=_written(enabled=_ON)),
        _inside(
            "fp16", _absent("`fp16` and `bf16` are both enabled, and DeepSpeed takes only one", "enabled")
        ),
        ("fp16", "bf16"),
        since="0.6.0",
    ),
    Condition(
        "DSC402",
        "ZeroOptimization",
        {
            "properties": {"compute_grad_norm": {"const": False}, "stage": {"enum": [0, 3]}},
            "required": ["compute_grad_norm"],
        },
        _absent("`compute_grad_norm` may be false only at ZeRO stage 1 or 2", "compute_grad_norm"),
        ("compute_grad_norm",),
    ),
    _replaced("cpu_offload", "offload_optimizer"),
    _replaced("cpu_offload_param", "offload_param"),
    _replaced("stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
    Condition(
        "DSC422",
        "ZeroOptimization",
        {
            "properties": {
                "stage": _BELOW_3,
                "offload_optimizer": _written(ratio={"type": "number", "exclusiveMaximum": 1}),
            },
            "required": ["offload_optimizer"],
        },
        _inside("offload_optimizer", _absent("a `ratio` below 1 needs ZeRO stage 3", "ratio")),
        ("offload_optimizer",),
        since="0.15.0",
    ),
    Condition(
        "DSC432",
        "ZeroOptimization",
        _written(stage=_BELOW_3, offload_param=_OFFLOADED),
        _absent("`offload_param` has no effect: only stage 3 offloads parameters", "offload_param"),
        ("offload_param",),
    ),
    Condition(
        "DSC433",
        "ZeroOptimization",
        {
            "properties": {"pipeline_loading_checkpoint": _ON, "stage": _BELOW_3},
            "required": ["pipeline_loading_checkpoint"],
        },
        _absent("`pipeline_loading_checkpoint` works at stage 3 alone", "pipeline_loading_checkpoint"),
        ("pipeline_loading_checkpoint",),
    ),
    Condition(
        "DSC460",
        "ZeroOptimization",
        _written(stage={"const": 0}, offload_optimizer=_OFFLOADED),
        _absent("nothing is offloaded at stage 0, and the CPU optimizer fails on a GPU", "offload_optimizer"),
        ("offload_optimizer",),
    ),
    Condition("DSC430", "ZeroOptimization", {"minProperties": 1}, needs("stage"), (), since="0.7.0"),
    *(
        Condition("DSC463", section, {}, needs("device"), (), since="0.7.0")
        for section in ("OffloadParam", "OffloadOptimizer")
    ),
    _path_needed("offload_param"),
    _path_needed("offload_optimizer"),
    *(
        Condition(
            "DSC606",
            "Config",
            {
                "properties": {
                    "elasticity": {
                        "properties": {"enabled": _ON, "ignore_non_elastic_batch_info": {"const": False}},
                        "required": ["enabled"],
                    }
                },
                "required": ["elasticity"],
            },
            _absent(f"`elasticity` is enabled and works `{key}` out", key),
            ("elasticity", key),
        )
        for key in _BATCH
    ),
    Condition(
        "DSC802",
        "Config",
        {},
        needs("zero_optimization"),
        (),
        consumers=HUGGING_FACE,
    ),
    Condition(
        "DSC803",
        "Config",
        {},
        _absent(
            "Lightning refuses the key: give the Trainer `accumulate_grad_batches`",
            "gradient_accumulation_steps",
        ),
        (),
        consumers=("lightning",),
    ),
)
