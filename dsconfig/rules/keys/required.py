"""Old sections that lack what DeepSpeed looks up in them; all are gone by 0.19.8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, Spec
from dsconfig.core.wording import expected, one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import ROOT, KeyView, child_section
from dsconfig.rules._suggest_section import named

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


@rule(
    "DSC930",
    effect="rejected",
    until="0.19.7",
    source="compression/config.py:get_weight_quantization_different_groups and the like, "
    "runtime/config.py:get_pld_params, get_quantize_training, "
    "runtime/data_pipeline/config.py:get_curriculum_params_legacy",
)
def required_key_left_out(ctx: Context) -> Iterator[Finding]:
    """A section lacks a key that DeepSpeed looks up whenever the section is there.

    Leaving the whole section out is fine; an incomplete one ends in a KeyError or an assertion, also where it
    is switched off. A compression technique needs `different_groups`, each of its groups `params`, and these
    the bits or the ratio of the technique. `progressive_layer_drop` and `curriculum_learning` need `enabled`,
    and `quantize_training` needs `quantize_bits` with `target_bits`, and in its schedule a `quantize_period`.

    Bad, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}}}}

    Good, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}, "different_groups": {}}}}

    Fixed, release 0.19.6:

        {"train_batch_size": 8, "compression_training": {
            "row_pruning": {"shared_parameters": {"enabled": false}, "different_groups": {}}}}

    Bad, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {"enabled": true, "quantize_bits": {"start_bits": 16}}}

    Good, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {"enabled": true, "quantize_bits": {"target_bits": 8}}}

    Bad:

        {"train_batch_size": 8, "progressive_layer_drop": {"theta": 0.5}}

    Good:

        {"train_batch_size": 8, "progressive_layer_drop": {"enabled": true, "theta": 0.5}}
    """
    root = ctx.walk.view(ROOT)
    for word, value in ctx.data.items():
        key = root.keys.get(word)
        if key is not None and "complete" in key.info.flags:
            for found in _incomplete(ctx, key, value, (word,)):
                yield _left_out(ctx, found)


class _Incomplete(NamedTuple):
    """An object that lacks required keys."""

    path: KeyPath
    data: JsonObject
    missing: list[KeyView]
    removable: bool
    """Whether leaving the object out repairs the file; not where it is required itself."""


def _left_out(ctx: Context, found: _Incomplete) -> Finding:
    word = found.path[-1]
    names = one_of([f"`{key.info.name}`" for key in found.missing], "and")
    added = one_of([f"`{key.info.name}` ({_expected(ctx, key)})" for key in found.missing], "and")
    where = f"`{word}` of `{found.path[-2]}`" if word == "params" else named(found.path)
    groups = _empty_groups(found)
    left_out = ctx.at(
        found.path,
        f"{where} has no {names}, which DeepSpeed looks up whenever `{word}` is there",
        help=f"add {added}" + (f", or remove `{word}`" if found.removable else ""),
        part="key",
        fix=Fix("add `different_groups`: `{}`", (groups,), safe=True) if groups else None,
    )
    return left_out.lacking((*found.path, found.missing[0].info.name))


def _expected(ctx: Context, key: KeyView) -> str:
    """What the key takes; of a section, what must stand in it at once."""
    inner = child_section(key.type)
    needed = ctx.walk.view(inner).keys.values() if inner is not None else ()
    names = [f"`{each.info.name}`" for each in needed if each.info.required]
    return f"{expected(key.type)} with {one_of(names, 'and')}" if names else expected(key.type)


def _empty_groups(found: _Incomplete) -> Set | None:
    """What completes a technique that is switched off."""
    shared = found.data.get("shared_parameters", {})
    if (
        found.missing[0].info.name != "different_groups"
        or not isinstance(shared, dict)
        or shared.get("enabled")
    ):
        return None
    return Set((*found.path, "different_groups"), {})


def _incomplete(
    ctx: Context, key: KeyView, value: Json, path: KeyPath, spec: Spec | None = None
) -> Iterator[_Incomplete]:
    """Every object in here that lacks required keys; what is not an object is a finding of its own."""
    spec = spec or key.type
    inner = child_section(spec)
    if not isinstance(value, dict):
        return
    if inner is None:
        for word, member in value.items() if spec[0] == "map" else ():
            yield from _incomplete(ctx, key, member, (*path, word), spec[1])
        return
    seen = ctx.walk.view(inner)
    missing = [entry for entry in seen.keys.values() if entry.info.required and entry.info.name not in value]
    if missing:
        yield _Incomplete(path, value, missing, not key.info.required or spec is not key.type)
    for word, member in value.items():
        if word in seen.keys:
            yield from _incomplete(ctx, seen.keys[word], member, (*path, word))
