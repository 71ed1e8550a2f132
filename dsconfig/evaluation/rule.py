"""`@rule` on a generator function: the only way to declare a rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.core.diagnostic import Effect, EffectName
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import NEVER, NUMBERS, Interval, number

if TYPE_CHECKING:
    from dsconfig.evaluation.context import Context, Finding


# The one place to declare a rule: `@rule` on a generator function.
#
# Code, name (the function's), effect, releases and the docstring, which is the rule's page, are all said
# once, there. `make generate` writes what is to be known of a rule before it runs into
# `dsconfig/rules/_generated/`, so that a check imports only the modules whose rules may find something; all
# else is read where it is declared.

Subject: TypeAlias = Literal["config", "text", "template", "launch file", "job"]
"""What a rule looks at.

A rule of the `text` runs also where there is no config to look at; so does the one of a `template`'s
placeholders, and where it finds some, all else follows from them. The `launch file` is what
`accelerate launch` reads, which is not a config; the `job` that of any other program, or a script.
"""
if TYPE_CHECKING:
    Check = Callable[["Context"], Iterator[Finding]]


class Declaration(NamedTuple):
    """What `@rule` says."""

    code: str
    name: str
    effect: EffectName
    since: str | None
    until: str | None
    general: bool
    reads: Subject
    source: str
    check: Check
    conditions: tuple[Condition, ...]

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return docstring(self.check)


_DOCSTRINGS_DROPPED = sys.flags.optimize >= 2
"""Whether Python runs with `-OO` or `PYTHONOPTIMIZE=2`."""

DECLARED: dict[str, Declaration] = {}
"""By code, the rules of the modules that are imported so far."""


class Rule(NamedTuple):
    """A rule: its names, the effect that its findings usually have, and where its generator stands."""

    code: str
    name: str
    effect: Effect
    since: str | None
    until: str | None
    general: bool
    """Speaks of a value's type alone, and gives way to a rule that knows more of the same value."""
    reads: Subject
    module: str
    asks: tuple[str, ...] | None
    """What it asks for first: where none of it is there, it finds nothing. None: that is not known."""
    releases: Interval
    """From `since` to `until`."""

    @property
    def declared(self) -> Declaration:
        """What its module says, which is imported for it."""
        if self.code not in DECLARED:
            import_module(self.module)
        return DECLARED[self.code]

    @property
    def check(self) -> Check:
        """The generator that finds."""
        return self.declared.check

    @property
    def doc(self) -> str:
        """The page."""
        return self.declared.doc

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.doc.strip().split("\n", 1)[0]

    @property
    def source(self) -> str:
        """The DeepSpeed file and symbol on which it rests."""
        return self.declared.source

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What of it a JSON schema can say."""
        return self.declared.conditions


RULES: dict[str, Rule] = {}
"""Every rule by its code."""

Entry: TypeAlias = "tuple[str, str, str, str | None, str | None, bool, Subject, str, tuple[str, ...] | None]"
"""A rule in the index: the fields of `Rule` up to `asks`."""


def know(index: tuple[Entry, ...]) -> None:
    """Make `RULES` what an index says."""
    RULES.clear()
    for code, name, effect, since, until, general, reads, module, asks in index:
        releases = Interval(
            (NUMBERS.get(since) or number(since)) if since else 0,
            (NUMBERS.get(until) or number(until)) if until else NEVER,
        )
        RULES[code] = Rule(code, name, Effect(effect), since, until, general, reads, module, asks, releases)


class rule(NamedTuple):  # noqa: N801  used as a decorator
    """Declare a rule that applies to the releases `since` … `until`.

    `effect` is the usual one; a finding may carry another where the release makes it so. `source` is the
    DeepSpeed file and symbol on which the rule rests.

    Raises:
        ValueError: the code is taken, or the function has no docstring.
    """

    code: str
    effect: EffectName
    since: str | None = None
    until: str | None = None
    source: str = ""
    general: bool = False
    reads: Subject = "config"
    conditions: tuple[Condition, ...] = ()

    def __call__(self, check: Check) -> Check:
        """Declare the generator."""
        code, effect, since, until, source, general, reads, conditions = self
        if code in DECLARED or not (check.__doc__ or _DOCSTRINGS_DROPPED):
            raise ValueError(f"{code}: a rule needs a code of its own and a docstring")
        name = check.__name__.strip("_").replace("_", "-")
        DECLARED[code] = Declaration(
            code, name, effect, since, until, general, reads, source, check, conditions
        )
        return check


# What a rule demands of a section, so far as a JSON schema can say it where an editor underlines the key.
#
# A rule states it beside its code, and its dates hold for it too. Keys are dotted paths from the section.
# Only tests of sibling keys, or of a key right inside one, make sense: a schema can say more, but then its
# message lands on the whole object. The rest is `check`'s.


class Written(NamedTuple):
    """The key is there, and not "auto", which may be dropped."""

    key: str


class Is(NamedTuple):
    """The key is there with one of these values."""

    key: str
    values: tuple[bool | int | str, ...]


class Counts(NamedTuple):
    """The key has one of these values, of which its default is one: it may be left out."""

    key: str
    values: tuple[bool | int | str, ...]


class Less(NamedTuple):
    """The key is there with a number below the bound."""

    key: str
    bound: float


class NotEmpty(NamedTuple):
    """The section holds something."""


class Absent(NamedTuple):
    """The key must not be there; the message says why."""

    key: str
    message: str


class Needed(NamedTuple):
    """The key must be there."""

    key: str


Test: TypeAlias = "Written | Is | Counts | Less | NotEmpty"
Demand: TypeAlias = "Absent | Needed"


class Condition(NamedTuple):
    """In the section of this name: when all tests hold, so must the demand."""

    section: str
    when: tuple[Test, ...]
    then: Demand
    consumers: tuple[str, ...] = ()
    """Who must be reading; empty for all."""


# The docstring of a function or class, also where Python has dropped it (`python -OO`).


def docstring(documented: object) -> str:
    """The docstring with its indentation; read from the source where the interpreter keeps none.

    It is empty where there is neither.
    """
    text = getattr(documented, "__doc__", None)
    return text if isinstance(text, str) else _from_source(documented)


def _from_source(documented: object) -> str:
    import ast
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(documented))  # type: ignore[arg-type]
    except (OSError, TypeError):  # only byte code is installed
        return ""
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.FunctionDef | ast.ClassDef):
        return ""
    return ast.get_docstring(body, clean=False) or ""
