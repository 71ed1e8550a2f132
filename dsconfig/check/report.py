"""`Report`: the diagnostics of a config, and the assumptions on which they are based."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import ReleaseTarget
from dsconfig.rules import RULES, Rule
from dsconfig.rules._batch_triplet import format_world_sizes

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import overload

    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document
    from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
    from dsconfig.job.job import Job
    from dsconfig.render.report_protocols import JobSummary


class Report:
    """The diagnostics of a config, and the assumptions on which they are based.

    A report iterates over its diagnostics, `ok` says whether none is an error, and `str()` gives the output of
    `dsconfig check`.
    """

    def __init__(  # noqa: PLR0913  a plain class: importing `dataclasses` costs a tenth of a check
        self,
        name: str,
        target: ReleaseTarget,
        reader: ConsumerEvidence,
        world_size: int | None,
        diagnostics: tuple[Diagnostic, ...],
        *,
        suppressed: tuple[Diagnostic, ...] = (),
        sizes: tuple[int, ...] | None = None,
        document: Document | None = None,
        children: tuple[Report, ...] = (),
        notes: tuple[str, ...] = (),
        is_truncated: bool = False,
        why_not_config: str | None = None,
        read_error: str | None = None,
        job: Job | None = None,
        base_path: KeyPath | None = None,
        job_number: int = 0,
    ) -> None:
        self.name, self.document = name, document
        self.target, self.reader, self.world_size = target, reader, world_size
        self.diagnostics, self.suppressed = diagnostics, suppressed
        self.job = job
        """The facts about the run of the config; None for a file that could not be read."""
        self.is_embedded, self.base_path = base_path is not None, base_path or ()
        """Whether the file is a launch file with an embedded config, and the path at which the config's keys begin."""
        self.job_number = job_number
        """Index of the job among those of a launch file with an embedded config."""
        self.why_not_config = why_not_config
        """Why the file is not a DeepSpeed config and was not checked; None for a config."""
        self.read_error = read_error
        """Why the file could not be read or checked; None if it was checked."""
        self.sizes = sizes
        """World sizes at which the batch triplet works; None if all of them work or the world size is known."""
        self.summary: JobSummary | None = None
        """The job that loads the config; None for a config that is checked alone."""
        self.children = children
        """The reports on the files to which the checked file refers, such as the config of a launch file."""
        self.notes = notes
        """Notes on the assumptions, which are not diagnostics."""
        self.is_truncated = is_truncated
        """Whether a rule reported more diagnostics than are listed."""
        self.jobs: tuple[Report, ...] = ()
        """The reports on each job of a script that starts several; this report has the diagnostics of all."""

    def copy_with(
        self,
        *,
        diagnostics: tuple[Diagnostic, ...] | None = None,
        suppressed: tuple[Diagnostic, ...] | None = None,
        children: tuple[Report, ...] | None = None,
        notes: tuple[str, ...] | None = None,
    ) -> Report:
        """Return a copy of the report with the diagnostics, children or notes replaced."""
        report = Report(
            self.name,
            self.target,
            self.reader,
            self.world_size,
            self.diagnostics if diagnostics is None else diagnostics,
            suppressed=self.suppressed if suppressed is None else suppressed,
            sizes=self.sizes,
            document=self.document,
            children=self.children if children is None else children,
            notes=self.notes if notes is None else notes,
            is_truncated=self.is_truncated,
            why_not_config=self.why_not_config,
            read_error=self.read_error,
            job=self.job,
            base_path=self.base_path if self.is_embedded else None,
            job_number=self.job_number,
        )
        report.summary = self.summary
        return report

    @property
    def shown_notes(self) -> tuple[str, ...]:
        """The notes, without those that repeat the summary of the job."""
        replaced = self.summary.notes if self.summary else ()
        return tuple(each for each in self.notes if each not in replaced)

    @property
    def training_arguments(self) -> LaunchArguments | None:
        """The training arguments of the job that loads the config, or None if unknown."""
        return self.job.arguments.value if self.job and self.job.arguments else None

    @property
    def world_sizes(self) -> str | None:
        """The world sizes for which the batch is valid, as text; None if all are valid or the world size is known."""
        return format_world_sizes(self.sizes)

    @property
    def consumer(self) -> str:
        """Name of the library that loads the config; `reader` also has the evidence."""
        return self.reader.name

    def rejections(self, *, suppressed: bool = False) -> list[Diagnostic]:
        """Return the diagnostics that make DeepSpeed reject the config; with `suppressed`, only suppressed ones."""
        diagnostics = self.suppressed if suppressed else self.diagnostics
        return [each for each in diagnostics if each.effect is Effect.REJECTED]

    @property
    def ok(self) -> bool:
        """Whether DeepSpeed accepts the config and initializes: no diagnostic is an error."""
        # A launch file can be correct and refer to a config that DeepSpeed rejects.
        errors = any(diagnostic.severity == "error" for diagnostic in self.diagnostics)
        return not errors and all(child.ok for child in self.children)

    @property
    def has_fixes(self) -> bool:
        """Whether any diagnostic in the report, or in the report on a linked file, has a fix."""
        for diagnostic in self.diagnostics:
            if diagnostic.fix:
                return True
        return any(child.has_fixes for child in self.children)

    def edits(self, diagnostic: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """Return the text edits of a diagnostic's fix as (start, end, replacement); empty if it has no fix."""
        from dsconfig.document.apply_operations import edits_for_fix
        from dsconfig.document.text_edit import EditError

        if diagnostic.fix is None or self.document is None:
            return ()
        try:
            return edits_for_fix(self.document, diagnostic.fix)
        except EditError:
            return ()

    def rule(self, code: str) -> Rule | None:
        """Return the rule with this code, which includes its documentation, or None."""
        return RULES.get(code)

    def to_dict(self) -> dict[str, object]:
        """Return the report and those on linked files in the format of `--output-format json`.

        `target` is the target of this report, which the config itself may name; the command writes the target of the
        whole run instead.
        """
        from dsconfig.render.json import VERSION, file_record

        files = [file_record(each) for job in self.jobs or (self,) for each in (job, *job.children)]
        return {"version": VERSION, "target": self.target.text, "files": files}

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        import json

        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """Return the output of `dsconfig check`, without color."""
        return _render_report(self).rstrip("\n")

    def __repr__(self) -> str:
        codes = ", ".join(each.code for each in self.diagnostics) or "no problems found"
        return f"<Report on {self.name} against {self.target.text}: {codes}>"

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics)

    def __len__(self) -> int:
        return len(self.diagnostics)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> Diagnostic: ...

        @overload
        def __getitem__(self, index: slice) -> tuple[Diagnostic, ...]: ...

    def __getitem__(self, index: int | slice) -> Diagnostic | tuple[Diagnostic, ...]:
        return self.diagnostics[index]


def _render_report(report: Report) -> str:
    """Render a report and those on linked files, with notes and a closing line."""
    from dsconfig.render import full
    from dsconfig.render.summary import (
        format_checked_releases,
        format_working_world_sizes,
        note_line,
        overview_of_rules,
        summary_line,
    )
    from dsconfig.render.terminal_style import TerminalStyle

    plain = TerminalStyle()
    reports = [each for job in report.jobs or (report,) for each in (job, *job.children)]
    configs = [each for each in reports if not each.why_not_config]
    files = list({each.name: each for each in reversed(configs)}.values())[::-1]
    diagnostics = [diagnostic for each in configs for diagnostic in each.diagnostics]
    counts = Counter[str](each.severity for each in diagnostics)
    rules = Counter((each.code, each.name) for each in diagnostics)
    fixable = sum(each.fix is not None and each.fix.safe for each in diagnostics)
    suppressed = sum(len(each.suppressed) for each in configs)
    notes = [report.target.note] if report.target.note else []
    notes += [text for each in reports for text in each.shown_notes]
    sizes = {each.name: each.world_sizes for each in configs if each.world_sizes}
    # Users choose the number of GPUs from this line, so it lists the sizes of every config.
    notes += format_working_world_sizes(sizes, every=True)
    closing = summary_line(
        {**counts, "suppressed": suppressed},
        Counter(format_checked_releases(each.target, None) for each in files),
        Counter(each.reader for each in files).most_common(),
        plain,
    )
    body = "".join(full.render(reports, report.target, plain)) + overview_of_rules(
        rules, fixable, counts["error"], plain
    )
    return body + "".join(note_line(text, plain) for text in notes) + closing


def combine_jobs(reports: Sequence[Report]) -> Report:
    """Combine the reports on all jobs of a file, listing shared diagnostics once.

    Target and consumer are those of the first job. The world size is None if the jobs have different ones.
    """
    first, *others = reports
    if not others:
        return first
    listed: set[tuple[object, ...]] = set()
    jobs = [_without_listed(report, listed) for report in reports]
    combined = first.copy_with(
        diagnostics=tuple(sorted((each for job in jobs for each in job), key=location_order)),
        suppressed=tuple(each for job in jobs for each in job.suppressed),
        children=tuple(child for job in jobs for child in job.children),
        notes=tuple(dict.fromkeys(note for job in jobs for note in job.notes)),
    )
    combined.jobs = tuple(jobs)
    if any(job.world_size != first.world_size for job in jobs):
        combined.world_size = None
    return combined


def _without_listed(report: Report, listed: set[tuple[object, ...]]) -> Report:
    """Return the report without the diagnostics in `listed`, and add the remaining ones to `listed`."""

    def key(diagnostic: Diagnostic) -> tuple[object, ...]:
        return report.name, diagnostic.code, diagnostic.path, diagnostic.location, diagnostic.message

    new = tuple(each for each in report.diagnostics if key(each) not in listed)
    listed.update(map(key, new))
    children = []
    for child in report.children:
        is_repeated = (child.name,) in listed
        listed.add((child.name,))
        remaining = _without_listed(child, listed)
        if remaining.diagnostics or not is_repeated:
            children.append(remaining)
    return report.copy_with(diagnostics=new, children=tuple(children))


def location_order(diagnostic: Diagnostic) -> tuple[int, str, str]:
    """Return the sort key of a diagnostic: position in the text, rule, and key."""
    return (diagnostic.location.start if diagnostic.location else 0, diagnostic.code, diagnostic.dotted)


def use_config_paths(report: Report) -> Report:
    """Return the report with key paths relative to the embedded config rather than the launch file."""

    def make_paths_relative(diagnostic: Diagnostic) -> Diagnostic:
        inside = diagnostic.path[: len(report.base_path)] == report.base_path
        return diagnostic._replace(path=diagnostic.path[len(report.base_path) :]) if inside else diagnostic

    if not report.base_path:
        return report
    kept, suppressed = (
        tuple(map(make_paths_relative, group)) for group in (report.diagnostics, report.suppressed)
    )
    return report.copy_with(diagnostics=kept, suppressed=suppressed)
