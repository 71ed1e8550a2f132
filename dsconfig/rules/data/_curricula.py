"""Curricula that are on: the old one by sequence length, and those of data efficiency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.evaluation.context import Context

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


_OLD = "curriculum_learning"
NEW = "data_efficiency.data_sampling.curriculum_learning"


class Curriculum(NamedTuple):
    """One scheduler in the making: where its keys stand, and what becomes of a mistake."""

    path: KeyPath
    data: JsonObject
    effect: EffectName
    keys: tuple[str, ...]

    @property
    def config(self) -> JsonObject:
        """Its `schedule_config`; empty where that is missing or no object."""
        config = self.data.get("schedule_config")
        return config if isinstance(config, dict) else {}


def curricula(ctx: Context) -> Iterator[Curriculum]:
    """Every curriculum that is switched on."""
    old = ctx.data.get(_OLD)
    if isinstance(old, dict) and ctx.between("0.5.0", "0.19.7") and ctx.on(f"{_OLD}.enabled"):
        yield Curriculum((_OLD,), old, "crashes", ("curriculum_type", *_BOUNDS))
    for name, metric in metrics_of(ctx).items():
        if isinstance(metric, dict):
            path = (*NEW.split("."), "curriculum_metrics", name)
            yield Curriculum(path, metric, "ignored", (*_BOUNDS, *_metric_keys(metric)))


_BOUNDS = ("min_difficulty", "max_difficulty", "schedule_type")


def _metric_keys(metric: JsonObject) -> Iterator[str]:
    yield from ("difficulty_type", "clustering_type")
    if metric.get("clustering_type") != "single_cluster":
        yield "index_to_sample_path"
        if metric.get("difficulty_type") == "value":
            yield "index_to_metric_path"


def metrics_of(ctx: Context) -> JsonObject:
    """The metrics of data efficiency's curriculum, where it is on."""
    section = ctx.written(NEW)
    if not isinstance(section, dict) or not section.get("enabled") or ctx.before("0.8.0"):
        return {}
    metrics = section.get("curriculum_metrics")
    return metrics if isinstance(metrics, dict) else {}
