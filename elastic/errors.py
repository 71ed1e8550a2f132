"""Errors of elastic batch sizing, with DeepSpeed's names (`elasticity/config.py`)."""

from __future__ import annotations


class ElasticityError(Exception):
    """Base class of the errors of elastic batch sizing."""


class ElasticityConfigError(ElasticityError):
    """The `elasticity` block is invalid, whatever the world size."""


class ElasticityIncompatibleWorldSize(ElasticityError):  # noqa: N818 - DeepSpeed's name, which users catch
    """The `elasticity` block is valid, but does not admit this world size."""


class NoWorldSizesError(TypeError):
    """DeepSpeed's heuristic found no world size and returned `None` instead of a list.

    DeepSpeed then raises a `TypeError` about `None`, so this error is one, too.  `compute_elastic_config` raises an
    `ElasticityConfigError` with the reason instead.
    """
