"""`check`: read → judge for each release → merge → suppress → sort → `Report`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsconfig import document as reader
from dsconfig import releases
from dsconfig.checking import suppress
from dsconfig.consumers import launch_file
from dsconfig.diagnostic import Diagnostic, Location, Path, Related
from dsconfig.evaluation.context import Context, Finding, Source
from dsconfig.releases import NUMBERS, Target
from dsconfig.rules import RULES, Outcome, Rule, evaluate
from dsconfig.rules.batch import sizes

if TYPE_CHECKING:
    from dsconfig.document import Document, Span

CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one config, and under which assumptions."""

    name: str
    target: Target
    consumer: str
    world_size: int | None
    diagnostics: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...] = ()
    world_sizes: str | None = None
    """In words, the world sizes at which the batch triplet works; None where any does, or one was given."""
    document: Document | None = None
    children: tuple[Report, ...] = ()
    """The reports of the files that this one names: the config of a launch file."""
    notes: tuple[str, ...] = ()
    """What else there is to know, and is no finding."""

    @property
    def ok(self) -> bool:
        """Whether DeepSpeed takes the config and gets through initialisation: no diagnostic is an error."""
        errors = any(diagnostic.severity == "error" for diagnostic in self.diagnostics)
        return not errors and all(child.ok for child in self.children)

    def edits(self, found: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """The finding's fix as edits of the text: start, end, and what to put there; empty where there is
        none.
        """
        from dsconfig.checking.patches import edits
        from dsconfig.document.edit import EditError

        if found.fix is None or self.document is None:
            return ()
        try:
            return edits(self.document, found.fix)
        except EditError:
            return ()

    def rule(self, code: str) -> Rule | None:
        """The rule behind a finding, with its page."""
        return RULES.get(code)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics)

    def __len__(self) -> int:
        return len(self.diagnostics)


def check(
    source: str | bytes | os.PathLike[str] | Mapping[str, Any],
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
) -> Report:
    """Check a config: a path, text, bytes, a dict, or the URL-safe base64 that launchers pass.

    A string with a bracket, quote, line end or colon in it, and no file of that name, is text; any other
    string is a path. Text is judged as DeepSpeed judges a
    file (Hjson, duplicate keys), a dict as it judges a dict.

    Args:
        source: what to check. target: a release (`0.19.8`), a range (`>=0.14,<0.19.8`) or `installed`; None:
        the installed DeepSpeed, else
            the latest release known.
        world_size: number of ranks (GPUs); None: only what fails at every world size is an error.
        consumer: who reads the file: `deepspeed` (default), `transformers`, `accelerate` or `lightning`.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer or the world size is impossible.
    """
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    return check_document(
        read(source), chosen, world_size=world_size, consumer="deepspeed" if consumer is None else consumer
    )


def read(source: str | bytes | os.PathLike[str] | Mapping[str, Any]) -> Document:
    """The document behind a source: see `check`.

    Raises:
        OSError: the path cannot be read.
    """
    if isinstance(source, Mapping):
        return reader.read_dict(source)
    if isinstance(source, bytes):
        return reader.read_bytes(source, "<bytes>")
    if isinstance(source, str) and is_text(source):
        return reader.read_text(source)
    if isinstance(source, str) and _is_base64(source):
        return reader.read_base64(source)
    return reader.read_file(source)


_BASE64 = re.compile(r"[A-Za-z0-9_-]{8,}={0,2}")


def _is_base64(source: str) -> bool:
    """Whether a string is what launchers hand over: a config in URL-safe base64, and not the name of a
    file.
    """
    if not _BASE64.fullmatch(source) or os.path.exists(source):
        return False
    return "{" in reader.read_base64(source).text


def is_text(source: str) -> bool:
    """Whether a string is a config's text rather than the path of a file."""
    if not source or "\0" in source:
        return True
    looks = any(char in source for char in '{}[]\n\r"') or ": " in source
    return looks and not os.path.exists(source)


def check_document(
    document: Document, target: Target, *, world_size: int | None = None, consumer: str = "deepspeed"
) -> Report:
    """Check a document that was read already; see `check`."""
    if consumer not in CONSUMERS:
        raise ValueError(f"unknown consumer {consumer!r}: expected one of {', '.join(CONSUMERS)}")
    if world_size is not None and (isinstance(world_size, bool) or world_size < 1):
        raise ValueError(f"world size {world_size!r}: expected an integer of at least 1")
    if launch_file.is_launch_file(data := document.value()):
        return _check_launch(document, data, target, world_size, consumer)
    return _report(document, target, world_size, consumer)


def _check_launch(
    document: Document, data: Any, target: Target, world_size: int | None, consumer: str
) -> Report:
    """Check a launch file of Accelerate, and the config that it names."""
    size = world_size or launch_file.processes(data)
    report = _report(document, target, size, "accelerate")
    found = launch_file.linked(document)
    if found is None:
        return report
    written, path = found
    if path is None:
        return replace(report, notes=(f"{document.name}: {written} is not found from here, and not checked",))
    # Whether the script has a Trainer, which fills more than Accelerate alone, nobody knows.
    reads = consumer if consumer in ("transformers", "accelerate") else "transformers"
    with open(path, "rb") as file:
        config = reader.read_bytes(file.read(reader.MAX_SIZE + 1), path, "json")  # whatever its name says
    return replace(report, children=(_report(config, target, size, reads),))


def _report(document: Document, target: Target, world_size: int | None, consumer: str) -> Report:
    ends = (NUMBERS[target.releases[0]], NUMBERS[target.releases[-1]])
    source = Source(document, consumer, world_size, ends)
    merged, newest = _judge(source, target.releases)
    diagnostics = _located(document, merged)
    result = suppress.apply(document, diagnostics)
    return Report(
        document.name,
        target,
        consumer,
        world_size,
        tuple(sorted((*result.kept, *result.unused), key=_place)),
        tuple(result.suppressed),
        _world_sizes(newest.context),
        document,
        notes=_notes(document, newest, consumer),
    )


@dataclass(slots=True)
class _Merged:
    """One finding over the releases that share it; words are the newest release's."""

    rule: Rule
    finding: Finding
    releases: list[str]


def _judge(source: Source, names: tuple[str, ...]) -> tuple[list[_Merged], Outcome]:
    """The findings over all releases, each evaluated once for its class of releases that behave alike; and
    the outcome at the newest, which speaks for all in what is no finding.
    """
    merged: dict[tuple[Any, ...], _Merged] = {}
    outcome = newest = evaluate(source, NUMBERS[names[-1]])
    for name in reversed(names):
        number = NUMBERS[name]
        if not outcome.low <= number < outcome.high:
            outcome = evaluate(source, number)
        for rule, finding in outcome.findings:
            key = (rule.code, finding.path, finding.effect, finding.span, finding.part)
            found = merged.setdefault(key, _Merged(rule, finding, []))
            if found.finding.fix != finding.fix:  # what is right here may be wrong there
                found.finding = _with_unsafe_fix(found.finding)
            if not found.releases or found.releases[-1] != name:
                found.releases.append(name)
    return list(merged.values()), newest


def _world_sizes(context: Context) -> str | None:
    """In words, the world sizes at which the batch works; None where any does, or one is given."""
    return sizes(context) if context.is_config and context.world_size is None else None


def _notes(document: Document, newest: Outcome, consumer: str) -> tuple[str, ...]:
    """What the user should know of the assumptions, beside the findings."""
    if consumer != "deepspeed" or not newest.autos:
        return ()
    values = "1 value is" if newest.autos == 1 else f"{newest.autos} values are"
    advice = "if one of them reads the file, check with --consumer transformers"
    return (f'{document.name}: {values} "auto", which only Transformers or Accelerate fill: {advice}',)


def _with_unsafe_fix(finding: Finding) -> Finding:
    return finding if finding.fix is None else replace(finding, fix=replace(finding.fix, safe=False))


def _located(document: Document, merged: list[_Merged]) -> list[Diagnostic]:
    locate = _Locator(document)
    return [
        Diagnostic(
            code=item.rule.code,
            name=item.rule.name,
            effect=item.finding.effect or item.rule.effect,
            message=item.finding.message,
            path=item.finding.path,
            help=item.finding.help,
            location=locate.finding(item.finding),
            releases=tuple(reversed(item.releases)),
            related=tuple(Related(text, path, locate.path(path)) for text, path in item.finding.related),
            fix=item.finding.fix,
        )
        for item in merged
    ]


class _Locator:
    """Turns paths and spans into locations; a dict has none."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def finding(self, finding: Finding) -> Location | None:
        if finding.span is not None:
            return self.span(finding.span)
        return self.path(finding.path, finding.part)

    def path(self, path: Path, part: str = "value") -> Location | None:
        if self.document.is_data:
            return None
        return self.span(self.document.span(path, "key" if part == "key" else "value"))

    def span(self, span: Span) -> Location | None:
        if self.document.is_data:
            return None
        start, end = self.document.position(span.start), self.document.position(span.end)
        return Location(span.start, span.end, start.line, start.column, end.line, end.column)


def _place(diagnostic: Diagnostic) -> tuple[int, str, str]:
    return (diagnostic.location.start if diagnostic.location else 0, diagnostic.code, diagnostic.dotted)
