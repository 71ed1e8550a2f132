"""`memory`: from a config and a model to what a rank and a host hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dsconfig.json_types import Json
from dsconfig.resolving.effective import effective
from dsconfig.resolving.resolve import MappingSource, resolve
from dsconfig.resolving.run import Run
from dsconfig.sizing.engines.setup import Setup
from dsconfig.sizing.estimate import Estimate, estimate
from dsconfig.sizing.models.named import PRESETS
from dsconfig.sizing.models.shape import Shape, Work
from dsconfig.sizing.reading import SECTIONS, Values, setup_of
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.checking.source import ConfigSource
    from dsconfig.document import Document
    from dsconfig.releases import Target
    from dsconfig.resolving.fitting import Fit

ModelSource: TypeAlias = "Shape | Mapping[str, Json] | str | os.PathLike[str]"
"""A shape, a `config.json` as a mapping or by its path, or the name of a preset."""

MODELLED = ("0.19.8",)
"""Releases whose engines were measured."""
MICRO = "train_micro_batch_size_per_gpu"
LENGTH, NODE = 2048, 8
CLIENT = "adamw"
"""What a script hands to DeepSpeed where nothing says another optimizer."""
ATTENTION = ("sdpa", "flash", "eager")


def memory(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    model: ModelSource,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    *,
    sequence_length: int = LENGTH,
    micro_batch: int | None = None,
    attention: str = "sdpa",
    checkpointing: bool = False,
    optimizer: str | None = None,
    zero_init: bool | None = None,
    gpus_per_node: int | None = None,
    set: Mapping[str, Json] | None = None,
    training_args: MappingSource = None,
) -> Estimate:
    """What a rank and its host hold in training, at rest and at the peaks of a step; see also `resolve`.

    Args:
        source: a path, text, bytes, a dict or a document that was read; see `check`.
        model: the model's `config.json` (a path or a mapping), a preset's name, or a `Shape`.
        world_size: number of ranks, one a GPU; None: the environment's `WORLD_SIZE`.
        target: the release that runs it, of a range the newest; None: as for `check`.
        consumer: who reads the file; None: it is found out.
        sequence_length: tokens of a sequence.
        micro_batch: samples of a micro batch; None: as the config says.
        attention: `sdpa`, `flash` or `eager`.
        checkpointing: whether each layer's activations are computed again in the backward pass.
        optimizer: what the script hands to DeepSpeed, where the config names no optimizer; see `CLIENTS`.
        zero_init: whether the model is built in shards at stage 3; None: if Transformers reads the file.
        gpus_per_node: ranks that share a host; None: 8, or all of fewer.
        set: values to write first, by dotted path.
        training_args: what the consumer fills "auto" from; see `resolve`.

    Raises:
        NotModelledError: something in the config or the model is not modelled; the text names it.
        ResolveError, OSError, UnknownReleaseError, ValueError: as `resolve` does.
    """
    shape, described = _model(model)
    _refuse_arguments(attention, sequence_length, micro_batch, gpus_per_node)
    changes = dict(set or {}) | ({} if micro_batch is None else {MICRO: micro_batch})
    size, args = world_size, training_args
    run = resolve(source, size, target, consumer, set=changes, training_args=args, model_config=described)
    setup = _setup(run, optimizer, run.consumer == "transformers" if zero_init is None else zero_init)
    micro = int(str(run.train_micro_batch_size_per_gpu))
    width, autocast, third = setup.width, setup.autocast, setup.stage == 3
    work = Work(micro, sequence_length, width, autocast, attention, checkpointing, keeps_inputs=third)
    node = min(gpus_per_node or NODE, run.world_size)
    return estimate(setup, shape, work, run.release, node, tuple(_assumptions(setup, work, node)))


def _setup(run: Run, optimizer: str | None, in_shards: bool) -> Setup:
    if run.release not in MODELLED:
        raise NotModelledError(f"DeepSpeed {run.release} is not modelled", f"give --target {MODELLED[-1]}")
    values = _values(run)
    client = optimizer or (None if values.text("optimizer.type") else CLIENT)
    return setup_of(values, run.world_size, client, in_shards)


def fitted(room: int, source: ConfigSource | Document, model: ModelSource, **options: Any) -> Fit:
    """The smallest changes with which a rank holds no more than `room` bytes; the rest as for `memory`."""
    from dsconfig.resolving.fitting import fit, ladder

    written = dict(options.pop("set", None) or {})
    checkpointing = bool(options.pop("checkpointing", False))
    size = options.pop("world_size", None)

    def compute(values: Mapping[str, Json], checkpoints: bool, ranks: int | None) -> Estimate:
        merged, checks = {**written, **values}, checkpoints or checkpointing
        return memory(source, model, ranks, set=merged, checkpointing=checks, **options)

    first = compute({}, checkpoints=False, ranks=size)
    target, consumer = options.get("target"), options.get("consumer")
    args, described = options.get("training_args"), _model(model)[1]
    run = resolve(source, size, target, consumer, set=written, training_args=args, model_config=described)
    return fit(compute, first, list(ladder(_values(run).values, checkpointing)), room)


def _values(run: Run) -> Values:
    """Every value that counts, those that are not written among them."""
    shown = effective(run.config, run.world_size, run.release, "deepspeed", keys=SECTIONS)
    given = {found.key for found in shown.values if found.origin == "written"}
    return Values({found.key: found.value for found in shown.values}, given)


def _model(model: ModelSource) -> tuple[Shape, Mapping[str, Json] | None]:
    """The shape, and the `config.json` that it is from."""
    if isinstance(model, Shape):
        return model, {"hidden_size": model.hidden}
    if isinstance(model, str) and model in PRESETS:
        shape = PRESETS[model]
        return shape, {"hidden_size": shape.hidden}
    if not isinstance(model, Mapping):
        from dsconfig.consumers.training_args import read_mapping

        if not os.path.exists(model):
            named = ", ".join(PRESETS)
            raise NotModelledError(f"there is no model `{model}`", f"give a config.json or one of {named}")
        path = os.path.join(model, "config.json") if os.path.isdir(model) else model
        model = read_mapping(path)
    from dsconfig.sizing.models.hugging_face import shape_of

    return shape_of(model), model


def _refuse_arguments(attention: str, length: int, micro: int | None, node: int | None) -> None:
    if attention not in ATTENTION:
        raise ValueError(f"attention {attention!r}: expected one of {', '.join(ATTENTION)}")
    for name, value in (("sequence_length", length), ("micro_batch", micro), ("gpus_per_node", node)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} {value!r}: expected a whole number above 0")


def _assumptions(setup: Setup, work: Work, node: int) -> list[str]:
    """What the numbers rest on."""
    built = "in fp32" if setup.built == 4 else "in half precision"
    shards = setup.stage == 3 and setup.zero_init
    found = [
        f"a micro batch is {work.micro} × {work.length} tokens, attention is `{work.attention}`",
        f"activations are {'' if work.checkpointing else 'not '}checkpointed layer by layer",
        f"the model is built {built}, {'in shards (zero.Init)' if shards else 'whole in each process'}",
        f"{node} {'ranks share' if node > 1 else 'rank has'} a host",
        "not counted: the CUDA context, NCCL's buffers, fragmentation, kernels' workspaces",
    ]
    if setup.optimizer.temporary and not setup.offloads:
        found.append(f"torch runs `{setup.optimizer.name}` on lists of tensors (foreach)")
    if setup.optimizer.client:
        found.append(f"the script hands `{setup.optimizer.name}` to DeepSpeed")
    return found
