"""`show`: the effective value of every key and its source: file, default, batch or consumer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dsconfig.check.build_job import MappingSource, ModelSource, asked, build_job, known_of, mapping
from dsconfig.consumers.autofill import Filling, Message
from dsconfig.consumers.consumer import consumer_of
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Given
from dsconfig.job.job import Fact, Job
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section, type_named, view
from dsconfig.resolve.batch import formula_of
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.input_config import InputConfig, launch_world_size, model_config_of, read_input_config
from dsconfig.resolve.raw_config import fill_raw_config, read_raw_config, release_context
from dsconfig.resolve.replaced_values import Origins, Value
from dsconfig.resolve.resolve import derive_run
from dsconfig.resolve.run import LaunchWorldSize, Parallel, runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


# `show`: what counts in a config, and where each value comes from, for any source.


def show(
    source: ConfigSource,
    *keys: str,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    every: bool = False,
) -> Shown:
    """The value of every key that counts, and where it comes from: `.values`, each with `.key` and `.origin`.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        keys: list only these keys and what is below them, with all defaults.
        world_size: number of ranks; None: as the file itself or its launch file says, else the batch is a
            formula in the number of GPUs.
        target: the release that reads it, of a range the newest; None: as for `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer fills "auto" from; see `resolve`.
        model: the model, for its hidden size; None: see `resolve`.
        launch: the launch file whose arguments count; see `check`.
        every: whether to list the defaults of sections that are not written, too.

    Raises:
        ResolveError: the config cannot be read.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    located = locate(read(source))
    job = build_job(located, asked(target, world_size, consumer, known_of(model), launch=launch))
    return effective_in(located, job, training_args=mapping(training_args), every=every, keys=keys)


# The effective value of every key and where it comes from: the file, a default, the batch, the consumer.

_NOTHING_ASKED = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class Shown:
    """The values of a config in one release, and messages about how they came about."""

    values: tuple[Value, ...]
    release: str
    messages: tuple[Message, ...] = ()


def effective(
    source: ConfigSource | Document,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> Shown:
    """The effective values of a config, or of a document that was read; the arguments are those of `show`.

    Raises:
        ResolveError: the config cannot be read.
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    located = locate(source if isinstance(source, Document) else read(source))
    job = build_job(located, asked(target, world_size, consumer))
    return effective_in(
        located, job, training_args=training_args, model_config=model_config, every=every, keys=keys
    )


def effective_in(
    located: LocatedConfig,
    job: Job,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> Shown:
    """The effective values of a config in its job; see `effective`."""
    release = job.releases.releases[-1]
    seen = read_input_config(located, job)
    written = release_context(seen.document, release, seen.consumer)
    model_config = model_config or model_config_of(seen.facts)
    run, messages, found = None, seen.messages, launch_world_size(located, job)
    size = found.ranks if found else None
    formula = None
    try:
        if size is not None:
            fact = job.world_size or Fact(size, "argument", "")
            here = job._replace(world_size=Fact(size, "argument", fact.source))
            circumstances = runtime(here, _NOTHING_ASKED, None)
            parallelism = circumstances.requested.over(seen.facts.parallelism)
            circumstances = replace(circumstances, consumer=seen.consumer, parallelism=parallelism)
            config = read_raw_config(seen.document, release, seen.consumer, {})
            run = derive_run(seen, config, circumstances, training_args, model_config)
            messages = run.messages
        else:
            formula = _formula(seen, release, found, training_args)
            if found is not None:
                told = [found.source, *([formula] if formula else []), "give --world-size"]
                messages = (*messages, Message("note", f"no world size: {'; '.join(told)}"))
    except ResolveError as error:
        messages = (*messages, Message("note", f"no batch at world size {size}: {error.reason}"))
    made = run or _filled(seen, release, training_args, model_config)
    origins = Origins(written, made, seen.describe_location, formula)
    return Shown(tuple(Listing(origins, every, tuple(keys)).values()), release, messages)


def _formula(
    seen: InputConfig, release: str, found: LaunchWorldSize | None, training_args: Mapping[str, Json] | None
) -> str | None:
    """The batch in the number of GPUs, where nobody knows that."""
    per_node = found.gpus_per_node if found else None
    parallelism = Parallel().over(seen.facts.parallelism)
    try:
        return formula_of(seen, release, parallelism, per_node, training_args, {})
    except ResolveError:
        return None


def _filled(
    seen: InputConfig,
    release: str,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> Filling | None:
    """What is filled on any number of ranks, as far as the arguments of the job are known."""
    if seen.arguments is None and training_args is None:
        seen = seen._replace(arguments=Given({}, consumer_of(seen.consumer).arguments))
    written = read_raw_config(seen.document, release, seen.consumer, {})
    try:
        return fill_raw_config(seen, written, None, training_args, model_config)[0]
    except ResolveError:
        return None


# The keys of a config one by one, those that are written and the defaults of those that are not.

_HIDDEN = frozenset({"internal", "not_json", "unread"})
_DEEPEST = 6
"""Sections nested deeper than any real one: a section that holds its own kind would never end."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which keys are listed: the written ones, and defaults by `every` and `keys`; see `effective`."""

    origins: Origins
    every: bool
    keys: tuple[str, ...]

    def values(self) -> Iterator[Value]:
        """The values asked for, sections in the order of the file and then of the model."""
        root = view(ROOT, self._release)
        return (value for value in self._section(root, self.origins.data, ()) if self._wanted(value.key))

    @property
    def _release(self) -> int:
        return self.origins.written.release

    def _wanted(self, key: str) -> bool:
        return not self.keys or any(f"{key}.".startswith(f"{name}.") for name in self.keys)

    def _section(
        self, section: SectionView, data: Mapping[str, Json], path: tuple[str, ...]
    ) -> Iterator[Value]:
        canonical = set()
        for word, value in data.items():
            key = section.keys.get(word)
            if key is None:
                yield self.origins.of_unknown(section, value, (*path, word))
            else:
                canonical.add(key.info.name)
                yield from self._written(key, value, (*path, word), data)
        for name in dict.fromkeys(key.info.name for key in section.keys.values()):
            if name not in canonical:
                yield from self._default(section.keys[name], (*path, name))

    def _written(
        self, key: KeyView, value: Json, path: tuple[str, ...], siblings: Mapping[str, Json]
    ) -> Iterator[Value]:
        kind = type_named(key.info.section, siblings.get("type")) if path[-1] == "params" else None
        inner = (kind.params if kind else None) or child_section(key.type)
        if inner is not None and isinstance(value, dict) and path not in self.origins.verdicts:
            yield from self._section(view(inner, self._release), value, path)
            return
        named = _section_of_each(key.type)
        if named is not None and isinstance(value, dict) and value and path not in self.origins.verdicts:
            for name, item in value.items():
                if isinstance(item, dict):
                    yield from self._section(view(named, self._release), item, (*path, name))
                else:
                    yield self.origins.of_key(key, item, (*path, name))
            return
        found = self.origins.of_key(key, value, path)
        yield found
        if inner is not None and found.origin == "written":
            yield from self._default(key, path)

    def _default(self, key: KeyView, path: tuple[str, ...]) -> Iterator[Value]:
        """The key that is not written; at the top and in sections of their own only where asked for.

        What is derived from something that is written is listed in any case.
        """
        asked = self.every or any(_within(path, name) for name in self.keys)
        if key.info.flags & _HIDDEN or key.info.deprecated <= self._release:
            return
        inner = child_section(key.type)
        if inner is None:
            found = self.origins.of_default(key, path)
            if asked or len(path) > 1 or found.origin == "derived":
                yield found
        elif len(path) < _DEEPEST and (asked or self.origins.leads_to(path)):
            values = self._section(view(inner, self._release), {}, path)
            yield from (value for value in values if asked or value.origin == "derived")


def _section_of_each(spec: Spec) -> str | None:
    """The section class of the entries of a map, whose keys are names of one's own."""
    arms = spec[1:] if spec[0] == "union" else (spec,)
    return next((child_section(arm[1]) for arm in arms if arm[0] == "map"), None)


def _within(path: tuple[str, ...], name: str) -> bool:
    """Whether one of the two keys is the other, or in it."""
    dotted = ".".join(path)
    return f"{dotted}.".startswith(f"{name}.") or f"{name}.".startswith(f"{dotted}.")
