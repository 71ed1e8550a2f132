"""Keys that no release reads where they stand: unknown, misspelt, misplaced, never real."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, dotted
from dsconfig.core.wording import expected, one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import view
from dsconfig.rules._did_you_mean import guess
from dsconfig.rules._fixes import loss
from dsconfig.rules._move_fix import moved, renamed
from dsconfig.rules._suggest_section import COMMON
from dsconfig.rules.keys._replacements import instead, said_today
from dsconfig.rules.keys._unknown import Misplaced, Misspelt, NeverRead, Unexplained, Unknown, unknowns

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
    for found, (unfit, places) in unknowns(ctx, Unexplained):
        value = found.entry.value
        elsewhere = [] if found.word in COMMON else [place for place in places if _arrives(ctx, found, place)]
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=_without_a_guess(found, unfit, elsewhere),
            effect=found.effect,
            part="key",
            # What may have been meant for a key is the reader's to decide, not to be thrown away.
            fix=None if unfit or places or _explained_at_an_end(ctx, found) else loss(found.path, value),
        )


def _arrives(ctx: Context, found: Unknown, place: str) -> bool:
    return moved(ctx, found.path, tuple(place.split(".")), found.entry.value) is not None


def _explained_at_an_end(ctx: Context, found: Unknown) -> bool:
    """Whether the first or the last release of the target has a key that may be meant."""
    others = set(ctx.target) - {ctx.release}
    return any(
        guess(found.word, found.entry.value, view(found.section.name, other)).meant for other in others
    )


def _without_a_guess(found: Unknown, unfit: tuple[str, ...], elsewhere: list[str]) -> str:
    known = list(found.section.keys)
    if unfit:
        takes = [f"`{word}` takes {expected(found.section.keys[word].type)}" for word in unfit]
        return f"remove it, or write what is meant: {one_of(takes, 'and')}"
    if 0 < len(elsewhere) <= _FEW:
        return f"remove it, or move it to {one_of(f'`{place}`' for place in elsewhere)}"
    if 0 < len(known) <= _ALL:
        return f"remove it; known here: {one_of((f'`{key}`' for key in known), 'and')}"
    return "remove it"


_FEW, _ALL = 3, 8
"""How many places of a key, and keys of a section, a help lists."""


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
    for found, reason in unknowns(ctx, Misspelt):
        advice, fix = _meant(ctx, found, reason)
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=advice,
            effect=found.effect,
            part="key",
            fix=fix,
        ).meaning(*((*found.path[:-1], word) for word in reason.meant))


def _meant(ctx: Context, found: Unknown, reason: Misspelt) -> tuple[str, Fix | None]:
    meant, sure = reason
    words = one_of(f"`{word}`" for word in meant)
    asked = f"did you mean {words}?"
    info = found.section.keys[meant[0]].info
    if any(ctx.has(dotted((*found.path[:-1], word))) for word in meant):
        return f"{asked} It is set already: remove one of the two", None
    if "unread" in info.flags:
        return (
            f"{instead(ctx, info, found.entry)}: {words}, which is spelt like it, has no effect either",
            None,
        )
    if info.deprecated <= ctx.release and info.rewrite and info.replaced_by:
        to = tuple(info.replaced_by.split("."))
        return f"{asked} It is deprecated: {instead(ctx, info, found.entry)}", said_today(
            ctx, info, found.entry, to
        )
    if len(meant) > 1:
        return asked, None
    return asked, renamed(ctx, found.path, meant[0], found.entry.value, safe=found.refused and sure)


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
        advice, fix = _to_move(ctx, found, home)
        yield ctx.at(
            found.path,
            f"`{found.word}` does not belong {found.where}: {found.fate}",
            help=advice,
            effect=found.effect,
            part="key",
            fix=fix,
        ).meaning(ctx.place(home))


def _to_move(ctx: Context, found: Unknown, home: str) -> tuple[str, Fix | None]:
    key = ctx.key(home)
    if key is not None and key.info.deprecated <= ctx.release and key.info.replaced_by:
        to = tuple(key.info.replaced_by.split("."))
        return instead(ctx, key.info, found.entry), said_today(ctx, key.info, found.entry, to)
    return f"move it to `{home}`", moved(ctx, found.path, tuple(home.split(".")), found.entry.value)


@rule("DSC107", effect="ignored", source=_ROOT)
def dead_key(ctx: Context) -> Iterator[Finding]:
    """A key was never read by any release, though documentation, tutorials or examples show it.

    Bad:

        {"train_batch_size": 8, "comms_config": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "comms_logger": {"enabled": true}}
    """
    for found, (to,) in unknowns(ctx, NeverRead):
        value = found.entry.value
        yield ctx.at(
            found.path,
            f"`{found.word}` was never a DeepSpeed key {found.where}, though examples show it: {found.fate}",
            help=f"use `{dotted(to)}` instead" if to else "remove it",
            effect=found.effect,
            part="key",
            fix=moved(ctx, found.path, to, value) if to else loss(found.path, value),
        ).meaning(to)
