"""Files that hold no config, placeholders of a template, and unused ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.file_access import MAX_SIZE
from dsconfig.core.wording import kind, one_of
from dsconfig.document import MAX_DEPTH, MAX_VALUES
from dsconfig.document.reader import wide_encoding
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.document.syntax import BEYOND, READ, is_binary, problems, says

# Files that hold no config, or one that is beyond all limits.


@rule("DSC004", effect="rejected", source=READ, reads="text")
def not_utf8(ctx: Context) -> Iterator[Finding]:
    """The file is not UTF-8 text.

    Good:

        {"train_batch_size": 8}
    """
    if is_binary(ctx):
        wide = wide_encoding(ctx.document.text)
        yield ctx.at(
            (),
            f"the file is {wide} text, not UTF-8" if wide else "the file holds binary data, not text",
            help=_resave(wide) if wide else "check the path: a config is a text file",
        )
        return
    for problem in problems(ctx, "not-text"):
        if problem.detail.startswith("UTF-"):
            said, advice = f"the file is {problem.detail} text, not UTF-8", _resave(problem.detail)
        else:
            said, advice = f"the file holds {says(problem)}", "check the path: a config is a text file"
        yield ctx.at_problem(problem, said, help=advice)
    for problem in problems(ctx, "invalid-utf8"):
        yield ctx.at_problem(
            problem,
            f"the file holds {says(problem)}",
            help="save it as UTF-8: it looks like Latin-1 or another encoding of one byte a letter",
        )


def _resave(encoding: str) -> str:
    by = "; Windows PowerShell writes UTF-16 unless it is told otherwise" if encoding == "UTF-16" else ""
    return f"save it as UTF-8{by}"


@rule("DSC005", effect="rejected", source=READ, reads="text")
def root_not_an_object(ctx: Context) -> Iterator[Finding]:
    """The config is a list or a single value, not an object.

    Bad:

        [{"train_batch_size": 8}]

    Good:

        {"train_batch_size": 8}
    """
    if ctx.is_config or ctx.is_job or any(problems(ctx, "empty")):
        return
    value = ctx.document.value(ctx.parser)
    if ctx.document.is_readable(ctx.parser) and not is_binary(ctx):
        yield ctx.at((), f"the config is {kind(value)}; DeepSpeed reads an object", help="write `{ … }`")


@rule("DSC006", effect="rejected", source=READ, reads="text")
def empty_document(ctx: Context) -> Iterator[Finding]:
    """The file holds nothing but white space and comments.

    Good:

        {"train_batch_size": 8}
    """
    for problem in problems(ctx, "empty"):
        yield ctx.at_problem(
            problem,
            "the file is empty",
            help='give at least `{"train_micro_batch_size_per_gpu": 1}`',
        )


@rule("DSC009", effect="rejected", reads="text")
def beyond_limits(ctx: Context) -> Iterator[Finding]:
    """The text is larger or nested deeper than a config can sensibly be, or holds a number out of range.

    Outside these limits (2 MiB, 20,000 values or comments, 128 levels, integers of 4,300 digits, unpaired
    surrogates) Python's own parsers depend on settings of the machine, so nothing is claimed of DeepSpeed's
    verdict.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": 1e999}

    Good:

        {"train_batch_size": 8}
    """
    for problem in problems(ctx, *BEYOND):
        yield ctx.at_problem(
            problem,
            says(problem),
            help=_SHRINK[problem.kind],
            effect="rejected" if ctx.parser in problem.rejected_by else "altered",
        )


_SHRINK = {
    "too-large": f"stay within {MAX_SIZE // 2**20} MiB, {MAX_VALUES:,} values and {MAX_VALUES:,} comments",
    "too-deep": f"nest objects and lists at most {MAX_DEPTH} levels deep",
    "huge-number": "write a number that fits",
    "lone-surrogate": "write the whole character, or both halves of its escape",
    "alias-bomb": "write the values out instead of multiplying aliases",
}


# Templates whose placeholders nobody filled.


@rule("DSC007", effect="rejected", source=READ, reads="template")
def unfilled_placeholder(ctx: Context) -> Iterator[Finding]:
    """A template's placeholder was never filled.

    A file with `CONFIG_BATCH_SIZE`, `${BATCH}` or `{{ batch }}` in it is the input of some script, not a
    config. Everything else that follows from the placeholders is left out, so that this is the one finding of
    its kind.

    Bad:

        {"train_batch_size": CONFIG_BATCH_SIZE}

    Good:

        {"train_batch_size": 8}
    """
    bare = list(problems(ctx, "placeholder"))
    quoted_ones = [event for event in ctx.walk.rejected if _is_placeholder(event.value)]
    words = [*(problem.detail.rstrip(", ") for problem in bare), *(event.value for event in quoted_ones)]
    names = list(dict.fromkeys(words))
    if not names:
        return
    message = (
        f"the file is a template: {one_of([f'`{name}`' for name in names[:8]], 'and')}"
        f"{' …' if len(names) > 8 else ''} {'is' if len(names) == 1 else 'are'} not filled"
    )
    help_ = "fill the template first and check what comes out"
    yield (
        ctx.at_problem(bare[0], message, help=help_)
        if bare
        else ctx.at(quoted_ones[0].path, message, help=help_)
    )


_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[A-Z][A-Z0-9_]*>|[A-Z]+(?:_[A-Z0-9]+)+")


def _is_placeholder(value: object) -> bool:
    """A quoted placeholder: the whole of a string that stands where no string belongs."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


# Suppressions that silence nothing.


@rule("DSC008", effect="ignored", reads="text")
def unused_suppression(_: Context) -> Iterator[Finding]:
    """A suppression silences nothing, or names no rule.

    It outlived its reason, or never had one: the finding it names is not there. It is found where
    suppressions are applied (`dsconfig.check.suppressions`), after the verdict; the rule here only gives it
    a page and a code.

    Good:

        {"train_batch_size": 8}
    """
    yield from ()
