"""Determine program versions: pinned by the repository, given by the user, or installed with DeepSpeed."""

from __future__ import annotations

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import installed_version
from dsconfig.core.version_ranges import VersionRange, parse_version_range
from dsconfig.evaluation.rule_context import Context


class ProgramVersions(NamedTuple):
    """The versions of a program with which a job may run, and the evidence."""

    versions: VersionRange
    text: str
    """Version and evidence for messages, such as `2.4.0 (requirements.txt:3)`."""


def program_versions(ctx: Context, program: str) -> ProgramVersions | None:
    """Return the versions of a program with which the job may run, or None if unknown.

    A requirement in the repository takes precedence, because it may allow several versions, while the version
    of a consumer is a single one. An installed version is evidence only where DeepSpeed is installed too: a
    tool environment such as pre-commit's says nothing about the job.
    """
    from dsconfig.launch.requirements import find_requirements

    requirements = find_requirements(program, ctx.document.name)
    if requirements is not None:
        agreed = requirements.agreed_requirement
        return (
            None
            if agreed is None
            else ProgramVersions(parse_version_range(agreed.specifier), agreed.shown_requirement)
        )
    if program == ctx.consumer and ctx.version is not None:
        return ProgramVersions(parse_version_range(f"=={ctx.version}"), ctx.version)
    if installed_version("deepspeed") is None or (version := installed_version(program)) is None:
        return None
    return ProgramVersions(parse_version_range(f"=={version}"), f"{version} (installed)")
