"""Description of a key: what it does and the facts about it, rendered as Markdown or as plain text.

The language server's hover and completion, `dsconfig explain`, the JSON Schema, the docstrings of the
TypedDicts and the site all render a `KeyDescription`. Nothing here imports pydantic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, NEVER, name
from dsconfig.core.wording import expected, one_of, quoted
from dsconfig.model._generated.descriptions import MEANINGS, OWNERS, PROSE, SOURCES
from dsconfig.model.key_table import KeyInfo, KeyView, TypeInfo, keys, types_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


class Fact(NamedTuple):
    """One fact about a key."""

    title: str
    text: str
    """Markdown."""
    is_history: bool = False
    """Whether the fact holds only for earlier releases."""


class KeyDescription(NamedTuple):
    """The prose of a key, and the facts about it."""

    prose: str
    facts: tuple[Fact, ...]

    def markdown(self) -> str:
        """The prose, then a list of the facts."""
        bullets = "\n".join(f"- {fact.title}: {fact.text}" for fact in self.facts)
        return "\n\n".join(filter(None, (self.prose, bullets)))

    def plain(self) -> str:
        """One paragraph without Markdown."""
        return self.paragraph().replace("`", "")

    def paragraph(self) -> str:
        """One paragraph of Markdown."""
        return " ".join(filter(None, (self.prose, *(f"{fact.title}: {fact.text}." for fact in self.facts))))

    def only(self, *titles: str) -> KeyDescription:
        """The description with the facts of these titles only."""
        return self._replace(facts=tuple(fact for fact in self.facts if fact.title in titles))

    def without_history(self) -> KeyDescription:
        """The description without facts that hold only for earlier releases."""
        return self._replace(facts=tuple(fact for fact in self.facts if not fact.is_history))


def describe(
    info: KeyInfo, *, view: KeyView | None = None, release: str | None = None, alias: str | None = None
) -> KeyDescription:
    """The description of a key over all releases.

    Args:
        info: the key.
        view: the key as one release reads it; its type and default then replace those of the newest release.
        release: the name of that release, to be shown with the default.
        alias: the name that the config uses, if it is not the key's own.
    """
    prose = prose_of(info)
    if alias not in (None, info.name):
        prose = f"Another name of `{info.name}`. {prose}".rstrip()
    return KeyDescription(prose, tuple(fact for fact in _facts(info, view, release) if fact.text))


def _facts(info: KeyInfo, view: KeyView | None, release: str | None) -> Iterator[Fact]:
    type_, default = (info.type, info.default) if view is None else (view.type, view.default)
    yield Fact("Accepts", expected(type_))
    for last, earlier in info.was if view is None else ():
        if earlier != type_:
            yield Fact(f"Accepted up to {name(last)}", expected(earlier), is_history=True)
    yield Fact("Unit", info.unit or "")
    yield Fact("Known values", ", ".join(f"`{value}`" for value in info.known))
    title = f"Default in {release}" if release else "Default"
    yield Fact(title, "required" if info.required else quoted(default) if default is not None else "")
    for last, earlier in info.defaults:
        if earlier != default:
            yield Fact(f"Default up to {name(last)}", quoted(earlier), is_history=True)
    yield Fact(
        "Rejected",
        f"from {name(info.refused_from)} on, whatever the value" if info.refused_from < NEVER else "",
    )
    yield Fact("Deprecated", f"since {name(info.deprecated)}" if info.deprecated < NEVER else "")
    yield Fact("Replacement", f"`{info.replaced_by}`" if info.replaced_by else "")
    yield Fact("Aliases", ", ".join(f"`{alias}` ({span(*releases)})" for alias, releases in info.aliases))
    yield Fact(AUTO, f"resolved by {' and '.join(map(str.capitalize, info.fills))}" if info.fills else "")
    yield Fact("Note", "; ".join(_NOTES[flag] for flag in _NOTES if flag in info.flags))
    yield Fact("Releases", ", ".join(span(*releases) for releases in info.spans))


AUTO = '"auto"'
"""Title of the fact that names the consumers which replace `"auto"`."""
_NOTES = {
    "auto_is_value": '`"auto"` is a value with a meaning of its own',
    "fold_case": "case does not matter",
    "unread": "accepted but has no effect",
    "internal": "for internal use by DeepSpeed",
    "not_json": "cannot be given a meaningful value in JSON",
}


def prose_of(info: KeyInfo) -> str:
    """The sentences that say what the key does."""
    owners = OWNERS.get(info.section, (info.section,))
    return next((PROSE[owner][info.name] for owner in owners if info.name in PROSE[owner]), "")


def summary(infos: Iterable[KeyInfo]) -> str:
    """The first sentence about a key, without its period; `infos` are its variants by type of the section."""
    infos = list(infos)
    last = max(releases.last for info in infos for releases in info.spans)
    end = f" (up to {name(last)})" if last < NEVER else ""
    return prose_of(infos[0]).partition(". ")[0].rstrip(".") + end


def span(first: int, last: int) -> str:
    """Releases in words: `0.9.0 and later`."""
    return f"{name(first)} and later" if last == NEVER else f"{name(first)} to {name(last)}"


def meanings(info: KeyInfo) -> tuple[tuple[Json, str], ...]:
    """The values of a closed set, each with its meaning."""
    return MEANINGS.get(info.section, {}).get(info.name, ())


def meaning(info: KeyInfo, value: Json) -> str:
    """The meaning of one value; empty if none is documented."""
    # True equals 1, but a switch is not ZeRO stage 1.
    return next((text for each, text in meanings(info) if each == value and type(each) is type(value)), "")


def deprecation(info: KeyInfo, release: int) -> str | None:
    """Why a release should not be given the key, and its replacement; None if there is no reason."""
    if "unread" in info.flags:
        return "has no effect: DeepSpeed accepts it but never reads it"
    if info.deprecated > release:
        return None
    return f"deprecated since DeepSpeed {name(info.deprecated)}{use_instead(info)}"


def use_instead(info: KeyInfo) -> str:
    """The end of a message: the replacement of the key, or nothing."""
    if not info.replaced_by:
        return ""
    is_phrase = " " in info.replaced_by or "(" in info.replaced_by
    return f": use {info.replaced_by if is_phrase else f'`{info.replaced_by}`'} instead"


# The page of a path. Where the params of several optimizers share the path, it has a part for each variant.


def page(path: str) -> str | None:
    """Everything known of the key at a dotted path (`*` for free names), as Markdown; None for an unknown key."""
    matches: dict[str, list[KeyInfo]] = {}
    for steps, info in keys():
        dotted = ".".join(steps)
        if path in (dotted, *(".".join((*steps[:-1], alias)) for alias, _ in info.aliases)):
            matches.setdefault(dotted, []).append(info)
    if not matches:
        return None
    dotted, infos = next(iter(matches.items()))
    return "\n".join([f"`{dotted}`", "", *_variants(infos)]).rstrip()


def members(path: str) -> dict[str, str]:
    """The keys of the section at a dotted path, each with its summary; empty if the key is no section."""
    section = tuple(path.split("."))
    infos: dict[str, KeyInfo] = {}
    for steps, info in keys():
        if steps[:-1] == section:
            infos.setdefault(steps[-1], info)
    return {key: summary([info]) for key, info in infos.items()}


def _variants(infos: list[KeyInfo]) -> Iterator[str]:
    """One description for all optimizer or scheduler types that agree on it."""
    alike: dict[str, list[tuple[KeyInfo, TypeInfo | None]]] = {}
    for info in infos:
        # Releases and source are added below: they may differ where everything else agrees.
        description = describe(info)
        facts = tuple(fact for fact in description.facts if fact.title != "Releases")
        kinds: list[TypeInfo | None] = [*_kinds(info.section)]
        for kind in kinds or [None]:
            alike.setdefault(description._replace(facts=facts).markdown(), []).append((info, kind))
    is_single = len(alike) == 1
    for text, variants in alike.items():
        types = [kind.name for _, kind in variants if kind]
        if not types and not is_single:  # a base class, which no type uses
            continue
        yield from [] if is_single else [f"With type {one_of(types)}:", ""]
        counted = [variant for variant in variants if bool(variant[1]) != is_single] or variants
        yield text
        yield f"- Releases: {_joined(_spans(info, kind) for info, kind in counted)}"
        yield f"- Source: {_joined(f'`{source_of(info)}`' for info, _ in counted)}"
        yield ""


def _kinds(section: str) -> list[TypeInfo]:
    """The optimizer or scheduler types whose params the section class holds."""
    kinds = [*types_of("Optimizer").values(), *types_of("Scheduler").values()]
    return [kind for kind in kinds if kind.params == section]


def _spans(info: KeyInfo, kind: TypeInfo | None) -> str:
    """The releases that read the key and know the type."""
    releases = kind.releases if kind else EVERY_RELEASE
    text = ", ".join(span(*each.meet(releases)) for each in info.spans)
    return f"{text} (`{kind.name}`)" if kind else text


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def source_of(info: KeyInfo) -> str:
    """The DeepSpeed file and symbol that read the key."""
    of_section, of_keys = SOURCES[info.section]
    return of_keys.get(info.name, of_section)
