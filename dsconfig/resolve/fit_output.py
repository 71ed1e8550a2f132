"""The text of a config with the changes that make it fit, and what has to be said of it then."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import asked, job_of
from dsconfig.check.check import check_document
from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.consumer_versions import parted
from dsconfig.consumers.registry import consumer_of
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.diagnostic import Remove, Set, dotted
from dsconfig.core.releases import Target
from dsconfig.document import Document, read_text
from dsconfig.document.edit import edited
from dsconfig.document.text_edit import EditError
from dsconfig.launch.located_config import locate
from dsconfig.resolve.memory_changes import over
from dsconfig.resolve.memory_request import Options, ask

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.resolve.fit_search import Fit
    from dsconfig.resolve.run import Run


def refuse_launch_file(document: Document) -> None:
    """Refuse a launch file, in which there is no place for the changes.

    Raises:
        ValueError: it is one.
    """
    if locate(document).how != "file":
        raise ValueError(f"{document.name} is a launch file: give the config itself, or leave -o out")


class Fitted(NamedTuple):
    """The text with the changes."""

    text: str
    out: tuple[str, ...] = ()
    """Keys that are taken out besides: with the changes nothing reads them."""
    consumer: str | None = None
    """The reader to name from now on, where the text alone would be taken for another's."""


def written(document: Document, options: Options, found: Fit, name: str) -> Fitted:
    """The config with the values that are written first, and then the changes; `name`: of its new file.

    Raises:
        ValueError: there is no place for them.
    """
    run = ask(document, options).run
    first = _first(document, options, run)
    values = reduce(over, (change.in_config for change, *_ in found.changes), first)
    try:
        before = _set(document, first)
        after = _set(document, values)
        out = sorted(_unread(after, run) - _unread(before, run)) if found.changes else []
        text = (edited(after, map(Remove, out)) if out else after).text
    except EditError as error:
        raise ValueError(f"{document.name} cannot be changed: {error}") from None
    said = asked(None, None, options.job.reader.said if options.job else options.consumer)
    of_old = job_of(document, said).reader.spec
    of_new = job_of(read_text(text, name, document.format), said).reader.spec
    return Fitted(text, tuple(map(dotted, out)), None if of_old == of_new else of_old)


def _set(document: Document, values: Mapping[str, Json]) -> Document:
    operations = [Set(tuple(key.split(".")), value) for key, value in values.items()]
    return edited(document, operations) if operations else document


def _unread(document: Document, run: Run) -> set[KeyPath]:
    """Keys that are written to no effect."""
    target = Target((run.release,), run.release, "argument")
    report = check_document(document, target, world_size=run.world_size, consumer=run.consumer)
    fixes = [found.fix.operations for found in report if found.effect == "ignored" and found.fix]
    removed = [operations for operations in fixes if all(isinstance(each, Remove) for each in operations)]
    return {each.path for operations in removed for each in operations if isinstance(each, Remove)}


def _first(document: Document, options: Options, run: Run) -> JsonObject:
    """What is written before the changes: values to write first, and the micro batch that is asked about.

    What the config leaves to training arguments stays `auto`: values there say what these will be.
    """
    data = document.value()
    own = data if isinstance(data, dict) else {}
    values = dict(options.set or {})
    if options.micro_batch is not None:
        batch = {MICRO: run.train_micro_batch_size_per_gpu, STEPS: run.gradient_accumulation_steps}
        batch[TRAIN] = run.train_batch_size
        values |= {key: value for key, value in batch.items() if key == MICRO or key in own}
    left = _arguments(run.consumer)
    return {key: value for key, value in values.items() if not (key in left and _at(own, key) == "auto")}


def _arguments(spec: str) -> frozenset[str]:
    """Keys that a reader fills from its arguments. It compares none of `zero_optimization` with them."""
    name = parted(spec)[0]
    fills = consumer_of(spec).fills if name in HUGGING_FACE else ()
    return frozenset(fill.key for fill in fills if not fill.key.startswith("zero_optimization."))


def _at(data: object, key: str) -> object:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data
