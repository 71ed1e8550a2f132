"""Combine the command line, environment and nearest settings file into the settings and rules for a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache

from dsconfig.check.build_job import build_job, require_model, training_arguments_fact
from dsconfig.check.discover import host_kind, is_excluded
from dsconfig.check.rule_selector import (
    RuleSelectionLayer,
    UnknownRuleError,
    enabled_rules,
    expand_selectors,
    rule_names_by_code,
)
from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import Origin, ReleaseTarget, UnknownReleaseError, resolve_target
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments, consumer_named_by_user
from dsconfig.job.job import Job, JobFact, job_from_consumer, job_from_facts
from dsconfig.job.job_facts import NamedModel, RunFacts, find_named_model
from dsconfig.job.settings_file import SettingsFile, SettingsFileError, find_settings
from dsconfig.launch.located_config import LocatedConfig

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import NoReturn, TypeAlias

# Precedence: the command line, the environment, the settings file, the defaults.


class EffectiveOptions(NamedTuple):
    """The options that apply to one file; the options of the working directory also apply to the whole run."""

    overrides: CommandLineOverrides
    finder: SettingsFinder
    settings: SettingsFile
    target: ReleaseTarget
    world_size: int | None
    reader: ConsumerEvidence | None
    """The consumer, where the command line or the settings name it."""
    model_and_hosts: tuple[RunFacts, RunFacts]
    """The model and the hosts: from the command line, and from the settings."""
    fail_on: str
    min_severity: str
    rules: RuleSelection
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    """Patterns to exclude, with the folder to which each is relative."""
    skipped_kinds: frozenset[str]
    """Kinds of launch files and programs to exclude: `HOST_KINDS` of the settings."""
    stdin_name: str
    cache: dict[object, EffectiveOptions]

    def options_of_file(self, name: str) -> EffectiveOptions:
        """Return the options for a file, from the nearest settings file and its overrides."""
        settings, overrides = self.finder.settings_and_overrides_for_file(name)
        # Settings are cached for the whole run, so the identities of their overrides are stable keys.
        key = (settings.path, *map(id, overrides))
        if key not in self.cache:
            self.cache[key] = _build_effective_options(
                self.overrides, self.finder, settings, overrides, self.cache
            )
        return self.cache[key]

    def job_with_options(self, located: LocatedConfig) -> Job:
        """Build the job of a config using these options."""
        return build_job(
            located,
            *job_layers(self.overrides, self.settings, self.target, self.reader, self.model_and_hosts),
        )

    def is_path_excluded(self, path: str) -> bool:
        """Return whether a file or folder is excluded."""
        if self.skipped_kinds and host_kind(path) in self.skipped_kinds:
            return True
        return any(is_excluded(path, root, patterns) for root, patterns in self.excluded)


def working_directory_options(overrides: CommandLineOverrides, finder: SettingsFinder) -> EffectiveOptions:
    """Return the options for the working directory, from which those of each file are derived."""
    return _build_effective_options(overrides, finder, finder.here, [], {})


def _build_effective_options(
    command_line: CommandLineOverrides,
    finder: SettingsFinder,
    settings: SettingsFile,
    applied: list[SettingsFile],
    cache: dict[object, EffectiveOptions],
) -> EffectiveOptions:
    effective = apply_settings_overrides(settings, applied)
    try:
        target = explicit_target(command_line, effective)
        rules = select_rules(command_line, settings, applied, effective)
    except (UnknownReleaseError, UnknownRuleError) as error:
        command_line.fail(str(error))
    return EffectiveOptions(
        overrides=command_line,
        finder=finder,
        settings=effective,
        target=target,
        world_size=command_line.world_size or effective.world_size,
        reader=explicit_consumer(command_line, effective),
        model_and_hosts=job_facts_by_layer(command_line, effective),
        fail_on=command_line.fail_on or effective.fail_on or "warning",
        min_severity=command_line.min_severity or effective.min_severity or "info",
        rules=rules,
        excluded=_exclude_patterns(command_line, effective),
        skipped_kinds=frozenset(effective.skip),
        stdin_name=command_line.stdin_filename or "<stdin>",
        cache=cache,
    )


def _exclude_patterns(
    overrides: CommandLineOverrides, settings: SettingsFile
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the patterns to exclude, keyed by the folder to which they are relative.

    `--exclude` replaces the `exclude` of the settings; the `extend-exclude` of both is always added.
    """
    patterns = (
        settings.extend_exclude
        if overrides.exclude is not None
        else (*settings.exclude, *settings.extend_exclude)
    )
    return (settings.pattern_root, patterns), (
        os.getcwd(),
        (*(overrides.exclude or ()), *(overrides.extend_exclude or ())),
    )


def explicit_consumer(overrides: CommandLineOverrides, settings: SettingsFile) -> ConsumerEvidence | None:
    """Return the consumer named on the command line or in the settings, or None."""
    if overrides.consumer is not None:
        return consumer_named_by_user(overrides.consumer)
    consumer = settings.consumer
    return (
        None
        if consumer is None
        else consumer_named_by_user(consumer, f"{settings.shown_path}: consumer", "settings")
    )


def job_facts_by_layer(overrides: CommandLineOverrides, settings: SettingsFile) -> tuple[RunFacts, RunFacts]:
    """Return the model and hosts from the command line, and those from the settings."""
    model = None if overrides.model is None else _require_explicit_model(overrides, overrides.model)
    from_command_line = RunFacts(model, overrides.host_memory, overrides.gpus_per_node)
    model = None
    if settings.model is not None:
        folder = relative_path(os.path.dirname(settings.path)) if settings.path else ""
        folder = "" if folder == os.curdir else folder
        why = f"as {settings.shown_path} says"
        model = find_named_model(settings.path or "<settings>", settings.model, folder, why, "settings")
    return from_command_line, RunFacts(model, settings.host_memory, settings.gpus_per_node)


def _require_explicit_model(overrides: CommandLineOverrides, name: str) -> NamedModel:
    """Return the model given by `--model`, which must exist."""
    try:
        return require_model(name)
    except ValueError as error:
        overrides.fail(f"model: {error}")


def job_layers(
    overrides: CommandLineOverrides,
    settings: SettingsFile,
    target: ReleaseTarget,
    reader: ConsumerEvidence | None,
    model_and_hosts: tuple[RunFacts, RunFacts],
) -> tuple[Job, Job]:
    """Return the facts from the command line and from the settings as two layers of a job."""
    target_fact = JobFact(target, target.origin, target.text)
    consumer = None if reader is None else job_from_consumer(reader).consumer
    is_explicit, is_configured = target.origin in ("argument", "environment"), target.origin == "settings"
    explicit_facts, configured_facts = model_and_hosts
    explicit = job_from_facts(explicit_facts, "argument", "set on the command line")._replace(
        target=target_fact if is_explicit else None,
        consumer=consumer if consumer and consumer.origin == "argument" else None,
        world_size=None
        if overrides.world_size is None
        else JobFact(overrides.world_size, "argument", "--world-size"),
        arguments=_explicit_training_arguments(overrides),
        launch=None if overrides.launch is None else JobFact(overrides.launch, "argument", "--launch"),
    )
    size = (
        None if settings.world_size is None else JobFact(settings.world_size, "settings", settings.shown_path)
    )
    configured = job_from_facts(configured_facts, "settings", settings.shown_path)._replace(
        target=target_fact if is_configured else None,
        consumer=consumer if consumer and consumer.origin == "settings" else None,
        world_size=size,
    )
    return explicit, configured


def _explicit_training_arguments(overrides: CommandLineOverrides) -> JobFact[LaunchArguments] | None:
    """Return the training arguments in the file named on the command line, which must be readable."""
    try:
        return training_arguments_fact(overrides.training_args)
    except OSError as error:
        overrides.fail(f"{error.filename}: {(error.strerror or str(error)).lower()}")
    except ValueError as error:
        overrides.fail(str(error))


def explicit_target(overrides: CommandLineOverrides, settings: SettingsFile) -> ReleaseTarget:
    """Return the releases to check against if a config does not name its own.

    Raises:
        UnknownReleaseError: no release matches; the message names the source.
    """
    # The variable lets a CI matrix check one repository against several releases without editing settings.
    environment = os.environ.get("DSCONFIG_TARGET")
    if overrides.target is not None:
        return resolve_target(overrides.target, "argument")
    if environment:
        return _resolve_target(environment, "environment", "DSCONFIG_TARGET")
    if settings.target is not None:
        return _resolve_target(settings.target, "settings", f"{settings.shown_path}: target")
    return resolve_target(None)


def _resolve_target(text: str, origin: Origin, where: str) -> ReleaseTarget:
    try:
        return resolve_target(text, origin)
    except UnknownReleaseError as error:
        raise UnknownReleaseError(f"{where}: {error}") from None


# Overrides of the settings: from the command line, or from an editor.

Selectors: TypeAlias = "Sequence[str] | None"
PatternSelectors: TypeAlias = "Sequence[tuple[str, Sequence[str]]] | None"


class CommandLineOverrides(NamedTuple):
    """Settings from the command line (None or False if not given), and callbacks for errors and notes."""

    fail: Callable[[str], NoReturn]
    note: Callable[[str], object]
    target: str | None = None
    world_size: int | None = None
    consumer: str | None = None
    select: Selectors = None
    ignore: Selectors = None
    extend_select: Selectors = None
    fixable: Selectors = None
    unfixable: Selectors = None
    per_file_ignores: PatternSelectors = None
    extend_per_file_ignores: PatternSelectors = None
    exclude: Selectors = None
    extend_exclude: Selectors = None
    fail_on: str | None = None
    min_severity: str | None = None
    no_ignores: bool = False
    force_exclude: bool = False
    verbose: bool = False
    stdin_filename: str | None = None
    model: str | None = None
    launch: str | None = None
    training_args: str | None = None
    host_memory: int | None = None
    gpus_per_node: int | None = None


# The settings file of each checked file: the nearest one, or a single explicit one.


class SettingsFinder:
    """Finds the settings of each file; every settings file is read only once."""

    def __init__(self, overrides: CommandLineOverrides, only: SettingsFile | None = None) -> None:
        self._by_folder: dict[str, SettingsFile] = {}
        self._absolute = lru_cache(maxsize=16)(os.path.abspath)
        """Absolute path of a folder; four lookups of settings for each file ask for it."""
        self._noted: set[str] = set()
        self._overrides, self._only = overrides, only
        self.here = self.settings_for_folder(os.getcwd())

    @property
    def settings_paths(self) -> set[str]:
        """The paths of the settings files that were read."""
        return {settings.path for settings in (*self._by_folder.values(), self.here) if settings.path}

    def settings_for_folder(self, folder: str) -> SettingsFile:
        """Return the settings for a folder; an invalid settings file ends the run with an error."""
        if self._only is not None:
            return self._only
        if folder not in self._by_folder:
            try:
                self._by_folder[folder] = find_settings(folder)
            except SettingsFileError as error:
                self._overrides.fail(str(error))
            for line in self._by_folder[folder].unused:
                if line not in self._noted:
                    self._noted.add(line)
                    self._overrides.note(line)
        return self._by_folder[folder]

    def settings_and_overrides_for_file(self, name: str) -> tuple[SettingsFile, list[SettingsFile]]:
        """Return the settings for a file, and the overrides in them that match it."""
        found_settings = (
            self.here
            if name.startswith("<")
            else self.settings_for_folder(self._absolute(os.path.dirname(name)))
        )
        # A file outside of any project is checked with the settings of the working directory.
        settings = found_settings if found_settings.path else self.here
        return settings, [
            each for each in settings.overrides if is_excluded(name, settings.pattern_root, each.files)
        ]

    def effective_settings_for_file(self, name: str) -> SettingsFile:
        """Return the settings for a file with matching overrides applied."""
        return apply_settings_overrides(*self.settings_and_overrides_for_file(name))


def apply_settings_overrides(settings: SettingsFile, overrides: Sequence[SettingsFile]) -> SettingsFile:
    """Apply overrides to settings; `exclude` patterns and ignores are added, not replaced."""
    effective = settings
    for each in overrides:
        changed = {key: value for key, value in each._asdict().items() if value not in (None, ())}
        # Lists that only widen accumulate; any other key of an override replaces the one before.
        for key in ("exclude", "extend_exclude", "skip", "per_file_ignores"):
            changed[key] = (*getattr(effective, key), *getattr(each, key))
        effective = effective._replace(**changed)
    return effective


# Rule selection: settings first, then the command line.


class RuleSelection(NamedTuple):
    """The codes of disabled rules, and of rules whose fixes must not be applied."""

    disabled: frozenset[str]
    unfixable: frozenset[str]
    per_file: tuple[tuple[str, str, frozenset[str]], ...]
    """Entries of a folder, a pattern relative to that folder, and the rules disabled in the matching files."""

    def rules_disabled_in_file(self, name: str) -> frozenset[str]:
        """Return the rules that are disabled in a file."""
        matching = (codes for root, pattern, codes in self.per_file if is_excluded(name, root, (pattern,)))
        return self.disabled.union(*matching)


def select_rules(
    command_line: CommandLineOverrides,
    settings: SettingsFile,
    applied: Sequence[SettingsFile],
    effective: SettingsFile,
) -> RuleSelection:
    """Return the selected rules; `--no-ignores` disregards the ignores in the settings.

    Raises:
        UnknownRuleError: a selector matches no rule.
    """
    rules = rule_names_by_code()
    layers = (settings, *applied)
    enabling = (
        *(
            RuleSelectionLayer(
                f"{each.shown_path}: ",
                each.select,
                () if command_line.no_ignores else each.ignore,
                each.extend_select,
            )
            for each in layers
        ),
        RuleSelectionLayer(
            "--", command_line.select, command_line.ignore or (), command_line.extend_select or ()
        ),
    )
    option_names = ("fixable", "", "unfixable")
    fixing = (
        *(
            RuleSelectionLayer(
                f"{each.shown_path}: ", each.fixable, each.unfixable, option_names=option_names
            )
            for each in layers
        ),
        RuleSelectionLayer(
            "--", command_line.fixable, command_line.unfixable or (), option_names=option_names
        ),
    )
    codes = frozenset(rules)
    disabled, unfixable = codes - enabled_rules(enabling, rules), codes - enabled_rules(fixing, rules)
    return RuleSelection(disabled, unfixable, _per_file_ignores(command_line, effective))


def _per_file_ignores(
    overrides: CommandLineOverrides, settings: SettingsFile
) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Return the per-file ignores from the command line or else the settings, plus all `extend-` options."""
    rules = rule_names_by_code()
    configured = (
        () if overrides.no_ignores or overrides.per_file_ignores is not None else settings.per_file_ignores
    )
    where = f"{settings.shown_path}: per-file-ignores"
    command_line = (
        ("per-file-ignores", overrides.per_file_ignores),
        ("extend-per-file-ignores", overrides.extend_per_file_ignores),
    )
    return (
        *(
            (settings.pattern_root, pattern, expand_selectors(names, rules, where))
            for pattern, names in configured
        ),
        *(
            (os.getcwd(), pattern, expand_selectors(names, rules, f"--{option}"))
            for option, pairs in command_line
            for pattern, names in pairs or ()
        ),
    )
