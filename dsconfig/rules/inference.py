"""Configs of `deepspeed.init_inference`: releases that do not support them, and keys that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.rule import RULES, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.model.key_table import keys_of_section_class
from dsconfig.rules._fixes import remove_key


@rule(
    "DSC885", effect="rejected", until="0.7.5", source="__init__.py:init_inference", reads="inference config"
)
def inference_config_unsupported(ctx: Context) -> Iterator[Finding]:
    """The target release has no inference configs.

    Up to 0.7.5, `deepspeed.init_inference` has no argument `config`. It takes keyword arguments only, some of them
    under other names, so a call with `config=` raises a TypeError.

    Bad, release 0.7.5, read by inference:

        {"dtype": "fp16", "tensor_parallel": {"tp_size": 2}}

    Good, release 0.7.6, read by inference:

        {"dtype": "fp16", "tensor_parallel": {"tp_size": 2}}
    """
    yield ctx.at(
        (),
        f"`deepspeed.init_inference` of DeepSpeed {ctx.release_name} takes keyword arguments, but no config",
        help="upgrade DeepSpeed to 0.7.6 or later",
    )


@rule(
    "DSC886",
    effect="rejected",
    since="0.7.6",
    source="runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field",
    reads="inference config",
)
def old_and_new_inference_key(ctx: Context) -> Iterator[Finding]:
    """A deprecated key of an inference config is set together with the key that replaced it.

    DeepSpeed copies the value of a deprecated key to the new one, and rejects a config with both, even if the values
    are equal.

    Bad, read by inference:

        {"mp_size": 2, "tensor_parallel": {"tp_size": 2}}

    Good, read by inference:

        {"tensor_parallel": {"tp_size": 2}}
    """
    for info in keys_of_section_class(ctx.root_section).values():
        new = info.replaced_by
        if new is None or not _is_set(ctx, info.name) or not _is_set(ctx, new):
            continue
        written = ctx.written_path(info.name)
        yield ctx.at(
            info.name,
            f"`{written[-1]}` is the old name of `{new}`, and DeepSpeed rejects a config with both",
            help=f"keep only `{new}`",
            part="key",
            related=[(f"`{new}` is set here", new)],
            fix=remove_key(written, safe=ctx.raw(info.name) == ctx.raw(new)),
        )


def _is_set(ctx: Context, path: str) -> bool:
    """Return whether a key is set; an "auto" that its section ignores does not count."""
    value = ctx.raw(path)
    return value is not MISSING and (value != "auto" or ctx.value(path) == "auto")


_ZERO_RULES = ("DSC402", "DSC403", "DSC422")
"""Rules on `zero_optimization` that validators of DeepSpeed's model enforce, not the engine."""


@rule(
    "DSC887",
    effect="rejected",
    since="0.7.6",
    source="runtime/zero/config.py:DeepSpeedZeroConfig",
    reads="inference config",
)
def zero_of_inference_config_rejected(ctx: Context) -> Iterator[Finding]:
    """The section `zero` of an inference config has keys that exclude each other.

    DeepSpeed validates the section like `zero_optimization` of a training config, although no inference engine reads
    it.

    Bad, read by inference:

        {"zero": {"stage": 3, "cpu_offload_param": true, "offload_param": {"device": "cpu"}}}

    Good, read by inference:

        {"dtype": "fp16"}
    """
    section = ctx.raw("zero")
    if not isinstance(section, dict):
        return
    training = ctx.context_of_training_config({"zero_optimization": section})
    for code in _ZERO_RULES:
        zero_rule = RULES[code]
        ctx.equivalent = ctx.equivalent.intersect(zero_rule.releases.releases_on_same_side(ctx.release))
        if ctx.release in zero_rule.releases:
            for each in _findings(zero_rule.check(training)):
                yield ctx.at(
                    ("zero", *each.path[1:]),
                    each.message.replace("zero_optimization", "zero"),
                    help="remove `zero`: no inference engine reads it",
                    part=each.part,
                )
    ctx.equivalent = ctx.equivalent.intersect(training.equivalent).intersect(training.walk.equivalent)


def _findings(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a rule that the evaluation itself does not run."""
    try:
        yield from findings
    except SkipRule:
        return
