"""`check`: evaluate a config for each class of releases, merge and suppress diagnostics, and build a `Report`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dsconfig.check import suppressions
from dsconfig.check.build_job import (
    consumer_of_host_file,
    job_from_arguments,
    job_without_repository,
    why_not_config,
)
from dsconfig.check.effective_settings import EffectiveOptions
from dsconfig.check.report import Report, location_order
from dsconfig.core.diagnostic import (
    SEVERITIES,
    Diagnostic,
    Fix,
    Location,
    MoveKey,
    Related,
    RemoveKey,
    RenameKey,
)
from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.core.releases import NUMBERS, ReleaseInterval, ReleaseTarget
from dsconfig.core.wording import join_phrases, numbers_for_yaml
from dsconfig.document import Document
from dsconfig.document.document import location_of_path, location_of_span
from dsconfig.document.located_tree import unknown_paths
from dsconfig.evaluation.evaluate import EvaluationOutcome, TextFindings, evaluate
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument
from dsconfig.job.consumers.consumer_versions import unknown_version_note
from dsconfig.job.detect_consumer import ConfigOverwrite, ConsumerEvidence
from dsconfig.job.job import Job
from dsconfig.launch import classify_config_file
from dsconfig.launch.config_overwrites import config_overwrites_by_programs, overwrite_of_key
from dsconfig.launch.launch_file_formats import detect_launch_format, is_shell_script_name
from dsconfig.launch.locate_configs_of_jobs import locate_again, locate_jobs
from dsconfig.launch.located_config import LocatedConfig, locate_config
from dsconfig.rules import Rule
from dsconfig.rules._batch_triplet import supported_world_sizes

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.evaluation.rule_context import Finding


def check(located: LocatedConfig, job: Job) -> Report:
    """Check a config as its job reads it, whether embedded, linked or plain, without verifying the fixes."""
    host = located.host
    if located.job is None and (reason := why_not_config(host, job.reader.name)):
        return _report_on_unchecked_file(host, job, job.reader, f"{host.name}: {reason}", reason=reason)
    if located.relation == "file":
        return _build_report(host, job, job.reader)
    # A shell script has no keys to check; its diagnostics are arguments that its program rejects.
    # Nor has a file of OmegaConf, which has the keys of a program of its own.
    has_own_keys = is_shell_script_name(host.name) or (
        located.job is not None and detect_launch_format(host.value()) is None
    )
    is_checked = not has_own_keys or _is_rejected_by_launcher(located, job)
    if located.relation == "embedded" and located.config is not None:
        config = _build_report(located.config, job, job.reader)
        source = located.job.source if located.job else None
        report = _report_on_launch_file(located, job, config, is_checked=is_checked)
        return (
            report if source is None else _add_source_report(report, _build_report(source, job, job.reader))
        )
    reader = consumer_of_host_file(located, job)
    # Their values belong to the config, which is compared with them: a linked one, or Accelerate's own block.
    launch = job if located.config is None else job._replace(arguments=None)
    report = (
        _build_report(host, launch, reader) if is_checked else _report_on_unchecked_file(host, launch, reader)
    )
    notes = [located.note] if located.note else []
    if located.why_not_checked and located.job:
        notes.append(f"{host.name}: {located.why_not_checked}")
    if located.config is None:
        return report.copy_with(notes=tuple(notes) or report.notes)
    child = (
        check(located.follow_accelerate_link(job), job)
        if located.relation == "launch"
        else _build_report(located.config, job, job.reader)
    )
    notes += located.job.describe_unknown_batch_sizes(child.world_size) if located.job else ()
    return report.copy_with(notes=tuple(notes), children=(child,))


def _add_source_report(report: Report, source: Report) -> Report:
    """Add the report on the dict from which a program builds a config, listing shared diagnostics once."""
    shown = {(each.code, each.path) for each in source.diagnostics}
    of_command = tuple(each for each in report.diagnostics if (each.code, each.path) not in shown)
    return report.copy_with(diagnostics=of_command, children=(source.copy_with(notes=()),))


def check_document(
    document: Document,
    target: ReleaseTarget,
    *,
    world_size: int | None = None,
    consumer: str | ConsumerEvidence = "deepspeed",
) -> Report:
    """Check a document without evidence from its repository, and without verifying the fixes.

    Raises:
        ValueError: the consumer is unknown, or the world size is invalid.
    """
    located = locate_config(document)
    return check(located, job_without_repository(located, job_from_arguments(target, world_size, consumer)))


def recheck_text(report: Report, document: Document, *, is_located: bool = True) -> Report:
    """Check a new text of the file in `report`, with the same job.

    The job is kept because a fix may remove the very key from which the consumer was detected.

    Args:
        report: the report on the file.
        document: the new text.
        is_located: whether to locate the diagnostics, for which plain JSON is parsed a second time.
    """
    assert report.job is not None
    if report.is_embedded:  # the launch file embeds the config, so its arguments may have changed too
        located = locate_again(document, report.job_number)
        return check(located, job_without_repository(located, report.job))
    return _build_report(document, report.job, report.reader, is_located=is_located)


def config_as_release_parses_it(report: Report) -> JsonObject | None:
    """Return the config as parsed by the newest release of the report, or None if it cannot be parsed."""
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    context = Context(
        EvaluatedDocument(report.document, report.reader.consumer_spec, report.world_size), release
    )
    root = report.document.value(context.parser)
    return root if context.is_config and isinstance(root, dict) else None


def _is_rejected_by_launcher(located: LocatedConfig, job: Job) -> bool:
    """Return whether the launcher rejects its flags, or the program that it starts rejects its arguments."""
    from dsconfig.launch.framework_checks import failed_framework_checks
    from dsconfig.launch.launcher_checks import find_launcher_problems, has_launcher_problems
    from dsconfig.launch.lightning_strategies import lightning_problems

    if located.job is None:
        return False
    return (
        any(failed_framework_checks(located.job, job.reader.version))
        or any(find_launcher_problems(located.job))
        or has_launcher_problems(located.host)
        or any(lightning_problems(located.host))
    )


def _build_report(
    document: Document,
    job: Job,
    reader: ConsumerEvidence,
    embedded: tuple[Diagnostic, ...] = (),
    *,
    is_truncated: bool = False,
    is_located: bool = True,
) -> Report:
    """Build the report on one text.

    Args:
        document: the text.
        job: the job that reads it.
        reader: the consumer of this text.
        embedded: diagnostics of a config that this text embeds.
        is_truncated: whether the embedded config has more diagnostics than `embedded` lists.
        is_located: whether the diagnostics get locations.
    """
    target, size = job.releases, job.ranks
    span = ReleaseInterval(NUMBERS[target.releases[0]], NUMBERS[target.releases[-1]])
    kind = classify_config_file.document_kind(document)
    overwrite: Callable[[str, Json], ConfigOverwrite | None] | None = None
    if not document.is_in_program and config_overwrites_by_programs(document.name):
        overwrite = partial(overwrite_of_key, document.name)
    unknown: frozenset[KeyPath] = frozenset()
    program_notes: tuple[str, ...] = ()
    if document.is_in_program:
        from dsconfig.launch.python.config_dicts import (
            add_unknown_overwrites,
            notes_on_document,
            paths_unknown_before_run,
        )

        unknown, overwrite = paths_unknown_before_run(document), add_unknown_overwrites(document, overwrite)
        program_notes = notes_on_document(document)
    elif document.has_unknown_values:
        unknown = frozenset(unknown_paths(document.value()))
    source = EvaluatedDocument(
        document,
        reader.consumer_spec,
        size,
        span,
        job.training_arguments,
        reader.facts,
        kind,
        unknown,
        overwrite,
    )
    findings, newest, has_more = merge_releases(source, target.releases)
    # A comment ignores the rules of its line.
    is_located = is_located or bool(document.comments)
    listed, assumption = keep_diagnostics_of_all_consumers(
        findings_to_diagnostics(document, findings, is_located=is_located), source, reader, target.releases
    )
    # Suppressions apply to the merged diagnostics of all releases: an ignored rule stays ignored in each.
    result = suppressions.apply_suppressions(
        document, (*listed, *embedded), is_truncated=has_more or is_truncated
    )
    return Report(
        document.name,
        target,
        reader,
        size,
        tuple(sorted((*result.kept, *result.unused), key=location_order)),
        suppressed=result.suppressed,
        sizes=working_world_sizes(newest.context),
        document=document,
        notes=(
            *program_notes,
            *assumption,
            *file_notes(document, newest, reader, is_truncated=result.is_truncated),
        ),
        is_truncated=result.is_truncated,
        job=job,
    )


def _report_on_unchecked_file(
    host: Document, job: Job, reader: ConsumerEvidence, *notes: str, reason: str | None = None
) -> Report:
    """Build an empty report for a file that is not checked."""
    document = host if reason else None
    return Report(
        host.name,
        job.releases,
        reader,
        job.ranks,
        (),
        document=document,
        notes=notes,
        why_not_config=reason,
        job=job,
    )


def _report_on_launch_file(located: LocatedConfig, job: Job, config: Report, *, is_checked: bool) -> Report:
    """Build the report on a launch file from its own diagnostics and those of its embedded config."""
    host = located.host
    assert located.job is not None
    diagnostics, suppressed = (
        tuple(
            diagnostic for each in group if (diagnostic := located.map_diagnostic_to_host(each)) is not None
        )
        for group in (config.diagnostics, config.suppressed)
    )
    if is_checked:
        host_report = _build_report(
            host,
            job._replace(arguments=None),
            config.reader,
            diagnostics,
            is_truncated=config.is_truncated,
        )
        diagnostics, suppressed = host_report.diagnostics, (*suppressed, *host_report.suppressed)
    return Report(
        host.name,
        config.target,
        config.reader,
        config.world_size,
        diagnostics,
        suppressed=suppressed,
        sizes=config.sizes,
        document=host,
        notes=(located.note, *located.job.describe_unknown_batch_sizes(config.world_size), *config.notes),
        is_truncated=config.is_truncated,
        job=job,
        base_path=located.job.embedded_path or (),
        job_number=located.job_number,
    )


# Options and settings: which rules and files count.


def job_with_options(document: Document, options: EffectiveOptions) -> Job:
    """Return the job of a document, built with the given options."""
    return options.options_of_file(document.name).job_with_options(locate_config(document))


def check_with_options(document: Document, options: EffectiveOptions) -> Report:
    """Check a document and the files that it names, using the options."""
    located = locate_config(document)
    return apply_options_to_report(
        check(located, options.options_of_file(document.name).job_with_options(located)), options
    )


def check_jobs(document: Document, options: EffectiveOptions) -> list[Report]:
    """Check a document once for each job that it starts, and the files that it names."""
    settings = options.options_of_file(document.name)
    return [
        apply_options_to_report(check(located, settings.job_with_options(located)), options)
        for located in locate_jobs(document)
    ]


def job_checker(located: LocatedConfig, job: Job) -> Callable[[Document], Report]:
    """Return a function that checks a new text of the located file, with the same job."""

    def checker(document: Document) -> Report:
        again = locate_again(document, located.job_number)
        return check(again, job_without_repository(again, job))

    return checker


def apply_options_to_report(report: Report, options: EffectiveOptions) -> Report:
    """Apply the options' rule selection and file exclusion to a report."""
    return _drop_excluded_reports(_apply_rule_selection(report, options), options)


def recheck_function(report: Report, options: EffectiveOptions) -> Callable[[Document], Report]:
    """Return a function that checks a new text of the reported file, with the same job."""
    return lambda document: _apply_rule_selection(recheck_text(report, document), options)


def _drop_excluded_reports(report: Report, options: EffectiveOptions) -> Report:
    """Drop the reports on linked files that the settings exclude, and list these files in a note."""
    kept, notes = [], []
    for child in report.children:
        child_options = options.options_of_file(child.name)
        if child_options.is_path_excluded(child.name):
            notes.append(
                f"{child.name}, used by {report.name}, is excluded by {child_options.settings.shown_path}"
            )
        else:
            kept.append(_drop_excluded_reports(_apply_rule_selection(child, options), options))
    return (
        report.copy_with(children=tuple(kept), notes=(*report.notes, *notes)) if report.children else report
    )


def _apply_rule_selection(report: Report, options: EffectiveOptions) -> Report:
    """Move diagnostics of disabled rules to `suppressed`, and drop the fixes of rules that are not fixable."""
    file_options, diagnostics, suppressed = (
        options.options_of_file(report.name),
        report.diagnostics,
        report.suppressed,
    )
    if options.overrides.no_ignores:
        diagnostics, suppressed = tuple(sorted((*diagnostics, *suppressed), key=location_order)), ()
    disabled, unfixable = file_options.rules.rules_disabled_in_file(report.name), file_options.rules.unfixable
    severities = SEVERITIES[: SEVERITIES.index(file_options.min_severity) + 1]

    def is_rule_enabled(each: Diagnostic) -> bool:
        return each.code not in disabled and each.severity in severities

    kept = tuple(filter(is_rule_enabled, diagnostics))
    if len(kept) < len(diagnostics):
        suppressed = (*suppressed, *(each for each in diagnostics if not is_rule_enabled(each)))
    if unfixable:
        kept = tuple(each._replace(fix=None) if each.code in unfixable else each for each in kept)
    return report if kept == report.diagnostics else report.copy_with(diagnostics=kept, suppressed=suppressed)


# Notes: assumptions behind a report, which are not diagnostics.


def working_world_sizes(context: Context) -> tuple[int, ...] | None:
    """Return the world sizes for which the batch is valid, or None if all are valid or the world size is known."""
    return supported_world_sizes(context) if context.root == "config" and context.world_size is None else None


def file_notes(
    document: Document, newest: EvaluationOutcome, reader: ConsumerEvidence, *, is_truncated: bool
) -> tuple[str, ...]:
    """Return the notes that concern a file as a whole."""
    limit = f"{newest.context.max_findings:,}"
    truncation = (
        f"{document.name}: only the first {limit} diagnostics of each rule are listed; there are more"
    )
    remarks = tuple(f"{document.name}: {remark}" for remark in newest.context.notes)
    unknown = unknown_version_note(reader.name, reader.version)
    remarks = (*remarks, *([f"{document.name}: {unknown}"] if unknown else []))
    return (
        *_unresolved_auto_note(document, newest, reader),
        *remarks,
        *([truncation] if is_truncated else []),
    )


def _unresolved_auto_note(
    document: Document, newest: EvaluationOutcome, reader: ConsumerEvidence
) -> tuple[str, ...]:
    """Return a note with the number of values that stay "auto" because plain DeepSpeed does not resolve them."""
    if reader.name != "deepspeed" or not newest.unresolved_autos:
        return ()
    values = "1 value is" if newest.unresolved_autos == 1 else f"{newest.unresolved_autos} values are"
    advice = "if one of them loads the file, check with --consumer transformers"
    return (f'{document.name}: {values} "auto", which only Transformers or Accelerate resolve: {advice}',)


# Diagnostics that hold for every possible consumer, for programs that may load a config in several ways.


def keep_diagnostics_of_all_consumers(
    candidates: list[Diagnostic],
    source: EvaluatedDocument,
    reader: ConsumerEvidence,
    releases: tuple[str, ...],
) -> tuple[list[Diagnostic], tuple[str, ...]]:
    """Keep only the diagnostics that hold for every possible consumer, and return notes about the rest.

    Two consumers may reject the same value with different rules, so an error for one consumer at a path also
    confirms an error for the other at the same path.
    """
    if not reader.others:
        return candidates, ()
    kept = candidates
    for other in reader.others:
        # The training arguments come from the launch command of the assumed consumer.
        others_diagnostics = findings_to_diagnostics(
            source.document,
            merge_releases(source._replace(consumer=other, arguments=None), releases)[0],
            is_located=False,
        )
        same = {(each.code, each.path) for each in others_diagnostics}
        errors = {each.path for each in others_diagnostics if each.severity == "error"}
        kept = [
            each
            for each in kept
            if (each.code, each.path) in same or (each.severity == "error" and each.path in errors)
        ]
    others = join_phrases(reader.others)
    dropped = len(candidates) - len(kept)
    note = (
        f"{source.document.name}: assuming that {reader.name} loads it; {others} may instead ({reader.why})"
    )
    if dropped:
        dropped_words = "1 problem" if dropped == 1 else f"{dropped} problems"
        option = f"--consumer {reader.name}"
        note = f"{note}; {dropped_words} of {reader.name} only: add {option} to see {'it' if dropped == 1 else 'them'}"
    return kept, (note,)


# Merge releases: one evaluation per class of releases that behave the same, one diagnostic for all of them.


class MergedFinding(NamedTuple):
    """A finding, worded as for the newest release that has it, and all releases to which it applies."""

    rule: Rule
    finding: Finding
    releases: list[str]


def merge_releases(
    source: EvaluatedDocument, releases: tuple[str, ...]
) -> tuple[list[MergedFinding], EvaluationOutcome, bool]:
    """Evaluate all releases; return the merged findings, the newest outcome, and whether findings are missing.

    The outcome of the newest release provides the notes of the report.
    """
    merged_findings: dict[Hashable, MergedFinding] = {}
    newest, is_truncated = None, False
    remaining = list(releases)
    text_findings: TextFindings = {}
    while remaining:  # one evaluation covers all neighboring releases in `outcome.equivalent`
        outcome = evaluate(source, NUMBERS[remaining[-1]], text_findings)
        alike = [remaining.pop()]
        while remaining and NUMBERS[remaining[-1]] in outcome.equivalent:
            alike.append(remaining.pop())
        newest = newest or outcome
        is_truncated = is_truncated or outcome.context.is_truncated
        for rule, finding in outcome.findings:
            _add_merged_finding(merged_findings, rule, finding, alike)
    assert newest is not None
    return list(merged_findings.values()), newest, is_truncated


def _add_merged_finding(
    merged_findings: dict[Hashable, MergedFinding], rule: Rule, finding: Finding, releases: list[str]
) -> None:
    # The effect is part of the key: a release may reject a key that the next one only ignores.
    key = (rule.code, finding.path, finding.effect, finding.span, finding.part, finding.advisory)
    entry = merged_findings.setdefault(key, MergedFinding(rule, finding, []))
    if entry.finding.fix != finding.fix:  # a fix that suits one release may be wrong for another
        entry = merged_findings[key] = entry._replace(
            finding=_merge_differing_fixes(entry.finding, finding.fix)
        )
    if not entry.releases or entry.releases[-1] != releases[-1]:
        entry.releases.extend(releases)


def _merge_differing_fixes(finding: Finding, other: Fix | None) -> Finding:
    """Merge two findings whose fixes differ between releases.

    A rename is dropped when another release has no fix at all: the new name may not exist there.
    """
    fix = finding.fix
    if fix is None or (
        other is None and any(isinstance(step, RenameKey | MoveKey) for step in fix.operations)
    ):
        return finding._replace(fix=None)
    return finding._replace(fix=fix._replace(safe=False))


def findings_to_diagnostics(
    document: Document, findings: Iterable[MergedFinding], *, is_located: bool = True
) -> list[Diagnostic]:
    """Convert findings to diagnostics, with locations unless `is_located` is false."""
    return [
        Diagnostic(
            code=item.rule.code,
            name=item.rule.name,
            effect=item.finding.effect or item.rule.effect,
            message=item.finding.message,
            path=item.finding.path,
            help=_help_for_document(document, item.finding.help),
            location=_locate_finding(document, item.finding) if is_located else None,
            releases=tuple(reversed(item.releases)),
            related=_related_locations(document, item.finding) if is_located else (),
            fix=_add_fix_title(document, _drop_safe_claim(document, item.finding.fix)),
        )
        for item in findings
    ]


def _drop_safe_claim(document: Document, fix: Fix | None) -> Fix | None:
    """Mark a fix as unsafe if the program that contains the config reads a key that the fix removes."""
    if fix is None or not fix.safe or not document.is_in_program:
        return fix
    from dsconfig.launch.python.config_dicts import is_key_read_by_program

    removed = [each.path for each in fix.operations if isinstance(each, RenameKey | MoveKey | RemoveKey)]
    return fix._replace(safe=not any(is_key_read_by_program(document, path) for path in removed))


def _help_for_document(document: Document, help: str | None) -> str | None:
    return numbers_for_yaml(help) if help and document.format == "yaml" else help


def _add_fix_title(document: Document, fix: Fix | None) -> Fix | None:
    return fix._replace(title=numbers_for_yaml(fix.title)) if fix and document.format == "yaml" else fix


def _related_locations(document: Document, finding: Finding) -> tuple[Related, ...]:
    """Return the related locations of a finding, omitting keys that are not in the file."""
    by_path = (
        Related(text, path, location_of_path(document, path))
        for text, path in finding.related
        if _path_exists(document, path)
    )
    in_text = (
        Related(text, finding.path, location_of_span(document, span)) for text, span in finding.related_spans
    )
    return (*by_path, *in_text)


def _path_exists(document: Document, path: KeyPath) -> bool:
    if not document.is_data:
        return document.has_path(path)
    value: Json = document.value()
    for part in path:
        inside = isinstance(value, dict) and part in value
        if not inside and not (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            return False
        value = value[part]
    return True


def _locate_finding(document: Document, finding: Finding) -> Location | None:
    if finding.span is not None:
        return location_of_span(document, finding.span)
    return location_of_path(document, finding.path, finding.part)
