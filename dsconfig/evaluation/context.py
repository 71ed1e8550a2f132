"""Context of a rule: what a config says, and what one release and one job make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from dsconfig.consumers import ELASTIC, HUGGING_FACE
from dsconfig.consumers.consumer import keys_not_filled
from dsconfig.consumers.consumer_versions import does, split_spec
from dsconfig.core.diagnostic import Effect, EffectName, Fix
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, at, copied
from dsconfig.core.releases import EVERY_RELEASE, Interval, name, number
from dsconfig.document import Document, Parser, Part, Problem, Span
from dsconfig.evaluation.key_walk import UNREADABLE, UnknownKey, Walk
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.job.run_facts import NO_FACTS, RunFacts
from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section, find, view

if TYPE_CHECKING:
    from dsconfig.consumers.autofill import Filled, Message, Mismatch
    from dsconfig.job.detect_consumer import Overwrite


# What a rule sees of a config: what is written, and what one release makes of it.

Root = Literal["config", "launch file", "job", "script", "text"]
"""What stands at the root: an object, one that `accelerate launch` reads, that of another launch file, the
commands of a script, or none of these.
"""
Fact = TypeVar("Fact")
MOST, MOST_OVER_ALL = 1000, 200
"""Findings of one rule with one effect that are listed: of one release, and of each over many."""
_OVERWRITTEN = frozenset(("steps_per_print",))
_HANDED_OVER = frozenset(
    ("elasticity", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
)
MISSING = object()
"""Returned where nothing is written; never a value of a config."""


class SkipRule(Exception):  # noqa: N818  control flow, no error
    """What the rule asks for is refused already, or not known: it has nothing to say."""


class Finding(NamedTuple):
    """A diagnostic in the making: places are paths still, and it belongs to one release."""

    message: str
    path: KeyPath
    help: str | None = None
    effect: Effect | None = None
    part: Part = "value"
    related: tuple[tuple[str, KeyPath], ...] = ()
    fix: Fix | None = None
    span: Span | None = None
    """The very place, where it is known already; else it follows from the path."""
    places: tuple[tuple[str, Span], ...] = ()
    """Related places of the text to which no path leads."""
    lacks: KeyPath | None = None
    """The key that is absent, where the finding is about its absence."""
    means: tuple[KeyPath, ...] = ()
    """The keys of which one stands here under another name or at another place."""

    def lacking(self, path: KeyPath) -> Finding:
        """It is about the absence of this key, and gives way to a finding on a key that means it."""
        return self._replace(lacks=path)

    def meaning(self, *paths: KeyPath) -> Finding:
        """One of these keys is meant by what stands here."""
        return self._replace(means=paths)


@cache
def split(path: str) -> tuple[str, ...]:
    """`zero_optimization.stage` → its parts."""
    return tuple(path.split("."))


class Source(NamedTuple):
    """What is judged, and how it is read. `world_size` counts ranks; None: not known."""

    document: Document
    consumer: str
    world_size: int | None
    target: Interval | None = None
    """From the first to the last release of the target; None: of each evaluation, its own."""
    given: LaunchArguments | None = None
    """The training arguments of the job that reads it, where they are known."""
    known: RunFacts = NO_FACTS
    """What else is known of the run."""
    holds: Root = "config"
    """A launch file is judged for its way to the config only."""
    overwrite: Callable[[str, Json], Overwrite | None] | None = None
    """What a program of the repository does to a key, by its dotted path and the config; None: nobody looks."""


class Context:
    """One config in the eyes of one release, at one world size, read for one consumer."""

    def __init__(self, source: Source, release: int) -> None:
        self.document = source.document
        self.elastic = source.consumer == ELASTIC
        """Whether `dsconfig elastic run` hands it over: without its block, with a batch of the plan."""
        name, self.version = split_spec(source.consumer)
        """The version of the consumer that is meant; None: the newest."""
        self.consumer = "deepspeed" if self.elastic else name
        self.world_size = source.world_size
        self.known, self.remarks = source.known, dict[str, None]()
        """The model and the hosts, as far as somebody named them; what rules remark on these, each once."""
        self.release = release
        self.target = source.target or Interval(release, release)
        """From the first to the last release of the target, of which the one judged is part."""
        self.alike = EVERY_RELEASE
        """Releases that nothing asked so far tells from the one judged."""
        self.most = MOST if self.target.first == self.target.last else MOST_OVER_ALL
        self.cut = False
        """Whether there is more to find than is listed."""
        self.parser: Parser = self._parser()
        self._holds, self._overwrite = source.holds, source.overwrite
        self.reading = self.alike  # releases that read the text with the same parser
        data = source.document.value(self.parser)
        empty = any(problem.kind == "empty" for problem in source.document.problems)
        self.is_job = source.holds in ("job", "script")
        """Whether this is a launch file of which only the way to the config is of interest."""
        self.is_launch = source.holds == "launch file"
        self.is_config = isinstance(data, dict) and not empty and not self.is_job
        self.data: JsonObject = data if isinstance(data, dict) else {}
        given = source.given
        self.job = given and fill_in(
            self.data, self.spec, self.world_size, given, self.known.parallelism.of("sequence")
        )
        """What the job fills, and what contradicts it."""
        self.data = self.data if self.job is None else self.job.data
        self.whole = self.data
        """The config before it is handed over."""
        if self.elastic:
            self.data = {key: value for key, value in self.data.items() if key not in _HANDED_OVER}
        self._keys: dict[str, KeyView | None] = {}
        self._facts: dict[Callable[[Context], object], object] = {}
        self.walk = Walk(release, self.consumer, keys_not_filled(source.consumer))
        self.walk.values = self.walk.section(ROOT, self._handed_over(), (), ())
        self.walk.unknown += self._unknown_to_elastic()

    def _handed_over(self) -> JsonObject:
        """The config without what the consumer overwrites, whatever is written."""
        if not self.overwritten & self.data.keys():
            return self.data
        return {key: value for key, value in self.data.items() if key not in self.overwritten}

    def _unknown_to_elastic(self) -> Iterator[UnknownKey]:
        """The keys of an `elasticity` block that is handed over which no release reads."""
        block = self.whole.get("elasticity")
        if self.elastic and isinstance(block, dict):
            seen = view("Elasticity", _number("0.19.7"))
            known = seen.keys
            for word, value in block.items():
                if word not in known:
                    yield UnknownKey(("elasticity", word), seen, value)

    @property
    def overwritten(self) -> frozenset[str]:
        """Keys at the top level that the consumer writes itself, whatever the file says."""
        return _OVERWRITTEN if self.plugged else frozenset()

    @property
    def plugged(self) -> bool:
        """Whether Accelerate's plugin takes the config over."""
        return self.consumer in HUGGING_FACE and does("plugin", self.consumer, self.version)

    @property
    def spec(self) -> str:
        """The consumer with its version, where one is meant."""
        return f"{self.consumer}=={self.version}" if self.version else self.consumer

    def _parser(self) -> Parser:
        """The consumer's; DeepSpeed reads files as Hjson since 0.8.1 and with json before."""
        if self.document.format == "yaml":
            return "yaml"
        if self.consumer != "deepspeed":
            return "json"
        return "hjson" if self.since("0.8.1") else "json"

    def once(self, find_out: Callable[[Context], Fact]) -> Fact:
        """What `find_out` says of this context; it is asked once, for all rules that want to know."""
        if find_out not in self._facts:
            self._facts[find_out] = find_out(self)
        return cast("Fact", self._facts[find_out])

    @property
    def root(self) -> Root:
        """What there is to look at."""
        if self.is_job:
            return self._holds
        return "launch file" if self.is_launch else "config" if self.is_config else "text"

    @property
    def from_file(self) -> bool:
        """DeepSpeed itself reads the file; else a dict is handed over, by a script or by the consumer."""
        document = self.document
        handed = document.is_data or document.within is not None or self.elastic
        return self.consumer == "deepspeed" and document.format == "json" and not handed

    # Releases
    # -------------------------------------------------------------------------------------------------

    @property
    def release_name(self) -> str:
        """The release as people write it."""
        return name(self.release)

    def since(self, release: str) -> bool:
        """Whether the release judged is this one or a later one."""
        border = _number(release)
        first, last = self.alike
        if self.release >= border:
            if border > first:
                self.alike = Interval(border, last)
            return True
        if border <= last:
            self.alike = Interval(first, border - 1)
        return False

    def before(self, release: str) -> bool:
        """Whether the release judged is earlier than this one."""
        return not self.since(release)

    def between(self, first: str, last: str) -> bool:
        """Whether the release judged lies in the interval, both ends included."""
        interval = Interval(_number(first), _number(last))
        self.alike = self.alike.meet(interval.side(self.release))
        return self.release in interval

    def depends_on(self, *releases: str) -> None:
        """Say that what follows differs before and from each of these releases."""
        for release in releases:
            self.since(release)

    # What is written
    # ------------------------------------------------------------------------------------------

    def written(self, path: str) -> Json:
        """The value as written, under any of the key's names; MISSING where there is none."""
        value: Json = self.data
        for part in self.place(path) if self.walk.spelled else split(path):
            if not isinstance(value, dict) or part not in value:
                return MISSING
            value = value[part]
        return value

    def has(self, path: str) -> bool:
        """Whether the key is written, whatever its value."""
        value: Json = self.data
        for part in self.place(path) if self.walk.spelled else split(path):
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True

    def place(self, path: str) -> KeyPath:
        """The path as written: aliases in place of the canonical names."""
        parts: KeyPath = split(path)
        spelled = self.walk.spelled
        for length in range(len(parts), 0, -1) if spelled else ():
            if parts[:length] in spelled:
                return (*spelled[parts[:length]], *parts[length:])
        return parts

    @property
    def is_watched(self) -> bool:
        """Whether programs of the repository were asked what they write into the config."""
        return self._overwrite is not None

    def overwrite(self, path: str) -> Overwrite | None:
        """What a program of the repository does to the key before DeepSpeed sees it; None: nothing known."""
        found = None if self._overwrite is None else self._overwrite(path, self.data)
        if found is not None:
            told = f"{found.place} writes `{path}` before DeepSpeed starts, so that the file does not tell it"
            self.remarks[told] = None
        return found

    # What the release makes of it
    # -----------------------------------------------------------------------------

    def value(self, path: str) -> Json:
        """The value that the release ends up with: written and converted, else its default.

        Raises:
            SkipRule: the value, or a section on the way, is refused, or filled by the consumer.
        """
        found: Json = self.walk.values
        for part in split(path):
            if found is UNREADABLE:
                raise SkipRule
            if not isinstance(found, dict) or part not in found:
                return self.default(path)
            found = found[part]
        if found is UNREADABLE:
            raise SkipRule
        return found

    def on(self, path: str) -> bool:
        """The value's truth, as Python code behind DeepSpeed's look-ups sees it."""
        return bool(self.value(path))

    def default(self, path: str) -> Json:
        """What the release uses where the key is absent; None where it does not know the key."""
        key = self.key(path)
        return key.default if key is not None else None

    def key(self, path: str) -> KeyView | None:
        """The key as the release sees it, or None where the release does not read it."""
        try:
            return self._keys[path]
        except KeyError:
            found = self._keys[path] = self._find(path)
            return found

    def _find(self, path: str) -> KeyView | None:
        handed = self.elastic and path.startswith("elasticity")
        found, alike = find(path, _number("0.19.7") if handed else self.release)
        self.alike = self.alike.meet(alike)
        return found

    def section(self, path: str) -> SectionView | None:
        """The section at the path as the release sees it."""
        key = self.key(path)
        inner = child_section(key.type) if key else None
        return self.walk.view(inner) if inner else None

    # Saying it
    # ------------------------------------------------------------------------------------------------

    def at(
        self,
        path: str | KeyPath,
        message: str,
        *,
        help: str | None = None,
        effect: EffectName | None = None,
        part: Part = "value",
        related: Iterable[tuple[str, str | KeyPath]] = (),
        fix: Fix | None = None,
    ) -> Finding:
        """A finding at a path; a key that is absent is shown at its nearest existing parent."""
        return Finding(
            message,
            self._path(path),
            help,
            Effect(effect) if effect else None,
            part,
            tuple((text, self._path(where)) for text, where in related),
            fix,
        )

    def spot(
        self,
        problem: Problem,
        message: str,
        *,
        help: str | None = None,
        effect: EffectName | None = None,
        fix: Fix | None = None,
        places: Iterable[tuple[str, Span]] = (),
    ) -> Finding:
        """A finding at the place of an oddity of the text."""
        kind, elsewhere = Effect(effect) if effect else None, tuple(places)
        return Finding(message, problem.path, help, kind, fix=fix, span=problem.span, places=elsewhere)

    def _path(self, path: str | KeyPath) -> KeyPath:
        return self.place(path) if isinstance(path, str) and path else tuple(path)


@cache
def _number(release: str) -> int:
    return number(release)


# A config as a job fills it: each "auto" whose training argument is known has become a value.


class Job(NamedTuple):
    """The config as it is filled, the record of that, and what the consumer will raise for."""

    data: JsonObject
    filled: tuple[Filled, ...]
    mismatches: tuple[Mismatch, ...]
    refused: tuple[Message, ...]
    added: frozenset[str] = frozenset()
    """Keys of the root that its program puts in."""
    has_flags: bool = False
    """Whether the arguments are flags of a command, and not keys of the launch file."""
    spelled: Mapping[str, str] = MappingProxyType({})
    """Arguments that the launch file calls otherwise: the Trainer's name first, its own second."""
    precisions: frozenset[str] = frozenset()
    """Which of the switches `fp16` and `bf16` the launch file sets."""


def fill_in(
    data: JsonObject, consumer_name: str, world_size: int | None, given: LaunchArguments, shared: int = 1
) -> Job | None:
    """Fill a config from the arguments of its job; None where nothing is filled, or they cannot be read.

    `shared`: how many ranks share each sequence.
    """
    from dsconfig.consumers.autofill import Assumed, fill
    from dsconfig.consumers.consumer import consumer_of

    consumer = consumer_of(consumer_name)
    if given.sets or given.writes:
        data = copied(data)
    added = given.complete(data)
    if not consumer.fills:
        return Job(data, (), (), (), added) if added or given.writes else None
    known = given.on(world_size)
    try:
        assumed, arguments = Assumed(known.unknown), known.arguments
        filling = fill(copied(data), consumer, world_size, arguments, None, sp=shared, assumed=assumed)
    except (ValueError, TypeError, AttributeError, OverflowError):  # other rules say what is wrong with it
        return None
    # What the plugin puts in for lack of an argument stays "auto": it is a finding of its own.
    constant = {entry.key for entry in consumer.fills if entry.stage == "plugin"}
    filled = [each for each in filling.filled if each.key not in constant and at(data, each.key) == "auto"]
    made = copied(data)
    for each in filled:
        *sections, last = each.key.split(".")
        here = made
        for section in sections:
            here = here[section]
        here[last] = each.value
    refused = tuple(
        each for each in filling.messages if each.kind == "refused" and (each.key or "").endswith(".enabled")
    )
    return Job(
        made,
        tuple(filled),
        tuple(filling.mismatches),
        refused,
        has_flags=given.has_flags,
        spelled=given.spelled,
        precisions=frozenset(name for name in ("fp16", "bf16") if known.arguments.get(name) is True),
    )
