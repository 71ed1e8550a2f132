"""Rehearsal of a DeepSpeed release: `python -m tests.parity.rehearsal` finds eleven changes made to a copy of 0.19.8.

The copy is called 0.20.0. Keys are added, removed and renamed; defaults, bounds and types change; a section becomes
strict, a value is coerced, and an engine does something else with a setting. The census has to find what config
classes and lookups show (`make census RELEASE=0.20.0`), and `tests.parity.citations` what else changes in the code
that rules and keys cite.

Then a copy of this repository learns the release as a person would teach it: `HANDWRITTEN` edits the model and adds a
rule, and everything else is generated. Afterward, the census has to find nothing, in either release.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dsconfig.core.releases import LATEST
from tests.parity import census, citations, environment
from tests.repository_copy import Copy

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
        "a key is added to inference configs",
        "inference/config.py",
        r"(    enable_cuda_graph: bool = False\n)",
        r"    cuda_graph_warmup: int = 3\n\1",
        ("adds init_inference.cuda_graph_warmup",),
    ),
    Edit(
        "a section becomes strict",
        "runtime/activation_checkpointing/config.py",
        r"(    def _initialize\(self, act_chkpt_config_dict\):\n)",
        r"\1        known = {v for k, v in globals().items() if k.startswith('ACT_CHKPT_') and isinstance(v, str)}\n"
        "        assert set(act_chkpt_config_dict) <= known, 'unknown keys'\n",
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


MOST_LINES = 33
"""Lines that a person may have to write by hand for these eleven changes, before `make lint` formats them."""
_LONGEST_LINE = 120


class HandwrittenEdit(NamedTuple):
    """Text that a person replaces in a file of the repository; an empty `old` makes a new file."""

    file: str
    old: str
    new: str

    def lines(self) -> Iterator[str]:
        """Yield the lines that are new or changed, without blank ones."""
        kept = Counter(self.old.splitlines())
        for line in self.new.splitlines():
            if kept[line]:
                kept[line] -= 1
            elif line.strip():
                yield line


_MODEL, _ENGINE_KEYS = "dsconfig/model/zero.py", "dsconfig/model/engine.py"
_CHECKPOINTING = "dsconfig/model/activation_checkpointing.py"
_RULES = "dsconfig/rules/top_level_keys.py"
HANDWRITTEN = (
    HandwrittenEdit(
        _MODEL,
        "    contiguous_gradients: Annotated[bool, Key(",
        """    stage4_prefetch_depth: Annotated[int, Key(since="0.20.0")] = 2
    \"""Layers whose parameters stage 4 prefetches.\"""

    contiguous_gradients: Annotated[bool, Key(""",
    ),
    HandwrittenEdit(
        _ENGINE_KEYS,
        "    steps_per_print: Annotated[",
        """    clip_by_value: Annotated[float | None, Key(since="0.20.0")] = None
    \"""Largest absolute value of a gradient.\"""
    steps_per_print: Annotated[""",
    ),
    HandwrittenEdit(
        _MODEL,
        """round_robin_gradients: Annotated[bool, Key(since="0.4.4")""",
        """round_robin_gradients: Annotated[bool, Key(since="0.4.4", until="0.19.8")""",
    ),
    HandwrittenEdit(
        _MODEL,
        """    ignore_unused_parameters: Annotated[bool, Key(since="0.4.0")] = True""",
        """    skip_unused_parameters: Annotated[bool, Key(since="0.20.0")] = True
    \"""Skip parameters without a gradient in a step; false raises an error for them (stage 2).\"""
    ignore_unused_parameters: Annotated[bool, Key(since="0.4.0", until="0.19.8", rewrite="rename",
        replaced_by="zero_optimization.skip_unused_parameters")] = True""",
    ),
    HandwrittenEdit(
        "dsconfig/rules/zero/buckets.py",
        """    "DSC445",
    effect="ignored",
    since="0.4.0",""",
        """    "DSC445",
    effect="ignored",
    since="0.4.0", until="0.19.8",""",
    ),
    HandwrittenEdit(
        _MODEL,
        """Key(since="0.2.0", unit="elements", was=(EarlierType("0.6.7", int),))
    ] = 500_000_000
    \"""Elements per all-gather.""",
        """Key(since="0.2.0", unit="elements", was=(EarlierType("0.6.7", int),), defaults=(("0.19.8", 500_000_000),))
    ] = 200_000_000
    \"""Elements per all-gather.""",
    ),
    HandwrittenEdit(
        _MODEL,
        """        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            was=(EarlierType("0.6.7", int),),""",
        """        Annotated[int, Field(ge=1024)],
        Key(
            since="0.3.12",
            unit="elements",
            was=(EarlierType("0.6.7", int), EarlierType("0.19.8", NonNegativeInt)),""",
    ),
    HandwrittenEdit(
        _MODEL,
        """buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(EarlierType("0.6.7", int),))] = 4""",
        """buffer_count: Annotated[str, Key(since="0.3.15", defaults=(("0.19.8", 4),),
        was=(EarlierType("0.6.7", int), EarlierType("0.19.8", NonNegativeInt)))] = "four\"""",
    ),
    HandwrittenEdit(
        "dsconfig/model/inference.py",
        "    enable_cuda_graph: Annotated[bool",
        """    cuda_graph_warmup: Annotated[int, Key(since="0.20.0")] = 3
    \"""Forward passes before the graph is captured.\"""
    enable_cuda_graph: Annotated[bool""",
    ),
    HandwrittenEdit(
        _CHECKPOINTING,
        "from dsconfig.model.key import SCRIPT, Key",
        "from dsconfig.model.key import SCRIPT, Key, SectionReading",
    ),
    HandwrittenEdit(
        _CHECKPOINTING,
        """    SOURCE = "runtime/activation_checkpointing/""",
        """    READS = (SectionReading("hand", until="0.19.8"),
        SectionReading("hand", since="0.20.0", unknown="rejected"))
    SOURCE = "runtime/activation_checkpointing/""",
    ),
    HandwrittenEdit(
        "dsconfig/model/communication.py",
        """bool, Key(since="0.1.0", source="runtime/config.py:get_prescale_gradients")""",
        """bool, Key(since="0.1.0", source="runtime/config.py:get_prescale_gradients", wrong_type="altered")""",
    ),
    HandwrittenEdit(
        _RULES,
        """@rule("DSC981",""",
        """@rule("DSC999", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check")
def gradient_clipping_above_one(ctx: Context) -> Iterator[Finding]:
    \"""`gradient_clipping` is greater than 1, which the engine rejects from 0.20.0 on.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": 2.0}
    \"""
    if ctx.since("0.20.0") and is_number(value := ctx.raw(_CLIPPING)) and value > 1:
        yield ctx.at(_CLIPPING, f"`{_CLIPPING}` is {value}, but the engine accepts at most 1", help="write 1")


@rule("DSC981",""",
    ),
    HandwrittenEdit(
        "tests/cases/optimizer/DSC999-gradient-clipping-above-one.json",
        "",
        """{"cases": [{"name": "above", "why": "the engine asserts at most 1", "target": "0.20.0",
"config": {"gradient_clipping": 2}, "finds": [{"path": "gradient_clipping", "effect": "crashes"}]}]}
""",
    ),
)
"""One or two edits for each change of the copy, in the same order."""
VERDICTS: tuple[tuple[dict[str, object], list[str], list[str]], ...] = (
    ({"clip_by_value": 0.5}, ["DSC105"], []),
    ({"gradient_clipping": 2}, [], ["DSC999"]),
    ({"activation_checkpointing": {"unknown": 1}}, ["DSC101"], ["DSC101"]),
    ({"zero_optimization": {"stage": 2, "ignore_unused_parameters": True}}, [], ["DSC104"]),
    ({"zero_optimization": {"stage": 3, "sub_group_size": 512}}, [], ["DSC111"]),
)
"""Keys of a config, and the rules that report it in the release before and in the copy."""


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


def teach(folder: Path) -> list[str]:
    """Teach a copy of the repository the release as a person would, and return what is wrong afterward."""
    copy = Copy(folder)
    copy.run("schema.add_release", FAKE)
    for edit in HANDWRITTEN:
        if edit.old:
            copy.edit(edit.file, edit.old, edit.new)
        else:
            copy.write(edit.file, edit.new)
    copy.run("schema.generate")
    copy.run("tests.cases")
    variables = {"DSCONFIG_PARITY_HOME": str(environment.home())}
    report = copy.run("tests.parity.census", LATEST, FAKE, **variables)
    wrong = [line for line in report.splitlines() if not re.search(r": 0 differences|^  memory: ", line)]
    for config, before, after in VERDICTS:
        for release, expected in ((LATEST, before), (FAKE, after)):
            codes = [code for code, *_ in copy.diagnostics({"train_batch_size": 8, **config}, release)]
            if codes != expected:
                wrong.append(f"{json.dumps(config)} in {release}: {codes}, expected {expected}")
    return wrong


def handwritten_lines() -> int:
    """Count the lines of `HANDWRITTEN`; a line longer than a person would write counts as several."""
    lines = [line for edit in HANDWRITTEN for line in edit.lines()]
    return sum(-(-len(line) // _LONGEST_LINE) for line in lines)


def main() -> int:
    """Make the copy, look at it, teach it, and remove it; 0 if every change is reported, and taught in few lines."""
    try:
        environment.build([LATEST])
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    root = environment.home() / "ds"
    shutil.rmtree(root / FAKE, ignore_errors=True)
    try:
        make_copy(root)
        reports = reported()
        with tempfile.TemporaryDirectory() as folder:
            wrong = teach(Path(folder))
    finally:
        shutil.rmtree(root / FAKE, ignore_errors=True)
    missed = [edit for edit in EDITS if not reports.issuperset(edit.reports)]
    for edit in EDITS:
        print(f"{'missed' if edit in missed else 'found':7} {edit.what}: {', '.join(edit.reports)}")
    lines = handwritten_lines()
    print(*(f"wrong   {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
    print(
        f"rehearsal: {len(EDITS) - len(missed)} of {len(EDITS)} changes found; {lines} lines written by hand,"
        f" at most {MOST_LINES}"
    )
    return 1 if missed or wrong or lines > MOST_LINES else 0


if __name__ == "__main__":
    sys.exit(main())
