"""Elastic batch arithmetic for DeepSpeed jobs: one batch size, many world sizes.

Choose the global batch once, so that a job can change its number of GPUs with the *same* samples per step:
`train_batch_size` = micro batch x accumulation steps x data-parallel world size.  A resize then changes how a step
is computed, not what is learned.  DeepSpeed 0.19.8 removed `deepspeed.elasticity`; this package replaces it.  Planning
needs neither torch nor numpy, except that the exact search uses numpy for large caps.

**Why highly composite numbers?**  A batch runs on `w` ranks if `m * w` divides it for some micro batch `m`, so its
world sizes are the divisors of `batch / m`.  Highly composite numbers (1, 2, 4, 6, 12, 24, ...) have more divisors
than any smaller number.  The heuristic scales each micro batch, and their least common multiple, by the largest one
under the cap, and keeps the best result.  It is fast and good, but not optimal: `search` finds the optimum and
reports what the heuristic loses.

**What does this add to torchrun?**  torchrun restarts workers when nodes join or leave, within `--nnodes MIN:MAX`.
The training script has to handle the rest: with a fixed micro batch, 7 nodes instead of 8 silently change the global
batch, hence the learning-rate schedule and convergence.  Elasticity adds the batch contract: which world sizes keep
the batch, which micro batch and accumulation steps each needs, and why the other sizes are rejected.

    >>> from elastic import plan
    >>> block = {"enabled": True, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6],
    ...     "version": 0.1}
    >>> sizes = plan({"elasticity": block})
    >>> sizes.batch_size, sizes.row(8).micro_batch_size, sizes.row(8).accumulation_steps
    (1680, 6, 35)
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from elastic.deepspeed.differences_from_deepspeed import DIFFERENCES as DIFFERENCES
    from elastic.deepspeed.elasticity_config import ElasticityConfig as ElasticityConfig
    from elastic.deepspeed.release_behavior import SEMANTICS as SEMANTICS
    from elastic.deepspeed.release_behavior import ElasticitySemantics as ElasticitySemantics
    from elastic.deepspeed.release_behavior import semantics_for as semantics_for
    from elastic.deepspeed.solver import as_released as as_released
    from elastic.deepspeed.solver import compute_elastic_config as compute_elastic_config
    from elastic.deepspeed.solver import elasticity_enabled as elasticity_enabled
    from elastic.deepspeed.solver import ensure_immutable_elastic_config as ensure_immutable_elastic_config
    from elastic.deepspeed.solver import get_best_candidates as get_best_candidates
    from elastic.deepspeed.solver import get_candidate_batch_sizes as get_candidate_batch_sizes
    from elastic.deepspeed.solver import get_compatible_gpus_v01 as get_compatible_gpus_v01
    from elastic.deepspeed.solver import get_compatible_gpus_v02 as get_compatible_gpus_v02
    from elastic.deepspeed.solver import get_valid_gpus as get_valid_gpus
    from elastic.errors import ElasticityConfigError as ElasticityConfigError
    from elastic.errors import ElasticityError as ElasticityError
    from elastic.errors import ElasticityIncompatibleWorldSize as ElasticityIncompatibleWorldSize
    from elastic.planning.exact_search import BatchSearchResult as BatchSearchResult
    from elastic.planning.exact_search import keeping_batch as keeping_batch
    from elastic.planning.exact_search import search as search
    from elastic.planning.plan import Plan as Plan
    from elastic.planning.plan import PlanRow as PlanRow
    from elastic.planning.plan import plan as plan
    from elastic.worker.checkpoints import Checkpoints as Checkpoints
    from elastic.worker.checkpoints import SavedCheckpoint as SavedCheckpoint
    from elastic.worker.checkpoints import universal as universal
    from elastic.worker.checkpoints import with_universal as with_universal
    from elastic.worker.session import NotElasticError as NotElasticError
    from elastic.worker.session import Session as Session
    from elastic.worker.session import current as current
    from elastic.worker.session import is_elastic as is_elastic

__all__ = [
    "DIFFERENCES",
    "SEMANTICS",
    "BatchSearchResult",
    "Checkpoints",
    "ElasticityConfig",
    "ElasticityConfigError",
    "ElasticityError",
    "ElasticityIncompatibleWorldSize",
    "ElasticitySemantics",
    "NotElasticError",
    "Plan",
    "PlanRow",
    "SavedCheckpoint",
    "Session",
    "as_released",
    "compute_elastic_config",
    "current",
    "elasticity_enabled",
    "ensure_immutable_elastic_config",
    "get_best_candidates",
    "get_candidate_batch_sizes",
    "get_compatible_gpus_v01",
    "get_compatible_gpus_v02",
    "get_valid_gpus",
    "is_elastic",
    "keeping_batch",
    "plan",
    "search",
    "semantics_for",
    "universal",
    "with_universal",
]

_EXPORTS = {
    "deepspeed.elasticity_config": ("ElasticityConfig",),
    "deepspeed.differences_from_deepspeed": ("DIFFERENCES",),
    "deepspeed.release_behavior": ("SEMANTICS", "ElasticitySemantics", "semantics_for"),
    "deepspeed.solver": (
        "get_best_candidates",
        "get_candidate_batch_sizes",
        "get_compatible_gpus_v01",
        "get_compatible_gpus_v02",
        "get_valid_gpus",
        "as_released",
        "compute_elastic_config",
        "elasticity_enabled",
        "ensure_immutable_elastic_config",
    ),
    "errors": ("ElasticityConfigError", "ElasticityError", "ElasticityIncompatibleWorldSize"),
    "planning.exact_search": ("BatchSearchResult", "keeping_batch", "search"),
    "planning.plan": ("Plan", "PlanRow", "plan"),
    "worker.checkpoints": ("Checkpoints", "SavedCheckpoint", "universal", "with_universal"),
    "worker.session": ("NotElasticError", "Session", "current", "is_elastic"),
}

if not TYPE_CHECKING:

    def __getattr__(name):
        for module, names in _EXPORTS.items():
            if name in names:
                value = getattr(import_module(f"elastic.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'elastic' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *(name for names in _EXPORTS.values() for name in names)})
