"""Configs of `deepspeed.init_inference`: releases that do not support them, and keys that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.rule import RULES, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.model.key_table import keys_of_section_class
from dsconfig.rules._fixes import remove_key

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.launch.python.inference_calls import InferenceArguments


@rule(
    "DSC885", effect="rejected", until="0.7.5", source="__init__.py:init_inference", reads="inference config"
)
def inference_config_unsupported(ctx: Context) -> Iterator[Finding]:
    """The target release has no inference configs.

    Up to 0.7.5, `deepspeed.init_inference` has no argument `config`, so a call with it raises a TypeError. It takes
    keyword arguments only, and not those that later releases added.

    Bad, release 0.7.5, read by inference:

        {"dtype": "fp16", "tensor_parallel": {"tp_size": 2}}

    Good, release 0.7.6, read by inference:

        {"dtype": "fp16", "tensor_parallel": {"tp_size": 2}}
    """
    arguments = _arguments_of_call(ctx)
    if arguments is None and ctx.document.is_in_program:
        return  # several calls receive the dict
    is_keyword = arguments is None or arguments.config not in (None, *arguments.positional)
    if is_keyword or arguments is None or arguments.function != _CALL:
        yield ctx.at(
            (),
            f"`deepspeed.init_inference` of DeepSpeed {ctx.release_name} takes keyword arguments, but no config",
            help=_UPGRADE,
        )
    elif arguments.config is not None and arguments.is_dict_shown:
        name = "mp_size" if ctx.before(_AFTER_MODULE_KEY) else "triangular_masking"
        yield ctx.at(
            (),
            f"`init_inference` of DeepSpeed {ctx.release_name} takes no config, and uses the dict as `{name}`",
            help=_UPGRADE,
            # An argument that is passed twice raises a TypeError.
            effect="rejected"
            if name in arguments.keywords
            else "crashes"
            if name == "mp_size"
            else "ignored",
        )
        yield from _unknown_arguments(ctx, arguments.keywords)
    else:
        yield from _unknown_arguments(ctx, tuple(ctx.data))


def _unknown_arguments(ctx: Context, names: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each argument that `init_inference` of a release before 0.7.6 does not have."""
    ctx.depends_on(*_FIRST_ARGUMENTS.values(), _AFTER_MODULE_KEY)
    for name in names:
        first = _FIRST_ARGUMENTS.get(name)
        is_gone = name == _MODULE_KEY and ctx.since(_AFTER_MODULE_KEY)
        if first is None or ctx.before(first) or is_gone:
            yield ctx.at(
                name,
                f"`init_inference` of DeepSpeed {ctx.release_name} has no argument `{name}`",
                help="remove it" if is_gone else f"upgrade DeepSpeed to {first or '0.7.6'} or later",
                part="key",
            )


_UPGRADE = "upgrade DeepSpeed to 0.7.6 or later"
_CALL = "init_inference"
_MODULE_KEY, _AFTER_MODULE_KEY = "module_key", "0.6.0"
"""An argument that only the first releases have, and the first release without it."""
_FIRST_ARGUMENTS = {
    **dict.fromkeys(
        (
            "mp_size",
            "mpu",
            "checkpoint",
            _MODULE_KEY,
            "dtype",
            "injection_policy",
            "replace_method",
            "quantization_setting",
        ),
        "0.4.0",
    ),
    **dict.fromkeys(("replace_with_kernel_inject", "return_tuple"), "0.5.7"),
    **dict.fromkeys(
        ("triangular_masking", "ep_group", "expert_mp_group", "ep_size", "moe", "moe_experts", "moe_type"),
        _AFTER_MODULE_KEY,
    ),
    **dict.fromkeys(("training_mp_size", "args"), "0.6.3"),
    "enable_cuda_graph": "0.6.5",
    "save_mp_checkpoint_path": "0.7.0",
    "base_dir": "0.7.3",
    "max_tokens": "0.7.5",
}
"""First release of each argument of `init_inference` before there were configs (`__init__.py:init_inference`)."""


def _arguments_of_call(ctx: Context) -> InferenceArguments | None:
    """Return the arguments of the call that the config belongs to, or None for a file and a dict of its own."""
    if not ctx.document.is_in_program:
        return None
    from dsconfig.launch.python.config_dicts import config_of_document

    config = config_of_document(ctx.document)
    return None if config is None else config.arguments


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


@rule(
    "DSC888",
    effect="rejected",
    source="__init__.py:init_inference",
    reads="inference config",
)
def argument_contradicts_inference_config(ctx: Context) -> Iterator[Finding]:
    """A keyword argument of `init_inference` has another value than the same key of the config.

    DeepSpeed merges the keyword arguments into the config, and raises a ValueError if both set a key to different
    values:

        deepspeed.init_inference(model, config={"dtype": "fp16"}, dtype=torch.float32)

    Set each key in one of the two places. If the config is passed as `**config`, Python allows no key twice, not even
    with the same value.

    Good, read by inference:

        {"dtype": "fp16"}
    """
    arguments = _arguments_of_call(ctx)
    for key, is_unpacked, span in () if arguments is None else arguments.repeated:
        if not is_unpacked and ctx.before("0.7.6"):  # DSC885
            continue
        yield ctx.at(
            key,
            f"`{key}` is a keyword argument and a key of the unpacked dict, and Python raises a TypeError"
            if is_unpacked
            else f"the keyword argument `{key}` contradicts the config, and DeepSpeed raises a ValueError",
            help="keep only one of the two",
            part="key",
        )._replace(related_spans=((f"the dict sets `{key}` here", span),))


@rule(
    "DSC889",
    effect="rejected",
    since="0.7.6",
    source="__init__.py:init_inference",
    reads="inference config",
)
def invalid_argument_of_init_inference(ctx: Context) -> Iterator[Finding]:
    """`init_inference` gets more positional arguments than the model and the config, or a config of another type.

    Up to 0.7.5, the second positional argument was `mp_size` or `triangular_masking`. Since then it is the config,
    which has to be a dict or the path to a JSON file, and every setting is a key or a keyword argument:

        deepspeed.init_inference(model, 2)          # rejected
        deepspeed.init_inference(model, tensor_parallel={"tp_size": 2})

    Good, read by inference:

        {"tensor_parallel": {"tp_size": 2}}
    """
    arguments = _arguments_of_call(ctx)
    if arguments is None:
        return
    message, span = "", None
    if arguments.has_invalid_config:
        message, span = "the config is neither a dict nor the path to a file", arguments.config
    elif len(arguments.positional) > 1:
        message, span = "only the model and the config are positional arguments", arguments.positional[1]
    elif arguments.positional and arguments.config != arguments.positional[0]:
        message, span = "the config is passed twice, by position and by keyword", arguments.positional[0]
    if span is not None:
        yield ctx.at(
            (),
            f"{message}, so `init_inference` of DeepSpeed {ctx.release_name} raises an error",
            help="pass settings as keys of a dict, or as keyword arguments",
        )._replace(span=span)


def _findings(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a rule that the evaluation itself does not run."""
    try:
        yield from findings
    except SkipRule:
        return
