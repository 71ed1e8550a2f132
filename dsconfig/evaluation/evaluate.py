"""Run the applicable rules on a config for one release, and keep one finding per cause."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cache

from dsconfig.core.diagnostic import Effect, dotted_path, truncate_middle
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, NEVER, ReleaseInterval
from dsconfig.document import Document, TextProblem, read_dict
from dsconfig.document.located_tree import MAX_PROBLEMS, YAML_TEXT
from dsconfig.evaluation.rule import DECLARED, RULES, Rule, Subject
from dsconfig.evaluation.rule_context import (
    Context,
    EvaluatedDocument,
    Finding,
    RootKind,
    SkipRule,
    split_path,
)
from dsconfig.job.consumers import accelerate_launch_file

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias


class EvaluationOutcome(NamedTuple):
    """The findings of an evaluation, and the releases for which it has the same outcome."""

    findings: tuple[tuple[Rule, Finding], ...]
    equivalent: ReleaseInterval
    """Releases for which the evaluation has the same findings."""
    context: Context
    """The context that the rules ran in."""
    unresolved_autos: int = 0
    """Number of "auto" values that this consumer does not resolve, but another consumer would."""


TextFindings: TypeAlias = "dict[str, list[tuple[ReleaseInterval, tuple[Finding, ...]]]]"
"""Findings of rules that examine only the text, by rule code and range of releases."""
_MAX_MESSAGE = 4000
"""Maximum length of a message or help. A key of 30,000 characters in 1,000 findings would take 30 MB."""


def evaluate(
    source: EvaluatedDocument, release: int, text_findings: TextFindings | None = None
) -> EvaluationOutcome:
    """Run every applicable rule for a release; `text_findings` is a cache that releases share."""
    context = Context(source, release)
    rules, alike = applicable_rules(release, context.root, context.consumer)
    findings: list[tuple[Rule, Finding]] = []
    cache = {} if text_findings is None else text_findings
    for rule in triggered_rules(context, rules):
        is_text_rule = rule.reads in ("text", "launch file", "job", "hostfile", "program")
        results = _run_text_rule(rule, context, cache) if is_text_rule else _run_rule(rule, context)
        if results:
            findings += [(rule, each) for each in results if not _is_overwritten(context, rule, each)]
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        block_outcome = _evaluate_accelerate_block(context, release)
        findings += block_outcome.findings
        alike = alike.intersect(block_outcome.equivalent)
    return EvaluationOutcome(
        tuple(keep_one_finding_per_cause(context, findings)),
        alike.intersect(context.equivalent).intersect(context.walk.equivalent),
        context,
        sum(
            1
            for entry in context.walk.unresolved_autos
            if entry.key.info.fills and context.overwrite(dotted_path(entry.path)) is None
        ),
    )


def _is_overwritten(context: Context, rule: Rule, finding: Finding) -> bool:
    """Return whether a finding concerns a value that a program in the repository overwrites."""
    if not context.is_watched or context.root != "config" or rule.reads not in ("config", "keys"):
        return False
    path = finding.missing or finding.path
    if not path or path == ("$dsconfig",) or not all(isinstance(part, str) for part in path):
        return False
    return context.overwrite(dotted_path(path)) is not None


def _evaluate_accelerate_block(context: Context, release: int) -> EvaluationOutcome:
    """Evaluate the config that Accelerate builds from the block of a launch file; paths refer to the block."""
    config = accelerate_launch_file.build_plugin_config(context.data, context.version)
    if config is None:
        return EvaluationOutcome((), EVERY_RELEASE, context)
    outcome = evaluate(
        EvaluatedDocument(
            read_dict(config, context.document.name), context.spec, context.world_size, facts=context.facts
        ),
        release,
    )
    findings = []
    for rule, finding in outcome.findings:
        path_in_block = accelerate_launch_file.path_in_launch_file(finding.path, context.data)
        if path_in_block is None and finding.advisory:  # about the job, or a key that the block does not have
            path_in_block = (accelerate_launch_file.BLOCK,)
        # The rules on launch files report keys that are absent from the block.
        if path_in_block is not None and _contains_path(config, finding.path):
            findings.append((rule, finding._replace(path=path_in_block, related=(), fix=None, span=None)))
    return EvaluationOutcome(tuple(findings), outcome.equivalent, context)


def _contains_path(value: Json, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def _shorten_finding(finding: Finding) -> Finding:
    """Truncate a finding's message and help, which may quote a very long key."""
    help_ = finding.help or ""
    if len(finding.message) > _MAX_MESSAGE or len(help_) > _MAX_MESSAGE:
        message, help_ = truncate_middle(finding.message, _MAX_MESSAGE), truncate_middle(help_, _MAX_MESSAGE)
        return finding._replace(message=message, help=help_ or None)
    return finding


def _run_text_rule(rule: Rule, context: Context, cache: TextFindings) -> tuple[Finding, ...]:
    """Run a rule that examines only the text, reusing its findings from another release if possible.

    Most of these rules have the same findings for all releases.
    """
    cached = cache.setdefault(rule.code, [])
    for alike, findings in cached:
        if context.release in alike:
            context.equivalent = context.equivalent.intersect(alike)
            return findings
    alike_before, context.equivalent = context.equivalent, context.same_parser
    findings = tuple(_run_rule(rule, context))
    cached.append((context.equivalent, findings))
    context.equivalent = alike_before.intersect(context.equivalent)
    return findings


def _run_rule(rule: Rule, context: Context) -> list[Finding]:
    """Run a rule, and return its findings up to the limit for each effect."""
    kept: list[Finding] = []
    counts: dict[Effect, int] | None = None
    # A dict lookup, without the call of a property, if the module is imported already.
    declared = DECLARED.get(rule.code) or rule.declared
    try:
        for finding in declared.check(context):
            effect = finding.effect or rule.effect
            counts = {} if counts is None else counts
            counts[effect] = counts.get(effect, 0) + 1
            if counts[effect] <= context.max_findings:
                kept.append(_shorten_finding(finding if finding.effect else finding._replace(effect=effect)))
            else:
                context.is_truncated = True
    except SkipRule:
        pass
    return kept


_ANY_TEXT: tuple[Subject, ...] = ("text", "template")
_SUBJECTS: dict[RootKind, tuple[Subject, ...]] = {
    "config": ("config", "keys", *_ANY_TEXT),
    "inference config": ("inference config", "keys", *_ANY_TEXT),
    "launch file": ("launch file", *_ANY_TEXT),
    "job": ("job", *_ANY_TEXT),
    "script": ("job",),
    "hostfile": ("hostfile",),
    "program": ("job", "program"),
    "text": _ANY_TEXT,
}


class TriggerPaths(NamedTuple):
    """The trigger paths of some rules, grouped by their first keys."""

    path: str | None
    """The path that consists of exactly these keys, if it is a trigger."""
    below: dict[str, TriggerPaths]
    """The longer paths, by their next key."""


class RuleSet(NamedTuple):
    """The rules that apply to a range of releases, a kind of root and a consumer."""

    rules: tuple[Rule, ...]
    always: tuple[int, ...]
    """Positions of the rules without triggers, which always run."""
    by_trigger: Mapping[str, tuple[int, ...]]
    """Indexes of the rules to run, by the trigger that starts them."""
    trigger_paths: Mapping[str, TriggerPaths]
    """The triggers that are paths of keys, by their top-level key."""


def applicable_rules(
    release: int, root: RootKind = "config", consumer: str = "deepspeed"
) -> tuple[RuleSet, ReleaseInterval]:
    """Return the rules for a release, root kind and consumer, and the releases with the same rules."""
    boundaries = _releases_with_other_rules()
    index = bisect_right(boundaries, release)
    alike = ReleaseInterval(boundaries[index - 1], boundaries[index] - 1)
    return _find_applicable_rules(alike.first, root, consumer), alike


@cache
def _find_applicable_rules(release: int, root: RootKind, consumer: str) -> RuleSet:
    subjects = _SUBJECTS[root]
    rules: list[Rule] = []
    always: list[int] = []
    by_trigger: dict[str, list[int]] = {}
    for rule in RULES.values():
        first, last = rule.releases
        if not first <= release <= last or rule.reads not in subjects:
            continue
        if rule.consumers is not None and consumer not in rule.consumers:
            continue
        if rule.triggers is None:
            always.append(len(rules))
        for trigger in rule.triggers or ():
            by_trigger.setdefault(trigger, []).append(len(rules))
        rules.append(rule)
    by_top: dict[str, TriggerPaths] = {}
    for path in by_trigger:
        below = by_top
        *parents, key = split_path(path)
        for parent in parents:
            below = below.setdefault(parent, TriggerPaths(None, {})).below
        branch = below.get(key)
        below[key] = TriggerPaths(path, {} if branch is None else branch.below)
    return RuleSet(
        tuple(rules),
        tuple(always),
        {trigger: tuple(positions) for trigger, positions in by_trigger.items()},
        by_top,
    )


@cache
def _releases_with_other_rules() -> tuple[int, ...]:
    """Return, in ascending order, the release numbers at which the set of rules changes, up to `NEVER`."""
    numbers = {0, NEVER}
    for rule in RULES.values():
        first, last = rule.releases
        numbers |= {first, last + 1}
    return tuple(sorted(numbers))


# Which rules can be skipped: a rule whose triggers are all absent finds nothing (schema/rule_index.py).

EVENTS = ("unknown", "rejected", "coerced", "unresolved_autos", "duplicate_aliases", "deprecated", "unused")
"""Attributes of a walk that can trigger a rule."""


def triggered_rules(context: Context, rules: RuleSet) -> Iterator[Rule]:
    """Yield the rules that may have findings in this config, in index order."""
    # Hot path: a look-up for each trigger that is present, not a test for each rule.
    positions = set(rules.always)
    for trigger in present_triggers(context, rules.trigger_paths):
        positions.update(rules.by_trigger.get(trigger, ()))
    return map(rules.rules.__getitem__, sorted(positions))


def present_triggers(context: Context, paths: Mapping[str, TriggerPaths]) -> set[str]:
    """Return the triggers present in a config: keys, under any alias, and properties of its content or job.

    A trigger in angle brackets is not a key, but an event of the key walk or a property of the job.
    """
    walk, data = context.walk, context.data
    triggers: set[str] = set()
    # Hot path of a clean check: an intersection of keys per section of the config, not a test per trigger.
    _add_present_paths(paths, data, triggers)
    _add_present_paths(paths, walk.values, triggers)
    if walk.aliases:
        tops = {*data, *walk.values, *(str(path[0]) for path in walk.aliases)}
        triggers.update(
            path
            for top in paths.keys() & tops
            for path in _paths_below(paths[top])
            if path not in triggers and context.has(path)
        )
    triggers.update(f"<{event}>" for event in EVENTS if getattr(walk, event))
    triggers.update(f"<{word}>" for word, holds in _job_triggers(context).items() if holds)
    triggers.add(f"<{context.consumer}>")
    return triggers


def _add_present_paths(paths: Mapping[str, TriggerPaths], section: JsonObject, triggers: set[str]) -> None:
    """Add the trigger paths that a section of the config contains."""
    for key in paths.keys() & section.keys():
        path, below = paths[key]
        if path is not None:
            triggers.add(path)
        if below and isinstance(value := section[key], dict):
            _add_present_paths(below, value, triggers)


def _paths_below(paths: TriggerPaths) -> Iterator[str]:
    """Yield all paths in a tree of trigger paths."""
    if paths.path is not None:
        yield paths.path
    for each in paths.below.values():
        yield from _paths_below(each)


def _job_triggers(context: Context) -> dict[str, bool]:
    """Return, for each job property that can trigger a rule, whether the job has it."""
    facts = context.facts
    return {
        "arguments": context.arguments is not None,
        "elastic": context.is_elastic,
        "file": context.from_file,
        "job": context.filled is not None,
        "facts": bool(facts.model or facts.host_memory or facts.parallelism.degrees or facts.program_files),
        "no config": not context.is_config,
        "problems": bool(context.document.problems),
        "repository": context.is_in_repository,
        "range": context.target.first != context.target.last,
        "version": context.version is not None,
        "world size": context.world_size is not None,
        "yaml": context.document.format == "yaml",
    }


RuleFinding: TypeAlias = "tuple[Rule, Finding]"


def keep_one_finding_per_cause(context: Context, findings: list[RuleFinding]) -> list[RuleFinding]:
    """Drop the findings that merely result from the cause of another finding."""
    findings = [
        each
        for each in drop_findings_on_guesses(context, findings)
        if not _is_about_filled_value(context, each[1])
    ]
    if any(rule.reads == "template" for rule, _ in findings):
        findings = list(_keep_template_findings(context, findings))
    return findings if len(findings) < 2 else _drop_redundant_findings(_drop_consequences(findings))


def _is_about_filled_value(context: Context, finding: Finding) -> bool:
    """Return whether a finding below an error concerns a value that is "auto" in the file and set by the job.

    A finding that reports an advisory is kept even then, because a defect of a release still affects the job.
    """
    is_mild = finding.effect in (Effect.ALTERED, Effect.WASTEFUL) and not finding.advisory
    if context.filled is None or not is_mild:
        return False
    return any(finding.path == tuple(each.key.split(".")) for each in context.filled.filled)


def _keep_template_findings(context: Context, findings: list[RuleFinding]) -> Iterator[RuleFinding]:
    """Keep only the findings on template placeholders and on the text; placeholders cause all the others."""
    is_rejected = not context.document.is_readable(context.parser) or any(
        finding.effect is Effect.REJECTED for rule, finding in findings if rule.reads != "template"
    )
    for rule, finding in findings:
        if rule.reads == "template":
            yield rule, finding._replace(effect=Effect.REJECTED if is_rejected else Effect.ALTERED)
        elif rule.reads == "text" and finding.effect is not Effect.REJECTED:
            yield rule, finding


def _drop_consequences(findings: list[RuleFinding]) -> list[RuleFinding]:
    """Drop findings on keys that are absent only because they are misspelled or misplaced.

    A finding that is kept for the verdict loses its fix, which would add the key beside its misspelling.
    """
    causes = {path: finding for _, finding in findings for path in finding.typo_of}

    def follows(finding: Finding) -> bool:
        cause = causes.get(finding.missing) if finding.missing else None
        if cause is None:
            return False
        return finding.effect not in _SEVERE or cause.effect in (Effect.REJECTED, finding.effect)

    return [
        (rule, finding._replace(fix=None) if finding.missing in causes else finding)
        for rule, finding in findings
        if not follows(finding)
    ]


def _drop_redundant_findings(findings: list[RuleFinding]) -> list[RuleFinding]:
    """Drop findings that another finding at the same path explains better.

    A general finding on the type of a value is dropped if the same value has a more specific or more severe finding, or
    if nothing reads the key. A deprecation is dropped if the key is rejected.
    """
    specific = [finding for rule, finding in findings if not rule.general]
    severe_paths = {finding.path for finding in specific if finding.effect in _SEVERE}
    explained = {finding.path for finding in specific if finding.effect in _MILD and finding.part == "value"}
    explained |= {finding.path for finding in specific if finding.effect is Effect.IGNORED}
    explained |= {finding.path for _, finding in findings if finding.effect in _SEVERE}
    rejected_keys = {
        finding.path for finding in specific if finding.effect is Effect.REJECTED and finding.part == "key"
    }

    def gives_way(rule: Rule, finding: Finding) -> bool:
        if finding.effect is Effect.DEPRECATED and finding.path in rejected_keys:
            return True
        return rule.general and (
            finding.path in severe_paths or (finding.effect in _MILD and finding.path in explained)
        )

    return [(rule, finding) for rule, finding in findings if not gives_way(rule, finding)]


_SEVERE = (Effect.REJECTED, Effect.CRASHES)
_MILD = (Effect.IGNORED, Effect.ALTERED)


# Findings on a config whose text the parser rejects.
#
# The recovering parser guesses what was meant, so that editors still know the keys. A finding that rests on a
# guess is noise beside the syntax error. It is dropped here and returns, if it was right, once the text
# parses.

_UNAMBIGUOUS = frozenset(
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
"""Kinds of problems whose meaning is certain even if a parser rejects the text."""
_TEXT_SUBJECTS = ("text", "template", "job", "hostfile", "program")
"""Subjects of rules that need no parsed config."""
_STRUCTURAL = frozenset({"unclosed", "unexpected", "yaml-error"})
"""Kinds of problems after which it is uncertain which section a key belongs to."""


def drop_findings_on_guesses(
    context: Context, findings: list[tuple[Rule, Finding]]
) -> list[tuple[Rule, Finding]]:
    """Drop findings that depend on a value guessed during error recovery.

    Findings of rules about the text are kept. Among the others, findings about absent keys are dropped, as are findings
    at a location that contains an error. Where brackets or lines are in doubt, only values of known keys are certain.
    """
    uncertain = [problem for problem in context.document.problems if _is_doubtful_problem(context, problem)]
    if not uncertain:
        return findings
    # Later problems are not recorded, so nothing else is certain.
    if len(context.document.problems) >= MAX_PROBLEMS:
        return [(rule, finding) for rule, finding in findings if rule.reads in _TEXT_SUBJECTS]
    starts = [problem.span.start for problem in uncertain]
    structure_is_lost = any(
        problem.kind in _STRUCTURAL or _contains_next_entry(problem) for problem in uncertain
    )
    return [
        (rule, finding)
        for rule, finding in findings
        if rule.reads in _TEXT_SUBJECTS
        or ((rule.general or not structure_is_lost) and _has_intact_paths(context.document, finding, starts))
    ]


def _is_doubtful_problem(context: Context, problem: TextProblem) -> bool:
    if context.parser not in problem.rejected_by or problem.kind in _UNAMBIGUOUS:
        return False
    return problem.kind != "missing-comma" or "hjson" in problem.rejected_by


def _contains_next_entry(problem: TextProblem) -> bool:
    """Return whether an unquoted string swallows the next entry, because Hjson reads it to the line end."""
    return problem.kind == "unquoted-string" and ": " in problem.detail


def _has_intact_paths(document: Document, finding: Finding, starts: Sequence[int]) -> bool:
    """Return whether every path of a finding exists in the text and is free of errors."""
    paths = (finding.path, *(path for _, path in finding.related))
    return all(document.has_path(path) and not _has_error_inside(document, path, starts) for path in paths)


def _has_error_inside(document: Document, path: KeyPath, starts: Sequence[int]) -> bool:
    if not path:  # the root holds them all
        return True
    start, end = document.span(path, "entry")
    index = bisect_left(starts, start)
    return index < len(starts) and starts[index] <= end
