"""Describe the programs of a job: the consumer's name and changes, and the versions of other programs."""

from __future__ import annotations

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import installed_version
from dsconfig.evaluation.rule_context import Context
from dsconfig.job.consumers import consumer_versions

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.core.version_ranges import VersionRange


FILL = "accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process"
INIT = "accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__"


class ProgramVersions(NamedTuple):
    """The versions of a program that a job may use, and the evidence."""

    versions: VersionRange
    text: str
    """Version and evidence for messages, such as `2.4.0 (requirements.txt:3)`."""


def program_versions(ctx: Context, program: str) -> ProgramVersions | None:
    """Return the versions of a program that the job may use, or None if unknown.

    A requirement in the repository takes precedence, because it may allow several versions, while the consumer has a
    single version. An installed version is evidence only if DeepSpeed is installed too: the environment of a tool such
    as pre-commit says nothing about the job.
    """
    # Most rules need only the names in this module.
    from dsconfig.core.version_ranges import parse_version_range
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


def consumer_label(ctx: Context) -> str:
    """Return the consumer's name for messages."""
    return "the Trainer" if ctx.consumer == "transformers" else program_label(ctx)


def program_label(ctx: Context) -> str:
    """Return the name of the program that loads the config, for messages."""
    return "`init_inference`" if ctx.consumer == "inference" else ctx.consumer.capitalize()


def consumer_has_change(ctx: Context, change: str) -> bool:
    """Return whether the consumer's version includes a change in `consumer_versions.CHANGES`."""
    return consumer_versions.version_includes_change(change, ctx.consumer, ctx.version)


def is_overwritten_by_accelerate(ctx: Context, path: KeyPath) -> bool:
    """Return whether Accelerate overwrites a key before it searches for unresolved "auto" values."""
    if path == ("zero_allow_untested_optimizer",):
        return "optimizer" not in ctx.data
    return path == ("steps_per_print",)
