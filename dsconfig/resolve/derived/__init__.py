"""Values that DeepSpeed does not take as they are written: derived from other keys, or rewritten by its code.

What pydantic makes of a value follows from its type, and needs no entry. All that DeepSpeed's own code does
to a value while it builds its config object stands in `DERIVATIONS`, and nowhere else.
"""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.resolve.derived.derivation import Derivation
from dsconfig.resolve.derived.other_sections import of_others, of_switches
from dsconfig.resolve.derived.precision import of_precision
from dsconfig.resolve.derived.zero import of_zero

DERIVATIONS = (*of_zero(), *of_precision(), *of_switches(), *of_others())


def derivations(ctx: Context) -> dict[str, Derivation]:
    """Those of the release that the config is seen by, by key."""
    return {entry.key: entry for entry in DERIVATIONS if ctx.release in entry.releases}
