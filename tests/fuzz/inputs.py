"""Kinds of hostile input: many of one thing. `tests.fuzz.odd_inputs` holds the others."""

from __future__ import annotations

import json
import random

from dsconfig.model._generated import SECTIONS
from dsconfig.model.key_table import ROOT, keys_of_section_class
from tests.fuzz.kinds import config, kind, object_of


@kind()
def unknown_keys(size: int) -> bytes:
    return object_of([f'"nobody_knows_{i}": 1' for i in range(size // 22)])


@kind()
def keys_of_something_else(size: int) -> bytes:
    return object_of([f'"nobody_knows_{i}": 1' for i in range(size // 22)]).replace(b'"$dsconfig": {}, ', b"")


@kind()
def misspelt_keys(size: int) -> bytes:
    words = sorted(keys_of_section_class(ROOT))
    spread = random.Random(0)
    return object_of([f'"{_misspelt(spread.choice(words), spread)}{i}": 1' for i in range(size // 32)])


def _misspelt(word: str, spread: random.Random) -> str:
    at = spread.randrange(len(word))
    return word[:at] + spread.choice("abcdefghijklmnopqrstuvwxyz_") + word[at + 1 :]


@kind()
def misspelt_keys_of_zero(size: int) -> bytes:
    words = sorted(keys_of_section_class("ZeroOptimization"))
    spread = random.Random(1)
    count = size // 38
    return config(
        zero_optimization={f"{_misspelt(spread.choice(words), spread)}{i}": i for i in range(count)}
    )


@kind()
def one_key_again_and_again(size: int) -> bytes:
    return object_of(['"train_micro_batch_size_per_gpu": 1'] * (size // 38))


@kind()
def every_key_twice(size: int) -> bytes:
    return object_of([f'"k{i}": 1, "k{i}": 2' for i in range(size // 22)])


@kind()
def comments(size: int) -> bytes:
    return object_of([f'"k{i}": 1 // why' for i in range(size // 18)])


@kind()
def comments_only(size: int) -> bytes:
    return b'{"train_batch_size": 8}\n' + b"// nothing\n" * (size // 11)


@kind()
def missing_commas(size: int) -> bytes:
    return ('{"$dsconfig": {},' + "\n".join(f'"k{i}": 1' for i in range(size // 10)) + "}").encode()


@kind()
def trailing_commas(size: int) -> bytes:
    return object_of([f'"k{i}": [1,]' for i in range(size // 14)])


@kind()
def placeholders(size: int) -> bytes:
    return object_of([f'"k{i}": "${{NAME_{i}}}"' for i in range(size // 24)])


@kind()
def bare_placeholders(size: int) -> bytes:
    return object_of([f'"k{i}": ${{NAME_{i}}}' for i in range(size // 22)])


@kind()
def autos(size: int) -> bytes:
    return object_of([f'"k{i}": "auto"' for i in range(size // 16)])


@kind()
def suppressed_in_a_block(size: int) -> bytes:
    count = size // 44
    ignore = {"$dsconfig": {"ignore": {f"k{i}": ["DSC101"] for i in range(count)}}}
    return config(**ignore, **{f"k{i}": 1 for i in range(count)})


@kind()
def selectors_that_name_no_rule(size: int) -> bytes:
    return config(**{"$dsconfig": {"ignore": [f"no-rule-{i}" for i in range(size // 18)]}})


@kind("hjson")
def suppressing_comments(size: int) -> bytes:
    return object_of([f'"k{i}": 1 # dsconfig: ignore[DSC101]' for i in range(size // 42)])


@kind("hjson")
def suppressing_comments_above(size: int) -> bytes:
    count = size // 36
    return b"{train_batch_size: 8\n" + b"# dsconfig: ignore[unknown-key]\n" * count + b"}"


@kind("hjson")
def suppressing_comments_on_one_line(size: int) -> bytes:
    one = b'"k": "auto" /* dsconfig: ignore[DSC101] */,'
    return b'{"$dsconfig": {}, "train_batch_size": 8,' + one * (size // len(one)) + b'"z": 1}'


@kind("hjson")
def suppression_never_closed(size: int) -> bytes:
    return b"{train_batch_size: 8 #" + b" dsconfig: ignore[" * (size // 18) + b"\n}"


@kind()
def suppressed_below_many_keys(size: int) -> bytes:
    count = size // 60
    ignore = {
        "$dsconfig": {"ignore": {f"zero_optimization.k{i}": ["unknown-key", "DSC1"] for i in range(count)}}
    }
    return config(**ignore, zero_optimization={f"k{i}": 1 for i in range(count)})


@kind()
def misplaced_keys(size: int) -> bytes:
    words = sorted(
        {word for section in SECTIONS for word in keys_of_section_class(section)}
        - set(keys_of_section_class(ROOT))
    )
    entries = [f'"{word}": 1' for word in words] + [f'"k{i}": 1' for i in range(size // 10)]
    text = object_of(entries[: max(1, size // 24)])
    return text[:-1] + b"," + b" " * max(0, size - len(text)) + b'"z": 1}'


@kind()
def single_quotes(size: int) -> bytes:
    return object_of([f"'k{i}': 'x'" for i in range(size // 16)])


@kind()
def words_of_python(size: int) -> bytes:
    return object_of([f'"k{i}": True\n' for i in range(size // 16)])


@kind()
def words_of_yaml_at_one_key(size: int) -> bytes:
    return object_of([f'"fp16": none, "k{i}": 1' for i in range(size // 26)])


@kind()
def sections_on_one_line(size: int) -> bytes:
    return object_of([f'"k{i}":{{"a":1}}' for i in range(size // 18)]).replace(b"\n", b"")


@kind()
def findings_below_a_long_key(size: int) -> bytes:
    group = {"params": {f"p{i}": 1 for i in range(size // 30)}, **{f"u{i}": 1 for i in range(size // 30)}}
    technique = {"shared_parameters": {"enabled": True}, "different_groups": {"g" * (size // 2): group}}
    return config(compression_training={"weight_quantization": technique})


@kind()
def suppressed_below_long_keys(size: int) -> bytes:
    keys = ["k." * length for length in range(1, int(size**0.5))]
    return config(**{"$dsconfig": {"ignore": {key: ["DSC101"] for key in keys}}}, **{"k." * (size // 4): 1})


@kind()
def curriculum_of_many(size: int) -> bytes:
    levels = list(range(size // 16))
    schedule = {"difficulty": levels, "max_step": levels[1:]}
    curriculum = {"enabled": True, "curriculum_type": "seqlen", "min_difficulty": 1, "max_difficulty": 9}
    return config(
        curriculum_learning={**curriculum, "schedule_type": "fixed_discrete", "schedule_config": schedule}
    )


@kind()
def groups_of_compression(size: int) -> bytes:
    groups = {
        f"g{i}": {"params": {"start_bits": 8, "target_bits": "8"}, "modules": [1]} for i in range(size // 70)
    }
    technique = {"shared_parameters": {"enabled": True}, "different_groups": groups}
    return config(compression_training={"weight_quantization": technique})


@kind()
def micro_batches(size: int) -> bytes:
    spread = random.Random(2)
    sizes = [spread.randrange(1, 100_000) for _ in range(size // 8)]
    block = {"enabled": True, "max_train_batch_size": 10_000_000, "micro_batch_sizes": sizes}
    return json.dumps({"elasticity": {**block, "min_gpus": 1, "max_gpus": 10_000, "version": 0.1}}).encode()


@kind()
def micro_batches_of_one(size: int) -> bytes:
    sizes = list(range(1, size // 8))
    block = {"enabled": True, "max_train_batch_size": 10**12, "micro_batch_sizes": sizes, "version": 0.2}
    return json.dumps({"elasticity": {**block, "min_gpus": 1, "max_gpus": 10**7}}).encode()


@kind()
def betas(size: int) -> bytes:
    return config(optimizer={"type": "Adam", "params": {"betas": [0.5] * (size // 5)}})


@kind()
def list_where_an_object_belongs(size: int) -> bytes:
    return config(zero_optimization=[0] * (size // 3), fp16=[[]] * 10)
