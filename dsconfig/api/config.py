"""`Config`, the typed model of a config, and `load`, which reads one from any source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsconfig.api.construct_config import CheckArguments, read_typed_config
from dsconfig.model import Config as Keys

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import JsonObject
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.launch.config_source import ConfigSource
    from dsconfig.model._generated.dicts import ConfigDict
    from dsconfig.model.config_operations import ConfigDifference


# `Config`.


class CommentsDroppedWarning(UserWarning):
    """A file with comments was read into a `Config`, which cannot represent comments."""


class Config(Keys):
    """A DeepSpeed config, the content of a `ds_config.json`, as typed attributes.

    The constructor is strict: an unknown key or a wrong type raises `BuildError`. `check` and `validated` find
    problems that depend on several keys or on the number of GPUs.

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
        target: str | ReleaseTarget | None = None,
        consumer: str | None = None,
    ) -> Self:
        """Read a config from a file: JSON with or without comments, Hjson or YAML.

        Values and unknown keys are kept as written. Given a launch file, read the config that it names. Comments
        are dropped with a `CommentsDroppedWarning`.

        Args:
            path: path of the file.
            target: release whose names and defaults apply; see `check`.
            consumer: library that loads the file; see `check`.

        Raises:
            ConfigError: the text is not a config, or the release rejects one of its fields.
            OSError: the file cannot be read.
        """
        from pathlib import Path

        from dsconfig.api.construct_config import CheckArguments, read_typed_config

        config, report = read_typed_config(
            cls, Path(path), CheckArguments(target, None, consumer), fields_only=True
        )
        if report.document is not None and report.document.comments:
            warnings.warn(f"{report.name}: comments are dropped", CommentsDroppedWarning, stacklevel=2)
        return config

    @classmethod
    def from_dict(
        cls,
        data: ConfigDict | Mapping[str, Any],
        target: str | ReleaseTarget | None = None,
        consumer: str | None = None,
    ) -> Self:
        """Read a config from a dict, keeping values and unknown keys as written.

        Args:
            data: the config, which is copied.
            target: release whose names and defaults apply; see `check`.
            consumer: library that loads the config; see `check`.

        Raises:
            ConfigError: the release rejects one of the fields.
            BuildError: JSON cannot represent a value.
        """
        from dsconfig.api.construct_config import CheckArguments, read_typed_config
        from dsconfig.model.config_operations import config_as_json_object

        config, _ = read_typed_config(
            cls, config_as_json_object(data), CheckArguments(target, None, consumer), fields_only=True
        )
        return config

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write the keys that were set to a file, as YAML if its name ends in `.yaml` or `.yml`, else as JSON.

        An existing file is replaced atomically.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN or infinite, which JSON cannot represent.
        """
        from dsconfig.document.atomic_write import write_atomically
        from dsconfig.document.pretty_print import format_config, format_yaml

        name = os.fspath(path)
        text = (format_yaml if name.lower().endswith((".yaml", ".yml")) else format_config)(self.to_dict())
        write_atomically(name, text.encode())

    # -- composing -----------------------------------------------------------------------------------------

    def replace(
        self,
        changes: Mapping[str, object] | Mapping[tuple[str, ...], object] | None = None,
        /,
        **values: object,
    ) -> Self:
        """Return a copy with some values changed, for example `replace(zero_optimization__stage=2)`.

        Args:
            changes: values by path, for example `{"zero_optimization.stage": 2}`; a path may also be a tuple of keys.
            values: values by key; two underscores separate a section and its key.

        Raises:
            BuildError: the key does not exist, or does not accept the value.
        """
        from dsconfig.model.config_operations import iter_values_with_paths, set_value_by_path

        copy = self.model_copy(deep=True)
        for path, value in (
            *iter_values_with_paths({} if changes is None else changes, "."),
            *iter_values_with_paths(values, "__"),
        ):
            set_value_by_path(copy, path, value)
        return copy

    def merge(self, *others: Config | ConfigDict | Mapping[str, Any]) -> Self:
        """Return a copy merged with other configs; later configs take precedence.

        Sections are merged key by key, and lists are replaced. `config | other` merges one config.

        Raises:
            BuildError: a mapping has an unknown key, or a value that its key does not accept.
        """
        from dsconfig.model.config_operations import merge_into_section

        copy = self.model_copy(deep=True)
        for other in others:
            merge_into_section(copy, other)
        return copy

    def __or__(self, other: Config | ConfigDict | Mapping[str, Any]) -> Self:
        return self.merge(other) if isinstance(other, Keys | Mapping) else NotImplemented

    def __ror__(self, other: Mapping[str, Any]) -> Self:
        return type(self)(**other).merge(self) if isinstance(other, Mapping) else NotImplemented

    def diff(self, other: Config | Mapping[str, Any]) -> tuple[ConfigDifference, ...]:
        """Return the differences from another config, each with `path`, `kind`, `before` and `after`."""
        from dsconfig.model.config_operations import config_as_json_object, list_differences

        return tuple(list_differences(self.to_dict(), config_as_json_object(other)))

    # -- checking and converting ---------------------------------------------------------------------------

    def check(
        self,
        target: str | ReleaseTarget | None = None,
        world_size: int | None = None,
        consumer: str | None = None,
    ) -> Report:
        """Check the config; takes the arguments of `dsconfig.check`."""
        from dsconfig.api.check import check

        return check(self, target=target, world_size=world_size, consumer=consumer)

    def validated(
        self,
        target: str | ReleaseTarget | None = None,
        world_size: int | None = None,
        consumer: str | None = None,
    ) -> Self:
        """Check the config and return it; takes the arguments of `dsconfig.check`.

        Raises:
            ConfigError: DeepSpeed rejects the config, or fails during initialization because of it.
        """
        from dsconfig.api.construct_config import ConfigError

        report = self.check(target, world_size, consumer)
        if not report.ok:
            raise ConfigError(report, [diagnostic for diagnostic in report if diagnostic.severity == "error"])
        return self

    def for_deepspeed(
        self, target: str | ReleaseTarget | None = None, world_size: int | None = None
    ) -> JsonObject:
        """Return the validated config as a dict for `deepspeed.initialize(config=…)`.

        Raises:
            ConfigError: the config has errors.
        """
        return self.validated(target, world_size, "deepspeed").to_dict()

    def for_transformers(
        self, target: str | ReleaseTarget | None = None, world_size: int | None = None
    ) -> JsonObject:
        """Return the validated dict for `TrainingArguments(deepspeed=…)` and `HfDeepSpeedConfig(…)` of Transformers.

        Raises:
            ConfigError: the config has errors.
        """
        return self.validated(target, world_size, "transformers").to_dict()

    def for_accelerate(
        self, target: str | ReleaseTarget | None = None, world_size: int | None = None
    ) -> JsonObject:
        """Return the validated config as a dict for `DeepSpeedPlugin(hf_ds_config=…)` of Accelerate.

        Raises:
            ConfigError: the config has errors.
        """
        return self.validated(target, world_size, "accelerate").to_dict()

    def for_lightning(
        self, target: str | ReleaseTarget | None = None, world_size: int | None = None
    ) -> JsonObject:
        """Return the validated config as a dict for `DeepSpeedStrategy(config=…)` of Lightning.

        Raises:
            ConfigError: the config has errors.
        """
        return self.validated(target, world_size, "lightning").to_dict()


# `load`.


def load(
    source: ConfigSource,
    *,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
) -> Config:
    """Read a config into the typed model, as interpreted by the newest release of the target.

    Values and unknown keys are kept as written, so that `.to_dict()` returns them. Other attributes have the defaults
    of that release.

    Args:
        source: a path, text, bytes or a dict; see `check`.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: library that loads the file; see `check`.
        training_args: training arguments of the consumer; see `check`.
        model: the model to train; see `check`.
        launch: launch file that starts the job; see `check`.
        job: number of the job in a script, or of the config in a Python source, counted from 1. Default: the first one,
            with a warning if there are others.

    Raises:
        ConfigError: one of the target's releases rejects the config, and the config does not ignore that
            diagnostic.
        OSError: the path cannot be read.
    """
    options = CheckArguments(target, world_size, consumer, training_args, model, launch, job)
    return read_typed_config(Config, source, options)[0]
