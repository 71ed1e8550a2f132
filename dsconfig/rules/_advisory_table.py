"""Load the known defects of released versions from `advisories.json`, and find those that affect a job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache, cached_property

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.releases import RELEASES, ReleaseInterval, release_name, release_number
from dsconfig.core.version_ranges import VersionRange, parse_version_range, version_numbers
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.rules._batch_triplet import accumulation_steps
from dsconfig.rules._built_class import written_type
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    PARAM,
    effective_stage,
    offload_device,
    training_dtype,
    uses_bf16_optimizer,
)
from dsconfig.rules._job_programs import program_versions

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

FILE = "advisories.json"
"""Name of the data file next to this module; the worker of the editors imports the package from a zip archive."""
DEEPSPEED = "deepspeed"


class _AdvisoryFields(NamedTuple):
    """The fields of an entry in `advisories.json`."""

    id: str
    effect: EffectName
    versions: Mapping[str, str]
    """Affected versions (PEP 440 specifiers) by distribution name; a job is affected only if it matches all of them."""
    summary: str
    """Consequence of the defect, used as the message of the diagnostic."""
    detail: str
    """Reason for the defect in one to three sentences, for the documentation pages."""
    source: str
    """File and symbol that contain the defect."""
    reference: str
    """Pull request or issue that fixes or describes the defect."""
    confirmed: str
    """How the entry was verified: a key of `CONFIRMED`."""
    when: Mapping[str, Json] = {}
    """Tests of facts (`FACTS`) and config keys by name; the defect applies only if all of them pass."""
    at: str = ""
    """Path of the config key to report; empty for the whole config."""
    workaround: str = ""
    """Remedy that needs no upgrade, phrased as an imperative."""
    example: Mapping[str, Json] = {}
    """Arguments to pass to `check` for an example of an affected config."""


class Advisory(_AdvisoryFields):
    """A combination of versions and settings that is known not to work."""

    @cached_property
    def ranges(self) -> dict[str, VersionRange]:
        """The affected versions of each program."""
        return {program: parse_version_range(specifier) for program, specifier in self.versions.items()}

    @cached_property
    def releases(self) -> ReleaseInterval:
        """The affected DeepSpeed releases, or all of them if the defect is in another program."""
        affected = self.ranges.get(DEEPSPEED, VersionRange())
        numbers = [release_number(each) for each in RELEASES if version_numbers(each) in affected]
        last = ReleaseInterval().last if numbers[-1] == release_number(RELEASES[-1]) else numbers[-1]
        return ReleaseInterval(0 if numbers[0] == release_number(RELEASES[0]) else numbers[0], last)

    @cached_property
    def fixed(self) -> str | None:
        """First DeepSpeed release without the defect; None if there is none, or if another program is at fault."""
        later = [each for each in RELEASES if release_number(each) > self.releases.last]
        return later[0] if later else None

    @property
    def affected(self) -> str:
        """The affected versions as text: `DeepSpeed 0.15.2 to 0.18.9, torch >= 2.4`."""
        return ", ".join(_format_versions(self, program) for program in self.versions)

    @property
    def remedies(self) -> str:
        """The upgrade and the workaround, joined into a help text."""
        upgrades = [f"upgrade DeepSpeed to {self.fixed} or later"] if self.fixed else []
        if not upgrades or not self.workaround:
            return self.workaround or "".join(upgrades)
        # A workaround that is itself a choice continues the list.
        return f"{upgrades[0]}, {'' if ', or ' in self.workaround else 'or '}{self.workaround}"


CONFIRMED = {
    "engine": "shown with real engines of the last affected and the first fixed release",
    "code": "read in the sources of the last affected and the first fixed release",
    "maintainer": "stated by a maintainer in the reference",
}
"""Description of each value of an advisory's `confirmed` field."""
_LABELS = {DEEPSPEED: "DeepSpeed", "transformers": "Transformers", "accelerate": "Accelerate", "trl": "TRL"}


def _format_versions(advisory: Advisory, program: str) -> str:
    if program == DEEPSPEED:
        return _format_releases(advisory)
    return f"{_LABELS.get(program, program)} {advisory.versions[program].replace(',', ', ')}"


def _format_releases(advisory: Advisory) -> str:
    """Return the affected DeepSpeed releases as text, such as `DeepSpeed 0.15.2 to 0.18.9`."""
    names = [each for each in RELEASES if release_number(each) in advisory.releases]
    return f"DeepSpeed {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")


@cache
def load_advisories() -> tuple[Advisory, ...]:
    """Load all advisories from `advisories.json`."""
    loader = __spec__.loader if __spec__ is not None else None
    data: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), FILE))  # type: ignore[union-attr]
    return tuple(Advisory(**row) for row in json.loads(data))


def last_affected_release(*effects: EffectName, is_about_settings: bool = True) -> str | None:
    """Return the last release that an advisory with one of `effects` affects; None if it is the newest.

    The rule that reports these advisories does not run on later releases.
    """
    entries = [
        each for each in load_advisories() if each.effect in effects and bool(each.when) == is_about_settings
    ]
    last = max(each.releases.last for each in entries)
    return None if last == ReleaseInterval().last else release_name(last)


def advisories_for_versions(versions: Mapping[str, str]) -> Iterator[Advisory]:
    """Yield the advisories of which every program has an affected version, whatever the settings.

    Args:
        versions: the installed version of each distribution.
    """
    for each in load_advisories():
        known = ((affected, versions.get(program)) for program, affected in each.ranges.items())
        if all(version is not None and version_numbers(version) in affected for affected, version in known):
            yield each


def code_of_advisory(advisory: Advisory) -> str:
    """Return the code of the rule that reports the advisory."""
    if not advisory.when:
        return "DSC883"
    return {"crashes": "DSC880", "wasteful": "DSC882"}.get(advisory.effect, "DSC881")


def advisory_documentation(advisory: Advisory) -> Iterator[str]:
    """Yield the lines of an advisory's documentation, without a heading."""
    yield from (f"{advisory.summary[0].upper()}{advisory.summary[1:]}.", "", advisory.detail, "")
    yield f"- Affected: {advisory.affected}"
    if advisory.when:
        yield f"- Settings: {'; '.join(_format_condition(name, test) for name, test in advisory.when.items())}"
    yield f"- Remedy: {advisory.remedies}"
    yield f"- Effect: {advisory.effect} (reported as {code_of_advisory(advisory)})"
    yield f"- Source: `{advisory.source}`, {advisory.reference}"
    yield f"- Confirmed: {CONFIRMED[advisory.confirmed]}"


_FACT_LABELS = {
    "stage": "ZeRO stage",
    "dtype": "training dtype",
    "optimizer_device": "device of `offload_optimizer`",
    "param_device": "device of `offload_param`",
    "optimizer_type": "optimizer",
    "accumulation": "micro-batches per step",
    "overlap": "effective `overlap_comm`",
    "bf16_optimizer": "`BF16_Optimizer` (bf16 with fp32 accumulation at stage 1)",
    "consumer": "consumer",
    "ranks": "ranks",
}


def _format_condition(name: str, test: Any) -> str:
    """Format the test of a fact or key, such as `ZeRO stage: 1 or 2`."""
    label = _FACT_LABELS.get(name, f"`{name}`")
    if isinstance(test, list):
        return f"{label}: {' or '.join('not set' if each is None else quote_value(each) for each in test)}"
    if "set" in test:
        return f"{label}: {'set' if test['set'] else 'not set'}"
    least = test["least"]
    return f"{label}: above 0" if least < 1 else f"{label}: at least {least}"


def advisory_findings(
    ctx: Context, *effects: EffectName, is_about_settings: bool = True
) -> Iterator[Finding]:
    """Yield a finding for each advisory that certainly applies to the job and has one of `effects`.

    Args:
        ctx: the config in the evaluated release.
        effects: effects of the advisories to report.
        is_about_settings: whether to report advisories that test settings, or those about versions alone.
    """
    for each in load_advisories():
        if (
            each.effect in effects
            and bool(each.when) == is_about_settings
            and (pins := _affected_program_versions(ctx, each)) is not None
        ):
            releases = [_format_releases(each)] if DEEPSPEED in each.versions else []
            yield ctx.at(
                _location_of_advisory(ctx, each),
                f"known bug in {' with '.join([*releases, *pins])}: {each.summary} (advisory `{each.id}`)",
                help=each.remedies or None,
                effect=each.effect,
                part="value" if each.at and ctx.has(each.at) else "key",
            )._replace(advisory=each.id)


def _location_of_advisory(ctx: Context, advisory: Advisory) -> str:
    """Return the path at which to report an advisory: its key, or the nearest parent that the config has."""
    path = advisory.at
    while path and not ctx.has(path):
        path = path.rpartition(".")[0]
    return path


def _affected_program_versions(ctx: Context, advisory: Advisory) -> list[str] | None:
    """Return the affected versions of other programs as text, or None if the advisory does not apply."""
    try:
        if not all(_fulfills_condition(ctx, name, test) for name, test in advisory.when.items()):
            return None
    except SkipRule:
        return None
    pins = []
    for program, affected in advisory.ranges.items():
        if program == DEEPSPEED:
            continue
        known = program_versions(ctx, program)
        if known is None or not known.versions.is_within(affected):
            return None
        pins.append(f"{_LABELS.get(program, program)} {known.text}")
    # Last, because each comparison of releases narrows the class of releases that behave alike.
    return pins if _is_affected(ctx, advisory) else None


def _is_affected(ctx: Context, advisory: Advisory) -> bool:
    """Return whether the release is affected with enough certainty to report the advisory.

    If the target is a range, the release is unknown, and most likely the newest in the range. An advisory for only a
    part of the range is reported only if the job would crash, as in other rules, and if it depends on no other program.
    """
    affected, target = advisory.releases, ctx.target
    is_part = target.first not in affected or target.last not in affected
    if is_part and (advisory.effect != "crashes" or len(advisory.versions) > 1):
        return False
    ctx.equivalent = ctx.equivalent.intersect(affected.releases_on_same_side(ctx.release))
    return ctx.release in affected


def _overlaps_communication(ctx: Context) -> Json:
    """Return the effective `overlap_comm`, which defaults to true only at stage 3.

    Source: runtime/zero/config.py, `overlap_comm_valid`.
    """
    value = ctx.value("zero_optimization.overlap_comm")
    return effective_stage(ctx) == 3 if value is None else value


FACTS: Mapping[str, Callable[[Context], Json]] = {
    "stage": effective_stage,
    "dtype": training_dtype,
    "optimizer_device": lambda ctx: offload_device(ctx, OPTIMIZER),
    "param_device": lambda ctx: offload_device(ctx, PARAM),
    "optimizer_type": lambda ctx: (written_type(ctx, "optimizer") or "").lower(),
    "accumulation": accumulation_steps,
    "overlap": _overlaps_communication,
    "bf16_optimizer": uses_bf16_optimizer,
    "consumer": lambda ctx: ctx.consumer,
    # A job with an unknown number of ranks has several of them, unless the user says otherwise.
    "ranks": lambda ctx: 2 if ctx.world_size is None else ctx.world_size,
}
"""Facts that an advisory can test besides keys. A fact that is None or left to the consumer passes no test."""


def _fulfills_condition(ctx: Context, name: str, test: Any) -> bool:
    """Return whether a fact or key passes a test: a list of accepted values, or an object with `least` or `set`."""
    if name in FACTS:
        value = FACTS[name](ctx)
    elif isinstance(test, dict) and "set" in test:
        return ctx.has(name) is test["set"] and (not test["set"] or ctx.raw(name) is not MISSING)
    else:
        value = ctx.value(name)
    if isinstance(test, list):
        return any(type(value) is type(each) and value == each for each in test)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return bool(value >= test["least"])
