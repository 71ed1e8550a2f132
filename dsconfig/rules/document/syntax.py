"""Text that the parser refuses, or that only DeepSpeed's own parser reads."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix
from dsconfig.core.wording import one_of, quoted
from dsconfig.document import KINDS, Problem, Span
from dsconfig.document.tree import YAML_TEXT
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.document._group_problems import causes, closer, groups, json_word, python_word
from dsconfig.rules.document._text_problems import BEYOND, OWN, READ, meaning, repair, says

_PARSERS = {"hjson": "DeepSpeed's Hjson parser", "json": "a strict JSON parser", "yaml": "the YAML parser"}


def _rejects(ctx: Context, group: list[Problem]) -> str:
    """What is wrong, and who rejects it."""
    if group[0].kind != YAML_TEXT:
        return f"{_says(group)}: refused by {_reader(ctx)}"
    if ctx.consumer != "deepspeed":
        reader = f"{ctx.consumer.capitalize()}, which reads strict JSON"
    else:
        reader = "DeepSpeed, which reads Hjson (strict JSON before 0.8.1) and raises"
    return f"the file is YAML, but its path is passed to {reader}"


def _reader(ctx: Context) -> str:
    if ctx.parser == "json" and ctx.consumer == "deepspeed":
        return f"DeepSpeed {ctx.release_name}, which reads strict JSON (Hjson since 0.8.1)"
    if ctx.parser == "json":
        return f"{ctx.consumer.capitalize()}, which reads strict JSON"
    return _PARSERS[ctx.parser]


@rule("DSC001", effect="rejected", source=READ, reads="text")
def syntax_error(ctx: Context) -> Iterator[Finding]:
    """The parser refuses the text.

    DeepSpeed reads a file as Hjson from 0.8.1 on (comments, trailing commas and unquoted keys are fine) and
    as strict JSON before; Transformers, Accelerate and Lightning read strict JSON.

    Bad:

        {"train_batch_size": 8,, }

    Good:

        {"train_batch_size": 8}
    """
    refused = (
        problem
        for problem in ctx.document.problems
        if ctx.parser in problem.refused_by and problem.kind not in OWN | BEYOND
    )
    for group in groups(refused):
        yield ctx.spot(
            group[-1]._replace(span=_end(ctx, group[-1])) if closer(group[0]) else group[0],
            _rejects(ctx, group),
            help=_help(ctx, group),
            places=_elsewhere(group),
            fix=_fix(ctx, group),
        )


def _says(group: list[Problem]) -> str:
    first, count = group[0], len(group)
    if closer(first):
        return f"`{group[-1].detail}` is never closed"
    if first.kind == "unclosed":
        return f"a {'comment' if first.detail == '/*' else 'string'} is never closed, {quoted(first.detail)}"
    places = f", in {count} places" if count > 1 else ""
    if json_word(first):
        words = one_of(dict.fromkeys(f"`{python_word(problem)}`" for problem in group), "and")
        return f"{words} {'is' if count == 1 else 'are'} written as in Python{places}"
    return (meaning(first) if count > 1 else says(first)) + places


def _elsewhere(group: list[Problem]) -> list[tuple[str, Span]]:
    """Other places of the same kind; of brackets, where the one is opened and those around it."""
    if not closer(group[0]):
        return [("here too", problem.span) for problem in group[1 : 1 + _SHOWN]]
    around = [("this one is open as well", problem.span) for problem in group[-2 : -2 - _SHOWN : -1]]
    return [(f"`{group[-1].detail}` is opened here", group[-1].span), *around]


_SHOWN = 3


def _end(ctx: Context, bracket: Problem) -> Span:
    """Where the bracket ought to have been closed: behind the last that it holds."""
    document = ctx.document
    length = len(document.text.rstrip())
    for path in (bracket.path, bracket.path[:-1]):
        node = document.node(path)
        if node is not None and node.span.start == bracket.span.start and node.span.end < length:
            return Span(max(node.span.end - 1, 0), node.span.end)
    return Span(max(length - 1, 0), length)


def _help(ctx: Context, group: list[Problem]) -> str | None:
    advice = _advice(group)
    if "hjson" in group[0].refused_by or "yaml" in group[0].refused_by:
        return advice
    if ctx.consumer == "deepspeed":
        return "upgrade to DeepSpeed 0.8.1 or later, or write strict JSON"
    return f"write strict JSON: {advice or 'only plain JSON is read'}"


def _advice(group: list[Problem]) -> str | None:
    if right := closer(group[-1]):
        return f"close it here with `{right}`"
    words = {python_word(problem): json_word(problem) for problem in group if json_word(problem)}
    if words:
        return f"write {', '.join(f'`{right}` for `{word}`' for word, right in words.items())}"
    return _MEND.get(group[0].kind)


def _fix(ctx: Context, group: list[Problem]) -> Fix | None:
    """One fix for all the places."""
    fixes = [fix for problem in group if (fix := repair(ctx, problem))]
    if len(fixes) < 2:
        return fixes[0] if fixes else None
    places = tuple(operation for fix in fixes for operation in fix.operations)
    what = "write JSON's words" if json_word(group[0]) else fixes[0].title
    title = f"{what}, in {len(fixes)} places"
    return Fix(title, places, safe=all(fix.safe for fix in fixes))


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
    "unexpected": "remove it, or write what is missing before it",
    "missing-colon": "put a colon after the key",
    "missing-value": "give the key a value, or remove it",
    "control-character": 'write it as an escape, for example "\\t"',
    "bad-escape": 'write the backslash twice: "\\\\"',
    "bad-number": "write a plain decimal number: no underscores, no leading zero, no hexadecimal prefix",
    "nan": "write a finite number",
    "bom": "save the file without a byte order mark",
    YAML_TEXT: "write it as JSON, or load it in the program and pass the dict",
}


@rule("DSC002", effect="wasteful", source=READ, reads="text")
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
    odd = [p for p in ctx.document.problems if p.refused_by == {"json"} and p.kind not in OWN | BEYOND]
    found = list(causes(odd))
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
    fixes = [repair(ctx, problem) for problem in found]
    places = tuple(operation for fix in fixes if fix for operation in fix.operations)
    return Fix("write strict JSON", places, safe=True)
