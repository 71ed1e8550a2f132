"""Errors of elastic batch sizing, named as in DeepSpeed (`elasticity/config.py`)."""

from __future__ import annotations


class ElasticityError(Exception):
    """Base class of all errors of elastic batch sizing."""


class ElasticityConfigError(ElasticityError):
    """The `elasticity` block is invalid at any world size."""


class ElasticityIncompatibleWorldSize(ElasticityError):  # noqa: N818 - DeepSpeed's name, which users catch
    """The `elasticity` block is valid, but does not admit this world size."""


class NoWorldSizesError(TypeError):
    """DeepSpeed's heuristic found no world size and returned `None` instead of a list.

    DeepSpeed then raises a `TypeError` about `None`, so this error is a `TypeError` too. `compute_elastic_config`
    raises an `ElasticityConfigError` with the reason instead.
    """
