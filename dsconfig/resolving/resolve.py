"""`resolve`: the batch triplet as DeepSpeed derives it, and the config that a release runs with.

text → what the consumer fills → data-parallel ranks → triplet, or the elastic solver's → `Run`
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from dsconfig import releases
from dsconfig.batch.triplet import KEYS, Impossible, Triplet, derive
from dsconfig.checking.check import check_document
from dsconfig.checking.source import read
from dsconfig.consumers import BY_NAME, CONSUMERS
from dsconfig.document import Document
from dsconfig.evaluation.context import Context, Source
from dsconfig.releases import NUMBERS, Target
from dsconfig.resolving import elastic_batch
from dsconfig.resolving.data_parallel import SEQUENCE, SEQUENCE_SINCE, Parallel, share_out
from dsconfig.resolving.filling import fill
from dsconfig.resolving.impossible import explained
from dsconfig.resolving.run import Message, ResolveError, Run

WORLD_SIZE = "WORLD_SIZE"


def resolve(  # noqa: PLR0913  every argument stands for an option of the command
    source: str | bytes | os.PathLike[str] | Mapping[str, Any] | Document,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    *,
    tp: int = 1,
    pp: int = 1,
    sp: int = 1,
    ep: int = 1,
    set: Mapping[str, Any] | None = None,
    training_args: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    model_config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
) -> Run:
    """Resolve a config for a number of ranks.

    Args:
        source: a path, text, bytes, a dict or a document that was read; see `check`.
        world_size: number of ranks, one a GPU; None: the environment's `WORLD_SIZE`.
        target: the release that runs it; of a range the newest. None: the installed DeepSpeed, else the
            latest known.
        consumer: who reads the file: `deepspeed` (default), `transformers`, `accelerate` or `lightning`.
        tp: ranks that share each layer. pp: pipeline stages. sp: ranks that share one sequence. ep: ranks
            that share the experts.
        set: values to write first, by dotted path.
        training_args: what the consumer fills "auto" from, as in `TrainingArguments.to_dict()`, or the path
            of a JSON or YAML file.
        model_config: the model's `config.json`, or its path, for its hidden size.

    Raises:
        ResolveError: there is no such run; the text says why and what is near.
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    consumer = "deepspeed" if consumer is None else consumer
    if consumer not in CONSUMERS:
        raise ValueError(f"unknown consumer {consumer!r}: expected one of {', '.join(CONSUMERS)}")
    parallel = Parallel(tp, pp, sp, ep)
    ranks, messages = _ranks(world_size)
    release = _release(target, messages)
    document = source if isinstance(source, Document) else read(source)
    config, from_file = _config(document, consumer, release)
    for key, value in (set or {}).items():
        _put(config, key, value)
    job = _Job(config, release, ranks, parallel, messages, from_file=from_file)
    filler = fill(
        config, BY_NAME[consumer], ranks, _mapping(training_args), _mapping(model_config), sp=parallel.sp
    )
    messages += filler.messages
    try:
        job.derive()
    except ResolveError as error:
        raise ResolveError(error.reason, (*error.hints, *map(str, filler.mismatches))) from None
    return Run(
        *job.triplet.values(),
        config=job.config,
        release=release,
        consumer=consumer,
        world_size=ranks,
        data_parallel_size=job.size,
        messages=tuple(messages),
        mismatches=tuple(filler.mismatches),
        filled=tuple(filler.filled),
        elastic=job.elastic,
    )


class _Job:
    """One run in the making."""

    def __init__(
        self,
        config: dict[str, Any],
        release: str,
        ranks: int,
        parallel: Parallel,
        messages: list[Message],
        *,
        from_file: bool,
    ) -> None:
        self.config, self.release, self.ranks, self.parallel = config, release, ranks, parallel
        self.messages, self.from_file = messages, from_file
        self.number = NUMBERS[release]
        self.size: int | float = ranks
        self.elastic = False
        self.triplet = Triplet(None, None, None)

    def derive(self) -> None:
        """Find size and triplet, and write into the config what the release runs with."""
        share = share_out(self.config, self.ranks, self.parallel, self.number, from_file=self.from_file)
        self.size = share.size
        self.messages += share.messages
        block = "elasticity" in self.config
        self.elastic = elastic_batch.is_on(self.config) and self.number >= elastic_batch.FIRST
        if self.elastic and self.number <= elastic_batch.LAST:
            # The block stays: the release reads it, and refuses batch keys beside it.
            found, said = elastic_batch.as_released(self.config, self.release, self.size)
            self.messages += said
            self.triplet = _plain(found)
        elif self.elastic:
            self.config, self.size, said = elastic_batch.instead(
                self.config, self.ranks, self.size, self.parallel
            )
            self.messages += said
            self.triplet = Triplet(*(self.config[key] for key in KEYS))
        else:
            if block and self.number > elastic_batch.LAST:
                del self.config["elasticity"]
                text = "the `elasticity` block, which is off and which this release refuses, is left out"
                self.messages.append(Message("removed", text, "elasticity"))
            self._derive_plain()
        self._settle_sequence()

    def _derive_plain(self) -> None:
        train, micro, steps = (self.config.get(key) for key in KEYS)
        found = derive(train, micro, steps, self.size)
        if isinstance(found, Impossible):
            raise explained(found, (train, micro, steps), self.size)
        self.triplet = _plain(found)
        self.config.update(zip(KEYS, self.triplet.values(), strict=True))

    def _settle_sequence(self) -> None:
        """Make the config, as a dict, mean the same division of the ranks as was reckoned with."""
        if self.number < SEQUENCE_SINCE:
            return
        parallel = self.parallel
        if parallel.sp > 1 and parallel.tp == parallel.pp == 1 and SEQUENCE not in self.config:
            self.config[SEQUENCE] = parallel.sp
            self.messages.append(Message("written", f"`{SEQUENCE}` {parallel.sp} is written in", SEQUENCE))
        elif self.from_file and SEQUENCE in self.config and parallel.sp == 1:
            written = self.config.pop(SEQUENCE)
            text = (
                f"`{SEQUENCE}` {written!r} is left out: DeepSpeedConfig does not look for it in a file, and "
                "does not divide the ranks by it; ask for sp if it should"
            )
            self.messages.append(Message("removed", text, SEQUENCE))


def _ranks(world_size: int | None) -> tuple[int, list[Message]]:
    if world_size is not None:
        if type(world_size) is not int or world_size < 1:
            raise ValueError(f"world size {world_size!r}: expected an integer of at least 1")
        return world_size, []
    text = os.environ.get(WORLD_SIZE)
    if text is None:
        raise ValueError(f"no world size: give one, or set {WORLD_SIZE} in the environment")
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ValueError(f"the environment's {WORLD_SIZE} is {text!r}: expected an integer of at least 1")
    return int(text), [Message("environment", f"world size {text} is the environment's {WORLD_SIZE}")]


def _release(target: str | Target | None, messages: list[Message]) -> str:
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    if chosen.note:
        messages.append(Message("note", chosen.note))
    if len(chosen.releases) > 1:
        text = f"of the releases {chosen.text} the newest, {chosen.releases[-1]}, is resolved for"
        messages.append(Message("note", text))
    return chosen.releases[-1]


def _config(document: Document, consumer: str, release: str) -> tuple[dict[str, Any], bool]:
    """A copy of what the release's reader makes of the document, and whether DeepSpeed reads the file."""
    seen = Context(Source(document, consumer, None), NUMBERS[release])
    if not seen.is_config or not document.readable(seen.parser):
        report = check_document(document, Target((release,), release, "argument"), consumer=consumer)
        refused = next((found for found in report if found.severity == "error"), None)
        why = f"{refused.code} {refused.message}" if refused else "it is no object"
        raise ResolveError(f"{document.name} cannot be read: {why}")
    return deepcopy(seen.data), seen.from_file


def _put(config: dict[str, Any], key: str, value: Any) -> None:
    """Write a value at a dotted path, making sections on the way."""
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise ValueError(f"{key!r} is no key: expected a dotted path such as `zero_optimization.stage`")
    here = config
    for depth, section in enumerate(sections, 1):
        inner = here.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key!r} cannot be set: `{'.'.join(sections[:depth])}` is no object")
        here = inner
    here[last] = deepcopy(value)


def _mapping(source: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    if source is None or isinstance(source, Mapping):
        return source
    from dsconfig.consumers.training_args import read_mapping

    return read_mapping(source)


def _plain(found: Triplet) -> Triplet:
    """Whole floats as ints: 8 ranks / 2 are 4.0 to DeepSpeed."""
    values = [
        int(value) if isinstance(value, float) and value.is_integer() else value for value in found.values()
    ]
    return Triplet(*values)
