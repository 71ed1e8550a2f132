"""Kinds of hostile input: deep, long and large ones, odd bytes, and YAML."""

from __future__ import annotations

import random

from tests.fuzz.kinds import config, kind, object_of

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
    return config(optimizer={"type": "A" * size})


@kind()
def long_key(size: int) -> bytes:
    return config(**{"zero_optimization" * (size // 17): 1})


@kind()
def long_line_of_findings(size: int) -> bytes:
    return object_of([f'"k{i}":"auto"' for i in range(size // 14)]).replace(b"\n", b"")


@kind()
def many_digits(size: int) -> bytes:
    return b'{"train_batch_size": ' + b"9" * size + b"}"


@kind()
def digits_in_a_string(size: int) -> bytes:
    return b'{"train_batch_size": "' + b"9" * size + b'"}'


@kind()
def many_numbers_of_many_digits(size: int) -> bytes:
    number = "9" * 4000
    return object_of([f'"k{i}": {number}' for i in range(size // 4010)])


@kind()
def exponents(size: int) -> bytes:
    return object_of([f'"k{i}": 1e400' for i in range(size // 14)])


@kind()
def open_string(size: int) -> bytes:
    return b'{"$dsconfig": {}, "train_batch_size": 8, "a": "' + b"x\\u" * (size // 3)


@kind("hjson")
def open_multiline(size: int) -> bytes:
    return b'{"$dsconfig": {}\na: ' + b"'''\n" + b"'' x\n" * (size // 5)


@kind("hjson")
def bare_words(size: int) -> bytes:
    return b'{"$dsconfig": {}\n' + b"".join(b"k%d: word and word\n" % i for i in range(size // 20)) + b"}"


# -- bytes -------------------------------------------------------------------------------------------------


@kind()
def nul_bytes(size: int) -> bytes:
    return b"\0" * size


@kind()
def not_utf8(size: int) -> bytes:
    return b'{"a": "' + b"\xff\xfe" * (size // 2) + b'"}'


@kind()
def utf16(size: int) -> bytes:
    return object_of([f'"nobody_knows_{i}": 1' for i in range(size // 44)]).decode().encode("utf-16")


@kind()
def control_characters(size: int) -> bytes:
    return b'{"$dsconfig": {}, "train_batch_size": 8, "a": "' + bytes(range(1, 32)) * (size // 31) + b'"}'


@kind()
def wide_characters(size: int) -> bytes:
    return object_of([f'"k{i}": "\N{PILE OF POO}"' for i in range(size // 18)])


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
    return b"$dsconfig: {}\ntrain_batch_size: 8\n" + "\n".join(lines).encode()


@kind("yaml")
def odd_keys_below(size: int) -> bytes:
    lines = [
        "optimizer:",
        "  type: Adam",
        "  params: {1: 1, ~: 2, 1.5: 3}",
        "zero_optimization:",
        "  2001-01-01: 1",
    ]
    return ("$dsconfig: {}\ntrain_batch_size: 8\n" + "\n".join(lines) + "\n" + "# x\n" * (size // 4)).encode()


@kind("yaml")
def aliases(size: int) -> bytes:
    lines = ["a0: &a0 [1, 1]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, max(2, min(size // 24, 2000)))]
    return "\n".join(lines).encode()


@kind("yaml")
def aliases_without_end(size: int) -> bytes:
    return b"$dsconfig: {}\na: &a [1]\n" + b"".join(b"k%d: *a\n" % i for i in range(size // 10))


@kind("yaml")
def anchors(size: int) -> bytes:
    return b"$dsconfig: {}\n" + b"".join(b"k%d: &a%d 1\n" % (i, i) for i in range(size // 16))


@kind("yaml")
def merges_of_merges(size: int) -> bytes:
    lines = ["$dsconfig: {}", "a0: &a0 {k: 1}"]
    lines += [f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: 1}}" for i in range(1, max(2, min(size // 36, 300)))]
    return "\n".join(lines + ["# x"] * (size // 4)).encode()


@kind("yaml")
def yaml_comments(size: int) -> bytes:
    return b"$dsconfig: {}\ntrain_batch_size: 8\n" + b"".join(
        b"k%d: 1 # dsconfig: ignore[DSC101]\n" % i for i in range(size // 40)
    )


@kind("yaml")
def yaml_key_again_and_again(size: int) -> bytes:
    return b"train_batch_size: 8\n" * (size // 20)


@kind("yaml")
def merges(size: int) -> bytes:
    lines = ["$dsconfig: {}", "b: &b {train_batch_size: 8}"] + [
        f"k{i}: {{<<: *b}}" for i in range(size // 16)
    ]
    return "\n".join(lines).encode()


@kind("yaml")
def yaml_keys(size: int) -> bytes:
    return b"$dsconfig: {}\ntrain_batch_size: 8\n" + b"".join(b"k%d: 1\n" % i for i in range(size // 10))


@kind("yaml")
def yaml_nested(size: int) -> bytes:
    return b"a: " + b"{a: " * (size // 5) + b"1" + b"}" * (size // 5)


@kind("yaml")
def launch_file(size: int) -> bytes:
    head = b"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
    return head + b"".join(b"  k%d: auto\n" % i for i in range(size // 12))
