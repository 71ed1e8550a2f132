"""The `@rule` decorator on a generator function: the only way to declare a rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module

from dsconfig.core.diagnostic import Effect, EffectName
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import NEVER, NUMBERS, ReleaseInterval, release_number

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from dsconfig.evaluation.rule_context import Context, Finding


# Code, name (the function's), effect, releases and the docstring (the rule's page) are declared once, at the
# function. `make generate` writes the metadata into `dsconfig/rules/_generated/`, so that a check imports only
# the modules of rules that may find something. Everything else is read from the declaration.

Subject: TypeAlias = "Literal['config', 'text', 'template', 'launch file', 'job', 'hostfile']"
"""The part of a document that a rule examines.

A rule on `text` also runs without a parsed config. So does a rule on the placeholders of a `template`; where
one finds some, other findings are dropped as their consequences. A `launch file` is the file that
`accelerate launch` reads, a `job` the launch file of any other program, or a script. A `hostfile` lists hosts.
"""
if TYPE_CHECKING:
    Check = Callable[["Context"], Iterator[Finding]]


class RuleDeclaration(NamedTuple):
    """The arguments of `@rule` and the function."""

    code: str
    name: str
    effect: EffectName
    since: str | None
    until: str | None
    general: bool
    reads: Subject
    source: str
    check: Check
    conditions: tuple[SchemaCondition, ...]

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return source_docstring(self.check)


_DOCSTRINGS_DROPPED = sys.flags.optimize >= 2
"""Whether Python runs with `-OO` or `PYTHONOPTIMIZE=2`, which drops docstrings."""

DECLARED: dict[str, RuleDeclaration] = {}
"""The rules of the modules imported so far, by code."""


class Rule(NamedTuple):
    """A rule's metadata, and the module of its generator function."""

    code: str
    name: str
    effect: Effect
    since: str | None
    until: str | None
    general: bool
    """Whether the rule only checks a value's type; more specific rules replace its findings."""
    reads: Subject
    module: str
    triggers: tuple[str, ...] | None
    """Triggers: without any of these the rule finds nothing. None: unknown, the rule always runs."""
    consumers: tuple[str, ...] | None
    """The only consumers for which the rule may find something; None: all of them."""
    releases: ReleaseInterval
    """The releases from `since` to `until`."""

    @property
    def declared(self) -> RuleDeclaration:
        """The declaration; imports the rule's module."""
        if self.code not in DECLARED:
            import_module(self.module)
        return DECLARED[self.code]

    @property
    def check(self) -> Check:
        """The generator function."""
        return self.declared.check

    @property
    def doc(self) -> str:
        """The rule's page."""
        return self.declared.doc

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.doc.strip().split("\n", 1)[0]

    @property
    def source(self) -> str:
        """The DeepSpeed file and symbol that the rule is based on."""
        return self.declared.source

    @property
    def conditions(self) -> tuple[SchemaCondition, ...]:
        """The part of the rule that a JSON schema can express."""
        return self.declared.conditions


RULES: dict[str, Rule] = {}
"""All rules, by code."""

Names: TypeAlias = "tuple[str, ...] | None"
Entry: TypeAlias = "tuple[str, str, str, str | None, str | None, bool, Subject, str, Names, Names]"
"""A rule in the index: the fields of `Rule` up to `consumers`."""


def register_index(index: tuple[Entry, ...]) -> None:
    """Fill `RULES` from an index."""
    RULES.clear()
    for code, name, effect, since, until, general, reads, module, triggers, consumers in index:
        releases = ReleaseInterval(
            (NUMBERS.get(since) or release_number(since)) if since else 0,
            (NUMBERS.get(until) or release_number(until)) if until else NEVER,
        )
        RULES[code] = Rule(
            code, name, Effect(effect), since, until, general, reads, module, triggers, consumers, releases
        )


class rule(NamedTuple):  # noqa: N801  used as a decorator
    """Declare a rule that applies to the releases `since` … `until`.

    `effect` is the usual one; a finding may override it. `source` is the DeepSpeed file and symbol that the
    rule
    is based on.

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
    conditions: tuple[SchemaCondition, ...] = ()

    def __call__(self, check: Check) -> Check:
        """Register the generator function."""
        code, effect, since, until, source, general, reads, conditions = self
        if code in DECLARED or not (check.__doc__ or _DOCSTRINGS_DROPPED):
            raise ValueError(f"{code}: a rule needs a code of its own and a docstring")
        name = check.__name__.strip("_").replace("_", "-")
        DECLARED[code] = RuleDeclaration(
            code, name, effect, since, until, general, reads, source, check, conditions
        )
        return check


# Conditions: the part of a rule that a JSON schema can express, so that editors underline the key.
#
# A rule states them beside its code, and its releases apply to them too. Keys are dotted paths from the
# section. Only tests of sibling keys, or of a key directly inside one, are useful: a schema can express more,
# but then an editor shows its message on the whole object. `check` covers the rest.


class KeyIsWritten(NamedTuple):
    """The key is present and not "auto", which some sections drop."""

    key: str


class KeyEquals(NamedTuple):
    """The key is present with one of these values."""

    key: str
    values: tuple[bool | int | str, ...]


class EffectiveValueIs(NamedTuple):
    """The effective value is one of these, one of which is the default: the key may be absent."""

    key: str
    values: tuple[bool | int | str, ...]


class KeyIsBelow(NamedTuple):
    """The key is present with a number below the bound."""

    key: str
    bound: float


class SectionIsNotEmpty(NamedTuple):
    """The section is not empty."""


class KeyMustBeAbsent(NamedTuple):
    """The key must be absent; the message says why."""

    key: str
    message: str


class KeyIsRequired(NamedTuple):
    """The key must be present."""

    key: str


Test: TypeAlias = "KeyIsWritten | KeyEquals | EffectiveValueIs | KeyIsBelow | SectionIsNotEmpty"
Demand: TypeAlias = "KeyMustBeAbsent | KeyIsRequired"


class SchemaCondition(NamedTuple):
    """In the named section: if all tests hold, the demand must hold too."""

    section: str
    when: tuple[Test, ...]
    then: Demand
    consumers: tuple[str, ...] = ()
    """The consumers it applies to; empty for all."""


def source_docstring(documented: object) -> str:
    """Return the docstring with its indentation, read from the source under `python -OO`; empty without one."""
    text = getattr(documented, "__doc__", None)
    return text if isinstance(text, str) else _docstring_from_source(documented)


def _docstring_from_source(documented: object) -> str:
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
