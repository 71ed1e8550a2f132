"""Words, spellings, openings of docstrings and names that are not used in this project.

The reader is an engineer who knows DeepSpeed and Python, but not this project. CONTRIBUTING.md explains the style, and
the glossary in ARCHITECTURE.md has the term for each concept.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dsconfig.rules import FORMER_NAMES
from tests.readme import DOCS, ROOT

PRIVATE: dict[str, str] = {
    r"refus(e|es|ed|ing|al|als)": "reject, raise",
    r"misspelt": "typo, unknown key",
    r"nobody|whoever": "name who acts, or use the passive",
    r"heed(s|ed|ing)?": "follow, use, respect",
    r"in vain": "without effect",
    r"hangs? on": "depend on",
    r"mend(s|ed|ing)?": "fix",
    r"pass(es|ed)? over": "skip, ignore",
    r"goes by": "is called, follows",
    r"gives? way": "yield, is dropped",
    r"(stands?|stood) (beside|there|in it)": "is next to, is in",
    r"laid (out )?beside": "next to",
    r"put together": "combine, gather, build",
    r"no more than that": "only",
    r"what there is": "name it",
    r"of its own accord": "by default",
    r"as it (is|was|does) anyway": "already",
    r"and be it": "even if",
    r"who reads (it|the|a)": "consumer",
    r"say(s)? (so|no more)": "name what it states",
    r"nothing to complain of": "no problems found",
    r"a walk through": "architecture",
}
"""Idioms, as regular expressions, with what to write instead."""

BRITISH: dict[str, str] = {
    r"(behavi|col|fav|hon|lab|neighb|rum|vap|harb)our(s|ed|ing|able|ite|ites)?": "-or",
    r"(analy|cataly)s(e|ed|es|er|ers|ing)": "-yze",
    r"(initial|serial|synchron|recogn|quant|optim|normal|organ|minim|maxim|summar|visual|parallel|token|util|general|special"
    r"|custom|real|final|emphas|categor|character|priorit|author|standard|modern|random|material|memo|penal|local|central"
    r"|critic|apolog|stabil|capital|item|harmon|formal|regular)is(e|ed|es|ing|able|ation|ations|er|ers)": "-ize",
    r"(model|label|travel|signal|channel|level|equal|total|marshal)l(ed|ing|er|ers)": "one l",
    r"(cent|met|fib|theat)re(s|d)?": "-er",
    r"(licen|defen|offen|preten)ce(s)?": "-se",
    r"(catalog|dialog|analog|prolog)ue(s|d)?": "-og",
    r"grey(s|ed)?": "gray",
    r"(judge|acknowledge)ment(s)?": "-gment",
    r"artefact(s)?": "artifact",
    r"(whil|among|amid)st": "while, among, amid",
    r"(learn|spel|burn|dream|leap)t": "-ed",
    r"(fulfil|enrol|instal)(s|ment)?": "-ll",
    r"programme(s)?": "program",
    r"the other way round": "the other way around",
}
"""British spellings, as regular expressions, with the American ending or word."""

OPENINGS = re.compile(r"(Those|Of|It|That of|What|These|They|This|Whether or not|From where|In whose)\b")
"""A docstring begins with an imperative or a noun phrase that can stand alone."""

NAMES = frozenset(
    ["asked", "begun", "found", "held", "judged", "meant", "mended", "ours", "own", "said", "seen", "told"]
)
"""Variables, arguments, functions and classes are named after what they hold or do."""

SOURCES = (
    "dsconfig",
    "elastic",
    "schema",
    "site/pages",
    "site/generate.py",
    "site/content_security_policy.py",
)
GENERATED = ("_prose.py", "_table.py", "_index.py", "dicts.py")
"""Generated from docstrings that are checked where they are written."""

FOLDERS = ("contributing", "guides", "planners", "reference")
TEXTS = (
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob(".github/**/*.y*ml")),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
    *sorted(
        path
        for folder in ("contributing", "guides", "planners", "reference")
        for path in (DOCS / folder).glob("*.md")
    ),
    DOCS / "index.md",
    *sorted((ROOT / "editors").glob("vscode/*.md")),
    *sorted((ROOT / "tests" / "cases").rglob("*.json")),
)
"""Documents and the messages of every rule."""

WORDS = re.compile(rf"\b(?:{'|'.join([*PRIVATE, *BRITISH])})\b", re.IGNORECASE)
ADVICE = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in {**PRIVATE, **BRITISH}.items()]
PUBLIC_NAMES = frozenset([*FORMER_NAMES, "allgather-size-refused", "refused", "commit-refused"])
"""Names that users and other nodes already depend on.

Former and current rule names, which stay valid in settings and comments; a value in the JSON of `dsconfig resolve`,
`show` and `migrate` and of the elastic job's state; an event in the elastic agent's log.
"""
QUOTED_NAME = re.compile(rf"`(?:{'|'.join(map(re.escape, sorted(PUBLIC_NAMES)))})`")
"""A public name in a docstring is in backticks."""
PUBLIC_FIELDS = frozenset([("dsconfig/model/build_section.py", "meant")])
"""`dsconfig.model.Problem.meant` is read by users of `BuildError.problems`."""
NETWORK = re.compile(r"connections? (?:is |was )?$", re.IGNORECASE)
"""The operating system's own term is "connection refused"."""


class Hit(NamedTuple):
    """A word to replace."""

    path: Path
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{relative(self.path)}:{self.line}: {self.text!r}: {self.advice}"


def relative(path: Path) -> str:
    """Return a path in the repository as users see it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def words(path: Path, line: int, text: str) -> Iterator[Hit]:
    """Yield the words in a text that starts at a line."""
    for match in WORDS.finditer(text):
        if NETWORK.search(text[: match.start()]):
            continue
        advice = next(advice for pattern, advice in ADVICE if pattern.fullmatch(match[0]))
        yield Hit(path, line + text.count("\n", 0, match.start()), match[0], advice)


def in_text(path: Path) -> Iterator[Hit]:
    """Yield the hits of a document."""
    yield from words(path, 1, path.read_text("utf-8"))


def in_source(path: Path) -> Iterator[Hit]:
    """Yield the hits in strings, comments, docstrings and names of a Python file."""
    text = path.read_text("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from words(path, token.start[0], token.string)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))) if OPENINGS.match(docstring.strip()):
                opening = docstring.strip().split("\n")[0][:60]
                yield Hit(path, node.lineno, opening, "begin with an imperative or a noun phrase")
            case ast.Constant(value=str(string)) if string not in PUBLIC_NAMES:
                yield from words(path, node.lineno, QUOTED_NAME.sub("", string))
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield from names(path, node.lineno, name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield from names(path, node.lineno, name)


def names(path: Path, line: int, name: str) -> Iterator[Hit]:
    """Yield a hit if a name does not say what it stands for."""
    if name.strip("_").lower() in NAMES and (relative(path), name) not in PUBLIC_FIELDS:
        yield Hit(path, line, name, "name it after its contents")


def python_files() -> list[Path]:
    """List the source files that people write."""
    roots = (ROOT / name for name in SOURCES)
    files = (file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*.py"))))
    return [file for file in files if file.name not in GENERATED]


def test_sources() -> None:
    hits = [str(hit) for path in python_files() for hit in in_source(path)]
    assert not hits, "\n" + "\n".join(hits)


def test_documents_and_messages() -> None:
    hits = [str(hit) for path in TEXTS for hit in in_text(path)]
    assert not hits, "\n" + "\n".join(hits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DeepSpeed refuses the file", ["refuses"]),
        ("the socket's connection refused", []),
        ("initialised by a neighbour, whose behaviour", ["initialised", "neighbour", "behaviour"]),
        ("initialized by a neighbor", []),
        ("a promise, an exercise and parallelism", []),
        ("`offload_optimiser` is not a key", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert [hit.text for hit in words(ROOT / "README.md", 1, text)] == expected


def test_openings_and_names(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""What a module is."""\nfound = 1\ndef said(own: int) -> None:\n    """Return nothing."""\n'
        'kind = "refused"\ntext = "the value is refused"\nmisspelt = "misspelt"\n'
    )
    assert {hit.text for hit in in_source(path)} == {
        "What a module is.",
        "found",
        "said",
        "own",
        "refused",
        "misspelt",
    }
