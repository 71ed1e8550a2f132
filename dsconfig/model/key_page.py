"""Markdown page of one key, as `dsconfig explain zero_optimization.stage` shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.core.releases import EVERY_RELEASE, NEVER, name
from dsconfig.core.wording import expected, one_of, quoted
from dsconfig.model._prose import MEANS, OWNERS, PROSE, SOURCES
from dsconfig.model.keyinfo import KeyInfo, TypeInfo, keys, types_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Everything known of one key, as Markdown: what `dsconfig explain zero_optimization.stage` shows.


def describe(path: str) -> str | None:
    """The page of the key at a dotted path (`*` for free names), or None where there is no such key."""
    named: dict[str, list[KeyInfo]] = {}
    for steps, info in keys():
        found = ".".join(steps)
        if found == path or path in _aliased(steps, info):
            named.setdefault(found, []).append(info)
    if not named:
        return None
    found, infos = next(iter(named.items()))
    return "\n".join([f"`{found}`", "", *_variants(infos)]).rstrip()


def members(path: str) -> dict[str, str]:
    """The keys of the section at a dotted path, each with what it is in a sentence; empty for other keys."""
    above = tuple(path.split("."))
    found: dict[str, str] = {}
    for steps, info in keys():
        if steps[:-1] == above and steps[-1] not in found:
            said = prose_of(info).partition(". ")[0].rstrip(".")
            last = max(span.last for span in info.spans)
            found[steps[-1]] = said + (f" (up to {name(last)})" if last < NEVER else "")
    return found


def _aliased(path: tuple[str, ...], info: KeyInfo) -> list[str]:
    return [".".join((*path[:-1], alias)) for alias, _ in info.aliases]


def _variants(infos: list[KeyInfo]) -> Iterator[str]:
    """What is known, once for all optimizer or scheduler types that agree on it."""
    alike: dict[str, list[tuple[KeyInfo, TypeInfo | None]]] = {}
    for info in infos:
        kinds: list[TypeInfo | None] = [*_kinds(info.section)]
        for kind in kinds or [None]:
            alike.setdefault("\n".join(_page(info)), []).append((info, kind))
    alone = len(alike) == 1
    for text, members in alike.items():
        types = [kind.name for _, kind in members if kind]
        if not types and not alone:  # a base class, which no type uses
            continue
        yield from [] if alone else [f"With type {one_of(types)}:", ""]
        counted = [member for member in members if bool(member[1]) != alone] or members
        yield text
        yield f"- Releases: {_joined(_spans(info, kind) for info, kind in counted)}"
        yield f"- Read by: {_joined(f'`{source_of(info)}`' for info, _ in counted)}"
        yield ""


def _kinds(section: str) -> list[TypeInfo]:
    """The optimizer or scheduler types whose params the section class holds."""
    kinds = [*types_of("Optimizer").values(), *types_of("Scheduler").values()]
    return [kind for kind in kinds if kind.params == section]


def _spans(info: KeyInfo, kind: TypeInfo | None) -> str:
    """The releases that read the key, as far as they know the type."""
    said = ", ".join(span(*each.meet(kind.releases if kind else EVERY_RELEASE)) for each in info.spans)
    return f"{said} (`{kind.name}`)" if kind else said


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _page(info: KeyInfo) -> Iterator[str]:
    yield prose_of(info)
    yield ""
    for title, text in facts(info):
        if text:
            yield f"- {title}: {text}"


def facts(info: KeyInfo) -> Iterator[tuple[str, str]]:
    """What is known of a key beside its description: title and text, which may be empty."""
    yield "Takes", expected(info.type) + (f", in {info.unit}" if info.unit else "")
    for last, earlier in info.was:
        if earlier != info.type:
            yield f"Up to {name(last)}", expected(earlier)
    yield "Known values", ", ".join(f"`{value}`" for value in info.known)
    yield "Default", quoted(info.default) if info.default is not None else "required" if info.required else ""
    for last, value in info.defaults:
        yield f"Default up to {name(last)}", quoted(value)
    yield (
        "Refused",
        f"from {name(info.refused_from)} on, whatever its value" if info.refused_from < NEVER else "",
    )
    yield "Deprecated", f"since {name(info.deprecated)}" if info.deprecated < NEVER else ""
    yield "Use instead", f"`{info.replaced_by}`" if info.replaced_by else ""
    yield (
        "Also written",
        ", ".join(f"`{alias}` ({span(*known)})" for alias, known in info.aliases),
    )
    yield '"auto"', f"filled by {' and '.join(info.fills)}" if info.fills else ""
    yield "Note", "; ".join(_NOTES[flag] for flag in _NOTES if flag in info.flags)


_NOTES = {
    "auto_is_value": '"auto" is a value of its own',
    "fold_case": "upper and lower case count alike",
    "unread": "taken, and never looked at",
    "internal": "meant for DeepSpeed itself",
    "not_json": "cannot be given a meaningful value in JSON",
}


def span(first: int, last: int) -> str:
    """Releases in words: `0.9.0 and later`."""
    return f"{name(first)} and later" if last == NEVER else f"{name(first)} to {name(last)}"


def source_of(info: KeyInfo) -> str:
    """Where DeepSpeed reads the key."""
    whole, own = SOURCES[info.section]
    return own.get(info.name, whole)


# What each key does and what its words stand for, without the model behind it: what editors show at once.


def prose_of(info: KeyInfo) -> str:
    """What the key does."""
    owners = OWNERS.get(info.section, (info.section,))
    return next((PROSE[owner][info.name] for owner in owners if info.name in PROSE[owner]), "")


def meaning(info: KeyInfo, word: Json) -> str:
    """What a word of the key stands for; empty where nothing is said of it."""
    known = MEANS.get(info.section, {}).get(info.name, ())
    # True equals 1, and a stage is not a switch.
    return next((told for each, told in known if each == word and type(each) is type(word)), "")
