"""Determine the optimizer or scheduler class that the engine builds for a `type`, and the params that it accepts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.model.key_table import KeyView, TypeInfo, find_type, section_view_of_release, types_of_section
from dsconfig.model.torch_classes import OPTIMIZERS, SCHEDULERS
from dsconfig.rules._effective_values import uses_cpu_optimizer
from dsconfig.rules._fixes import rename_key

_IN_TORCH = {"Optimizer": "torch.optim", "Scheduler": "torch.optim.lr_scheduler"}
_TORCH = {"Optimizer": OPTIMIZERS, "Scheduler": SCHEDULERS}
ADAM = frozenset({"Adam", "AdamW"})


class BuiltClass(NamedTuple):
    """The optimizer or scheduler class that the engine builds."""

    built: str
    """Class name, qualified with the module for a PyTorch class."""
    kind: TypeInfo | None
    """DeepSpeed's optimizer or scheduler type, or None for a PyTorch class named directly."""
    build: str
    """Implementation behind the type: `gpu`, `cpu` or `torch`."""
    accepts: frozenset[str]
    """Arguments that the class accepts from a config."""
    params: dict[str, KeyView]
    """Arguments of a DeepSpeed class, with their types and defaults."""

    @property
    def name(self) -> str:
        """The type as spelled by DeepSpeed, or the name of the PyTorch class."""
        return self.kind.name if self.kind else self.built

    @property
    def of_torch(self) -> bool:
        """Whether the class comes from PyTorch, which validates its arguments."""
        return self.built.startswith("torch.")


def written_type(ctx: Context, section: str) -> str | None:
    """Return the `type` of a section in the config, or None if it is missing or not a string."""
    name = ctx.raw(f"{section}.type")
    return name if isinstance(name, str) else None


def configured_params(ctx: Context, section: str) -> JsonObject:
    """Return the `params` of a section in the config, or an empty object."""
    section_params = ctx.raw(f"{section}.params")
    return section_params if isinstance(section_params, dict) else {}


def known_type(ctx: Context, section: str, name: str | None) -> TypeInfo | None:
    """Return the DeepSpeed type with this name, or None if the release does not have it.

    The key walk has already narrowed the releases to those with the same answer.
    """
    kind = find_type(section, name)
    return kind if kind and ctx.release in kind.releases else None


def is_known_class_name(section: str, name: object) -> bool:
    """Return whether any DeepSpeed release, or PyTorch, has a class of this name for a section."""
    return isinstance(name, str) and (find_type(section, name) is not None or name in _TORCH[section])


def supported_types(ctx: Context, section: str) -> list[str]:
    """Return the names of the types that the release itself implements."""
    return [kind.name for kind in types_of_section(section).values() if ctx.release in kind.releases]


def built_optimizer(ctx: Context) -> BuiltClass | None:
    """Return the class that the engine builds for the optimizer, or None if unknown.

    Raises:
        SkipRule: the class depends on the offload device or the stage, which is rejected or left to the consumer.
    """
    return ctx.cached(_find_built_optimizer)


def _find_built_optimizer(ctx: Context) -> BuiltClass | None:
    name = written_type(ctx, "optimizer")
    if name is None:
        return None
    kind = known_type(ctx, "Optimizer", name)
    if kind is None:
        return _torch_class("Optimizer", name)
    if kind.params is None:
        return None
    build = _class_built_for_type(ctx, kind)
    params_of, built = kind.params, kind.cpu if build == "cpu" else kind.gpu
    if kind.name == "Adagrad" and build == "gpu" and ctx.before("0.9.2"):
        # _configure_basic_optimizer treated Adagrad as another name of Adam, except with offload.
        params_of, built = "AdamParams", "FusedAdam"
    if build == "torch":
        built = "torch.optim.AdamW" if has_decoupled_weight_decay(ctx, kind) else "torch.optim.Adam"
    return BuiltClass(built, kind, build, *_accepted_arguments(params_of, built, build, ctx.release))


def built_scheduler(ctx: Context) -> BuiltClass | None:
    """Return the class that the engine builds for the scheduler, or None if unknown."""
    return ctx.cached(_find_built_scheduler)


def _find_built_scheduler(ctx: Context) -> BuiltClass | None:
    name = written_type(ctx, "scheduler")
    if name is None:
        return None
    kind = known_type(ctx, "Scheduler", name)
    if kind is None or kind.params is None:
        return _torch_class("Scheduler", name)
    return BuiltClass(
        kind.name, kind, "gpu", *_accepted_arguments(kind.params, kind.name, "gpu", ctx.release)
    )


def required_params(chosen: BuiltClass) -> list[str]:
    """Return the required arguments of a class."""
    if chosen.kind is None:
        section = "Scheduler" if chosen.built.startswith(_IN_TORCH["Scheduler"]) else "Optimizer"
        return _TORCH[section][chosen.built.rpartition(".")[2]].required.split()
    return [name for name, key in chosen.params.items() if key.info.required]


def has_decoupled_weight_decay(ctx: Context, kind: TypeInfo) -> bool:
    """Return whether weight decay is decoupled from the gradient, as in AdamW."""
    return kind.name == "AdamW" or bool(configured_params(ctx, "optimizer").get("adam_w_mode", True))


def _class_built_for_type(ctx: Context, kind: TypeInfo) -> str:
    if kind.name in ADAM and configured_params(ctx, "optimizer").get("torch_adam"):
        return "torch"
    if kind.cpu != kind.gpu and uses_cpu_optimizer(ctx):
        return "cpu"
    return "gpu"


def _torch_class(section: str, name: str) -> BuiltClass | None:
    signature = _TORCH[section].get(name)
    if signature is None:
        return None
    return BuiltClass(f"{_IN_TORCH[section]}.{name}", None, "torch", signature.arguments, {})


@lru_cache(maxsize=256)
def _accepted_arguments(
    section: str, built: str, build: str, release: int
) -> tuple[frozenset[str], dict[str, KeyView]]:
    """Return the arguments that a class accepts from a config, and for a DeepSpeed class, its keys."""
    deepspeed_keys = {
        name: key
        for name, key in section_view_of_release(section, release).keys.items()
        if "internal" not in key.info.flags and key.info.is_accepted_by_class(build, release)
    }
    torch_arguments = frozenset[str]()
    if built.startswith("torch.optim."):
        torch_arguments = OPTIMIZERS[built.removeprefix("torch.optim.")].arguments
    return torch_arguments | deepspeed_keys.keys(), deepspeed_keys


# An `optimizer` or `scheduler` section without a `type`.


def report_missing_type(
    ctx: Context, section: str, *, names: tuple[str, ...], example: str
) -> Iterator[Finding]:
    """Report a section that has no effect because it has no `type`.

    `names` are wrong names that users write instead.
    """
    block = ctx.data.get(section)
    if not isinstance(block, dict) or not block or block.get("type") is not None:
        return
    is_null = "type" in block
    candidates = (key for key in names if is_known_class_name(section.capitalize(), block.get(key)))
    other = None if is_null else next(candidates, None)
    yield ctx.at(
        f"{section}.type" if is_null else section,
        f"`{section}` has no effect: {'its `type` is `null`' if is_null else 'it has no `type`'}, so DeepSpeed "
        f"builds no {section}",
        help=f"rename `{other}` to `type`" if other else f'add `"type": "{example}"`, or remove the section',
        part="value" if is_null else "key",
        fix=rename_key(ctx, (section, other), "type", block[other], title=f"rename `{other}` to `type`")
        if other
        else None,
    ).about_missing(ctx.written_path(f"{section}.type"))
