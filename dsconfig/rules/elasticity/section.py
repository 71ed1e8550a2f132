"""`elasticity` section: values that the solver rejects, batch keys, and world sizes without a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core import batch_triplet as triplet
from dsconfig.core.batch_triplet import Impossible
from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.releases import number
from dsconfig.core.wording import described, one_of, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.rule import Absent, Condition, Counts, Is, rule
from dsconfig.rules._batch_triplet import data_parallel_size
from elastic.deepspeed.semantics import SEMANTICS, Semantics

# The `elasticity` section of a config, and the solver of the release.


def block_of(ctx: Context) -> JsonObject:
    """The section, where it is switched on.

    Raises:
        SkipRule: it is not, or the release does not know it, or it is not an object.
    """
    block = ctx.raw("elasticity")
    if not isinstance(block, dict) or ctx.key("elasticity") is None or not ctx.is_on("elasticity.enabled"):
        raise SkipRule
    return block


def semantics_of(ctx: Context) -> Semantics:
    """How the solver of the release calculates."""
    return next(entry for entry in reversed(SEMANTICS) if ctx.since(entry.name))


def solver_of(ctx: Context) -> Solver:
    """The solver at work, where nothing is wrong with the section by itself.

    Raises:
        SkipRule: something is, or the numbers are larger than any release could work with.
    """
    block, semantics = block_of(ctx), semantics_of(ctx)
    if faults(block, semantics) or endless(block, semantics):
        raise SkipRule
    return Solver(block, semantics, ctx.release_name)


def works_somewhere(ctx: Context, solver: Solver) -> bool:
    """Whether there is a number of GPUs at which DeepSpeed accepts the section."""
    shared: Json = ctx.raw("sequence_parallel_size")
    shared = batch_triplet.ABSENT if shared is MISSING else shared
    divides = not ctx.from_file and ctx.since("0.17.0") and isinstance(shared, int | float) and shared > 0
    for size in solver.candidates():
        gpus = max(1, round(size * shared)) if divides else size
        try:
            world = batch_triplet.world_size(gpus, shared, ctx.release, from_file=ctx.from_file)
        except (TypeError, ZeroDivisionError):
            raise SkipRule from None  # a finding of its own
        if solver.works(world):
            return True
    return False


# What is wrong with an `elasticity` section by itself.

_NEEDED = ("max_train_batch_size", "micro_batch_sizes")
_BOUNDS = (
    ("min_gpus", 1, "0.3.9"),
    ("max_gpus", 1, "0.3.9"),
    ("model_parallel_size", 1, "0.7.0"),
    ("num_gpus_per_node", 1, "0.7.0"),
    ("min_time", 0, "0.3.9"),
)


class Fault(NamedTuple):
    """Why the section cannot be used at any world size, under the code of the rule that says so."""

    code: str
    key: str
    message: str
    help: str


def faults(block: JsonObject, semantics: Semantics) -> list[Fault]:
    """Every fault of the section; the later checks calculate with what the earlier ones have found sound."""
    found = [*_missing(block), *_micro_batches(block), *_numbers(block, semantics)]
    return found or list(_version(block, semantics)) or list(_cap(block, semantics))


def _missing(block: JsonObject) -> Iterator[Fault]:
    for key in _NEEDED:
        if key not in block:
            yield Fault("DSC601", key, f"`elasticity` is enabled, but `{key}` is not given", f"add `{key}`")


def _micro_batches(block: JsonObject) -> Iterator[Fault]:
    sizes = block.get("micro_batch_sizes", [1])
    if not isinstance(sizes, list):
        message = f"`micro_batch_sizes` is {described(sizes)} where DeepSpeed expects a list of integers"
    elif all(isinstance(size, bool) for size in sizes):
        message = f"`micro_batch_sizes` is {quoted(sizes)}, but must hold at least one integer"
    else:
        wrong = [size for size in sizes if not isinstance(size, int) or size <= 0]
        if not wrong:
            return
        message = f"`micro_batch_sizes` holds {quoted(wrong[0])}, but may hold only integers greater than 0"
    yield Fault(
        "DSC602",
        "micro_batch_sizes",
        message,
        "give a list of positive integers, for example `[2, 4, 6]`",
    )


def _numbers(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    found = [] if isinstance(block.get("max_train_batch_size", 1), int | float) else ["max_train_batch_size"]
    bounds = [(key, bound) for key, bound, since in _BOUNDS if number(since) <= number(semantics.until)]
    found.extend(key for key, _ in bounds if not isinstance(block.get(key, 1), int | float))
    for key in found:
        message = f"`{key}` is {described(block[key])} and DeepSpeed calculates with it"
        quotes = ", without quotes" if isinstance(block[key], str) else ""
        yield Fault("DSC602", key, message, f"give an integer{quotes}")
    low, high = block.get("min_gpus", 1), block.get("max_gpus", 10000)
    for key, bound in bounds:
        if key not in found and block.get(key, 1) < bound:
            message = f"`{key}` is {quoted(block[key])}, but must be at least {bound}"
            yield Fault("DSC602", key, message, f"give an integer of at least {bound}")
            return
    if not {"min_gpus", "max_gpus"} & set(found) and high < low:
        message = f"`max_gpus` {quoted(high)} is less than `min_gpus` {quoted(low)}"
        wider = f"set `max_gpus` to {quoted(low)} or more"
        yield Fault("DSC602", "max_gpus" if "max_gpus" in block else "min_gpus", message, wider)


def _version(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    written = block.get("version", semantics.latest_version)
    known, version = ((0.1, 0.2) if semantics.latest_version >= 0.2 else (0.1,)), _float(written)
    model, node = block.get("model_parallel_size", 1), block.get("num_gpus_per_node", 1)
    if version not in known:
        words = " and ".join(map(str, known))
        message = f"`version` is {quoted(written)}, but this release knows only {words} of the algorithm"
        yield Fault("DSC603", "version", message, f"use {words.replace('and', 'or')}")
    elif 0.2 not in known:
        return
    elif model > 1 and version != 0.2:
        message = (
            f"`model_parallel_size` is {quoted(model)}, but version {version} knows no model parallelism"
        )
        yield Fault("DSC604", "model_parallel_size", message, "set `version` to 0.2")
    elif version == 0.2 and node % model != 0:
        message = (
            f"`num_gpus_per_node` {quoted(node)} is not a multiple of `model_parallel_size` {quoted(model)}"
        )
        yield Fault(
            "DSC604",
            "num_gpus_per_node",
            message,
            f"give a multiple of {model}, so that models do not straddle machines",
        )


def _float(value: Json) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _cap(block: JsonObject, semantics: Semantics) -> Iterator[Fault]:
    cap, largest = block["max_train_batch_size"], max(block["micro_batch_sizes"])
    ranks = ranks_per_node(block, semantics)
    said = f"`elasticity.max_train_batch_size` is {quoted(cap)}"
    try:
        share = cap if ranks is None else int(cap / ranks)
    except (OverflowError, ValueError):
        share = 2**63
    if isinstance(share, int) and share >= 2**63 and number(semantics.until) >= number("0.5.8"):
        message = f"{said}, more than DeepSpeed can calculate with"
        yield Fault("DSC605", "max_train_batch_size", message, "give an integer of at most 1000000000")
    elif not largest <= share:
        each = "" if ranks in (None, 1) else f", {share} for each of {ranks} ranks of a machine"
        message = f"{said}{each}: less than micro batch size {quoted(largest)}"
        least = f"raise it to {quoted(largest * (ranks or 1))} or more"
        yield Fault(
            "DSC605", "max_train_batch_size", message, f"{least}, or list smaller `micro_batch_sizes`"
        )


def ranks_per_node(block: JsonObject, semantics: Semantics) -> Json:
    """Data-parallel ranks of a machine in version 0.2; None in version 0.1, which knows no machines."""
    if float(block.get("version", semantics.latest_version)) != 0.2:
        return None
    return block.get("num_gpus_per_node", 1) // block.get("model_parallel_size", 1)


# The world sizes at which an `elasticity` section works.

_TOO_LONG = 2_000_000
"""Trial divisions. No release finishes with more of them, so that there is no verdict to agree with."""
_TOO_MANY = 128
"""Micro batch sizes, for the same reason."""


def endless(block: JsonObject, semantics: Semantics) -> bool:
    """Whether the numbers are larger than any release could work with."""
    micro_batches = set(block["micro_batch_sizes"])
    if len(micro_batches) > _TOO_MANY:
        return True
    least = math.lcm(*micro_batches)
    batch = max(least, min(block["max_train_batch_size"], least * 720720))
    most = block.get("max_gpus", 10000)
    # Version 0.2 counts machines, and takes less than one of them for no limit at all.
    machines = ranks_per_node(block, semantics) is not None
    unlimited = machines and most < block.get("num_gpus_per_node", 1)
    return math.isqrt(int(batch)) > _TOO_LONG and (unlimited or most > _TOO_LONG)


class Solver(NamedTuple):
    """A sound section in the hands of one release."""

    block: JsonObject
    semantics: Semantics
    release: str

    def altered(self, **values: Json) -> Solver:
        """The solver of a section with other values."""
        return self._replace(block={**self.block, **values})

    def _answer(self, world: float) -> Json:
        """The release's answer for a world size, or the error it raises."""
        from elastic.deepspeed.solver import as_released
        from elastic.errors import ElasticityError

        config = {"elasticity": self.block}
        try:
            # A size divided by `sequence_parallel_size` is a float, to DeepSpeed as well.
            return as_released(config, self.release, world, semantics=self.semantics)  # type: ignore[arg-type]
        except (ElasticityError, ArithmeticError, AssertionError, TypeError, ValueError) as error:
            return error

    def works(self, world: float) -> bool:
        """Whether DeepSpeed finds batch sizes for the data-parallel size, and accepts its own answer."""
        if not world > 0:
            return False  # it then gets no micro batch, and unpacks two values into three
        answer = self._answer(world)
        if isinstance(answer, Exception) or not answer.micro_batch_size:
            return False
        train, micro = answer.batch_size, answer.micro_batch_size
        return not isinstance(triplet.derive(train, micro, train // (micro * world), world), Impossible)

    def leaves_nothing(self, world: float) -> bool:
        """Whether the batch made for this size alone is empty: not one micro batch a rank within the cap."""
        return getattr(self._answer(world), "batch_size", None) == 0

    def sizes(self) -> list[int]:
        """The world sizes of the release's list. Version 0.2 takes them for ranks and for GPUs in turn."""
        from elastic.deepspeed.config import ElasticityConfig
        from elastic.deepspeed.heuristic import compatible_v02
        from elastic.errors import NoWorldSizesError

        if ranks_per_node(self.block, self.semantics) is None:
            answer = self._answer(0)
            return [] if isinstance(answer, Exception) else list(answer.world_sizes or ())
        config = ElasticityConfig(self.block, semantics=self.semantics)
        try:
            sizes = set(compatible_v02(config, self.semantics)[1])
        except (NoWorldSizesError, ArithmeticError, AssertionError, TypeError, ValueError):
            return []
        return sorted(size for size in sizes if size // config.model_parallel_size in sizes)

    def candidates(self) -> list[int]:
        """World sizes of which one works if any does.

        Those of the list do by construction; a few are enough, tried because the arithmetic is in floats.
        Outside the list version 0.2 makes a batch for one world size alone, which works for whole machines.
        """
        found = self.sizes()[:32]
        if ranks_per_node(self.block, self.semantics) is None:
            return found
        node = self.block.get("num_gpus_per_node", 1)
        return [*found, *range(1, 9), *(int(node * n) for n in range(1, 9))]


# Values of an enabled `elasticity` section that the solver refuses.

_CONFIG = "elasticity/config.py:ElasticityConfig.__init__"
_SOLVER = "elasticity/elasticity.py:compute_elastic_config"


def _faults(ctx: Context, code: str) -> Iterator[Finding]:
    for fault in faults(block_of(ctx), semantics_of(ctx)):
        if fault.code == code:
            yield ctx.at(f"elasticity.{fault.key}", fault.message, help=fault.help)


@rule("DSC601", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elasticity_without_batch_sizes(ctx: Context) -> Iterator[Finding]:
    """Elasticity is enabled, and lacks one of the two keys it cannot do without.

    `max_train_batch_size` and `micro_batch_sizes` have defaults only while elasticity is off.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}}
    """
    yield from _faults(ctx, "DSC601")


@rule("DSC602", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elastic_value_out_of_range(ctx: Context) -> Iterator[Finding]:
    """A value of an enabled `elasticity` section is too small, or is not a number.

    Micro batch sizes are positive integers; GPU counts are at least 1, `min_time` at least 0, and `max_gpus`
    is not below `min_gpus`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4.5]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4]}}
    """
    yield from _faults(ctx, "DSC602")


@rule("DSC603", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def unknown_elastic_version(ctx: Context) -> Iterator[Finding]:
    """`elasticity.version` names an algorithm that the release does not have.

    Releases up to 0.6.7 have 0.1 alone; 0.7.0 added 0.2, which plans whole machines.

    Bad, release 0.6.7:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}

    Good, release 0.7.0:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}
    """
    yield from _faults(ctx, "DSC603")


@rule("DSC604", effect="rejected", since="0.7.0", until="0.19.7", source=_SOLVER)
def elastic_model_parallel_misfit(ctx: Context) -> Iterator[Finding]:
    """`model_parallel_size` does not go with the rest of the `elasticity` section.

    Only algorithm 0.2 takes model parallelism into account, and it wants whole models on each machine:
    `num_gpus_per_node` must be a multiple of `model_parallel_size`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 3}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 2}}
    """
    yield from _faults(ctx, "DSC604")


@rule("DSC605", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elastic_cap_below_micro_batch(ctx: Context) -> Iterator[Finding]:
    """`max_train_batch_size` leaves no room for one of the micro batch sizes.

    Every micro batch size must fit; algorithm 0.2 first shares the total out over the data-parallel ranks of
    a machine.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 4, "micro_batch_sizes": [2, 8]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2, 8]}}
    """
    yield from _faults(ctx, "DSC605")


# Batch keys beside elasticity.

_ENGINE = "runtime/config.py:DeepSpeedConfig.__init__"


@rule(
    "DSC606",
    effect="rejected",
    since="0.3.9",
    until="0.19.7",
    source=_ENGINE,
    conditions=tuple(
        Condition(
            "Config",
            (Is("elasticity.enabled", (True,)), Counts("elasticity.ignore_non_elastic_batch_info", (False,))),
            Absent(key, f"`elasticity` is enabled and works `{key}` out"),
        )
        for key in batch_triplet.KEYS
    ),
)
def batch_size_beside_elasticity(ctx: Context) -> Iterator[Finding]:
    """A batch key stands at the top level of a config whose elasticity is enabled.

    Elasticity works the three batch keys out. DeepSpeed refuses a config that gives them too, even as null,
    unless `ignore_non_elastic_batch_info` says that they may be overwritten.

    Bad, release 0.16.9:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    if block_of(ctx).get("ignore_non_elastic_batch_info", False):
        return
    given = [key for key in batch_triplet.KEYS if ctx.has(key)]
    if given:
        first, *others = given
        yield ctx.at(
            first,
            f"`{first}` is given, but `elasticity` is enabled and works the batch sizes out",
            help=f"remove {one_of((f'`{key}`' for key in given), 'and')}, or set "
            "`elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is given too", key) for key in others],
            fix=Fix("remove the batch keys", tuple(Remove((key,)) for key in given)),
        )


# World sizes at which the solver finds no batch.


@rule("DSC607", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def world_size_not_elastic(ctx: Context) -> Iterator[Finding]:
    """The world size is not one of those that the elastic batch size can be shared out to.

    Version 0.1 of the algorithm keeps to one batch size and lists the sizes that share it evenly. Version 0.2
    makes another batch for a size outside its list, unless models span several GPUs.

    Bad, release 0.16.9, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, release 0.16.9, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    solver = solver_of(ctx)
    world = data_parallel_size(ctx)
    if world is None or solver.works(world) or not works_somewhere(ctx, solver):
        return
    sizes = solver.sizes()
    more = " …" if len(sizes) > 12 else ""
    listed = f": {', '.join(map(str, sizes[:12]))}{more}" if sizes else ""
    why = f"is not one of those that elasticity allows here{listed}"
    if solver.leaves_nothing(world):
        cap = quoted(solver.block["max_train_batch_size"])
        why = f"is too large: `elasticity.max_train_batch_size` {cap} leaves no micro batch for some rank"
    yield ctx.at(
        "elasticity",
        f"world size {world:g} {why}",
        help="change the number of GPUs" + _raised(solver, world),
    )


def _raised(solver: Solver, world: float) -> str:
    """The cap that leaves each rank its smallest micro batch, where that is enough."""
    least = math.ceil(min(solver.block["micro_batch_sizes"]) * world)
    if least <= solver.block["max_train_batch_size"] or not solver.altered(max_train_batch_size=least).works(
        world
    ):
        return ""
    return f", or raise `max_train_batch_size` to {least}"


@rule("DSC608", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elasticity_without_world_size(ctx: Context) -> Iterator[Finding]:
    """No world size at all suits the `elasticity` section.

    Between `min_gpus` and `max_gpus` there is no number of GPUs to which a batch of at most
    `max_train_batch_size` can be shared out in whole micro batches.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.1,
                        "min_gpus": 50}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    solver = solver_of(ctx)
    if works_somewhere(ctx, solver):
        return
    low, high = solver.block.get("min_gpus", 1), solver.block.get("max_gpus", 10000)
    yield ctx.at(
        "elasticity",
        f"no world size from `min_gpus` {quoted(low)} to `max_gpus` {quoted(high)} suits batches of at most "
        f"{quoted(solver.block['max_train_batch_size'])} in micro batches of "
        f"{quoted(solver.block['micro_batch_sizes'])}",
        help=_way_out(ctx, solver),
    )


def _way_out(ctx: Context, solver: Solver) -> str:
    """What of the range and the cap was tried and gives a world size."""
    block = solver.block
    options = []
    wide = solver.altered(min_gpus=1, max_gpus=10000)
    if {"min_gpus", "max_gpus"} & set(block) and works_somewhere(ctx, wide):
        options.append("widen the range of GPUs")
    for factor in (2, 8, 64):
        cap = factor * math.ceil(block["max_train_batch_size"])
        higher = solver.altered(max_train_batch_size=cap)
        if not endless(higher.block, solver.semantics) and works_somewhere(ctx, higher):
            options.append(f"raise `max_train_batch_size` to {cap}")
            break
    return ", or ".join(options) or "use other sizes, or switch elasticity off"
