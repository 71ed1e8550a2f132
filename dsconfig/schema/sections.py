"""JSON Schema of the whole config: each section as a definition, its keys, conditions and alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from dsconfig.consumers import ELASTIC, HUGGING_FACE
from dsconfig.core.releases import NUMBERS, Interval, name
from dsconfig.evaluation.rule import Condition, Counts, Is, Less, Needed, NotEmpty, Test, Written
from dsconfig.model.key_description import AUTO, deprecation, describe, meanings, use_instead
from dsconfig.model.keyinfo import KeyInfo, KeyView, SectionView, child_section, section_keys, types_of, view
from dsconfig.model.scheduler import SCHEDULERS
from dsconfig.rules import RULES
from dsconfig.schema import keywords, snippets
from dsconfig.schema.keywords import ANY_SHAPE, ANYTHING, AUTO_PATTERN, Auto, Refer, Schema, any_case, needs

# The whole config, with the definitions of its sections.

_REMARKS = ("comment", "comments", "description", "note", "notes")
REMARK_PATTERN = f"^(_|//|#)|{any_case(_REMARKS)}"
"""Names of remarks, as `check` knows them."""


def root(release: int, consumer: str | None) -> Schema:
    """The keywords of the whole config, definitions last."""
    builder = Builder(release, consumer)
    body = builder.body("Config")
    properties: Schema = body.pop("properties")
    meta: Schema = {
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


# The sections of the config as definitions, as one release reads them and one consumer fills them.

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
        is_typed = section in TYPED
        properties = {
            word: self.property(seen, word, key)
            for word, key in seen.keys.items()
            if not is_typed or word != "params"
        }
        if is_typed:
            return body(seen, self.release, properties, self.refer)
        found: Schema = {"properties": properties}
        closed = section == "Config" or seen.unknown == "rejected"
        if closed:
            found["additionalProperties"] = False
        told = dict(strangers(seen, self.release, closed=closed))
        for word, message in told.items():
            properties.setdefault(word, {"description": message, "doNotSuggest": True})
        # Editors show the message of the object that holds the `false`, on the key itself.
        refused = [{"properties": {word: False}, "errorMessage": message} for word, message in told.items()]
        demands = [*refused, *_aside(properties), *section_conditions(seen, self.release, self.consumer)]
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
        return {**found, **editor_keywords(word, key, auto, self.release), **more}

    def _auto(self, seen: SectionView, info: KeyInfo) -> Auto:
        if self.consumer in info.fills or (self.consumer is None and info.fills):
            return "filled"
        # Accelerate's plugin raises for an "auto" that it does not fill, even where DeepSpeed would drop it.
        dropped = seen.drops_auto and "auto_is_value" not in info.flags and self.consumer not in HUGGING_FACE
        return "dropped" if dropped else None

    def _scalar(self, seen: SectionView, key: KeyView, auto: Auto) -> Schema:
        # By hand nobody looks at what stands for a section inside a list or a map.
        loose = keywords.ANYTHING if seen.dialect == "hand" else frozenset[str]()
        found = keywords.of(key.type, lambda section, shapes: self.refer(section, shapes or loose))
        known = [word for word in key.info.known if self._is_known(key.info, word)]
        if known:
            found = keywords.suggesting(found, known)
        elif "fold_case" in key.info.flags:
            found = keywords.folded(found)
        found = keywords.explained(keywords.with_auto(found, auto), key.type, auto)
        return keywords.described(found, _value_meanings(key.info, auto))

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


# Sections that may be something else than an object.


def shapes_of(seen: SectionView, key: KeyView, auto: Auto) -> frozenset[str]:
    """What else than an object the release takes there without a word."""
    found = set(key.takes) - {"auto"}
    if seen.dialect != "hand" and key.type[0] == "union" and ("null",) in key.type[1:]:
        found.add("null")
    if auto == "dropped":
        found.add("auto")
    return frozenset(found)


def title_of(section: str, shapes: frozenset[str]) -> str:
    """The name of the definition of a section that may also be one of the shapes."""
    if shapes == ANYTHING:
        return f"{section}OrAnything"
    return section + "".join(f"Or{_TITLES[shape]}" for shape in sorted(shapes))


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


def shaped(shapes: frozenset[str]) -> Schema:
    """Types, and keywords for what is not an object, each of which concerns one type only."""
    types = dict.fromkeys(
        ["object", *(name for shape in _TYPES if shape in shapes for name in _TYPES[shape])]
    )
    if shapes >= ANYTHING:
        return {}
    if shapes >= ANY_SHAPE:
        return {"not": {"const": "auto"}}
    found: Schema = {"type": list(types) if len(types) > 1 else "object"}
    if "falsy" in shapes:
        found |= {**_FALSY, "not": {"const": True}}
    if "[]" in shapes and "list" not in shapes:
        found["maxItems"] = 0
    if "auto" in shapes and "string" not in shapes:
        found |= {"pattern": AUTO_PATTERN, "patternErrorMessage": "expected an object"}
    if "string" in shapes:  # that word is for a consumer, who does not fill it here
        found["not"] = {"const": "auto"}
    if "mapping" in shapes:
        found |= {"maxLength": 0, "items": {"type": "array", "minItems": 2, "maxItems": 2}}
    return found


# The optimizer and the scheduler: which params there are depends on the type.

TYPED = ("Optimizer", "Scheduler")


def body(seen: SectionView, release: int, properties: dict[str, Schema], refer: Refer) -> Schema:
    """The keywords of the section; `properties` are its other keys."""
    is_scheduler = seen.name == "Scheduler"
    shapes: frozenset[str] = frozenset() if is_scheduler else frozenset({"null"})
    told: Schema = {"description": describe(seen.keys["params"].info).only("Unit").plain()}
    properties["params"] = told
    kinds = [
        kind for kind in types_of(seen.name).values() if kind.params is not None and release in kind.releases
    ]
    cases: list[Schema] = [{"if": {"minProperties": 1}, "then": needs("type")}]
    if is_scheduler:
        cases.append({"if": _when_type({"type": "string"}), "then": needs("params")})
    for kind in kinds:
        named = _named(seen.name, [kind.name])
        cases.append(_when(named, {**refer(str(kind.params), shapes), **told}))
        needed = _NEEDED.get(kind.name)
        if needed:
            cases.append(_when(named, needs(*needed)))
    known = _named(seen.name, [kind.name for kind in kinds])
    text = _when_type({"type": "string"})
    for case, taken in (
        ({**text, "not": _when_type(known)}, shapes),
        ({"not": text}, keywords.ANY_SHAPE),  # without a type nobody looks at the params
    ):
        base = {**refer(f"{seen.name}Params", taken), **told}
        cases.append({"if": case, "then": {"properties": {"params": base}}})
    return {"properties": properties, "allOf": cases}


_NEEDED = {kind.name: kind.required for kind in SCHEDULERS if kind.required}


def _when_type(schema: Schema) -> Schema:
    return {"properties": {"type": schema}, "required": ["type"]}


def _when(schema: Schema, params: Schema) -> Schema:
    return {"if": _when_type(schema), "then": {"properties": {"params": params}}}


def _named(section: str, names: list[str]) -> Schema:
    """The types of these names; an optimizer's are compared in lower case."""
    if section == "Optimizer":
        return {"type": "string", "pattern": any_case(names)}
    return {"const": names[0]} if len(names) == 1 else {"enum": names}


# Keywords that editors show about a key: description, default, deprecation.

_EXACT = 2**53
"""JavaScript, in which most editors are written, rounds integers beyond this one."""


def editor_keywords(word: str, key: KeyView, auto: Auto, release: int) -> Schema:
    """The keywords about a key that do not constrain its value; `word` is its name or an alias."""
    info = key.info
    description = describe(info, view=key, alias=word)
    is_offered = word == info.name and not info.flags & {"internal", "not_json"}
    is_exact = not isinstance(key.default, int) or abs(key.default) <= _EXACT
    # Everything else that is known of the key has a keyword of its own.
    titles = ["Unit", *([] if is_exact else ["Default"]), *([AUTO] if auto == "filled" else [])]
    plain = description.only(*titles).plain()
    if is_offered and key.default is not None:
        titles.append("Default")  # no editor shows the keyword `default` in a hover
    markdown = description.only(*titles).paragraph()
    schema: Schema = {"description": plain}
    if markdown != plain:
        schema["markdownDescription"] = markdown
    if key.default is not None and is_exact:
        schema["default"] = key.default
    if not is_offered:
        schema["doNotSuggest"] = True
    message = deprecation(info, release)
    if message:
        schema |= {"deprecated": True, "deprecationMessage": message}
    return schema


def _value_meanings(info: KeyInfo, auto: Auto) -> dict[object, str]:
    """The documented values of the key, each with its meaning."""
    by_value: dict[object, str] = dict(meanings(info))
    if auto == "filled":
        by_value["auto"] = next(fact.text for fact in describe(info).facts if fact.title == AUTO)
    return by_value


# Keys of other releases, which this one refuses or would be silent about.


def strangers(seen: SectionView, release: int, *, closed: bool) -> Iterator[tuple[str, str]]:
    """The keys, each with what to say of it."""
    for word, info in section_keys(seen.name).items():
        if word in seen.keys or not (closed or release >= info.refused_from):
            continue
        before = [last for _, last in info.spans if last < release]
        after = [first for first, _ in info.spans if first > release]
        if before:
            yield word, f"`{word}` was removed from DeepSpeed after {name(max(before))}{use_instead(info)}"
        elif after:
            yield word, f"`{word}` is known from DeepSpeed {name(min(after))} on, not in {name(release)}"


# The conditions that rules state, as JSON Schema.


def section_conditions(seen: SectionView, release: int, consumer: str | None) -> Iterator[Schema]:
    """The conditions of a section: what must not be there first, then what must."""
    for condition, releases in _stated(seen.name):
        known = all(key in seen.keys for key in _keys(condition))
        if release in releases and known and (not condition.consumers or consumer in condition.consumers):
            when = _all_of(condition.when)
            yield {"if": when, "then": _demand(condition)} if when else _demand(condition)


@cache
def _stated(section: str) -> tuple[tuple[Condition, Interval], ...]:
    """What the rules state of a section, in the order of their codes, and for which releases."""
    found = [
        (condition, rule.releases)
        for _, rule in sorted(RULES.items())
        for condition in rule.conditions
        if condition.section == section
    ]
    return tuple(sorted(found, key=lambda one: isinstance(one[0].then, Needed)))


def _keys(condition: Condition) -> Iterator[str]:
    """The keys of the section that the condition names: a release that lacks one has no use for it."""
    for part in (*condition.when, condition.then):
        if not isinstance(part, NotEmpty):
            yield part.key.partition(".")[0]


def _all_of(tests: tuple[Test, ...]) -> Schema:
    found: Schema = {}
    for test in tests:
        if isinstance(test, NotEmpty):
            found["minProperties"] = 1
        else:
            _add(found, test.key.split("."), _value(test), required=not isinstance(test, Counts))
    return found


def _value(test: Written | Is | Counts | Less) -> Schema:
    if isinstance(test, Written):
        # VS Code proposes what it meets here too, and some of these are names of old.
        return {"not": {"const": "auto"}, "doNotSuggest": True}
    if isinstance(test, Less):
        return {"type": "number", "exclusiveMaximum": test.bound}
    return {"const": test.values[0]} if len(test.values) == 1 else {"enum": list(test.values)}


def _add(found: Schema, path: list[str], value: Schema, *, required: bool) -> None:
    """Put a test of one key among those of its object; an object within is made where it is new."""
    key, *rest = path
    properties = found.setdefault("properties", {})
    if rest:
        inner = properties.setdefault(key, {})
        if required:
            inner["type"] = "object"  # what is none, null say, passes all other tests
        _add(inner, rest, value, required=required)
    else:
        properties[key] = value
    if required and key not in found.setdefault("required", []):
        found["required"].append(key)


def _demand(condition: Condition) -> Schema:
    then = condition.then
    *outer, key = then.key.split(".")
    if isinstance(then, Needed):
        found = needs(key)
    else:
        found = {"properties": {key: False}, "errorMessage": then.message}
    for word in reversed(outer):
        found = {"properties": {word: found}}
    return found
