"""Precedence: which source of a fact about the job wins, for every verb and function.

A layer is what one source tells: the arguments of a command or function, the environment, the config's own block
`"$dsconfig"`, settings, a launch file, the repository. `merge` takes each fact of the strongest layer that has it.
"""

from __future__ import annotations

from typing import Any

from dsconfig.job.job import NOTHING, Job


def merge(*layers: Job) -> Job:
    """Each fact of the first layer that has it; the layers stand in the order of their strength.

    Arguments come before the environment, that before the config's own block, settings, the launch file, the
    repository and what the content of the config suggests.
    """
    facts = list[Any](NOTHING)
    for each in layers:
        for index, fact in enumerate(each):
            if facts[index] is None:
                facts[index] = fact
    return Job(*facts)
