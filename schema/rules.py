"""The text of `dsconfig/rules/_index.py`: what is to be known of each rule before its module is imported.

What a rule asks for first is found out by running it on an empty config in every release, while each question
is noted. A config in which there is nothing of all that gives the same answers, so that the rule says of it
what it says of the empty one: nothing. Where it finds something for one consumer, or asks what the world size
is, the rule asks for that; one that finds something anyway, or whose questions cannot be noted, has to run
always.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Any

import dsconfig.rules
from dsconfig.consumers import LOADERS
from dsconfig.core.releases import LATEST, Interval, number
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, SkipRule, Source
from dsconfig.evaluation.evaluate import EVENTS
from dsconfig.evaluation.rule import DECLARED, Declaration

_HEAD = '''"""Generated from dsconfig/rules by `make generate`; do not edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsconfig.evaluation.rule import Entry

RULES: tuple[Entry, ...] = (
'''
_PATHS = frozenset(("has", "is_on", "raw", "value"))
_FREE = frozenset(
    "before between consumer default depends_on key release release_name section since".split()  # noqa: SIM905
)
"""What depends on nothing but the release and the consumer."""
_USUAL = {
    "facts": "<facts>",
    "filled": "<job>",
    "from_file": "<file>",
    "is_config": "<no config>",
    "is_elastic": "<elastic>",
    "is_job": "<no config>",
    "parser": "<yaml>",
    "uses_plugin": "<version>",
}
"""What is for most configs as it is for the empty one, and what to ask for where it is not."""


class _Everything(Exception):  # noqa: N818  control flow, no error
    """The rule asks for more than can be noted."""


def text() -> str:
    """The whole index, in the order in which the modules are found."""
    package = dsconfig.rules.__path__[0]
    for module in _modules(package, "dsconfig.rules"):
        import_module(module)
    first = _first_questions()
    return _HEAD + "".join(f"    {_entry(rule, first[rule.code])!r},\n" for rule in DECLARED.values()) + ")\n"


def _modules(folder: str, package: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        if name.startswith("_"):
            continue
        if name.endswith(".py"):
            yield f"{package}.{name.removesuffix('.py')}"
        elif os.path.isdir(os.path.join(folder, name)):
            yield from _modules(os.path.join(folder, name), f"{package}.{name}")


def _entry(rule: Declaration, asks: set[str] | None) -> tuple[object, ...]:
    known = (rule.code, rule.name, rule.effect, rule.since, rule.until, rule.general, rule.reads)
    return (*known, rule.check.__module__, None if asks is None else tuple(sorted(asks)))


def _first_questions() -> dict[str, set[str] | None]:
    """By code, what a rule asks for first; None where it has to run always."""
    found: dict[str, set[str] | None] = {
        code: None if rule.reads in ("launch file", "job") else set() for code, rule in DECLARED.items()
    }
    for consumer in LOADERS:
        for size in (None, _WorldSize()):
            release = 0
            while release <= number(LATEST):
                empty = Context(Source(read_dict({}), consumer, None), release)
                for code, rule in DECLARED.items():
                    asks = found[code]
                    if asks is None or f"<{consumer}>" in asks:
                        continue
                    if _applies(rule, empty):
                        found[code] = _with(asks, _questions(rule, _Watched(empty, size)), consumer, size)
                release = empty.equivalent.meet(empty.walk.equivalent).last + 1
    return found


def _applies(rule: Declaration, context: Context) -> bool:
    gone = rule.until is not None and context.release > number(rule.until)
    return not gone and (rule.since is None or context.since(rule.since))


def _with(asks: set[str], more: set[str] | None, consumer: str, size: object) -> set[str] | None:
    if more is not None:
        return asks | more
    if size is not None:
        return asks | {"<world size>"}
    return None if consumer == LOADERS[0] else asks | {f"<{consumer}>"}


def _questions(rule: Declaration, watched: _Watched) -> set[str] | None:
    """What a rule asks for; None where it finds something, or asks for more than can be noted."""
    try:
        found = list(rule.check(watched))  # type: ignore[arg-type]
    except SkipRule:
        found = []
    except (_Everything, TypeError):
        return None
    return None if found else watched.asked


class _Watched:
    """A context that notes what it is asked for."""

    def __init__(self, context: Context, world_size: object) -> None:
        self._context, self.world_size = context, world_size
        self.asked: set[str] = set()
        self.data = _WatchedData(self.asked)
        self.walk = _WatchedNotes(self.asked, EVENTS)
        self.document = _WatchedNotes(self.asked, ("problems",))

    def cached(self, compute: Callable[[Any], object]) -> object:
        """Compute without the cache: each rule has to ask for itself."""
        return compute(self)

    def overwrite(self, _: str) -> None:
        """No program writes the key: where one does, a rule can only find less."""

    def __getattr__(self, name: str) -> object:
        """A question: of `_PATHS`, of `_FREE`, or one that cannot be noted."""
        if name in _PATHS:
            return lambda path: self._ask(name, path)
        if name in _FREE:
            return getattr(self._context, name)
        if name == "target":
            self.asked.add("<range>")
            return Interval(self._context.release, self._context.release)
        if name in _USUAL:
            self.asked.add(_USUAL[name])
            return getattr(self._context, name)
        raise _Everything

    def _ask(self, name: str, path: str) -> object:
        self.asked.add(path)
        return getattr(self._context, name)(path)


class _WatchedData(dict[str, Any]):
    """An empty config that notes which keys are looked up."""

    def __init__(self, asked: set[str]) -> None:
        super().__init__()
        self._asked = asked

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self._asked.add(str(key))
        return False

    def _everything(self, *_: object) -> Any:
        raise _Everything

    __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __or__ = __ror__ = _everything
    keys = values = items = copy = _everything
    __hash__ = None


class _WatchedNotes:
    """What holds lists of the unusual: they are empty, and it is noted which are looked at."""

    def __init__(self, asked: set[str], lists: Collection[str]) -> None:
        self._asked, self._lists = asked, lists

    def __getattr__(self, name: str) -> list[object]:
        if name not in self._lists:
            raise _Everything
        self._asked.add(f"<{name}>")
        return []


class _WorldSize:
    """A world size that is known: whatever is done with it, the rule asks for more than can be noted."""

    def _everything(self, *_: object) -> Any:
        raise _Everything

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = _everything
    __add__ = __sub__ = __mul__ = __mod__ = __floordiv__ = __rmul__ = __rmod__ = __rfloordiv__ = _everything
    __hash__ = None  # type: ignore[assignment]
