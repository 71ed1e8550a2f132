"""Random configs, drawn from the key table: every key of one release, with values that its type takes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dsconfig.core.json_types import Spec
from dsconfig.model._generated import VARIANTS
from dsconfig.model.key_table import KeyView, section_view_of_release

Strategy = st.SearchStrategy[Any]
WORDS = st.text("abcxyz_.0179é", max_size=6)
LARGEST = 10**6
ANYTHING: Strategy = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def section(name: str, release: int) -> Strategy:
    """Objects of a section class; of a key and its aliases at most one is written."""
    seen = section_view_of_release(name, release)
    own = {word: key for word, key in seen.keys.items() if word == key.info.name}
    keys = {
        word: value_of(key, release)
        for word, key in own.items()
        if key.info.refused_from > release and key.type != ("never",)
    }
    required = {word for word in keys if own[word].info.required}
    made = st.fixed_dictionaries(
        {word: keys[word] for word in required},
        optional={word: keys[word] for word in keys.keys() - required},
    )
    spellings = st.dictionaries(st.sampled_from(sorted(seen.keys)), st.booleans(), max_size=3)
    return st.tuples(made, spellings).map(lambda drawn: _respelled(drawn[0], drawn[1], seen.keys))


def _respelled(data: dict[str, Any], choices: dict[str, bool], keys: dict[str, KeyView]) -> dict[str, Any]:
    """`data` with some keys under their aliases."""
    aliases = {keys[word].info.name: word for word, chosen in choices.items() if chosen}
    return {aliases.get(word, word): value for word, value in data.items()}


def value_of(key: KeyView, release: int) -> Strategy:
    """Values of a key, with its known words where its type is open."""
    words = (
        st.sampled_from(key.info.known) if key.info.known and ("str",) in _arms(key.type) else st.nothing()
    )
    return words | value(key.type, release)


def value(spec: Spec, release: int) -> Strategy:
    """Values that a type takes."""
    head = spec[0]
    if head == "union":
        return st.one_of([value(arm, release) for arm in spec[1:]])
    if head == "enum":
        return st.sampled_from(spec[1:])
    if head in ("int", "float"):
        return _number(spec)
    if head == "list":
        return st.lists(value(spec[1], release), max_size=3)
    if head == "map":
        return st.dictionaries(WORDS, value(spec[1], release), max_size=2)
    if head == "section":
        names = (spec[1], *VARIANTS.get(spec[1], ()))
        return st.sampled_from(names).flatmap(lambda name: section(name, release))
    plain: dict[str, Strategy] = {"bool": st.booleans(), "str": WORDS, "path": WORDS, "null": st.none()}
    return plain.get(head, ANYTHING)


def _arms(spec: Spec) -> tuple[Spec, ...]:
    return spec[1:] if spec[0] == "union" else (spec,)


def _number(spec: Spec) -> Strategy:
    kind, ge, gt, le, lt = spec
    if kind == "int":
        low = ge if ge is not None else gt + 1 if gt is not None else -LARGEST
        high = le if le is not None else lt - 1 if lt is not None else max(LARGEST, low)
        return st.integers(low, high)
    low, high = ge if ge is not None else gt, le if le is not None else lt
    return st.floats(
        -LARGEST if low is None else low,
        LARGEST if high is None else high,
        exclude_min=gt is not None,
        exclude_max=lt is not None,
    )
