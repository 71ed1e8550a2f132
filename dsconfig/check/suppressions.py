"""Parse suppressions from the "$dsconfig" block and `dsconfig: ignore` comments, and apply them to diagnostics."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from dsconfig.core.diagnostic import Diagnostic, Effect, Location
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import UnknownReleaseError, resolve_target
from dsconfig.document.document import location_of_path, location_of_span
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.evaluation.rule_context import MAX_FINDINGS
from dsconfig.job.job_facts import DSCONFIG_KEY, EXPECTED_VALUES, is_valid_block_value

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TypeAlias

    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document, TextSpan


# Suppressions are applied after the evaluation: suppressed diagnostics are kept apart and never lost. A
# suppression that matches nothing is itself a diagnostic (DSC008), so that none outlives its reason.


class SuppressionResult(NamedTuple):
    """The remaining diagnostics, the suppressed ones, and those about the suppressions themselves."""

    kept: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...]
    unused: tuple[Diagnostic, ...]
    is_truncated: bool
    """Whether there are more diagnostics than are listed."""


def apply_suppressions(
    document: Document, diagnostics: Sequence[Diagnostic], *, is_truncated: bool = False
) -> SuppressionResult:
    """Split diagnostics into remaining and suppressed ones.

    `is_truncated`: the list is incomplete, so that a suppression without a match may still be needed.
    """
    entries_and_problems = list(find_suppressions(document))
    if not entries_and_problems:
        return SuppressionResult(tuple(diagnostics), (), (), is_truncated)
    entries = [entry for entry in entries_and_problems if isinstance(entry, Suppression)]
    index = _SuppressionIndex(entries)
    kept: list[Diagnostic] = []
    suppressed: list[Diagnostic] = []
    for each in diagnostics:
        (suppressed if index.suppresses(each) else kept).append(each)
    problems = [entry for entry in entries_and_problems if isinstance(entry, Diagnostic)]
    unused_entries = [entry for entry in entries if not index.is_needed(entry, is_truncated=is_truncated)]
    # One more than the limit, so that `is_truncated` is known without building a thousand diagnostics.
    problems += [_unused_suppression(entry, index) for entry in unused_entries[: MAX_FINDINGS + 1]]
    unused: list[Diagnostic] = []
    for each in problems[:MAX_FINDINGS]:
        (suppressed if index.suppresses(each) else unused).append(each)
    return SuppressionResult(
        tuple(kept), tuple(suppressed), tuple(unused), is_truncated or len(problems) > MAX_FINDINGS
    )


class _SuppressionIndex:
    """Suppressions indexed by the scope they cover, with each selector expanded once."""

    def __init__(self, entries: Iterable[Suppression]) -> None:
        from dsconfig.check.rule_selector import rule_names_by_code, rules_matching_selector

        self.rules = rule_names_by_code()
        self.codes = {
            each: rules_matching_selector(each, self.rules) for each in {entry.selector for entry in entries}
        }
        self.by_scope: dict[Scope, set[str]] = {}
        self.used: set[tuple[Scope, str]] = set()
        for entry in entries:
            if self.codes[entry.selector]:
                self.by_scope.setdefault(entry.suppressed_scope, set()).add(entry.selector)
        self.lengths = {len(scope) for scope in self.by_scope if isinstance(scope, str)}

    def suppresses(self, diagnostic: Diagnostic) -> bool:
        """Return whether any suppression covers a diagnostic, and mark all that do as used."""
        matches = list(self._covering_suppressions(diagnostic))
        self.used.update(matches)
        return bool(matches)

    def _covering_suppressions(self, diagnostic: Diagnostic) -> Iterator[tuple[Scope, str]]:
        for scope in scopes_covering_diagnostic(diagnostic, self.lengths):
            for selector in self.by_scope.get(scope, ()):
                if diagnostic.code in self.codes[selector]:
                    yield scope, selector

    def is_needed(self, entry: Suppression, *, is_truncated: bool) -> bool:
        """Return whether a suppression is used, or might match DSC008 or a diagnostic that is not listed."""
        codes = self.codes[entry.selector]
        return (
            (entry.suppressed_scope, entry.selector) in self.used
            or CODE in codes
            or (is_truncated and bool(codes))
        )


def _unused_suppression(entry: Suppression, index: _SuppressionIndex) -> Diagnostic:
    from dsconfig.check.rule_selector import suggest_selector

    if index.codes[entry.selector]:
        message = f"unused suppression `{entry.selector}`: it matches no diagnostic"
    else:
        message = (
            f"unknown rule `{entry.selector}` in a suppression{suggest_selector(entry.selector, index.rules)}"
        )
    return _suppression_diagnostic(message, entry.path, entry.location)


# A file writes suppressions in a `"$dsconfig"` block at the root, or in comments where its format has them:
#
#   "$dsconfig": {"ignore": ["DSC401", "unknown-key"]}                   the whole file
#   "$dsconfig": {"ignore": {"zero_optimization.stage": ["DSC4"]}}       a key and everything below it
#   // dsconfig: ignore[DSC401, unknown-key]                             this line, or the next if it is alone
#   # dsconfig: ignore-file[DSC401]                                      the whole file, from any line
#
# The other keys of the block (`consumer`, `target` ...) are described in dsconfig.job.job_facts.

CODE, NAME = "DSC008", "unused-suppression"
_COMMENT = r"dsconfig:\s*(ignore-file|ignore)\b(?:\s*\[([^][]*)\])?"
_COMMENT_MARKS = ("#", "//", "/*")


Scope: TypeAlias = "int | str"
"""The scope of a suppression: a line, a key with everything below it, or the whole file (the empty key)."""


class Suppression(NamedTuple):
    """One selector of a suppression, where it is written, and the scope that it covers."""

    selector: str
    path: KeyPath
    location: Location | None
    line: int | None = None
    scope_key: str = ""

    @property
    def suppressed_scope(self) -> Scope:
        """The line, key or file to which the suppression applies."""
        return self.scope_key if self.line is None else self.line


def scopes_covering_diagnostic(diagnostic: Diagnostic, lengths: Container[int]) -> Iterator[Scope]:
    """Yield the scopes that cover a diagnostic: the file, its line, and its parent keys at the given depths."""
    yield ""
    if diagnostic.location is not None:
        yield diagnostic.location.line
    dotted = diagnostic.dotted
    for end in range(1, len(dotted) + 1):
        # A scope covers whole keys only: `zero_optimization.stage` does not cover
        # `zero_optimization.stage3_x`.
        if end in lengths and dotted[end : end + 1] in ("", ".", "["):
            yield dotted[:end]


def find_suppressions(document: Document) -> Iterator[Suppression | Diagnostic]:
    """Yield the suppressions in a document, and a diagnostic for each malformed one."""
    yield from _parse_ignore_comments(document)
    value = document.value()
    if isinstance(value, dict) and DSCONFIG_KEY in value:
        yield from _parse_dsconfig_block(document, value[DSCONFIG_KEY])


def _suppression_diagnostic(
    message: str, path: KeyPath, location: Location | None, help: str = "remove it"
) -> Diagnostic:
    """Build a diagnostic about a suppression."""
    return Diagnostic(CODE, NAME, Effect.IGNORED, message, path, help=help, location=location)


# -- the block ---------------------------------------------------------------------------------------------


def _parse_dsconfig_block(document: Document, block: object) -> Iterator[Suppression | Diagnostic]:
    if block is UNKNOWN:  # the program computes it
        return
    if not isinstance(block, dict):
        yield _malformed_suppression(document, (DSCONFIG_KEY,), "an object with the key `ignore`")
        return
    yield from _invalid_job_facts(document, block)
    match block.get("ignore", []):
        case list() as selectors:
            yield from _parse_ignore_selectors(document, (DSCONFIG_KEY, "ignore"), selectors)
        case dict() as by_path:
            for below, selectors in by_path.items():
                yield from _parse_ignore_selectors(
                    document, (DSCONFIG_KEY, "ignore", below), selectors, below
                )
        case ignored if ignored is not UNKNOWN:
            yield _malformed_suppression(
                document, (DSCONFIG_KEY, "ignore"), "a list of rules, or an object of such lists by key"
            )


def _invalid_job_facts(document: Document, block: Mapping[object, object]) -> Iterator[Diagnostic]:
    """Report invalid keys of the `"$dsconfig"` block other than `ignore`."""
    for key, value in block.items():
        if value is UNKNOWN:
            continue
        path, where = (DSCONFIG_KEY, str(key)), location_of_path(document, (DSCONFIG_KEY, str(key)), "key")
        if key in EXPECTED_VALUES:
            problem = (
                None if is_valid_block_value(str(key), value) else f"expected {EXPECTED_VALUES[str(key)]}"
            )
            if key == "target" and problem is None:
                problem = _unknown_release_message(str(value))
            if problem:
                yield _suppression_diagnostic(
                    f"invalid value of `{key}`: {problem}", path, where, "correct it, or remove it"
                )
        elif key != "ignore":
            expected = f"expected one of {', '.join(('ignore', *EXPECTED_VALUES))}"
            yield _suppression_diagnostic(
                f"unknown key `{key}`: {expected}", path, where, _instead_of(str(key))
            )


def _instead_of(key: str) -> str:
    """Return the help for an unknown key of the `"$dsconfig"` block; for `world_size`, suggest `world-size`."""
    hyphenated = key.replace("_", "-")
    if hyphenated in EXPECTED_VALUES:
        return f"write it as `{hyphenated}`"
    from dsconfig.core.wording import closest_words

    similar = closest_words(hyphenated, ("ignore", *EXPECTED_VALUES))
    return f"did you mean `{similar[0]}`? If not, remove it" if similar else "remove it"


def _unknown_release_message(text: str) -> str | None:
    try:
        resolve_target(text)
    except UnknownReleaseError as error:
        return str(error)
    return None


def _parse_ignore_selectors(
    document: Document, path: KeyPath, selectors: object, below: str = ""
) -> Iterator[Suppression | Diagnostic]:
    if selectors is UNKNOWN:
        return
    if not isinstance(selectors, list):
        yield _malformed_suppression(document, path, "a list of rules")
        return
    for index, selector in enumerate(selectors):
        item_path = (*path, index)
        if isinstance(selector, str):
            yield Suppression(selector, item_path, location_of_path(document, item_path), scope_key=below)
        elif selector is not UNKNOWN:
            yield _malformed_suppression(document, item_path, "the code or name of a rule")


def _malformed_suppression(document: Document, path: KeyPath, expected: str) -> Diagnostic:
    where = location_of_path(document, path, "key")
    return _suppression_diagnostic(
        f"invalid suppression: expected {expected}",
        path,
        where,
        f'write it as `"{DSCONFIG_KEY}": {{"ignore": ["DSC401"]}}`',
    )


# -- comments ----------------------------------------------------------------------------------------------


def _parse_ignore_comments(document: Document) -> Iterator[Suppression | Diagnostic]:
    lines = _CommentTargets(document)
    for span, text in document.comments:
        for match in re.finditer(_COMMENT, text) if "dsconfig:" in text else ():
            where = location_of_span(document, span)
            selectors = [word.strip() for word in (match[2] or "").split(",") if word.strip()]
            if not selectors:
                example = f"name the rules: `dsconfig: {match[1]}[DSC401]`"
                yield _suppression_diagnostic("this suppression does not name a rule", (), where, example)
            line = None if match[1] == "ignore-file" else lines.target_line(span)
            yield from (Suppression(selector, (), where, line) for selector in selectors)


class _CommentTargets:
    """Determines the line to which each comment applies."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.targets: list[int] = []
        """For each line, the first line from there on with more than a comment on it, or else the last line."""

    def target_line(self, span: TextSpan) -> int:
        """Return the line to which a comment applies: its own, or the next line with content if nothing precedes it."""
        start, end = self.document.position(span.start), self.document.position(span.end)
        if not self._starts_line(span.start) or not self._ends_line(span.end):
            return start.line
        return self._next_line_with_content(end.line + 1)

    def _starts_line(self, at: int) -> bool:
        while at and self.text[at - 1] not in "\r\n":
            at -= 1
            if not self.text[at].isspace():
                return False
        return True

    def _ends_line(self, at: int) -> bool:
        while at < len(self.text) and self.text[at] not in "\r\n":
            if not self.text[at].isspace():
                return False
            at += 1
        return True

    def _next_line_with_content(self, line: int) -> int:
        if not self.targets:
            last = self.document.position(len(self.text)).line
            self.targets = [last] * (last + 1)
            for number in range(last - 1, 0, -1):
                text = self.document.line(number).strip()
                alone = not text or text.startswith(_COMMENT_MARKS)
                self.targets[number] = self.targets[number + 1] if alone else number
        return self.targets[line] if line < len(self.targets) else line
