"""What inputs are made of: the project's own texts, configs from the key table, and ways to damage them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

from dsconfig.core.json_types import Spec
from dsconfig.job.consumers.accelerate_launch_file import BLOCK_KEYS, DISTRIBUTED_TYPES, PRECISIONS, ROOT_KEYS
from dsconfig.model.key_table import ROOT, child_section, keys_of_section_class, types_of_section
from tests.fuzz import inputs, odd_inputs  # noqa: F401  they register their kinds
from tests.fuzz.choices import HEADER, LARGEST
from tests.fuzz.kinds import KINDS

TESTS = Path(__file__).parents[1]
HOSTILE = (
    "null", "true", "false", "0", "-1", "1", "2", "3", "8", "1.5", "0.0", "-0.0", "1e9", "5e8", "1e-8",
    "1e308", "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "9223372036854775808", "10" + "0" * 400,
    "9" * 4400,
    '"auto"', '""', '" "', '"8"', '"0x10"', '"1e9"', '"true"', '"none"', '"None"', '"${BATCH}"', '"{{ x }}"',
    '"' + "9" * 4400 + '"', '"\\u0000"', '"\\u001b[31m"', '"\\ud800"', '"\\u202e"', '"\U0001f4a9"',
    '"a.b[0]"',
    "[]", "{}", "[[]]", '[{}]', "[1, 2]", '["a", 1]', '{"a": 1}', '{"": {}}', '{"enabled": true}',
    '{"enabled": "auto"}', '{"device": "cpu"}', '{"device": "nvme", "nvme_path": "/x"}', '{"stage": 3}',
    '{"type": "Adam", "params": {}}', '{"type": 1}', "[" * 40 + "]" * 40, "1_000", "0o17", "0x1F", "1:30",
    "~", "2001-12-14", "yes", "!!int 3", "&a [*a]", "*a", "<<: {a: 1}", "'''\n x\n'''", "|\n  x", "// c",
    "# c", "/* c */",
)  # fmt: skip
"""Values that are wrong, odd or only large, as text."""
PIECES = (
    *"{}[]():,\"'\\/#*&!|>-?%@`~.\n\r\t \0\x01\x1b\x7f\u0085\u2028\u202e\ufeff\xa0\ud800", "\r\n", "//",
    "/*", "*/", "'''", '"""', "---\n", "...\n", "<<: ", "\\u", "\\ud800", "\\x", "# dsconfig: ignore",
    "# dsconfig: ignore[DSC101]",
    "// dsconfig: ignore[unknown-key]", '"$dsconfig": {"ignore": ["DSC101"]},',
    '"$schema": "x",', "${X}", "{{x}}",
    "!!python/object:x ", "!!binary ", "%YAML 1.1\n", "- ", ": ", "? ", "\U0001f4a9", "e\u0301", "\xe9",
)  # fmt: skip
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|[A-Za-z_]\w*|[{}\[\],:]')


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


@cache
def seeds() -> tuple[bytes, ...]:
    """Contents to start from: demo, texts and cases of the tests, and each kind of hostile input, small."""
    found = {path.read_bytes() for path in (TESTS.parent / "demo" / "configs").iterdir()}
    found |= {path.read_bytes() for path in (TESTS / "document" / "texts").iterdir()}
    found |= {make(400) for make in KINDS.values()}
    for path in sorted((TESTS / "cases").rglob("*.json")):
        for case in json.loads(path.read_text("utf-8"))["cases"]:
            found.add(
                _bytes(case["text"]) if "text" in case else json.dumps(case["config"], indent=2).encode()
            )
    return tuple(sorted(each for each in found if len(each) < 4096))


@cache
def words() -> tuple[str, ...]:
    """Every key, alias, known word and type of the model, and the keys of launch files."""
    found = {
        *ROOT_KEYS,
        *BLOCK_KEYS,
        *DISTRIBUTED_TYPES,
        *PRECISIONS,
        "$dsconfig",
        "$schema",
        "<<",
        "",
        "params",
    }
    pending, seen = [ROOT], set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for key, info in keys_of_section_class(name).items():
            found |= {key, *(alias for alias, _ in info.aliases), *info.known}
            pending += _sections(info.type)
        for kind in types_of_section(name).values():
            found.add(kind.name)
            pending += [kind.params] if kind.params else []
    return tuple(sorted(found))


def _sections(spec: Spec) -> list[str]:
    if spec[0] == "section":
        return [str(spec[1])]
    return [name for arm in spec[1:] if isinstance(arm, tuple) for name in _sections(arm)]


# -- configs of the model ----------------------------------------------------------------------------------


def config(spread: Random) -> bytes:
    """A config with keys of the model, most of their values of the right type, in one of the formats."""
    style = spread.choice(("json", "json", "hjson", "yaml"))
    return _bytes(_object(ROOT, spread, style, 0))


def _object(section: str, spread: Random, style: str, depth: int) -> str:
    table = keys_of_section_class(section)
    entries = []
    for _ in range(spread.choice((0, 1, 1, 2, 3, 5) if depth else (1, 2, 2, 3, 4, 8))):
        key = spread.choice(list(table))
        value = _value(section, key, spread, style, depth)
        if spread.random() < 0.08:
            key = _misspelt(key, spread)
        entries.append(f"{_key(key, style)}: {value}")
    if section == ROOT and spread.random() < 0.8:
        entries.append(f"{_key('train_micro_batch_size_per_gpu', style)}: {spread.choice((1, 2, 4))}")
    pad = "\n" + "  " * (depth + 1)
    if style == "yaml":
        return pad.join(("", *entries)) if entries and depth else "\n".join(entries)
    glue = pad if style == "hjson" else f",{pad}" if spread.random() < 0.6 else ", "
    return f"{{{pad if chr(10) in glue else ''}{glue.join(entries)}}}"


def _key(key: str, style: str) -> str:
    return json.dumps(key) if style == "json" else key


def _value(section: str, key: str, spread: Random, style: str, depth: int) -> str:
    info = keys_of_section_class(section)[key]
    inner = child_section(info.type)
    if types_of_section(section) and key == "params":
        inner = spread.choice([kind.params for kind in types_of_section(section).values() if kind.params])
    if types_of_section(section) and key == "type":
        return json.dumps(spread.choice(list(types_of_section(section).values())).name)
    if inner and depth < 4 and spread.random() < 0.9:
        return _object(inner, spread, style, depth + 1)
    chance = spread.random()
    if chance < 0.2:
        return spread.choice(HOSTILE)
    if chance < 0.3 and info.known:
        return json.dumps(spread.choice(info.known))
    return _plain(info.type, spread)


def _plain(spec: Spec, spread: Random) -> str:
    """A value of the type, as text."""
    head = spec[0]
    if head == "union":
        return _plain(spread.choice(spec[1:]), spread)
    if head == "enum":
        return json.dumps(spread.choice(spec[1:]))
    if head in ("list", "map"):
        items = [_plain(spec[1], spread) for _ in range(spread.randrange(3))]
        if head == "list":
            return f"[{', '.join(items)}]"
        return "{" + ", ".join(f'"k{at}": {item}' for at, item in enumerate(items)) + "}"
    plain: dict[str, Sequence[str]] = {
        "bool": ("true", "false"),
        "int": ("0", "1", "2", "8", "1000", "500000000", "-1"),
        "float": ("0.0", "0.1", "1.0", "1e-5", "3", "0.999"),
        "null": ("null",),
    }
    return spread.choice(plain.get(str(head), ('"x"', '"auto"', '"bf16"', '"./x"')))


def _misspelt(word: str, spread: Random) -> str:
    at = spread.randrange(len(word) + 1)
    return word[:at] + spread.choice(("", "_", "x", word[:at][-1:])) + word[at + spread.randrange(3) :]


def launch(spread: Random) -> bytes:
    """A launch file of Accelerate, with values that are mostly its own."""
    lines = ["distributed_type: DEEPSPEED"] if spread.random() < 0.9 else []
    keys, block = sorted(ROOT_KEYS), sorted(BLOCK_KEYS)
    own = ("auto", "none", "no", "'no'", "fp16", "bf16", "3", "2", "0", "cpu", "nvme", "true", "8", "pdsh")

    def entry(names: list[str], indent: str) -> str:
        value = spread.choice(own) if spread.random() < 0.8 else spread.choice(HOSTILE)
        return f"{indent}{spread.choice(names)}: {value}"

    lines += [entry(keys, "") for _ in range(spread.randrange(6))]
    if spread.random() < 0.9:
        lines += ["deepspeed_config:"] + [entry(block, "  ") for _ in range(spread.randrange(8))]
    return _bytes("\n".join(lines) + "\n")


def soup(spread: Random) -> bytes:
    """Pieces of syntax, words and values, in no order."""
    pools: list[Sequence[str]] = [PIECES, PIECES, words(), HOSTILE, ("\n", "\n  ", ": ", ", ", '"')]
    return _bytes("".join(spread.choice(spread.choice(pools)) for _ in range(spread.randrange(1, 40))))


def noise(spread: Random) -> bytes:
    """Bytes that nobody wrote."""
    return spread.randbytes(spread.choice((1, 3, 20, 200)))


# -- damage ------------------------------------------------------------------------------------------------


def _token(data: bytes, spread: Random) -> bytes:
    found = list(_TOKEN.finditer(data))
    if not found:
        return data + _bytes(spread.choice(PIECES))
    at = spread.choice(found)
    new = spread.choice(HOSTILE) if spread.random() < 0.5 else json.dumps(spread.choice(words()))
    return data[: at.start()] + _bytes(new) + data[at.end() :]


def _put_in(data: bytes, spread: Random) -> bytes:
    at = spread.randrange(len(data) + 1)
    return data[:at] + _bytes(spread.choice(PIECES)) + data[at:]


def _entry(data: bytes, spread: Random) -> bytes:
    """Another key and value behind a brace, a comma or a line end."""
    places = [at.end() for at in re.finditer(rb"[{,\n]", data)] or [0]
    at, value = spread.choice(places), spread.choice(HOSTILE)
    return data[:at] + _bytes(f"{json.dumps(spread.choice(words()))}: {value},") + data[at:]


def _span(data: bytes, spread: Random) -> tuple[int, int]:
    start = spread.randrange(len(data) + 1)
    return start, min(len(data), start + spread.choice((1, 2, 8, 40)))


def _cut(data: bytes, spread: Random) -> bytes:
    start, end = _span(data, spread)
    return data[:start] + data[end:]


def _again(data: bytes, spread: Random) -> bytes:
    start, end = _span(data, spread)
    return data[:end] + data[start:end] * spread.choice((1, 1, 2, 30)) + data[end:]


def _line(data: bytes, spread: Random) -> bytes:
    """A line twice, away, elsewhere, or further in."""
    lines = data.split(b"\n")
    at = spread.randrange(len(lines))
    line = lines.pop(at)
    more = spread.choice(([line, line], [], [b"  " + line], [line.strip()], [line + b"\r"]))
    lines[at:at] = more
    return b"\n".join(lines)


def _splice(data: bytes, spread: Random) -> bytes:
    other = spread.choice(seeds())
    return data[: spread.randrange(len(data) + 1)] + other[spread.randrange(len(other) + 1) :]


def _truncated(data: bytes, spread: Random) -> bytes:
    return data[: spread.randrange(len(data) + 1)]


def _flipped(data: bytes, spread: Random) -> bytes:
    if not data:
        return data
    at = spread.randrange(len(data))
    return data[:at] + bytes([spread.randrange(256)]) + data[at + 1 :]


DAMAGE: tuple[Callable[[bytes, Random], bytes], ...] = (
    _token, _token, _token, _entry, _entry, _put_in, _put_in, _cut, _again, _line, _line, _splice,
    _truncated, _flipped,
)  # fmt: skip
MAKERS: tuple[Callable[[Random], bytes], ...] = (config, launch, soup, soup, noise, noise)


def mutate(content: bytes, spread: Random) -> bytes:
    """The content, damaged a few times."""
    for _ in range(spread.choice((1, 1, 2, 3, 5))):
        content = spread.choice(DAMAGE)(content, spread)
    return content[:LARGEST]


def fresh(spread: Random, pool: Sequence[bytes] = ()) -> bytes:
    """A new input, header and all. `pool`: inputs worth another look."""
    if pool and spread.random() < 0.35:
        data = spread.choice(pool)
        header = data[:HEADER] if spread.random() < 0.5 else spread.randbytes(HEADER)
        return header + mutate(data[HEADER:], spread)
    header = spread.randbytes(HEADER)
    if spread.random() < 0.4:
        return header + mutate(spread.choice(seeds()), spread)
    made = spread.choice(MAKERS)(spread)
    if spread.random() < 0.0005:
        made = (made * (LARGEST // max(1, len(made)) + 1))[: spread.choice((8192, LARGEST))]
    return header + (mutate(made, spread) if spread.random() < 0.4 else made)
