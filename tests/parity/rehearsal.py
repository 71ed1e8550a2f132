"""Rehearsal of a DeepSpeed release: `python -m tests.parity.rehearsal` finds ten changes made to a copy of 0.19.8.

The copy is called 0.20.0. Keys are added, removed and renamed; defaults, bounds and types change; a section becomes
strict, a value is coerced, and an engine does something else with a setting. The census has to find what config
classes and lookups show (`make census RELEASE=0.20.0`), and `tests.parity.citations` what else changes in the code
that rules and keys cite.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from dsconfig.core.releases import LATEST
from tests.parity import census, citations, environment

FAKE = "0.20.0"
_ZERO, _OFFLOAD, _CONFIG = "runtime/zero/config.py", "runtime/zero/offload_config.py", "runtime/config.py"


class Edit(NamedTuple):
    """One change of the copy: a pattern in a file and what replaces it, and the reports that have to name it."""

    what: str
    file: str
    pattern: str
    replacement: str
    reports: tuple[str, ...]


EDITS = (
    Edit(
        "a key is added to a section",
        _ZERO,
        r"(    stage: ZeroStageEnum = 0\n)",
        r"    stage4_prefetch_depth: int = 2\n\1",
        ("adds zero_optimization.stage4_prefetch_depth",),
    ),
    Edit(
        "a key is added at the top",
        _CONFIG,
        r"(def get_gradient_clipping\(param_dict\):\n)",
        r"\1    get_scalar_param(param_dict, 'clip_by_value', None)\n",
        ("adds clip_by_value",),
    ),
    Edit(
        "a key is removed",
        _ZERO,
        r"    round_robin_gradients: bool = False\n",
        "",
        ("removes zero_optimization.round_robin_gradients",),
    ),
    Edit(
        "a key is renamed",
        _ZERO,
        r"    ignore_unused_parameters: bool = True\n",
        "    skip_unused_parameters: bool = True\n",
        (
            "adds zero_optimization.skip_unused_parameters",
            "removes zero_optimization.ignore_unused_parameters",
        ),
    ),
    Edit(
        "a default changes",
        _ZERO,
        r"(allgather_bucket_size: int = Field\(pp_int\()5e8",
        r"\g<1>2e8",
        ("changes zero_optimization.allgather_bucket_size",),
    ),
    Edit(
        "a bound changes",
        _ZERO,
        r"(sub_group_size: int = Field\(pp_int\(1e9\), ge=)0",
        r"\g<1>1024",
        ("changes zero_optimization.sub_group_size",),
    ),
    Edit(
        "a type changes",
        _OFFLOAD,
        r"buffer_count: int = Field\(4, ge=0\)",
        "buffer_count: str = 'four'",
        ("changes zero_optimization.offload_optimizer.buffer_count",),
    ),
    Edit(
        "a section becomes strict",
        "runtime/activation_checkpointing/config.py",
        r"(    def _initialize\(self, act_chkpt_config_dict\):\n)",
        r"\1        assert 'unknown' not in act_chkpt_config_dict\n",
        ("runtime/activation_checkpointing/config.py:DeepSpeedActivationCheckpointingConfig._initialize",),
    ),
    Edit(
        "a value is coerced",
        _CONFIG,
        r"return (get_scalar_param\(param_dict, PRESCALE_GRADIENTS, PRESCALE_GRADIENTS_DEFAULT\))",
        r"return bool(\1)",
        ("runtime/config.py:get_prescale_gradients",),
    ),
    Edit(
        "the engine rejects a combination",
        "runtime/engine.py",
        r"(    def _do_optimizer_sanity_check\(self, basic_optimizer\):\n)",
        r"\1        assert self.gradient_clipping() <= 1\n",
        ("runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check",),
    ),
)


def make_copy(root: Path) -> None:
    """Copy the newest known release and make the changes."""
    shutil.copytree(root / LATEST, root / FAKE)
    for edit in EDITS:
        path = root / FAKE / "deepspeed" / edit.file
        text, count = re.subn(edit.pattern, edit.replacement, path.read_text("utf-8"), count=1)
        assert count == 1, f"{edit.what}: {edit.file} has no `{edit.pattern}`"
        path.write_text(text, "utf-8")


def reported() -> set[str]:
    """What the census and the citations report of the copy."""
    differences = {f"{each.change} {each.path}" for each in census.differences(FAKE)}
    return differences | {f"{each.file}:{each.symbol}" for each in citations.changed_in_deepspeed(FAKE)}


def main() -> int:
    """Make the copy, look at it, and remove it; 0 if every change is reported."""
    try:
        environment.build([LATEST])
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    root = environment.home() / "ds"
    shutil.rmtree(root / FAKE, ignore_errors=True)
    try:
        make_copy(root)
        reports = reported()
    finally:
        shutil.rmtree(root / FAKE, ignore_errors=True)
    missed = [edit for edit in EDITS if not reports.issuperset(edit.reports)]
    for edit in EDITS:
        print(f"{'missed' if edit in missed else 'found':7} {edit.what}: {', '.join(edit.reports)}")
    print(f"rehearsal: {len(EDITS) - len(missed)} of {len(EDITS)} changes found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
