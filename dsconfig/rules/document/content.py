"""Files that hold no config, or one that is beyond all limits."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.file_bytes import MAX_SIZE
from dsconfig.core.wording import kind
from dsconfig.document import MAX_DEPTH, MAX_VALUES
from dsconfig.document.reader import wide_encoding
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.document._text_problems import BEYOND, READ, is_binary, problems, says


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
        yield ctx.spot(problem, said, help=advice)
    for problem in problems(ctx, "invalid-utf8"):
        yield ctx.spot(
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
    if ctx.document.readable(ctx.parser) and not is_binary(ctx):
        yield ctx.at((), f"the config is {kind(value)}; DeepSpeed reads an object", help="write `{ … }`")


@rule("DSC006", effect="rejected", source=READ, reads="text")
def empty_document(ctx: Context) -> Iterator[Finding]:
    """The file holds nothing but white space and comments.

    Good:

        {"train_batch_size": 8}
    """
    for problem in problems(ctx, "empty"):
        yield ctx.spot(
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
        yield ctx.spot(
            problem,
            says(problem),
            help=_SHRINK[problem.kind],
            effect="rejected" if ctx.parser in problem.refused_by else "altered",
        )


_SHRINK = {
    "too-large": f"stay within {MAX_SIZE // 2**20} MiB, {MAX_VALUES:,} values and {MAX_VALUES:,} comments",
    "too-deep": f"nest objects and lists at most {MAX_DEPTH} levels deep",
    "huge-number": "write a number that fits",
    "lone-surrogate": "write the whole character, or both halves of its escape",
    "alias-bomb": "write the values out instead of multiplying aliases",
}
