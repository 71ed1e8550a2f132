"""What makes the schema good in editors: each of these was measured in VS Code's service and yaml's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest

import dsconfig
from dsconfig.core.releases import LATEST, NUMBERS, RELEASES
from dsconfig.job.consumers import CONSUMERS
from dsconfig.model.key_table import keys_of_section_class, section_view_of_release
from dsconfig.schema import schema_files
from dsconfig.schema.schema_keywords import DRAFT

SAMPLE = ("0.3.1", "0.6.7", "0.9.5", "0.14.5", "0.16.9", "0.19.6", LATEST)
KEYWORDS = {
    "$comment", "$id", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default",
    "defaultSnippets", "definitions", "deprecated", "deprecationMessage", "description", "doNotSuggest",
    "markdownDescription",
    "else", "enum", "enumDescriptions", "errorMessage", "exclusiveMaximum", "exclusiveMinimum", "if",
    "items", "maxItems", "maxLength", "maximum", "minItems", "minProperties", "minimum", "not",
    "pattern", "patternErrorMessage", "patternProperties", "properties", "required", "then", "title", "type",
    "x-dsconfig-consumer", "x-dsconfig-target",
}  # fmt: skip


@cache
def schema(release: str, consumer: str | None = None) -> dict[str, Any]:
    return dsconfig.json_schema(release, consumer)


def schemas(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its place."""
    if not isinstance(node, dict):
        return
    yield path, node
    for word in ("properties", "definitions", "patternProperties"):
        for name, inner in node.get(word, {}).items():
            yield from schemas(inner, f"{path}/{word}/{name}")
    for word in ("allOf", "anyOf"):
        for index, inner in enumerate(node.get(word, ())):
            yield from schemas(inner, f"{path}/{word}/{index}")
    for word in ("items", "additionalProperties", "if", "then", "not"):
        yield from schemas(node.get(word), f"{path}/{word}")


def properties(node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What stands for a key, conditions left out."""
    for path, inner in schemas(node):
        if "/properties/" in path and "/if" not in path and path.count("/anyOf") + path.count("/not") == 0:
            parent = path.rsplit("/", 2)
            if parent[1] == "properties" and "/allOf" not in path:
                yield path, inner


@pytest.mark.parametrize("release", SAMPLE)
def test_it_is_draft_7_and_stands_alone(release: str) -> None:
    found = schema(release)
    assert found["$schema"] == DRAFT
    jsonschema.Draft7Validator.check_schema(found)
    for path, inner in schemas(found):
        assert inner.keys() <= KEYWORDS, path
        reference = inner.get("$ref", "#/definitions/")
        assert reference.startswith("#/definitions/"), path
        assert (
            reference == "#/definitions/" or reference.removeprefix("#/definitions/") in found["definitions"]
        )


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_a_small_one_without_loose_ends(release: str) -> None:
    found = schema(release)
    text = json.dumps(found)
    assert len(text) < 300_000
    assert {name for name in found["definitions"] if f'"#/definitions/{name}"' not in text} == set()
    for path, inner in schemas(found):
        assert inner.keys() <= KEYWORDS, path


def test_the_kept_files_are_below_320_kb() -> None:
    assert {
        name: len(make())
        for name, make in schema_files.schema_texts_by_file().items()
        if len(make().encode()) > 320 * 1024
    } == {}


@pytest.mark.parametrize("release", SAMPLE)
def test_1_definitions_say_nothing_that_the_property_says(release: str) -> None:
    for name, inner in schema(release)["definitions"].items():
        assert not inner.keys() & {"description", "title"}, name
    silent = [path for path, inner in properties(schema(release)) if not inner.get("description")]
    assert silent == []


@pytest.mark.parametrize("release", SAMPLE)
@pytest.mark.parametrize("consumer", [None, *CONSUMERS])
def test_2_alternatives_carry_one_message_and_the_number_comes_first(
    release: str, consumer: str | None
) -> None:
    for path, inner in schemas(schema(release, consumer)):
        arms = inner.get("anyOf", [])
        if not arms or {} in arms or any("$ref" in arm for arm in arms):
            continue
        assert len({arm["errorMessage"] for arm in arms}) == 1, path
        assert not any(arm.keys() & {"description", "default"} for arm in arms), path
        kinds = ["const" if "const" in arm else "enum" if "enum" in arm else "type" for arm in arms]
        assert "const" not in kinds[:-1], path


@pytest.mark.parametrize("release", SAMPLE)
def test_3_null_is_taken_only_where_the_release_takes_it(release: str) -> None:
    number = NUMBERS[release]
    taken = schema(release)["properties"]
    for word, key in section_view_of_release("Config", number).keys.items():
        judge = jsonschema.Draft7Validator({**taken[word], "definitions": schema(release)["definitions"]})
        null_arm = key.type[0] in ("any", "null") or (key.type[0] == "union" and ("null",) in key.type)
        assert judge.is_valid(None) == bool(null_arm or key.takes & {"null", "falsy"}), word


@pytest.mark.parametrize("release", SAMPLE)
def test_4_there_are_no_titles_but_the_roots(release: str) -> None:
    assert [path for path, inner in schemas(schema(release)) if path and "title" in inner] == []


def test_5_nothing_is_exclusive_or() -> None:
    assert "oneOf" not in json.dumps(schema(LATEST))


def test_6_open_sets_propose_and_take_anything_else() -> None:
    kind = schema(LATEST)["definitions"]["Optimizer"]["properties"]["type"]
    assert {"AdamW", "Muon"} < set(kind["anyOf"][0]["enum"])
    assert jsonschema.Draft7Validator(kind).is_valid("SGD")
    assert "OneBitAdam" not in kind["anyOf"][0]["enum"], "gone since 0.19.7"


@pytest.mark.parametrize("release", SAMPLE)
def test_7_defaults_stand_beside_every_scalar_that_has_one(release: str) -> None:
    number = NUMBERS[release]
    found = schema(release)
    for word, key in section_view_of_release("ZeroOptimization", number).keys.items():
        told = found["definitions"]
        section = next(inner for name, inner in told.items() if name.startswith("ZeroOptimization"))
        stated = section["properties"][word]
        if key.default is not None and not isinstance(key.default, dict) and key.default != 2**63 - 1:
            assert stated["default"] == key.default
        if "default" in stated:
            assert isinstance(stated["default"], type(key.default))


@pytest.mark.parametrize("release", SAMPLE)
def test_8_closed_are_the_root_and_what_deepspeed_closes(release: str) -> None:
    found = schema(release)
    assert found["additionalProperties"] is False
    assert {"$schema", "$dsconfig"} <= found["properties"].keys()
    number = NUMBERS[release]
    for title, inner in found["definitions"].items():
        name = title.split("Or")[0] if title not in ("OrderedDict",) else title
        closed = section_view_of_release(name, number).unknown == "rejected"
        assert (inner.get("additionalProperties") is False) == closed, title


@pytest.mark.parametrize("release", SAMPLE)
def test_9_what_is_deprecated_says_so_twice(release: str) -> None:
    for path, inner in schemas(schema(release)):
        assert ("deprecated" in inner) == ("deprecationMessage" in inner), path
    zero = schema(LATEST)["definitions"]["ZeroOptimizationOrFalseOrTrue"]["properties"]
    assert "`zero_optimization.offload_optimizer`" in zero["cpu_offload"]["deprecationMessage"]


def test_10_published_files_name_themselves_and_allow_no_comments() -> None:
    for name, make in schema_files.schema_texts_by_file().items():
        kept = json.loads(make())
        if name != "catalog.json":
            assert kept["$id"] == f"{schema_files.BASE}{name}"
        assert not kept.keys() & {"allowComments", "allowTrailingCommas"}


@pytest.mark.parametrize("release", SAMPLE)
def test_every_word_of_a_set_is_described(release: str) -> None:
    silent = [
        (path, word)
        for path, inner in properties(schema(release))
        for arm in (inner, *inner.get("anyOf", ()), inner.get("items", {}))
        if "enum" in arm
        for word, told in zip(arm["enum"], arm.get("enumDescriptions", [""] * len(arm["enum"])), strict=True)
        if isinstance(word, str) and not told
    ]
    assert silent == []


@pytest.mark.parametrize("consumer", [each for each in CONSUMERS if each != "inference"])
def test_auto_is_taken_where_somebody_fills_or_drops_it(consumer: str) -> None:
    found = schema(LATEST, consumer)
    seen = section_view_of_release("ZeroOptimization", NUMBERS[LATEST])
    section = next(inner for name, inner in found["definitions"].items() if name.startswith("ZeroOpt"))
    for word, info in keys_of_section_class("ZeroOptimization").items():
        if word not in seen.keys or word in ("offload_param", "offload_optimizer", "zenflow", "leaf_module"):
            continue
        takes = jsonschema.Draft7Validator(section["properties"][word]).is_valid("auto")
        assert takes == (consumer in info.fills or consumer in ("deepspeed", "lightning", "elastic")), word
    lr = jsonschema.Draft7Validator(found["definitions"]["AdamParamsOrNull"]["properties"]["lr"])
    assert lr.is_valid("auto") == (consumer in ("transformers", "accelerate"))


def test_units_and_bounds_are_told() -> None:
    bucket = schema(LATEST, "deepspeed")["definitions"]["ZeroOptimizationOrFalseOrTrue"]["properties"][
        "reduce_bucket_size"
    ]
    assert "Unit: elements." in bucket["description"]
    assert bucket["anyOf"][0]["minimum"] == 1
    assert bucket["default"] == 500_000_000
    assert bucket["markdownDescription"] == f"{bucket['description']} Default: `500000000`."


def test_a_wrong_consumer_or_release_is_one_line() -> None:
    with pytest.raises(ValueError, match="unknown consumer `megatron`: expected one of deepspeed"):
        dsconfig.json_schema(LATEST, "megatron")
    with pytest.raises(dsconfig.UnknownReleaseError, match="nearest"):
        dsconfig.json_schema("0.3.11")


def test_snippets_write_only_what_the_release_knows() -> None:
    for release in SAMPLE:
        for path, inner in schemas(schema(release)):
            for snippet in inner.get("defaultSnippets", ()):
                if path and "zero_optimization" in path:
                    judge = jsonschema.Draft7Validator(
                        {**inner, "definitions": schema(release)["definitions"]}
                    )
                    assert judge.is_valid(snippet["body"]), (release, snippet)
        whole = jsonschema.Draft7Validator(schema(release))
        for snippet in schema(release)["defaultSnippets"]:
            assert list(whole.iter_errors(snippet["body"])) == [], (release, snippet["label"])
