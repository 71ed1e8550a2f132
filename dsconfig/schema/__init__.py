"""JSON Schema of a DeepSpeed config for editors, derived from the model (draft-07, self-contained).

`json_schema()` returns the schema for one release and one consumer. `config_schema` builds the whole document and its
definitions, `schema_keywords` the schema of a type, `schema_files` the texts of the files in `schema/`.
"""

from __future__ import annotations

from dsconfig.core import releases
from dsconfig.job.consumers import CONSUMERS, INFERENCE
from dsconfig.schema.schema_keywords import DRAFT, Schema


def json_schema(target: str | releases.ReleaseTarget | None = None, consumer: str | None = None) -> Schema:
    """Return the JSON Schema of a DeepSpeed config for one release and consumer.

    Args:
        target: a release, `installed`, `latest`, or a range, whose newest release is used. Default: the installed
            DeepSpeed, else the latest known release.
        consumer: library that loads the file, which determines where "auto" is valid. Default: "auto" is valid wherever
            a consumer resolves it or DeepSpeed ignores it.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown.
    """
    from dsconfig.schema.config_schema import config_schema

    if consumer is not None and consumer not in CONSUMERS:
        raise ValueError(f"unknown consumer `{consumer}`: expected one of {', '.join(CONSUMERS)}")
    resolved = target if isinstance(target, releases.ReleaseTarget) else releases.resolve_target(target)
    release = resolved.releases[-1]
    suffix = f" for {consumer.capitalize()}" if consumer not in (None, "deepspeed", INFERENCE) else ""
    kind = "inference config" if consumer == INFERENCE else "config"
    return {
        "$schema": DRAFT,
        "title": f"DeepSpeed {release} {kind}{suffix}",
        "x-dsconfig-target": release,
        **({"x-dsconfig-consumer": consumer} if consumer else {}),
        **config_schema(releases.NUMBERS[release], consumer),
    }
