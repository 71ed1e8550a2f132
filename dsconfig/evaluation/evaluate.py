"""Evaluation of one release: rules that apply and may find something, and one diagnostic per cause."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.consumers import accelerate_launch_file
from dsconfig.core.diagnostic import Effect, clipped, dotted
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, NEVER, Interval
from dsconfig.document import Document, Problem, read_dict
from dsconfig.document.tree import MAX_PROBLEMS, YAML_TEXT
from dsconfig.evaluation.context import Context, Finding, Root, SkipRule, Source, split
from dsconfig.evaluation.rule import DECLARED, RULES, Rule, Subject

if TYPE_CHECKING:
    from collections.abc import Sequence


# Runs every rule for one release, and says for which neighbouring releases the outcome is the same.


class Outcome(NamedTuple):
    """The findings of one evaluation."""

    findings: tuple[tuple[Rule, Finding], ...]
    alike: Interval
    """Releases of which the findings are the same."""
    context: Context
    """What the rules saw."""
    autos: int = 0
    """Values "auto" that another consumer than this one would fill."""


Said: TypeAlias = "dict[str, list[tuple[Interval, tuple[Finding, ...]]]]"
"""By code, what rules that look at the text alone said of it, and to which releases."""
_LONGEST = 4000
"""Characters of a message or a help: a key of 30,000 in 1,000 findings would take 30 MB."""


def evaluate(source: Source, release: int, said: Said | None = None) -> Outcome:
    """What every rule finds at the release with this number; `said` is kept for the next one."""
    context = Context(source, release)
    rules, alike = applicable(release, context.root)
    findings: list[tuple[Rule, Finding]] = []
    there, told = present(context, asked(rules)), {} if said is None else said
    for rule in rules:
        if rule.asks is None or not there.isdisjoint(rule.asks):
            once = rule.reads in ("text", "launch file", "job")
            found = _of_text(rule, context, told) if once else _findings(rule, context)
            if found:
                findings += [(rule, each) for each in found if not _is_overwritten(context, rule, each)]
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        inner = _of_block(context, release)
        findings += inner.findings
        alike = alike.meet(inner.alike)
    return Outcome(
        tuple(one_per_cause(context, findings)),
        alike.meet(context.alike).meet(context.walk.alike),
        context,
        sum(
            1
            for entry in context.walk.autos
            if entry.key.info.fills and context.overwrite(dotted(entry.path)) is None
        ),
    )


def _is_overwritten(context: Context, rule: Rule, finding: Finding) -> bool:
    """Whether a finding is about a value that a program of the repository replaces."""
    if not context.is_watched or context.root != "config" or rule.reads != "config":
        return False
    path = finding.lacks or finding.path
    if not path or path == ("$dsconfig",) or not all(isinstance(part, str) for part in path):
        return False
    return context.overwrite(dotted(path)) is not None


def _of_block(context: Context, release: int) -> Outcome:
    """What is to be said of the config that Accelerate makes of a launch file's block, at its keys."""
    made = accelerate_launch_file.plugin_config(context.data, context.version)
    if made is None:
        return Outcome((), EVERY_RELEASE, context)
    outcome = evaluate(
        Source(read_dict(made), context.spec, context.world_size, known=context.known), release
    )
    findings = []
    for rule, finding in outcome.findings:
        place = accelerate_launch_file.path_in_launch_file(finding.path, context.data)
        if place is not None and _is_made(made, finding.path):  # else the block's own rules speak of it
            findings.append((rule, finding._replace(path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.alike, context)


def _is_made(made: Json, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(made, dict) or part not in made:
            return False
        made = made[part]
    return True


def _readable(finding: Finding) -> Finding:
    """The finding, with words that somebody reads, however long a key of the file is that they name."""
    words = finding.help or ""
    if len(finding.message) > _LONGEST or len(words) > _LONGEST:
        message, words = clipped(finding.message, _LONGEST), clipped(words, _LONGEST)
        return finding._replace(message=message, help=words or None)
    return finding


def _of_text(rule: Rule, context: Context, said: Said) -> tuple[Finding, ...]:
    """What a rule says that looks at what is written alone: most of these say the same of all releases."""
    known = said.setdefault(rule.code, [])
    for alike, findings in known:
        if context.release in alike:
            context.alike = context.alike.meet(alike)
            return findings
    before, context.alike = context.alike, context.reading
    findings = tuple(_findings(rule, context))
    known.append((context.alike, findings))
    context.alike = before.meet(context.alike)
    return findings


def _findings(rule: Rule, context: Context) -> list[Finding]:
    """What a rule says, with its effect; of each effect no more than is listed."""
    found: list[Finding] = []
    many: dict[Effect, int] = {}
    declared = DECLARED.get(rule.code) or rule.declared  # without a call where it is imported already
    try:
        for finding in declared.check(context):
            effect = finding.effect or rule.effect
            many[effect] = many.get(effect, 0) + 1
            if many[effect] <= context.most:
                found.append(_readable(finding if finding.effect else finding._replace(effect=effect)))
            else:
                context.cut = True
    except SkipRule:
        pass
    return found


# Which rules there are for a release.

_ANY_TEXT: tuple[Subject, ...] = ("text", "template")
_READ: dict[Root, tuple[Subject, ...]] = {
    "config": ("config", *_ANY_TEXT),
    "launch file": ("launch file", *_ANY_TEXT),
    "job": ("job", *_ANY_TEXT),
    "script": ("job",),
    "text": _ANY_TEXT,
}


def applicable(release: int, root: Root = "config") -> tuple[tuple[Rule, ...], Interval]:
    """The rules for a release and a kind of root, and the releases that have just these."""
    borders = _borders()
    index = bisect_right(borders, release)
    alike = Interval(borders[index - 1], borders[index] - 1)
    return _applicable(alike.first, root), alike


@cache
def _applicable(release: int, root: Root) -> tuple[Rule, ...]:
    read = _READ[root]
    found = []
    for rule in RULES.values():
        first, last = rule.releases
        if first <= release <= last and rule.reads in read:
            found.append(rule)
    return tuple(found)


@cache
def _borders() -> tuple[int, ...]:
    """First releases from which another set of rules applies, ascending, with an end beyond all."""
    found = {0, NEVER}
    for rule in RULES.values():
        first, last = rule.releases
        found |= {first, last + 1}
    return tuple(sorted(found))


# What is there to be asked for in a config: a rule that first asks for something else need not run.

EVENTS = ("unknown", "refused", "coerced", "autos", "doubles", "deprecated", "unread")
"""What a walk may note."""

Asked: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""All paths that some rules ask for first, by the key at the top level."""


@cache
def asked(rules: tuple[Rule, ...]) -> Asked:
    """What these rules ask for first."""
    found: dict[str, list[str]] = {}
    for path in sorted({path for rule in rules for path in rule.asks or ()}):
        found.setdefault(split(path)[0], []).append(path)
    return {top: tuple(paths) for top, paths in found.items()}


def present(context: Context, paths: Asked) -> frozenset[str]:
    """Of what is asked for, all that is written under any name, or comes of what is written.

    Besides, in angle brackets, as no key is: what the walk noted, and in what the config is not like others.
    """
    walk, data, spelled = context.walk, context.data, context.walk.spelled
    tops = {*data, *walk.values, *(str(path[0]) for path in spelled)}
    found = set()
    for path in chain.from_iterable(map(paths.__getitem__, paths.keys() & tops)):
        parts = split(path)
        for value in (data, walk.values):
            for part in parts:
                if not isinstance(value, dict) or part not in value:
                    break
                value = value[part]  # noqa: PLW2901
            else:
                found.add(path)
                break
        else:
            if spelled and context.has(path):
                found.add(path)
    found.update(f"<{event}>" for event in EVENTS if getattr(walk, event))
    found.update(f"<{word}>" for word, holds in _circumstances(context).items() if holds)
    found.add(f"<{context.consumer}>")
    return frozenset(found)


def _circumstances(context: Context) -> dict[str, bool]:
    """What may be out of the ordinary, and whether it is."""
    known = context.known
    return {
        "elastic": context.elastic,
        "file": context.from_file,
        "job": context.job is not None,
        "known": bool(known.model or known.host_memory or known.parallelism.degrees),
        "no config": not context.is_config,
        "problems": bool(context.document.problems),
        "range": context.target.first != context.target.last,
        "version": context.version is not None,
        "world size": context.world_size is not None,
        "yaml": context.document.format == "yaml",
    }


# One finding for each cause: which findings give way to others.

Found: TypeAlias = "tuple[Rule, Finding]"


def one_per_cause(context: Context, findings: list[Found]) -> list[Found]:
    """The findings without those that follow from others."""
    findings = [each for each in certain(context, findings) if not _is_of_filled(context, each[1])]
    if any(rule.reads == "template" for rule, _ in findings):
        findings = list(_template_alone(context, findings))
    return findings if len(findings) < 2 else _without_remarks(_without_consequences(findings))


def _is_of_filled(context: Context, finding: Finding) -> bool:
    """Whether it is a mild remark on an "auto" which the job fills: the value is in nobody's file."""
    if context.job is None or finding.effect not in (Effect.ALTERED, Effect.WASTEFUL):
        return False
    return any(finding.path == tuple(each.key.split(".")) for each in context.job.filled)


def _template_alone(context: Context, findings: list[Found]) -> Iterator[Found]:
    """The findings on the placeholders and on the text; all else follows from the placeholders."""
    refused = not context.document.readable(context.parser) or any(
        finding.effect is Effect.REJECTED for rule, finding in findings if rule.reads != "template"
    )
    for rule, finding in findings:
        if rule.reads == "template":
            yield rule, finding._replace(effect=Effect.REJECTED if refused else Effect.ALTERED)
        elif rule.reads == "text" and finding.effect is not Effect.REJECTED:
            yield rule, finding


def _without_consequences(findings: list[Found]) -> list[Found]:
    """Without what is absent only because it is misspelt or misplaced, unless the verdict depends on it.

    What stays for the verdict's sake has no fix: that would write the key beside the one that means it.
    """
    causes = {path: finding for _, finding in findings for path in finding.means}

    def follows(finding: Finding) -> bool:
        cause = causes.get(finding.lacks) if finding.lacks else None
        if cause is None:
            return False
        return finding.effect not in _GRAVE or cause.effect in (Effect.REJECTED, finding.effect)

    return [
        (rule, finding._replace(fix=None) if finding.lacks in causes else finding)
        for rule, finding in findings
        if not follows(finding)
    ]


def _without_remarks(findings: list[Found]) -> list[Found]:
    """Without what another finding at the same place says better.

    General remarks on a value's type give way to a rule that knows more of the same value, to a graver one
    and to the fact that nothing reads the key; that a key is out of date matters no more where it is refused.
    """
    specific = [finding for rule, finding in findings if not rule.general]
    grave = {finding.path for finding in specific if finding.effect in _GRAVE}
    mild = {finding.path for finding in specific if finding.effect in _MILD and finding.part == "value"}
    mild |= {finding.path for finding in specific if finding.effect is Effect.IGNORED}
    mild |= {finding.path for _, finding in findings if finding.effect in _GRAVE}
    refused_keys = {
        finding.path for finding in specific if finding.effect is Effect.REJECTED and finding.part == "key"
    }

    def gives_way(rule: Rule, finding: Finding) -> bool:
        if finding.effect is Effect.DEPRECATED and finding.path in refused_keys:
            return True
        return rule.general and (finding.path in grave or (finding.effect in _MILD and finding.path in mild))

    return [(rule, finding) for rule, finding in findings if not gives_way(rule, finding)]


_GRAVE = (Effect.REJECTED, Effect.CRASHES)
_MILD = (Effect.IGNORED, Effect.ALTERED)


# What can still be said of a config whose text the parser refuses.
#
# The reader guesses what was meant, so that an editor still knows the keys. A finding that rests on a guess
# is noise beside the syntax error: it is left out, and comes back, if it was right, when the text can be
# read.

_PLAIN = frozenset(
    {
        "comment",
        "trailing-comma",
        "single-quotes",
        "unquoted-key",
        "multiline-string",
        "missing-root-braces",
        "control-character",
        "bom",
        "duplicate-key",
        YAML_TEXT,
    }
)
"""Kinds that leave no doubt of what was meant, also where a parser refuses them."""
_WRITTEN = ("text", "template", "job")
"""Subjects of rules that need no config."""
_LOST = frozenset({"unclosed", "unexpected", "yaml-error"})
"""Kinds after which nobody knows which section a key belongs to."""


def certain(context: Context, findings: list[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """The findings without those that rest on a guess.

    Whatever looks at the text stays. Of the rest, that which speaks of what is absent goes, and that which
    speaks of a place with an error in it. Where brackets or lines are in doubt, only the values of known keys
    are certain.
    """
    doubtful = [problem for problem in context.document.problems if _is_doubtful(context, problem)]
    if not doubtful:
        return findings
    if len(context.document.problems) >= MAX_PROBLEMS:  # the rest of the oddities is not kept
        return [(rule, finding) for rule, finding in findings if rule.reads in _WRITTEN]
    starts = [problem.span.start for problem in doubtful]
    lost = any(problem.kind in _LOST or _swallows_an_entry(problem) for problem in doubtful)
    return [
        (rule, finding)
        for rule, finding in findings
        if rule.reads in _WRITTEN
        or ((rule.general or not lost) and _is_intact(context.document, finding, starts))
    ]


def _is_doubtful(context: Context, problem: Problem) -> bool:
    if context.parser not in problem.refused_by or problem.kind in _PLAIN:
        return False
    return problem.kind != "missing-comma" or "hjson" in problem.refused_by


def _swallows_an_entry(problem: Problem) -> bool:
    """Whether a bare word holds a colon: Hjson takes its whole line for a string."""
    return problem.kind == "unquoted-string" and ": " in problem.detail


def _is_intact(document: Document, finding: Finding, starts: Sequence[int]) -> bool:
    """Whether every place of the finding is in the text, and no error in it."""
    paths = (finding.path, *(path for _, path in finding.related))
    return all(document.located(path) and not _holds(document, path, starts) for path in paths)


def _holds(document: Document, path: KeyPath, starts: Sequence[int]) -> bool:
    if not path:  # the root holds them all
        return True
    start, end = document.span(path, "entry")
    index = bisect_left(starts, start)
    return index < len(starts) and starts[index] <= end
