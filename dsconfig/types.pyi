# from dsconfig/model and dsconfig/types.py by `make generate`; do not edit.

Types of the sections of a config: section classes, parameter classes, and a TypedDict for each.

    from dsconfig.types import AdamWParams, ZeroOptimizationDict

The sections at the root of a config are in `dsconfig` as well.
"""

from dsconfig.model import *
