"""Kinds of hostile input, each a function from a size (about the bytes wanted) to the bytes of a file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from dsconfig.model.keyinfo import ROOT, section_keys

Kind = Callable[[int], bytes]
KINDS: dict[str, Kind] = {}
"""By name; the part behind the last hyphen is the file's suffix."""


def kind(suffix: str = "json") -> Callable[[Kind], Kind]:
    """Register a kind, under the function's name."""

    def register(make: Kind) -> Kind:
        KINDS[f"{make.__name__.replace('_', ' ')}.{suffix}"] = make
        return make

    return register


def _config(**keys: Any) -> bytes:
    return json.dumps({"train_batch_size": 8, **keys}).encode()


def _object(entries: list[str]) -> bytes:
    return ('{"train_batch_size": 8,\n' + ",\n".join(entries) + "}").encode()


# -- many of one thing -------------------------------------------------------------------------------------


@kind()
def unknown_keys(size: int) -> bytes:
    return _object([f'"nobody_knows_{i}": 1' for i in range(size // 22)])


@kind()
def misspelt_keys(size: int) -> bytes:
    words = sorted(section_keys(ROOT))
    spread = random.Random(0)
    return _object([f'"{_misspelt(spread.choice(words), spread)}{i}": 1' for i in range(size // 32)])


def _misspelt(word: str, spread: random.Random) -> str:
    at = spread.randrange(len(word))
    return word[:at] + spread.choice("abcdefghijklmnopqrstuvwxyz_") + word[at + 1 :]


@kind()
def misspelt_keys_of_zero(size: int) -> bytes:
    words = sorted(section_keys("ZeroOptimization"))
    spread = random.Random(1)
    count = size // 38
    return _config(
        zero_optimization={f"{_misspelt(spread.choice(words), spread)}{i}": i for i in range(count)}
    )


@kind()
def one_key_again_and_again(size: int) -> bytes:
    return _object(['"train_micro_batch_size_per_gpu": 1'] * (size // 38))


@kind()
def every_key_twice(size: int) -> bytes:
    return _object([f'"k{i}": 1, "k{i}": 2' for i in range(size // 22)])


@kind()
def comments(size: int) -> bytes:
    return _object([f'"k{i}": 1 // why' for i in range(size // 18)])


@kind()
def comments_only(size: int) -> bytes:
    return b'{"train_batch_size": 8}\n' + b"// nothing\n" * (size // 11)


@kind()
def missing_commas(size: int) -> bytes:
    return ("{" + "\n".join(f'"k{i}": 1' for i in range(size // 10)) + "}").encode()


@kind()
def trailing_commas(size: int) -> bytes:
    return _object([f'"k{i}": [1,]' for i in range(size // 14)])


@kind()
def placeholders(size: int) -> bytes:
    return _object([f'"k{i}": "${{NAME_{i}}}"' for i in range(size // 24)])


@kind()
def bare_placeholders(size: int) -> bytes:
    return _object([f'"k{i}": ${{NAME_{i}}}' for i in range(size // 22)])


@kind()
def autos(size: int) -> bytes:
    return _object([f'"k{i}": "auto"' for i in range(size // 16)])


@kind()
def suppressed_in_a_block(size: int) -> bytes:
    count = size // 44
    ignore = {"$dsconfig": {"ignore": {f"k{i}": ["DSC101"] for i in range(count)}}}
    return _config(**ignore, **{f"k{i}": 1 for i in range(count)})


@kind()
def selectors_that_name_no_rule(size: int) -> bytes:
    return _config(**{"$dsconfig": {"ignore": [f"no-rule-{i}" for i in range(size // 18)]}})


@kind("hjson")
def suppressing_comments(size: int) -> bytes:
    return _object([f'"k{i}": 1 # dsconfig: ignore[DSC101]' for i in range(size // 42)])


@kind("hjson")
def suppressing_comments_above(size: int) -> bytes:
    count = size // 36
    return b"{train_batch_size: 8\n" + b"# dsconfig: ignore[unknown-key]\n" * count + b"}"


@kind()
def curriculum_of_many(size: int) -> bytes:
    levels = list(range(size // 16))
    schedule = {"difficulty": levels, "max_step": levels[1:]}
    curriculum = {"enabled": True, "curriculum_type": "seqlen", "min_difficulty": 1, "max_difficulty": 9}
    return _config(
        curriculum_learning={**curriculum, "schedule_type": "fixed_discrete", "schedule_config": schedule}
    )


@kind()
def groups_of_compression(size: int) -> bytes:
    groups = {
        f"g{i}": {"params": {"start_bits": 8, "target_bits": "8"}, "modules": [1]} for i in range(size // 70)
    }
    technique = {"shared_parameters": {"enabled": True}, "different_groups": groups}
    return _config(compression_training={"weight_quantization": technique})


@kind()
def micro_batches(size: int) -> bytes:
    spread = random.Random(2)
    sizes = [spread.randrange(1, 100_000) for _ in range(size // 8)]
    block = {"enabled": True, "max_train_batch_size": 10_000_000, "micro_batch_sizes": sizes}
    return json.dumps({"elasticity": {**block, "min_gpus": 1, "max_gpus": 10_000, "version": 0.1}}).encode()


@kind()
def betas(size: int) -> bytes:
    return _config(optimizer={"type": "Adam", "params": {"betas": [0.5] * (size // 5)}})


@kind()
def list_where_an_object_belongs(size: int) -> bytes:
    return _config(zero_optimization=[0] * (size // 3), fp16=[[]] * 10)


# -- deep, long, large -------------------------------------------------------------------------------------


@kind()
def nested_objects(size: int) -> bytes:
    return b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6)


@kind()
def nested_lists(size: int) -> bytes:
    return b'{"a":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}"


@kind()
def never_closed(size: int) -> bytes:
    return b'{"a":[' * (size // 6)


@kind()
def long_string(size: int) -> bytes:
    return _config(optimizer={"type": "A" * size})


@kind()
def long_key(size: int) -> bytes:
    return _config(**{"zero_optimization" * (size // 17): 1})


@kind()
def long_line_of_findings(size: int) -> bytes:
    return _object([f'"k{i}":"auto"' for i in range(size // 14)]).replace(b"\n", b"")


@kind()
def many_digits(size: int) -> bytes:
    return b'{"train_batch_size": ' + b"9" * size + b"}"


@kind()
def digits_in_a_string(size: int) -> bytes:
    return b'{"train_batch_size": "' + b"9" * size + b'"}'


@kind()
def many_numbers_of_many_digits(size: int) -> bytes:
    number = "9" * 4000
    return _object([f'"k{i}": {number}' for i in range(size // 4010)])


@kind()
def exponents(size: int) -> bytes:
    return _object([f'"k{i}": 1e400' for i in range(size // 14)])


@kind()
def open_string(size: int) -> bytes:
    return b'{"train_batch_size": 8, "a": "' + b"x\\u" * (size // 3)


@kind("hjson")
def open_multiline(size: int) -> bytes:
    return b"{a: '''\n" + b"'' x\n" * (size // 5)


@kind("hjson")
def bare_words(size: int) -> bytes:
    return b"{\n" + b"".join(b"k%d: word and word\n" % i for i in range(size // 20)) + b"}"


# -- bytes -------------------------------------------------------------------------------------------------


@kind()
def nul_bytes(size: int) -> bytes:
    return b"\0" * size


@kind()
def not_utf8(size: int) -> bytes:
    return b'{"a": "' + b"\xff\xfe" * (size // 2) + b'"}'


@kind()
def utf16(size: int) -> bytes:
    return unknown_keys(size // 2).decode().encode("utf-16")


@kind()
def control_characters(size: int) -> bytes:
    return b'{"train_batch_size": 8, "a": "' + bytes(range(1, 32)) * (size // 31) + b'"}'


@kind()
def wide_characters(size: int) -> bytes:
    return _object([f'"k{i}": "\N{PILE OF POO}"' for i in range(size // 18)])


@kind()
def noise(size: int) -> bytes:
    return random.Random(3).randbytes(size)


@kind()
def brackets_and_quotes(size: int) -> bytes:
    return bytes(random.Random(4).choices(b"{}[]\",:\n #/*'1a", k=size))


# -- YAML --------------------------------------------------------------------------------------------------


@kind("yaml")
def keys_that_are_no_strings(size: int) -> bytes:
    odd = ["1.5: 1", "~: 1", "true: 1", "2001-12-14: 1", "[1, 2]: 1", "? {a: 1}\n: 1"]
    lines = [f"{odd[i % len(odd)]}" for i in range(size // 12)]
    return b"train_batch_size: 8\n" + "\n".join(lines).encode()


@kind("yaml")
def odd_keys_below(size: int) -> bytes:
    lines = [
        "optimizer:",
        "  type: Adam",
        "  params: {1: 1, ~: 2, 1.5: 3}",
        "zero_optimization:",
        "  2001-01-01: 1",
    ]
    return ("train_batch_size: 8\n" + "\n".join(lines) + "\n" + "# x\n" * (size // 4)).encode()


@kind("yaml")
def aliases(size: int) -> bytes:
    lines = ["a0: &a0 [1, 1]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, max(2, min(size // 24, 2000)))]
    return "\n".join(lines).encode()


@kind("yaml")
def merges(size: int) -> bytes:
    lines = ["b: &b {train_batch_size: 8}"] + [f"k{i}: {{<<: *b}}" for i in range(size // 16)]
    return "\n".join(lines).encode()


@kind("yaml")
def yaml_keys(size: int) -> bytes:
    return b"train_batch_size: 8\n" + b"".join(b"k%d: 1\n" % i for i in range(size // 10))


@kind("yaml")
def yaml_nested(size: int) -> bytes:
    return b"a: " + b"{a: " * (size // 5) + b"1" + b"}" * (size // 5)


@kind("yaml")
def launch_file(size: int) -> bytes:
    head = b"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
    return head + b"".join(b"  k%d: auto\n" % i for i in range(size // 12))
