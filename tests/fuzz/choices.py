"""An input of the fuzzers: its first bytes choose a verb and options, the rest is the file that is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dsconfig.job.consumers import CONSUMERS
from dsconfig.render import FORMATS

HEADER = 6
"""Bytes that choose: verb, consumer, name of the file, world size, target, and options."""
LARGEST = 64 * 1024
"""Bytes of content that are read."""

TARGETS = ("0.19.8", "0.19.8", "0.19.8", "0.14.5", "0.16.9", "0.9.5", "0.17.6", "0.3.1", "0.12.6", "0.18.2")
RANGES = (">=0.19", ">=0.14,<0.19.8", ">=0.16.4,<=0.18.2", ">=0.3.1")
READERS = ("deepspeed", *CONSUMERS)
SIZES = (None, None, 8, 1, 7, 999_999_999)
NAMES = ("ds_config.json", "ds_config.json", "input.yaml", "input.hjson")
ARGUMENTS, LAUNCH, SETTINGS, OUT = "args.yaml", "launch.yaml", "dsconfig.toml", "out.json"

CLEAN = b'{"train_batch_size": 8}\n'
AUTO = b"""{
  "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "train_batch_size": "auto",
  "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "gradient_clipping": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}
}
"""
LINKING = b"""distributed_type: DEEPSPEED
num_processes: 8
deepspeed_config:
  deepspeed_config_file: ds_config.json
  zero3_init_flag: true
"""


class Input(NamedTuple):
    """One run: `verb` as the figures name it, its words, and the files that it finds."""

    verb: str
    argv: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]
    """By name; the first is the input, and what a verb called `api` reads."""
    stdin: bool = False
    target: str = TARGETS[0]
    consumer: str = "deepspeed"
    world_size: int | None = None

    @property
    def name(self) -> str:
        return self.files[0][0]

    @property
    def content(self) -> bytes:
        return self.files[0][1]


class Drawn(NamedTuple):
    """What the header says, as far as verbs have it in common."""

    target: str
    consumer: str
    world_size: int | None
    name: str
    content: bytes
    number: int
    bits: int

    def has(self, bit: int) -> bool:
        return bool(self.bits >> bit & 1)

    @property
    def size(self) -> tuple[str, ...]:
        return () if self.world_size is None else ("--world-size", str(self.world_size))

    @property
    def reader(self) -> tuple[str, ...]:
        return ("--consumer", self.consumer)

    def input(self, verb: str, *argv: str, target: str | None = None) -> Input:
        chosen = self.target if target is None else target
        files = ((self.name, self.content),)
        return Input(verb, argv, files, False, chosen, self.consumer, self.world_size)


def decode(data: bytes) -> Input:
    """The run that these bytes stand for; any bytes stand for one."""
    verb, consumer, name, size, number, bits = data[:HEADER].ljust(HEADER, b"\0")
    content = data[HEADER : HEADER + LARGEST]
    drawn = Drawn(
        TARGETS[number % len(TARGETS)],
        READERS[consumer % len(READERS)],
        SIZES[size % len(SIZES)],
        NAMES[name % len(NAMES)],
        content,
        number,
        bits,
    )
    return VERBS[verb % len(VERBS)](drawn)


def check(drawn: Drawn) -> Input:
    style = FORMATS[drawn.bits % len(FORMATS)]
    color = ("--color", "always") if drawn.has(6) else ()
    counted = ("--statistics",) if drawn.has(7) else ()
    words = ("--target", drawn.target, "--output-format", style, *drawn.size, *drawn.reader, *color, *counted)
    return drawn.input(f"check {style}", "check", drawn.name, *words)


def check_range(drawn: Drawn) -> Input:
    style = FORMATS[drawn.bits % len(FORMATS)]
    target = RANGES[drawn.number % len(RANGES)]
    words = ("--target", target, "--output-format", style, *drawn.size, *drawn.reader)
    return drawn.input("check, a range", "check", drawn.name, *words, target=target)


def check_stdin(drawn: Drawn) -> Input:
    words = ("--stdin-filename", drawn.name, "--target", drawn.target, "--output-format", "json")
    made = drawn.input("check -", "check", "-", *words, *drawn.size, *drawn.reader)
    return made._replace(stdin=True)


def fix(drawn: Drawn) -> Input:
    unsafe = ("--unsafe-fixes",) if drawn.has(0) else ()
    verb = ("check", "--fix", "--output-format", "json") if drawn.has(2) else ("fix",)
    words = (drawn.name, "--target", drawn.target, *drawn.size, *drawn.reader, *unsafe)
    return drawn.input("fix, unsafe" if unsafe else "fix", *verb, *words)


def fix_diff(drawn: Drawn) -> Input:
    unsafe = ("--unsafe-fixes",) if drawn.has(0) else ()
    words = (drawn.name, "--target", drawn.target, *drawn.size, *drawn.reader, *unsafe)
    return drawn.input("fix --diff", "fix", "--diff", *words)


def migrate(drawn: Drawn) -> Input:
    origin, to = (("0.14.5", "0.19.8"), ("0.9.5", "0.16.9"), ("0.16.9", "0.19.8"), ("0.3.1", "0.14.5"))[
        drawn.number % 4
    ]
    kept = ("--diff",) if drawn.has(0) else ("-o", OUT)
    words = (drawn.name, "--from", origin, "--to", to, *kept, *drawn.size, *drawn.reader)
    return drawn.input("migrate", "migrate", *words, target=to)


def resolve(drawn: Drawn) -> Input:
    size = drawn.world_size or 16
    degrees = ("--tp", "2", "--pp", "2") if drawn.has(0) else ("--sp", "2") if drawn.has(1) else ()
    written = ("--set", "zero_optimization.stage=2") if drawn.has(2) else ()
    words = ("--target", drawn.target, *drawn.reader, *degrees, *written)
    made = drawn.input("resolve", "resolve", drawn.name, "--world-size", str(size), *words)
    return made._replace(world_size=size)


def show(drawn: Drawn) -> Input:
    style = "json" if drawn.has(0) else "table"
    every = ("--all",) if drawn.has(1) else ()
    key = ("zero_optimization",) if drawn.has(2) else ()
    words = ("--target", drawn.target, "--output-format", style, *drawn.size, *drawn.reader, *every)
    return drawn.input(f"show {style}", "show", drawn.name, *key, *words)


def compat(drawn: Drawn) -> Input:
    style = "text" if drawn.has(0) else "json"
    target = RANGES[drawn.number % len(RANGES)]
    words = ("--target", target, "--output-format", style, *drawn.size, *drawn.reader)
    return drawn.input("compat", "compat", drawn.name, *words, target=target)


def arguments(drawn: Drawn) -> Input:
    """The content is what a trainer fills "auto" from, or the model's config."""
    option = "--model-config" if drawn.has(0) else "--training-args"
    verb = ("show",) if drawn.has(1) else ("resolve", "--world-size", "8")
    words = (NAMES[0], "--target", drawn.target, "--consumer", READERS[2 + drawn.number % 2])
    made = drawn.input("training arguments", *verb, *words, option, ARGUMENTS)
    return made._replace(files=((ARGUMENTS, drawn.content), (NAMES[0], AUTO)))


def linked(drawn: Drawn) -> Input:
    """The content is the config that a launch file names, or the launch file."""
    words = ("--output-format", FORMATS[drawn.bits % len(FORMATS)], "--target", drawn.target, *drawn.size)
    made = drawn.input("check, launch file", "check", LAUNCH, *words)
    if drawn.number % 2:
        return made._replace(files=((LAUNCH, drawn.content), (NAMES[0], CLEAN)))
    return made._replace(files=((NAMES[0], drawn.content), (LAUNCH, LINKING)))


def settings(drawn: Drawn) -> Input:
    made = drawn.input("settings", "check", NAMES[0], "--output-format", "json")
    return made._replace(files=((SETTINGS, drawn.content), (NAMES[0], CLEAN)))


def python(drawn: Drawn) -> Input:
    """The functions of the package, which `dsconfig.check` and its like are."""
    words = ("check", "load", "fix", "data")
    return drawn.input("Python", "python", words[drawn.bits % len(words)])


_WEIGHTS: dict[Callable[[Drawn], Input], int] = {
    check: 60,
    check_stdin: 12,
    fix: 20,
    fix_diff: 12,
    resolve: 40,
    show: 30,
    arguments: 24,
    linked: 8,
    settings: 12,
    python: 6,
    # What asks many releases takes ten times as long.
    migrate: 3,
    check_range: 1,
    compat: 1,
}
VERBS = tuple(verb for verb, weight in _WEIGHTS.items() for _ in range(weight))
"""The first byte chooses among them."""
