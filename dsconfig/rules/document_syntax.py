"""Syntax errors, Hjson-only syntax and duplicate keys, with fixes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from dsconfig.core.diagnostic import Fix, ReplaceText, SetValue
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import join_alternatives, join_phrases, quote_value
from dsconfig.document import KINDS, Document, TextProblem, TextSpan, TreeNode
from dsconfig.document.apply_operations import editor_for_document
from dsconfig.document.located_tree import YAML_TEXT
from dsconfig.document.read_document import readable_json_string
from dsconfig.document.text_edit import EditError
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._job_programs import program_label
from dsconfig.rules._suggest_section import format_key

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.document.apply_operations import TextEditor

# Problems of the text.

SOURCE = "runtime/config.py:DeepSpeedConfig.__init__"
OTHER_RULES = frozenset(
    {"duplicate-key", "placeholder", "empty", "root-not-object", "invalid-utf8", "not-text"}
)
"""Kinds of text problems that another rule reports."""
LIMITS = frozenset({"too-large", "too-deep", "huge-number", "alias-bomb", "lone-surrogate"})
"""Kinds of text problems for which dsconfig does not predict what DeepSpeed does."""


def problems_of_kind(ctx: Context, *kinds: str) -> Iterator[TextProblem]:
    """Yield the text problems of the given kinds in text order."""
    for problem in ctx.document.problems:
        if problem.kind in kinds:
            yield problem


def describe_problem(problem: TextProblem) -> str:
    """Describe a text problem, quoting the text if that helps."""
    description, detail = describe_kind(problem), problem.detail.strip()
    if not detail or problem.kind in _NO_DETAIL:
        return description
    if problem.kind in _PROSE:
        return f"{description}: {detail}"
    return f"{description}, {quote_value(problem.detail)}"


def describe_kind(problem: TextProblem) -> str:
    """Describe a kind of text problem."""
    return KINDS[problem.kind].partition(";")[0].partition(":")[0]


_NO_DETAIL = frozenset({"bom", "comment"})
_PROSE = frozenset({"yaml-error", "too-large", "too-deep", "alias-bomb", "not-text", "invalid-utf8"})


def is_binary(ctx: Context) -> bool:
    """Return whether a file is binary; Hjson reads almost any bytes as a string, but configs have no NUL bytes."""
    return not ctx.is_config and "\0" in ctx.document.text


# Text that the parser rejects, or that only DeepSpeed's own parser accepts.

_PARSERS = {"hjson": "DeepSpeed's Hjson parser", "json": "a strict JSON parser", "yaml": "the YAML parser"}


def _problem_message(ctx: Context, group: list[TextProblem]) -> str:
    """Describe a group of text problems and the parsers that reject them."""
    if group[0].kind != YAML_TEXT:
        description = _describe_group(group)
        is_noun = group[0].kind != "unclosed" and not json_word(group[0])
        if is_noun:
            return f"the file has {description}: {_parser_clause(ctx, 'it')}"
        return f"{description}: {_parser_clause(ctx, 'the file')}"
    if ctx.consumer != "deepspeed":
        consumer = f"{program_label(ctx)}, which parses strict JSON"
    else:
        consumer = "DeepSpeed, which parses Hjson (strict JSON before 0.8.1) and raises"
    return f"the file is YAML, but its path is passed to {consumer}"


def _parser_clause(ctx: Context, file: str) -> str:
    if ctx.parser == "json" and ctx.consumer == "deepspeed":
        return (
            f"DeepSpeed {ctx.release_name} parses {file} as strict JSON (as Hjson since 0.8.1) and rejects it"
        )
    if ctx.parser == "json":
        return f"{program_label(ctx)} parses {file} as strict JSON and rejects it"
    return f"{_PARSERS[ctx.parser]} rejects {file}"


@rule("DSC001", effect="rejected", source=SOURCE, reads="text")
def syntax_error(ctx: Context) -> Iterator[Finding]:
    """The file has a syntax error.

    Since 0.8.1, DeepSpeed parses a file as Hjson, which allows comments, trailing commas and unquoted keys; before, as
    strict JSON. Transformers, Accelerate and Lightning parse strict JSON.

    Bad:

        {"train_batch_size": 8,, }

    Good:

        {"train_batch_size": 8}
    """
    accepted = (
        OTHER_RULES | LIMITS | (_JSONC if ctx.document.problems and _is_editor_file(ctx) else frozenset())
    )
    rejected = (
        problem
        for problem in ctx.document.problems
        if ctx.parser in problem.rejected_by and problem.kind not in accepted
    )
    for group in group_by_cause(rejected):
        yield ctx.at_problem(
            group[-1]._replace(span=_position_of_missing_bracket(ctx, group[-1]))
            if closing_bracket(group[0])
            else group[0],
            _problem_message(ctx, group),
            help=_help_for_problem(ctx, group),
            related_spans=_other_places(group),
            fix=_fix_group(ctx, group),
        )


_JSONC = frozenset({"comment", "trailing-comma"})
"""Kinds of text problems that are none in `.vscode/launch.json`."""


def _is_editor_file(ctx: Context) -> bool:
    """Return whether a document is a launch file of Visual Studio Code, which only the editor parses."""
    from dsconfig.launch.launch_file_formats import DEBUGGER, detect_launch_format

    launch_format = detect_launch_format(ctx.document.value())
    return launch_format is not None and launch_format.name == DEBUGGER


def _describe_group(group: list[TextProblem]) -> str:
    first, count = group[0], len(group)
    if closing_bracket(first):
        return f"`{group[-1].detail}` is never closed"
    if first.kind == "unclosed":
        return f"a {'comment' if first.detail == '/*' else 'string'} is never closed, {quote_value(first.detail)}"
    places = f" ({count} occurrences)" if count > 1 else ""
    if json_word(first):
        words = join_alternatives(dict.fromkeys(f"`{python_word(problem)}`" for problem in group), "and")
        return f"{words} {'is' if count == 1 else 'are'} Python syntax{places}"
    return (describe_kind(first) if count > 1 else describe_problem(first)) + places


def _other_places(group: list[TextProblem]) -> list[tuple[str, TextSpan]]:
    """Return the other locations of a problem; for an unclosed bracket, those where it and its parents open."""
    if not closing_bracket(group[0]):
        return [("also here", problem.span) for problem in group[1 : 1 + _SHOWN]]
    parents = [
        ("this bracket is not closed either", problem.span) for problem in group[-2 : -2 - _SHOWN : -1]
    ]
    return [(f"`{group[-1].detail}` opens here", group[-1].span), *parents]


_SHOWN = 3


def _position_of_missing_bracket(ctx: Context, bracket: TextProblem) -> TextSpan:
    """Return the position after the last entry, where an unclosed bracket should be closed."""
    document = ctx.document
    end = len(document.text.rstrip())
    for path in (bracket.path, bracket.path[:-1]):
        node = document.node(path)
        if node is not None and node.span.start == bracket.span.start and node.span.end < end:
            end = len(document.text[: node.span.end].rstrip())
            break
    return TextSpan(max(end - 1, 0), end)


def _help_for_problem(ctx: Context, group: list[TextProblem]) -> str | None:
    advice = _advice_for_kind(group)
    if "hjson" in group[0].rejected_by or "yaml" in group[0].rejected_by:
        return advice
    if ctx.consumer == "deepspeed":
        return "upgrade to DeepSpeed 0.8.1 or later, or write strict JSON"
    return f"write strict JSON: {advice or 'the consumer parses only JSON'}"


def _advice_for_kind(group: list[TextProblem]) -> str | None:
    if bracket := closing_bracket(group[-1]):
        return f"close it here with `{bracket}`"
    words = {python_word(problem): json_word(problem) for problem in group if json_word(problem)}
    if words:
        return f"write {', '.join(f'`{right}` for `{word}`' for word, right in words.items())}"
    return _ADVICE.get(group[0].kind)


def _fix_group(ctx: Context, group: list[TextProblem]) -> Fix | None:
    """Return a single fix for all problems of a group, or None if none of them can be fixed."""
    fixes = [fix for problem in group if (fix := fix_problem(ctx.document, problem))]
    if len(fixes) < 2:
        return fixes[0] if fixes else None
    operations = tuple(operation for fix in fixes for operation in fix.operations)
    action = "write JSON literals" if json_word(group[0]) else fixes[0].title
    title = f"{action}, in {len(fixes)} places"
    return Fix(title, operations, safe=all(fix.safe for fix in fixes))


_ADVICE = {
    "comment": "remove the comment",
    "trailing-comma": "remove the comma",
    "missing-comma": "add a comma between the two entries",
    "unquoted-key": "put the key in double quotes",
    "unquoted-string": "put the string in double quotes",
    "single-quotes": "use double quotes",
    "multiline-string": 'write the string on one line in double quotes, with "\\n" for line ends',
    "missing-root-braces": "put the entries in braces",
    "unclosed": "close it",
    "unexpected": "remove it, or write what is missing before it",
    "missing-colon": "add a colon after the key",
    "missing-value": "add a value, or remove the key",
    "control-character": 'write it as an escape sequence, for example "\\t"',
    "bad-escape": 'write the backslash twice: "\\\\"',
    "bad-number": "write a decimal number without underscores, leading zeros or a hexadecimal prefix",
    "nan": "write a finite number",
    "bom": "save the file without a byte order mark",
    YAML_TEXT: "write it as JSON, or load it in your script and pass the dict",
}


@rule("DSC002", effect="wasteful", source=SOURCE, reads="text")
def only_hjson(ctx: Context) -> Iterator[Finding]:
    """The file is Hjson, which DeepSpeed accepts but strict JSON parsers do not.

    Since 0.8.1, `DeepSpeedConfig` accepts comments, trailing commas, unquoted keys and similar syntax. Transformers,
    Accelerate, Lightning, the autotuner and `init_inference` parse the same file as strict JSON and fail.

    Bad:

        {"train_batch_size": 8,}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    if ctx.parser != "hjson" or not ctx.is_config:
        return
    not_json = [
        problem
        for problem in ctx.document.problems
        if problem.rejected_by == {"json"} and problem.kind not in OTHER_RULES | LIMITS
    ]
    places = list(root_causes(not_json))
    if places and ctx.document.is_readable("hjson"):
        kinds = list(dict.fromkeys(KINDS[problem.kind].split(";")[0] for problem in places))
        more = f" ({len(places)} occurrences)" if len(places) > 1 else ""
        yield ctx.at_problem(
            places[0],
            f"the file has {join_phrases(kinds, ' and ')}{more}: DeepSpeed parses it as Hjson, but Transformers, "
            "Accelerate, Lightning and DeepSpeed's autotuner require strict JSON",
            help="write strict JSON if a program other than DeepSpeed itself loads the file",
            fix=_fix_for_strict_json(ctx, places),
        )


def _fix_for_strict_json(ctx: Context, places: list[TextProblem]) -> Fix | None:
    """Return a fix that removes trailing commas and byte order marks, or None if there are other problems.

    Comments and unquoted text are deliberate, so they get no fix.
    """
    if any(problem.kind not in ("trailing-comma", "bom") for problem in places):
        return None
    fixes = [fix_problem(ctx.document, problem) for problem in places]
    operations = tuple(operation for fix in fixes if fix for operation in fix.operations)
    return Fix("write strict JSON", operations, safe=True)


# Groups of problems that are one diagnostic: all of one kind that Hjson accepts, all unclosed brackets.

_JSON = {"true": "true", "false": "false", "none": "null", "null": "null"}
_BRACKETS = {"{": "}", "[": "]"}
_WORDS = frozenset({"unquoted-string", "bad-number", "nan", "placeholder"})


def json_word(problem: TextProblem) -> str | None:
    """Return the JSON literal for an unquoted `True`, `False` or `None`; None for other problems."""
    if problem.kind != "unquoted-string":
        return None
    return _JSON.get(python_word(problem).lower())


def python_word(problem: TextProblem) -> str:
    """Return an unquoted word without the trailing comma that Hjson reads as part of it."""
    return problem.detail.rstrip(", \t")


def closing_bracket(problem: TextProblem) -> str | None:
    """Return the bracket that closes an unclosed one; None for other problems."""
    return _BRACKETS.get(problem.detail) if problem.kind == "unclosed" else None


def group_by_cause(problems: Iterable[TextProblem]) -> list[list[TextProblem]]:
    """Group text problems by cause, omitting those that merely result from another."""
    by_cause: dict[object, list[TextProblem]] = {}
    for number, problem in enumerate(root_causes(list(problems))):
        by_cause.setdefault(_cause_of_problem(problem, number), []).append(problem)
    return list(by_cause.values())


def _cause_of_problem(problem: TextProblem, number: int) -> object:
    if json_word(problem):
        return "a Python literal"
    if closing_bracket(problem):
        return "an open bracket"
    return problem.kind if problem.rejected_by == {"json"} else number


def root_causes(problems: list[TextProblem]) -> Iterator[TextProblem]:
    """Yield the text problems that do not merely result from another one.

    A missing comma after a word that is itself a problem is left out, as is everything after the parser has lost track.
    """
    ends = {problem.span.end for problem in problems if problem.kind in _WORDS or closing_bracket(problem)}
    open_text = any(problem.kind == "unclosed" and not closing_bracket(problem) for problem in problems)
    lost = any(problem.kind == "unclosed" for problem in problems)
    for problem in problems:
        if problem.kind == "missing-comma" and problem.span.start in ends:
            continue
        if closing_bracket(problem) and open_text:
            continue
        if problem.kind == "unexpected" and problem.detail != ",":
            if lost:
                continue
            lost = True
        yield problem


# Repairs: rewrite the place so that every JSON parser reads it.

_AMBIGUOUS = re.compile(r"[,:{}\[\]\"'\\]|\A(?:true|false|none)\Z", re.IGNORECASE)
"""Characters and words that leave it unclear where an unquoted string ends, or whether the text is a string."""


def fix_problem(document: Document, problem: TextProblem) -> Fix | None:
    """Return a fix for a text problem, or None if the intended text is unclear."""
    start, end = problem.span
    text = document.text[start:end]
    match problem.kind:
        case "comment":
            return Fix("remove the comment", (_remove_comment(document, start, end),))
        case "single-quotes" | "multiline-string":
            return _quote_with_double_quotes(document, start)
        case "missing-root-braces":
            return _wrap_in_braces(document)
        case "unquoted-string" if right := json_word(problem):
            return _replace_with_json_literal(document, problem, right)
        case "unquoted-string" if _AMBIGUOUS.search(text):
            return None
        case "unquoted-key" | "unquoted-string":
            return _replace_text("add quotes", start, end, readable_json_string(text))
        case "control-character":
            return _replace_text("write it as an escape sequence", start, end, json.dumps(text)[1:-1])
        case "missing-comma" if start in _unquoted_word_ends(document):
            return None  # it would become part of the word
        case "unexpected" if text == "," and _is_in_object(document, problem):
            return _replace_text("remove the comma", start, end, "")
    title, wrong, right = _SIGNS.get(problem.kind, ("", None, ""))
    return _replace_text(title, start, end, right) if wrong is not None and text in wrong else None


def _replace_with_json_literal(document: Document, problem: TextProblem, word: str) -> Fix:
    """Return a fix that replaces an unquoted word with its JSON literal.

    If Hjson can parse the document, the word is a string value, so the fix sets that value instead of editing the text.
    """
    start = problem.span.start
    if document.is_readable():
        return Fix(f"write `{word}`", (SetValue(problem.path, json.loads(word)),), safe=True)
    return _replace_text(f"write `{word}`", start, start + len(python_word(problem)), word)


_SIGNS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "trailing-comma": ("remove the comma", (",",), ""),
    "bom": ("remove the byte order mark", ("\ufeff",), ""),
    "missing-comma": ("add a comma", ("",), ","),
    "missing-colon": ("replace with a colon", ("=",), ":"),
}
"""Title of the fix, possible wrong texts, and the right text, by kind of problem."""


def _is_in_object(document: Document, problem: TextProblem) -> bool:
    parent = document.node(problem.path)
    return parent is not None and parent.kind == "object"


def _replace_text(title: str, start: int, end: int, text: str) -> Fix:
    return Fix(title, (ReplaceText(start, end, text),), safe=True)


def _remove_comment(document: Document, start: int, end: int) -> ReplaceText:
    """Return an edit that removes a comment, the blanks before it, and its line if it becomes empty."""
    text = document.text
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    following = re.compile(r"[ \t]*(\r\n?|\n|\Z)").match(text, end)
    if following is None:
        return ReplaceText(start, end, "" if text[start - 1 : start] in ("", " ", "\t", "\n") else " ")
    if not text[line:start].strip():
        return ReplaceText(line, following.end(), "")
    return ReplaceText(line + len(text[line:start].rstrip(" \t")), end, "")


def _quote_with_double_quotes(document: Document, start: int) -> Fix | None:
    """Return a fix that puts the string at an offset in double quotes, or None if there is none."""
    entry = _strings_by_offset(document).get(start)
    if entry is None:
        return None
    span, text = entry
    return _replace_text("use double quotes", *span, readable_json_string(text))


@lru_cache(maxsize=1)
def _strings_by_offset(document: Document) -> dict[int, tuple[TextSpan, str]]:
    """Return the span and text of each key and string by its start offset."""
    strings: dict[int, tuple[TextSpan, str]] = {}
    todo = [document.root] if document.root else []
    while todo:
        node = todo.pop()
        if isinstance(node.value, str):
            strings[node.span.start] = node.span, node.value
        strings.update((each.key_span.start, (each.key_span, each.key)) for each in node.members)
        todo += (*(member.node for member in node.members), *node.items)
    return strings


@lru_cache(maxsize=1)
def _unquoted_word_ends(document: Document) -> frozenset[int]:
    """Return the end of each unquoted word, which is the end of its line."""
    return frozenset(problem.span.end for problem in document.problems if problem.kind in _WORDS)


def _wrap_in_braces(document: Document) -> Fix | None:
    root = document.root
    if root is None:
        return None
    start, end = root.span.start, len(document.text.rstrip())
    newline = "\r\n" if "\r\n" in document.text else "\n"
    edits = (ReplaceText(start, start, f"{{{newline}"), ReplaceText(end, end, f"{newline}}}"))
    return Fix("add braces around the entries", edits, safe=True)


# Duplicate keys.


@rule(
    "DSC003",
    effect="rejected",
    source="runtime/config_utils.py:dict_raise_error_on_duplicate_keys",
    reads="text",
)
def duplicate_key(ctx: Context) -> Iterator[Finding]:
    """An object has the same key twice.

    DeepSpeed rejects a file with duplicate keys. If Transformers, Accelerate, Lightning or a script loads the
    file, the last value silently wins.

    Bad:

        {"train_batch_size": 8, "train_batch_size": 16}

    Good:

        {"train_batch_size": 16}
    """
    repeated = list(problems_of_kind(ctx, "duplicate-key"))
    if not repeated:
        return
    rejected = ctx.from_file
    for problem, count, fix in duplicate_keys(ctx.document, repeated, rejected=rejected):
        yield ctx.at_problem(
            problem,
            f"{format_key(problem.path)} occurs {'twice' if count == 2 else f'{count} times'} in one object: "
            + ("DeepSpeed rejects the file" if rejected else "the last value wins"),
            help="keep one of them",
            effect="rejected" if rejected else "altered",
            fix=fix,
        )


# The fix keeps the last entry of each key.


class DuplicateKey(NamedTuple):
    """A key that occurs more than once in an object."""

    problem: TextProblem
    """Problem at the second entry of the key."""
    occurrences: int
    fix: Fix | None


def duplicate_keys(
    document: Document, problems: Iterable[TextProblem], *, rejected: bool
) -> Iterator[DuplicateKey]:
    """Yield each repeated key once, with a fix for all its entries."""
    first = {(problem.path, problem.detail): problem for problem in reversed(list(problems))}
    repairs = _EntryLookup(document)
    for problem in reversed(list(first.values())):
        parent = document.node(problem.path[:-1])
        entries = [] if parent is None else repairs.entries(parent).get(problem.detail, [])
        fix = None
        if parent is not None and len(entries) > 1:
            fix = repairs.fix(parent, entries, rejected=rejected)
        yield DuplicateKey(problem, max(2, len(entries)), fix)


class _EntryLookup:
    """Looks up the entries of an object by name, with a cache per object."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.by_name: dict[int, dict[str, list[int]]] = {}
        self.editor: TextEditor | None = None

    def entries(self, parent: TreeNode) -> dict[str, list[int]]:
        """Return the indices of an object's entries for each name."""
        indices = self.by_name.get(id(parent))
        if indices is None:
            indices = self.by_name[id(parent)] = {}
            for index, member in enumerate(parent.members):
                indices.setdefault(member.key, []).append(index)
        return indices

    def fix(self, parent: TreeNode, entries: list[int], *, rejected: bool) -> Fix | None:
        """Return a fix that keeps only the last entry, which is the one that parsers use if they accept duplicates."""
        *earlier, last = (parent.members[index] for index in entries)
        try:
            self.editor = self.editor or editor_for_document(self.document)
            edits = self.editor.remove_entries(parent, entries[:-1])
        except EditError:
            return None
        kept = last.node.value
        is_same_value = all(
            type(each.node.value) is type(kept) and each.node.value == kept for each in earlier
        )
        which = "first" if len(earlier) == 1 else f"first {len(earlier)}"
        title = f"remove the {which} `{last.key}`, keep the last"
        return Fix(title, tuple(ReplaceText(*edit) for edit in edits), safe=is_same_value or not rejected)
