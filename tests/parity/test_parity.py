"""The small form of the parity suite, and what the generator promises, which needs no DeepSpeed."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from random import Random

import pytest

from tests.parity import census, citations, environment, rehearsal
from tests.parity.generators import bases, keyspace, mutate, situations, writing
from tests.parity.generators.case import CLASSES, WORLD_SIZES, Case
from tests.parity.generators.cases import generate
from tests.parity.judges import compare, judging
from tests.parity.judges.judging import Verdict

RELEASE = "0.19.8"
SMALL = 300


@pytest.fixture
def release() -> str:
    available = environment.available()
    if not available:
        pytest.skip("no DeepSpeed to compare with here: `make parity` fetches one and runs the whole suite")
    return RELEASE if RELEASE in available else available[-1]


def test_model_has_the_keys_of_deepspeed(release: str) -> None:
    assert [str(one) for one in census.differences(release) if one.explanation is None] == []


def test_finds_every_change_of_a_new_release(release: str) -> None:
    assert rehearsal.main() == 0


def test_cites_code_that_is_there(release: str) -> None:
    cited = [each for each in citations.deepspeed_citations() if each.release == release]
    assert len(cited) > 500
    assert citations.missing_in_deepspeed(cited) == []


def test_agrees_with_deepspeed(release: str) -> None:
    check = compare.checker()
    assert check is not None
    cases = list(generate(release, SMALL, seed=11))
    verdicts = judging.judge(release, cases, workers=1)
    outcomes = [compare.outcome(release, case, verdicts[case.id], check) for case in cases]
    wrong = [line for o in outcomes if o.decided and not o.agrees for line in compare.describe(o)]
    assert compare.agreement(outcomes) == 1, "\n".join(wrong)


def test_same_seed_same_cases() -> None:
    first, again, other = (list(generate(RELEASE, 300, seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize("series", ["0.3.16", "0.8.3", "0.14.5", RELEASE])
def test_thirds_forms_and_sizes(series: str) -> None:
    cases = list(generate(series, 900, seed=1))
    assert Counter(case.kind for case in cases) == dict.fromkeys(CLASSES, 300)
    assert len({case.id for case in cases}) == 900
    assert {case.world_size for case in cases} == set(WORLD_SIZES)
    texts = sum(case.form == "text" for case in cases)
    assert 0.35 < texts / len(cases) < 0.75
    for case in cases:
        json.dumps(case.config)  # every dict is JSON


def test_every_path_in_a_round_and_every_kind_before_any_comes_again() -> None:
    slots, kinds = keyspace.slots(RELEASE), mutate.KINDS
    whole = list(itertools.islice(mutate.plan(RELEASE, Random(1)), len(slots) * len(kinds)))
    assert {slot.path for _, slot in whole[: len(slots)]} == {slot.path for slot in slots}
    assert {kind for kind, _ in whole[: len(slots)]} == set(kinds)
    assert len({(kind, slot.path) for kind, slot in whole}) == len(whole)


def test_one_mutation_changes_one_place() -> None:
    rng = Random(2)
    for _, slot in itertools.islice(mutate.plan(RELEASE, rng), 400):
        before = bases.host(rng, RELEASE, 8, slot.path)
        after = bases.copied(before)
        mutate.KINDS["null"](after, slot, RELEASE, rng)
        assert keyspace.get(after, slot.path, ...) is None
        assert {name for name in after if after[name] != before.get(name)} <= {slot.path[0]}


def test_every_situation_applies_somewhere() -> None:
    releases = [environment.order(release) for release in environment.TESTED.split()]
    names = [one.name for one in situations.SITUATIONS]
    assert len(names) == len(set(names))
    for one in situations.SITUATIONS:
        assert any(map(one.fits, releases)), one.name
        config = {"train_batch_size": 8}
        one.apply(config, 4, Random(3))
        json.dumps(config)


def test_pools_are_never_shared() -> None:
    for one in situations.SITUATIONS:
        kept = repr(one.pools)
        for seed in range(3):
            config: dict[str, object] = {}
            one.apply(config, 4, Random(seed))
            spoil(config)
        assert repr(one.pools) == kept, one.name


def spoil(value: object) -> None:
    """Changes every container inside."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        value.append("spoilt")


def test_texts_hold_the_config() -> None:
    hjson = pytest.importorskip("hjson")
    rng = Random(4)
    for number in range(200):
        config = bases.rich(rng, RELEASE, WORLD_SIZES[number % len(WORLD_SIZES)])
        assert json.loads(writing.plain(config, rng)) == config
        text = writing.hjson(config, rng).removeprefix("\ufeff")
        assert hjson.loads(text) == config


def test_verdicts_are_compared() -> None:
    case = Case("a", "valid", "", 1, config={})
    finding = compare.Finding("DSC101", ("fp16", "enable"), "")
    accepted, raised, stuck = (
        Verdict(True, "config", triplet=(1, 1, 1)),
        Verdict(False, "config"),
        Verdict(None, "config"),
    )
    assert compare.Outcome("r", case, accepted, ()).agrees
    assert not compare.Outcome("r", case, accepted, (finding,)).agrees
    assert compare.Outcome("r", case, raised, (finding,)).agrees
    assert not compare.Outcome("r", case, raised, ()).agrees
    assert not compare.Outcome("r", case, accepted, (), triplet=(2, 2, 1)).agrees
    assert not compare.Outcome("r", case, raised, (finding,), crash="KeyError").agrees
    assert not compare.Outcome("r", case, stuck, ()).decided
    named = Verdict(False, "config", places=(("enable",),))
    assert compare.Outcome("r", case, named, (finding,)).place_matches
    assert (
        compare.Outcome("r", case, Verdict(False, "config", places=(("stage",),)), (finding,)).place_matches
        is False
    )
