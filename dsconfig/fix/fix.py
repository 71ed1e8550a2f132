"""`fix`: check, apply the fixes that do not overlap, and repeat until none is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.check.build_job import MappingSource, ModelSource, asked, build_job, known_of, stated_job
from dsconfig.check.check import check, check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, dotted
from dsconfig.core.releases import Target
from dsconfig.document import KINDS, Document, Format, read_text
from dsconfig.document.edit import again
from dsconfig.document.json_format import pretty_config
from dsconfig.fix.verify import Taken, affordable, is_safe, is_textual, together, trial
from dsconfig.launch.config_source import ConfigSource, is_text, read
from dsconfig.launch.located_config import editable_config, locate, value_at

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.launch.located_config import Embedding


# `fix`: check → make the fixes that do not overlap → check again, until nothing is left to fix.

MOST_PASSES = 10
_OF_DATA = ("<dict>", "<config>")
"""Names of documents that were dicts or a `Config`."""
_LEAST_TRIALS = 4
"""Texts that are tried in all passes, however long they are."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text, the findings that were fixed in it, and the report of what is left."""

    text: str
    applied: tuple[Diagnostic, ...]
    report: Report
    cut: bool = False
    """Whether it ended before everything was tried: of a long text there may be more to fix."""


@dataclass(frozen=True, slots=True)
class FixResult:
    """The text of a config after fixing, and what was done to it."""

    text: str
    source: Literal["file", "text", "data"]
    """What was fixed: a file, which is left as it is on disk, a text, or a dict or `Config`."""
    name: str
    """The path of the file; else a name in angle brackets."""
    applied: tuple[Diagnostic, ...]
    """The findings that were fixed."""
    report: Report
    """What `check` says of the new text."""

    @property
    def remaining(self) -> tuple[Diagnostic, ...]:
        """The findings that are left."""
        return self.report.diagnostics

    def __str__(self) -> str:
        """The text."""
        return self.text


def fix(
    source: ConfigSource,
    *,
    unsafe: bool = False,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    format: Format = "json",
) -> FixResult:
    """Fix the findings of a config; everything else of its text keeps its bytes.

    A file is read and never written: `.text` of the result is the new text. `.applied` are the findings that
    are fixed in it, `.remaining` those that are left, and `.source` and `.name` say what was fixed.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        unsafe: whether to make all fixes; else only safe ones are made, which change no value that DeepSpeed
            ends up using and lose nothing that is written.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer is started with; see `check`.
        model: the model that it trains; see `check`.
        launch: the launch file whose arguments count; see `check`.
        format: what a text is in, `json` (with its dialects) or `yaml`; a file's is known by its name.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer, world size or format is impossible, or a dict holds what JSON has no word
            for: a key that is not a string, a set, NaN, itself.
    """
    if format not in ("json", "yaml"):
        raise ValueError(f"unknown format {format!r}: expected json or yaml")
    kind, document = _read(source, format)
    said = asked(target, world_size, consumer, known_of(model), training_args, launch)
    job = build_job(locate(document), said)

    def judge(document: Document) -> Report:
        located = locate(document)
        return check(located, stated_job(located, job))

    fixed = fix_document(document, judge, unsafe=unsafe)
    return FixResult(fixed.text, kind, document.name, fixed.applied, fixed.report)


def _read(source: ConfigSource, format: Format) -> tuple[Literal["file", "text", "data"], Document]:
    if isinstance(source, str) and (format == "yaml" or is_text(source)) and not os.path.exists(source):
        return "text", read_text(source, format=format)
    document = read(source)
    if document.name in _OF_DATA:
        return "data", as_text(document, source)
    return "text" if document.name.startswith("<") else "file", document


def as_text(document: Document, source: ConfigSource) -> Document:
    """The document of a dict as a JSON text that can be edited; that of any other source as it is.

    Raises:
        ValueError: JSON has no word for something in the dict.
    """
    if document.name not in _OF_DATA:
        return document
    if not document.is_data:  # too deep, too large, or a dict that holds itself
        raise ValueError(f"the Python dict cannot be written as JSON: {KINDS[document.problems[0].kind]}")
    from dsconfig.model.to_json_value import NotJsonError, in_json  # pydantic, which no text needs

    try:
        return read_text(
            pretty_config(in_json(source if isinstance(source, Mapping) else document.value())), document.name
        )
    except NotJsonError as error:
        place = f"`{dotted(error.path)}` is " if error.path else "it is "
        raise ValueError(f"the Python dict cannot be written as JSON: {place}{error.what}") from None
    except (TypeError, ValueError) as error:  # a section of `dsconfig.Config`, NaN, infinity
        raise ValueError(f"the Python dict cannot be written as JSON: {error}") from None


def _fixed_within(document: Document, judge: Judge, inside: Within, report: Report, *, unsafe: bool) -> Fixed:
    """Fix the config that stands in a launch file as a text, and write it back."""
    done = fix_document(inside.text, inside.judge, unsafe=unsafe)
    text = inside.place.put_back(done.text) if done.applied else None
    if text is None:
        return Fixed(document.text, (), report, cut=done.cut)
    applied = tuple(found._replace(path=(*report.base, *found.path)) for found in done.applied)
    return Fixed(text, applied, judge(again(document, text)), cut=done.cut)


def fix_document(document: Document, judge: Judge, *, unsafe: bool = False) -> Fixed:
    """Fix a document, as far as the findings of `judge` have fixes."""
    report = judge(document)
    if (inside := within(document, report)) is not None:
        return _fixed_within(document, judge, inside, report, unsafe=unsafe)
    applied: list[Diagnostic] = []
    seen = {document.text}
    withdrawn: set[tuple[str, KeyPath, str]] = set()
    settled, left = 0, max(_LEAST_TRIALS, affordable(document, len(report.target.releases)))
    for _ in range(MOST_PASSES):
        trial = Pass(document, report, judge, withdrawn, min(left, MOST_TRIALS))
        done = trial.run(unsafe=unsafe)
        left -= trial.trials
        if not done or trial.result is None:
            if not withdrawn or len(applied) == settled or left <= 0:
                break
            settled = len(applied)
            withdrawn.clear()  # what did harm at first may do none beside what was fixed since
            continue
        if trial.result[0].text in seen:  # two fixes undo each other
            break
        document, report = trial.result
        seen.add(document.text)
        applied += [each.found for each in trial.made]
    else:
        left = 0
    return Fixed(document.text, tuple(applied), report, cut=left <= 0)


# One pass over a document: the fixes that do not meet, made together and checked.
#
# A fix that the text does not carry, or that brings a finding which was not there, is withdrawn; see
# `verify.trial`.

Judge: TypeAlias = Callable[[Document], Report]
MOST_TRIALS = 64
"""Texts judged in one pass at most, while it is found out which of many fixes must be withdrawn."""


@dataclass(slots=True)
class Pass:
    """Fixes tried on one document. `withdrawn` names those that no later pass needs to try."""

    document: Document
    report: Report
    judge: Judge
    withdrawn: set[tuple[str, KeyPath, str]] = field(default_factory=set)
    most: int = MOST_TRIALS
    """Texts that are tried at most."""
    trials: int = 0
    made: list[Taken] = field(default_factory=list)
    result: tuple[Document, Report] | None = None
    """The document with `made` in it, and its report."""

    def run(self, *, unsafe: bool) -> bool:
        """Make every fix that need not wait for another one; False where none was made."""
        if self.document.is_data or self.document.root is None:
            return False
        for wanted in self._wanted(unsafe=unsafe):
            withdrawn = -1
            while self.result is None and len(self.withdrawn) > withdrawn:
                withdrawn = len(self.withdrawn)  # what waited for a fix that is withdrawn waits no longer
                left = [found for found in wanted if _name(found) not in self.withdrawn]
                self._accept(together(self.document, left))
            if self.result is not None:
                break
        return self.result is not None

    def _wanted(self, *, unsafe: bool) -> Iterator[list[Diagnostic]]:
        """The findings to fix, errors first.

        The text itself comes before its values: what a parser refuses was read by guessing.
        """
        found = [
            each
            for each in self.report.diagnostics
            if each.fix is not None
            and each.fix.operations
            and _name(each) not in self.withdrawn
            and (unsafe or is_safe(each, self.report))
        ]
        yield [each for each in found if is_textual(each)]
        if self.document.readable():
            yield sorted(found, key=lambda each: SEVERITIES.index(each.severity))

    def _accept(self, taken: list[Taken]) -> list[Taken]:
        """Those of the fixes that hold together; all at once where they do, else found by halves."""
        if not taken or self._holds(taken):
            return taken
        if len(taken) == 1 or self.trials >= self.most:
            if self.trials < self.most:
                self.withdrawn.add(_name(taken[0].found))
            return []
        left = self._accept(taken[: len(taken) // 2])
        right = self._accept(taken[len(taken) // 2 :])
        if not left or not right or self._holds([*left, *right]):
            return [*left, *right]
        self._holds(left)
        return left

    def _holds(self, taken: list[Taken]) -> bool:
        """Whether the new text says what the fixes mean, and brings no finding that was not there."""
        if self.made == taken:
            return True
        if self.trials >= self.most:
            return False
        self.trials += 1
        tried = trial(self.report, self.document, self.judge, taken)
        if tried is None:
            return False
        new, judged = tried
        self.made, self.result = taken, (new, judged())
        return True


def _name(found: Diagnostic) -> tuple[str, KeyPath, str]:
    return found.code, found.path, found.fix.title if found.fix else ""


# Fixes of a config that stands in a launch file as a text: a string, base64, a here-document of a script.


class Within(NamedTuple):
    """The text that stands in the launch file, where it does, and what judges it as its job reads it."""

    text: Document
    place: Embedding
    judge: Callable[[Document], Report]


def within(launch: Document, report: Report) -> Within | None:
    """The config that the reported launch file holds as a string; None where it holds none as one."""
    inside = editable_config(launch) if report.is_held and not launch.is_data else None
    if inside is None or inside.embedding is None:
        return None
    path = inside.embedding.path
    if path is not None and not isinstance(value_at(launch.value(), path), str):
        return None
    reader = inside.reader._replace(training_arguments=report.given, facts=report.reader.facts)
    wanted = {found.code for found in report}

    def judge(text: Document) -> Report:
        seen = check_document(text, report.target, world_size=report.world_size, consumer=reader)
        found = (each if each.code in wanted else each._replace(fix=None) for each in seen)
        return seen.replaced(diagnostics=tuple(found))

    return Within(again(inside.document, inside.document.text), inside.embedding, judge)


# A config that several jobs read: it is fixed as all of them need it, and harmed for none.


def agreed(judges: Sequence[Judge]) -> Judge:
    """What judges a text as the first does, with the findings of all and the fixes that all agree on."""

    def judge(document: Document) -> Report:
        first, *others = (each(document) for each in judges)
        if not others:
            return first
        fixes = [{_fix(found) for found in other} for other in others]
        found = [
            each if all(_fix(each) in known for known in fixes) else each._replace(fix=None) for each in first
        ]
        said = {_config_name(each) for each in found}
        more = {_config_name(each): each._replace(fix=None) for other in others for each in other}
        found += [each for name, each in more.items() if name not in said]
        return first.replaced(diagnostics=tuple(found))

    return judge if len(judges) > 1 else judges[0]


def _config_name(found: Diagnostic) -> object:
    return found.code, found.path, found.effect


def _fix(found: Diagnostic) -> object:
    return found.code, found.path, found.fix.title if found.fix else ""
