"""`fix`: check, apply the fixes that do not overlap, and repeat until none is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
)
from dsconfig.check.check import check_document, job_checker
from dsconfig.check.report import Report, combine_jobs
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, dotted_path
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import KINDS, Document, Format, read_text
from dsconfig.document.apply_operations import reparse_document
from dsconfig.document.pretty_print import format_config
from dsconfig.fix.verify_fixes import (
    PlacedFix,
    combine_fixes,
    do_operations_harm,
    fixes_text_itself,
    is_fix_safe,
    trial_budget,
    try_fixes,
)
from dsconfig.launch.config_source import ConfigSource, is_config_text, read_config_source
from dsconfig.launch.locate_configs_of_jobs import locate_jobs
from dsconfig.launch.located_config import find_editable_config, locate_config, value_at_path

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.launch.located_config import EmbeddedLocation, LocatedConfig


# A fix can enable another one: a renamed key is then checked under its new name. The limit ends fixes that
# keep changing each other's result.
MAX_PASSES = 10
_DATA_NAMES = ("<dict>", "<config>")
"""Names of documents that were created from a dict or a `Config`."""
_MIN_TRIALS = 4
"""Minimal number of trials over all passes, however long the config's text is."""


@dataclass(frozen=True, slots=True)
class FixedText:
    """The text of a config after its fixes, the diagnostics that they fixed, and the report on the remaining ones."""

    text: str
    applied: tuple[Diagnostic, ...]
    report: Report
    is_partial: bool = False
    """Whether the trial budget ran out, so that a long text may still have fixable diagnostics."""


@dataclass(frozen=True, slots=True)
class FixResult:
    """The fixed text of a config, and what was changed in it."""

    text: str
    source: Literal["file", "text", "data"]
    """The kind of source: a file (which is not written), a text, or a dict or `Config`."""
    name: str
    """The path to the file, or a name in angle brackets."""
    applied: tuple[Diagnostic, ...]
    """The diagnostics that were fixed."""
    report: Report
    """The report on the fixed text."""

    @property
    def remaining(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that remain after the fixes."""
        return self.report.diagnostics

    def __str__(self) -> str:
        """Return the fixed text of the config."""
        return self.text


def fix(
    source: ConfigSource,
    *,
    unsafe: bool = False,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    format: Format = "json",
) -> FixResult:
    """Fix the diagnostics of a config, leaving the rest of its text unchanged to the byte.

    A file is read and never written: `.text` of the result is the new text. `.applied` has the fixed diagnostics,
    `.remaining` the others, and `.source` and `.name` identify the input.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        unsafe: whether to also apply unsafe fixes. Safe fixes change no effective value and lose nothing.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: the library that loads the file; see `check`.
        training_args: training arguments of the consumer; see `check`.
        model: the model that the job trains; see `check`.
        launch: the launch file that starts the job; see `check`.
        format: the format of a text, `json` (with its dialects) or `yaml`; the format of a file follows from its name.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: the target matches no release.
        ValueError: the consumer, world size or format is invalid, or a dict contains something that JSON
            cannot
            express: a key that is not a string, a set, NaN, a circular reference.
    """
    if format not in ("json", "yaml"):
        raise ValueError(f"unknown format {format!r}: expected json or yaml")
    kind, document = _read_fix_source(source, format)
    arguments = job_from_arguments(
        target, world_size, consumer, explicit_model_and_hosts(model), training_args, launch
    )

    def checker_of(located: LocatedConfig) -> Checker:
        return job_checker(located, build_job(located, arguments))

    if document.is_in_program:
        fixed = _fix_configs_of_program(document, checker_of, unsafe=unsafe)
    else:
        fixed = fix_jobs(document, list(map(checker_of, locate_jobs(document))), unsafe=unsafe)
    return FixResult(fixed.text, kind, document.name, fixed.applied, fixed.report)


def _fix_configs_of_program(
    document: Document, checker_of: Callable[[LocatedConfig], Checker], *, unsafe: bool
) -> FixedText:
    """Fix the configs in a Python source one by one, each after the fixes of the previous ones."""
    from dsconfig.launch.python.config_dicts import sibling_documents

    text, applied, is_partial = document.file_text, list[Diagnostic](), False
    configs = sibling_documents(document) or [document]
    checkers = [checker_of(locate_config(each)) for each in configs]
    for number, checker in enumerate(checkers):
        config = configs[number]
        fixed = fix_document(config, checker, unsafe=unsafe)
        applied += fixed.applied
        is_partial = is_partial or fixed.is_partial
        if fixed.applied:
            text = config.file_text_with(fixed.text)
            configs = sibling_documents(document, text)
    reports = [checker(config) for checker, config in zip(checkers, configs, strict=True)]
    return FixedText(text, tuple(applied), combine_jobs(reports), is_partial)


def _read_fix_source(
    source: ConfigSource, format: Format
) -> tuple[Literal["file", "text", "data"], Document]:
    if (
        isinstance(source, str)
        and (format == "yaml" or is_config_text(source))
        and not os.path.exists(source)
    ):
        return "text", read_text(source, format=format)
    document = read_config_source(source)
    if document.name in _DATA_NAMES:
        return "data", as_json_document(document, source)
    return "text" if document.name.startswith("<") else "file", document


def as_json_document(document: Document, source: ConfigSource) -> Document:
    """Convert the document of a dict to editable JSON text; return other documents unchanged.

    Raises:
        ValueError: JSON cannot express something in the dict.
    """
    if document.name not in _DATA_NAMES:
        return document
    if not document.is_data:  # the dict is too deep, too large or circular
        raise ValueError(f"the Python dict cannot be written as JSON: {KINDS[document.problems[0].kind]}")
    from dsconfig.model.to_json_value import (  # imports pydantic, which texts do not need
        NotJsonError,
        to_json_value,
    )

    try:
        return read_text(
            format_config(to_json_value(source if isinstance(source, Mapping) else document.value())),
            document.name,
        )
    except NotJsonError as error:
        where = f"`{dotted_path(error.path)}` is " if error.path else "it is "
        raise ValueError(f"the Python dict cannot be written as JSON: {where}{error.what}") from None
    except (TypeError, ValueError) as error:  # a section of `dsconfig.Config`, NaN, infinity
        raise ValueError(f"the Python dict cannot be written as JSON: {error}") from None


def _fix_embedded(
    document: Document, checker: Checker, embedded: EmbeddedText, report: Report, *, unsafe: bool
) -> FixedText:
    """Fix a config that is a string in a launch file, and write it back."""
    fixed = fix_document(embedded.text, embedded.checker, unsafe=unsafe)
    text = embedded.embedding.write_into_host(fixed.text) if fixed.applied else None
    if text is None:
        return FixedText(document.text, (), report, is_partial=fixed.is_partial)
    applied = tuple(
        diagnostic._replace(path=(*report.base_path, *diagnostic.path)) for diagnostic in fixed.applied
    )
    return FixedText(text, applied, checker(reparse_document(document, text)), is_partial=fixed.is_partial)


def fix_jobs(document: Document, checkers: Sequence[Checker], *, unsafe: bool = False) -> FixedText:
    """Fix the config of each job that a file starts, using one checker per job.

    A fix for one job is withdrawn if it harms another job, which may load the same config.
    """
    if len(checkers) == 1:
        return fix_document(document, checkers[0], unsafe=unsafe)
    reports = [checker(document) for checker in checkers]
    applied: list[Diagnostic] = []
    is_partial = False
    for number, checker in enumerate(checkers):
        fixed = fix_document(document, checker, unsafe=unsafe)
        is_partial = is_partial or fixed.is_partial
        if not fixed.applied:
            continue
        new = reparse_document(document, fixed.text)
        new_reports = [fixed.report if each is checker else each(new) for each in checkers]
        operations = [step for each in fixed.applied if each.fix for step in each.fix.operations]
        if any(
            do_operations_harm(reports[other], new_reports[other], operations)
            for other in range(len(checkers))
            if other != number
        ):
            continue
        document, reports = new, new_reports
        applied += fixed.applied
    return FixedText(document.text, tuple(applied), combine_jobs(reports), is_partial)


def fix_document(document: Document, checker: Checker, *, unsafe: bool = False) -> FixedText:
    """Fix a document until no diagnostic that `checker` reports has a working fix."""
    report = checker(document)
    if (embedded := find_embedded_text(document, report)) is not None:
        return _fix_embedded(document, checker, embedded, report, unsafe=unsafe)
    applied: list[Diagnostic] = []
    texts = {document.text}
    withdrawn: set[tuple[str, KeyPath, str]] = set()
    applied_before, trials_left = 0, max(_MIN_TRIALS, trial_budget(document, len(report.target.releases)))
    for _ in range(MAX_PASSES):
        trial = FixPass(document, report, checker, withdrawn, min(trials_left, MAX_TRIALS))
        any_applied = trial.apply_fixes(unsafe=unsafe)
        trials_left -= trial.trials
        if not any_applied or trial.result is None:
            if not withdrawn or len(applied) == applied_before or trials_left <= 0:
                break
            applied_before = len(applied)
            withdrawn.clear()  # a fix that was harmful before may be fine after the fixes applied since
            continue
        if trial.result[0].text in texts:  # two fixes undo each other; stop instead of alternating
            break
        document, report = trial.result
        texts.add(document.text)
        applied += [each.diagnostic for each in trial.applied]
    else:
        trials_left = 0
    return FixedText(document.text, tuple(applied), report, is_partial=trials_left <= 0)


# One pass: the fixes that do not overlap are applied together, and the result is checked.
#
# A fix that cannot be written, or that introduces a diagnostic, is withdrawn; see `verify_fixes.try_fixes`.

Checker: TypeAlias = Callable[[Document], Report]
MAX_TRIALS = 64
"""Maximal number of texts that one pass checks while it searches for the fixes to withdraw."""


@dataclass(slots=True)
class FixPass:
    """One attempt to fix a document; `withdrawn` collects the fixes that later passes must not try again."""

    document: Document
    report: Report
    checker: Checker
    withdrawn: set[tuple[str, KeyPath, str]] = field(default_factory=set)
    max_trials: int = MAX_TRIALS
    """Maximal number of trials."""
    trials: int = 0
    applied: list[PlacedFix] = field(default_factory=list)
    result: tuple[Document, Report] | None = None
    """The document with the fixes in `applied`, and the report on that document."""

    def apply_fixes(self, *, unsafe: bool) -> bool:
        """Apply every fix that need not wait for another one; return whether any was applied."""
        if self.document.is_data or self.document.root is None:
            return False
        for group in self._fixable_groups(unsafe=unsafe):
            withdrawn_before = -1
            while self.result is None and len(self.withdrawn) > withdrawn_before:
                # Fixes that had to wait for a withdrawn fix can be tried now.
                withdrawn_before = len(self.withdrawn)
                candidates = [
                    diagnostic for diagnostic in group if _fix_key(diagnostic) not in self.withdrawn
                ]
                self._fixes_that_hold(combine_fixes(self.document, candidates))
            if self.result is not None:
                break
        return self.result is not None

    def _fixable_groups(self, *, unsafe: bool) -> Iterator[list[Diagnostic]]:
        """Yield groups of fixable diagnostics, starting with errors.

        Syntax is fixed before values, because the values in a text that cannot be parsed are guesses.
        """
        fixable = [
            each
            for each in self.report.diagnostics
            if each.fix is not None
            and each.fix.operations
            and _fix_key(each) not in self.withdrawn
            and (unsafe or is_fix_safe(each, self.report))
        ]
        yield [each for each in fixable if fixes_text_itself(each)]
        if self.document.is_readable():
            yield sorted(fixable, key=lambda each: SEVERITIES.index(each.severity))

    def _fixes_that_hold(self, fixes: list[PlacedFix]) -> list[PlacedFix]:
        """Find a largest set of fixes that can be applied together by bisection."""
        if not fixes or self._do_fixes_hold(fixes):
            return fixes
        if len(fixes) == 1 or self.trials >= self.max_trials:
            if self.trials < self.max_trials:
                self.withdrawn.add(_fix_key(fixes[0].diagnostic))
            return []
        first_half = self._fixes_that_hold(fixes[: len(fixes) // 2])
        second_half = self._fixes_that_hold(fixes[len(fixes) // 2 :])
        if not first_half or not second_half or self._do_fixes_hold([*first_half, *second_half]):
            return [*first_half, *second_half]
        self._do_fixes_hold(first_half)
        return first_half

    def _do_fixes_hold(self, fixes: list[PlacedFix]) -> bool:
        """Return whether these fixes produce the intended values and no new diagnostic."""
        if self.applied == fixes:
            return True
        if self.trials >= self.max_trials:
            return False
        self.trials += 1
        outcome = try_fixes(self.report, self.document, self.checker, fixes)
        if outcome is None:
            return False
        new, new_report = outcome
        self.applied, self.result = fixes, (new, new_report())
        return True


def _fix_key(diagnostic: Diagnostic) -> tuple[str, KeyPath, str]:
    return diagnostic.code, diagnostic.path, diagnostic.fix.title if diagnostic.fix else ""


# Fixes of an embedded config: a string, base64 or here-document in a launch file.


class EmbeddedText(NamedTuple):
    """The text of an embedded config, its location in the launch file, and a checker for its job."""

    text: Document
    embedding: EmbeddedLocation
    checker: Callable[[Document], Report]


def find_embedded_text(launch: Document, report: Report) -> EmbeddedText | None:
    """Return the config that is a string in the launch file, or None if there is none."""
    embedded = None
    if report.is_embedded and not launch.is_data:
        embedded = find_editable_config(launch, report.job_number)
    if embedded is None or embedded.embedding is None:
        return None
    path = embedded.embedding.path
    if path is not None and not isinstance(value_at_path(launch.value(), path), str):
        return None
    reader = embedded.reader._replace(training_arguments=report.training_arguments, facts=report.reader.facts)
    reported_codes = {diagnostics.code for diagnostics in report}

    def check_embedded_text(text: Document) -> Report:
        inner = check_document(text, report.target, world_size=report.world_size, consumer=reader)
        # Rules that the options disable are absent from the report of the launch file: do not fix them here.
        diagnostics = (each if each.code in reported_codes else each._replace(fix=None) for each in inner)
        return inner.copy_with(diagnostics=tuple(diagnostics))

    return EmbeddedText(
        reparse_document(embedded.document, embedded.document.text), embedded.embedding, check_embedded_text
    )


# A config that several jobs load: only fixes that suit all of them are applied.


def combine_checkers(checkers: Sequence[Checker]) -> Checker:
    """Return a checker for all jobs, which keeps only fixes on which every job agrees."""

    def check_for_all_jobs(document: Document) -> Report:
        first, *others = (each(document) for each in checkers)
        if not others:
            return first
        fixes_of_others = [{_fix_key_in_config(diagnostics) for diagnostics in other} for other in others]
        diagnostics = [
            each
            if all(_fix_key_in_config(each) in others_fixes for others_fixes in fixes_of_others)
            else each._replace(fix=None)
            for each in first
        ]
        reported = {_diagnostic_key(each) for each in diagnostics}
        additional = {_diagnostic_key(each): each._replace(fix=None) for other in others for each in other}
        diagnostics += [each for key, each in additional.items() if key not in reported]
        return first.copy_with(diagnostics=tuple(diagnostics))

    return check_for_all_jobs if len(checkers) > 1 else checkers[0]


def _diagnostic_key(diagnostic: Diagnostic) -> object:
    return diagnostic.code, diagnostic.path, diagnostic.effect


def _fix_key_in_config(diagnostic: Diagnostic) -> object:
    return diagnostic.code, diagnostic.path, diagnostic.fix.title if diagnostic.fix else ""
