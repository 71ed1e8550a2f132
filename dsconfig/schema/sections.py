"""The sections of the config as definitions, as one release reads them and one consumer fills them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dsconfig.consumers import ELASTIC, HUGGING_FACE
from dsconfig.core.releases import NUMBERS
from dsconfig.model.keyinfo import KeyInfo, child_section, types_of
from dsconfig.model.release_view import KeyView, SectionView, view
from dsconfig.schema import conditions, discriminated, extensions, key_descriptions, snippets, type_schema
from dsconfig.schema.extensions import Auto
from dsconfig.schema.keys_of_other_releases import strangers
from dsconfig.schema.keywords import Schema
from dsconfig.schema.section_alternatives import shaped, shapes_of, title_of

_LAST_ELASTIC = NUMBERS["0.19.7"]


@dataclass(slots=True)
class Builder:
    """Collects the definitions that a config needs."""

    release: int
    consumer: str | None
    definitions: dict[str, Schema] = field(default_factory=dict)

    def refer(self, section: str, shapes: frozenset[str] = frozenset()) -> Schema:
        """A reference to the definition of a section that may also be one of `shapes`."""
        title = title_of(section, shapes)
        if title not in self.definitions:
            self.definitions[title] = {}  # sections may hold each other
            self.definitions[title] = {**shaped(shapes), **self.body(section)}
        return {"$ref": f"#/definitions/{title}"}

    def body(self, section: str) -> Schema:
        """The keywords that hold for a section as an object."""
        seen = self._view(section)
        is_typed = section in discriminated.TYPED
        properties = {
            word: self.property(seen, word, key)
            for word, key in seen.keys.items()
            if not is_typed or word != "params"
        }
        if is_typed:
            return discriminated.body(seen, self.release, properties, self.refer)
        found: Schema = {"properties": properties}
        closed = section == "Config" or seen.unknown == "rejected"
        if closed:
            found["additionalProperties"] = False
        told = dict(strangers(seen, self.release, closed=closed))
        for word, message in told.items():
            properties.setdefault(word, {"description": message, "doNotSuggest": True})
        # Editors show the message of the object that holds the `false`, on the key itself.
        refused = [{"properties": {word: False}, "errorMessage": message} for word, message in told.items()]
        demands = [*refused, *_aside(properties), *conditions.of(seen, self.release, self.consumer)]
        return {**found, "allOf": demands} if demands else found

    def _view(self, section: str) -> SectionView:
        """The section as the release sees it; `dsconfig elastic run` reads its own block at every release."""
        seen = view(section, self.release)
        if self.consumer != ELASTIC or section not in ("Config", "Elasticity"):
            return seen
        last = view(section, _LAST_ELASTIC)
        if section == "Elasticity":
            return last
        return seen._replace(keys={**seen.keys, "elasticity": last.keys["elasticity"]})

    def property(self, seen: SectionView, word: str, key: KeyView) -> Schema:
        """What stands for one key; `word` is its name or an alias."""
        auto = self._auto(seen, key.info)
        inner = child_section(key.type)
        found = self.refer(inner, shapes_of(seen, key, auto)) if inner else self._scalar(seen, key, auto)
        offered = snippets.of(seen, word, inner, self.release) if inner else []
        more = {"defaultSnippets": offered} if offered else {}
        return {**found, **key_descriptions.of(word, key, auto, self.release), **more}

    def _auto(self, seen: SectionView, info: KeyInfo) -> Auto:
        if self.consumer in info.fills or (self.consumer is None and info.fills):
            return "filled"
        # Accelerate's plugin raises for an "auto" that it does not fill, even where DeepSpeed would drop it.
        dropped = seen.drops_auto and "auto_is_value" not in info.flags and self.consumer not in HUGGING_FACE
        return "dropped" if dropped else None

    def _scalar(self, seen: SectionView, key: KeyView, auto: Auto) -> Schema:
        # By hand nobody looks at what stands for a section inside a list or a map.
        loose = type_schema.ANYTHING if seen.dialect == "hand" else frozenset[str]()
        found = type_schema.of(key.type, lambda section, shapes: self.refer(section, shapes or loose))
        known = [word for word in key.info.known if self._is_known(key.info, word)]
        if known:
            found = extensions.suggesting(found, known)
        elif "fold_case" in key.info.flags:
            found = extensions.folded(found)
        found = extensions.explained(extensions.with_auto(found, auto), key.type, auto)
        return extensions.described(found, key_descriptions.means(key.info, auto))

    def _is_known(self, info: KeyInfo, word: str) -> bool:
        types = {kind.name: kind for kind in types_of(info.section).values()} if info.name == "type" else {}
        return word not in types or self.release in types[word].releases


def _aside(properties: dict[str, Schema]) -> Iterator[Schema]:
    """The deprecation of sections, which yaml-language-server does not see beside a `$ref`."""
    for word, found in properties.items():
        if "$ref" in found and "deprecationMessage" in found:
            told = {key: found.pop(key) for key in ("deprecated", "deprecationMessage")}
            found["doNotSuggest"] = True
            yield {"properties": {word: told}}
