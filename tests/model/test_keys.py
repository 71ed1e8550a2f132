"""Every key of the model carries what a key must carry, and walker, table and `keys()` say the same."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import pytest

from dsconfig import model
from dsconfig.core.json_types import Spec
from dsconfig.core.releases import NEVER, RELEASES, release_number
from dsconfig.model import Config, Key, Section, iterate_model_fields, key_description
from dsconfig.model._generated import MISWRITTEN, SECTIONS, VARIANTS
from dsconfig.model.iterate_model_fields import field_docstrings
from dsconfig.model.key import HALF, HAND, SCRIPT
from dsconfig.model.key_table import child_section, iter_keys, keys_of_section_class, secret_key_names

TAGS = ("0.1.0", "0.2.0", "0.3.0", "0.3.11", "0.6.2")
"""Releases that were tagged and never reached the package index."""

FREE = {
    "Optimizer.params": "the arguments of a class of torch.optim or mup, under its own names",
    "Scheduler.params": "the arguments of a class of torch.optim.lr_scheduler, under its own names",
    "Compile.kwargs": "further arguments of torch.compile, under its own names",
    "Config.eigenvalue": "never read by any release, only refused by name",
    "TensorParallelGroup.mpu": "a Python object, which no JSON value is",
    "TensorParallelGroup.tp_group": "a Python object, which no JSON value is",
    "TensorParallel.dtype": "a Python object, which no JSON value is",
}
"""The only fields whose type says nothing, and why."""

OPEN = {
    "Amp": "what DeepSpeed does not know goes to apex.amp.initialize",
    "DatastatesCkpt": "what DeepSpeed does not know belongs to the DataStates package",
    "ZeroppLocoParam": "handed on to the quantised collective unread",
}
"""The only sections that can be built with keys that the model does not name, and why."""

EARLY = {"Config.sequence_parallel_size", "OffloadParam.device", "OffloadOptimizer.device"}
"""Keys of which an early release took anything at all."""

CLASSES = list(iterate_model_fields.iter_sections(Config))
FIELDS = [
    pytest.param(field, id=f"{section.__name__}.{field.name}")
    for section in CLASSES
    for field in iterate_model_fields.iter_fields_of_section(section)
]
PATHS = {".".join(path) for path, _ in iter_keys()}
SECTION_PATHS = {(info.section, ".".join(path[:-1])) for path, info in iter_keys()}
every_section = pytest.mark.parametrize("section", CLASSES, ids=lambda section: section.__name__)
every_field = pytest.mark.parametrize("field", FIELDS)


def name_of(field: iterate_model_fields.ModelField) -> str:
    return f"{field.owner.__name__}.{field.name}"


def holds(found: Spec, *heads: str) -> bool:
    """Whether a type of one of these kinds is anywhere in the spec."""
    return found[0] in heads or any(holds(part, *heads) for part in found[1:] if isinstance(part, tuple))


def parts(annotation: Any) -> Iterator[Any]:
    """An annotation and everything inside it."""
    yield annotation
    for inner in get_args(annotation):
        yield from parts(inner)


def dates(key: Key) -> Iterator[str | None]:
    """Every release that a key names."""
    yield from (key.since, key.until, key.refused_from, key.deprecated)
    yield from (release for span in key.spans for release in span)
    yield from (was.until for was in key.was)
    yield from (last for last, _ in key.defaults)
    yield from (release for alias in key.aliases for release in (alias.since, alias.until))
    yield from (release for takes in key.takes for release in (takes.since, takes.until))


def last(release: str | None) -> int:
    return NEVER if release is None else release_number(release)


@every_section
def test_a_section_says_what_it_is_and_who_reads_it(section: type[Section]) -> None:
    assert section.__doc__ is not None
    assert re.match(r"[A-Z0-9].*\.$", section.__doc__.strip(), re.DOTALL)
    assert section.__doc__ != Section.__doc__
    assert section.__name__ in model.__all__
    assert re.fullmatch(r"[\w/]+\.py(:[\w.]+)?", section.SOURCE)


@every_section
def test_the_spans_of_a_section_follow_one_another(section: type[Section]) -> None:
    reads = section.READS or HAND
    for earlier, later in pairwise(reads):
        assert last(earlier.until) < release_number(later.since)
    assert {reading.since for reading in reads} <= {*RELEASES, *TAGS}


@every_field
def test_a_field_has_prose(field: iterate_model_fields.ModelField) -> None:
    text = field_docstrings(field.owner).get(field.name, "")
    assert re.match(r"[A-Z0-9`].*\.$", text), text
    assert "  " not in text
    assert text.count("`") % 2 == 0


@every_field
def test_a_field_says_who_reads_it(field: iterate_model_fields.ModelField) -> None:
    assert field.key.source or field.owner.SOURCE


@every_field
def test_the_releases_of_a_key_exist(field: iterate_model_fields.ModelField) -> None:
    assert {release for release in dates(field.key) if release} <= {*RELEASES, *TAGS}


@every_field
def test_the_releases_of_a_key_are_in_order(field: iterate_model_fields.ModelField) -> None:
    key = field.key
    first, end = release_number(key.since), last(key.until)
    assert first <= end
    assert key.refused_from is None or end < release_number(key.refused_from)
    assert key.deprecated is None or first <= release_number(key.deprecated)
    spans = key.spans or ((key.since, key.until),)
    assert (spans[0][0], spans[-1][1]) == (key.since, key.until)
    for earlier, later in pairwise(spans):
        assert last(earlier[1]) < release_number(later[0])
    for borders in ([was.until for was in key.was], [border for border, _ in key.defaults]):
        numbers = [release_number(border) for border in borders]
        assert numbers == sorted(set(numbers))
        assert all(first <= border < end for border in numbers)
    assert all(first <= release_number(alias.since) <= last(alias.until) <= end for alias in key.aliases)


@every_field
def test_an_earlier_type_or_default_differs_from_what_follows(field: iterate_model_fields.ModelField) -> None:
    types = [*(iterate_model_fields.spec_of_annotation(was.type) for was in field.key.was), field.spec]
    defaults = [*(value for _, value in field.key.defaults), field.default]
    for chain in (types, defaults):
        assert all(repr(one) != repr(two) for one, two in pairwise(chain))


@every_field
def test_a_successor_exists(field: iterate_model_fields.ModelField) -> None:
    successor = field.key.replaced_by
    if successor and re.fullmatch(r"[a-z0-9_.*]+", successor):
        assert successor in PATHS
    elif successor:
        assert re.search(r"[ (]", successor), "neither the path of a key nor a phrase"


@every_field
def test_a_key_is_rewritten_to_one_beside_it(field: iterate_model_fields.ModelField) -> None:
    if field.key.rewrite is not None:
        replaced = field.key.replaced_by or ""
        assert (field.owner.__name__, replaced.rpartition(".")[0]) in SECTION_PATHS
        assert replaced in PATHS


@every_field
def test_what_hides_or_opens_a_key_exists(field: iterate_model_fields.ModelField) -> None:
    assert field.key.hidden_by in {None, *keys_of_section_class(field.owner.__name__)}
    assert field.key.opened_by in {None, SCRIPT, HALF, *PATHS}


def test_what_people_write_is_read_by_no_release() -> None:
    paths = {".".join(path) for path, _ in iter_keys()}
    assert MISWRITTEN.keys().isdisjoint(paths)
    assert set(MISWRITTEN.values()) <= {"", *paths}
    assert all(written.rpartition(".")[0] in {"", *paths} for written in MISWRITTEN)
    declared = [
        written
        for section in CLASSES
        for field in iterate_model_fields.iter_fields_of_section(section)
        for written in field.key.miswritten
    ]
    assert {written for written, meant in MISWRITTEN.items() if meant} == set(declared)
    named = {word for section in CLASSES for cls in section.__mro__ for word in vars(cls).get("NOT_KEYS", ())}
    assert {written.rpartition(".")[2] for written, meant in MISWRITTEN.items() if not meant} == named


def test_only_these_keys_are_secret() -> None:
    assert secret_key_names() == {"api_key"}


def test_only_these_fields_are_free_form() -> None:
    says_nothing = {
        name_of(field)
        for section in CLASSES
        for field in iterate_model_fields.iter_fields_of_section(section)
        if any(part in (Any, object) for part in parts(field.annotation))
    }
    assert says_nothing == FREE.keys()
    assert len(FREE) == 7


def test_only_these_sections_are_open() -> None:
    assert {
        section.__name__ for section in CLASSES if section.model_config["extra"] == "allow"
    } == OPEN.keys()


def test_only_these_keys_once_took_anything() -> None:
    assert {
        name_of(field)
        for section in CLASSES
        for field in iterate_model_fields.iter_fields_of_section(section)
        if any(holds(iterate_model_fields.spec_of_annotation(was.type), "any") for was in field.key.was)
    } == EARLY


def test_the_table_is_what_the_walker_yields() -> None:
    assert list(SECTIONS) == [section.__name__ for section in CLASSES]
    for section in CLASSES:
        infos = keys_of_section_class(section.__name__)
        fields = {field.name: field for field in iterate_model_fields.iter_fields_of_section(section)}
        assert list(infos) == list(fields)
        for name, info in infos.items():
            assert (info.type, info.default) == (fields[name].spec, fields[name].default)
            assert (info.section, info.name, info.required) == (
                section.__name__,
                name,
                fields[name].required,
            )


def test_every_key_of_the_table_is_on_a_path() -> None:
    on_paths = {(info.section, info.name) for _, info in iter_keys()}
    assert on_paths == {(section, name) for section, (_, names, _) in SECTIONS.items() for name in names}


def free_names() -> Iterator[str]:
    """Places whose names, or number, are up to the user."""
    for path, info in iter_keys():
        inner = child_section(info.type)
        kept = inner is not None and walk_of(inner).model_config["extra"] == "allow"
        if kept or holds(info.type, "map") or (holds(info.type, "list") and holds(info.type, "section")):
            yield ".".join((*path, "*"))


def walk_of(name: str) -> type[Section]:
    return next(section for section in CLASSES if section.__name__ == name)


def test_the_model_holds_the_whole_config() -> None:
    assert len(PATHS) >= 646
    assert len(PATHS | set(free_names())) >= 657
    assert len(CLASSES) >= 104


@pytest.mark.parametrize("release", ["0.3.1", "0.8.3", "0.14.5", RELEASES[-1]])
def test_the_paths_of_a_release_are_those_that_it_reads(release: str) -> None:
    paths = [path for path, info in iter_keys(release) if info.is_read_in(release_number(release))]
    assert len(paths) == sum(1 for _ in iter_keys(release))
    assert set(paths) <= {path for path, _ in iter_keys()}
    assert all(path[:-1] in paths or len(path) == 1 or "*" in path for path in paths)


def test_variants_are_subclasses() -> None:
    for base, names in VARIANTS.items():
        assert all(issubclass(walk_of(name), walk_of(base)) for name in names)


def test_every_key_has_a_page() -> None:
    for path in dict.fromkeys(".".join(path) for path, _ in iter_keys()):
        page = key_description.key_page(path)
        assert page is not None
        assert page.startswith(f"`{path}`\n\n")
        assert "- Accepts: " in page
        assert "- Releases: " in page
        assert "- Source: `" in page


def test_a_page_says_what_differs_by_type() -> None:
    page = key_description.key_page("optimizer.params.betas") or ""
    assert page.count("With type ") == 3
    assert 'With type `"Muon"`:' in page
    assert "- Releases: 0.17.6 and later (`Muon`)" in page


def test_an_alias_leads_to_the_page_of_its_key() -> None:
    name = "zero_optimization.stage3_prefetch_bucket_size"
    assert key_description.key_page("zero_optimization.prefetch_bucket_size") == key_description.key_page(
        name
    )
    assert key_description.key_page("zero_optimization.no_such_key") is None
