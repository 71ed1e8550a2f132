"""The errors that elastic sizing raises, named as DeepSpeed names them (`elasticity/config.py`)."""

from __future__ import annotations


class ElasticityError(Exception):
    """Anything that stops elastic sizing; the other two are kinds of it."""


class ElasticityConfigError(ElasticityError):
    """The `elasticity` block cannot be used as written, at any world size."""


class ElasticityIncompatibleWorldSize(ElasticityError):  # noqa: N818 - DeepSpeed's name, which users catch
    """The block is fine; this world size is not one of its sizes."""


class NoWorldSizesError(TypeError):
    """DeepSpeed's heuristic found no world size and returned `None` in place of a list.

    Its callers then look into `None`, which is a `TypeError`: so is this.  Users of
    `compute_elastic_config` never see it, they get an `ElasticityConfigError` with the reason.
    """
