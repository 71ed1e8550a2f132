"""The cases in which `compute_elastic_config` differs from DeepSpeed, each with a function that detects it.

In these cases DeepSpeed returns answers with which training is impossible, or fails on them later. Here they raise
errors with a reason and a remedy. The last difference is not an error: integers are exact instead of 64-bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from elastic.deepspeed.batch_heuristics import SolverAnswer
from elastic.deepspeed.elasticity_config import ElasticityConfig
from elastic.errors import ElasticityConfigError, ElasticityError, ElasticityIncompatibleWorldSize

Result = tuple[Any, ...]
"""Result of the solver, `(batch, sizes)` or `(batch, sizes, micro_batch)`, which depends on values, not on types."""


@dataclass(frozen=True, slots=True)
class SolverDifference:
    """A difference from DeepSpeed; `holds` tests DeepSpeed's answer, and `explain` returns the error message."""

    name: str
    summary: str
    holds: Callable[[SolverAnswer], bool]
    explain: Callable[[SolverAnswer], str]
    error: type[ElasticityError] | None
    """Error to raise, or `None` if the answer is only more exact than DeepSpeed's."""


def reject_unusable(answer: SolverAnswer) -> Result:
    """Return an answer as DeepSpeed does, or raise the error of the first difference that applies."""
    for difference in DIFFERENCES:
        if difference.error is not None and difference.holds(answer):
            raise difference.error(difference.explain(answer))
    sizes = answer.world_sizes or []
    if answer.has_micro_batch and answer.micro_batch_size is not None:
        return answer.batch_size, sizes, answer.micro_batch_size
    return answer.batch_size, sizes


def no_world_sizes(config: ElasticityConfig) -> str:
    """Explain why an `elasticity` block admits no world size, and what to change."""
    return (
        f"no world size from `min_gpus` {config.min_gpus} to `max_gpus` {config.max_gpus} splits a batch of "
        f"at most `max_train_batch_size` {config.max_acceptable_batch_size} into whole micro batches of "
        f"{config.micro_batches}; widen the range or raise the cap"
    )


def overflows(micro_batches: Sequence[int], cap: float) -> bool:
    """Return whether DeepSpeed's 64-bit arithmetic overflows, in the least common multiple or at the cap."""
    return cap >= 2**63 or math.lcm(*micro_batches) >= 2**63


def _has_nonpositive_size(answer: SolverAnswer) -> bool:
    if answer.ranks is not None and answer.ranks < 1:
        return True
    return answer.world_sizes is not None and answer.world_sizes[0] < 1


def _is_uneven(answer: SolverAnswer) -> bool:
    """Return whether the batch is not a multiple of micro batch x ranks, which can happen in v0.2."""
    if answer.has_micro_batch and answer.micro_batch_size and answer.ranks:
        return answer.batch_size % (answer.micro_batch_size * answer.ranks) != 0
    if answer.fallback and answer.world_sizes and answer.world_sizes[0] > 0:
        ranks = answer.world_sizes[0]
        return all(answer.batch_size % (micro * ranks) for micro in answer.config.micro_batches)
    return False


def _explain_zero(answer: SolverAnswer) -> str:
    config = answer.config
    return (
        f"`max_train_batch_size` {config.max_acceptable_batch_size} leaves no batch for this world size: one "
        f"step of {answer.world_sizes} ranks needs at least {min(config.micro_batches)} samples each; "
        "use fewer GPUs, a smaller micro batch or a higher cap (without `prefer_larger_batch` every micro "
        "batch must fit)"
    )


def _explain_cap(answer: SolverAnswer) -> str:
    config = answer.config
    return (
        f"batch {answer.batch_size} exceeds `max_train_batch_size` {config.max_acceptable_batch_size}: it is "
        f"the least common multiple of {config.micro_batches}, which releases up to 0.19.5 do not "
        "compare with the cap; drop a micro batch, raise the cap or plan with 0.19.6"
    )


def _explain_micro(answer: SolverAnswer) -> str:
    return (
        f"no micro batch of {answer.config.micro_batches} fits batch {answer.batch_size} on this world size; "
        "use an admissible size, or add a smaller micro batch"
    )


def _explain_uneven(answer: SolverAnswer) -> str:
    return (
        f"batch {answer.batch_size} is not a whole number of micro batches on "
        f"{answer.ranks or answer.world_sizes} data-parallel ranks: v0.2 divides by "
        "GPUs where it means ranks; use whole nodes, or `elastic.plan`"
    )


DIFFERENCES: tuple[SolverDifference, ...] = (
    SolverDifference(
        "no-world-sizes",
        "the list of world sizes is empty or `None` (v0.2 then raises a TypeError about `None`)",
        lambda answer: not answer.world_sizes,
        lambda answer: no_world_sizes(answer.config),
        ElasticityConfigError,
    ),
    SolverDifference(
        "nonpositive-world-size",
        "v0.2 plans for a negative world size or for less than one data-parallel rank",
        _has_nonpositive_size,
        lambda answer: (
            f"this world size makes {answer.ranks if answer.ranks is not None else answer.world_sizes} data-"
            f"parallel ranks; it must hold at least one model of {answer.config.model_parallel_size} GPUs"
        ),
        ElasticityIncompatibleWorldSize,
    ),
    SolverDifference(
        "zero-batch",
        "v0.2's fallback returns batch 0 where the cap is below one micro batch a rank",
        lambda answer: answer.batch_size == 0,
        _explain_zero,
        ElasticityIncompatibleWorldSize,
    ),
    SolverDifference(
        "above-cap",
        "up to 0.19.5 the batch may be a least common multiple above `max_train_batch_size`",
        lambda answer: answer.batch_size > answer.config.max_acceptable_batch_size,
        _explain_cap,
        ElasticityConfigError,
    ),
    SolverDifference(
        "no-micro-batch",
        "v0.2 returns `None` as micro batch",
        lambda answer: answer.has_micro_batch and answer.micro_batch_size is None,
        _explain_micro,
        ElasticityIncompatibleWorldSize,
    ),
    SolverDifference(
        "uneven-share",
        "micro batch x ranks does not divide the batch, so the triplet has no accumulation steps",
        _is_uneven,
        _explain_uneven,
        ElasticityIncompatibleWorldSize,
    ),
    SolverDifference(
        "int64-overflow",
        "from 2**63 on DeepSpeed's numpy integers wrap or raise OverflowError; these functions are exact",
        lambda answer: overflows(answer.config.micro_batches, answer.config.max_acceptable_batch_size),
        lambda answer: f"least common multiple of {answer.config.micro_batches} beyond 64 bits",
        None,
    ),
)
