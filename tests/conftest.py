"""Hypothesis in this suite: the same examples every time, so that a run says something of the change at hand.

`HYPOTHESIS_PROFILE=explore pytest` looks for new ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
