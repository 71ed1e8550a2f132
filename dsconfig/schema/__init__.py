"""JSON Schema of a DeepSpeed config, derived from the model: draft-07, self-contained, made for editors.

`json_schema()` gives it for one release and one consumer, `write()` its text; `files` are the ones in
`schema/`, which the wheel carries too. `root` composes the document, `sections` the schema of each section and of
its keys, `type_schema` the type of a key, `key_descriptions` its text.
"""

from __future__ import annotations

from dsconfig.consumers import CONSUMERS
from dsconfig.core import releases
from dsconfig.schema.keywords import DRAFT, Schema


def json_schema(target: str | releases.Target | None = None, consumer: str | None = None) -> Schema:
    """The JSON Schema of a DeepSpeed config: `jsonschema.validate(config.to_dict(), json_schema("0.19.8"))`.

    Args:
        target: a release, `installed` or `latest`; of a range the newest release counts. By default the
            installed DeepSpeed, else the latest release known.
        consumer: who reads the file, which decides where "auto" is taken. By default "auto" is taken wherever
            any consumer fills it, or DeepSpeed drops it.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown.
    """
    from dsconfig.schema.sections import root

    if consumer is not None and consumer not in CONSUMERS:
        raise ValueError(f"unknown consumer `{consumer}`: expected one of {', '.join(CONSUMERS)}")
    found = target if isinstance(target, releases.Target) else releases.resolve(target)
    release = found.releases[-1]
    reader = f", as {consumer.capitalize()} reads it" if consumer not in (None, "deepspeed") else ""
    return {
        "$schema": DRAFT,
        "title": f"DeepSpeed {release} config{reader}",
        "x-dsconfig-target": release,
        **({"x-dsconfig-consumer": consumer} if consumer else {}),
        **root(releases.NUMBERS[release], consumer),
    }
