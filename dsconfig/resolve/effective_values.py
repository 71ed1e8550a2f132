"""`show`: the effective value of every key, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
    read_training_arguments,
)
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import Document
from dsconfig.job.consumers import INFERENCE
from dsconfig.job.consumers.autofill import AutofillMessage, AutofillState
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.job.job import Job, JobFact
from dsconfig.launch.config_source import ConfigSource, read_config_source
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import LocatedConfig, locate_config
from dsconfig.model.key_table import (
    KeyView,
    SectionView,
    child_section,
    find_type,
    section_view_of_release,
)
from dsconfig.resolve.batch import input_batch_formula
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.input_config import InputConfig, launch_world_size, model_config_of, read_input_config
from dsconfig.resolve.raw_config import fill_raw_config, read_raw_config, release_context
from dsconfig.resolve.resolve import derive_run
from dsconfig.resolve.resolved_run import LaunchWorldSize, ParallelDegrees, resolution_target
from dsconfig.resolve.values_replaced_by_deepspeed import EffectiveValue, ValueOrigins

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


# `show`.


def show(
    source: ConfigSource,
    *keys: str,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
    every: bool = False,
) -> EffectiveValues:
    """Return the effective value of every key as `.values`, each with a `.key` and an `.origin`.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        keys: list only these keys and the keys in them, including all defaults.
        world_size: number of ranks. Default: from the file or its launch file; if unknown, the batch is a formula in
            the number of GPUs.
        target: a DeepSpeed release, or a range, of which the newest release is used. Default: see `check`.
        consumer: the library that loads the file; see `check`.
        training_args: arguments from which the consumer resolves "auto"; see `resolve`.
        model: the model, whose hidden size is used. Default: see `resolve`.
        launch: the launch file to use; see `check`.
        job: see `resolve`.
        every: whether to also list the defaults of absent sections.

    Raises:
        ResolveError: the config cannot be read.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is invalid.
    """
    located = locate_config(read_config_of_job(source, job))
    merged = build_job(
        located,
        job_from_arguments(target, world_size, consumer, explicit_model_and_hosts(model), launch=launch),
    )
    return effective_values_of_job(
        located, merged, training_args=read_training_arguments(training_args), every=every, keys=keys
    )


# Effective values and their sources.

_NOTHING_ASKED = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class EffectiveValues:
    """The effective values of a config in one release, with notes."""

    values: tuple[EffectiveValue, ...]
    release: str
    messages: tuple[AutofillMessage, ...] = ()


def effective_values_of(
    source: ConfigSource | Document,
    world_size: int | None = None,
    target: str | ReleaseTarget | None = None,
    consumer: str | None = None,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> EffectiveValues:
    """Return the effective values of a config or document; takes the arguments of `show`.

    Raises:
        ResolveError: the config cannot be read.
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is invalid.
    """
    located = locate_config(source if isinstance(source, Document) else read_config_source(source))
    job = build_job(located, job_from_arguments(target, world_size, consumer))
    return effective_values_of_job(
        located, job, training_args=training_args, model_config=model_config, every=every, keys=keys
    )


def effective_values_of_job(
    located: LocatedConfig,
    job: Job,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> EffectiveValues:
    """Return the effective values of a config for the job that loads it; see `show`."""
    release = job.releases.releases[-1]
    input_config = read_input_config(located, job, is_for_training=False)
    written_context = release_context(input_config.document, release, input_config.consumer)
    model_config = model_config or model_config_of(input_config.facts)
    if input_config.consumer == INFERENCE:  # no batch, and nothing to fill in
        origins = ValueOrigins(written_context, None, input_config.describe_location, None)
        listed = ListedKeyFilter(origins, every, tuple(keys))
        return EffectiveValues(tuple(listed.values()), release, input_config.messages)
    run, messages, launch_size = None, input_config.messages, launch_world_size(located, job)
    size = launch_size.ranks if launch_size else None
    formula = None
    try:
        if size is not None:
            fact = job.world_size or JobFact(size, "argument", "")
            sized_job = job._replace(world_size=JobFact(size, "argument", fact.source))
            run_target = resolution_target(sized_job, _NOTHING_ASKED, None)
            parallelism = run_target.requested.over(input_config.facts.parallelism)
            run_target = replace(run_target, consumer=input_config.consumer, parallelism=parallelism)
            config = read_raw_config(input_config.document, release, input_config.consumer, {})
            run = derive_run(input_config, config, run_target, training_args, model_config)
            messages = run.messages
        else:
            formula = _batch_formula(input_config, release, launch_size, training_args)
            if launch_size is not None:
                reasons = [launch_size.source, *([formula] if formula else []), "give --world-size"]
                messages = (*messages, AutofillMessage("note", f"no world size: {'; '.join(reasons)}"))
    except ResolveError as error:
        messages = (*messages, AutofillMessage("note", f"no batch at world size {size}: {error.reason}"))
    filling = run or _fill_auto_values(input_config, release, training_args, model_config)
    origins = ValueOrigins(written_context, filling, input_config.describe_location, formula)
    return EffectiveValues(tuple(ListedKeyFilter(origins, every, tuple(keys)).values()), release, messages)


def _batch_formula(
    input_config: InputConfig,
    release: str,
    launch_size: LaunchWorldSize | None,
    training_args: Mapping[str, Json] | None,
) -> str | None:
    """Return the batch as a formula in the number of GPUs, for an unknown world size."""
    per_node = launch_size.gpus_per_node if launch_size else None
    parallelism = ParallelDegrees().over(input_config.facts.parallelism)
    try:
        return input_batch_formula(input_config, release, parallelism, per_node, training_args, {})
    except ResolveError:
        return None


def _fill_auto_values(
    input_config: InputConfig,
    release: str,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> AutofillState | None:
    """Resolve the "auto" values that do not depend on the world size, if the job's arguments are known."""
    if input_config.arguments is None and training_args is None:
        input_config = input_config._replace(
            arguments=LaunchArguments({}, consumer_from_spec(input_config.consumer).training_argument_names)
        )
    raw = read_raw_config(input_config.document, release, input_config.consumer, {})
    try:
        return fill_raw_config(input_config, raw, None, training_args, model_config)[0]
    except ResolveError:
        return None


# Listing of keys: written ones, and defaults.

_HIDDEN = frozenset({"internal", "not_json", "unread"})
_DEEPEST = 6
"""Maximal depth of sections, deeper than any real one, which bounds sections that contain themselves."""


@dataclass(frozen=True, slots=True)
class ListedKeyFilter:
    """Selects the keys to list: those in the config, and defaults as requested by `every` and `keys`; see `show`."""

    origins: ValueOrigins
    every: bool
    keys: tuple[str, ...]

    def values(self) -> Iterator[EffectiveValue]:
        """Yield the values in the order of the file, followed by other keys in the order of the model."""
        root = section_view_of_release(self.origins.context.root_section, self._release)
        return (
            value for value in self._section_values(root, self.origins.data, ()) if self._is_listed(value.key)
        )

    @property
    def _release(self) -> int:
        return self.origins.context.release

    def _is_listed(self, key: str) -> bool:
        return not self.keys or any(f"{key}.".startswith(f"{name}.") for name in self.keys)

    def _section_values(
        self, section: SectionView, data: Mapping[str, Json], path: tuple[str, ...]
    ) -> Iterator[EffectiveValue]:
        canonical = set()
        for word, value in data.items():
            key = section.keys.get(word)
            if key is None:
                yield self.origins.value_of_unknown_key(section, value, (*path, word))
            else:
                canonical.add(key.info.name)
                yield from self._written_values(key, value, (*path, word), data)
        for name in dict.fromkeys(key.info.name for key in section.keys.values()):
            if name not in canonical:
                yield from self._default_values(section.keys[name], (*path, name))

    def _written_values(
        self, key: KeyView, value: Json, path: tuple[str, ...], siblings: Mapping[str, Json]
    ) -> Iterator[EffectiveValue]:
        kind = find_type(key.info.section, siblings.get("type")) if path[-1] == "params" else None
        inner = (kind.params if kind else None) or child_section(key.type)
        if inner is not None and isinstance(value, dict) and path not in self.origins.verdicts:
            yield from self._section_values(section_view_of_release(inner, self._release), value, path)
            return
        named = _section_of_map_entries(key.type)
        if named is not None and isinstance(value, dict) and value and path not in self.origins.verdicts:
            for name, item in value.items():
                if isinstance(item, dict):
                    yield from self._section_values(
                        section_view_of_release(named, self._release), item, (*path, name)
                    )
                else:
                    yield self.origins.value_of_key(key, item, (*path, name))
            return
        entry = self.origins.value_of_key(key, value, path)
        yield entry
        if inner is not None and entry.origin == "written":
            yield from self._default_values(key, path)

    def _default_values(self, key: KeyView, path: tuple[str, ...]) -> Iterator[EffectiveValue]:
        """Yield the default of a key that is not in the config; for top-level keys, only on request.

        Derived values are always listed.
        """
        is_requested = self.every or any(_overlaps(path, name) for name in self.keys)
        if key.info.flags & _HIDDEN or key.info.deprecated <= self._release:
            return
        inner = child_section(key.type)
        if inner is None:
            entry = self.origins.value_of_absent_key(key, path)
            if is_requested or len(path) > 1 or entry.origin == "derived":
                yield entry
        elif len(path) < _DEEPEST and (is_requested or self.origins.may_determine_values_below(path)):
            values = self._section_values(section_view_of_release(inner, self._release), {}, path)
            yield from (value for value in values if is_requested or value.origin == "derived")


def _section_of_map_entries(spec: Spec) -> str | None:
    """Return the section class of the entries in a map with free-form keys, or None for any other key."""
    arms = spec[1:] if spec[0] == "union" else (spec,)
    return next((child_section(arm[1]) for arm in arms if arm[0] == "map"), None)


def _overlaps(path: tuple[str, ...], name: str) -> bool:
    """Return whether two dotted keys are equal or one contains the other."""
    dotted = ".".join(path)
    return f"{dotted}.".startswith(f"{name}.") or f"{name}.".startswith(f"{dotted}.")
