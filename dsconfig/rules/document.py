"""The text itself: what the parser refuses, what only DeepSpeed's parser takes, and what it does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.diagnostic import Fix
from dsconfig.document import KINDS, Problem
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.words import kind, one_of, quoted

_READ = "runtime/config.py:DeepSpeedConfig.__init__"
_OWN = frozenset({"duplicate-key", "placeholder", "empty", "root-not-object", "invalid-utf8", "not-text"})
"""Kinds with a rule of their own."""
_BEYOND = frozenset({"too-large", "too-deep", "huge-number", "alias-bomb", "lone-surrogate"})
_PARSERS = {"hjson": "DeepSpeed's Hjson parser", "json": "a strict JSON parser", "yaml": "the YAML parser"}


def _problems(ctx: Context, *kinds: str) -> Iterator[Problem]:
    for problem in ctx.document.problems:
        if problem.kind in kinds:
            yield problem


def _reader(ctx: Context) -> str:
    if ctx.parser == "json" and ctx.consumer == "deepspeed":
        return f"DeepSpeed {ctx.release_name}, which reads strict JSON (Hjson since 0.8.1)"
    if ctx.parser == "json":
        return f"{ctx.consumer.capitalize()}, which reads strict JSON"
    return _PARSERS[ctx.parser]


@rule("DSC001", effect="rejected", source=_READ, of_text=True)
def syntax_error(ctx: Context) -> Iterator[Finding]:
    """The parser refuses the text.

    DeepSpeed reads a file as Hjson from 0.8.1 on (comments, trailing commas and unquoted keys are fine) and
    as strict JSON before; Transformers, Accelerate and Lightning read strict JSON.

    Bad:

        {"train_batch_size": 8,, }

    Good:

        {"train_batch_size": 8}
    """
    for problem in ctx.document.problems:
        if ctx.parser in problem.refused_by and problem.kind not in _OWN | _BEYOND:
            yield ctx.spot(
                problem,
                f"{_says(problem)}: refused by {_reader(ctx)}",
                help=_help(ctx, problem),
                fix=_mended(ctx, problem),
            )


def _mended(ctx: Context, problem: Problem) -> Fix | None:
    from dsconfig.rules._strict import mended  # most texts have nothing odd

    return mended(ctx.document, problem)


def _says(problem: Problem) -> str:
    """The oddity in words, with the text that shows it where that helps."""
    meaning = KINDS[problem.kind].partition(";")[0].partition(":")[0]
    detail = problem.detail.strip()
    if not detail or problem.kind in _NO_DETAIL:
        return meaning
    return f"{meaning}, {quoted(problem.detail)}" if problem.kind not in _PROSE else f"{meaning}: {detail}"


_NO_DETAIL = frozenset({"bom", "comment"})
_PROSE = frozenset(
    {"yaml-error", "unclosed", "too-large", "too-deep", "alias-bomb", "not-text", "invalid-utf8"}
)


def _help(ctx: Context, problem: Problem) -> str | None:
    if "hjson" in problem.refused_by:
        return _MEND.get(problem.kind)
    if ctx.consumer == "deepspeed":
        return "upgrade to DeepSpeed 0.8.1 or later, or write strict JSON"
    return f"write strict JSON: {_MEND.get(problem.kind, 'only plain JSON is read')}"


_MEND = {
    "comment": "remove the comment",
    "trailing-comma": "remove the comma",
    "missing-comma": "put a comma between the two entries",
    "unquoted-key": "put the key in double quotes",
    "unquoted-string": "put the string in double quotes",
    "single-quotes": "use double quotes",
    "multiline-string": 'write the string on one line in double quotes, with "\\n" for line ends',
    "missing-root-braces": "put the entries in braces",
    "unclosed": "close what was opened",
    "missing-colon": "put a colon after the key",
    "missing-value": "give the key a value, or remove it",
    "control-character": 'write it as an escape, for example "\\t"',
    "bad-escape": 'write the backslash twice: "\\\\"',
    "bad-number": "write a plain decimal number: no underscores, no leading zero, no hexadecimal prefix",
    "nan": "write a finite number",
    "bom": "save the file without a byte order mark",
}


@rule("DSC002", effect="wasteful", source=_READ, of_text=True)
def only_hjson(ctx: Context) -> Iterator[Finding]:
    """The text is Hjson: DeepSpeed reads it, strict JSON parsers do not.

    `DeepSpeedConfig` takes comments, trailing commas, unquoted keys and the like from 0.8.1 on. Transformers,
    Accelerate and Lightning, the autotuner and `init_inference` read the same file with a strict parser and
    fail.

    Bad:

        {"train_batch_size": 8,}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    if ctx.parser != "hjson" or not ctx.is_config:
        return
    found = [p for p in ctx.document.problems if p.refused_by == {"json"} and p.kind not in _OWN | _BEYOND]
    if found and ctx.document.readable("hjson"):
        kinds = list(dict.fromkeys(KINDS[problem.kind].split(";")[0] for problem in found))
        more = f" ({len(found)} places)" if len(found) > 1 else ""
        yield ctx.spot(
            found[0],
            f"the file is Hjson: {', '.join(kinds)}{more}; Transformers, Accelerate, Lightning and "
            "DeepSpeed's autotuner read strict JSON only",
            help="write strict JSON if anything but DeepSpeed itself reads the file",
            fix=_slips(ctx, found),
        )


def _slips(ctx: Context, found: list[Problem]) -> Fix | None:
    """A comma too many is a slip; comments and bare words are their author's choice, and are left alone."""
    if any(problem.kind not in ("trailing-comma", "bom") for problem in found):
        return None
    fixes = [_mended(ctx, problem) for problem in found]
    places = tuple(operation for fix in fixes if fix for operation in fix.operations)
    return Fix("write strict JSON", places, safe=True)


@rule(
    "DSC003",
    effect="rejected",
    source="runtime/config_utils.py:dict_raise_error_on_duplicate_keys",
    of_text=True,
)
def duplicate_key(ctx: Context) -> Iterator[Finding]:
    """A key is written twice in one object.

    DeepSpeed refuses a file with duplicates. Where Transformers, Accelerate, Lightning or a script load it,
    the last one wins silently.

    Bad:

        {"train_batch_size": 8, "train_batch_size": 16}

    Good:

        {"train_batch_size": 16}
    """
    refused = ctx.from_file
    for problem in _problems(ctx, "duplicate-key"):
        from dsconfig.rules._strict import without_duplicate

        yield ctx.spot(
            problem,
            f"`{problem.detail}` is written twice: "
            + ("DeepSpeed refuses the file" if refused else "the last one counts"),
            help="keep one of them",
            effect="rejected" if refused else "altered",
            fix=without_duplicate(ctx.document, problem, refused=refused),
        )


@rule("DSC004", effect="rejected", source=_READ, of_text=True)
def not_utf8(ctx: Context) -> Iterator[Finding]:
    """The file is not UTF-8 text.

    Good:

        {"train_batch_size": 8}
    """
    if _is_binary(ctx):
        yield ctx.at(
            (), "the file holds binary data, not text", help="check the path: a config is a text file"
        )
        return
    for problem in _problems(ctx, "invalid-utf8", "not-text"):
        yield ctx.spot(problem, f"the file holds {_says(problem)}", help="save the file as UTF-8 text")


def _is_binary(ctx: Context) -> bool:
    """Hjson takes nearly any bytes for one string; a NUL is in no config."""
    return not ctx.is_config and "\0" in ctx.document.text


@rule("DSC005", effect="rejected", source=_READ, of_text=True)
def root_not_an_object(ctx: Context) -> Iterator[Finding]:
    """The config is a list or a single value, not an object.

    Bad:

        [{"train_batch_size": 8}]

    Good:

        {"train_batch_size": 8}
    """
    value = ctx.document.value(ctx.parser)
    empty = any(problem.kind == "empty" for problem in ctx.document.problems)
    if not ctx.is_config and not empty and ctx.document.readable(ctx.parser) and not _is_binary(ctx):
        yield ctx.at((), f"the config is {kind(value)}; DeepSpeed reads an object", help="write `{ … }`")


@rule("DSC006", effect="rejected", source=_READ, of_text=True)
def empty_document(ctx: Context) -> Iterator[Finding]:
    """The file holds nothing but white space and comments.

    Good:

        {"train_batch_size": 8}
    """
    for problem in _problems(ctx, "empty"):
        yield ctx.spot(
            problem,
            "the file is empty",
            help='give at least `{"train_micro_batch_size_per_gpu": 1}`',
        )


@rule("DSC007", effect="rejected", source=_READ, of_text=True)
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
    bare = list(_problems(ctx, "placeholder"))
    quoted_ones = [event for event in ctx.walk.refused if _is_placeholder(event.value)]
    words = [*(problem.detail.rstrip(", ") for problem in bare), *(event.value for event in quoted_ones)]
    names = list(dict.fromkeys(words))
    if not names:
        return
    message = (
        f"the file is a template: {one_of([f'`{name}`' for name in names[:8]], 'and')}"
        f"{' …' if len(names) > 8 else ''} {'is' if len(names) == 1 else 'are'} not filled"
    )
    help_ = "fill the template first and check what comes out"
    yield ctx.spot(bare[0], message, help=help_) if bare else ctx.at(quoted_ones[0].path, message, help=help_)


_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[A-Z][A-Z0-9_]*>|[A-Z]+(?:_[A-Z0-9]+)+")


def _is_placeholder(value: object) -> bool:
    """A quoted placeholder: the whole of a string that stands where no string belongs."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


@rule("DSC008", effect="ignored", of_text=True)
def unused_suppression(_: Context) -> Iterator[Finding]:
    """A suppression silences nothing, or names no rule.

    It outlived its reason, or never had one: the finding it names is not there. It is found where
    suppressions are applied (`dsconfig.checking.suppress`), after the verdict; the rule here only gives it
    a page and a code.

    Good:

        {"train_batch_size": 8}
    """
    yield from ()


@rule("DSC009", effect="rejected", of_text=True)
def beyond_limits(ctx: Context) -> Iterator[Finding]:
    """The text is larger or nested deeper than a config can sensibly be, or holds a number out of range.

    Outside these limits (2 MiB, 50,000 values, 128 levels, integers of 4,300 digits, unpaired surrogates)
    Python's own parsers depend on settings of the machine, so nothing is claimed of DeepSpeed's verdict.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": 1e999}

    Good:

        {"train_batch_size": 8}
    """
    for problem in _problems(ctx, *_BEYOND):
        yield ctx.spot(
            problem,
            _says(problem),
            help=_SHRINK.get(problem.kind, "make it smaller"),
            effect="rejected" if ctx.parser in problem.refused_by else "altered",
        )


_SHRINK = {
    "huge-number": "write a number that fits",
    "lone-surrogate": "write the whole character, or both halves of its escape",
    "alias-bomb": "write the values out instead of multiplying aliases",
}
