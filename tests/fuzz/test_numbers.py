"""Numbers at the edge of floats, and Python values that JSON lacks: a diagnostic or a documented error."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import io
import json
import os
import subprocess
import sys
import threading
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dsconfig
from dsconfig.cli import main
from tests.fuzz.numbers import WRITTEN, config_with, number_paths

VERBS = (
    ("check", "--output-format", "json"),
    ("check", "--output-format", "sarif"),
    ("show", "--output-format", "json"),
    ("compat", "--output-format", "json"),
    ("resolve", "--world-size", "8"),
    ("memory", "--model", "llama-3-8b", "--world-size", "8", "--output-format", "json"),
    ("migrate", "--from", "0.14.5", "--to", "0.19.8", "-o", "out.file"),
    ("fix", "--diff"),
)
PRINTS_JSON = ("check", "show", "compat", "memory", "resolve")


def _run(*argv: str) -> tuple[int, str, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
    out.seek(0)
    return code, out.read(), err.getvalue()


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.parametrize(("name", "word"), WRITTEN, ids=lambda text: text[:24])
def test_any_number_at_any_key_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    turn = WRITTEN.index((name, word))
    for index, path in enumerate(number_paths()):
        verb = VERBS[(index + turn) % len(VERBS)]
        (tmp_path / name).write_text(config_with(path, word))
        checked = dsconfig.check(name)
        json.loads(checked.to_json(), parse_constant=_no_constant)
        if index % 3 and verb[0] != "check":  # a check of every key, the slower verbs of every third
            continue
        code, out, err = _run(verb[0], name, *verb[1:])
        assert "internal error" not in err, (verb, path, err)
        assert code in (0, 1, 2), (verb, path)
        assert out or err or verb[0] in ("fix", "migrate"), (verb, path)
        if out and verb[0] in PRINTS_JSON:
            json.loads(out, parse_constant=_no_constant)


# -- Python's own values -----------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1


class Count(int): ...


class Word(str): ...


class Fields(dict[str, object]): ...


def _recursive() -> dict[str, object]:
    inner: dict[str, object] = {}
    inner["again"] = [inner]
    return inner


KEYS = (None, 1, True, 1.5, (1, "a"), b"key", frozenset({1}), Color.RED, int)
VALUES = (
    *(
        {1, 2},
        object(),
        b"bytes",
        bytearray(b"bytes"),
        Path("a"),
        Color.RED,
        Count(3),
        Word("auto"),
        Fields(a=1),
    ),
    *(float("inf"), float("-inf"), float("nan"), 10**400, 10**5000, 1j, Decimal(1), Fraction(1, 3)),
    *(dt.date(2026, 1, 1), range(3), threading.Lock(), (each for each in ()), len, Ellipsis),
    *(types.MappingProxyType({"stage": 3}), OrderedDict(stage=3), UserDict(stage=3), (1, 2), _recursive()),
)
WHERE = ("train_batch_size", "gradient_clipping", "zero_optimization", "fp16", "optimizer", "unknown")
FUNCTIONS: dict[str, Callable[[object], object]] = {
    "check": dsconfig.check,  # type: ignore[dict-item]
    "compat": dsconfig.compat,  # type: ignore[dict-item]
    "fix": lambda config: dsconfig.fix(config, unsafe=True),  # type: ignore[arg-type]
    "show": lambda config: dsconfig.show(config, world_size=8),  # type: ignore[arg-type]
    "resolve": lambda config: dsconfig.resolve(config, world_size=8),  # type: ignore[arg-type]
    "migrate": lambda config: dsconfig.migrate(config, to="0.19.8", origin="0.14.5"),  # type: ignore[arg-type]
    "memory": lambda config: dsconfig.memory(config, model="llama-3-8b", world_size=8),  # type: ignore[arg-type]
}
WRITES = ("fix", "migrate")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_python_values_that_json_lacks_are_answered(function: str) -> None:
    for value in (*VALUES, *_others()):
        for key in WHERE:
            config = {"train_batch_size": 8, key: value}
            _answered(function, config)
            _answered(function, {"train_batch_size": 8, "zero_optimization": {"stage": 3, key: [value]}})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_keys_that_are_no_strings_are_answered(function: str) -> None:
    for key in KEYS:
        for config in (
            {key: 1},
            {"train_batch_size": 8, key: {key: 1}},
            {"train_batch_size": 8, "zero_optimization": {"stage": 3, key: 1}},
            {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 1e-4, key: [{key: 1}]}}},
        ):
            raised = _answered(function, config)
            if function in WRITES:
                assert "which is not a string" in str(raised), config


def test_what_cannot_be_written_as_json_is_named() -> None:
    for value, said in (({1}, "`set`"), (float("nan"), "not JSON"), (_recursive(), "nested deeper")):
        with pytest.raises(ValueError, match="the Python dict cannot be written as JSON") as raised:
            dsconfig.fix({"train_batch_size": 8, "gradient_clipping": value})
        assert said in str(raised.value)


def test_messages_name_the_python_type() -> None:
    messages = [found.message for found in dsconfig.check({"train_batch_size": {8}})]
    assert any("a Python value of the type `set`" in message for message in messages)


def _answered(function: str, config: object) -> Exception | None:
    """The documented error; whatever else is raised fails the test."""
    try:
        answer = FUNCTIONS[function](config)
    except ValueError as error:
        assert function not in ("check", "compat"), config
        return error
    repr(answer)
    if isinstance(answer, dsconfig.Report):
        json.loads(answer.to_json(), parse_constant=_no_constant)
    return None


def _others() -> list[object]:
    """Values of numpy and torch, where they are installed."""
    found: list[object] = []
    with contextlib.suppress(ImportError):
        import numpy as np

        found += [np.float32(1), np.int64(3), np.bool_(True), np.array([1, 2])]
    with contextlib.suppress(ImportError):
        import torch

        found += [torch.float16, torch.tensor(1.0)]
    return found


# -- without docstrings ------------------------------------------------------------------------------------

ALL_WORDS = (
    *(
        ("check", "ds_config.json"),
        ("check", "ds_config.json", "--output-format", "sarif"),
        ("fix", "--diff"),
    ),
    *(("explain", "DSC202"), ("explain", "optimizer.type"), ("rules",), ("rules", "--output-format", "json")),
    *(("show", "ds_config.json"), ("compat", "ds_config.json"), ("schema",), ("init", "--list")),
    *(("resolve", "ds_config.json", "--world-size", "8"), ("elastic", "plan", "--help"), ("help", "lsp")),
    ("memory", "ds_config.json", "--model", "llama-3-8b", "--world-size", "8"),
    ("migrate", "ds_config.json", "--from", "0.14.5", "--to", "0.19.8"),
)


def test_every_verb_says_the_same_without_docstrings(tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": "3"}}')
    program = (
        "import sys, json; from dsconfig.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    code = main(words); print('exit code', code, words, flush=True)\n"
    )
    said = [
        subprocess.run(
            [sys.executable, *flags, "-c", program, json.dumps(ALL_WORDS)],
            cwd=tmp_path,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(dsconfig.__file__).parents[1])},
        )
        for flags in ((), ("-OO",))
    ]
    assert said[0].stdout == said[1].stdout
    assert said[0].stderr == said[1].stderr
    assert b"internal error" not in said[0].stderr


def test_the_language_server_runs_without_docstrings(tmp_path: Path) -> None:
    uri = (tmp_path / "ds_config.json").as_uri()
    place = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 4}}
    opened = {"uri": uri, "languageId": "json", "version": 1, "text": '{"train_batch_size": 8}'}
    wire = b"".join(
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in (
            json.dumps({"jsonrpc": "2.0", **message}).encode()
            for message in (
                {"id": 1, "method": "initialize", "params": {"capabilities": {}, "rootUri": None}},
                {"method": "initialized", "params": {}},
                {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
                {"id": 2, "method": "textDocument/hover", "params": place},
                {"id": 3, "method": "textDocument/completion", "params": place},
                {"id": 4, "method": "shutdown"},
                {"method": "exit"},
            )
        )
    )
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "dsconfig", "lsp"],
        input=wire,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(dsconfig.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert b'"error"' not in done.stdout
    assert b"train_batch_size" in done.stdout
