"""Files that are not configs, unfilled templates, and unused suppressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.file_access import MAX_SIZE
from dsconfig.core.wording import join_alternatives, json_kind
from dsconfig.document import MAX_DEPTH, MAX_VALUES
from dsconfig.document.read_document import wide_encoding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules.document_syntax import LIMITS, SOURCE, describe_problem, is_binary, problems_of_kind

# Files that are not configs, or exceed the limits.


@rule("DSC004", effect="rejected", source=SOURCE, reads="text")
def not_utf8(ctx: Context) -> Iterator[Finding]:
    """The file is not UTF-8 text.

    Good:

        {"train_batch_size": 8}
    """
    if is_binary(ctx):
        wide = wide_encoding(ctx.document.text)
        yield ctx.at(
            (),
            f"the file is {wide} text, not UTF-8" if wide else "the file contains binary data, not text",
            help=_advise_to_resave(wide) if wide else "check the path: a config is a text file",
        )
        return
    for problem in problems_of_kind(ctx, "not-text"):
        if problem.detail.startswith("UTF-"):
            message, advice = (
                f"the file is {problem.detail} text, not UTF-8",
                _advise_to_resave(problem.detail),
            )
        else:
            message, advice = (
                f"the file contains {describe_problem(problem)}",
                "check the path: a config is a text file",
            )
        yield ctx.at_problem(problem, message, help=advice)
    for problem in problems_of_kind(ctx, "invalid-utf8"):
        yield ctx.at_problem(
            problem,
            f"the file contains {describe_problem(problem)}",
            help="save it as UTF-8: it looks like Latin-1 or another single-byte encoding",
        )


def _advise_to_resave(encoding: str) -> str:
    reason = "; Windows PowerShell writes UTF-16 by default" if encoding == "UTF-16" else ""
    return f"save it as UTF-8{reason}"


@rule("DSC005", effect="rejected", source=SOURCE, reads="text")
def root_not_an_object(ctx: Context) -> Iterator[Finding]:
    """The config is a list or a scalar, not an object.

    Bad:

        [{"train_batch_size": 8}]

    Good:

        {"train_batch_size": 8}
    """
    if ctx.is_config or ctx.is_job or any(problems_of_kind(ctx, "empty")):
        return
    value = ctx.document.value(ctx.parser)
    if ctx.document.is_readable(ctx.parser) and not is_binary(ctx):
        yield ctx.at(
            (),
            f"the config is {json_kind(value)}, but DeepSpeed expects an object",
            help='put the settings into one object, such as `{"train_micro_batch_size_per_gpu": 1}`',
        )


@rule("DSC006", effect="rejected", source=SOURCE, reads="text")
def empty_document(ctx: Context) -> Iterator[Finding]:
    """The file contains only whitespace and comments.

    Good:

        {"train_batch_size": 8}
    """
    for problem in problems_of_kind(ctx, "empty"):
        yield ctx.at_problem(
            problem,
            "the file is empty",
            help='write at least `{"train_micro_batch_size_per_gpu": 1}`',
        )


@rule("DSC009", effect="rejected", reads="text")
def beyond_limits(ctx: Context) -> Iterator[Finding]:
    """The file exceeds a limit on size, nesting depth or numbers.

    The limits are 2 MiB, 20,000 values or comments, 128 levels, and integers of 4,300 digits; unpaired surrogates are
    not allowed. Beyond them, the result of Python's parsers depends on the machine, so dsconfig does not predict what
    DeepSpeed does.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": 1e999}

    Good:

        {"train_batch_size": 8}
    """
    for problem in problems_of_kind(ctx, *LIMITS):
        yield ctx.at_problem(
            problem,
            f"the file {'is' if problem.kind in ('too-large', 'too-deep') else 'has'} {describe_problem(problem)}",
            help=_SHRINK[problem.kind],
            effect="rejected" if ctx.parser in problem.rejected_by else "altered",
        )


_SHRINK = {
    "too-large": f"use at most {MAX_SIZE // 2**20} MiB, {MAX_VALUES:,} values and {MAX_VALUES:,} comments",
    "too-deep": f"nest objects and lists at most {MAX_DEPTH} levels deep",
    "huge-number": "write a smaller number",
    "lone-surrogate": "write the character itself, or both halves of its escape",
    "alias-bomb": "write the values out instead of nesting aliases",
}


# Templates.


@rule("DSC007", effect="rejected", source=SOURCE, reads="template")
def unfilled_placeholder(ctx: Context) -> Iterator[Finding]:
    """The file is a template with an unfilled placeholder.

    A file with `CONFIG_BATCH_SIZE`, `${BATCH}` or `{{ batch }}` is the input of a script, not a config. dsconfig
    reports no problems that merely result from the placeholders.

    Bad:

        {"train_batch_size": CONFIG_BATCH_SIZE}

    Good:

        {"train_batch_size": 8}
    """
    bare = list(problems_of_kind(ctx, "placeholder"))
    quoted_events = [event for event in ctx.walk.rejected if _is_placeholder(event.value)]
    placeholders = [
        *(problem.detail.rstrip(", ") for problem in bare),
        *(event.value for event in quoted_events),
    ]
    names = list(dict.fromkeys(placeholders))
    if not names:
        return
    message = (
        f"the file is a template: {join_alternatives([f'`{name}`' for name in names[:8]], 'and')}"
        f"{' …' if len(names) > 8 else ''} {'is' if len(names) == 1 else 'are'} not filled in"
    )
    advice = "fill in the template, then check the result"
    yield (
        ctx.at_problem(bare[0], message, help=advice)
        if bare
        else ctx.at(quoted_events[0].path, message, help=advice)
    )


_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[A-Z][A-Z0-9_]*>|[A-Z]+(?:_[A-Z0-9]+)+")


def _is_placeholder(value: object) -> bool:
    """Return whether a rejected value is a template placeholder."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


# Unused suppressions.


@rule("DSC008", effect="ignored", reads="text")
def unused_suppression(_: Context) -> Iterator[Finding]:
    """A suppression matches no diagnostic, or names an unknown rule.

    The diagnostic that it ignores no longer occurs, or never did, so the suppression can be removed. It is detected
    when suppressions are applied (`dsconfig.check.suppressions`); this rule only provides the code and the page.

    Good:

        {"train_batch_size": 8}
    """
    yield from ()
