"""Sections that lack what DeepSpeed looks up in them; all of them are gone by 0.19.8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.diagnostic import Fix, Path, Set
from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section
from dsconfig.rules._context import Context, Finding
from dsconfig.rules._rule import rule
from dsconfig.words import expected, one_of

_SECTIONS = ("compression_training", "curriculum_learning", "progressive_layer_drop", "quantize_training")
"""The sections whose keys without default are looked up while the config is loaded."""


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
    for word in _SECTIONS:
        if word in root.keys and word in ctx.data:
            for path, data, missing in _incomplete(ctx, root.keys[word].type, ctx.data[word], (word,)):
                yield _left_out(ctx, path, data, missing)


def _left_out(ctx: Context, path: Path, data: dict[str, Any], missing: list[KeyView]) -> Finding:
    names = one_of([f"`{key.info.name}`" for key in missing], "and")
    example = _off_by_groups(path, data, missing)
    return ctx.at(
        path,
        f"`{path[-1]}` has no {names}, which DeepSpeed looks up whenever `{path[-1]}` is there",
        help=_help(path, missing),
        part="key",
        fix=Fix("add `different_groups`: `{}`", (example,), safe=True) if example else None,
    )


def _help(path: Path, missing: list[KeyView]) -> str:
    added = one_of([f"`{key.info.name}` ({expected(key.type)})" for key in missing], "and")
    return f"add {added}, or remove `{path[-1]}`"


def _off_by_groups(path: Path, data: dict[str, Any], missing: list[KeyView]) -> Set | None:
    """The empty groups that complete a technique which is switched off."""
    shared = data.get("shared_parameters", {})
    if missing[0].info.name != "different_groups" or not isinstance(shared, dict) or shared.get("enabled"):
        return None
    return Set((*path, "different_groups"), {})


def _incomplete(
    ctx: Context, spec: tuple[Any, ...], value: Any, path: Path
) -> Iterator[tuple[Path, dict[str, Any], list[KeyView]]]:
    """Every object in here that lacks required keys, with those keys; only objects are looked into."""
    if not isinstance(value, dict):
        return
    inner = child_section(spec)
    if inner is None:
        if spec[0] == "map":
            for word, member in value.items():
                yield from _incomplete(ctx, spec[1], member, (*path, word))
        return
    seen = ctx.walk.view(inner)
    missing = list(_missing(seen, value))
    if missing:
        yield path, value, missing
    for word, member in value.items():
        if word in seen.keys:
            yield from _incomplete(ctx, seen.keys[word].type, member, (*path, word))


def _missing(seen: SectionView, data: dict[str, Any]) -> Iterator[KeyView]:
    for word, key in seen.keys.items():
        if key.info.required and word not in data:
            yield key
