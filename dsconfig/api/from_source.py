"""From a source to the typed model: what DeepSpeed would see of it, in the eyes of one release."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dsconfig.api.check import check
from dsconfig.api.construct import construct
from dsconfig.check.check import config_of
from dsconfig.check.report import Report
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.launch.detect_config import may_be_config
from dsconfig.model.compose import written
from dsconfig.model.section import Section, plain

if TYPE_CHECKING:
    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.launch.config_source import ConfigSource

S = TypeVar("S", bound=Section)
_MOST = 10
"""Lines of an error's message."""
_OF_FIELDS = ("DSC0", "DSC1")
"""Rules about the text, and about keys and types: what can be told of a field without its neighbours."""


class Options(NamedTuple):
    """What `check` takes beside the source."""

    target: str | Target | None = None
    world_size: int | None = None
    consumer: str | None = None
    training_args: MappingSource = None
    model: ModelSource | None = None
    launch: str | os.PathLike[str] | None = None


class ConfigError(ValueError):
    """DeepSpeed refuses the config, or there is none in the source; `report` holds every finding."""

    def __init__(self, report: Report, errors: Iterable[Diagnostic] = ()) -> None:
        found = list(errors) or report.refusals() or report.refusals(silenced=True)
        lines = [f"{each.code} {each.message}{f' ({each.help})' if each.help else ''}" for each in found]
        if len(lines) > _MOST:
            lines[_MOST - 1 :] = [f"and {len(lines) - _MOST + 1} more"]
        said = lines or [report.foreign or "no DeepSpeed config"]
        text = f" {said[0]}" if len(said) == 1 else "\n  ".join(("", *said))
        super().__init__(f"{report.name}:{text}")
        self.report = report
        self._errors = tuple(found)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Report, tuple[Diagnostic, ...]]]:
        return type(self), (self.report, self._errors)


def read_into(
    section: type[S],
    source: ConfigSource,
    options: Options,
    *,
    fields_only: bool = False,
) -> tuple[S, Report]:
    """The typed model of a source, and the report on it; that on its config, if the source is a launch file.

    Args:
        section: the class to make.
        source: see `check`.
        options: what `check` takes.
        fields_only: whether only what is wrong with a single field is an error.

    Raises:
        ConfigError: the release refuses it.
        BuildError: JSON has nothing for a value of a mapping.
        OSError: the path cannot be read.
    """
    if isinstance(source, Mapping):
        source = written(source)
    report = told = check(source, **options._asdict())
    if fields_only and report.foreign and report.document is not None and may_be_config(report.document):
        # Most of its keys are nobody's, as they may be in a file that `to_file` has written.
        data = report.document.value()
        report = check(data, **options._asdict()) if isinstance(data, dict) else report
    while report.children and not report.refusals():
        report = report.children[0]
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    root = config_of(report)
    errors = report.refusals()
    if fields_only:
        errors = [found for found in errors if found.code.startswith(_OF_FIELDS)]
    if errors or report.foreign or root is None:
        raise ConfigError(report, errors)
    return construct(section, plain(root), release), told if told.foreign else report
