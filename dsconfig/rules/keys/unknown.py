"""Keys that no release reads where they stand: unknown, misspelt, misplaced, never real."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Move, Rename, dotted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._similar import unmistakable
from dsconfig.rules.keys._unknown import Misplaced, Misspelt, NeverRead, Unexplained, unknowns
from dsconfig.words import one_of

_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule("DSC101", effect="ignored", source=_ROOT)
def unknown_key(ctx: Context) -> Iterator[Finding]:
    """No release of DeepSpeed knows this key, here or elsewhere.

    At the top level and in the sections that DeepSpeed reads by hand, an unknown key is dropped without a
    word: what it was meant to do does not happen. Strict sections (`zero_optimization`, `fp16`, …) refuse the
    whole file. Remarks are fine outside strict sections when their name begins with `_` or `//`.

    Bad:

        {"train_batch_size": 8, "cuda_visible_devices": "0,1"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for found, _ in unknowns(ctx, Unexplained):
        known = list(found.section.keys)
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=f"remove it; known here: {one_of((f'`{key}`' for key in known), 'and')}"
            if 0 < len(known) <= 8
            else "remove it",
            effect=found.effect,
            part="key",
            fix=removal(found.path),
        )


@rule("DSC102", effect="ignored", source=_ROOT)
def misspelt_key(ctx: Context) -> Iterator[Finding]:
    """A key is spelt almost like one that exists.

    Bad:

        {"train_batch_size": 8, "gradient_clipp1ng": 1.0}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    for found, (meant,) in unknowns(ctx, Misspelt):
        taken = ctx.has(dotted((*found.path[:-1], meant)))
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=f"did you mean `{meant}`?" + (" It is set already: remove one of the two" if taken else ""),
            effect=found.effect,
            part="key",
            fix=None
            if taken
            else Fix(
                f"rename to `{meant}`",
                (Rename(found.path, meant),),
                safe=found.refused and unmistakable(found.word, found.section),
            ),
        )


@rule("DSC103", effect="ignored", source=_ROOT)
def misplaced_key(ctx: Context) -> Iterator[Finding]:
    """A key stands at a level where DeepSpeed does not look for it.

    `offload_optimizer` at the top level is the classic: no offload takes place, and nothing says so.

    Bad:

        {"train_batch_size": 8, "offload_optimizer": {"device": "cpu"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for found, (home,) in unknowns(ctx, Misplaced):
        yield ctx.at(
            found.path,
            f"`{found.word}` does not belong {found.where}: {found.fate}",
            help=f"move it to `{home}`",
            effect=found.effect,
            part="key",
            fix=None
            if ctx.has(home)
            else Fix(f"move to `{home}`", (Move(found.path, tuple(home.split("."))),)),
        )


@rule("DSC107", effect="ignored", source=_ROOT)
def dead_key(ctx: Context) -> Iterator[Finding]:
    """A key was never read by any release, though documentation, tutorials or examples show it.

    Bad:

        {"train_batch_size": 8, "comms_config": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "comms_logger": {"enabled": true}}
    """
    for found, (instead,) in unknowns(ctx, NeverRead):
        yield ctx.at(
            found.path,
            f"`{found.word}` was never a DeepSpeed key {found.where}, though examples show it: {found.fate}",
            help=f"use `{instead}`" if instead else "remove it",
            effect=found.effect,
            part="key",
            fix=removal(found.path) if not instead else None,
        )
