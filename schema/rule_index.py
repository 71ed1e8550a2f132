"""Generate the rule index: the facts about each rule that are needed before its module is imported.

The index lists the paths that a rule reads first. They are recorded by running the rule on an empty config in every
release. A config that sets none of these paths gives the same answers as the empty one, so the rule reports nothing for
it and is not imported. If the rule reports a diagnostic for the empty config of one consumer, or reads the world size,
the index lists that as a condition. A rule that reports anything for every empty config, or whose accesses cannot be
recorded, is always run. A rule that accesses nothing for a consumer reports nothing for it, so the index lists the
other consumers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Any

import dsconfig.rules
from dsconfig.core.releases import LATEST, ReleaseInterval, release_number
from dsconfig.document import read_dict
from dsconfig.evaluation.evaluate import EVENTS
from dsconfig.evaluation.rule import DECLARED, RuleDeclaration
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument, SkipRule
from dsconfig.job.consumers import HUGGING_FACE, LOADERS

_HEAD = '''"""Generated from dsconfig/rules by `make generate`; do not edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsconfig.evaluation.rule import Entry

RULES: tuple[Entry, ...] = (
'''
_Questions = dict[str, set[str] | None]
"""Questions of a rule by consumer; None: it always has to run."""
_PATHS = frozenset(("has", "is_on", "raw", "value"))
_FREE = frozenset(
    "before between consumer default depends_on key release release_name section since".split()  # noqa: SIM905
)
"""Attributes of a context that depend on the release and the consumer only."""
_CONDITIONS = {
    "arguments": "<arguments>",
    "facts": "<facts>",
    "filled": "<job>",
    "from_file": "<file>",
    "is_config": "<no config>",
    "is_elastic": "<elastic>",
    "is_in_repository": "<repository>",
    "is_job": "<no config>",
    "parser": "<yaml>",
    "uses_plugin": "<version>",
}
"""Attributes that equal those of the empty config for most configs, with the condition for the other configs."""


class _UnrecordableQuestion(Exception):  # noqa: N818  control flow, no error
    """The rule accesses something whose value cannot be recorded."""


def render() -> str:
    """Return the source of the index, with the rules in module order."""
    package = dsconfig.rules.__path__[0]
    for module in _rule_modules(package, "dsconfig.rules"):
        import_module(module)
    questions = _questions_by_rule()
    entries = (_index_entry(rule, questions[rule.code]) for rule in DECLARED.values())
    return _HEAD + "".join(f"    {entry!r},\n" for entry in entries) + ")\n"


def _rule_modules(folder: str, package: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        if name.startswith("_"):
            continue
        if name.endswith(".py"):
            yield f"{package}.{name.removesuffix('.py')}"
        elif os.path.isdir(os.path.join(folder, name)):
            yield from _rule_modules(os.path.join(folder, name), f"{package}.{name}")


def _index_entry(rule: RuleDeclaration, questions: _Questions) -> tuple[object, ...]:
    declaration = (rule.code, rule.name, rule.effect, rule.since, rule.until, rule.general, rule.reads)
    consumers = tuple(each for each in LOADERS if questions[each] != set())
    only_for = None if len(consumers) == len(LOADERS) else consumers
    return (*declaration, rule.check.__module__, _merge_triggers(questions), only_for)


def _merge_triggers(questions: _Questions) -> tuple[str, ...] | None:
    """Merge the triggers of all consumers, or return None for a rule that must always run."""
    triggers: set[str] = set()
    for consumer, paths in questions.items():
        if paths is None and consumer == LOADERS[0]:
            return None
        triggers |= {f"<{consumer}>"} if paths is None else paths
    return tuple(sorted(triggers))


def _questions_by_rule() -> dict[str, _Questions]:
    """Return what each rule accesses for each consumer, by code; None if the rule must always run."""
    by_code: dict[str, _Questions] = {
        code: dict.fromkeys(LOADERS)
        if rule.reads in ("launch file", "job", "inference config")
        else {each: set() for each in LOADERS}
        for code, rule in DECLARED.items()
    }
    for consumer in LOADERS:
        for size in (None, _WorldSize()):
            release = 0
            while release <= release_number(LATEST):
                empty = Context(EvaluatedDocument(read_dict({}), consumer, None), release)
                for code, rule in DECLARED.items():
                    questions = by_code[code][consumer]
                    if questions is not None and _applies_to_release(rule, empty):
                        recorded = _record_questions(rule, _RecordingContext(empty, size))
                        by_code[code][consumer] = _merge_questions(questions, recorded, size)
                release = empty.equivalent.intersect(empty.walk.equivalent).last + 1
    return by_code


def _applies_to_release(rule: RuleDeclaration, context: Context) -> bool:
    has_ended = rule.until is not None and context.release > release_number(rule.until)
    return not has_ended and (rule.since is None or context.since(rule.since))


def _merge_questions(questions: set[str], recorded: set[str] | None, world_size: object) -> set[str] | None:
    if recorded is not None:
        return questions | recorded
    return None if world_size is None else questions | {"<world size>"}


def _record_questions(rule: RuleDeclaration, context: _RecordingContext) -> set[str] | None:
    """Return what a rule accesses, or None if it reports a diagnostic or cannot be recorded."""
    try:
        diagnostics = list(rule.check(context))  # type: ignore[arg-type]
    except SkipRule:
        diagnostics = []
    except (_UnrecordableQuestion, TypeError):
        return None
    return None if diagnostics else context.questions


class _RecordingContext:
    """A rule context that records what a rule accesses."""

    def __init__(self, context: Context, world_size: object) -> None:
        self._context, self.world_size = context, world_size
        self.questions: set[str] = set()
        self.data = _RecordingConfig(self.questions)
        self.walk = _RecordingLists(self.questions, EVENTS)
        self.document = _RecordingLists(self.questions, ("problems",))

    def cached(self, compute: Callable[[Any], object]) -> object:
        """Return the result of `compute` without caching, so that each rule's accesses are recorded."""
        return compute(self)

    def overwrite(self, _: str) -> None:
        """Return None, as if no program overwrote the key, because an overwrite only suppresses findings."""

    def __getattr__(self, name: str) -> object:
        """Record an access listed in `_PATHS` or `_CONDITIONS`, allow one in `_FREE`, and reject others."""
        if name in _PATHS:
            return lambda path: self._ask(name, path)
        if name in _FREE:
            return getattr(self._context, name)
        if name == "target":
            self.questions.add("<range>")
            return ReleaseInterval(self._context.release, self._context.release)
        if name == "uses_plugin" and self._context.consumer not in HUGGING_FACE:
            return False  # in every version
        if name in _CONDITIONS:
            self.questions.add(_CONDITIONS[name])
            return getattr(self._context, name)
        raise _UnrecordableQuestion

    def _ask(self, name: str, path: str) -> object:
        self.questions.add(path)
        return getattr(self._context, name)(path)


class _RecordingConfig(dict[str, Any]):
    """An empty config that records which keys are looked up."""

    def __init__(self, questions: set[str]) -> None:
        super().__init__()
        self._questions = questions

    def get(self, key: str, default: Any = None) -> Any:
        self._questions.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self._questions.add(str(key))
        return False

    def _reject(self, *_: object) -> Any:
        raise _UnrecordableQuestion

    __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __or__ = __ror__ = _reject
    keys = values = items = copy = _reject
    __hash__ = None


class _RecordingLists:
    """Empty lists of problems or events that record whether they are read."""

    def __init__(self, questions: set[str], lists: Collection[str]) -> None:
        self._questions, self._lists = questions, lists

    def __getattr__(self, name: str) -> list[object]:
        if name not in self._lists:
            raise _UnrecordableQuestion
        self._questions.add(f"<{name}>")
        return []


class _WorldSize:
    """A world size that makes a rule unrecordable when it is used."""

    def _reject(self, *_: object) -> Any:
        raise _UnrecordableQuestion

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = _reject
    __add__ = __sub__ = __mul__ = __mod__ = __floordiv__ = __rmul__ = __rmod__ = __rfloordiv__ = _reject
    __hash__ = None  # type: ignore[assignment]
