"""Class that is built for the `type` of an optimizer or a scheduler, and the params it accepts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.evaluation.context import Context, Finding
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import KeyView, TypeInfo, type_named, types_of, view
from dsconfig.rules._effective_values import offloaded
from dsconfig.rules._fixes import renamed

# Which class is built for the `type` of an optimizer or a scheduler, and what it takes.

_IN_TORCH = {"Optimizer": "torch.optim", "Scheduler": "torch.optim.lr_scheduler"}
_TORCH = {"Optimizer": torch_classes.OPTIMIZERS, "Scheduler": torch_classes.SCHEDULERS}
ADAM = frozenset({"Adam", "AdamW"})


class Chosen(NamedTuple):
    """The class that the engine builds."""

    built: str
    """Its name, with the module where it is PyTorch's."""
    kind: TypeInfo | None
    """The type of DeepSpeed's own; None for a class of PyTorch that is named directly."""
    build: str
    """`gpu`, `cpu` or `torch`: which of the classes behind the type."""
    accepts: frozenset[str]
    """The arguments that it takes from a config."""
    params: dict[str, KeyView]
    """What is known of the arguments of DeepSpeed's own."""

    @property
    def name(self) -> str:
        """The type as DeepSpeed spells it, or the class of PyTorch."""
        return self.kind.name if self.kind else self.built

    @property
    def of_torch(self) -> bool:
        """Whether the class is PyTorch's, which checks what it is given."""
        return self.built.startswith("torch.")


def written_type(ctx: Context, section: str) -> str | None:
    """The type as it is written; None where the section has none, or one that is refused."""
    word = ctx.written(f"{section}.type")
    return word if isinstance(word, str) else None


def params(ctx: Context, section: str) -> JsonObject:
    """The written params of the section; empty where there are none."""
    found = ctx.written(f"{section}.params")
    return found if isinstance(found, dict) else {}


def known_type(ctx: Context, section: str, word: str | None) -> TypeInfo | None:
    """The type of DeepSpeed's own with this name, where the release knows it.

    The walk through the section has narrowed the releases for which that holds.
    """
    kind = type_named(section, word)
    return kind if kind and ctx.release in kind.releases else None


def names_a_class(section: str, word: object) -> bool:
    """Whether any release, or PyTorch, has a class of this name for the section."""
    return isinstance(word, str) and (type_named(section, word) is not None or word in _TORCH[section])


def known_names(ctx: Context, section: str) -> list[str]:
    """The types that the release itself knows."""
    return [kind.name for kind in types_of(section).values() if ctx.release in kind.releases]


def optimizer(ctx: Context) -> Chosen | None:
    """The class that is built for the optimizer section; None where that is not known.

    Raises:
        SkipRule: offloading or the stage, on which it depends, is refused, or filled by the consumer.
    """
    return ctx.once(_optimizer)


def _optimizer(ctx: Context) -> Chosen | None:
    word = written_type(ctx, "optimizer")
    if word is None:
        return None
    kind = known_type(ctx, "Optimizer", word)
    if kind is None:
        return _of_torch("Optimizer", word)
    if kind.params is None:
        return None
    build = _build(ctx, kind)
    params_of, built = kind.params, kind.cpu if build == "cpu" else kind.gpu
    if kind.name == "Adagrad" and build == "gpu" and ctx.before("0.9.2"):
        # _configure_basic_optimizer treated it as one more name of Adam, except under offload.
        params_of, built = "AdamParams", "FusedAdam"
    if build == "torch":
        built = "torch.optim.AdamW" if decoupled(ctx, kind) else "torch.optim.Adam"
    return Chosen(built, kind, build, *_arguments(params_of, built, build, ctx.release))


def scheduler(ctx: Context) -> Chosen | None:
    """The class that is built for the scheduler section; None where that is not known."""
    return ctx.once(_scheduler)


def _scheduler(ctx: Context) -> Chosen | None:
    word = written_type(ctx, "scheduler")
    if word is None:
        return None
    kind = known_type(ctx, "Scheduler", word)
    if kind is None or kind.params is None:
        return _of_torch("Scheduler", word)
    return Chosen(kind.name, kind, "gpu", *_arguments(kind.params, kind.name, "gpu", ctx.release))


def required(chosen: Chosen) -> list[str]:
    """The arguments that the class cannot do without."""
    if chosen.kind is None:
        section = "Scheduler" if chosen.built.startswith(_IN_TORCH["Scheduler"]) else "Optimizer"
        return _TORCH[section][chosen.built.rpartition(".")[2]].required.split()
    return [word for word, key in chosen.params.items() if key.info.required]


def decoupled(ctx: Context, kind: TypeInfo) -> bool:
    """Whether weight decay stays apart from the gradient, as in AdamW."""
    return kind.name == "AdamW" or bool(params(ctx, "optimizer").get("adam_w_mode", True))


def _build(ctx: Context, kind: TypeInfo) -> str:
    if kind.name in ADAM and params(ctx, "optimizer").get("torch_adam"):
        return "torch"
    if kind.cpu != kind.gpu and offloaded(ctx):
        return "cpu"
    return "gpu"


def _of_torch(section: str, word: str) -> Chosen | None:
    found = _TORCH[section].get(word)
    return Chosen(f"{_IN_TORCH[section]}.{word}", None, "torch", found.arguments, {}) if found else None


@lru_cache(maxsize=256)
def _arguments(
    section: str, built: str, build: str, release: int
) -> tuple[frozenset[str], dict[str, KeyView]]:
    """The arguments that the class takes from a config, and what is known of those of DeepSpeed's own."""
    own = {
        word: key
        for word, key in view(section, release).keys.items()
        if "internal" not in key.info.flags and key.info.accepted_by(build, release)
    }
    theirs = frozenset[str]()
    if built.startswith("torch.optim."):
        theirs = torch_classes.OPTIMIZERS[built.removeprefix("torch.optim.")].arguments
    return theirs | own.keys(), own


# An `optimizer` or `scheduler` section without a `type`.


def type_left_out(ctx: Context, section: str, *, names: tuple[str, ...], example: str) -> Iterator[Finding]:
    """What a section without `type` does: nothing. `names` are keys that may stand in its place."""
    written = ctx.data.get(section)
    if not isinstance(written, dict) or not written or written.get("type") is not None:
        return
    null = "type" in written
    wrong = (key for key in names if names_a_class(section.capitalize(), written.get(key)))
    other = None if null else next(wrong, None)
    yield ctx.at(
        f"{section}.type" if null else section,
        f"`{section}` has no effect: {'its `type` is `null`' if null else 'it has no `type`'}, so DeepSpeed "
        f"builds no {section}",
        help=f"rename `{other}` to `type`" if other else f'add `"type": "{example}"`, or remove the section',
        part="value" if null else "key",
        fix=renamed(ctx, (section, other), "type", written[other], title=f"rename `{other}` to `type`")
        if other
        else None,
    ).lacking(ctx.place(f"{section}.type"))
