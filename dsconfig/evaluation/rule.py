"""The `@rule` decorator, with which a generator function is declared as a rule."""

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

Subject: TypeAlias = (
    "Literal['config', 'keys', 'inference config', 'text', 'template', 'launch file', 'job', 'hostfile',"
    " 'program']"
)
"""The part of a document that a rule examines.

A rule on a `config` is about training. A rule on `keys` examines the keys and values of any config, also of an
`inference config`, by the key table alone.
A rule on `text` also runs without a parsed config. So does a rule on the placeholders of a `template`; if such a rule
finds placeholders, other findings are dropped as consequences. A `launch file` is the file that `accelerate launch`
reads, and a `job` is a script, or the launch file of any other program. A `hostfile` lists hosts, and a `program`
is a Python source without a config.
"""
if TYPE_CHECKING:
    Check = Callable[["Context"], Iterator[Finding]]


class RuleDeclaration(NamedTuple):
    """The arguments of `@rule` and the decorated function."""

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
        """The docstring of the rule's function."""
        return source_docstring(self.check)


_DOCSTRINGS_DROPPED = sys.flags.optimize >= 2
"""Whether Python runs with `-OO` or `PYTHONOPTIMIZE=2`, which drops docstrings."""

DECLARED: dict[str, RuleDeclaration] = {}
"""The rules of the modules imported so far, by code."""


class Rule(NamedTuple):
    """The metadata of a rule, and the module of its generator function."""

    code: str
    name: str
    effect: Effect
    since: str | None
    until: str | None
    general: bool
    """Whether the rule only checks the type of a value, so that more specific rules replace its findings."""
    reads: Subject
    module: str
    triggers: tuple[str, ...] | None
    """Triggers without any of which the rule finds nothing; None if they are unknown, so that the rule always runs."""
    consumers: tuple[str, ...] | None
    """The only consumers for which the rule may find something, or None for all consumers."""
    releases: ReleaseInterval
    """The releases that the rule applies to, from `since` to `until`."""

    @property
    def declared(self) -> RuleDeclaration:
        """The rule's declaration; accessing it imports the rule's module."""
        if self.code not in DECLARED:
            import_module(self.module)
        return DECLARED[self.code]

    @property
    def check(self) -> Check:
        """The rule's generator function."""
        return self.declared.check

    @property
    def doc(self) -> str:
        """The rule's documentation in Markdown."""
        return self.declared.doc

    @property
    def title(self) -> str:
        """The first line of the rule's documentation."""
        return self.doc.strip().split("\n", 1)[0]

    @property
    def source(self) -> str:
        """The DeepSpeed file and symbol on which the rule is based."""
        return self.declared.source

    @property
    def conditions(self) -> tuple[SchemaCondition, ...]:
        """The parts of the rule that a JSON Schema can express."""
        return self.declared.conditions


RULES: dict[str, Rule] = {}
"""All rules, by code."""

Names: TypeAlias = "tuple[str, ...] | None"
Entry: TypeAlias = "tuple[str, str, str, str | None, str | None, bool, Subject, str, Names, Names]"
"""A rule in the index, as a tuple of the fields of `Rule` up to `consumers`."""


def register_index(index: tuple[Entry, ...]) -> None:
    """Fill `RULES` from a generated index."""
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
    """Declare a rule for the releases from `since` to `until`.

    `effect` is the default effect, which a finding may override. `source` is the DeepSpeed file and symbol that the
    rule is based on.

    Raises:
        ValueError: another rule has the same code, or the function has no docstring.
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
        """Register the generator function as a rule."""
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
    """Test that a key is present, and not an "auto" that its section ignores."""

    key: str


class KeyEquals(NamedTuple):
    """Test that a key is present and has one of these values."""

    key: str
    values: tuple[bool | int | str, ...]


class EffectiveValueIs(NamedTuple):
    """Test that the effective value of a key is one of these; an absent key has its default."""

    key: str
    values: tuple[bool | int | str, ...]


class KeyIsBelow(NamedTuple):
    """Test that a key is present and its value is a number below the bound."""

    key: str
    bound: float


class SectionIsNotEmpty(NamedTuple):
    """Test that the section is not empty."""


class KeyMustBeAbsent(NamedTuple):
    """Requirement that a key is absent, with a message that says why."""

    key: str
    message: str


class KeyIsRequired(NamedTuple):
    """Requirement that a key is present."""

    key: str


Test: TypeAlias = "KeyIsWritten | KeyEquals | EffectiveValueIs | KeyIsBelow | SectionIsNotEmpty"
Demand: TypeAlias = "KeyMustBeAbsent | KeyIsRequired"


class SchemaCondition(NamedTuple):
    """Condition on a section: if all tests in `when` are true, the requirement in `then` applies."""

    section: str
    when: tuple[Test, ...]
    then: Demand
    consumers: tuple[str, ...] = ()
    """The consumers that the condition applies to; empty for all consumers."""


def source_docstring(documented: object) -> str:
    """Return a dedented docstring, read from the source file if `python -OO` has dropped it."""
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
