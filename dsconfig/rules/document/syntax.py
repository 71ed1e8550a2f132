"""Text that the parser refuses, or that only DeepSpeed's own parser reads."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix
from dsconfig.document import KINDS, Problem
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.document._oddities import BEYOND, OWN, READ, repair, says

_PARSERS = {"hjson": "DeepSpeed's Hjson parser", "json": "a strict JSON parser", "yaml": "the YAML parser"}


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
    for problem in ctx.document.problems:
        if ctx.parser in problem.refused_by and problem.kind not in OWN | BEYOND:
            yield ctx.spot(
                problem,
                f"{says(problem)}: refused by {_reader(ctx)}",
                help=_help(ctx, problem),
                fix=repair(ctx, problem),
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
    found = [p for p in ctx.document.problems if p.refused_by == {"json"} and p.kind not in OWN | BEYOND]
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
