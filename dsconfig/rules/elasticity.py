"""`elasticity`: values that the solver rejects, conflicting batch keys, and unsupported world sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import ImpossibleTriplet
from dsconfig.core.diagnostic import Fix, RemoveKey
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.releases import release_number
from dsconfig.core.wording import describe_value, join_alternatives, quote_value
from dsconfig.evaluation.rule import EffectiveValueIs, KeyEquals, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.rules._batch_triplet import data_parallel_size
from elastic.deepspeed.release_behavior import SEMANTICS, ElasticitySemantics

# The section and the solver of the release.


def elasticity_section(ctx: Context) -> JsonObject:
    """Return the `elasticity` section.

    Raises:
        SkipRule: the section is disabled, unknown to the release, or not an object.
    """
    block = ctx.raw("elasticity")
    if not isinstance(block, dict) or ctx.key("elasticity") is None or not ctx.is_on("elasticity.enabled"):
        raise SkipRule
    return block


def release_semantics(ctx: Context) -> ElasticitySemantics:
    """Return how the release's elasticity solver behaves."""
    return next(entry for entry in reversed(SEMANTICS) if ctx.since(entry.name))


def elastic_solver(ctx: Context) -> ElasticSolver:
    """Return the elastic solver for an `elasticity` section without errors.

    Raises:
        SkipRule: the section has errors, or its numbers are too large for any release.
    """
    block, semantics = elasticity_section(ctx), release_semantics(ctx)
    if elasticity_faults(block, semantics) or is_intractable(block, semantics):
        raise SkipRule
    return ElasticSolver(block, semantics, ctx.release_name)


def works_at_some_world_size(ctx: Context, solver: ElasticSolver) -> bool:
    """Return whether DeepSpeed accepts the `elasticity` section for at least one number of GPUs."""
    degree: Json = ctx.raw("sequence_parallel_size")
    degree = batch_triplet.ABSENT if degree is MISSING else degree
    divides = not ctx.from_file and ctx.since("0.17.0") and isinstance(degree, int | float) and degree > 0
    for size in solver.candidates():
        gpus = max(1, round(size * degree)) if divides else size
        try:
            world_size = batch_triplet.data_parallel_world_size(
                gpus, degree, ctx.release, from_file=ctx.from_file
            )
        except (TypeError, ZeroDivisionError):
            raise SkipRule from None  # another rule reports it
        if solver.works_at(world_size):
            return True
    return False


# Errors in the section, independent of the world size.

_REQUIRED = ("max_train_batch_size", "micro_batch_sizes")
_BOUNDS = (
    ("min_gpus", 1, "0.3.9"),
    ("max_gpus", 1, "0.3.9"),
    ("model_parallel_size", 1, "0.7.0"),
    ("num_gpus_per_node", 1, "0.7.0"),
    ("min_time", 0, "0.3.9"),
)


class ElasticityFault(NamedTuple):
    """An error in the `elasticity` section that does not depend on the world size, and the rule that reports it."""

    code: str
    key: str
    message: str
    help: str


def elasticity_faults(block: JsonObject, semantics: ElasticitySemantics) -> list[ElasticityFault]:
    """Return the errors of the `elasticity` section that the first failing check finds."""
    errors = [*_missing_key_faults(block), *_micro_batch_faults(block), *_number_faults(block, semantics)]
    return errors or list(_version_faults(block, semantics)) or list(_maximum_batch_faults(block, semantics))


def _missing_key_faults(block: JsonObject) -> Iterator[ElasticityFault]:
    for key in _REQUIRED:
        if key not in block:
            yield ElasticityFault(
                "DSC601", key, f"`elasticity` is enabled, but `{key}` is not set", f"add `{key}`"
            )


def _micro_batch_faults(block: JsonObject) -> Iterator[ElasticityFault]:
    sizes = block.get("micro_batch_sizes", [1])
    if not isinstance(sizes, list):
        message = f"`micro_batch_sizes` is {describe_value(sizes)} but DeepSpeed expects a list of integers"
    elif all(isinstance(size, bool) for size in sizes):
        message = f"`micro_batch_sizes` is {quote_value(sizes)}, but must contain at least one integer"
    else:
        invalid = [size for size in sizes if not isinstance(size, int) or size <= 0]
        if not invalid:
            return
        message = (
            f"`micro_batch_sizes` contains {quote_value(invalid[0])}, but all sizes must be positive integers"
        )
    yield ElasticityFault(
        "DSC602",
        "micro_batch_sizes",
        message,
        "set it to a list of positive integers, for example `[2, 4, 6]`",
    )


def _number_faults(block: JsonObject, semantics: ElasticitySemantics) -> Iterator[ElasticityFault]:
    invalid = (
        [] if isinstance(block.get("max_train_batch_size", 1), int | float) else ["max_train_batch_size"]
    )
    bounds = [
        (key, bound)
        for key, bound, since in _BOUNDS
        if release_number(since) <= release_number(semantics.until)
    ]
    invalid.extend(key for key, _ in bounds if not isinstance(block.get(key, 1), int | float))
    for key in invalid:
        message = f"`{key}` is {describe_value(block[key])} but DeepSpeed expects a number"
        quotes = ", without quotes" if isinstance(block[key], str) else ""
        yield ElasticityFault("DSC602", key, message, f"set it to an integer{quotes}")
    low, high = block.get("min_gpus", 1), block.get("max_gpus", 10000)
    for key, bound in bounds:
        if key not in invalid and block.get(key, 1) < bound:
            message = f"`{key}` is {quote_value(block[key])}, but must be at least {bound}"
            yield ElasticityFault("DSC602", key, message, f"set it to {bound} or more")
            return
    if not {"min_gpus", "max_gpus"} & set(invalid) and high < low:
        message = f"`max_gpus` ({quote_value(high)}) is less than `min_gpus` ({quote_value(low)})"
        advice = f"set `max_gpus` to {quote_value(low)} or more"
        yield ElasticityFault("DSC602", "max_gpus" if "max_gpus" in block else "min_gpus", message, advice)


def _version_faults(block: JsonObject, semantics: ElasticitySemantics) -> Iterator[ElasticityFault]:
    value = block.get("version", semantics.latest_version)
    versions, version = ((0.1, 0.2) if semantics.latest_version >= 0.2 else (0.1,)), _as_float(value)
    model, node = block.get("model_parallel_size", 1), block.get("num_gpus_per_node", 1)
    if version not in versions:
        message = (
            f"`version` is {quote_value(value)}, but this DeepSpeed release implements only "
            f"version{'s' * (len(versions) > 1)} {' and '.join(map(str, versions))} of the elasticity algorithm"
        )
        yield ElasticityFault("DSC603", "version", message, f"use {' or '.join(map(str, versions))}")
    elif 0.2 not in versions:
        return
    elif model > 1 and version != 0.2:
        message = (
            f"`model_parallel_size` is {quote_value(model)}, but version {version} does not "
            "support model parallelism"
        )
        yield ElasticityFault("DSC604", "model_parallel_size", message, "set `version` to 0.2")
    elif version == 0.2 and node % model != 0:
        message = (
            f"`num_gpus_per_node` is {quote_value(node)}, which is not a multiple of "
            f"`model_parallel_size` ({quote_value(model)})"
        )
        yield ElasticityFault(
            "DSC604",
            "num_gpus_per_node",
            message,
            f"set `num_gpus_per_node` to a multiple of {model}, so that no replica of the model spans two nodes",
        )


def _as_float(value: Json) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _maximum_batch_faults(block: JsonObject, semantics: ElasticitySemantics) -> Iterator[ElasticityFault]:
    cap, largest = block["max_train_batch_size"], max(block["micro_batch_sizes"])
    ranks = ranks_per_node(block, semantics)
    subject = f"`elasticity.max_train_batch_size` is {quote_value(cap)}"
    try:
        share = cap if ranks is None else int(cap / ranks)
    except (OverflowError, ValueError):
        share = 2**63
    if (
        isinstance(share, int)
        and share >= 2**63
        and release_number(semantics.until) >= release_number("0.5.8")
    ):
        message = f"{subject}, which is too large for DeepSpeed's arithmetic"
        yield ElasticityFault(
            "DSC605", "max_train_batch_size", message, "set it to an integer of at most 1000000000"
        )
    elif not largest <= share:
        per_rank = (
            "" if ranks in (None, 1) else f", which leaves {share} for each of the {ranks} ranks on a node"
        )
        message = f"{subject}{per_rank}, less than the micro batch size {quote_value(largest)}"
        minimum = f"raise it to {quote_value(largest * (ranks or 1))} or more"
        yield ElasticityFault(
            "DSC605", "max_train_batch_size", message, f"{minimum}, or list smaller `micro_batch_sizes`"
        )


def ranks_per_node(block: JsonObject, semantics: ElasticitySemantics) -> Json:
    """Return the data-parallel ranks per node for version 0.2, or None for version 0.1, which ignores nodes."""
    if float(block.get("version", semantics.latest_version)) != 0.2:
        return None
    return block.get("num_gpus_per_node", 1) // block.get("model_parallel_size", 1)


# Supported world sizes.

_MAX_DIVISIONS = 2_000_000
"""Maximum number of trial divisions; no release finishes with more, so there is no result to predict."""
_MAX_MICRO_BATCHES = 128
"""Maximum number of micro batch sizes; no release finishes with more."""


def is_intractable(block: JsonObject, semantics: ElasticitySemantics) -> bool:
    """Return whether the numbers in the section are so large that no release would finish."""
    micro_batches = set(block["micro_batch_sizes"])
    if len(micro_batches) > _MAX_MICRO_BATCHES:
        return True
    least = math.lcm(*micro_batches)
    batch = max(least, min(block["max_train_batch_size"], least * 720720))
    max_gpus = block.get("max_gpus", 10000)
    # Version 0.2 counts nodes, and treats a limit below one node as no limit.
    counts_nodes = ranks_per_node(block, semantics) is not None
    unlimited = counts_nodes and max_gpus < block.get("num_gpus_per_node", 1)
    return math.isqrt(int(batch)) > _MAX_DIVISIONS and (unlimited or max_gpus > _MAX_DIVISIONS)


class ElasticSolver(NamedTuple):
    """A release's elasticity solver for a section without errors."""

    block: JsonObject
    semantics: ElasticitySemantics
    release: str

    def with_values(self, **values: Json) -> ElasticSolver:
        """Return a solver for the same section with some values replaced."""
        return self._replace(block={**self.block, **values})

    def _solve(self, world_size: float) -> Json:
        """Return the release's solution for a world size, or the error that it raises."""
        from elastic.deepspeed.solver import as_released
        from elastic.errors import ElasticityError

        config = {"elasticity": self.block}
        try:
            # A size divided by `sequence_parallel_size` is a float in DeepSpeed too.
            return as_released(config, self.release, world_size, semantics=self.semantics)  # type: ignore[arg-type]
        except (ElasticityError, ArithmeticError, AssertionError, TypeError, ValueError) as error:
            return error

    def works_at(self, world_size: float) -> bool:
        """Return whether DeepSpeed finds batch sizes for a data-parallel size, and accepts them."""
        if not world_size > 0:
            return False  # the solver returns no micro batch, and DeepSpeed unpacks two values into three
        solution = self._solve(world_size)
        if isinstance(solution, Exception) or not solution.micro_batch_size:
            return False
        train, micro = solution.batch_size, solution.micro_batch_size
        steps = train // (micro * world_size)
        return not isinstance(
            batch_triplet.derive_batch_triplet(train, micro, steps, world_size), ImpossibleTriplet
        )

    def has_empty_batch(self, world_size: float) -> bool:
        """Return whether the maximum batch size is less than one micro batch per rank."""
        return getattr(self._solve(world_size), "batch_size", None) == 0

    def sizes(self) -> list[int]:
        """Return the world sizes that the release computes for the section.

        Elasticity 0.2 uses them both as numbers of ranks and of GPUs.
        """
        from elastic.deepspeed.batch_heuristics import solve_v02_batch
        from elastic.deepspeed.elasticity_config import ElasticityConfig
        from elastic.errors import NoWorldSizesError

        if ranks_per_node(self.block, self.semantics) is None:
            solution = self._solve(0)
            return [] if isinstance(solution, Exception) else list(solution.world_sizes or ())
        config = ElasticityConfig(self.block, semantics=self.semantics)
        try:
            sizes = set(solve_v02_batch(config, self.semantics)[1])
        except (NoWorldSizesError, ArithmeticError, AssertionError, TypeError, ValueError):
            return []
        return sorted(size for size in sizes if size // config.model_parallel_size in sizes)

    def candidates(self) -> list[int]:
        """Return some world sizes, at least one of which works if any world size does.

        The sizes that a release computes work by construction, except for rounding errors, so a few are enough. For any
        other size, version 0.2 computes a separate batch, which works for whole nodes.
        """
        listed = self.sizes()[:32]
        if ranks_per_node(self.block, self.semantics) is None:
            return listed
        node = self.block.get("num_gpus_per_node", 1)
        return [*listed, *range(1, 9), *(int(node * n) for n in range(1, 9))]


# Rules for values that the solver rejects.

_CONFIG = "elasticity/config.py:ElasticityConfig.__init__"
_SOLVER = "elasticity/elasticity.py:compute_elastic_config"


def _fault_findings(ctx: Context, code: str) -> Iterator[Finding]:
    for fault in elasticity_faults(elasticity_section(ctx), release_semantics(ctx)):
        if fault.code == code:
            yield ctx.at(f"elasticity.{fault.key}", fault.message, help=fault.help)


@rule("DSC601", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elasticity_without_batch_sizes(ctx: Context) -> Iterator[Finding]:
    """Elasticity is enabled, but a required key is missing.

    `max_train_batch_size` and `micro_batch_sizes` are required if elasticity is enabled.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}}
    """
    yield from _fault_findings(ctx, "DSC601")


@rule("DSC602", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elastic_value_out_of_range(ctx: Context) -> Iterator[Finding]:
    """A value of an enabled `elasticity` section is too small, or is not a number.

    Micro batch sizes must be positive integers, GPU counts at least 1, `min_time` at least 0, and `max_gpus`
    not less than `min_gpus`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4.5]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4]}}
    """
    yield from _fault_findings(ctx, "DSC602")


@rule("DSC603", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def unknown_elastic_version(ctx: Context) -> Iterator[Finding]:
    """`elasticity.version` is an algorithm that the release does not implement.

    Releases up to 0.6.7 implement only 0.1. Version 0.7.0 added 0.2, which plans for whole nodes.

    Bad, release 0.6.7:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}

    Good, release 0.7.0:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}
    """
    yield from _fault_findings(ctx, "DSC603")


@rule("DSC604", effect="rejected", since="0.7.0", until="0.19.7", source=_SOLVER)
def elastic_model_parallel_size_conflict(ctx: Context) -> Iterator[Finding]:
    """`model_parallel_size` does not fit the other keys of the `elasticity` section.

    Only version 0.2 of the algorithm supports model parallelism, and it requires that models do not span
    nodes: `num_gpus_per_node` must be a multiple of `model_parallel_size`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 3}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 2}}
    """
    yield from _fault_findings(ctx, "DSC604")


@rule("DSC605", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elastic_cap_below_micro_batch(ctx: Context) -> Iterator[Finding]:
    """`max_train_batch_size` is smaller than one of the micro batch sizes.

    The total must be at least as large as every micro batch size. Version 0.2 of the algorithm first divides
    the total by the data-parallel ranks of a node.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 4, "micro_batch_sizes": [2, 8]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2, 8]}}
    """
    yield from _fault_findings(ctx, "DSC605")


# Batch keys together with elasticity.

_ENGINE = "runtime/config.py:DeepSpeedConfig.__init__"


@rule(
    "DSC606",
    effect="rejected",
    since="0.3.9",
    until="0.19.7",
    source=_ENGINE,
    conditions=tuple(
        SchemaCondition(
            "Config",
            (
                KeyEquals("elasticity.enabled", (True,)),
                EffectiveValueIs("elasticity.ignore_non_elastic_batch_info", (False,)),
            ),
            KeyMustBeAbsent(key, f"`elasticity` is enabled and computes `{key}`"),
        )
        for key in batch_triplet.KEYS
    ),
)
def batch_size_beside_elasticity(ctx: Context) -> Iterator[Finding]:
    """The config sets a batch key although elasticity is enabled.

    Elasticity computes the three batch keys. DeepSpeed rejects a config that also sets one of them, even to null,
    unless `ignore_non_elastic_batch_info` is true, which makes DeepSpeed overwrite it.

    Bad, release 0.16.9:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    if elasticity_section(ctx).get("ignore_non_elastic_batch_info", False):
        return
    batch_keys = [key for key in batch_triplet.KEYS if ctx.has(key)]
    if batch_keys:
        first, *others = batch_keys
        yield ctx.at(
            first,
            f"`{first}` is set, but `elasticity` is enabled and computes the batch sizes",
            help=f"remove {join_alternatives((f'`{key}`' for key in batch_keys), 'and')}, or set "
            "`elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is also set", key) for key in others],
            fix=Fix("remove the batch keys", tuple(RemoveKey((key,)) for key in batch_keys)),
        )


# Unsupported world sizes.


@rule("DSC607", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def world_size_not_elastic(ctx: Context) -> Iterator[Finding]:
    """The world size does not divide the elastic batch size.

    Version 0.1 of the algorithm computes one batch size, and the world sizes that divide it. For any other world size,
    version 0.2 computes a separate batch size, unless models span several GPUs.

    Bad, release 0.16.9, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, release 0.16.9, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    solver = elastic_solver(ctx)
    world_size = data_parallel_size(ctx)
    if world_size is None or solver.works_at(world_size) or not works_at_some_world_size(ctx, solver):
        return
    sizes = solver.sizes()
    more = " …" if len(sizes) > 12 else ""
    listed = f": {', '.join(map(str, sizes[:12]))}{more}" if sizes else ""
    reason = f"is not one of the sizes that `elasticity` allows{listed}"
    if solver.has_empty_batch(world_size):
        cap = quote_value(solver.block["max_train_batch_size"])
        reason = (
            f"is too large: `elasticity.max_train_batch_size` {cap} is less than one micro batch per rank"
        )
    yield ctx.at(
        "elasticity",
        f"world size {world_size:g} {reason}",
        help="change the number of GPUs" + _suggest_higher_maximum(solver, world_size),
    )


def _suggest_higher_maximum(solver: ElasticSolver, world_size: float) -> str:
    """Suggest a maximum batch size with one micro batch of the smallest size per rank, if that is enough."""
    minimum = math.ceil(min(solver.block["micro_batch_sizes"]) * world_size)
    if minimum <= solver.block["max_train_batch_size"]:
        return ""
    if not solver.with_values(max_train_batch_size=minimum).works_at(world_size):
        return ""
    return f", or raise `max_train_batch_size` to {minimum}"


@rule("DSC608", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elasticity_without_world_size(ctx: Context) -> Iterator[Finding]:
    """The `elasticity` section does not work at any world size.

    No number of GPUs from `min_gpus` to `max_gpus` divides a batch of at most `max_train_batch_size` into whole
    micro batches.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.1,
                        "min_gpus": 50}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    solver = elastic_solver(ctx)
    if works_at_some_world_size(ctx, solver):
        return
    low, high = solver.block.get("min_gpus", 1), solver.block.get("max_gpus", 10000)
    yield ctx.at(
        "elasticity",
        f"no world size from `min_gpus` {quote_value(low)} to `max_gpus` {quote_value(high)} "
        "divides a batch of at most "
        f"{quote_value(solver.block['max_train_batch_size'])} into micro batches of "
        f"{quote_value(solver.block['micro_batch_sizes'])}",
        help=_suggest_working_bounds(ctx, solver),
    )


def _suggest_working_bounds(ctx: Context, solver: ElasticSolver) -> str:
    """Suggest a wider range of GPU counts or a higher maximum batch size, if it is verified to work."""
    block = solver.block
    options = []
    wide = solver.with_values(min_gpus=1, max_gpus=10000)
    if {"min_gpus", "max_gpus"} & set(block) and works_at_some_world_size(ctx, wide):
        options.append("widen the range of GPUs")
    for factor in (2, 8, 64):
        cap = factor * math.ceil(block["max_train_batch_size"])
        higher = solver.with_values(max_train_batch_size=cap)
        if not is_intractable(higher.block, solver.semantics) and works_at_some_world_size(ctx, higher):
            options.append(f"raise `max_train_batch_size` to {cap}")
            break
    return ", or ".join(options) or "use other sizes, or switch elasticity off"
