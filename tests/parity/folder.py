"""Runs a folder of real configs through the verbs: `python -m tests.parity.folder DIR --release 0.19.8`.

Every config of the folder, copied to a place of its own, goes through `fix`, `fix --unsafe-fixes`, `migrate
--from`, `compat` and `resolve`. Printed are the counts: how many are changed, how many the release itself
accepts before and after, which were accepted and no longer are, what ended in a traceback, and which file
took longest. "auto" is filled as Transformers or Accelerate would, from some training arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsconfig.check.build_job import job_of_document
from dsconfig.cli import main as dsconfig
from dsconfig.document import read_file
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.job.consumers.autofill import autofill_config
from dsconfig.job.consumers.consumer import BY_NAME
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.judges import judging

SUFFIXES = (".json", ".hjson", ".jsonc", ".yaml", ".yml", ".template")
ARGUMENTS = {"per_device_train_batch_size": 2, "max_steps": 10, "warmup_steps": 2}
HIDDEN = {"hidden_size": 768}
WORLD_SIZE = 8


@dataclass(frozen=True, slots=True)
class Verb:
    """What is run on a file. `judged`: the release says before and after whether it takes the config."""

    name: str
    options: tuple[str, ...]
    out: bool = False
    """Whether the config goes to a file of its own; else the file itself is changed."""
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One verb on one file."""

    verb: str
    file: str
    code: int | None
    """None: it ended in a traceback."""
    seconds: float
    said: str
    after: Path | None
    """What there is to judge; None where nothing was written."""
    changed: bool


def verbs(release: str, old: str) -> list[Verb]:
    """The verbs, and what is asked of them."""
    known = ("--target", release)
    return [
        Verb("fix", ("fix", *known)),
        Verb("fix --unsafe-fixes", ("fix", "--unsafe-fixes", *known)),
        Verb(f"migrate --from {old}", ("migrate", "--from", old, "--to", release), out=True),
        Verb("compat", ("compat",), judged=False),
        Verb("resolve", ("resolve", "--world-size", str(WORLD_SIZE), *known), out=True),
    ]


def configs(folder: Path) -> list[Path]:
    """The files that may be configs."""
    return [path for path in sorted(folder.rglob("*")) if path.name.endswith(SUFFIXES) and path.is_file()]


def run(verb: Verb, source: Path, name: str, place: Path) -> Run:
    """Run a verb on a copy of the file."""
    place.mkdir(parents=True)
    path, out = place / source.name, place / f"out-{source.name}"
    shutil.copyfile(source, path)
    argv = [*verb.options, *(("-o", str(out)) if verb.out else ()), str(path)]
    if verb.name == "resolve" and _reader(path) in HUGGING_FACE:
        for option, given in (("--training-args", ARGUMENTS), ("--model-config", HIDDEN)):
            (place / option).write_text(json.dumps(given))
            argv += [option, str(place / option)]
    said = io.StringIO()
    start = time.process_time()
    code: int | None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = dsconfig(argv)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 2
        except BaseException as error:
            code = None
            print(f"{type(error).__name__}: {error}"[:300])
    seconds = time.process_time() - start
    after = out if verb.out else path
    changed = after.exists() and after.read_bytes() != source.read_bytes()
    return Run(verb.name, name, code, seconds, said.getvalue(), after if after.exists() else None, changed)


def _reader(path: Path) -> str:
    return job_of_document(read_file(path)).reader.name


def case(name: str, path: Path) -> Case | None:
    """The config as its reader hands it to DeepSpeed; None where it hands nothing."""
    document = read_file(path)
    data = document.value()
    if is_launch_file(data):
        return None
    reader = job_of_document(document).reader.name
    if not isinstance(data, dict) or (reader not in HUGGING_FACE and document.format == "json"):
        return Case(name, "corpus", name, WORLD_SIZE, text=document.text)
    handed: dict[str, Any] = copy.deepcopy(data)
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        autofill_config(handed, BY_NAME[reader], WORLD_SIZE, ARGUMENTS, HIDDEN)
    try:
        json.dumps(handed)
    except (TypeError, ValueError):
        return None
    return Case(name, "corpus", name, WORLD_SIZE, config=handed)


def accepted(release: str, paths: dict[str, Path]) -> set[str]:
    """Which of the configs the release takes."""
    cases = [each for name, path in paths.items() if (each := case(name, path)) is not None]
    return {name for name, verdict in judging.judge(release, cases).items() if verdict.ok}


def rows(verb: Verb, runs: Sequence[Run], before: set[str], release: str) -> Iterator[str]:
    """What is printed of one verb."""
    slowest = max(runs, key=lambda run: run.seconds)
    codes = ", ".join(f"{code}: {n}" for code, n in sorted(Counter(str(run.code) for run in runs).items()))
    yield f"{verb.name}: {len(runs)} files, exit codes {codes}"
    yield f"  slowest {slowest.seconds:.2f} s {slowest.file}"
    broken = [run for run in runs if run.code is None]
    yield f"  tracebacks: {len(broken)}"
    yield from (f"    {run.file}: {run.said.strip().splitlines()[-1]}" for run in broken)
    if not verb.judged:
        return
    written = {run.file: run.after for run in runs if run.after is not None}
    after = accepted(release, written)
    changed = sum(run.changed for run in runs)
    kept = before & set(written)
    yield f"  written {len(written)}, changed {changed}; accepted before {len(kept)}, after {len(after)}"
    lost = sorted(kept - after)
    yield f"  accepted before and refused after: {len(lost)}"
    yield from (f"    {name}" for name in lost)
    if verb.name == "resolve":
        refused = sorted(name for name in set(written) - after if case(name, written[name]) is not None)
        yield f"  printed and refused: {len(refused)}"
        yield from (f"    {name}" for name in refused)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and prints; 1 where a file ended in a traceback or is refused since."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.folder", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--release", default="0.19.8")
    parser.add_argument("--from", dest="old", default="0.14.5", metavar="RELEASE")
    options = parser.parse_args(arguments)
    if options.release not in environment.available():
        print(f"run `python -m tests.parity.environment {options.release}` first", file=sys.stderr)
        return 2
    os.environ["DSCONFIG_DEBUG"] = "1"
    names = {str(path.relative_to(options.folder)): path for path in configs(options.folder)}
    before = accepted(options.release, names)
    print(f"{len(names)} files, of which {options.release} accepts {len(before)}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="folder-") as scratch:
        for index, verb in enumerate(verbs(options.release, options.old)):
            places = (
                (name, path, Path(scratch) / f"{index}" / f"{n}")
                for n, (name, path) in enumerate(names.items())
            )
            runs = [run(verb, path, name, place) for name, path, place in places]
            lines = list(rows(verb, runs, before, options.release))
            print("\n".join(lines), flush=True)
            failed += sum(line.startswith("    ") for line in lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
