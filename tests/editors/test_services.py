"""Hover, completion and validation in editors: both services, on places derived from the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import dsconfig
from dsconfig.core.releases import LATEST, NUMBERS
from dsconfig.document import read_text
from dsconfig.model.key_table import KeyView, child_section, section_view_of_release, types_of_section
from dsconfig.schema import schema_files
from tests.editors.conftest import Services
from tests.editors.mistakes import MISTAKES, Mistake
from tests.parity.generators.cases import generate
from tests.schema.agreement import covered, faults

NEWEST = NUMBERS[LATEST]
LANGUAGES = ("json", "yaml")
HIDDEN = frozenset({"internal", "not_json", "unread"})


def written(config: dict[str, Any], language: str) -> str:
    if language == "yaml":
        return str(yaml.safe_dump(config, sort_keys=False))
    return json.dumps(config, indent=2)


def spans(text: str, language: Any, path: str) -> dict[str, tuple[int, int]]:
    """Where key, value and entry stand."""
    document = read_text(text, f"config.{language}", language)
    *above, last = path.split(".")
    parent = document.node(tuple(above))
    assert parent is not None
    member = next(member for member in parent.members if member.key == last)
    return {
        "key": tuple(member.key_span),
        "value": tuple(member.node.span),
        "entry": (member.key_span.start, member.node.span.end),
    }


def test_there_are_enough_mistakes() -> None:
    assert len(MISTAKES) >= 40
    assert len({mistake.path for mistake in MISTAKES}) >= 35


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.path} {mistake.message[:24]}")
def test_a_mistake_is_underlined_where_it_is(services: Services, mistake: Mistake, language: str) -> None:
    text = written(mistake.config, language)
    diagnostics = services.ask("validate", "deepspeed.json", language=language, text=text)
    expected = mistake.yaml if language == "yaml" and mistake.yaml is not None else mistake.message
    assert [one["message"] for one in diagnostics] == ([expected] if expected else [])
    if expected:
        start, end = spans(text, language, mistake.path)[mistake.part]
        assert diagnostics[0]["start"] == start
        assert language == "yaml" or diagnostics[0]["end"] == end


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.path} {mistake.message[:24]}")
def test_check_knows_every_mistake_too(mistake: Mistake) -> None:
    path = tuple(mistake.path.split("."))
    report = dsconfig.check(mistake.config, target=LATEST)
    assert covered(path, {diagnostic.path for diagnostic in report}), [
        diagnostic.dotted for diagnostic in report
    ]


def sections() -> Iterator[tuple[str, str]]:
    """Every section that a path of names leads to, with that path."""
    waiting = [("Config", "")]
    while waiting:
        name, path = waiting.pop()
        yield name, path
        for word, key in section_view_of_release(name, NEWEST).keys.items():
            inner = child_section(key.type)
            if inner and word == key.info.name and word != "params" and not hidden(key):
                waiting.append((inner, f"{path}.{word}".lstrip(".")))


def hidden(key: KeyView) -> bool:
    return bool(key.info.flags & HIDDEN) or key.info.deprecated <= NEWEST


SECTIONS = sorted(set(sections()), key=lambda found: found[1])


def nested(path: str, inner: Any) -> dict[str, Any]:
    for word in reversed(path.split(".") if path else []):
        inner = {word: inner}
    return dict(inner)


@pytest.mark.parametrize(("name", "path"), SECTIONS)
def test_every_key_is_proposed_in_its_section(services: Services, name: str, path: str) -> None:
    text = json.dumps(nested(path, {"@": 0})).replace('"@": 0', "")
    place = len(text) - text.count("}")
    offered = services.ask("complete", "deepspeed.json", language="json", text=text, at=place)
    labels = {item["label"] for item in offered}
    keys = section_view_of_release(name, NEWEST).keys
    wanted = {word for word, key in keys.items() if word == key.info.name and not hidden(key)}
    assert wanted <= labels
    kept_back = {word for word, key in keys.items() if word != key.info.name or hidden(key)}
    assert not kept_back & labels
    assert not {"amp", "elasticity", "sparse_attention"} & labels


def kinds() -> Iterator[tuple[str, str, KeyView]]:
    """For each section, one key of each kind of value, with its path."""
    for name, path in SECTIONS:
        met = set()
        for word, key in section_view_of_release(name, NEWEST).keys.items():
            kind = key.type[0] if key.type[0] != "union" else "/".join(sorted(arm[0] for arm in key.type[1:]))
            if word == key.info.name and not hidden(key) and kind not in met and word != "params":
                met.add(kind)
                yield f"{path}.{word}".lstrip("."), kind, key


KINDS = list(kinds())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("path", "kind"), [(path, kind) for path, kind, _ in KINDS])
def test_hovering_over_a_key_tells_what_it_is(
    services: Services, path: str, kind: str, language: str
) -> None:
    key = next(kind_name for where, _, kind_name in KINDS if where == path)
    value = {} if child_section(key.type) else key.default if key.default is not None else 1
    text = written(nested(path, value), language)
    start, _ = spans(text, language, path)["key"]
    hover = services.ask("hover", "deepspeed.json", language=language, text=text, at=start + 1)
    hover_text = json.dumps(hover)
    words = _description(path).split(".")[0].replace("`", "").split()[:4]
    assert words, kind
    for word in words:
        assert word.strip('",:;()_') in hover_text.replace("\\", ""), (word, hover_text)


@cache
def _schema() -> dict[str, Any]:
    return dsconfig.json_schema(LATEST)


def _description(path: str) -> str:
    schema = here = _schema()
    for word in path.split("."):
        if "$ref" in here:
            here = schema["definitions"][here["$ref"].rpartition("/")[2]]
        here = here["properties"][word]
    return str(here["description"])


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("zero_optimization.stage", {"0", "1", "2", "3", '"auto"'}),
        ("zero_optimization.offload_param.device", {'"none"', '"cpu"', '"nvme"', '"auto"'}),
        ("zero_optimization.reduce_bucket_size", {"500000000", '"auto"'}),
        ("zero_optimization.reduce_scatter", {"true", "false"}),
        ("zero_optimization.sub_group_size", {"1000000000"}),
        ("bf16.enabled", {"true", "false", '"auto"'}),
        ("log_level", {'"debug"', '"critical"'}),
        ("scheduler.type", {'"WarmupLR"', '"WarmupCosineLR"'}),
        (
            "optimizer.type",
            {
                f'"{kind.name}"'
                for kind in types_of_section("Optimizer").values()
                if kind.releases.last > NEWEST
            },
        ),
        ("zero_optimization", {"stage 3", "stage 2, optimizer on the CPU"}),
        ("optimizer", {"AdamW", "Muon"}),
    ],
)
def test_values_are_proposed(services: Services, path: str, labels: set[str]) -> None:
    text = json.dumps(nested(path, "@"), indent=2).replace('"@"', "")
    place = text.index(": \n") + 2 if ": \n" in text else text.rindex(": ") + 2
    offered = services.ask("complete", "deepspeed.json", language="json", text=text, at=place)
    assert labels <= {item["label"] for item in offered}


def test_words_are_explained_as_they_are_proposed(services: Services) -> None:
    text = '{"zero_optimization": {"stage": }}'
    offered = services.ask("complete", "deepspeed.json", language="json", text=text, at=text.index(": }") + 2)
    documentation = {item["label"]: item["told"] for item in offered}
    assert documentation["3"] == "shards optimizer state, gradients and parameters"


def test_a_snippet_holds_numbers_and_not_strings(services: Services) -> None:
    text = '{"optimizer": }'
    offered = services.ask("complete", "deepspeed.json", language="json", text=text, at=len(text) - 1)
    (adamw,) = [item for item in offered if item["label"] == "AdamW"]
    assert '"lr": ${1:0.0001}' in adamw["text"]


@pytest.mark.parametrize("consumer", ["deepspeed", "transformers"])
@pytest.mark.parametrize("release", ["0.9.5", "0.16.9", LATEST])
def test_ajv_in_strict_mode_judges_as_jsonschema_does(
    services: Services, tmp_path: Path, release: str, consumer: str
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(dsconfig.json_schema(release, consumer)))
    configs = [case.config for case in generate(release, 300, 3) if isinstance(case.config, dict)]
    odd = re.compile(r"NaN|Infinity")  # which JSON has no words for
    sound = [config for config in configs if not odd.search(json.dumps(config))]
    verdicts = services.ask("ajv", str(path), documents=sound)
    assert verdicts == [not faults(config, release, consumer) for config in sound]
    assert 20 < sum(verdicts) < len(verdicts)


@pytest.mark.parametrize("name", schema_files.schema_texts_by_file())
def test_every_kept_file_compiles_in_strict_mode(services: Services, name: str) -> None:
    if name != "catalog.json":
        services.ask("ajv", name, documents=[{}])


LAUNCH = """compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 4
  offload_param_device: gpu
  zero3_init: true
num_processes: 0
mixed_precison: bf16
"""


def test_a_launch_file_gets_the_same_help(services: Services) -> None:
    diagnostics = services.ask("validate", "accelerate.json", language="yaml", text=LAUNCH)
    places = {LAUNCH[one["start"] : one["end"]] for one in diagnostics}
    assert places == {"4", "gpu", "zero3_init", "0", "mixed_precison"}
    place = LAUNCH.index("zero_stage") + 2
    hover = services.ask("hover", "accelerate.json", language="yaml", text=LAUNCH, at=place)
    assert "ZeRO stage: shards nothing (0)" in json.dumps(hover)


def test_beside_a_config_file_other_keys_are_refused(services: Services) -> None:
    text = "deepspeed_config:\n  deepspeed_config_file: ds.json\n  zero_stage: 3\n"
    (diagnostic,) = services.ask("validate", "accelerate.json", language="yaml", text=text)
    assert text[diagnostic["start"] : diagnostic["end"]] == "zero_stage"
    assert diagnostic["message"] == (
        "Accelerate rejects it together with `deepspeed_config_file`: set it in that file"
    )


TRAINING = """model: some/model
learning_rate: 1e-4
deepspeed:
  train_batch_size: 8
  zero_optimization:
    stage: 3
    stge: 3
  amp: {enabled: true}
"""


def test_a_config_inside_yaml_gets_the_same_help(services: Services) -> None:
    schema = "deepspeed-in-yaml.json"
    diagnostics = services.ask("validate", schema, language="yaml", text=TRAINING)
    assert {TRAINING[one["start"] : one["end"]] for one in diagnostics} == {"stge", "amp"}
    for value in ("ds_config.json", "null"):
        text = f"deepspeed: {value}\n"
        assert services.ask("validate", schema, language="yaml", text=text) == []
    text = "deepspeed:\n  zero_optimization:\n    st"
    offered = services.ask("complete", schema, language="yaml", text=text, at=len(text))
    assert "stage" in {item["label"] for item in offered}


@pytest.mark.parametrize("name", ["$schema", "$dsconfig", "//", "_comment", "comment"])
def test_meta_keys_and_remarks_are_never_reported(services: Services, name: str) -> None:
    value: Any = {"$dsconfig": {"ignore": ["DSC102"]}, "$schema": "schema://config"}.get(name, "x")
    config = {name: value, "train_batch_size": 8}
    text = json.dumps(config)
    assert services.ask("validate", "deepspeed.json", language="json", text=text) == []
    assert [
        diagnostic for diagnostic in dsconfig.check(config, target=LATEST) if diagnostic.code != "DSC008"
    ] == []
