"""`Report`: what was found in one config, and under which assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import Target
from dsconfig.rules import RULES, Rule
from dsconfig.rules._batch_triplet import format_world_sizes

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document
    from dsconfig.job.detect_consumer import Given, Reader
    from dsconfig.job.job import Job


class Report:
    """What was found in one config, and under which assumptions.

    It iterates over its diagnostics, `ok` says whether none is an error, and it prints as `dsconfig check` shows it.
    """

    def __init__(  # noqa: PLR0913  a plain class: importing `dataclasses` costs a tenth of a check
        self,
        name: str,
        target: Target,
        reader: Reader,
        world_size: int | None,
        diagnostics: tuple[Diagnostic, ...],
        *,
        suppressed: tuple[Diagnostic, ...] = (),
        sizes: tuple[int, ...] | None = None,
        document: Document | None = None,
        children: tuple[Report, ...] = (),
        notes: tuple[str, ...] = (),
        cut: bool = False,
        foreign: str | None = None,
        unread: str | None = None,
        job: Job | None = None,
        base: KeyPath | None = None,
    ) -> None:
        self.name, self.document = name, document
        self.target, self.reader, self.world_size = target, reader, world_size
        self.diagnostics, self.suppressed = diagnostics, suppressed
        self.job = job
        """What is known of the run; None of a file that could not be read."""
        self.is_held, self.base = base is not None, base or ()
        """Whether this is a launch file that holds the config, and where: paths of findings begin there."""
        self.foreign = foreign
        """Why the file is not a DeepSpeed config, so that nothing of it was judged; None where it is one."""
        self.unread = unread
        """Why the file could not be read or judged, so that nothing is known of it; None where it was."""
        self.sizes = sizes
        """World sizes at which the batch triplet works; None where any does, or one was given."""
        self.children = children
        """The reports of the files that this one names: the config of a launch file."""
        self.notes = notes
        """Remarks on the assumptions, which are not findings."""
        self.cut = cut
        """Whether a rule found more than is listed."""

    def replaced(
        self,
        *,
        diagnostics: tuple[Diagnostic, ...] | None = None,
        suppressed: tuple[Diagnostic, ...] | None = None,
        children: tuple[Report, ...] | None = None,
        notes: tuple[str, ...] | None = None,
    ) -> Report:
        """The report with other findings, children or notes."""
        return Report(
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
            cut=self.cut,
            foreign=self.foreign,
            unread=self.unread,
            job=self.job,
            base=self.base if self.is_held else None,
        )

    @property
    def given(self) -> Given | None:
        """The training arguments of the job that reads the config, where they are known."""
        return self.job.arguments.value if self.job and self.job.arguments else None

    @property
    def world_sizes(self) -> str | None:
        """In words, those at which the batch triplet works; None where any does, or one was given."""
        return format_world_sizes(self.sizes)

    @property
    def consumer(self) -> str:
        """Who reads the config; `reader` says why that is believed, too."""
        return self.reader.name

    def refusals(self, *, silenced: bool = False) -> list[Diagnostic]:
        """The findings for which DeepSpeed refuses the config, or those of them that are silenced."""
        found = self.suppressed if silenced else self.diagnostics
        return [each for each in found if each.effect is Effect.REJECTED]

    @property
    def ok(self) -> bool:
        """Whether DeepSpeed takes the config and gets through initialisation: no diagnostic is an error."""
        errors = any(diagnostic.severity == "error" for diagnostic in self.diagnostics)
        return not errors and all(child.ok for child in self.children)

    @property
    def has_fixes(self) -> bool:
        """Whether a diagnostic of the report, or of a file that it names, has a fix."""
        for diagnostic in self.diagnostics:
            if diagnostic.fix:
                return True
        return any(child.has_fixes for child in self.children)

    def edits(self, found: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """The finding's fix as edits of the text: start, end and replacement; empty where there is none."""
        from dsconfig.document.edit import edits
        from dsconfig.document.text_edit import EditError

        if found.fix is None or self.document is None:
            return ()
        try:
            return edits(self.document, found.fix)
        except EditError:
            return ()

    def rule(self, code: str) -> Rule | None:
        """The rule behind a finding, with its page."""
        return RULES.get(code)

    def to_dict(self) -> dict[str, object]:
        """The findings, those of files that this one names too, as `--output-format json` writes them.

        `target` is that of the report, which the config itself may name; the command says what it asked for.
        """
        from dsconfig.render.json import VERSION, file

        files = [file(each) for each in (self, *self.children)]
        return {"version": VERSION, "target": self.target.text, "files": files}

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict()` as JSON text."""
        import json

        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """What `dsconfig check` shows in a terminal, without colour."""
        return _told(self).rstrip("\n")

    def __repr__(self) -> str:
        found = ", ".join(each.code for each in self.diagnostics) or "nothing found"
        return f"<Report on {self.name} against {self.target.text}: {found}>"

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics)

    def __len__(self) -> int:
        return len(self.diagnostics)

    @overload
    def __getitem__(self, index: int) -> Diagnostic: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Diagnostic, ...]: ...

    def __getitem__(self, index: int | slice) -> Diagnostic | tuple[Diagnostic, ...]:
        return self.diagnostics[index]


def _told(report: Report) -> str:
    """The findings, the notes and the closing line; those of the files that this one names among them."""
    from dsconfig.render import full
    from dsconfig.render.summary import against, note, summary, working_sizes
    from dsconfig.render.terminal import Style

    plain = Style()
    reports = (report, *report.children)
    judged = [each for each in reports if not each.foreign]
    counts = Counter[str](found.severity for each in judged for found in each.diagnostics)
    suppressed = sum(len(each.suppressed) for each in judged)
    notes = [report.target.note] if report.target.note else []
    notes += [text for each in reports for text in each.notes]
    sizes = {each.name: each.world_sizes for each in judged if each.world_sizes}
    notes += working_sizes(sizes, every=True)
    closing = summary(
        {**counts, "suppressed": suppressed},
        Counter(against(each.target, None) for each in judged),
        Counter(each.reader for each in judged).most_common(),
        plain,
    )
    found = "".join(full.render(reports, report.target, plain))
    return found + "".join(note(text, plain) for text in notes) + closing


def by_place(found: Diagnostic) -> tuple[int, str, str]:
    """The order of findings: as they stand in the text, then by rule and key."""
    return (found.location.start if found.location else 0, found.code, found.dotted)


def by_config(report: Report) -> Report:
    """The report with the paths of the config alone, where a launch file holds it."""

    def own(found: Diagnostic) -> Diagnostic:
        inside = found.path[: len(report.base)] == report.base
        return found._replace(path=found.path[len(report.base) :]) if inside else found

    if not report.base:
        return report
    kept, silenced = (tuple(map(own, group)) for group in (report.diagnostics, report.suppressed))
    return report.replaced(diagnostics=kept, suppressed=silenced)
