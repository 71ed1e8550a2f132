"""`Config`, the typed model with its methods, and `load`, which reads it from any source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsconfig.api.typed_model import Options, read_into
from dsconfig.model import Config as Keys

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import JsonObject
    from dsconfig.core.releases import Target
    from dsconfig.launch.config_source import ConfigSource
    from dsconfig.model._generated.dicts import ConfigDict
    from dsconfig.model.compose import Difference


# `Config`: the typed model with what is done with it, from reading to handing over.


class CommentsDroppedWarning(UserWarning):
    """A file with comments was read into a `Config`, which has no place for them."""


class Config(Keys):
    """A DeepSpeed config: what a `ds_config.json` holds, as attributes with types.

    Building one is strict: a misspelt key or a wrong type raises `BuildError`. What only several keys
    together, or the number of GPUs, can tell is told by `check` and `validated`.

        config = Config(train_batch_size=64, zero_optimization={"stage": 3})
        config = config.replace(zero_optimization__stage=2) | {"gradient_clipping": 1.0}
        engine, *_ = deepspeed.initialize(model=model, config=config.for_deepspeed(world_size=8))
    """

    if TYPE_CHECKING:

        def __init__(self, **values: Unpack[ConfigDict]) -> None: ...

    # -- reading and writing -------------------------------------------------------------------------------

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        target: str | Target | None = None,
        consumer: str | None = None,
    ) -> Self:
        """The config in a file of any format: JSON, with comments or without, Hjson or YAML.

        Everything is kept as it is written, keys that nobody knows too; of a launch file, the config that it
        names. Comments are dropped, and a `CommentsDroppedWarning` says so.

        Args:
            path: the file.
            target: the release whose names and defaults count; see `check`.
            consumer: who reads the file; see `check`.

        Raises:
            ConfigError: the text is not a config, or the release refuses one of its fields.
            OSError: the file cannot be read.
        """
        from pathlib import Path

        from dsconfig.api.typed_model import Options, read_into

        made, report = read_into(cls, Path(path), Options(target, None, consumer), fields_only=True)
        if report.document is not None and report.document.comments:
            warnings.warn(f"{report.name}: its comments are dropped", CommentsDroppedWarning, stacklevel=2)
        return made

    @classmethod
    def from_dict(
        cls,
        data: ConfigDict | Mapping[str, Any],
        target: str | Target | None = None,
        consumer: str | None = None,
    ) -> Self:
        """The config in a dict, as the target takes it: value for value, keys that nobody knows included.

        Args:
            data: the config; it is copied.
            target: the release whose names and defaults count; see `check`.
            consumer: who is to read it; see `check`.

        Raises:
            ConfigError: the release refuses one of the fields.
            BuildError: JSON has nothing for a value.
        """
        from dsconfig.api.typed_model import Options, read_into
        from dsconfig.model.compose import json_object

        made, _ = read_into(cls, json_object(data), Options(target, None, consumer), fields_only=True)
        return made

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write what was set to a file: YAML if its name ends in `.yaml` or `.yml`, else JSON.

        A file that is there already is replaced in one step, or not at all.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN or infinite, which JSON cannot say.
        """
        from dsconfig.document.atomic_write import write
        from dsconfig.document.json_format import in_yaml, pretty_config

        name = os.fspath(path)
        text = (in_yaml if name.lower().endswith((".yaml", ".yml")) else pretty_config)(self.to_dict())
        write(name, text.encode())

    # -- putting together ----------------------------------------------------------------------------------

    def replace(
        self,
        changes: Mapping[str, object] | Mapping[tuple[str, ...], object] | None = None,
        /,
        **values: object,
    ) -> Self:
        """A copy with other values: `replace(zero_optimization__stage=2)`.

        Args:
            changes: values by path, as in `{"zero_optimization.stage": 2}`; a tuple of keys is a path too.
            values: values by key; two underscores lead into a section.

        Raises:
            BuildError: there is no such key, or it does not take the value.
        """
        from dsconfig.model.compose import iter_paths, put

        made = self.model_copy(deep=True)
        for path, value in (*iter_paths({} if changes is None else changes, "."), *iter_paths(values, "__")):
            put(made, path, value)
        return made

    def merge(self, *others: Config | ConfigDict | Mapping[str, Any]) -> Self:
        """A copy with others laid over it: the later wins.

        Sections are merged key by key, lists are replaced. `config | other` is the same for one.

        Raises:
            BuildError: a mapping has a key that does not exist, or a value that its key does not take.
        """
        from dsconfig.model.compose import merge_into

        made = self.model_copy(deep=True)
        for other in others:
            merge_into(made, other)
        return made

    def __or__(self, other: Config | ConfigDict | Mapping[str, Any]) -> Self:
        return self.merge(other) if isinstance(other, Keys | Mapping) else NotImplemented

    def __ror__(self, other: Mapping[str, Any]) -> Self:
        return type(self)(**other).merge(self) if isinstance(other, Mapping) else NotImplemented

    def diff(self, other: Config | Mapping[str, Any]) -> tuple[Difference, ...]:
        """What differs in another config: each with its `path`, its `kind`, what was `before` and `after`."""
        from dsconfig.model.compose import differences, json_object

        return tuple(differences(self.to_dict(), json_object(other)))

    # -- judging and handing over --------------------------------------------------------------------------

    def check(
        self,
        target: str | Target | None = None,
        world_size: int | None = None,
        consumer: str | None = None,
    ) -> Report:
        """Everything that `dsconfig.check` finds in the config; see there for the arguments."""
        from dsconfig.api.check import check

        return check(self, target=target, world_size=world_size, consumer=consumer)

    def validated(
        self,
        target: str | Target | None = None,
        world_size: int | None = None,
        consumer: str | None = None,
    ) -> Self:
        """The config itself, which `check` finds no error in; see there for the arguments.

        Raises:
            ConfigError: DeepSpeed refuses the config, or stops at initialisation because of it.
        """
        from dsconfig.api.typed_model import ConfigError

        report = self.check(target, world_size, consumer)
        if not report.ok:
            raise ConfigError(report, [found for found in report if found.severity == "error"])
        return self

    def for_deepspeed(self, target: str | Target | None = None, world_size: int | None = None) -> JsonObject:
        """The dict for `deepspeed.initialize(config=…)`, which takes no other type.

        Raises:
            ConfigError: `check` finds an error in it.
        """
        return self.validated(target, world_size, "deepspeed").to_dict()

    def for_transformers(
        self, target: str | Target | None = None, world_size: int | None = None
    ) -> JsonObject:
        """The dict for `TrainingArguments(deepspeed=…)` and `HfDeepSpeedConfig(…)` of Transformers.

        Raises:
            ConfigError: `check` finds an error in it.
        """
        return self.validated(target, world_size, "transformers").to_dict()

    def for_accelerate(self, target: str | Target | None = None, world_size: int | None = None) -> JsonObject:
        """The dict for `DeepSpeedPlugin(hf_ds_config=…)` of Accelerate.

        Raises:
            ConfigError: `check` finds an error in it.
        """
        return self.validated(target, world_size, "accelerate").to_dict()

    def for_lightning(self, target: str | Target | None = None, world_size: int | None = None) -> JsonObject:
        """The dict for `DeepSpeedStrategy(config=…)` of Lightning.

        Raises:
            ConfigError: `check` finds an error in it.
        """
        return self.validated(target, world_size, "lightning").to_dict()


# `load`: the typed model of a config, or the findings that rule it out.


def load(
    source: ConfigSource,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
) -> Config:
    """Read a config into the typed model, with the eyes of the target's newest release.

    The model holds what is written, value for value, so that `.to_dict()` gives it back; keys that the model
    does not know are kept too. Attributes that are not written hold that release's defaults.

    Args:
        source: a path, text, bytes or a dict; see `check`.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer is started with; see `check`.
        model: the model that it trains; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        ConfigError: DeepSpeed refuses the config in one of the target's releases, and the config does not
            silence that finding itself.
        OSError: the path cannot be read.
    """
    options = Options(target, world_size, consumer, training_args, model, launch)
    return read_into(Config, source, options)[0]
