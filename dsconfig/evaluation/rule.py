"""The one place to declare a rule: `@rule` on a generator function.

Code, name (the function's), effect, releases and the docstring, which is the rule's page, are all said once,
here; `explain`, the reference pages, SARIF's rule table and the tests read them from `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.diagnostic import Effect, EffectName
from dsconfig.releases import NEVER, Interval, number

Subject: TypeAlias = Literal["config", "text", "template", "launch file"]
"""What a rule looks at.

A rule of the `text` runs also where there is no config to look at; so does the one of a `template`'s
placeholders, and where it finds some, all else follows from them. The `launch file` is what
`accelerate launch` reads, which is not a config.
"""

if TYPE_CHECKING:
    from dsconfig.evaluation.condition import Condition
    from dsconfig.evaluation.context import Context, Finding

    Check = Callable[["Context"], Iterator[Finding]]


class Rule(NamedTuple):
    """A rule: its names, the effect that its findings usually have, and the generator that finds them."""

    code: str
    name: str
    effect: Effect
    since: str | None
    until: str | None
    source: str
    doc: str
    check: Check
    releases: Interval
    """From `since` to `until`."""
    general: bool
    """Speaks of a value's type alone, and gives way to a rule that knows more of the same value."""
    reads: Subject
    conditions: tuple[Condition, ...]
    """What of the rule a JSON schema can say."""

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.doc.strip().split("\n", 1)[0]


RULES: dict[str, Rule] = {}
"""Every rule by its code."""


def rule(
    code: str,
    *,
    effect: EffectName,
    since: str | None = None,
    until: str | None = None,
    source: str = "",
    general: bool = False,
    reads: Subject = "config",
    conditions: tuple[Condition, ...] = (),
) -> Callable[[Check], Check]:
    """Register a rule that applies to the releases `since` … `until`.

    `effect` is the usual one; a finding may carry another where the release makes it so. `source` is the
    DeepSpeed file and symbol on which the rule rests.

    Raises:
        ValueError: the code is taken, or the function has no docstring.
    """

    def register(check: Check) -> Check:
        if code in RULES or not check.__doc__:
            raise ValueError(f"{code}: a rule needs a code of its own and a docstring")
        RULES[code] = Rule(
            code=code,
            name=check.__name__.strip("_").replace("_", "-"),
            effect=Effect(effect),
            since=since,
            until=until,
            source=source,
            doc=check.__doc__,
            check=check,
            releases=Interval(number(since) if since else 0, number(until) if until else NEVER),
            general=general,
            reads=reads,
            conditions=conditions,
        )
        return check

    return register
