"""Time what a new user does first, from an empty folder to the first answer: `make journeys`.

Each journey has a folder, a home and a virtual environment of its own, and runs the commands that README.md gives,
with the wheel and the extension built from this checkout. Packages are downloaded before, because their time depends
on the network; the report has it apart. A journey fails if it takes more than three commands or 60 seconds, or if its
output does not have the answer.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.readme import README, blocks, environment, repository

ROOT = Path(__file__).resolve().parents[2]
MOST_COMMANDS, MOST_SECONDS = 3, 60.0
SHOWN_LINES = 24
"""Lines of a command's output in the report."""
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/deepspeed/runtime/config.py", line 1012, in _batch_assertion
    assert train_batch == micro_batch * grad_acc * self.world_size, (
AssertionError: Check batch related parameters. train_batch_size is not equal to \
micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 1 * 8
"""


class Journey(NamedTuple):
    """What a user wants, the files in the folder, the commands, and what the output has to say."""

    name: str
    files: dict[str, str]
    commands: tuple[str, ...]
    """As typed. WHEEL stands for the path of the wheel."""
    exit_code: int
    """Exit code of the last command; the others have to succeed."""
    answers: tuple[str, ...]
    """Regular expressions that the output of the last command has to match."""


class Result(NamedTuple):
    """Seconds that a journey took, its transcript, and why it failed, if it did."""

    seconds: float
    transcript: tuple[tuple[str, str], ...]
    """Commands with their output."""
    failure: str


def readme_block(name: str) -> str:
    """Return the block of README.md that is written to a file."""
    return next(block.text for block in blocks(README.read_text("utf-8")) if block.file == name)


INSTALL = "python -m pip install WHEEL"
CONFIG = {"ds_config.json": readme_block("ds_config.json")}
JOURNEYS = (
    Journey(
        "first check", CONFIG, (INSTALL, "dsconfig check"), 1, ("DSC102", "did you mean `gradient_clipping`")
    ),
    Journey(
        "pre-commit",
        CONFIG | {".pre-commit-config.yaml": readme_block(".pre-commit-config.yaml")},
        ("python -m pip install pre-commit", "pre-commit install", 'git commit --message "Add a config"'),
        1,
        ("DSC102", "dsconfig check.*Failed"),
    ),
    Journey(
        "does my model fit",
        {},
        (INSTALL, "dsconfig memory --model llama-3-8b --world-size 8 --sequence-length 4096 --gpu h100"),
        0,
        (r"fits", r"GiB"),
    ),
    Journey(
        "what does this traceback mean",
        {"log.txt": TRACEBACK},
        (INSTALL, "dsconfig explain - < log.txt"),
        0,
        (r"train_batch_size", r"(?i)what to do|remed"),
    ),
)
VSCODE = Journey(
    "VS Code with the extension",
    {},
    ("code --install-extension dsconfig.vsix", "code ."),
    0,
    (r"first finding: \d+ ms", "reduce_bucket_sise"),
)
"""Driven by `editors/vscode/test/run.mjs`, which does both commands with code-server."""


def run_journey(journey: Journey, folder: Path, variables: dict[str, str], *, wheel: Path | None) -> Result:
    """Run the commands of a journey in a folder; without a wheel, those that install something are left out."""
    for name, text in journey.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    commands = [each for each in journey.commands if wheel or "pip install" not in each]
    transcript = []
    began = time.perf_counter()
    for number, command in enumerate(commands, 1):
        typed = command.replace("WHEEL", str(wheel))
        done = subprocess.run(
            typed,
            shell=True,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        transcript.append((command, done.stdout))
        if done.returncode != (journey.exit_code if number == len(commands) else 0):
            failure = f"`{command}` ended with exit code {done.returncode}"
            return Result(time.perf_counter() - began, tuple(transcript), failure)
    return judged(journey, time.perf_counter() - began, tuple(transcript))


def judged(journey: Journey, seconds: float, transcript: tuple[tuple[str, str], ...]) -> Result:
    """Compare a journey with the limits and with the answer that it has to give."""
    output = transcript[-1][1]
    missing = [each for each in journey.answers if not re.search(each, output)]
    failure = ""
    if missing:
        failure = f"the output has no match of {' or '.join(missing)}"
    elif len(journey.commands) > MOST_COMMANDS:
        failure = f"{len(journey.commands)} commands"
    elif seconds > MOST_SECONDS:
        failure = f"{seconds:.0f} seconds"
    return Result(seconds, transcript, failure)


def new_machine(folder: Path, wheelhouse: Path, clone: Path) -> dict[str, str]:
    """Create a virtual environment and a git repository with all files of a folder; return the variables of its user.

    pip finds packages in the wheelhouse only, and git finds this checkout at its future address.
    """
    home = folder.with_name(f"{folder.name}-home")
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    variables = environment(clone) | {
        "PATH": f"{home / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "COLUMNS": "80",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheelhouse),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **{f"GIT_{role}_{fact}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for fact in ("NAME", "EMAIL")},
    }
    variables.pop("PYTHONPATH", None)
    return variables


def download(wheel: Path, wheelhouse: Path) -> float:
    """Download what the journeys install, and return the seconds that it took."""
    began = time.perf_counter()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--dest",
        str(wheelhouse),
    ]
    subprocess.run([*pip, str(wheel), "pre-commit", "hatchling>=1.26"], check=True)
    return time.perf_counter() - began


def run_vscode(code_server: Path, folder: Path) -> Result:
    """Install the extension in code-server, open a config in Chromium, and wait for the first diagnostic."""
    script = ROOT / "editors" / "vscode" / "test" / "run.mjs"
    began = time.perf_counter()
    done = subprocess.run(
        ["node", script, code_server, "first"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    transcript = ((VSCODE.commands[0], ""), (VSCODE.commands[1], done.stdout))
    if done.returncode:
        return Result(seconds, transcript, f"{script.name} ended with exit code {done.returncode}")
    return judged(VSCODE, seconds, transcript)


def report(results: list[tuple[Journey, Result]]) -> Iterator[str]:
    """Yield the table of all journeys, and what each one printed."""
    yield "| journey | commands | seconds | result |"
    yield "|---|--:|--:|---|"
    for journey, result in results:
        yield f"| {journey.name} | {len(journey.commands)} | {result.seconds:.1f} | {result.failure or 'answered'} |"
    for journey, result in results:
        yield f"\n{journey.name}:\n"
        for command, output in result.transcript:
            lines = output.rstrip().splitlines()
            yield f"$ {command}"
            yield from lines[:SHOWN_LINES] if "pip install" not in command else lines[-1:]
            if len(lines) > SHOWN_LINES and "pip install" not in command:
                yield f"... {len(lines) - SHOWN_LINES} more lines"


def main() -> int:
    """Build the wheel, run all journeys, and print the report; 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--code-server",
        type=Path,
        help="folder in which npm installed code-server; without it, VS Code is left out",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dsconfig-journeys-") as name:
        top = Path(name)
        build = [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            str(top / "dist"),
            str(ROOT),
        ]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = (top / "dist").glob("*.whl")
        seconds = download(wheel, top / "wheelhouse")
        (top / "clone").mkdir()
        clone = repository(top / "clone")
        results = []
        for number, journey in enumerate(JOURNEYS):
            folder = top / f"project-{number}"
            folder.mkdir()
            variables = new_machine(folder, top / "wheelhouse", clone)
            if journey.files:
                for file, text in journey.files.items():
                    (folder / file).write_text(text, encoding="utf-8")
                subprocess.run(["git", "add", *journey.files], cwd=folder, check=True)
            results.append((journey, run_journey(journey, folder, variables, wheel=wheel)))
        if options.code_server:
            results.append((VSCODE, run_vscode(options.code_server.resolve(), top)))
    print("\n".join(report(results)))
    print(f"\nDownloads before: {seconds:.1f} s.")
    return int(any(result.failure for _, result in results))


if __name__ == "__main__":
    sys.exit(main())
