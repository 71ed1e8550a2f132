"""Syntax errors, text that only Hjson reads, duplicate keys, and the fixes of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from dsconfig.core.diagnostic import Fix, Replace, Set
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import one_of, quoted
from dsconfig.document import KINDS, Document, Node, Problem, Span
from dsconfig.document.edit import Editor, editor
from dsconfig.document.reader import json_string
from dsconfig.document.text_edit import EditError
from dsconfig.document.tree import YAML_TEXT
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named

# Oddities of the text: which there are, and what messages say of them.

READ = "runtime/config.py:DeepSpeedConfig.__init__"
OWN = frozenset({"duplicate-key", "placeholder", "empty", "root-not-object", "invalid-utf8", "not-text"})
"""Kinds with a rule of their own."""
BEYOND = frozenset({"too-large", "too-deep", "huge-number", "alias-bomb", "lone-surrogate"})
"""Kinds beyond which nothing is claimed of DeepSpeed's verdict."""


def problems(ctx: Context, *kinds: str) -> Iterator[Problem]:
    """The oddities of these kinds, in the order of the text."""
    for problem in ctx.document.problems:
        if problem.kind in kinds:
            yield problem


def repair(ctx: Context, problem: Problem) -> Fix | None:
    """The fix of one oddity, or None where it is doubtful what was meant."""

    return repaired(ctx.document, problem)


def says(problem: Problem) -> str:
    """The oddity in words, with the text that shows it where that helps."""
    said, detail = meaning(problem), problem.detail.strip()
    if not detail or problem.kind in _NO_DETAIL:
        return said
    return f"{said}, {quoted(problem.detail)}" if problem.kind not in _PROSE else f"{said}: {detail}"


def meaning(problem: Problem) -> str:
    """What its kind means."""
    return KINDS[problem.kind].partition(";")[0].partition(":")[0]


_NO_DETAIL = frozenset({"bom", "comment"})
_PROSE = frozenset({"yaml-error", "too-large", "too-deep", "alias-bomb", "not-text", "invalid-utf8"})


def is_binary(ctx: Context) -> bool:
    """Whether it is not text: Hjson takes nearly any bytes for one string, but no config holds a NUL."""
    return not ctx.is_config and "\0" in ctx.document.text


# Text that the parser refuses, or that only DeepSpeed's own parser reads.

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
        if ctx.parser in problem.rejected_by and problem.kind not in OWN | BEYOND
    )
    for group in groups(refused):
        yield ctx.at_problem(
            group[-1]._replace(span=_end(ctx, group[-1])) if closer(group[0]) else group[0],
            _rejects(ctx, group),
            help=_help(ctx, group),
            related_spans=_elsewhere(group),
            fix=_fix_group(ctx, group),
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
    if "hjson" in group[0].rejected_by or "yaml" in group[0].rejected_by:
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


def _fix_group(ctx: Context, group: list[Problem]) -> Fix | None:
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
    odd = [p for p in ctx.document.problems if p.rejected_by == {"json"} and p.kind not in OWN | BEYOND]
    found = list(causes(odd))
    if found and ctx.document.is_readable("hjson"):
        kinds = list(dict.fromkeys(KINDS[problem.kind].split(";")[0] for problem in found))
        more = f" ({len(found)} places)" if len(found) > 1 else ""
        yield ctx.at_problem(
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


# Which oddities of a text are one finding: all of one kind that Hjson reads, all brackets that stay open.

_JSON = {"true": "true", "false": "false", "none": "null", "null": "null"}
_BRACKETS = {"{": "}", "[": "]"}
_WORDS = frozenset({"unquoted-string", "bad-number", "nan", "placeholder"})


def json_word(problem: Problem) -> str | None:
    """What JSON writes for a bare `True`, `False` or `None`; None for any other oddity."""
    if problem.kind != "unquoted-string":
        return None
    return _JSON.get(python_word(problem).lower())


def python_word(problem: Problem) -> str:
    """The bare word itself. Hjson takes a comma behind it for a part of it."""
    return problem.detail.rstrip(", \t")


def closer(problem: Problem) -> str | None:
    """What would close a bracket that stays open; None for any other oddity."""
    return _BRACKETS.get(problem.detail) if problem.kind == "unclosed" else None


def groups(problems: Iterable[Problem]) -> list[list[Problem]]:
    """The oddities that have one cause together; without those that only follow from others."""
    together: dict[object, list[Problem]] = {}
    for number, problem in enumerate(causes(list(problems))):
        together.setdefault(_cause(problem, number), []).append(problem)
    return list(together.values())


def _cause(problem: Problem, number: int) -> object:
    if json_word(problem):
        return "a word of Python"
    if closer(problem):
        return "an open bracket"
    return problem.kind if problem.rejected_by == {"json"} else number


def causes(found: list[Problem]) -> Iterator[Problem]:
    """Without a comma missed behind what is odd itself, and what is odd only by the reader's guess."""
    ends = {problem.span.end for problem in found if problem.kind in _WORDS or closer(problem)}
    open_text = any(problem.kind == "unclosed" and not closer(problem) for problem in found)
    lost = any(problem.kind == "unclosed" for problem in found)
    for problem in found:
        if problem.kind == "missing-comma" and problem.span.start in ends:
            continue
        if closer(problem) and open_text:
            continue
        if problem.kind == "unexpected" and problem.detail != ",":
            if lost:
                continue
            lost = True
        yield problem


# How an oddity of the text is repaired: the very place written as every JSON parser reads it.

_AMBIGUOUS = re.compile(r"[,:{}\[\]\"'\\]|\A(?:true|false|none)\Z", re.IGNORECASE)
"""What makes it doubtful where a word without quotes was meant to end, or whether it is a string at all."""


def repaired(document: Document, problem: Problem) -> Fix | None:
    """The fix of one oddity, or None where nothing can be said of what was meant."""
    start, end = problem.span
    text = document.text[start:end]
    match problem.kind:
        case "comment":
            return Fix("remove the comment", (_without_comment(document, start, end),))
        case "single-quotes" | "multiline-string":
            return _quoted(document, start)
        case "missing-root-braces":
            return _braced(document)
        case "unquoted-string" if right := json_word(problem):
            return _in_json(document, problem, right)
        case "unquoted-string" if _AMBIGUOUS.search(text):
            return None
        case "unquoted-key" | "unquoted-string":
            return _replacement("put it in quotes", start, end, json_string(text))
        case "control-character":
            return _replacement("write it as an escape", start, end, json.dumps(text)[1:-1])
        case "missing-comma" if start in _ends_of_words(document):
            return None  # it would become part of the word
        case "unexpected" if text == "," and _in_object(document, problem):
            return _replacement("remove the comma", start, end, "")
    title, wrong, right = _SIGNS.get(problem.kind, ("", None, ""))
    return _replacement(title, start, end, right) if wrong is not None and text in wrong else None


def _in_json(document: Document, problem: Problem, word: str) -> Fix:
    """The word as JSON writes it. Where Hjson reads the text, it reads a string: a value is changed."""
    start = problem.span.start
    if document.is_readable():
        return Fix(f"write `{word}`", (Set(problem.path, json.loads(word)),), safe=True)
    return _replacement(f"write `{word}`", start, start + len(python_word(problem)), word)


_SIGNS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "trailing-comma": ("remove the comma", (",",), ""),
    "bom": ("remove the byte order mark", ("\ufeff",), ""),
    "missing-comma": ("put a comma there", ("",), ","),
    "missing-colon": ("write a colon", ("=",), ":"),
}
"""What to do, what stands there, and what ought to."""


def _in_object(document: Document, problem: Problem) -> bool:
    around = document.node(problem.path)
    return around is not None and around.kind == "object"


def _replacement(title: str, start: int, end: int, text: str) -> Fix:
    return Fix(title, (Replace(start, end, text),), safe=True)


def _without_comment(document: Document, start: int, end: int) -> Replace:
    """Without its line, where it has one to itself, and without the blanks before it."""
    text = document.text
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    following = re.compile(r"[ \t]*(\r\n?|\n|\Z)").match(text, end)
    if following is None:
        return Replace(start, end, "" if text[start - 1 : start] in ("", " ", "\t", "\n") else " ")
    if not text[line:start].strip():
        return Replace(line, following.end(), "")
    return Replace(line + len(text[line:start].rstrip(" \t")), end, "")


def _quoted(document: Document, start: int) -> Fix | None:
    """The string that begins here in double quotes."""
    found = _strings(document).get(start)
    if found is None:
        return None
    return _replacement("use double quotes", *found[0], json_string(found[1]))


@lru_cache(maxsize=1)
def _strings(document: Document) -> dict[int, tuple[Span, str]]:
    """The keys and strings of a text by where they start."""
    found: dict[int, tuple[Span, str]] = {}
    todo = [document.root] if document.root else []
    while todo:
        node = todo.pop()
        if isinstance(node.value, str):
            found[node.span.start] = node.span, node.value
        found.update((each.key_span.start, (each.key_span, each.key)) for each in node.members)
        todo += (*(member.node for member in node.members), *node.items)
    return found


@lru_cache(maxsize=1)
def _ends_of_words(document: Document) -> frozenset[int]:
    """Where words end that go on to the end of their line."""
    return frozenset(problem.span.end for problem in document.problems if problem.kind in _WORDS)


def _braced(document: Document) -> Fix | None:
    root = document.root
    if root is None:
        return None
    start, end = root.span.start, len(document.text.rstrip())
    newline = "\r\n" if "\r\n" in document.text else "\n"
    edits = (Replace(start, start, f"{{{newline}"), Replace(end, end, f"{newline}}}"))
    return Fix("put the entries in braces", edits, safe=True)


# Keys that are written twice.


@rule(
    "DSC003",
    effect="rejected",
    source="runtime/config_utils.py:dict_raise_error_on_duplicate_keys",
    reads="text",
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
    found = list(problems(ctx, "duplicate-key"))
    if not found:
        return
    refused = ctx.from_file

    for problem, count, fix in duplicates(ctx.document, found, refused=refused):
        yield ctx.at_problem(
            problem,
            f"{named(problem.path)} is written {'twice' if count == 2 else f'{count} times'}: "
            + ("DeepSpeed refuses the file" if refused else "the last one counts"),
            help="keep one of them",
            effect="rejected" if refused else "altered",
            fix=fix,
        )


# Keys that are written more than once in one object, and the fix that keeps the last of each.


class Duplicate(NamedTuple):
    """A key that one object has more than once."""

    problem: Problem
    """Its second entry."""
    times: int
    fix: Fix | None


def duplicates(document: Document, problems: Iterable[Problem], *, refused: bool) -> Iterator[Duplicate]:
    """Each key that is written more than once: one finding, and one fix for all its entries."""
    first = {(problem.path, problem.detail): problem for problem in reversed(list(problems))}
    repairs = _Repairs(document)
    for problem in reversed(list(first.values())):
        parent = document.node(problem.path[:-1])
        same = [] if parent is None else repairs.entries(parent).get(problem.detail, [])
        fix = repairs.fix(parent, same, refused=refused) if parent is not None and len(same) > 1 else None
        yield Duplicate(problem, max(2, len(same)), fix)


class _Repairs:
    """Looks an object's entries up by name, once for each object."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.by_name: dict[int, dict[str, list[int]]] = {}
        self.editor: Editor | None = None

    def entries(self, parent: Node) -> dict[str, list[int]]:
        """The positions of the entries of each name."""
        found = self.by_name.get(id(parent))
        if found is None:
            found = self.by_name[id(parent)] = {}
            for index, member in enumerate(parent.members):
                found.setdefault(member.key, []).append(index)
        return found

    def fix(self, parent: Node, same: list[int], *, refused: bool) -> Fix | None:
        """All entries but the last removed, which every parser that takes the file passes over."""
        *earlier, last = (parent.members[index] for index in same)
        try:
            self.editor = self.editor or editor(self.document)
            edits = self.editor.remove_entries(parent, same[:-1])
        except EditError:
            return None
        kept = last.node.value
        alike = all(type(each.node.value) is type(kept) and each.node.value == kept for each in earlier)
        which = "first" if len(earlier) == 1 else f"first {len(earlier)}"
        title = f"remove the {which} `{last.key}`, keep the last"
        return Fix(title, tuple(Replace(*edit) for edit in edits), safe=alike or not refused)
