"""The context in which rules run: a config as interpreted by one release and one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from dsconfig.core.diagnostic import Effect, EffectName, Fix
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, copy_json, value_at_dotted_path
from dsconfig.core.releases import EVERY_RELEASE, ReleaseInterval, release_name, release_number
from dsconfig.document import Document, Parser, Part, TextProblem, TextSpan
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.evaluation.key_walk import UNREADABLE, KeyWalk, UnknownKey
from dsconfig.job.consumers import ELASTIC, HUGGING_FACE, INFERENCE
from dsconfig.job.consumers.consumer import keys_not_filled
from dsconfig.job.consumers.consumer_versions import split_consumer_spec, version_includes_change
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.job.job_facts import NO_FACTS, RunFacts
from dsconfig.model.key_table import (
    KeyView,
    SectionView,
    child_section,
    find_key,
    root_section,
    section_view_of_release,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias, TypeVar

    from dsconfig.job.consumers.autofill import ArgumentMismatch, AutofillMessage, FilledValue
    from dsconfig.job.detect_consumer import ConfigOverwrite

    Computed = TypeVar("Computed")


RootKind: TypeAlias = (
    "Literal['config', 'inference config', 'launch file', 'job', 'script', 'hostfile', 'program', 'text']"
)
"""The kind of root: a config for training or for inference, an Accelerate launch file, another launch file, the
commands of a script, a hostfile, a Python program without a config, or a text that is none of these.
"""
MAX_FINDINGS, MAX_FINDINGS_OF_RANGE = 1000, 200
"""Maximum number of findings for one rule and effect: for a single release, and for each of several releases."""
_OVERWRITTEN = frozenset(("steps_per_print",))
_HANDED_OVER = frozenset(
    ("elasticity", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
)
MISSING = object()
"""Placeholder for a key that the file does not contain, never a value of a config."""


class SkipRule(Exception):  # noqa: N818  control flow, no error
    """Raised when a value is unknown or already rejected, to end the rule without a finding."""


class Finding(NamedTuple):
    """A diagnostic for one release, before its paths are located and releases are merged."""

    message: str
    path: KeyPath
    help: str | None = None
    effect: Effect | None = None
    part: Part = "value"
    related: tuple[tuple[str, KeyPath], ...] = ()
    fix: Fix | None = None
    span: TextSpan | None = None
    """The exact span of the finding, if the path does not give it."""
    related_spans: tuple[tuple[str, TextSpan], ...] = ()
    """Related spans in the text that have no path, each with a message."""
    missing: KeyPath | None = None
    """The path of the missing key, if the finding is about the absence of a key."""
    typo_of: tuple[KeyPath, ...] = ()
    """The keys that the reported key may be a misspelling of, or a misplaced version of."""
    advisory: str = ""
    """The advisory that the finding reports; several advisories may apply to one key."""

    def about_missing(self, path: KeyPath) -> Finding:
        """Mark the finding as one about an absent key, so that a finding on a typo of the key replaces it."""
        return self._replace(missing=path)

    def as_typo_of(self, *paths: KeyPath) -> Finding:
        """Mark the reported key as a misspelled or misplaced form of one of the keys at `paths`."""
        return self._replace(typo_of=paths)


@cache
def split_path(path: str) -> tuple[str, ...]:
    """Split a dotted path into its keys: `zero_optimization.stage` → `("zero_optimization", "stage")`."""
    return tuple(path.split("."))


class EvaluatedDocument(NamedTuple):
    """A document to evaluate, with the known facts about its job."""

    document: Document
    consumer: str
    world_size: int | None
    target: ReleaseInterval | None = None
    """The first to the last release of the target, or None for the evaluated release alone."""
    arguments: LaunchArguments | None = None
    """The training arguments of the job that loads the config, or None if they are unknown."""
    facts: RunFacts = NO_FACTS
    """Other facts about the run, such as the model, the hosts and the parallelism."""
    root_kind: RootKind = "config"
    """The kind of root; in a launch file, only the reference to the config is checked."""
    unknown: frozenset[KeyPath] = frozenset()
    """Paths of values known only at run time; a final `*` stands for every key that the Python source does not show."""
    overwrite: Callable[[str, Json], ConfigOverwrite | None] | None = None
    """Return how a program overwrites a key, by dotted path and config; None if no program was read."""


class Context:
    """A config as interpreted by one release, at one world size, for one consumer."""

    def __init__(self, source: EvaluatedDocument, release: int) -> None:
        self.document = source.document
        self.is_elastic = source.consumer == ELASTIC
        """Whether `dsconfig elastic run` loads the config: with the planned batch, without the `elasticity` block."""
        name, self.version = split_consumer_spec(source.consumer)
        """The version of the consumer, or None for the newest version."""
        self.consumer = "deepspeed" if self.is_elastic else name
        self.world_size = source.world_size
        self.facts, self.notes = source.facts, dict[str, None]()
        """Facts about the run, and the notes that rules add about missing facts, each once."""
        self.release = release
        self.target = source.target or ReleaseInterval(release, release)
        """The first to the last release of the target, which contains the evaluated release."""
        self.equivalent = EVERY_RELEASE
        """Releases for which every query of a rule so far has the same answer."""
        self.max_findings = MAX_FINDINGS if self.target.first == self.target.last else MAX_FINDINGS_OF_RANGE
        self.is_truncated = False
        """Whether there are more findings than are kept."""
        self.parser: Parser = self._parser()
        self._root_kind, self._overwrite = source.root_kind, source.overwrite
        self._open = [path[:-1] for path in source.unknown if path[-1:] == ("*",)]
        """Sections of a Python source that may have more keys than the source shows."""
        # DeepSpeed switched from json to Hjson in 0.8.1, so that findings about the text differ there.
        self.same_parser = self.equivalent
        data = source.document.value(self.parser)
        # hjson reads an empty text as `{}`, but it is no config that a user wrote (rule `empty-document`).
        empty = any(problem.kind == "empty" for problem in source.document.problems)
        self.is_job = source.root_kind in ("job", "script", "hostfile", "program")
        """Whether the document is no config but a file that starts a job: a launch script, a hostfile or a program."""
        self.is_launch = source.root_kind == "launch file"
        self.is_config = isinstance(data, dict) and not empty and not self.is_job
        self.data: JsonObject = data if isinstance(data, dict) else {}
        given = self.arguments = source.arguments
        """The training arguments of the job, or None if they are unknown."""
        self.filled = given and fill_from_arguments(
            self.data, self.spec, self.world_size, given, self.facts.parallelism.degree_of_kind("sequence")
        )
        """The config after the arguments of the job resolve its "auto" values, with the mismatches between them."""
        self.data = self.data if self.filled is None else self.filled.data
        self.original_data = self.data
        """The config before `dsconfig elastic run` removes the keys that it handles itself."""
        if self.is_elastic:
            self.data = {key: value for key, value in self.data.items() if key not in _HANDED_OVER}
        self._keys: dict[str, KeyView | None] = {}
        self._facts: dict[Callable[[Context], object], object] = {}
        self.walk = KeyWalk(release, self.consumer, keys_not_filled(source.consumer))
        self.walk.is_partial = bool(source.unknown)
        self.root_section = root_section(name)
        """Section class of the root of the config."""
        self.walk.values = self.walk.section(
            self.root_section, self._config_without_overwritten_keys(), (), ()
        )
        self.walk.unknown += self._unknown_elasticity_keys()

    def _config_without_overwritten_keys(self) -> JsonObject:
        """Return the config without keys that the consumer always overwrites."""
        if not self.overwritten & self.data.keys():
            return self.data
        return {key: value for key, value in self.data.items() if key not in self.overwritten}

    def _unknown_elasticity_keys(self) -> Iterator[UnknownKey]:
        """Yield the unknown keys of an `elasticity` block that is used by `dsconfig elastic run`."""
        block = self.original_data.get("elasticity")
        if self.is_elastic and isinstance(block, dict):
            # The last DeepSpeed release with an elasticity schema: 0.19.8 removed `deepspeed/elasticity`.
            section = section_view_of_release("Elasticity", _release_number("0.19.7"))
            keys = section.keys
            for key, value in block.items():
                if key not in keys:
                    yield UnknownKey(("elasticity", key), section, value)

    @property
    def overwritten(self) -> frozenset[str]:
        """Top-level keys that the consumer always overwrites."""
        return _OVERWRITTEN if self.uses_plugin else frozenset()

    @property
    def uses_plugin(self) -> bool:
        """Whether the config goes through Accelerate's `DeepSpeedPlugin`."""
        return self.consumer in HUGGING_FACE and version_includes_change(
            "plugin", self.consumer, self.version
        )

    @property
    def spec(self) -> str:
        """The consumer, with its version if known, such as `transformers==4.40.0`."""
        return f"{self.consumer}=={self.version}" if self.version else self.consumer

    def _parser(self) -> Parser:
        """Return the consumer's parser; for DeepSpeed, it is Hjson since 0.8.1 and strict JSON before."""
        if self.document.format == "yaml":
            return "yaml"
        if self.consumer != "deepspeed":
            return "json"
        return "hjson" if self.since("0.8.1") else "json"

    def context_of_training_config(self, config: JsonObject) -> Context:
        """Return the context of a training config in this release, for rules that inference configs share with it."""
        from dsconfig.document import read_dict

        document = read_dict(config, self.document.name)
        return Context(EvaluatedDocument(document, "deepspeed", None), self.release)

    def cached(self, compute: Callable[[Context], Computed]) -> Computed:
        """Compute a value once per context, and share it between rules."""
        if compute not in self._facts:
            self._facts[compute] = compute(self)
        return self._facts[compute]  # type: ignore[return-value]  # what `compute` returned

    @property
    def root(self) -> RootKind:
        """The kind of document, such as a config or an Accelerate launch file."""
        if self.is_job:
            return self._root_kind
        if self.is_launch or not self.is_config:
            return "launch file" if self.is_launch else "text"
        return "inference config" if self.consumer == INFERENCE else "config"

    @property
    def from_file(self) -> bool:
        """Whether DeepSpeed itself opens the file, instead of receiving a dict."""
        document = self.document
        is_dict = document.is_data or document.embedded_at is not None or self.is_elastic
        return self.consumer == "deepspeed" and document.format == "json" and not is_dict

    @property
    def is_in_repository(self) -> bool:
        """Whether the config is a file, so that nearby requirements files may pin versions."""
        name = self.document.name
        return bool(name) and not name.startswith("<")

    # Releases
    # -------------------------------------------------------------------------------------------------

    @property
    def release_name(self) -> str:
        """The name of the evaluated release, such as `0.19.8`."""
        return release_name(self.release)

    def since(self, release: str) -> bool:
        """Return whether the evaluated release is `release` or a later one."""
        # Every comparison narrows `equivalent`: beyond the boundary the answer, and so the outcome, may
        # differ.
        boundary = _release_number(release)
        first, last = self.equivalent
        if self.release >= boundary:
            if boundary > first:
                self.equivalent = ReleaseInterval(boundary, last)
            return True
        if boundary <= last:
            self.equivalent = ReleaseInterval(first, boundary - 1)
        return False

    def before(self, release: str) -> bool:
        """Return whether the evaluated release is earlier than `release`."""
        return not self.since(release)

    def between(self, first: str, last: str) -> bool:
        """Return whether the evaluated release is from `first` to `last`, both inclusive."""
        interval = ReleaseInterval(_release_number(first), _release_number(last))
        self.equivalent = self.equivalent.intersect(interval.releases_on_same_side(self.release))
        return self.release in interval

    def depends_on(self, *releases: str) -> None:
        """Declare that the rule's findings may change at each of these releases."""
        for release in releases:
            self.since(release)

    # What the file says

    def raw(self, path: str) -> Json:
        """Return the value of a key in the file, under any of its aliases, or MISSING if it is absent.

        Raises:
            SkipRule: the value is known only at run time.
        """
        value: Json = self.data
        for part in self.written_path(path) if self.walk.aliases else split_path(path):
            if not isinstance(value, dict) or part not in value:
                if self.walk.is_partial:
                    self._skip_if_unknown(path, value)
                return MISSING
            value = value[part]
        if value is UNKNOWN:
            raise SkipRule
        return value

    def _skip_if_unknown(self, absent: str, value: Json) -> None:
        """Raise SkipRule if `value`, or the presence of the key at path `absent`, is known only at run time."""
        if value is UNKNOWN:
            raise SkipRule
        if self._open:
            parts = split_path(absent)
            if any(parts[: len(section)] == section for section in self._open):
                raise SkipRule

    def has(self, path: str) -> bool:
        """Return whether the file contains a key, regardless of its value.

        Raises:
            SkipRule: the presence of the key is known only at run time.
        """
        value: Json = self.data
        for part in self.written_path(path) if self.walk.aliases else split_path(path):
            if not isinstance(value, dict) or part not in value:
                if self.walk.is_partial:
                    self._skip_if_unknown(path, value)
                return False
            value = value[part]
        return True

    def written_path(self, path: str) -> KeyPath:
        """Return the path of a key as spelled in the file, which may use aliases."""
        parts: KeyPath = split_path(path)
        aliases = self.walk.aliases
        for length in range(len(parts), 0, -1) if aliases else ():
            if parts[:length] in aliases:
                return (*aliases[parts[:length]], *parts[length:])
        return parts

    @property
    def is_watched(self) -> bool:
        """Whether the programs of the repository were searched for code that changes the config."""
        return self._overwrite is not None

    def overwrite(self, path: str) -> ConfigOverwrite | None:
        """Return how a program changes a key before DeepSpeed reads it, or None if no change is known."""
        change = None if self._overwrite is None else self._overwrite(path, self.data)
        if change is not None:
            note = f"{change.place} sets `{path}` before DeepSpeed starts, so its value in the file is not checked"
            self.notes[note] = None
        return change

    # How the release interprets it

    def value(self, path: str) -> Json:
        """Return the effective value of a key in this release: the file's value after conversion, or the default.

        Raises:
            SkipRule: the value or a section on its path is rejected, or the consumer fills in the value.
        """
        current: Json = self.walk.values
        for part in split_path(path):
            if current is UNREADABLE:
                raise SkipRule
            if not isinstance(current, dict) or part not in current:
                if self.walk.is_partial:
                    self._skip_if_unknown(path, current)
                return self.default(path)
            current = current[part]
        if current is UNREADABLE:
            raise SkipRule
        return current

    def is_on(self, path: str) -> bool:
        """Return whether the effective value of a key is truthy, as tested by DeepSpeed's `if` statements."""
        return bool(self.value(path))

    def default(self, path: str) -> Json:
        """Return the default of a key in this release, or None if the release does not know the key."""
        key = self.key(path)
        return key.default if key is not None else None

    def key(self, path: str) -> KeyView | None:
        """Return the release's definition of a key, or None if the release does not read it."""
        try:
            return self._keys[path]
        except KeyError:
            key = self._keys[path] = self._find(path)
            return key

    def _find(self, path: str) -> KeyView | None:
        is_elastic = self.is_elastic and path.startswith("elasticity")
        release = _release_number("0.19.7") if is_elastic else self.release
        key, releases = find_key(path, release, self.root_section)
        self.equivalent = self.equivalent.intersect(releases)
        return key

    def section(self, path: str) -> SectionView | None:
        """Return the release's definition of the section at a path, or None if there is no such section."""
        key = self.key(path)
        inner = child_section(key.type) if key else None
        return self.walk.view(inner) if inner else None

    # Building findings

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
        """Build a finding at a path, which is shown at the nearest existing parent if the key is absent."""
        return Finding(
            message,
            self._path(path),
            help,
            Effect(effect) if effect else None,
            part,
            tuple((text, self._path(where)) for text, where in related),
            fix,
        )

    def at_problem(
        self,
        problem: TextProblem,
        message: str,
        *,
        help: str | None = None,
        effect: EffectName | None = None,
        fix: Fix | None = None,
        related_spans: Iterable[tuple[str, TextSpan]] = (),
    ) -> Finding:
        """Build a finding at the location of a text problem."""
        parsed_effect, others = Effect(effect) if effect else None, tuple(related_spans)
        return Finding(
            message, problem.path, help, parsed_effect, fix=fix, span=problem.span, related_spans=others
        )

    def _path(self, path: str | KeyPath) -> KeyPath:
        return self.written_path(path) if isinstance(path, str) and path else tuple(path)


@cache
def _release_number(release: str) -> int:
    return release_number(release)


# A config as its job resolves it: each "auto" with a known training argument is replaced.


class FilledConfig(NamedTuple):
    """The resolved config, the changes to it, and the errors that the consumer will raise."""

    data: JsonObject
    filled: tuple[FilledValue, ...]
    mismatches: tuple[ArgumentMismatch, ...]
    rejected: tuple[AutofillMessage, ...]
    added_keys: frozenset[str] = frozenset()
    """Top-level keys that the program of the job adds to the config."""
    has_flags: bool = False
    are_in_code: bool = False
    """Whether the arguments are command-line flags rather than keys of a launch file."""
    argument_names: Mapping[str, str] = MappingProxyType({})
    """Arguments that the launch file names differently: the Trainer's name, mapped to the launch file's name."""
    precisions: frozenset[str] = frozenset()
    """The precisions, `fp16` and `bf16`, that the launch file enables."""


def fill_from_arguments(
    data: JsonObject, consumer_name: str, world_size: int | None, given: LaunchArguments, shared: int = 1
) -> FilledConfig | None:
    """Return the config resolved from its job's arguments, or None if nothing changes or an argument is invalid.

    `shared` is the number of ranks among which each sequence is split.
    """
    from dsconfig.job.consumers.autofill import AssumedArguments, autofill_config
    from dsconfig.job.consumers.consumer import consumer_from_spec

    consumer = consumer_from_spec(consumer_name)
    if given.sets or given.writes:
        data = copy_json(data)
    added = given.apply_program_writes(data)
    if not consumer.fills:
        return FilledConfig(data, (), (), (), added) if added or given.writes else None
    arguments_now = given.arguments_at_world_size(world_size)
    try:
        assumed, values = AssumedArguments(arguments_now.unknown), arguments_now.arguments
        filling = autofill_config(
            copy_json(data), consumer, world_size, values, None, sp=shared, assumed=assumed
        )
    except (ValueError, TypeError, AttributeError, OverflowError):  # rules on the argument itself report it
        return None
    # Values that Accelerate's plugin sets without an argument stay "auto" here: a rule reports them.
    constant = {entry.key for entry in consumer.fills if entry.stage == "plugin"}
    filled = [
        each
        for each in filling.filled
        if each.key not in constant and value_at_dotted_path(data, each.key) == "auto"
    ]
    resolved = copy_json(data)
    for each in filled:
        *sections, last = each.key.split(".")
        parent = resolved
        for section in sections:
            parent = parent[section]
        parent[last] = each.value
    rejections = tuple(
        each for each in filling.messages if each.kind == "refused" and (each.key or "").endswith(".enabled")
    )
    return FilledConfig(
        resolved,
        tuple(filled),
        tuple(filling.mismatches),
        rejections,
        has_flags=given.has_flags,
        are_in_code=given.are_in_code,
        argument_names=given.spelled,
        precisions=frozenset(name for name in ("fp16", "bf16") if arguments_now.arguments.get(name) is True),
    )
