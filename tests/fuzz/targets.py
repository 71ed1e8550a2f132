"""Runs one input in this process, as `dsconfig.cli.main` does, and holds the result against what is promised.

Arguments are parsed once for each command line: argparse takes longer than most checks.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import linecache
import os
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dsconfig
from dsconfig.cli.arguments import CommandParser
from dsconfig.cli.errors import FAILED, UsageError, print_error
from tests.fuzz.choices import Input, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.document import Format

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(dsconfig.__file__)))


class BrokenError(AssertionError):
    """Something that the documentation does not allow."""


class Result(NamedTuple):
    """What a run came to, with every file that is there afterwards."""

    code: int
    out: str
    err: str
    files: dict[str, bytes]


def one(data: bytes) -> str:
    """Run one input in the working directory, which is empty; a word for what the run was like.

    Raises:
        BrokenError: it did not do what is promised; or whatever else the run raised.
    """
    from tests.fuzz.promises import hold

    given = decode(data)
    for name, content in given.files:
        Path(name).write_bytes(content)
    try:
        if given.argv[0] == "python":
            python(given)
            return given.verb
        result = run(given.argv, given.content if given.stdin else b"")
        hold(given, result)
        said = sorted(set(re.findall(r"DSC\d{3}", result.out + result.err)))
        return f"{given.verb} {result.code} {' '.join(said)}"
    finally:
        for name in os.listdir():
            if name != ".git":
                os.unlink(name)


def run(argv: tuple[str, ...], stdin: bytes = b"") -> Result:
    """Run the command with its streams caught."""
    os.environ["DSCONFIG_DEBUG"] = "1"  # so that stderr holds the traceback of what is caught
    args = copy.copy(_parsed(argv))
    with caught(stdin) as (out, err):
        try:
            code = args.run(args)
        except UsageError as error:
            _judge_context(error)
            print_error(str(error))
            code = FAILED
        sys.stdout.flush()
        sys.stderr.flush()
    files = {name: Path(name).read_bytes() for name in os.listdir() if name != ".git"}
    return Result(code, out.getvalue().decode(), err.getvalue().decode(), files)


@cache
def _parsed(argv: tuple[str, ...]) -> argparse.Namespace:
    parser = CommandParser("dsconfig")
    import_module(f"dsconfig.cli.{argv[0]}").configure(parser)
    return parser.parse_args(argv[1:])


@contextmanager
def caught(stdin: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Streams as `main` sets them up."""
    kept = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout = io.TextIOWrapper(out, "utf-8", errors="backslashreplace", newline="\n")
    sys.stderr = io.TextIOWrapper(err, "utf-8", errors="backslashreplace", newline="\n")
    try:
        yield out, err
    finally:
        # A stream that is collected closes what it writes to.
        sys.stdout.flush()
        sys.stderr.flush()
        _streams[:] = [sys.stdin, sys.stdout, sys.stderr]
        sys.stdin, sys.stdout, sys.stderr = kept


_streams: list[object] = []


def _judge_context(refused: UsageError) -> None:
    """A refusal made of an exception is documented only where this project raised that on purpose."""
    cause = refused.__context__
    if isinstance(cause, ValueError) and str(cause) == str(refused) and not on_purpose(cause):
        raise cause


def on_purpose(error: BaseException) -> bool:
    """Whether a `raise` of this project made the exception, or a file could not be read."""
    if isinstance(error, OSError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    file = trace.tb_frame.f_code.co_filename
    return file.startswith(ROOT) and linecache.getline(file, trace.tb_lineno).lstrip().startswith("raise ")


def python(given: Input) -> None:
    """Call the public function that was chosen; its exceptions are those of its docstring."""
    from dsconfig.document import read_bytes

    text = given.content.decode(errors="surrogateescape")
    options: dict[str, Any] = {
        "target": given.target,
        "world_size": given.world_size,
        "consumer": given.consumer,
    }
    kind: Format = "yaml" if given.name.endswith("yaml") else "json"
    if given.argv[1] == "check":
        _documented(lambda: dsconfig.check(text, **options), OSError)
        _documented(lambda: dsconfig.check(given.content, **options))
    elif given.argv[1] == "fix":
        _documented(lambda: dsconfig.fix(text, unsafe=True, format=kind, **options), ValueError, OSError)
    elif given.argv[1] == "load":
        report = dsconfig.check(Path(given.name), **options)
        config = _documented(lambda: dsconfig.load(Path(given.name), **options), dsconfig.ConfigError)
        refused = any(found.effect == "rejected" for found in report)  # what is silenced is not asked
        if refused and config is not None:
            raise BrokenError("a config that is refused was loaded")
        document = read_bytes(given.content, given.name, kind)
        read = (document.value("hjson"), document.value("json"))  # by the release and by who reads
        own = config is not None and not report.children  # of a launch file, it is what that leads to
        if own and kind == "json" and not any(same(config.to_dict(), each) for each in read):
            raise BrokenError("`to_dict()` does not give back what was loaded")
    else:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(data, dict):
            for found in dsconfig.check(data, **options):
                if found.location is not None:
                    raise BrokenError("a place in a dict, which has none")


def same(one: object, other: object) -> bool:
    """Whether two values are the same, NaN among them; true is not 1, though 1.0 is to Hjson."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and (one == other or repr(one) == repr(other))


def _documented(call: Callable[[], Any], *errors: type[BaseException]) -> Any:
    try:
        return call()
    except errors as error:
        if not on_purpose(error):
            raise
    return None


def fault(error: BaseException) -> str:
    """A name for what went wrong, the same for inputs that go wrong alike."""
    if isinstance(error, BrokenError):
        return re.sub(r"\d+", "N", str(error).splitlines()[0])[:160]
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(os.path.join(ROOT, "dsconfig")) or "elastic" in code.co_filename:
            places.append(f"{os.path.relpath(code.co_filename, ROOT)}:{code.co_name}")
        trace = trace.tb_next
    return f"{type(error).__name__} in {places[-1] if places else '?'}"
