"""A few hundred inputs of each kind for every change; `make fuzz` runs as many as there is time for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from dsconfig.cli import main
from tests.fuzz import choices, material
from tests.fuzz.choices import HEADER, VERBS, Input, decode
from tests.fuzz.targets import BrokenError, caught, fault, one, run

HEADERS = st.binary(min_size=HEADER, max_size=HEADER)
SPREADS = st.randoms(use_true_random=False)
QUICK = settings(max_examples=250, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty working directory without settings; the environment as it was, afterwards."""
    before, environment = Path.cwd(), dict(os.environ)
    folder = tmp_path_factory.mktemp("fuzz")
    os.chdir(folder)
    (folder / ".git").mkdir()
    os.environ.pop("DSCONFIG_TARGET", None)
    yield folder
    os.chdir(before)
    os.environ.clear()
    os.environ.update(environment)


def damaged(spread: Random) -> bytes:
    """One of the project's own texts, damaged."""
    return material.mutate(spread.choice(material.seeds()), spread)


MAKERS = {make.__name__: make for make in (material.config, material.launch, material.soup, damaged)}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@QUICK
@given(header=HEADERS, spread=SPREADS)
def test_what_looks_like_a_config(make: Callable[[Random], bytes], header: bytes, spread: Random) -> None:
    tried(header + make(spread))


@QUICK
@given(header=HEADERS, text=st.text())
def test_any_text(header: bytes, text: str) -> None:
    tried(header + text.encode(errors="surrogatepass"))


@QUICK
@given(header=HEADERS, content=st.binary())
def test_any_bytes(header: bytes, content: bytes) -> None:
    tried(header + content)


def kept(verb: Callable[..., Input], content: bytes, *choices: int) -> bytes:
    """An input that chooses consumer, name, size, target and options by these numbers."""
    return bytes([VERBS.index(verb), *choices]).ljust(HEADER, b"\0") + content


BAIT = b"""\xe2\x80\xa8[*/O3foreach*: ${"eps",X"g"\\? null: '''
 x
'''\t# dsconfig: ignore[DSC101]
: lr_scaling_method"Adam"\\ud800"""
KEPT = {
    "a comment read twice behind an open bracket": kept(choices.check_stdin, b'{"a": [0\xd7 0, 0,# c', 4),
    "a fix of a file that cannot be written": kept(choices.fix, b"\xb8", 2, 0, 0, 0, 4),
    "a fix that has no place in the text": kept(
        choices.check, b'{"train_batch_size""auto" 8, "fp16": {"loss_scale": "inf"}}'
    ),
    "a fix that does harm at first": kept(
        choices.fix, b'{"train_batch_size": 8, "fp16": {"initial_scale_power": "16"}}', 2, 0, 4, 8, 3
    ),
    "half a UTF-16 pair in single quotes": kept(choices.fix, b"'\\ud800'", 3, 0, 0, 5, 1),
    "text for a number of tokens": kept(
        choices.show,
        b'{"train_batch_size": 8, "data_efficiency": {"data_sampling": '
        b'{"dynamic_batching": {"enabled": true, "max_tokens": "8k"}}}}',
    ),
    "ranks divided by a negative number": kept(
        choices.show, b'{"sequence_parallel_size": -1, "train_micro_batch_size_per_gpu": 1}', 2, 0, 2, 6
    ),
    "a warm-up without end": kept(
        choices.check,
        b'{"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1e400}}}',
    ),
    "a space that only strip knows": kept(choices.check, b'{"train_batch_size": "\\u001c 4"}'),
    "one fix after the other in a text past help": kept(choices.fix, BAIT, 2, 0, 2, 9, 1),
}
"""What was found once."""


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_what_was_found(data: bytes) -> None:
    one(data)


def tried(data: bytes) -> None:
    note(f"{decode(data).argv} on {data[HEADER:]!r}")
    one(data)


# -- the suite itself --------------------------------------------------------------------------------------

SAMPLE = b'{"train_batch_size": 8, "fp16": {"enabled": "yes"}, "no_such_key": 1,}'


def test_every_verb_is_chosen_by_a_byte() -> None:
    verbs = {decode(bytes([number])).argv[0] for number in range(len(VERBS))}
    assert verbs == {"check", "fix", "migrate", "resolve", "show", "compat", "python"}


@pytest.mark.parametrize("number", range(0, len(VERBS), 12))
def test_a_run_is_that_of_the_command(number: int) -> None:
    given = decode(bytes([number, 1, 0, 2, 0, 1]) + SAMPLE)
    if given.argv[0] == "python":
        return
    quick, whole = (_run(given, how) for how in (run, _main))
    assert quick == whole


def _run(given: Input, how: Callable[..., tuple[object, ...]]) -> tuple[object, ...]:
    for name, content in given.files:
        Path(name).write_bytes(content)
    found = how(given.argv, given.content if given.stdin else b"")
    for name in os.listdir():
        if name != ".git":
            os.unlink(name)
    return found[:3]


def _main(argv: tuple[str, ...], stdin: bytes) -> tuple[object, ...]:
    with caught(stdin) as (out, err):
        code = main(argv)
    return code, out.getvalue().decode(), err.getvalue().decode()


@pytest.mark.parametrize(
    ("verb", "broken"),
    [
        (choices.check, "dsconfig.cli.check_files check"),
        (choices.fix, "dsconfig.cli.fix_files fix_jobs"),
        (choices.resolve, "dsconfig.resolve.resolve resolve_job"),
    ],
)
def test_what_is_raised_is_seen(
    monkeypatch: pytest.MonkeyPatch, verb: Callable[..., Input], broken: str
) -> None:
    module, name = broken.split()
    monkeypatch.setattr(import_module(module), name, lambda *_, **__: int("9" * 5000))
    with pytest.raises((BrokenError, ValueError)) as seen:
        one(kept(verb, SAMPLE))
    assert "ValueError" in fault(seen.value)


def test_a_place_outside_the_text_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dsconfig.core.diagnostic._location_as_json",
        lambda _: dict.fromkeys(("line", "column", "end_line", "end_column"), 9),
    )
    with pytest.raises(BrokenError, match="a line outside the text"):
        one(kept(choices.check, SAMPLE, 0, 0, 0, 0, 2))
