"""JSON output, version 1; fields may be added, but not changed or removed.

`path` is a list of keys and indices, as in Python. Locations are 1-based with an exclusive end and count columns in
code points; they are null if there is no source text. The output is ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.render.machine_readable import dump_json

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, DetectedConsumer, FileReport, JobSummary
    from dsconfig.render.terminal_style import TerminalStyle

VERSION = 1


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield a JSON document for the whole run, one file per line."""
    yield f'{{"version": {VERSION}, "target": {dump_json(target.text)}, "files": ['
    comma = "\n"
    for report in reports:
        yield comma + dump_json(file_record(report))
        comma = ",\n"
    yield "\n]}\n" if comma == ",\n" else "]}\n"


def file_record(report: FileReport) -> dict[str, object]:
    """Return the JSON record of one file."""
    if report.read_error:
        return {"path": report.name, "error": report.read_error, "diagnostics": []}
    record = {"path": report.name, "target": report.target.text, "reader": consumer_record(report.reader)}
    if report.summary is not None:
        record["job"] = job_record(report.summary)
    if report.why_not_config:
        record["foreign"] = report.why_not_config
    return {**record, "diagnostics": [diagnostic.to_dict() for diagnostic in report.diagnostics]}


def job_record(summary: JobSummary) -> dict[str, object]:
    """Return the JSON record of a job that loads the config."""
    return {
        "location": summary.location,
        "consumer": summary.consumer,
        "config": summary.config or None,
        "worldSize": summary.world_size,
        "batch": None if summary.batch is None else list(summary.batch),
        "dataParallelSize": summary.data_parallel_size,
        "formula": summary.formula or None,
        "unknown": summary.unknown or None,
        "notChecked": summary.why_not_checked or None,
    }


def consumer_record(consumer: DetectedConsumer) -> dict[str, object]:
    """Return the JSON record of a consumer and the evidence for it."""
    return {"name": consumer.name, "why": consumer.why, "origin": consumer.origin, "likely": consumer.likely}
