"""Build the JSON Schema of the whole config, with a definition per section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from dsconfig.core.releases import NUMBERS, ReleaseInterval, release_name
from dsconfig.evaluation.rule import (
    EffectiveValueIs,
    KeyEquals,
    KeyIsBelow,
    KeyIsRequired,
    KeyIsWritten,
    SchemaCondition,
    SectionIsNotEmpty,
    Test,
)
from dsconfig.job.consumers import ELASTIC, HUGGING_FACE
from dsconfig.model.key_description import (
    AUTO,
    deprecation_reason,
    describe_key,
    replacement_hint,
    value_meanings,
)
from dsconfig.model.key_table import (
    INFERENCE_ROOT,
    KeyInfo,
    KeyView,
    SectionView,
    child_section,
    keys_of_section_class,
    root_section,
    section_view_of_release,
    types_of_section,
)
from dsconfig.model.scheduler import SCHEDULERS
from dsconfig.rules import RULES
from dsconfig.schema import schema_keywords
from dsconfig.schema.schema_keywords import (
    ANY_SHAPE,
    ANYTHING,
    AUTO_PATTERN,
    Auto,
    Refer,
    Schema,
    case_insensitive_pattern,
    required_keys,
)

_REMARKS = ("comment", "comments", "description", "note", "notes")
REMARK_PATTERN = f"^(_|//|#)|{case_insensitive_pattern(_REMARKS)}"
"""Names of remarks, the same as in a check."""


def config_schema(release: int, consumer: str | None) -> Schema:
    """Return the schema of the whole config, with the definitions last."""
    builder = SectionSchemaBuilder(release, consumer)
    root = root_section(consumer or "deepspeed")
    body = builder.section_keywords(root)
    if root == INFERENCE_ROOT:  # DeepSpeed rejects any other key, `$schema` included
        return {"type": "object", **body, "definitions": dict(sorted(builder.definitions.items()))}
    properties: Schema = body.pop("properties")
    meta: Schema = {
        "$schema": {"type": "string", "description": "The JSON Schema that editors check this file with."},
        "$dsconfig": {"type": "object", "description": "Settings of dsconfig for this file."},
    }
    return {
        "type": "object",
        "properties": {**meta, **properties},
        "patternProperties": {REMARK_PATTERN: {}},
        "defaultSnippets": list(schema_keywords.snippets_of_whole_config(release, consumer)),
        **body,
        "definitions": dict(sorted(builder.definitions.items())),
    }


# Definitions of sections for one release and one consumer.

_LAST_ELASTIC = NUMBERS["0.19.7"]


@dataclass(slots=True)
class SectionSchemaBuilder:
    """Builds the schemas of sections, and collects the definitions that they reference."""

    release: int
    consumer: str | None
    definitions: dict[str, Schema] = field(default_factory=dict)

    def reference_to_section(self, section: str, shapes: frozenset[str] = frozenset()) -> Schema:
        """Return a reference to a section's definition, which also allows the non-object `shapes`."""
        title = definition_name(section, shapes)
        if title not in self.definitions:
            self.definitions[title] = {}  # avoids endless recursion: sections may contain each other
            self.definitions[title] = {**section_shape_keywords(shapes), **self.section_keywords(section)}
        return {"$ref": f"#/definitions/{title}"}

    def section_keywords(self, section: str) -> Schema:
        """Return the schema keywords for a section that is an object."""
        section_view = self._section_view(section)
        is_typed = section in TYPED
        properties = {
            word: self.key_schema(section_view, word, key)
            for word, key in section_view.keys.items()
            if not is_typed or word != "params"
        }
        if is_typed:
            return keywords_of_typed_section(
                section_view, self.release, properties, self.reference_to_section
            )
        schema: Schema = {"properties": properties}
        closed = section == "Config" or section_view.unknown == "rejected"
        if closed:
            schema["additionalProperties"] = False
        unavailable = dict(unavailable_keys(section_view, self.release, closed=closed))
        for word, message in unavailable.items():
            properties.setdefault(word, {"description": message, "doNotSuggest": True})
        # Editors show the message of the object that contains the `false` at the key itself.
        rejections = [
            {"properties": {word: False}, "errorMessage": message} for word, message in unavailable.items()
        ]
        demands = [
            *rejections,
            *_move_deprecations(properties),
            *section_conditions(section_view, self.release, self.consumer),
        ]
        return {**schema, "allOf": demands} if demands else schema

    def _section_view(self, section: str) -> SectionView:
        """Return the release's definition of a section; `elasticity` is always included."""
        section_view = section_view_of_release(section, self.release)
        if self.consumer != ELASTIC or section not in ("Config", "Elasticity"):
            return section_view
        last = section_view_of_release(section, _LAST_ELASTIC)
        if section == "Elasticity":
            return last
        return section_view._replace(keys={**section_view.keys, "elasticity": last.keys["elasticity"]})

    def key_schema(self, section_view: SectionView, word: str, key: KeyView) -> Schema:
        """Return the schema of one key; `word` is its name or an alias."""
        auto = self._auto_support_of_key(section_view, key.info)
        inner = child_section(key.type)
        schema = (
            self.reference_to_section(inner, accepted_section_shapes(section_view, key, auto))
            if inner
            else self._scalar_schema(section_view, key, auto)
        )
        suggestions = schema_keywords.snippets_of(section_view, word, inner, self.release) if inner else []
        extra = {"defaultSnippets": suggestions} if suggestions else {}
        return {**schema, **editor_keywords(word, key, auto, self.release), **extra}

    def _auto_support_of_key(self, section_view: SectionView, info: KeyInfo) -> Auto:
        if self.consumer in info.fills or (self.consumer is None and info.fills):
            return "filled"
        # Accelerate's plugin raises for an "auto" that it does not resolve, even if DeepSpeed would drop it.
        dropped = (
            section_view.drops_auto
            and "auto_is_value" not in info.flags
            and self.consumer not in HUGGING_FACE
        )
        return "dropped" if dropped else None

    def _scalar_schema(self, section_view: SectionView, key: KeyView, auto: Auto) -> Schema:
        # Hand-written parsing does not validate sections inside a list or a map.
        loose = schema_keywords.ANYTHING if section_view.dialect == "hand" else frozenset[str]()
        schema = schema_keywords.schema_of_type(
            key.type, lambda section, shapes: self.reference_to_section(section, shapes or loose)
        )
        known_values = [word for word in key.info.known if self._is_known_key(key.info, word)]
        if known_values:
            schema = schema_keywords.suggest_values(schema, known_values)
        elif "fold_case" in key.info.flags:
            schema = schema_keywords.accept_any_case(schema)
        schema = schema_keywords.add_error_message(schema_keywords.accept_auto(schema, auto), key.type, auto)
        return schema_keywords.describe_values(schema, _meanings_by_value(key.info, auto))

    def _is_known_key(self, info: KeyInfo, word: str) -> bool:
        types = (
            {kind.name: kind for kind in types_of_section(info.section).values()}
            if info.name == "type"
            else {}
        )
        return word not in types or self.release in types[word].releases


def _move_deprecations(properties: dict[str, Schema]) -> Iterator[Schema]:
    """Move deprecations of sections to a separate schema, because yaml-language-server ignores them next to `$ref`."""
    for word, schema in properties.items():
        if "$ref" in schema and "deprecationMessage" in schema:
            deprecation_keywords = {key: schema.pop(key) for key in ("deprecated", "deprecationMessage")}
            schema["doNotSuggest"] = True
            yield {"properties": {word: deprecation_keywords}}


# Sections for which a release also accepts other values than an object.


def accepted_section_shapes(section_view: SectionView, key: KeyView, auto: Auto) -> frozenset[str]:
    """Return the non-object values that a release accepts for a section without a warning."""
    shapes = set(key.takes) - {"auto"}
    if section_view.dialect != "hand" and key.type[0] == "union" and ("null",) in key.type[1:]:
        shapes.add("null")
    if auto == "dropped":
        shapes.add("auto")
    return frozenset(shapes)


def definition_name(section: str, shapes: frozenset[str]) -> str:
    """Return the name of a section's definition, which depends on the non-object values it accepts."""
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


def section_shape_keywords(shapes: frozenset[str]) -> Schema:
    """Return the JSON types of a section, and the keywords for its non-object values."""
    types = dict.fromkeys(
        ["object", *(name for shape in _TYPES if shape in shapes for name in _TYPES[shape])]
    )
    if shapes >= ANYTHING:
        return {}
    if shapes >= ANY_SHAPE:
        return {"not": {"const": "auto"}}
    schema: Schema = {"type": list(types) if len(types) > 1 else "object"}
    if "falsy" in shapes:
        schema |= {**_FALSY, "not": {"const": True}}
    if "[]" in shapes and "list" not in shapes:
        schema["maxItems"] = 0
    if "auto" in shapes and "string" not in shapes:
        schema |= {"pattern": AUTO_PATTERN, "patternErrorMessage": "expected an object"}
    if "string" in shapes:  # "auto" is for consumers, and none resolves it here
        schema["not"] = {"const": "auto"}
    if "mapping" in shapes:
        schema |= {"maxLength": 0, "items": {"type": "array", "minItems": 2, "maxItems": 2}}
    return schema


# The optimizer and the scheduler, whose params depend on the type.

TYPED = ("Optimizer", "Scheduler")


def keywords_of_typed_section(
    section_view: SectionView, release: int, properties: dict[str, Schema], refer: Refer
) -> Schema:
    """Return the schema keywords for a section with a `type`, such as the optimizer."""
    is_scheduler = section_view.name == "Scheduler"
    shapes: frozenset[str] = frozenset() if is_scheduler else frozenset({"null"})
    params: Schema = {
        "description": describe_key(section_view.keys["params"].info).with_facts_titled("Unit").plain()
    }
    properties["params"] = params
    kinds = [
        kind
        for kind in types_of_section(section_view.name).values()
        if kind.params is not None and release in kind.releases
    ]
    cases: list[Schema] = [{"if": {"minProperties": 1}, "then": required_keys("type")}]
    if is_scheduler:
        cases.append({"if": _condition_on_type({"type": "string"}), "then": required_keys("params")})
    for kind in kinds:
        named = _schema_of_type_names(section_view.name, [kind.name])
        cases.append(_params_condition(named, {**refer(str(kind.params), shapes), **params}))
        needed = _NEEDED.get(kind.name)
        if needed:
            cases.append(_params_condition(named, required_keys(*needed)))
    named_types = _schema_of_type_names(section_view.name, [kind.name for kind in kinds])
    text = _condition_on_type({"type": "string"})
    for case, accepted in (
        ({**text, "not": _condition_on_type(named_types)}, shapes),
        ({"not": text}, schema_keywords.ANY_SHAPE),  # without a type DeepSpeed does not read the params
    ):
        base = {**refer(f"{section_view.name}Params", accepted), **params}
        cases.append({"if": case, "then": {"properties": {"params": base}}})
    return {"properties": properties, "allOf": cases}


_NEEDED = {kind.name: kind.required for kind in SCHEDULERS if kind.required}


def _condition_on_type(schema: Schema) -> Schema:
    return {"properties": {"type": schema}, "required": ["type"]}


def _params_condition(schema: Schema, params: Schema) -> Schema:
    return {"if": _condition_on_type(schema), "then": {"properties": {"params": params}}}


def _schema_of_type_names(section: str, names: list[str]) -> Schema:
    """Return the schema for type names; for optimizers, DeepSpeed ignores case."""
    if section == "Optimizer":
        return {"type": "string", "pattern": case_insensitive_pattern(names)}
    return {"const": names[0]} if len(names) == 1 else {"enum": names}


# Keywords that editors show about a key: description, default, deprecation.

_EXACT = 2**53
"""JavaScript, in which most editors are written, rounds integers beyond this one."""


def editor_keywords(word: str, key: KeyView, auto: Auto, release: int) -> Schema:
    """Return the keywords that inform editors about a key without constraining its value."""
    info = key.info
    description = describe_key(info, view=key, alias=word)
    is_offered = word == info.name and not info.flags & {"internal", "not_json"}
    is_exact = not isinstance(key.default, int) or abs(key.default) <= _EXACT
    # Everything else that is known of the key has a keyword of its own.
    titles = ["Unit", *([] if is_exact else ["Default"]), *([AUTO] if auto == "filled" else [])]
    plain = description.with_facts_titled(*titles).plain()
    if is_offered and key.default is not None:
        titles.append("Default")  # no editor shows the keyword `default` in a hover
    markdown = description.with_facts_titled(*titles).paragraph()
    schema: Schema = {"description": plain}
    if markdown != plain:
        schema["markdownDescription"] = markdown
    if key.default is not None and is_exact:
        schema["default"] = key.default
    if not is_offered:
        schema["doNotSuggest"] = True
    message = deprecation_reason(info, release)
    if message:
        schema |= {"deprecated": True, "deprecationMessage": message}
    return schema


def _meanings_by_value(info: KeyInfo, auto: Auto) -> dict[object, str]:
    """Return the documented values of a key with their meanings."""
    by_value: dict[object, str] = dict(value_meanings(info))
    if auto == "filled":
        by_value["auto"] = next(fact.text for fact in describe_key(info).facts if fact.title == AUTO)
    return by_value


# Keys that only other releases read.


def unavailable_keys(section_view: SectionView, release: int, *, closed: bool) -> Iterator[tuple[str, str]]:
    """Yield the keys that only other releases read and this one rejects or ignores, with a message for each."""
    for word, info in keys_of_section_class(section_view.name).items():
        if word in section_view.keys or not (closed or release >= info.refused_from):
            continue
        before = [last for _, last in info.spans if last < release]
        after = [first for first, _ in info.spans if first > release]
        if before:
            yield (
                word,
                f"`{word}` was removed from DeepSpeed after {release_name(max(before))}{replacement_hint(info)}",
            )
        elif after:
            first = release_name(min(after))
            yield (
                word,
                f"`{word}` requires DeepSpeed {first} or later, but the target is {release_name(release)}",
            )


# Conditions that rules declare, as JSON Schema.


def section_conditions(section_view: SectionView, release: int, consumer: str | None) -> Iterator[Schema]:
    """Yield the conditions of a section: keys that must be absent, then keys that are required."""
    for condition, releases in _declared_conditions(section_view.name):
        is_readable = all(key in section_view.keys for key in _keys_in_condition(condition))
        if (
            release in releases
            and is_readable
            and (not condition.consumers or consumer in condition.consumers)
        ):
            when = _schema_of_all_tests(condition.when)
            yield (
                {"if": when, "then": _schema_of_required_keys(condition)}
                if when
                else _schema_of_required_keys(condition)
            )


@cache
def _declared_conditions(section: str) -> tuple[tuple[SchemaCondition, ReleaseInterval], ...]:
    """Return the conditions that rules declare for a section, with their releases, ordered by code."""
    conditions = [
        (condition, rule.releases)
        for _, rule in sorted(RULES.items())
        for condition in rule.conditions
        if condition.section == section
    ]
    return tuple(sorted(conditions, key=lambda one: isinstance(one[0].then, KeyIsRequired)))


def _keys_in_condition(condition: SchemaCondition) -> Iterator[str]:
    """Yield the keys that a condition tests; it applies only to releases that have all of them."""
    for part in (*condition.when, condition.then):
        if not isinstance(part, SectionIsNotEmpty):
            yield part.key.partition(".")[0]


def _schema_of_all_tests(tests: tuple[Test, ...]) -> Schema:
    schema: Schema = {}
    for test in tests:
        if isinstance(test, SectionIsNotEmpty):
            schema["minProperties"] = 1
        else:
            _add_key_test(
                schema,
                test.key.split("."),
                _schema_of_value_test(test),
                required=not isinstance(test, EffectiveValueIs),
            )
    return schema


def _schema_of_value_test(test: KeyIsWritten | KeyEquals | EffectiveValueIs | KeyIsBelow) -> Schema:
    if isinstance(test, KeyIsWritten):
        # VS Code also suggests values of conditions, and some of these are old names.
        return {"not": {"const": "auto"}, "doNotSuggest": True}
    if isinstance(test, KeyIsBelow):
        return {"type": "number", "exclusiveMaximum": test.bound}
    return {"const": test.values[0]} if len(test.values) == 1 else {"enum": list(test.values)}


def _add_key_test(schema: Schema, path: list[str], value: Schema, *, required: bool) -> None:
    """Add the test of a key to the schema of its object, creating inner objects as needed."""
    key, *rest = path
    properties = schema.setdefault("properties", {})
    if rest:
        inner_schema = properties.setdefault(key, {})
        if required:
            inner_schema["type"] = "object"  # otherwise null would pass all tests
        _add_key_test(inner_schema, rest, value, required=required)
    else:
        properties[key] = value
    if required and key not in schema.setdefault("required", []):
        schema["required"].append(key)


def _schema_of_required_keys(condition: SchemaCondition) -> Schema:
    then = condition.then
    *outer, key = then.key.split(".")
    if isinstance(then, KeyIsRequired):
        schema = required_keys(key)
    else:
        schema = {"properties": {key: False}, "errorMessage": then.message}
    for word in reversed(outer):
        schema = {"properties": {word: schema}}
    return schema
