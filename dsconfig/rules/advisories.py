"""Known defects of released versions that apply to a job (`advisories.json`), and versions that the Trainer rejects."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.version_ranges import parse_version_range
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.job.consumers.consumer_versions import minimum_accelerate_version, minimum_deepspeed_release
from dsconfig.rules._advisory_table import advisory_findings, last_affected_release
from dsconfig.rules._job_programs import program_versions

_SOURCE = "dsconfig/rules/advisories.json, which names the source of each entry"


@rule("DSC880", effect="crashes", until=last_affected_release("crashes"), source=_SOURCE)
def release_with_known_crash(ctx: Context) -> Iterator[Finding]:
    """The job fails with these settings, because of a defect of the release.

    `dsconfig explain` shows the reason, the affected releases and the source of each advisory. An advisory is reported
    only if the release and all settings are known. If another program such as PyTorch is involved, the repository must
    require an affected version.

    Bad, release 0.7.6:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}

    Good, release 0.7.7:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    yield from advisory_findings(ctx, "crashes")


@rule("DSC881", effect="altered", until=last_affected_release("altered", "ignored"), source=_SOURCE)
def release_with_known_wrong_result(ctx: Context) -> Iterator[Finding]:
    """The job trains differently from what these settings say, because of a defect of the release.

    Such defects raise no error: gradients are dropped or not averaged, weights are stale, or a setting has no
    effect. `dsconfig explain` shows the reason, the affected releases and the source of each advisory.

    Bad, release 0.16.4:

        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good, release 0.19.0:

        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    yield from advisory_findings(ctx, "altered", "ignored")


@rule("DSC882", effect="wasteful", until=last_affected_release("wasteful"), source=_SOURCE)
def release_with_known_waste(ctx: Context) -> Iterator[Finding]:
    """The job needs more memory or time with these settings, or may diverge, because of a defect of the release.

    `dsconfig explain` shows the reason, the affected releases and the source of each advisory.

    Bad, release 0.17.2:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}

    Good, release 0.17.3:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}
    """
    yield from advisory_findings(ctx, "wasteful")


_ALL: tuple[EffectName, ...] = ("crashes", "altered", "ignored", "wasteful")


@rule("DSC883", effect="crashes", until=last_affected_release(*_ALL, is_about_settings=False), source=_SOURCE)
def incompatible_versions(ctx: Context) -> Iterator[Finding]:
    """The repository requires versions of DeepSpeed and of another program that do not work together.

    For example, DeepSpeed before 0.14.4 cannot be imported with PyTorch 2.4, whatever the config says. The rule reports
    this only if a requirement (`requirements.txt`, a lock file, an image) allows only affected versions, or if both
    programs are installed.

    Good:

        {"train_batch_size": 8}
    """
    if ctx.is_in_repository:
        yield from advisory_findings(ctx, *_ALL, is_about_settings=False)


@rule(
    "DSC874",
    effect="crashes",
    until="0.9.2",
    source="transformers integrations/deepspeed.py:HfDeepSpeedConfig.__init__",
)
def deepspeed_older_than_trainer_requires(ctx: Context) -> Iterator[Finding]:
    """The DeepSpeed release is older than the Trainer in this version of Transformers requires.

    The Trainer compares the installed versions with a table when it loads the config, and raises "deepspeed>=0.9.3
    is required for a normal functioning of this module". Install scripts that pin DeepSpeed but not Transformers
    run into this.

    Bad, read by transformers==4.31.0, release 0.8.3:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Good, read by transformers==4.30.2, release 0.8.3:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or ctx.version is None:
        return
    least = minimum_deepspeed_release(ctx.consumer, ctx.version)
    if least is not None and ctx.before(least):
        yield ctx.at(
            (),
            f"the Trainer in Transformers {ctx.version} requires DeepSpeed {least} or later, "
            f"but the target is {ctx.release_name}",
            help=f"upgrade DeepSpeed to {least} or later, or use an older version of Transformers",
        )


@rule("DSC875", effect="crashes", source="transformers integrations/deepspeed.py:HfDeepSpeedConfig.__init__")
def accelerate_older_than_trainer_requires(ctx: Context) -> Iterator[Finding]:
    """The repository requires a version of Accelerate that is too old for the Trainer in its version of Transformers.

    The Trainer compares the installed versions with a table when it loads the config, and raises "accelerate>=0.26.0
    is required for a normal functioning of this module". It is reported only if the requirements of the repository
    allow older versions alone.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or ctx.version is None or not ctx.is_in_repository:
        return
    least, known = minimum_accelerate_version(ctx.version), program_versions(ctx, "accelerate")
    if least is not None and known is not None and known.versions.is_within(parse_version_range(f"<{least}")):
        yield ctx.at(
            (),
            f"the Trainer in Transformers {ctx.version} requires Accelerate {least} or later, "
            f"but the requirements allow {known.text}",
            help=f"upgrade Accelerate to {least} or later, or use an older version of Transformers",
        )
