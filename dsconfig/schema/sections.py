"""The sections of the config as definitions, as one release reads them and one consumer fills them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from dsconfig.consumers import HUGGING_FACE
from dsconfig.json_types import Json, JsonObject
from dsconfig.model import walk
from dsconfig.model.config import Config
from dsconfig.model.describe import prose
from dsconfig.model.keyinfo import KeyInfo, KeyView, SectionView, child_section, section_keys, types_of, view
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerType
from dsconfig.model.scheduler import SCHEDULERS, SchedulerType
from dsconfig.releases import name
from dsconfig.schema import conditions, snippets, values
from dsconfig.schema.values import Auto, Schema

_EXACT = 2**53
"""Editors are written in JavaScript, which rounds integers beyond this one."""
_REMARKS = ("comment", "comments", "description", "note", "notes")
REMARK_PATTERN = f"^(_|//|#)|{values.any_case(_REMARKS)}"
"""Names of remarks, as `check` knows them."""


@dataclass(slots=True)
class Builder:
    """Collects the definitions that a config needs."""

    release: int
    consumer: str | None
    definitions: dict[str, Schema] = field(default_factory=dict)

    def refer(self, section: str, shapes: frozenset[str] = frozenset()) -> Schema:
        """A reference to the definition of a section that may also be one of `shapes`."""
        title = section + "".join(f"Or{_TITLES[shape]}" for shape in sorted(shapes))
        if shapes == values.ANYTHING:
            title = f"{section}OrAnything"
        if title not in self.definitions:
            self.definitions[title] = {}  # sections may hold each other
            self.definitions[title] = {**_shaped(shapes), **self.body(section)}
        return {"$ref": f"#/definitions/{title}"}

    def body(self, section: str) -> Schema:
        """The keywords that hold for a section as an object."""
        seen = view(section, self.release)
        typed = section in ("Optimizer", "Scheduler")
        properties = {
            word: self.property(seen, word, key)
            for word, key in seen.keys.items()
            if not typed or word != "params"
        }
        if typed:
            return self._typed(seen, properties)
        found: Schema = {"properties": properties}
        closed = section == "Config" or seen.unknown == "rejected"
        if closed:
            found["additionalProperties"] = False
        strangers = dict(_strangers(seen, self.release, closed=closed))
        for word, message in strangers.items():
            properties.setdefault(word, {"description": message, "doNotSuggest": True})
        # Editors show the message of the object that holds the `false`, on the key itself.
        refused = [
            {"properties": {word: False}, "errorMessage": message} for word, message in strangers.items()
        ]
        demands = [*refused, *_aside(properties), *conditions.of(seen, self.release, self.consumer)]
        return {**found, "allOf": demands} if demands else found

    def property(self, seen: SectionView, word: str, key: KeyView) -> Schema:
        """What stands for one key; `word` is its name or an alias."""
        auto = self._auto(seen, key.info)
        inner = child_section(key.type)
        found = self.refer(inner, _shapes(seen, key, auto)) if inner else self._scalar(seen, key, auto)
        offered = snippets.of(seen, word, inner, self.release) if inner else []
        more = {"defaultSnippets": offered} if offered else {}
        return {**found, **self._annotations(word, key, auto), **more}

    def _auto(self, seen: SectionView, info: KeyInfo) -> Auto:
        if self.consumer in info.fills or (self.consumer is None and info.fills):
            return "filled"
        # Accelerate's plugin raises for an "auto" that it does not fill, even where DeepSpeed would drop it.
        dropped = seen.drops_auto and "auto_is_value" not in info.flags and self.consumer not in HUGGING_FACE
        return "dropped" if dropped else None

    def _scalar(self, seen: SectionView, key: KeyView, auto: Auto) -> Schema:
        # By hand nobody looks at what stands for a section inside a list or a map.
        loose = values.ANYTHING if seen.dialect == "hand" else frozenset[str]()
        found = values.of(key.type, lambda section, shapes: self.refer(section, shapes or loose))
        known = [word for word in key.info.known if self._is_known(key.info, word)]
        if known:
            found = values.suggesting(found, known)
        elif "fold_case" in key.info.flags:
            found = values.folded(found)
        found = values.explained(values.with_auto(found, auto), key.type, auto)
        return values.described(found, self._means(key.info, auto))

    def _means(self, info: KeyInfo, auto: Auto) -> dict[Json, str]:
        """What the words of the key stand for."""
        found = dict(_fields()[info.section][info.name].key.means)
        if info.name == "type":
            found |= {kind.name: _says(kind) for kind in OPTIMIZERS}
            found |= {kind.name: _says(kind) for kind in SCHEDULERS}
        return found | ({"auto": f"filled by {_fillers(info)}"} if auto == "filled" else {})

    def _is_known(self, info: KeyInfo, word: str) -> bool:
        types = {kind.name: kind for kind in types_of(info.section).values()} if info.name == "type" else {}
        return word not in types or self.release in types[word].releases

    def _annotations(self, word: str, key: KeyView, auto: Auto) -> Schema:
        info = key.info
        found: Schema = {"description": self._description(word, key, auto)}
        default = key.default
        if default is not None and not (isinstance(default, int) and abs(default) > _EXACT):
            found["default"] = default
        if word != info.name or info.flags & {"internal", "not_json"}:
            found["doNotSuggest"] = True
        message = self._deprecation(info)
        if message:
            found |= {"deprecated": True, "deprecationMessage": message}
        return found

    def _description(self, word: str, key: KeyView, auto: Auto) -> str:
        info = key.info
        said = (
            [self._said(info)] if word == info.name else [f"Another name of `{info.name}`.", self._said(info)]
        )
        if info.unit:
            said.append(f"Unit: {info.unit}.")
        if isinstance(key.default, int) and abs(key.default) > _EXACT:
            said.append(f"Default: {key.default}.")
        if auto == "filled":
            said.append(f'"auto" is filled by {_fillers(info)}.')
        return " ".join(part for part in said if part)

    def _said(self, info: KeyInfo) -> str:
        return prose(_fields()[info.section][info.name].owner).get(info.name, "")

    def _deprecation(self, info: KeyInfo) -> str | None:
        if "unread" in info.flags:
            return "has no effect: DeepSpeed takes it and never looks at it"
        if info.deprecated > self.release:
            return None
        return f"deprecated since DeepSpeed {name(info.deprecated)}{_instead(info)}"

    def _typed(self, seen: SectionView, properties: dict[str, Schema]) -> Schema:
        """The optimizer or the scheduler: which params there are depends on the type."""
        is_scheduler = seen.name == "Scheduler"
        shapes: frozenset[str] = frozenset() if is_scheduler else frozenset({"null"})
        told: Schema = {"description": self._description("params", seen.keys["params"], None)}
        properties["params"] = told
        kinds = [
            kind
            for kind in types_of(seen.name).values()
            if kind.params is not None and self.release in kind.releases
        ]
        cases: list[Schema] = [{"if": {"minProperties": 1}, "then": values.needs("type")}]
        if is_scheduler:
            cases.append({"if": _when_type({"type": "string"}), "then": values.needs("params")})
        for kind in kinds:
            named = _named(seen.name, [kind.name])
            cases.append(_when(named, {**self.refer(str(kind.params), shapes), **told}))
            needed = _NEEDED.get(kind.name)
            if needed:
                cases.append(_when(named, values.needs(*needed)))
        known = _named(seen.name, [kind.name for kind in kinds])
        text = _when_type({"type": "string"})
        for case, taken in (
            ({**text, "not": _when_type(known)}, shapes),
            ({"not": text}, values.ANY_SHAPE),  # without a type nobody looks at the params
        ):
            base = {**self.refer(f"{seen.name}Params", taken), **told}
            cases.append({"if": case, "then": {"properties": {"params": base}}})
        return {"properties": properties, "allOf": cases}


_NEEDED = {kind.name: kind.required for kind in SCHEDULERS if kind.required}


def _aside(properties: dict[str, Schema]) -> Iterator[Schema]:
    """The deprecation of sections, which yaml-language-server does not see beside a `$ref`."""
    for word, found in properties.items():
        if "$ref" in found and "deprecationMessage" in found:
            told = {key: found.pop(key) for key in ("deprecated", "deprecationMessage")}
            found["doNotSuggest"] = True
            yield {"properties": {word: told}}


def _when_type(schema: Schema) -> Schema:
    return {"properties": {"type": schema}, "required": ["type"]}


def _when(schema: Schema, params: Schema) -> Schema:
    return {"if": _when_type(schema), "then": {"properties": {"params": params}}}


def _named(section: str, names: list[str]) -> Schema:
    """The types of these names; an optimizer's are compared in lower case."""
    if section == "Optimizer":
        return {"type": "string", "pattern": values.any_case(names)}
    return {"const": names[0]} if len(names) == 1 else {"enum": names}


@cache
def _fields() -> dict[str, dict[str, walk.Field]]:
    """Every field of the model, by section class and key."""
    return {
        section.__name__: {field.name: field for field in walk.fields(section)}
        for section in walk.sections(Config)
    }


def _says(kind: OptimizerType | SchedulerType) -> str:
    """What an optimizer or a scheduler does, in the words of the class of its params."""
    return " ".join((kind.params.__doc__ or "").split()) if kind.params else kind.notes


def _fillers(info: KeyInfo) -> str:
    return " and ".join(map(str.capitalize, info.fills))


def _instead(info: KeyInfo) -> str:
    if not info.replaced_by:
        return ""
    word = info.replaced_by
    return f": use {word if ' ' in word or '(' in word else f'`{word}`'} instead"


def _strangers(seen: SectionView, release: int, *, closed: bool) -> Iterator[tuple[str, str]]:
    """Keys of other releases that this one refuses, or would be silent about, and what to say of each."""
    for word, info in section_keys(seen.name).items():
        if word in seen.keys or not (closed or release >= info.refused_from):
            continue
        before = [last for _, last in info.spans if last < release]
        after = [first for first, _ in info.spans if first > release]
        if before:
            yield word, f"`{word}` was removed from DeepSpeed after {name(max(before))}{_instead(info)}"
        elif after:
            yield word, f"`{word}` is known from DeepSpeed {name(min(after))} on, not in {name(release)}"


def _shapes(seen: SectionView, key: KeyView, auto: Auto) -> frozenset[str]:
    """What else than an object the release takes there without a word."""
    found = set(key.takes) - {"auto"}
    if seen.dialect != "hand" and key.type[0] == "union" and ("null",) in key.type[1:]:
        found.add("null")
    if auto == "dropped":
        found.add("auto")
    return frozenset(found)


_TITLES = {
    "null": "Null",
    "true": "True",
    "false": "False",
    "[]": "Empty",
    "list": "List",
    "string": "String",
    "number": "Number",
    "auto": "Auto",
    "falsy": "Falsy",
    "mapping": "Pairs",
}
_FALSY: Schema = {"maxLength": 0, "maxItems": 0, "minimum": 0, "maximum": 0}
_TYPES = {
    "null": ("null",),
    "true": ("boolean",),
    "false": ("boolean",),
    "[]": ("array",),
    "list": ("array",),
    "string": ("string",),
    "number": ("number",),
    "auto": ("string",),
    "falsy": ("null", "boolean", "number", "string", "array"),
    "mapping": ("array", "string"),
}


def _shaped(shapes: frozenset[str]) -> Schema:
    """Types, and the keywords that narrow down what is no object, each of which speaks of one type only."""
    types = dict.fromkeys(
        ["object", *(name for shape in _TYPES if shape in shapes for name in _TYPES[shape])]
    )
    if shapes >= values.ANYTHING:
        return {}
    if shapes >= values.ANY_SHAPE:
        return {"not": {"const": "auto"}}
    found: Schema = {"type": list(types) if len(types) > 1 else "object"}
    if "falsy" in shapes:
        found |= {**_FALSY, "not": {"const": True}}
    if "[]" in shapes and "list" not in shapes:
        found["maxItems"] = 0
    if "auto" in shapes and "string" not in shapes:
        found |= {"pattern": values.AUTO_PATTERN, "patternErrorMessage": "expected an object"}
    if "string" in shapes:  # that word is meant for somebody who is not here
        found["not"] = {"const": "auto"}
    if "mapping" in shapes:
        found |= {"maxLength": 0, "items": {"type": "array", "minItems": 2, "maxItems": 2}}
    return found


def root(release: int, consumer: str | None) -> Schema:
    """The keywords of the whole config, definitions last."""
    builder = Builder(release, consumer)
    body = builder.body("Config")
    properties: JsonObject = body.pop("properties")
    meta: JsonObject = {
        "$schema": {"type": "string", "description": "The JSON Schema that editors check this file with."},
        "$dsconfig": {"type": "object", "description": "Settings of dsconfig for this file."},
    }
    return {
        "type": "object",
        "properties": {**meta, **properties},
        "patternProperties": {REMARK_PATTERN: {}},
        "defaultSnippets": list(snippets.whole(release, consumer)),
        **body,
        "definitions": dict(sorted(builder.definitions.items())),
    }
