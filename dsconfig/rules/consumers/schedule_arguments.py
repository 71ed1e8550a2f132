"""Optimizer and scheduler arguments of the job that the config's sections override."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import ADAM, BuiltClass, built_optimizer, built_scheduler, configured_params
from dsconfig.rules._effective_values import as_number
from dsconfig.rules._job_programs import consumer_has_change

# The Trainer creates an optimizer and a schedule only if the config has no section for them.

_SECTIONS = "transformers integrations/deepspeed.py:deepspeed_optim_sched"
_MATCH = "transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig.fill_match"


def _launch_argument(ctx: Context, name: str) -> Json:
    """Return an argument that the launch file sets, or None if it is not set or unknown."""
    if ctx.consumer != "transformers" or ctx.arguments is None:
        return None
    return ctx.arguments.explicit.get(name)


def _argument_label(ctx: Context, name: str) -> str:
    """Return an argument's name as spelled in the launch file."""
    spelled = ctx.arguments.spelled if ctx.arguments else {}
    return f"`{spelled.get(name, name)}` of the job"


class _ScheduleCurve(NamedTuple):
    """A schedule of DeepSpeed, and the Trainer's names for schedules of the same shape."""

    names: frozenset[str]
    course: str


_CURVES: Mapping[str, _ScheduleCurve] = {
    "WarmupLR": _ScheduleCurve(
        frozenset({"constant", "constant_with_warmup"}), "stays constant after the warmup"
    ),
    "WarmupDecayLR": _ScheduleCurve(frozenset({"linear"}), "falls linearly to 0 after the warmup"),
    "WarmupCosineLR": _ScheduleCurve(
        frozenset({"cosine", "cosine_with_min_lr", "cosine_warmup_with_min_lr"}),
        "falls along a cosine after the warmup",
    ),
    "OneCycle": _ScheduleCurve(frozenset({"one_cycle"}), "rises and falls in one cycle"),
    "LRRangeTest": _ScheduleCurve(frozenset(), "rises step by step, to find a usable range"),
}
_CURVES_OF_TORCH: Mapping[str, frozenset[str]] = {
    "CosineAnnealingLR": frozenset({"cosine", "cosine_with_min_lr"}),
    "CosineAnnealingWarmRestarts": frozenset({"cosine", "cosine_with_restarts"}),
    "LinearLR": frozenset({"linear"}),
    "OneCycleLR": frozenset({"one_cycle"}),
    "PolynomialLR": frozenset({"linear", "polynomial"}),
    "ReduceLROnPlateau": frozenset({"reduce_lr_on_plateau"}),
}


@rule("DSC829", effect="ignored", source=_SECTIONS)
def schedule_argument_overridden(ctx: Context) -> Iterator[Finding]:
    """The job requests a different schedule than the `scheduler` section, which takes precedence.

    The Trainer creates a schedule from `lr_scheduler_type` only if the config has no `scheduler`. `WarmupLR`
    corresponds to `constant_with_warmup`, `WarmupDecayLR` to `linear`, and `WarmupCosineLR` to `cosine`. With
    `WarmupLR` and `--lr_scheduler_type cosine`, the learning rate stays constant after the warmup. dsconfig reports
    this only if a launch file with the arguments names the config.

    Bad, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "lr_scheduler": "cosine",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}}}

    Good, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "lr_scheduler": "cosine",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}
    """
    name = _launch_argument(ctx, "lr_scheduler_type")
    chosen = built_scheduler(ctx) if isinstance(name, str) and ctx.has("scheduler.type") else None
    if chosen is None or not isinstance(name, str):
        return
    curve = _CURVES.get(chosen.name)
    names = curve.names if curve else _CURVES_OF_TORCH.get(chosen.built.rpartition(".")[2])
    if names is None or name.lower() in names:
        return
    course = f": the learning rate {curve.course}" if curve else ""
    same = next((each for each in ("constant_with_warmup", "linear", "cosine") if each in names), None)
    yield ctx.at(
        "scheduler.type",
        f"{_argument_label(ctx, 'lr_scheduler_type')} is {quote_value(name)}, but the Trainer uses the "
        "`scheduler` of the config,"
        f" {quote_value(chosen.name)}{course}",
        help="remove `scheduler`, so that the Trainer creates the schedule"
        + (f", or pass `{same}`, which is what the config does" if same else ", or leave out the argument"),
        fix=Fix("remove `scheduler`", (RemoveKey(("scheduler",)),)),
    )


_ADAMW = frozenset(
    {
        "adamw",
        "adamw_apex_fused",
        "adamw_hf",
        "adamw_torch",
        "adamw_torch_fused",
        "adamw_torch_npu_fused",
        "adamw_torch_xla",
    }
)
_OPTIMS: Mapping[str, frozenset[str]] = {
    "Adagrad": frozenset({"adagrad"}),
    "Lion": frozenset({"lion_32bit"}),
    "Muon": frozenset({"muon"}),
    "RMSprop": frozenset({"rmsprop"}),
    "SGD": frozenset({"sgd"}),
    **dict.fromkeys(ADAM, _ADAMW),
}
"""Values of the argument `optim` that stand for the same algorithm and precision, by the config's optimizer."""


@rule("DSC830", effect="ignored", source=_SECTIONS)
def optimizer_argument_overridden(ctx: Context) -> Iterator[Finding]:
    """The job requests a different optimizer than the `optimizer` section, which takes precedence.

    The Trainer creates the optimizer of `optim` only if the config has no `optimizer`. An 8-bit or paged optimizer,
    which would save memory, is then not used. `adafactor` is even rejected: "Only one optimizer can be configured".

    Bad, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "optimizer": "adamw_bnb_8bit",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}}

    Good, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "optimizer": "adamw_bnb_8bit",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}
    """
    name = _launch_argument(ctx, "optim")
    chosen = built_optimizer(ctx) if isinstance(name, str) and ctx.has("optimizer.type") else None
    if chosen is None or not isinstance(name, str):
        return
    if name.lower() in _OPTIMS.get(chosen.name.rpartition(".")[2], frozenset()):
        return
    is_rejected = name == "adafactor"
    verdict = (
        "which the Trainer rejects together with an `optimizer` in the config"
        if is_rejected
        else f"but the Trainer uses the `optimizer` of the config, {quote_value(chosen.name)}"
    )
    yield ctx.at(
        "optimizer.type",
        f"{_argument_label(ctx, 'optim')} is {quote_value(name)}, {verdict}",
        help="remove `optimizer`, so that the Trainer creates the optimizer, or leave out the argument",
        effect="rejected" if is_rejected else "ignored",
        fix=Fix("remove `optimizer`", (RemoveKey(("optimizer",)),)),
    )


# The Trainer's own optimizer under offloading.

_CPU_ADAM = "accelerate utils/deepspeed.py:map_pytorch_optim_to_deepspeed"
_KEPT_BY_MAP = frozenset({"adagrad", "lion_32bit"})
_BETAS = ("adam_beta1", "adam_beta2", "adam_epsilon")
_ADAM_DEFAULTS = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}


@rule("DSC831", effect="altered", source=_CPU_ADAM)
def optimizer_argument_under_offload(ctx: Context) -> Iterator[Finding]:
    """The optimizer is offloaded, so Accelerate replaces the requested one with `DeepSpeedCPUAdam`.

    Without an `optimizer` section, the Trainer creates the optimizer of `optim`. Accelerate replaces Adagrad and Lion
    (of PyTorch, or 32-bit ones of bitsandbytes) with DeepSpeed's CPU versions, and any other optimizer with
    `DeepSpeedCPUAdam`. This runs as AdamW in place of a 32-bit AdamW, otherwise as Adam with L2 regularization. Only
    the learning rate and the weight decay are kept; `adam_beta1`, `adam_beta2` and `adam_epsilon` are not.

    Bad, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "optimizer": "adamw_bnb_8bit",
        "deepspeed": {"train_batch_size": "auto",
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}}

    Good, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "optimizer": "adamw_torch",
        "deepspeed": {"train_batch_size": "auto",
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}}
    """
    if ctx.consumer != "transformers" or ctx.arguments is None:
        return
    device = ctx.raw("zero_optimization.offload_optimizer.device")
    if (
        device not in ("cpu", "nvme")
        or "optimizer" in ctx.data
        or not consumer_has_change(ctx, "own_offload")
    ):
        return
    name = _launch_argument(ctx, "optim")
    path = "zero_optimization.offload_optimizer.device"
    if ctx.raw("zero_force_ds_cpu_optimizer") is False:
        if isinstance(name, str) and re.fullmatch(_BITSANDBYTES, name.lower()):
            yield ctx.at(
                path,
                f"{_argument_label(ctx, 'optim')} is {quote_value(name)}, whose kernels run on GPUs only, but the"
                " optimizer is offloaded, and `zero_force_ds_cpu_optimizer` keeps it",
                help="pass `adamw_torch`, or remove `offload_optimizer`",
                effect="crashes",
            )
        return
    if isinstance(name, str) and name.lower() not in _ADAMW | _KEPT_BY_MAP:
        mode = "AdamW" if name.lower() in _ADAMW_32_BIT else "Adam with L2 regularization"
        yield ctx.at(
            path,
            f"{_argument_label(ctx, 'optim')} is {quote_value(name)}, but Accelerate replaces it with "
            f"`DeepSpeedCPUAdam` ({mode}),"
            " because the optimizer is offloaded",
            help="remove `offload_optimizer`, or pass `adamw_torch`",
        )
        return
    if isinstance(name, str) and name.lower() in _KEPT_BY_MAP:
        return
    for argument in _BETAS:
        value = as_number(_launch_argument(ctx, argument))
        if value is not None and value != _ADAM_DEFAULTS[argument]:
            yield ctx.at(
                path,
                f"{_argument_label(ctx, argument)} is {quote_value(value)}, but Accelerate creates "
                "`DeepSpeedCPUAdam` without it,"
                f" because the optimizer is offloaded: {_ADAM_DEFAULTS[argument]:g} is used",
                help='add an `optimizer` section with "betas" and "eps" as "auto", or leave out the argument',
            )
            return


_ADAMW_32_BIT = frozenset({"paged_adamw_32bit"})
_BITSANDBYTES = r"(?:paged_)?(?:adamw|lion|ademamix)_(?:bnb_)?(?:8|32)bit|rmsprop_bnb(?:_8bit|_32bit)?"
"""Pattern of the optimizers of bitsandbytes: transformers training_args.py:OptimizerNames."""


# Sections that lack a key: the Trainer fills only what is "auto".


class _ArgumentReplacedByDefault(NamedTuple):
    """A missing key, the training arguments that it makes ineffective, and the default that DeepSpeed uses."""

    section: str
    key: str
    arguments: tuple[str, ...]
    used: str
    """Value that DeepSpeed uses, in words."""


@rule("DSC832", effect="altered", source=_MATCH)
def argument_without_key(ctx: Context) -> Iterator[Finding]:
    """The job sets an argument whose key is missing in the config, so DeepSpeed uses its default instead.

    The Trainer replaces "auto", and compares other values with its arguments, but adds no key: if `optimizer` has no
    `lr`, DeepSpeed trains with 0.001 whatever `--learning_rate` says, and without `gradient_clipping` nothing is
    clipped. dsconfig reports this only if a launch file with the arguments names the config.

    Bad, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "learning_rate": 0.00002,
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"weight_decay": "auto"}}}}

    Good, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "learning_rate": 0.00002,
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}}}
    """
    if ctx.consumer != "transformers" or ctx.arguments is None or not ctx.arguments.explicit:
        return
    for section, key, arguments, used in (
        *_unapplied_optimizer_arguments(ctx),
        *_unapplied_schedule_arguments(ctx),
        *_unapplied_clipping_argument(ctx),
    ):
        path = f"{section}.{key}" if section else key
        named = " and ".join(f"`{ctx.arguments.spelled.get(each, each)}`" for each in arguments)
        values = " and ".join(quote_value(_launch_argument(ctx, each)) for each in arguments)
        verb = "is" if len(arguments) == 1 else "are"
        steps = tuple(path.split("."))
        fix = (
            Fix(f'add `{key}` as "auto"', (SetValue(steps, "auto"),)) if _can_add_key(ctx, section) else None
        )
        yield ctx.at(
            path,
            f"`{path}` is missing, so {named} of the job, {values}, {verb} not used: {used}",
            help=f'add `"{key}": "auto"`, which resolves to the argument',
            part="key",
            fix=fix,
        ).about_missing(steps)


def _can_add_key(ctx: Context, section: str) -> bool:
    return not section or isinstance(ctx.raw(section), dict)


def _given_arguments(ctx: Context, *names: str) -> tuple[str, ...]:
    """Return the arguments that the launch file sets to a number."""
    return tuple(name for name in names if as_number(_launch_argument(ctx, name)) is not None)


def _unapplied_optimizer_arguments(ctx: Context) -> Iterator[_ArgumentReplacedByDefault]:
    chosen = built_optimizer(ctx) if ctx.has("optimizer.type") else None
    if chosen is None:
        return
    section, written = "optimizer.params", configured_params(ctx, "optimizer")
    if (
        "lr" not in written
        and _given_arguments(ctx, "learning_rate")
        and not _schedule_sets_learning_rate(ctx)
    ):
        value = _default_of_argument(chosen, "lr")
        if value is None or value != _launch_argument(ctx, "learning_rate"):
            yield _ArgumentReplacedByDefault(
                section, "lr", ("learning_rate",), _describe_default(chosen, value)
            )
    for key, names in (
        ("weight_decay", ("weight_decay",)),
        ("betas", ("adam_beta1", "adam_beta2")),
        ("eps", ("adam_epsilon",)),
    ):
        given = _given_arguments(ctx, *names)
        if key in written or not given or key not in chosen.accepts:
            continue
        value = chosen.params[key].default if key in chosen.params else None
        if not _equals_default(ctx, key, given, value):
            yield _ArgumentReplacedByDefault(section, key, given, _describe_default(chosen, value))


def _equals_default(ctx: Context, key: str, given: tuple[str, ...], value: Json) -> bool:
    """Return whether the arguments equal the value that DeepSpeed uses, or whether that value is unknown."""
    if key == "betas":
        pair = value if isinstance(value, list) and len(value) == 2 else None
        index = {"adam_beta1": 0, "adam_beta2": 1}
        return pair is None or all(_launch_argument(ctx, name) == pair[index[name]] for name in given)
    return value is None or _launch_argument(ctx, given[0]) == value


def _unapplied_schedule_arguments(ctx: Context) -> Iterator[_ArgumentReplacedByDefault]:
    chosen = built_scheduler(ctx) if ctx.has("scheduler.type") else None
    if chosen is None or chosen.kind is None or not isinstance(ctx.raw("scheduler.params"), dict):
        return
    section, written = "scheduler.params", configured_params(ctx, "scheduler")
    rate, wanted = (
        _default_of_argument(chosen, "warmup_max_lr"),
        as_number(_launch_argument(ctx, "learning_rate")),
    )
    has_rate = (
        as_number(configured_params(ctx, "optimizer").get("lr")) is not None
    )  # then DSC570 compares the two
    if "warmup_max_lr" not in written and not has_rate and None not in (rate, wanted) and rate != wanted:
        yield _ArgumentReplacedByDefault(
            section, "warmup_max_lr", ("learning_rate",), _describe_default(chosen, rate)
        )
    if "warmup_num_steps" in chosen.params and "warmup_num_steps" not in written:
        steps = _default_of_argument(chosen, "warmup_num_steps")
        given = tuple(
            each
            for each in _given_arguments(ctx, "warmup_steps", "warmup_ratio")
            if _launch_argument(ctx, each)
        )
        if given and steps is not None and _launch_argument(ctx, given[0]) != steps:
            yield _ArgumentReplacedByDefault(
                section, "warmup_num_steps", given[:1], _describe_default(chosen, steps)
            )


def _schedule_sets_learning_rate(ctx: Context) -> bool:
    """Return whether the configured schedule overrides the optimizer's learning rate."""
    chosen = built_scheduler(ctx) if ctx.has("scheduler.type") else None
    if chosen is None or chosen.kind is None:
        return False
    if "warmup_max_lr" not in chosen.params:
        return chosen.name in ("OneCycle", "LRRangeTest")
    return (
        ctx.has("scheduler.params.warmup_max_lr") or _default_of_argument(chosen, "warmup_max_lr") is not None
    )


def _unapplied_clipping_argument(ctx: Context) -> Iterator[_ArgumentReplacedByDefault]:
    limit = as_number(_launch_argument(ctx, "max_grad_norm"))
    if limit is not None and limit > 0 and not ctx.has("gradient_clipping"):
        yield _ArgumentReplacedByDefault(
            "", "gradient_clipping", ("max_grad_norm",), "DeepSpeed does not clip gradients"
        )


def _default_of_argument(chosen: BuiltClass, key: str) -> float | None:
    return as_number(chosen.params[key].default) if key in chosen.params else None


def _describe_default(chosen: BuiltClass, value: Json) -> str:
    amount = "its own default" if value is None else quote_value(value)
    return f"{chosen.built} uses {amount}"
