"""Under which circumstances a config is judged: the release, the world size, and who reads it.

Whoever asks has the first word; then the config's own block `"$dsconfig"`; then settings; then the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers import ELASTIC, accelerate_launch_file
from dsconfig.consumers.consumer_versions import EXPECTED, is_known
from dsconfig.core import releases
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.consumer import Reader, given, of_content
from dsconfig.job.consumer import of_file as own_reader
from dsconfig.job.dsconfig_block import declared, has_block
from dsconfig.job.run_facts import NOTHING, Known, Model
from dsconfig.job.run_facts import of_file as own_known
from dsconfig.launch import config_references, detect_config
from dsconfig.launch.find_jobs import job_of
from dsconfig.launch.formats import SCRIPTS, format_of
from dsconfig.launch.job_arguments import informed


def asked_model(model: str | Mapping[str, Json]) -> Model:
    """The model that somebody asks for, which has to be there.

    Raises:
        ValueError: it cannot be read, or there is none; the message is one line and names it.
    """
    from dsconfig.rules._model_facts import asked_for

    return asked_for(model)


class Circumstances(NamedTuple):
    """Release, world size (None: unknown) and reader."""

    target: Target
    world_size: int | None
    reader: Reader


def circumstances(
    document: Document,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    known: Known = NOTHING,
) -> Circumstances:
    """The circumstances of a document, as far as these arguments leave them open.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown.
    """
    if consumer is not None and not is_known(consumer):
        raise ValueError(f"unknown consumer {consumer!r}: expected {EXPECTED}")
    chosen = target if isinstance(target, Target) else releases.resolve(target) if target else None
    reader = informed(given(consumer), document.name) if consumer else find_out(document)
    return Circumstances(
        chosen or of_file(document) or releases.resolve(None),
        declared(document.value()).world_size if world_size is None else world_size,
        with_known(reader, document, known),
    )


def with_known(reader: Reader, document: Document, asked: Known, configured: Known = NOTHING) -> Reader:
    """The reader with model and hosts: asked for, of the config's own block, of settings, of its job."""
    own = own_known(document.value(), document.name)
    found = asked.over(own.over(configured.over(reader.known)))
    return reader if found == reader.known else reader._replace(known=found)


def foreign(document: Document) -> str | None:
    """Why a document is not a DeepSpeed config, in words; None where it is one, or means to be."""
    why = detect_config.foreign(document)
    return None if why is None else f"not a DeepSpeed config: {why}"


def of_file(document: Document) -> Target | None:
    """The releases that the document itself names; None where it names none that there is."""
    text = declared(document.value()).target
    try:
        return None if text is None else releases.resolve(text, "file")
    except UnknownReleaseError:
        return None


def find_out(document: Document, configured: Reader | None = None) -> Reader:
    """Who reads the document. `configured`: what the settings say of its path."""
    if document.name.endswith(SCRIPTS) and (job := job_of(document)) is not None:
        return Reader(job.reader.name, "it is a shell script", "content")
    data = document.value()
    if (launch := format_of(data)) is not None:
        return Reader(launch.reader, f"it is a launch file of {launch.name}", "content")
    if accelerate_launch_file.is_launch_file(data):
        return Reader("accelerate", "it is a launch file of Accelerate", "content")
    if configured and configured.name == ELASTIC and not has_block(data):
        configured = None  # said of a folder: what has no block is started in some other way
    found = own_reader(data) or configured
    if found is None:
        content = of_content(data)
        found = config_references.reader_of(document.name, content) or content
    return informed(found, document.name)
