"""Describe a key in Markdown or plain text: what it does, and facts such as type, default and releases.

The language server's hover and completion, `dsconfig explain`, the JSON Schema, the docstrings of the
TypedDicts and the site all render a `KeyDescription`. Nothing here imports pydantic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, NEVER, release_name
from dsconfig.core.wording import describe_type, join_alternatives, quote_value
from dsconfig.model._generated.descriptions import MEANINGS, OWNERS, PROSE, SOURCES
from dsconfig.model.key_table import (
    INFERENCE_ROOT,
    ROOT,
    KeyInfo,
    KeyView,
    TypeInfo,
    iter_keys,
    types_of_section,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


class KeyFact(NamedTuple):
    """One fact about a key, with a title and a text."""

    title: str
    text: str
    """Text of the fact in Markdown."""
    is_history: bool = False
    """Whether the fact holds only for earlier releases."""


class KeyDescription(NamedTuple):
    """The description of a key: sentences on what it does, and titled facts such as its default and its releases."""

    prose: str
    facts: tuple[KeyFact, ...]

    def markdown(self) -> str:
        """Return the sentences, followed by a list of the facts, as Markdown."""
        bullets = "\n".join(f"- {fact.title}: {fact.text}" for fact in self.facts)
        return "\n\n".join(filter(None, (self.prose, bullets)))

    def plain(self) -> str:
        """Return the description as a paragraph of plain text."""
        return self.paragraph().replace("`", "")

    def paragraph(self) -> str:
        """Return the description as a paragraph of Markdown."""
        return " ".join(filter(None, (self.prose, *(f"{fact.title}: {fact.text}." for fact in self.facts))))

    def with_facts_titled(self, *titles: str) -> KeyDescription:
        """Return the description with only those facts that have one of these titles."""
        return self._replace(facts=tuple(fact for fact in self.facts if fact.title in titles))

    def without_history(self) -> KeyDescription:
        """Return the description without facts that concern only earlier releases."""
        return self._replace(facts=tuple(fact for fact in self.facts if not fact.is_history))


def describe_key(
    info: KeyInfo, *, view: KeyView | None = None, release: str | None = None, alias: str | None = None
) -> KeyDescription:
    """Return the description of a key over all releases.

    Args:
        info: the key.
        view: the key as one release reads it, to show the type and default of that release instead of the newest.
        release: the name of that release, to be shown with the default.
        alias: the name that the config uses, if it is not the key's own.
    """
    prose = key_prose(info)
    if alias not in (None, info.name):
        prose = f"Another name of `{info.name}`. {prose}".rstrip()
    return KeyDescription(prose, tuple(fact for fact in _facts_about_key(info, view, release) if fact.text))


def _facts_about_key(info: KeyInfo, view: KeyView | None, release: str | None) -> Iterator[KeyFact]:
    type_, default = (info.type, info.default) if view is None else (view.type, view.default)
    yield KeyFact("Accepts", describe_type(type_))
    for last, earlier in info.was if view is None else ():
        if earlier != type_:
            yield KeyFact(f"Accepted up to {release_name(last)}", describe_type(earlier), is_history=True)
    yield KeyFact("Unit", info.unit or "")
    yield KeyFact("Known values", ", ".join(f"`{value}`" for value in info.known))
    title = f"Default in {release}" if release else "Default"
    yield KeyFact(title, "required" if info.required else quote_value(default) if default is not None else "")
    for last, earlier in info.defaults:
        if earlier != default:
            yield KeyFact(f"Default up to {release_name(last)}", quote_value(earlier), is_history=True)
    yield KeyFact(
        "Rejected",
        f"from {release_name(info.refused_from)} on, whatever the value" if info.refused_from < NEVER else "",
    )
    yield KeyFact("Deprecated", f"since {release_name(info.deprecated)}" if info.deprecated < NEVER else "")
    yield KeyFact("Replacement", f"`{info.replaced_by}`" if info.replaced_by else "")
    yield KeyFact(
        "Aliases",
        ", ".join(f"`{alias}` ({format_release_span(*releases)})" for alias, releases in info.aliases),
    )
    yield KeyFact(AUTO, f"resolved by {' and '.join(map(str.capitalize, info.fills))}" if info.fills else "")
    yield KeyFact("Note", "; ".join(_NOTES[flag] for flag in _NOTES if flag in info.flags))
    yield KeyFact("Releases", ", ".join(format_release_span(*releases) for releases in info.spans))


AUTO = '"auto"'
"""Title of the fact that names the consumers which replace `"auto"`."""
_NOTES = {
    "auto_is_value": '`"auto"` is a value with a meaning of its own',
    "fold_case": "case does not matter",
    "unread": "accepted but has no effect",
    "internal": "for internal use by DeepSpeed",
    "not_json": "cannot be given a meaningful value in JSON",
}


def key_prose(info: KeyInfo) -> str:
    """Return the sentences that describe what a key does."""
    owners = OWNERS.get(info.section, (info.section,))
    return next((PROSE[owner][info.name] for owner in owners if info.name in PROSE[owner]), "")


def key_summary(infos: Iterable[KeyInfo]) -> str:
    """Return the first sentence about a key without its period; `infos` are the key's variants by section type."""
    infos = list(infos)
    last = max(releases.last for info in infos for releases in info.spans)
    end = f" (up to {release_name(last)})" if last < NEVER else ""
    return key_prose(infos[0]).partition(". ")[0].rstrip(".") + end


def format_release_span(first: int, last: int) -> str:
    """Format a span of releases, such as `0.9.0 and later`."""
    return (
        f"{release_name(first)} and later"
        if last == NEVER
        else f"{release_name(first)} to {release_name(last)}"
    )


def value_meanings(info: KeyInfo) -> tuple[tuple[Json, str], ...]:
    """Return the values of a closed set with their meanings."""
    return MEANINGS.get(info.section, {}).get(info.name, ())


def meaning_of_value(info: KeyInfo, value: Json) -> str:
    """Return the meaning of a value, or an empty string if it is not documented."""
    # True equals 1, but a switch is not ZeRO stage 1.
    return next(
        (text for each, text in value_meanings(info) if each == value and type(each) is type(value)), ""
    )


def deprecation_reason(info: KeyInfo, release: int) -> str | None:
    """Return why a key is deprecated in a release and its replacement, or None if it is not."""
    if "unread" in info.flags:
        return "has no effect: DeepSpeed accepts it but never reads it"
    if info.deprecated > release:
        return None
    return f"deprecated since DeepSpeed {release_name(info.deprecated)}{replacement_hint(info)}"


def replacement_hint(info: KeyInfo) -> str:
    """Return the end of a message that names the key's replacement; empty if there is none."""
    if not info.replaced_by:
        return ""
    is_phrase = " " in info.replaced_by or "(" in info.replaced_by
    return f": use {info.replaced_by if is_phrase else f'`{info.replaced_by}`'} instead"


# The page of a path. Where the params of several optimizers share the path, it has a part for each variant.


def key_page(path: str) -> str | None:
    """Return the Markdown page of the key at a dotted path (`*` is any name), or None for an unknown key.

    The page of a key that exists only in inference configs mentions them.
    """
    page = key_page_below_root(path, ROOT)
    if page is not None:
        return page
    page = key_page_below_root(path, INFERENCE_ROOT)
    return page and f"{page}\n- Config: inference, which `deepspeed.init_inference` reads"


def key_page_below_root(path: str, root: str) -> str | None:
    """Return the Markdown page of a key in configs with the section class `root`, or None for an unknown key."""
    matches: dict[str, list[KeyInfo]] = {}
    for steps, info in iter_keys(root=root):
        dotted = ".".join(steps)
        if path in (dotted, *(".".join((*steps[:-1], alias)) for alias, _ in info.aliases)):
            matches.setdefault(dotted, []).append(info)
    if not matches:
        return None
    dotted, infos = next(iter(matches.items()))
    return "\n".join([f"`{dotted}`", "", *_descriptions_by_type(infos)]).rstrip()


def section_members(path: str, root: str = ROOT) -> dict[str, str]:
    """Return the keys of the section at a dotted path with their summaries; empty if the key is not a section."""
    section = tuple(path.split("."))
    infos: dict[str, KeyInfo] = {}
    for steps, info in iter_keys(root=root):
        if steps[:-1] == section:
            infos.setdefault(steps[-1], info)
    return {key: key_summary([info]) for key, info in infos.items()}


def _descriptions_by_type(infos: list[KeyInfo]) -> Iterator[str]:
    """Yield each distinct description with the optimizer or scheduler types that it is about."""
    alike: dict[str, list[tuple[KeyInfo, TypeInfo | None]]] = {}
    for info in infos:
        # Releases and source are added below: they may differ where everything else agrees.
        description = describe_key(info)
        facts = tuple(fact for fact in description.facts if fact.title != "Releases")
        kinds: list[TypeInfo | None] = [*_types_with_params_class(info.section)]
        for kind in kinds or [None]:
            alike.setdefault(description._replace(facts=facts).markdown(), []).append((info, kind))
    is_single = len(alike) == 1
    for text, variants in alike.items():
        types = [kind.name for _, kind in variants if kind]
        if not types and not is_single:  # a base class, which no type uses
            continue
        yield from [] if is_single else [f"With type {join_alternatives(types)}:", ""]
        counted = [variant for variant in variants if bool(variant[1]) != is_single] or variants
        yield text
        yield f"- Releases: {_join_texts(_format_release_spans(info, kind) for info, kind in counted)}"
        yield f"- Source: {_join_texts(f'`{deepspeed_source_of_key(info)}`' for info, _ in counted)}"
        yield ""


def _types_with_params_class(section: str) -> list[TypeInfo]:
    """Return the optimizer or scheduler types whose params this section class describes."""
    kinds = [*types_of_section("Optimizer").values(), *types_of_section("Scheduler").values()]
    return [kind for kind in kinds if kind.params == section]


def _format_release_spans(info: KeyInfo, kind: TypeInfo | None) -> str:
    """Format the releases that both read the key and know the type."""
    releases = kind.releases if kind else EVERY_RELEASE
    text = ", ".join(format_release_span(*each.intersect(releases)) for each in info.spans)
    return f"{text} (`{kind.name}`)" if kind else text


def _join_texts(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def deepspeed_source_of_key(info: KeyInfo) -> str:
    """Return the DeepSpeed file and symbol that read the key."""
    of_section, of_keys = SOURCES[info.section]
    return of_keys.get(info.name, of_section)
