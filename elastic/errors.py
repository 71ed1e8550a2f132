"""Errors of elastic sizing, with DeepSpeed's names (`elasticity/config.py`)."""

from __future__ import annotations


class ElasticityError(Exception):
    """Base class of the errors of elastic sizing."""


class ElasticityConfigError(ElasticityError):
    """The `elasticity` block is invalid at every world size."""


class ElasticityIncompatibleWorldSize(ElasticityError):  # noqa: N818 - DeepSpeed's name, which users catch
    """The block is valid, but this world size is not admissible."""


class NoWorldSizesError(TypeError):
    """DeepSpeed's heuristic found no world size and returned `None` instead of a list.

    DeepSpeed then raises a `TypeError` about `None`, so this is one too.  `compute_elastic_config` raises an
    `ElasticityConfigError` with the reason instead.
    """
